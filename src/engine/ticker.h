/* Ticker: what the engine does by itself, once per second: watches the disk's free space and the clock, makes checkpoints,
 * fills new indexes, sweeps expired rows. Everything it writes goes through the writer like any other request, a bounded
 * number of rows per turn, so that nobody waits long behind it. */
#ifndef ENGINE_TICKER_H
#define ENGINE_TICKER_H

#include "engine/engine.h"

struct ticker;

enum err_code ticker_open(struct ticker **out, struct engine *e, struct err *err);
/* Ends its thread. It may still be woken, until it is closed, to no effect. */
void ticker_stop(struct ticker *t);
void ticker_close(struct ticker *t);

/* Starts a round now. Any thread; before the ticker is open (NULL) it does nothing. */
void ticker_wake(struct ticker *t);

#endif
