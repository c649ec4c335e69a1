/* Authorise: see authorise.h.
 *
 * (P1) What an action cannot say of itself (a scan's leading keys, the attributes of a whole item) is left
 * unsaid, which the policy takes as "all of them": a condition on it then refuses. (P2) Every item of a batch
 * or transaction is part of some action. (P3) A put under a condition on attributes is asked about twice, the second time in
 * its turn, with the attributes of the item that it replaces (docs/decisions/013). */
#include "api/authorise.h"

#include <stdio.h>

#include "api/dynamodb_actions.h"
#include "base/buf.h"

enum { VALUES_MAX = 10 };

struct question {
	const struct caller *who;
	const struct policy *policy;
	struct arena        *arena;
	int64_t              now_s;
	struct bytes         capacity; /* ReturnConsumedCapacity; empty: the operation does not take it */
	bool                 replaced; /* attributes of items that are put over count, too */
	struct err          *err;
};

/* Each request comes by here: no printf, which costs more than the decision. */
static struct bytes joined(struct arena *a, const struct bytes *parts, size_t count)
{
	struct buf out;
	size_t     length = 0;

	for (size_t i = 0; i < count; i++)
		length += parts[i].len;
	buf_init(&out, a);
	buf_reserve(&out, length);
	for (size_t i = 0; i < count; i++)
		buf_add_bytes(&out, parts[i]);
	return buf_bytes(&out);
}

static struct bytes resource_of(const struct question *q, const struct iam_action *d)
{
	const struct bytes parts[] = {
	        BYTES("arn:aws:dynamodb:"), q->who->region, BYTES(":" ACCESS_ACCOUNT ":table/"), d->table,
	        BYTES("/index/"),           d->index};

	if (d->table.len == 0)
		return BYTES("*");
	return joined(q->arena, parts, d->index.len == 0 ? 4 : 6);
}

static struct bytes action_of(const struct question *q, const struct iam_action *d)
{
	const struct bytes parts[] = {BYTES("dynamodb:"), d->action};

	return joined(q->arena, parts, 2);
}

static void add_texts(struct access_value *values, size_t *count, enum access_key key,
                      const struct bytes *list, size_t len)
{
	if (len == 0)
		return;
	values[*count] = (struct access_value){.key = key};
	values[*count].texts.list = list;
	values[*count].texts.count = len;
	++*count;
}

static size_t context_of(const struct question *q, const struct iam_action *d,
                         struct access_value values[VALUES_MAX])
{
	size_t count = 0;

	add_texts(values, &count, ACCESS_LEADING_KEYS, d->leading, d->leading_count);
	add_texts(values, &count, ACCESS_ATTRIBUTES, d->attributes, d->attribute_count);
	add_texts(values, &count, ACCESS_SELECT, &d->select, d->select.len > 0);
	add_texts(values, &count, ACCESS_RETURN_VALUES, &d->return_values, d->return_values.len > 0);
	add_texts(values, &count, ACCESS_RETURN_CAPACITY, &q->capacity, q->capacity.len > 0);
	add_texts(values, &count, ACCESS_ENCLOSING_OPERATION, &d->enclosing, d->enclosing.len > 0);
	values[count] = (struct access_value){.key = ACCESS_SOURCE_IP};
	values[count++].address = q->who->peer;
	values[count] = (struct access_value){.key = ACCESS_SECURE_TRANSPORT};
	values[count++].truth = q->who->secure;
	values[count] = (struct access_value){.key = ACCESS_CURRENT_TIME};
	values[count++].seconds = q->now_s;
	values[count] = (struct access_value){.key = ACCESS_EPOCH_TIME};
	values[count++].seconds = q->now_s;
	return count;
}

static enum err_code decide(const struct question *q, const struct access_request *request,
                            enum decision *decision)
{
	*decision = policy_evaluate(&q->policy, 1, request, NULL);
	if (*decision == DECISION_ALLOWED)
		return ERR_NONE;
	return err_set(
	        q->err, ERR_ACCESS,
	        "User: arn:aws:iam::" ACCESS_ACCOUNT
	        ":user/%.*s is not authorized to perform: %.*s on resource: "
	        "%.*s %s%s",
	        BYTES_ARG(q->who->key->name), BYTES_ARG(request->action), BYTES_ARG(request->resource),
	        *decision == DECISION_DENIED_EXPLICITLY ? "with an explicit deny in an identity-based policy"
	                                                : "because no identity-based policy allows it",
	        q->replaced
	                ? " (a put replaces the whole item: the attributes of the item that is there count "
	                  "too; use UpdateItem)"
	                : "");
}

static enum err_code ask(const struct question *q, const struct iam_action *d)
{
	enum decision         decision;
	struct access_value   values[VALUES_MAX];
	struct access_request request = {
	        .action = action_of(q, d), .resource = resource_of(q, d), .values = values};

	request.count = context_of(q, d, values);
	return decide(q, &request, &decision);
}

enum err_code authorise_v1(const struct v1_question *p, struct bytes resource, enum decision *decision,
                           struct err *err)
{
	struct question       q = {.who = p->who, .arena = p->arena, .now_s = p->now_s, .err = err};
	struct iam_action     nothing_said = {0};
	struct access_value   values[VALUES_MAX];
	struct access_request request = {.resource = BYTES("*"), .values = values};

	*decision = DECISION_ALLOWED;
	if (p->who->key == NULL)
		return ERR_NONE;
	q.policy = p->who->key->policy;
	request.action = arena_printf(p->arena, "gatehouse:%s", p->action);
	request.count = context_of(&q, &nothing_said, values);
	if (resource.len > 0)
		request.resource = arena_printf(p->arena, "arn:aws:gatehouse:%.*s:" ACCESS_ACCOUNT ":%.*s",
		                                BYTES_ARG(p->who->region), BYTES_ARG(resource));
	return decide(&q, &request, decision);
}

/* ---- before a request is decoded ---- */

static bool could(const struct caller *who, const char *service, struct bytes name)
{
	char action[ACCESS_ACTION_BYTES_MAX];
	int  len = snprintf(action, sizeof(action), "%s:%.*s", service, BYTES_ARG(name));

	return policy_could_allow(who->key->policy, (struct bytes){action, (size_t)len});
}

static enum err_code never(const struct caller *who, const char *service, struct bytes name, struct err *err)
{
	return err_set(err, ERR_ACCESS,
	               "User: arn:aws:iam::" ACCESS_ACCOUNT
	               ":user/%.*s is not authorized to perform: %s:%.*s on any resource",
	               BYTES_ARG(who->key->name), service, BYTES_ARG(name));
}

enum err_code authorise_foresee_v1(const struct caller *who, const char *action, struct err *err)
{
	if (who->key == NULL || could(who, "gatehouse", bytes_of(action)))
		return ERR_NONE;
	return never(who, "gatehouse", bytes_of(action), err);
}

bool authorise_could_deny_v1(const struct caller *who, const char *name)
{
	char action[ACCESS_ACTION_BYTES_MAX];
	int  len = snprintf(action, sizeof(action), "gatehouse:%s", name);

	return policy_could_deny(who->key->policy, (struct bytes){action, (size_t)len});
}

/* Transactions are judged by what they hold (dynamodb_actions.c): any of it will do for now. */
enum err_code authorise_foresee(const struct caller *who, const struct operation *operation, struct err *err)
{
	static const char *const parts[] = {"GetItem", "PutItem", "UpdateItem", "DeleteItem",
	                                    "ConditionCheckItem"};
	bool                     get = operation->form == FORM_TRANSACT_GET;

	if (who->key == NULL)
		return ERR_NONE;
	if (!get && operation->form != FORM_TRANSACT_WRITE)
		return could(who, "dynamodb", operation->name) ? ERR_NONE
		                                               : never(who, "dynamodb", operation->name, err);
	for (size_t i = get ? 0 : 1; i < (get ? 1 : sizeof(parts) / sizeof(*parts)); i++)
		if (could(who, "dynamodb", bytes_of(parts[i])))
			return ERR_NONE;
	return never(who, "dynamodb", operation->name, err);
}

static struct bytes capacity_of(const struct dynamodb_call *c)
{
	static const char *const texts[] = {
	        [CAPACITY_NONE] = "NONE", [CAPACITY_TOTAL] = "TOTAL", [CAPACITY_INDEXES] = "INDEXES"};

	return bytes_of(c->operation->form <= FORM_TRANSACT_WRITE ? texts[c->request.capacity] : "");
}

static enum err_code check(const struct caller *who, struct table *t, const struct dynamodb_call *c,
                           bool replaced, struct err *err)
{
	struct question    q = {.who = who, .arena = c->arena, .now_s = t->now_us / 1000000, .err = err};
	struct iam_actions actions;

	q.policy = who->key->policy;
	q.capacity = capacity_of(c);
	q.replaced = replaced;
	if (iam_actions_of(c, t, (struct iam_asked){policy_asks(&q.policy, 1, ACCESS_LEADING_KEYS), replaced},
	                   &actions, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < actions.count; i++)
		if (ask(&q, &actions.list[i]) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

enum err_code authorise_call(const struct caller *who, struct table *t, const struct dynamodb_call *c,
                             struct err *err)
{
	return check(who, t, c, false, err);
}

enum err_code authorise_puts(const struct caller *who, struct table *t, const struct dynamodb_call *c,
                             struct err *err)
{
	const struct policy *policy = who->key == NULL ? NULL : who->key->policy;

	if (policy == NULL || !policy_asks(&policy, 1, ACCESS_ATTRIBUTES) || !iam_actions_put(c))
		return ERR_NONE;
	return check(who, t, c, true, err);
}
