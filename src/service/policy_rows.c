/* Policy rows: keys, reading, replacing. */
#include "service/policy_rows.h"

#include <inttypes.h>

#include "service/row.h"

/* ---- keys ---- */

static struct bytes newest_key(struct arena *a, const char *kind, enum policy_place place)
{
	return arena_printf(a, "POLICY#%s%s", kind, place == PLACE_FILE ? "#FILE" : "");
}

static struct bytes version_key(struct arena *a, const char *kind, int64_t version)
{
	return arena_printf(a, "POLICY#%s#VERSION#%" PRIi64, kind, version);
}

/* ---- reading ---- */

static enum err_code get(struct bytes pk, struct changes *c, struct table *t, struct policy_version *out,
                         struct err *err)
{
	struct table_get        q = {.table = c->tables->names[TABLE_POLICIES], .consistent = true};
	struct table_get_result r;

	*out = (struct policy_version){0};
	q.key = row_key_one(c->arena, pk);
	if (tables_get(t, c->arena, &q, &r, err) != ERR_NONE)
		return err->code;
	if (!r.found)
		return ERR_NONE;
	*out = (struct policy_version){.found = true,
	                               .version = row_i64(&r.item, "version", 0),
	                               .origin = document_origin_of(row_text(&r.item, "origin")),
	                               .set_s = row_i64(&r.item, "last_updated", 0),
	                               .text = row_text(&r.item, "document"),
	                               .kept = row_text(&r.item, "kept")};
	return ERR_NONE;
}

enum err_code policy_rows_newest(const char *kind, enum policy_place place, struct changes *c,
                                 struct table *t, struct policy_version *out, struct err *err)
{
	return get(newest_key(c->arena, kind, place), c, t, out, err);
}

enum err_code policy_rows_find(const char *kind, int64_t version, struct changes *c, struct table *t,
                               struct policy_version *out, struct err *err)
{
	if (get(version_key(c->arena, kind, version), c, t, out, err) != ERR_NONE || out->found)
		return err->code;
	for (int place = PLACE_PUT; place <= PLACE_FILE; place++) {
		if (policy_rows_newest(kind, (enum policy_place)place, c, t, out, err) != ERR_NONE)
			return err->code;
		if (out->found && out->version == version)
			return ERR_NONE;
	}
	out->found = false;
	return ERR_NONE;
}

/* ---- replacing ---- */

static void put(struct changes *c, struct bytes pk, const struct policy_version *v,
                const struct expr *condition)
{
	struct row row;

	row_init(&row, c->arena);
	row_set_text(&row, "PK", pk);
	row_set_text(&row, "document", v->text);
	row_set_i64(&row, "last_updated", v->set_s);
	row_set_text(&row, "origin", bytes_of(document_origin_name(v->origin)));
	row_set_i64(&row, "version", v->version);
	if (v->kept.len > 0)
		row_set_text(&row, "kept", v->kept);
	changes_put(c, c->tables->names[TABLE_POLICIES], row_item(&row), condition);
}

/* One more version that is kept; the oldest goes if they are too many. */
static struct bytes kept_add(const char *kind, struct changes *c, const struct policy_version *old)
{
	struct bytes kept = old->kept;
	const char  *space = kept.len == 0 ? NULL : memchr(kept.data, ' ', kept.len);
	unsigned     count = kept.len > 0;
	uint64_t     oldest;

	for (size_t i = 0; i < kept.len; i++)
		count += kept.data[i] == ' ';
	if (count >= POLICY_VERSIONS_KEPT && space != NULL) {
		struct bytes first = {kept.data, (size_t)(space - kept.data)};

		if (bytes_to_u64(first, INT64_MAX, &oldest))
			changes_delete(c, c->tables->names[TABLE_POLICIES],
			               row_key_one(c->arena, version_key(c->arena, kind, (int64_t)oldest)),
			               NULL);
		kept = (struct bytes){space + 1, kept.len - first.len - 1};
	}
	return arena_printf(c->arena, "%.*s%s%" PRIi64, BYTES_ARG(kept), kept.len > 0 ? " " : "",
	                    old->version);
}

/* The condition is on the newest: whoever else replaced it has the same row to change. */
void policy_rows_replace(const char *kind, enum policy_place place, struct changes *c,
                         const struct policy_version *old, const struct policy_version *next)
{
	static const char *const same[] = {"version", NULL};
	struct policy_version    newest = *next;
	struct row               read; /* nothing, if there was none */

	if (old->found && old->version > 0) {
		struct policy_version before = *old;

		before.kept = (struct bytes){NULL, 0};
		put(c, version_key(c->arena, kind, old->version), &before, NULL);
		newest.kept = kept_add(kind, c, old);
	}
	row_init(&read, c->arena);
	if (old->found)
		row_set_i64(&read, "version", old->version);
	put(c, newest_key(c->arena, kind, place), &newest, row_same(c->arena, &read.item, same));
}
