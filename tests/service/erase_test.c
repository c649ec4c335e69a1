/* Erasing: what erase.h promises, on the engine or the rough store. The numbers are those of erase.h. */
#define _GNU_SOURCE
#include "service/scene.h"
#include "service/turn.h"

#include "service/cursor.h"
#include "service/erase.h"
#include "service/erased.h"
#include "service/event_log.h"
#include "service/idempotency.h"
#include "service/outage.h"
#include "service/revocation.h"
#include "service/scan.h"
#include "service/user.h"

static const struct job_kind *const kinds[] = {&erase_job};
static struct job_counts            counts[1];

static void open(struct service *s)
{
	service_open(s, NULL);
	s->all.jobs = (struct jobs_settings){.kinds = kinds, .counts = counts, .kind_count = 1};
	s->all.events.on = EVENT_ALL;
}

/* ---- calls ---- */

struct call {
	struct turn          turn;
	struct bytes         id, email;
	struct user_new      create;
	struct user_created  created;
	struct email_claim   claim;
	struct email_entry   entry;
	struct email_verdict verdict;
	struct user          user;
	struct user_patch    patch;
	struct job_started   started;
	struct job_turn      q;
	struct job_stepped   stepped;
	const char          *item; /* to be put */
	const char          *why;
	struct spooled       late;
	enum spooled_end     end;
};

static enum err_code create(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_create(&t->ctx, &c->create, &c->created, err);
}

static enum err_code suspend(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_become(&t->ctx, &c->patch, USER_SUSPENDED, &c->user, err);
}

static enum err_code verify(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_email_verify(&t->ctx, &c->entry, &c->verdict, err);
}

static enum err_code add(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_email_add(&t->ctx, &(struct email_add){.user = c->id, .email = c->email}, &c->claim, err);
}

static enum err_code change(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_change(&t->ctx, &c->patch, &c->user, err);
}

static enum err_code get(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_get(&t->ctx, c->id, &c->user, err);
}

static enum err_code start(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return erase_start(&t->ctx, c->id, &c->started, err);
}

static enum err_code step(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return c->why == NULL ? job_step(&t->ctx, &c->q, &c->stepped, err)
	                      : job_fail(&t->ctx, &c->q, c->why, &c->stepped, err);
}

static enum err_code merge(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return outage_merge(&t->ctx, &c->late, t->s->rules, &c->end, err);
}

static enum err_code keep(struct turn *t, struct err *err)
{
	struct call       *c = (struct call *)t;
	struct idempotency once = {.key = c->email,
	                           .caller = BYTES("-"),
	                           .about = c->id.len > 0 ? c->id : (struct bytes){NULL, 0}};

	(void)err;
	idempotency_keep(&t->ctx, &once, 200, arena_printf(t->ctx.arena, "{\"name\":\"Ann\"}"));
	return ERR_NONE;
}

/* ---- words ---- */

static void put(struct service *s, const char *table, const char *item)
{
	struct bytes body = arena_printf(&s->f.arena, "{'TableName':'%s','Item':%s}", table, item);

	fixture_ok(&s->f, "PutItem", body.data);
}

static struct bytes verified(struct service *s, const char *user, const char *email)
{
	struct call c = {.id = bytes_of(user), .email = bytes_of(email)};

	turn_take(s, &c.turn, add);
	c.entry = (struct email_entry){
	        .user = c.id, .email_id = c.claim.email.id, .code = code_bytes(&c.claim.code)};
	turn_take(s, &c.turn, verify);
	assert_int_equal(c.verdict.outcome, ENTRY_RIGHT);
	return c.claim.email.id;
}

static void made(struct service *s, const char *id, const char *phone)
{
	struct call c = {.create = {.id = bytes_of(id)}};

	c.create.fields.first_name = (struct user_text){true, BYTES("Ann")};
	if (phone != NULL)
		c.create.fields.phone = (struct user_text){true, bytes_of(phone)};
	turn_take(s, &c.turn, create);
}

static struct job started(struct service *s, const char *id)
{
	struct call c = {.id = bytes_of(id)};

	turn_take(s, &c.turn, start);
	return c.started.job;
}

static struct job_turn turn_of(struct service *s, const struct job *j)
{
	return (struct job_turn){.running = {.id = j->id,
	                                     .kind = j->kind,
	                                     .key = arena_printf(&s->f.arena, "%.*s#%.*s", BYTES_ARG(j->kind),
	                                                         BYTES_ARG(j->unique))},
	                         .steps = JOB_ANY_STEP};
}

/* As the worker does it: fetches outside of a turn, then takes the step. */
static struct job stepped(struct service *s, const struct job *j)
{
	struct call           c = {.q = turn_of(s, j)};
	struct fixture_reader reader;
	struct context        ctx;
	struct job            now;

	fixture_reader_begin(&reader, &s->f);
	ctx = service_context(s, reader.table);
	if (job_get(&ctx, j->id, &now, &s->f.err) != ERR_NONE ||
	    erase_job.fetch(&ctx, &now, &c.q.fetched, &s->f.err) != ERR_NONE)
		fail_msg("%s", s->f.err.text);
	fixture_reader_end(&reader);
	c.q.steps = now.steps;
	c.q.cursor = now.cursor;
	turn_take(s, &c.turn, step);
	assert_true(c.stepped.taken);
	return c.stepped.job;
}

enum { STEPS_MAX = 10000 };

static struct job erased(struct service *s, const char *id)
{
	struct job j = started(s, id);

	for (int i = 0; j.state == JOB_RUNNING; i++) {
		assert_true(i < STEPS_MAX);
		j = stepped(s, &j);
	}
	assert_int_equal(j.state, JOB_DONE);
	return j;
}

static struct table_query_result rows_of(struct service *s, const char *table)
{
	struct bytes body = arena_printf(&s->f.arena, "{'TableName':'%s'}%c", table, '\0');
	union answer r;

	memset(&r, 0, sizeof(r));
	if (fixture_try(&s->f, "Scan", body.data, &r) != ERR_NONE)
		r.query.count = 0;
	return r.query;
}

static bool value_has(const struct value *v, struct bytes text);

static bool item_has(const struct item *item, struct bytes text)
{
	for (uint32_t i = 0; i < item->count; i++)
		if (value_has(&item->members[i].value, text))
			return true;
	return false;
}

static bool value_has(const struct value *v, struct bytes text)
{
	if (v->type == VALUE_S)
		return bytes_contains(v->text, text);
	if (v->type == VALUE_M)
		return item_has(&v->map, text);
	for (uint32_t i = 0; v->type == VALUE_L && i < v->list.count; i++)
		if (value_has(&v->list.items[i], text))
			return true;
	return false;
}

/* In how many rows of a table the text stands. */
static uint32_t named_in(struct service *s, enum service_table table, const char *text)
{
	struct table_query_result r = rows_of(s, service_table_shape(table)->name);
	uint32_t                  count = 0;

	for (uint32_t i = 0; i < r.count; i++)
		count += item_has(&r.items[i], bytes_of(text)) &&
		         !bytes_is(row_text(&r.items[i], "SK"),
		                   CHANGES_VERSION_KEY); /* expires within a day */
	return count;
}

/* The table also says who was erased (erased.h). */
static uint32_t answers_kept(struct service *s)
{
	struct table_query_result r = rows_of(s, "gatehouse-idempotency");
	uint32_t                  count = 0;

	for (uint32_t i = 0; i < r.count; i++)
		count += row_text(&r.items[i], "digest").len > 0;
	return count;
}

static void assert_nowhere(struct service *s, const char *text)
{
	for (int t = 0; t < SERVICE_TABLE_COUNT; t++)
		if (named_in(s, (enum service_table)t, text) > 0)
			fail_msg("%s is still in %s", text, service_table_shape((enum service_table)t)->name);
}

static struct bytes hash_of(struct service *s, enum identifier_kind kind, const char *text)
{
	struct bytes out = hashed(s, kind, text);

	return arena_printf(&s->f.arena, "%.*s", BYTES_ARG(out));
}

/* ---- (3) ---- */

TEST(erase, every_table_is_erased_or_exempt_with_a_reason)
{
	for (int t = 0; t < SERVICE_TABLE_COUNT; t++) {
		bool listed = false, exempt = false;

		for (unsigned i = 0; i < eraser_count; i++) {
			listed = listed || (int)erasers[i].table == t;
			assert_true((erasers[i].rows == NULL) != (erasers[i].owns == NULL));
		}
		for (unsigned i = 0; i < erase_exemption_count; i++)
			exempt = exempt ||
			         ((int)erase_exemptions[i].table == t && erase_exemptions[i].rows == NULL &&
			          strlen(erase_exemptions[i].why) > 20);
		if (listed == exempt)
			fail_msg("%s: add an eraser or an exemption (src/service/erasers.c)",
			         service_table_shape((enum service_table)t)->name);
	}
}

/* ---- all of it ---- */

TEST(erase, an_event_of_another_loses_the_name_of_whom_a_token_moved_to)
{
	struct service            s;
	struct table_query_result r;
	uint32_t                  moved = 0;

	open(&s);
	made(&s, "u-1", NULL);
	put(&s, "gatehouse-events",
	    "{'PK':{'S':'LOG#0'},'SK':{'S':'9'},'type':{'S':'device.moved'},'subject':{'S':'u-2'},"
	    "'data':{'M':{'deviceId':{'S':'d'},'toUserId':{'S':'u-1'}}}}");
	erased(&s, "u-1");
	r = rows_of(&s, "gatehouse-events");
	for (uint32_t i = 0; i < r.count; i++) {
		const struct value *data = item_get(&r.items[i], BYTES("data"));

		if (!bytes_is(row_text(&r.items[i], "type"), "device.moved"))
			continue;
		moved++;
		assert_true(bytes_is(row_text(&r.items[i], "subject"), "u-2"));
		assert_true(bytes_is(row_text(&data->map, "deviceId"), "d"));
		assert_true(bytes_starts_with(row_text(&data->map, "toUserId"), BYTES("erased:")));
	}
	assert_int_equal(moved, 1);
	service_close(&s);
}

static void put_outbox(struct service *s, const char *id, const char *type, const char *subject,
                       const char *more)
{
	put(s, "outbox",
	    arena_printf(&s->f.arena,
	                 "{'PK':{'S':'OUTBOX#1'},'SK':{'S':'%s'},'eventType':{'S':'%s'},'subject':{'S':'%s'},"
	                 "'payload':{'S':'{\\\"subject\\\":\\\"%s\\\",\\\"data\\\":{%s}}'}}%c",
	                 id, type, subject, subject, more, '\0')
	            .data);
}

TEST(erase, what_a_poller_has_not_passed_on_goes_but_not_what_is_anothers)
{
	static const char         other[] = "\\\"toUserId\\\":\\\"u-11\\\",\\\"deviceId\\\":\\\"d\\\"";
	static const char         to[] = "\\\"toUserId\\\":\\\"u-1\\\",\\\"deviceId\\\":\\\"d\\\"";
	struct service            s;
	struct table_query_result r;

	open(&s);
	made(&s, "u-1", NULL);
	fixture_ok(&s.f, "CreateTable",
	           "{'TableName':'outbox','BillingMode':'PAY_PER_REQUEST','KeySchema':[{'AttributeName':'PK',"
	           "'KeyType':'HASH'},"
	           "{'AttributeName':'SK','KeyType':'RANGE'}],'AttributeDefinitions':[{'AttributeName':'PK',"
	           "'AttributeType':'S'},{'AttributeName':'SK','AttributeType':'S'}]}");
	put_outbox(&s, "a", "user.created", "u-1", "");
	put_outbox(&s, "b", "user.erased", "u-1", "");
	put_outbox(&s, "c", "device.moved", "u-2", to);
	put_outbox(&s, "d", "device.moved", "u-2", other);
	erased(&s, "u-1");
	r = rows_of(&s, "outbox");
	assert_int_equal(r.count, 3);
	assert_true(bytes_is(row_text(&r.items[0], "SK"), "b") && bytes_is(row_text(&r.items[1], "SK"), "c"));
	assert_false(bytes_contains(row_text(&r.items[1], "payload"), BYTES("u-1")));
	assert_true(bytes_contains(row_text(&r.items[1], "payload"), BYTES("\"toUserId\":\"erased:")));
	assert_true(bytes_contains(row_text(&r.items[1], "payload"), BYTES("\",\"deviceId\":\"d\"}}")));
	assert_true(bytes_contains(row_text(&r.items[2], "payload"), BYTES("\"toUserId\":\"u-11\"")));
	service_close(&s);
}

/* Else lock.expired would name the user after user.erased did. */
TEST(erase, a_lock_that_expired_untold_is_not_told_of_any_more)
{
	struct service s;

	open(&s);
	made(&s, "u-1", NULL);
	put(&s, "gatehouse-events",
	    "{'PK':{'S':'DUE#3'},'SK':{'S':'000000000042#abc'},'subject':{'S':'u-1'},"
	    "'lock':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'},'until':{'N':'42'}}");
	put(&s, "gatehouse-events",
	    "{'PK':{'S':'DUE#3'},'SK':{'S':'000000000042#def'},'subject':{'S':'u-2'},"
	    "'lock':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'},'until':{'N':'42'}}");
	erased(&s, "u-1");
	assert_int_equal(named_in(&s, TABLE_EVENTS, "000000000042#abc"), 0);
	assert_int_equal(named_in(&s, TABLE_EVENTS, "000000000042#def"), 1);
	service_close(&s);
}

TEST(erase, nothing_of_the_user_is_left_in_any_table)
{
	struct service s;
	struct bytes   email, phone;
	struct call    c = {.id = BYTES("u-1"), .email = BYTES("key-1")};
	struct job     j;

	open(&s);
	made(&s, "u-1", "+442071838750");
	made(&s, "u-2", NULL);
	verified(&s, "u-1", "ann@example.org");
	verified(&s, "u-1", "ann@example.com");
	verified(&s, "u-2", "bob@example.org");
	email = hash_of(&s, IDENTIFIER_EMAIL, "ann@example.org");
	phone = hash_of(&s, IDENTIFIER_PHONE, "+442071838750");
	FAIL_TIMES(&s, 6, .subject = "u-1");
	FAIL(&s, .subject = "u-2");
	FAIL(&s, .subject = email.data);
	FAIL(&s, .subject = phone.data);
	turn_take(&s, &c.turn, keep);
	put(&s, "auth-state",
	    "{'PK':{'S':'ATTEMPT#x'},'SK':{'S':'RESERVATION'},'subjects':{'L':[{'S':'other'},{'S':'u-1'}]}}");
	put(&s, "auth-state",
	    "{'PK':{'S':'ATTEMPT#y'},'SK':{'S':'RESERVATION'},'subjects':{'L':[{'S':'u-2'}]}}");
	erased(&s, "nobody"); /* so that the table is there */
	put(&s, "gatehouse-jobs",
	    "{'PK':{'S':'JOBS'},'SK':{'S':'j-1'},'kind':{'S':'revoke-users'},'args':{'M':{'users':{'L':"
	    "[{'S':'u-1'},{'S':'u-10'}]},'conflicts':{'L':[{'S':'u-2/e-1'},{'S':'u-1/e-1'}]}}}}");
	c = (struct call){.id = BYTES("u-2"), .email = BYTES("key-2")};
	turn_take(&s, &c.turn, keep);
	put(&s, "users", "{'PK':{'S':'EMAIL#stray@example.org'},'SK':{'S':'MARKER'},'userId':{'S':'u-1'}}");
	fixture_ok(&s.f, "CreateTable",
	           "{'TableName':'rate-limits','AttributeDefinitions':[{'AttributeName':'PK','AttributeType':"
	           "'S'}],"
	           "'KeySchema':[{'AttributeName':'PK','KeyType':'HASH'}],'BillingMode':'PAY_PER_REQUEST'}");
	put(&s, "rate-limits", "{'PK':{'S':'RL#login#u-1'}}");
	put(&s, "rate-limits", "{'PK':{'S':'RL#login#xu-1'}}");
	put(&s, "rate-limits",
	    "{'PK':{'S':'RL#login#Ann@example.org'}}"); /* as old code and plain keys have it */
	put(&s, "rate-limits", "{'PK':{'S':'RL#ip#1#ann@example.com'}}");
	put(&s, "rate-limits", "{'PK':{'S':'RL#sms#+442071838750'}}");
	put(&s, "rate-limits", "{'PK':{'S':'RL#login#bob@example.org'}}");
	put(&s, "rate-limits",
	    arena_printf(&s.f.arena, "{'PK':{'S':'RL#sms#%.*s'}}%c", BYTES_ARG(phone), '\0').data);

	j = erased(&s, "u-1");

	assert_nowhere(&s, "ann@example");
	assert_nowhere(&s, "stray");
	assert_int_equal(named_in(&s, TABLE_IDEMPOTENCY, "Ann"), 1); /* the other one's */
	for (int t = 0; t < SERVICE_TABLE_COUNT;
	     t++) /* tokens in the address's name are revoked until they have expired */
		assert_int_equal(named_in(&s, (enum service_table)t, email.data), t == TABLE_REVOCATIONS);
	assert_nowhere(&s, phone.data);
	assert_int_equal(named_in(&s, TABLE_RATE_LIMITS, "u-1"), 1); /* that of xu-1 */
	assert_int_equal(named_in(&s, TABLE_AUTH_STATE, "u-1"), 0);
	assert_int_equal(named_in(&s, TABLE_USERS, "u-1"), 0);
	assert_int_equal(named_in(&s, TABLE_JOBS, "u-1/"), 0);
	assert_int_equal(named_in(&s, TABLE_JOBS, "u-1"), 1);  /* u-10; (5) */
	assert_int_equal(named_in(&s, TABLE_JOBS, "u-10"), 1); /* the other entries are as they were */
	assert_int_equal(named_in(&s, TABLE_JOBS, "u-2/e-1"), 1);
	assert_int_equal(row_i64(&j.progress, "gatehouse-jobs", 0), 1);
	assert_int_equal(named_in(&s, TABLE_EVENTS, "u-1"), 1);      /* that it was erased */
	assert_int_equal(named_in(&s, TABLE_REVOCATIONS, "u-1"), 1); /* until its tokens have expired */
	assert_int_equal(answers_kept(&s), 1);
	assert_true(row_there(&s, "ATTEMPT#y", "RESERVATION"));
	assert_int_equal(named_in(&s, TABLE_USERS, "bob@example.org"), 3);
	assert_int_equal(count_in(&s, "u-2", PASSWORDS), 1);
	assert_int_equal(row_i64(&j.progress, "users", 0),
	                 8); /* profile, two addresses, three markers, owners of two aliases */
	assert_int_equal(named_in(&s, TABLE_RATE_LIMITS, "Ann@"), 0);
	assert_int_equal(named_in(&s, TABLE_RATE_LIMITS, "+44"), 0);
	assert_int_equal(named_in(&s, TABLE_RATE_LIMITS, "bob@"), 1);
	assert_int_equal(row_i64(&j.progress, "rate-limits", 0), 5);
	assert_int_equal(row_i64(&j.progress, "gatehouse-idempotency", 0), 1);
	assert_int_equal(row_i64(&j.progress, "passes", 0), 2);
	assert_int_equal(j.args.count, 1);
	assert_true(bytes_starts_with(row_text(&j.args, "userHash"), BYTES("erased:")));
	service_close(&s);
}

TEST(erase, addresses_are_free_again_and_the_id_too)
{
	struct service s;

	open(&s);
	made(&s, "u-1", NULL);
	verified(&s, "u-1", "ann@example.org");
	erased(&s, "u-1");
	made(&s, "u-1", NULL);
	made(&s, "u-2", NULL);
	verified(&s, "u-2", "ann@example.org");
	service_close(&s);
}

/* (4) */
TEST(erase, events_keep_position_and_number_and_lose_their_data_and_numbers_go_on_for_the_id)
{
	struct service            s;
	struct table_query_result log;
	int64_t                   seq = 0, last = 0;

	open(&s);
	made(&s, "u-1", NULL);
	verified(&s, "u-1", "ann@example.org");
	erased(&s, "u-1");
	made(&s, "u-1", NULL);
	log = fixture_ok(&s.f, "Query",
	                 "{'TableName':'gatehouse-events','KeyConditionExpression':'PK = :p',"
	                 "'ExpressionAttributeValues':{':p':{'S':'LOG#0'}}}")
	              .query;
	assert_int_equal(log.count, 6); /* created, added, verified, primary; erased; created */
	for (uint32_t i = 0; i < log.count; i++) {
		const struct item *e = &log.items[i];

		assert_int_equal(event_position(e), i + 1);
		assert_int_equal(row_i64(e, "seq", 0), ++seq);
		if (i < 4) {
			assert_null(item_get(e, BYTES("data")));
			assert_true(bytes_starts_with(row_text(e, "subject"), BYTES("erased:")));
		}
		last = i;
	}
	assert_bytes(row_text(&log.items[4], "type"), "user.erased");
	assert_bytes(row_text(&log.items[4], "subject"), "u-1");
	assert_bytes(row_text(&log.items[last], "type"), "user.created");
	service_close(&s);
}

/* (1) */
TEST(erase, from_its_first_commit_on_the_user_is_refused_and_its_tokens_are_revoked)
{
	struct service s;
	struct call    c = {.id = BYTES("u-1"), .email = BYTES("new@example.org")};
	struct item    row;

	open(&s);
	made(&s, "u-1", NULL);
	started(&s, "u-1");
	turn_take(&s, &c.turn, get);
	assert_int_equal(c.user.status, USER_ERASING);
	assert_int_equal(turn_try(&s, &c.turn, add), ERR_NOT_NOW);
	c.create.id = BYTES("u-1");
	assert_int_equal(turn_try(&s, &c.turn, create), ERR_NOT_NOW);
	c.patch = (struct user_patch){.id = c.id, .fields = {.first_name = {true, BYTES("X")}}};
	assert_int_equal(turn_try(&s, &c.turn, change), ERR_NOT_NOW);
	row = rows_of(&s, "gatehouse-revocations").items[0];
	assert_bytes(row_text(&row, "PK"), "USER#u-1");
	service_close(&s);
}

TEST(erase, of_an_id_that_is_no_user_erases_what_is_known_of_it)
{
	struct service s;
	struct job     j;

	open(&s);
	FAIL_TIMES(&s, 3, .subject = "u-9");
	j = erased(&s, "u-9");
	assert_int_equal(named_in(&s, TABLE_AUTH_STATE, "u-9"), 0);
	assert_int_equal(named_in(&s, TABLE_USERS, "u-9"), 0);
	assert_true(row_i64(&j.progress, "auth-state", 0) >= 1);
	service_close(&s);
}

/* (8) */
TEST(erase, of_an_id_that_is_not_known_ends_with_its_first_step_and_tells_nobody)
{
	struct service s;
	struct call    c = {.id = BYTES("u-9")};
	struct job     j;

	open(&s);
	FAIL_TIMES(&s, 3, .subject = "u-1");
	j = started(&s, "u-9");
	assert_int_equal(turn_try(&s, &c.turn, get), ERR_NONE); /* it is `erasing` */
	j = stepped(&s, &j);
	assert_int_equal(j.state, JOB_DONE);
	assert_int_equal(j.steps, 1);
	assert_int_equal(row_i64(&j.progress, "unknown", 0), 1);
	assert_int_equal(j.args.count, 1); /* the hash: (5) */
	assert_int_equal(turn_try(&s, &c.turn, get), ERR_NOT_FOUND);
	assert_int_equal(named_in(&s, TABLE_EVENTS, "u-9"), 0);
	assert_int_equal(named_in(&s, TABLE_JOBS, "u-9"), 0);
	assert_int_equal(named_in(&s, TABLE_REVOCATIONS, "u-9"), 1);
	made(&s, "u-9", NULL);
	service_close(&s);
}

/* (8) */
TEST(erase, of_an_id_with_nothing_but_an_event_an_address_or_a_count_looks_everywhere)
{
	static const struct {
		const char *table, *item;
	} cases[] = {
	        {"gatehouse-events", "{'PK':{'S':'SUBJECT#u-9'},'SK':{'S':'SEQ'},'seq':{'N':'1'}}"},
	        {"users", "{'PK':{'S':'USER#u-9'},'SK':{'S':'EMAIL#e-1'},'email':{'S':'ann@example.org'}}"},
	        {"auth-state", "{'PK':{'S':'u-9'},'SK':{'S':'COUNT#X'},'ttl':{'N':'4102444800'}}"},
	};
	struct service s;

	open(&s);
	made(&s, "u-1", NULL); /* so that the tables are there */
	FAIL(&s, .subject = "u-1");
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct job j;

		put(&s, cases[i].table, cases[i].item);
		j = erased(&s, "u-9");
		assert_int_equal(row_i64(&j.progress, "unknown", 0), 0);
		assert_true(row_i64(&j.progress, "passes", 0) >= 2);
		assert_int_equal(named_in(&s, TABLE_AUTH_STATE, "u-9"), 0);
		assert_int_equal(named_in(&s, TABLE_USERS, "u-9"), 0);
	}
	service_close(&s);
}

/* (6) */
TEST(erase, twice_is_one_job_and_one_that_failed_goes_on)
{
	struct service s;
	struct call    c = {.id = BYTES("u-1")};
	struct job     first, again;

	open(&s);
	made(&s, "u-1", NULL);
	first = started(&s, "u-1");
	again = started(&s, "u-1");
	assert_true(bytes_equal(first.id, again.id));
	c.q = turn_of(&s, &first);
	c.why = "a bug";
	turn_take(&s, &c.turn, step);
	assert_int_equal(c.stepped.job.state, JOB_FAILED);
	again = started(&s, "u-1");
	assert_true(bytes_equal(first.id, again.id));
	assert_int_equal(again.state, JOB_RUNNING);
	again = erased(&s, "u-1");
	assert_true(bytes_equal(first.id, again.id));
	service_close(&s);
}

/* ---- what comes late (outage.h, 4) ---- */

/* A failure of the subject, who was known to be that user, so many seconds after the start. */
static enum spooled_end merged(struct service *s, struct bytes subject, const char *user, int64_t at_s)
{
	struct call c = {.late = {.q = attempt_of(s, &(struct try){.forgetful = true}),
	                          .outcome = OUTCOME_FAILURE,
	                          .at_us = (START_S + at_s) * 1000000,
	                          .once = {.key = BYTES("key"), .caller = BYTES("app"), .about = subject},
	                          .status = 200,
	                          .body = BYTES("{}")}};

	c.late.journey = c.late.q.rule->journey;
	c.late.type = c.late.q.rule->type;
	c.late.q.subjects[0] = subject;
	c.late.q.making = NULL;
	c.late.q.users = (struct bytes[SUBJECTS_MAX]){bytes_of(user)};
	turn_take(s, &c.turn, merge);
	return c.end;
}

/* The event user.erased names whom others have to erase, too. */
static uint32_t rows_about(struct service *s, struct bytes subject)
{
	const char *name = arena_printf(&s->f.arena, "%.*s%c", BYTES_ARG(subject), '\0').data;
	uint32_t    count = 0;

	for (int t = 0; t < SERVICE_TABLE_COUNT; t++)
		if (t != TABLE_EVENTS && t != TABLE_REVOCATIONS)
			count += named_in(s, (enum service_table)t, name);
	return count;
}

TEST(erase, leaves_nobody_whom_an_attempt_brings_back_that_is_merged_after_it)
{
	struct service s;
	struct bytes   address, phone;

	open(&s);
	made(&s, "ann-17", "+447700900123");
	verified(&s, "ann-17", "ann@example.com");
	address = hash_of(&s, IDENTIFIER_EMAIL, "ann@example.com");
	phone = hash_of(&s, IDENTIFIER_PHONE, "+447700900123");
	at(&s, 100);
	erased(&s, "ann-17");
	at(&s, 200);
	assert_int_equal(merged(&s, BYTES("ann-17"), "", 50), SPOOLED_VOID);
	assert_int_equal(merged(&s, address, "", 50), SPOOLED_VOID);
	assert_int_equal(merged(&s, phone, "", 50), SPOOLED_VOID);
	assert_int_equal(merged(&s, BYTES("pairwise"), "ann-17", 50), SPOOLED_VOID);
	assert_int_equal(rows_about(&s, BYTES("ann-17")) + rows_about(&s, BYTES("pairwise")), 0);
	assert_int_equal(rows_about(&s, address) + rows_about(&s, phone), 0);
	assert_int_equal(answers_kept(&s), 0); /* nor what it was answered */
	service_close(&s);
}

/* What was known before the erasure, that the address is that user's, is too old: whoever has the id now does not stand against it. */
TEST(erase, an_address_that_is_free_since_is_not_judged_by_whoever_has_the_id_now)
{
	struct service s;
	struct call    c = {.patch = {.id = BYTES("ann-17")}};
	struct bytes   address;

	open(&s);
	made(&s, "ann-17", NULL);
	verified(&s, "ann-17", "ann@example.com");
	address = hash_of(&s, IDENTIFIER_EMAIL, "ann@example.com");
	at(&s, 100);
	erased(&s, "ann-17");
	at(&s, 200);
	made(&s, "ann-17", NULL);
	turn_take(&s, &c.turn, suspend);
	assert_int_equal(merged(&s, address, "ann-17", 100 + ERASED_CLOCKS_S + 1), SPOOLED_MERGED);
	assert_int_equal(rows_about(&s, address), 2); /* the count, and the failures in a row */
	service_close(&s);
}

/* The attempt was made before the erasure. The clock of the process that recorded it is ahead of the other one's, by as much as it may be and by more. */
TEST(erase, is_not_undone_by_an_attempt_whose_process_has_a_clock_that_is_ahead)
{
	struct service s;

	open(&s);
	made(&s, "ann-17", NULL);
	at(&s, 100);
	erased(&s, "ann-17");
	at(&s, 300);
	for (int ahead_s = 1; ahead_s <= ERASED_CLOCKS_S; ahead_s += ERASED_CLOCKS_S - 1)
		assert_int_equal(merged(&s, BYTES("ann-17"), "", 100 + ahead_s), SPOOLED_VOID);
	assert_int_equal(rows_about(&s, BYTES("ann-17")), 0);
	assert_int_equal(answers_kept(&s), 0);
	assert_int_equal(merged(&s, BYTES("ann-17"), "", 100 + ERASED_CLOCKS_S + 1), SPOOLED_MERGED);
	service_close(&s);
}

TEST(erase, is_not_disturbed_by_attempts_that_are_merged_meanwhile)
{
	struct service s;
	struct job     j;

	open(&s);
	made(&s, "ann-17", NULL);
	at(&s, 100);
	j = started(&s, "ann-17");
	assert_int_equal(merged(&s, BYTES("ann-17"), "", 50), SPOOLED_VOID);
	assert_int_equal(answers_kept(&s), 0);
	while (j.state == JOB_RUNNING)
		j = stepped(&s, &j);
	assert_int_equal(merged(&s, BYTES("ann-17"), "", 50), SPOOLED_VOID);
	assert_int_equal(rows_about(&s, BYTES("ann-17")), 0);
	service_close(&s);
}

/* More rows than one commit changes: each step stays within it, and a row of another partition survives. */
TEST(erase, takes_pages_of_what_fits_a_commit)
{
	enum { ROWS = 250 };
	struct service s;
	struct job     j;

	open(&s);
	made(&s, "u-1", NULL);
	FAIL(&s, .subject = "u-11");
	for (int i = 0; i < ROWS; i++)
		row_put(&s,
		        arena_printf(&s.f.arena,
		                     "{'PK':{'S':'u-1'},'SK':{'S':'A#ERROR_COUNT#B#%d'},'count':{'N':'1'}}%c",
		                     i, '\0')
		                .data);
	j = erased(&s, "u-1");
	assert_int_equal(row_i64(&j.progress, "auth-state", 0), ROWS);
	assert_int_equal(rows_in_table(&s), 1);
	service_close(&s);
}

/* What others write behind the pass, past every refusal. */
/* It was not there when its step was fetched, or it was at another place: an endpoint may say so, and it may have been cancelled and resumed. */
TEST(erase, a_step_that_was_not_fetched_for_the_place_it_is_at_is_not_taken)
{
	struct service s;
	struct call    c = {.why = NULL};
	struct job     j;

	open(&s);
	made(&s, "ann", NULL);
	j = started(&s, "ann");
	while (j.steps < 6) /* behind the addresses and the profile: tables are read */
		j = stepped(&s, &j);
	c.q = turn_of(&s, &j);
	turn_take(&s, &c.turn, step);
	assert_false(c.stepped.taken);
	c.q.steps = j.steps;
	c.q.cursor = BYTES("1 0 elsewhere");
	turn_take(&s, &c.turn, step);
	assert_false(c.stepped.taken);
	assert_bytes(c.stepped.job.cursor, arena_printf(&s.f.arena, "%.*s", BYTES_ARG(j.cursor)).data);
	j = stepped(&s, &j);
	service_close(&s);
}

TEST(erase, a_last_pass_finds_what_was_written_meanwhile)
{
	struct service s;
	struct job     j;

	open(&s);
	made(&s, "u-1", NULL);
	j = started(&s, "u-1");
	for (int i = 0; i < 6; i++)
		j = stepped(&s, &j);
	put(&s, "users",
	    "{'PK':{'S':'USER#u-1'},'SK':{'S':'EMAIL#late'},'email':{'S':'late@example.org'},'isVerified':{'"
	    "BOOL':true}}");
	put(&s, "users", "{'PK':{'S':'EMAIL#late@example.org'},'SK':{'S':'MARKER'},'userId':{'S':'u-1'}}");
	while (j.state == JOB_RUNNING)
		j = stepped(&s, &j);
	assert_nowhere(&s, "late");
	assert_int_equal(row_i64(&j.progress, "passes", 0), 3);
	service_close(&s);
}

/* (5) of job.h: a look into the table stops at 25 of these markers. */
TEST(erase, the_cursor_of_the_job_never_holds_an_address)
{
	enum { STRAYS = 2 * SCAN_FOUND_MAX + 1 };
	struct service s;
	struct job     j;
	struct bytes   pk, sk;

	open(&s);
	made(&s, "u-1", NULL);
	for (int i = 0; i < STRAYS; i++)
		put(&s, "users",
		    arena_printf(&s.f.arena,
		                 "{'PK':{'S':'EMAIL#x%d@example.org'},'SK':{'S':'MARKER'},"
		                 "'userId':{'S':'u-1'}}%c",
		                 i, '\0')
		            .data);
	j = started(&s, "u-1");
	while (j.state == JOB_RUNNING) {
		const char  *space = j.cursor.len == 0 ? NULL : memrchr(j.cursor.data, ' ', j.cursor.len);
		struct bytes last = {space, 0};

		if (space != NULL)
			last = (struct bytes){space + 1, j.cursor.len - (size_t)(space + 1 - j.cursor.data)};
		if (last.len > 0 && cursor_unpack(&s.f.arena, last, &pk, &sk))
			assert_false(bytes_contains(pk, BYTES("@")));
		j = stepped(&s, &j);
	}
	assert_nowhere(&s, "@example.org");
	assert_int_equal(row_i64(&j.progress, "users", 0), STRAYS + 1);
	service_close(&s);
}

/* ---- together ---- */

static enum err_code act_erase(struct act *act, struct err *err)
{
	struct job_started out;

	if (erase_start(&act->ctx, BYTES("u-1"), &out, err) != ERR_NONE)
		return err->code;
	return commit(act, err);
}

/* Whoever comes after the first commit is refused; who was before it is erased. */
static enum err_code act_add(struct act *act, struct err *err)
{
	struct bytes       email = arena_printf(act->ctx.arena, "race-%d@example.org", act->n);
	struct email_add   q = {.user = BYTES("u-1"), .email = email};
	struct email_claim claim;
	enum err_code      rc = user_email_add(&act->ctx, &q, &claim, err);

	return rc == ERR_NONE ? commit(act, err) : rc == ERR_NOT_NOW ? ERR_NONE : rc;
}

/* (1) */
TEST(erase, of_writers_that_race_with_its_first_commit_nothing_is_left)
{
	enum { ACTS = 6, ROUNDS = 15 };
	struct scene x;
	struct act   acts[ACTS];
	struct job   j;

	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		scene_open(&x, seed, false);
		x.s.all.jobs = (struct jobs_settings){.kinds = kinds, .counts = counts, .kind_count = 1};
		made(&x.s, "u-1", NULL);
		for (int i = 0; i < ACTS; i++)
			acts[i] = (struct act){.run = i % 3 == 1 ? act_erase : act_add, .n = i};
		play_together(&x, acts, ACTS);
		j = erased(&x.s, "u-1"); /* the same job: both started one */
		assert_true(j.steps > 0);
		assert_nowhere(&x.s, "race-");
		assert_int_equal(named_in(&x.s, TABLE_USERS, "u-1"), 0);
		scene_close(&x);
	}
}
