/* Transaction: several writes, all or none, with a token or without; and batches, which are the same without
 * conditions. */
#ifndef TESTS_MODEL_TRANSACTION_H
#define TESTS_MODEL_TRANSACTION_H

#include "model/query.h"

enum { PARTS_MAX = 10 };

struct parts {
	struct write list[PARTS_MAX];
	unsigned     count;
	int          token; /* -1: none */
};

struct transacted {
	enum err_code  code;
	bool           repeated, cancelled;
	struct written parts[PARTS_MAX];
};

/* Of those that are right in themselves. */
static inline bool parts_repeat(const struct parts *q, const struct transacted *t)
{
	for (unsigned i = 0; i < q->count; i++)
		for (unsigned j = 0; j < i; j++)
			if (t->parts[i].code == ERR_NONE && t->parts[j].code == ERR_NONE &&
			    q->list[i].sheet == q->list[j].sheet && q->list[i].hash == q->list[j].hash &&
			    q->list[i].range == q->list[j].range)
				return true;
	return false;
}

static inline enum err_code parts_check(const struct world *w, const struct parts *q)
{
	for (unsigned i = 0; i < q->count; i++) {
		enum err_code code = write_check(w, &q->list[i]);

		if (code != ERR_NONE)
			return code;
	}
	return parts_repeat(q, &(struct transacted){0}) ? ERR_INVALID : ERR_NONE;
}

static inline void parts_apply(struct world *w, const struct parts *q, struct transacted *out)
{
	size_t mark = w->undo_count;

	for (unsigned i = 0; i < q->count; i++) {
		if (out->parts[i].code != ERR_NONE)
			continue;
		out->parts[i] = write_apply(w, &q->list[i]);
		if (out->parts[i].code != ERR_NONE || out->parts[i].condition_failed)
			out->cancelled = true;
	}
	if (out->cancelled)
		world_undo(w, mark);
}

static inline struct transacted batch_apply(struct world *w, const struct parts *q)
{
	struct transacted out = {.code = parts_check(w, q)};

	if (out.code == ERR_NONE)
		parts_apply(w, q, &out);
	return out;
}

/* A part that is wrong in itself cancels the rest. */
static inline void transaction_check(const struct world *w, const struct parts *q, struct transacted *out)
{
	for (unsigned i = 0; i < q->count; i++) {
		enum err_code code = write_check(w, &q->list[i]);

		if (code == ERR_NO_RESOURCE)
			out->code = code;
		out->parts[i].code = code;
		out->cancelled = out->cancelled || code != ERR_NONE;
	}
	if (out->code == ERR_NONE && parts_repeat(q, out))
		out->code = ERR_INVALID;
}

/* `body` is what the token stands for. */
static inline struct transacted transaction_apply(struct world *w, const struct parts *q, struct bytes body)
{
	struct transacted out = {0};
	struct token     *token = q->token < 0 ? NULL : &w->tokens[q->token];

	transaction_check(w, q, &out);
	if (out.code != ERR_NONE)
		return out;
	if (!out.cancelled && token != NULL && token->body.len > 0 && token->expires_s > w->now_s) {
		if (bytes_equal(buf_bytes(&token->body), body))
			out.repeated = true;
		else
			out.code = ERR_TOKEN_MISMATCH;
		return out;
	}
	parts_apply(w, q, &out);
	if (token != NULL && !out.cancelled) {
		buf_reset(&token->body);
		buf_add_bytes(&token->body, body);
		token->expires_s = w->now_s + TOKEN_LIFE_S;
		token->epoch = w->epoch;
	}
	return out;
}

/* ---- JSON ---- */

static inline struct bytes transaction_items(struct arena *a, const struct world *world,
                                             const struct parts *q)
{
	static const char *names[] = {"Put", "Update", "Delete", "ConditionCheck"};
	struct buf         out;
	struct json_writer w;

	buf_init(&out, a);
	json_writer_init(&w, &out);
	json_begin_array(&w);
	for (unsigned i = 0; i < q->count; i++) {
		json_begin_object(&w);
		json_name(&w, bytes_of(names[q->list[i].kind]));
		json_begin_object(&w);
		write_members(&w, a, world, &q->list[i]);
		json_end_object(&w);
		json_end_object(&w);
	}
	json_end_array(&w);
	return buf_bytes(&out);
}

static inline void transaction_write(struct json_writer *w, const struct parts *q, struct bytes items)
{
	char token[32];

	json_begin_object(w);
	if (q->token >= 0) {
		snprintf(token, sizeof(token), "token-%d", q->token);
		write_text(w, "ClientRequestToken", token);
	}
	json_name(w, BYTES("TransactItems"));
	json_raw(w, items);
	json_end_object(w);
}

static inline bool parts_have_sheet(const struct parts *q, int sheet)
{
	for (unsigned i = 0; i < q->count; i++)
		if (q->list[i].sheet == sheet)
			return true;
	return false;
}

/* BatchWriteItem groups by table, so the parts must come that way. */
static inline void batch_write_json(struct json_writer *w, const struct world *world, const struct parts *q)
{
	json_begin_object(w);
	json_name(w, BYTES("RequestItems"));
	json_begin_object(w);
	for (int s = 0; s < SHEETS; s++) {
		if (!parts_have_sheet(q, s))
			continue;
		json_name(w, bytes_of(world->sheets[s].name));
		json_begin_array(w);
		for (unsigned i = 0; i < q->count; i++) {
			if (q->list[i].sheet != s)
				continue;
			json_begin_object(w);
			json_name(w, q->list[i].kind == TABLE_PUT ? BYTES("PutRequest")
			                                          : BYTES("DeleteRequest"));
			json_begin_object(w);
			write_target(w, &world->sheets[s], &q->list[i]);
			json_end_object(w);
			json_end_object(w);
		}
		json_end_array(w);
	}
	json_end_object(w);
	json_end_object(w);
}

/* ---- reading several ---- */

struct gets {
	struct {
		int sheet, hash, range;
	} list[PARTS_MAX];
	unsigned     count;
	struct paths paths; /* of all */
};

static inline bool gets_repeat(const struct gets *q)
{
	for (unsigned i = 0; i < q->count; i++)
		for (unsigned j = 0; j < i; j++)
			if (q->list[i].sheet == q->list[j].sheet && q->list[i].hash == q->list[j].hash &&
			    q->list[i].range == q->list[j].range)
				return true;
	return false;
}

static inline enum err_code gets_check(const struct world *w, const struct gets *q)
{
	for (unsigned i = 0; i < q->count; i++)
		if (!w->sheets[q->list[i].sheet].used)
			return ERR_NO_RESOURCE;
	return gets_repeat(q) ? ERR_INVALID : ERR_NONE;
}

static inline void get_write(struct json_writer *w, struct arena *a, const struct world *world,
                             const struct gets *q, unsigned i)
{
	const struct sheet *s = &world->sheets[q->list[i].sheet];
	struct buf          projection;

	buf_init(&projection, a);
	paths_print(&projection, &q->paths);
	json_begin_object(w);
	write_text(w, "TableName", s->name);
	json_name(w, BYTES("Key"));
	write_key(w, s, q->list[i].hash, q->list[i].range, false);
	write_buf(w, "ProjectionExpression", &projection);
	json_end_object(w);
}

static inline void transact_get_write(struct json_writer *w, struct arena *a, const struct world *world,
                                      const struct gets *q)
{
	json_begin_object(w);
	json_name(w, BYTES("TransactItems"));
	json_begin_array(w);
	for (unsigned i = 0; i < q->count; i++) {
		json_begin_object(w);
		json_name(w, BYTES("Get"));
		get_write(w, a, world, q, i);
		json_end_object(w);
	}
	json_end_array(w);
	json_end_object(w);
}

static inline bool gets_have_sheet(const struct gets *q, int sheet)
{
	for (unsigned i = 0; i < q->count; i++)
		if (q->list[i].sheet == sheet)
			return true;
	return false;
}

static inline void batch_get_write(struct json_writer *w, struct arena *a, const struct world *world,
                                   const struct gets *q)
{
	struct buf projection;

	buf_init(&projection, a);
	paths_print(&projection, &q->paths);
	json_begin_object(w);
	json_name(w, BYTES("RequestItems"));
	json_begin_object(w);
	for (int s = 0; s < SHEETS; s++) {
		if (!gets_have_sheet(q, s))
			continue;
		json_name(w, bytes_of(world->sheets[s].name));
		json_begin_object(w);
		json_name(w, BYTES("Keys"));
		json_begin_array(w);
		for (unsigned i = 0; i < q->count; i++)
			if (q->list[i].sheet == s)
				write_key(w, &world->sheets[s], q->list[i].hash, q->list[i].range, false);
		json_end_array(w);
		write_buf(w, "ProjectionExpression", &projection);
		json_end_object(w);
	}
	json_end_object(w);
	json_end_object(w);
}

#endif
