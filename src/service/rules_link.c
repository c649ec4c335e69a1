/* Linking: what refers to what among the rules of a set. */
#include "service/rules_link.h"
#include "service/rule_tally.h"

#include <stdlib.h>

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

void rules_link(struct rules *rules, struct fields *f)
{
	sort(rules, f);
	check_refs(rules, f);
	link_devices(rules, f);
	rule_tally_attach(rules);
}
