/* Changes and idempotency: what is committed together or not at all, and answers that are kept for a day. */
#include "service/fixture.h"

#include "service/idempotency.h"

struct changing {
	struct turn_request base;
	struct service     *s;
	struct context      ctx;
	void (*plan)(struct changing *c, struct changes *changes, struct table *t);
	int count;
};

static enum err_code change_in_turn(struct turn_request *w, struct table *t)
{
	struct changing *c = (struct changing *)w;

	c->ctx = service_context(c->s, t);
	c->plan(c, &c->ctx.changes, t);
	return changes_commit(&c->ctx.changes, t, &w->err);
}

static enum err_code change(struct service *s,
                            void (*plan)(struct changing *, struct changes *, struct table *), int count)
{
	struct changing c = {
	        .base = {.run = change_in_turn, .cost_bytes = 100}, .s = s, .plan = plan, .count = count};

	return service_run(s, &c.base);
}

static struct item row_numbered(struct changing *c, int number)
{
	struct row row;

	row_init(&row, &c->s->f.arena);
	row_set_text(&row, "PK", BYTES("many"));
	row_set_text(&row, "SK", arena_printf(&c->s->f.arena, "row-%03d", number));
	row_set_i64(&row, "count", number);
	return row_item(&row);
}

static void plan_many(struct changing *c, struct changes *changes, struct table *t)
{
	(void)t;
	for (int i = 0; i < c->count; i++)
		changes_put(changes, c->s->all.tables.names[TABLE_AUTH_STATE], row_numbered(c, i), NULL);
}

TEST(changes, as_many_rows_as_a_transaction_holds_are_committed_and_one_more_commits_nothing)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(change(&s, plan_many, CHANGES_MAX + 1), ERR_LIMIT);
	assert_int_equal(rows_in_table(&s), 0);
	assert_int_equal(change(&s, plan_many, CHANGES_MAX), ERR_NONE);
	assert_int_equal(rows_in_table(&s), CHANGES_MAX);
	assert_int_equal(change(&s, plan_many, 0), ERR_NONE);
	service_close(&s);
}

/* The second row exists already, so that nothing of the transaction may be there. */
static void plan_conflict(struct changing *c, struct changes *changes, struct table *t)
{
	struct bytes       table = c->s->all.tables.names[TABLE_AUTH_STATE];
	const struct expr *absent = row_absent(&c->s->f.arena, "PK", "ttl", t->now_us);

	changes_put(changes, table, row_numbered(c, 100), absent);
	if (c->count > 1)
		changes_put(changes, table, row_numbered(c, 0), absent);
}

TEST(changes, one_condition_that_does_not_hold_undoes_all)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(change(&s, plan_many, 1), ERR_NONE);
	assert_int_equal(change(&s, plan_conflict, 2), ERR_CONDITION);
	assert_int_equal(rows_in_table(&s), 1);
	assert_int_equal(change(&s, plan_conflict, 1), ERR_NONE);
	assert_int_equal(change(&s, plan_conflict, 1), ERR_CONDITION);
	assert_int_equal(rows_in_table(&s), 2);
	service_close(&s);
}

static void plan_twice(struct changing *c, struct changes *changes, struct table *t)
{
	struct bytes table = c->s->all.tables.names[TABLE_AUTH_STATE];

	changes_put(changes, table, row_numbered(c, 1), row_absent(&c->s->f.arena, "PK", "ttl", t->now_us));
	changes_delete(changes, table, row_key_two(&c->s->f.arena, BYTES("many"), BYTES("row-001")), NULL);
	changes_put(changes, table, row_numbered(c, 1), NULL);
	assert_int_equal(changes->count, 1);
}

TEST(changes, the_last_of_several_changes_of_a_row_counts_under_the_first_ones_condition)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(change(&s, plan_twice, 0), ERR_NONE);
	assert_int_equal(rows_in_table(&s), 1);
	assert_int_equal(change(&s, plan_twice, 0), ERR_CONDITION);
	service_close(&s);
}

static void plan_two_tables(struct changing *c, struct changes *changes, struct table *t)
{
	struct idempotency once = {.key = BYTES("k"), .caller = BYTES("-")};
	struct kept_answer kept;
	struct err         err;

	assert_int_equal(idempotency_find(&c->ctx, &once, &kept, &err), ERR_NONE);
	assert_false(kept.found);
	plan_many(c, changes, t);
	idempotency_keep(&c->ctx, &once, 200, BYTES("{}"));
}

TEST(changes, make_every_table_that_they_need_and_is_absent)
{
	struct service s;
	union answer   a;

	service_open(&s, NULL);
	assert_int_equal(change(&s, plan_two_tables, 1), ERR_NONE);
	a = fixture_ok(&s.f, "ListTables", "{}");
	assert_int_equal(a.list.count, 2);
	assert_bytes(a.list.names[0], "auth-state");
	assert_bytes(a.list.names[1], "gatehouse-idempotency");
	service_close(&s);
}

TEST(changes, a_table_that_is_not_the_services_is_not_made)
{
	struct service s;

	service_open(&s, NULL);
	s.all.tables.names[TABLE_IDEMPOTENCY] = BYTES("a-name-of-the-users-choice");
	assert_int_equal(change(&s, plan_two_tables, 1), ERR_NONE);
	assert_bytes(fixture_ok(&s.f, "ListTables", "{}").list.names[0], "a-name-of-the-users-choice");
	service_close(&s);
}

/* ---- rows that are changed twice; tables without a sort key ---- */

static struct item policy_row(struct changing *c, const char *pk, int64_t version)
{
	struct row row;

	row_init(&row, &c->s->f.arena);
	row_set_text(&row, "PK", bytes_of(pk));
	row_set_text(&row, "SK", BYTES("no key here"));
	row_set_i64(&row, "version", version);
	return row_item(&row);
}

static void plan_no_sort_key(struct changing *c, struct changes *changes, struct table *t)
{
	struct bytes table = c->s->all.tables.names[TABLE_POLICIES];

	(void)t;
	changes_put(changes, table, policy_row(c, "one", 1), NULL);
	changes_put(changes, table, policy_row(c, "two", 2), NULL);
	changes_delete(changes, table, row_key_one(&c->s->f.arena, BYTES("one")), NULL);
	assert_int_equal(changes->count, 2);
}

TEST(changes, rows_are_told_apart_by_the_keys_that_their_table_declares)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(change(&s, plan_no_sort_key, 0), ERR_NONE);
	assert_get(&s.f, "gatehouse-policies", "{'PK':{'S':'one'}}", NULL);
	assert_get(&s.f, "gatehouse-policies", "{'PK':{'S':'two'}}",
	           "{'PK':{'S':'two'},'SK':{'S':'no key here'},'version':{'N':'2'}}");
	service_close(&s);
}

static const struct expr_update *add_five(struct arena *a)
{
	struct expr_update *u = arena_zalloc(a, sizeof(*u));
	struct expr_step   *step = arena_zalloc(a, sizeof(*step));

	step->name = BYTES("count");
	u->count = 1;
	u->actions = arena_zalloc(a, sizeof(*u->actions));
	u->actions[0] = (struct expr_action){.kind = ACTION_ADD, .path = {step, 1}, .value = value_i64(5)};
	return u;
}

static void plan_update_later(struct changing *c, struct changes *changes, struct table *t)
{
	struct arena *a = &c->s->f.arena;
	struct bytes  table = c->s->all.tables.names[TABLE_AUTH_STATE];

	(void)t;
	changes_put(changes, table, row_numbered(c, 7), NULL);
	changes_update(changes, table, row_key_two(a, BYTES("many"), BYTES("row-007")), add_five(a), NULL);
	changes_delete(changes, table, row_key_two(a, BYTES("many"), BYTES("row-008")), NULL);
	changes_update(changes, table, row_key_two(a, BYTES("many"), BYTES("row-008")), add_five(a), NULL);
	assert_int_equal(changes->count, 2);
}

TEST(changes, an_update_changes_what_an_earlier_put_or_delete_left)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(change(&s, plan_many, 9), ERR_NONE); /* row 8 has a count of 8 */
	assert_int_equal(change(&s, plan_update_later, 0), ERR_NONE);
	assert_int_equal(count_in(&s, "many", "row-007"), 12);
	assert_int_equal(count_in(&s, "many", "row-008"), 5);
	service_close(&s);
}

/* ---- the budget ---- */

static void plan_all_and_keep(struct changing *c, struct changes *changes, struct table *t)
{
	plan_many(c, changes, t);
	assert_int_equal(changes_room(changes), 0);
	plan_two_tables(c, changes, t);
}

TEST(changes, there_is_room_for_the_kept_answer_however_many_rows_are_changed)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(change(&s, plan_all_and_keep, CHANGES_MAX), ERR_NONE);
	assert_int_equal(rows_in_table(&s), CHANGES_MAX);
	service_close(&s);
}

static void plan_large(struct changing *c, struct changes *changes, struct table *t)
{
	char *text = arena_zalloc(&c->s->f.arena, ITEM_BYTES_MAX);

	(void)t;
	memset(text, 'x', ITEM_BYTES_MAX);
	for (int i = 0; i < c->count; i++) {
		struct item item = row_numbered(c, i);
		struct row  row;

		row_from(&row, &c->s->f.arena, &item);
		row_set_text(&row, "text", (struct bytes){text, ITEM_BYTES_MAX - 100});
		changes_put(changes, c->s->all.tables.names[TABLE_AUTH_STATE], row_item(&row), NULL);
	}
}

TEST(changes, more_bytes_than_a_transaction_holds_commit_nothing)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(change(&s, plan_large, 11), ERR_LIMIT);
	assert_non_null(strstr(s.f.err.text, "bytes at once"));
	assert_int_equal(rows_in_table(&s), 0);
	assert_int_equal(change(&s, plan_large, 10), ERR_NONE);
	assert_int_equal(count_in(&s, "many", "row-009"), 9);
	service_close(&s);
}

/* ---- tables ---- */

TEST(tables, need_names_of_their_own)
{
	struct service_tables tables = service_tables_default();
	struct err            err;

	assert_int_equal(service_tables_check(&tables, &err), ERR_NONE);
	tables.names[TABLE_POLICIES] = BYTES("auth-state");
	assert_int_equal(service_tables_check(&tables, &err), ERR_INVALID);
	assert_non_null(strstr(err.text,
	                       "the tables auth-state and gatehouse-policies are both named \"auth-state\""));
}

static enum err_code keys_of(struct service *s, enum service_table which)
{
	struct fixture_reader reader;
	enum err_code         rc;

	fixture_reader_begin(&reader, &s->f);
	rc = tables_check_keys(&s->all.tables, which, reader.table, &s->f.arena, &s->f.err);
	fixture_reader_end(&reader);
	return rc;
}

TEST(tables, that_others_made_must_have_the_keys_of_the_services)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(keys_of(&s, TABLE_AUTH_STATE), ERR_NONE); /* absent: it will be made */
	assert_int_equal(change(&s, plan_two_tables, 1), ERR_NONE);
	assert_int_equal(keys_of(&s, TABLE_AUTH_STATE), ERR_NONE);
	assert_int_equal(keys_of(&s, TABLE_IDEMPOTENCY), ERR_NONE);
	s.all.tables.names[TABLE_RATE_LIMITS] = BYTES("auth-state"); /* which has a range key too */
	assert_int_equal(keys_of(&s, TABLE_RATE_LIMITS), ERR_INVALID);
	assert_string_equal(
	        s.f.err.text,
	        "the table \"auth-state\" cannot be used as rate-limits: its keys must be PK, of type S");
	s.all.tables.names[TABLE_AUTH_STATE] = BYTES("numbers");
	fixture_ok(&s.f, "CreateTable",
	           "{'TableName':'numbers','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':["
	           "{'AttributeName':'PK','AttributeType':'S'},{'AttributeName':'SK','AttributeType':'N'}],"
	           "'KeySchema':[{'AttributeName':'PK','KeyType':'HASH'},{'AttributeName':'SK','KeyType':'"
	           "RANGE'}]}");
	assert_int_equal(keys_of(&s, TABLE_AUTH_STATE), ERR_INVALID);
	assert_non_null(strstr(s.f.err.text, "its keys must be PK and SK, of type S"));
	service_close(&s);
}

/* ---- idempotency ---- */

static struct kept_answer find(struct service *s, const char *caller, const char *key, uint8_t digest,
                               enum err_code expected)
{
	struct idempotency    once = {.key = bytes_of(key), .caller = bytes_of(caller), .digest = {digest}};
	struct kept_answer    kept;
	struct fixture_reader reader;
	struct context        ctx;

	fixture_reader_begin(&reader, &s->f);
	ctx = service_context(s, reader.table);
	assert_int_equal(idempotency_find(&ctx, &once, &kept, &s->f.err), expected);
	fixture_reader_end(&reader);
	return kept;
}

static void plan_keep(struct changing *c, struct changes *changes, struct table *t)
{
	struct idempotency once = {.key = BYTES("key-1"), .caller = BYTES("caller"), .digest = {7}};

	(void)changes;
	(void)t;
	idempotency_keep(&c->ctx, &once, 423, BYTES("{\"verdict\":\"locked\"}\n"));
}

TEST(idempotency, an_answer_is_kept_for_a_day_to_the_second)
{
	struct service     s;
	struct kept_answer kept;

	service_open(&s, NULL);
	assert_false(find(&s, "caller", "key-1", 7, ERR_NONE).found);
	assert_int_equal(change(&s, plan_keep, 0), ERR_NONE);
	at(&s, 86399);
	kept = find(&s, "caller", "key-1", 7, ERR_NONE);
	assert_true(kept.found);
	assert_int_equal(kept.status, 423);
	assert_bytes(kept.body, "{\"verdict\":\"locked\"}\n");
	at(&s, 86400);
	assert_false(find(&s, "caller", "key-1", 7, ERR_NONE).found);
	assert_int_equal(change(&s, plan_keep, 0), ERR_NONE); /* and may be used again */
	service_close(&s);
}

TEST(idempotency, a_key_belongs_to_its_caller_and_to_one_request)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(change(&s, plan_keep, 0), ERR_NONE);
	assert_false(find(&s, "other", "key-1", 7, ERR_NONE).found);
	assert_false(find(&s, "caller", "key-2", 7, ERR_NONE).found);
	find(&s, "caller", "key-1", 8, ERR_TOKEN_MISMATCH);
	assert_string_equal(s.f.err.field, "Idempotency-Key");
	service_close(&s);
}

/* ---- verdicts ---- */

TEST(verdicts, retry_after_is_rounded_up_and_never_negative)
{
	assert_int_equal(clock_seconds_left(100, 99999999), 1);
	assert_int_equal(clock_seconds_left(100, 99000000), 1);
	assert_int_equal(clock_seconds_left(100, 98999999), 2);
	assert_int_equal(clock_seconds_left(100, 100000000), 0);
	assert_int_equal(clock_seconds_left(100, 200000000), 0);
}

TEST(verdicts, the_graver_counts)
{
	struct verdict v = {.kind = VERDICT_ALLOW};

	verdict_add(&v, &(struct verdict){.kind = VERDICT_LOCKED, .until_s = 5});
	verdict_add(&v, &(struct verdict){.kind = VERDICT_SIGNED_OUT, .until_s = 9});
	assert_int_equal(v.kind, VERDICT_LOCKED);
	verdict_add(&v, &(struct verdict){.kind = VERDICT_LOCKED, .until_s = 4});
	assert_int_equal(v.until_s, 5);
	verdict_add(&v, &(struct verdict){.kind = VERDICT_BLOCKED});
	verdict_add(&v, &(struct verdict){.kind = VERDICT_BLOCKED, .until_s = 9});
	verdict_add(&v, &(struct verdict){.kind = VERDICT_ALLOW});
	assert_int_equal(v.kind, VERDICT_BLOCKED);
	assert_int_equal(v.until_s, 0);
}

/* ---- a table that does not answer ---- */

struct mute {
	struct table  base; /* first */
	enum err_code answers[8];
	unsigned      calls;
	bool          out;
	char          tokens[8][64];
	bool          ours;  /* what was sent first has been done */
	enum err_code looks; /* what a look at its version is answered with */
};

static enum err_code mute_transact(struct table *t, struct arena *a, const struct table_transact_write *q,
                                   struct table_transact_result *r, struct err *err)
{
	struct mute *m = (struct mute *)t;

	(void)a;
	*r = (struct table_transact_result){0};
	memcpy(m->tokens[m->calls], q->token.data, q->token.len);
	if (m->answers[m->calls++] == ERR_NONE)
		return ERR_NONE;
	return err_set(err, m->answers[m->calls - 1], "as the test wants it");
}

static bool mute_out(const struct table *t)
{
	return ((const struct mute *)t)->out;
}

static enum err_code mute_get(struct table *t, struct arena *a, const struct table_get *q,
                              struct table_get_result *r, struct err *err)
{
	const struct mute *m = (struct mute *)t;
	struct row         row;

	(void)q;
	row_init(&row, a);
	row_set_text(&row, "version", bytes_of(m->ours ? m->tokens[0] : "another"));
	*r = (struct table_get_result){.found = true, .item = row_item(&row)};
	return m->looks == ERR_NONE ? ERR_NONE : err_set(err, m->looks, "as the test wants it");
}

static const struct table_backend mute_backend = {
        .get = mute_get, .transact_write = mute_transact, .out = mute_out};

static enum err_code commit_to(struct service *s, struct mute *m, bool *unsure)
{
	struct changing c = {.s = s, .count = 1};
	enum err_code   rc;

	m->base = (struct table){.backend = &mute_backend, .now_us = START_S * INT64_C(1000000)};
	c.ctx = service_context(s, &m->base);
	plan_many(&c, &c.ctx.changes, &m->base);
	rc = changes_commit(&c.ctx.changes, &m->base, &s->f.err);
	*unsure = c.ctx.changes.unsure;
	return rc;
}

TEST(changes, that_were_sent_and_then_refused_are_unknown_and_not_undone)
{
	struct mute    m = {.answers = {ERR_STORAGE, ERR_OVERLOADED, ERR_OVERLOADED, ERR_THROTTLED,
	                                ERR_OVERLOADED, ERR_OVERLOADED}};
	struct service s;
	bool           unsure;

	service_open(&s, NULL);
	assert_int_equal(commit_to(&s, &m, &unsure), ERR_STORAGE);
	assert_true(unsure && m.calls == 1 + CHANGES_REPEATS_MAX);
	assert_string_equal(m.tokens[0], m.tokens[1]);
	m = (struct mute){.answers = {ERR_STORAGE, ERR_NONE}};
	assert_int_equal(commit_to(&s, &m, &unsure), ERR_NONE);
	assert_true(!unsure && m.calls == 2);
	m = (struct mute){.answers = {ERR_STORAGE, ERR_CONDITION}}; /* the table has decided */
	assert_int_equal(commit_to(&s, &m, &unsure), ERR_CONDITION);
	assert_false(unsure);
	m = (struct mute){.answers = {ERR_OVERLOADED, ERR_LIMIT}};
	assert_int_equal(commit_to(&s, &m, &unsure), ERR_LIMIT);
	assert_false(unsure);
	service_close(&s);
}

/* An endpoint that was restarted has forgotten the token of what it did. */
TEST(changes, that_are_refused_because_of_themselves_were_made)
{
	struct mute    m = {.answers = {ERR_STORAGE, ERR_CONDITION}, .ours = true};
	struct service s;
	bool           unsure;

	service_open(&s, NULL);
	assert_int_equal(commit_to(&s, &m, &unsure), ERR_NONE);
	assert_false(unsure);
	m = (struct mute){.answers = {ERR_CONDITION},
	                  .ours = true}; /* nothing was sent before: no need to look */
	assert_int_equal(commit_to(&s, &m, &unsure), ERR_CONDITION);
	m = (struct mute){.answers = {ERR_STORAGE, ERR_CONDITION}, .looks = ERR_OVERLOADED};
	assert_int_equal(commit_to(&s, &m, &unsure), ERR_STORAGE);
	assert_true(unsure);
	service_close(&s);
}

TEST(changes, are_not_repeated_where_nobody_answers)
{
	struct mute    m = {.answers = {ERR_OVERLOADED}, .out = true};
	struct service s;
	bool           unsure;

	service_open(&s, NULL);
	assert_int_equal(commit_to(&s, &m, &unsure), ERR_OVERLOADED);
	assert_true(!unsure && m.calls == 1);
	m = (struct mute){.answers = {ERR_STORAGE}, .out = true};
	assert_int_equal(commit_to(&s, &m, &unsure), ERR_STORAGE);
	assert_true(unsure && m.calls == 1);
	service_close(&s);
}
