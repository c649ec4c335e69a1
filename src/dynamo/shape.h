/* Shape: what a request must look like, as data. Each operation has one shape: its fields, their
 * types, which are required, and DynamoDB's constraints on them. One walk checks it all, in DynamoDB's order:
 * a wrong JSON type anywhere is a SerializationException at once; constraint violations are gathered and
 * reported together ("2 validation errors detected: …; …").
 *
 * Afterwards a decoder may rely on every type and constraint that the shape names. */
#ifndef DYNAMO_SHAPE_H
#define DYNAMO_SHAPE_H

#include "json/json.h"

enum {
	SHAPE_FIELDS_MAX = 24,
	SHAPE_ERRORS_MAX = 10,      /* constraint violations that are reported */
	SHAPE_ECHO_BYTES_MAX = 300, /* of an offending text that are repeated */
	SHAPE_MAP_MAX = 300,        /* members of a map of structs or lists: no operation allows more */
};

enum shape_kind {
	SHAPE_STRING,
	SHAPE_BOOLEAN,
	SHAPE_INTEGER, /* 32 bits */
	SHAPE_LONG,
	SHAPE_LIST,
	SHAPE_MAP,
	SHAPE_STRUCT,
	SHAPE_VALUE,       /* an attribute value (wire.h): its types are checked, its content is not */
	SHAPE_UNSUPPORTED, /* DynamoDB has it, this server does not: refused by name, never ignored */
};

enum shape_check {
	SHAPE_MIN = 1,
	SHAPE_MAX = 2,
	SHAPE_RANGE = 3,
	SHAPE_NAME = 4,  /* the characters of table and index names */
	SHAPE_ARN = 8,   /* an ARN may stand for the name, and is looked at later (arn_table) */
	SHAPE_KEYS = 16, /* MAP: the keys are table names or ARNs */
};

struct shape_field;

struct shape {
	enum shape_kind           kind;
	unsigned                  checks;   /* of enum shape_check */
	int64_t                   min, max; /* length of a text, list or map; value of a number */
	const char               *choices;  /* STRING: "[A, B]", the allowed values; NULL: any */
	const char               *java;     /* STRUCT: its name in DynamoDB's texts */
	const struct shape       *member;   /* LIST, MAP */
	const struct shape_field *fields;   /* STRUCT */
	unsigned                  field_count;
};

struct shape_field {
	struct bytes        name;
	const struct shape *shape; /* NULL: this operation has no such field */
	bool                required;
};

/* A struct of these fields: an initializer, for an array of struct shape_field. */
#define SHAPE_OF(name, list)                                                                                 \
	{                                                                                                    \
		.kind = SHAPE_STRUCT, .java = (name), .fields = (list),                                      \
		.field_count = sizeof(list) / sizeof((list)[0])                                              \
	}

/* Checks the whole document. slots[i] is the field i of the root, NULL if absent (or null). The arena is for
 * error texts. */
enum err_code shape_read(struct arena *a, const struct shape *shape, const struct json *document,
                         const struct json *slots[], struct err *err);

/* A number that shape_read has accepted: a fraction is cut off. */
int64_t shape_integer(const struct json *json);

/* Only fills the slots, of a struct within a document that shape_read has accepted. False if a field occurs
 * twice (which shape_read refuses). */
bool shape_slots(const struct shape *shape, const struct json *object, const struct json *slots[]);

/* Is it an ARN, Amazon's name for a resource? */
bool arn_is(struct bytes text);

/* A member whose name (in a map) or text (in a list of strings) another one has too, or NULL. */
const struct json *shape_repeated(struct arena *a, const struct json *list);

#endif
