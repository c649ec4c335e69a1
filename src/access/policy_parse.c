/* Policy parse: the document and its statements. The tree of JSON is walked once, into the policy's own
 * arena, and forgotten. Elements are looked up in tables: whatever is not in them, stands twice, is missing
 * or has the wrong shape refuses the whole document. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "access/policy_model.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { PLACE_BYTES = 512, MESSAGE_BYTES = 1024 };

/* ---- refusals ---- */

static size_t quote_byte(char *out, uint8_t byte)
{
	if (byte >= ' ' && byte < 0x7F && byte != '"' && byte != '\\') {
		*out = (char)byte;
		return 1;
	}
	return (size_t)sprintf(out, "\\x%02x", byte);
}

struct quoted quote(struct bytes value)
{
	struct quoted q;
	size_t        shown = value.len < QUOTED_BYTES_MAX ? value.len : QUOTED_BYTES_MAX;
	size_t        at = 0;

	q.text[at++] = '"';
	for (size_t i = 0; i < shown; i++)
		at += quote_byte(q.text + at, (uint8_t)value.data[i]);
	snprintf(q.text + at, sizeof(q.text) - at, "%s", shown < value.len ? "…\"" : "\"");
	return q;
}

/* Sid, if it is fit to be shown; it may not have been checked yet. */
static void place_statement(const struct parser *p, char *out, size_t size)
{
	const struct json *sid = json_get(p->statement, BYTES("Sid"));

	if (sid != NULL && sid->type == JSON_STRING && json_text(sid).len > 0)
		snprintf(out, size, "Statement[%zu] (Sid %s)", p->number, quote(json_text(sid)).text);
	else
		snprintf(out, size, "Statement[%zu]", p->number);
}

enum err_code parser_refuse(struct parser *p, const char *format, ...)
{
	char    statement[PLACE_BYTES] = "policy", message[MESSAGE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	if (p->statement != NULL)
		place_statement(p, statement, sizeof(statement));
	return err_set(p->err, ERR_INVALID, "%s%s%.*s%s%.*s%s%.*s: %s", statement,
	               p->element.len > 0 ? ", " : "", BYTES_ARG(p->element), p->spelled.len > 0 ? ", " : "",
	               BYTES_ARG(p->spelled), p->key.len > 0 ? ", " : "", BYTES_ARG(p->key), message);
}

/* ---- shapes ---- */

enum err_code parser_list(struct parser *p, const struct json *json, const struct json **first, size_t *count)
{
	bool list = json->type == JSON_ARRAY;

	*first = list ? json_children(json) : json;
	*count = list ? json->count : 1;
	if (*count == 0)
		return parser_refuse(p, "the list must not be empty");
	if (*count > POLICY_LIST_MAX)
		return parser_refuse(p, "the list must have at most %d values, not %zu", POLICY_LIST_MAX,
		                     *count);
	return ERR_NONE;
}

enum err_code parser_text(struct parser *p, const struct json *json, size_t max, struct bytes *out)
{
	if (json->type != JSON_STRING)
		return parser_refuse(p, "must be a string, not %s", json_type_name(json->type));
	if (json_text(json).len > max)
		return parser_refuse(p, "%s must have at most %zu bytes, not %zu",
		                     quote(json_text(json)).text, max, json_text(json).len);
	if (bytes_contains(json_text(json), BYTES("${")))
		return parser_refuse(p, "%s contains a policy variable, which is not supported",
		                     quote(json_text(json)).text);
	*out = arena_copy(p->arena, json_text(json));
	return ERR_NONE;
}

enum err_code parser_unique(struct parser *p, const struct json *object)
{
	for (const struct json *a = json_children(object); a != NULL; a = a->next)
		for (const struct json *b = a->next; b != NULL; b = b->next)
			if (bytes_equal(a->name, b->name))
				return parser_refuse(p, "%s is given twice", quote(a->name).text);
	return ERR_NONE;
}

enum err_code parser_count_runs(struct parser *p, struct bytes pattern)
{
	const char *star = memchr(pattern.data, '*', pattern.len);

	while (star != NULL) {
		const char *from = star + 1, *end = pattern.data + pattern.len;

		star = memchr(from, '*', (size_t)(end - from));
		if (star != NULL && memchr(from, '?', (size_t)(star - from)) != NULL)
			p->searched += (size_t)(star - from);
	}
	if (p->searched > POLICY_SEARCH_BYTES_MAX)
		return parser_refuse(p,
		                     "%s: too costly to match; the parts between two * that contain a ? must "
		                     "have at most %d bytes in the whole policy",
		                     quote(pattern).text, POLICY_SEARCH_BYTES_MAX);
	return ERR_NONE;
}

static const struct bytes document_elements[] = {BYTES_INIT("Version"), BYTES_INIT("Id"),
                                                 BYTES_INIT("Statement")};

static const struct bytes statement_elements[] = {
        BYTES_INIT("Sid"),      BYTES_INIT("Effect"),      BYTES_INIT("Action"),   BYTES_INIT("NotAction"),
        BYTES_INIT("Resource"), BYTES_INIT("NotResource"), BYTES_INIT("Condition")};

/* ---- elements ---- */

static bool is_among(const struct bytes *names, size_t count, struct bytes name)
{
	for (size_t i = 0; i < count; i++)
		if (bytes_equal(names[i], name))
			return true;
	return false;
}

static enum err_code refuse_element(struct parser *p, struct bytes name)
{
	p->element = (struct bytes){0};
	if (bytes_is(name, "Principal") || bytes_is(name, "NotPrincipal"))
		return parser_refuse(p, "%s is not allowed: the policy belongs to the key it is attached to",
		                     quote(name).text);
	return parser_refuse(p, "unknown element %s", quote(name).text);
}

static enum err_code check_elements(struct parser *p, const struct json *object, const struct bytes *names,
                                    size_t count)
{
	if (object->type != JSON_OBJECT)
		return parser_refuse(p, "must be an object, not %s", json_type_name(object->type));
	for (const struct json *child = json_children(object); child != NULL; child = child->next)
		if (!is_among(names, count, child->name))
			return refuse_element(p, child->name);
	return parser_unique(p, object);
}

/* Moves to an element of the statement or document; NULL if it is not there. */
static const struct json *element_of(struct parser *p, const struct json *object, struct bytes name)
{
	p->element = name;
	return json_get(object, name);
}

/* Which of two elements of the statement is there: exactly one must be. */
static enum err_code one_of(struct parser *p, struct bytes plain, struct bytes negated,
                            const struct json **found, bool *is_negated)
{
	const struct json *no = element_of(p, p->statement, negated);
	const struct json *yes = element_of(p, p->statement, plain);

	if (yes == NULL && no == NULL)
		return parser_refuse(p, "missing: give it or %.*s", BYTES_ARG(negated));
	if (yes != NULL && no != NULL)
		return parser_refuse(p, "not allowed together with %.*s", BYTES_ARG(negated));
	*is_negated = no != NULL;
	*found = *is_negated ? no : yes;
	p->element = *is_negated ? negated : plain;
	return ERR_NONE;
}

/* ---- statements ---- */

static enum err_code parse_sid(struct parser *p, struct statement *s)
{
	const struct json *sid = element_of(p, p->statement, BYTES("Sid"));

	if (sid == NULL)
		return ERR_NONE;
	if (parser_text(p, sid, POLICY_SID_BYTES_MAX, &s->sid) != ERR_NONE)
		return p->err->code;
	if (!bytes_hold_only(s->sid, ""))
		return parser_refuse(p, "%s must contain only letters and digits", quote(s->sid).text);
	return ERR_NONE;
}

static enum err_code parse_effect(struct parser *p, struct statement *s)
{
	const struct json *effect = element_of(p, p->statement, BYTES("Effect"));
	struct bytes       text;

	if (effect == NULL)
		return parser_refuse(p, "missing");
	if (parser_text(p, effect, POLICY_SID_BYTES_MAX, &text) != ERR_NONE)
		return p->err->code;
	s->allow = bytes_is(text, "Allow");
	if (!s->allow && !bytes_is(text, "Deny"))
		return parser_refuse(p, "%s is neither Allow nor Deny", quote(text).text);
	return ERR_NONE;
}

static enum err_code parse_actions(struct parser *p, struct statement *s)
{
	const struct json *json;

	if (one_of(p, BYTES("Action"), BYTES("NotAction"), &json, &s->not_action) != ERR_NONE ||
	    parser_list(p, json, &json, &s->action_count) != ERR_NONE)
		return p->err->code;
	s->actions = arena_array(p->arena, s->action_count, sizeof(*s->actions));
	for (size_t i = 0; i < s->action_count; i++, json = json->next)
		if (parse_action(p, json, &s->actions[i]) != ERR_NONE)
			return p->err->code;
	return ERR_NONE;
}

static enum err_code parse_resources(struct parser *p, struct statement *s)
{
	const struct json *json;

	if (one_of(p, BYTES("Resource"), BYTES("NotResource"), &json, &s->not_resource) != ERR_NONE ||
	    parser_list(p, json, &json, &s->resource_count) != ERR_NONE)
		return p->err->code;
	s->resources = arena_array(p->arena, s->resource_count, sizeof(*s->resources));
	for (size_t i = 0; i < s->resource_count; i++, json = json->next)
		if (parse_resource(p, json, &s->resources[i]) != ERR_NONE)
			return p->err->code;
	return ERR_NONE;
}

static enum err_code parse_statement(struct parser *p, struct statement *s)
{
	const struct json *condition;

	p->element = (struct bytes){0};
	if (check_elements(p, p->statement, statement_elements, COUNT(statement_elements)) != ERR_NONE ||
	    parse_sid(p, s) != ERR_NONE || parse_effect(p, s) != ERR_NONE ||
	    parse_actions(p, s) != ERR_NONE || parse_resources(p, s) != ERR_NONE)
		return p->err->code;
	condition = element_of(p, p->statement, BYTES("Condition"));
	return condition == NULL ? ERR_NONE : parse_conditions(p, condition, s);
}

/* Two statements of one name could not be told apart in an explanation. */
static enum err_code check_sid(struct parser *p, const struct statement *earlier, size_t count,
                               struct bytes sid)
{
	for (size_t i = 0; i < count && sid.len > 0; i++) {
		p->element = BYTES("Sid");
		if (bytes_equal(earlier[i].sid, sid))
			return parser_refuse(p, "Statement[%zu] has the same one", i);
	}
	return ERR_NONE;
}

/* ---- the document ---- */

static enum err_code parse_statements(struct parser *p, const struct json *document, struct policy *out)
{
	const struct json *json = element_of(p, document, BYTES("Statement"));
	bool               list = json != NULL && json->type == JSON_ARRAY;

	if (json == NULL)
		return parser_refuse(p, "missing");
	out->statement_count = list ? json->count : 1;
	if (out->statement_count == 0)
		return parser_refuse(p, "the list must not be empty");
	if (out->statement_count > POLICY_STATEMENTS_MAX)
		return parser_refuse(p, "must have at most %d statements, not %zu", POLICY_STATEMENTS_MAX,
		                     out->statement_count);
	json = list ? json_children(json) : json;
	out->statements = arena_zalloc(p->arena, out->statement_count * sizeof(*out->statements));
	for (size_t i = 0; i < out->statement_count; i++, json = json->next) {
		p->statement = json;
		p->number = i;
		if (parse_statement(p, &out->statements[i]) != ERR_NONE ||
		    check_sid(p, out->statements, i, out->statements[i].sid) != ERR_NONE)
			return p->err->code;
	}
	return ERR_NONE;
}

static enum err_code check_version(struct parser *p, const struct json *document)
{
	const struct json *json = element_of(p, document, BYTES("Version"));
	struct bytes       text = {0};

	if (json == NULL)
		return ERR_NONE;
	if (parser_text(p, json, POLICY_SID_BYTES_MAX, &text) != ERR_NONE)
		return p->err->code;
	if (!bytes_is(text, "2012-10-17") && !bytes_is(text, "2008-10-17"))
		return parser_refuse(p, "%s is neither 2012-10-17 nor 2008-10-17", quote(text).text);
	return ERR_NONE;
}

static enum err_code check_id(struct parser *p, const struct json *document)
{
	const struct json *json = element_of(p, document, BYTES("Id"));
	struct bytes       text;

	return json == NULL ? ERR_NONE : parser_text(p, json, POLICY_SID_BYTES_MAX, &text);
}

static enum err_code parse_document(struct parser *p, const struct json *document, struct policy *out)
{
	if (check_elements(p, document, document_elements, COUNT(document_elements)) != ERR_NONE ||
	    check_version(p, document) != ERR_NONE || check_id(p, document) != ERR_NONE)
		return p->err->code;
	return parse_statements(p, document, out);
}

enum err_code policy_parse(struct json_reader *reader, struct bytes text, struct policy **out,
                           struct err *err)
{
	struct policy *policy;
	struct arena   scratch;
	struct json   *document;
	struct parser  p = {.err = err};
	enum err_code  rc;

	if (text.len > POLICY_BYTES_MAX)
		return parser_refuse(&p, "the document must have at most %d bytes, not %zu", POLICY_BYTES_MAX,
		                     text.len);
	policy = mem_zalloc(sizeof(*policy));
	arena_init(&policy->arena);
	arena_init(&scratch);
	p.arena = &policy->arena;
	rc = json_read(reader, &scratch, text, &document, err);
	if (rc == ERR_NONE)
		rc = parse_document(&p, document, policy);
	arena_release(&scratch);
	policy->keys = p.keys;
	if (rc == ERR_NONE)
		*out = policy;
	else
		policy_close(policy);
	return rc;
}

void policy_close(struct policy *p)
{
	if (p == NULL)
		return;
	arena_release(&p->arena);
	free(p);
}
