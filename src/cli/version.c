/* Version: which program this is. */
#include <stdio.h>

#include "cli/commands.h"
#include "engine/layout.h"

#define GATEHOUSE_VERSION "0.1.0"

int command_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("gatehouse %s (data format %d)\n", GATEHOUSE_VERSION, LAYOUT_FORMAT);
	return 0;
}
