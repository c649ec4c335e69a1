/* Verdicts: the order among them. */
#include "service/verdict.h"

#include "base/clock.h"

const struct verdict_words verdict_words[] = {
#define X(id, name, status) [id] = {name, status},
        VERDICTS(X)
#undef X
};

static struct verdict_wait wait_until(int64_t until_s, int64_t now_us)
{
	if (until_s == 0)
		return (struct verdict_wait){0};
	return (struct verdict_wait){until_s, clock_seconds_left(until_s, now_us)};
}

struct verdict_wait verdict_wait(const struct verdict *v, int64_t now_us)
{
	return wait_until(v->kind == VERDICT_ALLOW ? 0 : v->until_s, now_us);
}

static int64_t last_end(const struct verdict *v)
{
	return v->joined ? v->last_s : v->until_s;
}

struct verdict_wait verdict_wait_all(const struct verdict *v, int64_t now_us)
{
	return wait_until(v->kind == VERDICT_ALLOW ? 0 : last_end(v), now_us);
}

/* No end is later than any. */
static bool ends_later(const struct verdict *a, const struct verdict *b)
{
	return b->until_s != 0 && (a->until_s == 0 || a->until_s > b->until_s);
}

static int64_t later_end(int64_t a, int64_t b)
{
	if (a == 0 || b == 0)
		return 0;
	return a > b ? a : b;
}

struct verdict_lock verdict_lock(const struct verdict *v)
{
	if (v->kind != VERDICT_LOCKED && v->kind != VERDICT_LOCKED_PERMANENT)
		return v->lock;
	return (struct verdict_lock){true, v->sk, v->block_type, v->until_s};
}

static struct verdict_lock later_lock(struct verdict_lock a, struct verdict_lock b)
{
	if (!a.stands || !b.stands)
		return a.stands ? a : b;
	return a.until_s == 0 || (b.until_s != 0 && a.until_s >= b.until_s) ? a : b;
}

void verdict_add(struct verdict *v, const struct verdict *other)
{
	int64_t last = v->kind == VERDICT_ALLOW ? last_end(other) : later_end(last_end(v), last_end(other));
	struct verdict_lock lock;

	if (other->kind == VERDICT_ALLOW)
		return;
	lock = later_lock(verdict_lock(v), verdict_lock(other));
	if (other->kind > v->kind || (other->kind == v->kind && ends_later(other, v)))
		*v = *other;
	v->joined = true;
	v->last_s = last;
	v->lock = lock;
}
