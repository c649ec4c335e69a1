/* Gatehouse: the state behind a login page. This file turns arguments into a command. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"

struct command {
	const char *name, *help;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
        {"serve", "serves tables over HTTP", command_serve},
        {"check", "verifies a data directory", command_check},
        {"version", "says which version this is", command_version},
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void help(FILE *out)
{
	fprintf(out, "Gatehouse keeps the state behind a login page, durably, on one machine.\n\n"
	             "usage: gatehouse COMMAND [OPTIONS]     (gatehouse COMMAND --help says more)\n\n");
	for (int i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
	fprintf(out, "\nTo try it:  gatehouse serve --no-auth\n");
}

int main(int argc, char **argv)
{
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
		help(stdout);
		return 0;
	}
	for (int i = 0; argc >= 2 && i < COMMANDS; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 2, argv + 2);
	if (argc >= 2)
		fprintf(stderr, "gatehouse: there is no command \"%s\"\n\n", argv[1]);
	help(stderr);
	return 2;
}
