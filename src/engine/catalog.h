/* Catalog: which tables there are. A catalog is immutable: a change makes a new one that shares all other
 * entries, the turn sees it at once, and readers get it when the turn's batch is durable. Undoing a turn is
 * putting the old one back. Catalogs and entries are counted; whoever holds a reference may read without a
 * lock. */
#ifndef ENGINE_CATALOG_H
#define ENGINE_CATALOG_H

#include <stdatomic.h>

#include "table/schema.h"

struct engine;
struct engine_session;

enum { TABLE_ID_TOKENS = 1, TABLE_ID_FIRST = 16, INDEX_ID_FIRST = 1 };

/* A table as the engine keeps it. Index i of the schema has index_ids[i]. */
struct table_entry {
	atomic_uint         refs;
	struct arena        arena; /* holds everything below */
	struct table_schema schema;
	uint16_t            index_ids[TABLE_INDEX_MAX];
	uint16_t            next_index_id;
	uint32_t            id;
	uint32_t            ttl_changes; /* since the engine opened: a backfill notices off and on again */
	uint32_t frozen_hour; /* 0, or: rows that lapse before it are gone, no others (lapse.h X5) */
	bool     internal;    /* the engine's own: not listed, not reachable by name */
	bool     ttl_filling; /* rows written before time to live was switched on still lack expiry entries */
};

struct catalog {
	atomic_uint         refs;
	uint32_t            next_table_id;
	uint32_t            count;
	struct table_entry *entries[]; /* sorted by name */
};

/* A new entry with one reference, holding a deep copy of the schema; ids are the caller's to fill. */
struct table_entry *table_entry_make(const struct table_schema *schema);
void                table_entry_release(struct table_entry *e);
bool                table_entry_has_index(const struct table_entry *e, uint16_t index_id);

struct catalog *catalog_make_empty(void);
struct catalog *catalog_ref(const struct catalog *c);
void            catalog_release(const struct catalog *c);

/* A new catalog with the entry added or replaced (by name); takes over the entry's reference. */
struct catalog *catalog_with(const struct catalog *c, struct table_entry *e);
struct catalog *catalog_without(const struct catalog *c, struct bytes name);

/* NULL if there is none. */
const struct table_entry *catalog_find(const struct catalog *c, struct bytes name);
const struct table_entry *catalog_find_id(const struct catalog *c, uint32_t id);

/* The position of the first entry with a name after `name`. */
uint32_t catalog_after(const struct catalog *c, struct bytes name);

/* ---- on the disk: an item for each table ---- */

/* Puts a changed entry (whose reference it takes over) into the turn's catalog and its row into the store. */
void catalog_save(struct engine_session *s, struct arena *a, struct table_entry *e);
/* The next id is stored with every new table, so that it outlives the table (layout.c L2). */
void catalog_save_next_id(struct engine_session *s, struct arena *a);

/* Reads all tables and their counts, and sets e->catalog: when the engine opens. */
enum err_code catalog_load(struct engine *e, struct err *err);

#endif
