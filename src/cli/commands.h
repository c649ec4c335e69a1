/* Commands: what `gatehouse NAME …` can do. Each command is one table: what it is, its words, its options.
 * The same table reads the arguments, prints --help, and makes the man page and the shell completion
 * (manual.h). run gets the arguments after the name and returns the exit status: 0 done, 1 failed, 2 wrong
 * arguments. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/options.h"

/* "create" of `gatehouse key create NAME --policy FILE`. */
struct command_word {
	const char *name;
	const char *arguments; /* what follows it; NULL: nothing */
	const char *help;
};

struct command {
	const char *name;
	const char *help; /* a few words, for the list of commands */
	/* Paragraphs before and after the options, or NULL. A line that begins with two spaces is an example
	 * and keeps its form; lines that do not may be filled anew. */
	const char                *about, *more;
	const struct command_word *words; /* NULL: takes none */
	size_t                     word_count;
	const struct option_spec  *options;
	size_t                     option_count;
	int (*run)(int argc, char **argv);
};

extern const struct command command_serve, command_key, command_device_key, command_policy, command_check,
        command_salvage, command_version;

/* What `gatehouse NAME --help` prints. */
void command_help(const struct command *c);

#endif
