/* Limit table: the engine that keeps states in a table: durable, and shared by all who use the table (limit_row.h: its rows).
 *
 * It reads, decides, and asks for changes with conditions on what was read. In a turn of the embedded engine they
 * always hold; on a remote one they are what keeps two from passing where there is room for one. Within a window the
 * condition is only that there is still room, so that many can add to one count at once without meeting.
 *
 * A policy with shards divides a key's limit over several rows. A call tries one of them, at random. If that one has too little,
 * it looks at all of them: so it is refused only if they have too little together (limit_shard.h). Looks, refunds and blocks
 * are about all rows. Rows that are laid out otherwise than the policy says are laid out anew by whoever takes units. If that
 * was done a moment ago, as processes with different policies would do in turn, the layout stays for LIMIT_LAYOUT_HOLD_US. */
#ifndef SERVICE_LIMIT_TABLE_H
#define SERVICE_LIMIT_TABLE_H

#include "service/context.h"
#include "service/limit_memory.h"

#define LIMIT_LAYOUT_HOLD_US INT64_C(60000000)

/* All or nothing, as limit_decide; *may is its `may`, and then what it returns. */
enum err_code limit_table_take(struct context *ctx, const struct limit_asks *asks, bool *may,
                               struct err *err);

/* It was taken, by a write that told the row as it left it (changes->written): others may have taken some meanwhile, which the answer then says. */
void limit_table_written(struct context *ctx, struct limit_ask *ask);

/* Gives each ask's cost back; its answer is that of a look afterwards. */
enum err_code limit_table_give(struct context *ctx, const struct limit_asks *asks, struct err *err);

/* ---- keys that were refused a moment ago ----
 *
 * They are remembered, so that a flood against one key costs neither a write nor a turn with the writer. Bounded; forgotten by a refund, by a policy that changed, and by time: after
 * LIMIT_DENIED_US_MAX at the latest the row is looked at again, because others may have changed it. Any thread. */

#define LIMIT_DENIED_US_MAX INT64_C(5000000)

/* True, with the answer, if this was refused a moment ago, and would be again. */
bool limit_denied_find(struct limit_map *m, struct limit_ask *ask, int64_t now_us);

/* The ask was refused. */
void limit_denied_note(struct limit_map *m, const struct limit_ask *ask, int64_t now_us);

void limit_denied_forget(struct limit_map *m, const struct limit_ask *ask);

#endif
