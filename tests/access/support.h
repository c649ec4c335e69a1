/* Support: what the tests of access/ share: a reader, parsing with a chosen outcome, and requests written in
 * JSON. */
#ifndef TESTS_ACCESS_SUPPORT_H
#define TESTS_ACCESS_SUPPORT_H

#include "test.h"

#include "access/policy.h"
#include "json/json.h"

enum { SUPPORT_TEXT_BYTES = 64 * 1024 };

#define TABLE "arn:aws:dynamodb:eu-west-1:123456789012:table/Users"
#define INDEX TABLE "/index/ByEmail"

struct fixture {
	struct arena        arena;
	struct json_reader *reader;
	struct err          err;
	char                text[SUPPORT_TEXT_BYTES];
};

static inline struct fixture *fixture_open(void)
{
	struct fixture *f = mem_zalloc(sizeof(*f));

	arena_init(&f->arena);
	f->reader = json_reader_open();
	return f;
}

static inline void fixture_close(struct fixture *f)
{
	json_reader_close(f->reader);
	arena_release(&f->arena);
	free(f);
}

static inline struct policy *fixture_parse(struct fixture *f, struct bytes text)
{
	struct policy *p = NULL;

	if (policy_parse(f->reader, text, &p, &f->err) != ERR_NONE)
		fail_msg("%.*s\nrefused: %s", BYTES_ARG(text), f->err.text);
	return p;
}

/* The document is refused, and the error holds every one of the words (separated by |). */
static inline void fixture_refuses(struct fixture *f, struct bytes text, const char *words)
{
	struct policy *p = NULL;

	f->err = (struct err){0};
	if (policy_parse(f->reader, text, &p, &f->err) == ERR_NONE) {
		policy_close(p);
		fail_msg("accepted: %.*s", BYTES_ARG(text));
	}
	while (*words != '\0') {
		size_t len = strcspn(words, "|");

		if (!bytes_contains(bytes_of(f->err.text), (struct bytes){words, len}))
			fail_msg("%.*s\nsays \"%s\", not \"%.*s\"", BYTES_ARG(text), f->err.text, (int)len,
			         words);
		words += len + (words[len] == '|');
	}
}

/* context: the members of a JSON object, or "". The request lives as long as the fixture. */
static inline struct access_request fixture_request(struct fixture *f, const char *action,
                                                    const char *resource, const char *context)
{
	struct bytes text =
	        arena_printf(&f->arena, "{\"action\":\"%s\",\"resource\":\"%s\",\"context\":{%s}}", action,
	                     resource, context);
	struct access_request request = {0};
	struct json          *json;

	if (json_read(f->reader, &f->arena, text, &json, &f->err) != ERR_NONE ||
	    access_request_read(&f->arena, json, &request, &f->err) != ERR_NONE)
		fail_msg("%.*s: %s", BYTES_ARG(text), f->err.text);
	return request;
}

/* The decision of one document about one request. */
static inline enum decision fixture_decide(struct fixture *f, const char *document, const char *action,
                                           const char *resource, const char *context)
{
	struct policy        *p = fixture_parse(f, bytes_of(document));
	const struct policy  *list[] = {p};
	struct access_request request = fixture_request(f, action, resource, context);
	enum decision         decision = policy_evaluate(list, 1, &request, NULL);

	policy_close(p);
	return decision;
}

/* A document of one statement with these members; valid until the next. */
static inline const char *fixture_statement(struct fixture *f, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

static inline const char *fixture_statement(struct fixture *f, const char *format, ...)
{
	va_list args;
	int     len = snprintf(f->text, sizeof(f->text), "{\"Version\":\"2012-10-17\",\"Statement\":{");

	va_start(args, format);
	len += vsnprintf(f->text + len, sizeof(f->text) - (size_t)len, format, args);
	va_end(args);
	snprintf(f->text + len, sizeof(f->text) - (size_t)len, "}}");
	return f->text;
}

#endif
