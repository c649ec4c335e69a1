/* Outages: what was recorded is merged once, at its own time. last_known_test.c has what decides meanwhile. */
#include "service/known.h"

#include <stdlib.h>
#include <unistd.h>

#include "service/outage.h"

/* ---- shares ---- */

TEST(share, of_one_subject_ends_before_it_has_filled_the_spool_and_begins_anew_as_it_is_merged)
{
	struct outage  o = {.known = memory(KNOWN_BYTES_MIN)};
	struct attempt ann = {.subjects = {BYTES_INIT("ann")}, .subject_count = 1};
	struct attempt both = {.subjects = {BYTES_INIT("bob"), BYTES_INIT("ann")}, .subject_count = 2};
	struct attempt bob = {.subjects = {BYTES_INIT("bob")}, .subject_count = 1};

	for (int i = 0; i < OUTAGE_SUBJECT_RECORDS; i++) {
		assert_false(outage_share_is_full(&o, &ann));
		known_pin(o.known, TABLE_AUTH_STATE, BYTES("ann"));
	}
	assert_true(outage_share_is_full(&o, &ann) && outage_share_is_full(&o, &both));
	assert_false(outage_share_is_full(&o, &bob));
	known_unpin(o.known, TABLE_AUTH_STATE, BYTES("ann"));
	assert_false(outage_share_is_full(&o, &ann));
	known_close(o.known);
}

/* ---- records ---- */

static struct spooled spooled_of(struct service *s, const char *id, enum outcome outcome, int64_t at_s)
{
	struct try     t = {.forgetful = true};
	struct spooled x = {.q = attempt_of(s, &t), .outcome = outcome, .at_us = (START_S + at_s) * 1000000};

	x.journey = x.q.rule->journey;
	x.type = x.q.rule->type;
	x.once = (struct idempotency){.key = bytes_of(id), .caller = BYTES("spool")};
	x.status = 200;
	x.q.making = NULL;
	return x;
}

TEST(record, is_read_as_it_was_written_and_anything_else_is_no_record)
{
	struct service s;
	struct spooled x, y;
	struct buf     bytes;

	service_open(&s, NULL);
	x = spooled_of(&s, "one", OUTCOME_SUCCESS, 7);
	x.q.subjects[1] = BYTES("pairwise");
	x.q.subject_count = 2;
	x.q.users = (struct bytes[SUBJECTS_MAX]){{NULL, 0}, BYTES_INIT("user")};
	x.q.source = BYTES("ip:abc");
	x.q.source_allowed = x.q.challenge_passed = true;
	x.once.digest[31] = 0xa5;
	x.body = BYTES("{}\n");
	buf_init(&bytes, &s.f.arena);
	spooled_encode(&bytes, &x);
	assert_int_equal(spooled_decode(&s.f.arena, buf_bytes(&bytes), &y, &s.f.err), ERR_NONE);
	assert_int_equal(y.q.subject_count, 2);
	assert_true(bytes_is(y.q.subjects[1], "pairwise") && bytes_is(y.q.users[1], "user"));
	assert_true(y.q.users[0].len == 0 && bytes_is(y.q.source, "ip:abc"));
	assert_true(y.q.source_allowed && y.q.challenge_passed && !y.q.source_denied);
	assert_true(bytes_equal(y.journey, x.journey) && bytes_equal(y.type, x.type));
	assert_true(y.outcome == OUTCOME_SUCCESS && y.at_us == x.at_us && y.once.digest[31] == 0xa5);
	assert_true(bytes_is(y.once.key, "one") && bytes_is(y.body, "{}\n"));
	for (size_t cut = 0; cut < bytes.len; cut++)
		assert_int_not_equal(spooled_decode(&s.f.arena, (struct bytes){(const char *)bytes.data, cut},
		                                    &y, &s.f.err),
		                     ERR_NONE);
	service_close(&s);
}

/* Of another version, say. The merger ends it as it ends any: it must unpin nobody, because nobody was pinned when it was recalled. */
TEST(record, that_is_no_attempt_names_nobody)
{
	struct service s;
	struct spooled x, y;
	struct buf     bytes;

	service_open(&s, NULL);
	x = spooled_of(&s, "one", (enum outcome)(OUTCOME_SENT + 1), 7);
	buf_init(&bytes, &s.f.arena);
	spooled_encode(&bytes, &x);
	assert_int_equal(spooled_decode(&s.f.arena, buf_bytes(&bytes), &y, &s.f.err), ERR_STORAGE);
	assert_int_equal(y.q.subject_count, 0);
	service_close(&s);
}

/* A digit that is none is not shifted either: that is undefined, and the sanitizer says so. */
TEST(record, whose_digest_is_not_hexadecimal_is_no_record)
{
	struct service s;
	struct spooled x, y;
	struct buf     bytes;
	size_t         at = 0;

	service_open(&s, NULL);
	x = spooled_of(&s, "one", OUTCOME_SUCCESS, 7);
	buf_init(&bytes, &s.f.arena);
	spooled_encode(&bytes, &x);
	while (!bytes_starts_with((struct bytes){(const char *)bytes.data + at, bytes.len - at},
	                          BYTES("0000000000000000")))
		at++;
	bytes.data[at + 10] = 'g';
	assert_int_equal(spooled_decode(&s.f.arena, buf_bytes(&bytes), &y, &s.f.err), ERR_STORAGE);
	service_close(&s);
}

/* ---- the spool ---- */

struct spooling {
	struct service s;
	char           dir[64];
	struct outage  o;
};

static void spooling_open(struct spooling *w)
{
	*w = (struct spooling){.dir = "/tmp/gatehouse-outage-XXXXXX"};
	assert_non_null(mkdtemp(w->dir));
	service_open(&w->s, NULL);
	w->o.known = memory(KNOWN_BYTES_MIN);
	assert_int_equal(spool_open(&w->o.spool, &(struct spool_options){w->dir, 1 << 20, 100}, &w->s.f.err),
	                 ERR_NONE);
}

static void spooling_close(struct spooling *w)
{
	known_close(w->o.known);
	spool_close(w->o.spool);
	service_close(&w->s);
	for (int i = 0; i < 2; i++) {
		char path[96];

		snprintf(path, sizeof(path), "%s/%s", w->dir, i == 0 ? "spool" : "spool.lock");
		unlink(path);
	}
	assert_int_equal(rmdir(w->dir), 0);
}

static uint64_t recorded(struct spooling *w, struct spooled x)
{
	uint64_t number;

	assert_int_equal(outage_record(&w->o, &w->s.f.arena, &x, &number, &w->s.f.err), ERR_NONE);
	assert_int_equal(spool_sync(w->o.spool, number, &w->s.f.err), ERR_NONE);
	return number;
}

/* (3) */
TEST(spooling, attempts_that_have_any_subject_in_common_are_merged_in_their_order)
{
	struct spooling w;
	struct spooled  first, second;
	struct bytes    record;
	uint64_t        number;

	spooling_open(&w);
	first = second = spooled_of(&w.s, "one", OUTCOME_FAILURE, 1);
	first.q.subjects[1] = BYTES("pairwise");
	first.q.subject_count = 2;
	second.q.subjects[0] = BYTES("pairwise");
	number = recorded(&w, first);
	recorded(&w, second);
	assert_int_equal(spool_take(w.o.spool, &w.s.f.arena, &record), number);
	assert_int_equal(spool_take(w.o.spool, &w.s.f.arena, &record), 0);
	outage_merged(&w.o, number, &first, SPOOLED_MERGED);
	assert_int_equal(spool_take(w.o.spool, &w.s.f.arena, &record), number + 1);
	spooling_close(&w);
}

static struct kept_answer kept_for(struct spooling *w, const struct spooled *x, int64_t now_s)
{
	struct known_session session;
	struct context       ctx;
	struct kept_answer   kept;

	known_begin(&session, w->o.known, &w->s.all.tables, (START_S + now_s) * 1000000);
	ctx = service_context(&w->s, &session.base);
	if (idempotency_find(&ctx, &x->once, &kept, &w->s.f.err) != ERR_NONE)
		fail_msg("%s", w->s.f.err.text);
	return kept;
}

/* (1) Also if many others came since, and until it is merged: then the tables know it. */
TEST(spooling, a_keyed_attempt_that_waits_is_told_its_answer_after_a_restart)
{
	struct spooling w;
	struct spooled  x;
	uint64_t        number;

	spooling_open(&w);
	x = spooled_of(&w.s, "one", OUTCOME_FAILURE, 10);
	x.once.caller = BYTES("app");
	x.once.about = x.q.subjects[0];
	x.body = BYTES("{\"counted\":true}");
	number = recorded(&w, x);
	known_close(w.o.known);
	w.o.known = memory(KNOWN_BYTES_MIN);
	assert_false(kept_for(&w, &x, 20).found);
	outage_recall(&w.o, &w.s.all);
	strangers(w.o.known, &w.s.f.arena, "stranger", 40000, 1);
	assert_true(kept_for(&w, &x, 20).found);
	assert_true(bytes_is(kept_for(&w, &x, 20).body, "{\"counted\":true}"));
	assert_false(kept_for(&w, &x, 10 + IDEMPOTENCY_LIFE_S).found);
	assert_int_equal(known_pins(w.o.known, x.q.subjects[0]), 1);
	outage_merged(&w.o, number, &x, SPOOLED_MERGED);
	assert_int_equal(known_pins(w.o.known, x.q.subjects[0]), 0);
	spooling_close(&w);
}

/* ---- merging ---- */

struct merge_call {
	struct turn_request base;
	struct service     *s;
	struct spooled      x;
	enum spooled_end    end;
};

static enum err_code merge_in_turn(struct turn_request *w, struct table *t)
{
	struct merge_call *c = (struct merge_call *)w;
	struct context     ctx = service_context(c->s, t);

	if (outage_merge(&ctx, &c->x, c->s->rules, &c->end, &w->err) != ERR_NONE)
		return w->err.code;
	return changes_commit(&ctx.changes, t, &w->err);
}

static enum spooled_end merge(struct service *s, struct spooled x)
{
	struct merge_call c = {.base = {.run = merge_in_turn, .cost_bytes = 100}, .s = s, .x = x};

	if (service_run(s, &c.base) != ERR_NONE)
		fail_msg("%s", s->f.err.text);
	return c.end;
}

static const char rules[] =
        "locks: {STANDARD: {duration: 600}}\n"
        "journeys:\n"
        "  SIGN_IN:\n"
        "    types:\n"
        "      PASSWORD_ENTRY: {max: 3, life: 900, renewed: true, clears: [PASSWORD_ENTRY]}\n";

#define COUNT_KEY BYTES("SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY")
#define LOCK_KEY  BYTES("SIGN_IN#LOCK#PASSWORD_ENTRY")

/* (1) */
TEST(merge, of_one_record_counts_once_however_often_it_is_made)
{
	struct service s;
	struct item    row;

	service_open(&s, rules);
	FAIL(&s, .forgetful = true);
	at(&s, 100);
	assert_int_equal(merge(&s, spooled_of(&s, "one", OUTCOME_FAILURE, 50)), SPOOLED_MERGED);
	for (int i = 0; i < 3; i++)
		assert_int_equal(merge(&s, spooled_of(&s, "one", OUTCOME_FAILURE, 50)), SPOOLED_FOUND);
	assert_true(row_find(&s, BYTES("alice"), COUNT_KEY, &row));
	assert_int_equal(row_i64(&row, "count", 0), 2);
	assert_int_equal(row_i64(&row, "ttl", 0), START_S + 50 + 900); /* (4) */
	service_close(&s);
}

/* (4) */
TEST(merge, sets_a_lock_that_ends_as_if_it_had_been_set_then)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, rules);
	FAIL_TIMES(&s, 2, .forgetful = true);
	at(&s, 300);
	assert_int_equal(merge(&s, spooled_of(&s, "one", OUTCOME_FAILURE, 50)), SPOOLED_MERGED);
	r = FAIL(&s, .forgetful = true);
	assert_verdict(&r, VERDICT_LOCKED, false);
	assert_int_equal(r.verdict.until_s, START_S + 50 + 600);
	at(&s, 651);
	r = FAIL(&s, .forgetful = true);
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

/* (4) */
TEST(merge, does_not_bring_back_a_count_whose_life_is_over)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, rules);
	FAIL(&s, .forgetful = true);
	at(&s, 2000);
	assert_int_equal(merge(&s, spooled_of(&s, "one", OUTCOME_FAILURE, 50)), SPOOLED_MERGED);
	r = FAIL(&s, .forgetful = true);
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.nearest.count, 1);
	service_close(&s);
}

/* (4) */
TEST(merge, of_a_success_leaves_what_was_counted_since)
{
	struct service s;
	struct item    row;

	service_open(&s, rules);
	FAIL(&s, .forgetful = true);
	at(&s, 100);
	FAIL(&s, .forgetful = true);
	merge(&s, spooled_of(&s, "one", OUTCOME_SUCCESS, 50));
	assert_true(row_find(&s, BYTES("alice"), COUNT_KEY, &row));
	assert_int_equal(row_i64(&row, "count", 0), 2);
	merge(&s, spooled_of(&s, "two", OUTCOME_SUCCESS, 100));
	assert_false(row_find(&s, BYTES("alice"), COUNT_KEY, &row));
	service_close(&s);
}

/* (4) A late failure neither shortens the life of a count that went on, nor lets a lock take newer failures away and be over. */
TEST(merge, of_a_failure_before_others_ends_with_them)
{
	struct service        s;
	struct attempt_result r;
	struct item           row;

	service_open(&s, rules);
	at(&s, 800);
	FAIL(&s, .forgetful = true);
	at(&s, 850);
	assert_int_equal(merge(&s, spooled_of(&s, "one", OUTCOME_FAILURE, 10)), SPOOLED_MERGED);
	assert_true(row_find(&s, BYTES("alice"), COUNT_KEY, &row));
	assert_int_equal(row_i64(&row, "ttl", 0), START_S + 800 + 900);
	assert_int_equal(merge(&s, spooled_of(&s, "two", OUTCOME_FAILURE, 20)), SPOOLED_MERGED);
	r = FAIL(&s, .forgetful = true);
	assert_verdict(&r, VERDICT_LOCKED, false);
	assert_int_equal(r.verdict.until_s, START_S + 800 + 600);
	service_close(&s);
}

TEST(merge, of_an_attempt_that_a_lock_stands_against_counts_nothing_and_is_over)
{
	struct service s;
	struct item    row;

	service_open(&s, rules);
	FAIL_TIMES(&s, 3, .forgetful = true);
	assert_true(row_find(&s, BYTES("alice"), LOCK_KEY, &row));
	at(&s, 100);
	assert_int_equal(merge(&s, spooled_of(&s, "one", OUTCOME_FAILURE, 50)), SPOOLED_VOID);
	assert_false(row_find(&s, BYTES("alice"), COUNT_KEY, &row));
	service_close(&s);
}

/* (1) From when it is merged on, and not from when it was made: the endpoint removes what has expired. */
TEST(merge, leaves_a_marker_that_lives_as_long_as_its_record_may_wait)
{
	struct service            s;
	struct table_query_result r;

	service_open(&s, rules);
	at(&s, OUTAGE_KEYED_S);
	assert_int_equal(merge(&s, spooled_of(&s, "one", OUTCOME_FAILURE, 0)), SPOOLED_MERGED);
	r = fixture_ok(&s.f, "Scan", "{'TableName':'gatehouse-idempotency'}").query;
	assert_int_equal(r.count, 1);
	assert_true(row_i64(&r.items[0], "ttl", 0) > START_S + OUTAGE_KEYED_S + OUTAGE_MARK_S);
	service_close(&s);
}

/* (1) The marker of its own commit, if there was one, or of an earlier merge may be gone. */
TEST(merge, that_is_so_late_that_it_may_have_been_counted_counts_nothing)
{
	struct service s;
	struct spooled keyed, plain;

	service_open(&s, rules);
	plain = keyed = spooled_of(&s, "one", OUTCOME_FAILURE, 0);
	keyed.once.caller = BYTES("app");
	at(&s, OUTAGE_KEYED_S);
	assert_int_equal(merge(&s, keyed), SPOOLED_MERGED);
	at(&s, OUTAGE_KEYED_S + 1);
	keyed.once.key = BYTES("two");
	assert_int_equal(merge(&s, keyed), SPOOLED_TOO_OLD);
	assert_int_equal(merge(&s, plain), SPOOLED_MERGED);
	at(&s, OUTAGE_MARK_S);
	assert_int_equal(merge(&s, plain), SPOOLED_FOUND);
	at(&s, OUTAGE_MARK_S + 1);
	plain.once.key = BYTES("two");
	assert_int_equal(merge(&s, plain), SPOOLED_TOO_OLD);
	service_close(&s);
}

struct keeping {
	struct turn_request base;
	struct service     *s;
	struct idempotency  once;
	struct kept_answer  found;
	bool                keeps;
};

static enum err_code keep_in_turn(struct turn_request *w, struct table *t)
{
	struct keeping *c = (struct keeping *)w;
	struct context  ctx = service_context(c->s, t);

	if (idempotency_find(&ctx, &c->once, &c->found, &w->err) != ERR_NONE)
		return w->err.code;
	if (c->keeps && !c->found.found)
		idempotency_keep(&ctx, &c->once, 200, BYTES("{}"));
	return changes_commit(&ctx.changes, t, &w->err);
}

/* Is the answer told? It is kept if not. */
static bool kept_anew(struct service *s, const struct idempotency *once, bool keeps)
{
	struct keeping c = {
	        .base = {.run = keep_in_turn, .cost_bytes = 100}, .s = s, .once = *once, .keeps = keeps};

	if (service_run(s, &c.base) != ERR_NONE)
		fail_msg("%s", s->f.err.text);
	return c.found.found;
}

/* (1), (2) The answer was lost, and the spool took the call over. Its key may be used for something new after a day, and is found by the merge. */
TEST(merge, of_a_keyed_attempt_finds_its_own_commit_of_days_ago)
{
	struct service s;
	struct spooled x;

	service_open(&s, rules);
	x = spooled_of(&s, "one", OUTCOME_FAILURE, 0);
	x.once.caller = BYTES("app");
	assert_false(kept_anew(&s, &x.once, true));
	at(&s, 86400 - 1);
	assert_true(kept_anew(&s, &x.once, true));
	at(&s, 86400);
	assert_false(kept_anew(&s, &x.once, false));
	at(&s, OUTAGE_KEYED_S);
	if (!service_is_alone(&s)) { /* only tables elsewhere have outages */
		assert_int_equal(
		        fixture_ok(&s.f, "Scan", "{'TableName':'gatehouse-idempotency'}").query.count, 1);
		assert_int_equal(merge(&s, x), SPOOLED_FOUND);
	}
	assert_false(kept_anew(&s, &x.once, true)); /* a new request, over the old row */
	assert_true(kept_anew(&s, &x.once, true));
	service_close(&s);
}

/* A version that had expired would pass for none, and whoever read the partition before the merge would not notice it. */
TEST(merge, that_is_late_by_days_leaves_a_version_that_lives)
{
	struct service s;
	struct item    row;

	service_open(&s, rules);
	at(&s, 3 * 86400);
	assert_int_equal(merge(&s, spooled_of(&s, "one", OUTCOME_FAILURE, 50)), SPOOLED_MERGED);
	if (s.rough != NULL) { /* a table that is alone has no versions */
		assert_true(row_find(&s, BYTES("alice"), BYTES(CHANGES_VERSION_KEY), &row));
		assert_int_equal(row_i64(&row, "ttl", 0), START_S + 3 * 86400 + CHANGES_VERSION_LIFE_S);
	}
	service_close(&s);
}
