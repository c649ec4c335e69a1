/* Commands: what `gatehouse NAME …` can do. Each command is one table: what it is, its words, its options.
 * The same table reads the arguments, prints --help, and makes the man page and the shell completion. run gets the
 * arguments after the name and returns the exit status: 0 done, 1 failed, 2 wrong arguments. */
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
	struct options             options;
	int (*run)(int argc, char **argv);
};

extern const struct command command_serve, command_key, command_device_key, command_policy, command_check,
        command_salvage, command_version, command_user, command_job, command_sync, command_token,
        command_revoke_all, command_device, command_push, command_events, command_plan, command_export,
        command_import, command_tables;

/* What `gatehouse NAME --help` prints. */
void command_help(const struct command *c);

/* Says on standard error that there is no such command, or that `c` has no such word, and which one was probably meant. Both return 2,
 * the exit status. */
int commands_unknown(const struct command *const *commands, size_t count, const char *name);
int command_word_unknown(const struct command *c, const char *word);

/* The parts of the man page and of the shell completion that the tables say, so that neither can tell another story than --help.
 * The rest of both is in packaging/: tools/from-tables joins them.
 * roff, man(7): a subsection for each command. */
void commands_print_man(const struct command *const *commands, size_t count);
/* A bash function, _gatehouse_table COMMAND: sets words, options, and which options take what. */
void commands_print_completion(const struct command *const *commands, size_t count);

/* Warns on standard error of actions in a policy that this server does not have. IAM takes such a policy, and so do we: it may
 * be for other services as well. */
struct policy;
void policy_warn(const struct policy *p);

#endif
