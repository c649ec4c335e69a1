/* Support: what the tests of expr/ share: an arena, a scope from two short strings, and parsing with it. */
#ifndef TESTS_EXPR_SUPPORT_H
#define TESTS_EXPR_SUPPORT_H

#include "test.h"

#include "expr/eval.h"
#include "expr/parse.h"
#include "expr/print.h"
#include "literal.h"
#include "tree.h"

struct fixture {
	struct arena      arena;
	struct expr_scope scope;
	struct err        err;
};

/* Whether a condition holds, whatever it costs. */
static inline bool holds(const struct expr *e, const struct item *item)
{
	struct expr_cost cost = {0, SIZE_MAX};

	return expr_holds(e, item, &cost);
}

/* names: "#a=some.name #b=other"; values: a literal item, "v:1 w:'x'" for :v and :w. */
static inline void fixture_open(struct fixture *f, const char *names, const char *values)
{
	struct item   items;
	struct arena *a = &f->arena;

	*f = (struct fixture){0};
	arena_init(a);
	f->scope.names = arena_array(a, LITERAL_MEMBERS_MAX, sizeof(*f->scope.names));
	while (*names != '\0') {
		size_t key = strcspn(names, "="), len = strcspn(names + key + 1, " ");

		f->scope.names[f->scope.name_count++] =
		        (struct expr_name){{names, key}, {names + key + 1, len}, false};
		names += key + 1 + len;
		names += strspn(names, " ");
	}
	items = literal_item(a, values);
	f->scope.values = arena_array(a, items.count, sizeof(*f->scope.values));
	for (uint32_t i = 0; i < items.count; i++)
		f->scope.values[f->scope.value_count++] =
		        (struct expr_value){arena_printf(a, ":%.*s", BYTES_ARG(items.members[i].name)),
		                            items.members[i].value, false};
	if (expr_scope_sort(&f->scope, &f->err) != ERR_NONE)
		fail_msg("%s", f->err.text);
}

static inline void fixture_close(struct fixture *f)
{
	arena_release(&f->arena);
}

static inline struct item fixture_item(struct fixture *f, const char *literal)
{
	return literal_item(&f->arena, literal);
}

/* A parse or an application was expected to fail with exactly this text. */
static inline void assert_refused(enum err_code rc, const struct err *err, const char *what, const char *text)
{
	if (rc == ERR_NONE)
		fail_msg("%s: accepted, expected \"%s\"", what, text);
	assert_int_equal(rc, ERR_INVALID);
	assert_int_equal(err->code, ERR_INVALID);
	if (strcmp(err->text, text) != 0)
		fail_msg("%s:\n  got      \"%s\"\n  expected \"%s\"", what, err->text, text);
}

static inline void assert_accepted(enum err_code rc, const struct err *err, const char *what)
{
	if (rc != ERR_NONE)
		fail_msg("%s: %s", what, err->text);
}

static inline void assert_item(struct fixture *f, const struct item *actual, const char *what,
                               const char *expected)
{
	struct item wanted = fixture_item(f, expected);

	if (!item_equal(actual, &wanted))
		fail_msg("%s:\n  got      %.*s\n  expected %.*s", what,
		         BYTES_ARG(literal_text(&f->arena, actual)),
		         BYTES_ARG(literal_text(&f->arena, &wanted)));
}

/* `count` times `text`. */
static inline struct bytes repeated(struct arena *a, const char *text, size_t count)
{
	struct buf out;

	buf_init(&out, a);
	for (size_t i = 0; i < count; i++)
		buf_add_bytes(&out, bytes_of(text));
	return buf_bytes(&out);
}

#endif
