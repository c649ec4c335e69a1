/* Show: answers of the server on standard output, for people: objects as aligned names and values, lists as tables. What comes from the
 * server may hold anything; control characters are shown, not sent to the terminal. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include <stdio.h>

#include "json/json.h"

/* A text that the server sent. */
void show_text(FILE *to, struct bytes text);

/* One line per value: "email.isVerified  true". */
void show_object(const struct json *object);

enum { SHOW_COLUMNS_MAX = 8 };

struct show_table {
	const char *columns[SHOW_COLUMNS_MAX +
	                    1]; /* names of members, "progress.users" for one within; end with NULL */
	int         widths[SHOW_COLUMNS_MAX]; /* only grow */
	bool        headed;
};

/* The rows of one page, under a head if it is the first: an array of objects. */
void show_rows(struct show_table *t, const struct json *rows);

/* The member of that name, or of a member if the name has dots; NULL if there is none. */
const struct json *show_member(const struct json *object, const char *name);

#endif
