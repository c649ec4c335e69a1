/* Trimming: events that were kept long enough go, oldest first. A step is one commit: it removes rows of one shard and moves the first
 * position that exists (HEAD, FIRST#0), so that a reader sees either both or neither.
 *
 * (1) An event stays for as long as the policy says (keep).
 * (2) It stays longer if a consumer or a target does not have it yet, up to lag_max. What goes before somebody has it is counted.
 * (3) Positions and numbers are never used again: HEAD stays, and so do the numbers of subjects. */
#ifndef SERVICE_EVENT_TRIM_H
#define SERVICE_EVENT_TRIM_H

#include "service/event_log.h"

enum {
	TRIM_ROWS = 90,          /* of a step: a commit has room for CHANGES_MAX */
	TRIM_READERS_MAX = 1000, /* rows of a kind of readers: more than there may be of each */
};

struct trim_step {
	uint32_t     trimmed;
	uint32_t     unread; /* of these, somebody did not have */
	struct bytes reader; /* … one of those who did not; empty: all had them */
	bool         more;   /* others could go now */
	bool         held;   /* one is old enough, and stays for a reader */
};

/* How far every durable reader is: rows CONSUMER and TARGET, their attribute `positions`, a number for each shard. */
struct trim_readers {
	int64_t last
	        [EVENT_SHARDS_MAX]; /* the last position that all of them have; INT64_MAX: there is no reader */
	struct bytes name[EVENT_SHARDS_MAX]; /* who is behind all others */
};

enum err_code trim_readers_read(struct context *ctx, struct trim_readers *out, struct err *err);

/* Adds to the changes. */
enum err_code event_trim(struct context *ctx, uint32_t shard, const struct trim_readers *readers,
                         struct trim_step *out, struct err *err);

#endif
