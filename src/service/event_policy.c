/* The policies of events: see event_policy.h. */
#include "service/event_policy.h"

#include <string.h>

static const char *const type_names[EVENT_TYPE_COUNT] = {
#define X(id, type) [id] = type,
        EVENT_TYPES(X)
#undef X
};

_Static_assert(EVENT_TYPE_COUNT < 64, "a set of types has a bit for each");

const struct event_policy event_policy_usual = {
        .source = BYTES_INIT("gatehouse"),
        .keep_s = EVENT_KEEP_S,
        .lag_max_s = EVENT_LAG_S,
        .near_limit = EVENT_NEAR_LIMIT,
};

const char *event_type_name(enum event_type type)
{
	return type_names[type];
}

enum event_type event_type_named(struct bytes name)
{
	unsigned i = 0;

	while (i < EVENT_TYPE_COUNT && !bytes_is(name, type_names[i]))
		i++;
	return (enum event_type)i;
}

uint64_t event_types_of(struct bytes text)
{
	bool         all = text.len > 0 && text.data[text.len - 1] == '*';
	struct bytes prefix = {text.data, text.len - (all ? 1 : 0)};
	uint64_t     types = 0;

	if (all && prefix.len > 0 && prefix.data[prefix.len - 1] != '.')
		return 0;
	for (int i = 0; i < EVENT_TYPE_COUNT; i++)
		if (all ? bytes_starts_with(bytes_of(type_names[i]), prefix) : bytes_is(text, type_names[i]))
			types |= EVENT_BIT(i);
	return types;
}

/* ---- reading ---- */

static uint64_t types_read(struct fields *f, const char *name, uint64_t otherwise)
{
	const struct json *list = fields_array(f, name, EVENT_PATTERNS_MAX);
	uint64_t           types = 0, these;

	if (list == NULL)
		return otherwise;
	for (const struct json *one = fields_first(f, list); one != NULL; one = fields_next(f, one)) {
		these = one->type == JSON_STRING ? event_types_of(json_text(one)) : 0;
		if (these == 0)
			fields_fail(f, name, ERR_INVALID,
			            "must be a list of event types like lock.set, of groups like lock.*, or "
			            "of \"*\" for all");
		types |= these;
	}
	return types;
}

/* It is passed on to every reader as it is. CloudEvents wants a URI reference: no spaces, nothing that cannot be seen. */
static struct bytes source_read(struct fields *f, struct arena *a)
{
	struct bytes source = fields_text_or(f, "source", EVENT_SOURCE_MAX, event_policy_usual.source);

	for (size_t i = 0; i < source.len; i++)
		if (source.data[i] <= ' ' || source.data[i] > '~')
			fields_fail(f, "source", ERR_INVALID,
			            "must be a name or URI of visible ASCII characters, without spaces");
	if (source.len == 0)
		fields_fail(f, "source", ERR_INVALID, "must not be empty");
	return arena_copy(a, source);
}

enum err_code event_policy_parse(const struct json *tree, struct document **out, struct err *err)
{
	const struct event_policy *usual = &event_policy_usual;
	struct event_policy       *p = document_make(sizeof(*p));
	struct fields              f;

	fields_init(&f, tree, err);
	p->source = source_read(&f, &p->base.arena);
	p->on = types_read(&f, "types", EVENT_ALL & ~event_types_of(BYTES("attempt.*")));
	p->personal = types_read(&f, "personal_data", 0);
	p->keep_s = fields_i64_or(&f, "keep", EVENT_KEEP_S_MIN, EVENT_KEEP_S_MAX, usual->keep_s);
	p->lag_max_s = fields_i64_or(&f, "lag_max", EVENT_KEEP_S_MIN, EVENT_KEEP_S_MAX,
	                             p->keep_s > usual->lag_max_s ? p->keep_s : usual->lag_max_s);
	p->near_limit = fields_i64_or(&f, "near_limit", 0, EVENT_NEAR_LIMIT_MAX, usual->near_limit);
	p->outbox = fields_bool_or(&f, "outbox", false);
	if (!fields_failed(&f) && p->lag_max_s < p->keep_s)
		fields_fail(&f, "lag_max", ERR_INVALID, "must not be less than keep, which is %lld",
		            (long long)p->keep_s);
	if (fields_end(&f) != ERR_NONE) {
		document_release(&p->base);
		return err->code;
	}
	*out = &p->base;
	return ERR_NONE;
}
