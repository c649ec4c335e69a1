/* Record: the user who ran the command, and beside it the user who logged in before any sudo, if the kernel knows.
 * Numbers, and the name where there is one. */
#include "cli/record.h"

#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/audit.h"

enum { FIELDS_MAX = 7 };

/* False if the kernel does not keep it, or nobody logged in: a service. */
static bool login_uid(int64_t *uid)
{
	FILE    *file = fopen("/proc/self/loginuid", "re");
	unsigned said;
	bool     read = file != NULL && fscanf(file, "%u", &said) == 1 && said != UINT32_MAX;

	if (file != NULL)
		fclose(file);
	if (read)
		*uid = said;
	return read;
}

static unsigned fields_of(const struct credential *key, uid_t run_by, struct log_field fields[FIELDS_MAX])
{
	const struct passwd *user = getpwuid(run_by);
	unsigned             count = 0;
	int64_t              uid;

	if (key != NULL) {
		fields[count++] = (struct log_field){.name = "key_id", .text = key->id};
		fields[count++] = (struct log_field){.name = "key_name", .text = key->name};
		fields[count++] =
		        (struct log_field){.name = "max_connections", .number = key->limits.connections_max};
		fields[count++] = (struct log_field){.name = "max_requests_per_second",
		                                     .number = key->limits.requests_per_second_max};
	}
	fields[count++] = (struct log_field){.name = "os_uid", .number = run_by};
	if (user != NULL)
		fields[count++] = (struct log_field){.name = "os_user", .text = bytes_of(user->pw_name)};
	if (login_uid(&uid))
		fields[count++] = (struct log_field){.name = "login_uid", .number = uid};
	return count;
}

static bool record(const char *data_dir, const char *act, const struct log_field *fields, unsigned count)
{
	struct audit *audit = NULL;
	struct err    err;
	bool          good = audit_open(&audit, data_dir, &err) == ERR_NONE;

	if (good) {
		audit_write(audit, act, fields, count);
		good = audit_stop(audit);
		if (good || audit_lost(audit) > 0) /* else its thread hangs, and is left behind */
			audit_close(audit);
	} else {
		log_error("could not write to the audit log: %s", err.text);
	}
	if (!good)
		fprintf(stderr, "gatehouse: %s was done, but %s/audit.log has no line of it\n", act,
		        data_dir);
	return good;
}

bool record_key(const char *data_dir, uid_t run_by, const char *act, const struct credential *key)
{
	struct log_field fields[FIELDS_MAX];

	return record(data_dir, act, fields, fields_of(key, run_by, fields));
}

bool record_device_key(const char *data_dir, uid_t run_by, const char *id)
{
	struct log_field fields[] = {{.name = "key_id", .text = bytes_of(id)},
	                             {.name = "os_uid", .number = run_by}};

	return record(data_dir, "device_key.rotate", fields, 2);
}
