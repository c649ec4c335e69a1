/* Turn: what a batch sees of itself. The writer runs requests one after the other; what they write is held
 * here, over what is committed, until the batch is. Each row is held once, however often it changes. A
 * request that fails is undone alone.
 *
 * (T1) After turn_rollback(mark) every look-up answers as it did when the mark was taken.
 * (T2) A change that was undone whole is no longer `written`: it is not committed, and its row is looked up below.
 * (T3) A row that was seen is as it was seen, and a partition that is known has the rows that it is known to have: what changes them
 *      forgets them.
 *
 * The writer's thread only. */
#ifndef ENGINE_TURN_H
#define ENGINE_TURN_H

#include "base/buf.h"
#include "base/hash.h"
#include "engine/catalog.h"
#include "engine/schema_item.h"

struct change {
	struct bytes key, value;
	bool         deleted;
	bool         written;    /* (T2) */
	bool         existed;    /* in the committed state */
	bool         past_cache; /* into the store at once: write_back.c says so, when it is published … */
	bool         in_tail;    /* … or into the tail (tail.h) */
	size_t       existed_bytes; /* then, the size of its value … */
	uint32_t existed_hour; /* … and the hour in which it lapses, if it is a row that does (lapse.h) */
	uint64_t hash;
	uint64_t partition; /* of a row: its number (layout.h) */
	struct change *next_in_bucket;
	struct change *next; /* all, in order of first touch */
};

/* A deleted table or index: all keys from low to high. */
struct range_delete {
	struct bytes         low, high;
	struct range_delete *next;
};

/* A row that the running request has read and found: the write that changes it next need not read it again. */
struct seen {
	const struct table_entry *table;
	const struct loaded      *row;   /* row.h; NULL: it has changed since */
	struct bytes              key;   /* the row's */
	uint64_t                  hash;  /* 0: not computed yet */
	const struct arena       *arena; /* all of it lives there until the request has had its turn */
};

/* A partition of which the running request has read every row: what is not among them is absent (known.h). */
struct known {
	const struct table_entry   *table;
	struct value                hash;   /* the partition's key */
	uint64_t                    number; /* and its number (layout.h) */
	const struct loaded *const *rows;
	size_t                      count;
	const struct arena         *arena; /* as of a row that was seen */
};

/* The first row that this batch has counted up. Its other requests most likely count the same one: the head of a log (numbers.h). */
struct counted {
	const struct table_entry *table;
	struct key_values         values;
	struct bytes              key;
	uint64_t                  hash;
};

enum {
	TURN_SEEN_MAX = 16,
	TURN_KNOWN_MAX = 4,
	TURN_TABLES_MAX = 2,
	TURN_TOUCHED_BITS = 4096, /* a power of two */
};

struct undo;

struct turn {
	struct arena          arena;   /* the batch's memory */
	const struct catalog *catalog; /* a reference */
	const struct table_entry
	                     *tables[TURN_TABLES_MAX]; /* of the catalog: those that were asked for last */
	unsigned              tables_next;
	struct change       **buckets;
	size_t                bucket_count, change_count;
	struct change        *first, **last;
	struct range_delete  *ranges;
	struct undo          *undo;
	size_t                undo_count, undo_cap;
	size_t                bytes; /* of keys and values held */
	struct hash_key       hash_key;
	struct buf            encoded; /* for row.c: the row that is being put, of whichever request */
	struct seen           seen[TURN_SEEN_MAX]; /* the latest ones */
	unsigned              seen_count, seen_next;
	const struct known   *known[TURN_KNOWN_MAX]; /* the latest ones; NULL: forgotten */
	unsigned              known_next;
	const struct counted *counted; /* NULL: none yet. In the batch's memory */
	uint64_t              touched[TURN_TOUCHED_BITS /
                         64]; /* numbers of partitions that this batch changed, by their lowest bits */
	uint32_t closes; /* 0, or: with this batch rows that lapse before that hour are gone (lapse.h) */
};

struct turn_mark {
	size_t                undo_count;
	struct range_delete  *ranges;
	const struct catalog *catalog;
};

/* hash_key: what hashes of keys are made with (state.h). */
void turn_init(struct turn *t, struct hash_key hash_key);
void turn_release(struct turn *t);

/* A new batch on this catalog. */
void turn_begin(struct turn *t, const struct catalog *catalog);

/* The table of that name in the catalog, or NULL. Requests of a batch mostly ask for the same ones. */
const struct table_entry *turn_table(struct turn *t, struct bytes name);

struct turn_mark turn_mark(const struct turn *t);
void             turn_rollback(struct turn *t, struct turn_mark mark);
/* After a request succeeded: it cannot be rolled back any more. */
void turn_keep(struct turn *t, struct turn_mark mark);

/* The batch's own version of the row, or NULL: look below. */
const struct change *turn_find(const struct turn *t, uint64_t hash, struct bytes key);

/* Notes a row that was read. */
void turn_see(struct turn *t, struct seen seen);

/* Notes a partition that was read whole, and finds it again. */
void                turn_know(struct turn *t, const struct known *known);
const struct known *turn_known(const struct turn *t, const struct arena *a, const struct table_entry *table,
                               const struct value *hash);

/* Has this batch changed a row of this partition? It may say so of one that it has not changed. */
bool turn_touched(const struct turn *t, uint64_t number);

/* Key and value are copied. `before` is the value that is there before this call: it is looked at to count rows and entries, so for
 * other kinds TURN_SOMETHING will do. */
#define TURN_NOTHING   ((struct bytes){0})
#define TURN_SOMETHING ((struct bytes){"", 0})
void turn_put(struct turn *t, struct bytes key, struct bytes value, struct bytes before);
void turn_delete(struct turn *t, struct bytes key, struct bytes before);
/* turn_put with the key's hash; 0: it is not known. */
void turn_put_hashed(struct turn *t, uint64_t hash, struct bytes key, struct bytes value,
                     struct bytes before);
void turn_delete_range(struct turn *t, struct bytes low, struct bytes high);

/* Takes over the reference. The one it replaces is kept until the request can no longer be undone. */
void turn_set_catalog(struct turn *t, const struct catalog *catalog);

#endif
