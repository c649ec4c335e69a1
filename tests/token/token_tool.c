/* Token tool: lets tests written in other languages ask src/token/. The first line of standard input sets up, each further line
 * is a token as a JSON string; each line of standard output is the outcome's name:
 *
 *   {"now": seconds, "issuers": [{"issuer", "jwks": {"keys": […]}, "algorithms": ["RS256", …], "audiences": ["app", …],
 *    "uses": 0 to 3 (JWT_USE_…)}]} */
#include <stdio.h>
#include <stdlib.h>

#include "json/write.h"
#include "token/issuer.h"

static const struct json *member(const struct json *object, const char *name)
{
	const struct json *found = json_get(object, bytes_of(name));

	if (found == NULL)
		abort();
	return found;
}

static void issuer_add(struct issuers *all, struct arena *a, const struct json *from)
{
	struct issuer_options o = {.issuer = json_text(member(from, "issuer")), .rules = jwt_rules_default()};
	const struct json    *audiences = member(from, "audiences");
	struct bytes         *list = arena_array(a, audiences->count, sizeof(*list));
	struct buf            jwks;
	struct json_writer    w;
	struct err            err;
	enum jws_algorithm    algorithm;

	o.rules.algorithms = 0;
	for (const struct json *each = json_children(member(from, "algorithms")); each != NULL;
	     each = each->next) {
		if (!jws_algorithm_find(json_text(each), &algorithm))
			abort();
		o.rules.algorithms |= 1u << algorithm;
	}
	for (const struct json *each = json_children(audiences); each != NULL; each = each->next)
		list[o.rules.audience_count++] = json_text(each);
	o.rules.audiences = list;
	o.rules.cognito_uses = (uint32_t)json_integer(member(from, "uses"));
	o.rules.leeway_us = 0;
	buf_init(&jwks, a);
	json_writer_init(&w, &jwks);
	json_tree(&w, member(from, "jwks"));
	o.jwks = buf_bytes(&jwks);
	if (issuers_add(all, &o, &err) != ERR_NONE) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
}

static const char *answer(struct issuers *all, struct json_reader *reader, struct bytes line, int64_t now_us)
{
	struct arena       a;
	struct token_call  c = {reader, &a, now_us};
	int64_t            retry_s;
	struct json       *text;
	struct jwt         out;
	struct err         err;
	enum token_outcome outcome;

	arena_init(&a);
	if (json_read(reader, &a, line, &text, &err) != ERR_NONE || text->type != JSON_STRING)
		abort();
	outcome = issuers_verify(all, &c, json_text(text), &out, &retry_s);
	arena_release(&a);
	return token_outcome_name(outcome);
}

int main(void)
{
	struct json_reader *reader = json_reader_open();
	struct issuers     *all;
	struct clock_manual clock;
	struct arena        a;
	struct json        *setup;
	struct err          err;
	char               *line = NULL;
	size_t              size = 0;
	ssize_t             len = getline(&line, &size, stdin);

	arena_init(&a);
	if (len <= 0 || json_read(reader, &a, (struct bytes){line, (size_t)len}, &setup, &err) != ERR_NONE)
		return 1;
	clock_manual_init(&clock, json_integer(member(setup, "now")) * 1000000);
	all = issuers_open((struct token_fetch){0}, &clock.base);
	for (const struct json *each = json_children(member(setup, "issuers")); each != NULL;
	     each = each->next)
		issuer_add(all, &a, each);
	while ((len = getline(&line, &size, stdin)) > 0)
		puts(answer(all, reader, (struct bytes){line, (size_t)len}, clock.now_us));
	issuers_drop(all);
	json_reader_close(reader);
	arena_release(&a);
	free(line);
	return 0;
}
