/* Rules: finding, linking, tallying. rules_read.c reads them. */
#include "service/rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "service/heed.h"

bool rule_name_is(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (!(c >= 'A' && c <= 'Z') && (i == 0 || !((c >= '0' && c <= '9') || c == '_')))
			return false;
	}
	return text.len >= 1 && text.len <= RULE_NAME_MAX;
}

static int order(const struct rule *r, struct bytes journey, struct bytes type, struct bytes method)
{
	int by = bytes_compare(r->journey, journey);

	if (by == 0)
		by = bytes_compare(r->type, type);
	return by != 0 ? by : bytes_compare(r->method, method);
}

/* The index of the first rule that is not before it. */
static uint32_t lower_bound(const struct rules *r, struct bytes journey, struct bytes type,
                            struct bytes method)
{
	uint32_t low = 0, high = r->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (order(&r->list[middle], journey, type, method) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const struct rule *find(const struct rules *r, struct bytes journey, struct bytes type,
                               struct bytes method)
{
	uint32_t at = lower_bound(r, journey, type, method);

	return at < r->count && order(&r->list[at], journey, type, method) == 0 ? &r->list[at] : NULL;
}

const struct rule *rules_find(const struct rules *r, struct bytes journey, struct bytes type,
                              struct bytes method)
{
	const struct rule *own = method.len > 0 ? find(r, journey, type, method) : NULL;

	return own != NULL ? own : find(r, journey, type, (struct bytes){NULL, 0});
}

const struct rule *rules_of_type(const struct rules *r, struct bytes journey, struct bytes type,
                                 uint32_t *count)
{
	uint32_t first = lower_bound(r, journey, type, (struct bytes){NULL, 0}), end = first;

	while (end < r->count && order(&r->list[end], journey, type, r->list[end].method) == 0)
		end++;
	*count = end - first;
	return end == first ? NULL : &r->list[first];
}

const struct rule *rules_type_meant(const struct rules *r, struct bytes journey, struct bytes type)
{
	const struct rule *meant = NULL;
	size_t             least = SIZE_MAX;

	for (uint32_t i = 0; i < r->count; i++) {
		size_t typos = bytes_equal(r->list[i].journey, journey) ? bytes_typos(type, r->list[i].type)
		                                                        : SIZE_MAX;

		if (typos >= least)
			continue;
		meant = &r->list[i];
		least = typos;
	}
	return meant;
}

const struct journey *rules_journey(const struct rules *r, struct bytes name)
{
	for (uint32_t i = 0; i < r->journey_count; i++)
		if (bytes_equal(r->journeys[i].name, name))
			return &r->journeys[i];
	return NULL;
}

const struct lock_kind *rules_kind(const struct rules *r, struct bytes name)
{
	for (uint32_t i = 0; i < r->kind_count; i++)
		if (bytes_equal(r->kinds[i].name, name))
			return &r->kinds[i];
	return NULL;
}

const struct reset *rules_reset(const struct rules *r, struct bytes name)
{
	for (uint32_t i = 0; i < r->reset_count; i++)
		if (bytes_equal(r->resets[i].name, name))
			return &r->resets[i];
	return NULL;
}

bool rule_refs_have(const struct rule_refs *refs, struct bytes journey, struct bytes name)
{
	for (uint32_t i = 0; i < refs->count; i++)
		if (bytes_equal(refs->list[i].journey, journey) && bytes_equal(refs->list[i].name, name))
			return true;
	return false;
}

static bool is_consecutive(const struct rules *r, struct bytes journey, struct bytes name)
{
	const struct consecutive *c = &r->consecutive;

	return c->max > 0 && bytes_equal(c->sets.journey, journey) && bytes_equal(c->sets.name, name);
}

bool rules_has_lock(const struct rules *r, struct bytes journey, struct bytes name)
{
	const struct journey *j = rules_journey(r, journey);

	for (uint32_t i = 0; j != NULL && i < j->lock_count; i++)
		if (bytes_equal(j->locks[i], name))
			return true;
	if (is_consecutive(r, journey, name))
		return true;
	for (uint32_t i = 0; i < r->count; i++)
		if (rule_refs_have(&r->list[i].sets, journey, name) ||
		    rule_refs_have(&r->list[i].source_sets, journey, name))
			return true;
	return false;
}

bool lock_kind_grows(const struct lock_kind *kind)
{
	return kind != NULL && kind->duration_s > 0 && (kind->factor != 1 || kind->then != NULL);
}

static uint32_t kind_rows(const struct lock_kind *kind)
{
	return lock_kind_grows(kind) ? 2 : 1;
}

static uint32_t locks_times(const struct rule *rule, uint32_t subjects, uint32_t own, uint32_t source)
{
	uint32_t rows = 0;

	if (rule->max > 0 || rule->max_each > 0)
		rows += subjects * own;
	if (rule->max_pair > 0)
		rows += subjects * source;
	rows *= rule->sets.count;
	if (rule->streak && rows < subjects) /* its lock takes the place of the subject's */
		rows = subjects;
	if (rule->max_source > 0 && rule->locks_sources)
		rows += source;
	if (rule->max_network > 0 && rule->locks_sources)
		rows += source;
	return rows;
}

uint32_t rule_lock_count(const struct rule *rule, uint32_t subjects)
{
	return locks_times(rule, subjects, 1, 1);
}

uint32_t rule_lock_rows(const struct rule *rule, uint32_t subjects)
{
	return locks_times(rule, subjects, kind_rows(rule->lock), kind_rows(rule->source_lock));
}

int rules_allowed_bits(const struct rules *r, const uint8_t address[16])
{
	int widest = -1;

	for (uint32_t i = 0; i < r->allowed_count; i++)
		if (network_holds(&r->allowed[i], address) &&
		    (widest < 0 || (int)r->allowed[i].bits < widest))
			widest = (int)r->allowed[i].bits;
	return widest;
}

bool rules_deny_source(const struct rules *r, const uint8_t address[16])
{
	for (uint32_t i = 0; i < r->denied_count; i++)
		if (network_holds(&r->denied[i], address))
			return true;
	return false;
}

/* ---- tallies ---- */

static bool same_type(const struct rule *a, const struct rule *b)
{
	return bytes_equal(a->journey, b->journey) && bytes_equal(a->type, b->type);
}

/* Rules of one type, whatever the method, share a set. They are sorted already. */
static void tally_attach(struct rules *rules)
{
	for (uint32_t i = 0; i < rules->count; i++) {
		struct rule *rule = &rules->list[i];

		rule->tally = i > 0 && same_type(rule, rule - 1)
		                      ? rule[-1].tally
		                      : arena_zalloc(&rules->base.arena, sizeof(*rule->tally));
		rule->tally->at_risk |= rule->challenge_from > 0 || rule->blocked_from > 0;
	}
}

void rule_tally_risk(const struct rule *rule, const struct verdict *v)
{
	if (v->kind != VERDICT_ALLOW && strcmp(v->reason, VERDICT_REASON_RISK) == 0)
		metric_add(&rule->tally->risks[v->kind], 1);
}

static void add(struct metric_counter *to, const struct metric_counter *from)
{
	metric_add(to, metric_value(from));
}

static void add_all(struct rule_tally *to, const struct rule_tally *from)
{
	for (int v = 0; v < VERDICT_COUNT; v++) {
		for (int q = 0; q < RULE_QUESTION_COUNT; q++)
			add(&to->verdicts[q][v], &from->verdicts[q][v]);
		add(&to->shadows[v], &from->shadows[v]);
		add(&to->risks[v], &from->risks[v]);
	}
	for (int o = 0; o <= OUTCOME_COUNT; o++) {
		add(&to->attempts[o][false], &from->attempts[o][false]);
		add(&to->attempts[o][true], &from->attempts[o][true]);
	}
	add(&to->locks_set, &from->locks_set);
	add(&to->sources_locked, &from->sources_locked);
}

void rule_tally_note(const struct rule *rule, const struct tally_note *note)
{
	struct rule_tally *tally = rule->tally;

	metric_add(&tally->verdicts[ASKED_ATTEMPT][note->verdict], 1);
	if (rule->shadow)
		metric_add(&tally->shadows[note->shadow], 1);
	if (note->locked && !rule->shadow)
		metric_add(&tally->locks_set, 1);
	if (note->source_locked && !rule->shadow)
		metric_add(&tally->sources_locked, 1);
}

void rule_tally_attempt(const struct rule *rule, enum outcome outcome, enum verdict_kind verdict)
{
	metric_add(&rule->tally->attempts[outcome][verdict > VERDICT_CHALLENGE], 1);
}

void rule_tally_inherit(struct document *next, const struct document *now)
{
	const struct rules *from = (const struct rules *)now;
	struct rules       *to = (struct rules *)next;

	for (uint32_t i = 0; i < to->count; i++) {
		const struct rule *old;
		uint32_t           count;

		if (i > 0 && to->list[i].tally == to->list[i - 1].tally)
			continue;
		old = rules_of_type(from, to->list[i].journey, to->list[i].type, &count);
		if (old != NULL)
			add_all(to->list[i].tally, old->tally);
	}
}

/* ---- linking ---- */

static bool refs_known(const struct rules *rules, const struct rule_refs *refs, bool locks,
                       struct rule_ref *missing)
{
	for (uint32_t i = 0; i < refs->count; i++) {
		const struct rule_ref *ref = &refs->list[i];
		uint32_t               count;

		*missing = *ref;
		if (locks ? !rules_has_lock(rules, ref->journey, ref->name)
		          : rules_of_type(rules, ref->journey, ref->name, &count) == NULL)
			return false;
	}
	return true;
}

static void check_refs(const struct rules *rules, struct fields *f)
{
	struct rule_ref missing;

	for (uint32_t i = 0; i < rules->count; i++) {
		const struct rule *rule = &rules->list[i];

		if (rule_lock_rows(rule, 1) > LOCK_ROWS_MAX)
			fields_fail(
			        f, "journeys", ERR_INVALID,
			        "%.*s/%.*s sets more locks than one attempt can set: name fewer in `sets`",
			        BYTES_ARG(rule->journey), BYTES_ARG(rule->type));
		if (!refs_known(rules, &rule->clears, false, &missing))
			fields_fail(
			        f, "journeys", ERR_INVALID,
			        "%.*s/%.*s: `clears` names %.*s/%.*s, which is not a type in these policies",
			        BYTES_ARG(rule->journey), BYTES_ARG(rule->type), BYTES_ARG(missing.journey),
			        BYTES_ARG(missing.name));
		if (!refs_known(rules, &rule->blocked_by, true, &missing))
			fields_fail(f, "journeys", ERR_INVALID,
			            "%.*s/%.*s: `blocked_by` names %.*s/%.*s, which is not a lock in these "
			            "policies",
			            BYTES_ARG(rule->journey), BYTES_ARG(rule->type),
			            BYTES_ARG(missing.journey), BYTES_ARG(missing.name));
	}
	for (uint32_t i = 0; i < rules->reset_count; i++)
		if (!refs_known(rules, &rules->resets[i].counts, false, &missing) ||
		    !refs_known(rules, &rules->resets[i].locks, true, &missing))
			fields_fail(f, "resets", ERR_INVALID,
			            "%.*s names %.*s/%.*s, which is not in these policies",
			            BYTES_ARG(rules->resets[i].name), BYTES_ARG(missing.journey),
			            BYTES_ARG(missing.name));
}

static int by_name(const void *left, const void *right)
{
	const struct rule *a = left, *b = right;
	int                by = bytes_compare(a->journey, b->journey);

	if (by == 0)
		by = bytes_compare(a->type, b->type);
	return by != 0 ? by : bytes_compare(a->method, b->method);
}

static void sort(struct rules *rules, struct fields *f)
{
	qsort(rules->list, rules->count, sizeof(struct rule), by_name);
	for (uint32_t i = 1; i < rules->count; i++)
		if (by_name(&rules->list[i - 1], &rules->list[i]) == 0)
			fields_fail(f, "journeys", ERR_INVALID, "%.*s/%.*s is defined twice",
			            BYTES_ARG(rules->list[i].journey), BYTES_ARG(rules->list[i].type));
}

/* ---- who makes a device known ---- */

static void remember_for(struct rule *rule, const struct rule *lane)
{
	if (rule->remember_s < lane->known_s)
		rule->remember_s = lane->known_s;
	if (rule->remember_devices == 0 || rule->remember_devices > lane->devices)
		rule->remember_devices = lane->devices;
}

/* Of a type that is named, the rules of all its methods do. */
static void remember_after(struct rules *rules, const struct rule *lane, const struct rule_ref *ref,
                           struct fields *f)
{
	uint32_t           count = 0;
	const struct rule *named = rules_of_type(rules, ref->journey, ref->name, &count);

	if (named == NULL)
		fields_fail(f, "journeys", ERR_INVALID,
		            "%.*s/%.*s: `known_device.after` names %.*s/%.*s, which is not a type in these "
		            "policies",
		            BYTES_ARG(lane->journey), BYTES_ARG(lane->type), BYTES_ARG(ref->journey),
		            BYTES_ARG(ref->name));
	for (uint32_t i = 0; i < count; i++)
		remember_for(&rules->list[named - rules->list + i], lane);
}

/* A type that tells its counts apart by method is a second factor: where a journey has one, the first alone does not make
 * a device known. */
static bool is_second_factor(const struct rule *rule, const struct rule *lane)
{
	return bytes_equal(rule->journey, lane->journey) && !bytes_equal(rule->type, lane->type) &&
	       rule->counts == COUNT_FAILURE && rule->qualifier == QUALIFY_METHOD;
}

/* Unless the policy names them: the second factors of the journey, or, if it has none, the type itself. */
static void after_default(struct rules *rules, struct rule *lane)
{
	struct rule_refs *after = &lane->known_after;

	after->list = arena_array(&rules->base.arena, RULE_LIST_MAX, sizeof(*after->list));
	for (uint32_t i = 0; i < rules->count && after->count < RULE_LIST_MAX; i++) {
		const struct rule *rule = &rules->list[i];

		if (is_second_factor(rule, lane) &&
		    (after->count == 0 || !bytes_equal(after->list[after->count - 1].name, rule->type)))
			after->list[after->count++] = (struct rule_ref){rule->journey, rule->type};
	}
	if (after->count == 0)
		after->list[after->count++] = (struct rule_ref){lane->journey, lane->type};
}

static void link_devices(struct rules *rules, struct fields *f)
{
	for (uint32_t i = 0; i < rules->count; i++) {
		struct rule *lane = &rules->list[i];

		if (lane->max_device > 0 && lane->known_after.count == 0)
			after_default(rules, lane);
		for (uint32_t j = 0; j < lane->known_after.count; j++)
			remember_after(rules, lane, &lane->known_after.list[j], f);
	}
}

/* ---- locks that there may be ---- */

static bool has_types(const struct rules *rules, struct bytes journey)
{
	for (uint32_t i = 0; i < rules->count; i++)
		if (bytes_equal(rules->list[i].journey, journey))
			return true;
	return false;
}

void rules_list_lock(struct rules *rules, const struct rule_ref *ref, bool by_rule)
{
	struct arena     *a = &rules->base.arena;
	struct lock_known lock = {
	        key_name(a, ref->journey, BYTES(KEY_LOCK), ref->name, (struct bytes){NULL, 0}),
	        !by_rule && !has_types(rules, ref->journey)};

	for (uint32_t i = 0; i < rules->lock_count; i++)
		if (bytes_equal(rules->locks[i].sk, lock.sk)) {
			rules->locks[i].only_people &= lock.only_people;
			return;
		}
	if (rules->lock_count == rules->lock_room) {
		struct lock_known *more =
		        arena_array(a, rules->lock_room = 2 * rules->lock_room + 16, sizeof(*more));

		if (rules->lock_count > 0)
			memcpy(more, rules->locks, rules->lock_count * sizeof(*more));
		rules->locks = more;
	}
	rules->locks[rules->lock_count++] = lock;
}

/* Those that only people set; heeds_link adds what rules heed. */
static void locks_list(struct rules *rules)
{
	for (uint32_t i = 0; i < rules->journey_count; i++)
		for (uint32_t n = 0; n < rules->journeys[i].lock_count; n++)
			rules_list_lock(
			        rules,
			        &(struct rule_ref){rules->journeys[i].name, rules->journeys[i].locks[n]},
			        is_consecutive(rules, rules->journeys[i].name, rules->journeys[i].locks[n]));
}

/* ---- consecutive failures ---- */

/* The setting in which something is wrong, within `consecutive`. */
static void consecutive_fail(const struct fields *f, const char *setting, const char *format, ...)
{
	char          text[ERR_TEXT_MAX / 2];
	struct fields in;
	va_list       args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fields_enter(&in, f, BYTES("consecutive"), json_get(f->object, BYTES("consecutive")));
	fields_fail(&in, setting, ERR_INVALID, "%s", text);
}

static void link_types(struct rules *rules, const struct rule_refs *refs, bool ends, const struct fields *f)
{
	for (uint32_t i = 0; i < refs->count; i++) {
		const struct rule_ref *ref = &refs->list[i];
		uint32_t               count = 0;
		const struct rule     *named = rules_of_type(rules, ref->journey, ref->name, &count);

		if (named == NULL || named->counts != COUNT_FAILURE || (ends && !named->streak))
			consecutive_fail(f, ends ? "ended_by" : "of", "names %.*s/%.*s, which is not %s",
			                 BYTES_ARG(ref->journey), BYTES_ARG(ref->name),
			                 ends ? "in `of`" : "a type that counts failures");
		for (uint32_t j = 0; j < count; j++) {
			struct rule *rule = &rules->list[named - rules->list + j];

			rule->streak |= !ends;
			rule->ends_streak |= ends;
		}
	}
}

/* The type that it is called as, or that sets it; NULL: none. */
static const struct rule *lock_type(const struct rules *rules, const struct rule_ref *lock)
{
	uint32_t           count;
	const struct rule *named = rules_of_type(rules, lock->journey, lock->name, &count);

	for (uint32_t i = 0; named == NULL && i < rules->count; i++)
		if (rule_refs_have(&rules->list[i].sets, lock->journey, lock->name))
			named = &rules->list[i];
	return named;
}

/* Its row holds more than a lock (streak.h, 1): nothing else may write there. */
static void check_consecutive_lock(const struct rules *rules, const struct fields *f)
{
	const struct rule_ref *lock = &rules->consecutive.sets;
	const struct rule     *type = lock_type(rules, lock);

	if (bytes_is(lock->name, LOCK_OF_SOURCE))
		consecutive_fail(f, "sets",
		                 LOCK_OF_SOURCE " is the lock of a journey's sources; choose another name");
	else if (rules_journey(rules, lock->journey) == NULL)
		consecutive_fail(f, "sets", "unknown journey %.*s; define it under `journeys`",
		                 BYTES_ARG(lock->journey));
	else if (type != NULL)
		consecutive_fail(
		        f, "sets",
		        "%.*s/%.*s is the lock of a type, %.*s; choose a name that no type has or sets",
		        BYTES_ARG(lock->journey), BYTES_ARG(lock->name), BYTES_ARG(type->name));
}

static void link_consecutive(struct rules *rules, const struct fields *f)
{
	struct consecutive *c = &rules->consecutive;
	struct arena       *a = &rules->base.arena;

	for (uint32_t i = 0; i < rules->count; i++)
		rules->list[i].name = arena_printf(a, "%.*s/%.*s", BYTES_ARG(rules->list[i].journey),
		                                   BYTES_ARG(rules->list[i].type));
	if (c->max == 0)
		return;
	c->sk = key_name(a, c->sets.journey, BYTES(KEY_LOCK), c->sets.name, (struct bytes){NULL, 0});
	check_consecutive_lock(rules, f);
	c->name = arena_printf(a, "%.*s/%.*s", BYTES_ARG(c->sets.journey), BYTES_ARG(c->sets.name));
	link_types(rules, &c->of, false, f);
	link_types(rules, &c->ended_by, true, f);
}

void rules_link(struct rules *rules, struct fields *f)
{
	sort(rules, f);
	link_consecutive(rules, f);
	check_refs(rules, f);
	link_devices(rules, f);
	tally_attach(rules);
	locks_list(rules);
	heeds_link(rules);
}
