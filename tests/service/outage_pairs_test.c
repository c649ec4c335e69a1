/* Outages together with what else there is: several names of a person, and failures in a row. An attempt is decided on what is last known, recorded,
 * and merged later, as api/v1_outage.c and the merger do it. */
#include "service/people.h"
#include "service/known.h"

#include "service/outage.h"
#include "service/streak.h"

#define LOCK_OF_STREAK "SIGN_IN#LOCK#TOO_MANY"

/* Codes for addresses as people.h needs them, and what is asked while nothing is known of it passes. */
#define RULES                                                                                                \
	"locks: {STANDARD: {duration: 900, factor: 2, cap: 86400}, PERMANENT: {permanent: true}}\n"          \
	"on_failure: open\n"                                                                                 \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 6, life: 7200}\n"                                                       \
	"      CODE: {max: 100, life: 60}\n"                                                                 \
	"consecutive: {max: 10, sets: SIGN_IN/TOO_MANY, of: [SIGN_IN/PASSWORD_ENTRY, SIGN_IN/CODE]}\n"

struct world {
	struct service s;
	struct known  *known;
	struct spooled waiting[32];
	int            count;
};

/* What this process has read: every row that there is. */
static void learn_table(struct world *w, enum service_table which, const char *scan)
{
	struct table_query_result r;
	struct looked             row;

	r = fixture_ok(&w->s.f, "Scan", scan).query;
	for (uint32_t i = 0; i < r.count; i++) {
		looked_init(&row, row_text(&r.items[i], "PK"), row_text(&r.items[i], "SK"));
		row.found = true;
		row.item = r.items[i];
		known_learn(w->known, which, &row, (int64_t)START_S * 1000000);
	}
}

static void world_open(struct world *w)
{
	*w = (struct world){0};
	service_open(&w->s, NULL);
	w->known = memory(KNOWN_BYTES_MIN);
	made(&w->s, "alice");
	owned(&w->s, "alice", "alice@example.org");
	owned(&w->s, "alice", "alice@example.com");
	service_rules(&w->s, RULES);
	learn_table(w, TABLE_USERS, "{'TableName':'users'}");
}

static void world_close(struct world *w)
{
	known_close(w->known);
	service_close(&w->s);
}

/* Decided without tables, and recorded if it was counted or cleared anything. */
static struct attempt_result without_tables(struct world *w, enum outcome outcome, struct try t, int64_t at_s)
{
	struct known_session  session;
	struct context        ctx;
	struct attempt_result r;
	struct attempt        q = attempt_of(&w->s, &t);
	struct spooled       *x = &w->waiting[w->count];

	known_begin(&session, w->known, &w->s.all.tables, (START_S + at_s) * 1000000);
	ctx = service_context(&w->s, &session.base);
	ctx.degraded = true;
	q.making = NULL;
	if (attempt_record(&ctx, &q, outcome, &r, &w->s.f.err) != ERR_NONE)
		fail_msg("%s", w->s.f.err.text);
	if (ctx.changes.count == 0)
		return r;
	assert_int_equal(changes_commit(&ctx.changes, &session.base, &w->s.f.err), ERR_NONE);
	*x = (struct spooled){.q = q, .outcome = outcome, .at_us = (START_S + at_s) * 1000000, .status = 200};
	x->journey = q.rule->journey;
	x->type = q.rule->type;
	x->named = q.subject_count;
	x->once = (struct idempotency){.key = arena_printf(&w->s.f.arena, "record-%d", w->count),
	                               .caller = BYTES(OUTAGE_CALLER)};
	w->count++;
	return r;
}

struct merge_turn {
	struct turn      turn;
	struct spooled  *x;
	enum spooled_end end;
};

static enum err_code merge_run(struct turn *turn, struct err *err)
{
	struct merge_turn *m = (struct merge_turn *)turn;

	return outage_merge(&turn->ctx, m->x, turn->s->rules, &m->end, err);
}

/* The tables answer again. How many of those that waited were counted? */
static int merge_all(struct world *w)
{
	int merged = 0;

	for (int i = 0; i < w->count; i++) {
		struct merge_turn m = {.x = &w->waiting[i]};

		turn_take(&w->s, &m.turn, merge_run);
		merged += m.end == SPOOLED_MERGED;
	}
	w->count = 0;
	return merged;
}

/* By the id, by each address, and by a pairwise id before the user's. */
static struct try name(int i)
{
	static const struct try names[] = {{.subject = "alice"},
	                                   {.email = "alice@example.org"},
	                                   {.subject = "pair-1", .pairwise = "alice"},
	                                   {.email = "alice@example.com"},
	                                   {.subject = "pair-2", .pairwise = "alice"}};

	return names[i % 5];
}

/* ---- several names ---- */

TEST(outage_person, has_one_budget_under_all_its_names_without_tables_and_when_they_are_back)
{
	struct world          w;
	struct attempt_result r;
	int                   counted = 0;

	world_open(&w);
	FAIL(&w.s, .email = "alice@example.org");
	learn_table(&w, TABLE_AUTH_STATE, "{'TableName':'auth-state'}");
	for (int i = 0; i < 15; i++)
		counted += without_tables(&w, OUTCOME_FAILURE, name(i), 10 + i).counted;
	assert_int_equal(counted, 5);
	at(&w.s, 100);
	assert_int_equal(merge_all(&w), 5);
	for (int i = 0; i < 5; i++) {
		r = service_record(&w.s, OUTCOME_SUCCESS, name(i));
		assert_verdict(&r, VERDICT_LOCKED, false);
		assert_int_equal(r.verdict.until_s, START_S + 14 + 900);
	}
	world_close(&w);
}

/* A lock that is known by one name holds for all. */
TEST(outage_person, that_is_locked_by_one_name_is_locked_by_all_without_tables)
{
	struct world          w;
	struct attempt_result r;

	world_open(&w);
	FAIL_TIMES(&w.s, 6, .email = "alice@example.org");
	learn_table(&w, TABLE_AUTH_STATE, "{'TableName':'auth-state'}");
	for (int i = 0; i < 5; i++) {
		r = without_tables(&w, OUTCOME_SUCCESS, name(i), 10);
		assert_verdict(&r, VERDICT_LOCKED, false);
	}
	world_close(&w);
}

/* ---- failures in a row ---- */

static int64_t streak(struct service *s)
{
	struct item row;

	return row_find(s, BYTES("alice"), BYTES(LOCK_OF_STREAK), &row) ? streak_of_row(&row, false) : 0;
}

TEST(outage_streak, goes_on_without_tables_up_to_its_maximum_and_is_merged_exactly)
{
	struct world          w;
	struct attempt_result r;
	int                   counted = 0;

	world_open(&w);
	for (int i = 0; i < 4; i++) {
		at(&w.s, i * 100);
		FAIL(&w.s, .type = "CODE");
	}
	learn_table(&w, TABLE_AUTH_STATE, "{'TableName':'auth-state'}");
	for (int i = 0; i < 12; i++) {
		struct try t = name(i);

		t.type = "CODE";
		r = without_tables(&w, OUTCOME_FAILURE, t, 400 + i * 100);
		counted += r.counted;
	}
	assert_int_equal(counted, 6);
	assert_string_equal(r.verdict.reason, "too_many_failures");
	assert_int_equal(streak(&w.s), 4);
	at(&w.s, 2000);
	assert_int_equal(merge_all(&w), 6);
	assert_string_equal(SUCCEED(&w.s).verdict.reason, "too_many_failures");
	world_close(&w);
}

/* What comes late moves nothing back: it neither shortens the life of the streak, nor makes newer failures look older than a success. */
TEST(outage_streak, that_went_on_meanwhile_is_not_ended_by_a_success_from_before_its_last_failure)
{
	struct world w;
	struct item  row;

	world_open(&w);
	FAIL(&w.s, .type = "CODE");
	learn_table(&w, TABLE_AUTH_STATE, "{'TableName':'auth-state'}");
	without_tables(&w, OUTCOME_FAILURE, (struct try){.type = "CODE"}, 50);
	without_tables(&w, OUTCOME_SUCCESS, (struct try){.type = "CODE"}, 60);
	at(&w.s, 100);
	FAIL(&w.s, .type = "CODE"); /* by another process, which has its tables */
	at(&w.s, 200);
	merge_all(&w);
	assert_int_equal(streak(&w.s), 3);
	assert_true(row_find(&w.s, BYTES("alice"), BYTES(LOCK_OF_STREAK), &row));
	assert_int_equal(row_i64(&row, "last_updated", 0), START_S + 100);
	assert_int_equal(row_i64(&row, "ttl", 0), START_S + 100 + 365 * 86400);
	world_close(&w);
}

/* A lock that was set since makes the next one longer, whatever was right before it. */
TEST(outage_streak, a_success_from_before_a_lock_does_not_forget_how_often_there_was_one)
{
	struct world w;

	world_open(&w);
	learn_table(&w, TABLE_AUTH_STATE, "{'TableName':'auth-state'}");
	FAIL(&w.s);
	learn_table(&w, TABLE_AUTH_STATE, "{'TableName':'auth-state'}");
	without_tables(&w, OUTCOME_SUCCESS, (struct try){0}, 1);
	at(&w.s, 10);
	FAIL_TIMES(&w.s, 5);
	assert_int_equal(count_in(&w.s, "alice", "SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY"), 1);
	at(&w.s, 1000);
	fixture_ok(&w.s.f, "DeleteItem", /* it has expired, and the endpoint has removed it */
	           "{'TableName':'auth-state','Key':{'PK':{'S':'alice'},'SK':{'S':'" PASSWORD_LOCK "'}}}");
	assert_int_equal(merge_all(&w), 1);
	assert_int_equal(count_in(&w.s, "alice", "SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY"), 1);
	world_close(&w);
}
