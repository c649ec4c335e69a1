/* Lock groups: see lock_group.h. */
#include "service/lock_group.h"

#include "service/lock.h"

#define GROUP "group"

struct value_list lock_group_of(const struct item *row)
{
	const struct value *v = item_get(row, BYTES(GROUP));

	return v != NULL && v->type == VALUE_L && v->list.count <= LOCK_GROUP_MAX
	               ? v->list
	               : (struct value_list){NULL, 0};
}

bool lock_is_head(const struct item *row)
{
	struct value_list group = lock_group_of(row);

	return group.count == 0 || bytes_equal(value_text(&group.items[0]), row_text(row, "PK"));
}

/* The first id of the group whose row is still of it: whichever row it was found by, the same one is told of. */
struct item lock_group_told(struct arena *a, const struct lock_group *g)
{
	struct value_list ids = lock_group_of(&g->rows[0].item);

	for (uint32_t i = 0; i < ids.count; i++)
		for (uint32_t j = 0; j < g->count; j++)
			if (bytes_equal(value_text(&ids.items[i]), g->ids[j]))
				return i == 0 ? g->rows[j].item
				              : item_without(a, &g->rows[j].item, BYTES(GROUP));
	return g->rows[0].item;
}

void lock_group_name(struct row *row, const struct lock_group *g)
{
	struct value_list list = {arena_array(row->arena, g->count, sizeof(struct value)), g->count};

	if (g->count < 2)
		return;
	for (uint32_t i = 0; i < g->count; i++)
		list.items[i] = value_string(g->ids[i]);
	row_set(row, GROUP, (struct value){.type = VALUE_L, .list = list});
}

void lock_group_add(struct lock_group *g, struct bytes id)
{
	for (uint32_t i = 0; i < g->count; i++)
		if (bytes_equal(g->ids[i], id))
			return;
	if (g->count < LOCK_GROUP_MAX && id.len > 0)
		g->ids[g->count++] = id;
}

/* ---- rows ---- */

static enum err_code rows_look(struct context *ctx, struct bytes sk, struct lock_group *g, uint32_t from,
                               struct err *err)
{
	for (uint32_t i = from; i < g->count; i++) {
		looked_init(&g->rows[i], g->ids[i], sk);
		g->rows[i].next = i + 1 < g->count ? &g->rows[i + 1] : NULL;
	}
	if (from == g->count)
		return ERR_NONE;
	return from + 1 == g->count ? ctx_look(ctx, g->ids[from], sk, &g->rows[from], err)
	                            : ctx_look_all(ctx, &g->rows[from], err);
}

/* (1), (5) */
static bool is_of(const struct looked *row, const struct item *other)
{
	struct value_list a, b = lock_group_of(other);

	if (!row->found || row_i64(&row->item, "ttl", 0) != row_i64(other, "ttl", 0))
		return false;
	a = lock_group_of(&row->item);
	for (uint32_t i = 0; a.count == b.count && i < a.count; i++)
		if (!bytes_equal(value_text(&a.items[i]), value_text(&b.items[i])))
			return false;
	return a.count == b.count && a.count > 0;
}

static void ids_add(struct lock_group *g, const struct item *row)
{
	struct value_list group = lock_group_of(row);

	for (uint32_t i = 0; i < group.count; i++)
		lock_group_add(g, value_text(&group.items[i]));
}

/* Those from that place on stay if they are of one lock with one of those before. */
static void rows_keep(struct lock_group *g, uint32_t from)
{
	uint32_t kept = from;

	for (uint32_t i = from; i < g->count; i++) {
		bool joined = false;

		for (uint32_t j = 0; j < from; j++)
			joined = joined || (g->rows[j].found && is_of(&g->rows[i], &g->rows[j].item));
		if (!joined)
			continue;
		g->ids[kept] = g->ids[i];
		g->rows[kept++] = g->rows[i];
	}
	g->count = kept;
}

/* A lock that is set anew is told of as it was. */
static void head_keep(struct lock_group *g)
{
	struct value_list   old = g->rows[0].found ? lock_group_of(&g->rows[0].item) : (struct value_list){0};
	struct bytes        id = g->ids[0];
	const struct looked row = g->rows[0];

	for (uint32_t i = 1; old.count > 0 && i < g->count; i++)
		if (bytes_equal(g->ids[i], value_text(&old.items[0]))) {
			g->ids[0] = g->ids[i];
			g->rows[0] = g->rows[i];
			g->ids[i] = id;
			g->rows[i] = row;
			return;
		}
}

enum err_code lock_group_join(struct context *ctx, struct bytes sk, struct lock_group *g, struct err *err)
{
	uint32_t named = g->count;

	if (rows_look(ctx, sk, g, 0, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < named; i++)
		if (g->rows[i].found && lock_holds(&g->rows[i].item, ctx->now_us))
			ids_add(g, &g->rows[i].item);
	if (rows_look(ctx, sk, g, named, err) != ERR_NONE)
		return err->code;
	rows_keep(g, named);
	head_keep(g);
	return ERR_NONE;
}

enum err_code lock_group_find(struct context *ctx, const struct item *row, struct lock_group *out,
                              struct err *err)
{
	out->count = 0;
	lock_group_add(out, row_text(row, "PK"));
	looked_init(&out->rows[0], row_text(row, "PK"), row_text(row, "SK"));
	out->rows[0].found = true;
	out->rows[0].item = *row;
	ids_add(out, row);
	if (rows_look(ctx, row_text(row, "SK"), out, 1, err) != ERR_NONE)
		return err->code;
	rows_keep(out, 1);
	return ERR_NONE;
}
