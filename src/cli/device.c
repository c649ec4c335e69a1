/* Device: `gatehouse device …`: registered devices of a running server. */
#include "cli/job.h"

enum { PAGE = 500 }; /* the most that one answer lists */

struct device_options {
	struct remote_options remote; /* first */
	uint64_t              limit, inactive_days;
	bool                  all, yes;
	struct job_start      job;
};

static const struct device_options *options_of(const struct remote *r)
{
	return (const struct device_options *)r->options;
}

/* ---- devices of a user ---- */

static enum err_code run_list(struct remote *r, struct err *err)
{
	struct show_table table = {.columns = {"deviceId", "platform", "isActive", "updatedAt", "expiresAt"}};
	struct remote_list q = {.path = remote_path(r, "/v1/users/%/devices", r->arguments),
	                        .member = "devices",
	                        .page = PAGE,
	                        .rows_max = options_of(r)->limit,
	                        .filters = {{"include", options_of(r)->all ? "inactive" : NULL}}};

	return remote_list(r, &q, &table, err);
}

static enum err_code run_show(struct remote *r, struct err *err)
{
	return remote_simple(r, "GET", "/v1/users/%/devices/%", err);
}

static enum err_code run_deactivate(struct remote *r, struct err *err)
{
	return remote_simple(r, "POST", "/v1/users/%/devices/%/deactivate", err);
}

static enum err_code run_delete(struct remote *r, struct err *err)
{
	return remote_simple(r, "DELETE", "/v1/users/%/devices/%", err);
}

static enum err_code run_erase(struct remote *r, struct err *err)
{
	if (!options_of(r)->yes)
		return err_set(err, ERR_INVALID,
		               "all devices of the user would go, for good; add --yes if you mean it");
	return remote_simple(r, "DELETE", "/v1/users/%/devices", err);
}

/* ---- all devices ---- */

static enum err_code run_broadcast(struct remote *r, struct err *err)
{
	struct show_table  table = {.columns = {"userId", "deviceId", "expoPushToken"}};
	struct remote_list q = {.path = BYTES("/v1/devices"),
	                        .member = "devices",
	                        .page = PAGE,
	                        .rows_max = options_of(r)->limit,
	                        .filters = {{"platform", r->arguments[0]}}};

	return remote_list(r, &q, &table, err);
}

static enum err_code job_of(struct remote *r, const char *path, uint64_t days, struct err *err)
{
	struct remote_call q = {.method = "POST", .path = bytes_of(path)};
	struct json_writer w;
	struct buf         body;

	buf_init(&body, &r->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	if (days > 0)
		json_member_i64(&w, BYTES("inactiveDays"), (int64_t)days);
	job_start_write(&w, &options_of(r)->job);
	json_end_object(&w);
	q.body = buf_bytes(&body);
	return job_run(r, &q, options_of(r)->job.no_wait, NULL, err);
}

static enum err_code run_cleanup(struct remote *r, struct err *err)
{
	return job_of(r, "/v1/devices/cleanup", options_of(r)->inactive_days, err);
}

static enum err_code run_repair(struct remote *r, struct err *err)
{
	return job_of(r, "/v1/devices/repair", 0, err);
}

/* ---- the table ---- */

enum { LIST, SHOW, DEACTIVATE, DELETE, ERASE, BROADCAST, CLEANUP, REPAIR, WORDS };

static const struct command_word words[WORDS] = {
        [LIST] = {"list", "USER", "list a user's active devices"},
        [SHOW] = {"show", "USER DEVICE", "show one device"},
        [DEACTIVATE] = {"deactivate", "USER DEVICE", "send nothing more to it until it is registered again"},
        [DELETE] = {"delete", "USER DEVICE", "remove it, and the known devices issued with its id"},
        [ERASE] = {"erase", "USER --yes", "remove all devices of a user; prints the receipt"},
        [BROADCAST] = {"broadcast", "ios|android", "list all active devices of a platform"},
        [CLEANUP] = {"cleanup", NULL, "remove devices that have been inactive for long, as a job"},
        [REPAIR] = {"repair", NULL, "markers and index of rows that others wrote, as a job"},
};

static const struct remote_word functions[WORDS] = {
        [LIST] = {run_list, 1, 1},       [SHOW] = {run_show, 2, 2},     [DEACTIVATE] = {run_deactivate, 2, 2},
        [DELETE] = {run_delete, 2, 2},   [ERASE] = {run_erase, 1, 1},   [BROADCAST] = {run_broadcast, 1, 1},
        [CLEANUP] = {run_cleanup, 0, 0}, [REPAIR] = {run_repair, 0, 0},
};

static const struct option_spec options[] = {
        REMOTE_OPTIONS,
        {"--all", OPTION_FLAG, NULL, "list: inactive devices too", offsetof(struct device_options, all), 0,
         0},
        {"--limit", OPTION_NUMBER, "N", "list, broadcast: at most so many (default: all)",
         offsetof(struct device_options, limit), 1, INT64_MAX},
        {"--inactive-days", OPTION_NUMBER, "N", "cleanup: inactive for so many days (default: 30)",
         offsetof(struct device_options, inactive_days), 1, 3650},
        {"--yes", OPTION_FLAG, NULL, "erase: yes, for good", offsetof(struct device_options, yes), 0, 0},
        JOB_OPTIONS(struct device_options, job, "cleanup, repair: rows"),
};

static int run(int argc, char **argv)
{
	struct device_options o = {.limit = 0};

	return remote_run(&command_device, functions, &o.remote, (struct arguments){argc, argv});
}

const struct command command_device = {
        .name = "device",
        .help = "registered devices of a running server: list, end, clean up",
        .about = "Manages the devices that users are sent push messages on, through a running server.",
        .words = words,
        .word_count = WORDS,
        .options = {options, OPTIONS_COUNT(options)},
        .run = run,
};
