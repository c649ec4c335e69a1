/* The workers of events: locks are told of when they expire, also after a start; old events go, but not before those who want them have them. */
#include "service/turn.h"

#include <time.h>

#include "server/event_trim.h"
#include "server/lock_expiry.h"
#include "service/event_trim.h"
#include "service/lease.h"
#include "service/lock.h"
#include "service/reservation.h"

#define RULES                                                                                                \
	"locks: {STANDARD: {duration: 900}}\n"                                                               \
	"journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 2, life: 7200}}}}\n"

enum { PATIENCE_MS = 60000, WIDE_BYTES = 300 * 1024 };

static struct store *store_of(struct service *s)
{
	return s->rough != NULL ? &s->rough->base : engine_store(s->f.engine);
}

static void open_on(struct service *s)
{
	service_open(s, RULES);
	s->all.events.on =
	        EVENT_BIT(EVENT_LOCK_SET) | EVENT_BIT(EVENT_LOCK_CLEARED) | EVENT_BIT(EVENT_LOCK_EXPIRED);
}

/* The worker is in a thread of its own: what it does comes soon. */
static void await_events(struct service *s, enum event_type type, uint32_t count)
{
	struct timespec pause = {0, 5000000};
	uint32_t        seen = 0;

	for (int ms = 0; ms < PATIENCE_MS && seen < count; ms += 5) {
		seen = events_of(s, type).count;
		nanosleep(&pause, NULL);
	}
	assert_int_equal(seen, count);
}

static void await_expired(struct service *s, uint32_t count)
{
	await_events(s, EVENT_LOCK_EXPIRED, count);
}

/* As the dispatcher does: the worker is told once it is durable. */
static void lock(struct service *s, const char *subject)
{
	struct attempt_result r = FAIL_TIMES(s, 2, .subject = subject, .type = "PASSWORD_ENTRY");

	assert_verdict(&r, VERDICT_LOCKED, true);
	if (s->all.expiry_post.due != NULL)
		s->all.expiry_post.due(s->all.expiry_post.ctx, r.verdict.until_s);
}

TEST(lock_expiry, tells_of_a_lock_once_its_time_has_come_and_of_the_next_one_too)
{
	struct service      s;
	struct lock_expiry *e;

	open_on(&s);
	assert_int_equal(lock_expiry_open(&e, &s.all, store_of(&s), &s.f.err), ERR_NONE);
	lock(&s, "alice");
	at(&s, 899);
	lock(&s, "bob");
	assert_int_equal(events_of(&s, EVENT_LOCK_EXPIRED).count, 0);
	at(&s, 900);
	await_expired(&s, 1);
	at(&s, 1799);
	await_expired(&s, 2);
	lock_expiry_close(e);
	assert_null(s.all.expiry_post.due);
	assert_bytes(row_text(&events_of(&s, EVENT_LOCK_EXPIRED).items[0], "subject"), "alice");
	assert_bytes(row_text(&events_of(&s, EVENT_LOCK_EXPIRED).items[1], "subject"), "bob");
	service_close(&s);
}

TEST(lock_expiry, tells_after_a_start_what_ended_meanwhile_and_no_more)
{
	enum { MANY = 30 };
	struct service      s;
	struct lock_expiry *e;

	open_on(&s);
	for (int i = 0; i < MANY; i++)
		lock(&s, arena_printf(&s.f.arena, "s%d%c", i, '\0').data);
	at(&s, 5000);
	lock(&s, "alice"); /* holds still */
	for (int starts = 0; starts < 2; starts++) {
		assert_int_equal(lock_expiry_open(&e, &s.all, store_of(&s), &s.f.err), ERR_NONE);
		await_expired(&s, MANY);
		lock_expiry_close(e);
	}
	assert_int_equal(events_of(&s, EVENT_LOCK_EXPIRED).count, MANY);
	service_close(&s);
}

/* All of one shard, and hundreds of each second: more than a look reads, and than setting a lock once looked through. */
TEST(lock_expiry, tells_after_a_start_of_more_than_512_locks_of_a_shard_in_order)
{
	enum { MANY = 600, BATCH = 25 };
	struct service            s;
	struct lock_expiry       *e;
	struct table_query_result told;
	struct buf                json;

	open_on(&s);
	lock(&s, "alice"); /* makes the table */
	for (int i = 0; i < MANY; i += BATCH) {
		buf_init(&json, &s.f.arena);
		buf_add_bytes(&json, BYTES("{'RequestItems':{'gatehouse-events':["));
		for (int j = i; j < i + BATCH; j++)
			buf_add_bytes(&json, arena_printf(&s.f.arena,
			                                  "%s{'PutRequest':{'Item':{'PK':{'S':'DUE#7'},"
			                                  "'SK':{'S':'%012d#%024d'},'subject':{'S':'s%d'},"
			                                  "'lock':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'},"
			                                  "'until':{'N':'%d'}}}}",
			                                  j > i ? "," : "", START_S + 10 + j % 2, j, j,
			                                  START_S + 10 + j % 2));
		buf_add_bytes(&json, (struct bytes){"]}}", 4});
		fixture_ok(&s.f, "BatchWriteItem", (const char *)json.data);
	}
	at(&s, 500);
	assert_int_equal(lock_expiry_open(&e, &s.all, store_of(&s), &s.f.err), ERR_NONE);
	await_expired(&s, MANY);
	lock_expiry_close(e);
	told = events_of(&s, EVENT_LOCK_EXPIRED);
	assert_int_equal(told.count, MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct item *data = &item_get(&told.items[i], BYTES("data"))->map;

		assert_bytes(row_text(data, "until"),
		             i < MANY / 2 ? "2026-09-10T00:26:50Z" : "2026-09-10T00:26:51Z");
	}
	service_close(&s);
}

struct beginning {
	struct turn         turn;
	struct attempt      q;
	struct bytes        name;
	struct begin_result begun;
};

static enum err_code begin_run(struct turn *turn, struct err *err)
{
	struct beginning *b = (struct beginning *)turn;

	return attempt_begin(&turn->ctx, &b->q, b->name, &b->begun, err);
}

/* Each takes more of a commit than one that expires: no batch may be too large. */
TEST(lock_expiry, tells_of_locks_whose_attempts_were_never_finished)
{
	enum { MANY = 60, LAPSE_S = 30 };
	struct service      s;
	struct lock_expiry *e;

	open_on(&s);
	for (int i = 0; i < MANY; i++) {
		const char      *who = arena_printf(&s.f.arena, "s%d%c", i, '\0').data;
		struct beginning b = {.q = attempt_of(&s, &(struct try){.subject = who}),
		                      .name = bytes_of(who)};

		FAIL(&s, .subject = who);
		turn_take(&s, &b.turn, begin_run);
		assert_true(b.begun.locked);
	}
	at(&s, LAPSE_S);
	assert_int_equal(lock_expiry_open(&e, &s.all, store_of(&s), &s.f.err), ERR_NONE);
	await_events(&s, EVENT_LOCK_SET, MANY);
	assert_int_equal(events_of(&s, EVENT_LOCK_EXPIRED).count, 0);
	at(&s, 900);
	await_expired(&s, MANY);
	lock_expiry_close(e);
	assert_int_equal(events_of(&s, EVENT_LOCK_SET).count, MANY);
	service_close(&s);
}

/* … nor if each lock is of as many ids as a call can name. */
TEST(lock_expiry, tells_of_locks_of_many_ids_whose_attempts_were_never_finished)
{
	enum { MANY = 20, LAPSE_S = 30 };
	struct service            s;
	struct lock_expiry       *e;
	struct table_query_result told;

	open_on(&s);
	for (int i = 0; i < MANY; i++) {
		const char      *who = arena_printf(&s.f.arena, "s%d%c", i, '\0').data;
		struct beginning b = {.q = attempt_of(&s, &(struct try){.subject = who}),
		                      .name = bytes_of(who)};

		while (b.q.subject_count < SUBJECTS_MAX) {
			b.q.subjects[b.q.subject_count] =
			        arena_printf(&s.f.arena, "%s-%u", who, b.q.subject_count);
			b.q.subject_count++;
		}
		FAIL(&s, .subject = who);
		turn_take(&s, &b.turn, begin_run);
		assert_true(b.begun.locked);
	}
	at(&s, LAPSE_S);
	assert_int_equal(lock_expiry_open(&e, &s.all, store_of(&s), &s.f.err), ERR_NONE);
	await_events(&s, EVENT_LOCK_SET, MANY);
	lock_expiry_close(e);
	told = events_of(&s, EVENT_LOCK_SET);
	for (uint32_t i = 0; i < told.count; i++) {
		const struct value *data = item_get(&told.items[i], BYTES("data"));
		const struct value *others = item_get(&data->map, BYTES("otherSubjects"));

		assert_true(others != NULL && others->list.count == SUBJECTS_MAX - 1);
	}
	service_close(&s);
}

TEST(lock_expiry, of_two_processes_on_one_table_tells_once)
{
	struct service      s;
	struct lock_expiry *one, *other;

	open_on(&s);
	lock(&s, "alice");
	at(&s, 900);
	assert_int_equal(lock_expiry_open(&one, &s.all, store_of(&s), &s.f.err), ERR_NONE);
	assert_int_equal(lock_expiry_open(&other, &s.all, store_of(&s), &s.f.err), ERR_NONE);
	await_expired(&s, 1);
	lock_expiry_close(one);
	lock_expiry_close(other);
	assert_int_equal(events_of(&s, EVENT_LOCK_EXPIRED).count, 1);
	service_close(&s);
}

/* ---- leases ---- */

struct lease_turn {
	struct turn  turn;
	struct bytes work, holder;
	bool         held, drops;
};

static enum err_code lease_run(struct turn *turn, struct err *err)
{
	struct lease_turn *l = (struct lease_turn *)turn;

	return l->drops ? lease_drop(&turn->ctx, l->work, l->holder, err)
	                : lease_take(&turn->ctx, l->work, l->holder, &l->held, err);
}

static bool leases_of(struct service *s, const char *work, const char *holder)
{
	struct lease_turn l = {.work = bytes_of(work), .holder = bytes_of(holder)};

	turn_take(s, &l.turn, lease_run);
	return l.held;
}

static bool leases(struct service *s, const char *holder)
{
	return leases_of(s, "work", holder);
}

TEST(lease, is_one_processs_until_it_ends_or_is_dropped_and_everyones_on_a_table_that_is_alone)
{
	struct service    s;
	struct lease_turn drop = {.work = BYTES("work"), .holder = BYTES("b"), .drops = true};

	open_on(&s);
	assert_true(leases(&s, "a"));
	assert_int_equal(leases(&s, "b"), s.rough == NULL);
	at(&s, LEASE_S - 1);
	assert_true(leases(&s, "a")); /* prolonged */
	at(&s, 2 * LEASE_S - 2);
	assert_int_equal(leases(&s, "b"), s.rough == NULL);
	at(&s, 2 * LEASE_S - 1);
	assert_true(leases(&s, "b"));
	assert_int_equal(leases(&s, "a"), s.rough == NULL);
	turn_take(&s, &drop.turn, lease_run);
	assert_true(leases(&s, "a"));
	service_close(&s);
}

/* ---- telling, with and without the lease ---- */

/* A look that began at this second or later has ended. */
static void await_look(struct service *s, int64_t second)
{
	struct timespec pause = {0, 5000000};

	for (int ms = 0; ms < PATIENCE_MS && s->all.events.expiries_told_s < START_S + second; ms += 5)
		nanosleep(&pause, NULL);
	assert_true(s->all.events.expiries_told_s >= START_S + second);
}

/* Nobody tells the worker. */
static void lock_elsewhere(struct service *s, const char *subject)
{
	struct attempt_result r = FAIL_TIMES(s, 2, .subject = subject, .type = "PASSWORD_ENTRY");

	assert_verdict(&r, VERDICT_LOCKED, true);
}

TEST(lock_expiry, of_a_lock_that_another_process_set_is_known_a_look_later_and_told_at_its_second)
{
	struct service      s;
	struct lock_expiry *e;

	open_on(&s);
	if (s.rough == NULL) { /* alone */
		service_close(&s);
		return;
	}
	assert_int_equal(lock_expiry_open(&e, &s.all, store_of(&s), &s.f.err), ERR_NONE);
	await_look(&s, 0);
	lock_elsewhere(&s, "alice");
	at(&s, LOCK_EXPIRY_LOOK_S);
	await_look(&s, LOCK_EXPIRY_LOOK_S);
	at(&s, 899); /* the look of that second sees that one ends in the next */
	await_look(&s, 899);
	assert_int_equal(events_of(&s, EVENT_LOCK_EXPIRED).count, 0);
	at(&s, 900);
	await_expired(&s, 1);
	lock_expiry_close(e);
	service_close(&s);
}

TEST(lock_expiry, of_a_short_lock_is_told_by_the_process_that_set_it_though_another_has_the_lease)
{
	struct service      s;
	struct lock_expiry *e;

	service_open(&s, "locks: {STANDARD: {duration: 20}}\n"
	                 "journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 2, life: 7200}}}}\n");
	s.all.events.on = EVENT_BIT(EVENT_LOCK_EXPIRED);
	assert_true(leases_of(&s, "lock-expiry", "another"));
	assert_int_equal(lock_expiry_open(&e, &s.all, store_of(&s), &s.f.err), ERR_NONE);
	lock(&s, "alice");
	at(&s, 20);
	await_expired(&s, 1);
	assert_true(leases_of(&s, "lock-expiry", "another")); /* still */
	lock(&s, "alice");
	at(&s, 40);
	await_expired(&s, 2);
	assert_true(leases_of(&s, "lock-expiry", "another"));
	lock_expiry_close(e);
	service_close(&s);
}

/* ---- trimming ---- */

static void policy_use(struct service *s, int64_t keep_s, int64_t lag_max_s)
{
	struct event_policy *p = document_make(sizeof(*p));

	p->on = EVENT_ALL;
	p->keep_s = keep_s;
	p->lag_max_s = lag_max_s;
	p->source = BYTES("gatehouse");
	document_holder_init(&s->all.events.policy);
	document_put(&s->all.events.policy, &p->base);
}

static void reader_put(struct service *s, const char *pk, const char *name, int position)
{
	fixture_ok(&s->f, "PutItem",
	           arena_printf(&s->f.arena,
	                        "{'TableName':'gatehouse-events','Item':{'PK':{'S':'%s'},'SK':{'S':'%s'},"
	                        "'positions':{'L':[{'N':'%d'}]}}}%c",
	                        pk, name, position, '\0')
	                   .data);
}

static enum err_code ping_run(struct turn *turn, struct err *err)
{
	(void)err;
	ctx_publish(&turn->ctx, &(struct event){.type = EVENT_TEST_PING, .subject = BYTES("s")});
	return ERR_NONE;
}

static void ping(struct service *s, int times)
{
	for (int i = 0; i < times; i++) {
		struct turn turn = {0};

		turn_take(s, &turn, ping_run);
	}
}

struct trim_turn {
	struct turn         turn;
	struct trim_readers readers;
	struct trim_step    step;
};

static enum err_code trim_run(struct turn *turn, struct err *err)
{
	struct trim_turn *t = (struct trim_turn *)turn;

	if (trim_readers_read(&turn->ctx, &t->readers, err) != ERR_NONE)
		return err->code;
	return event_trim(&turn->ctx, 0, &t->readers, &t->step, err);
}

static struct trim_step trim(struct service *s)
{
	struct trim_turn *t = arena_zalloc(&s->f.arena, sizeof(*t));

	turn_take(s, &t->turn, trim_run);
	return t->step;
}

static int64_t first_of(struct service *s)
{
	union answer r =
	        fixture_ok(&s->f, "GetItem",
	                   "{'TableName':'gatehouse-events','Key':{'PK':{'S':'HEAD'},'SK':{'S':'FIRST#0'}}}");

	return r.get.found ? row_i64(&r.get.item, "position", 0) : 1;
}

TEST(event_trim, removes_what_was_kept_long_enough_step_by_step_and_numbers_go_on)
{
	struct service   s;
	struct trim_step step;

	open_on(&s);
	policy_use(&s, 1000, 5000);
	s.all.events.on = EVENT_ALL;
	ping(&s, TRIM_ROWS + 10);
	at(&s, 500);
	ping(&s, 3);
	at(&s, 999);
	step = trim(&s);
	assert_true(step.trimmed == 0 && !step.more && !step.held);
	at(&s, 1000);
	step = trim(&s);
	assert_true(step.trimmed == TRIM_ROWS && step.more && step.unread == 0);
	step = trim(&s);
	assert_true(step.trimmed == 10 && !step.more);
	assert_int_equal(first_of(&s), TRIM_ROWS + 11);
	assert_int_equal(events_of(&s, EVENT_TEST_PING).count, 3);
	ping(&s, 1);
	assert_int_equal(event_position(&events_of(&s, EVENT_TEST_PING).items[3]), TRIM_ROWS + 14);
	assert_int_equal(row_i64(&events_of(&s, EVENT_TEST_PING).items[3], "seq", 0), TRIM_ROWS + 14);
	document_holder_release(&s.all.events.policy);
	service_close(&s);
}

TEST(event_trim, waits_for_consumers_and_targets_until_they_are_too_far_behind)
{
	struct service   s;
	struct trim_step step;

	open_on(&s);
	policy_use(&s, 1000, 5000);
	s.all.events.on = EVENT_ALL;
	ping(&s, 10);
	reader_put(&s, "CONSUMER", "quick", 9);
	reader_put(&s, "TARGET", "slow", 4);
	at(&s, 1000);
	step = trim(&s);
	assert_true(step.trimmed == 4 && step.held && step.unread == 0);
	reader_put(&s, "TARGET", "slow", 6);
	step = trim(&s);
	assert_true(step.trimmed == 2 && step.held);
	at(&s, 4999);
	assert_int_equal(trim(&s).trimmed, 0);
	at(&s, 5000);
	step = trim(&s);
	assert_true(step.trimmed == 4 && step.unread == 4 && !step.held);
	assert_bytes(step.reader, "slow");
	assert_int_equal(first_of(&s), 11);
	document_holder_release(&s.all.events.policy);
	service_close(&s);
}

/* A reader whose row is as large as those of consumers with many partitions and members become. */
static void wide_reader_put(struct service *s, const char *name, int position)
{
	char *wide = arena_alloc(&s->f.arena, WIDE_BYTES);

	memset(wide, 'w', WIDE_BYTES);
	fixture_ok(
	        &s->f, "PutItem",
	        arena_printf(&s->f.arena,
	                     "{'TableName':'gatehouse-events','Item':{'PK':{'S':'CONSUMER'},'SK':{'S':'%s'},"
	                     "'positions':{'L':[{'N':'%d'}]},'members':{'S':'%.*s'}}}%c",
	                     name, position, WIDE_BYTES, wide, '\0')
	                .data);
}

TEST(event_trim, waits_for_readers_whose_rows_are_more_than_a_page_of_a_query)
{
	static const char *const names[] = {"a", "b", "c", "d", "e"};
	struct service           s;
	struct trim_step         step;

	open_on(&s);
	policy_use(&s, 1000, 5000);
	s.all.events.on = EVENT_ALL;
	ping(&s, 10);
	for (int i = 0; i < 5; i++)
		wide_reader_put(&s, names[i], 8 - i);
	at(&s, 1000);
	step = trim(&s);
	assert_true(step.trimmed == 4 && step.held && step.unread == 0);
	document_holder_release(&s.all.events.policy);
	service_close(&s);
}

TEST(event_trim, is_done_by_a_worker_that_counts_it)
{
	struct timespec       pause = {0, 5000000};
	struct event_numbers  numbers = {0};
	struct service        s;
	struct event_trimmer *t;

	open_on(&s);
	policy_use(&s, 1000, 5000);
	s.all.events.on = EVENT_ALL;
	s.all.event_numbers = &numbers;
	ping(&s, 2 * TRIM_ROWS);
	reader_put(&s, "CONSUMER", "slow", 1);
	at(&s, 5000);
	assert_int_equal(event_trim_open(&t, &s.all, store_of(&s), &s.f.err), ERR_NONE);
	for (int ms = 0; ms < PATIENCE_MS && metric_value(&numbers.trimmed) < 2 * TRIM_ROWS; ms += 5)
		nanosleep(&pause, NULL);
	event_trim_close(t);
	assert_int_equal(metric_value(&numbers.trimmed), 2 * TRIM_ROWS);
	assert_int_equal(metric_value(&numbers.trimmed_unread), 2 * TRIM_ROWS - 1);
	document_holder_release(&s.all.events.policy);
	service_close(&s);
}
