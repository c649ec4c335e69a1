/* Gatehouse: the state behind a login page. This file turns arguments into a command. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"

static const struct command *const commands[] = {
        &command_serve,   &command_key,    &command_device_key, &command_policy,  &command_check,
        &command_salvage, &command_user,   &command_job,        &command_token,   &command_revoke_all,
        &command_sync,    &command_device, &command_push,       &command_events,  &command_tables,
        &command_plan,    &command_export, &command_import,     &command_version,
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const struct command *find(const char *name)
{
	for (int i = 0; i < COMMANDS; i++)
		if (strcmp(name, commands[i]->name) == 0)
			return commands[i];
	return NULL;
}

static void list(FILE *out)
{
	fprintf(out, "Gatehouse keeps the state behind a login page, durably, on one machine or at a "
	             "DynamoDB endpoint.\n\n"
	             "usage: gatehouse COMMAND [OPTIONS]     (details: gatehouse COMMAND --help)\n\n");
	for (int i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-11s %s\n", commands[i]->name, commands[i]->help);
	fprintf(out, "\nTo try it without keys:  gatehouse serve --no-auth\n");
}

/* `gatehouse help COMMAND`; for the build, the tables as roff and as bash. */
static int help(const char *about)
{
	const struct command *c = find(about);

	if (c != NULL)
		command_help(c);
	else if (strcmp(about, "--man") == 0)
		commands_print_man(commands, COMMANDS);
	else if (strcmp(about, "--completion") == 0)
		commands_print_completion(commands, COMMANDS);
	else
		return commands_unknown(commands, COMMANDS, about);
	return 0;
}

int main(int argc, char **argv)
{
	const struct command *c = argc < 2 ? NULL : find(argv[1]);
	bool wants_help = argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0);

	umask(0077); /* what a data directory holds is for its owner alone; the store's files too */
	if (c != NULL)
		return c->run(argc - 2, argv + 2);
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return command_version.run(0, NULL);
	if (wants_help && argc >= 3)
		return help(argv[2]);
	if (argc >= 2 && !wants_help)
		return commands_unknown(commands, COMMANDS, argv[1]);
	list(wants_help ? stdout : stderr);
	return wants_help ? 0 : 2;
}
