/* Apply: one conditional write, in the session's turn. */
#ifndef ENGINE_APPLY_H
#define ENGINE_APPLY_H

#include "engine/row.h"

/* Checks that need the schema, before anything is read: the table exists, the key or item fits it. */
enum err_code apply_check(struct engine_session *s, const struct table_write *q, const struct table_entry **t,
                          struct err *err);

/* The whole write. */
enum err_code apply_write(struct table *t, struct arena *a, const struct table_write *q,
                          struct table_write_result *r, struct err *err);

/* A table of the engine's own, not reachable by name. */
enum err_code apply_to(struct engine_session *s, struct arena *a, const struct table_entry *t,
                       const struct table_write *q, struct table_write_result *r, struct err *err);

#endif
