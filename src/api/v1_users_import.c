/* Users from another service, and for one:
 *   POST /v1/users/import: many in one call, each for itself; what became of each is the answer
 *   POST /v1/users/export: page by page, with their addresses, as import takes them */
#include <inttypes.h>

#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_users.h"
#include "api/v1_write.h"
#include "base/date.h"
#include "service/cursor.h"
#include "service/event.h"
#include "service/sync.h"
#include "service/user_import.h"

/* ---- a line ---- */

struct import_row {
	struct user_import   q;
	struct user_imported done;
	/* of one that was refused */
	enum err_code code;
	struct bytes  field, detail;
};

static void row_refuse(struct v1_call *c, struct import_row *row, const struct err *err)
{
	row->done.outcome = IMPORT_REFUSED;
	row->code = err->code;
	row->field = arena_printf(c->ctx.arena, "%s", err->field);
	row->detail = arena_printf(c->ctx.arena, "%s", err->text);
}

/* As rows have it. One of the future would be a mistake of the export. */
static struct bytes read_past(struct v1_call *c, struct fields *f, const char *name)
{
	int64_t seconds;
	char   *text = arena_alloc(c->ctx.arena, DATE_ISO_CHARS);

	if (fields_get(f, name) == NULL)
		return (struct bytes){NULL, 0};
	seconds = v1_read_time(f, name);
	if (!fields_failed(f) && seconds > c->ctx.now_us / 1000000 + SYNC_LEEWAY_MS / 1000)
		fields_fail(f, name, ERR_INVALID, "is in the future");
	if (fields_failed(f))
		return (struct bytes){NULL, 0};
	date_write_iso(seconds, text);
	return (struct bytes){text, DATE_ISO_CHARS};
}

/* `email`, and as it was typed if the line has both. */
static void read_address(struct v1_call *c, struct fields *f, struct import_email *out)
{
	struct bytes normal, typed;

	out->email = v1_read_email(c, f, "email", &out->typed);
	if (fields_failed(f) || !fields_has(f, EMAIL_TYPED))
		return;
	normal = v1_read_email(c, f, EMAIL_TYPED, &typed);
	if (!fields_failed(f) && !bytes_equal(normal, out->email))
		fields_fail(f, EMAIL_TYPED, ERR_INVALID, "must be the same address as `email`");
	out->typed = typed;
}

static void read_email(struct v1_call *c, struct fields *f, struct import_email *out)
{
	read_address(c, f, out);
	out->id = fields_text_or(f, "id", IMPORT_EMAIL_ID_BYTES_MAX, (struct bytes){NULL, 0});
	if (!fields_failed(f) && !bytes_hold_only(out->id, "-_"))
		fields_fail(f, "id", ERR_INVALID, "must have letters, digits, '-' and '_' only");
	out->verified = fields_bool_or(f, "isVerified", false);
	out->primary = fields_bool_or(f, "isPrimary", false);
	out->created_at = read_past(c, f, "createdAt");
	out->verified_at = read_past(c, f, "verifiedAt");
	fields_get(f, "expiresAt"); /* GET tells it: a claim ends by the clock of here */
	if (!fields_failed(f) && out->primary && !out->verified)
		fields_fail(f, "isPrimary", ERR_INVALID, "an address that is not verified cannot be primary");
}

static bool is_twice(const struct import_email *list, uint32_t at)
{
	for (uint32_t i = 0; i < at; i++)
		if (bytes_equal(list[i].email, list[at].email) ||
		    (list[at].id.len > 0 && bytes_equal(list[i].id, list[at].id)))
			return true;
	return false;
}

static void read_emails(struct v1_call *c, struct fields *f, struct import_row *row)
{
	const struct json   *all = fields_array(f, "emails", IMPORT_EMAILS_MAX);
	struct import_email *list;
	uint32_t             primary = 0, count = 0;

	if (all == NULL)
		return;
	list = arena_zalloc(c->ctx.arena, (all->count + 1) * sizeof(*list));
	for (const struct json *e = fields_first(f, all); e != NULL; e = fields_next(f, e)) {
		struct fields within;

		fields_enter(&within, f, arena_printf(c->ctx.arena, "emails[%" PRIu32 "]", count), e);
		read_email(c, &within, &list[count]);
		fields_end(&within);
		primary += list[count].primary;
		if (!fields_failed(f) && (primary > 1 || is_twice(list, count)))
			fields_fail(f, "emails", ERR_INVALID,
			            primary > 1 ? "more than one is primary"
			                        : "an address or an id is given twice");
		count++;
	}
	row->q.emails = list;
	row->q.email_count = count;
}

/* One address, as POST /v1/sync/users has it. What GET tells beside `emails` is there again. */
static void read_only_email(struct v1_call *c, struct fields *f, struct import_row *row)
{
	struct import_email *one = arena_zalloc(c->ctx.arena, sizeof(*one));
	bool                 verified = fields_bool_or(f, "emailVerified", false);

	fields_get(f, "primaryEmailId");
	if (row->q.email_count > 0 || fields_get(f, "emails") != NULL || !fields_has(f, "email")) {
		fields_get(f, "email");
		fields_get(f, EMAIL_TYPED);
		return;
	}
	read_address(c, f, one);
	one->verified = one->primary = verified;
	row->q.emails = one;
	row->q.email_count = 1;
}

static void read_provider(struct fields *f, struct user_import *out)
{
	out->provider = fields_text_or(f, "provider", SYNC_PROVIDER_BYTES_MAX, (struct bytes){NULL, 0});
	if (!fields_failed(f) && out->provider.len > 0 && !sync_provider_is(out->provider))
		fields_fail(f, "provider", ERR_INVALID, "must have letters, digits, '-', '_' and '.' only");
	out->provider_user = fields_text_or(f, "username", SYNC_NAME_BYTES_MAX, (struct bytes){NULL, 0});
	if (!fields_failed(f) && out->provider_user.len > 0 && out->provider.len == 0)
		fields_fail(f, "username", ERR_INVALID,
		            "is the user's name at the `provider`, which is missing");
}

static void read_status(struct fields *f, struct user_import *out)
{
	static const char *const statuses[] = {"active", "suspended", "deleted", NULL};
	static const char *const reasons[] = {USER_BY_DISABLED, USER_BY_MISSING, NULL};
	bool                     by_provider = fields_has(f, USER_SUSPENDED_BY);

	out->has_status = fields_has(f, "status");
	out->status = (enum user_status)fields_choice(f, "status", statuses, USER_ACTIVE);
	if (by_provider)
		out->suspended_by = bytes_of(reasons[fields_choice(f, USER_SUSPENDED_BY, reasons, 0)]);
}

/* What GET tells and what is this server's to say is known, and not taken. */
static enum err_code read_row(struct v1_call *c, const struct json *sent, struct import_row *row,
                              struct err *err)
{
	struct fields f;

	fields_init(&f, sent, err);
	row->q.id = v1_read_user_id(&f);
	read_status(&f, &row->q);
	row->q.created_at = read_past(c, &f, "createdAt");
	fields_get(&f, "updatedAt");
	fields_get(&f, "version");
	fields_get(&f, "tokensNotBefore");
	read_provider(&f, &row->q);
	v1_read_user_fields(c, &f, true, &row->q.fields);
	read_emails(c, &f, row);
	read_only_email(c, &f, row);
	return fields_end(&f);
}

/* ---- import ---- */

struct import_call {
	struct import_row *rows;
	uint32_t           count;
	bool               quiet;
};

/* An answer that tells whether an address is taken is for those who may look up every user (v1_email_terms). */
static enum err_code check_rights(const struct v1_call *c, const struct import_row *row, struct err *err)
{
	if (v1_decide(c, "user", row->q.id, err) != DECISION_ALLOWED)
		return err->code;
	return row->q.email_count == 0 || v1_may_all(c, "LookupUser")
	               ? ERR_NONE
	               : err_field(
	                         err, ERR_ACCESS, "emails",
	                         "emails: the report would tell this key whether an address is taken; allow "
	                         "the key gatehouse:LookupUser on *, with no Deny");
}

static void row_decode(struct v1_call *c, const struct json *sent, struct import_row *row)
{
	struct err err;

	err.code = ERR_NONE;
	err.field[0] = '\0';
	if (sent->type != JSON_OBJECT)
		err_set(&err, ERR_SERIALIZATION, "a user must be an object, not %s",
		        json_type_name(sent->type));
	if (err.code != ERR_NONE || read_row(c, sent, row, &err) != ERR_NONE ||
	    check_rights(c, row, &err) != ERR_NONE)
		row_refuse(c, row, &err);
	if (!user_id_is(row->q.id))
		row->q.id = (struct bytes){NULL, 0}; /* it may be an address */
}

/* Of a file: which, and where these lines begin in it. */
static void read_run(struct fields *f, struct bytes *run, int64_t *line)
{
	*run = fields_text_or(f, "run", IMPORT_RUN_BYTES_MAX, (struct bytes){NULL, 0});
	if (!fields_failed(f) && !bytes_hold_only(*run, "-_."))
		fields_fail(f, "run", ERR_INVALID, "must have letters, digits, '-', '_' and '.' only");
	*line = fields_i64_or(f, "line", 1, INT32_MAX, 1);
}

enum err_code users_import_decode(struct v1_call *c, struct err *err)
{
	static const char *const events[] = {"publish", "none", NULL};
	struct import_call      *m = v1_request(c, sizeof(*m));
	const struct json       *users;
	struct bytes             run;
	int64_t                  line;
	struct fields            f;

	fields_init(&f, c->body, err);
	read_run(&f, &run, &line);
	m->quiet = fields_choice(&f, "events", events, 0) == 1;
	users = fields_array(&f, "users", IMPORT_ROWS_MAX);
	if (!fields_failed(&f) && (users == NULL || users->count == 0))
		fields_fail(&f, "users", ERR_INVALID, "must have 1 to %d users", IMPORT_ROWS_MAX);
	if (fields_end(&f) != ERR_NONE || users == NULL)
		return err->code;
	m->rows = arena_zalloc(c->ctx.arena, users->count * sizeof(*m->rows));
	for (const struct json *u = json_children(users); u != NULL; u = u->next) {
		struct import_row *row = &m->rows[m->count];

		row->q.run = run;
		row->q.line = line + m->count++;
		row_decode(c, u, row);
	}
	return ERR_NONE;
}

/* A decision and a commit of its own: what is refused or comes too late is this line, and no other. */
static enum err_code row_run(struct v1_call *c, struct import_row *row, struct err *err)
{
	struct table  *t = c->ctx.table;
	struct context ctx = {.services = c->ctx.services,
	                      .arena = c->ctx.arena,
	                      .caller = c->ctx.caller,
	                      .trace = c->ctx.trace,
	                      .quiet = ((const struct import_call *)c->request)->quiet};
	unsigned       decisions = 0;
	enum err_code  rc;

	do {
		ctx_begin(&ctx, t);
		ctx_foresee(&ctx);
		do {
			rc = user_import(&ctx, &row->q, &row->done, err);
			if (rc == ERR_NONE)
				rc = changes_commit(&ctx.changes, t, err);
		} while (ctx_again(&ctx, &rc, err));
	} while (changes_decide_again(&ctx.changes, t, rc, ++decisions));
	if (rc == ERR_NONE)
		ctx_published_join(&c->ctx, &ctx);
	return rc == ERR_CONDITION
	               ? err_set(err, ERR_CONTENDED, "too many requests changed this at once; try again")
	               : rc;
}

/* The lines before one that fails stay as they are: sent again with their run, they are answered as before. */
enum err_code users_import_run(struct v1_call *c, struct err *err)
{
	struct import_call *m = c->request;

	if (ctx_guesses(&c->ctx)) /* whether this was answered before: that is read first */
		return ERR_NONE;
	for (uint32_t i = 0; i < m->count; i++) {
		struct import_row *row = &m->rows[i];
		enum err_code      rc = row->code == ERR_NONE ? row_run(c, row, err) : ERR_NONE;

		if (user_import_refuses(rc))
			row_refuse(c, row, err);
		else if (rc != ERR_NONE)
			return rc;
	}
	return ERR_NONE;
}

enum err_code users_import_refused(struct v1_call *c, enum err_code rc, struct err *err)
{
	(void)err;
	ctx_published(&c->ctx); /* of the lines before */
	return rc;
}

static void row_encode(struct json_writer *w, const struct import_row *row)
{
	json_begin_object(w);
	json_member_i64(w, BYTES("line"), row->q.line);
	json_member_text(w, BYTES("id"), row->q.id);
	json_member_text(w, BYTES("outcome"), bytes_of(import_outcome_names[row->done.outcome]));
	if (row->done.outcome != IMPORT_REFUSED) {
		json_member_text(w, BYTES("leftOut"), row->done.left_out);
	} else {
		json_member_text(w, BYTES("type"), bytes_of(err_v1_type(row->code)));
		json_member_text(w, BYTES("field"), row->field);
		json_member_text(w, BYTES("detail"), row->detail);
	}
	json_end_object(w);
}

void users_import_encode(struct v1_call *c, struct json_writer *w)
{
	const struct import_call *m = c->request;
	int64_t                   counts[IMPORT_OUTCOME_COUNT] = {0};

	json_begin_object(w);
	json_name(w, BYTES("results"));
	json_begin_array(w);
	for (uint32_t i = 0; i < m->count; i++) {
		counts[m->rows[i].done.outcome]++;
		row_encode(w, &m->rows[i]);
	}
	json_end_array(w);
	for (int i = 0; i < IMPORT_OUTCOME_COUNT; i++)
		json_member_i64(w, bytes_of(import_outcome_names[i]), counts[i]);
	json_end_object(w);
}

/* ---- export ---- */

enum { EXPORT_PAGE_DEFAULT = 100 };

struct export_call {
	struct users_search q;
	struct users_page   page;
	struct user_emails *emails; /* of each */
};

enum err_code users_export_decode(struct v1_call *c, struct err *err)
{
	static const struct json nothing = {.type = JSON_OBJECT};
	struct export_call      *e = v1_request(c, sizeof(*e));
	struct bytes             cursor;
	struct fields            f;

	fields_init(&f, c->body == NULL ? &nothing : c->body, err);
	e->q.limit = (uint32_t)fields_i64_or(&f, "limit", 1, USERS_PAGE_MAX, EXPORT_PAGE_DEFAULT);
	cursor = fields_text_or(&f, "cursor", V1_PARAM_BYTES_MAX, (struct bytes){NULL, 0});
	if (!fields_failed(&f) && cursor.len > 0 &&
	    !cursor_read(&c->ctx, cursor, &e->q.after_pk, &e->q.after_sk))
		fields_fail(&f, "cursor", ERR_INVALID, "not a cursor returned by this API");
	return fields_end(&f);
}

static bool is_exported(struct v1_call *c, const struct user *u)
{
	return u->status != USER_ERASING && v1_allowed(c, "user", u->id);
}

enum err_code users_export_run(struct v1_call *c, struct err *err)
{
	struct export_call *e = c->request;

	if (users_find(&c->ctx, &e->q, &e->page, err) != ERR_NONE)
		return err->code;
	e->emails = arena_zalloc(c->ctx.arena, (e->page.count + 1) * sizeof(*e->emails));
	for (uint32_t i = 0; i < e->page.count; i++)
		if (is_exported(c, &e->page.list[i]) &&
		    user_emails_read(&c->ctx, e->page.list[i].id, &e->emails[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

static void write_moving(struct json_writer *w, const struct user *u, const struct user_emails *emails)
{
	json_begin_object(w);
	json_member_text(w, BYTES("id"), u->id);
	json_member_text(w, BYTES("status"), bytes_of(user_status_names[u->status]));
	if (u->status == USER_SUSPENDED)
		json_member_text(w, BYTES(USER_SUSPENDED_BY), u->suspended_by);
	json_member_text(w, BYTES("firstName"), u->first_name);
	json_member_text(w, BYTES("lastName"), u->last_name);
	json_member_text(w, BYTES("phone"), u->phone);
	if (u->attributes.count > 0)
		v1_write_attributes(w, &u->attributes);
	json_member_text(w, BYTES("provider"), row_text(&u->row, "provider"));
	json_member_text(w, BYTES("username"), row_text(&u->row, "providerUser"));
	json_member_text(w, BYTES("createdAt"), u->created_at);
	json_member_text(w, BYTES("updatedAt"), u->updated_at);
	json_name(w, BYTES("emails"));
	json_begin_array(w);
	for (uint32_t i = 0; i < emails->count; i++)
		v1_write_email(w, &emails->list[i]);
	json_end_array(w);
	json_end_object(w);
}

void users_export_encode(struct v1_call *c, struct json_writer *w)
{
	const struct export_call *e = c->request;

	json_begin_object(w);
	json_name(w, BYTES("users"));
	json_begin_array(w);
	for (uint32_t i = 0; i < e->page.count; i++)
		if (is_exported(c, &e->page.list[i]))
			write_moving(w, &e->page.list[i], &e->emails[i]);
	json_end_array(w);
	json_member_bool(w, BYTES("more"), e->page.more);
	if (e->page.more)
		json_member_text(w, BYTES("cursor"), cursor_write(&c->ctx, e->page.last_pk, e->page.last_sk));
	json_end_object(w);
}
