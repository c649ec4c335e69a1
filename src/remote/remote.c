/* Remote: opening, closing, and the store's functions. See remote.h. */
#include "remote/remote.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "remote/items.h"
#include "remote/pool.h"
#include "remote/tables.h"

enum {
	CONNECT_US = 2 * 1000 * 1000,
	OTHERS_MAX = 64, /* calls of threads that are no workers: jobs, the start */
	WAITS_MAX = 256,
	CIRCUIT_FAILURES = 10,
	CIRCUIT_PAUSE_US = 100 * 1000,
	CIRCUIT_PAUSE_MAX_US = 5 * 1000 * 1000,
};

static bool endpoint_out(const struct table *t)
{
	return outbound_out(((const struct remote_session *)t)->remote->target);
}

/* As far as was heard since the session began. */
static bool lacks(const struct table *t, struct bytes name)
{
	return schemas_lack((const struct remote_session *)t, name);
}

static void pause_turn(struct table *t, int64_t us)
{
	(void)t;
	remote_sleep(us);
}

static void make_way(struct table *t)
{
	struct remote_session *s = session_of(t);

	if (s->turn != NULL)
		pool_make_way(s->remote->pool, s->turn);
}

/* ---- tables take longer (5): the turn that waited for one has its time again ---- */

static enum err_code unhurried(struct table *t, enum err_code rc)
{
	struct remote_session *s = session_of(t);

	if (s->hurries)
		s->deadline_us = clock_steady_us(s->remote->wire_clock) + s->remote->turn_us;
	return rc;
}

static struct table *unhurry(struct table *t)
{
	session_of(t)->deadline_us = 0;
	return t;
}

static enum err_code create(struct table *t, struct arena *a, const struct table_schema *q,
                            struct table_description *r, struct err *err)
{
	return unhurried(t, remote_table_create(unhurry(t), a, q, r, err));
}

static enum err_code alter(struct table *t, struct arena *a, const struct table_alter *q,
                           struct table_description *r, struct err *err)
{
	return unhurried(t, remote_table_alter(unhurry(t), a, q, r, err));
}

static enum err_code remove_table(struct table *t, struct arena *a, struct bytes name,
                                  struct table_description *r, struct err *err)
{
	return unhurried(t, remote_table_remove(unhurry(t), a, name, r, err));
}

const struct table_backend remote_table_backend = {
        .name = "dynamodb",
        .reads_wait = true,
        .get = items_get,
        .write = items_write,
        .query = items_query,
        .batch_get = items_batch_get,
        .batch_write = items_batch_write,
        .transact_get = items_transact_get,
        .transact_write = items_transact_write,
        .create = create,
        .describe = remote_table_describe,
        .schema = remote_table_look,
        .list = remote_table_list,
        .alter = alter,
        .remove = remove_table,
        .lacks = lacks,
        .pause = pause_turn,
        .out = endpoint_out,
        .make_way = make_way,
};

/* ---- the store (table/store.h) ---- */

static struct remote *remote_of(struct store *s)
{
	return (struct remote *)s;
}

static struct table *read_begin(struct store *s, struct arena *a)
{
	struct remote_session *session = arena_alloc(a, sizeof(*session));

	remote_session_init(session, remote_of(s), NULL, true);
	session->fresh_us = 0; /* requests are turns, also those that only read: this one looks for work */
	return &session->base;
}

static void read_end(struct store *s, struct table *t)
{
	(void)s;
	remote_session_release(session_of(t));
}

static enum err_code submit(struct store *s, struct turn_request *w, struct err *err)
{
	return pool_submit(remote_of(s)->pool, w, err);
}

static void gathered(struct store *s)
{
	(void)s;
}

static int64_t now_us(struct store *s)
{
	return remote_now_us(remote_of(s));
}

/* While the circuit is open the endpoint does not answer. */
static bool ready(const struct store *s)
{
	return outbound_read(((const struct remote *)s)->target).circuit_closed;
}

static void stats(struct store *s, struct store_stats *out)
{
	struct remote *r = remote_of(s);

	*out = (struct store_stats){.clock_ahead_us = clock_wall_us(r->clock) - remote_now_us(r)};
	pool_read(r->pool, &out->requests, &out->queue_bytes);
}

static const struct store_backend store_backend = {
        .name = "dynamodb",
        .reads_wait = true,
        .read_begin = read_begin,
        .read_end = read_end,
        .submit = submit,
        .gathered = gathered,
        .now_us = now_us,
        .ready = ready,
        .stats = stats,
};

struct store *remote_store(struct remote *r)
{
	return &r->base;
}

/* ---- life ---- */

static enum err_code prefix_check(struct bytes prefix, struct err *err)
{
	if (prefix.len <= REMOTE_PREFIX_MAX && bytes_hold_only(prefix, TABLE_NAME_MARKS))
		return ERR_NONE;
	return err_set(err, ERR_INVALID,
	               "table-prefix: at most %d letters, digits and the characters " TABLE_NAME_MARKS,
	               REMOTE_PREFIX_MAX);
}

static int64_t us_of(int64_t ms, int64_t unless_set_ms)
{
	return (ms == 0 ? unless_set_ms : ms) * 1000;
}

static enum err_code target_open(struct remote *r, const struct remote_options *options, unsigned workers,
                                 struct err *err)
{
	const struct aws_network *network = aws_credentials_network(options->credentials);
	struct retry_profile      retry = options->retry == NULL ? retry_dynamodb : *options->retry;
	struct outbound_options   target = {
	          .name = "dynamodb",
	          .url = options->url,
	          .ca_file = network->ca_file,
	          .proxy = network->proxy,
	          .no_proxy = network->no_proxy,
	          .allow_private = true, /* an operator chose it: a VPC endpoint, or one on this machine */
	          .calls_max = workers + OTHERS_MAX,
	          .waits_max = WAITS_MAX,
	          .connect_us = CONNECT_US,
	          .attempt_us = us_of(options->attempt_ms, REMOTE_ATTEMPT_MS),
	          .body_bytes_max = REMOTE_ANSWER_BYTES_MAX,
	          .retry = &r->retry,
	          .circuit = {CIRCUIT_FAILURES, CIRCUIT_PAUSE_US, CIRCUIT_PAUSE_MAX_US},
	          .clock = options->wire_clock};

	if (network->tries_max > 0)
		retry.attempts_max = network->tries_max;
	r->retry = retry;
	if (outbound_open(&target, &r->target, err) == ERR_NONE)
		return ERR_NONE;
	return err_set(err, err->code,
	               "the DynamoDB endpoint must be a URL like https://host or http://host:port, without a "
	               "path: look at --endpoint, if the command has it, or AWS_ENDPOINT_URL_DYNAMODB");
}

enum err_code remote_open(struct remote **out, const struct remote_options *options, struct err *err)
{
	unsigned       workers = options->workers == 0 ? REMOTE_WORKERS_DEFAULT : options->workers;
	struct remote *r;

	*out = NULL;
	if (prefix_check(bytes_of(options->table_prefix), err) != ERR_NONE)
		return err->code;
	r = mem_zalloc(sizeof(*r));
	r->base.backend = &store_backend;
	r->clock = options->clock;
	r->wire_clock = options->wire_clock;
	r->call_us = us_of(options->call_ms, REMOTE_CALL_MS);
	r->turn_us = us_of(options->turn_ms, REMOTE_TURN_MS);
	r->began_us = clock_wall_us(r->clock);
	r->began_steady_us = clock_steady_us(r->clock);
	memcpy(r->prefix, options->table_prefix, strlen(options->table_prefix) + 1);
	if (target_open(r, options, workers, err) != ERR_NONE) {
		free(r);
		return err->code;
	}
	r->aws = aws_open(&aws_dynamodb, r->target, options->credentials, options->region, r->wire_clock);
	r->schemas = schemas_open();
	if (pool_open(&r->pool, r, workers, options->queue_bytes_max, err) != ERR_NONE) {
		remote_close(r);
		return err->code;
	}
	*out = r;
	return ERR_NONE;
}

void remote_close(struct remote *r)
{
	pool_close(r->pool);
	outbound_stop(r->target);
	aws_close(r->aws);
	outbound_close(r->target);
	schemas_close(r->schemas);
	free(r);
}

uint64_t remote_round_trips(struct remote *r)
{
	return outbound_read(r->target).tries;
}
