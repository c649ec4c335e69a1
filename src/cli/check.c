/* Check: verifies every stored row and index entry of a data directory that no server has open. */
#include <stdio.h>
#include <string.h>

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

int command_check(int argc, char **argv)
{
	const char              *path = "data";
	bool                     help = false;
	const struct option_spec specs[] = {
	        {"--data", OPTION_TEXT, "DIR", "the data directory (default: data)", &path, 0, 0},
	        {"--help", OPTION_FLAG, NULL, "this text", &help, 0, 0},
	};
	const size_t count = sizeof(specs) / sizeof(specs[0]);
	struct err   err;

	if (options_parse(specs, count, argc, argv, &err) != ERR_NONE) {
		fprintf(stderr, "gatehouse check: %s\n", err.text);
		return 2;
	}
	if (help) {
		printf("gatehouse check: compares every row of a data directory with its index and expiry "
		       "entries.\n\n");
		options_help(specs, count);
		return 0;
	}
	return check(path);
}
