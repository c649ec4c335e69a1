/* Users:
 *   POST /v1/users, POST /v1/users/lookup
 *   GET, PATCH and DELETE /v1/users/{id}
 *   POST /v1/users/{id}/suspend and …/reactivate */
#include "api/v1_users.h"

#include <inttypes.h>

#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_write.h"

enum err_code v1_user_param(struct v1_call *c, struct bytes *id, struct err *err)
{
	*id = c->params[0];
	if (!user_id_is(*id))
		return err_field(
		        err, ERR_INVALID, "id",
		        "id: must have 1 to %d letters, digits, '-', '_', '.' and '|', and must not be "
		        "an address or a number of a person",
		        USER_ID_BYTES_MAX);
	return ERR_NONE;
}

/* The first of a list (RFC 9110, 8.8.3 and 13.1.1), which is taken off; empty: that is none. */
static struct bytes etag_next(struct bytes *list)
{
	struct bytes text = bytes_trimmed(*list);
	size_t       i = bytes_starts_with(text, BYTES("W/")) ? 2 : 0, end;

	if (i >= text.len || text.data[i] != '"')
		return (struct bytes){NULL, 0};
	for (end = i + 1; end < text.len && text.data[end] != '"'; end++)
		if ((unsigned char)text.data[end] <= ' ' || text.data[end] == 0x7f)
			return (struct bytes){NULL, 0};
	if (end == text.len)
		return (struct bytes){NULL, 0};
	*list = bytes_trimmed((struct bytes){text.data + end + 1, text.len - end - 1});
	if (list->len > 0 && (list->data[0] != ',' || list->len == 1))
		return (struct bytes){NULL, 0};
	if (list->len > 0)
		*list = (struct bytes){list->data + 1, list->len - 1};
	return (struct bytes){text.data, end + 1};
}

/* The version that it stands for. One that is weak, or that we did not give out, matches none. */
static void etag_version(struct bytes tag, int64_t *out)
{
	uint64_t version;

	if (tag.data[0] == '"' &&
	    bytes_to_u64((struct bytes){tag.data + 1, tag.len - 2}, INT64_MAX - 1, &version))
		*out = (int64_t)version;
}

enum err_code v1_user_match(struct v1_call *c, struct user_match *out, struct err *err)
{
	struct bytes given = bytes_trimmed(http_header_get(c->call.http, "if-match"));

	if (given.data == NULL)
		return ERR_NONE;
	out->has_etag = true;
	out->any = bytes_is(given, "*");
	while (!out->any && given.len > 0) {
		struct bytes tag = etag_next(&given);

		if (tag.len == 0 || out->etag_count == USER_ETAGS_MAX)
			return err_field(err, ERR_STALE, "If-Match",
			                 "If-Match: must be *, or at most %d entity tags like the ETag that "
			                 "GET returns, "
			                 "with commas between them",
			                 USER_ETAGS_MAX);
		out->etags[out->etag_count] = -1;
		etag_version(tag, &out->etags[out->etag_count++]);
	}
	return out->any || out->etag_count > 0
	               ? ERR_NONE
	               : err_field(err, ERR_STALE, "If-Match", "If-Match: must not be empty");
}

/* ---- fields ---- */

struct bytes v1_read_email(struct v1_call *c, struct fields *f, const char *name, struct bytes *typed)
{
	struct bytes text = fields_text(f, name, EMAIL_BYTES_MAX);
	char         normal[EMAIL_NORMAL_BYTES_MAX];
	size_t       len;

	*typed = (struct bytes){NULL, 0};
	if (fields_failed(f))
		return *typed;
	len = email_normalise(text, normal);
	if (len == 0 || len > USER_EMAIL_BYTES_MAX) {
		fields_fail(f, name, ERR_INVALID,
		            "not an email address: send exactly one mailbox, like ann@example.org");
		return *typed;
	}
	*typed = email_typed_beside(text, (struct bytes){normal, len});
	return arena_copy(c->ctx.arena, (struct bytes){normal, len});
}

static bool is_one_line(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
			return false;
	return true;
}

struct bytes v1_read_user_id(struct fields *f)
{
	struct bytes id = fields_text(f, "id", USER_ID_BYTES_MAX);

	if (!fields_failed(f) && !user_id_is(id))
		fields_fail(
		        f, "id", ERR_INVALID,
		        "must have letters, digits, '-', '_', '.' and '|' only, and must not be an address "
		        "or a number of a person");
	return id;
}

/* null takes the field away, where there is something to take it from; else it is as if it was not sent. */
static void read_text(struct fields *f, const char *name, bool may_go, struct user_text *out)
{
	const struct json *sent = json_get(f->object, bytes_of(name));

	out->given = sent != NULL && (may_go || sent->type != JSON_NULL);
	if (fields_get(f, name) == NULL)
		return;
	out->text = fields_text(f, name, USER_NAME_BYTES_MAX);
	if (!fields_failed(f) && !is_one_line(out->text))
		fields_fail(f, name, ERR_INVALID, "must not contain control characters");
}

static bool read_attribute(struct fields *f, const struct json *m, bool may_go, struct value *out)
{
	const char *name = m->name.data;
	int64_t     number;

	if (m->name.len < 1 || m->name.len > USER_ATTRIBUTE_NAME_MAX || !bytes_hold_only(m->name, "-_."))
		fields_fail(f, NULL, ERR_INVALID,
		            "a name must have 1 to %d letters, digits, '-', '_' and '.'",
		            USER_ATTRIBUTE_NAME_MAX);
	else if (m->type == JSON_STRING && json_text(m).len <= USER_ATTRIBUTE_TEXT_MAX)
		*out = value_string(json_text(m));
	else if (m->type == JSON_STRING)
		fields_fail(f, name, ERR_INVALID, "must have at most %d bytes", USER_ATTRIBUTE_TEXT_MAX);
	else if (m->type == JSON_BOOL)
		*out = value_bool(json_truth(m));
	else if (m->type == JSON_NULL && may_go)
		*out = (struct value){.type = VALUE_NULL};
	else if (json_whole(m, &number))
		*out = value_i64(number);
	else
		fields_fail(f, name, ERR_INVALID, "must be a string, a whole number, true or false");
	return !fields_failed(f);
}

/* What becomes too much of them together is the service's to say: it knows those that are there. */
static void read_attributes(struct v1_call *c, struct fields *f, bool may_go, struct user_fields *out)
{
	const struct json *sent = json_get(f->object, BYTES("attributes"));
	const struct json *all = fields_object(f, "attributes", 2 * USER_ATTRIBUTES_MAX);
	struct fields      within;

	out->attributes_go = may_go && sent != NULL && sent->type == JSON_NULL;
	if (all == NULL)
		return;
	fields_enter(&within, f, BYTES("attributes"), all);
	out->attributes = (struct item){arena_array(c->ctx.arena, all->count + 1, sizeof(struct member)), 0};
	for (const struct json *m = fields_first(f, all); m != NULL; m = fields_next(f, m)) {
		struct member *to = &out->attributes.members[out->attributes.count++];
		struct json    named = *m;

		named.name = arena_printf(c->ctx.arena, "%.*s", BYTES_ARG(m->name)); /* ends with NUL */
		to->name = named.name;
		if (!read_attribute(&within, &named, may_go, &to->value))
			return;
	}
	if (!item_sort(&out->attributes))
		fields_fail(f, "attributes", ERR_INVALID, "one is given twice");
}

void v1_read_user_fields(struct v1_call *c, struct fields *f, bool may_go, struct user_fields *out)
{
	read_text(f, "firstName", may_go, &out->first_name);
	read_text(f, "lastName", may_go, &out->last_name);
	read_text(f, "phone", may_go, &out->phone);
	if (!fields_failed(f) && out->phone.text.len > 0 && !identifier_phone_is(out->phone.text))
		fields_fail(f, "phone", ERR_INVALID,
		            "must be in E.164: + and 7 to 15 digits, as in +442071838750");
	read_attributes(c, f, may_go, out);
}

/* ---- answers ---- */

void v1_user_etag(struct v1_call *c, const struct user *u)
{
	v1_header(c, BYTES("ETag"), arena_printf(c->ctx.arena, "\"%" PRIi64 "\"", u->version));
}

/* What others wrote that is neither a text, a whole number nor a truth is left out. */
void v1_write_attributes(struct json_writer *w, const struct item *attributes)
{
	int64_t number;

	json_name(w, BYTES("attributes"));
	json_begin_object(w);
	for (uint32_t i = 0; i < attributes->count; i++) {
		const struct value *v = &attributes->members[i].value;
		bool                whole = v->type == VALUE_N && number_to_i64(&v->number, &number);

		if (!whole && v->type != VALUE_S && v->type != VALUE_BOOL)
			continue;
		json_name(w, attributes->members[i].name);
		if (whole)
			json_i64(w, number);
		else if (v->type == VALUE_S)
			json_string(w, v->text);
		else
			json_bool(w, v->truth);
	}
	json_end_object(w);
}

void v1_write_user_members(struct json_writer *w, const struct user *u)
{
	json_member_text(w, BYTES("id"), u->id);
	json_member_text(w, BYTES("status"), bytes_of(user_status_names[u->status]));
	if (u->status == USER_SUSPENDED)
		json_member_text(w, BYTES(USER_SUSPENDED_BY), u->suspended_by);
	json_member_text(w, BYTES("firstName"), u->first_name);
	json_member_text(w, BYTES("lastName"), u->last_name);
	json_member_text(w, BYTES("phone"), u->phone);
	json_member_text(w, BYTES("email"), u->email);
	json_member_text(w, BYTES(EMAIL_TYPED), u->email_typed);
	json_member_text(w, BYTES("primaryEmailId"), u->email_id);
	if (u->attributes.count > 0)
		v1_write_attributes(w, &u->attributes);
	json_member_i64(w, BYTES("version"), u->version);
	json_member_text(w, BYTES("createdAt"), u->created_at);
	json_member_text(w, BYTES("updatedAt"), u->updated_at);
	v1_write_time(w, BYTES("tokensNotBefore"), u->tokens_not_before_s);
}

void v1_write_user(struct v1_call *c, struct json_writer *w, const struct user *u)
{
	v1_user_etag(c, u);
	json_begin_object(w);
	v1_write_user_members(w, u);
	json_end_object(w);
}

/* ---- creating ---- */

struct create_call {
	struct user_new     q;
	bool                enforce;
	struct user_created r;
};

enum err_code user_create_decode(struct v1_call *c, struct err *err)
{
	struct create_call   *u = v1_request(c, sizeof(*u));
	const struct attempt *from;
	struct fields         f;

	fields_init(&f, c->body, err);
	u->q.id = fields_text_or(&f, "id", USER_ID_BYTES_MAX, (struct bytes){NULL, 0});
	if (!fields_failed(&f) && u->q.id.len > 0 && !user_id_is(u->q.id))
		fields_fail(
		        &f, "id", ERR_INVALID,
		        "must have letters, digits, '-', '_', '.' and '|' only, and must not be an address "
		        "or a number of a person");
	v1_read_user_fields(c, &f, false, &u->q.fields);
	if (fields_has(&f, "email"))
		u->q.email = v1_read_email(c, &f, "email", &u->q.email_typed);
	u->enforce = v1_read_enforce(c, &f);
	from = v1_read_from(c, &f);
	if (fields_end(&f) != ERR_NONE)
		return err->code;
	return u->q.email.len > 0 ? v1_email_terms(c, from, &u->q.terms, err) : ERR_NONE;
}

enum err_code user_create_run(struct v1_call *c, struct err *err)
{
	struct create_call *u = c->request;

	if (user_create(&c->ctx, &u->q, &u->r, err) != ERR_NONE)
		return err->code;
	c->about = u->r.user.id;
	c->has_secret = u->r.claimed && v1_tells_code(c, u->q.terms, &u->r.claim);
	return ERR_NONE;
}

void user_create_committed(struct v1_call *c)
{
	const struct create_call *u = c->request;

	if (u->r.claimed)
		v1_claim_committed(c, u->r.user.id, &u->r.claim);
}

void user_create_encode(struct v1_call *c, struct json_writer *w)
{
	const struct create_call *u = c->request;

	if (u->r.claimed && u->r.claim.standing.refused) {
		json_begin_object(w);
		v1_write_standing(c, w, &u->r.claim.standing, u->enforce);
		json_end_object(w);
		return;
	}
	c->status = 201;
	v1_user_etag(c, &u->r.user);
	json_begin_object(w);
	v1_write_user_members(w, &u->r.user);
	if (u->r.claimed) {
		json_name(w, BYTES("claim"));
		v1_write_claim(c, w, &u->r.claim);
	}
	json_end_object(w);
}

/* ---- one user ---- */

struct user_call {
	struct user_patch q;
	struct user       r;
};

static enum err_code user_decode(struct v1_call *c, struct err *err)
{
	struct user_call *u = v1_request(c, sizeof(*u));

	if (v1_user_param(c, &u->q.id, err) != ERR_NONE)
		return err->code;
	return v1_user_match(c, &u->q.match, err);
}

static void user_encode(struct v1_call *c, struct json_writer *w)
{
	v1_write_user(c, w, &((const struct user_call *)c->request)->r);
}

static enum err_code become(struct v1_call *c, enum user_status status, struct err *err)
{
	struct user_call *u = c->request;

	return user_become(&c->ctx, &u->q, status, &u->r, err);
}

enum err_code user_get_decode(struct v1_call *c, struct err *err)
{
	struct user_call *u = v1_request(c, sizeof(*u));

	return v1_user_param(c, &u->q.id, err);
}

enum err_code user_get_run(struct v1_call *c, struct err *err)
{
	struct user_call *u = c->request;

	return user_get(&c->ctx, u->q.id, &u->r, err);
}

void user_get_encode(struct v1_call *c, struct json_writer *w)
{
	user_encode(c, w);
}

/* Whoever changes fields says what it saw: no update is lost. */
enum err_code user_patch_decode(struct v1_call *c, struct err *err)
{
	struct user_call *u;
	struct fields     f;

	if (user_decode(c, err) != ERR_NONE)
		return err->code;
	u = c->request;
	fields_init(&f, c->body, err);
	u->q.match.has_version = fields_has(&f, "version");
	u->q.match.version = fields_i64_or(&f, "version", 0, INT64_MAX - 1, 0);
	v1_read_user_fields(c, &f, true, &u->q.fields);
	if (fields_end(&f) != ERR_NONE)
		return err->code;
	if (!u->q.match.has_etag && !u->q.match.has_version)
		return err_field(
		        err, ERR_NO_MATCH, "If-Match",
		        "If-Match: missing; send the ETag that GET returns, or `version` in the body");
	if (!u->q.fields.first_name.given && !u->q.fields.last_name.given && !u->q.fields.phone.given &&
	    u->q.fields.attributes.count == 0 && !u->q.fields.attributes_go)
		return err_set(err, ERR_INVALID,
		               "at least one of firstName, lastName, phone and attributes is required");
	return ERR_NONE;
}

enum err_code user_patch_run(struct v1_call *c, struct err *err)
{
	struct user_call *u = c->request;

	return user_change(&c->ctx, &u->q, &u->r, err);
}

void user_patch_encode(struct v1_call *c, struct json_writer *w)
{
	user_encode(c, w);
}

enum err_code user_delete_decode(struct v1_call *c, struct err *err)
{
	return user_decode(c, err);
}

enum err_code user_delete_run(struct v1_call *c, struct err *err)
{
	return become(c, USER_DELETED, err);
}

void user_delete_encode(struct v1_call *c, struct json_writer *w)
{
	user_encode(c, w);
}

/* The body may be missing, and be empty. */
static enum err_code become_decode(struct v1_call *c, struct err *err)
{
	struct user_call *u;
	struct fields     f;

	if (user_decode(c, err) != ERR_NONE)
		return err->code;
	if (c->body == NULL)
		return ERR_NONE;
	u = c->request;
	fields_init(&f, c->body, err);
	u->q.reason = fields_text_or(&f, "reason", USER_REASON_BYTES_MAX, (struct bytes){NULL, 0});
	if (!fields_failed(&f) && !is_one_line(u->q.reason))
		fields_fail(&f, "reason", ERR_INVALID, "must not contain control characters");
	return fields_end(&f);
}

enum err_code user_suspend_decode(struct v1_call *c, struct err *err)
{
	return become_decode(c, err);
}

enum err_code user_suspend_run(struct v1_call *c, struct err *err)
{
	return become(c, USER_SUSPENDED, err);
}

void user_suspend_encode(struct v1_call *c, struct json_writer *w)
{
	user_encode(c, w);
}

enum err_code user_reactivate_decode(struct v1_call *c, struct err *err)
{
	return become_decode(c, err);
}

enum err_code user_reactivate_run(struct v1_call *c, struct err *err)
{
	return become(c, USER_ACTIVE, err);
}

void user_reactivate_encode(struct v1_call *c, struct json_writer *w)
{
	user_encode(c, w);
}

/* ---- finding ---- */

/* A lookup is asked about as a whole; a user that the key may not see is not found. */
static bool is_hidden(struct v1_call *c, const struct user *u)
{
	return !v1_allowed(c, "user", u->id);
}

struct lookup_call {
	struct bytes      email;
	struct user_found r;
};

enum err_code user_lookup_decode(struct v1_call *c, struct err *err)
{
	struct lookup_call *l = v1_request(c, sizeof(*l));
	struct fields       f;
	struct bytes        typed;

	fields_init(&f, c->body, err);
	l->email = v1_read_email(c, &f, "email", &typed);
	return fields_end(&f);
}

enum err_code user_lookup_run(struct v1_call *c, struct err *err)
{
	struct lookup_call *l = c->request;

	if (user_lookup(&c->ctx, l->email, &l->r, err) != ERR_NONE)
		return err->code;
	return is_hidden(c, &l->r.user) ? user_unknown(err) : ERR_NONE;
}

void user_lookup_encode(struct v1_call *c, struct json_writer *w)
{
	const struct lookup_call *l = c->request;

	json_begin_object(w);
	json_member_text(w, BYTES("emailId"), l->r.email_id);
	json_member_text(w, BYTES("email"), l->email);
	json_member_text(w, BYTES(EMAIL_TYPED), l->r.typed);
	json_member_bool(w, BYTES("isVerified"), l->r.verified);
	json_name(w, BYTES("user"));
	json_begin_object(w);
	v1_write_user_members(w, &l->r.user);
	json_end_object(w);
	json_end_object(w);
}
