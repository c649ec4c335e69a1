/* Violations: what a document breaks of the constraints on it, gathered while shape.c walks it, and reported together.
 * Where the walk stands is a chain of frames on its stack, printed only when something is wrong. */
#ifndef DYNAMO_VIOLATION_H
#define DYNAMO_VIOLATION_H

#include "base/buf.h"
#include "json/json.h"

/* One step of the path to a field: 'requestItems.orders.member.2.member.putRequest'. */
struct frame {
	const struct frame *up;
	struct bytes        name;   /* of a field, or the key of a map's member */
	uint32_t            index;  /* of a list's member, from 1; 0 if it has a name */
	bool                member; /* ".member" follows, as after list indexes and map keys */
};

struct violations {
	struct buf text; /* "; " between them */
	unsigned   count;
};

/* That value (NULL: nothing) at that place breaks the rule. Past SHAPE_ERRORS_MAX they are only counted. */
void violation_add(struct violations *v, const struct frame *at, const struct json *json, struct bytes rule);

/* The same, of a rule that ends with a number. */
void violation_number(struct violations *v, const struct frame *at, const struct json *json, const char *rule,
                      int64_t bound);

#endif
