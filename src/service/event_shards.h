/* Event shards: into how many shards the log of events (event.h) is divided. Where many processes publish, each shard has a head of its own that
 * they meet at. One row of the table gatehouse-events says how many there are:
 *
 *   HEAD        SHARDS                  logShards
 *
 * What always holds
 * (1) The number never changes: a subject's events would be in two shards, and nobody could tell their order.
 * (2) All who share the tables have the same. The first one who starts writes the row, on the condition that there is neither a row nor a log; whoever
 *     comes later takes what it says, before it publishes anything.
 * (3) A log without that row has one shard: older programs wrote it, or an engine that is alone, where nobody else could have another number. So
 *     has one that has readers and no events yet.
 * (4) The head of a log with one shard is in another partition than those of several. If both are there, rows of another log were added
 *     to the table, and neither can be trusted. */
#ifndef SERVICE_EVENT_SHARDS_H
#define SERVICE_EVENT_SHARDS_H

#include "service/event.h"

enum { EVENT_SHARDS_NEW = 16 }; /* of a log that begins where several processes may publish, unless set */

#define EVENT_SHARDS_ROW "HEAD SHARDS" /* its key, for people */

/* *shards: what the log has, from now on for ever. `wanted` is for a log that is still to begin; 0: EVENT_SHARDS_NEW, or one where nobody
 * else publishes. Adds to the changes.
 * ERR_FOREIGN_TABLE: (4), or the row says something else. */
enum err_code event_shards_find(struct context *ctx, uint32_t wanted, uint32_t *shards, struct err *err);

#endif
