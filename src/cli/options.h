/* Options: a command's arguments, read by a table that also prints the help. The table says where in the
 * command's own struct a value goes, so that it is constant and can be read without running the command. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_NUMBER };

struct option_spec {
	const char      *name; /* "--listen" */
	enum option_kind kind;
	const char      *value; /* what the help calls it: "ADDRESS:PORT"; NULL for a flag */
	const char      *help;  /* NULL: hidden */
	size_t           at;    /* offsetof a bool, const char * or uint64_t in the struct that is filled */
	uint64_t         min, max; /* NUMBER */
};

#define OPTIONS_COUNT(specs) (sizeof(specs) / sizeof((specs)[0]))

/* Fills *to, the struct that the table's offsets are of, from argv (after the command's name). ERR_INVALID
 * names the argument and says what is wrong with it. */
enum err_code options_parse(const struct option_spec *specs, size_t count, void *to, int argc, char **argv,
                            struct err *err);

void options_help(const struct option_spec *specs, size_t count);

#endif
