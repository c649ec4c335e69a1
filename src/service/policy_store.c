/* The policy store: a file, a table, or the defaults. Versions: those that were PUT count from 1; a file's is
 * the time it was changed; 0 is what ships. */
#include "service/policy_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "json/fields.h"
#include "json/write.h"
#include "json/yaml.h"
#include "service/row.h"
#include "service/rules.h"

struct policy_store {
	const struct document_kind *kinds;
	unsigned                    count;
	const char                 *file; /* NULL: none */
	struct stat                 read; /* of the file that was read last, good or not; one thread only */
};

/* ---- trees to documents ---- */

static void text_keep(struct document *d, const struct json *tree)
{
	struct json_writer w;
	struct buf         out;

	buf_init(&out, &d->arena);
	json_writer_init(&w, &out);
	json_tree(&w, tree);
	d->text = buf_bytes(&out);
}

/* All sections or none: documents are put into force only when every one is good. */
static enum err_code parse_sections(const struct policy_store *s, const struct json *tree, int64_t version,
                                    struct document *made[POLICY_KINDS_MAX], struct err *err)
{
	struct fields f;
	struct err    wrong;

	fields_init(&f, tree, err);
	for (unsigned i = 0; i < s->count; i++) {
		const struct json *section = fields_get(&f, s->kinds[i].name);

		made[i] = NULL;
		if (section == NULL || err->code != ERR_NONE)
			continue;
		if (s->kinds[i].parse(section, &made[i], &wrong) != ERR_NONE) {
			fields_adopt(&f, s->kinds[i].name, &wrong);
			continue;
		}
		made[i]->version = version;
		text_keep(made[i], section);
	}
	return fields_end(&f);
}

/* What ships, where `yaml` has no section. */
static enum err_code fill_up(const struct policy_store *s, struct arena *a,
                             struct document *made[POLICY_KINDS_MAX], struct err *err)
{
	struct document *shipped[POLICY_KINDS_MAX] = {NULL};
	struct json     *tree;

	if (yaml_read(a, policy_defaults(), &tree, err) != ERR_NONE)
		return err->code;
	parse_sections(s, tree, 0, shipped, err);
	for (unsigned i = 0; i < s->count; i++) {
		if (made[i] == NULL)
			made[i] = shipped[i];
		else
			document_release(shipped[i]);
	}
	return err->code;
}

static void install(struct policy_store *s, struct document *made[POLICY_KINDS_MAX], bool good)
{
	for (unsigned i = 0; i < s->count; i++) {
		if (!good) {
			document_release(made[i]);
			continue;
		}
		document_put(s->kinds[i].holder, made[i]);
		if (s->kinds[i].changed != NULL)
			s->kinds[i].changed(s->kinds[i].ctx);
	}
}

static enum err_code install_all(struct policy_store *s, struct bytes yaml, int64_t version, struct err *err)
{
	struct document *made[POLICY_KINDS_MAX] = {NULL};
	struct arena     a;
	struct json     *tree;

	arena_init(&a);
	if (yaml_read(&a, yaml, &tree, err) == ERR_NONE &&
	    parse_sections(s, tree, version, made, err) == ERR_NONE)
		fill_up(s, &a, made, err);
	install(s, made, err->code == ERR_NONE);
	arena_release(&a);
	return err->code;
}

/* ---- the file ---- */

static enum err_code file_read(const char *path, struct arena *a, struct bytes *out, struct stat *st,
                               struct err *err)
{
	char   *text = arena_alloc(a, POLICY_DOCUMENT_BYTES_MAX + 1);
	size_t  len = 0;
	ssize_t n;
	int     fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, st) != 0) {
		err_set(err, ERR_INVALID, "%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return err->code;
	}
	while ((n = read(fd, text + len, POLICY_DOCUMENT_BYTES_MAX + 1 - len)) > 0)
		len += (size_t)n;
	close(fd);
	if (n < 0)
		return err_set(err, ERR_INVALID, "%s: cannot be read", path);
	if (len > POLICY_DOCUMENT_BYTES_MAX)
		return err_set(err, ERR_INVALID, "%s: has more than %d bytes", path,
		               POLICY_DOCUMENT_BYTES_MAX);
	*out = (struct bytes){text, len};
	return ERR_NONE;
}

static enum err_code file_install(struct policy_store *s, struct err *err)
{
	struct arena a;
	struct bytes text;
	struct err   why = {.code = ERR_NONE};

	arena_init(&a);
	if (file_read(s->file, &a, &text, &s->read, err) == ERR_NONE &&
	    install_all(s, text, s->read.st_mtim.tv_sec, &why) != ERR_NONE)
		err_field(err, why.code, why.field, "%s: %s", s->file, why.text);
	arena_release(&a);
	return err->code;
}

void policy_store_refresh(struct policy_store *s)
{
	struct stat st;
	struct err  err = {.code = ERR_NONE};

	if (s->file == NULL || stat(s->file, &st) != 0)
		return;
	if (st.st_ino == s->read.st_ino && st.st_size == s->read.st_size &&
	    st.st_mtim.tv_sec == s->read.st_mtim.tv_sec && st.st_mtim.tv_nsec == s->read.st_mtim.tv_nsec)
		return;
	if (file_install(s, &err) == ERR_NONE)
		log_info("the policies were read again");
	else
		log_error("the policies stay as they were: %s", err.text);
}

/* ---- opening ---- */

enum err_code policy_store_open(struct policy_store **out, const struct document_kind *kinds, unsigned count,
                                const char *file, struct err *err)
{
	struct policy_store *s = mem_zalloc(sizeof(*s));

	*s = (struct policy_store){.kinds = kinds, .count = count, .file = file};
	for (unsigned i = 0; i < count; i++)
		document_holder_init(kinds[i].holder);
	err->code = ERR_NONE;
	if (install_all(s, policy_defaults(), 0, err) == ERR_NONE && file != NULL)
		file_install(s, err);
	if (err->code != ERR_NONE) {
		policy_store_close(s);
		return err->code;
	}
	*out = s;
	return ERR_NONE;
}

void policy_store_close(struct policy_store *s)
{
	for (unsigned i = 0; i < s->count; i++)
		document_holder_release(s->kinds[i].holder);
	free(s);
}

const char *policy_store_file(const struct policy_store *s)
{
	return s->file;
}

const struct document_kind *policy_store_kind(const struct policy_store *s, struct bytes name)
{
	for (unsigned i = 0; i < s->count; i++)
		if (bytes_is(name, s->kinds[i].name))
			return &s->kinds[i];
	return NULL;
}

/* ---- the table ---- */

static struct item stored_key(const struct document_kind *kind, struct arena *a)
{
	return row_key_one(a, arena_printf(a, "POLICY#%s", kind->name));
}

static enum err_code stored_get(const struct document_kind *kind, struct bytes table, struct table *t,
                                struct arena *a, struct table_get_result *r, struct err *err)
{
	struct table_get q = {.table = table, .key = stored_key(kind, a), .consistent = true};

	return tables_get(t, a, &q, r, err);
}

/* What is stored cannot be understood, maybe by this version only: what ships stays in force, under the stored
 * version, so that a PUT can replace it. Not serving would be worse. */
static void load_failed(const struct document_kind *kind, int64_t version, const struct err *err)
{
	struct document *d = document_acquire(kind->holder);

	d->version = version; /* nobody else is there yet */
	document_release(d);
	log_error("the stored policies \"%s\" are not in force, those that ship are: %s", kind->name,
	          err->text);
}

static enum err_code load_one(const struct document_kind *kind, struct bytes table, struct table *t,
                              struct arena *a, struct err *err)
{
	struct table_get_result r;
	struct json_reader     *reader;
	struct json            *tree;
	struct document        *d = NULL;

	if (stored_get(kind, table, t, a, &r, err) != ERR_NONE || !r.found)
		return err->code;
	reader = json_reader_open();
	if (json_read(reader, a, row_text(&r.item, "document"), &tree, err) == ERR_NONE &&
	    kind->parse(tree, &d, err) == ERR_NONE) {
		d->version = row_i64(&r.item, "version", 0);
		text_keep(d, tree);
		policy_store_install(kind, d);
	} else {
		load_failed(kind, row_i64(&r.item, "version", 0), err);
		err->code = ERR_NONE;
	}
	json_reader_close(reader);
	return ERR_NONE;
}

enum err_code policy_store_load(struct policy_store *s, const struct service_tables *tables, struct table *t,
                                struct err *err)
{
	struct arena a;

	err->code = ERR_NONE;
	if (s->file != NULL)
		return ERR_NONE;
	arena_init(&a);
	for (unsigned i = 0; i < s->count && err->code == ERR_NONE; i++)
		load_one(&s->kinds[i], tables->names[TABLE_POLICIES], t, &a, err);
	arena_release(&a);
	return err->code;
}

/* The later of what is stored and what is in force: the table may have been deleted since. */
static int64_t version_now(const struct document_kind *kind, const struct table_get_result *r)
{
	struct document *d = document_acquire(kind->holder);
	int64_t          stored = r->found ? row_i64(&r->item, "version", 0) : 0, now = d->version;

	document_release(d);
	return stored > now ? stored : now;
}

enum err_code policy_store_change(const struct document_kind *kind, int64_t read, struct bytes text,
                                  struct changes *c, struct table *t, struct err *err)
{
	static const char *const same[] = {"version", NULL};
	struct bytes             table = c->tables->names[TABLE_POLICIES];
	struct table_get_result  r;
	struct row               row;

	if (stored_get(kind, table, t, c->arena, &r, err) != ERR_NONE)
		return err->code;
	if (version_now(kind, &r) != read)
		return err_field(err, ERR_STALE, "If-Match", "If-Match: another version is in force");
	row_init(&row, c->arena);
	row_set_text(&row, "PK", row_text(&(struct item){stored_key(kind, c->arena).members, 1}, "PK"));
	row_set_text(&row, "document", text);
	row_set_i64(&row, "last_updated", t->now_us / 1000000);
	row_set_i64(&row, "version", read + 1);
	changes_put(c, table, row_item(&row), row_same(c->arena, &r.item, same));
	return ERR_NONE;
}

void policy_store_install(const struct document_kind *kind, struct document *d)
{
	if (document_put_newer(kind->holder, d) && kind->changed != NULL)
		kind->changed(kind->ctx);
}
