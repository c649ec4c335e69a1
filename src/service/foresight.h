/* Foresight: what a call will read, read together. For engines whose reads go over a network, where requests are what a call waits
 * for. Services know nothing of it.
 *
 *   a pass:  the service function runs. A row that was read before is answered from memory. Any other is noted, and answered
 *            with what this process last knew of it (last_known.h), or "absent": a guess. A pass that guessed writes nothing,
 *            and what it decided is dropped. A good guess has it look for all that it will need.
 *   a round: all rows that were noted are read in one request. Then the next pass.
 *
 * The first pass that guesses nothing is the one that counts, and its changes are committed. So a call takes as many requests to read as
 * its look-ups depend on each other (whose address is this? what is that user's status?), however many rows and tables they are of.
 *
 * What always holds
 * (1) Only what the last pass was told becomes a condition of the commit (change.h, 1). Rows that were read and not used do not.
 * (2) A row is read once a decision: who asks for it twice is told the same.
 * (3) A version row and the rows that it stands for are read at one moment, or the version first. So a round with a version row in it
 *     is a snapshot (TransactGetItems). If a writer is in its way, the round is read without one (BatchGetItem), and the version counts
 *     as read after its rows: it stands for what is read from then on. Every round of a call that only reads is a snapshot too, also if
 *     writers are in its way (snapshot.h): its answer was true at one moment, as far as it took one round.
 * (4) A query is a request of its own. A pass that has guessed is told that it found nothing; one that has not is answered, and so is
 *     every later pass, from memory. A scan, or a query with a filter, is not remembered: from there on all is read at once.
 * (5) Passes, rows and queries are bounded. Past a bound, all is read at once.
 * (6) Of a partition of auth-state of which a round reads several rows, it reads the version too: one condition instead of one per row
 *     (read_set.h, decision 037).
 *
 * (7) One row can be believed (ctx_believe) instead of read: whoever does so writes it, and nothing else. A decision that writes nothing rests on no belief.
 *
 * Service functions run several times for one call, as they do when others wrote in between. So they change nothing but their result
 * and their changes; the few that do more ask ctx_guesses first. Decision 032. */
#ifndef SERVICE_FORESIGHT_H
#define SERVICE_FORESIGHT_H

#include "service/change.h"

enum {
	FORESIGHT_PASSES_MAX = 6, /* that may guess */
	FORESIGHT_ROWS_MAX = 400,
	FORESIGHT_QUERIES_MAX = 64, /* one for each id of a person, and some (account.h) */
	FORESIGHT_TABLES_TRIES = 3, /* how often a round finds that one more table is not there */
};

struct foreseen {
	struct row_place        place;
	uint32_t                round; /* that it was read in; 0: it was not yet */
	bool                    no_table;
	bool                    remembered; /* the guess is what this process last knew */
	struct table_get_result got;        /* until it was read, a guess */
};

/* A query that was answered. */
struct queried {
	struct queried           *next;
	struct table_query        q;
	struct expr_key_condition key;
	struct table_query_result r;
};

struct foresight {
	struct foreseen *rows;
	uint32_t         count, missing; /* of them, so many are to be read */
	struct queried  *queries;
	uint32_t         query_count;
	uint32_t         round, passes;
	bool             at_once; /* (4), (5) */
	bool             read;    /* something was */
	bool             torn;    /* … and not all of it at one moment */
	uint8_t         *drawn;   /* random bytes, and how many of them this pass has used */
	size_t           drawn_len, drawn_used;
};

/* A new decision: nothing is known. */
void foresight_reset(struct foresight *f);

/* How a look-up is answered. */
enum foreseen_as {
	FORESEEN_NOT, /* read it at once */
	FORESEEN_KNOWN,
	FORESEEN_GUESSED, /* *out says so for now */
};

/* (7) A row that this process remembers is taken for read, because the commit rests on it and is sent by itself. False: it was read, or there is no
 * room. Doubt: it is a guess after all. */
bool foresight_believe(struct changes *c, const struct row_place *p, const struct table_get_result *got);
void foresight_doubt(struct changes *c, const struct row_place *p);

/* Where there is foresight: *out is what is known of the row. */
enum foreseen_as foresight_look(struct changes *c, const struct row_place *p, const struct foreseen **out);

/* The same of a query; KNOWN and GUESSED: *r is its answer. */
enum foreseen_as foresight_query(struct changes *c, const struct table_query *q,
                                 struct table_query_result *r);

/* It was asked, and this is the answer. */
void foresight_queried(struct changes *c, const struct table_query *q, const struct table_query_result *r);

/* Has this pass guessed? */
static inline bool foresight_guesses(const struct foresight *f)
{
	return f != NULL && f->missing > 0;
}

/* Was all that was read so at one moment? */
static inline bool foresight_is_snapshot(const struct foresight *f)
{
	return f != NULL && !f->torn;
}

/* The version row of that partition of auth-state; NULL: it was not read. */
const struct foreseen *foresight_version(const struct foresight *f, struct bytes pk);

/* Random bytes: the same for each pass. */
void foresight_random(struct changes *c, void *out, size_t len);

/* Reads what is missing, in one request if it fits. */
enum err_code foresight_read(struct changes *c, struct table *t, struct err *err);

#endif
