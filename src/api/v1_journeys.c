/* See v1_journeys.h. */
#include "api/v1_journeys.h"

void v1_every_journey(struct v1_call *c, const struct rules *rules)
{
	for (uint32_t i = 0; i < rules->journey_count; i++)
		v1_resource(c, "journey", rules->journeys[i].name);
}

void v1_any_journey(struct v1_call *c, const struct rules *rules)
{
	v1_every_journey(c, rules);
	c->any_will_do = true;
}

/* What stands in a key's first place, as a resource. */
static const char *resource_of(struct bytes journey, struct bytes *name)
{
	bool intervention = bytes_is(journey, KEY_INTERVENTION);

	*name = journey;
	if (!intervention && !bytes_is(journey, KEY_EMAIL_FRAUD))
		return "journey";
	*name = bytes_of(state_family_names[intervention ? FAMILY_INTERVENTION : FAMILY_EMAIL_FRAUD]);
	return "state";
}

void v1_any_row(struct v1_call *c, const struct rules *rules, struct bytes prefix)
{
	struct bytes name;
	const char  *kind = resource_of(key_split(prefix).journey, &name);

	if (prefix.len > 0) {
		v1_resource(c, kind, name);
		return;
	}
	v1_any_journey(c, rules);
	for (int i = 0; state_family_names[i] != NULL; i++)
		v1_resource(c, "state", bytes_of(state_family_names[i]));
}

static enum decision decide_on(const struct v1_call *c, struct bytes journey, struct err *err)
{
	struct bytes name;
	const char  *kind = resource_of(journey, &name);

	return v1_decide(c, kind, name, err);
}

bool v1_sees(void *call, struct bytes journey)
{
	return decide_on(call, journey, NULL) == DECISION_ALLOWED;
}

enum err_code v1_check_sees(struct v1_call *c, struct bytes journey, struct err *err)
{
	return decide_on(c, journey, err) == DECISION_ALLOWED ? ERR_NONE : err->code;
}

/* Rows of one journey follow each other, and so one question does for them all. */
void v1_hide_rows(struct v1_call *c, struct subject *s)
{
	struct bytes journey = {NULL, 0};
	uint32_t     kept = 0;
	bool         seen = false;

	for (uint32_t i = 0; i < s->count; i++) {
		if (i == 0 || !bytes_equal(s->rows[i].key.journey, journey)) {
			journey = s->rows[i].key.journey;
			seen = v1_sees(c, journey);
		}
		if (seen)
			s->rows[kept++] = s->rows[i];
	}
	s->count = kept;
}

enum err_code v1_check_follows(struct v1_call *c, const struct rule *rule, const struct rule_refs *refs,
                               struct err *err)
{
	for (uint32_t i = 0; i < refs->count; i++)
		if (!bytes_equal(refs->list[i].journey, rule->journey) &&
		    v1_check_denied(c, "journey", refs->list[i].journey, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}
