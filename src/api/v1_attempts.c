/* POST /v1/attempts: counts, evaluates, locks, records and answers, in one durable call. The same in two steps, around the
 * hashing of a password: /v1/attempts/begin and /v1/attempts/finish. */
#include "api/v1_journeys.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_write.h"
#include "json/base64.h"
#include "service/lock_event.h"
#include "service/idempotency.h"
#include "service/outage.h"
#include "service/policy_store.h"
#include "service/reservation.h"
#include "service/rules.h"

enum { ID_RANDOM_BYTES = 24, ID_MAX = 2 * RULE_NAME_MAX + 2 + ID_RANDOM_BYTES / 3 * 4 };

struct attempts_call {
	struct attempt        q;
	enum outcome          outcome;
	bool                  enforce;
	struct attempt_result r;

	/* In two steps. */
	bool               begins;
	struct bytes       id; /* of the reservation; empty: none was made */
	int64_t            lapses_us;
	bool               locked; /* begin set a lock */
	struct reservation reservation;
};

static const char *const outcomes[] = {"failure", "success", "sent", NULL};

static bool notification_known(const struct rule *rule, struct bytes type)
{
	for (uint32_t i = 0; i < rule->notification_count; i++)
		if (bytes_equal(rule->notifications[i], type))
			return true;
	return rule->notification_count == 0;
}

static void type_unknown(struct fields *f, const struct rules *rules, struct bytes journey, struct bytes type)
{
	const struct rule *meant = rules_type_meant(rules, journey, type);

	if (meant == NULL)
		fields_fail(f, "type", ERR_INVALID,
		            "unknown type: the journey %.*s has no type %.*s in the policies",
		            BYTES_ARG(journey), BYTES_ARG(type));
	else
		fields_fail(f, "type", ERR_INVALID,
		            "unknown type: the journey %.*s has no type %.*s; did you mean %.*s?",
		            BYTES_ARG(journey), BYTES_ARG(type), BYTES_ARG(meant->type));
}

/* The rule, and whether the rest fits to it. */
static void read_rule(const struct v1_call *c, struct fields *f, struct attempts_call *a,
                      struct bytes journey, bool begins)
{
	uint32_t           subjects = a->q.subject_count, locks;
	struct bytes       type = v1_read_name(f, "type", false);
	const struct rule *rule;

	if (fields_failed(f))
		return;
	rule = a->q.rule = rules_find(a->q.rules, journey, type, a->q.method_type);
	if (rule == NULL) {
		type_unknown(f, a->q.rules, journey, type);
		return;
	}
	locks = rule_lock_count(rule, 1);
	if (a->outcome == OUTCOME_SENT && rule->counts != COUNT_SENT)
		fields_fail(f, "outcome", ERR_INVALID,
		            "must be failure or success, because %.*s counts failures", BYTES_ARG(type));
	if (a->outcome == OUTCOME_FAILURE && rule->counts == COUNT_SENT)
		fields_fail(f, begins ? "type" : "outcome", ERR_INVALID,
		            begins ? "%.*s counts what was sent, which cannot be begun: report it with POST "
		                     "/v1/attempts before you send"
		                   : "must be sent or success, because %.*s counts what was sent",
		            BYTES_ARG(type));
	/* From the first try on, not only at the maximum. A lock over several ids is told of once. */
	if (rule_lock_rows(rule, subjects) + lock_set_rows(c->ctx.services, locks, 1) +
	            (begins ? lock_announce_rows(c->ctx.services, locks) : 0) >
	    LOCK_ROWS_MAX)
		fields_fail(f, "subjects", ERR_INVALID,
		            "are too many: %.*s/%.*s sets %u locks for each, more than one attempt can set",
		            BYTES_ARG(journey), BYTES_ARG(type), rule->sets.count);
	v1_check_source(f, &a->q, rule);
	v1_check_qualifier(f, &a->q, rule);
	if (a->q.notification_type.len > 0 && !notification_known(rule, a->q.notification_type))
		fields_fail(f, "notification_type", ERR_INVALID,
		            "unknown: it is not among the `notification_types` of %.*s/%.*s in the policies",
		            BYTES_ARG(journey), BYTES_ARG(type));
}

/* Who tries what. Begin has no outcome: it counts as a failure. */
static void read_attempt(struct v1_call *c, struct fields *f, struct attempts_call *a, bool begins)
{
	struct bytes journey;

	a->q.rules = v1_rules(c);
	v1_read_subjects(c, f, &a->q);
	journey = v1_read_journey(c, f, a->q.rules);
	v1_read_method(c, f, &a->q);
	v1_read_context(c, f, &a->q);
	v1_read_challenge(f, &a->q);
	a->outcome = begins ? OUTCOME_FAILURE : (enum outcome)fields_choice(f, "outcome", outcomes, -1);
	read_rule(c, f, a, journey, begins);
}

/* Calls by another name of the person wait for it too (outage.h, 3). */
static void person_spool(const struct account *found, struct spooled *out)
{
	struct attempt *q = &out->q;

	for (uint32_t i = 0; i < found->id_count && q->subject_count < PERSON_IDS_MAX; i++) {
		bool named = false;

		for (uint32_t j = 0; j < out->named; j++)
			named = named || bytes_equal(q->subjects[j], found->ids[i]);
		if (!named)
			q->subjects[q->subject_count++] = found->ids[i];
	}
}

static void attempt_spool(struct v1_call *c, struct spooled *out)
{
	const struct attempts_call *a = c->request;

	out->q = a->q;
	out->named = a->q.subject_count;
	if (a->r.account != NULL)
		person_spool(a->r.account, out);
	out->q.device = a->r.device_name;
	out->q.device_of = a->r.device_of;
	out->q.users = a->r.account == NULL ? NULL : (struct bytes *)a->r.account->users;
	out->journey = a->q.rule->journey;
	out->type = a->q.rule->type;
	out->outcome = a->outcome;
	out->once.about = a->q.subjects[0];
}

enum err_code attempt_decode(struct v1_call *c, struct err *err)
{
	struct attempts_call *a = v1_request(c, sizeof(*a));
	struct fields         f;

	c->who = &a->q;
	c->record = attempt_spool;
	fields_init(&f, c->body, err);
	read_attempt(c, &f, a, false);
	if (a->outcome == OUTCOME_SUCCESS && a->q.remembers && a->q.rule != NULL && a->q.rule->remember_s > 0)
		a->q.making = v1_device_making(c);
	a->enforce = v1_read_enforce(c, &f);
	if (fields_end(&f) != ERR_NONE)
		return err->code;
	return v1_check_follows(c, a->q.rule,
	                        a->outcome == OUTCOME_SUCCESS ? &a->q.rule->clears : &a->q.rule->sets, err);
}

/* Known devices are not made during an outage: a token must not be told before its row is there. */
enum err_code attempt_run(struct v1_call *c, struct err *err)
{
	struct attempts_call *a = c->request;

	if (c->ctx.degraded)
		a->q.making = NULL;
	if (attempt_record(&c->ctx, &a->q, a->outcome, &a->r, err) != ERR_NONE)
		return err->code;
	c->denies = a->r.verdict.kind >= VERDICT_LOCKED && !a->r.counted;
	c->has_secret = a->r.device.token.len > 0;
	c->about = a->q.subjects[0];
	return ERR_NONE;
}

void attempt_committed(struct v1_call *c)
{
	const struct attempts_call *a = c->request;
	struct meter_shard         *m = c->call.loop->meter;
	bool                        finished = a->reservation.name.len > 0; /* begin told of lock and lane */

	rule_tally_note(a->q.rule, &(struct tally_note){.verdict = a->r.verdict.kind,
	                                                .shadow = a->r.shadow.kind,
	                                                .locked = a->locked || a->r.locked_now,
	                                                .source_locked = a->r.source_locked});
	if (!a->begins || a->id.len == 0)
		rule_tally_attempt(a->q.rule, a->begins ? OUTCOME_COUNT : a->outcome, a->r.verdict.kind);
	rule_tally_risk(a->q.rule, &a->r.verdict);
	if (a->q.token_sent && a->q.rule->max_device > 0 && !finished)
		metric_add(&m->devices[a->r.known_device ? METER_DEVICE_KNOWN : METER_DEVICE_UNKNOWN], 1);
	if (a->r.device_revoked)
		metric_add(&m->devices[METER_DEVICE_SPENT], 1);
	if (a->r.device.token.len > 0)
		metric_add(&m->devices[METER_DEVICE_ISSUED], 1);
}

/* ---- the answer ---- */

static void write_counts(struct json_writer *w, const struct attempts_call *a, int64_t now_us)
{
	const struct attempt_result *r = &a->r;

	if (r->nearest.max == 0 ||
	    (r->nearest.count == 0 && r->verdict.kind != VERDICT_ALLOW)) /* a lock took its place */
		return;
	json_key(w, BYTES("counts"));
	json_begin_object(w);
	json_name(w, a->q.rule->type);
	json_begin_object(w);
	v1_write_count(w, &r->nearest, now_us);
	json_end_object(w);
	json_end_object(w);
}

static void write_cleared(struct json_writer *w, const struct attempt_result *r)
{
	if (r->cleared_count == 0)
		return;
	json_key(w, BYTES("cleared"));
	json_begin_array(w);
	for (uint32_t i = 0; i < r->cleared_count; i++) {
		json_begin_object(w);
		json_member_text(w, BYTES("subject"), r->cleared[i].pk);
		json_member_text(w, BYTES("key"), r->cleared[i].sk);
		json_member_i64(w, BYTES("count"), r->cleared[i].count);
		json_end_object(w);
	}
	json_end_array(w);
}

/* A token is told once and kept nowhere: a replay says that it was issued, no more. */
static void write_device(const struct v1_call *c, struct json_writer *w, const struct attempts_call *a)
{
	const struct attempt_result *r = &a->r;

	if (a->q.token_sent)
		json_member_bool(w, BYTES("known_device"), r->known_device);
	if (r->device_revoked)
		json_member_bool(w, BYTES("device_forgotten"), true);
	if (r->device.token.len == 0)
		return;
	if (c->keeping)
		json_member_bool(w, BYTES("already_issued"), true);
	else
		json_member_text(w, BYTES("device_token"), r->device.token);
	v1_write_time(w, BYTES("device_expires"), r->device.expires_s);
}

static void write_standing(struct v1_call *c, struct json_writer *w, const struct attempts_call *a)
{
	const struct attempt_result *r = &a->r;

	v1_write_verdict(w, &r->verdict, c->ctx.now_us);
	v1_write_required(w, &r->required);
	json_member_bool(w, BYTES("counted"), r->counted);
	json_member_bool(w, BYTES("first_time"), r->first_time);
	write_device(c, w, a);
	write_counts(w, a, c->ctx.now_us);
	write_cleared(w, r);
	if (a->q.rule->shadow) {
		json_key(w, BYTES("shadow"));
		json_begin_object(w);
		v1_write_verdict(w, &r->shadow, c->ctx.now_us);
		json_end_object(w);
	}
	json_member_i64(w, BYTES("policy_version"), a->q.rules->base.version);
}

void attempt_encode(struct v1_call *c, struct json_writer *w)
{
	const struct attempts_call *a = c->request;

	if (a->enforce)
		v1_enforce_verdict(c, &a->r.verdict, c->ctx.now_us);
	json_begin_object(w);
	write_standing(c, w, a);
	v1_write_degraded(c, w);
	json_end_object(w);
}

/* ---- begin ---- */

/* "SIGN_IN.PASSWORD_ENTRY." and 192 bits: random, or, of a keyed request, made from its key and its digest, so that a replay
 * can tell it again. It is stored nowhere. */
static struct bytes id_make(struct v1_call *c, const struct rule *rule)
{
	const struct idempotency *once = &c->once;
	uint8_t                   bits[SHA256_BYTES];
	char                      text[ID_RANDOM_BYTES / 3 * 4];
	struct buf                seed;

	c->ctx.services->random(bits, sizeof(bits));
	if (once->key.len > 0) {
		buf_init(&seed, c->ctx.arena);
		buf_add_bytes(&seed, BYTES("attempt:"));
		buf_add(&seed, (const char *)once->digest, sizeof(once->digest));
		buf_add_bytes(&seed, once->caller);
		buf_add_byte(&seed, ':');
		buf_add_bytes(&seed, once->key);
		hmac_sha256(&c->ctx.services->identifiers.hmac, buf_bytes(&seed), bits);
	}
	base64_url_write((struct bytes){(const char *)bits, ID_RANDOM_BYTES}, text);
	return arena_printf(c->ctx.arena, "%.*s.%.*s.%.*s", BYTES_ARG(rule->journey), BYTES_ARG(rule->type),
	                    (int)sizeof(text), text);
}

static struct bytes name_of(struct v1_call *c, struct bytes id)
{
	char *name = arena_alloc(c->ctx.arena, RESERVATION_NAME_CHARS);

	reservation_name(id, name);
	return (struct bytes){name, RESERVATION_NAME_CHARS};
}

/* What was kept ends with a brace and a line's end; only a reservation has a lapse. */
static struct bytes begin_rebuild(struct v1_call *c, struct bytes kept)
{
	const struct attempts_call *a = c->request;
	struct bytes                id = id_make(c, a->q.rule);

	if (kept.len < 2 || !bytes_contains(kept, BYTES("\"lapses_at\"")))
		return kept;
	return arena_printf(c->ctx.arena, "%.*s,\"attempt\":\"%.*s\"}\n", (int)kept.len - 2, kept.data,
	                    BYTES_ARG(id));
}

enum err_code attempt_begin_decode(struct v1_call *c, struct err *err)
{
	struct attempts_call *a = v1_request(c, sizeof(*a));
	struct fields         f;

	c->who = &a->q;
	c->rebuild = begin_rebuild;
	fields_init(&f, c->body, err);
	a->begins = true;
	read_attempt(c, &f, a, true);
	a->enforce = v1_read_enforce(c, &f);
	if (fields_end(&f) != ERR_NONE)
		return err->code;
	return v1_check_follows(c, a->q.rule, &a->q.rule->sets, err);
}

enum err_code attempt_begin_run(struct v1_call *c, struct err *err)
{
	struct attempts_call *a = c->request;
	struct bytes          id = id_make(c, a->q.rule);
	struct begin_result   r;

	if (attempt_begin(&c->ctx, &a->q, name_of(c, id), &r, err) != ERR_NONE)
		return err->code;
	a->r = r.attempt;
	a->id = r.reserved ? id : (struct bytes){NULL, 0};
	a->lapses_us = r.lapses_us;
	a->locked = r.locked;
	c->denies = a->r.verdict.kind >= VERDICT_LOCKED && !r.reserved && !a->r.counted;
	c->has_secret = r.reserved;
	c->about = a->q.subjects[0];
	return ERR_NONE;
}

void attempt_begin_encode(struct v1_call *c, struct json_writer *w)
{
	const struct attempts_call *a = c->request;

	if (a->enforce)
		v1_enforce_verdict(c, &a->r.verdict, c->ctx.now_us);
	json_begin_object(w);
	write_standing(c, w, a);
	if (a->id.len > 0)
		v1_write_time(w, BYTES("lapses_at"), a->lapses_us / 1000000);
	if (a->id.len > 0 && !c->keeping)
		json_member_text(w, BYTES("attempt"), a->id);
	v1_write_degraded(c, w);
	json_end_object(w);
}

/* ---- finish ---- */

static struct bytes id_part(struct bytes *rest)
{
	const char  *dot = rest->len == 0 ? NULL : memchr(rest->data, '.', rest->len);
	struct bytes part = {rest->data, dot == NULL ? 0 : (size_t)(dot - rest->data)};

	if (dot != NULL)
		*rest = (struct bytes){dot + 1, rest->len - part.len - 1};
	return part;
}

enum err_code attempt_finish_name(struct v1_call *c, struct err *err)
{
	struct fields f;
	struct bytes  rest;

	fields_init(&f, c->body, err);
	rest = fields_text(&f, "attempt", ID_MAX);
	v1_resource(c, "journey", id_part(&rest));
	return fields_failed(&f) ? err->code : ERR_NONE;
}

static enum err_code id_refuse(struct err *err)
{
	return err_field(err, ERR_INVALID, "attempt",
	                 "attempt: not an id returned by POST /v1/attempts/begin");
}

/* Whether the key may do it depends on the journey, and on what the success clears, whichever the method. */
static enum err_code check_id(struct v1_call *c, struct attempts_call *a, struct err *err)
{
	struct bytes       rest = a->id, journey = id_part(&rest), type = id_part(&rest);
	uint32_t           count = 0;
	const struct rule *rules = rules_of_type(a->q.rules, journey, type, &count);

	if (!rule_name_is(journey) || !rule_name_is(type) || rest.len != ID_RANDOM_BYTES / 3 * 4)
		return id_refuse(err);
	for (uint32_t i = 0; i < count && a->outcome == OUTCOME_SUCCESS; i++)
		if (v1_check_follows(c, &rules[i], &rules[i].clears, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

/* Its type is no longer in the policies: it is finished under those that it began with (reservation.h, 7). */
static enum err_code begun_under(struct v1_call *c, struct attempts_call *a, struct err *err)
{
	const struct document_kind *kind = policy_store_kind(c->ctx.services->policies, BYTES("attempts"));
	struct reservation         *r = &a->reservation;
	struct document            *old = NULL;

	if (policy_store_version(&c->ctx, kind, r->version, &old, err) != ERR_NONE)
		return err->code;
	if (old != NULL)
		v1_hold(c, old);
	if (old == NULL || !reservation_under(r, (struct rules *)old, c->ctx.arena))
		return err_field(
		        err, ERR_INVALID, "attempt",
		        "attempt: its type is no longer in the policies, and the version that it began "
		        "under is no longer kept");
	return a->outcome == OUTCOME_SUCCESS ? v1_check_follows(c, r->q.rule, &r->q.rule->clears, err)
	                                     : ERR_NONE;
}

enum err_code attempt_finish_decode(struct v1_call *c, struct err *err)
{
	static const char *const ends[] = {"failure", "success", NULL};
	struct attempts_call    *a = v1_request(c, sizeof(*a));
	struct fields            f;

	a->q.rules = v1_rules(c);
	fields_init(&f, c->body, err);
	a->id = fields_text(&f, "attempt", ID_MAX);
	a->outcome = (enum outcome)fields_choice(&f, "outcome", ends, -1);
	a->enforce = v1_read_enforce(c, &f);
	if (fields_end(&f) != ERR_NONE)
		return err->code;
	if (a->outcome == OUTCOME_SUCCESS)
		a->q.making = v1_device_making(c);
	return check_id(c, a, err);
}

enum err_code attempt_finish_run(struct v1_call *c, struct err *err)
{
	struct attempts_call       *a = c->request;
	const struct device_making *making = a->q.making;
	struct reservation         *r = &a->reservation;

	if (reservation_find(&c->ctx, name_of(c, a->id), v1_rules(c), r, err) != ERR_NONE)
		return err->code;
	if (r->q.rule == NULL && begun_under(c, a, err) != ERR_NONE)
		return err->code;
	r->q.making = r->q.remembers ? making : NULL;
	if (attempt_finish(&c->ctx, r, a->outcome, &a->r, err) != ERR_NONE)
		return err->code;
	a->q = r->q;
	a->q.making = making;
	c->about = a->q.subjects[0];
	c->has_secret = a->r.device.token.len > 0;
	return ERR_NONE;
}

void attempt_finish_encode(struct v1_call *c, struct json_writer *w)
{
	attempt_encode(c, w);
}
