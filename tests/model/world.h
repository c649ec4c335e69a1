/* World: the model's state. A table ("sheet") is an array with one record for each possible key, since keys
 * come from a small space; an index ("side") is nothing at all: it is computed from the records whenever it
 * is asked. Whatever a request changed can be undone. */
#ifndef TESTS_MODEL_WORLD_H
#define TESTS_MODEL_WORLD_H

#include "model/update.h"
#include "random.h"

enum {
	SHEETS = 4,
	SIDES = 6,
	HASHES = 5,  /* different hash keys of a table */
	RANGES = 10, /* different range keys */
	TOKENS = 12,
	TOKEN_LIFE_S = 600,
	FIVE_YEARS_S = 5 * 365 * 24 * 3600,
};

enum share { SHARE_ALL, SHARE_KEYS, SHARE_SOME };

struct side {
	bool        used;
	bool        local;
	bool        ranged;      /* its table has a range key */
	bool        filling;     /* asked for, but perhaps not yet filled: not queried until the next tick */
	int         hash, range; /* attributes; range -1: none */
	enum share  share;
	bool        shares[ATTRIBUTES]; /* SHARE_SOME */
	const char *name;
};

struct sheet {
	bool           used;
	bool           ttl;
	bool           timed;         /* has had a time to live: then counts depend on the sweeper */
	enum attribute ttl_attribute; /* if ttl */
	char           name[8];
	enum kind
	        kinds[ATTRIBUTES]; /* of key attributes of the table and its indexes; ABSENT: no range key */
	struct side   sides[SIDES];
	struct record records[HASHES][RANGES];
};

struct token {
	struct buf body; /* what it was used for; empty: not used */
	int64_t    expires_s;
	uint64_t   epoch; /* of the sheets at that time */
};

/* What a record or a whole sheet was before. */
struct before {
	int           sheet, hash, range;
	struct record record;
	struct sheet *whole; /* NULL: only the record */
};

struct world {
	struct random  random;
	struct sheet   sheets[SHEETS];
	struct token   tokens[TOKENS];
	uint64_t       epoch; /* counts changes of sheets themselves */
	int64_t        now_s;
	struct before *undo;
	size_t         undo_count, undo_cap;
};

/* ---- keys ---- */

/* The i-th of RANGES key values of that kind, in order. */
static inline struct cell key_cell(enum kind kind, int i)
{
	static const struct {
		const char *text;
		unsigned    len;
	} texts[RANGES] = {{"a", 1},   {"a\0", 2}, {"a\0b", 3}, {"ab", 2},       {"abc", 3},
	                   {"abd", 3}, {"b", 1},   {"z", 1},    {"\xc3\xa9", 2}, {"\xf0\x9f\x98\x80", 4}},
	  blobs[RANGES] = {{"\0", 1},       {"\0\0", 2}, {"\0\1", 2}, {"\0\xff", 2}, {"\1", 1},
	                   {"\x7f\xff", 2}, {"\x80", 1}, {"\xff", 1}, {"\xff\0", 2}, {"\xff\xff", 2}};
	static const int64_t numbers[RANGES] = {-1234567, -1000, -150, -25, 0, 1, 50, 200, 1000, 99999999};

	if (kind == K_N)
		return cell_number(numbers[i]);
	return kind == K_S ? cell_text(K_S, texts[i].text, texts[i].len)
	                   : cell_text(K_B, blobs[i].text, blobs[i].len);
}

/* Hash keys are every second of them. */
static inline struct cell hash_cell(const struct sheet *s, int hash)
{
	return key_cell(s->kinds[HASH], 2 * hash);
}

static inline bool sheet_ranged(const struct sheet *s)
{
	return s->kinds[RANGE] != K_ABSENT;
}

static inline void record_set_key(const struct sheet *s, struct record *r, int hash, int range)
{
	r->fields[HASH] = field_of(hash_cell(s, hash));
	if (sheet_ranged(s))
		r->fields[RANGE] = field_of(key_cell(s->kinds[RANGE], range));
}

/* ---- what is there ---- */

static inline bool record_expired(const struct world *w, const struct sheet *s, const struct record *r)
{
	const struct cell *e = &r->fields[s->ttl_attribute].own;

	if (!s->ttl || e->kind != K_N || e->n % 100 != 0 || e->n <= 0)
		return false;
	return e->n / 100 <= w->now_s && e->n / 100 > w->now_s - FIVE_YEARS_S;
}

/* NULL if absent or expired. */
static inline const struct record *world_get(const struct world *w, int sheet, int hash, int range)
{
	const struct sheet  *s = &w->sheets[sheet];
	const struct record *r = &s->records[hash][range];

	return r->present && !record_expired(w, s, r) ? r : NULL;
}

static inline bool key_fits(const struct sheet *s, int attribute, const struct record *r)
{
	const struct cell *c = &r->fields[attribute].own;

	return c->kind == s->kinds[attribute] && (c->kind == K_N || c->len > 0);
}

static inline bool side_has(const struct sheet *s, const struct side *side, const struct record *r)
{
	return key_fits(s, side->hash, r) && (side->range < 0 || key_fits(s, side->range, r));
}

static inline bool side_shows(const struct side *side, int attribute)
{
	if (side->share == SHARE_ALL || attribute == HASH || (attribute == RANGE && side->ranged) ||
	    attribute == side->hash || attribute == side->range)
		return true;
	return side->share == SHARE_SOME && side->shares[attribute];
}

static inline struct record side_record(const struct side *side, const struct record *r)
{
	struct record out = {.present = true};

	for (int i = 0; i < ATTRIBUTES; i++)
		if (side_shows(side, i))
			out.fields[i] = r->fields[i];
	return out;
}

/* May it be stored: is each index key it has of the right type and not empty? */
static inline bool record_fits(const struct sheet *s, const struct record *r)
{
	for (int i = 0; i < SIDES; i++) {
		const struct side *side = &s->sides[i];
		const int          keys[2] = {side->hash, side->range};

		for (int k = 0; k < 2 && side->used; k++)
			if (keys[k] >= 0 && r->fields[keys[k]].own.kind != K_ABSENT &&
			    !key_fits(s, keys[k], r))
				return false;
	}
	return true;
}

/* ---- changing ---- */

static inline struct before *undo_add(struct world *w, int sheet, int hash, int range)
{
	struct before *b;

	if (w->undo_count == w->undo_cap) {
		w->undo_cap = w->undo_cap == 0 ? 64 : 2 * w->undo_cap;
		w->undo = realloc(w->undo, w->undo_cap * sizeof(*w->undo));
		assert(w->undo != NULL);
	}
	b = &w->undo[w->undo_count++];
	*b = (struct before){.sheet = sheet, .hash = hash, .range = range};
	return b;
}

static inline void world_put(struct world *w, int sheet, int hash, int range, const struct record *r)
{
	struct record *at = &w->sheets[sheet].records[hash][range];

	undo_add(w, sheet, hash, range)->record = *at;
	*at = r == NULL ? (struct record){0} : *r;
}

/* Before a change to the sheet itself. */
static inline void world_touch(struct world *w, int sheet)
{
	struct before *b = undo_add(w, sheet, 0, 0);

	w->epoch++;
	b->whole = malloc(sizeof(struct sheet));
	assert(b->whole != NULL);
	*b->whole = w->sheets[sheet];
}

static inline void world_undo(struct world *w, size_t mark)
{
	while (w->undo_count > mark) {
		struct before *b = &w->undo[--w->undo_count];

		if (b->whole != NULL)
			w->sheets[b->sheet] = *b->whole;
		else
			w->sheets[b->sheet].records[b->hash][b->range] = b->record;
		free(b->whole);
	}
}

static inline void world_keep(struct world *w)
{
	while (w->undo_count > 0)
		free(w->undo[--w->undo_count].whole);
}

/* ---- a copy, to go back to: of what a disk took nothing of, nothing stays ---- */

struct world_copy {
	struct sheet sheets[SHEETS];
	struct token tokens[TOKENS]; /* their bodies are below */
	struct bytes bodies[TOKENS];
	uint64_t     epoch;
};

/* The bodies are in the arena. */
static inline struct world_copy *world_copy(const struct world *w, struct arena *a)
{
	struct world_copy *c = arena_alloc(a, sizeof(*c));

	memcpy(c->sheets, w->sheets, sizeof(c->sheets));
	memcpy(c->tokens, w->tokens, sizeof(c->tokens));
	c->epoch = w->epoch;
	for (int i = 0; i < TOKENS; i++)
		c->bodies[i] = arena_copy(a, buf_bytes(&w->tokens[i].body));
	return c;
}

static inline void world_go_back(struct world *w, const struct world_copy *c)
{
	memcpy(w->sheets, c->sheets, sizeof(c->sheets));
	w->epoch = c->epoch;
	for (int i = 0; i < TOKENS; i++) {
		struct token *t = &w->tokens[i];

		t->expires_s = c->tokens[i].expires_s;
		t->epoch = c->tokens[i].epoch;
		buf_reset(&t->body);
		buf_add_bytes(&t->body, c->bodies[i]);
	}
}

/* ---- chance ---- */

static inline int pick(struct world *w, int bound)
{
	return (int)random_below(&w->random, (uint64_t)bound);
}

static inline bool chance(struct world *w, int percent)
{
	return pick(w, 100) < percent;
}

#endif
