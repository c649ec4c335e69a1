/* Profile: what AWS's shared files (~/.aws/credentials, ~/.aws/config) say under one name.
 *
 *   [default]            in either file
 *   [profile work]       in the config file; [work] in the credentials file
 *   region = eu-west-1   a setting; lines that begin with # or ; are comments, indented lines belong to the setting above
 *
 * The credentials file counts for more than the config file. What cannot be read as a line of that form is passed over, as
 * AWS's own tools do. Results live in the arena. */
#ifndef OUTBOUND_PROFILE_H
#define OUTBOUND_PROFILE_H

#include "base/arena.h"
#include "base/err.h"

enum {
	PROFILE_FILE_BYTES_MAX = 256 * 1024,
	PROFILE_SETTINGS_MAX = 64,
	PROFILE_NAME_BYTES_MAX = 128,
};

struct profile_setting {
	struct bytes name, value;
};

struct profile {
	bool                   found; /* one of the files has it */
	struct profile_setting settings[PROFILE_SETTINGS_MAX];
	uint32_t               count;
};

/* Adds the settings of [name], or of [profile name] if `config` says that this is the config file, unless they are there
 * already. Settings past the maximum are passed over. */
void profile_add(struct profile *p, struct bytes file, struct bytes name, bool config);

/* Data is NULL if there is none. */
struct bytes profile_get(const struct profile *p, const char *setting);

/* A whole file, in the arena; one that is not there is empty. ERR_INVALID: it is too large or cannot be read. */
enum err_code profile_file_read(const char *path, struct arena *a, struct bytes *text, struct err *err);

#endif
