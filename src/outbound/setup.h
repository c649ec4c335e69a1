/* Setup: which AWS credentials are set up, by environment and shared files, in the order of credentials.h. Fetches nothing.
 * Results live in the arena. Internal to outbound/. */
#ifndef OUTBOUND_SETUP_H
#define OUTBOUND_SETUP_H

#include "outbound/credentials.h"

enum aws_source {
	SOURCE_ENVIRONMENT,
	SOURCE_ROLE,
	SOURCE_WEB_IDENTITY,
	SOURCE_PROFILE,
	SOURCE_CONTAINER,
	SOURCE_INSTANCE
};

struct aws_setup {
	struct arena         *arena; /* of all texts here */
	enum aws_source       source;
	const char           *region;                   /* NULL: none */
	const char           *role_arn, *session_name;  /* ROLE, WEB_IDENTITY */
	const char           *identity_file;            /* WEB_IDENTITY */
	const char           *external_id, *duration_s; /* ROLE; NULL: none */
	struct aws_credential assumer;                  /* ROLE: whose keys ask for it */
	const char           *endpoint; /* scheme, host, port of whoever is asked; "" if nobody is */
	const char           *path;     /* CONTAINER */
	const char           *token, *token_file; /* CONTAINER: its Authorization; NULL: none */
	struct aws_credential fixed;              /* ENVIRONMENT, PROFILE */
	const char           *dynamodb;           /* where DynamoDB is to be called; NULL: at AWS */
	struct aws_network    network;
};

/* ERR_INVALID says what is set up wrongly, or that nothing is. */
enum err_code aws_setup_read(struct aws_setup *s, const struct environment *env, struct arena *a,
                             struct err *err);

/* ---- profiles ----
 * What AWS's shared files (~/.aws/credentials, ~/.aws/config) say under one name.
 *
 *   [default]            in either file
 *   [profile work]       in the config file; [work] in the credentials file
 *   region = eu-west-1   a setting; lines that begin with # or ; are comments, indented lines belong to the setting above
 *
 * The credentials file counts for more than the config file. What cannot be read as a line of that form is passed over, as
 * AWS's own tools do. */

enum {
	ROLE_SECONDS_MIN = 900,
	ROLE_SECONDS_MAX = 43200,
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

/* endpoint_url of a service in the section [services NAME] of the config file; data is NULL if there is none.
 *
 *   [services NAME]
 *   dynamodb =
 *     endpoint_url = http://127.0.0.1:8000 */
struct bytes profile_service_url(struct bytes file, struct bytes name, const char *service);

/* Data is NULL if there is none. */
struct bytes profile_get(const struct profile *p, const char *setting);

/* A whole file, in the arena; one that is not there is empty. ERR_INVALID: it is too large or cannot be read. */
enum err_code profile_file_read(const char *path, struct arena *a, struct bytes *text, struct err *err);

#endif
