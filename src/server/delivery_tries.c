/* The last tries of a target, in memory: see service/target_try.h. */
#include "server/delivery_state.h"

#include <stdio.h>

#include "server/own_call.h"

/* Under lock. The newest first. */
void delivery_try_keep(struct delivery_target *t, const struct sender_event *e, int64_t took_us,
                       int64_t now_us)
{
	struct tries_kept *k = &t->tries;
	uint32_t           last = k->count < TARGET_TRIES_KEPT ? k->count++ : TARGET_TRIES_KEPT - 1;

	memmove(k->list + 1, k->list, last * sizeof(k->list[0]));
	k->list[0] =
	        (struct try_kept){.at_us = now_us, .took_us = took_us, .end = e->end, .status = e->status};
	snprintf(k->list[0].event, sizeof(k->list[0].event), "%.*s", BYTES_ARG(e->id));
	snprintf(k->list[0].type, sizeof(k->list[0].type), "%.*s", BYTES_ARG(e->type));
	snprintf(k->list[0].error, sizeof(k->list[0].error), "%s", e->error);
	k->made++;
}

/* Under lock. Texts are those of the list. */
static void tries_copy(const struct tries_kept *k, struct arena *a, struct target_tries *out)
{
	out->count = k->count;
	for (uint32_t i = 0; i < k->count; i++)
		out->list[i] = (struct target_try){.at_us = k->list[i].at_us,
		                                   .took_us = k->list[i].took_us,
		                                   .end = (unsigned)k->list[i].end,
		                                   .status = k->list[i].status,
		                                   .event = arena_copy(a, bytes_of(k->list[i].event)),
		                                   .type = arena_copy(a, bytes_of(k->list[i].type)),
		                                   .error = arena_copy(a, bytes_of(k->list[i].error))};
}

int64_t delivery_tries_due_us(const struct delivery_target *t)
{
	int64_t gap_s = t->alone ? TARGET_TRIES_WRITE_S : TARGET_TRIES_FAR_S, left_us;

	if (t->tries.made == t->tries.written)
		return -1;
	if (t->reload || t->stopping)
		return 0;
	left_us = t->tries.written_us + gap_s * SECOND_US - steady_us();
	return left_us > 0 ? left_us : 0;
}

const struct target_tries *delivery_tries_take(struct delivery_target *t, struct arena *a, uint64_t *made)
{
	struct target_tries *out;

	*made = t->tries.written;
	if (delivery_tries_due_us(t) != 0)
		return NULL;
	*made = t->tries.made;
	out = arena_alloc(a, sizeof(*out));
	tries_copy(&t->tries, a, out);
	return out;
}

void delivery_tries_written(struct delivery_target *t, uint64_t made)
{
	if (made != t->tries.written)
		t->tries.written_us = steady_us();
	t->tries.written = made;
}

/* Those of before, whichever process made them. */
void delivery_tries_load(struct delivery_target *t)
{
	struct target_tries tries;
	struct own_call     c;
	struct err          err;

	own_call_init(&c, t->options.services, t->options.store);
	own_call_read(&c);
	if (target_tries_get(&c.ctx, &t->target, &tries, &err) == ERR_NONE) {
		pthread_mutex_lock(&t->lock);
		t->tries = (struct tries_kept){.written_us = t->tries.written_us};
		for (uint32_t i = tries.count; i-- > 0;) {
			struct sender_event e = {.id = tries.list[i].event,
			                         .type = tries.list[i].type,
			                         .end = (enum sender_end)tries.list[i].end,
			                         .status = (int)tries.list[i].status};

			snprintf(e.error, sizeof(e.error), "%.*s",
			         (int)(tries.list[i].error.len < sizeof(e.error) ? tries.list[i].error.len
			                                                         : sizeof(e.error) - 1),
			         tries.list[i].error.data);
			delivery_try_keep(t, &e, tries.list[i].took_us, tries.list[i].at_us);
		}
		t->tries.written = t->tries.made;
		pthread_mutex_unlock(&t->lock);
	}
	own_call_read_end(&c);
	own_call_release(&c);
}
