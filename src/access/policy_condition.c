/* Policy conditions: {"ForAllValues:StringEqualsIfExists": {"dynamodb:LeadingKeys": ["a", "b"]}}. Operators
 * and keys come from tables, and an operator takes only keys whose values it can compare: an address compared
 * as a text, or a list without ForAllValues or ForAnyValue, means something else than it seems to.
 *
 * Quotation marks around numbers and truths are optional, as in IAM. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "access/policy_model.h"
#include "base/date.h"

#define MICROS      1000000
#define SECONDS_MAX 253402300799 /* the last of the year 9999 */

/* ---- addresses ---- */

bool access_address_parse(struct bytes text, struct access_address *out)
{
	char           string[INET6_ADDRSTRLEN + 1];
	struct in_addr v4;

	if (text.len >= sizeof(string) || memchr(text.data, '\0', text.len) != NULL)
		return false;
	memcpy(string, text.data, text.len);
	string[text.len] = '\0';
	if (inet_pton(AF_INET, string, &v4) != 1)
		return inet_pton(AF_INET6, string, out->bytes) == 1;
	*out = (struct access_address){.bytes = {[10] = 0xFF, [11] = 0xFF}};
	memcpy(out->bytes + 12, &v4, sizeof(v4));
	return true;
}

static void address_mask(struct access_address *address, unsigned bits)
{
	for (unsigned i = 0; i < sizeof(address->bytes); i++) {
		unsigned keep = bits <= i * 8 ? 0 : bits - i * 8;

		if (keep < 8)
			address->bytes[i] &= (uint8_t)(0xFF00u >> keep);
	}
}

bool cidr_parse(struct bytes text, struct cidr *out)
{
	const char  *slash = memchr(text.data, '/', text.len);
	struct bytes address = {text.data, slash == NULL ? text.len : (size_t)(slash - text.data)};
	unsigned     start = memchr(text.data, ':', text.len) == NULL ? CIDR_BITS_V4 : 0;
	uint64_t     bits = CIDR_BITS - start;

	if (!access_address_parse(address, &out->address))
		return false;
	if (slash != NULL &&
	    !bytes_to_u64((struct bytes){slash + 1, text.len - address.len - 1}, CIDR_BITS - start, &bits))
		return false;
	out->bits = start + (unsigned)bits;
	address_mask(&out->address, out->bits);
	return true;
}

/* ---- truths and numbers ---- */

bool truth_parse(struct bytes text, bool *out)
{
	char lower[5];

	if (text.len > sizeof(lower))
		return false;
	bytes_lower(text, lower);
	*out = bytes_is((struct bytes){lower, text.len}, "true");
	return *out || bytes_is((struct bytes){lower, text.len}, "false");
}

/* [-]digits[.digits], at most SECONDS_MAX either way and six digits after the point. */
bool decimal_parse(struct bytes text, int64_t *micros)
{
	bool         minus = text.len > 0 && text.data[0] == '-';
	struct bytes digits = {text.data + minus, text.len - minus};
	const char  *point = memchr(digits.data, '.', digits.len);
	struct bytes whole = {digits.data, point == NULL ? digits.len : (size_t)(point - digits.data)};
	int64_t      fraction = 0;
	uint64_t     value;

	if (!bytes_to_u64(whole, SECONDS_MAX, &value))
		return false;
	if (point != NULL && !date_fraction((struct bytes){point + 1, digits.len - whole.len - 1}, &fraction))
		return false;
	*micros = (int64_t)value * MICROS + fraction;
	if (minus)
		*micros = -*micros;
	return true;
}

/* ---- dates ---- */

/* Four digits alone are refused: they may be meant as a year. */
bool date_parse(struct bytes text, int64_t *micros)
{
	uint64_t epoch;

	if (text.len == 4 || !bytes_to_u64(text, SECONDS_MAX, &epoch))
		return date_read_iso(text, micros);
	*micros = (int64_t)epoch * MICROS;
	return true;
}

/* ---- values from JSON ---- */

static bool is_ascii(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((uint8_t)text.data[i] >= 0x80)
			return false;
	return true;
}

static enum err_code parse_text_operand(struct parser *p, struct bytes text, enum comparison comparison,
                                        struct pattern *out)
{
	char *lower;

	*out = (struct pattern){PATTERN_LITERAL, text, text.len};
	if (comparison == COMPARE_LIKE) {
		*out = pattern_of(text);
		return parser_count_runs(p, text);
	}
	if (comparison != COMPARE_FOLDED)
		return ERR_NONE;
	if (!is_ascii(text))
		return parser_refuse(p, "%s must be ASCII, because this operator ignores case",
		                     quote(text).text);
	lower = arena_alloc(p->arena, text.len);
	bytes_lower(text, lower);
	out->text.data = lower;
	return ERR_NONE;
}

/* A value without quotation marks becomes the text it would have with them. */
static enum err_code operand_text(struct parser *p, const struct json *json, enum relation_family family,
                                  struct bytes *out)
{
	bool truths = family == FAMILY_TRUTH || family == FAMILY_NULL;
	bool numbers = family == FAMILY_NUMBER || family == FAMILY_DATE;

	if (truths && json->type == JSON_BOOL)
		*out = json_truth(json) ? BYTES("true") : BYTES("false");
	else if (numbers && json->type == JSON_INT)
		*out = arena_printf(p->arena, "%lld", (long long)json_integer(json));
	else
		return parser_text(p, json, POLICY_VALUE_BYTES_MAX, out);
	return ERR_NONE;
}

static enum err_code parse_operand(struct parser *p, const struct json *json, const struct relation *relation,
                                   union operand *out)
{
	struct bytes text;
	const char  *expected = NULL;

	if (operand_text(p, json, relation->family, &text) != ERR_NONE)
		return p->err->code;
	switch (relation->family) {
	case FAMILY_TEXT:
		return parse_text_operand(p, text, relation->comparison, &out->text);
	case FAMILY_IP:
		expected = cidr_parse(text, &out->range) ? NULL : "an address or a range such as 10.0.0.0/8";
		break;
	case FAMILY_TRUTH:
	case FAMILY_NULL:
		expected = truth_parse(text, &out->truth) ? NULL : "true or false";
		break;
	case FAMILY_NUMBER:
		expected = decimal_parse(text, &out->micros) ? NULL : "a number";
		break;
	case FAMILY_DATE:
		expected = date_parse(text, &out->micros) ? NULL : "a date such as 2024-05-01T10:00:00Z";
		break;
	}
	return expected == NULL ? ERR_NONE : parser_refuse(p, "%s is not %s", quote(text).text, expected);
}

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
	for (const struct json *key = json_children(block); key != NULL; key = key->next)
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
	for (const struct json *block = json_children(json); block != NULL; block = block->next)
		if (parse_block(p, block, out) != ERR_NONE)
			return p->err->code;
	p->spelled = p->key = (struct bytes){0};
	return ERR_NONE;
}
