/* Erasing: nothing of a user is left, in any table. A job (job.h) of the kind `erase`.
 *
 *   one commit         PROFILE becomes `erasing`, the user's tokens are revoked, its sign-out at the provider is queued, the job starts
 *   addresses          of each that is verified: the rows under its keyed hash; of each: the address and its marker, so that it
 *                      is free again
 *   profile            the rows under the phone number's hash; then PROFILE loses all but its status
 *   each eraser        rows of one table: under the user's id, or found by reading the table
 *   once more          from the addresses on, until a pass finds nothing: what was written meanwhile
 *   one commit         PROFILE goes, with the event user.erased; that it is erased stays under a keyed hash (erased.h)
 *   one commit         the number of the user's last event moves under a keyed hash; the job is done, and is the receipt
 *
 * What always holds
 * (1) From the first commit on every service refuses the user. Its id is free only when all else is gone.
 * (2) An address is free only when nothing is left under its hash: both are one commit.
 * (3) A table is in the list of erasers, or in that of exemptions with its reason. A test fails if one is in neither. Rows of a
 *     table with erasers may be exempt too, under a reason of their own.
 * (4) Events keep their position and number, and lose their data and the user's id.
 * (5) The receipt counts rows by table, and names the user by a keyed hash alone.
 * (6) To erase a user that is being erased starts nothing: it is the same job. One that failed is resumed.
 * (7) Nothing is erased under an address that the user has claimed and not verified: its counts and locks are somebody else's,
 *     and whoever claims it could lift them.
 * (8) An id that no row is kept under, and of which no event was ever published, ends with the first step: no table is read for it, and nobody is told of it,
 *     for nobody has heard of it. Rows that only mention it, such as kept answers, expire by themselves. */
#ifndef SERVICE_ERASE_H
#define SERVICE_ERASE_H

#include "service/job.h"

enum {
	ERASE_PASSES_MAX = 5,    /* while there is always more: what others write past us */
	ERASE_HANDLES_MAX = 500, /* ids and hashes that a user was known by */
	ERASE_PAGE = 1000,       /* rows that a look into a table reads at a time */
	ERASE_RATE = 50000,      /* rows per second, read or erased */
};

extern const struct job_kind erase_job;

/* For any id, whether or not it is a user's. Adds to the changes. */
enum err_code erase_start(struct context *ctx, struct bytes user, struct job_started *out, struct err *err);

/* ---- what is erased, and what is not ---- */

struct erasing {
	struct bytes id;
	struct bytes hash; /* of the id: "erased:…" */
	struct bytes *
	        handles; /* what else its rows may be called by: hashes of its addresses and its phone number */
	uint32_t handle_count;
};

/* One of the two. */
struct eraser {
	enum service_table table;
	/* Deletes as many as there is room for; it is called until it changes nothing. In the turn. */
	enum err_code (*rows)(struct context *ctx, struct bytes user, struct err *err);
	/* Is that row about the user? All rows of the table are read, outside of any turn. */
	bool (*owns)(struct context *ctx, const struct erasing *e, const struct item *row);
	/* With owns: what is left of the row. NULL: nothing. */
	struct item (*blank)(struct context *ctx, const struct erasing *e, const struct item *row);
};

struct erase_exemption {
	enum service_table table;
	const char
	        *rows; /* the partition that is exempt, of a table that has erasers; NULL: all of the table */
	const char *why;
};

extern const struct eraser          erasers[];
extern const unsigned               eraser_count;
extern const struct erase_exemption erase_exemptions[];
extern const unsigned               erase_exemption_count;

/* For erasers: rows of a partition, as many as there is room for, but one whose sort key is `but` (empty: none). */
struct erase_partition {
	enum service_table table;
	struct bytes       pk, prefix, but;
};

enum err_code erase_rows(struct context *ctx, const struct erase_partition *q, struct err *err);

/* Is that text the user's id, or one of its hashes? */
bool erase_is_handle(const struct erasing *e, struct bytes text);

#endif
