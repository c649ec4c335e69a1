/* Scripted world: a store whose endpoint is a scripted peer (scripted.h), and calls to it. */
#ifndef TESTS_REMOTE_SCRIPTED_WORLD_H
#define TESTS_REMOTE_SCRIPTED_WORLD_H

#include "base/log.h"
#include "remote/remote.h"
#include "scripted.h"

static const int64_t now_s = 1794830400; /* 2026-11-16T12:00:00Z */

static const struct retry_profile quick = {.attempts_max = 4,
                                           .delay_us = 10,
                                           .throttled_delay_us = 10,
                                           .delay_max_us = 10,
                                           .quota_max = 500,
                                           .cost = 1,
                                           .throttled_cost = 1};

#define OK(body)                                                                                             \
	{                                                                                                    \
		PEER_ANSWER, "HTTP/1.1 200 OK\r\nContent-Length: ?\r\n\r\n" body                             \
	}
#define BAD(body)                                                                                            \
	{                                                                                                    \
		PEER_ANSWER, "HTTP/1.1 400 Bad Request\r\nContent-Length: ?\r\n\r\n" body                    \
	}
#define UNKNOWN                                                                                              \
	{                                                                                                    \
		PEER_ANSWER, "HTTP/1.1 500 Oops\r\nContent-Length: ?\r\n\r\n{}"                              \
	}
#define ERROR(name, more)                                                                                    \
	BAD("{\"__type\":\"com.amazonaws.dynamodb.v20120810#" name "\",\"message\":\"text\"" more "}")

/* What a session asks first of a table. */
#define TABLE(status)                                                                                        \
	OK("{\"Table\":{\"TableName\":\"pre-things\",\"TableStatus\":\"" status                              \
	   "\",\"AttributeDefinitions\":[{\"AttributeName\":\"p\",\"AttributeType\":\"S\"}],\"KeySchema\":[" \
	   "{\"AttributeName\":\"p\",\"KeyType\":\"HASH\"}]}}")
#define NO_TTL   OK("{\"TimeToLiveDescription\":{\"TimeToLiveStatus\":\"DISABLED\"}}")
#define WITH_TTL OK("{\"TimeToLiveDescription\":{\"TimeToLiveStatus\":\"ENABLED\",\"AttributeName\":\"e\"}}")
#define EXPIRED  "{\"p\":{\"S\":\"a\"},\"n\":{\"N\":\"5\"},\"e\":{\"N\":\"1794830399\"}}"

struct world {
	struct peer            *peer;
	struct aws_credentials *credentials;
	struct remote          *remote;
	struct store           *store;
	struct table           *table; /* a session, as in a turn */
	struct clock_manual     clock;
	struct arena            arena;
	struct err              err;
	struct member           key[1];
};

static inline const char *variable(void *ctx, const char *name)
{
	(void)ctx;
	return strncmp(name, "AWS_ACCESS", 10) == 0 || strncmp(name, "AWS_SECRET", 10) == 0 ? "any" : NULL;
}

static inline void world_open_with(struct world *w, struct peer *p, int64_t turn_ms, int64_t attempt_ms)
{
	struct remote_options options = {.region = "eu-west-1",
	                                 .table_prefix = "pre-",
	                                 .workers = 2,
	                                 .queue_bytes_max = 1000,
	                                 .wire_clock = clock_system(),
	                                 .retry = &quick,
	                                 .call_ms = 120000,
	                                 .turn_ms = turn_ms,
	                                 .attempt_ms = attempt_ms};

	log_set_level(LOG_ERROR + 1);
	*w = (struct world){.peer = p};
	arena_init(&w->arena);
	clock_manual_init(&w->clock, now_s * 1000000);
	assert_int_equal(aws_credentials_open(&(struct environment){variable, NULL}, clock_system(),
	                                      &w->credentials, &w->err),
	                 ERR_NONE);
	options.url = arena_printf(&w->arena, "http://127.0.0.1:%u", p->port).data;
	options.clock = &w->clock.base;
	options.credentials = w->credentials;
	assert_int_equal(remote_open(&w->remote, &options, &w->err), ERR_NONE);
	w->store = remote_store(w->remote);
	w->table = w->store->backend->read_begin(w->store, &w->arena);
	w->key[0] = (struct member){BYTES("p"), value_string(BYTES("a"))};
}

static inline void world_open(struct world *w, struct peer *p)
{
	world_open_with(w, p, 120000, 120000);
}

static inline void world_close(struct world *w)
{
	w->store->backend->read_end(w->store, w->table);
	remote_close(w->remote);
	aws_credentials_close(w->credentials);
	peer_close(w->peer);
	arena_release(&w->arena);
}

static inline struct item key_of(struct world *w)
{
	return (struct item){w->key, 1};
}

static inline enum err_code get(struct world *w, struct table_get_result *r)
{
	struct table_get q = {.table = BYTES("things"), .key = key_of(w)};

	return w->table->backend->get(w->table, &w->arena, &q, r, &w->err);
}

/* ADD n 1 */
static inline struct table_write count_up(struct world *w)
{
	static struct expr_step   step = {.name = {"n", 1}};
	static struct expr_action action;
	static struct expr_update update = {&action, 1};

	action = (struct expr_action){.kind = ACTION_ADD, .path = {&step, 1}, .value = value_i64(1)};
	return (struct table_write){
	        .kind = TABLE_UPDATE, .table = BYTES("things"), .key = key_of(w), .update = &update};
}

/* attribute_exists(n) */
static inline const struct expr *exists(void)
{
	static struct expr_step    step = {.name = {"n", 1}};
	static struct expr_operand path = {.kind = OPERAND_PATH, .path = {&step, 1}};
	static struct expr         e = {.kind = EXPR_EXISTS, .operands = &path, .operand_count = 1};

	return &e;
}

static inline enum err_code write_one(struct world *w, struct table_write_result *r)
{
	struct table_write q = count_up(w);

	return w->table->backend->write(w->table, &w->arena, &q, r, &w->err);
}

static inline enum err_code transact(struct world *w, struct table_transact_result *r)
{
	struct table_write          q = count_up(w);
	struct table_transact_write t = {.writes = &q, .count = 1, .token = BYTES("the-token")};

	return w->table->backend->transact_write(w->table, &w->arena, &t, r, &w->err);
}

static inline bool seen_has(const struct world *w, unsigned request, const char *text)
{
	return strstr(w->peer->seen[request], text) != NULL;
}

#endif
