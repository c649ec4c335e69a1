/* Fsync: what the disk itself asks for a durable write. Appends records of the given size to a file, each
 * followed by fdatasync, and prints the quantiles: the floor under the latency of one client's durable write.
 * Two kinds of file, because a file that grows makes fdatasync write its new length too, and a log that is
 * zero-filled beforehand does not. Prints one line of JSON. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"

enum {
	RECORD_BYTES_MAX = 1 << 20,
	ZERO_CHUNK_BYTES = 1 << 20,
	ZERO_CHUNKS = 16, /* the zero-filled file's size; writing starts over at its end */
};

struct file_kind {
	const char *name;
	bool        zero_filled;
};

static const struct file_kind kinds[] = {{"growing", false}, {"zero_filled", true}};

struct probe {
	const char      *path;
	int              fd;
	size_t           bytes;
	double           seconds;
	char            *record;
	struct histogram latency;
};

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool file_zero_fill(int fd)
{
	char *zeros = calloc(1, ZERO_CHUNK_BYTES);
	bool  ok = zeros != NULL;

	for (int i = 0; ok && i < ZERO_CHUNKS; i++)
		ok = pwrite(fd, zeros, ZERO_CHUNK_BYTES, (off_t)i * ZERO_CHUNK_BYTES) == ZERO_CHUNK_BYTES;
	free(zeros);
	return ok && fsync(fd) == 0;
}

static bool probe_open(struct probe *p, const struct file_kind *kind)
{
	memset(&p->latency, 0, sizeof p->latency);
	p->fd = open(p->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return p->fd >= 0 && (!kind->zero_filled || file_zero_fill(p->fd));
}

static bool probe_write_one(struct probe *p, off_t at)
{
	uint64_t start_ns = clock_ns();

	if (pwrite(p->fd, p->record, p->bytes, at) != (ssize_t)p->bytes || fdatasync(p->fd) != 0)
		return false;
	histogram_add(&p->latency, clock_ns() - start_ns);
	return true;
}

static bool probe_run(struct probe *p, const struct file_kind *kind)
{
	uint64_t end_ns = clock_ns() + (uint64_t)(p->seconds * 1e9);
	off_t    limit = (off_t)ZERO_CHUNKS * ZERO_CHUNK_BYTES - (off_t)p->bytes;
	off_t    at = 0;

	while (clock_ns() < end_ns) {
		if (!probe_write_one(p, at))
			return false;
		at += (off_t)p->bytes;
		if (kind->zero_filled && at > limit)
			at = 0;
	}
	return true;
}

static void probe_close(struct probe *p)
{
	if (p->fd >= 0)
		close(p->fd);
	unlink(p->path);
}

static bool probe_measure(struct probe *p, const struct file_kind *kind)
{
	bool ok = probe_open(p, kind) && probe_run(p, kind);
	int  error = errno;

	probe_close(p);
	if (!ok)
		fprintf(stderr, "fsync: %s: %s\n", p->path, strerror(error));
	return ok;
}

static void probe_print(const struct probe *p, const struct file_kind *kind)
{
	printf(", \"%s\": {\"writes\": %llu, \"p50_us\": %.1f, \"p99_us\": %.1f}", kind->name,
	       (unsigned long long)p->latency.count, (double)histogram_quantile(&p->latency, 0.50) / 1e3,
	       (double)histogram_quantile(&p->latency, 0.99) / 1e3);
}

int main(int argc, char **argv)
{
	struct probe p = {0};

	if (argc == 4) {
		p.path = argv[1];
		p.bytes = (size_t)strtoul(argv[2], NULL, 10);
		p.seconds = atof(argv[3]);
	}
	if (p.bytes == 0 || p.bytes > RECORD_BYTES_MAX || p.seconds <= 0) {
		fprintf(stderr,
		        "usage: fsync FILE BYTES SECONDS-EACH   (FILE is overwritten, then removed)\n");
		return 2;
	}
	p.record = malloc(p.bytes);
	if (p.record == NULL)
		return 1;
	memset(p.record, 'x', p.bytes);
	printf("{\"bytes\": %zu", p.bytes);
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (!probe_measure(&p, &kinds[i]))
			return 1;
		probe_print(&p, &kinds[i]);
	}
	printf("}\n");
	free(p.record);
	return 0;
}
