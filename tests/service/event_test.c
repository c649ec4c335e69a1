/* Events, the write side: numbers without gaps, in one commit with the change that they tell of, on an engine that is alone
 * and among others. The numbers are those of event.h. */
#include "service/scene.h"

#include "engine/gate.h"
#include "service/event_log.h"

static void events_on(struct scene *x, uint64_t on, uint32_t shards)
{
	x->s.all.events.on = on;
	x->s.all.events.shards = shards;
}

enum { SUBJECTS = 3 };

/* Counts what a subject did, and publishes that count; n says which subject. */
static enum err_code publish_count(struct act *act, struct err *err)
{
	struct arena *a = act->ctx.arena;
	struct bytes  subject = arena_printf(a, "s%d", act->n % SUBJECTS);
	struct looked old;
	struct row    row, data;
	int64_t       count;

	if (ctx_look(&act->ctx, subject, BYTES("A#COUNT#B"), &old, err) != ERR_NONE)
		return err->code;
	count = (old.found ? row_i64(&old.item, "count", 0) : 0) + 1;
	row_init(&row, a);
	row_set_text(&row, "PK", subject);
	row_set_text(&row, "SK", BYTES("A#COUNT#B"));
	row_set_i64(&row, "count", count);
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_item(&row));
	row_init(&data, a);
	row_set_i64(&data, "count", count);
	ctx_publish(&act->ctx,
	            &(struct event){.type = EVENT_LOCK_SET, .subject = subject, .data = row_item(&data)});
	return commit(act, err);
}

/* The events of a shard, in order. */
static struct table_query_result log_of(struct scene *x, unsigned shard)
{
	struct bytes body = arena_printf(&x->s.f.arena,
	                                 "{'TableName':'gatehouse-events','KeyConditionExpression':'PK = :p',"
	                                 "'ExpressionAttributeValues':{':p':{'S':'LOG#%u'}}}%c",
	                                 shard, '\0');

	return fixture_ok(&x->s.f, "Query", body.data).query;
}

/* What the head of a shard says; 0: there is none. */
static int64_t head_of(struct scene *x, unsigned shards, unsigned shard)
{
	struct bytes body =
	        arena_printf(&x->s.f.arena,
	                     "{'TableName':'gatehouse-events','Key':{'PK':{'S':'%.*s'},"
	                     "'SK':{'S':'LOG#%u'}}}%c",
	                     BYTES_ARG(event_head_key(&x->s.f.arena, shards, shard)), shard, '\0');
	struct table_get_result head = fixture_ok(&x->s.f, "GetItem", body.data).get;

	return head.found ? row_i64(&head.item, "position", 0) : 0;
}

/* (1), (2), (3): `count` events in all, told apart by what they tell of each subject. */
static void assert_log(struct scene *x, unsigned shards, uint32_t count)
{
	int64_t  seqs[SUBJECTS] = {0};
	uint32_t seen = 0;

	for (unsigned shard = 0; shard < shards; shard++) {
		struct table_query_result log = log_of(x, shard);

		for (uint32_t i = 0; i < log.count; i++, seen++) {
			const struct item  *e = &log.items[i];
			const struct value *data = item_get(e, BYTES("data"));
			int                 subject = row_text(e, "subject").data[1] - '0';

			assert_int_equal(event_position(e), i + 1);
			assert_int_equal(row_i64(e, "seq", 0), ++seqs[subject]);
			assert_int_equal(row_i64(&data->map, "count", 0), seqs[subject]);
		}
		assert_int_equal(head_of(x, shards, shard), log.count);
	}
	assert_int_equal(seen, count);
	for (int i = 0; i < SUBJECTS; i++) {
		char subject[] = {'s', (char)('0' + i), '\0'};

		assert_int_equal(count_in(&x->s, subject, "A#COUNT#B"), seqs[i]);
	}
}

/* ---- alone, or at an endpoint ---- */

static enum err_code play_alone(struct scene *x, enum err_code (*run)(struct act *, struct err *), int n)
{
	struct act act = {.base = {.run = act_run, .cost_bytes = 100}, .x = x, .run = run, .n = n};

	return x->rough == NULL ? store_run(x->store, &act.base, &x->s.f.err)
	                        : engine_run(x->s.f.engine, &act.base, &x->s.f.err);
}

static enum err_code publish_traced(struct act *act, struct err *err)
{
	act->ctx.trace = BYTES("4bf92f3577b34da6a3ce929d0e0e4736");
	return publish_count(act, err);
}

TEST(events, are_cloudevents_with_a_seq_and_a_position_readable_by_query)
{
	struct scene        x;
	struct item         e;
	const struct value *data;

	scene_open_anywhere(&x, 1, true);
	events_on(&x, 1u << EVENT_LOCK_SET, 1);
	clock_manual_set(&x.s.f.clock, (int64_t)START_S * 1000000 + 123456);
	assert_int_equal(play_alone(&x, publish_traced, 0), ERR_NONE);
	e = log_of(&x, 0).items[0];
	assert_bytes(row_text(&e, "SK"), "00000000000000000001");
	assert_int_equal(row_text(&e, "id").len, EVENT_ID_CHARS);
	assert_bytes(row_text(&e, "type"), "lock.set");
	assert_bytes(row_text(&e, "source"), "gatehouse");
	assert_bytes(row_text(&e, "time"), "2026-09-10T00:26:40.123456Z");
	assert_bytes(row_text(&e, "subject"), "s0");
	assert_bytes(row_text(&e, "correlationid"), "4bf92f3577b34da6a3ce929d0e0e4736");
	assert_int_equal(row_i64(&e, "seq", 0), 1);
	assert_int_equal(event_position(&e), 1);
	assert_int_equal(e.count, 10); /* what these say already is not stored: event_log_test.c */
	data = item_get(&e, BYTES("data"));
	assert_item(&x.s.f, &data->map, "{'count':{'N':'1'}}");
	assert_get(&x.s.f, "gatehouse-events", "{'PK':{'S':'HEAD'},'SK':{'S':'LOG#0'}}",
	           "{'PK':{'S':'HEAD'},'SK':{'S':'LOG#0'},'position':{'N':'1'}}");
	assert_get(&x.s.f, "gatehouse-events", "{'PK':{'S':'SUBJECT#s0'},'SK':{'S':'SEQ'}}",
	           "{'PK':{'S':'SUBJECT#s0'},'SK':{'S':'SEQ'},'seq':{'N':'1'}}");
	scene_close(&x);
}

static enum err_code publish_and_fail(struct act *act, struct err *err)
{
	struct arena *a = act->ctx.arena;

	ctx_put_if(&act->ctx, TABLE_AUTH_STATE, row_key_two(a, BYTES("s1"), BYTES("A#B#C")),
	           row_same(a, &(struct item){(struct member[]){{BYTES("count"), value_i64(7)}}, 1},
	                    (const char *const[]){"count", NULL}));
	return publish_count(act, err);
}

/* ---- the outbox ---- */

static void outbox_use(struct scene *x, bool on)
{
	struct event_policy *p = document_make(sizeof(*p));

	p->on = EVENT_ALL;
	p->source = BYTES("gatehouse");
	p->outbox = on;
	document_holder_init(&x->s.all.events.policy);
	document_put(&x->s.all.events.policy, &p->base);
}

TEST(events, are_rows_of_the_outbox_too_if_it_is_switched_on_each_with_its_change)
{
	for (int on = 0; on <= 1; on++) {
		struct scene              x;
		struct table_query_result rows;
		struct item               e;

		scene_open_anywhere(&x, 1, true);
		events_on(&x, EVENT_ALL, 1);
		outbox_use(&x, on != 0);
		clock_manual_set(&x.s.f.clock, (int64_t)START_S * 1000000 + 123456);
		assert_int_equal(play_alone(&x, publish_count, 0), ERR_NONE);
		assert_int_equal(play_alone(&x, publish_and_fail, 1), ERR_CONDITION);
		e = log_of(&x, 0).items[0];
		assert_int_equal(fixture_ok(&x.s.f, "ListTables", "{}").list.count, on ? 3 : 2);
		if (on) {
			rows = fixture_ok(&x.s.f, "Scan", "{'TableName':'outbox'}").query;
			assert_int_equal(rows.count, 1);
			assert_bytes(row_text(&rows.items[0], "PK"), "OUTBOX#1789000000123");
			assert_true(bytes_equal(row_text(&rows.items[0], "SK"), row_text(&e, "id")));
			assert_bytes(row_text(&rows.items[0], "eventType"), "lock.set");
			assert_bytes(row_text(&rows.items[0], "createdAt"), "2026-09-10T00:26:40.123456Z");
			assert_true(bytes_contains(row_text(&rows.items[0], "payload"),
			                           BYTES("\"subject\":\"s0\"")));
			assert_true(bytes_contains(row_text(&rows.items[0], "payload"),
			                           BYTES("\"data\":{\"count\":1}")));
		}
		document_holder_release(&x.s.all.events.policy);
		scene_close(&x);
	}
}

TEST(events, of_a_type_that_is_switched_off_leave_no_trace)
{
	struct scene x;

	scene_open_anywhere(&x, 1, true);
	events_on(&x, ~(UINT64_C(1) << EVENT_LOCK_SET), 1);
	fixture_engine(&x.s.f); /* at an endpoint a commit has a token */
	x.s.all.random = NULL;  /* nothing is drawn for them */
	assert_int_equal(play_alone(&x, publish_count, 0), ERR_NONE);
	assert_int_equal(fixture_ok(&x.s.f, "ListTables", "{}").list.count, 1);
	scene_close(&x);
}

TEST(events, of_a_commit_that_fails_are_not_there_and_leave_no_gap)
{
	struct scene x;

	scene_open_anywhere(&x, 1, true);
	events_on(&x, ~UINT64_C(0), 1);
	for (int i = 0; i < 10; i++)
		assert_int_equal(play_alone(&x, i % 2 == 0 ? publish_count : publish_and_fail, i),
		                 i % 2 == 0 ? ERR_NONE : ERR_CONDITION);
	assert_log(&x, 1, 5);
	scene_close(&x);
}

/* n events, as many subjects, and so many rows as there is room for. As every call does, it reads before it writes. */
static enum err_code publish_many(struct act *act, struct err *err)
{
	struct arena *a = act->ctx.arena;
	struct looked row;

	if (ctx_look(&act->ctx, BYTES("p"), BYTES("A#B#0"), &row, err) != ERR_NONE)
		return err->code;
	for (int i = 0; i < act->n; i++)
		ctx_publish(&act->ctx, &(struct event){.type = EVENT_LOCK_SET,
		                                       .subject = arena_printf(a, "s%d", i % SUBJECTS)});
	for (int i = 0; changes_room(&act->ctx.changes) > 0; i++)
		ctx_put(&act->ctx, TABLE_AUTH_STATE,
		        row_key_two(a, BYTES("p"), arena_printf(a, "A#B#%d", i)));
	changes_keep(&act->ctx.changes, act->ctx.services->tables.names[TABLE_IDEMPOTENCY],
	             row_key_one(a, BYTES("key")), NULL);
	return commit(act, err);
}

TEST(events, have_room_in_a_commit_and_are_numbered_in_the_order_they_were_published_in)
{
	for (int n = 1; n <= 90; n += 8) {
		struct scene              x;
		struct table_query_result log;

		scene_open_anywhere(&x, 1, true);
		events_on(&x, ~UINT64_C(0), 1);
		assert_int_equal(play_alone(&x, publish_many, n), ERR_NONE);
		log = log_of(&x, 0);
		assert_int_equal(log.count, n);
		for (int i = 0; i < n; i++) {
			assert_int_equal(event_position(&log.items[i]), i + 1);
			assert_int_equal(row_i64(&log.items[i], "seq", 0), i / SUBJECTS + 1);
		}
		scene_close(&x);
	}
}

TEST(events, that_do_not_fit_commit_nothing)
{
	struct scene x;

	scene_open_anywhere(&x, 1, true);
	events_on(&x, ~UINT64_C(0), 1);
	assert_int_equal(play_alone(&x, publish_many, TABLE_TRANSACT_MAX), ERR_LIMIT);
	assert_int_equal(fixture_ok(&x.s.f, "ListTables", "{}").list.count, 0);
	scene_close(&x);
}

static enum err_code move_number(struct act *act, struct err *err)
{
	return event_number_move(&act->ctx, BYTES("s0"), err) == ERR_NONE ? commit(act, err) : err->code;
}

TEST(events, of_a_subject_that_was_erased_go_on_from_its_last_number_also_several_in_a_commit)
{
	static const int64_t      seqs[] = {1, 2, 3, 1, 2, 1, 2, 4, 3, 3, 5, 6, 4};
	struct scene              x;
	struct table_query_result log;

	scene_open_anywhere(&x, 1, true);
	events_on(&x, ~UINT64_C(0), 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(play_alone(&x, publish_count, 0), ERR_NONE);
	assert_int_equal(play_alone(&x, publish_count, 1), ERR_NONE);
	assert_int_equal(play_alone(&x, publish_count, 1), ERR_NONE);
	assert_int_equal(play_alone(&x, publish_count, 2), ERR_NONE);
	assert_int_equal(play_alone(&x, publish_count, 2), ERR_NONE);
	assert_int_equal(play_alone(&x, move_number, 0), ERR_NONE);
	assert_int_equal(play_alone(&x, publish_many, 4), ERR_NONE); /* s0, s1, s2, s0 */
	assert_int_equal(play_alone(&x, publish_many, 2), ERR_NONE);
	log = log_of(&x, 0);
	assert_int_equal(log.count, 13);
	for (uint32_t i = 0; i < log.count; i++) {
		assert_int_equal(event_position(&log.items[i]), i + 1);
		assert_int_equal(row_i64(&log.items[i], "seq", 0), seqs[i]);
	}
	scene_close(&x);
}

TEST(events, are_refused_if_the_head_of_the_log_is_not_a_number)
{
	struct scene x;

	scene_open_anywhere(&x, 1, true);
	events_on(&x, ~UINT64_C(0), 1);
	assert_int_equal(play_alone(&x, publish_count, 0), ERR_NONE);
	fixture_ok(&x.s.f, "PutItem",
	           "{'TableName':'gatehouse-events','Item':{'PK':{'S':'HEAD'},'SK':{'S':'LOG#0'},"
	           "'position':{'S':'1'}}}");
	assert_int_equal(play_alone(&x, publish_count, 0), ERR_STORAGE);
	assert_int_equal(log_of(&x, 0).count, 1); /* the first is not written over */
	assert_int_equal(count_in(&x.s, "s0", "A#COUNT#B"), 1);
	scene_close(&x);
}

/* ---- among others ---- */

enum { PUBLISHERS = 4, ROUNDS = 6 };

static void publish_together(uint64_t seed, uint32_t shards, bool blind)
{
	struct scene x;
	struct act   acts[PUBLISHERS];

	scene_open(&x, seed, false);
	events_on(&x, ~UINT64_C(0), shards);
	scene_rough(&x)->blind = blind;
	for (int round = 0; round < ROUNDS; round++) {
		memset(acts, 0, sizeof(acts));
		for (int i = 0; i < PUBLISHERS; i++) {
			acts[i].run = publish_count;
			acts[i].n = round + i;
		}
		play_together(&x, acts, PUBLISHERS);
	}
	if (!blind)
		assert_log(&x, shards, PUBLISHERS * ROUNDS);
	else
		assert_true(log_of(&x, 0).count < PUBLISHERS * ROUNDS); /* some took the place of others */
	scene_close(&x);
}

TEST(events, of_four_publishers_at_once_have_no_gaps_and_each_has_its_change)
{
	static const uint32_t shards[] = {1, 2, 4};

	for (uint64_t seed = 1; seed <= 15; seed++)
		publish_together(seed, shards[seed % 3], false);
}

TEST(events, of_subjects_that_are_numbers_spread_over_the_shards_and_always_alike)
{
	static const uint32_t known[] = {3, 3, 0, 1}; /* of s0, s1 …: logs are divided like this */
	uint32_t              count[4] = {0};
	struct arena          a;

	arena_init(&a);
	for (int i = 0; i < 1000; i++)
		count[event_shard(arena_printf(&a, "user-%04d", i), 4)]++;
	for (int i = 0; i < 4; i++)
		assert_in_range(count[i], 200, 300);
	for (int i = 0; i < 4; i++)
		assert_int_equal(event_shard(arena_printf(&a, "s%d", i), 4), known[i]);
	assert_int_equal(event_shard(BYTES("ann"), 1), 0);
	arena_release(&a);
}

/* Each is written with every event of its shard, and an endpoint bounds what a partition takes. */
TEST(events, of_several_shards_have_heads_in_partitions_of_their_own)
{
	struct scene x;
	unsigned     used = 0;

	scene_open_anywhere(&x, 1, true);
	events_on(&x, ~UINT64_C(0), 4);
	for (int i = 0; i < SUBJECTS; i++)
		assert_int_equal(play_alone(&x, publish_count, i), ERR_NONE);
	for (unsigned shard = 0; shard < 4; shard++) {
		assert_int_equal(head_of(&x, 4, shard), log_of(&x, shard).count);
		used += log_of(&x, shard).count > 0;
	}
	assert_true(used >= 2);
	assert_int_equal(head_of(&x, 1, 0), 0); /* HEAD LOG#0 is of a log with one shard */
	scene_close(&x);
}

TEST(events, without_conditions_are_lost)
{
	for (uint64_t seed = 1; seed <= 3; seed++)
		publish_together(seed, 1, true);
}

/* ---- in a batch of the engine's ---- */

/* How often the key of the log's head stands in the files of the engine: once for each batch that wrote it, and in none
 * but the journal as long as nothing is written back. */
static int heads_written(struct scene *x)
{
	char  command[128], line[32];
	FILE *pipe;

	snprintf(command, sizeof(command), "grep -rao HEAD %s | wc -l", x->s.f.dir);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_non_null(fgets(line, sizeof(line), pipe));
	assert_int_equal(pclose(pipe), 0);
	return atoi(line);
}

TEST(events, of_a_batch_write_the_head_once)
{
	enum { BATCH = 50 };
	struct scene x;
	struct gate  gate;
	struct act  *acts;
	int          once;

	scene_open_anywhere(&x, 1, true);
	events_on(&x, ~UINT64_C(0), 1);
	fixture_engine(&x.s.f); /* it is about its files */
	assert_int_equal(play_alone(&x, publish_count, 0), ERR_NONE);
	once = heads_written(&x);
	assert_true(once > 0);
	acts = arena_zalloc(&x.s.f.arena, BATCH * sizeof(*acts));
	gate_close(&gate, x.s.f.engine);
	for (int i = 0; i < BATCH; i++) {
		acts[i] = (struct act){.base = {.run = act_run, .done = act_done, .cost_bytes = 100},
		                       .x = &x,
		                       .run = publish_count};
		assert_int_equal(engine_submit(x.s.f.engine, &acts[i].base, &x.s.f.err), ERR_NONE);
	}
	engine_gathered(x.s.f.engine);
	gate_open(&gate);
	assert_int_equal(play_alone(&x, publish_count, 0), ERR_NONE); /* after all of them */
	assert_log(&x, 1, BATCH + 2);
	assert_true(engine_stats(x.s.f.engine).largest_batch >= BATCH);
	assert_true(heads_written(&x) <= 3 * once); /* the last may be in the same batch */
	scene_close(&x);
}
