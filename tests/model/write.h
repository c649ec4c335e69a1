/* Write: a put, update, delete or check of one item, alone or as a part; what it does to the world, what its
 * answer must be, and its JSON. */
#ifndef TESTS_MODEL_WRITE_H
#define TESTS_MODEL_WRITE_H

#include "model/world.h"
#include "table/table.h"

struct write {
	enum table_action_kind kind;
	int                    sheet, hash, range;
	bool                   wrong_key; /* a key of another type */
	struct record          record;    /* PUT: all of it, the key too */
	struct update          update;
	struct condition       condition;
	enum return_values     returns;
	bool                   old_on_failure;
};

struct written {
	enum err_code code;
	bool          condition_failed;
	bool          has_record;
	struct record record;
};

static inline void written_show(struct written *out, const struct record *r)
{
	if (r == NULL)
		return;
	out->has_record = true;
	out->record = *r;
}

static inline void written_show_touched(struct written *out, const struct write *q, const struct record *r)
{
	struct paths  paths = update_paths(&q->update);
	struct record touched;

	if (r == NULL || paths.count == 0)
		return;
	touched = record_select(r, &paths);
	if (!record_is_empty(&touched))
		written_show(out, &touched);
}

static inline void written_returns(struct written *out, const struct write *q, const struct record *old,
                                   const struct record *new)
{
	if (q->returns == RETURN_ALL_OLD)
		written_show(out, old);
	else if (q->returns == RETURN_ALL_NEW)
		written_show(out, new);
	else if (q->returns == RETURN_UPDATED_OLD)
		written_show_touched(out, q, old);
	else if (q->returns == RETURN_UPDATED_NEW)
		written_show_touched(out, q, new);
}

/* What is wrong with it before anything is looked up? */
static inline enum err_code write_check(const struct world *w, const struct write *q)
{
	const struct sheet *s = &w->sheets[q->sheet];

	if (!s->used)
		return ERR_NO_RESOURCE;
	if (q->wrong_key || (q->kind == TABLE_PUT && !record_fits(s, &q->record)))
		return ERR_INVALID;
	return ERR_NONE;
}

static inline bool update_hits_key(const struct write *q)
{
	for (unsigned i = 0; i < q->update.count; i++)
		if (q->update.actions[i].path.attribute == HASH ||
		    q->update.actions[i].path.attribute == RANGE)
			return true;
	return false;
}

/* Is there an item afterwards? An update that only takes away makes none. */
static inline bool write_leaves(const struct write *q, const struct record *old)
{
	bool creates = old != NULL || q->update.count == 0;

	for (unsigned i = 0; i < q->update.count && !creates; i++)
		creates = q->update.actions[i].shape != DO_REMOVE && q->update.actions[i].shape != DO_DELETE;
	return q->kind == TABLE_PUT || (q->kind == TABLE_UPDATE && creates);
}

/* The item as it is to be. */
static inline bool write_compute(const struct world *w, const struct write *q, const struct record *old,
                                 struct record *new)
{
	const struct sheet *s = &w->sheets[q->sheet];
	struct record       bare = {.present = true};

	if (q->kind == TABLE_PUT) {
		*new = q->record;
		return true;
	}
	if (!write_leaves(q, old))
		return !update_hits_key(q);
	record_set_key(s, &bare, q->hash, q->range);
	return update_apply(&q->update, old != NULL ? old : &bare, new) && !update_hits_key(q) &&
	       record_fits(s, new);
}

static inline struct written write_apply(struct world *w, const struct write *q)
{
	static const struct record nothing;
	struct written             out = {.code = write_check(w, q)};
	const struct record       *old = world_get(w, q->sheet, q->hash, q->range);
	bool                       leaves = write_leaves(q, old);
	struct record              before, new;

	if (out.code != ERR_NONE)
		return out;
	if (!condition_holds(&q->condition, old != NULL ? old : &nothing)) {
		out.condition_failed = true;
		if (q->old_on_failure)
			written_show(&out, old);
		return out;
	}
	if (q->kind == TABLE_CHECK)
		return out;
	if (q->kind != TABLE_DELETE && !write_compute(w, q, old, &new)) {
		out.code = ERR_INVALID;
		return out;
	}
	if (old != NULL)
		before = *old;
	world_put(w, q->sheet, q->hash, q->range, leaves ? &new : NULL);
	written_returns(&out, q, old != NULL ? &before : NULL, leaves ? &new : NULL);
	return out;
}

/* ---- JSON ---- */

static inline void write_text(struct json_writer *w, const char *name, const char *text)
{
	json_name(w, bytes_of(name));
	json_string(w, bytes_of(text));
}

static inline void write_buf(struct json_writer *w, const char *name, const struct buf *text)
{
	if (text->len == 0)
		return;
	json_name(w, bytes_of(name));
	json_string(w, buf_bytes(text));
}

static inline void write_values(struct json_writer *w, struct values *v)
{
	json_end_object(&v->writer);
	if (v->count == 0)
		return;
	json_name(w, BYTES("ExpressionAttributeValues"));
	json_raw(w, buf_bytes(&v->json));
}

/* A key; a wrong one has a BOOL, which no key ever is. */
static inline void write_key(struct json_writer *w, const struct sheet *s, int hash, int range, bool wrong)
{
	struct record key = {0};

	record_set_key(s, &key, hash, range);
	if (wrong)
		key.fields[HASH] = field_of((struct cell){.kind = K_BOOL, .n = 1});
	record_write(w, &key);
}

/* What all contexts have; in a batch nothing else is allowed. */
static inline void write_target(struct json_writer *w, const struct sheet *s, const struct write *q)
{
	json_name(w, q->kind == TABLE_PUT ? BYTES("Item") : BYTES("Key"));
	if (q->kind == TABLE_PUT)
		record_write(w, &q->record);
	else
		write_key(w, s, q->hash, q->range, q->wrong_key);
}

/* The members of PutItem, UpdateItem, DeleteItem, and of a transaction's actions. */
static inline void write_members(struct json_writer *w, struct arena *a, const struct world *world,
                                 const struct write *q)
{
	static const char  *returns[] = {"NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"};
	const struct sheet *s = &world->sheets[q->sheet];
	struct values       v;
	struct buf          condition, update;

	values_init(&v, a);
	buf_init(&condition, a);
	buf_init(&update, a);
	update_print(&v, &update, &q->update);
	if (q->condition.count > 0)
		condition_print(&v, &condition, &q->condition);
	write_text(w, "TableName", s->name);
	write_target(w, s, q);
	write_buf(w, "ConditionExpression", &condition);
	write_buf(w, "UpdateExpression", &update);
	write_values(w, &v);
	if (q->returns != RETURN_NONE)
		write_text(w, "ReturnValues", returns[q->returns]);
	if (q->old_on_failure)
		write_text(w, "ReturnValuesOnConditionCheckFailure", "ALL_OLD");
}

#endif
