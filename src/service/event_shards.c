/* Event shards: see event_shards.h. */
#include "service/event_shards.h"

#include "service/row.h"

#define ATTRIBUTE "logShards" /* nobody else has one of that name; migrate/place.c knows it too */

enum { SHARDS, HEAD, CONSUMERS, TARGETS, LOOKS };

static void rows_name(struct looked rows[LOOKS])
{
	static const char *const keys[LOOKS] = {"SHARDS", "LOG#0", "CONSUMERS", "TARGETS"};

	for (int i = 0; i < LOOKS; i++) {
		looked_init(&rows[i], BYTES("HEAD"), bytes_of(keys[i]));
		rows[i].next = i + 1 < LOOKS ? &rows[i + 1] : NULL;
	}
}

/* (3) */
static bool has_begun(const struct looked rows[LOOKS])
{
	return rows[HEAD].found ||
	       (rows[CONSUMERS].found && row_i64(&rows[CONSUMERS].item, "count", 0) > 0) ||
	       (rows[TARGETS].found && row_i64(&rows[TARGETS].item, "count", 0) > 0);
}

static enum err_code row_read(const struct looked rows[LOOKS], uint32_t *shards, struct err *err)
{
	int64_t said = row_i64(&rows[SHARDS].item, ATTRIBUTE, 0);

	if (said < 1 || said > EVENT_SHARDS_MAX)
		return err_set(err, ERR_FOREIGN_TABLE,
		               "the row " EVENT_SHARDS_ROW
		               " of the table of events does not say how many shards the log has, from 1 to "
		               "%d: somebody changed it. Put back what it said",
		               EVENT_SHARDS_MAX);
	if (said > 1 && rows[HEAD].found) /* (4) */
		return err_set(err, ERR_FOREIGN_TABLE,
		               "the table of events holds rows of two logs: the row " EVENT_SHARDS_ROW
		               " says %d shards, and the row HEAD LOG#0 is of a log with one. An older "
		               "program wrote "
		               "to it, or another log was imported into it. If you want that one, and "
		               "the other has no events yet, delete the row " EVENT_SHARDS_ROW
		               "; else begin with an empty table of events",
		               (int)said);
	*shards = (uint32_t)said;
	return ERR_NONE;
}

static void row_put(struct context *ctx, const struct looked *at, uint32_t shards)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", at->pk);
	row_set_text(&row, "SK", at->sk);
	row_set_i64(&row, ATTRIBUTE, shards);
	ctx_put(ctx, TABLE_EVENTS, row_item(&row));
}

enum err_code event_shards_find(struct context *ctx, uint32_t wanted, uint32_t *shards, struct err *err)
{
	struct looked rows[LOOKS];

	rows_name(rows);
	if (ctx_look_all_in(ctx, TABLE_EVENTS, rows, err) != ERR_NONE)
		return err->code;
	if (rows[SHARDS].found)
		return row_read(rows, shards, err);
	if (wanted == 0)
		wanted = ctx->table->alone ? 1 : EVENT_SHARDS_NEW;
	*shards = has_begun(rows) ? 1 : wanted;
	if (!ctx->table->alone)
		row_put(ctx, &rows[SHARDS], *shards);
	return ERR_NONE;
}
