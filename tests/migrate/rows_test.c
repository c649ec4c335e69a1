/* Rows and manifests of exports: what is written is read again; whatever else is there is refused, with the line. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "migrate/manifest.h"

struct place_of_files {
	char         dir[64];
	struct arena arena;
	struct err   err;
};

static void files_open(struct place_of_files *f)
{
	*f = (struct place_of_files){.dir = "/tmp/gatehouse-test-XXXXXX"};
	assert_non_null(mkdtemp(f->dir));
	arena_init(&f->arena);
}

static void files_close(struct place_of_files *f)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", f->dir);
	assert_int_equal(system(command), 0);
	arena_release(&f->arena);
}

static struct item item_of(struct place_of_files *f, size_t text_len)
{
	struct member *m = arena_alloc(&f->arena, 2 * sizeof(*m));
	char          *text = arena_alloc(&f->arena, text_len + 1);

	memset(text, '"', text_len); /* two bytes each, as JSON */
	m[0] = (struct member){BYTES("PK"), value_string(BYTES("a"))};
	m[1] = (struct member){BYTES("text"), value_string((struct bytes){text, text_len})};
	return (struct item){m, 2};
}

static struct rows_total write_rows(struct place_of_files *f, bool gzip, int count)
{
	struct rows_writer *w;
	struct rows_total   total;

	assert_int_equal(rows_writer_open(&w, f->dir, BYTES("things"), gzip, &f->err), ERR_NONE);
	for (int i = 0; i < count; i++) {
		struct item item = item_of(f, (size_t)i);

		assert_int_equal(rows_write(w, &item, &f->err), ERR_NONE);
	}
	assert_int_equal(rows_writer_close(w, &total, &f->err), ERR_NONE);
	assert_int_equal(total.rows, count);
	return total;
}

/* How reading all of it ends. */
static enum err_code read_rows(struct place_of_files *f, bool gzip, const struct rows_total *total)
{
	struct rows_reader *r;
	struct item         item;
	bool                end = false;
	enum err_code       rc = rows_reader_open(&r, f->dir, BYTES("things"), gzip, &f->err);

	if (rc != ERR_NONE)
		return rc;
	while (rc == ERR_NONE && !end) {
		rc = rows_read(r, &f->arena, &item, &end, &f->err);
		if (rc == ERR_NONE && !end) {
			struct item same = item_of(f, (size_t)rows_line(r) - 1);

			assert_true(item_equal(&item, &same));
		}
	}
	if (rc == ERR_NONE)
		rc = rows_compare(r, total, &f->err);
	rows_reader_close(r);
	return rc;
}

TEST(rows, what_is_written_is_read_again_compressed_or_not)
{
	struct place_of_files f;
	struct rows_total     plain, packed;

	files_open(&f);
	plain = write_rows(&f, false, 100);
	assert_int_equal(read_rows(&f, false, &plain), ERR_NONE);
	packed = write_rows(&f, true, 100);
	assert_int_equal(read_rows(&f, true, &packed), ERR_NONE);
	assert_memory_equal(plain.sha256, packed.sha256, sizeof(plain.sha256));
	files_close(&f);
}

TEST(rows, every_byte_that_changes_is_noticed)
{
	struct place_of_files f;
	struct rows_total     total;
	char                  path[96];
	FILE                 *file;

	files_open(&f);
	total = write_rows(&f, false, 3);
	snprintf(path, sizeof(path), "%s/things.json", f.dir);
	for (long at = 0; at < (long)total.bytes; at++) {
		int was;

		file = fopen(path, "r+");
		assert_non_null(file);
		fseek(file, at, SEEK_SET);
		was = fgetc(file);
		fseek(file, at, SEEK_SET);
		fputc(was ^ 1, file);
		fclose(file);
		assert_int_equal(read_rows(&f, false, &total), ERR_INVALID);
		assert_non_null(strstr(f.err.text, "things.json: line "));
		file = fopen(path, "r+");
		fseek(file, at, SEEK_SET);
		fputc(was, file);
		fclose(file);
	}
	assert_int_equal(read_rows(&f, false, &total), ERR_NONE);
	files_close(&f);
}

TEST(rows, wherever_a_file_is_cut_off_it_is_noticed)
{
	struct place_of_files f;
	struct rows_total     total;
	char                  path[96];

	files_open(&f);
	total = write_rows(&f, false, 3);
	snprintf(path, sizeof(path), "%s/things.json", f.dir);
	for (long len = (long)total.bytes - 1; len >= 0; len--) {
		assert_int_equal(truncate(path, len), 0);
		assert_int_equal(read_rows(&f, false, &total), ERR_INVALID);
		assert_non_null(strstr(f.err.text, "line "));
	}
	files_close(&f);
}

/* A file with one line that has so many bytes, and its sum. */
static void line_write(struct place_of_files *f, size_t len)
{
	char  path[96], command[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/things.json", f->dir);
	file = fopen(path, "w");
	assert_non_null(file);
	for (size_t i = 0; i < len; i++)
		fputc(' ', file);
	fputc('\n', file);
	fclose(file);
	snprintf(command, sizeof(command), "%s/things.sums", f->dir);
	file = fopen(command, "w");
	fclose(file);
}

TEST(rows, a_line_may_be_as_long_as_its_bound_and_no_longer)
{
	struct place_of_files f;
	struct rows_total     total = {0};

	files_open(&f);
	line_write(&f, ROWS_LINE_BYTES_MAX);
	assert_int_equal(read_rows(&f, false, &total), ERR_INVALID);
	assert_non_null(strstr(f.err.text, "line 1: is not what was exported")); /* it was read whole */
	line_write(&f, ROWS_LINE_BYTES_MAX + 1);
	assert_int_equal(read_rows(&f, false, &total), ERR_INVALID);
	assert_non_null(strstr(f.err.text, "line 1: is longer than any row can be"));
	files_close(&f);
}

TEST(rows, a_line_is_an_item_and_nothing_else)
{
	static const char *const wrong[] = {"",
	                                    "{}",
	                                    "[]",
	                                    "null",
	                                    "{\"Item\":null}",
	                                    "{\"Item\":{\"PK\":{\"S\":1}}}",
	                                    "{\"Item\":{\"PK\":{\"N\":\"x\"}}}",
	                                    "{\"Item\":{\"PK\":{\"S\":\"a\"}},\"More\":1}",
	                                    "{\"Item\":{\"PK\":{\"S\":\"a\"}}} x"};
	struct place_of_files    f;
	struct json_reader      *json = json_reader_open();
	struct item              item;

	files_open(&f);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_not_equal(rows_line_read(json, &f.arena, bytes_of(wrong[i]), &item, &f.err),
		                     ERR_NONE);
	assert_int_equal(
	        rows_line_read(json, &f.arena, BYTES("{\"Item\":{\"PK\":{\"S\":\"a\"}}}"), &item, &f.err),
	        ERR_NONE);
	json_reader_close(json);
	files_close(&f);
}

/* ---- the manifest ---- */

static struct manifest *manifest_of(struct place_of_files *f, uint32_t tables)
{
	struct manifest *m = arena_zalloc(&f->arena, sizeof(*m));

	for (uint32_t i = 0; i < tables; i++) {
		m->tables[i].schema = (struct table_schema){
		        .name = arena_printf(&f->arena, "table-%u", i),
		        .keys = {{BYTES("PK"), VALUE_S}, {BYTES("SK"), VALUE_N}},
		        .on_demand = true,
		        .ttl_attribute = i % 2 == 0 ? BYTES("ttl") : (struct bytes){NULL, 0}};
		m->tables[i].total.rows = i;
		memset(m->tables[i].total.sha256, 'a', SHA256_HEX_CHARS);
	}
	m->count = tables;
	return m;
}

TEST(manifest, what_is_written_is_read_again_up_to_its_bound)
{
	struct place_of_files f;
	struct manifest      *m, *again;
	struct bytes          text;

	files_open(&f);
	m = manifest_of(&f, MANIFEST_TABLES_MAX);
	again = arena_zalloc(&f.arena, sizeof(*again));
	assert_int_equal(manifest_write(f.dir, m, &f.err), ERR_NONE);
	if (manifest_read(f.dir, &f.arena, again, &f.err) != ERR_NONE)
		fail_msg("%s", f.err.text);
	assert_int_equal(again->count, MANIFEST_TABLES_MAX);
	for (uint32_t i = 0; i < m->count; i++) {
		assert_true(bytes_equal(again->tables[i].schema.name, m->tables[i].schema.name));
		assert_true(bytes_equal(again->tables[i].schema.ttl_attribute,
		                        m->tables[i].schema.ttl_attribute));
		assert_int_equal(again->tables[i].schema.keys.range.type, VALUE_N);
		assert_int_equal(again->tables[i].total.rows, i);
	}
	text = manifest_print(m, 0, &f.arena);
	text = arena_printf(&f.arena, "%.*s,{}]}", (int)text.len - 3, text.data); /* one table more */
	assert_int_not_equal(manifest_parse(text, &f.arena, again, &f.err), ERR_NONE);
	assert_string_equal(f.err.field, "tables");
	files_close(&f);
}

TEST(manifest, a_file_is_named_for_its_table_and_nothing_leads_out_of_the_directory)
{
	static const char *const files[] = {"../table-0.json", "table-1.json", "table-0.jsonx", "table-0",
	                                    "/etc/passwd"};
	struct place_of_files    f;
	struct manifest         *m;

	files_open(&f);
	m = arena_zalloc(&f.arena, sizeof(*m));
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct bytes text = manifest_print(manifest_of(&f, 1), 0, &f.arena);
		const char  *at = strstr(text.data, "table-0.json");
		struct bytes changed = arena_printf(&f.arena, "%.*s%s%.*s", (int)(at - text.data), text.data,
		                                    files[i], (int)(text.data + text.len - at - 12), at + 12);

		assert_int_equal(manifest_parse(changed, &f.arena, m, &f.err), ERR_INVALID);
		assert_non_null(strstr(f.err.text, "file"));
	}
	files_close(&f);
}

TEST(manifest, a_table_occurs_once)
{
	struct place_of_files f;
	struct manifest      *m;

	files_open(&f);
	m = manifest_of(&f, 2);
	m->tables[1].schema.name = m->tables[0].schema.name;
	assert_int_equal(manifest_parse(manifest_print(m, 0, &f.arena), &f.arena, m, &f.err), ERR_INVALID);
	assert_non_null(strstr(f.err.text, "has a table twice"));
	files_close(&f);
}
