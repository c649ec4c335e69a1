/* Policy evaluation: a request against statements. Nothing here allocates, and nothing can fail: whatever
 * could be wrong with a document was refused when it was parsed.
 *
 * What always holds: a statement applies when its actions, its resources and every one of its conditions do.
 * One Deny that applies decides; without it one Allow that applies; else the request is denied. */
#include <assert.h>

#include "access/policy_model.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* ---- names: the tables of condition keys, operators and actions that touch items. A name that is not here is unknown,
 * and whatever is unknown is refused by the parser ---- */

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

/* ---- the request ---- */

void question_init(struct question *q, const struct access_request *request)
{
	assert(request->action.len <= ACCESS_ACTION_BYTES_MAX);
	q->request = request;
	bytes_lower(request->action, q->lower);
	q->action = (struct bytes){q->lower, request->action.len};
	q->arn = arn_split(request->resource);
}

const struct access_value *question_value(const struct question *q, enum access_key key)
{
	for (size_t i = 0; i < q->request->count; i++) {
		const struct access_value *v = &q->request->values[i];

		if (v->key == key)
			return access_key_row(key)->type == ACCESS_TEXT && v->texts.count == 0 ? NULL : v;
	}
	return NULL;
}

bool question_leaves_open(const struct question *q, enum access_key key)
{
	return (access_key_row(key)->traits & ACCESS_ITEMS) != 0 && action_touches_items(q->action);
}

/* ---- conditions ---- */

static bool text_holds(enum comparison comparison, const struct pattern *operand, struct bytes text)
{
	if (comparison == COMPARE_EQUAL)
		return bytes_equal(operand->text, text);
	if (comparison == COMPARE_FOLDED)
		return bytes_equal_lower(operand->text, text);
	return pattern_matches(operand, text);
}

static bool order_holds(enum comparison comparison, int64_t value, int64_t operand)
{
	switch (comparison) {
	case COMPARE_LESS:
		return value < operand;
	case COMPARE_LESS_EQUAL:
		return value <= operand;
	case COMPARE_GREATER:
		return value > operand;
	case COMPARE_GREATER_EQUAL:
		return value >= operand;
	default:
		return value == operand;
	}
}

/* Past the year 9999 the product would overflow; such a clock is later than any date a policy can name. */
static int64_t micros_of(int64_t seconds)
{
	const int64_t max = INT64_MAX / 1000000;

	if (seconds > max || seconds < -max)
		return seconds > 0 ? INT64_MAX : INT64_MIN;
	return seconds * 1000000;
}

/* Does the value at `index` match the operand, leaving aside whether the operator is negated? */
static bool operand_holds(const struct relation *relation, const union operand *operand,
                          const struct access_value *value, size_t index)
{
	switch (relation->family) {
	case FAMILY_TEXT:
		return text_holds(relation->comparison, &operand->text, value->texts.list[index]);
	case FAMILY_IP:
		return cidr_holds(&operand->range, &value->address);
	case FAMILY_TRUTH:
		return operand->truth == value->truth;
	case FAMILY_NUMBER:
	case FAMILY_DATE:
		return order_holds(relation->comparison, micros_of(value->seconds), operand->micros);
	case FAMILY_NULL:
		break;
	}
	return false;
}

/* Several operands are alternatives; a negated operator refuses every one of them. */
static bool value_holds(const struct condition *c, const struct access_value *value, size_t index)
{
	for (size_t i = 0; i < c->operand_count; i++)
		if (operand_holds(c->relation, &c->operands[i], value, index))
			return !c->relation->negated;
	return c->relation->negated;
}

static bool null_holds(const struct condition *c, bool missing)
{
	for (size_t i = 0; i < c->operand_count; i++)
		if (c->operands[i].truth == missing)
			return true;
	return false;
}

/* IAM's rules for a key the request does not have, but for the first line: there ForAllValues would let a
 * Scan pass that reads every item because it names none. */
static bool missing_holds(const struct condition *c, const struct question *q, bool allow)
{
	if (c->quantifier != QUANTIFIER_NONE && question_leaves_open(q, c->key))
		return !allow;
	if (c->if_exists)
		return true;
	if (c->quantifier != QUANTIFIER_NONE)
		return c->quantifier == QUANTIFIER_ALL;
	return c->relation->negated;
}

static size_t value_count(const struct access_value *value)
{
	const struct access_key_row *row = access_key_row(value->key);
	size_t                       count = row->type == ACCESS_TEXT ? value->texts.count : 1;

	assert(count == 1 || (row->traits & ACCESS_MANY) != 0);
	return count;
}

/* ForAllValues looks for a value that does not hold, the others for one that does. */
static bool condition_holds(const struct condition *c, const struct question *q, bool allow)
{
	const struct access_value *value = question_value(q, c->key);
	bool                       all = c->quantifier == QUANTIFIER_ALL;
	size_t                     count;

	if (c->relation->family == FAMILY_NULL)
		return null_holds(c, value == NULL);
	if (value == NULL)
		return missing_holds(c, q, allow);
	count = value_count(value);
	for (size_t i = 0; i < count; i++)
		if (value_holds(c, value, i) != all)
			return !all;
	return all;
}

/* ---- statements ---- */

static bool actions_match(const struct statement *s, const struct question *q)
{
	for (size_t i = 0; i < s->action_count; i++)
		if (pattern_matches(&s->actions[i], q->action))
			return !s->not_action;
	return s->not_action;
}

static bool resources_match(const struct statement *s, const struct question *q)
{
	for (size_t i = 0; i < s->resource_count; i++)
		if (resource_matches(&s->resources[i], &q->arn))
			return !s->not_resource;
	return s->not_resource;
}

static bool conditions_hold(const struct statement *s, const struct question *q,
                            const struct condition **failed)
{
	for (size_t i = 0; i < s->condition_count; i++) {
		if (condition_holds(&s->conditions[i], q, s->allow))
			continue;
		*failed = &s->conditions[i];
		return false;
	}
	return true;
}

enum verdict statement_judge(const struct statement *s, const struct question *q,
                             const struct condition **failed)
{
	if (!actions_match(s, q))
		return VERDICT_OTHER_ACTION;
	if (!resources_match(s, q))
		return VERDICT_OTHER_RESOURCE;
	return conditions_hold(s, q, failed) ? VERDICT_APPLIES : VERDICT_CONDITION;
}

/* ---- policies ---- */

/* Goes on after an Allow: a Deny may still follow. */
static void policy_judge(const struct policy *p, size_t number, const struct question *q,
                         struct explanation *why)
{
	const struct condition *failed;

	for (size_t i = 0; i < p->statement_count; i++) {
		const struct statement *s = &p->statements[i];

		if (s->allow && why->decision == DECISION_ALLOWED)
			continue;
		if (statement_judge(s, q, &failed) != VERDICT_APPLIES)
			continue;
		*why = (struct explanation){s->allow ? DECISION_ALLOWED : DECISION_DENIED_EXPLICITLY, number,
		                            i};
		if (!s->allow)
			return;
	}
}

enum decision policy_evaluate(const struct policy *const *policies, size_t count,
                              const struct access_request *request, struct explanation *why)
{
	struct explanation result = {.decision = DECISION_DENIED_BY_DEFAULT};
	struct question    q;

	question_init(&q, request);
	for (size_t i = 0; i < count && result.decision != DECISION_DENIED_EXPLICITLY; i++)
		policy_judge(policies[i], i, &q, &result);
	if (why != NULL)
		*why = result;
	return result.decision;
}

/* No resource is left that the statement could not apply to. */
static bool names_everything(const struct statement *s)
{
	for (size_t i = 0; i < s->resource_count && !s->not_resource; i++)
		if (s->resources[i].count == 0) /* "*" */
			return true;
	return false;
}

enum reach policy_reach(const struct policy *p, struct bytes action)
{
	struct access_request request = {.action = action};
	struct question       q;
	bool                  some = false, all = false, denies = false;

	question_init(&q, &request);
	for (const struct statement *s = p->statements; s < p->statements + p->statement_count; s++) {
		bool everything = names_everything(s) && s->condition_count == 0;

		if (!actions_match(s, &q))
			continue;
		if (!s->allow && everything)
			return REACH_NOTHING;
		denies |= !s->allow;
		some |= s->allow;
		all |= s->allow && everything;
	}
	return !some ? REACH_NOTHING : denies ? REACH_DENIES : all ? REACH_ALL : REACH_SOME;
}

bool policy_could_allow(const struct policy *p, struct bytes action, struct bytes resource)
{
	struct access_request request = {.action = action, .resource = resource};
	struct question       q;
	bool                  could = false;

	question_init(&q, &request);
	for (const struct statement *s = p->statements; s < p->statements + p->statement_count; s++) {
		if (!actions_match(s, &q) || !resources_match(s, &q))
			continue;
		if (!s->allow && s->condition_count == 0)
			return false;
		could = could || s->allow;
	}
	return could;
}

static bool statement_could_reach(const struct statement *s, const struct arn *start)
{
	for (size_t i = 0; i < s->resource_count && !s->not_resource; i++)
		if (resource_could_match(&s->resources[i], start))
			return true;
	return s->not_resource;
}

bool policy_could_deny(const struct policy *p, struct bytes action, struct bytes start)
{
	struct access_request request = {.action = action, .resource = start};
	struct question       q;

	question_init(&q, &request);
	for (const struct statement *s = p->statements; s < p->statements + p->statement_count; s++)
		if (!s->allow && actions_match(s, &q) && statement_could_reach(s, &q.arn))
			return true;
	return false;
}

bool policy_allows_all(const struct policy *p, const struct access_request *request)
{
	const struct condition *failed;
	struct question         q;
	bool                    all = false;

	question_init(&q, request);
	for (const struct statement *s = p->statements; s < p->statements + p->statement_count; s++) {
		if (!actions_match(s, &q))
			continue;
		if (!s->allow)
			return false;
		all = all || (names_everything(s) && conditions_hold(s, &q, &failed));
	}
	return all;
}

static bool matches_any(const struct pattern *p, const struct bytes *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct access_request request = {.action = names[i], .resource = BYTES("*")};
		struct question       q;

		question_init(&q, &request);
		if (pattern_matches(p, q.action))
			return true;
	}
	return false;
}

void policy_idle_actions(const struct policy *p, const struct bytes *names, size_t count,
                         void (*each)(void *ctx, struct bytes action), void *ctx)
{
	for (const struct statement *s = p->statements; s < p->statements + p->statement_count; s++)
		for (size_t i = 0; i < s->action_count; i++)
			if (!matches_any(&s->actions[i], names, count))
				each(ctx, s->actions[i].text);
}

bool policy_asks(const struct policy *const *policies, size_t count, enum access_key key)
{
	for (size_t i = 0; i < count; i++)
		if ((policies[i]->keys >> key & 1) != 0)
			return true;
	return false;
}
