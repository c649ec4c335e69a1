/* GET /v1/subjects/…: reading what is known of one: everything, sums of counts, and why it is locked. */
#include "api/v1_journeys.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_write.h"
#include "service/key_prefix.h"
#include "service/lock.h"
#include "service/push_list.h"
#include "service/revocation.h"
#include "service/row.h"
#include "service/subject.h"
#include "service/user.h"

/* The user of that id, for keys that may have it from GET /v1/users/{id}, too. */
struct account_seen {
	bool             there;
	enum user_status status;
	struct revoked   tokens;
};

struct subject_call {
	struct bytes     id, prefix;
	struct subject   s;
	struct push_page registered; /* devices, if the caller may see the user */

	struct account_seen account;
};

static enum err_code read_account(struct v1_call *c, struct bytes id, struct account_seen *out,
                                  struct err *err)
{
	struct user   u;
	enum err_code rc;

	*out = (struct account_seen){0};
	if (!user_id_is(id) || v1_denied(c, "user", id) || !v1_allowed_to(c, "GetUser", "user", id))
		return ERR_NONE;
	rc = user_get(&c->ctx, id, &u, err);
	if (rc != ERR_NONE && rc != ERR_NOT_FOUND)
		return rc;
	out->there = rc == ERR_NONE;
	out->status = out->there ? u.status : USER_ACTIVE;
	return revocation_get(&c->ctx, REVOKED_USER, id, &out->tokens, err);
}

/* "user": its status, what attempts are told, and up to when its tokens are revoked. Nothing if nothing is known. */
static void write_account(struct json_writer *w, const struct account_seen *a)
{
	if (!a->there && a->tokens.kind == REVOKED_NOTHING)
		return;
	json_name(w, BYTES("user"));
	json_begin_object(w);
	if (a->there) {
		json_member_text(w, BYTES("status"), bytes_of(user_status_names[a->status]));
		if (account_reason(a->status) != NULL)
			json_member_text(w, BYTES("blocked"), bytes_of(account_reason(a->status)));
	}
	v1_write_time(w, BYTES("tokens_not_before"), a->tokens.not_before_s);
	v1_write_time(w, BYTES("tokens_revoked_at"), a->tokens.revoked_s);
	json_member_text(w, BYTES("tokens_revoked_by"), a->tokens.by);
	json_member_text(w, BYTES("tokens_revoked_for"), a->tokens.reason);
	json_end_object(w);
}

static enum err_code read_prefix(struct v1_call *c, struct bytes *out, struct err *err)
{
	if (v1_query(c, "prefix", out, err) != ERR_NONE)
		return err->code;
	return out->len <= KEY_RANGE_BYTES_MAX
	               ? ERR_NONE
	               : err_field(err, ERR_INVALID, "prefix", "?prefix: must have at most %d bytes",
	                           KEY_RANGE_BYTES_MAX);
}

static enum err_code name_rows(struct v1_call *c, struct err *err)
{
	struct bytes prefix;

	if (read_prefix(c, &prefix, err) != ERR_NONE)
		return err->code;
	v1_any_row(c, v1_rules(c), prefix);
	return ERR_NONE;
}

/* Names are the policies', or ours; what is sent is repeated only as far as it is one. */
static enum err_code check_prefix(struct v1_call *c, struct bytes prefix, struct err *err)
{
	struct key_half half;

	if (key_prefix_is_whole(v1_rules(c), prefix, &half))
		return ERR_NONE;
	return err_field(err, ERR_INVALID, "prefix",
	                 "?prefix: must consist of whole parts of a key, like SIGN_IN%%23ERROR_COUNT; "
	                 "%.*s is half a part: did you mean %.*s?",
	                 BYTES_ARG(half.part), BYTES_ARG(half.whole));
}

static enum err_code read_call(struct v1_call *c, struct err *err)
{
	struct subject_call *k = v1_request(c, sizeof(*k));

	if (v1_subject_param(c, 0, &k->id, err) != ERR_NONE || read_prefix(c, &k->prefix, err) != ERR_NONE)
		return err->code;
	return check_prefix(c, k->prefix, err);
}

static enum err_code read_rows(struct v1_call *c, struct err *err)
{
	struct subject_call *k = c->request;
	struct subject_query q = {k->id, k->prefix, v1_users_denied(c)};

	if (subject_read(&c->ctx, &q, &k->s, err) != ERR_NONE)
		return err->code;
	v1_hide_rows(c, &k->s);
	return ERR_NONE;
}

/* ---- lookup: what an email address, a phone number, an IP address or a device is called here ---- */

enum err_code subject_lookup_decode(struct v1_call *c, struct err *err)
{
	struct fields f;
	struct bytes *id = arena_zalloc(c->ctx.arena, sizeof(*id));

	fields_init(&f, c->body, err);
	*id = identifier_read(&c->ctx.services->identifiers, c->ctx.arena, &f, "subject",
	                      fields_get(&f, "subject"));
	c->result = id;
	return fields_end(&f);
}

enum err_code subject_lookup_run(struct v1_call *c, struct err *err)
{
	(void)c;
	(void)err;
	return ERR_NONE;
}

void subject_lookup_encode(struct v1_call *c, struct json_writer *w)
{
	json_begin_object(w);
	json_member_text(w, BYTES("subject"), *(struct bytes *)c->result);
	json_end_object(w);
}

/* ---- everything ---- */

enum err_code subject_get_name(struct v1_call *c, struct err *err)
{
	return name_rows(c, err);
}

enum err_code subject_get_decode(struct v1_call *c, struct err *err)
{
	return read_call(c, err);
}

/* Devices that are registered for a user of that id: for keys that may list them, too. */
static enum err_code read_registered(struct v1_call *c, struct err *err)
{
	struct subject_call *k = c->request;
	struct push_search   q = {.user = k->id, .inactive = true, .limit = PUSH_PAGE_MAX};

	if (k->prefix.len > 0 || !user_id_is(k->id) || v1_denied(c, "user", k->id) ||
	    !v1_allowed_to(c, "ListDevices", "user", k->id))
		return ERR_NONE;
	return push_devices_find(&c->ctx, &q, &k->registered, err);
}

enum err_code subject_get_run(struct v1_call *c, struct err *err)
{
	struct subject_call *k = c->request;

	if (read_rows(c, err) != ERR_NONE || read_registered(c, err) != ERR_NONE)
		return err->code;
	return k->prefix.len > 0 ? ERR_NONE : read_account(c, k->id, &k->account, err);
}

static void write_attribute(struct json_writer *w, const char *as, const struct item *item, const char *name)
{
	json_member_text(w, bytes_of(as), row_text(item, name));
}

/* What one waits for the end of. */
static bool row_bars(const struct subject_row *row)
{
	return row->kind == ROW_LOCK || row->kind == ROW_STATE;
}

/* The other ids of the person whose rows are shown too. */
static void write_ids(struct json_writer *w, const struct subject *s)
{
	json_member_text(w, BYTES("subject"), s->ids[0]);
	if (s->id_count < 2)
		return;
	json_name(w, BYTES("other_subjects"));
	json_begin_array(w);
	for (uint32_t i = 1; i < s->id_count; i++)
		json_string(w, s->ids[i]);
	json_end_array(w);
}

/* Whose row it is, if not the one's that was asked for. */
static void write_whose(struct json_writer *w, const struct subject *s, const struct subject_row *row)
{
	if (!bytes_equal(row->pk, s->ids[0]))
		json_member_text(w, BYTES("subject"), row->pk);
}

/* What counts, locks, states and devices have in common. */
static void write_row(struct json_writer *w, const struct subject_row *row, int64_t now_us)
{
	const struct item *item = &row->item;
	int64_t            ends_s = row_i64(item, "ttl", 0);

	json_member_text(w, BYTES("key"), row->sk);
	json_member_text(w, BYTES("journey"), row->key.journey);
	json_member_text(w, BYTES("type"), row->key.type);
	json_member_text(w, BYTES("name"), row->key.classifier);
	json_member_text(w, BYTES("qualifier"), row->key.qualifier);
	if (row->kind == ROW_COUNT)
		json_member_i64(w, BYTES("count"), row_i64(item, "count", 0));
	if (row_i64(item, ROW_LOCKED_COUNT, 0) > 0)
		json_member_i64(w, BYTES(ROW_LOCKED_COUNT), row_i64(item, ROW_LOCKED_COUNT, 0));
	write_attribute(w, "kind", item, "block_type");
	write_attribute(w, "state", item, "intervention_state");
	write_attribute(w, "method_type", item, "mfa_method_type");
	write_attribute(w, "notification_type", item, "notification_type");
	write_attribute(w, "cause", item, "cause");
	write_attribute(w, "device_id", item, DEVICE_LINK);
	if (row->kind == ROW_LOCK && lock_is_persons(item))
		json_member_text(w, BYTES("set_by"), lock_set_by(item));
	write_attribute(w, "reason", item, "reason");
	v1_write_time(w, BYTES("applied_at"), row_i64(item, "applied_at", 0));
	v1_write_time(w, BYTES("last_updated"), row_i64(item, "last_updated", 0));
	v1_write_time(w, BYTES("until"), ends_s);
	if (ends_s > 0)
		json_member_i64(w, row_bars(row) ? BYTES("retry_after") : BYTES("expires_in"),
		                clock_seconds_left(ends_s, now_us));
}

static void write_kind(struct v1_call *c, struct json_writer *w, const char *name, enum subject_row_kind kind)
{
	const struct subject_call *k = c->request;

	json_name(w, bytes_of(name));
	json_begin_array(w);
	for (uint32_t i = 0; i < k->s.count; i++) {
		if (k->s.rows[i].kind != kind)
			continue;
		json_begin_object(w);
		write_whose(w, &k->s, &k->s.rows[i]);
		write_row(w, &k->s.rows[i], c->ctx.now_us);
		if (kind == ROW_LOCK)
			json_member_bool(w, BYTES("enforced"),
			                 lock_enforced(v1_rules(c), k->id, &k->s.rows[i].item));
		json_end_object(w);
	}
	json_end_array(w);
}

/* Without tokens: whoever sends messages lists the devices of the user. */
static void write_registered(struct v1_call *c, struct json_writer *w)
{
	const struct subject_call *k = c->request;

	json_name(w, BYTES("registered_devices"));
	json_begin_array(w);
	for (uint32_t i = 0; i < k->registered.count; i++) {
		const struct push_device *d = &k->registered.list[i];

		json_begin_object(w);
		json_member_text(w, BYTES("device_id"), d->id);
		json_member_text(w, BYTES("platform"), d->platform);
		json_member_bool(w, BYTES("active"), d->active);
		json_member_text(w, BYTES("registered_at"), d->registered_at);
		json_member_text(w, BYTES("last_updated"), d->updated_at);
		v1_write_time(w, BYTES("until"), d->expires_s);
		json_end_object(w);
	}
	json_end_array(w);
}

void subject_get_encode(struct v1_call *c, struct json_writer *w)
{
	const struct subject_call *k = c->request;

	json_begin_object(w);
	write_ids(w, &k->s);
	write_kind(c, w, "counts", ROW_COUNT);
	write_kind(c, w, "locks", ROW_LOCK);
	write_kind(c, w, "states", ROW_STATE);
	write_kind(c, w, "devices", ROW_DEVICE);
	write_registered(c, w);
	write_account(w, &k->account);
	if (k->s.more)
		json_member_bool(w, BYTES("more"), true);
	json_end_object(w);
}

/* ---- sums ---- */

enum err_code subject_sum_name(struct v1_call *c, struct err *err)
{
	return name_rows(c, err);
}

enum err_code subject_sum_decode(struct v1_call *c, struct err *err)
{
	struct subject_call *k;

	if (read_call(c, err) != ERR_NONE)
		return err->code;
	k = c->request;
	if (k->prefix.len == 0)
		return err_field(err, ERR_INVALID, "prefix",
		                 "?prefix: missing; send the beginning of the keys to add up, like "
		                 "SIGN_IN%%23ERROR_COUNT%%23MFA_CODE_ENTRY");
	return ERR_NONE;
}

enum err_code subject_sum_run(struct v1_call *c, struct err *err)
{
	return read_rows(c, err);
}

void subject_sum_encode(struct v1_call *c, struct json_writer *w)
{
	const struct subject_call *k = c->request;

	json_begin_object(w);
	write_ids(w, &k->s);
	json_member_text(w, BYTES("prefix"), k->prefix);
	json_member_i64(w, BYTES("sum"), subject_counts_sum(&k->s));
	json_member_i64(w, BYTES("rows"), k->s.count);
	if (k->s.more)
		json_member_bool(w, BYTES("more"), true);
	json_end_object(w);
}

/* ---- explain ----
 *
 * Why is this subject locked, attempt by attempt, under which policies, how long still, and what would unlock it. It tells
 * what rows remember: each count and each lock that a rule set keeps its last attempts (service/attempt.h,
 * HISTORY_BYTES_MAX). */

struct explain_call {
	struct bytes        id;
	const struct rules *rules;
	struct subject      s;
	struct account_seen account;
};

enum err_code subject_explain_name(struct v1_call *c, struct err *err)
{
	(void)err;
	v1_any_row(c, v1_rules(c), (struct bytes){NULL, 0});
	return ERR_NONE;
}

enum err_code subject_explain_decode(struct v1_call *c, struct err *err)
{
	struct explain_call *k = v1_request(c, sizeof(*k));

	k->rules = v1_rules(c);
	return v1_subject_param(c, 0, &k->id, err);
}

enum err_code subject_explain_run(struct v1_call *c, struct err *err)
{
	struct explain_call *k = c->request;
	struct subject_query q = {.id = k->id, .denied = v1_users_denied(c)};

	if (subject_read(&c->ctx, &q, &k->s, err) != ERR_NONE)
		return err->code;
	v1_hide_rows(c, &k->s);
	return read_account(c, k->id, &k->account, err);
}

/* ---- attempts: lines like "1794789304 failure v0 SMS" ---- */

static struct bytes word_next(struct bytes *rest)
{
	const char  *space = rest->len == 0 ? NULL : memchr(rest->data, ' ', rest->len);
	struct bytes word = {rest->data, space == NULL ? rest->len : (size_t)(space - rest->data)};
	size_t       used = space == NULL ? word.len : word.len + 1;

	*rest = (struct bytes){rest->data + used, rest->len - used};
	return word;
}

static void write_attempt(struct json_writer *w, struct bytes line)
{
	struct bytes at = word_next(&line), outcome = word_next(&line), version = word_next(&line);
	uint64_t     seconds, number;

	if (!bytes_to_u64(at, INT64_MAX, &seconds) || version.len < 2)
		return;
	json_begin_object(w);
	v1_write_time(w, BYTES("at"), (int64_t)seconds);
	json_member_text(w, BYTES("outcome"), outcome);
	if (bytes_to_u64((struct bytes){version.data + 1, version.len - 1}, INT64_MAX, &number))
		json_member_i64(w, BYTES("policy_version"), (int64_t)number);
	json_member_text(w, BYTES("method"), line);
	json_end_object(w);
}

static void write_attempts(struct json_writer *w, const struct item *item)
{
	struct bytes rest = row_text(item, "history");

	json_name(w, BYTES("attempts"));
	json_begin_array(w);
	while (rest.len > 0) {
		const char  *comma = memchr(rest.data, ',', rest.len);
		struct bytes line = {rest.data, comma == NULL ? rest.len : (size_t)(comma - rest.data)};
		size_t       used = comma == NULL || line.len + 2 > rest.len ? rest.len : line.len + 2;

		write_attempt(w, line);
		rest = (struct bytes){rest.data + used, rest.len - used};
	}
	json_end_array(w);
}

/* ---- what would end it ---- */

static void write_ways(struct v1_call *c, struct json_writer *w, const struct subject_row *row)
{
	const struct explain_call *k = c->request;

	json_name(w, BYTES("unlocked_by"));
	json_begin_array(w);
	if (row_i64(&row->item, "ttl", 0) > 0)
		json_string(w, BYTES("time: at `until`, by itself"));
	if (bytes_is(row->key.type, KEY_LOCK))
		json_string(w, arena_printf(c->ctx.arena, "DELETE /v1/subjects/{id}/locks/%.*s/%.*s%s",
		                            BYTES_ARG(row->key.journey), BYTES_ARG(row->key.classifier),
		                            row->key.qualifier.len > 0 ? "?qualifier={qualifier}" : ""));
	else
		json_string(w, BYTES("POST /v1/unlock {\"subjects\": [id]}"));
	for (uint32_t i = 0; i < k->rules->reset_count; i++)
		if (reset_ends(k->rules, &k->rules->resets[i], &row->item))
			json_string(w, arena_printf(c->ctx.arena,
			                            "POST /v1/subjects/{id}/reset {\"reset\": \"%.*s\"%s}",
			                            BYTES_ARG(k->rules->resets[i].name),
			                            lock_is_persons(&row->item) ? ", \"operator_locks\": true"
			                                                        : ""));
	json_end_array(w);
}

/* ---- rows ---- */

static void write_ends(const struct v1_call *c, struct json_writer *w, const struct item *item,
                       const char *left)
{
	int64_t ends_s = row_i64(item, "ttl", 0);

	v1_write_time(w, BYTES("until"), ends_s);
	if (ends_s > 0)
		json_member_i64(w, bytes_of(left), clock_seconds_left(ends_s, c->ctx.now_us));
}

static void write_lock(struct v1_call *c, struct json_writer *w, const struct subject_row *row)
{
	const struct explain_call *k = c->request;
	struct bytes               cause = row_text(&row->item, "cause");

	json_begin_object(w);
	write_whose(w, &k->s, row);
	json_member_text(w, BYTES("key"), row->sk);
	json_member_text(w, BYTES("kind"), row_text(&row->item, "block_type"));
	json_member_text(w, BYTES("set_by"), lock_set_by(&row->item));
	json_member_text(w, BYTES("reason"), row_text(&row->item, "reason"));
	v1_write_time(w, BYTES("since"), row_i64(&row->item, "last_updated", 0));
	write_ends(c, w, &row->item, "retry_after");
	if (cause.len > 0)
		json_member_i64(w, BYTES("policy_version"), row_i64(&row->item, "policy_version", 0));
	json_member_bool(w, BYTES("enforced"), lock_enforced(k->rules, row->pk, &row->item));
	write_attempts(w, &row->item);
	write_ways(c, w, row);
	json_end_object(w);
}

static void write_count(struct v1_call *c, struct json_writer *w, const struct subject_row *row)
{
	const struct explain_call *k = c->request;
	const struct rule         *rule = rules_find(k->rules, row->key.journey, row->key.classifier,
	                                             row_text(&row->item, "mfa_method_type"));
	int64_t                    count = row_i64(&row->item, "count", 0);

	json_begin_object(w);
	write_whose(w, &k->s, row);
	json_member_text(w, BYTES("key"), row->sk);
	json_member_i64(w, BYTES("count"), count);
	if (rule != NULL) {
		int64_t max = bytes_is(row->key.type, KEY_DEVICE_COUNT) ? rule->max_lanes
		              : rule->max_each > 0                      ? rule->max_each
		                                                        : rule->max;

		json_member_i64(w, BYTES("max"), max);
		json_member_i64(w, BYTES("remaining"), max > count ? max - count : 0);
	}
	write_ends(c, w, &row->item, "expires_in");
	write_attempts(w, &row->item);
	json_end_object(w);
}

static void write_state(struct v1_call *c, struct json_writer *w, const struct subject_row *row)
{
	const struct explain_call *k = c->request;

	json_begin_object(w);
	write_whose(w, &k->s, row);
	json_member_text(w, BYTES("key"), row->sk);
	json_member_text(w, BYTES("state"), row_text(&row->item, "intervention_state"));
	v1_write_time(w, BYTES("applied_at"), row_i64(&row->item, "applied_at", 0));
	write_ends(c, w, &row->item, "retry_after");
	json_end_object(w);
}

static void write_rows(struct v1_call *c, struct json_writer *w, const char *name, enum subject_row_kind kind)
{
	const struct explain_call *k = c->request;

	json_name(w, bytes_of(name));
	json_begin_array(w);
	for (uint32_t i = 0; i < k->s.count; i++) {
		const struct subject_row *row = &k->s.rows[i];

		if (row->kind != kind)
			continue;
		if (kind == ROW_LOCK)
			write_lock(c, w, row);
		else if (kind == ROW_COUNT)
			write_count(c, w, row);
		else
			write_state(c, w, row);
	}
	json_end_array(w);
}

void subject_explain_encode(struct v1_call *c, struct json_writer *w)
{
	const struct explain_call *k = c->request;

	json_begin_object(w);
	write_ids(w, &k->s);
	write_rows(c, w, "locks", ROW_LOCK);
	write_rows(c, w, "counts", ROW_COUNT);
	write_rows(c, w, "states", ROW_STATE);
	write_account(w, &k->account);
	json_member_i64(w, BYTES("policy_version_now"), k->rules->base.version);
	if (k->s.more)
		json_member_bool(w, BYTES("more"), true);
	json_end_object(w);
}
