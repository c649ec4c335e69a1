/* Numbers: rows that count (table/table.h, struct table_numbering). Reading such a row and putting it again are two calls that each take the
 * whole way of a row. Here its bytes are found once, and all but the digits stay as they are.
 *
 * (N1) What is taken is of the turn, like any write: undone with the transaction that takes it, and seen by whoever comes next. */
#ifndef ENGINE_NUMBERS_H
#define ENGINE_NUMBERS_H

#include "engine/state.h"

/* Counts each row up, in order, in the session's turn. ERR_STORAGE if a row has something else than a whole number there. */
enum err_code numbers_take(struct engine_session *s, struct arena *a, struct table_numbering *n,
                           struct err *err);

#endif
