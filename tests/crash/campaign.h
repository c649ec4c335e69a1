/* Campaign: what the parts of the crash test share: the workers that load the server, the books they keep
 * about what was acknowledged, and the campaign that ends the server and compares.
 *
 * Threads: during the load a worker's thread alone touches its struct worker and its rows of `series`; before
 * and after it, the main thread. `differences` is the one thing that all count up. */
#ifndef CRASH_CAMPAIGN_H
#define CRASH_CAMPAIGN_H

#include <pthread.h>
#include <stdatomic.h>

#include "client.h"
#include "random.h"
#include "server.h"

enum {
	WORKERS = 16,
	COUNTERS = 8,       /* a worker */
	DEVICES = 24,       /* a worker */
	ACCOUNTS = 24,      /* shared by all */
	EPOCH_CYCLES = 200, /* then the books and the data directory begin anew */
	WHOLE_EVERY = 10,   /* cycles; in between only what the last cycle wrote is read again */
};

enum series_kind { SERIES_NOTES, SERIES_BATCHES, SERIES_SESSIONS, SERIES_TRANSFERS, SERIES_KINDS };

/* What one worker wrote into one table in one cycle: steps 0, 1, 2, …, each a put of one or more items whose
 * content follows from their place, so that only the number of steps has to be remembered. */
struct series {
	uint32_t stored;  /* steps that must be there */
	bool     doubt;   /* the answer to step `stored` was lost: it may be there */
	int64_t  began_s; /* the wall clock when the cycle began */
};

struct device {
	uint32_t version; /* decides all attributes */
	bool     exists;
};

/* What must be there of a worker's, besides its series. */
struct ledger {
	uint64_t      counters[COUNTERS];
	struct device devices[DEVICES];
	int64_t       moved[ACCOUNTS];   /* by this worker's transfers, into the account */
	uint64_t      touched[ACCOUNTS]; /* transfers of this worker that named the account */
	uint64_t      tag;
};

struct campaign;
struct book;

struct worker {
	struct campaign *campaign;
	unsigned         id;
	struct random    random;
	struct client    client;
	pthread_t        thread;
	uint64_t         acknowledged;

	/* The request at hand. After the load: the one whose answer was lost, or book is NULL. */
	const struct book *book;
	const char        *operation;
	struct buf         body;
	unsigned           counter;
	unsigned           device;
	struct device      wanted;

	struct ledger must;
};

/* Shows that the ends came in the middle of things. The main thread's. */
struct tally {
	uint64_t unanswered;      /* requests whose answer was lost or 500 */
	uint64_t unanswered_done; /* those of them that were found done */
	uint64_t indexes_filling; /* indexes that a restart found half made */
};

struct campaign {
	uint64_t      seed;
	unsigned      cycle; /* within the epoch */
	const char   *ending;
	unsigned      cycles_before; /* of earlier epochs */
	struct random random;
	struct server server;
	struct client client; /* the main thread's, for comparing */
	struct worker workers[WORKERS];
	struct series series[SERIES_KINDS][EPOCH_CYCLES][WORKERS];
	bool          has_index;     /* on the notes: see reindex.c */
	bool          index_changed; /* in this cycle */
	bool          graceful;      /* the cycle ended with SIGTERM: what was done was also answered */
	struct tally  tally;
	atomic_uint   differences;
};

/* A book: one kind of load, and what must hold about it after a restart. */
struct book {
	const char *name;
	unsigned    weight; /* how often it is chosen, out of the sum of all */

	/* Makes the tables, on an empty server. */
	void (*setup)(struct campaign *c);
	/* Fills w->operation and w->body with the next request. NULL, like settle, if the weight is 0. */
	void (*compose)(struct worker *w);
	/* Notes the outcome: the answer, or NULL if it was lost or 500 (it may have been done or not). */
	void (*settle)(struct worker *w, const struct answer *answer);
	/* Compares the restarted server with the books and settles what was in doubt. */
	void (*verify)(struct campaign *c, bool whole);
	/* Makes the books wrong, to prove that verify notices. */
	void (*lie)(struct worker *w);
};

extern const struct book book_counters, book_notes, book_batches, book_sessions, book_transfers,
        book_refusals, book_devices, book_tags, book_reindex;

enum { BOOKS = 9 };
extern const struct book *const books[BOOKS];

/* Reports a violation: what was expected and what was found. Any thread. */
void differ(struct campaign *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Tallies that the request without an answer was found done. After a graceful stop that is a violation. */
void note_done(struct campaign *c, const char *what);

/* The answer says 200? Otherwise that is a violation. */
bool answer_is_ok(struct worker *w, const struct answer *answer);

/* A request of the main thread, which must be answered 200; NULL, and a violation, if not. */
const struct json *campaign_call(struct campaign *c, const char *operation, struct bytes body);

/* Reads a Query or Scan to its end. `body` is the request without its closing brace. */
void campaign_read(struct campaign *c, const char *operation, struct bytes body,
                   void (*visit)(struct campaign *c, const struct json *item, void *ctx), void *ctx);

/* Is the item what `expected` says, as JSON? */
bool campaign_same(struct campaign *c, const struct json *item, struct bytes expected);

/* Reports an item that is not what it should be. */
void differ_item(struct campaign *c, const char *where, const struct json *found, struct bytes expected);

/* Makes the index on the notes, or takes it away. The main thread's, during the load. */
void reindex_change(struct campaign *c);

/* Starts a thread a worker; each sends requests until an answer is lost. */
void load_start(struct campaign *c);
void load_join(struct campaign *c);

#endif
