/* See v1_read.h. */
#include "api/v1_read.h"

#include "api/v1_journeys.h"
#include "base/date.h"
#include "service/push_device.h"

const struct rules *v1_rules(struct v1_call *c)
{
	if (c->rules != NULL)
		return c->rules;
	c->rules = document_acquire(&c->ctx.services->rules);
	v1_hold(c, (struct document *)(uintptr_t)&c->rules->base);
	return c->rules;
}

enum err_code v1_subject_param(struct v1_call *c, unsigned index, struct bytes *out, struct err *err)
{
	struct json   text = json_of_text(c->params[index]);
	struct fields f = {.err = err};

	err->code = ERR_NONE;
	*out = identifier_read(&c->ctx.services->identifiers, c->ctx.arena, &f, "id", &text);
	if (fields_failed(&f) && identifier_looks_like(json_text(&text)) != NULL) /* paths hold no objects */
		err_field(err, ERR_INVALID, "id",
		          "id: a path must not contain an email address, an IP address or a phone number, "
		          "because logs would keep it; use the id that POST /v1/subjects/lookup returns");
	return err->code;
}

enum err_code v1_subject_query(struct v1_call *c, const char *name, struct bytes value, struct bytes *out,
                               struct err *err)
{
	struct json   text = json_of_text(value);
	struct fields f = {.err = err};

	err->code = ERR_NONE;
	*out = identifier_read_past(&c->ctx.services->identifiers, c->ctx.arena, &f, name, &text);
	return err->code;
}

static bool has_subject(const struct attempt *q, struct bytes id)
{
	for (uint32_t i = 0; i < q->subject_count; i++)
		if (bytes_equal(q->subjects[i], id))
			return true;
	return false;
}

static void subject_keep(struct v1_call *c, const struct identifier *who, struct attempt *out)
{
	if (who->email.len > 0 && out->emails == NULL)
		out->emails = arena_zalloc(c->ctx.arena, SUBJECTS_MAX * sizeof(*out->emails));
	if (who->email.len > 0)
		out->emails[out->subject_count] = who->email;
	out->subjects[out->subject_count++] = who->id;
}

void v1_check_listed(struct fields *f, const char *name, const struct json *member)
{
	if (member->type == JSON_NULL)
		fields_fail(f, name, ERR_INVALID,
		            "must not contain null: each entry is an id, or an object like {\"email\": …}");
}

static void subject_add(struct v1_call *c, struct fields *f, const char *name, const struct json *member,
                        struct attempt *out)
{
	struct identifier who =
	        identifier_read_subject(&c->ctx.services->identifiers, c->ctx.arena, f, name, member);

	if (who.id.len == 0)
		return;
	if (has_subject(out, who.id)) {
		fields_fail(f, name, ERR_INVALID, "must not name the same subject twice");
		return;
	}
	subject_keep(c, &who, out);
}

void v1_read_subjects(struct v1_call *c, struct fields *f, struct attempt *out)
{
	const struct json *one = fields_get(f, "subject");
	const struct json *many = fields_array(f, "subjects", SUBJECTS_MAX);

	if (one != NULL && many != NULL)
		fields_fail(f, "subjects", ERR_INVALID, "must not be sent together with `subject`");
	else if (one == NULL && many == NULL)
		fields_fail(f, "subject", ERR_INVALID, "missing: send `subject`, or a list of `subjects`");
	else if (many == NULL)
		subject_add(c, f, "subject", one, out);
	else if (many->count == 0)
		fields_fail(f, "subjects", ERR_INVALID, "must not be empty");
	for (const struct json *m = fields_first(f, many); m != NULL; m = fields_next(f, m)) {
		v1_check_listed(f, "subjects", m);
		subject_add(c, f, "subjects", m, out);
	}
}

void v1_read_others(struct v1_call *c, struct fields *f, struct bytes id, struct attempt *out)
{
	const struct json *many = fields_array(f, "subjects", SUBJECTS_MAX);

	out->subjects[out->subject_count++] = id;
	for (const struct json *m = fields_first(f, many); m != NULL; m = fields_next(f, m)) {
		struct identifier who;

		v1_check_listed(f, "subjects", m);
		who = identifier_read_subject(&c->ctx.services->identifiers, c->ctx.arena, f, "subjects", m);
		if (who.id.len == 0 || has_subject(out, who.id))
			continue;
		if (out->subject_count == SUBJECTS_MAX) {
			fields_fail(f, "subjects", ERR_INVALID, "must have at most %d ids with the path's",
			            SUBJECTS_MAX);
			return;
		}
		subject_keep(c, &who, out);
	}
}

static void read_ip(struct v1_call *c, struct fields *f, struct attempt *out)
{
	struct bytes ip = fields_text_or(f, "ip", IDENTIFIER_BYTES_MAX, (struct bytes){NULL, 0});
	uint8_t      address[16];
	int          allowed;

	if (ip.len > 0 &&
	    !identifier_hash(&c->ctx.services->identifiers, c->ctx.arena, IDENTIFIER_IP, ip, &out->source))
		fields_fail(f, "ip", ERR_INVALID, "not a valid IP address");
	if (out->source.len == 0 || !identifier_ip_parse(ip, address))
		return;
	identifier_hash_network(&c->ctx.services->identifiers, c->ctx.arena, ip, &out->network);
	allowed = rules_allowed_bits(out->rules, address);
	out->source_allowed = allowed >= 0;
	out->source_spared = !address_is_v4(address) && allowed > IDENTIFIER_SOURCE_BITS;
	out->network_spared = allowed > IDENTIFIER_NETWORK_BITS;
	out->source_denied = rules_deny_source(out->rules, address);
}

/* The keys that sign device tokens, held for the length of the call. */
static const struct device_keys *device_keys(struct v1_call *c)
{
	struct device_keys *keys = document_acquire(&c->ctx.services->devices);

	v1_hold(c, &keys->base);
	return keys;
}

/* A token that is not valid, for whatever reason, is a stranger's: no error, and no hint at what is wrong with it. */
static void read_device_token(struct v1_call *c, struct fields *f, struct attempt *out)
{
	out->token = fields_text_or(f, "device_token", DEVICE_TOKEN_SENT_MAX, (struct bytes){NULL, 0});
	out->token_sent = out->token.len > 0;
	if (out->token_sent)
		out->keys = device_keys(c);
	if (fields_has(f, "device"))
		fields_fail(f, "device", ERR_INVALID,
		            "not supported; send the token that a success returned, as context.device_token");
}

/* The registered device that a success comes from: its lane ends with it. */
static void read_device_id(struct fields *f, struct attempt *out)
{
	out->device_id = fields_text_or(f, "device_id", PUSH_DEVICE_ID_BYTES_MAX, (struct bytes){NULL, 0});
	if (!fields_failed(f) && out->device_id.len > 0 && !push_device_id_is(out->device_id))
		fields_fail(f, "device_id", ERR_INVALID, "must not contain control characters");
}

void v1_read_context(struct v1_call *c, struct fields *f, struct attempt *out)
{
	const struct json *context = fields_object(f, "context", FIELDS_MEMBERS_MAX);
	struct fields      in;

	out->remembers = true;
	if (context == NULL)
		return;
	fields_enter(&in, f, BYTES("context"), context);
	read_ip(c, &in, out);
	read_device_token(c, &in, out);
	read_device_id(&in, out);
	out->remembers = fields_bool_or(&in, "remember_device", true);
	out->risk = fields_i64_or(&in, "risk", 0, RISK_MAX, 0);
	fields_end(&in);
}

void v1_read_challenge(struct fields *f, struct attempt *out)
{
	static const char *const states[] = {"none", "passed", NULL};

	out->challenge_passed = fields_choice(f, "challenge", states, 0) == 1;
}

const struct device_making *v1_device_making(struct v1_call *c)
{
	struct device_making *making = arena_alloc(c->ctx.arena, sizeof(*making));

	making->keys = device_keys(c);
	c->ctx.services->random(making->id, sizeof(making->id));
	return making;
}

struct bytes v1_read_name(struct fields *f, const char *name, bool optional)
{
	struct bytes text = optional ? fields_text_or(f, name, RULE_NAME_MAX, (struct bytes){NULL, 0})
	                             : fields_text(f, name, RULE_NAME_MAX);

	if (text.len > 0 && !rule_name_is(text))
		fields_fail(f, name, ERR_INVALID,
		            "must consist of capital letters, digits and underscores, a letter first");
	return text;
}

/* Any other value is a mistake: whoever relies on statuses must not find out by letting everyone in. */
bool v1_read_enforce(struct v1_call *c, struct fields *f)
{
	struct bytes enforce;

	if (fields_failed(f) || v1_query(c, "enforce", &enforce, f->err) != ERR_NONE || enforce.data == NULL)
		return false;
	if (!bytes_is(enforce, "status"))
		err_field(f->err, ERR_INVALID, "enforce", "?enforce: must be status");
	return true;
}

/* The journey that was probably meant, of those that the caller may see; NULL: none is close. */
static const struct journey *journey_meant(struct v1_call *c, const struct rules *rules, struct bytes name)
{
	const struct journey *meant = NULL;
	size_t                least = SIZE_MAX;

	for (uint32_t i = 0; i < rules->journey_count; i++) {
		size_t typos = bytes_typos(name, rules->journeys[i].name);

		if (typos >= least || !v1_sees(c, rules->journeys[i].name))
			continue;
		meant = &rules->journeys[i];
		least = typos;
	}
	return meant;
}

struct bytes v1_read_journey(struct v1_call *c, struct fields *f, const struct rules *rules)
{
	struct bytes          name = v1_read_name(f, "journey", false);
	const struct journey *meant;

	if (name.len == 0 || fields_failed(f) || rules_journey(rules, name) != NULL)
		return name;
	meant = journey_meant(c, rules, name);
	if (meant == NULL)
		fields_fail(f, "journey", ERR_INVALID,
		            "unknown journey %.*s; the policies list them under `journeys`", BYTES_ARG(name));
	else
		fields_fail(f, "journey", ERR_INVALID, "unknown journey %.*s; did you mean %.*s?",
		            BYTES_ARG(name), BYTES_ARG(meant->name));
	return name;
}

/* It becomes part of a key: no separator, no control characters. */
static bool qualifier_is(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] == '#' || (unsigned char)text.data[i] < ' ')
			return false;
	return text.len >= 1 && text.len <= METHOD_ID_MAX;
}

static struct bytes qualifier_of(struct v1_call *c, struct fields *f, const char *name,
                                 const struct json *member)
{
	struct bytes text =
	        identifier_read_method(&c->ctx.services->identifiers, c->ctx.arena, f, name, member);

	if (!fields_failed(f) && !qualifier_is(text))
		fields_fail(f, name, ERR_INVALID, "must have 1 to %d bytes, without # and control characters",
		            METHOD_ID_MAX);
	return text;
}

struct bytes v1_read_qualifier(struct v1_call *c, struct fields *f, const char *name)
{
	const struct json *member = fields_get(f, name);

	return member == NULL ? (struct bytes){NULL, 0} : qualifier_of(c, f, name, member);
}

enum err_code v1_query_qualifier(struct v1_call *c, const char *name, struct bytes *out, struct err *err)
{
	struct fields f = {.err = err};
	struct bytes  value;
	struct json   text;

	*out = (struct bytes){NULL, 0};
	if (v1_query(c, name, &value, err) != ERR_NONE)
		return err->code;
	if (value.data == NULL)
		return ERR_NONE;
	text = json_of_text(value);
	err->code = ERR_NONE; /* for f, which has no beginning of its own */
	*out = qualifier_of(c, &f, name, &text);
	return err->code;
}

/* Texts that are no names are not repeated. */
enum err_code v1_check_lock(const struct rules *rules, struct bytes journey, struct bytes name,
                            struct err *err)
{
	static const char capitals[] =
	        "must consist of capital letters, digits and underscores, a letter first";

	if (!rule_name_is(journey))
		return err_field(err, ERR_INVALID, "journey", "journey: %s", capitals);
	if (rules_journey(rules, journey) == NULL)
		return err_field(err, ERR_INVALID, "journey",
		                 "journey: unknown journey %.*s; the policies list them under `journeys`",
		                 BYTES_ARG(journey));
	if (name.len == 0)
		return ERR_NONE;
	if (!rule_name_is(name))
		return err_field(err, ERR_INVALID, "name", "name: %s", capitals);
	if (!rules_has_lock(rules, journey, name))
		return err_field(err, ERR_INVALID, "name",
		                 "name: unknown lock: the journey %.*s has no lock %.*s in the policies",
		                 BYTES_ARG(journey), BYTES_ARG(name));
	return ERR_NONE;
}

void v1_read_method(struct v1_call *c, struct fields *f, struct attempt *out)
{
	out->method_id = v1_read_qualifier(c, f, "method_id");
	out->method_type = v1_read_name(f, "method_type", true);
	out->notification_type = v1_read_name(f, "notification_type", true);
}

void v1_check_source(struct fields *f, const struct attempt *q, const struct rule *rule)
{
	if (rule_counts_sources(rule) && !rule->skips_source && q->source.len == 0)
		fields_fail(f, "context.ip", ERR_INVALID,
		            "missing: %.*s/%.*s counts by source; send it, or set `without_source: skip` in "
		            "the policy",
		            BYTES_ARG(rule->journey), BYTES_ARG(rule->type));
}

/* Without one the count would be the subject's, and its lock everybody's. */
void v1_check_qualifier(struct fields *f, const struct attempt *q, const struct rule *rule)
{
	if (rule->qualifier == QUALIFY_NOTIFICATION && q->notification_type.len == 0)
		fields_fail(f, "notification_type", ERR_INVALID, "missing: %.*s/%.*s counts by it",
		            BYTES_ARG(rule->journey), BYTES_ARG(rule->type));
	if (rule->qualifier == QUALIFY_METHOD && q->method_id.len == 0 && q->method_type.len == 0)
		fields_fail(f, "method_id", ERR_INVALID,
		            "missing: %.*s/%.*s counts by method; send method_id or method_type",
		            BYTES_ARG(rule->journey), BYTES_ARG(rule->type));
}

bool v1_time_is(struct bytes text, int64_t *seconds)
{
	int64_t micros = 0;
	bool    is = date_read_rfc3339(text, &micros);

	*seconds = micros / 1000000;
	return is;
}

int64_t v1_read_time(struct fields *f, const char *name)
{
	const struct json *member = fields_get(f, name);
	int64_t            seconds = 0;

	if (member == NULL || member->type != JSON_STRING)
		return fields_i64(f, name, 0, V1_SECONDS_MAX);
	if (!v1_time_is(json_text(member), &seconds))
		fields_fail(f, name, ERR_INVALID,
		            "must be whole seconds since 1970, or a UTC time like 2026-11-15T22:00:00Z");
	return seconds;
}
