/* Condition: a small tree of tests on paths, evaluated as naively as can be, and printed as DynamoDB's text.
 * Texts use as few parentheses as precedence allows, at random more, so that a parser that binds wrongly
 * gives another answer than the tree. */
#ifndef TESTS_MODEL_CONDITION_H
#define TESTS_MODEL_CONDITION_H

#include "model/path.h"

enum test {
	TEST_EQ,
	TEST_NE,
	TEST_LT,
	TEST_LE,
	TEST_GT,
	TEST_GE,
	TEST_BETWEEN,
	TEST_IN,
	TEST_EXISTS,
	TEST_NOT_EXISTS,
	TEST_BEGINS,
	TEST_CONTAINS,
	TEST_SIZE_GT,
	TEST_COUNT
};

enum node_kind { NODE_TEST, NODE_AND, NODE_OR, NODE_NOT };

enum { NODES_MAX = 8 };

struct node {
	enum node_kind kind;
	int            left, right; /* nodes; NOT has only left */
	bool           wrapped;     /* print parentheses that are not needed */
	enum test      test;
	struct path    path;
	struct cell    operands[2];
};

/* The last node is the root. No nodes: no condition. */
struct condition {
	struct node nodes[NODES_MAX];
	int         count;
};

/* ---- evaluating ---- */

static inline bool cells_comparable(const struct field *f, const struct cell *c)
{
	return f->own.kind == c->kind && (c->kind == K_S || c->kind == K_N || c->kind == K_B);
}

static inline bool order_holds(enum test test, int order)
{
	switch (test) {
	case TEST_LT:
		return order < 0;
	case TEST_LE:
		return order <= 0;
	case TEST_GT:
		return order > 0;
	default:
		return order >= 0;
	}
}

static inline bool text_has(const struct cell *hay, const struct cell *needle, bool only_first)
{
	for (unsigned at = 0; at + needle->len <= hay->len; at++) {
		if (memcmp(hay->text + at, needle->text, needle->len) == 0)
			return true;
		if (only_first)
			break;
	}
	return false;
}

static inline bool field_contains(const struct field *f, const struct cell *c)
{
	if (f->own.kind == K_S || f->own.kind == K_B)
		return f->own.kind == c->kind && text_has(&f->own, c, false);
	if (f->own.kind != K_L && f->own.kind != K_SS && f->own.kind != K_NS)
		return false;
	for (unsigned i = 0; i < f->count; i++)
		if (cell_equal(&f->list[i], c))
			return true;
	return false;
}

/* -1: it has no size. */
static inline int64_t field_size(const struct field *f)
{
	switch (f->own.kind) {
	case K_S:
	case K_B:
		return f->own.len;
	case K_L:
	case K_SS:
	case K_NS:
		return f->count;
	case K_M:
		return (f->list[0].kind != K_ABSENT) + (f->list[1].kind != K_ABSENT);
	default:
		return -1;
	}
}

static inline bool test_holds(const struct node *n, const struct record *r)
{
	struct field       f;
	const struct cell *a = &n->operands[0], *b = &n->operands[1];
	bool               there = path_get(r, n->path, &f);

	switch (n->test) {
	case TEST_EXISTS:
		return there;
	case TEST_NOT_EXISTS:
		return !there;
	case TEST_EQ:
		return there && cell_equal(&f.own, a);
	case TEST_NE:
		return !there || !cell_equal(&f.own, a);
	case TEST_IN:
		return there && (cell_equal(&f.own, a) || cell_equal(&f.own, b));
	case TEST_BETWEEN:
		return there && cells_comparable(&f, a) && cell_compare(&f.own, a) >= 0 &&
		       cell_compare(&f.own, b) <= 0;
	case TEST_BEGINS:
		return there && f.own.kind == a->kind && text_has(&f.own, a, true);
	case TEST_CONTAINS:
		return there && field_contains(&f, a);
	case TEST_SIZE_GT:
		return there && field_size(&f) >= 0 && field_size(&f) * 100 > a->n;
	default:
		return there && cells_comparable(&f, a) && order_holds(n->test, cell_compare(&f.own, a));
	}
}

static inline bool node_holds(const struct condition *c, int at, const struct record *r)
{
	const struct node *n = &c->nodes[at];

	switch (n->kind) {
	case NODE_AND:
		return node_holds(c, n->left, r) && node_holds(c, n->right, r);
	case NODE_OR:
		return node_holds(c, n->left, r) || node_holds(c, n->right, r);
	case NODE_NOT:
		return !node_holds(c, n->left, r);
	default:
		return test_holds(n, r);
	}
}

static inline bool condition_holds(const struct condition *c, const struct record *r)
{
	return c->count == 0 || node_holds(c, c->count - 1, r);
}

static inline bool condition_mentions(const struct condition *c, enum attribute attribute)
{
	for (int i = 0; i < c->count; i++)
		if (c->nodes[i].kind == NODE_TEST && c->nodes[i].path.attribute == attribute)
			return true;
	return false;
}

/* ---- printing ---- */

/* The values that a request's expressions refer to. */
struct values {
	struct buf         json;
	struct json_writer writer;
	unsigned           count;
};

static inline void values_init(struct values *v, struct arena *a)
{
	buf_init(&v->json, a);
	json_writer_init(&v->writer, &v->json);
	json_begin_object(&v->writer);
	v->count = 0;
}

/* Adds a value and prints its name. */
static inline void values_print(struct values *v, struct buf *out, const struct field *f)
{
	char name[16];
	int  len = snprintf(name, sizeof(name), ":v%u", v->count++);

	json_name(&v->writer, (struct bytes){name, (size_t)len});
	field_write(&v->writer, f);
	buf_add(out, name, (size_t)len);
}

static inline void print_text(struct buf *out, const char *text)
{
	buf_add_bytes(out, bytes_of(text));
}

static inline void print_cell(struct values *v, struct buf *out, const struct cell *c)
{
	struct field f = field_of(*c);

	values_print(v, out, &f);
}

static inline void call_print(struct values *v, struct buf *out, const struct node *n, const char *name)
{
	print_text(out, name);
	path_print(out, n->path);
	if (n->test == TEST_BEGINS || n->test == TEST_CONTAINS) {
		print_text(out, ", ");
		print_cell(v, out, &n->operands[0]);
	}
	print_text(out, ")");
	if (n->test == TEST_SIZE_GT) {
		print_text(out, " > ");
		print_cell(v, out, &n->operands[0]);
	}
}

static inline void operator_print(struct values *v, struct buf *out, const struct node *n)
{
	static const char *operators[] = {" = ", " <> ", " < ", " <= ", " > ", " >= ", " BETWEEN ", " IN ("};

	path_print(out, n->path);
	print_text(out, operators[n->test]);
	print_cell(v, out, &n->operands[0]);
	if (n->test < TEST_BETWEEN)
		return;
	print_text(out, n->test == TEST_IN ? ", " : " AND ");
	print_cell(v, out, &n->operands[1]);
	print_text(out, n->test == TEST_IN ? ")" : "");
}

static inline void test_print(struct values *v, struct buf *out, const struct node *n)
{
	static const char *functions[TEST_COUNT] = {[TEST_EXISTS] = "attribute_exists(",
	                                            [TEST_NOT_EXISTS] = "attribute_not_exists(",
	                                            [TEST_BEGINS] = "begins_with(",
	                                            [TEST_CONTAINS] = "contains(",
	                                            [TEST_SIZE_GT] = "size("};

	if (functions[n->test] != NULL)
		call_print(v, out, n, functions[n->test]);
	else
		operator_print(v, out, n);
}

/* How tightly it binds. */
static inline int node_rank(const struct node *n)
{
	return n->kind == NODE_OR ? 0 : n->kind == NODE_AND ? 1 : n->kind == NODE_NOT ? 2 : 3;
}

static inline void node_print(struct values *v, struct buf *out, const struct condition *c, int at, int rank)
{
	const struct node *n = &c->nodes[at];
	bool               wrap = node_rank(n) < rank || (n->wrapped && rank >= 0);

	print_text(out, wrap ? "(" : "");
	if (n->kind == NODE_TEST) {
		test_print(v, out, n);
	} else if (n->kind == NODE_NOT) {
		print_text(out, "NOT ");
		node_print(v, out, c, n->left, 3);
	} else {
		node_print(v, out, c, n->left, node_rank(n));
		print_text(out, n->kind == NODE_AND ? " AND " : " OR ");
		node_print(v, out, c, n->right, node_rank(n) + 1);
	}
	print_text(out, wrap ? ")" : "");
}

static inline void condition_print(struct values *v, struct buf *out, const struct condition *c)
{
	node_print(v, out, c, c->count - 1, -1);
}

#endif
