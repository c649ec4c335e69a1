/* Place: see place.h. Reads ask on this thread; writes are turns, and this thread waits for each. */
#include "migrate/place.h"

#include <stdlib.h>

#include "remote/inspect.h"

struct place {
	struct arena            arena; /* of the texts */
	struct aws_credentials *credentials;
	struct remote          *remote;
	struct store           *store;
};

/* ---- opening ---- */

static enum err_code store_open(struct place *p, const struct place_options *o, struct err *err)
{
	const char *url = o->endpoint != NULL ? o->endpoint : aws_credentials_dynamodb(p->credentials);
	const char *region = o->region != NULL ? o->region : aws_credentials_region(p->credentials);

	if (region == NULL)
		return err_set(err, ERR_INVALID,
		               "no region is set: set --region or AWS_REGION (of a Gatehouse: its --region, "
		               "which is local unless set)");
	if (remote_open(&p->remote,
	                &(struct remote_options){
	                        .url = url != NULL ? url
	                                           : aws_url(&p->arena, "dynamodb", region,
	                                                     aws_credentials_network(p->credentials)),
	                        .region = region,
	                        .table_prefix = o->table_prefix == NULL ? "" : o->table_prefix,
	                        .credentials = p->credentials,
	                        .workers = 1,
	                        .queue_bytes_max = 64 << 20,
	                        .clock = clock_system(),
	                        .wire_clock = clock_system(),
	                        .call_ms = PLACE_CALL_MS,
	                        .attempt_ms = PLACE_ATTEMPT_MS},
	                err) != ERR_NONE)
		return err->code;
	p->store = remote_store(p->remote);
	return ERR_NONE;
}

/* Does it answer, and take our requests? Any table will do, and none need be there. */
static enum err_code ask(struct place *p, struct err *err)
{
	struct table_schema schema;
	struct arena        a;
	enum err_code       rc;

	arena_init(&a);
	rc = remote_look(p->remote, &a, BYTES("gatehouse-policies"), &schema, err);
	arena_release(&a);
	return rc == ERR_NO_RESOURCE ? ERR_NONE : rc;
}

enum err_code place_open(struct place **out, const struct place_options *options, struct err *err)
{
	struct place *p = mem_zalloc(sizeof(*p));

	arena_init(&p->arena);
	if (aws_credentials_open(&environment_process, clock_system(), &p->credentials, err) == ERR_NONE &&
	    store_open(p, options, err) == ERR_NONE && ask(p, err) == ERR_NONE) {
		*out = p;
		return ERR_NONE;
	}
	place_close(p);
	return err->code;
}

void place_close(struct place *p)
{
	if (p == NULL)
		return;
	if (p->remote != NULL)
		remote_close(p->remote);
	if (p->credentials != NULL)
		aws_credentials_close(p->credentials);
	arena_release(&p->arena);
	free(p);
}

/* ---- reading ---- */

enum err_code place_describe(struct place *p, struct arena *a, struct bytes table,
                             struct table_description *out, struct err *err)
{
	struct table *t = p->store->backend->read_begin(p->store, a);
	enum err_code rc = t->backend->describe(t, a, table, out, err);

	p->store->backend->read_end(p->store, t);
	return rc;
}

/* A row that lacks this attribute. */
struct lacking {
	struct expr_step    step;
	struct expr_operand path;
	struct expr         expr;
};

static struct expr *lacks(struct lacking *l, struct bytes name)
{
	l->step = (struct expr_step){.name = name};
	l->path = (struct expr_operand){.kind = OPERAND_PATH, .path = {&l->step, 1}};
	l->expr = (struct expr){.kind = EXPR_NOT_EXISTS, .operands = &l->path, .operand_count = 1};
	return &l->expr;
}

enum err_code place_scan(struct place *p, struct arena *a, const struct table_query *q,
                         struct table_query_result *out, struct err *err)
{
	struct lacking     key, shards;
	struct expr        both = {.kind = EXPR_AND,
	                           .left = lacks(&key, BYTES("gatehouseKeyCheck")),
	                           .right = lacks(&shards, BYTES("logShards"))};
	struct table_query all = *q;
	struct table      *t = p->store->backend->read_begin(p->store, a);
	enum err_code      rc;

	all.filter = q->count_only ? &both : &key.expr;
	rc = t->backend->query(t, a, &all, out, err);
	p->store->backend->read_end(p->store, t);
	return rc;
}

enum err_code place_batch_get(struct place *p, struct arena *a, const struct table_batch_get *q,
                              struct table_batch_get_result *out, struct err *err)
{
	struct table *t = p->store->backend->read_begin(p->store, a);
	enum err_code rc = t->backend->batch_get(t, a, q, out, err);

	p->store->backend->read_end(p->store, t);
	return rc;
}

/* ---- writing ---- */

struct writing {
	struct turn_request             base; /* first */
	struct arena                   *arena;
	const struct table_batch_write *batch;  /* or */
	const struct table_schema      *schema; /* a table to be made, or */
	const struct table_alter       *alter;  /* changed */
};

static enum err_code write_run(struct turn_request *w, struct table *t)
{
	struct writing                 *q = (struct writing *)w;
	struct table_batch_write_result done;
	struct table_description        now;

	if (q->batch != NULL)
		return t->backend->batch_write(t, q->arena, q->batch, &done, &w->err);
	if (q->schema != NULL)
		return t->backend->create(t, q->arena, q->schema, &now, &w->err);
	return t->backend->alter(t, q->arena, q->alter, &now, &w->err);
}

enum err_code place_batch_write(struct place *p, struct arena *a, const struct table_batch_write *q,
                                struct err *err)
{
	struct writing w = {.base = {.run = write_run, .cost_bytes = 1 << 20}, .arena = a, .batch = q};

	return store_run(p->store, &w.base, err);
}

enum err_code place_create(struct place *p, struct arena *a, const struct table_schema *schema,
                           struct err *err)
{
	struct writing make = {.base = {.run = write_run, .cost_bytes = 4096}, .arena = a, .schema = schema};

	if (store_run(p->store, &make.base, err) != ERR_NONE)
		return err->code;
	return schema->ttl_attribute.len == 0 ? ERR_NONE : place_set_ttl(p, a, schema, err);
}

enum err_code place_set_ttl(struct place *p, struct arena *a, const struct table_schema *schema,
                            struct err *err)
{
	struct table_change ttl = {.kind = CHANGE_TTL, .ttl_attribute = schema->ttl_attribute};
	struct table_alter  alter = {.table = schema->name, .changes = &ttl, .count = 1};
	struct writing set = {.base = {.run = write_run, .cost_bytes = 4096}, .arena = a, .alter = &alter};

	return store_run(p->store, &set.base, err);
}
