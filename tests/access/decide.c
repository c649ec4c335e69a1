/* Decide: asks the policy engine about what stands on standard input, for test_random.py. A line is
 * {"policies": [document as a string, …], "requests": [request, …]}; the answer is a line as well: "refused:
 * …" if a document is, else a word for each request: "allowed:P:S", "denied:P:S" (policy and statement that
 * decided) or "default". */
#include <stdio.h>
#include <stdlib.h>

#include "access/policy.h"
#include "json/json.h"

enum { POLICIES_MAX = 8 };

struct run {
	struct json_reader  *reader;
	struct arena         arena;
	struct err           err;
	const struct policy *policies[POLICIES_MAX];
	size_t               count;
};

static void fail(const struct run *r)
{
	fprintf(stderr, "decide: %s\n", r->err.text);
	exit(2);
}

static bool open_policies(struct run *r, const struct json *list)
{
	r->count = 0;
	for (const struct json *child = json_children(list); child != NULL; child = child->next) {
		struct policy *p;

		if (r->count == POLICIES_MAX ||
		    policy_parse(r->reader, json_text(child), &p, &r->err) != ERR_NONE)
			return false;
		r->policies[r->count++] = p;
	}
	return true;
}

static void close_policies(struct run *r)
{
	for (size_t i = 0; i < r->count; i++)
		policy_close((struct policy *)r->policies[i]);
}

static void answer(struct run *r, const struct json *json)
{
	struct access_request request;
	struct explanation    why;

	if (access_request_read(&r->arena, json, &request, &r->err) != ERR_NONE)
		fail(r);
	policy_evaluate(r->policies, r->count, &request, &why);
	if (why.decision == DECISION_DENIED_BY_DEFAULT)
		printf("default ");
	else
		printf("%s:%zu:%zu ", why.decision == DECISION_ALLOWED ? "allowed" : "denied", why.policy,
		       why.statement);
}

static void take_line(struct run *r, struct bytes line)
{
	struct json       *json;
	const struct json *requests;

	if (json_read(r->reader, &r->arena, line, &json, &r->err) != ERR_NONE)
		fail(r);
	requests = json_get(json, BYTES("requests"));
	if (!open_policies(r, json_get(json, BYTES("policies"))))
		printf("refused: %s", r->err.text);
	else
		for (const struct json *child = json_children(requests); child != NULL; child = child->next)
			answer(r, child);
	printf("\n");
	close_policies(r);
	arena_reset(&r->arena);
}

int main(void)
{
	struct run r = {.reader = json_reader_open()};
	char      *line = NULL;
	size_t     size = 0;
	ssize_t    len;

	arena_init(&r.arena);
	while ((len = getline(&line, &size, stdin)) > 0)
		take_line(&r, (struct bytes){line, (size_t)len});
	free(line);
	arena_release(&r.arena);
	json_reader_close(r.reader);
	return 0;
}
