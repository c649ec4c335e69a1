/* Aio: Linux's io_submit, by its system calls; C libraries have none for it. */
#define _GNU_SOURCE
#include "engine/aio.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fault.h"

struct aio {
	aio_context_t context;
	bool          able;
};

/* A sandbox that lets a write begin may still not let anyone wait for its end. */
static bool may_wait(struct aio *a)
{
	struct timespec none = {0, 0};
	struct io_event ended;

	return syscall(SYS_io_getevents, a->context, 0, 1, &ended, &none) == 0;
}

bool aio_is_for(int fd)
{
	struct statfs st;

	return fstatfs(fd, &st) == 0 && (st.f_type == EXT4_SUPER_MAGIC || st.f_type == XFS_SUPER_MAGIC);
}

struct aio *aio_open(void)
{
	struct aio *a = mem_zalloc(sizeof(*a));

	a->able = syscall(SYS_io_setup, 1, &a->context) == 0 && may_wait(a);
	return a;
}

void aio_close(struct aio *a)
{
	if (a->context != 0)
		syscall(SYS_io_destroy, a->context);
	free(a);
}

/* A kernel or a file system that does not do it, or a sandbox that does not let it. */
static bool is_unable(int error)
{
	return error == EINVAL || error == EOPNOTSUPP || error == ENOSYS || error == EPERM || error == EAGAIN;
}

static enum aio_outcome refused(struct aio *a, int error)
{
	errno = error;
	if (!is_unable(error))
		return AIO_FAILED;
	a->able = false;
	return AIO_UNABLE;
}

enum aio_outcome aio_write_flushed(struct aio *a, int fd, struct bytes data, off_t at)
{
	struct iocb     write = {.aio_lio_opcode = IOCB_CMD_PWRITE,
	                         .aio_fildes = (uint32_t)fd,
	                         .aio_buf = (uint64_t)(uintptr_t)data.data,
	                         .aio_nbytes = data.len,
	                         .aio_offset = at,
	                         .aio_rw_flags = RWF_DSYNC};
	struct iocb    *writes[] = {&write};
	struct io_event ended;
	long            n;

	if (!a->able)
		return AIO_UNABLE;
	if (fault_fires(FAULT_AIO_FAILS))
		return refused(a, EIO);
	if (fault_fires(FAULT_AIO_SHORT))
		write.aio_nbytes /= 2;
	if (syscall(SYS_io_submit, a->context, 1, writes) != 1)
		return refused(a, errno);
	do
		n = syscall(SYS_io_getevents, a->context, 1, 1, &ended, NULL);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		abort(); /* the kernel may still read the data, and nobody would learn when it has */
	if (ended.res < 0)
		return refused(a, (int)-ended.res);
	return (size_t)ended.res == data.len ? AIO_DONE : AIO_UNABLE;
}
