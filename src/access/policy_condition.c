/* Policy conditions: {"ForAllValues:StringEqualsIfExists": {"dynamodb:LeadingKeys": ["a", "b"]}}. Operators
 * and keys come from tables, and an operator takes only keys whose values it can compare: an address compared
 * as a text, or a list without ForAllValues or ForAnyValue, means something else than it seems to. */
#include "access/policy_parser.h"

/* ---- operators ---- */

static bool take_prefix(struct bytes *text, struct bytes prefix)
{
	if (!bytes_starts_with(*text, prefix))
		return false;
	*text = (struct bytes){text->data + prefix.len, text->len - prefix.len};
	return true;
}

static bool take_suffix(struct bytes *text, struct bytes suffix)
{
	size_t rest = text->len - suffix.len;

	if (text->len < suffix.len || memcmp(text->data + rest, suffix.data, suffix.len) != 0)
		return false;
	text->len = rest;
	return true;
}

/* [ForAllValues: | ForAnyValue:] name [IfExists] */
static enum err_code parse_relation(struct parser *p, struct bytes spelled, struct condition *out)
{
	struct bytes name = spelled;

	*out = (struct condition){.spelled = arena_copy(p->arena, spelled)};
	if (take_prefix(&name, BYTES("ForAllValues:")))
		out->quantifier = QUANTIFIER_ALL;
	else if (take_prefix(&name, BYTES("ForAnyValue:")))
		out->quantifier = QUANTIFIER_ANY;
	out->if_exists = take_suffix(&name, BYTES("IfExists"));
	out->relation = relation_find(name);
	if (out->relation == NULL)
		return parser_refuse(p, "unknown operator %s", quote(spelled).text);
	if (out->relation->family == FAMILY_NULL && (out->quantifier != QUANTIFIER_NONE || out->if_exists))
		return parser_refuse(p, "unknown operator %s: Null takes no prefix and no suffix",
		                     quote(spelled).text);
	return ERR_NONE;
}

/* ---- keys ---- */

static enum err_code check_key(struct parser *p, struct bytes name, struct condition *c)
{
	const struct access_key_row *row;

	c->key = access_key_find(name);
	if (c->key == ACCESS_KEY_COUNT)
		return parser_refuse(p, "unknown condition key %s", quote(name).text);
	row = access_key_row(c->key);
	p->key = row->name;
	if (!relation_takes(c->relation, row->type))
		return parser_refuse(p, "this operator cannot compare the values of this key");
	if ((row->traits & ACCESS_MANY) != 0 && c->quantifier == QUANTIFIER_NONE &&
	    c->relation->family != FAMILY_NULL)
		return parser_refuse(p, "a request can have several values of this key, so the operator "
		                        "needs ForAllValues: or ForAnyValue:");
	return ERR_NONE;
}

static enum err_code parse_key(struct parser *p, const struct json *json, struct condition *c)
{
	const struct json *value;

	if (check_key(p, json->name, c) != ERR_NONE ||
	    parser_list(p, json, &value, &c->operand_count) != ERR_NONE)
		return p->err->code;
	c->operands = arena_array(p->arena, c->operand_count, sizeof(*c->operands));
	for (size_t i = 0; i < c->operand_count; i++, value = value->next)
		if (parse_operand(p, value, c->relation, &c->operands[i]) != ERR_NONE)
			return p->err->code;
	return ERR_NONE;
}

/* ---- the element ---- */

static enum err_code check_object(struct parser *p, const struct json *json)
{
	if (json->type != JSON_OBJECT)
		return parser_refuse(p, "must be an object, not %s", json_type_name(json->type));
	if (json->count == 0)
		return parser_refuse(p, "must not be empty");
	if (json->count > POLICY_CONDITIONS_MAX)
		return parser_refuse(p, "must have at most %d members, not %u", POLICY_CONDITIONS_MAX,
		                     json->count);
	return parser_unique(p, json);
}

static enum err_code add_condition(struct parser *p, const struct json *json, const struct condition *model,
                                   struct statement *out)
{
	struct condition *c = &out->conditions[out->condition_count];

	p->key = (struct bytes){0};
	if (out->condition_count == POLICY_CONDITIONS_MAX)
		return parser_refuse(p, "must have at most %d conditions", POLICY_CONDITIONS_MAX);
	*c = *model;
	if (parse_key(p, json, c) != ERR_NONE)
		return p->err->code;
	p->keys |= 1u << c->key;
	out->condition_count++;
	return ERR_NONE;
}

/* Names of keys that differ only in case are one key. */
static enum err_code check_keys_differ(struct parser *p, const struct statement *s, size_t from)
{
	uint32_t seen = 0;

	for (size_t i = from; i < s->condition_count; i++) {
		if ((seen >> s->conditions[i].key & 1) != 0)
			return parser_refuse(p, "the key is given twice");
		seen |= 1u << s->conditions[i].key;
	}
	return ERR_NONE;
}

static enum err_code parse_block(struct parser *p, const struct json *block, struct statement *out)
{
	size_t           from = out->condition_count;
	struct condition model;

	p->key = (struct bytes){0};
	p->spelled = (struct bytes){0};
	if (parse_relation(p, block->name, &model) != ERR_NONE)
		return p->err->code;
	p->spelled = model.spelled;
	if (check_object(p, block) != ERR_NONE)
		return p->err->code;
	for (const struct json *key = block->children; key != NULL; key = key->next)
		if (add_condition(p, key, &model, out) != ERR_NONE ||
		    check_keys_differ(p, out, from) != ERR_NONE)
			return p->err->code;
	return ERR_NONE;
}

enum err_code parse_conditions(struct parser *p, const struct json *json, struct statement *out)
{
	if (check_object(p, json) != ERR_NONE)
		return p->err->code;
	out->conditions = arena_array(p->arena, POLICY_CONDITIONS_MAX, sizeof(*out->conditions));
	for (const struct json *block = json->children; block != NULL; block = block->next)
		if (parse_block(p, block, out) != ERR_NONE)
			return p->err->code;
	p->spelled = p->key = (struct bytes){0};
	return ERR_NONE;
}
