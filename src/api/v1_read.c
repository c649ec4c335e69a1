/* See v1_read.h. */
#include "api/v1_read.h"

#include <stdio.h>
#include <time.h>

#include "service/push_device.h"
#include "service/row.h"

const struct rules *v1_rules(struct v1_call *c)
{
	const struct rules *rules = document_acquire(&c->ctx.services->rules);

	v1_hold(c, (struct document *)(uintptr_t)&rules->base);
	return rules;
}

/* ---- reading ---- */

enum err_code v1_subject_param(struct v1_call *c, unsigned index, struct bytes *out, struct err *err)
{
	struct json   text = {.type = JSON_STRING, .text = c->params[index]};
	struct fields f = {.err = err};

	err->code = ERR_NONE;
	*out = identifier_read(&c->ctx.services->identifiers, c->ctx.arena, &f, "id", &text);
	if (fields_failed(&f) && identifier_looks_like(text.text) != NULL) /* paths hold no objects */
		err_field(err, ERR_INVALID, "id",
		          "id: a path must not contain an email address, an IP address or a phone number, "
		          "because logs would keep it; use the id that POST /v1/subjects/lookup returns");
	return err->code;
}

enum err_code v1_subject_query(struct v1_call *c, const char *name, struct bytes value, struct bytes *out,
                               struct err *err)
{
	struct json   text = {.type = JSON_STRING, .text = value};
	struct fields f = {.err = err};

	err->code = ERR_NONE;
	*out = identifier_read(&c->ctx.services->identifiers, c->ctx.arena, &f, name, &text);
	return err->code;
}

static bool has_subject(const struct attempt *q, struct bytes id)
{
	for (uint32_t i = 0; i < q->subject_count; i++)
		if (bytes_equal(q->subjects[i], id))
			return true;
	return false;
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
	if (who.email.len > 0) {
		if (out->emails == NULL)
			out->emails = arena_zalloc(c->ctx.arena, SUBJECTS_MAX * sizeof(*out->emails));
		out->emails[out->subject_count] = who.email;
	}
	out->subjects[out->subject_count++] = who.id;
}

void v1_read_subjects(struct v1_call *c, struct fields *f, struct attempt *out)
{
	const struct json *one = fields_get(f, "subject");
	const struct json *many = fields_array(f, "subjects", SUBJECTS_MAX);

	if (one != NULL && many != NULL)
		fields_fail(f, "subjects", ERR_INVALID, "must not be sent together with `subject`");
	else if (many == NULL)
		subject_add(c, f, "subject", one, out);
	else if (many->count == 0)
		fields_fail(f, "subjects", ERR_INVALID, "must not be empty");
	for (const struct json *m = many == NULL ? NULL : many->children; m != NULL; m = m->next)
		subject_add(c, f, "subjects", m, out);
}

static void read_ip(struct v1_call *c, struct fields *f, struct attempt *out)
{
	struct bytes ip = fields_text_or(f, "ip", IDENTIFIER_BYTES_MAX, (struct bytes){NULL, 0});
	uint8_t      address[16];

	if (ip.len > 0 &&
	    !identifier_hash(&c->ctx.services->identifiers, c->ctx.arena, IDENTIFIER_IP, ip, &out->source))
		fields_fail(f, "ip", ERR_INVALID, "not a valid IP address");
	if (out->source.len == 0 || !identifier_ip_parse(ip, address))
		return;
	out->source_allowed = rules_allow_source(out->rules, address);
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
	struct bytes text = fields_text_or(f, "device_token", DEVICE_TOKEN_SENT_MAX, (struct bytes){NULL, 0});
	char        *name = arena_alloc(c->ctx.arena, DEVICE_NAME_CHARS);

	out->token_sent = text.len > 0;
	if (out->token_sent && out->subject_count > 0 &&
	    device_token_read(device_keys(c), text, out->subjects[0], name))
		out->device = (struct bytes){name, DEVICE_NAME_CHARS};
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
	const struct json *context = fields_object(f, "context", 8);
	struct fields      in;

	out->remembers = true;
	if (context == NULL)
		return;
	fields_enter(&in, f, BYTES("context"), context);
	read_ip(c, &in, out);
	read_device_token(c, &in, out);
	read_device_id(&in, out);
	out->remembers = fields_bool_or(&in, "remember_device", true);
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

struct bytes v1_read_journey(struct v1_call *c, struct fields *f, const struct rules *rules)
{
	struct bytes name = v1_read_name(f, "journey", false);

	if (name.len > 0 && !fields_failed(f) && rules_journey(rules, name) == NULL)
		fields_fail(f, "journey", ERR_INVALID,
		            "unknown journey %.*s; the policies list them under `journeys`", BYTES_ARG(name));
	v1_resource(c, "journey", name);
	return name;
}

void v1_every_journey(struct v1_call *c, const struct rules *rules)
{
	for (uint32_t i = 0; i < rules->journey_count; i++)
		v1_resource(c, "journey", rules->journeys[i].name);
}

void v1_any_journey(struct v1_call *c, const struct rules *rules)
{
	v1_every_journey(c, rules);
	c->any_will_do = true;
}

/* What stands in a key's first place, as a resource. */
static const char *resource_of(struct bytes journey, struct bytes *name)
{
	bool intervention = bytes_is(journey, KEY_INTERVENTION);

	*name = journey;
	if (!intervention && !bytes_is(journey, KEY_EMAIL_FRAUD))
		return "journey";
	*name = bytes_of(state_family_names[intervention ? FAMILY_INTERVENTION : FAMILY_EMAIL_FRAUD]);
	return "state";
}

void v1_any_row(struct v1_call *c, const struct rules *rules, struct bytes prefix)
{
	struct bytes name;
	const char  *kind = resource_of(key_split(prefix).journey, &name);

	if (prefix.len > 0) {
		v1_resource(c, kind, name);
		return;
	}
	v1_any_journey(c, rules);
	for (int i = 0; state_family_names[i] != NULL; i++)
		v1_resource(c, "state", bytes_of(state_family_names[i]));
}

static enum decision decide_on(const struct v1_call *c, struct bytes journey, struct err *err)
{
	struct bytes name;
	const char  *kind = resource_of(journey, &name);

	return v1_decide(c, kind, name, err);
}

bool v1_sees(void *call, struct bytes journey)
{
	struct err ignored;

	return decide_on(call, journey, &ignored) == DECISION_ALLOWED;
}

enum err_code v1_check_sees(struct v1_call *c, struct bytes journey, struct err *err)
{
	return decide_on(c, journey, err) == DECISION_ALLOWED ? ERR_NONE : err->code;
}

/* Rows of one journey follow each other, and so one question does for them all. */
void v1_hide_rows(struct v1_call *c, struct subject *s)
{
	struct bytes journey = {NULL, 0};
	uint32_t     kept = 0;
	bool         seen = false;

	for (uint32_t i = 0; i < s->count; i++) {
		if (i == 0 || !bytes_equal(s->rows[i].key.journey, journey)) {
			journey = s->rows[i].key.journey;
			seen = v1_sees(c, journey);
		}
		if (seen)
			s->rows[kept++] = s->rows[i];
	}
	s->count = kept;
}

enum err_code v1_check_follows(struct v1_call *c, const struct rule *rule, const struct rule_refs *refs,
                               struct err *err)
{
	for (uint32_t i = 0; i < refs->count; i++)
		if (!bytes_equal(refs->list[i].journey, rule->journey) &&
		    v1_decide(c, "journey", refs->list[i].journey, err) == DECISION_DENIED_EXPLICITLY)
			return err->code;
	return ERR_NONE;
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
	struct json   text = {.type = JSON_STRING};
	struct fields f = {.err = err};

	*out = (struct bytes){NULL, 0};
	if (v1_query(c, name, &text.text, err) != ERR_NONE)
		return err->code;
	if (text.text.data == NULL)
		return ERR_NONE;
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
	if ((rule->max_pair > 0 || rule->max_source > 0) && !rule->skips_source && q->source.len == 0)
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

/* ---- writing ---- */

void v1_write_time(struct json_writer *w, struct bytes name, int64_t seconds)
{
	time_t    then = (time_t)seconds;
	struct tm utc;
	char      text[32];

	if (seconds <= 0 || gmtime_r(&then, &utc) == NULL)
		return;
	json_key(w, name);
	json_string(w, (struct bytes){text, strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc)});
}

static void write_lock(struct json_writer *w, const struct verdict *v, int64_t now_us)
{
	struct key_parts p = key_split(v->sk);

	json_key(w, BYTES("lock"));
	json_begin_object(w);
	json_member_text(w, BYTES("journey"), p.journey);
	json_member_text(w, BYTES("name"), p.classifier);
	json_member_text(w, BYTES("qualifier"), p.qualifier);
	json_member_text(w, BYTES("kind"), v->block_type);
	v1_write_time(w, BYTES("until"), v->until_s);
	if (v->until_s > 0)
		json_member_i64(w, BYTES("retry_after"), clock_seconds_left(v->until_s, now_us));
	json_end_object(w);
}

void v1_write_verdict_wait(struct json_writer *w, const struct verdict *v, const struct verdict_wait *wait,
                           int64_t now_us)
{
	json_member_text(w, BYTES("verdict"), bytes_of(verdict_words[v->kind].name));
	if (v->kind == VERDICT_ALLOW)
		return;
	json_member_text(w, BYTES("reason"), bytes_of(v->reason));
	v1_write_time(w, BYTES("until"), wait->until_s);
	if (wait->until_s > 0)
		json_member_i64(w, BYTES("retry_after"), wait->whole_seconds);
	if (v->kind == VERDICT_LOCKED || v->kind == VERDICT_LOCKED_PERMANENT)
		write_lock(w, v, now_us);
}

void v1_write_verdict(struct json_writer *w, const struct verdict *v, int64_t now_us)
{
	struct verdict_wait wait = {0};

	if (v->kind != VERDICT_ALLOW)
		wait = verdict_wait(v, now_us);
	v1_write_verdict_wait(w, v, &wait, now_us);
}

void v1_write_degraded(const struct v1_call *c, struct json_writer *w)
{
	if (!c->ctx.degraded)
		return;
	json_member_bool(w, BYTES("degraded"), true);
	json_member_text(w, BYTES("warning"),
	                 BYTES("the tables do not answer: this was decided on what this server knew last"));
}

void v1_write_required(struct json_writer *w, const struct states_required *r)
{
	if (r->count > 0) {
		json_key(w, BYTES("required"));
		json_begin_array(w);
		for (uint32_t i = 0; i < r->count; i++)
			json_string(w, bytes_of(r->list[i]));
		json_end_array(w);
	}
	if (r->email_fraud_pending)
		json_member_bool(w, BYTES("email_fraud_pending"), true);
}

void v1_write_count(struct json_writer *w, const struct count_shown *shown, int64_t now_us)
{
	json_member_i64(w, BYTES("count"), shown->count);
	json_member_i64(w, BYTES("max"), shown->max);
	json_member_i64(w, BYTES("remaining"), shown->remaining);
	if (shown->ends_s > 0)
		json_member_i64(w, BYTES("expires_in"), clock_seconds_left(shown->ends_s, now_us));
}

void v1_enforce_wait(struct v1_call *c, enum verdict_kind kind, const struct verdict_wait *wait)
{
	struct buf seconds;

	c->status = verdict_words[kind].status;
	if (wait->until_s == 0)
		return;
	buf_init(&seconds, c->ctx.arena);
	buf_add_i64(&seconds, wait->whole_seconds);
	v1_header(c, BYTES("Retry-After"), buf_bytes(&seconds));
}

void v1_enforce_verdict(struct v1_call *c, const struct verdict *v, int64_t now_us)
{
	struct verdict_wait wait = verdict_wait(v, now_us);

	v1_enforce_wait(c, v->kind, &wait);
}

/* ---- times as callers write them: RFC 3339, with an offset; fractions of a second are allowed and dropped ---- */

enum { YEAR_MIN = 1970 };

static const int64_t seconds_max = 253402300799; /* the end of the year 9999 */

/* A number of exactly `digits` digits, followed by `after` unless that is NUL. Moves past both. */
static bool part(struct bytes *rest, size_t digits, char after, int *out)
{
	size_t   len = digits + (after == '\0' ? 0 : 1);
	uint64_t number;

	if (rest->len < len || !bytes_to_u64((struct bytes){rest->data, digits}, 9999, &number) ||
	    (after != '\0' && rest->data[digits] != after))
		return false;
	*out = (int)number;
	*rest = (struct bytes){rest->data + len, rest->len - len};
	return true;
}

static bool fraction_skip(struct bytes *rest)
{
	size_t digits = 0;

	if (rest->len == 0 || rest->data[0] != '.')
		return true;
	while (digits + 1 < rest->len && rest->data[digits + 1] >= '0' && rest->data[digits + 1] <= '9')
		digits++;
	*rest = (struct bytes){rest->data + digits + 1, rest->len - digits - 1};
	return digits > 0;
}

/* "Z", "+02:00", "-05:30" */
static bool offset_read(struct bytes rest, int64_t *seconds)
{
	int hours, minutes, sign;

	*seconds = 0;
	if (bytes_is(rest, "Z") || bytes_is(rest, "z"))
		return true;
	if (rest.len == 0 || (rest.data[0] != '+' && rest.data[0] != '-'))
		return false;
	sign = rest.data[0] == '-' ? -1 : 1;
	rest = (struct bytes){rest.data + 1, rest.len - 1};
	if (!part(&rest, 2, ':', &hours) || !part(&rest, 2, '\0', &minutes) || rest.len > 0 || hours > 23 ||
	    minutes > 59)
		return false;
	*seconds = sign * (hours * 3600 + minutes * 60);
	return true;
}

static bool date_is(const struct tm *given)
{
	struct tm made = *given;

	if (given->tm_year < YEAR_MIN - 1900 || given->tm_hour > 23 || given->tm_min > 59 ||
	    given->tm_sec > 60)
		return false;
	made.tm_hour = made.tm_min = made.tm_sec = 0;
	timegm(&made); /* the 30th of February becomes another day */
	return made.tm_mday == given->tm_mday && made.tm_mon == given->tm_mon;
}

bool time_parse(struct bytes text, int64_t *seconds)
{
	struct tm when = {0};
	int64_t   offset;

	if (!part(&text, 4, '-', &when.tm_year) || !part(&text, 2, '-', &when.tm_mon) ||
	    !part(&text, 2, 'T', &when.tm_mday) || !part(&text, 2, ':', &when.tm_hour) ||
	    !part(&text, 2, ':', &when.tm_min) || !part(&text, 2, '\0', &when.tm_sec) ||
	    !fraction_skip(&text) || !offset_read(text, &offset))
		return false;
	when.tm_year -= 1900;
	when.tm_mon -= 1;
	if (!date_is(&when))
		return false;
	*seconds = (int64_t)timegm(&when) - offset;
	return *seconds >= 0 && *seconds <= seconds_max;
}

int64_t v1_read_time(struct fields *f, const char *name)
{
	const struct json *member = fields_get(f, name);
	int64_t            seconds = 0;

	if (member == NULL || member->type != JSON_STRING)
		return fields_i64(f, name, 0, seconds_max);
	if (!time_parse(member->text, &seconds))
		fields_fail(f, name, ERR_INVALID,
		            "must be whole seconds since 1970, or a UTC time like 2026-11-15T22:00:00Z");
	return seconds;
}
