/* Known: a partition of which the running request knows every row (turn.h, struct known). A service reads several rows of one subject, most of
 * which are not there. If the subject's partition is in memory whole, or not there at all, one look tells for all of them; and what the request
 * writes next was read as well. The writer's thread. */
#ifndef ENGINE_KNOWN_H
#define ENGINE_KNOWN_H

#include "engine/row.h"

/* NULL: it is not known without the store, or has many rows, or this batch changed it: look for each row. */
const struct known *known_partition(struct engine_session *s, struct arena *a, const struct table_entry *t,
                                    const struct value *hash);

/* The row of a key that was checked; it is noted as seen. NULL: there is none. */
const struct loaded *known_row(struct engine_session *s, const struct known *k, const struct key_values *key);

/* Those with keys from low (included) to high (excluded), in the order of their keys, or backward; noted as seen. `out` has room for all. Returns how
 * many there are. */
size_t known_between(struct engine_session *s, const struct known *k, struct bytes low, struct bytes high,
                     bool backward, const struct loaded **out);

#endif
