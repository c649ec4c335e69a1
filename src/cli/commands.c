/* Commands: what their tables become: --help, roff, bash. The last two are checked by tests/e2e/test_package.py: a man page that
 * names every option, a completion that bash accepts. */
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

#include "base/directory.h"
#include "base/version.h"

/* ---- help ---- */

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
	options_help(c->options);
	if (c->more != NULL)
		printf("\n%s\n", c->more);
}

/* ---- what was probably meant ---- */

struct closest {
	const char *name; /* NULL: none is close */
	size_t      typos;
};

static void closest_try(struct closest *best, const char *written, const char *name)
{
	size_t typos = bytes_typos(bytes_of(written), bytes_of(name));

	if (typos < best->typos)
		*best = (struct closest){name, typos};
}

/* "gatehouse", or "gatehouse key". */
static int say_unknown(const char *program, const char *command, const char *written,
                       const struct closest *best)
{
	fprintf(stderr, "%s%s: unknown command \"%s\"", program, command, written);
	if (best->name != NULL)
		fprintf(stderr, "; did you mean %s?\n", best->name);
	else
		fprintf(stderr, " (see %s%s --help)\n", program, command);
	return 2;
}

int commands_unknown(const struct command *const *commands, size_t count, const char *name)
{
	struct closest best = {NULL, SIZE_MAX};

	for (size_t i = 0; i < count; i++)
		closest_try(&best, name, commands[i]->name);
	return say_unknown("gatehouse", "", name, &best);
}

int command_word_unknown(const struct command *c, const char *word)
{
	struct closest best = {NULL, SIZE_MAX};

	for (size_t i = 0; i < c->word_count; i++)
		closest_try(&best, word, c->words[i].name);
	return say_unknown("gatehouse ", c->name, word, &best);
}

/* ---- roff ---- */

enum { ROFF_COLUMNS = 60 }; /* a filled line breaks at the first space past it */

/* A dash and a backquote that can be copied, a backslash that is one. */
static void put_roff_char(char c)
{
	if (c == '-')
		fputs("\\-", stdout);
	else if (c == '\\')
		fputs("\\e", stdout);
	else if (c == '`')
		fputs("\\(ga", stdout);
	else
		putchar(c);
}

static void put_roff(const char *text)
{
	for (; *text != '\0'; text++)
		put_roff_char(*text);
}

/* A line that began with a dot would be a request. */
static void put_roff_line(const char *text, size_t len, size_t columns)
{
	size_t column = 0;

	for (size_t i = 0; i < len; i++) {
		bool breaks = text[i] == ' ' && column >= columns;

		if (column == 0 && (text[i] == '.' || text[i] == '\''))
			fputs("\\&", stdout);
		put_roff_char(breaks ? '\n' : text[i]);
		column = breaks ? 0 : column + 1;
	}
	putchar('\n');
}

static void put_sentence(const char *text)
{
	put_roff_line(text, strlen(text), ROFF_COLUMNS);
}

/* See struct command: an indented line is an example. */
static void put_paragraphs(const char *text)
{
	bool in_example = false;

	while (text != NULL && *text != '\0') {
		size_t len = strcspn(text, "\n");
		bool   example = strncmp(text, "  ", 2) == 0;

		if (example != in_example)
			puts(example ? ".PP\n.RS 4\n.nf" : ".fi\n.RE\n.PP");
		in_example = example;
		if (len == 0)
			puts(".PP");
		else
			put_roff_line(text + (example ? 2 : 0), len - (example ? 2 : 0),
			              example ? SIZE_MAX : ROFF_COLUMNS);
		text += len + (text[len] == '\n');
	}
	if (in_example)
		puts(".fi\n.RE");
}

static void put_styled(char font, const char *text)
{
	printf("\\f%c", font);
	put_roff(text);
	fputs("\\fR", stdout);
}

static void put_word(const struct command *c, const struct command_word *w)
{
	puts(".TP");
	printf("\\fBgatehouse %s %s\\fR", c->name, w->name);
	if (w->arguments != NULL) {
		putchar(' ');
		put_styled('I', w->arguments);
	}
	putchar('\n');
	put_sentence(w->help);
}

static void put_option(const struct option_spec *o)
{
	puts(".TP");
	put_styled('B', o->name);
	if (o->value != NULL) {
		putchar(' ');
		put_styled('I', o->value);
	}
	putchar('\n');
	put_sentence(o->help);
}

static void put_command(const struct command *c)
{
	printf(".SS gatehouse %s\n", c->name);
	put_paragraphs(c->about);
	for (size_t i = 0; i < c->word_count; i++)
		put_word(c, &c->words[i]);
	for (size_t i = 0; i < c->options.count; i++)
		if (c->options.list[i].help != NULL)
			put_option(&c->options.list[i]);
	if (c->more != NULL)
		puts(".PP");
	put_paragraphs(c->more);
}

void commands_print_man(const struct command *const *commands, size_t count)
{
	for (size_t i = 0; i < count; i++)
		put_command(commands[i]);
}

/* ---- bash ---- */

/* what: NULL any option, "" one that takes a value, else one that takes this value. */
static bool is_listed(const struct option_spec *o, const char *what)
{
	if (o->help == NULL || what == NULL)
		return o->help != NULL;
	return o->value != NULL && (*what == '\0' || strcmp(o->value, what) == 0);
}

/* name='--a --b' */
static void put_list(const char *name, const struct command *c, const char *what)
{
	const char *between = "";

	printf("\t\t%s='", name);
	for (size_t i = 0; i < c->options.count; i++)
		if (is_listed(&c->options.list[i], what)) {
			printf("%s%s", between, c->options.list[i].name);
			between = " ";
		}
	puts("'");
}

static void put_case(const struct command *c)
{
	printf("\t%s)\n\t\twords='", c->name);
	for (size_t i = 0; i < c->word_count; i++)
		printf("%s%s", i > 0 ? " " : "", c->words[i].name);
	puts("'");
	put_list("options", c, NULL);
	put_list("files", c, "FILE");
	put_list("directories", c, "DIR");
	put_list("values", c, "");
	puts("\t\t;;");
}

void commands_print_completion(const struct command *const *commands, size_t count)
{
	puts("_gatehouse_table() {\n\tcase \"$1\" in\n\t'')");
	fputs("\t\twords='", stdout);
	for (size_t i = 0; i < count; i++)
		printf("%s ", commands[i]->name);
	puts("help'\n\t\toptions='--help --version'\n\t\t;;");
	for (size_t i = 0; i < count; i++)
		put_case(commands[i]);
	puts("\tesac\n}");
}

/* ---- version: which program this is ---- */

static int version(int argc, char **argv)
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
        .run = version,
};
