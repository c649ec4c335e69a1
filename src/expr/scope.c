/* Scope: the placeholders of one request, sorted so that each look-up is a binary search. */
#include <stdlib.h>

#include "expr/parser.h"
#include "item/messages.h"

static const char names_field[] = "ExpressionAttributeNames";
static const char values_field[] = "ExpressionAttributeValues";

static int name_order(const void *a, const void *b)
{
	return bytes_compare(((const struct expr_name *)a)->placeholder,
	                     ((const struct expr_name *)b)->placeholder);
}

static int value_order(const void *a, const void *b)
{
	return bytes_compare(((const struct expr_value *)a)->placeholder,
	                     ((const struct expr_value *)b)->placeholder);
}

static bool placeholder_is_valid(struct bytes key, char first)
{
	if (key.len < 2 || key.data[0] != first)
		return false;
	for (size_t i = 1; i < key.len; i++) {
		char c = key.data[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '_')
			return false;
	}
	return true;
}

static enum err_code placeholder_check(const char *field, struct bytes key, char first, struct err *err)
{
	if (key.len > EXPR_PLACEHOLDER_BYTES_MAX)
		return err_set(err, ERR_INVALID, MSG_SCOPE_KEY_LONG, field, key.len);
	if (!placeholder_is_valid(key, first))
		return err_set(err, ERR_INVALID, MSG_SCOPE_KEY, field, BYTES_ARG(key));
	return ERR_NONE;
}

static enum err_code names_sort(struct expr_scope *scope, struct err *err)
{
	struct expr_name *names = scope->names;
	enum err_code     rc;

	for (uint32_t i = 0; i < scope->name_count; i++) {
		rc = placeholder_check(names_field, names[i].placeholder, '#', err);
		if (rc != ERR_NONE)
			return rc;
	}
	if (scope->name_count > 1)
		qsort(names, scope->name_count, sizeof(*names), name_order);
	for (uint32_t i = 1; i < scope->name_count; i++)
		if (name_order(&names[i - 1], &names[i]) == 0)
			return err_set(err, ERR_INVALID, MSG_SCOPE_KEY_TWICE, names_field,
			               BYTES_ARG(names[i].placeholder));
	return ERR_NONE;
}

static enum err_code values_sort(struct expr_scope *scope, struct err *err)
{
	struct expr_value *values = scope->values;
	enum err_code      rc;

	for (uint32_t i = 0; i < scope->value_count; i++) {
		rc = placeholder_check(values_field, values[i].placeholder, ':', err);
		if (rc != ERR_NONE)
			return rc;
	}
	if (scope->value_count > 1)
		qsort(values, scope->value_count, sizeof(*values), value_order);
	for (uint32_t i = 1; i < scope->value_count; i++)
		if (value_order(&values[i - 1], &values[i]) == 0)
			return err_set(err, ERR_INVALID, MSG_SCOPE_KEY_TWICE, values_field,
			               BYTES_ARG(values[i].placeholder));
	return ERR_NONE;
}

enum err_code expr_scope_sort(struct expr_scope *scope, struct err *err)
{
	enum err_code rc = names_sort(scope, err);

	return rc != ERR_NONE ? rc : values_sort(scope, err);
}

const struct bytes *scope_name(struct expr_scope *scope, struct bytes placeholder)
{
	struct expr_name key = {.placeholder = placeholder}, *found = NULL;

	if (scope->name_count > 0)
		found = bsearch(&key, scope->names, scope->name_count, sizeof(key), name_order);
	if (found == NULL)
		return NULL;
	found->used = true;
	return &found->name;
}

const struct value *scope_value(struct expr_scope *scope, struct bytes placeholder)
{
	struct expr_value key = {.placeholder = placeholder}, *found = NULL;

	if (scope->value_count > 0)
		found = bsearch(&key, scope->values, scope->value_count, sizeof(key), value_order);
	if (found == NULL)
		return NULL;
	found->used = true;
	return &found->value;
}

/* The unused placeholders, "#a, #b", as far as they fit. */
struct unused {
	char   text[SHOWN_BYTES_MAX];
	size_t len;
};

static void unused_add(struct unused *u, struct bytes key)
{
	size_t comma = u->len > 0 ? 2 : 0;

	if (u->len + comma + key.len > sizeof(u->text))
		return;
	memcpy(u->text + u->len, ", ", comma);
	memcpy(u->text + u->len + comma, key.data, key.len);
	u->len += comma + key.len;
}

static enum err_code unused_report(const struct unused *u, const char *field, struct err *err)
{
	if (u->len == 0)
		return ERR_NONE;
	return err_set(err, ERR_INVALID, MSG_SCOPE_UNUSED, field, (int)u->len, u->text);
}

enum err_code expr_scope_check_used(const struct expr_scope *scope, struct err *err)
{
	struct unused names = {.len = 0}, values = {.len = 0};
	enum err_code rc;

	for (uint32_t i = 0; i < scope->name_count; i++)
		if (!scope->names[i].used)
			unused_add(&names, scope->names[i].placeholder);
	for (uint32_t i = 0; i < scope->value_count; i++)
		if (!scope->values[i].used)
			unused_add(&values, scope->values[i].placeholder);
	rc = unused_report(&names, names_field, err);
	return rc != ERR_NONE ? rc : unused_report(&values, values_field, err);
}
