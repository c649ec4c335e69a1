/* Commands: the help of one command, from its table. */
#include "cli/commands.h"

#include <stdio.h>

static void word_help(const struct command *c, const struct command_word *w)
{
	char left[96];

	snprintf(left, sizeof(left), "gatehouse %s %s %s", c->name, w->name,
	         w->arguments == NULL ? "" : w->arguments);
	printf("  %-42s %s\n", left, w->help);
}

void command_help(const struct command *c)
{
	printf("gatehouse %s: %s\n\n%s\n\n", c->name, c->help, c->about);
	for (size_t i = 0; i < c->word_count; i++)
		word_help(c, &c->words[i]);
	if (c->word_count > 0)
		printf("\n");
	options_help(c->options, c->option_count);
	if (c->more != NULL)
		printf("\n%s\n", c->more);
}
