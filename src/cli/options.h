/* Options: a command's arguments, read by a table that also prints the help. The table says where in the
 * command's own struct a value goes, so that it is constant and can be read without running the command.
 *
 * No option takes a secret, only the name of a file that holds one: values are printed and logged. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

enum option_kind {
	OPTION_FLAG,
	OPTION_TEXT,
	OPTION_NUMBER,
	OPTION_ACTION, /* a flag that asks for something else, like --help: an argument only */
	OPTION_TABLE,  /* a text: the name of a table */
	OPTION_CONFIG, /* a text: the file that settings are read from */
};

/* Where options are said, each place over the one before it (settings.h). */
enum option_place { OPTION_IN_FILE, OPTION_IN_ENVIRONMENT, OPTION_IN_ARGUMENTS };

struct option_spec {
	const char      *name; /* "--listen" */
	enum option_kind kind;
	const char      *value; /* what the help calls it: "ADDRESS:PORT"; NULL for a flag */
	const char      *help;  /* NULL: hidden */
	size_t           at;    /* offsetof a bool, const char * or uint64_t in the struct that is filled */
	uint64_t         min, max; /* NUMBER */
};

/* A command's table. */
struct options {
	const struct option_spec *list;
	size_t                    count;
};

#define OPTIONS_COUNT(specs) (sizeof(specs) / sizeof((specs)[0]))
#define OPTIONS(specs)       ((struct options){(specs), OPTIONS_COUNT(specs)})

/* Fills *to, the struct that the table's offsets are of, from argv (after the command's name). ERR_INVALID
 * names the argument and says what is wrong with it. */
enum err_code options_parse(struct options o, void *to, int argc, char **argv, struct err *err);

void options_help(struct options o);

/* The whole of a file that an option names, or of standard input if the path is "-". ERR_INVALID, naming the path, if it cannot be
 * read or has more than bytes_max. */
enum err_code input_read(const char *path, size_t bytes_max, struct arena *a, struct bytes *out,
                         struct err *err);

/* ---- the steps of it, for settings.c ---- */

/* Arguments that are not read yet. */
struct arguments {
	int    count;
	char **list;
};

struct option_said {
	const struct option_spec *spec;
	const char               *value;
};

/* The next argument, with its value ("true" for a flag that says none); both are taken off. There is one. */
enum err_code options_next(struct options o, struct arguments *rest, struct option_said *out,
                           struct err *err);

/* Sets one option, which keeps a pointer to the value if it is a text. ERR_INVALID gives the value and the
 * reason; where it was said is the caller's to tell. */
enum err_code option_set(const struct option_spec *spec, void *to, const char *value, struct err *err);

/* The lowest place where it may be said; it may be said in those after it too. A hidden one is an argument
 * only. */
enum option_place option_place(const struct option_spec *spec);

/* A value that is kept as it was said. */
static inline bool option_is_text(const struct option_spec *spec)
{
	return spec->kind == OPTION_TEXT || spec->kind == OPTION_TABLE;
}

static inline bool option_is_flag(const struct option_spec *spec)
{
	return spec->kind == OPTION_FLAG || spec->kind == OPTION_ACTION;
}

/* The option of that name, without dashes ("tls-cert"), if it may be said in that place; else NULL. */
const struct option_spec *option_find(struct options o, enum option_place place, struct bytes key);

/* The one that was probably meant, or NULL if none is close. */
const struct option_spec *option_closest(struct options o, enum option_place place, struct bytes key);

/* Without its dashes. */
static inline const char *option_key(const struct option_spec *spec)
{
	return spec->name + 2;
}

#endif
