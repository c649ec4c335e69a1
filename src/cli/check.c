/* Check: verifies every stored row and index entry of a data directory that no server has open. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "engine/engine.h"

static int check(const char *path)
{
	struct engine_options options = engine_options_default(path);
	struct engine        *engine;
	struct err            err;

	log_set_level(LOG_WARN);
	if (access(path, F_OK) != 0) { /* opening would make an empty one, which is always sound */
		fprintf(stderr, "gatehouse check: %s: %s\n", path, strerror(errno));
		return 1;
	}
	if (engine_open(&engine, &options, &err) != ERR_NONE) {
		fprintf(stderr, "gatehouse check: %s\n", err.text);
		return 1;
	}
	engine_verify(engine, &err);
	engine_close(engine);
	if (err.code != ERR_NONE) {
		fprintf(stderr, "gatehouse check: %s\n", err.text);
		return 1;
	}
	printf("%s: every row and index entry agrees\n", path);
	return 0;
}

struct check_options {
	const char *data;
	bool        help;
};

static const struct option_spec options[] = {
        {"--data", OPTION_TEXT, "DIR", "the data directory (default: data)",
         offsetof(struct check_options, data), 0, 0},
        {"--help", OPTION_FLAG, NULL, "this text", offsetof(struct check_options, help), 0, 0},
};

static int run(int argc, char **argv)
{
	struct check_options o = {.data = "data"};
	struct err           err;

	if (options_parse(options, OPTIONS_COUNT(options), &o, argc, argv, &err) != ERR_NONE) {
		fprintf(stderr, "gatehouse check: %s\n", err.text);
		return 2;
	}
	if (o.help) {
		command_help(&command_check);
		return 0;
	}
	return check(o.data);
}

const struct command command_check = {
        .name = "check",
        .help = "verifies a data directory",
        .about = "Compares every row of a data directory with its index and expiry entries. No server may "
                 "have\n"
                 "the directory open meanwhile.",
        .options = options,
        .option_count = OPTIONS_COUNT(options),
        .run = run,
};
