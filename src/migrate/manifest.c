/* Manifest: see manifest.h. A table is written as a client writes CreateTable, and read as a server reads it. */
#include "migrate/manifest.h"

#include <time.h>

#include "base/file.h"
#include "dynamo/client.h"
#include "dynamo/request.h"

#define FORMAT "gatehouse-export"

/* ---- writing ---- */

static void table_print(struct json_writer *w, const struct manifest_table *t, struct arena *a)
{
	json_begin_object(w);
	json_member_text(w, BYTES("file"),
	                 arena_printf(a, "%.*s.json%s", BYTES_ARG(t->schema.name), t->gzip ? ".gz" : ""));
	json_member_i64(w, BYTES("rows"), (int64_t)t->total.rows);
	json_member_i64(w, BYTES("bytes"), (int64_t)t->total.bytes);
	json_member_text(w, BYTES("sha256"), (struct bytes){t->total.sha256, SHA256_HEX_CHARS});
	json_member_text(w, BYTES("ttl"), t->schema.ttl_attribute);
	json_key(w, BYTES("table"));
	client_create_table((struct client){w, a}, &t->schema, (struct bytes){NULL, 0});
	json_end_object(w);
}

static struct bytes iso_of(int64_t now_s, struct arena *a)
{
	time_t    seconds = (time_t)now_s;
	struct tm tm;
	char      text[32];

	gmtime_r(&seconds, &tm);
	return arena_copy(a, (struct bytes){text, strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm)});
}

struct bytes manifest_print(const struct manifest *m, int64_t now_s, struct arena *a)
{
	struct json_writer w;
	struct buf         out;

	buf_init(&out, a);
	json_writer_init(&w, &out);
	json_begin_object(&w);
	json_member_text(&w, BYTES("format"), BYTES(FORMAT));
	json_member_i64(&w, BYTES("version"), MANIFEST_VERSION);
	json_member_text(&w, BYTES("created"), iso_of(now_s, a));
	json_key(&w, BYTES("tables"));
	json_begin_array(&w);
	for (uint32_t i = 0; i < m->count; i++)
		table_print(&w, &m->tables[i], a);
	json_end_array(&w);
	json_end_object(&w);
	buf_add_byte(&out, '\n');
	return buf_bytes(&out);
}

enum err_code manifest_write(const char *dir, const struct manifest *m, struct err *err)
{
	struct arena  a;
	enum err_code rc;

	arena_init(&a);
	rc = file_replace(dir, MANIFEST_NAME, manifest_print(m, (int64_t)time(NULL), &a), err);
	arena_release(&a);
	return rc;
}

/* ---- reading ---- */

/* The name of the table and of its file say the same, so no name leads out of the directory. */
static void file_check(struct fields *f, struct bytes file, struct manifest_table *t)
{
	struct bytes name = t->schema.name;
	struct bytes ending = {file.data + name.len, file.len - name.len};

	if (file.len > name.len && bytes_starts_with(file, name) &&
	    (bytes_is(ending, ".json") || bytes_is(ending, ".json.gz")))
		t->gzip = bytes_is(ending, ".json.gz");
	else
		fields_fail(f, "file", ERR_INVALID, "must be the name of the table and .json or .json.gz");
}

static void schema_read(struct fields *f, struct arena *a, const struct json *json, struct manifest_table *t)
{
	struct dynamo_request request;
	struct err            wrong;

	if (request_create_table(a, json, &request, &wrong) != ERR_NONE ||
	    schema_check(&request.create, &wrong) != ERR_NONE)
		fields_fail(f, "table", ERR_INVALID, "%s", wrong.text);
	else if (!schema_name_is(request.create.name))
		fields_fail(f, "table", ERR_INVALID, "TableName: must be a name, not an ARN");
	else
		t->schema = request.create;
}

static void table_read(struct fields *list, struct bytes at, struct arena *a, const struct json *json,
                       struct manifest_table *t)
{
	struct fields      f;
	struct bytes       file, sha256;
	const struct json *table;

	fields_enter(&f, list, at, json);
	*t = (struct manifest_table){0};
	file = fields_text(&f, "file", TABLE_NAME_MAX + 8);
	t->total.rows = (uint64_t)fields_i64(&f, "rows", 0, INT64_MAX);
	t->total.bytes = (uint64_t)fields_i64(&f, "bytes", 0, INT64_MAX);
	sha256 = fields_text(&f, "sha256", SHA256_HEX_CHARS);
	table = fields_get(&f, "table");
	if (!fields_failed(&f) && (table == NULL || table->type != JSON_OBJECT))
		fields_fail(&f, "table", ERR_INVALID, "must be an object");
	if (!fields_failed(&f) && sha256.len != SHA256_HEX_CHARS)
		fields_fail(&f, "sha256", ERR_INVALID, "must have %d digits", SHA256_HEX_CHARS);
	if (!fields_failed(&f))
		schema_read(&f, a, table, t);
	if (!fields_failed(&f)) {
		memcpy(t->total.sha256, sha256.data, SHA256_HEX_CHARS);
		t->schema.ttl_attribute = fields_text_or(&f, "ttl", 255, (struct bytes){NULL, 0});
		file_check(&f, file, t);
	}
	(void)fields_end(&f);
}

static bool is_twice(const struct manifest *m, struct bytes name)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (bytes_equal(m->tables[i].schema.name, name))
			return true;
	return false;
}

enum err_code manifest_parse(struct bytes text, struct arena *a, struct manifest *out, struct err *err)
{
	struct json_reader *reader = json_reader_open();
	const struct json  *list;
	struct json        *tree;
	struct fields       f;
	enum err_code       rc = json_read(reader, a, text, &tree, err);

	json_reader_close(reader);
	out->count = 0;
	if (rc != ERR_NONE)
		return rc;
	fields_init(&f, tree, err);
	if (!bytes_is(fields_text(&f, "format", 64), FORMAT) && !fields_failed(&f))
		fields_fail(&f, "format", ERR_INVALID, "must be " FORMAT);
	(void)fields_i64(&f, "version", MANIFEST_VERSION, MANIFEST_VERSION);
	(void)fields_text(&f, "created", 64);
	list = fields_array(&f, "tables", MANIFEST_TABLES_MAX);
	for (const struct json *m = fields_first(&f, list); m != NULL; m = fields_next(&f, m)) {
		struct manifest_table *t = &out->tables[out->count];

		table_read(&f, arena_printf(a, "tables[%u]", out->count), a, m, t);
		if (!fields_failed(&f) && is_twice(out, t->schema.name))
			fields_fail(&f, "tables", ERR_INVALID, "has a table twice");
		out->count++;
	}
	return fields_end(&f);
}

enum err_code manifest_read(const char *dir, struct arena *a, struct manifest *out, struct err *err)
{
	const char   *path = arena_printf(a, "%s/" MANIFEST_NAME "%c", dir, '\0').data;
	struct buf    text;
	struct err    wrong;
	bool          found;
	enum err_code rc;

	buf_init(&text, a);
	if (file_read(path, MANIFEST_BYTES_MAX, &text, &found, err) != ERR_NONE)
		return err->code = ERR_INVALID;
	if (!found)
		return err_set(
		        err, ERR_INVALID,
		        "%s: there is none: it is not the directory of an export, or the export was not "
		        "finished",
		        path);
	rc = manifest_parse(buf_bytes(&text), a, out, &wrong);
	return rc == ERR_NONE ? rc : err_set(err, ERR_INVALID, "%s: %s", path, wrong.text);
}
