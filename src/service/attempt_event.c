/* Attempt events: see attempt_event.h. */
#include "service/attempt_event.h"

#include "base/buf.h"
#include "service/event.h"
#include "service/row.h"

static void rule_add(const struct attempt *q, struct row *data)
{
	row_set_text(data, "journey", q->rule->journey);
	row_set_text(data, "type", q->rule->type);
}

/* ---- few tries are left ---- */

void attempt_near_limit(struct context *ctx, const struct attempt *q, const struct count_shown *nearest)
{
	struct event   e = {.type = EVENT_ATTEMPT_NEAR_LIMIT, .subject = q->subjects[0]};
	struct member *m;
	uint32_t       count = 3;

	if (!ctx_publishes(ctx, e.type) || q->rule->shadow || nearest->max == 0 || nearest->remaining <= 0 ||
	    nearest->remaining > ctx_event_policy(ctx)->near_limit)
		return;
	m = arena_array(ctx->arena, 6, sizeof(*m));
	m[0] = (struct member){BYTES("count"), value_i64(nearest->count)};
	m[1] = (struct member){BYTES("journey"), value_string(q->rule->journey)};
	m[2] = (struct member){BYTES("max"), value_i64(nearest->max)};
	if (nearest->of.len > 0)
		m[count++] = (struct member){BYTES("of"), value_string(nearest->of)};
	m[count++] = (struct member){BYTES("remaining"), value_i64(nearest->remaining)};
	m[count++] = (struct member){BYTES("type"), value_string(q->rule->type)};
	e.data = (struct item){m, count};
	ctx_publish(ctx, &e);
}

/* ---- sources ---- */

enum { MARK_CHARS = 12 }; /* of a hash: 72 bits */

#define SEEN_KEY "SOURCE#" KEY_SEEN "#RECENT"

/* "ip:…": the beginning of its hash. */
static struct bytes mark_of(struct bytes source)
{
	size_t at = 0;

	while (at < source.len && source.data[at] != ':')
		at++;
	source = at < source.len ? (struct bytes){source.data + at + 1, source.len - at - 1} : source;
	return (struct bytes){source.data, source.len < MARK_CHARS ? source.len : MARK_CHARS};
}

static bool list_has(struct bytes list, struct bytes mark)
{
	for (size_t at = 0; at + mark.len <= list.len; at++)
		if ((at == 0 || list.data[at - 1] == ' ') &&
		    bytes_equal((struct bytes){list.data + at, mark.len}, mark))
			return true;
	return false;
}

/* With the mark at its end, and without the oldest if there are too many. */
static struct bytes list_with(struct arena *a, struct bytes list, struct bytes mark)
{
	uint32_t count = 1;

	for (size_t i = 0; i < list.len; i++)
		count += list.data[i] == ' ';
	while (list.len > 0 && count-- >= SOURCES_SEEN_MAX) {
		const char *space = memchr(list.data, ' ', list.len);
		size_t      skip = space == NULL ? list.len : (size_t)(space - list.data) + 1;

		list = (struct bytes){list.data + skip, list.len - skip};
	}
	return list.len == 0 ? mark : arena_printf(a, "%.*s %.*s", BYTES_ARG(list), BYTES_ARG(mark));
}

/* The row with this source in that list. */
static void seen_put(struct context *ctx, const struct looked *old, const char *name, struct bytes list)
{
	struct row row;

	if (old->found) {
		row_from(&row, ctx->arena, &old->item);
	} else {
		row_init(&row, ctx->arena);
		row_set_text(&row, "PK", old->pk);
		row_set_text(&row, "SK", old->sk);
	}
	if (list.len > 0)
		row_set_text(&row, name, list);
	row_set_i64(&row, "last_updated", ctx->now_s);
	row_set_i64(&row, "ttl", ctx->now_s + SOURCES_SEEN_LIFE_S);
	ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
}

static void source_publish(struct context *ctx, const struct attempt *q, bool success, bool first)
{
	struct event e = {.type = EVENT_ATTEMPT_NEW_SOURCE, .subject = q->subjects[0]};
	struct row   data;

	row_init(&data, ctx->arena);
	rule_add(q, &data);
	row_set_text(&data, "outcome", success ? BYTES("success") : BYTES("failure"));
	row_set(&data, "first", value_bool(first));
	if (ctx_publishes_personal(ctx, e.type))
		row_set_text(&data, "source", q->source);
	e.data = row_item(&data);
	ctx_publish(ctx, &e);
}

enum err_code attempt_new_source(struct context *ctx, const struct attempt *q, enum outcome outcome,
                                 struct err *err)
{
	bool          success = outcome == OUTCOME_SUCCESS;
	const char   *name = success ? "known" : "tried";
	struct bytes  mark = mark_of(q->source), known, tried;
	struct looked old;

	if (!ctx_publishes(ctx, EVENT_ATTEMPT_NEW_SOURCE) || q->source.len == 0 || q->rule->shadow)
		return ERR_NONE;
	if (ctx_look(ctx, q->subjects[0], BYTES(SEEN_KEY), &old, err) != ERR_NONE)
		return err->code;
	known = old.found ? row_text(&old.item, "known") : (struct bytes){NULL, 0};
	tried = old.found ? row_text(&old.item, "tried") : (struct bytes){NULL, 0};
	if (list_has(known, mark) || (!success && list_has(tried, mark))) {
		if (ctx->now_s - row_i64(&old.item, "last_updated", 0) > SOURCES_SEEN_RENEW_S)
			seen_put(ctx, &old, name, (struct bytes){NULL, 0});
		return ERR_NONE;
	}
	seen_put(ctx, &old, name, list_with(ctx->arena, success ? known : tried, mark));
	source_publish(ctx, q, success, success && known.len == 0);
	return ERR_NONE;
}
