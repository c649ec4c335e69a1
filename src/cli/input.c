/* Input: see input.h. */
#include "cli/input.h"

#include <errno.h>
#include <stdio.h>

enum err_code input_read(const char *path, size_t bytes_max, struct arena *a, struct bytes *out,
                         struct err *err)
{
	FILE  *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	char  *text = arena_alloc(a, bytes_max + 1);
	size_t len;
	bool   failed;

	if (f == NULL)
		return err_set(err, ERR_INVALID, "%s: %s", path, strerror(errno));
	len = fread(text, 1, bytes_max + 1, f);
	failed = ferror(f) != 0; /* a directory opens, and then cannot be read */
	if (f != stdin)
		fclose(f);
	if (failed)
		return err_set(err, ERR_INVALID, "%s: cannot be read; it must be a file", path);
	if (len > bytes_max)
		return err_set(err, ERR_INVALID, "%s: must have at most %zu bytes", path, bytes_max);
	*out = (struct bytes){text, len};
	return ERR_NONE;
}
