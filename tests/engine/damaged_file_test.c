/* Damaged files: a bit is flipped in a file of the store, where a level has several files. Whatever a read answers is right: no row is absent because it could
 * not be read, however it is asked for. Once the bit is as before, all can be read again, without a restart.
 *
 * `make test` flips bits of the first block of each file, and some at random; with CAMPAIGN=N in the environment, N times as many more. SEED=N repeats a run. */
#include "engine/scene.h"

#include <fcntl.h>

enum { FILES_MAX = 256, RANDOM_FLIPS = 20, FIRST_BLOCK_BYTES = 100 };

struct file_list {
	char     path[FILES_MAX][PATH_MAX];
	uint64_t bytes[FILES_MAX];
	int      count;
	char     store[PATH_MAX];
};

static void list_add(void *ctx, const char *name, uint64_t bytes)
{
	struct file_list *l = ctx;

	assert_true(l->count < FILES_MAX);
	assert_true(snprintf(l->path[l->count], PATH_MAX, "%.4000s%s", l->store, name) < PATH_MAX);
	l->bytes[l->count++] = bytes;
}

static void list_files(struct scene *s, struct file_list *l)
{
	l->count = 0;
	snprintf(l->store, sizeof(l->store), "%s/store", s->f.dir);
	rocks_each_file(s->f.engine->rocks, list_add, l);
}

/* A second time it is as before. */
static void flip(const char *path, uint64_t at, int bit)
{
	int  fd = open(path, O_RDWR);
	char byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte = (char)(byte ^ 1 << bit);
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	close(fd);
}

/* Without a filter, and with one if it can be built. */
static void read_damaged(struct scene *s)
{
	scene_read(s);
	engine_build_filter(s->f.engine);
	scene_read(s);
	read_conditions(s);
}

/* Says how many reads failed. A store that does not open answers nothing. */
static unsigned try_flip(struct scene *s, const char *path, uint64_t at, int bit)
{
	char     where[PATH_MAX + 64];
	unsigned failed;

	alarm(TEST_PROGRAM_SECONDS_MAX); /* a campaign takes longer */
	snprintf(where, sizeof(where), "%s, byte %llu, bit %d", path, (unsigned long long)at, bit);
	flip(path, at, bit);
	scene_forget_readings(s);
	if (engine_open(&s->f.engine, &s->f.options, &s->f.err) != ERR_NONE) {
		flip(path, at, bit);
		scene_start(s);
		return 1;
	}
	read_damaged(s);
	assert_none_wrong(s, where);
	failed = s->ledger->failed;
	flip(path, at, bit);
	assert_scene(s, where);
	engine_build_filter(s->f.engine);
	assert_true(filter_stats(s->f.engine->filter).complete);
	assert_scene(s, where);
	return failed;
}

TEST(damaged_file, whose_first_block_cannot_be_read_makes_no_row_absent)
{
	static struct file_list files;
	struct scene            s;
	int                     noticed = 0;

	scene_open(&s);
	list_files(&s, &files);
	assert_in_range(files.count, 3 * LOG_FILES, FILES_MAX);
	for (int i = 0; i < files.count; i++) {
		engine_close(s.f.engine);
		noticed += try_flip(&s, files.path[i], FIRST_BLOCK_BYTES / 2, i % 8) > 0 ? 1 : 0;
	}
	assert_true(noticed > files.count / 2); /* the others are of the deleted table, which none reads */
	scene_close(&s);
}

TEST(damaged_file, wherever_the_damage_is_no_row_is_absent)
{
	static struct file_list files;
	struct random           random = {scene_seed()};
	struct scene            s;
	unsigned                failed = 0;

	scene_open(&s);
	list_files(&s, &files);
	for (unsigned i = 0; i < (1 + scene_campaign()) * RANDOM_FLIPS; i++) {
		int file = (int)random_below(&random, (uint64_t)files.count);

		engine_close(s.f.engine);
		failed += try_flip(&s, files.path[file], random_below(&random, files.bytes[file]),
		                   (int)random_below(&random, 8));
	}
	assert_true(failed > 0);
	scene_close(&s);
}
