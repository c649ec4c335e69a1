/* Erasing the devices of a user: what push_erase.h promises, on the engine or the rough store. */
#include "service/turn.h"

#include "service/event.h"
#include "service/idempotency.h"
#include "service/push.h"
#include "service/push_erase.h"
#include "service/push_list.h"
#include "service/push_register.h"

#define TOKEN(name) "ExponentPushToken[" name "]"
#define ANN         "annabelle-lee" /* long enough to be in no hash by chance */

static const struct job_kind *const kinds[] = {&push_erase};
static struct job_counts            counts[1];

static bool is_on(void *ctx)
{
	(void)ctx;
	return true;
}

static void open(struct service *s)
{
	service_open(s, NULL);
	s->all.push_post = (struct push_post){.is_on = is_on};
	s->all.jobs = (struct jobs_settings){.kinds = kinds, .counts = counts, .kind_count = 1};
}

/* ---- calls ---- */

struct call {
	struct turn              turn;
	struct push_registration enrol;
	struct push_registered   registered;
	struct notify_request    notify;
	struct notification      n;
	struct push_search       search;
	struct push_page         page;
	struct push_erased       erased;
	struct push_sender       who;
	struct push_batches      due, taken;
	struct push_settle       settle;
	struct push_tally        tally;
	struct job_started       started;
	struct job_turn          q;
	struct job_stepped       stepped;
	struct bytes             key, body;
	uint32_t                 next;
};

#define CALL(name, expression)                                                                               \
	static enum err_code name(struct turn *t, struct err *err)                                           \
	{                                                                                                    \
		struct call *c = (struct call *)t;                                                           \
                                                                                                             \
		return expression;                                                                           \
	}

CALL(enrol, push_device_register(&t->ctx, &c->enrol, &c->registered, err))
CALL(notify, notify_user(&t->ctx, &c->notify, &c->n, err))
CALL(list, push_devices_find(&t->ctx, &c->search, &c->page, err))
CALL(due, push_due(&t->ctx, c->who.shard, PUSH_BATCH_MAX, &c->due, err))
CALL(take, push_take(&t->ctx, &(struct push_take){&c->who, &c->due}, &c->taken, &c->tally, err))
CALL(settle, push_settle(&t->ctx, &c->settle, &c->next, &c->tally, err))
CALL(start, push_erase_start(&t->ctx, BYTES(ANN), &c->erased, &c->started, err))
CALL(step, job_step(&t->ctx, &c->q, &c->stepped, err))

static enum err_code keep(struct turn *t, struct err *err)
{
	struct call       *c = (struct call *)t;
	struct idempotency once = {.key = c->key, .caller = BYTES("-")};

	(void)err;
	idempotency_keep(&t->ctx, &once, 200, c->body);
	return ERR_NONE;
}

/* ---- words ---- */

static void enrolled(struct service *s, const char *user, const char *device, const char *token)
{
	struct call c = {.enrol = {.user = bytes_of(user),
	                           .device = bytes_of(device),
	                           .platform = BYTES("ios"),
	                           .devices_max = 1000,
	                           .tokens = {[PUSH_EXPO] = bytes_of(token)}}};

	turn_take(s, &c.turn, enrol);
}

static struct notification notified(struct service *s, const char *user)
{
	struct call c = {.notify = {.user = bytes_of(user),
	                            .message = {.members = BYTES("\"title\":\"Hello\""), .ttl_s = -1}}};

	turn_take(s, &c.turn, notify);
	return c.n;
}

/* Sends whatever is due, and Expo takes it: receipts wait. */
static uint32_t accepted(struct service *s)
{
	struct push_ticket tickets[PUSH_BATCH_MAX];
	uint32_t           sent = 0;

	for (uint32_t i = 0; i < PUSH_BATCH_MAX; i++)
		tickets[i] = (struct push_ticket){true, BYTES("ticket"), {NULL, 0}};
	for (uint32_t shard = 0; shard < PUSH_SHARDS; shard++) {
		struct call c = {.who = {shard, BYTES("me")}};

		turn_take(s, &c.turn, due);
		turn_take(s, &c.turn, take);
		sent += c.taken.messages;
		c.settle = (struct push_settle){
		        .who = &c.who, .sent = &c.taken, .end = PUSH_TICKETS, .tickets = tickets};
		turn_take(s, &c.turn, settle);
	}
	return sent;
}

static void kept(struct service *s, const char *key, const char *body)
{
	struct call c = {.key = bytes_of(key), .body = bytes_of(body)};

	turn_take(s, &c.turn, keep);
}

/* As the worker does it: fetches outside of a turn, then takes the step. */
static struct job stepped(struct service *s, const struct job *j)
{
	struct call           c = {.q = {.running = {.id = j->id, .kind = j->kind}}};
	struct fixture_reader reader;
	struct context        ctx;
	struct job            now;

	fixture_reader_begin(&reader, &s->f);
	ctx = service_context(s, reader.table);
	if (job_get(&ctx, j->id, &now, &s->f.err) != ERR_NONE ||
	    push_erase.fetch(&ctx, &now, &c.q.fetched, &s->f.err) != ERR_NONE)
		fail_msg("%s", s->f.err.text);
	fixture_reader_end(&reader);
	c.q.running.key = arena_printf(&s->f.arena, "%.*s#%.*s", BYTES_ARG(j->kind), BYTES_ARG(now.unique));
	c.q.steps = now.steps;
	c.q.cursor = now.cursor;
	turn_take(s, &c.turn, step);
	assert_true(c.stepped.taken);
	return c.stepped.job;
}

static struct job gone_on(struct service *s, struct job j)
{
	enum { STEPS_MAX = 1000 };

	for (int i = 0; j.state == JOB_RUNNING; i++) {
		assert_true(i < STEPS_MAX);
		j = stepped(s, &j);
	}
	assert_int_equal(j.state, JOB_DONE);
	return j;
}

static struct job erased(struct service *s)
{
	struct call c = {0};

	turn_take(s, &c.turn, start);
	return gone_on(s, c.started.job);
}

static int64_t progress(const struct job *job, const char *name)
{
	return row_i64(&job->progress, name, 0);
}

static uint32_t listed(struct service *s, const char *user)
{
	struct call c = {.search = {.user = bytes_of(user), .inactive = true, .limit = PUSH_PAGE_MAX}};

	turn_take(s, &c.turn, list);
	return c.page.count;
}

/* Does any row of the table hold the text, as a value or as part of one? */
static bool value_has(const struct value *v, struct bytes text)
{
	if (v->type == VALUE_S)
		return bytes_contains(v->text, text);
	if (v->type == VALUE_M)
		for (uint32_t i = 0; i < v->map.count; i++)
			if (value_has(&v->map.members[i].value, text))
				return true;
	if (v->type == VALUE_L)
		for (uint32_t i = 0; i < v->list.count; i++)
			if (value_has(&v->list.items[i], text))
				return true;
	return false;
}

static uint32_t rows_with(struct service *s, const char *table, const char *text)
{
	struct bytes body = arena_printf(&s->f.arena, "{'TableName':'%s'}", table);
	union answer r;
	uint32_t     found = 0;

	memset(&r, 0, sizeof(r));
	if (fixture_try(&s->f, "Scan", body.data, &r) != ERR_NONE)
		return 0;
	for (uint32_t i = 0; i < r.query.count; i++) {
		struct value row = {.type = VALUE_M, .map = r.query.items[i]};

		found += value_has(&row, bytes_of(text)) &&
		         !bytes_is(row_text(&row.map, "SK"), CHANGES_VERSION_KEY); /* expires within a day */
	}
	return found;
}

static uint32_t all_with(struct service *s, const char *text)
{
	uint32_t found = 0;

	for (int t = 0; t < SERVICE_TABLE_COUNT; t++)
		found += rows_with(s, service_table_shape((enum service_table)t)->name, text);
	return found;
}

/* ---- erasing ---- */

/* A call that erases `count` devices; one is registered before the job goes on. */
static void erase_and_register(struct service *s, int count)
{
	struct call c = {0};
	struct job  job;

	for (int i = 0; i < count; i++)
		enrolled(s, ANN, arena_printf(&s->f.arena, "d%d", i).data,
		         arena_printf(&s->f.arena, TOKEN("%d"), i).data);
	turn_take(s, &c.turn, start);
	assert_int_equal(c.erased.more, count > 90);
	at(s, count > 90 ? 1 : 0);
	enrolled(s, ANN, "new", TOKEN("new"));
	job = gone_on(s, c.started.job);
	assert_int_equal(progress(&job, "devices"), count);
	assert_int_equal(job.args.count, 1); /* the hash */
	assert_int_equal(listed(s, ANN), 1);
	assert_int_equal(rows_with(s, "gatehouse-push-tokens", "EXPO#"), 1);
}

TEST(push_erase, it_leaves_devices_alone_that_are_registered_after_it)
{
	struct service s;

	open(&s);
	erase_and_register(&s, 3);
	service_close(&s);
	open(&s);
	erase_and_register(&s, 99);
	service_close(&s);
}

TEST(push_erase, messages_that_wait_or_were_sent_lose_the_user_and_others_keep_theirs)
{
	struct service      s;
	struct notification n;
	struct job          job;

	open(&s);
	enrolled(&s, ANN, "phone", TOKEN(ANN));
	enrolled(&s, "bob", "phone-of-bob", TOKEN("bob"));
	notified(&s, ANN);
	notified(&s, "bob");
	assert_int_equal(accepted(&s), 2); /* with tokens, until the receipts come */
	n = notified(&s, ANN);             /* waits */
	assert_true(rows_with(&s, "gatehouse-push", ANN) >= 4);
	job = erased(&s);
	assert_true(progress(&job, "messages") >= 4);
	assert_int_equal(all_with(&s, ANN), 0);
	assert_int_equal(rows_with(&s, "gatehouse-push", TOKEN("bob")), 1);
	assert_int_equal(accepted(&s), 0); /* what waited for ann goes to nobody */
	assert_int_equal(rows_with(&s, "gatehouse-push", "Hello"), 1); /* bob's, until its receipt has come */
	assert_true(n.messages == 1);
	service_close(&s);
}

TEST(push_erase, answers_kept_for_retries_go_and_those_of_others_stay)
{
	struct service s;
	struct job     job;

	open(&s);
	enrolled(&s, ANN, "phone", TOKEN(ANN));
	kept(&s, "k1",
	     "{\"userId\":\"" ANN "\",\"deviceId\":\"phone\",\"expoPushToken\":\"" TOKEN(ANN) "\"}");
	kept(&s, "k2", "{\"userId\":\"" ANN "x\",\"deviceId\":\"phone\"}");
	job = erased(&s);
	assert_int_equal(progress(&job, "answers"), 1);
	assert_int_equal(rows_with(&s, "gatehouse-idempotency", TOKEN(ANN)), 0);
	assert_int_equal(rows_with(&s, "gatehouse-idempotency", "\"" ANN "x\""), 1);
	at(&s, 10);
	kept(&s, "k3", "{\"userId\":\"" ANN "\",\"deviceId\":\"new\"}"); /* after it */
	assert_int_equal(rows_with(&s, "gatehouse-idempotency", "\"" ANN "\""), 1);
	service_close(&s);
}

TEST(push_erase, markers_of_devices_that_others_deleted_go_too)
{
	struct service s;
	struct job     job;

	open(&s);
	enrolled(&s, ANN, "phone", TOKEN(ANN));
	enrolled(&s, "bob", "phone", TOKEN("bob"));
	fixture_ok(&s.f, "DeleteItem",
	           "{'TableName':'device-tokens','Key':{'userId':{'S':'" ANN "'},'deviceId':{'S':'phone'}}}");
	assert_int_equal(rows_with(&s, "gatehouse-push-tokens", ANN), 2);
	job = erased(&s);
	assert_int_equal(progress(&job, "devices"), 0);
	assert_int_equal(progress(&job, "markers"), 1);
	assert_int_equal(all_with(&s, ANN), 0);
	assert_int_equal(rows_with(&s, "gatehouse-push-tokens", TOKEN("bob")), 1);
	service_close(&s);
}
