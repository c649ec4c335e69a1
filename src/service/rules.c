/* Rules: finding. */
#include "service/rules.h"

#include <stdlib.h>

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

static bool refs_have(const struct rule_refs *refs, struct bytes journey, struct bytes name)
{
	for (uint32_t i = 0; i < refs->count; i++)
		if (bytes_equal(refs->list[i].journey, journey) && bytes_equal(refs->list[i].name, name))
			return true;
	return false;
}

bool rules_has_lock(const struct rules *r, struct bytes journey, struct bytes name)
{
	const struct journey *j = rules_journey(r, journey);

	for (uint32_t i = 0; j != NULL && i < j->lock_count; i++)
		if (bytes_equal(j->locks[i], name))
			return true;
	for (uint32_t i = 0; i < r->count; i++)
		if (refs_have(&r->list[i].sets, journey, name))
			return true;
	return false;
}

bool rule_heeds(const struct rule *rule, enum lock_reach reach, bool own, bool persons)
{
	switch (reach) {
	case REACH_SUBJECT:
		return true;
	case REACH_QUALIFIER:
		return own && rule->qualifier != QUALIFY_NONE;
	case REACH_SOURCE:
		return persons || (own && rule->max_source > 0 && !rule->shadow);
	case REACH_PAIR:
		return own && rule->max_pair > 0 && !rule->shadow;
	}
	return false;
}

bool rules_heed(const struct rules *r, const struct rule_ref *lock, enum lock_reach reach, bool persons)
{
	for (uint32_t i = 0; i < r->count; i++) {
		const struct rule *rule = &r->list[i];

		if ((refs_have(&rule->sets, lock->journey, lock->name) &&
		     rule_heeds(rule, reach, true, persons)) ||
		    (refs_have(&rule->blocked_by, lock->journey, lock->name) &&
		     rule_heeds(rule, reach, false, persons)))
			return true;
	}
	return false;
}

static uint32_t kind_rows(const struct lock_kind *kind)
{
	bool grows = kind != NULL && kind->duration_s > 0 && (kind->factor != 1 || kind->then != NULL);

	return grows ? 2 : 1;
}

uint32_t rule_lock_rows(const struct rule *rule, uint32_t subjects)
{
	uint32_t own = kind_rows(rule->lock), source = kind_rows(rule->source_lock), rows = 0;

	if (rule->max > 0 || rule->max_each > 0)
		rows += subjects * own;
	if (rule->max_pair > 0)
		rows += subjects * source;
	if (rule->max_source > 0)
		rows += source;
	return rule->sets.count * rows;
}

static bool networks_hold(const struct network *list, uint32_t count, const uint8_t address[16])
{
	for (uint32_t i = 0; i < count; i++)
		if (network_holds(&list[i], address))
			return true;
	return false;
}

bool rules_allow_source(const struct rules *r, const uint8_t address[16])
{
	return networks_hold(r->allowed, r->allowed_count, address);
}

bool rules_deny_source(const struct rules *r, const uint8_t address[16])
{
	return networks_hold(r->denied, r->denied_count, address);
}
