/* Fixture: service functions on a real engine with a clock that tests set. An attempt is written as a client
 * thinks of it, FAIL(&s, .type = "PASSWORD_ENTRY"), runs in a turn of the writer and is committed; rows are read
 * back from the table. What is not said is what most tests want: the subject alice, in SIGN_IN. */
#ifndef TESTS_SERVICE_FIXTURE_H
#define TESTS_SERVICE_FIXTURE_H

#include "engine/fixture.h"

#include <sys/random.h>

#include "json/yaml.h"
#include "remote/far_fixture.h"
#include "rough_store.h"
#include "service/attempt.h"
#include "service/event_log.h"
#include "service/row.h"
#include "service/services.h"

/* Holds the name of a file: then suites run with all events on, and what they publish is written there. */
#define EVENTS_VARIABLE "GATEHOUSE_EVENTS"

struct service {
	struct fixture         f;
	struct rough          *rough; /* NULL: calls run on the engine itself */
	struct services        all;
	struct rules          *rules;
	struct document_holder holder; /* what tests of the policy store put into force */
	struct device_keys    *device_keys;
	uint8_t                next_device; /* ids of devices are not random here */
};

/* Indented by two, as within a policy file's section. */
static inline enum err_code rules_read_yaml(struct arena *a, const char *yaml, struct rules **out,
                                            struct err *err)
{
	struct document *d = NULL;
	struct json     *tree;

	err->code = ERR_NONE;
	*out = NULL;
	if (yaml_read(a, bytes_of(yaml), &tree, err) != ERR_NONE || rules_parse(tree, &d, err) != ERR_NONE)
		return err->code;
	*out = (struct rules *)d;
	return ERR_NONE;
}

/* The rules in force from here on. NULL: those that ship. */
static inline void service_rules(struct service *s, const char *yaml)
{
	struct document *d = NULL;
	struct json     *tree;

	if (yaml == NULL) {
		assert_int_equal(yaml_read(&s->f.arena, policy_defaults(), &tree, &s->f.err), ERR_NONE);
		tree = (struct json *)(uintptr_t)json_get(tree, BYTES("attempts"));
		s->f.err.code = ERR_NONE;
		rules_parse(tree, &d, &s->f.err);
	} else {
		rules_read_yaml(&s->f.arena, yaml, (struct rules **)&d, &s->f.err);
	}
	if (s->f.err.code != ERR_NONE)
		fail_msg("%s", s->f.err.text);
	if (s->rules != NULL)
		document_release(&s->rules->base);
	s->rules = (struct rules *)d;
}

static inline void service_random(void *out, size_t len)
{
	assert_int_equal(getrandom(out, len, 0), len);
}

/* What a service call works with here. */
static inline struct context service_context(struct service *s, struct table *t)
{
	struct context ctx = {.services = &s->all, .arena = &s->f.arena, .caller = BYTES("-")};

	ctx_begin(&ctx, t);
	return ctx;
}

static inline void service_open(struct service *s, const char *yaml)
{
	static const uint8_t secret[IDENTIFIER_KEY_BYTES] = {7};

	*s = (struct service){0};
	near_or_far_open(&s->f);
	s->rough = rough_open_if_asked(s->f.engine);
	s->all.tables = service_tables_default();
	s->all.random = service_random;
	s->all.push = (struct push_settings){.shards = 4};
	identifier_key_init(&s->all.identifiers, secret);
	s->device_keys = device_keys_make(&(struct device_key){.id = 1, .secret = {1}}, 1);
	service_rules(s, yaml);
	if (getenv(EVENTS_VARIABLE) != NULL)
		s->all.events.on = EVENT_ALL;
}

/* Every event that was published, a line of JSON each, to the end of the file. */
static inline void events_dump(struct service *s, const char *path)
{
	struct table_query_result log = fixture_ok(&s->f, "Scan",
	                                           "{'TableName':'gatehouse-events','FilterExpression':"
	                                           "'begins_with(PK, :p)','ExpressionAttributeValues':"
	                                           "{':p':{'S':'LOG#'}}}")
	                                        .query;
	FILE *file = fopen(path, "a");

	assert_non_null(file);
	for (uint32_t i = 0; i < log.count; i++) {
		struct json_writer w;
		struct buf         line;

		buf_init(&line, &s->f.arena);
		json_writer_init(&w, &line);
		event_write_json(&w, &log.items[i]);
		fprintf(file, "%.*s\n", (int)line.len, (const char *)line.data);
	}
	fclose(file);
}

static inline bool has_events(struct service *s)
{
	struct table_list_result tables = fixture_ok(&s->f, "ListTables", "{}").list;

	for (uint32_t i = 0; i < tables.count; i++)
		if (bytes_is(tables.names[i], "gatehouse-events"))
			return true;
	return false;
}

/* The events of a type, in order. */
static inline struct table_query_result events_of(struct service *s, enum event_type type)
{
	struct table_query_result none = {0};

	if (!has_events(s))
		return none;
	return fixture_ok(
	               &s->f, "Query",
	               arena_printf(&s->f.arena,
	                            "{'TableName':'gatehouse-events','KeyConditionExpression':'PK = :p',"
	                            "'FilterExpression':'#t = :t','ExpressionAttributeNames':{'#t':'type'},"
	                            "'ExpressionAttributeValues':{':p':{'S':'LOG#0'},':t':{'S':'%s'}}}%c",
	                            event_type_name(type), '\0')
	                       .data)
	        .query;
}

static inline struct item event_data(const struct item *event)
{
	const struct value *data = item_get(event, BYTES("data"));

	assert_non_null(data);
	return data->map;
}

static inline void service_close(struct service *s)
{
	if (getenv(EVENTS_VARIABLE) != NULL && has_events(s))
		events_dump(s, getenv(EVENTS_VARIABLE));
	document_release(&s->rules->base);
	document_release(&s->device_keys->base);
	rough_close_if_open(s->rough);
	near_or_far_close(&s->f);
}

/* Is what a call reads sure to stay, until it has written? Not on the rough store, nor elsewhere. */
static inline bool service_is_alone(const struct service *s)
{
	return s->rough == NULL && s->f.store == NULL;
}

/* In a turn of its own, or side by side with others. */
static inline enum err_code service_run(struct service *s, struct turn_request *w)
{
	return s->f.store != NULL ? far_run(&s->f, w, &s->f.err)
	                          : rough_or_engine_run(s->rough, s->f.engine, w, &s->f.err);
}

#define STREAK "AUTHENTICATION#LOCK#CONSECUTIVE_FAILURES"

/* ---- the clock, in seconds since the fixture began ---- */

static inline void at(struct service *s, int64_t seconds)
{
	fixture_set_clock(&s->f, START_S + seconds);
}

/* ---- attempts ---- */

struct
try {
	const char  *subject, *pairwise, *journey, *type, *method_type, *method_id, *notification, *ip;
	const char  *email;     /* the subject is this address, normalised */
	struct bytes token;     /* of a device, as SUCCEED(…).device.token gave it */
	const char  *device_id; /* of a registered one */
	bool         allowed;   /* the source is on the allow-list */
	bool         denied;    /* on the other one */
	bool         passed;    /* the challenge */
	int          risk;      /* what the caller says of it, 0 to 100 */
	bool         forgetful; /* the caller wants no token */
};

static inline struct bytes text_or(const char *text, const char *otherwise)
{
	return text != NULL        ? bytes_of(text)
	       : otherwise == NULL ? (struct bytes){NULL, 0}
	                           : bytes_of(otherwise);
}

static inline struct bytes hashed(struct service *s, enum identifier_kind kind, const char *text)
{
	struct bytes out = {NULL, 0};

	if (text != NULL && !identifier_hash(&s->all.identifiers, &s->f.arena, kind, bytes_of(text), &out))
		fail_msg("%s is not one", text);
	return out;
}

/* As api/ does it. */
static inline struct bytes network_of(struct service *s, const char *ip)
{
	struct bytes out = {NULL, 0};

	if (ip != NULL)
		identifier_hash_network(&s->all.identifiers, &s->f.arena, bytes_of(ip), &out);
	return out;
}

/* As api/ does it: the token is read, and what a new one would be made of is drawn. */
static inline void device_of(struct service *s, const struct try *t, struct attempt *q)
{
	char                 *name = arena_alloc(&s->f.arena, DEVICE_NAME_CHARS);
	struct device_making *making = arena_zalloc(&s->f.arena, sizeof(*making));

	q->token_sent = t->token.len > 0;
	for (uint32_t i = 0; q->token_sent && i < q->subject_count; i++)
		if (device_token_read(s->device_keys, t->token, q->subjects[i], name)) {
			q->device = (struct bytes){name, DEVICE_NAME_CHARS};
			q->device_of = q->subjects[i];
		}
	making->keys = s->device_keys;
	making->id[0] = ++s->next_device;
	if (!t->forgetful)
		q->making = making;
}

static inline struct attempt attempt_of(struct service *s, const struct try *t)
{
	struct attempt q = {.subjects = {text_or(t->subject, "alice"), text_or(t->pairwise, NULL)},
	                    .subject_count = t->pairwise == NULL ? 1 : 2,
	                    .rules = s->rules,
	                    .method_id = text_or(t->method_id, NULL),
	                    .method_type = text_or(t->method_type, NULL),
	                    .notification_type = text_or(t->notification, NULL),
	                    .source = hashed(s, IDENTIFIER_IP, t->ip),
	                    .network = network_of(s, t->ip),
	                    .source_allowed = t->allowed,
	                    .source_denied = t->denied,
	                    .challenge_passed = t->passed,
	                    .risk = t->risk,
	                    .device_id = text_or(t->device_id, NULL)};

	q.rule = rules_find(s->rules, text_or(t->journey, "SIGN_IN"), text_or(t->type, "PASSWORD_ENTRY"),
	                    q.method_type);
	if (q.rule == NULL)
		fail_msg("no rule for %s", t->type);
	if (t->email != NULL) {
		q.subjects[0] = hashed(s, IDENTIFIER_EMAIL, t->email);
		q.emails = arena_zalloc(&s->f.arena, SUBJECTS_MAX * sizeof(*q.emails));
		q.emails[0] = bytes_of(t->email);
	}
	device_of(s, t, &q);
	return q;
}

struct service_call {
	struct turn_request   base;
	struct service       *s;
	const struct attempt *q;
	enum outcome          outcome;
	struct attempt_result r;
};

static inline enum err_code service_in_turn(struct turn_request *w, struct table *t)
{
	struct service_call *c = (struct service_call *)w;
	struct context       ctx = service_context(c->s, t);
	enum err_code        rc;

	ctx_foresee(&ctx);
	do {
		rc = attempt_record(&ctx, c->q, c->outcome, &c->r, &w->err);
		if (rc == ERR_NONE)
			rc = changes_commit(&ctx.changes, t, &w->err);
	} while (ctx_again(&ctx, &rc, &w->err));
	return rc;
}

static inline struct attempt_result service_record(struct service *s, enum outcome outcome, struct try t)
{
	struct attempt      q = attempt_of(s, &t);
	struct service_call c = {
	        .base = {.run = service_in_turn, .cost_bytes = 100}, .s = s, .q = &q, .outcome = outcome};

	if (service_run(s, &c.base) != ERR_NONE)
		fail_msg("%s", s->f.err.text);
	return c.r;
}

#define FAIL(s, ...)    service_record(s, OUTCOME_FAILURE, (struct try){__VA_ARGS__})
#define SUCCEED(s, ...) service_record(s, OUTCOME_SUCCESS, (struct try){__VA_ARGS__})
#define SENT(s, ...)    service_record(s, OUTCOME_SENT, (struct try){__VA_ARGS__})

/* The same, several times; the last one's result. */
#define FAIL_TIMES(s, times, ...) service_repeat(s, OUTCOME_FAILURE, times, (struct try){__VA_ARGS__})
#define SENT_TIMES(s, times, ...) service_repeat(s, OUTCOME_SENT, times, (struct try){__VA_ARGS__})

static inline struct attempt_result service_repeat(struct service *s, enum outcome outcome, int times,
                                                   struct try t)
{
	struct attempt_result r = {0};

	for (int i = 0; i < times; i++)
		r = service_record(s, outcome, t);
	return r;
}

static inline void assert_verdict(const struct attempt_result *r, enum verdict_kind kind, bool counted)
{
	if (r->verdict.kind != kind || r->counted != counted)
		fail_msg("%s, %s, expected %s, %s", verdict_words[r->verdict.kind].name,
		         r->counted ? "counted" : "not counted", verdict_words[kind].name,
		         counted ? "counted" : "not counted");
}

/* ---- rows ---- */

static inline bool row_find(struct service *s, struct bytes pk, struct bytes sk, struct item *out)
{
	struct table_get        q = {.table = s->all.tables.names[TABLE_AUTH_STATE],
	                             .key = row_key_two(&s->f.arena, pk, sk),
	                             .consistent = true};
	struct table_get_result r;
	struct fixture_reader   reader;
	enum err_code           rc;

	fixture_reader_begin(&reader, &s->f);
	rc = reader.table->backend->get(reader.table, &s->f.arena, &q, &r, &s->f.err);
	fixture_reader_end(&reader);
	if (rc == ERR_NO_RESOURCE) /* nobody wrote yet */
		return false;
	if (rc != ERR_NONE)
		fail_msg("%s", s->f.err.text);
	*out = r.item;
	return r.found;
}

/* The row's count, or 0 if there is no such row. */
static inline int64_t count_in(struct service *s, const char *pk, const char *sk)
{
	struct item item;

	return row_find(s, bytes_of(pk), bytes_of(sk), &item) ? row_i64(&item, "count", 0) : 0;
}

static inline int64_t ttl_in(struct service *s, const char *pk, const char *sk)
{
	struct item item;

	return row_find(s, bytes_of(pk), bytes_of(sk), &item) ? row_i64(&item, "ttl", 0) - START_S : 0;
}

/* All but version rows, which a store that is alone does not have. */
/* Versions are none of its own, nor are the failures in a row that the shipped policies count beside all others. */
static inline uint32_t rows_in_table(struct service *s)
{
	union answer r;
	uint32_t     count = 0;

	memset(&r, 0, sizeof(r));
	if (fixture_try(&s->f, "Scan", "{'TableName':'auth-state'}", &r) != ERR_NONE)
		return 0;
	for (uint32_t i = 0; i < r.query.count; i++)
		count += !bytes_is(row_text(&r.query.items[i], "SK"), CHANGES_VERSION_KEY) &&
		         !(bytes_is(row_text(&r.query.items[i], "SK"), STREAK) &&
		           row_i64(&r.query.items[i], "count", 1) == 0);
	return count;
}

/* A row as its document draws it, whole. "history" is left out of the comparison. */
static inline void assert_row(struct service *s, const char *pk, const char *sk, const char *expected)
{
	struct item item;
	struct row  row;

	if (!row_find(s, bytes_of(pk), bytes_of(sk), &item))
		fail_msg("there is no %s", sk);
	row_from(&row, &s->f.arena, &item);
	row_remove(&row, "history");
	item = row_item(&row);
	assert_item(&s->f, &item, expected);
}

#define PASSWORDS     "SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY"
#define PASSWORD_LOCK "SIGN_IN#LOCK#PASSWORD_ENTRY"
#define SOURCE_LOCK   "SIGN_IN#LOCK#SOURCE"

/* Other code removes the user's only address: its row, and the marker. */
static inline void address_vanishes(struct service *s, const char *user, const char *email)
{
	struct table_query_result rows =
	        fixture_ok(
	                &s->f, "Query",
	                arena_printf(
	                        &s->f.arena,
	                        "{'TableName':'users','KeyConditionExpression':'PK = :p AND begins_with(SK, "
	                        ":s)','ExpressionAttributeValues':{':p':{'S':'USER#%s'},':s':{'S':'EMAIL#'}}"
	                        "}",
	                        user)
	                        .data)
	                .query;

	assert_int_equal(rows.count, 1);
	fixture_ok(&s->f, "DeleteItem",
	           arena_printf(&s->f.arena,
	                        "{'TableName':'users','Key':{'PK':{'S':'USER#%s'},'SK':{'S':'%.*s'}}}", user,
	                        BYTES_ARG(row_text(&rows.items[0], "SK")))
	                   .data);
	fixture_ok(&s->f, "DeleteItem",
	           arena_printf(&s->f.arena,
	                        "{'TableName':'users','Key':{'PK':{'S':'EMAIL#%s'},'SK':{'S':'MARKER'}}}",
	                        email)
	                   .data);
}

#endif
