/* Heeds: see heed.h. */
#include "service/heed.h"

#include "base/buf.h"
#include "service/row.h"

/* ---- what a rule heeds (1) ---- */

/* Its key, without a qualifier. */
static struct bytes heed_key(struct arena *a, const struct rule_heed *h)
{
	return key_name(a, h->lock.journey, h->reach == REACH_PAIR ? BYTES(KEY_SOURCE_LOCK) : BYTES(KEY_LOCK),
	                h->lock.name, (struct bytes){NULL, 0});
}

/* There is room for it. */
static void heed_add(struct rules *rules, struct rule *rule, const struct rule_heed *heed)
{
	struct rule_heed *h = &rule->heeds[rule->heed_count++];

	*h = *heed;
	h->sk = heed_key(&rules->base.arena, h);
	if (h->reach != REACH_SOURCE) /* they are listed as locks of subjects */
		rules_list_lock(rules, &h->lock, h->own);
}

/* A source that people locked is stopped whether or not the rule counts by source. */
static void own_add(struct rules *rules, struct rule *rule, const struct rule_ref *lock)
{
	struct rule_heed h = {.lock = *lock, .own = true, .until_s = HEED_ALWAYS};

	heed_add(rules, rule, &h);
	if (rule->qualifier != QUALIFY_NONE) {
		h.reach = REACH_QUALIFIER;
		h.qualifier = rule->qualifier;
		heed_add(rules, rule, &h);
	}
	h.qualifier = QUALIFY_NONE;
	if (rule->max_pair > 0) {
		h.reach = REACH_PAIR;
		heed_add(rules, rule, &h);
	}
	h.reach = REACH_SOURCE;
	h.only_persons = rule->max_source == 0;
	heed_add(rules, rule, &h);
}

static void others_add(struct rules *rules, struct rule *rule, const struct rule_ref *lock)
{
	struct rule_heed h = {.lock = *lock, .until_s = HEED_ALWAYS};

	heed_add(rules, rule, &h);
	h.reach = REACH_SOURCE;
	h.only_persons = true;
	heed_add(rules, rule, &h);
}

/* What stops a whole journey, and what failures in a row of several types set. Both are heeded as what the type sets itself, so they
 * stay as long as it does, whatever becomes of `sources` and `consecutive`. */
static void shared_add(struct rules *rules, struct rule *rule)
{
	struct rule_heed h = {.own = true, .until_s = HEED_ALWAYS};

	h.lock = rules->consecutive.sets;
	h.streak = true;
	if (rule->streak)
		heed_add(rules, rule, &h);
	h.lock = rule->source_sets.list[0];
	h.reach = REACH_SOURCE;
	h.streak = false;
	heed_add(rules, rule, &h);
}

void heeds_link(struct rules *rules)
{
	for (uint32_t i = 0; i < rules->count; i++) {
		struct rule *rule = &rules->list[i];
		uint32_t     room = 4 * rule->sets.count + 2 * rule->blocked_by.count + 2;

		rule->heeds = arena_array(&rules->base.arena, room, sizeof(*rule->heeds));
		for (uint32_t n = 0; n < rule->blocked_by.count; n++)
			others_add(rules, rule, &rule->blocked_by.list[n]);
		for (uint32_t n = 0; n < rule->sets.count; n++)
			own_add(rules, rule, &rule->sets.list[n]);
		shared_add(rules, rule);
		rule->heeds_now = rule->heed_count;
		rule->heed_room = room;
	}
}

/* ---- asking ---- */

static bool ref_equal(const struct rule_ref *a, const struct rule_ref *b)
{
	return bytes_equal(a->journey, b->journey) && bytes_equal(a->name, b->name);
}

static bool heed_holds(const struct rule_heed *h, const struct heed_lock *lock)
{
	return h->reach == lock->reach && (lock->persons || !h->only_persons) && lock->set_s <= h->until_s &&
	       ref_equal(&h->lock, &lock->ref);
}

bool rules_heed(const struct rules *r, const struct heed_lock *lock)
{
	for (uint32_t i = 0; i < r->count; i++)
		for (uint32_t n = 0; n < r->list[i].heed_count; n++)
			if (heed_holds(&r->list[i].heeds[n], lock))
				return true;
	return false;
}

static bool reset_is_about(const struct reset *reset, const struct rule *rule)
{
	if (rule_refs_have(&reset->counts, rule->journey, rule->type))
		return true;
	for (uint32_t i = 0; i < rule->sets.count; i++)
		if (rule_refs_have(&reset->locks, rule->sets.list[i].journey, rule->sets.list[i].name))
			return true;
	return false;
}

static bool rule_did_set(const struct rule *rule, const struct rule_ref *lock)
{
	for (uint32_t n = rule->heeds_now; n < rule->heed_count; n++)
		if (rule->heeds[n].own && ref_equal(&rule->heeds[n].lock, lock))
			return true;
	return false;
}

bool heeds_reset_left(const struct rules *r, const struct reset *reset, const struct rule_ref *lock,
                      bool streak)
{
	const struct rule_ref *row = &r->consecutive.sets;
	bool                   by_row = streak && r->consecutive.max > 0;

	if (rules_has_lock(r, lock->journey, lock->name) ||
	    (by_row && !rule_refs_have(&reset->locks, row->journey, row->name)))
		return false;
	for (uint32_t i = 0; i < r->count; i++)
		if ((by_row || reset_is_about(reset, &r->list[i])) && rule_did_set(&r->list[i], lock))
			return true;
	return false;
}

/* ---- from the policies before (2) ---- */

static const struct rule *rule_exact(const struct rules *r, const struct rule *like, struct bytes method)
{
	uint32_t           count = 0;
	const struct rule *rule = rules_of_type(r, like->journey, like->type, &count);

	for (uint32_t i = 0; i < count; i++)
		if (bytes_equal(rule[i].method, method))
			return &rule[i];
	return NULL;
}

/* Did `old` judge attempts that `rule` judges now? */
static bool takes_over(const struct rules *next, const struct rule *rule, const struct rules *now,
                       const struct rule *old)
{
	if (bytes_equal(rule->method, old->method))
		return true;
	if (rule->method.len == 0)
		return rule_exact(next, rule, old->method) == NULL;
	return old->method.len == 0 && rule_exact(now, rule, rule->method) == NULL;
}

/* All that `h` stops, up to that time? */
static bool heed_covers(const struct rule_heed *by, const struct rule_heed *h, int64_t until_s)
{
	return by->reach == h->reach && by->qualifier == h->qualifier &&
	       (!by->only_persons || h->only_persons) && by->until_s >= until_s &&
	       ref_equal(&by->lock, &h->lock);
}

static bool is_covered(const struct rule *rule, const struct rule_heed *h, int64_t until_s)
{
	for (uint32_t i = 0; i < rule->heed_count; i++)
		if (heed_covers(&rule->heeds[i], h, until_s))
			return true;
	return false;
}

/* Is there such a lock: as a type, as a name that a journey has or a rule sets, or as one that a rule did set? */
static bool lock_exists(const struct rules *r, const struct rule_ref *lock)
{
	uint32_t count;

	if (rules_of_type(r, lock->journey, lock->name, &count) != NULL ||
	    rules_has_lock(r, lock->journey, lock->name))
		return true;
	for (uint32_t i = 0; i < r->count; i++)
		for (uint32_t n = r->list[i].heeds_now; n < r->list[i].heed_count; n++)
			if (r->list[i].heeds[n].own && ref_equal(&r->list[i].heeds[n].lock, lock))
				return true;
	return false;
}

/* As text, at most: names, and some words. */
static size_t heed_bytes(const struct rule *rule, const struct rule_heed *h)
{
	return rule->journey.len + rule->type.len + rule->method.len + h->lock.journey.len +
	       h->lock.name.len + 72;
}

/* Few rules heed anything of the policies before. */
static void heeds_make_room(struct rules *rules, struct rule *rule)
{
	struct rule_heed *more =
	        arena_array(&rules->base.arena, rule->heed_room = 2 * rule->heed_count + 8, sizeof(*more));

	if (rule->heed_count > 0)
		memcpy(more, rule->heeds, rule->heed_count * sizeof(*more));
	rule->heeds = more;
}

static bool heed_is_like(const struct rule_heed *a, const struct rule_heed *b)
{
	return a->reach == b->reach && a->qualifier == b->qualifier && a->own == b->own &&
	       a->only_persons == b->only_persons && ref_equal(&a->lock, &b->lock);
}

/* Is it heeded so already, and only not as long? So a lock is a bounded number of heeds, whatever policies came before. */
static bool heed_prolong(struct rule *rule, const struct rule_heed *h, int64_t until_s)
{
	for (uint32_t n = rule->heeds_now; n < rule->heed_count; n++) {
		if (!heed_is_like(&rule->heeds[n], h))
			continue;
		if (rule->heeds[n].until_s < until_s)
			rule->heeds[n].until_s = until_s;
		return true;
	}
	return false;
}

static bool name_is_kept(const struct rule *rule, const struct rule_ref *lock)
{
	for (uint32_t n = rule->heeds_now; n < rule->heed_count; n++)
		if (ref_equal(&rule->heeds[n].lock, lock))
			return true;
	return false;
}

static void heed_keep(struct rules *rules, struct rule *rule, const struct rule_heed *h, int64_t until_s)
{
	struct arena    *a = &rules->base.arena;
	struct rule_heed kept = *h;
	bool             is_new = !name_is_kept(rule, &h->lock);

	if (heed_prolong(rule, h, until_s))
		return;
	if ((is_new && rule->heed_names == HEED_NAMES_MAX) ||
	    rules->heeds_bytes + heed_bytes(rule, h) > HEEDS_TEXT_MAX)
		return; /* (3) */
	rule->heed_names += is_new;
	rules->heeds_bytes += heed_bytes(rule, h);
	if (rule->heed_count == rule->heed_room)
		heeds_make_room(rules, rule);
	kept.lock = (struct rule_ref){arena_copy(a, h->lock.journey), arena_copy(a, h->lock.name)};
	kept.until_s = until_s;
	kept.streak = false;
	heed_add(rules, rule, &kept);
}

struct inheriting {
	struct rules       *next;
	const struct rules *now;
	int64_t             until_s;
	bool                own; /* what rules set themselves comes first: it tells which locks exist */
};

static void rule_inherit(const struct inheriting *i, struct rule *rule, const struct rule *old)
{
	for (uint32_t n = 0; n < old->heed_count; n++) {
		const struct rule_heed *h = &old->heeds[n];
		int64_t                 until_s = h->until_s < i->until_s ? h->until_s : i->until_s;

		if (h->own == i->own && !is_covered(rule, h, until_s) &&
		    (h->own || lock_exists(i->next, &h->lock)))
			heed_keep(i->next, rule, h, until_s);
	}
}

static void rules_inherit(const struct inheriting *i)
{
	for (uint32_t r = 0; r < i->next->count; r++) {
		struct rule       *rule = &i->next->list[r];
		uint32_t           count = 0;
		const struct rule *old = rules_of_type(i->now, rule->journey, rule->type, &count);

		for (uint32_t n = 0; n < count; n++)
			if (takes_over(i->next, rule, i->now, &old[n]))
				rule_inherit(i, rule, &old[n]);
	}
}

void heeds_inherit(struct document *next, const struct document *now, int64_t now_s)
{
	struct inheriting i = {.next = (struct rules *)next,
	                       .now = (const struct rules *)now,
	                       .until_s = now_s + HEED_MARGIN_S,
	                       .own = true};

	rules_inherit(&i);
	i.own = false;
	rules_inherit(&i);
}

void heeds_drop(struct document *d)
{
	struct rules *r = (struct rules *)d;

	r->heeds_bytes = 0;
	for (uint32_t i = 0; i < r->count; i++) {
		r->list[i].heed_count = r->list[i].heeds_now;
		r->list[i].heed_names = 0;
	}
}

/* ---- as text (3): "SIGN_IN/PASSWORD_ENTRY subject none sets any 1794789304 SIGN_IN/OTHER", a line each ---- */

static const char *const reach_words[] = {"subject", "qualifier", "source", "pair"};
static const char *const qualifier_words[] = {"none", "method", "notification"};
static const char *const own_words[] = {"blocked_by", "sets"};
static const char *const person_words[] = {"any", "persons"};

static void word_add(struct buf *out, struct bytes word)
{
	buf_add_bytes(out, word);
	buf_add_byte(out, ' ');
}

static void heed_write(struct buf *out, const struct rule *rule, const struct rule_heed *h)
{
	buf_add_bytes(out, rule->journey);
	buf_add_byte(out, '/');
	buf_add_bytes(out, rule->type);
	if (rule->method.len > 0)
		buf_add_byte(out, '/');
	word_add(out, rule->method);
	word_add(out, bytes_of(reach_words[h->reach]));
	word_add(out, bytes_of(qualifier_words[h->qualifier]));
	word_add(out, bytes_of(own_words[h->own]));
	word_add(out, bytes_of(person_words[h->only_persons]));
	buf_add_i64(out, h->until_s);
	buf_add_byte(out, ' ');
	buf_add_bytes(out, h->lock.journey);
	buf_add_byte(out, '/');
	buf_add_bytes(out, h->lock.name);
	buf_add_byte(out, '\n');
}

struct bytes heeds_write(const struct document *d, struct arena *a)
{
	const struct rules *r = (const struct rules *)d;
	struct buf          out;

	buf_init(&out, a);
	for (uint32_t i = 0; i < r->count; i++)
		for (uint32_t n = r->list[i].heeds_now; n < r->list[i].heed_count; n++)
			heed_write(&out, &r->list[i], &r->list[i].heeds[n]);
	return buf_bytes(&out);
}

/* What comes before the sign, or all that is left. */
static struct bytes part_next(struct bytes *rest, char sign)
{
	const char  *at = rest->len == 0 ? NULL : memchr(rest->data, sign, rest->len);
	struct bytes part = {rest->data, at == NULL ? rest->len : (size_t)(at - rest->data)};
	size_t       used = at == NULL ? part.len : part.len + 1;

	*rest = (struct bytes){rest->data + used, rest->len - used};
	return part;
}

/* Which of the words it is; the first if it is none of them. */
static int word_of(struct bytes word, const char *const *words, int count)
{
	for (int i = 0; i < count; i++)
		if (bytes_is(word, words[i]))
			return i;
	return 0;
}

static void heed_read(struct rules *r, struct bytes line)
{
	struct bytes       name = part_next(&line, ' '), lock;
	struct rule        like = {.journey = part_next(&name, '/'), .type = part_next(&name, '/')};
	const struct rule *rule = rule_exact(r, &like, name);
	struct rule_heed   h = {.reach = (enum lock_reach)word_of(part_next(&line, ' '), reach_words, 4)};
	uint64_t           until_s;

	h.qualifier = (enum rule_qualifier)word_of(part_next(&line, ' '), qualifier_words, 3);
	h.own = word_of(part_next(&line, ' '), own_words, 2) == 1;
	h.only_persons = word_of(part_next(&line, ' '), person_words, 2) == 1;
	if (!bytes_to_u64(part_next(&line, ' '), INT64_MAX, &until_s) || rule == NULL)
		return;
	lock = line;
	h.lock.journey = part_next(&lock, '/');
	h.lock.name = lock;
	heed_keep(r, &r->list[rule - r->list], &h, (int64_t)until_s);
}

void heeds_read(struct document *d, struct bytes text)
{
	while (text.len > 0)
		heed_read((struct rules *)d, part_next(&text, '\n'));
}

const struct document_heritage rules_heritage = {heeds_inherit, heeds_drop, heeds_write, heeds_read};

/* ---- what ends ---- */

static bool heed_ends(const struct rules *next, const struct rule_heed *h, int64_t now_s)
{
	struct heed_lock lock = {.ref = h->lock,
	                         .reach = h->reach,
	                         .persons = h->only_persons,
	                         .set_s = h->until_s < now_s ? h->until_s : now_s};

	return !rules_heed(next, &lock);
}

/* By (2) it would be heeded. */
static bool heed_is_due(const struct rules *next, const struct rule *rule, const struct rule_heed *h)
{
	uint32_t count;

	return rules_of_type(next, rule->journey, rule->type, &count) != NULL &&
	       (h->own || lock_exists(next, &h->lock));
}

bool heeds_lost(const struct rules *now, const struct rules *next, const struct heed_lock *lock)
{
	for (uint32_t i = 0; i < now->count; i++)
		for (uint32_t n = 0; n < now->list[i].heed_count; n++)
			if (heed_holds(&now->list[i].heeds[n], lock) &&
			    heed_is_due(next, &now->list[i], &now->list[i].heeds[n]))
				return true;
	return false;
}

bool heeds_may_end(const struct rules *now, const struct rules *next, int64_t now_s)
{
	for (uint32_t i = 0; i < now->count; i++)
		for (uint32_t n = 0; n < now->list[i].heed_count; n++)
			if (heed_ends(next, &now->list[i].heeds[n], now_s))
				return true;
	return false;
}
