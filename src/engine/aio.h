/* Aio: a write and its flush as one request to the kernel.
 *
 * A thread that calls pwrite and then fdatasync waits for the disk twice, and in between for a core, which on a busy machine
 * takes longer than the disk. Here the kernel goes from the one to the other by itself, and wakes the caller once.
 * For files opened with O_DIRECT, on file systems where it is known that the flush is then waited for: FUSE answers
 * before it. */
#ifndef ENGINE_AIO_H
#define ENGINE_AIO_H

#include <sys/types.h>

#include "base/bytes.h"

struct aio;

enum aio_outcome {
	AIO_DONE,   /* it is on the disk */
	AIO_UNABLE, /* not in this way; of what was to be written any part may be there */
	AIO_FAILED, /* errno says why */
};

struct aio *aio_open(void); /* where the kernel refuses, everything is AIO_UNABLE */
void        aio_close(struct aio *a);

/* Is the file on such a file system? */
bool aio_is_for(int fd);

/* One thread at a time. The data is aligned as O_DIRECT asks for. */
enum aio_outcome aio_write_flushed(struct aio *a, int fd, struct bytes data, off_t at);

#endif
