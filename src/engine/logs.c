/* Logs: see logs.h. */
#include "engine/logs.h"

#include "engine/layout.h"

void logs_init(struct logs *l)
{
	*l = (struct logs){.wanted_count = 0};
	arena_init(&l->arena);
}

void logs_release(struct logs *l)
{
	arena_release(&l->arena);
}

size_t logs_count(const struct logs *l)
{
	return atomic_load_explicit(&l->count, memory_order_acquire);
}

bool logs_have(const struct logs *l, size_t count, struct bytes key)
{
	for (size_t i = 0; i < count; i++)
		if (bytes_compare(key, l->list[i].low) >= 0 && bytes_compare(key, l->list[i].high) < 0)
			return true;
	return false;
}

bool logs_meet(const struct logs *l, size_t count, struct log_range range, bool *inside)
{
	bool meets = false;

	*inside = false;
	for (size_t i = 0; i < count; i++) {
		const struct log_range *log = &l->list[i];

		meets = meets ||
		        (bytes_compare(range.low, log->high) < 0 && bytes_compare(log->low, range.high) < 0);
		*inside = *inside || (bytes_compare(range.low, log->low) >= 0 &&
		                      bytes_compare(range.high, log->high) <= 0);
	}
	return meets;
}

const struct log_range *logs_found(struct logs *l, struct bytes key)
{
	size_t            count = logs_count(l);
	struct log_range *log = &l->list[count];

	if (count == LOGS_MAX)
		return NULL;
	*log = (struct log_range){arena_copy(&l->arena, key),
	                          layout_after(&l->arena, layout_partition_head(key))};
	atomic_store_explicit(&l->count, count + 1, memory_order_release);
	return log;
}

/* NULL if there are too many. */
static const struct log_wanted *want(struct logs *l, uint64_t number)
{
	struct log_wanted *w = l->wanted, *end = l->wanted + l->wanted_count;

	while (w < end && w->number != number)
		w++;
	if (w < end)
		return w;
	if (l->wanted_count == LOGS_MAX)
		return NULL;
	l->wanted_count++;
	*w = (struct log_wanted){number, atomic_load(&l->flushes_begun) + 1};
	return w;
}

/* Not in front of one that has begun in its partition. */
static bool may_begin(struct logs *l, struct bytes key)
{
	const struct log_wanted *w;

	for (size_t i = 0; i < logs_count(l); i++)
		if (bytes_equal(layout_partition_head(key), layout_partition_head(l->list[i].low)))
			return false;
	w = want(l, layout_partition_number(key));
	return w != NULL && atomic_load(&l->flush_done) >= w->after_flush;
}

bool logs_take(struct logs *l, struct bytes key)
{
	return logs_have(l, logs_count(l), key) || (may_begin(l, key) && logs_found(l, key) != NULL);
}

uint64_t logs_flush_begin(struct logs *l)
{
	return atomic_fetch_add(&l->flushes_begun, 1) + 1;
}

void logs_flush_done(struct logs *l, uint64_t flush)
{
	atomic_store(&l->flush_done, flush);
}
