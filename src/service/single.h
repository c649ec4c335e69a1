/* Single: one row, written by itself where others write too. A transaction of one row costs twice as much, and is refused while any other write
 * of the row is under way. But a transaction has a token, and a single write has none: so the row says who wrote it last.
 *
 * What always holds
 * (1) The condition is the one that the transaction would have had (read_set.h).
 * (2) The write puts a random text into the row (`Nonce`). If nobody said what became of it, it is sent again, under the condition that the row has another one:
 *     a row that has ours was written. If others wrote in between, nobody can tell: then it is decided again. That may count once too often, never too rarely.
 * (3) A write that only adds does not mind others that add. It makes way for those behind it (remote/line.h) before it is sent.
 * (4) What the endpoint tells of the row, done or not, is remembered: the next decision begins with it (ctx_believe). */
#ifndef SERVICE_SINGLE_H
#define SERVICE_SINGLE_H

#include "service/read_set.h"

#define SINGLE_NONCE "Nonce"

/* Is it one that changes->single allows, and nothing else? */
bool single_fits(const struct transaction *x);

/* It was a transaction after all, done or not: what was remembered of its rows may be wrong, and it does not tell what they are now. */
void single_forget(const struct transaction *x);

/* As a commit: ERR_CONDITION if it is to be decided again. */
enum err_code single_commit(struct transaction *x, struct table *t, struct err *err);

#endif
