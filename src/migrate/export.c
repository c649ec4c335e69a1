/* Export: see export.h. */
#include "migrate/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "migrate/manifest.h"
#include "migrate/secrets.h"

static enum err_code directory_make_new(const char *dir, struct err *err)
{
	char path[ROWS_PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/" MANIFEST_NAME, dir) >= (int)sizeof(path))
		return err_set(err, ERR_INVALID, "the name of the directory is too long");
	if (mkdir(dir, 0700) != 0 && errno != EEXIST)
		return err_set(err, ERR_STORAGE, "cannot make %s: %s", dir, strerror(errno));
	if (access(path, F_OK) == 0)
		return err_set(err, ERR_INVALID, "%s holds an export already: name another directory", dir);
	return ERR_NONE;
}

/* Of two pages, the one before holds the key where the next one begins. */
struct scan {
	struct place       *place;
	struct table_query  query;
	struct arena        pages[2];
	unsigned            turn;
	struct rows_writer *out;
	uint64_t            rows;
};

static enum err_code page_write(struct scan *s, bool *more, struct err *err)
{
	struct table_query_result r;
	struct arena             *page = &s->pages[s->turn++ % 2];
	struct item              *start;

	arena_reset(page);
	if (place_scan(s->place, page, &s->query, &r, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < r.count; i++)
		if (rows_write(s->out, &r.items[i], err) != ERR_NONE)
			return err->code;
	s->rows += r.count;
	*more = r.more;
	start = arena_alloc(page, sizeof(*start));
	*start = r.last_key;
	s->query.start = start;
	return ERR_NONE;
}

static enum err_code rows_copy(struct scan *s, const struct migrate_watch *watch, struct err *err)
{
	bool more = true;

	while (more) {
		if (page_write(s, &more, err) != ERR_NONE)
			return err->code;
		watch->progress(watch->ctx, "exported", s->query.table, s->rows, !more);
	}
	return ERR_NONE;
}

static enum err_code table_export(struct place *p, const struct export_order *o, struct manifest_table *t,
                                  const struct migrate_watch *watch, struct err *err)
{
	struct scan   s = {.place = p, .query = {.table = t->schema.name, .consistent = true}};
	enum err_code rc;

	if (rows_writer_open(&s.out, o->dir, t->schema.name, o->gzip, err) != ERR_NONE)
		return err->code;
	arena_init(&s.pages[0]);
	arena_init(&s.pages[1]);
	rc = rows_copy(&s, watch, err);
	if (rc == ERR_NONE)
		rc = rows_writer_close(s.out, &t->total, err);
	else
		(void)rows_writer_close(s.out, NULL, NULL);
	arena_release(&s.pages[0]);
	arena_release(&s.pages[1]);
	return rc;
}

/* *found: false if it is not there, and need not be. */
static enum err_code table_find(struct place *p, const struct export_order *o, struct bytes name,
                                struct arena *a, struct manifest_table *t, bool *found, struct err *err)
{
	struct table_description d;
	enum err_code            rc = place_describe(p, a, name, &d, err);

	*found = rc == ERR_NONE;
	if (rc == ERR_NO_RESOURCE && o->lenient)
		return ERR_NONE;
	if (rc == ERR_NO_RESOURCE)
		return err_set(
		        err, rc,
		        "there is no table \"%.*s\": look at --tables, --table-prefix, the endpoint and "
		        "the region",
		        BYTES_ARG(name));
	if (rc != ERR_NONE)
		return rc;
	*t = (struct manifest_table){.schema = d.schema, .gzip = o->gzip};
	t->schema.name = name;
	return ERR_NONE;
}

static enum err_code tables_export(struct place *p, const struct export_order *o, struct arena *a,
                                   struct manifest *m, const struct migrate_watch *watch, struct err *err)
{
	for (uint32_t i = 0; i < o->count; i++) {
		struct manifest_table *t = &m->tables[m->count];
		bool                   found;

		if (table_find(p, o, o->tables[i], a, t, &found, err) != ERR_NONE)
			return err->code;
		if (!found)
			continue;
		if (table_export(p, o, t, watch, err) != ERR_NONE)
			return err->code;
		m->count++;
	}
	return ERR_NONE;
}

enum err_code export_run(struct place *p, const struct export_order *o, const struct migrate_watch *watch,
                         struct migrate_total *total, struct err *err)
{
	struct manifest *m = mem_zalloc(sizeof(*m));
	struct arena     a;
	enum err_code    rc;

	*total = (struct migrate_total){0};
	arena_init(&a);
	rc = o->count > MANIFEST_TABLES_MAX
	             ? err_set(err, ERR_INVALID, "an export holds at most %d tables", MANIFEST_TABLES_MAX)
	             : directory_make_new(o->dir, err);
	if (rc == ERR_NONE && o->data != NULL)
		rc = secrets_export(o->data, o->dir, err);
	if (rc == ERR_NONE)
		rc = tables_export(p, o, &a, m, watch, err);
	if (rc == ERR_NONE && m->count == 0)
		rc = err_set(
		        err, ERR_INVALID,
		        "none of the tables is there: look at --table-prefix, the endpoint and the region");
	if (rc == ERR_NONE)
		rc = manifest_write(o->dir, m, err);
	total->tables = m->count;
	for (uint32_t i = 0; i < m->count; i++)
		total->rows += m->tables[i].total.rows;
	arena_release(&a);
	free(m);
	return rc;
}
