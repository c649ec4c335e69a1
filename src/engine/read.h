/* Read: single items, batches and snapshots. */
#ifndef ENGINE_READ_H
#define ENGINE_READ_H

#include "engine/row.h"

enum err_code read_get(struct table *t, struct arena *a, const struct table_get *q,
                       struct table_get_result *r, struct err *err);
enum err_code read_batch(struct table *t, struct arena *a, const struct table_batch_get *q,
                         struct table_batch_get_result *r, struct err *err);
enum err_code read_transact(struct table *t, struct arena *a, const struct table_batch_get *q,
                            struct table_batch_get_result *r, struct err *err);

/* query.c */
enum err_code read_query(struct table *t, struct arena *a, const struct table_query *q,
                         struct table_query_result *r, struct err *err);

/* Are two of these the same row? Row keys, as layout_row makes them. */
bool read_has_duplicates(const struct bytes *row_keys, uint32_t count, struct arena *a);

#endif
