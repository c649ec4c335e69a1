/* Generate: random values, paths, conditions and updates. Values come from small spaces, so that they meet
 * again; now and then one is wrong on purpose. */
#ifndef TESTS_MODEL_GENERATE_H
#define TESTS_MODEL_GENERATE_H

#include "model/transaction.h"

/* ---- values ---- */

static inline struct cell any_number(struct world *w)
{
	static const int64_t numbers[] = {-100, -50, 0, 1, 100, 150, 200, 300, 1000, 123456789};

	return cell_number(numbers[pick(w, 10)]);
}

static inline struct cell any_text(struct world *w)
{
	return key_cell(K_S, pick(w, RANGES));
}

static inline struct cell any_key(struct world *w, const struct sheet *s, enum attribute attribute)
{
	return key_cell(s->kinds[attribute], pick(w, RANGES));
}

static inline struct cell any_scalar(struct world *w)
{
	switch (pick(w, 6)) {
	case 0:
		return (struct cell){.kind = K_BOOL, .n = pick(w, 2)};
	case 1:
		return (struct cell){.kind = K_NULL};
	case 2:
		return key_cell(K_B, pick(w, RANGES));
	case 3:
		return any_number(w);
	default:
		return any_text(w);
	}
}

static inline struct field any_set(struct world *w, enum kind kind)
{
	struct field f = {.own = {.kind = kind}};
	int          size = 1 + pick(w, 3);

	for (int i = 0; i < size; i++) {
		struct cell c = kind == K_NS ? key_cell(K_N, pick(w, 6)) : key_cell(K_S, pick(w, 6));

		set_insert(&f, &c);
	}
	return f;
}

static inline struct field any_list(struct world *w, int most)
{
	struct field f = {.own = {.kind = K_L}, .count = (unsigned)pick(w, most + 1)};

	for (unsigned i = 0; i < f.count; i++)
		f.list[i] = any_scalar(w);
	return f;
}

static inline struct field any_map(struct world *w)
{
	struct field f = {.own = {.kind = K_M}};

	if (chance(w, 80))
		f.list[0] = any_number(w);
	if (chance(w, 60))
		f.list[1] = any_text(w);
	return f;
}

/* Soon, long ago, never, and what is no time at all. */
static inline struct field any_expiry(struct world *w)
{
	static const int from_now[] = {-400, -1, 0, 1, 2, 5, 20, 60, 900, 4000};

	if (chance(w, 85))
		return field_of(cell_number(100 * (w->now_s + from_now[pick(w, 10)])));
	switch (pick(w, 5)) {
	case 0:
		return field_of(cell_number(100 * (w->now_s - FIVE_YEARS_S - pick(w, 2))));
	case 1:
		return field_of(cell_number(100 * w->now_s + 50));
	case 2:
		return field_of(any_text(w));
	case 3:
		return field_of(cell_number(-100));
	default:
		return field_of(cell_number(0));
	}
}

/* Sometimes of a wrong type or empty: an index refuses it, and one that is made later leaves the item out. */
static inline struct field any_index_key(struct world *w, const struct sheet *s, enum attribute attribute)
{
	if (chance(w, 2))
		return field_of(chance(w, 50) ? (struct cell){.kind = K_BOOL} : cell_text(K_S, "", 0));
	return field_of(any_key(w, s, attribute));
}

static inline struct field any_field(struct world *w, const struct sheet *s, enum attribute attribute)
{
	switch (attribute) {
	case COUNTER:
		return field_of(any_number(w));
	case STRINGS:
		return any_set(w, K_SS);
	case NUMBERS:
		return any_set(w, K_NS);
	case LIST:
		return any_list(w, 3);
	case MAP:
		return any_map(w);
	case EXPIRES:
	case OTHER:
		return any_expiry(w);
	case FREE:
		return chance(w, 10) ? any_set(w, K_SS) : field_of(any_scalar(w));
	default:
		return any_index_key(w, s, attribute);
	}
}

static inline struct record any_record(struct world *w, const struct sheet *s, int hash, int range)
{
	struct record r = {.present = true};

	for (int i = 0; i < ATTRIBUTES; i++)
		if (i != HASH && i != RANGE && chance(w, i == EXPIRES || i == OTHER ? 25 : 55))
			r.fields[i] = any_field(w, s, (enum attribute)i);
	record_set_key(s, &r, hash, range);
	return r;
}

/* ---- paths and conditions ---- */

static inline struct path any_path(struct world *w)
{
	struct path p = {(enum attribute)pick(w, ATTRIBUTES), STEP_NONE};

	if (p.attribute == MAP && chance(w, 60))
		p.step = chance(w, 50) ? STEP_X : STEP_Y;
	if (p.attribute == LIST && chance(w, 50))
		p.step = STEP_FIRST;
	return p;
}

static inline bool paths_fit(const struct paths *paths, struct path p)
{
	for (unsigned i = 0; i < paths->count; i++)
		if (!path_apart(paths->list[i], p))
			return false;
	return true;
}

static inline struct paths any_paths(struct world *w)
{
	struct paths paths = {0};
	int          count = 1 + pick(w, 4);

	for (int i = 0; i < count; i++) {
		struct path p = any_path(w);

		if (paths_fit(&paths, p))
			paths.list[paths.count++] = p;
	}
	return paths;
}

/* A scalar that may well be what is there. */
static inline struct cell any_operand(struct world *w, const struct sheet *s, struct path p)
{
	if (p.step == STEP_NONE && p.attribute == HASH)
		return hash_cell(s, pick(w, HASHES));
	if (p.step == STEP_NONE && (p.attribute == EXPIRES || p.attribute == OTHER))
		return cell_number(100 * (w->now_s + pick(w, 100)));
	if (p.step == STEP_NONE && p.attribute >= GROUP && s->kinds[p.attribute] != K_ABSENT)
		return any_key(w, s, p.attribute);
	if (p.attribute == COUNTER || p.step == STEP_X)
		return any_number(w);
	return chance(w, 50) ? any_text(w) : any_number(w);
}

static inline struct node any_test(struct world *w, const struct sheet *s)
{
	struct node n = {.test = (enum test)pick(w, TEST_COUNT), .path = any_path(w)};
	struct cell swap;

	n.operands[0] = any_operand(w, s, n.path);
	n.operands[1] =
	        n.operands[0].kind == K_N ? any_number(w) : key_cell(n.operands[0].kind, pick(w, RANGES));
	if (n.test == TEST_BEGINS && n.operands[0].kind == K_N)
		n.operands[0] = any_text(w);
	if (n.test == TEST_SIZE_GT)
		n.operands[0] = cell_number(100 * pick(w, 4));
	if (n.test == TEST_BETWEEN && cell_compare(&n.operands[0], &n.operands[1]) > 0) {
		swap = n.operands[0];
		n.operands[0] = n.operands[1];
		n.operands[1] = swap;
	}
	return n;
}

/* Up to three tests, joined. Operands come before what joins them. */
static inline struct condition any_condition(struct world *w, const struct sheet *s)
{
	struct condition c = {0};
	int              joins = chance(w, 50) ? 0 : 1 + pick(w, 2);

	c.nodes[c.count++] = any_test(w, s);
	for (int i = 0; i < joins; i++) {
		int  left = c.count - 1;
		bool turned = chance(w, 50);

		c.nodes[c.count++] = any_test(w, s);
		c.nodes[c.count] = (struct node){.kind = chance(w, 50) ? NODE_AND : NODE_OR,
		                                 .left = turned ? c.count - 1 : left,
		                                 .right = turned ? left : c.count - 1,
		                                 .wrapped = chance(w, 30)};
		c.count++;
	}
	if (chance(w, 25)) {
		c.nodes[c.count] = (struct node){.kind = NODE_NOT, .left = c.count - 1};
		c.count++;
	}
	return c;
}

/* ---- updates ---- */

static inline enum action_shape any_shape(struct world *w, struct path p)
{
	static const enum action_shape counter[] = {DO_SET,          DO_SET_IF_ABSENT, DO_PLUS, DO_MINUS,
	                                            DO_PLUS_DEFAULT, DO_REMOVE,        DO_ADD,  DO_ADD},
	                               set[] = {DO_SET, DO_REMOVE, DO_ADD,    DO_ADD,
	                                        DO_ADD, DO_DELETE, DO_DELETE, DO_DELETE},
	                               list[] = {DO_SET,
	                                         DO_SET_IF_ABSENT,
	                                         DO_APPEND,
	                                         DO_PREPEND,
	                                         DO_APPEND_DEFAULT,
	                                         DO_APPEND_DEFAULT,
	                                         DO_REMOVE,
	                                         DO_SET},
	                               other[] = {DO_SET,           DO_SET,  DO_SET,    DO_SET,
	                                          DO_SET_IF_ABSENT, DO_COPY, DO_REMOVE, DO_REMOVE};

	if (p.attribute == COUNTER || p.step == STEP_X)
		return counter[pick(w, 8)];
	if (p.attribute == STRINGS || p.attribute == NUMBERS)
		return set[pick(w, 8)];
	if (p.attribute == LIST && p.step == STEP_NONE)
		return list[pick(w, 8)];
	if (p.attribute == FREE && chance(w, 20))
		return chance(w, 50) ? DO_ADD : DO_PLUS;
	return other[pick(w, 8)];
}

static inline struct field any_argument(struct world *w, const struct sheet *s, const struct action *a)
{
	if (a->path.attribute == FREE && (a->shape == DO_ADD || a->shape == DO_PLUS))
		return field_of(any_number(w));
	if (a->path.step == STEP_X)
		return field_of(any_number(w));
	if (a->path.step == STEP_Y)
		return field_of(any_text(w));
	if (a->path.step == STEP_FIRST)
		return field_of(any_scalar(w));
	if (a->path.attribute == LIST)
		return any_list(w, a->shape == DO_SET ? 3 : 2);
	return any_field(w, s, a->path.attribute);
}

/* The model's lists are short: one that is nearly full is set anew. */
static inline bool list_is_full(const struct record *now)
{
	return now != NULL && now->fields[LIST].count + 2 > FIELD_LIST_MAX;
}

static inline struct action any_action(struct world *w, const struct sheet *s, const struct record *now)
{
	struct action a = {.path = any_path(w)};

	while ((a.path.attribute == HASH || a.path.attribute == RANGE) && (!sheet_ranged(s) || chance(w, 98)))
		a.path = any_path(w);
	a.shape = any_shape(w, a.path);
	if (a.path.attribute == LIST && a.path.step == STEP_NONE && a.shape != DO_REMOVE && list_is_full(now))
		a.shape = DO_SET;
	if (a.shape == DO_COPY && a.path.attribute != FREE)
		a.shape = DO_SET; /* elsewhere the type matters */
	if (a.shape == DO_COPY)
		a.from = (struct path){chance(w, 50) ? COUNTER : FREE, STEP_NONE};
	a.value = any_argument(w, s, &a);
	return a;
}

static inline struct update any_update(struct world *w, const struct sheet *s, const struct record *now)
{
	struct update u = {0};
	int           count = 1 + pick(w, ACTIONS_MAX);

	if (chance(w, 2))
		return u;
	for (int i = 0; i < count; i++) {
		struct action a = any_action(w, s, now);
		struct paths  paths = update_paths(&u);

		if (paths_fit(&paths, a.path))
			u.actions[u.count++] = a;
	}
	return u;
}

#endif
