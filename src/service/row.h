/* Rows: items as services build and read them: attributes by name, texts and whole numbers; and the
 * conditions that say a row is still what was read. */
#ifndef SERVICE_ROW_H
#define SERVICE_ROW_H

#include "expr/expr.h"

enum { ROW_ATTRIBUTES_MAX = 24 };

/* A row under construction. */
struct row {
	struct arena *arena;
	struct item   item;
};

void row_init(struct row *r, struct arena *a);
void row_from(struct row *r, struct arena *a, const struct item *item); /* begins as a copy of an item */
void row_remove(struct row *r, const char *name);
struct item row_item(struct row *r); /* sorted */

/* The value of that name; if there was none there is one now, to be set. */
struct value *row_attribute(struct row *r, struct bytes name);

/* Inline, as all that takes names: so the compiler measures them. */
static inline void row_set(struct row *r, const char *name, struct value value)
{
	*row_attribute(r, bytes_of(name)) = value;
}

static inline void row_set_text(struct row *r, const char *name, struct bytes text)
{
	row_set(r, name, value_string(text));
}

static inline void row_set_i64(struct row *r, const char *name, int64_t number)
{
	row_set(r, name, value_i64(number));
}

/* Keys. */
struct item row_key_one(struct arena *a, struct bytes pk);
struct item row_key_two(struct arena *a, struct bytes pk, struct bytes sk);

static inline void row_key_fill(struct member key[2], struct bytes pk, struct bytes sk)
{
	key[0] = (struct member){BYTES("PK"), value_string(pk)};
	key[1] = (struct member){BYTES("SK"), value_string(sk)};
}

/* The rows of a partition whose sort keys begin like that; empty: all. */
struct expr_key_condition row_prefix(struct bytes pk, struct bytes prefix);

/* Attributes; empty or `otherwise` if absent or of another type. */
struct bytes value_text(const struct value *v);
int64_t      value_to_i64(const struct value *v, int64_t otherwise);

static inline struct bytes row_text(const struct item *item, const char *name)
{
	return value_text(item_get(item, bytes_of(name)));
}

static inline int64_t row_i64(const struct item *item, const char *name, int64_t otherwise)
{
	return value_to_i64(item_get(item, bytes_of(name)), otherwise);
}

/* Expired = absent, at the second, whether or not the backend hides it. */
static inline bool row_expired(const struct item *item, const char *ttl, int64_t now_us)
{
	int64_t end_s = row_i64(item, ttl, 0);

	return end_s > 0 && end_s <= now_us / 1000000;
}

/* Conditions. Absent: there is no such row, or an expired one (ttl "": none expires). Same: these attributes are as they were read. */
const struct expr *row_absent(struct arena *a, const char *hash, const char *ttl, int64_t now_us);
const struct expr *row_same(struct arena *a, const struct item *read, const char *const *names);

/* The same, and a number is at most so large: for counts that others may raise meanwhile. */
const struct expr *row_same_up_to(struct arena *a, const struct item *read, const char *const *names,
                                  const char *number, int64_t most);

/* A filter: the attribute holds this text somewhere. */
const struct expr *row_contains(struct arena *a, const char *name, struct bytes text);

#endif
