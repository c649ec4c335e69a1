/* Context: what a service call works with, from the first row it reads to what it wants written. api/ makes one for
 * each call, server/ one for its own work; a service function takes it first:
 *
 *   verb(struct context *ctx, const struct request *q, struct result *out, struct err *err)
 *
 * Services read rows through the functions below and through nothing else, so that one place knows all that a
 * decision rests on. A table that nobody made yet is an empty one. One that somebody made with other keys is
 * ERR_FOREIGN_TABLE. A row that has expired is absent, whether or not the engine hides it. On a table that is not
 * alone they remember what they found (change.h), and try again for a while if the table is busy.
 *
 * A context belongs to one thread at a time. What is read lives in its arena. */
#ifndef SERVICE_CONTEXT_H
#define SERVICE_CONTEXT_H

#include "service/foresight.h"
#include "service/services.h"

/* What a service function may change besides its changes: its caller's question and result, as bytes. A function runs several times for one
 * call: in passes (foresight.h), when others wrote in between, and on what was last known (outage.h). Each run begins with
 * these bytes as they were before the first, so that none inherits from the one before. What pointers in them lead to
 * is no part of them. */
struct run_state {
	void       *at;
	size_t      bytes;
	const void *before; /* NULL: it has not run yet, or will not run twice */
};

struct context {
	/* from the beginning */
	struct services *services;
	struct arena    *arena;
	struct bytes     caller; /* key id; "-" if nobody was asked */
	struct bytes     trace;  /* the caller's trace id; empty: none */
	bool             quiet;  /* nothing is published: the caller said so */
	struct run_state state;  /* set by ctx_state */

	/* from ctx_begin on */
	struct table    *table;   /* what is committed, or a turn */
	struct changes   changes; /* what is to be written */
	int64_t          now_us;  /* the table's; before that: when the call came, by the store's clock */
	int64_t          now_s;   /* the table's, in whole seconds */
	struct foresight foresight;

	/* Tables that do not answer (outage.h). */
	bool degraded; /* decided on what was last known: nothing is published */
	uint32_t
	        processes; /* degraded: so many decide, and none sees what the others count (outage.h, 7); 0: 1 */
	bool    late;      /* it happened before now: what others changed since stands */
	int64_t late_s; /* … so long before */
};

/* How much a failure counts. */
static inline int64_t ctx_weight(const struct context *ctx)
{
	return ctx->degraded && ctx->processes > 1 ? ctx->processes : 1;
}

/* At the beginning of a turn, before ctx_begin: what the function may change, as it is now. */
void ctx_state(struct context *ctx, void *at, size_t bytes);

/* On this table, and with no changes yet; again if it is decided anew. */
void ctx_begin(struct context *ctx, struct table *t);

/* Reads go together from here on (foresight.h), if the table's go over a network. Then whoever called the service function, and
 * committed, asks ctx_again. */
void ctx_foresee(struct context *ctx);

/* Was it a guess? Then what it lacked is read, it has no changes any more, and it is to be called again. *rc: how it ended;
 * what could not be read ends it. */
bool ctx_again(struct context *ctx, enum err_code *rc, struct err *err);

/* It ended like this, and has decided so often: is it to decide once more, after a wait? Then ctx_begin comes next. */
bool ctx_decides_again(const struct context *ctx, enum err_code rc, unsigned decisions);

/* Does what was read so far hold a guess? Then nothing may be changed but the changes. */
static inline bool ctx_guesses(const struct context *ctx)
{
	return foresight_guesses(ctx->changes.foresight);
}

/* Random bytes. Passes of one decision are told the same, so that they look for the same rows. */
void ctx_random(struct context *ctx, void *out, size_t len);

/* ---- reading ---- */

/* A row of auth-state. */
enum err_code ctx_look(struct context *ctx, struct bytes pk, struct bytes sk, struct looked *out,
                       struct err *err);

/* A row of any table, by the key that looked_init has set. */
enum err_code ctx_look_in(struct context *ctx, enum service_table which, struct looked *out, struct err *err);

/* For a row of rate-limits that is about to be written, and nothing else with it: what this process last knew of it is answered as if it had been read
 * (single.h). False: nothing is known, or it was read; look at it. If it is not written after all, ctx_doubt: then this was a guess. */
bool ctx_believe(struct context *ctx, struct looked *out);
void ctx_doubt(struct context *ctx, const struct looked *l);

/* All of the list, in as few calls as it takes. A row may come twice. */
enum err_code ctx_look_all(struct context *ctx, struct looked *first, struct err *err);

/* The same of another table. */
enum err_code ctx_look_all_in(struct context *ctx, enum service_table which, struct looked *first,
                              struct err *err);

/* The same, of rows on which nothing rests, read as a query is: at once, and not at one moment (foresight.h, 4). For rows that others write all
 * the time: a snapshot would be in their way. A pass that has guessed finds none. */
enum err_code ctx_peek_all_in(struct context *ctx, enum service_table which, struct looked *first,
                              struct err *err);

/* Rows of auth-state; q->table is set here. Expired ones are among them. A scan is no ground for a decision: others change
 * rows meanwhile, and it would take a version of the whole table to notice. ctx_found says which rows one rests on. */
enum err_code ctx_query(struct context *ctx, struct table_query *q, struct table_query_result *r,
                        struct err *err);

/* Rows of another table, which has no versions: what is decided rests on a row that was read before, and that everyone who
 * adds to these rows changes. */
enum err_code ctx_query_in(struct context *ctx, enum service_table which, struct table_query *q,
                           struct table_query_result *r, struct err *err);

/* What is decided rests on this row, which was read loosely: to be written, say, out of several that were looked at. */
void ctx_rests_on(struct context *ctx, enum service_table which, const struct looked *l);

/* What is decided rests on this row of a scan. */
void ctx_found(struct context *ctx, const struct item *row);
void ctx_found_in(struct context *ctx, enum service_table which, const struct item *row);

/* A row of a table whose key is PK alone. */
enum err_code ctx_get(struct context *ctx, enum service_table which, struct bytes pk, struct looked *out,
                      struct err *err);

/* All of the list, as they are at one moment (snapshot.h): at most TABLE_BATCH_GET_MAX, and none twice. */
enum err_code ctx_get_all(struct context *ctx, enum service_table which, struct looked *first,
                          struct err *err);

/* Is there no such table, for certain? Then nothing needs to be looked for in it. */
bool ctx_lacks(const struct context *ctx, enum service_table which);

/* ---- writing, once all is decided ---- */

/* item and key must be well-formed (value.h, V1). They need no conditions: what was read is one. A condition is for what
 * a row may have become since; it takes the place of "as it was read". NULL: none. */
void ctx_put(struct context *ctx, enum service_table which, struct item item);
void ctx_put_if(struct context *ctx, enum service_table which, struct item item,
                const struct expr *condition);
void ctx_delete(struct context *ctx, enum service_table which, struct item key);
void ctx_update(struct context *ctx, enum service_table which, struct item key,
                const struct expr_update *update, const struct expr *condition);

/* Nothing is to be written after all, and nothing that was read matters. */
void ctx_drop(struct context *ctx);

#endif
