/* What is told of locks: that they are set, cleared and expired, each once and in order, on every path that touches a lock. The numbers are
 * those of lock_event.h. */
#include "service/resetting.h"

#include "base/hash.h"
#include "service/event_log.h"
#include "service/lock.h"
#include "service/lock_event.h"
#include "service/lock_group.h"
#include "service/reservation.h"

#define RULES                                                                                                \
	"locks: {STANDARD: {duration: 900}, SHORT: {duration: 60}, PERMANENT: {permanent: true},"            \
	" GROWING: {duration: 60, factor: 2, cap: 86400, forget: 86400}}\n"                                  \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 3, life: 7200, clears: []}\n"                                           \
	"      CODE: {max_each: 2, max: 9, qualifier: method, life: 7200, lock: SHORT}\n"                    \
	"      SOURCES: {max: 9, max_from_source: 2, max_of_source: 4, life: 7200, lock: SHORT}\n"           \
	"      SHADOWED: {max: 2, life: 7200, shadow: true}\n"                                               \
	"      EVER: {max: 2, life: 7200, lock: PERMANENT}\n"                                                \
	"      QUICK: {max: 2, life: 7200, lapse: 100, lock: SHORT}\n"                                       \
	"resets:\n"                                                                                          \
	"  PASSWORD: {counts: [SIGN_IN/PASSWORD_ENTRY], locks: [SIGN_IN/PASSWORD_ENTRY, SIGN_IN/CODE]}\n"

static void open_all_on(struct service *s)
{
	service_open(s, RULES);
	s->all.events.on = EVENT_ALL & ~event_types_of(BYTES("attempt.*"));
}

/* ---- what was told, a line each: "lock.set alice PASSWORD_ENTRY rule", "lock.cleared alice PASSWORD_ENTRY reset" ---- */

static struct table_query_result log_of(struct service *s)
{
	struct table_query_result none = {0};

	if (!has_events(s))
		return none;
	return fixture_ok(&s->f, "Query",
	                  "{'TableName':'gatehouse-events','KeyConditionExpression':'PK = :p',"
	                  "'ExpressionAttributeValues':{':p':{'S':'LOG#0'}}}")
	        .query;
}

static const struct item *data_of(const struct item *event)
{
	const struct value *data = item_get(event, BYTES("data"));

	assert_non_null(data);
	return &data->map;
}

static const char *story(struct service *s)
{
	struct table_query_result log = log_of(s);
	struct buf                out;

	buf_init(&out, &s->f.arena);
	for (uint32_t i = 0; i < log.count; i++) {
		const struct item *data = data_of(&log.items[i]);
		struct bytes       how =
                        row_text(data, "why").len > 0 ? row_text(data, "why") : row_text(data, "setBy");

		buf_add_bytes(&out, arena_printf(&s->f.arena, "%s%.*s %.*s%s%.*s", i == 0 ? "" : "; ",
		                                 BYTES_ARG(row_text(&log.items[i], "type")),
		                                 BYTES_ARG(row_text(data, "name")), how.len > 0 ? " " : "",
		                                 BYTES_ARG(how)));
	}
	buf_add_byte(&out, '\0');
	return (const char *)out.data;
}

/* Rows DUE#…, of all shards. */
static struct table_query_result dues(struct service *s)
{
	struct table_query_result none = {0};

	if (!has_events(s))
		return none;
	return fixture_ok(&s->f, "Scan",
	                  "{'TableName':'gatehouse-events','FilterExpression':'begins_with(PK, :p)',"
	                  "'ExpressionAttributeValues':{':p':{'S':'DUE#'}}}")
	        .query;
}

/* ---- calls ---- */

struct telling {
	struct turn turn;
	struct due  due;
	bool        told;
};

static enum err_code tell_run(struct turn *turn, struct err *err)
{
	struct telling *t = (struct telling *)turn;

	return due_tell(&turn->ctx, &t->due, &t->told, err);
}

struct reading {
	struct turn       turn;
	int64_t           from_s;
	struct due_places places;
	struct due_page   page;
};

static enum err_code read_run(struct turn *turn, struct err *err)
{
	struct reading *r = (struct reading *)turn;

	return dues_read(&turn->ctx, r->from_s, &r->places, &r->page, err);
}

/* What the worker does. Returns how many were told. */
static uint32_t tell_all(struct service *s)
{
	struct reading *r = arena_zalloc(&s->f.arena, sizeof(*r));
	uint32_t        told = 0;

	do {
		turn_take(s, &r->turn, read_run);
		for (uint32_t i = 0; i < r->page.count; i++) {
			struct telling t = {.due = r->page.list[i]};

			turn_take(s, &t.turn, tell_run);
			told += t.told;
		}
		dues_pass(&r->places, &r->page);
	} while (r->page.count > 0 && r->page.more);
	return told;
}

struct lock_turn {
	struct turn     turn;
	struct lock_new lock;
	struct verdict  verdict;
	bool            held;
};

static enum err_code add_run(struct turn *turn, struct err *err)
{
	struct lock_turn *l = (struct lock_turn *)turn;

	return lock_add(&turn->ctx, &l->lock, &l->verdict, err);
}

static enum err_code clear_run(struct turn *turn, struct err *err)
{
	struct lock_turn *l = (struct lock_turn *)turn;

	return lock_clear(
	        &turn->ctx, l->lock.pk,
	        key_name(turn->ctx.arena, l->lock.journey, l->lock.type, l->lock.name, l->lock.qualifier),
	        &l->held, err);
}

static struct lock_turn person(struct service *s, const char *subject, int64_t duration_s)
{
	return (struct lock_turn){.lock = {.pk = bytes_of(subject),
	                                   .journey = BYTES("SIGN_IN"),
	                                   .type = BYTES(KEY_LOCK),
	                                   .name = BYTES("PASSWORD_ENTRY"),
	                                   .kind = rules_kind(s->rules, BYTES("STANDARD")),
	                                   .set_by = BYTES("sue"),
	                                   .reason = BYTES("called in"),
	                                   .duration_s = duration_s}};
}

static void person_sets(struct service *s, const char *subject, int64_t duration_s)
{
	struct lock_turn l = person(s, subject, duration_s);

	turn_take(s, &l.turn, add_run);
}

static void person_clears(struct service *s, const char *subject)
{
	struct lock_turn l = person(s, subject, 0);

	turn_take(s, &l.turn, clear_run);
}

struct step {
	struct turn           turn;
	struct attempt        q;
	struct bytes          name;
	enum outcome          outcome;
	struct begin_result   begun;
	struct attempt_result r;
};

static enum err_code begin_run(struct turn *turn, struct err *err)
{
	struct step *step = (struct step *)turn;

	return attempt_begin(&turn->ctx, &step->q, step->name, &step->begun, err);
}

static enum err_code finish_run(struct turn *turn, struct err *err)
{
	struct step       *step = (struct step *)turn;
	struct reservation r;

	if (reservation_find(&turn->ctx, step->name, turn->s->rules, &r, err) != ERR_NONE)
		return err->code;
	return attempt_finish(&turn->ctx, &r, step->outcome, &step->r, err);
}

static struct step begin_one(struct service *s, struct try t)
{
	static int  number;
	struct step step = {.q = attempt_of(s, &t)};

	step.name = arena_printf(&s->f.arena, "attempt-%d", ++number);
	turn_take(s, &step.turn, begin_run);
	return step;
}

#define BEGIN(s, ...) begin_one(s, (struct try){__VA_ARGS__})

static enum verdict_kind finish(struct service *s, struct step *step, enum outcome outcome)
{
	step->outcome = outcome;
	turn_take(s, &step->turn, finish_run);
	return step->r.verdict.kind;
}

/* ---- one by one ---- */

/* What was told of is removed, and a store walks over that. If an earlier end becomes known meanwhile, all is looked at again. */
TEST(lock_events, a_page_of_ends_begins_behind_the_last_one_unless_it_is_to_begin_earlier)
{
	struct service  s;
	struct reading *r;

	open_all_on(&s);
	person_sets(&s, "ann", 60);
	person_sets(&s, "bob", 90);
	at(&s, 100);
	r = arena_zalloc(&s.f.arena, sizeof(*r));
	r->from_s = START_S;
	turn_take(&s, &r->turn, read_run);
	assert_int_equal(r->page.count, 2);
	turn_take(&s, &r->turn, read_run); /* nobody said that they were told of */
	assert_int_equal(r->page.count, 2);
	dues_pass(&r->places, &r->page);
	turn_take(&s, &r->turn, read_run);
	assert_int_equal(r->page.count, 0);
	r->from_s--;
	turn_take(&s, &r->turn, read_run);
	assert_int_equal(r->page.count, 2);
	service_close(&s);
}

/* ---- of several ids: one lock (lock_group.h) ---- */

static void person_sets_on(struct service *s, const char *subject, const struct bytes *others, uint32_t count)
{
	struct lock_turn l = person(s, subject, 60);

	l.lock.others = others;
	l.lock.other_count = count;
	turn_take(s, &l.turn, add_run);
}

TEST(lock_groups, are_told_of_once_when_they_are_set_and_when_they_expire)
{
	static const struct bytes others[] = {BYTES_INIT("bob"), BYTES_INIT("cat")};
	struct service            s;
	struct table_query_result log;
	const struct value       *named;

	open_all_on(&s);
	person_sets_on(&s, "ann", others, 2);
	assert_true(row_there(&s, "bob", PASSWORD_LOCK) && row_there(&s, "cat", PASSWORD_LOCK));
	assert_int_equal(dues(&s).count, 1);
	at(&s, 60);
	assert_int_equal(tell_all(&s), 1);
	log = log_of(&s);
	assert_int_equal(log.count, 2);
	for (uint32_t i = 0; i < log.count; i++) {
		assert_bytes(row_text(&log.items[i], "subject"), "ann");
		named = item_get(data_of(&log.items[i]), BYTES("otherSubjects"));
		assert_true(named != NULL && named->list.count == 2);
	}
	service_close(&s);
}

TEST(lock_groups, whose_head_somebody_else_removed_are_told_of_by_the_first_that_is_left_5)
{
	static const struct bytes others[] = {BYTES_INIT("bob"), BYTES_INIT("cat")};
	struct service            s;
	struct table_query_result log;

	open_all_on(&s);
	person_sets_on(&s, "ann", others, 2);
	fixture_ok(&s.f, "DeleteItem",
	           "{'TableName':'auth-state','Key':{'PK':{'S':'ann'},'SK':{'S':'" PASSWORD_LOCK "'}}}");
	person_clears(&s, "cat");
	assert_false(row_there(&s, "bob", PASSWORD_LOCK) || row_there(&s, "cat", PASSWORD_LOCK));
	log = log_of(&s);
	assert_int_equal(log.count, 2);
	assert_bytes(row_text(&log.items[1], "subject"), "bob"); /* whichever row it was cleared by */
	assert_int_equal(dues(&s).count, 0);
	at(&s, 60);
	assert_int_equal(tell_all(&s), 0); /* it was cleared: it does not expire */
	service_close(&s);
}

TEST(lock_groups, whose_head_somebody_else_removed_expire_when_the_rest_does_5)
{
	static const struct bytes others[] = {BYTES_INIT("bob"), BYTES_INIT("cat")};
	struct service            s;

	open_all_on(&s);
	person_sets_on(&s, "ann", others, 2);
	fixture_ok(&s.f, "DeleteItem",
	           "{'TableName':'auth-state','Key':{'PK':{'S':'ann'},'SK':{'S':'" PASSWORD_LOCK "'}}}");
	person_sets(&s, "cat", 600);
	at(&s, 60);
	assert_int_equal(tell_all(&s), 0); /* it holds still */
	at(&s, 600);
	assert_int_equal(tell_all(&s), 1);
	service_close(&s);
}

/* Somebody else wrote it, and it holds: what is due of it is its own. */
TEST(lock_groups, whose_head_somebody_else_wrote_leave_its_end_to_it_5)
{
	static const struct bytes others[] = {BYTES_INIT("bob")};
	struct service            s;

	open_all_on(&s);
	person_sets_on(&s, "ann", others, 1);
	row_put(&s, "{'PK':{'S':'ann'},'SK':{'S':'" PASSWORD_LOCK
	            "'},'count':{'N':'1'},'block_type':{'S':'STANDARD'},"
	            "'ttl':{'N':'1789000060'}}");
	person_clears(&s, "bob");
	assert_true(row_there(&s, "ann", PASSWORD_LOCK));
	assert_int_equal(dues(&s).count, 1);
	service_close(&s);
}

TEST(lock_groups, as_large_as_they_may_be_are_set_and_cleared_in_one_commit_6)
{
	struct bytes   others[LOCK_GROUP_MAX];
	struct service s;

	open_all_on(&s);
	for (uint32_t i = 0; i < LOCK_GROUP_MAX; i++)
		others[i] = arena_printf(&s.f.arena, "id-%u", i);
	person_sets_on(&s, "ann", others, LOCK_GROUP_MAX); /* one too many */
	assert_true(row_there(&s, "id-14", PASSWORD_LOCK) && !row_there(&s, "id-15", PASSWORD_LOCK));
	person_clears(&s, "id-7");
	assert_false(row_there(&s, "ann", PASSWORD_LOCK) || row_there(&s, "id-14", PASSWORD_LOCK));
	service_close(&s);
}

TEST(lock_groups, grow_together_6)
{
	struct service   s;
	struct lock_turn l;

	open_all_on(&s);
	l = person(&s, "ann", 0);
	l.lock.kind = rules_kind(s.rules, BYTES("GROWING"));
	turn_take(&s, &l.turn, add_run);
	at(&s, 4000);
	l = person(&s, "bob", 0);
	l.lock.kind = rules_kind(s.rules, BYTES("GROWING"));
	l.lock.others = (const struct bytes[]){BYTES_INIT("ann")};
	l.lock.other_count = 1;
	turn_take(&s, &l.turn, add_run);
	assert_int_equal(l.verdict.until_s - (START_S + 4000), 2 * l.lock.kind->duration_s);
	assert_true(row_there(&s, "bob", "SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY"));
	person_clears(&s, "ann");
	assert_false(row_there(&s, "bob", "SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY"));
	service_close(&s);
}

TEST(lock_events, tell_that_a_rule_set_a_lock_and_that_it_expired_at_that_second)
{
	struct service            s;
	struct table_query_result log;
	const struct item        *data;

	open_all_on(&s);
	FAIL_TIMES(&s, 3, .type = "PASSWORD_ENTRY");
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule");
	at(&s, 899);
	assert_int_equal(tell_all(&s), 0);
	at(&s, 900);
	assert_int_equal(tell_all(&s), 1);
	assert_int_equal(tell_all(&s), 0);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule; lock.expired PASSWORD_ENTRY");
	assert_int_equal(dues(&s).count, 0);
	log = log_of(&s);
	assert_bytes(row_text(&log.items[0], "subject"), "alice");
	data = data_of(&log.items[0]);
	assert_bytes(row_text(data, "journey"), "SIGN_IN");
	assert_bytes(row_text(data, "kind"), "STANDARD");
	assert_bytes(row_text(data, "scope"), "subject");
	assert_bytes(row_text(data, "cause"), "SIGN_IN/PASSWORD_ENTRY");
	assert_bytes(row_text(data, "until"), "2026-09-10T00:41:40Z");
	data = data_of(&log.items[1]);
	assert_bytes(row_text(data, "until"), "2026-09-10T00:41:40Z");
	assert_bytes(row_text(data, "kind"), "STANDARD");
	assert_bytes(row_text(&log.items[1], "time"), "2026-09-10T00:41:40.000000Z");
	service_close(&s);
}

TEST(lock_events, of_a_lock_that_a_person_set_cleared_or_prolonged_follow_it)
{
	struct service s;

	open_all_on(&s);
	person_sets(&s, "alice", 100);
	person_sets(&s, "alice", 200); /* prolonged: the first end is none */
	assert_int_equal(dues(&s).count, 1);
	at(&s, 150);
	assert_int_equal(tell_all(&s), 0);
	person_clears(&s, "alice");
	person_clears(&s, "alice");
	assert_int_equal(dues(&s).count, 0);
	at(&s, 300);
	assert_int_equal(tell_all(&s), 0);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY person; lock.set PASSWORD_ENTRY person; "
	                               "lock.cleared PASSWORD_ENTRY person");
	service_close(&s);
}

TEST(lock_events, name_the_person_and_the_source_only_where_personal_data_may_be)
{
	struct event_policy *policy;
	struct service       s;
	const struct item   *data;

	open_all_on(&s);
	person_sets(&s, "alice", 100);
	FAIL_TIMES(&s, 2, .type = "SOURCES", .ip = "192.0.2.7");
	data = data_of(&log_of(&s).items[0]);
	assert_null(item_get(data, BYTES("person")));
	assert_null(item_get(data, BYTES("reason")));
	data = data_of(&log_of(&s).items[1]);
	assert_bytes(row_text(data, "scope"), "subject_and_source");
	assert_null(item_get(data, BYTES("source")));

	policy = document_make(sizeof(*policy));
	policy->on = policy->personal = EVENT_ALL;
	policy->source = BYTES("gatehouse");
	document_holder_init(&s.all.events.policy);
	document_put(&s.all.events.policy, &policy->base);
	person_sets(&s, "bob", 100);
	FAIL_TIMES(&s, 2, .subject = "bob", .type = "SOURCES", .ip = "192.0.2.8");
	data = data_of(&log_of(&s).items[2]);
	assert_bytes(row_text(data, "person"), "sue");
	assert_bytes(row_text(data, "reason"), "called in");
	data = data_of(&log_of(&s).items[3]);
	assert_true(identifier_is(row_text(data, "source"), IDENTIFIER_IP));
	document_holder_release(&s.all.events.policy);
	service_close(&s);
}

TEST(lock_events, of_permanent_locks_have_no_end_and_those_of_shadow_rules_are_not_told)
{
	struct service s;

	open_all_on(&s);
	FAIL_TIMES(&s, 2, .type = "SHADOWED");
	assert_string_equal(story(&s), "");
	FAIL_TIMES(&s, 2, .type = "EVER");
	assert_string_equal(story(&s), "lock.set EVER rule");
	assert_null(item_get(data_of(&log_of(&s).items[0]), BYTES("until")));
	assert_int_equal(dues(&s).count, 0);
	service_close(&s);
}

TEST(lock_events, a_reset_clears_locks_with_their_due_rows)
{
	struct service      s;
	struct reset_result r;

	open_all_on(&s);
	FAIL_TIMES(&s, 3, .type = "PASSWORD_ENTRY");
	FAIL_TIMES(&s, 2, .type = "CODE", .method_type = "SMS");
	assert_int_equal(dues(&s).count, 2);
	r = reset(&s);
	assert_int_equal(r.count, 2);
	assert_int_equal(dues(&s).count, 0);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule; lock.set CODE rule; "
	                               "lock.cleared PASSWORD_ENTRY reset; lock.cleared CODE reset");
	service_close(&s);
}

/* ---- (5): a lock that an attempt set which is begun ---- */

enum { LAPSE_S = 30 };

TEST(lock_events, a_lock_that_a_right_password_takes_back_is_never_told)
{
	struct service s;
	struct step    step;

	open_all_on(&s);
	FAIL_TIMES(&s, 2, .type = "PASSWORD_ENTRY");
	step = BEGIN(&s, .type = "PASSWORD_ENTRY");
	assert_true(step.begun.locked);
	assert_int_equal(dues(&s).count, 1);
	assert_int_equal(finish(&s, &step, OUTCOME_SUCCESS), VERDICT_ALLOW);
	assert_int_equal(dues(&s).count, 0);
	at(&s, 1000);
	assert_int_equal(tell_all(&s), 0);
	assert_string_equal(story(&s), "");
	service_close(&s);
}

TEST(lock_events, a_lock_that_a_begun_attempt_set_holds_at_once_and_is_told_when_it_fails)
{
	struct service s;
	struct step    step;

	open_all_on(&s);
	FAIL_TIMES(&s, 2, .type = "PASSWORD_ENTRY");
	step = BEGIN(&s, .type = "PASSWORD_ENTRY");
	assert_int_equal(FAIL(&s, .type = "PASSWORD_ENTRY").verdict.kind, VERDICT_LOCKED);
	assert_string_equal(story(&s), "");
	at(&s, 10);
	finish(&s, &step, OUTCOME_FAILURE);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule");
	assert_int_equal(dues(&s).count, 1);
	at(&s, LAPSE_S + 1);
	assert_int_equal(tell_all(&s), 0); /* its lapse says nothing more */
	at(&s, 900);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule; lock.expired PASSWORD_ENTRY");
	assert_int_equal(dues(&s).count, 0);
	service_close(&s);
}

TEST(lock_events, a_lock_of_an_attempt_that_is_never_finished_is_told_at_its_lapse)
{
	struct service s;
	struct item    row;

	open_all_on(&s);
	FAIL_TIMES(&s, 2, .type = "PASSWORD_ENTRY");
	BEGIN(&s, .type = "PASSWORD_ENTRY");
	at(&s, LAPSE_S - 1);
	assert_int_equal(tell_all(&s), 0);
	at(&s, LAPSE_S + 1);
	assert_int_equal(tell_all(&s), 1);
	assert_int_equal(tell_all(&s), 0);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule");
	assert_true(row_find(&s, BYTES("alice"), BYTES(PASSWORD_LOCK), &row));
	assert_null(item_get(&row, BYTES(LOCK_ANNOUNCE)));
	at(&s, 900);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule; lock.expired PASSWORD_ENTRY");
	service_close(&s);
}

/* It held its whole time: that a late success is let in all the same changes nothing about that. */
TEST(lock_events, a_lock_that_ends_before_its_attempt_lapses_is_told_whole_when_it_ends)
{
	struct service s;
	struct step    step;

	open_all_on(&s);
	FAIL(&s, .type = "QUICK");
	step = BEGIN(&s, .type = "QUICK");
	at(&s, 60);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "lock.set QUICK rule; lock.expired QUICK");
	at(&s, 70);
	assert_int_equal(finish(&s, &step, OUTCOME_SUCCESS), VERDICT_ALLOW);
	assert_string_equal(story(&s), "lock.set QUICK rule; lock.expired QUICK");
	assert_int_equal(dues(&s).count, 0);
	service_close(&s);
}

TEST(lock_events, a_lock_that_ended_untold_is_told_whole_before_it_is_set_anew)
{
	struct service s;

	open_all_on(&s);
	FAIL(&s, .type = "QUICK");
	BEGIN(&s, .type = "QUICK");
	at(&s, 61);
	FAIL_TIMES(&s, 2, .type = "QUICK");
	assert_string_equal(story(&s), "lock.set QUICK rule; lock.expired QUICK; lock.set QUICK rule");
	assert_int_equal(dues(&s).count, 1);
	service_close(&s);
}

TEST(lock_events, a_lock_that_is_cleared_before_it_was_told_is_never_told)
{
	struct service s;
	struct step    step;

	open_all_on(&s);
	FAIL_TIMES(&s, 2, .type = "PASSWORD_ENTRY");
	step = BEGIN(&s, .type = "PASSWORD_ENTRY");
	person_clears(&s, "alice");
	finish(&s, &step, OUTCOME_FAILURE);
	FAIL_TIMES(&s, 2, .type = "PASSWORD_ENTRY");
	BEGIN(&s, .type = "PASSWORD_ENTRY");
	reset(&s);
	at(&s, 1000);
	assert_int_equal(tell_all(&s), 0);
	assert_string_equal(story(&s), "");
	assert_int_equal(dues(&s).count, 0);
	service_close(&s);
}

TEST(lock_events, a_lock_whose_attempt_lapsed_untold_is_told_before_it_is_cleared)
{
	struct service s;

	open_all_on(&s);
	FAIL_TIMES(&s, 2, .type = "PASSWORD_ENTRY");
	BEGIN(&s, .type = "PASSWORD_ENTRY");
	at(&s, LAPSE_S + 1);
	person_clears(&s, "alice");
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule; lock.cleared PASSWORD_ENTRY person");
	assert_int_equal(dues(&s).count, 0);
	service_close(&s);
}

TEST(lock_events, a_lock_that_a_person_prolongs_before_it_was_told_is_told_as_the_persons)
{
	struct service s;
	struct step    step;

	open_all_on(&s);
	FAIL_TIMES(&s, 2, .type = "PASSWORD_ENTRY");
	step = BEGIN(&s, .type = "PASSWORD_ENTRY");
	person_sets(&s, "alice", 2000);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY person");
	finish(&s, &step, OUTCOME_FAILURE);
	at(&s, 1000);
	assert_int_equal(tell_all(&s), 0);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY person");
	assert_int_equal(dues(&s).count, 1);
	service_close(&s);
}

TEST(lock_events, a_permanent_lock_of_an_attempt_that_lapses_is_told_and_has_no_due_row_then)
{
	struct service s;

	open_all_on(&s);
	FAIL(&s, .type = "EVER");
	BEGIN(&s, .type = "EVER");
	at(&s, LAPSE_S + 1);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "lock.set EVER rule");
	assert_int_equal(dues(&s).count, 0);
	service_close(&s);
}

TEST(lock_events, of_a_lock_that_waits_need_no_expiry_to_be_on)
{
	struct service s;

	open_all_on(&s);
	s.all.events.on &= ~EVENT_BIT(EVENT_LOCK_EXPIRED);
	FAIL_TIMES(&s, 2, .type = "PASSWORD_ENTRY");
	BEGIN(&s, .type = "PASSWORD_ENTRY");
	at(&s, LAPSE_S + 1);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule");
	assert_int_equal(dues(&s).count, 0);
	service_close(&s);
}

/* Others in the count may still be right: whether the source is over its maximum is known when they lapse. */
TEST(lock_events, of_a_source_wait_for_all_that_were_begun_in_its_count)
{
	struct service s;
	struct step    one, last;

	open_all_on(&s);
	one = BEGIN(&s, .subject = "ann", .type = "SOURCES", .ip = "192.0.2.1");
	FAIL(&s, .subject = "bob", .type = "SOURCES", .ip = "192.0.2.1");
	FAIL(&s, .subject = "carol", .type = "SOURCES", .ip = "192.0.2.1");
	last = BEGIN(&s, .subject = "dave", .type = "SOURCES", .ip = "192.0.2.1");
	assert_true(last.begun.locked);
	finish(&s, &last, OUTCOME_FAILURE);
	assert_string_equal(story(&s), "");
	assert_int_equal(finish(&s, &one, OUTCOME_SUCCESS), VERDICT_ALLOW); /* three are left of four */
	at(&s, 1000);
	assert_int_equal(tell_all(&s), 0);
	assert_string_equal(story(&s), "");
	assert_int_equal(dues(&s).count, 0);
	service_close(&s);
}

/* The lock of failures in a row, too. */
TEST(lock_events, of_failures_in_a_row_wait_until_the_attempt_fails_and_are_not_told_if_it_was_right)
{
	static const char rules[] =
	        RULES "consecutive: {max: 2, of: [SIGN_IN/PASSWORD_ENTRY], sets: SIGN_IN/ROW, lock: SHORT}\n";
	struct service s;
	struct step    last;

	for (int right = 0; right < 2; right++) {
		open_all_on(&s);
		service_rules(&s, rules);
		FAIL(&s);
		last = BEGIN(&s, .subject = "alice");
		assert_true(last.begun.locked);
		assert_string_equal(story(&s), "");
		assert_int_equal(finish(&s, &last, right ? OUTCOME_SUCCESS : OUTCOME_FAILURE),
		                 right ? VERDICT_ALLOW : VERDICT_LOCKED);
		assert_string_equal(story(&s), right ? "" : "lock.set ROW rule");
		assert_int_equal(SUCCEED(&s).verdict.kind, right ? VERDICT_ALLOW : VERDICT_LOCKED);
		service_close(&s);
	}
}

TEST(lock_events, of_a_source_whose_begun_attempts_lapse_are_told_then)
{
	struct service s;
	struct step    last;

	open_all_on(&s);
	BEGIN(&s, .subject = "ann", .type = "SOURCES", .ip = "192.0.2.1");
	FAIL(&s, .subject = "bob", .type = "SOURCES", .ip = "192.0.2.1");
	FAIL(&s, .subject = "carol", .type = "SOURCES", .ip = "192.0.2.1");
	last = BEGIN(&s, .subject = "dave", .type = "SOURCES", .ip = "192.0.2.1");
	finish(&s, &last, OUTCOME_FAILURE);
	at(&s, LAPSE_S + 1);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "lock.set SOURCE rule");
	service_close(&s);
}

/* ---- (5) of several ids: the lock of a group waits as one ---- */

#define BOTH .pairwise = "bob"

static struct step begin_both(struct service *s)
{
	FAIL_TIMES(s, 2, .type = "PASSWORD_ENTRY", BOTH);
	return BEGIN(s, .type = "PASSWORD_ENTRY", BOTH);
}

static int64_t waits_until(struct service *s, const char *id)
{
	struct item row;

	assert_true(row_find(s, bytes_of(id), BYTES(PASSWORD_LOCK), &row));
	return row_i64(&row, LOCK_ANNOUNCE, 0);
}

/* Each event is of alice, and names bob. */
static void assert_names_both(struct service *s)
{
	struct table_query_result log = log_of(s);

	for (uint32_t i = 0; i < log.count; i++) {
		const struct value *others = item_get(data_of(&log.items[i]), BYTES("otherSubjects"));

		assert_bytes(row_text(&log.items[i], "subject"), "alice");
		assert_true(others != NULL && others->list.count == 1);
		assert_bytes(value_text(&others->list.items[0]), "bob");
	}
}

TEST(lock_groups, that_begin_set_hold_for_all_ids_and_wait_as_one)
{
	struct service s;

	open_all_on(&s);
	begin_both(&s);
	assert_int_equal(FAIL(&s, .type = "PASSWORD_ENTRY").verdict.kind, VERDICT_LOCKED);
	assert_int_equal(FAIL(&s, .type = "PASSWORD_ENTRY", .subject = "bob").verdict.kind, VERDICT_LOCKED);
	assert_true(waits_until(&s, "alice") > 0);
	assert_int_equal(waits_until(&s, "alice"), waits_until(&s, "bob"));
	assert_int_equal(dues(&s).count, 1);
	assert_string_equal(story(&s), "");
	service_close(&s);
}

TEST(lock_groups, that_a_right_password_takes_back_are_lifted_whole_and_never_told)
{
	struct service s;
	struct step    step;

	open_all_on(&s);
	step = begin_both(&s);
	assert_int_equal(finish(&s, &step, OUTCOME_SUCCESS), VERDICT_ALLOW);
	assert_false(row_there(&s, "alice", PASSWORD_LOCK) || row_there(&s, "bob", PASSWORD_LOCK));
	assert_int_equal(dues(&s).count, 0);
	at(&s, 1000);
	assert_int_equal(tell_all(&s), 0);
	assert_string_equal(story(&s), "");
	service_close(&s);
}

TEST(lock_groups, whose_attempt_fails_are_told_once)
{
	struct service s;
	struct step    step;

	open_all_on(&s);
	step = begin_both(&s);
	finish(&s, &step, OUTCOME_FAILURE);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule");
	assert_true(waits_until(&s, "alice") == 0 && waits_until(&s, "bob") == 0);
	assert_int_equal(dues(&s).count, 1);
	at(&s, LAPSE_S + 1);
	assert_int_equal(tell_all(&s), 0);
	at(&s, 900);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule; lock.expired PASSWORD_ENTRY");
	assert_names_both(&s);
	service_close(&s);
}

TEST(lock_groups, whose_attempt_lapses_are_told_once_by_the_worker)
{
	struct service s;

	open_all_on(&s);
	begin_both(&s);
	at(&s, LAPSE_S + 1);
	assert_int_equal(tell_all(&s), 1);
	assert_true(waits_until(&s, "alice") == 0 && waits_until(&s, "bob") == 0);
	at(&s, 900);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule; lock.expired PASSWORD_ENTRY");
	assert_names_both(&s);
	service_close(&s);
}

TEST(lock_groups, that_end_before_their_attempt_lapses_are_told_whole)
{
	struct service s;

	open_all_on(&s);
	FAIL(&s, .type = "QUICK", BOTH);
	BEGIN(&s, .type = "QUICK", BOTH);
	at(&s, 60);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "lock.set QUICK rule; lock.expired QUICK");
	assert_names_both(&s);
	service_close(&s);
}

TEST(lock_groups, that_are_cleared_under_one_id_while_they_wait_are_never_told)
{
	struct service s;

	open_all_on(&s);
	begin_both(&s);
	person_clears(&s, "bob");
	assert_false(row_there(&s, "alice", PASSWORD_LOCK));
	at(&s, 1000);
	assert_int_equal(tell_all(&s), 0);
	assert_string_equal(story(&s), "");
	service_close(&s);
}

TEST(lock_groups, that_a_person_prolongs_while_they_wait_are_told_as_the_persons)
{
	struct service s;
	struct step    step;

	open_all_on(&s);
	step = begin_both(&s);
	person_sets(&s, "bob", 7200);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY person");
	assert_true(waits_until(&s, "alice") == 0 && waits_until(&s, "bob") == 0);
	finish(&s, &step, OUTCOME_FAILURE);
	at(&s, LAPSE_S + 1);
	assert_int_equal(tell_all(&s), 0);
	assert_int_equal(dues(&s).count, 1);
	assert_names_both(&s);
	service_close(&s);
}

TEST(lock_groups, whose_head_somebody_else_removed_while_they_waited_are_told_of_by_the_first_that_is_left_5)
{
	struct service            s;
	struct step               step;
	struct table_query_result log;

	open_all_on(&s);
	step = begin_both(&s);
	fixture_ok(&s.f, "DeleteItem",
	           "{'TableName':'auth-state','Key':{'PK':{'S':'alice'},'SK':{'S':'" PASSWORD_LOCK "'}}}");
	finish(&s, &step, OUTCOME_FAILURE);
	log = log_of(&s);
	assert_int_equal(log.count, 1);
	assert_bytes(row_text(&log.items[0], "subject"), "bob");
	at(&s, LAPSE_S + 1);
	assert_int_equal(tell_all(&s), 0);
	at(&s, 900);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule; lock.expired PASSWORD_ENTRY");
	service_close(&s);
}

TEST(lock_groups, whose_head_somebody_else_removed_before_the_lapse_are_told_of_by_the_worker_5)
{
	struct service            s;
	struct table_query_result log;

	open_all_on(&s);
	begin_both(&s);
	fixture_ok(&s.f, "DeleteItem",
	           "{'TableName':'auth-state','Key':{'PK':{'S':'alice'},'SK':{'S':'" PASSWORD_LOCK "'}}}");
	at(&s, LAPSE_S + 1);
	assert_int_equal(tell_all(&s), 1);
	log = log_of(&s);
	assert_int_equal(log.count, 1);
	assert_bytes(row_text(&log.items[0], "subject"), "bob");
	assert_int_equal(waits_until(&s, "bob"), 0);
	at(&s, 900);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule; lock.expired PASSWORD_ENTRY");
	service_close(&s);
}

/* It stops the attempt that wanted to begin: nobody is left who could take it back. */
TEST(lock_events, a_lock_that_was_due_when_an_attempt_begins_is_told_at_once)
{
	struct service s;
	struct step    step;

	open_all_on(&s);
	FAIL_TIMES(&s, 2, .type = "PASSWORD_ENTRY");
	service_rules(&s, "locks: {STANDARD: {duration: 900}}\n"
	                  "journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 2, life: 7200}}}}\n");
	step = BEGIN(&s, .type = "PASSWORD_ENTRY");
	assert_false(step.begun.reserved);
	assert_int_equal(waits_until(&s, "alice"), 0);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY rule");
	service_close(&s);
}

/* (3) */
TEST(lock_events, a_lock_that_expired_untold_is_told_first_when_it_is_set_anew)
{
	struct service s;

	open_all_on(&s);
	person_sets(&s, "alice", 100);
	at(&s, 500); /* nobody was there to tell */
	person_sets(&s, "alice", 100);
	assert_int_equal(dues(&s).count, 1);
	assert_int_equal(tell_all(&s), 0);
	at(&s, 600);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY person; lock.expired PASSWORD_ENTRY; "
	                               "lock.set PASSWORD_ENTRY person; lock.expired PASSWORD_ENTRY");
	service_close(&s);
}

TEST(lock_events, that_are_late_come_in_the_order_in_which_the_locks_expired)
{
	enum { MANY = 3 * DUE_PAGE };
	struct service            s;
	struct table_query_result log;
	struct bytes              before = BYTES("");

	open_all_on(&s);
	for (int i = 0; i < MANY; i++)
		person_sets(&s, arena_printf(&s.f.arena, "s%d%c", i, '\0').data, 100 + (i * 37) % MANY);
	at(&s, 1000);
	assert_int_equal(tell_all(&s), MANY);
	log = log_of(&s);
	assert_int_equal(log.count, 2 * MANY);
	for (uint32_t i = MANY; i < log.count; i++) {
		struct bytes until = row_text(data_of(&log.items[i]), "until");

		assert_true(bytes_compare(before, until) <= 0);
		before = until;
	}
	service_close(&s);
}

TEST(lock_events, of_rows_that_others_wrote_follow_what_is_in_the_table)
{
	struct service s;

	open_all_on(&s);
	person_sets(&s, "alice", 100);
	row_put(&s, arena_printf(&s.f.arena,
	                         "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'},"
	                         "'count':{'N':'1'},'ttl':{'N':'%d'}}%c",
	                         START_S + 300, '\0')
	                    .data);
	at(&s, 200);
	assert_int_equal(tell_all(&s), 0); /* it holds */
	assert_int_equal(dues(&s).count, 1);
	at(&s, 300);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY person; lock.expired PASSWORD_ENTRY");
	service_close(&s);
}

TEST(lock_events, of_expiry_that_is_switched_off_cost_no_row_and_locks_from_before_lose_theirs)
{
	struct service s;

	open_all_on(&s);
	person_sets(&s, "alice", 100);
	person_sets(&s, "bob", 100);
	s.all.events.on &= ~EVENT_BIT(EVENT_LOCK_EXPIRED);
	person_sets(&s, "carol", 100);
	assert_int_equal(dues(&s).count, 2);
	person_clears(&s, "alice");
	assert_int_equal(dues(&s).count, 1);
	at(&s, 100);
	tell_all(&s);
	assert_int_equal(dues(&s).count, 0);
	assert_null(strstr(story(&s), "expired"));
	service_close(&s);
}

TEST(lock_events, a_lock_that_is_cleared_while_all_types_are_off_leaves_no_due_row_and_no_expiry)
{
	struct service s;

	open_all_on(&s);
	person_sets(&s, "alice", 100);
	person_sets(&s, "bob", 100);
	s.all.events.on = 0;
	person_clears(&s, "alice");
	person_sets(&s, "bob", 300); /* prolonged */
	assert_int_equal(dues(&s).count, 0);
	s.all.events.on = EVENT_ALL;
	at(&s, 400);
	assert_int_equal(tell_all(&s), 0);
	assert_string_equal(story(&s), "lock.set PASSWORD_ENTRY person; lock.set PASSWORD_ENTRY person");
	service_close(&s);
}

/* As docs/policies.md says. */
TEST(lock_events, of_a_lock_that_was_set_while_expiry_was_off_say_nothing_of_its_end)
{
	struct service s;

	open_all_on(&s);
	s.all.events.on &= ~EVENT_BIT(EVENT_LOCK_EXPIRED);
	person_sets(&s, "alice", 100);
	person_sets(&s, "bob", 100);
	s.all.events.on |= EVENT_BIT(EVENT_LOCK_EXPIRED);
	person_sets(&s, "bob", 200); /* prolonged: set while it is on */
	assert_int_equal(dues(&s).count, 1);
	at(&s, 200);
	assert_int_equal(tell_all(&s), 1);
	assert_bytes(row_text(&log_of(&s).items[3], "subject"), "bob");
	service_close(&s);
}

/* Of one shard: rows as lock_changed writes them, so many that setting a lock has to look through several pages of them. All but the last end in the
 * same second, as after an attack. */
static void overdue_put(struct service *s, uint32_t count)
{
	enum { BATCH = 25 };
	uint32_t   shard = hash_shard(hash_fnv(HASH_FNV, BYTES("alice")), DUE_SHARDS);
	struct buf json;

	for (uint32_t i = 0; i < count; i += BATCH) {
		buf_init(&json, &s->f.arena);
		buf_add_bytes(&json, BYTES("{'RequestItems':{'gatehouse-events':["));
		for (uint32_t j = i; j < count && j < i + BATCH; j++)
			buf_add_bytes(&json, arena_printf(&s->f.arena,
			                                  "%s{'PutRequest':{'Item':{'PK':{'S':'DUE#%u'},"
			                                  "'SK':{'S':'%012d#!%023u'},'subject':{'S':'s%u'},"
			                                  "'lock':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'},"
			                                  "'until':{'N':'%d'}}}}",
			                                  j > i ? "," : "", shard, START_S + 50, j, j,
			                                  START_S + 50));
		buf_add_bytes(&json, (struct bytes){"]}}", 4});
		fixture_ok(&s->f, "BatchWriteItem", (const char *)json.data);
	}
}

/* What was told of one subject, a letter each: set, expired. A page of the log has some of it. */
static const char *told_of(struct service *s, const char *subject)
{
	struct table_query_result r = {.more = true};
	struct buf                out;
	long long                 after = 0;

	buf_init(&out, &s->f.arena);
	while (r.more) {
		r = fixture_ok(&s->f, "Query",
		               arena_printf(&s->f.arena,
		                            "{'TableName':'gatehouse-events',"
		                            "'KeyConditionExpression':'PK = :p AND SK > :k',"
		                            "'ExpressionAttributeValues':{':p':{'S':'LOG#0'},"
		                            "':k':{'S':'%020lld'}}}%c",
		                            after, '\0')
		                       .data)
		            .query;
		for (uint32_t i = 0; i < r.count; i++) {
			after = event_position(&r.items[i]);
			if (bytes_is(row_text(&r.items[i], "subject"), subject))
				buf_add_byte(&out,
				             bytes_is(row_text(&r.items[i], "type"), "lock.set") ? 's' : 'x');
		}
	}
	buf_add_byte(&out, '\0');
	return (const char *)out.data;
}

/* (3) */
TEST(lock_events, of_a_lock_that_is_set_anew_are_in_order_however_many_others_are_overdue)
{
	struct service s;

	open_all_on(&s);
	person_sets(&s, "alice", 100);
	overdue_put(&s, 600);
	at(&s, 500);
	person_sets(&s, "alice", 100);
	assert_string_equal(told_of(&s, "alice"), "sxs");
	assert_int_equal(tell_all(&s), 600);
	at(&s, 600);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(told_of(&s, "alice"), "sxsx");
	service_close(&s);
}

TEST(lock_events, past_the_most_that_are_looked_through_come_late_and_none_is_lost)
{
	struct service s;

	if (getenv("GATEHOUSE_ENDPOINT") != NULL || getenv("GATEHOUSE_ROUGH") != NULL)
		return; /* nothing differs there, and it takes long */
	open_all_on(&s);
	person_sets(&s, "alice", 100);
	overdue_put(&s, DUE_OVERDUE_MAX);
	at(&s, 500);
	person_sets(&s, "alice", 1000);
	assert_string_equal(told_of(&s, "alice"), "ss"); /* not found among so many */
	assert_int_equal(tell_all(&s), DUE_OVERDUE_MAX + 1);
	assert_string_equal(told_of(&s, "alice"), "ssx"); /* of the first, as `until` says */
	assert_int_equal(dues(&s).count, 1);
	at(&s, 1500);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(told_of(&s, "alice"), "ssxx");
	service_close(&s);
}

TEST(lock_events, at_the_most_that_are_looked_through_are_in_order)
{
	struct service s;

	if (getenv("GATEHOUSE_ENDPOINT") != NULL || getenv("GATEHOUSE_ROUGH") != NULL)
		return;
	open_all_on(&s);
	person_sets(&s, "alice", 100);
	overdue_put(&s, DUE_OVERDUE_MAX - 1);
	at(&s, 500);
	person_sets(&s, "alice", 100);
	assert_string_equal(told_of(&s, "alice"), "sxs");
	service_close(&s);
}

/* ---- all of it, at random: what was told says which locks hold, and due rows are those of the locks that will end ---- */

enum { PEOPLE = 3, MOVES = 400 };

static const char *const people[PEOPLE] = {"alice", "bob", "carol"};

struct lock_told {
	struct bytes subject, name, method;
	bool         holds;
};

/* What a reader of the log believes. */
static uint32_t believed(struct service *s, struct lock_told *locks)
{
	struct table_query_result log = log_of(s);
	uint32_t                  count = 0, j;

	for (uint32_t i = 0; i < log.count; i++) {
		const struct item *e = &log.items[i], *data = data_of(e);
		struct bytes       method = row_text(data, "method"), name = row_text(data, "name");
		bool               set = bytes_is(row_text(e, "type"), "lock.set");

		for (j = 0; j < count; j++)
			if (bytes_equal(locks[j].subject, row_text(e, "subject")) &&
			    bytes_equal(locks[j].name, name) && bytes_equal(locks[j].method, method))
				break;
		if (j == count)
			locks[count++] =
			        (struct lock_told){.subject = row_text(e, "subject"), name, method, false};
		assert_true(set || locks[j].holds); /* nothing ends that did not begin */
		locks[j].holds = set;
	}
	return count;
}

/* Each lock that holds has a due row if something is still to be told of it; one that waits was not told of. */
static void assert_told(struct service *s)
{
	struct lock_told         *locks = arena_array(&s->f.arena, 64, sizeof(*locks));
	uint32_t                  count = believed(s, locks), due = 0, told = 0, held = 0;
	struct table_query_result rows =
	        fixture_ok(&s->f, "Scan",
	                   "{'TableName':'auth-state','FilterExpression':'contains(SK, :l)',"
	                   "'ExpressionAttributeValues':{':l':{'S':'#LOCK#'}}}")
	                .query;

	for (uint32_t i = 0; i < rows.count; i++) {
		const struct item *row = &rows.items[i];
		bool               waits = item_get(row, BYTES(LOCK_ANNOUNCE)) != NULL;

		if (!lock_holds(row, clock_wall_us(&s->f.clock.base)))
			continue;
		held += !waits;
		due += waits || row_i64(row, "ttl", 0) > 0;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct bytes sk = key_name(&s->f.arena, BYTES("SIGN_IN"), BYTES(KEY_LOCK), locks[i].name,
		                           locks[i].method);
		struct item  row;
		bool         there = row_find(s, locks[i].subject, sk, &row) &&
		             lock_holds(&row, clock_wall_us(&s->f.clock.base)) &&
		             item_get(&row, BYTES(LOCK_ANNOUNCE)) == NULL;

		assert_int_equal(there, locks[i].holds);
		told += there;
	}
	assert_int_equal(told, held);
	assert_int_equal(dues(s).count, due);
}

enum { OPEN = 4 };

/* Attempts that are begun: each is finished some time, or replaced, and so lapses. */
struct open_steps {
	struct step steps[OPEN];
	bool        begun[OPEN];
};

static void begin_move(struct service *s, struct random *r, struct open_steps *open, const char *who)
{
	static const char *const types[] = {"PASSWORD_ENTRY", "QUICK", "EVER"};
	uint32_t                 i = (uint32_t)random_below(r, OPEN);

	open->steps[i] = BEGIN(s, .subject = who, .type = types[random_below(r, 3)]);
	open->begun[i] = open->steps[i].begun.reserved;
}

static void finish_move(struct service *s, struct random *r, struct open_steps *open)
{
	uint32_t i = (uint32_t)random_below(r, OPEN);

	if (!open->begun[i])
		return;
	open->begun[i] = false;
	open->steps[i].outcome = random_below(r, 2) == 0 ? OUTCOME_FAILURE : OUTCOME_SUCCESS;
	(void)turn_try(s, &open->steps[i].turn, finish_run); /* it may be forgotten */
}

static void move_one(struct service *s, struct random *r, struct open_steps *open)
{
	const char *who = people[random_below(r, PEOPLE)];

	switch (random_below(r, 12)) {
	case 0:
	case 1:
		FAIL(s, .subject = who, .type = "PASSWORD_ENTRY");
		break;
	case 2:
	case 3:
		FAIL(s, .subject = who, .type = "CODE",
		     .method_type = random_below(r, 2) == 0 ? "SMS" : "APP");
		break;
	case 4:
		person_sets(s, who, 1 + (int64_t)random_below(r, 1000));
		break;
	case 5:
		person_clears(s, who);
		break;
	case 6:
		FAIL(s, .subject = who, .type = "EVER");
		break;
	case 7:
		reset(s);
		break;
	case 8:
	case 9:
		begin_move(s, r, open, who);
		break;
	default:
		finish_move(s, r, open);
		break;
	}
}

TEST(lock_events, say_which_locks_hold_whatever_was_done_and_however_late_expiries_are_told)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct service s;
		struct random  r = {seed};
		int64_t        now_s = 0;

		struct open_steps open = {.begun = {false}};

		open_all_on(&s);
		FAIL(&s); /* makes the table */
		for (int i = 0; i < MOVES; i++) {
			move_one(&s, &r, &open);
			if (random_below(&r, 3) == 0)
				at(&s,
				   now_s += (int64_t)random_below(&r, random_below(&r, 2) == 0 ? 20 : 200));
			if (random_below(&r, 4) == 0) {
				tell_all(&s);
				assert_told(&s);
			}
		}
		service_close(&s);
	}
}
