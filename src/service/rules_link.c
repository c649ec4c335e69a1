/* Linking: what refers to what among the rules of a set. */
#include "service/rules_link.h"

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

		if (!refs_known(rules, &rule->clears, false, &missing))
			fields_fail(f, "journeys", ERR_INVALID,
			            "%.*s/%.*s clears %.*s/%.*s, which is no type", BYTES_ARG(rule->journey),
			            BYTES_ARG(rule->type), BYTES_ARG(missing.journey),
			            BYTES_ARG(missing.name));
		if (!refs_known(rules, &rule->blocked_by, true, &missing))
			fields_fail(f, "journeys", ERR_INVALID,
			            "%.*s/%.*s is blocked by %.*s/%.*s, which is no lock",
			            BYTES_ARG(rule->journey), BYTES_ARG(rule->type),
			            BYTES_ARG(missing.journey), BYTES_ARG(missing.name));
	}
	for (uint32_t i = 0; i < rules->reset_count; i++)
		if (!refs_known(rules, &rules->resets[i].counts, false, &missing) ||
		    !refs_known(rules, &rules->resets[i].locks, true, &missing))
			fields_fail(f, "resets", ERR_INVALID, "%.*s: there is no %.*s/%.*s",
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
			fields_fail(f, "journeys", ERR_INVALID, "%.*s/%.*s is there twice",
			            BYTES_ARG(rules->list[i].journey), BYTES_ARG(rules->list[i].type));
}

/* ---- who makes a device known ---- */

static void remember_at_least(struct rule *rule, int64_t seconds)
{
	if (rule->remember_s < seconds)
		rule->remember_s = seconds;
}

/* Of a type that is named, the rules of all its methods do. */
static void remember_after(struct rules *rules, const struct rule *lane, const struct rule_ref *ref,
                           struct fields *f)
{
	uint32_t           count = 0;
	const struct rule *named = rules_of_type(rules, ref->journey, ref->name, &count);

	if (named == NULL)
		fields_fail(f, "journeys", ERR_INVALID,
		            "%.*s/%.*s knows devices after %.*s/%.*s, which is no type",
		            BYTES_ARG(lane->journey), BYTES_ARG(lane->type), BYTES_ARG(ref->journey),
		            BYTES_ARG(ref->name));
	for (uint32_t i = 0; i < count; i++)
		remember_at_least(&rules->list[named - rules->list + i], lane->known_s);
}

static void link_devices(struct rules *rules, struct fields *f)
{
	for (uint32_t i = 0; i < rules->count; i++) {
		struct rule *lane = &rules->list[i];

		for (uint32_t j = 0; j < lane->known_after.count; j++)
			remember_after(rules, lane, &lane->known_after.list[j], f);
		if (lane->known_after.count == 0)
			remember_at_least(lane, lane->known_s);
	}
}

void rules_link(struct rules *rules, struct fields *f)
{
	sort(rules, f);
	check_refs(rules, f);
	link_devices(rules, f);
}
