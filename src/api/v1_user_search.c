/* Lists of users:
 *   GET /v1/users, POST /v1/users/search
 *   GET and POST /v1/user-counts
 * Names and addresses travel in a body, so that no log keeps them. */
#include "api/v1_jobs.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_users.h"
#include "api/v1_write.h"
#include "service/cursor.h"
#include "service/sync.h"
#include "service/user_counts.h"
#include "service/user_terms.h"

enum { USERS_PAGE_DEFAULT = 100 };

static const char *const searched_statuses[] = {"active", "suspended", "deleted",
                                                NULL}; /* as enum user_status */

struct find_call {
	struct users_search q;
	struct user_terms   terms;
	struct users_page   page;
};

static struct find_call *call_begin(struct v1_call *c)
{
	struct find_call *l = v1_request(c, sizeof(*l));

	l->q.limit = USERS_PAGE_DEFAULT;
	l->terms.status = USER_ANY_STATUS;
	return l;
}

/* ---- whom the key may see ---- */

/* They are asked about as a whole. Of what they find, users that the key may not see are as if they were not there: they are neither shown nor counted. */
static bool is_hidden(const void *call, struct bytes user)
{
	return !v1_allowed(call, "user", user);
}

/* A search by address finds whom a lookup finds, for those who may look them up. */
static bool is_hidden_from_lookup(const void *call, struct bytes user)
{
	return is_hidden(call, user) || !v1_allowed_to(call, "LookupUser", "user", user);
}

static enum err_code find_run(struct v1_call *c, struct err *err)
{
	struct find_call *l = c->request;
	bool              looks_up = l->terms.email.len > 0 && !v1_may_all(c, "LookupUser");

	l->q.hidden = (struct user_filter){looks_up ? is_hidden_from_lookup : is_hidden, c};
	return users_find(&c->ctx, &l->q, &l->page, err);
}

/* ---- answers ---- */

static void write_list(struct json_writer *w, const struct users_page *page)
{
	json_name(w, BYTES("users"));
	json_begin_array(w);
	for (uint32_t i = 0; i < page->count; i++) {
		json_begin_object(w);
		v1_write_user_members(w, &page->list[i]);
		json_end_object(w);
	}
	json_end_array(w);
}

static void find_encode(struct v1_call *c, struct json_writer *w, bool counted)
{
	const struct find_call  *l = c->request;
	const struct users_page *page = &l->page;

	json_begin_object(w);
	if (!l->q.count_only)
		write_list(w, page);
	if (counted)
		json_member_i64(w, BYTES("count"), page->count);
	json_member_bool(w, BYTES("more"), page->more);
	if (page->more)
		json_member_text(w, BYTES("cursor"), cursor_write(&c->ctx, page->last_pk, page->last_sk));
	json_end_object(w);
}

/* ---- the list: terms that are not personal may stand in the URL ---- */

static enum err_code cursor_take(struct v1_call *c, struct find_call *l, struct bytes cursor, struct err *err)
{
	if (cursor.data != NULL && !cursor_read(&c->ctx, cursor, &l->q.after_pk, &l->q.after_sk))
		return err_field(err, ERR_INVALID, "cursor", "cursor: not a cursor returned by this API");
	return ERR_NONE;
}

static enum err_code query_limit(struct v1_call *c, struct find_call *l, struct err *err)
{
	struct bytes limit;
	uint64_t     number = USERS_PAGE_DEFAULT;

	if (v1_query(c, "limit", &limit, err) != ERR_NONE)
		return err->code;
	if (limit.data != NULL && (!bytes_to_u64(limit, USERS_PAGE_MAX, &number) || number < 1))
		return err_field(err, ERR_INVALID, "limit", "limit: must be from 1 to %d", USERS_PAGE_MAX);
	l->q.limit = (uint32_t)number;
	return ERR_NONE;
}

static enum err_code query_status(struct v1_call *c, struct find_call *l, struct err *err)
{
	struct bytes status;

	if (v1_query(c, "status", &status, err) != ERR_NONE)
		return err->code;
	for (int i = 0; status.data != NULL && searched_statuses[i] != NULL; i++)
		if (bytes_is(status, searched_statuses[i])) {
			l->terms.status = i;
			l->q.terms = &l->terms;
		}
	if (status.data != NULL && l->terms.status == USER_ANY_STATUS)
		return err_field(err, ERR_INVALID, "status", "status: must be active, suspended or deleted");
	return ERR_NONE;
}

static enum err_code query_provider(struct v1_call *c, struct find_call *l, struct err *err)
{
	struct bytes provider;

	if (v1_query(c, "provider", &provider, err) != ERR_NONE)
		return err->code;
	if (provider.data == NULL)
		return ERR_NONE;
	if (!sync_provider_is(provider))
		return err_field(err, ERR_INVALID, "provider",
		                 "provider: must have 1 to %d letters, digits, '-', '_' and '.'",
		                 SYNC_PROVIDER_BYTES_MAX);
	l->terms.provider = provider;
	l->q.terms = &l->terms;
	return ERR_NONE;
}

static enum err_code query_time(struct v1_call *c, struct find_call *l, const char *name, int64_t *out,
                                struct err *err)
{
	struct bytes text;
	uint64_t     seconds = 0;

	if (v1_query(c, name, &text, err) != ERR_NONE)
		return err->code;
	if (text.data == NULL)
		return ERR_NONE;
	if (bytes_to_u64(text, V1_SECONDS_MAX, &seconds))
		*out = (int64_t)seconds;
	else if (!v1_time_is(text, out))
		return err_field(
		        err, ERR_INVALID, name,
		        "%s: must be whole seconds since 1970, or a UTC time like 2026-11-15T22:00:00Z",
		        name);
	l->q.terms = &l->terms;
	return ERR_NONE;
}

enum err_code user_list_decode(struct v1_call *c, struct err *err)
{
	struct find_call *l = call_begin(c);
	struct bytes      cursor;

	if (v1_query(c, "cursor", &cursor, err) != ERR_NONE || query_limit(c, l, err) != ERR_NONE ||
	    cursor_take(c, l, cursor, err) != ERR_NONE || query_status(c, l, err) != ERR_NONE ||
	    query_provider(c, l, err) != ERR_NONE ||
	    query_time(c, l, "created_from", &l->terms.created_from_s, err) != ERR_NONE ||
	    query_time(c, l, "created_before", &l->terms.created_before_s, err) != ERR_NONE)
		return err->code;
	return ERR_NONE;
}

enum err_code user_list_run(struct v1_call *c, struct err *err)
{
	return find_run(c, err);
}

void user_list_encode(struct v1_call *c, struct json_writer *w)
{
	find_encode(c, w, false);
}

/* ---- the search ---- */

enum err_code user_search_name(struct v1_call *c, struct err *err)
{
	if (c->body == NULL || json_get(c->body, BYTES("email")) == NULL ||
	    v1_allowed_to(c, "LookupUser", NULL, BYTES("")))
		return ERR_NONE;
	return err_set(err, ERR_ACCESS,
	               "the key's policy must allow gatehouse:LookupUser on *, because users are searched by "
	               "their addresses");
}

static struct bytes read_prefix(struct v1_call *c, struct fields *f, const char *name,
                                struct bytes (*fold)(struct arena *, struct bytes))
{
	struct bytes text, prefix;

	if (!fields_has(f, name))
		return (struct bytes){NULL, 0};
	text = fields_text(f, name, USER_PREFIX_BYTES_MAX);
	if (fields_failed(f))
		return text;
	prefix = fold(c->ctx.arena, text);
	if (prefix.len == 0)
		fields_fail(
		        f, name, ERR_INVALID,
		        fold == user_email_prefix
		                ? "must be the beginning of an address; write a host behind the @ in ASCII"
		                : "must not contain control characters");
	return prefix;
}

static void read_terms(struct v1_call *c, struct fields *f, struct user_terms *out)
{
	out->status = fields_choice(f, "status", searched_statuses, USER_ANY_STATUS);
	out->provider = fields_text_or(f, "provider", SYNC_PROVIDER_BYTES_MAX, (struct bytes){NULL, 0});
	if (!fields_failed(f) && out->provider.len > 0 && !sync_provider_is(out->provider))
		fields_fail(f, "provider", ERR_INVALID, "must have letters, digits, '-', '_' and '.' only");
	if (fields_get(f, "createdFrom") != NULL)
		out->created_from_s = v1_read_time(f, "createdFrom");
	if (fields_get(f, "createdBefore") != NULL)
		out->created_before_s = v1_read_time(f, "createdBefore");
	out->name = read_prefix(c, f, "name", user_name_prefix);
	out->email = read_prefix(c, f, "email", user_email_prefix);
}

enum err_code user_search_decode(struct v1_call *c, struct err *err)
{
	struct find_call *l = call_begin(c);
	struct bytes      cursor;
	struct fields     f;

	l->q.terms = &l->terms;
	fields_init(&f, c->body, err);
	read_terms(c, &f, &l->terms);
	l->q.limit = (uint32_t)fields_i64_or(&f, "limit", 1, USERS_PAGE_MAX, USERS_PAGE_DEFAULT);
	l->q.count_only = fields_bool_or(&f, "countOnly", false);
	cursor = fields_text_or(&f, "cursor", CURSOR_BYTES_MAX, (struct bytes){NULL, 0});
	if (fields_end(&f) != ERR_NONE)
		return err->code;
	return cursor_take(c, l, cursor, err);
}

enum err_code user_search_run(struct v1_call *c, struct err *err)
{
	return find_run(c, err);
}

void user_search_encode(struct v1_call *c, struct json_writer *w)
{
	find_encode(c, w, true);
}

/* ---- how many there are ---- */

enum err_code user_counts_decode(struct v1_call *c, struct err *err)
{
	(void)err;
	v1_request(c, sizeof(struct user_counts));
	return ERR_NONE;
}

enum err_code user_counts_run(struct v1_call *c, struct err *err)
{
	return user_counts_get(&c->ctx, c->request, err);
}

static void write_numbers(struct json_writer *w, struct bytes name, const struct item *numbers)
{
	int64_t number;

	json_name(w, name);
	json_begin_object(w);
	for (uint32_t i = 0; i < numbers->count; i++) {
		const struct value *v = &numbers->members[i].value;

		if (v->type == VALUE_N && number_to_i64(&v->number, &number))
			json_member_i64(w, numbers->members[i].name, number);
	}
	json_end_object(w);
}

void user_counts_encode(struct v1_call *c, struct json_writer *w)
{
	const struct user_counts *r = c->request;

	json_begin_object(w);
	json_member_i64(w, BYTES("users"), r->users);
	write_numbers(w, BYTES("byStatus"), &r->by_status);
	write_numbers(w, BYTES("byProvider"), &r->by_provider);
	json_member_text(w, BYTES("startedAt"), r->started_at);
	json_member_text(w, BYTES("endedAt"), r->ended_at);
	json_member_text(w, BYTES("job"), r->job);
	json_end_object(w);
}

struct count_call {
	struct job_new     terms;
	struct job_started r;
};

enum err_code user_count_decode(struct v1_call *c, struct err *err)
{
	struct count_call *s = v1_request(c, sizeof(*s));
	struct fields      f;

	if (c->body == NULL)
		return ERR_NONE;
	fields_init(&f, c->body, err);
	s->terms.rate = fields_i64_or(&f, "rate", 1, JOB_RATE_MAX, 0);
	return fields_end(&f);
}

enum err_code user_count_run(struct v1_call *c, struct err *err)
{
	struct count_call *s = c->request;

	return user_counts_start(&c->ctx, s->terms.rate, &s->r, err);
}

void user_count_encode(struct v1_call *c, struct json_writer *w)
{
	c->status = 202;
	v1_write_job(w, &((const struct count_call *)c->request)->r.job);
}
