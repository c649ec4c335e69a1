/* Replay: what the journal holds, put together again: into the cache and the store when the engine opens, or, for
 * whoever may change nothing, into a turn over the store. */
#ifndef ENGINE_REPLAY_H
#define ENGINE_REPLAY_H

#include "engine/state.h"

/* Publishes every commit of the journal from a place on, and says where the next is to be written. */
enum err_code replay_publish(struct engine *e, const struct journal_site *site,
                             const struct journal_place *from, struct journal_place *end, struct err *err);

/* Sets e->unwritten, which has an empty catalog, to all of them; ends with replay_release. */
enum err_code replay_hold(struct engine *e, const struct journal_site *site, const struct journal_place *from,
                          struct err *err);
void          replay_release(struct turn *t);

#endif
