/* Policy parser: what the files that read a document share. Where the parser stands is kept as it goes down,
 * so that every refusal says the statement, the element and, within a condition, the operator and the key. */
#ifndef ACCESS_POLICY_PARSER_H
#define ACCESS_POLICY_PARSER_H

#include "access/policy_model.h"
#include "json/json.h"

struct parser {
	struct arena *arena; /* the policy's */
	struct err   *err;
	uint32_t      keys;     /* mentioned so far */
	size_t        searched; /* bytes of runs that take long to look for, so far */

	/* where it stands; what does not apply is NULL or empty */
	const struct json *statement;
	size_t             number;
	struct bytes       element;
	struct bytes       spelled; /* operator */
	struct bytes       key;
};

/* Fills the error with the place and the message; always ERR_INVALID. */
enum err_code parser_refuse(struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A value as an error text may show it: in quotes, cut off when long, and plain ASCII. */
enum { QUOTED_BYTES_MAX = 80 };

struct quoted {
	char text[QUOTED_BYTES_MAX * 4 + sizeof("\"…\"")];
};

struct quoted quote(struct bytes value);

/* A list, or the one value that stands for a list of one: the first of them, and how many. Refuses an empty
 * list and one longer than POLICY_LIST_MAX. */
enum err_code parser_list(struct parser *p, const struct json *json, const struct json **first,
                          size_t *count);

/* A string of at most `max` bytes, without variables. */
enum err_code parser_text(struct parser *p, const struct json *json, size_t max, struct bytes *out);

/* No two members of the object have the same name. */
enum err_code parser_unique(struct parser *p, const struct json *object);

enum err_code parse_action(struct parser *p, const struct json *json, struct pattern *out);
enum err_code parse_resource(struct parser *p, const struct json *json, struct resource *out);
enum err_code parse_conditions(struct parser *p, const struct json *json, struct statement *out);
enum err_code parse_operand(struct parser *p, const struct json *json, const struct relation *relation,
                            union operand *out);

/* Adds up what would take long to match, and refuses what is too much of it. */
enum err_code parser_count_runs(struct parser *p, struct bytes pattern);

#endif
