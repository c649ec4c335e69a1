/* Limit memory: the engine that keeps states in this process: fast, bounded, gone with it. Any thread. */
#ifndef SERVICE_LIMIT_MEMORY_H
#define SERVICE_LIMIT_MEMORY_H

#include "service/limit_ask.h"
#include "service/limit_map.h"

/* All or nothing, as limit_decide. No two asks have the same key. */
bool limit_memory_take(struct limit_map *m, const struct limit_asks *asks, bool may, int64_t now_us);

/* Gives each ask's cost back; its answer is that of a look afterwards. Without `keep` it only answers. */
void limit_memory_give(struct limit_map *m, const struct limit_asks *asks, bool keep, int64_t now_us);

#endif
