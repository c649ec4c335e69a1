/* Batches as rows (push.h), and what a commit over several of them shares: for push.c, push_settle.c and nobody else. */
#ifndef SERVICE_PUSH_BATCH_H
#define SERVICE_PUSH_BATCH_H

#include "service/push.h"

#define KEY_WAIT    "WAIT"
#define KEY_SENDING "SENDING"
#define KEY_RECEIPT "RECEIPT"
#define KEY_DEAD    "DEAD"
#define KEY_COUNT   "COUNT"
#define KEY_RATE    "RATE"

struct bytes      batch_pk(struct arena *a, const char *kind, uint32_t shard);
struct bytes      batch_due_key(struct arena *a, int64_t due_us, struct bytes id); /* 0: now */
struct push_batch batch_of(struct arena *a, const struct item *row);

/* Where a row is to be. */
struct batch_place {
	const char  *kind;
	uint32_t     shard;
	struct bytes key;
	struct bytes owner; /* of SENDING; empty elsewhere */
};

void batch_put(struct context *ctx, const struct batch_place *at, const struct push_batch *b);
void batch_delete(struct context *ctx, const struct batch_place *at);

/* The row as it is now; *found is false if it is gone, or its owner is another one. */
enum err_code batch_look(struct context *ctx, const struct batch_place *at, struct push_batch *out,
                         bool *found, struct err *err);

/* The first rows of a kind. */
struct batch_rows {
	struct item *items;
	uint32_t     count;
};

enum err_code batch_rows(struct context *ctx, const struct batch_place *at, uint32_t limit,
                         struct batch_rows *out, struct err *err);

/* ---- a commit: notifications and the count of the shard, each read and written once ---- */

struct push_commit {
	struct context      *ctx;
	uint32_t             shard;
	struct notification *notes;
	uint32_t             note_count;
	int64_t left; /* messages that neither wait nor are being sent any more; below 0: new ones */
	struct push_tally *tally;
};

void push_commit_begin(struct push_commit *c, struct context *ctx, uint32_t shard, struct push_tally *tally);

/* NULL: it has expired. */
enum err_code push_commit_note(struct push_commit *c, struct bytes id, struct notification **out,
                               struct err *err);

/* So many messages of n go over; n may be NULL. */
void push_commit_move(struct push_commit *c, struct notification *n, enum push_state from, enum push_state to,
                      int64_t count);
void push_commit_fail(struct push_commit *c, struct notification *n, enum push_state from, unsigned error);

/* So many messages that waited leave the queue: n was cancelled, which has counted them, or has expired; it may be NULL. */
void push_commit_over(struct push_commit *c, struct notification *n, int64_t count);

/* Puts a batch into the queue of its shard, under a new id: parts of one batch cannot share it. */
void batch_wait(struct push_commit *c, struct push_batch *b, int64_t due_us);

/* Is there room for so many rows more? */
bool          push_commit_room(const struct push_commit *c, uint32_t rows);
enum err_code push_commit_end(struct push_commit *c, struct err *err);

#endif
