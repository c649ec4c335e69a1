/* Aio: what is done is in the file and on the disk; what cannot be done in this way is told from what failed. */
#define _GNU_SOURCE
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fault.h"
#include "engine/aio.h"

enum { BLOCK_BYTES = 4096, WRITES = 20 };

struct desk {
	char        path[64];
	int         fd;
	struct aio *aio;
	char       *data; /* of BLOCK_BYTES, aligned */
};

static void desk_open(struct desk *d)
{
	*d = (struct desk){.path = "/tmp/gatehouse-test-XXXXXX"};
	close(mkstemp(d->path));
	d->fd = open(d->path, O_RDWR | O_DIRECT);
	if (d->fd < 0) {
		unlink(d->path);
		skip(); /* this file system has no O_DIRECT, and the journal then does without */
	}
	d->aio = aio_open();
	d->data = aligned_alloc(BLOCK_BYTES, BLOCK_BYTES);
	memset(d->data, 'a', BLOCK_BYTES);
}

static void desk_close(struct desk *d)
{
	aio_close(d->aio);
	close(d->fd);
	free(d->data);
	unlink(d->path);
}

static enum aio_outcome write_block(struct desk *d, size_t len, off_t at)
{
	return aio_write_flushed(d->aio, d->fd, (struct bytes){d->data, len}, at);
}

TEST(aio, what_is_done_is_in_the_file)
{
	struct desk d;
	char       *found = aligned_alloc(BLOCK_BYTES, BLOCK_BYTES);

	desk_open(&d);
	assert_int_equal(write_block(&d, BLOCK_BYTES, BLOCK_BYTES), AIO_DONE);
	assert_int_equal(pread(d.fd, found, BLOCK_BYTES, BLOCK_BYTES), BLOCK_BYTES);
	assert_memory_equal(found, d.data, BLOCK_BYTES);
	assert_int_equal(lseek(d.fd, 0, SEEK_END), 2 * BLOCK_BYTES);
	free(found);
	desk_close(&d);
}

/* What the kernel says of the file's disk; the first line of that file. */
static bool disk_says(const struct desk *d, const char *file, char out[256])
{
	struct stat st;
	char        path[96];
	FILE       *f;
	bool        said;

	assert_int_equal(fstat(d->fd, &st), 0);
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(st.st_dev), minor(st.st_dev), file);
	f = fopen(path, "r");
	if (f == NULL)
		return false;
	said = fgets(out, 256, f) != NULL;
	fclose(f);
	return said;
}

/* How often the disk was told to flush its own cache. */
static long disk_flushes(const struct desk *d)
{
	char text[256];
	long flushes = -1;

	if (disk_says(d, "stat", text))
		sscanf(text, "%*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %ld", &flushes);
	return flushes;
}

static void write_blocks_flushed(struct desk *d)
{
	for (int i = 0; i < WRITES; i++) {
		assert_int_equal(pwrite(d->fd, d->data, BLOCK_BYTES, 0), BLOCK_BYTES);
		assert_int_equal(fdatasync(d->fd), 0);
	}
}

/* Has it a cache, is it told to flush it, and is that counted? Some write through for each write, some do not count. */
static bool disk_counts_flushes(struct desk *d)
{
	char text[256];
	long before = disk_flushes(d);

	if (!disk_says(d, "queue/write_cache", text) || strncmp(text, "write back", 10) != 0 ||
	    !disk_says(d, "queue/fua", text) || text[0] != '0')
		return false;
	write_blocks_flushed(d);
	return disk_flushes(d) >= before + WRITES;
}

TEST(aio, what_is_done_was_flushed)
{
	struct desk d;
	long        before;

	desk_open(&d);
	if (!disk_counts_flushes(&d)) {
		desk_close(&d);
		skip();
	}
	before = disk_flushes(&d);
	for (int i = 0; i < WRITES; i++)
		assert_int_equal(write_block(&d, BLOCK_BYTES, 0), AIO_DONE);
	assert_true(disk_flushes(&d) >= before + WRITES);
	desk_close(&d);
}

TEST(aio, what_the_file_does_not_take_in_this_way_is_left_to_others_for_good)
{
	struct desk d;

	desk_open(&d);
	assert_int_equal(write_block(&d, 100, 0), AIO_UNABLE);
	assert_int_equal(write_block(&d, BLOCK_BYTES, 0), AIO_UNABLE);
	assert_int_equal(lseek(d.fd, 0, SEEK_END), 0);
	desk_close(&d);
}

TEST(aio, a_failure_says_why_and_the_next_write_is_tried)
{
	struct desk d;
	int         fd;

	desk_open(&d);
	fd = d.fd;
	d.fd = open(d.path, O_RDONLY | O_DIRECT);
	assert_int_equal(write_block(&d, BLOCK_BYTES, 0), AIO_FAILED);
	assert_int_equal(errno, EBADF);
	close(d.fd);
	d.fd = fd;
	assert_int_equal(write_block(&d, BLOCK_BYTES, 0), AIO_DONE);
	desk_close(&d);
}

TEST(aio, less_than_was_asked_for_is_not_done)
{
	struct desk d;

	desk_open(&d);
	fault_arm(FAULT_AIO_SHORT, 0);
	assert_int_equal(write_block(&d, BLOCK_BYTES, 0), AIO_UNABLE);
	fault_disarm(FAULT_AIO_SHORT);
	assert_int_equal(lseek(d.fd, 0, SEEK_END), BLOCK_BYTES / 2);
	desk_close(&d);
}
