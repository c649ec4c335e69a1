/* Unwritten: what the journal holds and the store's files lack, as a turn over the store: so a directory can be
 * read whole and nothing in it changed. */
#ifndef ENGINE_UNWRITTEN_H
#define ENGINE_UNWRITTEN_H

#include "engine/state.h"

/* Reads the journal of an engine whose store is open for reading, and sets e->unwritten. */
enum err_code unwritten_open(struct engine *e, struct err *err);
void          unwritten_close(struct turn *t);

#endif
