/* Fields: an object read strictly, member by member: a request's body, a policy, a configuration.
 *
 * A decoder is straight-line code: it asks for each member by name, with what it must be, and at the end asks
 * fields_end, which also refuses members that nobody asked for. The first thing wrong is kept, in an err that
 * names the field by its path ("context.ip", "journeys.SIGN_IN.max") and, in YAML, its line; after it every
 * call returns a harmless value.
 *
 *   fields_init(&f, body, err);
 *   q->journey = fields_text(&f, "journey", 64);
 *   q->cost = fields_i64_or(&f, "cost", 0, 1000, 1);
 *   return fields_end(&f);
 *
 * Values are never repeated in the text, except numbers and those of fields_choice: they may be personal. */
#ifndef JSON_FIELDS_H
#define JSON_FIELDS_H

#include "json/json.h"

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

/* The member, of whatever type, or NULL; it counts as known. `name` must outlive f. */
const struct json *fields_get(struct fields *f, const char *name);
bool               fields_has(const struct fields *f, const char *name);

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

/* Something is wrong within that member, as a reader of its own told: its path is put in front. */
void fields_adopt(struct fields *f, const char *name, const struct err *wrong);

/* The first error, or ERR_NONE if everything was right and known. */
enum err_code fields_end(struct fields *f);

#endif
