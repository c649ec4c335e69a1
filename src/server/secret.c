/* Secret: see secret.h. A file that is there but not as it should be is an error, never replaced: what was
 * hashed with it could not be found again. */
#include "server/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/file.h"

static enum err_code make(const char *dir, const char *name, uint8_t *out, size_t len, struct err *err)
{
	if (getrandom(out, len, 0) != (ssize_t)len)
		return err_set(err, ERR_STORAGE, "the system gives no random bytes");
	return file_replace(dir, name, (struct bytes){(const char *)out, len}, err);
}

enum err_code secret_file_read(const char *dir, const char *name, uint8_t *out, size_t len, struct err *err)
{
	char    path[PATH_MAX];
	ssize_t n;
	int     fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return make(dir, name, out, len, err);
	if (fd < 0)
		return err_set(err, ERR_STORAGE, "open %s: %s", path, strerror(errno));
	n = read(fd, out, len);
	if (n == (ssize_t)len && lseek(fd, 0, SEEK_END) != (off_t)len)
		n = -1;
	close(fd);
	if (n != (ssize_t)len)
		return err_set(err, ERR_STORAGE, "%s must have %zu bytes", path, len);
	return ERR_NONE;
}
