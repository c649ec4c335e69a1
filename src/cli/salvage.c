/* Salvage: `gatehouse salvage`: says what a start stumbles over and what would have to be dropped; with --drop, drops it. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/record.h"
#include "server/offline.h"

struct salvage_options {
	const char *data;
	bool        drop, help;
};

static void on_line(void *ctx, const char *text)
{
	(void)ctx;
	printf("%s\n", text);
}

static int failed(const char *path, const struct err *err)
{
	fflush(stdout);
	fprintf(stderr, "gatehouse salvage: %s could not be salvaged: %s\n", path, err->text);
	return 1;
}

static int say_end(const struct salvage_options *o, const struct offline_salvage *found)
{
	if (!found->damaged)
		printf("%s: nothing to drop\n", o->data);
	else if (!found->dropped)
		printf("%s: nothing was changed; `gatehouse salvage --data %s --drop` drops what is named "
		       "above\n",
		       o->data, o->data);
	else if (found->aside[0] != '\0')
		printf("%s: dropped; copies of what was dropped are in %s\n", o->data, found->aside);
	else
		printf("%s: dropped; of what was missing there is no copy\n", o->data);
	return found->damaged && !found->dropped ? 1 : 0;
}

static int salvage(const struct salvage_options *o)
{
	struct offline_salvage found;
	uid_t                  run_by = geteuid();
	struct err             err;
	int                    status;

	log_set_level(LOG_WARN);
	if (file_become_owner(o->data, &err) != ERR_NONE ||
	    offline_salvage(o->data, o->drop, on_line, &found, &err) != ERR_NONE)
		return failed(o->data, &err);
	status = say_end(o, &found);
	return !found.dropped || record_key(o->data, run_by, "data.salvage", NULL) ? status : 1;
}

static const struct option_spec options[] = {
        {"--data", OPTION_TEXT, "DIR", "data directory (default: data)",
         offsetof(struct salvage_options, data), 0, 0},
        {"--drop", OPTION_FLAG, NULL, "drop what is damaged or lost, after copying it aside",
         offsetof(struct salvage_options, drop), 0, 0},
        {"--help", OPTION_FLAG, NULL, "print this help", offsetof(struct salvage_options, help), 0, 0},
};

static int run(int argc, char **argv)
{
	struct salvage_options o = {.data = "data"};
	struct err             err;

	if (options_parse(OPTIONS(options), &o, argc, argv, &err) != ERR_NONE) {
		fprintf(stderr, "gatehouse salvage: %s\n", err.text);
		return 2;
	}
	if (o.help) {
		command_help(&command_salvage);
		return 0;
	}
	return salvage(&o);
}

const struct command command_salvage = {
        .name = "salvage",
        .help = "recover what can be kept of a damaged data directory",
        .about = "For a data directory that the server refuses because its journal or a sealed file is\n"
                 "damaged or lost, and that has no backup. Lists exactly what would have to be dropped:\n"
                 "files, bytes, and commits with their numbers and times. Changes nothing without --drop.\n"
                 "Stop the server first: no other process may have the directory open.",
        .more = "Every commit before the damage is kept. Every commit after it is dropped, because it may\n"
                "depend on a lost one. The store may already hold rows of dropped commits. These rows stay,\n"
                "and their index and expiry entries are made to agree with them. What is dropped is copied\n"
                "to DIR/salvaged-TIME first.\n"
                "Exit status 0: nothing to drop, or it was dropped. 1: there is something to drop, or\n"
                "salvage failed.",
        .options = {options, OPTIONS_COUNT(options)},
        .run = run,
};
