/* Offline: the engine's check and salvage, in words that need no engine. */
#include "server/offline.h"

#include <stdio.h>

#include "api/dynamodb.h"
#include "api/v1.h"
#include "engine/check.h"
#include "engine/salvage.h"
#include "service/user_check.h"

static void check_tell(const struct check_found *f, struct offline_check *out)
{
	*out = (struct offline_check){.sealed = f->sealed,
	                              .damaged_seals = f->damaged_seals,
	                              .files = f->files,
	                              .bytes = f->bytes,
	                              .damaged_files = f->damaged_files,
	                              .torn_bytes = f->torn_bytes,
	                              .rows = f->counts.rows,
	                              .index_entries = f->counts.index_entries,
	                              .expiry_entries = f->counts.expiry_entries,
	                              .differences = f->counts.differences};
}

struct checking {
	const struct offline_watch *watch;
	struct services             services; /* the tables' names alone */
	struct users_checked        users;
};

static void on_progress(void *ctx, enum check_phase phase, unsigned percent, const struct check_found *f)
{
	const struct offline_watch *watch = ((struct checking *)ctx)->watch;
	struct offline_check        found;

	check_tell(f, &found);
	watch->progress(watch->ctx, phase == CHECK_BLOCKS ? OFFLINE_BLOCKS : OFFLINE_ROWS, percent, &found);
}

static void on_problem(void *ctx, const char *text)
{
	const struct offline_watch *watch = ((struct checking *)ctx)->watch;

	watch->problem(watch->ctx, text);
}

/* Page by page, so that memory stays small: the cursor is kept in the arena of the page after it. */
static enum err_code check_users(void *ctx, struct table *t, struct err *err)
{
	struct checking   *checking = ctx;
	struct users_check c = {.problem = on_problem, .ctx = ctx};
	struct arena       arenas[2];
	enum err_code      rc;
	unsigned           page = 0;

	arena_init(&arenas[0]);
	arena_init(&arenas[1]);
	do {
		struct context now = {
		        .services = &checking->services, .arena = &arenas[page % 2], .caller = BYTES("-")};

		arena_reset(now.arena);
		ctx_begin(&now, t);
		rc = users_check_page(&now, &c, err);
		page++;
	} while (rc == ERR_NONE && c.more);
	arena_release(&arenas[0]);
	arena_release(&arenas[1]);
	checking->users = c.found;
	return rc;
}

enum err_code offline_check(const struct offline_place *place, const struct offline_watch *watch,
                            struct offline_check *found, struct err *err)
{
	struct offline_watch own = *watch;
	struct checking      checking = {.watch = &own};
	struct check_watch   engine = {&checking, on_progress, on_problem, check_users};
	struct check_found   f;

	checking.services.tables = service_tables_default();
	checking.services.tables.names[TABLE_USERS] = bytes_of(place->users_table);
	if (engine_check(place->path, &engine, &f, err) != ERR_NONE)
		return err->code;
	check_tell(&f, found);
	found->users = checking.users.users;
	found->addresses = checking.users.addresses;
	found->markers = checking.users.markers;
	found->broken = checking.users.problems;
	found->sound = check_is_sound(&f);
	return ERR_NONE;
}

enum err_code offline_salvage(const char *path, bool drop, void (*say)(void *ctx, const char *text),
                              struct offline_salvage *found, struct err *err)
{
	struct salvage_watch watch = {NULL, say};
	struct salvage_found f;

	if (engine_salvage(path, drop, &watch, &f, err) != ERR_NONE)
		return err->code;
	*found = (struct offline_salvage){.damaged = f.damaged, .dropped = f.dropped};
	snprintf(found->aside, sizeof(found->aside), "%s", f.aside);
	return ERR_NONE;
}

/* ---- the words of policies ---- */

size_t offline_actions(struct arena *a, struct bytes **out)
{
	size_t operations = 0, routes = 0, count = 0;

	while (operation_at((unsigned)operations) != NULL)
		operations++;
	while (v1_route_at((unsigned)routes) != NULL)
		routes++;
	*out = arena_array(a, operations + routes + 1, sizeof(**out));
	for (size_t i = 0; i < operations; i++)
		(*out)[count++] =
		        arena_printf(a, "dynamodb:%.*s", BYTES_ARG(operation_at((unsigned)i)->name));
	for (size_t i = 0; i < routes; i++)
		(*out)[count++] = arena_printf(a, "gatehouse:%s", v1_route_at((unsigned)i)->action);
	(*out)[count++] = BYTES("dynamodb:ConditionCheckItem"); /* part of a transaction */
	return count;
}
