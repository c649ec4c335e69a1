/* JSON in: text to a tree in the arena. read.cc is the only file that knows the parsing library. yaml.h makes
 * the same tree of YAML.
 * A reader holds the library's buffers: one per thread, reused from request to request. */
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

/* Children of an array or object are a linked list in document order; a child of an object has a name.
 *
 * What a value is decides which member of the union means something, and peers choose what a value is. So only the accessors
 * below read it: of a value of another type they return nothing. Outside of this folder the compiler refuses its name. */
struct json {
	enum json_type type;
	uint32_t       count; /* children; 0 if it cannot have any */
	uint32_t       line;  /* in a YAML text, from 1: of the name, if it has one; 0 from JSON */
	struct bytes   name;  /* within an object */
	union {
		bool         truth;
		int64_t      integer;
		double       real; /* also integers from 2^63 to 2^64 - 1 */
		struct bytes text; /* unescaped UTF-8 */
		struct json *children;
	} json_union;
	struct json *next;
};

/* NULL is a value that is absent: of no type. */
static inline bool json_is(const struct json *value, enum json_type type)
{
	return value != NULL && value->type == type;
}

static inline struct bytes json_text(const struct json *value)
{
	return json_is(value, JSON_STRING) ? value->json_union.text : BYTES("");
}

static inline bool json_truth(const struct json *value)
{
	return json_is(value, JSON_BOOL) && value->json_union.truth;
}

/* 0 also of a number with a fraction: json_whole tells them apart. */
static inline int64_t json_integer(const struct json *value)
{
	return json_is(value, JSON_INT) ? value->json_union.integer : 0;
}

static inline double json_real(const struct json *value)
{
	return json_is(value, JSON_DOUBLE) ? value->json_union.real : 0;
}

/* The first child. */
static inline struct json *json_children(const struct json *value)
{
	return json_is(value, JSON_ARRAY) || json_is(value, JSON_OBJECT) ? value->json_union.children : NULL;
}

/* Values that no document held. */
struct json json_of_text(struct bytes text);
struct json json_of_integer(int64_t integer);

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

/* ---- fields: an object read strictly, member by member: a request's body, a policy, a configuration ----
 *
 * A decoder is straight-line code: it asks for each member by name, with what it must be, and at the end asks
 * fields_end, which also refuses members that nobody asked for. The first thing wrong is kept, in an err that
 * names the field by its path ("context.ip", "journeys.SIGN_IN.max") and, in YAML, its line. After it there is nothing more to
 * decode: every member is absent, and lists end.
 *
 *   fields_init(&f, body, err);
 *   q->journey = fields_text(&f, "journey", 64);
 *   q->cost = fields_i64_or(&f, "cost", 0, 1000, 1);
 *   return fields_end(&f);
 *
 * Values are never repeated in the text, except numbers and those of fields_choice: they may be personal. */

enum { FIELDS_MEMBERS_MAX = 256, FIELDS_ASKED_MAX = 32 };

struct fields {
	const struct json   *object; /* NULL: absent or of another type; everything is absent */
	const struct fields *parent; /* NULL: the outermost */
	struct bytes         name;   /* within the parent */
	uint64_t             seen[FIELDS_MEMBERS_MAX / 64]; /* one bit per member */
	const char          *asked[FIELDS_ASKED_MAX]; /* the first names asked for: a mistake lists them */
	uint32_t             asked_count;
	struct err          *err; /* code ERR_NONE until something is wrong */
};

/* The outermost: ERR_SERIALIZATION if it is NULL or no object. */
void fields_init(struct fields *f, const struct json *object, struct err *err);

/* An object within: a member's value, an element. `name` is for the path; it must outlive f. */
void fields_enter(struct fields *f, const struct fields *parent, struct bytes name,
                  const struct json *object);

/* The member, of whatever type, or NULL; it counts as known. `name` must outlive f. null is as if it was not there. */
const struct json *fields_get(struct fields *f, const char *name);

/* Is it there? If so, somebody must still ask for it. */
bool fields_has(struct fields *f, const char *name);

/* Required: 1 to max bytes. Optional: the same, or `otherwise`. */
struct bytes fields_text(struct fields *f, const char *name, size_t max);
struct bytes fields_text_or(struct fields *f, const char *name, size_t max, struct bytes otherwise);
int64_t      fields_i64(struct fields *f, const char *name, int64_t low, int64_t high);
int64_t      fields_i64_or(struct fields *f, const char *name, int64_t low, int64_t high, int64_t otherwise);
bool         fields_bool_or(struct fields *f, const char *name, bool otherwise);

/* One of the names, which end with NULL; its index. `otherwise` < 0: required. */
int fields_choice(struct fields *f, const char *name, const char *const *names, int otherwise);

/* An object or an array member; NULL if absent. At most `max` children. */
const struct json *fields_object(struct fields *f, const char *name, uint32_t max);
const struct json *fields_array(struct fields *f, const char *name, uint32_t max);

/* Something is wrong with that member (NULL: with the object itself), beyond what the calls above can tell. */
void fields_fail(struct fields *f, const char *name, enum err_code code, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* Is something wrong already? Then what was read means nothing. */
static inline bool fields_failed(const struct fields *f)
{
	return f->err->code != ERR_NONE;
}

/* The children of a member, one after the other; NULL: that was the last one, or something is wrong. */
static inline const struct json *fields_first(const struct fields *f, const struct json *list)
{
	return fields_failed(f) ? NULL : json_children(list);
}

static inline const struct json *fields_next(const struct fields *f, const struct json *child)
{
	return fields_failed(f) ? NULL : child->next;
}

/* Something is wrong within that member, as a reader of its own told: its path is put in front. */
void fields_adopt(struct fields *f, const char *name, const struct err *wrong);

/* The first error, or ERR_NONE if everything was right and known. */
enum err_code fields_end(struct fields *f);

#ifndef JSON_INSIDE
#pragma GCC poison json_union
#endif

#endif
