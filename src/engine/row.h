/* Row: items in and out of the key space: loading one by its key, and storing one together with its index
 * entries and its expiry entry, if it has one, all in the session's turn; and the calls on one item, made of these. */
#ifndef ENGINE_ROW_H
#define ENGINE_ROW_H

#include "engine/schema_item.h"
#include "engine/view.h"

/* A row as loaded. An expired item is stored but not live: for every caller it is absent, but its index
 * entries are still to be removed. One that is gone (lapse.h) is not even stored, whether the store has it still or not. */
struct loaded {
	struct bytes      key;   /* of the row */
	uint64_t          hash;  /* of the key (state.h); 0: not computed */
	struct bytes      value; /* as stored */
	bool              stored, live;
	struct item       item;       /* if stored */
	struct key_values values;     /* of its key, then */
	size_t            size_bytes; /* DynamoDB's size of the live item; 0 if absent */
};

/* The table by name: ERR_NO_RESOURCE if there is none. */
enum err_code row_table(const struct engine_session *s, struct bytes name, const struct table_entry **out,
                        struct err *err);

/* By a key that has been checked. The row is in the arena, and is not read again if this turn has seen it there. */
enum err_code row_load(struct engine_session *s, struct arena *a, const struct table_entry *t,
                       const struct key_values *key, const struct loaded **out, struct err *err);

/* The key of the row, in the arena. */
struct bytes row_key_make(struct arena *a, const struct table_entry *t, const struct key_values *key);

/* Reads it, by the key of the row, which is in the arena, and the key's hash (state.h). */
enum err_code row_load_at(struct engine_session *s, struct arena *a, const struct table_entry *t,
                          uint64_t hash, struct bytes key, const struct loaded **out, struct err *err);

/* The same from bytes already read. */
enum err_code row_decode(struct engine_session *s, struct arena *a, const struct table_entry *t,
                         struct bytes value, struct loaded *out, struct err *err);

/* What an item stores in an index: nothing if it lacks an attribute of the index's key, or one is of another type. */
struct row_entry {
	bool present;
	bool too_long; /* and so not present; but earlier builds stored such entries when they filled an index */
	struct item item; /* as projected */
	struct buf  key, value;
};

/* `lapse`: the hour of the row (lapse.h X6), or 0. The index is a number in the schema; the item may be NULL. */
struct row_entry row_entry(struct arena *a, const struct table_entry *t, uint32_t index,
                           const struct item *item, uint32_t lapse);

/* Replaces what was loaded by `item`, or removes it (NULL). What its indexes cost is added to `units`, if not
 * NULL. */
void row_store(struct engine_session *s, struct arena *a, const struct table_entry *t,
               const struct loaded *old, const struct item *item, struct capacity *units);

/* ---- one item: row_get and row_write are in state.h; the parts that batches need ---- */

/* The answer to a get. */
void row_fill(struct arena *a, const struct table_get *q, const struct loaded *row,
              struct table_get_result *r);

/* A write that fits its table, by what row_check found. */
struct checked {
	const struct table_entry *table;
	struct key_values         key;
	size_t                    put_bytes; /* the size of the item that is put; 0: none is */
};

/* Checks of a write that need the schema, before anything is read: the key or item fits it. */
enum err_code row_check(const struct table_entry *t, const struct table_write *q, struct checked *out,
                        struct err *err);

/* The write itself, also to a table of the engine's own, which is not reachable by name. */
enum err_code row_apply(struct engine_session *s, struct arena *a, const struct checked *c,
                        const struct table_write *q, struct table_write_result *r, struct err *err);

/* ---- what expressions may look at ---- */

/* What a turn may cost the others without a rehearsal: about half a millisecond. One item of the largest size can be looked at. */
enum { TURN_LIGHT_BYTES = 6 << 20 };

/* A call of the backend begins: its expressions may look at expression_bytes_max. A DynamoDB request is one call. */
void cost_begin(struct engine_session *s);

/* ERR_INVALID if they have looked at more: then what they found means nothing. ERR_THROTTLED if it is too much for
 * this turn alone. */
enum err_code cost_check(struct engine_session *s, struct err *err);

/* ---- capacity units, as DynamoDB counts them ---- */

double read_cost(size_t bytes, bool consistent);
double write_cost(size_t bytes);

#endif
