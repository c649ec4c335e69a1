/* Policy names: the tables of condition keys, operators and actions that touch items, and how to look things
 * up in them. A name that is not here is unknown, and whatever is unknown is refused by the parser. */
#include "access/policy_model.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const struct access_key_row keys[] = {
#define X(id, name, type, traits) [id] = {BYTES_INIT(name), type, traits},
        ACCESS_KEYS(X)
#undef X
};

static const struct relation relations[] = {
        {BYTES_INIT("StringEquals"), FAMILY_TEXT, COMPARE_EQUAL, false},
        {BYTES_INIT("StringNotEquals"), FAMILY_TEXT, COMPARE_EQUAL, true},
        {BYTES_INIT("StringEqualsIgnoreCase"), FAMILY_TEXT, COMPARE_FOLDED, false},
        {BYTES_INIT("StringNotEqualsIgnoreCase"), FAMILY_TEXT, COMPARE_FOLDED, true},
        {BYTES_INIT("StringLike"), FAMILY_TEXT, COMPARE_LIKE, false},
        {BYTES_INIT("StringNotLike"), FAMILY_TEXT, COMPARE_LIKE, true},
        {BYTES_INIT("IpAddress"), FAMILY_IP, COMPARE_EQUAL, false},
        {BYTES_INIT("NotIpAddress"), FAMILY_IP, COMPARE_EQUAL, true},
        {BYTES_INIT("Bool"), FAMILY_TRUTH, COMPARE_EQUAL, false},
        {BYTES_INIT("NumericEquals"), FAMILY_NUMBER, COMPARE_EQUAL, false},
        {BYTES_INIT("NumericNotEquals"), FAMILY_NUMBER, COMPARE_EQUAL, true},
        {BYTES_INIT("NumericLessThan"), FAMILY_NUMBER, COMPARE_LESS, false},
        {BYTES_INIT("NumericLessThanEquals"), FAMILY_NUMBER, COMPARE_LESS_EQUAL, false},
        {BYTES_INIT("NumericGreaterThan"), FAMILY_NUMBER, COMPARE_GREATER, false},
        {BYTES_INIT("NumericGreaterThanEquals"), FAMILY_NUMBER, COMPARE_GREATER_EQUAL, false},
        {BYTES_INIT("DateEquals"), FAMILY_DATE, COMPARE_EQUAL, false},
        {BYTES_INIT("DateNotEquals"), FAMILY_DATE, COMPARE_EQUAL, true},
        {BYTES_INIT("DateLessThan"), FAMILY_DATE, COMPARE_LESS, false},
        {BYTES_INIT("DateLessThanEquals"), FAMILY_DATE, COMPARE_LESS_EQUAL, false},
        {BYTES_INIT("DateGreaterThan"), FAMILY_DATE, COMPARE_GREATER, false},
        {BYTES_INIT("DateGreaterThanEquals"), FAMILY_DATE, COMPARE_GREATER_EQUAL, false},
        {BYTES_INIT("Null"), FAMILY_NULL, COMPARE_EQUAL, false},
};

static const struct bytes item_actions[] = {
        BYTES_INIT("dynamodb:getitem"),
        BYTES_INIT("dynamodb:batchgetitem"),
        BYTES_INIT("dynamodb:query"),
        BYTES_INIT("dynamodb:scan"),
        BYTES_INIT("dynamodb:putitem"),
        BYTES_INIT("dynamodb:updateitem"),
        BYTES_INIT("dynamodb:deleteitem"),
        BYTES_INIT("dynamodb:batchwriteitem"),
        BYTES_INIT("dynamodb:conditioncheckitem"),
        BYTES_INIT("dynamodb:transactgetitems"),
        BYTES_INIT("dynamodb:transactwriteitems"),
        BYTES_INIT("dynamodb:partiqlselect"),
        BYTES_INIT("dynamodb:partiqlinsert"),
        BYTES_INIT("dynamodb:partiqlupdate"),
        BYTES_INIT("dynamodb:partiqldelete"),
};

const struct access_key_row *access_key_row(enum access_key key)
{
	return &keys[key];
}

static bool equal_folded(struct bytes a, struct bytes b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (ascii_lower(a.data[i]) != ascii_lower(b.data[i]))
			return false;
	return true;
}

enum access_key access_key_find(struct bytes name)
{
	unsigned i = 0;

	while (i < ACCESS_KEY_COUNT && !equal_folded(keys[i].name, name))
		i++;
	return (enum access_key)i;
}

const struct relation *relation_find(struct bytes name)
{
	for (size_t i = 0; i < COUNT(relations); i++)
		if (bytes_equal(relations[i].name, name))
			return &relations[i];
	return NULL;
}

bool relation_takes(const struct relation *relation, enum access_type type)
{
	switch (relation->family) {
	case FAMILY_TEXT:
		return type == ACCESS_TEXT;
	case FAMILY_IP:
		return type == ACCESS_IP;
	case FAMILY_TRUTH:
		return type == ACCESS_TRUTH;
	case FAMILY_NUMBER:
		return type == ACCESS_EPOCH;
	case FAMILY_DATE:
		return type == ACCESS_TIME || type == ACCESS_EPOCH;
	case FAMILY_NULL:
		return true;
	}
	return false;
}

bool action_touches_items(struct bytes action)
{
	for (size_t i = 0; i < COUNT(item_actions); i++)
		if (bytes_equal(item_actions[i], action))
			return true;
	return false;
}

void bytes_lower(struct bytes text, char *out)
{
	for (size_t i = 0; i < text.len; i++)
		out[i] = ascii_lower(text.data[i]);
}
