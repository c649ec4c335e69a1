/* Policy explain: the same judgement as policy_evaluate, statement by statement, written down for people. It
 * asks statement_judge as the evaluation does, so the two cannot disagree. */
#include "access/policy_model.h"

#include <stdarg.h>
#include <stdio.h>

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
