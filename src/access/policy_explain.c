/* Policy explain: `gatehouse policy test`: a request as people write it in JSON, and the decision written down for
 * them, statement by statement. It asks statement_judge as the evaluation does, so the two cannot disagree. The
 * server itself fills struct access_request from what it has at hand. */
#include <stdarg.h>
#include <stdio.h>

#include "access/policy_model.h"

/* ---- the request ---- */

static enum err_code refuse(struct err *err, struct bytes name, const char *what)
{
	return err_set(err, ERR_INVALID, "request, %.*s: %s", BYTES_ARG(name), what);
}

static enum err_code read_text(const struct json *json, struct bytes name, size_t max, struct bytes *out,
                               struct err *err)
{
	const struct json *child = json_get(json, name);

	if (child == NULL)
		return refuse(err, name, "missing");
	if (child->type != JSON_STRING)
		return refuse(err, name, "must be a string");
	if (json_text(child).len > max)
		return refuse(err, name, "too long");
	*out = json_text(child);
	return ERR_NONE;
}

/* One string, or a list of them where the key may have several. */
static bool read_texts(struct arena *a, const struct json *json, bool many, struct access_value *out)
{
	const struct json *child = json->type == JSON_ARRAY ? json_children(json) : json;
	size_t             count = json->type == JSON_ARRAY ? json->count : 1;
	struct bytes      *list = arena_array(a, count, sizeof(*list));

	if (json->type == JSON_ARRAY && !many)
		return false;
	for (size_t i = 0; i < count; i++, child = child->next) {
		if (child->type != JSON_STRING)
			return false;
		list[i] = json_text(child);
	}
	out->texts.list = list;
	out->texts.count = count;
	return true;
}

static bool read_seconds(const struct json *json, int64_t *out)
{
	int64_t micros;

	if (json->type == JSON_INT) {
		*out = json_integer(json);
		return true;
	}
	if (json->type != JSON_STRING || !date_parse(json_text(json), &micros))
		return false;
	*out = micros / 1000000;
	return true;
}

static bool read_truth(const struct json *json, bool *out)
{
	if (json->type == JSON_STRING)
		return truth_parse(json_text(json), out);
	*out = json->type == JSON_BOOL && json_truth(json);
	return json->type == JSON_BOOL;
}

static bool read_value(struct arena *a, const struct json *json, struct access_value *out)
{
	const struct access_key_row *row = access_key_row(out->key);

	switch (row->type) {
	case ACCESS_TEXT:
		return read_texts(a, json, (row->traits & ACCESS_MANY) != 0, out);
	case ACCESS_IP:
		return json->type == JSON_STRING && access_address_parse(json_text(json), &out->address);
	case ACCESS_TRUTH:
		return read_truth(json, &out->truth);
	case ACCESS_TIME:
	case ACCESS_EPOCH:
		return read_seconds(json, &out->seconds);
	}
	return false;
}

static enum err_code read_context(struct arena *a, const struct json *context, struct access_request *out,
                                  struct err *err)
{
	struct access_value *values = arena_array(a, ACCESS_KEY_COUNT, sizeof(*values));
	uint32_t             seen = 0;

	if (context->type != JSON_OBJECT)
		return refuse(err, BYTES("context"), "must be an object");
	out->values = values;
	for (const struct json *child = json_children(context); child != NULL; child = child->next) {
		enum access_key key = access_key_find(child->name);

		if (key == ACCESS_KEY_COUNT)
			return refuse(err, child->name, "unknown condition key");
		if ((seen >> key & 1) != 0)
			return refuse(err, child->name, "given twice");
		seen |= 1u << key;
		values[out->count].key = key;
		if (!read_value(a, child, &values[out->count++]))
			return refuse(err, child->name, "not a valid value for this key");
	}
	return ERR_NONE;
}

enum err_code access_request_read(struct arena *a, const struct json *json, struct access_request *out,
                                  struct err *err)
{
	const struct json *context = json_get(json, BYTES("context"));

	*out = (struct access_request){0};
	if (read_text(json, BYTES("action"), ACCESS_ACTION_BYTES_MAX, &out->action, err) != ERR_NONE ||
	    read_text(json, BYTES("resource"), POLICY_PATTERN_BYTES_MAX, &out->resource, err) != ERR_NONE)
		return err->code;
	return context == NULL ? ERR_NONE : read_context(a, context, out, err);
}

/* ---- the decision ---- */

enum { LINE_BYTES = 512 };

static void add(struct buf *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct buf *out, const char *format, ...)
{
	char    line[LINE_BYTES];
	va_list args;
	int     len;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	buf_add(out, line, (size_t)len < sizeof(line) ? (size_t)len : sizeof(line) - 1);
}

static void add_decision(struct buf *out, const struct explanation *why)
{
	switch (why->decision) {
	case DECISION_DENIED_BY_DEFAULT:
		add(out, "denied: no statement allows it\n");
		break;
	case DECISION_DENIED_EXPLICITLY:
		add(out, "denied by policy[%zu] Statement[%zu]\n", why->policy, why->statement);
		break;
	case DECISION_ALLOWED:
		add(out, "allowed by policy[%zu] Statement[%zu]\n", why->policy, why->statement);
		break;
	}
}

static void add_condition(struct buf *out, const struct condition *c, const struct question *q)
{
	bool missing = question_value(q, c->key) == NULL;

	add(out, "condition %.*s on %.*s does not hold", BYTES_ARG(c->spelled),
	    BYTES_ARG(access_key_row(c->key)->name));
	if (missing && c->quantifier != QUANTIFIER_NONE && question_leaves_open(q, c->key))
		add(out, " (the request touches items and does not say which, so it counts as all)");
	else if (missing)
		add(out, " (the request does not have the key)");
}

static void add_verdict(struct buf *out, const struct statement *s, const struct question *q)
{
	const struct condition *failed = NULL;
	enum verdict            verdict = statement_judge(s, q, &failed);

	if (verdict == VERDICT_APPLIES) {
		add(out, "applies\n");
		return;
	}
	add(out, "does not apply: ");
	if (verdict == VERDICT_OTHER_ACTION)
		add(out, "%s", s->not_action ? "NotAction names the action" : "no Action matches");
	else if (verdict == VERDICT_OTHER_RESOURCE)
		add(out, "%s", s->not_resource ? "NotResource names the resource" : "no Resource matches");
	else
		add_condition(out, failed, q);
	add(out, "\n");
}

void policy_explain(const struct policy *const *policies, size_t count, const struct access_request *request,
                    struct buf *out)
{
	struct explanation why;
	struct question    q;

	policy_evaluate(policies, count, request, &why);
	add_decision(out, &why);
	question_init(&q, request);
	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < policies[i]->statement_count; j++) {
			const struct statement *s = &policies[i]->statements[j];

			add(out, "policy[%zu] Statement[%zu]%s%.*s%s %s: ", i, j, s->sid.len > 0 ? " (" : "",
			    BYTES_ARG(s->sid), s->sid.len > 0 ? ")" : "", s->allow ? "Allow" : "Deny");
			add_verdict(out, s, &q);
		}
	}
}
