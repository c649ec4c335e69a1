/* Tables: making, describing, changing and removing tables. */
#ifndef ENGINE_TABLES_H
#define ENGINE_TABLES_H

#include "engine/view.h"

enum err_code tables_create(struct table *t, struct arena *a, const struct table_schema *q,
                            struct table_description *r, struct err *err);
enum err_code tables_describe(struct table *t, struct arena *a, struct bytes name,
                              struct table_description *r, struct err *err);
enum err_code tables_list(struct table *t, struct arena *a, const struct table_list *q,
                          struct table_list_result *r, struct err *err);
enum err_code tables_alter(struct table *t, struct arena *a, const struct table_alter *q,
                           struct table_description *r, struct err *err);
enum err_code tables_remove(struct table *t, struct arena *a, struct bytes name, struct table_description *r,
                            struct err *err);

/* Puts a changed entry (whose reference it takes over) into the turn's catalog and its row into the store. */
void tables_save(struct engine_session *s, struct arena *a, struct table_entry *e);

/* The row that holds the next table id (layout.c L2). */
#define META_NEXT_TABLE "next-table-id"

/* tables_load.c: reads all tables into a catalog, when the engine opens. */
enum err_code tables_load(struct engine *e, struct err *err);

/* Counts all rows and entries there are, as of the snapshot (NULL: now). */
enum err_code tables_count(struct engine *e, struct rocks_snapshot *snapshot, struct counts *out,
                           struct err *err);

/* Adds the change after which the next opening counts everything once. */
void tables_add_recount(struct buf *ops);

/* Notes that from this commit on counts are stored with each. */
void tables_note_counts(struct turn *t);

#endif
