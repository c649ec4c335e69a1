/* Limit calls: reading. */
#include <stdio.h>

#include "api/limit_call.h"

struct limit_policies *limit_call_policies(struct v1_call *c)
{
	struct limit_policies *set = limits_policies(c->services->limits);

	v1_hold(c, &set->base);
	return set;
}

static const struct limit_policy *read_policy(struct v1_call *c, struct fields *f,
                                              const struct limit_policies *set)
{
	struct bytes               name = fields_text(f, "policy", LIMIT_NAME_MAX);
	const struct limit_policy *policy = limit_policies_find(set, name);

	if (policy == NULL)
		fields_fail(f, "policy", ERR_INVALID,
		            "unknown policy; GET /v1/policies/limits shows them all");
	else
		v1_resource(c, "limit", policy->name);
	return policy;
}

struct limit_key limit_call_read_key(struct v1_call *c, struct fields *f, const struct json *member)
{
	struct bytes     text = identifier_read_key(&c->services->identifiers, c->arena, f, "key", member);
	struct limit_key key = limit_key_plain(text);

	if (f->err->code != ERR_NONE || member->type != JSON_OBJECT)
		return key;
	key.hashed = true;
	key.is_address = bytes_is(member->children->name, "ip") &&
	                 identifier_ip_parse(member->children->text, key.address);
	return key;
}

void limit_call_read(struct v1_call *c, struct fields *f, const struct limit_policies *set,
                     struct limit_call *out)
{
	const struct limit_policy *policy = read_policy(c, f, set);
	struct limit_key           key = limit_call_read_key(c, f, fields_get(f, "key"));
	int64_t                    cost = fields_i64_or(f, "cost", 0, LIMIT_UNITS_MAX, 1);

	if (f->err->code != ERR_NONE)
		return;
	if (key.text.len > LIMIT_KEY_MAX)
		fields_fail(f, "key", ERR_INVALID, "must have 1 to %d bytes, not %zu", LIMIT_KEY_MAX,
		            key.text.len);
	else if (!limit_call_add(out, c->arena, policy, &key, (uint64_t)cost))
		fields_fail(f, "key", ERR_INVALID,
		            "given twice for the same policy; each key may be asked about once per call");
}

void limit_call_read_list(struct v1_call *c, struct fields *f, const char *name,
                          const struct limit_policies *set, struct limit_call *out)
{
	const struct json *list = fields_array(f, name, LIMIT_ASKS_MAX);
	unsigned           at = 0;

	if (list != NULL && list->count == 0)
		fields_fail(f, name, ERR_INVALID, "must not be empty");
	for (const struct json *m = list == NULL ? NULL : list->children; m != NULL; m = m->next, at++) {
		struct bytes  place = arena_printf(c->arena, "%s[%u]", name, at);
		struct fields one;

		fields_enter(&one, f, place, m);
		limit_call_read(c, &one, set, out);
		fields_end(&one);
	}
}
