/* Seal: a sealed file is read back as it was written, and refused whenever it is not: each flipped bit, each length, one of
 * another directory or under another name, one without a seal, one that is gone. */
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/directory.h"
#include "base/seal.h"

struct place {
	char       dir[64];
	struct buf text;
	bool       found;
	struct err err;
};

static void place_open_bare(struct place *p)
{
	*p = (struct place){.dir = "/tmp/gatehouse-test-XXXXXX"};
	assert_non_null(mkdtemp(p->dir));
	buf_init(&p->text, NULL);
}

static void place_open(struct place *p)
{
	place_open_bare(p);
	assert_int_equal(directory_make(p->dir, 0, &p->err), ERR_NONE);
}

static void place_close(struct place *p)
{
	char command[128];

	buf_release(&p->text);
	snprintf(command, sizeof(command), "rm -rf %s", p->dir);
	assert_int_equal(system(command), 0);
}

static const char *path_of(struct place *p, const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	return path;
}

static size_t load(struct place *p, const char *name, char *out, size_t room)
{
	int     fd = open(path_of(p, name), O_RDONLY);
	ssize_t n = read(fd, out, room);

	assert_true(n >= 0);
	close(fd);
	return (size_t)n;
}

static void store(struct place *p, const char *name, const char *data, size_t len)
{
	int fd = open(path_of(p, name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_equal(write(fd, data, len), len);
	close(fd);
}

static void put(struct place *p, const char *name, const char *text)
{
	if (seal_write(p->dir, name, bytes_of(text), &p->err) != ERR_NONE)
		fail_msg("%s", p->err.text);
}

static enum err_code get(struct place *p, const char *name)
{
	buf_reset(&p->text);
	return seal_read(p->dir, name, &p->text, &p->found, &p->err);
}

static void assert_reads(struct place *p, const char *name, const char *text)
{
	if (get(p, name) != ERR_NONE)
		fail_msg("%s", p->err.text);
	assert_true(p->found);
	assert_bytes(buf_bytes(&p->text), text);
}

static void assert_refused(struct place *p, const char *name, const char *why)
{
	assert_int_equal(get(p, name), ERR_STORAGE);
	if (strstr(p->err.text, name) == NULL || strstr(p->err.text, why) == NULL)
		fail_msg("%s and \"%s\" are not in: %s", name, why, p->err.text);
}

#define SECRET "\x01\x02 any bytes \n"
#define OBJECT "{\"format\":1,\"keys\":[]}\n"

TEST(seal, a_file_is_read_back_as_it_was_written_and_json_stays_json)
{
	struct place p;

	place_open(&p);
	assert_int_equal(get(&p, "a.key"), ERR_NONE);
	assert_false(p.found);
	put(&p, "a.key", SECRET);
	put(&p, "empty.key", "");
	put(&p, "b.json", OBJECT);
	assert_reads(&p, "a.key", SECRET);
	assert_reads(&p, "empty.key", "");
	assert_int_equal(get(&p, "b.json"), ERR_NONE);
	assert_true(bytes_starts_with(buf_bytes(&p.text), BYTES("{\"format\":1,\"keys\":[],\"seal\":\"")));
	assert_int_equal(memcmp(p.text.data + p.text.len - 3, "\"}\n", 3), 0);
	put(&p, "a.key", "another");
	assert_reads(&p, "a.key", "another");
	place_close(&p);
}

static void assert_every_flip_is_found(struct place *p, const char *name)
{
	char   data[1024];
	size_t len = load(p, name, data, sizeof(data));

	for (size_t bit = 0; bit < 8 * len; bit++) {
		data[bit / 8] = (char)(data[bit / 8] ^ (1 << bit % 8));
		store(p, name, data, len);
		assert_int_equal(get(p, name), ERR_STORAGE);
		data[bit / 8] = (char)(data[bit / 8] ^ (1 << bit % 8));
	}
	for (size_t cut = 0; cut < len; cut++) {
		store(p, name, data, cut);
		assert_int_equal(get(p, name), ERR_STORAGE);
	}
	store(p, name, data, len);
	assert_int_equal(get(p, name), ERR_NONE);
}

TEST(seal, a_flipped_bit_or_another_length_of_a_file_is_found_wherever_it_is)
{
	struct place p;

	place_open(&p);
	put(&p, "a.key", SECRET);
	put(&p, "b.json", OBJECT);
	assert_every_flip_is_found(&p, "a.key");
	assert_every_flip_is_found(&p, "b.json");
	place_close(&p);
}

TEST(seal, a_flipped_bit_or_another_length_of_FORMAT_is_found_wherever_it_is)
{
	struct directory d;
	struct place     p;
	char             data[1024];
	size_t           len;

	place_open(&p);
	put(&p, "a.key", SECRET);
	assert_int_equal(directory_add_held(p.dir, "store", &p.err), ERR_NONE);
	len = load(&p, "FORMAT", data, sizeof(data));
	for (size_t bit = 0; bit < 8 * len; bit++) {
		data[bit / 8] = (char)(data[bit / 8] ^ (1 << bit % 8));
		store(&p, "FORMAT", data, len);
		assert_int_equal(directory_read(p.dir, &d, &p.err), ERR_STORAGE);
		assert_int_equal(get(&p, "a.key"), ERR_STORAGE);
		data[bit / 8] = (char)(data[bit / 8] ^ (1 << bit % 8));
	}
	for (size_t cut = 0; cut < len; cut++) {
		store(&p, "FORMAT", data, cut);
		assert_int_equal(directory_read(p.dir, &d, &p.err), ERR_STORAGE);
	}
	store(&p, "FORMAT", data, len);
	assert_reads(&p, "a.key", SECRET);
	place_close(&p);
}

TEST(seal, a_file_of_another_directory_or_under_another_name_is_refused)
{
	struct place one, two;
	char         data[1024];
	size_t       len;

	place_open(&one);
	place_open(&two);
	put(&one, "a.key", SECRET);
	put(&two, "a.key", SECRET);
	len = load(&one, "a.key", data, sizeof(data));
	store(&two, "a.key", data, len);
	assert_refused(&two, "a.key", "belongs to another data directory");
	store(&one, "c.key", data, len);
	assert_refused(&one, "c.key", "its checksum does not match");
	place_close(&one);
	place_close(&two);
}

TEST(seal, a_file_that_was_made_and_is_gone_is_refused_and_one_that_never_was_is_not)
{
	struct place p;

	place_open(&p);
	put(&p, "a.key", SECRET);
	assert_int_equal(unlink(path_of(&p, "a.key")), 0);
	assert_refused(&p, "a.key", "is missing, and the data in this directory depends on it");
	assert_int_equal(get(&p, "b.key"), ERR_NONE);
	assert_false(p.found);
	assert_int_equal(directory_forget(p.dir, "a.key", &p.err), ERR_NONE);
	assert_int_equal(get(&p, "a.key"), ERR_NONE);
	assert_false(p.found);
	place_close(&p);
}

TEST(seal, a_file_without_a_seal_is_refused_and_json_names_the_command_that_seals_it)
{
	struct place p;

	place_open(&p);
	put(&p, "keys.json", OBJECT);
	store(&p, "keys.json", OBJECT, sizeof(OBJECT) - 1);
	assert_refused(&p, "keys.json", "gatehouse key seal");
	store(&p, "a.key", SECRET, sizeof(SECRET) - 1);
	assert_refused(&p, "a.key", "has no seal");
	place_close(&p);
}

/* ---- directories of older programs ---- */

TEST(seal, before_there_is_an_id_files_have_no_seals_and_the_first_start_lists_them)
{
	struct place p;
	bool         due;

	place_open_bare(&p);
	put(&p, "keys.json", OBJECT);
	assert_reads(&p, "keys.json", OBJECT);
	assert_int_equal(directory_make(p.dir, 0, &p.err), ERR_NONE);
	assert_int_equal(seal_is_due(p.dir, "keys.json", &due, &p.err), ERR_NONE);
	assert_true(due);
	assert_reads(&p, "keys.json", OBJECT);
	put(&p, "keys.json", OBJECT);
	assert_int_equal(seal_is_due(p.dir, "keys.json", &due, &p.err), ERR_NONE);
	assert_false(due);
	store(&p, "keys.json", OBJECT, sizeof(OBJECT) - 1); /* only once */
	assert_refused(&p, "keys.json", "has no seal");
	place_close(&p);
}

/* The seal is on the disk, but FORMAT lists it as unsealed: a crash came between. */
TEST(seal, a_first_sealing_that_was_cut_short_is_taken_up_again)
{
	struct place p;
	char         data[1024];
	size_t       len;

	place_open_bare(&p);
	put(&p, "identifiers.key", SECRET);
	assert_int_equal(directory_make(p.dir, 2, &p.err), ERR_NONE);
	len = load(&p, "FORMAT", data, sizeof(data));
	put(&p, "identifiers.key", SECRET);
	store(&p, "FORMAT", data, len);
	assert_reads(&p, "identifiers.key", SECRET);
	place_close(&p);
}

TEST(seal, a_directory_of_format_2_that_lost_its_key_of_identifiers_is_refused)
{
	struct place p;

	place_open_bare(&p);
	assert_int_equal(directory_make(p.dir, 2, &p.err), ERR_NONE);
	assert_refused(&p, "identifiers.key", "is missing");
	place_close(&p);
}

TEST(seal, a_sealed_file_whose_FORMAT_is_gone_is_refused)
{
	struct place p;

	place_open(&p);
	put(&p, "keys.json", OBJECT);
	assert_int_equal(unlink(path_of(&p, "FORMAT")), 0);
	assert_refused(&p, "keys.json", "there is no");
	assert_int_equal(directory_make(p.dir, 0, &p.err), ERR_NONE);
	assert_refused(&p, "keys.json", "belongs to another data directory");
	place_close(&p);
}

/* ---- checking ---- */

static void count_problem(void *ctx, const char *text)
{
	(void)text;
	++*(unsigned *)ctx;
}

TEST(seal, checking_counts_what_is_sound_and_tells_of_what_is_not)
{
	struct place p;
	unsigned     sound, problems = 0;

	place_open(&p);
	put(&p, "a.key", SECRET);
	put(&p, "b.key", SECRET);
	put(&p, "c.json", OBJECT);
	assert_int_equal(seal_check(p.dir, count_problem, &problems, &sound, &p.err), ERR_NONE);
	assert_int_equal(sound, 3);
	assert_int_equal(problems, 0);
	assert_int_equal(unlink(path_of(&p, "a.key")), 0);
	store(&p, "b.key", SECRET, sizeof(SECRET) - 1);
	assert_int_equal(seal_check(p.dir, count_problem, &problems, &sound, &p.err), ERR_NONE);
	assert_int_equal(sound, 1);
	assert_int_equal(problems, 2);
	place_close(&p);
}
