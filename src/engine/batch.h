/* Batch: many writes in one turn: unconditional ones, and transactions. */
#ifndef ENGINE_BATCH_H
#define ENGINE_BATCH_H

#include "engine/apply.h"

enum err_code batch_write(struct table *t, struct arena *a, const struct table_batch_write *q,
                          struct table_batch_write_result *r, struct err *err);
enum err_code batch_transact(struct table *t, struct arena *a, const struct table_transact_write *q,
                             struct table_transact_result *r, struct err *err);

/* The table of client request tokens, which the engine makes for itself. */
struct table_entry *batch_tokens_table(void);

#endif
