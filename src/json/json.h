/* JSON in: text to a tree in the arena. read.cc is the only file that knows the parsing library. yaml.h makes
 * the same tree of YAML.
 * A reader holds the library's buffers: one a thread, reused from request to request. */
#ifndef JSON_JSON_H
#define JSON_JSON_H

#include "base/arena.h"
#include "base/err.h"

enum {
	JSON_DEPTH_MAX = 128, /* an item 32 deep is two levels of JSON a level, and the request around it */
	JSON_KEEP_BYTES_MAX = 256 * 1024, /* a reader gives memory back after a longer document */
	JSON_VALUES_MAX = 1024 * 1024,    /* in one document, as json_count counts them */
};

enum json_type { JSON_NULL, JSON_BOOL, JSON_INT, JSON_DOUBLE, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

/* Children of an array or object are a linked list in document order; a child of an object has a name. */
struct json {
	enum json_type type;
	uint32_t       count; /* children */
	uint32_t       line;  /* in a YAML text, from 1: of the name, if it has one; 0 from JSON */
	struct bytes   name;  /* within an object */
	union {
		bool         truth;
		int64_t      integer;
		double       real; /* also integers from 2^63 to 2^64 - 1 */
		struct bytes text; /* unescaped UTF-8 */
		struct json *children;
	};
	struct json *next;
};

struct json_reader;

struct json_reader *json_reader_open(void);
void                json_reader_close(struct json_reader *r);

/* How many values a text could hold, at most, if it is JSON: one, and one more for each comma, '[' and '{' outside of
 * strings. Looks no further once there are more than JSON_VALUES_MAX. A tree takes JSON_VALUE_BYTES for each. */
size_t json_count(struct bytes text);

enum { JSON_VALUE_BYTES = 64 };

/* Parses one whole document. `text` need not be padded. Everything in the tree lives in the arena.
 * ERR_SERIALIZATION, with a text that says what is wrong, if it is not valid JSON, not valid UTF-8, nests
 * deeper than JSON_DEPTH_MAX, holds more than JSON_VALUES_MAX values, or a number beyond 64 bits or a double's range.
 * Linear time, whatever the text. */
enum err_code json_read(struct json_reader *r, struct arena *a, struct bytes text, struct json **out,
                        struct err *err);

/* The first child of an object with that name, or NULL (also if it is no object). */
const struct json *json_get(const struct json *object, struct bytes name);

/* Same types, same values, same children in the same order? */
bool json_equal(const struct json *a, const struct json *b);

/* Is it a whole number, however it is spelt: 1, 1.0, 1e0? A double counts up to 2^53, where each is exact. */
bool json_whole(const struct json *number, int64_t *out);

/* "a string", "a number", …: for error texts. */
const char *json_type_name(enum json_type type);

#endif
