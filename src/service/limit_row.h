/* Limit rows: what the table engine keeps of a key. A row is what documents of such limiters draw:
 *
 *   PK           "RL#" + key; of shard 1 and on "RLS#1#" + key
 *   WindowStart  ISO 8601, UTC: of the window that is counted in          fixed, sliding
 *   Count        units taken in it                                        fixed, sliding
 *   PrevCount    units taken in the window before                         sliding
 *   TAT          when all is drained again, microseconds since 1970       gcra
 *   TATRest      and 1/limit microseconds                                 gcra
 *   BlockedAt    since when the key is blocked, microseconds since 1970   if the policy blocks
 *   Shards       over how many rows the limit is divided                  if it is
 *   ShardsOf     the limit that is divided: "100", gcra "100/20"          if it is
 *   LaidAt       since when it is so, microseconds since 1970             if it is
 *   TTL          when the row is worthless, and an hour, in seconds
 *
 * What always holds of a key that is divided (limit_shard.h)
 * (1) Its rows are laid out together, in one transaction that rests on every row it replaces, and have the same TTL. So they are
 *     there together or not at all, and who finds no row "RL#" + key need not look for others.
 * (2) A row is changed only while `Shards` and `ShardsOf` are what was read, and never so that it would be worth something after
 *     its TTL: it is laid out anew before that, once a day at most. */
#ifndef SERVICE_LIMIT_ROW_H
#define SERVICE_LIMIT_ROW_H

#include "service/context.h"
#include "service/limit_policy.h"

enum {
	LIMIT_ROW_GRACE_S = 3600,
	LIMIT_LAYOUT_S = 86400, /* for so long rows can be changed without being laid out anew */
};

struct limit_row {
	struct looked      row;
	unsigned           shard;
	struct limit_state state;  /* all zeros if there is no row */
	unsigned           shards; /* that it was laid out with; 1: it is not divided; 0: there is no row */
	bool               alike;  /* laid out for the same limit */
	int64_t            laid_us;
};

/* To be looked at. */
void limit_row_init(struct limit_row *r, struct arena *a, struct bytes key, unsigned shard);

/* It was. Others may have written it: what makes no sense counts as nothing. */
void limit_row_read(struct limit_row *r, struct arena *a, const struct limit_rule *rule);

/* Would a change now outlive the row? Then it is to be laid out anew. */
bool limit_row_ends(const struct limit_row *r, const struct limit_rule *rule, int64_t now_us);

/* Its new state, in the same layout. */
void limit_row_write(struct context *ctx, const struct limit_rule *rule, const struct limit_row *r,
                     const struct limit_state *s);

/* All rows of a key in a layout of so many shards: `rows` has them first, and any others there were. */
struct limit_rows {
	struct limit_row *list;
	unsigned          count;
};

void limit_rows_lay(struct context *ctx, const struct limit_rule *rule, struct limit_rows rows,
                    struct limit_states states);

#endif
