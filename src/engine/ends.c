/* Ends: see ends.h. The number's lowest bits, which are those of a hash, say where it is noted. */
#include "engine/ends.h"

void ends_init(struct ends *e)
{
	*e = (struct ends){0};
	for (int i = 0; i < ENDS_MAX; i++)
		buf_init(&e->places[i].last, NULL);
}

void ends_release(struct ends *e)
{
	for (int i = 0; i < ENDS_MAX; i++)
		buf_release(&e->places[i].last);
}

static struct end *place_of(const struct ends *e, uint64_t number)
{
	return (struct end *)&e->places[number % ENDS_MAX];
}

bool ends_has(const struct ends *e, uint64_t number)
{
	return atomic_load_explicit(&place_of(e, number)->left_out, memory_order_acquire) == number &&
	       number != 0;
}

bool ends_any(const struct ends *e)
{
	for (int i = 0; i < ENDS_MAX; i++)
		if (atomic_load_explicit(&e->places[i].left_out, memory_order_relaxed) != 0)
			return true;
	return false;
}

static void last_set(struct end *end, struct bytes key)
{
	end->last.len = 0;
	buf_add_bytes(&end->last, key);
}

bool ends_note(struct ends *e, uint64_t number, struct bytes key)
{
	struct end *end = place_of(e, number);
	bool        left_out = atomic_load_explicit(&end->left_out, memory_order_relaxed) != 0;

	if (end->number != number) {
		if (left_out)
			return false;
		end->number = number;
		end->in_order = 0;
		last_set(end, key);
		return false;
	}
	if (bytes_compare(key, buf_bytes(&end->last)) > 0) {
		end->in_order++;
		last_set(end, key); /* (E3) */
	} else {
		end->in_order = 0;
	}
	return !left_out && end->in_order > 0 && end->in_order % ENDS_IN_ORDER == 0;
}

void ends_leave_out(struct ends *e, uint64_t number)
{
	atomic_store_explicit(&place_of(e, number)->left_out, number, memory_order_release);
}

bool ends_is_behind(const struct ends *e, uint64_t number, struct bytes key)
{
	return ends_has(e, number) && bytes_compare(key, buf_bytes(&place_of(e, number)->last)) > 0;
}
