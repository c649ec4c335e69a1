/* Manifest: a torn last append costs nothing, whichever of its sectors are there; any other damage is refused, and changes nothing. */
#define _GNU_SOURCE
#include "long_log.h"

#include "base/file.h"
#include "engine/check.h"
#include "engine/salvage.h"
#include "engine/write_back.h"
#include "engine/manifest.h"
#include "random.h"

enum { SECTOR = 512, KEY_BYTES = 2000, LINE_BYTES = 512, SCENES_MAX = 10 };

enum fill { FILL_ZEROS, FILL_ONES, FILL_GARBAGE, FILLS };

/* A directory as it was before the manifest's last append, but for the file that this names; and the manifest after it. */
struct scene {
	struct fixture f;
	char           before[80];
	char           name[MANIFEST_NAME_BYTES];
	struct buf     manifest;
	size_t         old; /* its length before */
};

static void shell(const char *format, ...)
{
	char    line[LINE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	assert_int_equal(system(line), 0);
}

static struct bytes long_key(struct fixture *f, char first)
{
	char *key = arena_alloc(&f->arena, KEY_BYTES + 1);

	memset(key, first, KEY_BYTES);
	key[KEY_BYTES] = '\0';
	return arena_printf(&f->arena, "'p':{'S':'%s'},'s':{'S':'x'}", key);
}

static void put(struct fixture *f, char first)
{
	struct bytes key = long_key(f, first);

	fixture_ok(f, "PutItem",
	           arena_printf(&f->arena, "{'TableName':'things','Item':{%.*s}}", BYTES_ARG(key)).data);
}

static void assert_has(struct fixture *f, char first)
{
	struct bytes item = arena_printf(&f->arena, "{%.*s}", BYTES_ARG(long_key(f, first)));

	assert_get(f, "things", item.data, item.data);
}

static void checkpoint(struct fixture *f)
{
	if (checkpoint_run(f->engine, &f->err) != ERR_NONE)
		fail_msg("%s", f->err.text);
}

static void manifest_read(struct scene *s)
{
	struct manifest m;
	char            path[128];
	bool            found;

	snprintf(path, sizeof(path), "%s/store", s->f.dir);
	assert_int_equal(manifest_look(path, &m, &s->f.err), ERR_NONE);
	assert_false(manifest_is_torn(&m));
	snprintf(s->name, sizeof(s->name), "%s", m.name);
	snprintf(path, sizeof(path), "%s/store/%s", s->f.dir, m.name);
	buf_reset(&s->manifest);
	assert_int_equal(file_read(path, 1 << 20, &s->manifest, &found, &s->f.err), ERR_NONE);
	assert_true(found && s->manifest.len == m.bytes);
}

static void manifest_write(struct scene *s, struct bytes text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/store", s->f.dir);
	assert_int_equal(file_replace(path, s->name, text, &s->f.err), ERR_NONE);
}

/* Rows a and b are in the store before the last append, c and d in the journal alone. */
static void scene_make(struct scene *s)
{
	buf_init(&s->manifest, NULL);
	fixture_open(&s->f);
	engine_close(s->f.engine);
	s->f.options.journal_segment_bytes = 4096; /* a commit each */
	fixture_start(&s->f);
	fixture_ok(&s->f, "CreateTable", TABLE_PS);
	engine_tick(s->f.engine); /* which may merge files: not later, between the appends */
	put(&s->f, 'a');
	put(&s->f, 'b');
	checkpoint(&s->f);
	put(&s->f, 'c');
	put(&s->f, 'd');
	manifest_read(s);
	s->old = s->manifest.len;
	snprintf(s->before, sizeof(s->before), "%s-before", s->f.dir);
	directory_copy(s->f.dir, s->before);
	checkpoint(&s->f);
	manifest_read(s);
	assert_true(s->manifest.len > s->old + 3 * SECTOR);
	shell("cp -n %s/store/*.sst %s/store/", s->f.dir, s->before);
	engine_close(s->f.engine);
}

static void scene_close(struct scene *s)
{
	shell("rm -rf %s", s->before);
	buf_release(&s->manifest);
	fixture_start(&s->f);
	fixture_close(&s->f);
}

/* The bytes from `at` on did not reach the disk. */
static struct bytes torn(struct scene *s, size_t at, enum fill fill)
{
	struct bytes text = arena_copy(&s->f.arena, buf_bytes(&s->manifest));
	char        *p = (char *)(uintptr_t)text.data;

	for (size_t i = at; i < text.len; i++)
		p[i] = fill == FILL_ZEROS  ? 0
		       : fill == FILL_ONES ? (char)0xff
		                           : (char)(i * 2654435761U >> 13);
	return text;
}

static struct manifest_scan scan(struct bytes text)
{
	struct manifest_scan s = {0};

	for (size_t at = 0; at < text.len; at += MANIFEST_BLOCK_BYTES) {
		size_t left = text.len - at;

		manifest_scan_block(&s, (struct bytes){text.data + at, left < MANIFEST_BLOCK_BYTES
		                                                               ? left
		                                                               : MANIFEST_BLOCK_BYTES});
	}
	return s;
}

static unsigned edits_after(struct scene *s, size_t from)
{
	uint64_t last = from;
	unsigned edits = 0;

	for (size_t at = from; at <= s->manifest.len; at++) {
		struct manifest_scan cut = scan((struct bytes){s->manifest.data, at});

		edits += cut.sound > last;
		last = cut.sound > last ? cut.sound : last;
	}
	return edits;
}

/* On a busy machine the store may merge files while the scene is made, and append an edit of its own: then the files are of another moment. */
static bool is_disturbed(struct scene *s)
{
	size_t seen = s->manifest.len;

	manifest_read(s);
	return s->manifest.len != seen || edits_after(s, s->old) != 2;
}

static void scene_open(struct scene *s)
{
	scene_make(s);
	for (int again = 0; is_disturbed(s); again++) {
		assert_true(again < SCENES_MAX);
		scene_close(s);
		scene_make(s);
	}
}

static enum manifest_state state_of(struct bytes text)
{
	struct manifest_scan s = scan(text);

	return manifest_scan_end(&s);
}

/* Before the last append, but for this. */
static void open_as(struct scene *s, struct bytes text)
{
	struct fixture *f = &s->f;

	shell("rm -rf %s && cp -r %s %s", f->dir, s->before, f->dir);
	manifest_write(s, text);
	fixture_start(f);
	for (char row = 'a'; row <= 'd'; row++)
		assert_has(f, row);
	assert_verified(f);
	fixture_restart(f);
	for (char row = 'a'; row <= 'd'; row++)
		assert_has(f, row);
	engine_close(f->engine);
	shell("test $(stat -c %%s %s/%s.torn) = %zu", f->dir, s->name, s->manifest.len);
	arena_reset(&f->arena);
}

static void open_torn(struct scene *s, size_t at, enum fill fill)
{
	open_as(s, torn(s, at, fill));
}

/* ---- torn at its end ---- */

TEST(manifest, an_append_that_is_torn_at_any_sector_is_left_out_and_no_row_with_it)
{
	struct scene s;

	scene_open(&s);
	for (enum fill fill = 0; fill < FILLS; fill++) {
		open_torn(&s, s.old, fill);
		for (size_t at = s.old / SECTOR * SECTOR + SECTOR; at < s.manifest.len; at += SECTOR)
			open_torn(&s, at, fill);
	}
	scene_close(&s);
}

/* Also when the append has more than one edit: those before the tear stay. */
TEST(manifest, a_torn_append_is_told_from_a_whole_one_at_every_byte)
{
	struct scene s;

	scene_open(&s);
	for (size_t at = s.old; at < s.manifest.len; at++) {
		struct manifest_scan cut = scan((struct bytes){s.manifest.data, at});

		assert_true(cut.sound >= s.old && cut.sound <= at);
		assert_int_equal(manifest_scan_end(&cut), cut.sound == at ? MANIFEST_WHOLE : MANIFEST_TORN);
		for (enum fill fill = 0; fill < FILLS; fill++) {
			struct bytes         text = torn(&s, at, fill);
			struct manifest_scan found = scan(text);

			if (bytes_equal(text, buf_bytes(&s.manifest)))
				continue;
			assert_int_equal(manifest_scan_end(&found), MANIFEST_TORN);
			assert_int_equal(found.sound, cut.sound);
		}
		arena_reset(&s.f.arena);
	}
	scene_close(&s);
}

/* The sectors of the append with these numbers did not reach the disk; the first one holds what was there before, too. */
static struct bytes without_sectors(struct scene *s, uint64_t lost, enum fill fill)
{
	struct bytes text = arena_copy(&s->f.arena, buf_bytes(&s->manifest)), all = torn(s, s->old, fill);

	for (size_t i = s->old; i < text.len; i++)
		if (lost >> (i / SECTOR - s->old / SECTOR) & 1)
			((char *)(uintptr_t)text.data)[i] = all.data[i];
	return text;
}

/* Two edits are one append: a disk may write the second and not the first. One sector is missing, or all but one are, or any. */
TEST(manifest, an_append_of_two_edits_of_which_any_sectors_are_there_is_left_out_and_no_row_with_it)
{
	struct random random = {7};
	struct scene  s;
	size_t        sectors;

	scene_open(&s);
	sectors = (s.manifest.len - 1) / SECTOR - s.old / SECTOR + 1;
	assert_in_range(sectors, 4, 63);
	for (size_t i = 0; i < sectors; i++) {
		open_as(&s, without_sectors(&s, UINT64_C(1) << i, FILL_ZEROS));
		open_as(&s, without_sectors(&s, ~(UINT64_C(1) << i), FILL_GARBAGE));
		open_as(&s, without_sectors(&s, 1 + random_below(&random, (UINT64_C(1) << sectors) - 1),
		                            (enum fill)random_below(&random, FILLS)));
	}
	scene_close(&s);
}

static void ignore_progress(void *ctx, enum check_phase phase, unsigned percent,
                            const struct check_found *found)
{
	(void)ctx;
	(void)phase;
	(void)percent;
	(void)found;
}

static void fail_at_problem(void *ctx, const char *text)
{
	(void)ctx;
	fail_msg("%s", text);
}

TEST(manifest, a_check_tells_of_a_torn_append_and_leaves_it)
{
	struct check_watch watch = {.progress = ignore_progress, .problem = fail_at_problem};
	struct check_found found;
	struct scene       s;
	char               before[64], after[64];

	scene_open(&s);
	shell("rm -rf %s && cp -r %s %s", s.f.dir, s.before, s.f.dir);
	manifest_write(&s, torn(&s, s.old + 1, FILL_GARBAGE));
	fixture_fingerprint(&s.f, before);
	assert_int_equal(engine_check(s.f.dir, &watch, &found, &s.f.err), ERR_NONE);
	assert_true(check_is_sound(&found));
	assert_int_equal(found.counts.rows, 4);
	assert_int_equal(found.torn_bytes, s.manifest.len - s.old);
	fixture_fingerprint(&s.f, after);
	assert_string_equal(before, after);
	scene_close(&s);
}

/* ---- damage ---- */

/* Every file of the store is still there, as it was. */
static void assert_refused(struct scene *s, const char *text)
{
	const char *dir = s->f.dir;

	shell("cd %s && md5sum store/* journal/* FORMAT > ../manifest-test-$PPID", dir);
	assert_int_equal(engine_open(&s->f.engine, &s->f.options, &s->f.err), ERR_STORAGE);
	if (strstr(s->f.err.text, text) == NULL)
		fail_msg("%s is not in: %s", text, s->f.err.text);
	shell("cd %s && md5sum store/* journal/* FORMAT | diff - ../manifest-test-$PPID >&2 && rm "
	      "../manifest-test-$PPID",
	      dir);
}

/* Without the file's last edit, the store needs segments that the journal has let go of since. Opening it would remove the
 * files that this edit names. */
TEST(manifest, an_edit_that_was_acted_upon_is_not_left_out)
{
	struct scene s;
	struct bytes text;

	scene_open(&s);
	text = torn(&s, s.old + 1, FILL_GARBAGE); /* the append is durable, and a checkpoint's */
	assert_int_equal(state_of(text), MANIFEST_TORN);
	manifest_write(&s, text);
	assert_refused(&s, "the store is not complete without its end");
	assert_refused(&s, "journal is missing");
	manifest_write(&s, buf_bytes(&s.manifest));
	scene_close(&s);
}

TEST(manifest, nothing_is_believed_from_a_flipped_bit_on)
{
	struct scene s;
	char        *p;

	scene_open(&s);
	p = s.manifest.data;
	for (size_t bit = 0; bit < s.manifest.len * 8; bit++) {
		struct manifest_scan found;

		p[bit / 8] = (char)(p[bit / 8] ^ 1 << bit % 8);
		found = scan(buf_bytes(&s.manifest));
		assert_int_not_equal(manifest_scan_end(&found), MANIFEST_WHOLE);
		assert_true(found.sound <= bit / 8 && found.bad <= bit / 8);
		p[bit / 8] = (char)(p[bit / 8] ^ 1 << bit % 8);
	}
	assert_int_equal(state_of(buf_bytes(&s.manifest)), MANIFEST_WHOLE);
	scene_close(&s);
}

/* The journal has let go of what came after the edits before it. */
TEST(manifest, a_flipped_bit_before_an_edit_that_was_acted_upon_is_refused_and_changes_nothing)
{
	struct scene s;

	scene_open(&s);
	manifest_read(&s); /* closing it may have added to it */
	for (size_t at = 0; at < s.old; at += s.old / 40) {
		struct bytes text = arena_copy(&s.f.arena, buf_bytes(&s.manifest));

		((char *)(uintptr_t)text.data)[at] ^= 4;
		manifest_write(&s, text);
		assert_refused(&s, "is damaged at byte");
		arena_reset(&s.f.arena);
	}
	manifest_write(&s, buf_bytes(&s.manifest));
	scene_close(&s);
}

static void say_nothing(void *ctx, const char *text)
{
	(void)ctx;
	(void)text;
}

/* It would take the store for an older one, and the journal for one that has lost its beginning. */
TEST(manifest, a_salvage_drops_nothing_for_an_edit_that_was_acted_upon)
{
	struct salvage_watch watch = {.say = say_nothing};
	struct salvage_found found;
	struct scene         s;
	char                 before[64], after[64];

	scene_open(&s);
	manifest_write(&s, torn(&s, s.old + 1, FILL_GARBAGE));
	fixture_fingerprint(&s.f, before);
	assert_int_equal(engine_salvage(s.f.dir, true, &watch, &found, &s.f.err), ERR_STORAGE);
	assert_non_null(strstr(s.f.err.text, "the store is not complete without its end"));
	fixture_fingerprint(&s.f, after);
	assert_string_equal(before, after);
	manifest_write(&s, buf_bytes(&s.manifest));
	scene_close(&s);
}

/* ---- the head ---- */

static size_t find_text(struct bytes all, struct bytes text)
{
	const char *at = memmem(all.data, all.len, text.data, text.len);

	assert_non_null(at);
	return (size_t)(at - all.data);
}

/* A start writes a new file, which begins with what there is. Without its list of the logs' files the logs would be empty, and the journal would miss nothing. */
TEST(manifest, a_torn_head_is_refused_and_no_row_of_a_log_is_lost_by_it)
{
	static struct long_log l;
	struct scene           s = {0};
	size_t                 logs;

	long_log_open(&l);
	long_log_checkpoint(&l);
	fixture_restart(&l.f);
	fixture_die(&l.f);
	s.f = l.f;
	buf_init(&s.manifest, NULL);
	manifest_read(&s);
	logs = find_text(buf_bytes(&s.manifest), BYTES("\311\1\4logs")) + 7;
	for (size_t at = logs; at < logs + 100; at += 33) { /* in the next record, which lists their files */
		struct bytes text = torn(&s, at, FILL_ZEROS);

		assert_int_equal(state_of(text), MANIFEST_DAMAGED);
		manifest_write(&s, text);
		assert_refused(&s, "is damaged at byte");
	}
	manifest_write(&s, buf_bytes(&s.manifest));
	buf_release(&s.manifest);
	fixture_start(&l.f);
	assert_long_log(&l);
	fixture_close(&l.f);
}

/* ---- the form ---- */

enum { FULL = 1, FIRST, MIDDLE, LAST, HEAD = 7 };

/* Bit by bit, so that it is not what it tests. */
static uint32_t masked_crc32c(struct bytes data)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < data.len * 8; i++) {
		uint32_t bit = (uint32_t)((uint8_t)data.data[i / 8] >> i % 8) & 1;

		crc = crc >> 1 ^ ((crc ^ bit) & 1 ? 0x82f63b78 : 0);
	}
	crc = ~crc;
	return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static void add_record(struct buf *out, char type, size_t payload)
{
	size_t   at = out->len;
	uint32_t crc;

	buf_reserve(out, HEAD + payload);
	memset(out->data + at, 'r', HEAD + payload);
	out->data[at + 4] = (char)(payload & 0xff);
	out->data[at + 5] = (char)(payload >> 8);
	out->data[at + 6] = type;
	crc = masked_crc32c((struct bytes){out->data + at + 6, 1 + payload});
	memcpy(out->data + at, &crc, 4);
	out->len += HEAD + payload;
}

/* The types of records of ten bytes, in one block. */
static struct manifest_scan scan_types(const char *types)
{
	struct manifest_scan s;
	struct buf           out;

	buf_init(&out, NULL);
	for (; *types != '\0'; types++)
		add_record(&out, (char)(*types - '0'), 10);
	s = scan(buf_bytes(&out));
	buf_release(&out);
	return s;
}

static void assert_types(const char *types, enum manifest_state expected, uint64_t records)
{
	struct manifest_scan s = scan_types(types);

	assert_int_equal(manifest_scan_end(&s), expected);
	assert_int_equal(s.sound, records * (HEAD + 10));
}

TEST(manifest, an_edit_is_one_record_or_first_middle_last)
{
	assert_types("", MANIFEST_WHOLE, 0);
	assert_types("1", MANIFEST_WHOLE, 1);
	assert_types("11", MANIFEST_WHOLE, 2);
	assert_types("124", MANIFEST_WHOLE, 3);
	assert_types("12334", MANIFEST_WHOLE, 5);
	assert_types("12", MANIFEST_TORN, 1);
	assert_types("1233", MANIFEST_TORN, 1);
	assert_types("13", MANIFEST_TORN, 1);
	assert_types("14", MANIFEST_TORN, 1);
	assert_types("121", MANIFEST_TORN, 1);
	assert_types("1221", MANIFEST_TORN, 1);
	assert_types("5", MANIFEST_DAMAGED, 0);
	assert_types("15", MANIFEST_TORN, 1); /* no type of a manifest's */
}

/* A record that fills its block, one that leaves too little for another, and an edit across blocks, torn in its second. */
TEST(manifest, an_edit_across_blocks_is_left_out_whole)
{
	struct manifest_scan s;
	struct buf           out;

	buf_init(&out, NULL);
	add_record(&out, FULL, MANIFEST_BLOCK_BYTES - HEAD);
	add_record(&out, FULL, MANIFEST_BLOCK_BYTES - HEAD - (HEAD - 1));
	buf_reserve(&out, HEAD - 1);
	memset(out.data + out.len, 0, HEAD - 1);
	out.len += HEAD - 1;
	assert_int_equal(state_of(buf_bytes(&out)),
	                 MANIFEST_TORN); /* the filling comes with the next record */
	add_record(&out, FULL, 100);
	add_record(&out, FIRST, MANIFEST_BLOCK_BYTES - 2 * HEAD - 100);
	add_record(&out, LAST, 50);
	s = scan(buf_bytes(&out));
	assert_int_equal(manifest_scan_end(&s), MANIFEST_WHOLE);
	assert_int_equal(s.sound, out.len);
	out.data[out.len - 1] ^= 1;
	s = scan(buf_bytes(&out));
	assert_int_equal(manifest_scan_end(&s), MANIFEST_TORN);
	assert_int_equal(s.sound, 2 * MANIFEST_BLOCK_BYTES + HEAD + 100);
	out.data[2 * MANIFEST_BLOCK_BYTES + HEAD + 100 + HEAD] ^=
	        1; /* the first part too: nothing after is sound */
	assert_int_equal(state_of(buf_bytes(&out)), MANIFEST_TORN);
	out.data[out.len - 1] ^= 1; /* now its last part is */
	s = scan(buf_bytes(&out));
	assert_int_equal(manifest_scan_end(&s), MANIFEST_TORN);
	assert_int_equal(s.sound, 2 * MANIFEST_BLOCK_BYTES + HEAD + 100);
	buf_release(&out);
}
