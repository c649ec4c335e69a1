/* Authorise: see authorise.h.
 *
 * (P1) What an action cannot say of itself (a scan's leading keys, the attributes of a whole item) is left
 * unsaid, which the policy takes as "all of them": a condition on it then refuses. (P2) Every item of a batch
 * or transaction is part of some action. (P3) A put under a condition on attributes is asked about twice, the second time in
 * its turn, with the attributes of the item that it replaces (docs/decisions/013). */
#include "api/authorise.h"

#include <assert.h>

#include "api/dynamodb_actions.h"
#include "base/buf.h"

enum { VALUES_MAX = ACCESS_KEY_COUNT };

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

static enum err_code refuse(const struct question *q, const struct access_request *request,
                            enum decision decision)
{
	return err_set(
	        q->err, ERR_ACCESS,
	        "User: arn:aws:iam::" ACCESS_ACCOUNT
	        ":user/%.*s is not authorized to perform: %.*s on resource: "
	        "%.*s %s%s",
	        BYTES_ARG(q->who->key->name), BYTES_ARG(request->action), BYTES_ARG(request->resource),
	        decision == DECISION_DENIED_EXPLICITLY ? "with an explicit deny in an identity-based policy"
	                                               : "because no identity-based policy allows it",
	        q->replaced
	                ? " (a put replaces the whole item: the attributes of the item that is there count "
	                  "too; use UpdateItem)"
	                : "");
}

static enum decision decide(const struct question *q, const struct access_request *request)
{
	enum decision decision = policy_evaluate(&q->policy, 1, request, NULL);

	if (decision != DECISION_ALLOWED && q->err != NULL)
		refuse(q, request, decision);
	return decision;
}

static enum err_code ask(const struct question *q, const struct iam_action *d)
{
	struct access_value   values[VALUES_MAX];
	struct access_request request = {
	        .action = action_of(q, d), .resource = resource_of(q, d), .values = values};

	request.count = context_of(q, d, values);
	return decide(q, &request) == DECISION_ALLOWED ? ERR_NONE : ERR_ACCESS;
}

/* ---- before a request is decoded ---- */

struct action_name {
	char   text[ACCESS_ACTION_BYTES_MAX];
	size_t len;
};

static void action_name_add(struct action_name *n, struct bytes part)
{
	assert(n->len + part.len <= sizeof(n->text));
	memcpy(n->text + n->len, part.data, part.len);
	n->len += part.len;
}

static enum reach reach_of(const struct caller *who, struct bytes service, struct bytes action)
{
	struct action_name n;

	n.len = 0;
	action_name_add(&n, service);
	action_name_add(&n, action);
	return policy_reach(who->key->policy, (struct bytes){n.text, n.len});
}

static enum err_code never(const struct caller *who, const char *service, struct bytes name, struct err *err)
{
	return err_set(err, ERR_ACCESS,
	               "User: arn:aws:iam::" ACCESS_ACCOUNT
	               ":user/%.*s is not authorized to perform: %s:%.*s on any resource",
	               BYTES_ARG(who->key->name), service, BYTES_ARG(name));
}

enum err_code authorise_foresee_v1(const struct caller *who, const char *action, enum reach *reach,
                                   struct err *err)
{
	*reach = who->key == NULL ? REACH_ALL : reach_of(who, BYTES("gatehouse:"), bytes_of(action));
	return *reach != REACH_NOTHING ? ERR_NONE : never(who, "gatehouse", bytes_of(action), err);
}

/* Transactions are judged by what they hold (dynamodb_actions.c): for now, any of it will do. They reach all only with each. */
static enum reach transaction_reach(const struct caller *who, bool gets)
{
	static const char *const parts[] = {"GetItem", "PutItem", "UpdateItem", "DeleteItem",
	                                    "ConditionCheckItem"};
	size_t                   from = gets ? 0 : 1, to = gets ? 1 : sizeof(parts) / sizeof(*parts);
	enum reach               reach = reach_of(who, BYTES("dynamodb:"), bytes_of(parts[from]));

	for (size_t i = from + 1; i < to; i++)
		if (reach_of(who, BYTES("dynamodb:"), bytes_of(parts[i])) != reach)
			return REACH_DENIES;
	return reach;
}

enum err_code authorise_foresee(const struct caller *who, const struct operation *operation,
                                enum reach *reach, struct err *err)
{
	*reach = REACH_ALL;
	if (who->key == NULL)
		return ERR_NONE;
	if (operation->form == FORM_TRANSACT_GET || operation->form == FORM_TRANSACT_WRITE)
		*reach = transaction_reach(who, operation->form == FORM_TRANSACT_GET);
	else
		*reach = reach_of(who, BYTES("dynamodb:"), operation->name);
	return *reach != REACH_NOTHING ? ERR_NONE : never(who, "dynamodb", operation->name, err);
}

/* ---- /v1 ---- */

static struct bytes v1_action(const struct v1_question *p)
{
	const struct bytes parts[] = {BYTES("gatehouse:"), bytes_of(p->action)};

	return joined(p->arena, parts, 2);
}

static struct bytes v1_resource_of(const struct v1_question *p, const char *kind, struct bytes name)
{
	const struct bytes parts[] = {BYTES("arn:aws:gatehouse:"),
	                              p->who->region,
	                              BYTES(":" ACCESS_ACCOUNT ":"),
	                              bytes_of(kind),
	                              BYTES("/"),
	                              name};

	return joined(p->arena, parts, sizeof(parts) / sizeof(*parts));
}

static size_t v1_context(const struct v1_question *p, struct access_value values[VALUES_MAX])
{
	struct question   q = {.who = p->who, .now_s = p->now_s};
	struct iam_action nothing_said = {0};

	return context_of(&q, &nothing_said, values);
}

enum decision authorise_v1(const struct v1_question *p, const char *kind, struct bytes name, struct err *err)
{
	struct question       q = {.who = p->who, .policy = p->who->key->policy, .err = err};
	struct access_value   values[VALUES_MAX];
	struct access_request request = {.action = v1_action(p), .resource = BYTES("*"), .values = values};

	request.count = v1_context(p, values);
	if (kind != NULL)
		request.resource = v1_resource_of(p, kind, name);
	return decide(&q, &request);
}

bool authorise_all_v1(const struct v1_question *p)
{
	struct access_value   values[VALUES_MAX];
	struct access_request request = {.action = v1_action(p), .resource = BYTES("*"), .values = values};

	request.count = v1_context(p, values);
	return policy_allows_all(p->who->key->policy, &request);
}

bool authorise_could_deny_v1(const struct v1_question *p, const char *kind)
{
	return policy_could_deny(p->who->key->policy, v1_action(p), v1_resource_of(p, kind, BYTES("")));
}

void v1_denial_copy(struct v1_denial *d, const struct v1_denial *from)
{
	*d = *from;
	d->request.action.data = d->action;
	d->request.values = d->values;
}

void v1_denial_init(struct v1_denial *d, const struct v1_question *p, const char *kind)
{
	struct v1_denial made = {.policy = p->who->key->policy};
	struct bytes     action = v1_action(p), start = v1_resource_of(p, kind, BYTES(""));

	assert(action.len <= sizeof(made.action) && start.len <= sizeof(made.start));
	memcpy(made.action, action.data, action.len);
	memcpy(made.start, start.data, start.len);
	made.start_len = start.len;
	made.request.action.len = action.len;
	made.request.count = v1_context(p, made.values);
	v1_denial_copy(d, &made);
}

/* One that is too long to be asked about is none. */
bool v1_denial_names(const struct v1_denial *d, struct bytes name)
{
	char                  text[V1_RESOURCE_START_MAX + V1_RESOURCE_NAME_MAX];
	struct access_request request = d->request;

	if (name.len == 0 || name.len > V1_RESOURCE_NAME_MAX)
		return false;
	memcpy(text, d->start, d->start_len);
	memcpy(text + d->start_len, name.data, name.len);
	request.resource = (struct bytes){text, d->start_len + name.len};
	return policy_evaluate(&d->policy, 1, &request, NULL) == DECISION_DENIED_EXPLICITLY;
}

/* ---- DynamoDB's protocol ---- */

enum err_code authorise_named(const struct caller *who, const struct dynamodb_call *c, struct err *err)
{
	struct question    q = {.who = who, .policy = who->key->policy, .arena = c->arena, .err = err};
	struct iam_actions named = iam_actions_named(c);

	for (uint32_t i = 0; i < named.count; i++) {
		struct access_request request = {.action = action_of(&q, &named.list[i]),
		                                 .resource = resource_of(&q, &named.list[i])};

		if (!policy_could_allow(q.policy, request.action, request.resource))
			return refuse(&q, &request, policy_evaluate(&q.policy, 1, &request, NULL));
	}
	return ERR_NONE;
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
