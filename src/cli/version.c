/* Version: which program this is. */
#include <stdio.h>

#include "base/version.h"
#include "cli/commands.h"
#include "base/directory.h"

static int run(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("gatehouse %s (data format %d)\n", GATEHOUSE_VERSION, DIRECTORY_FORMAT);
	return 0;
}

const struct command command_version = {
        .name = "version",
        .help = "print the version",
        .about = "Prints the version of the program and the data format it writes.",
        .run = run,
};
