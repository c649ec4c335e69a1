/* Contract: what every backend of table/table.h must do alike. A rule is a CONTRACT(suite, behaviour),
 * written with DynamoDB's JSON, decoded by dynamo/ and run on struct table_backend alone; it runs once for
 * each of `hosts`. Another backend joins by adding a host, and no rule changes. */
#ifndef TESTS_CONTRACT_CONTRACT_H
#define TESTS_CONTRACT_CONTRACT_H

#include "engine/fixture.h"
#include "item/messages.h"
#include "remote/far_fixture.h"

/* Which hosts run, by name, with commas: "embedded,own,dynoxide". */
#define HOSTS_VARIABLE "GATEHOUSE_HOSTS"
#define HOSTS_DEFAULT  "embedded,own"

/* How a backend is started and called in a test. */
struct host {
	const char *name;
	void (*open)(struct fixture *f);
	void (*close)(struct fixture *f);
	enum err_code (*call)(struct fixture_call *c, bool writes);
	void (*finish_background)(
	        struct fixture *f); /* waits for what goes on in the background, such as filling an index */
	bool knows_repeats;         /* it says that a token was seen before */
};

static inline void embedded_finish_background(struct fixture *f)
{
	engine_tick(f->engine);
}

/* ---- remote/, to our own server and to those of others ---- */

static inline void own_open(struct fixture *f)
{
	far_fixture_open(f, "own");
}

static inline void dynoxide_open(struct fixture *f)
{
	far_fixture_open(f, "dynoxide");
}

static inline void dynalite_open(struct fixture *f)
{
	far_fixture_open(f, "dynalite");
}

/* Until no index is being made or removed. */
static inline void other_finish_background(struct fixture *f)
{
	struct fixture_reader    reader;
	struct table_description d;
	bool                     busy = true;

	fixture_reader_begin(&reader, f);
	for (int i = 0; i < 600 && busy; i++) {
		busy = false;
		if (reader.table->backend->describe(reader.table, &f->arena, BYTES("things"), &d, &f->err) !=
		    ERR_NONE)
			fail_msg("%s", f->err.text);
		for (uint32_t k = 0; k < d.schema.index_count; k++)
			busy = busy || d.schema.indexes[k].status != INDEX_ACTIVE;
		usleep(busy ? 100 * 1000 : 0);
	}
	fixture_reader_end(&reader);
}

static const struct host hosts[] = {
        {"embedded", fixture_open, fixture_close, fixture_do, embedded_finish_background, true},
        {"own", own_open, far_fixture_close, fixture_do, far_own_catch_up, false},
        {"dynoxide", dynoxide_open, far_fixture_close, fixture_do, other_finish_background, false},
        {"dynalite", dynalite_open, far_fixture_close, fixture_do, other_finish_background, false},
};

#include "contract/differences.h"

struct contract {
	struct fixture     f;
	const struct host *host;
};

static inline void contract_run(const struct host *host, void (*rule)(struct contract *c))
{
	struct contract c = {.host = host};

	host->open(&c.f);
	rule(&c);
	host->close(&c.f);
}

static inline bool host_is_wanted(const char *name)
{
	const char *wanted = getenv(HOSTS_VARIABLE), *at;
	size_t      len = strlen(name);

	if (wanted == NULL || *wanted == '\0')
		wanted = HOSTS_DEFAULT;
	for (at = wanted; (at = strstr(at, name)) != NULL; at += len)
		if ((at == wanted || at[-1] == ',') && (at[len] == ',' || at[len] == '\0'))
			return true;
	return false;
}

static inline void contract_register(const char *name, CMUnitTestFunction run)
{
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		if (!host_is_wanted(hosts[i].name) || difference_of(hosts[i].name, name) != NULL)
			continue;
		char *full =
		        malloc(strlen(hosts[i].name) + strlen(name) + 2); /* lives as long as the program */

		if (test_count == TESTS_PER_FILE_MAX || full == NULL)
			abort();
		sprintf(full, "%s %s", hosts[i].name, name);
		test_list[test_count++] =
		        (struct CMUnitTest){full, run, NULL, NULL, (void *)(uintptr_t)&hosts[i]};
	}
}

#define CONTRACT(suite, behaviour)                                                                           \
	static void suite##_##behaviour(struct contract *c);                                                 \
	static void suite##_##behaviour##_run(void **state)                                                  \
	{                                                                                                    \
		contract_run(*state, suite##_##behaviour);                                                   \
	}                                                                                                    \
	__attribute__((constructor)) static void suite##_##behaviour##_register(void)                        \
	{                                                                                                    \
		contract_register(#suite ": " #behaviour, suite##_##behaviour##_run);                        \
	}                                                                                                    \
	static void suite##_##behaviour(struct contract *c)

/* ---- calling ---- */

#define CONTRACT_OPERATIONS(X)                                                                               \
	FIXTURE_OPERATIONS(X)                                                                                \
	X("TagResource", request_tag, fixture_alter, true)                                                   \
	X("UntagResource", request_untag, fixture_alter, true)

static inline enum err_code attempt(struct contract *c, const char *operation, const char *body,
                                    union answer *r)
{
	struct fixture        *f = &c->f;
	struct dynamo_request *q = arena_zalloc(&f->arena, sizeof(*q));
	struct fixture_call    call = {
	           .base = {.run = fixture_in_turn, .cost_bytes = 100}, .f = f, .q = q, .r = r};

	memset(r, 0, sizeof(*r));
#define X(name, decode, run_, writes)                                                                        \
	if (strcmp(operation, name) == 0) {                                                                  \
		call.run = run_;                                                                             \
		if (decode(&f->arena, fixture_json(f, body), q, &f->err) != ERR_NONE)                        \
			return f->err.code;                                                                  \
		return c->host->call(&call, writes);                                                         \
	}
	CONTRACT_OPERATIONS(X)
#undef X
	fail_msg("no operation %s", operation);
	return ERR_INVALID;
}

/* The body of a request, as printf makes it. */
#define BODY(c, ...) (arena_printf(&(c)->f.arena, __VA_ARGS__).data)

static inline union answer ok(struct contract *c, const char *operation, const char *body)
{
	union answer r;

	if (attempt(c, operation, body, &r) != ERR_NONE)
		fail_msg("%s %.300s: %s", operation, body, c->f.err.text);
	return r;
}

/* It is refused, with that code and (unless NULL) that text. */
static inline void refused(struct contract *c, const char *operation, const char *body, enum err_code code,
                           const char *text)
{
	union answer  r;
	enum err_code rc = attempt(c, operation, body, &r);

	if (rc != code)
		fail_msg("%s %.300s: %s", operation, body,
		         rc == ERR_NONE ? "was not refused" : c->f.err.text);
	if (text != NULL)
		assert_string_equal(c->f.err.text, text);
}

static inline const char *text_of_length(struct contract *c, size_t len)
{
	char *text = arena_alloc(&c->f.arena, len + 1);

	memset(text, 'x', len);
	text[len] = '\0';
	return text;
}

/* ---- tables and items ---- */

/* A table "things" with hash key p and, unless its type is empty, range key s; more is added to the JSON. */
static inline void create(struct contract *c, const char *p, const char *s, const char *definitions,
                          const char *more)
{
	const char *range = *s == '\0' ? "" : BODY(c, ",{'AttributeName':'s','AttributeType':'%s'}", s);

	ok(c, "CreateTable",
	   BODY(c,
	        "{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'"
	        "AttributeName':'p',"
	        "'AttributeType':'%s'}%s%s],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'}%s]%s}",
	        p, range, definitions, *s == '\0' ? "" : ",{'AttributeName':'s','KeyType':'RANGE'}", more));
}

static inline void put(struct contract *c, const char *item)
{
	ok(c, "PutItem", BODY(c, "{'TableName':'things','Item':%s}", item));
}

/* What is there under the key; NULL: nothing. */
static inline void assert_there(struct contract *c, const char *key, const char *expected)
{
	union answer r = ok(c, "GetItem", BODY(c, "{'TableName':'things','Key':%s}", key));

	assert_int_equal(r.get.found, expected != NULL);
	if (expected != NULL)
		assert_item(&c->f, &r.get.item, expected);
}

/* The `s` of each item, in order, with commas. */
static inline void assert_order(struct contract *c, const struct table_query_result *r, const char *expected)
{
	struct buf out;

	buf_init(&out, &c->f.arena);
	for (uint32_t i = 0; i < r->count; i++) {
		const struct value *v = item_get(&r->items[i], BYTES("s"));
		char                number[NUMBER_TEXT_MAX];

		if (i > 0)
			buf_add_byte(&out, ',');
		if (v->type == VALUE_N)
			buf_add(&out, number, number_format(&v->number, number));
		else
			buf_add_bytes(&out, v->text);
	}
	assert_bytes(buf_bytes(&out), expected);
}

#endif
