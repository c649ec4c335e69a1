/* Prepare: makes a call: a random request, applied to the world at once, so that the next one is made for the
 * world as it will then be; its JSON; and what the model expects. */
#ifndef TESTS_MODEL_PREPARE_H
#define TESTS_MODEL_PREPARE_H

#include "model/pages.h"
#include "model/tables.h"

struct draft {
	struct call       *call;
	struct buf         body;
	struct json_writer w;
};

static inline struct draft *draft_open(struct driver *d, const char *operation,
                                       enum err_code (*run)(struct call *c, struct table *t))
{
	struct draft *draft = arena_zalloc(&d->arena, sizeof(*draft));

	draft->call = arena_zalloc(&d->arena, sizeof(*draft->call));
	draft->call->driver = d;
	draft->call->number = ++d->operations;
	draft->call->operation = operation;
	draft->call->run = run;
	buf_init(&draft->body, &d->arena);
	json_writer_init(&draft->w, &draft->body);
	return draft;
}

/* Decodes the body, as the server would. */
static inline struct call *draft_decode(struct draft *draft,
                                        enum err_code (*decode)(struct arena *, const struct json *,
                                                                struct dynamo_request *, struct err *))
{
	struct call   *c = draft->call;
	struct driver *d = c->driver;
	struct json   *json;

	c->body = buf_bytes(&draft->body);
	if (json_read(d->json, &d->arena, c->body, &json, &d->err) != ERR_NONE)
		call_differ(c, "the model's own JSON", BYTES("well-formed"), bytes_of(d->err.text));
	c->decoded = decode(&d->arena, json, &c->q, &d->err);
	if (c->decoded != ERR_NONE)
		check_code(c, c->decoded);
	return c;
}

static inline enum err_code call_run(struct call *c, struct table *t)
{
	return c->decoded != ERR_NONE ? err_set(&c->driver->err, c->decoded, "not decoded") : c->run(c, t);
}

/* ---- reading ---- */

static inline void expect_gets(struct call *c, const struct gets *q)
{
	struct world *w = &c->driver->world;

	c->count = q->count;
	c->got = arena_zalloc(&c->driver->arena, sizeof(*c->got));
	for (unsigned i = 0; i < q->count && c->code == ERR_NONE; i++) {
		const struct record *r = world_get(w, q->list[i].sheet, q->list[i].hash, q->list[i].range);

		c->got->found[i] = r != NULL;
		if (r != NULL)
			c->got->records[i] = record_select(r, &q->paths);
	}
}

static inline struct call *prepare_get(struct driver *d)
{
	struct draft *draft = draft_open(d, "GetItem", run_get);
	struct gets   q = {.count = 1};

	q.list[0].sheet = any_sheet(&d->world);
	q.list[0].hash = pick(&d->world, HASHES);
	q.list[0].range = any_range(&d->world, q.list[0].sheet);
	if (chance(&d->world, 40))
		q.paths = any_paths(&d->world);
	draft->call->code = gets_check(&d->world, &q);
	expect_gets(draft->call, &q);
	get_write(&draft->w, &d->arena, &d->world, &q, 0);
	return draft_decode(draft, request_get);
}

static inline struct call *prepare_gets(struct driver *d, bool transaction)
{
	struct draft *draft = draft_open(d, transaction ? "TransactGetItems" : "BatchGetItem",
	                                 transaction ? run_transact_get : run_batch_get);
	struct gets   q = {0};

	while (q.count == 0)
		any_gets(&d->world, &q, PARTS_MAX);
	draft->call->code = gets_check(&d->world, &q);
	if (!transaction && gets_repeat(&q))
		draft->call->code = ERR_INVALID; /* seen before the table is */
	expect_gets(draft->call, &q);
	if (transaction)
		transact_get_write(&draft->w, &d->arena, &d->world, &q);
	else
		batch_get_write(&draft->w, &d->arena, &d->world, &q);
	return draft_decode(draft, transaction ? request_transact_get : request_batch_get);
}

static inline struct call *prepare_this_query(struct driver *d, const struct query *q)
{
	struct draft *draft = draft_open(d, q->scan ? "Scan" : "Query", run_query);

	draft->call->query = q;
	draft->call->answer = query_answer(&d->world, &d->arena, q);
	draft->call->code = draft->call->answer.code;
	draft->call->query_range = query_range(&d->world, q);
	query_write(&draft->w, &d->arena, &d->world, q);
	return draft_decode(draft, q->scan ? request_scan : request_query);
}

static inline struct call *prepare_query(struct driver *d, bool scan)
{
	struct query *q = arena_alloc(&d->arena, sizeof(*q));

	any_query(&d->world, q, scan);
	return prepare_this_query(d, q);
}

static inline struct call *prepare_read(struct driver *d)
{
	int dice = pick(&d->world, 20);

	if (dice < 6)
		return prepare_get(d);
	if (dice < 16)
		return prepare_query(d, false);
	if (dice < 18)
		return prepare_query(d, true);
	return prepare_gets(d, dice == 19);
}

/* ---- writing ---- */

static inline struct call *prepare_this_write(struct driver *d, const struct write *q)
{
	static const char *operations[] = {"PutItem", "UpdateItem", "DeleteItem"};
	struct draft      *draft = draft_open(d, operations[q->kind], run_write);
	struct call       *c = draft->call;

	json_begin_object(&draft->w);
	write_members(&draft->w, &d->arena, &d->world, q);
	json_end_object(&draft->w);
	c->written = arena_alloc(&d->arena, sizeof(*c->written));
	*c->written = write_apply(&d->world, q);
	c->code = c->written->code;
	return draft_decode(draft, q->kind == TABLE_PUT      ? request_put
	                           : q->kind == TABLE_UPDATE ? request_update
	                                                     : request_delete);
}

static inline struct call *prepare_single(struct driver *d)
{
	struct write q = any_single(&d->world);

	return prepare_this_write(d, &q);
}

static inline struct call *prepare_batch(struct driver *d)
{
	struct draft *draft = draft_open(d, "BatchWriteItem", run_batch_write);
	struct call  *c = draft->call;
	struct parts  q = {0};

	any_batch(&d->world, &q);
	batch_write_json(&draft->w, &d->world, &q);
	c->transacted = arena_alloc(&d->arena, sizeof(*c->transacted));
	*c->transacted = batch_apply(&d->world, &q);
	c->code = c->transacted->code;
	return draft_decode(draft, request_batch_write);
}

/* With a token, the same transaction may come again: the body is kept with the token. */
static inline struct call *prepare_transaction(struct driver *d, bool tokens)
{
	struct draft *draft = draft_open(d, "TransactWriteItems", run_transact_write);
	struct call  *c = draft->call;
	struct parts *q = arena_alloc(&d->arena, sizeof(*q));
	struct bytes  items;

	any_transaction(&d->world, q);
	if (!tokens)
		q->token = -1;
	items = transaction_items(&d->arena, &d->world, q);
	transaction_write(&draft->w, q, items);
	c->count = q->count;
	c->transacted = arena_alloc(&d->arena, sizeof(*c->transacted));
	*c->transacted = transaction_apply(&d->world, q, items);
	c->code = c->transacted->code;
	return draft_decode(draft, request_transact_write);
}

/* The transaction that a token stands for, once more. NULL if it stands for none, or its tables are no longer
 * what they were: then it may be refused for that. */
static inline struct call *prepare_repeat(struct driver *d)
{
	int           token = pick(&d->world, TOKENS);
	struct token *t = &d->world.tokens[token];
	struct parts  q = {.token = token};
	struct draft *draft;

	if (t->body.len == 0 || t->expires_s <= d->world.now_s || t->epoch != d->world.epoch)
		return NULL;
	draft = draft_open(d, "TransactWriteItems", run_transact_write);
	transaction_write(&draft->w, &q, arena_copy(&d->arena, buf_bytes(&t->body)));
	draft->call->transacted = arena_zalloc(&d->arena, sizeof(struct transacted));
	draft->call->transacted->repeated = true;
	return draft_decode(draft, request_transact_write);
}

static inline struct call *prepare_write(struct driver *d, bool tokens)
{
	int          dice = pick(&d->world, 20);
	struct call *c = NULL;

	if (dice < 14)
		return prepare_single(d);
	if (dice < 16)
		return prepare_batch(d);
	if (tokens && dice == 19)
		c = prepare_repeat(d);
	return c != NULL ? c : prepare_transaction(d, tokens);
}

/* ---- tables ---- */

static inline struct call *prepare_create(struct driver *d)
{
	struct draft *draft = draft_open(d, "CreateTable", run_create);
	int           sheet = pick(&d->world, SHEETS);
	struct sheet *s = &d->world.sheets[sheet];

	if (s->used) {
		draft->call->code = ERR_RESOURCE_IN_USE;
	} else {
		world_touch(&d->world, sheet);
		sheet_plan(&d->world, sheet);
	}
	sheet_write(&draft->w, s);
	return draft_decode(draft, request_create_table);
}

static inline struct call *prepare_remove(struct driver *d)
{
	struct draft *draft = draft_open(d, "DeleteTable", run_remove);
	int           sheet = pick(&d->world, SHEETS);
	struct sheet *s = &d->world.sheets[sheet];

	table_name_write(&draft->w, s);
	draft->call->code = s->used ? ERR_NONE : ERR_NO_RESOURCE;
	if (s->used) {
		world_touch(&d->world, sheet);
		s->used = false;
		memset(s->records, 0, sizeof(s->records));
	}
	return draft_decode(draft, request_table_name);
}

/* Makes a global index if there is none by that name, removes it if there is. */
static inline struct call *prepare_side(struct driver *d)
{
	struct draft *draft = draft_open(d, "UpdateTable", run_alter);
	int           sheet = any_sheet(&d->world), at = 2 + pick(&d->world, SIDES - 2);
	struct sheet *s = &d->world.sheets[sheet_is_plain(sheet) && chance(&d->world, 80) ? --sheet : sheet];
	struct side  *side = &s->sides[at];

	draft->call->code = s->used ? ERR_NONE : ERR_NO_RESOURCE;
	if (s->used)
		world_touch(&d->world, sheet);
	if (side->used) {
		side_delete_write(&draft->w, s, side);
		side->used = side->filling = false;
	} else {
		side_plan(&d->world, s, at);
		side_create_write(&draft->w, s, side);
		side->used = side->filling = s->used;
	}
	return draft_decode(draft, request_update_table);
}

/* Switches it on or off, or moves it to another attribute. */
static inline struct call *prepare_ttl(struct driver *d, int sheet)
{
	struct draft  *draft = draft_open(d, "UpdateTimeToLive", run_ttl);
	struct sheet  *s = &d->world.sheets[sheet];
	bool           on = !s->ttl || chance(&d->world, 50);
	enum attribute attribute = s->ttl ? (s->ttl_attribute == OTHER ? EXPIRES : OTHER)
	                                  : (chance(&d->world, 70) ? EXPIRES : OTHER);

	draft->call->code = s->used ? ERR_NONE : ERR_NO_RESOURCE;
	ttl_write(&draft->w, s, on, attribute);
	if (s->used) {
		world_touch(&d->world, sheet);
		s->ttl = on;
		s->ttl_attribute = attribute;
		s->timed = true;
	}
	return draft_decode(draft, request_update_ttl);
}

#endif
