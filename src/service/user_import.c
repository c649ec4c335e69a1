/* Importing users: see user_import.h. */
#include "service/user_import.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "service/erased.h"
#include "service/row.h"

#define IMPORTED_AS "importedAs" /* "RUN LINE OUTCOME", and what was left out (2) */

const char *const import_outcome_names[IMPORT_OUTCOME_COUNT] = {
#define X(id, name) name,
        IMPORT_OUTCOMES(X)
#undef X
};

bool user_import_refuses(enum err_code rc)
{
	return rc == ERR_INVALID || rc == ERR_SERIALIZATION || rc == ERR_EMAIL_TAKEN ||
	       rc == ERR_USER_EXISTS || rc == ERR_NOT_NOW || rc == ERR_LIMIT || rc == ERR_ACCESS;
}

/* ---- what this run has done before (2) ---- */

static struct bytes mark_start(struct context *ctx, const struct user_import *q)
{
	return arena_printf(ctx->arena, "%.*s %" PRIi64 " ", BYTES_ARG(q->run), q->line);
}

static void mark(struct context *ctx, struct row *row, const struct user_import *q,
                 const struct user_imported *done)
{
	if (q->run.len > 0)
		row_set_text(row, IMPORTED_AS,
		             arena_printf(ctx->arena, "%.*s%s%s%.*s", BYTES_ARG(mark_start(ctx, q)),
		                          import_outcome_names[done->outcome],
		                          done->left_out.len > 0 ? " " : "", BYTES_ARG(done->left_out)));
}

/* Is the line done? Then *out is what became of it. */
static bool is_done(struct context *ctx, const struct user_import *q, const struct item *row,
                    struct user_imported *out)
{
	struct bytes said = row_text(row, IMPORTED_AS), start = mark_start(ctx, q);

	if (q->run.len == 0 || !bytes_starts_with(said, start))
		return false;
	said = (struct bytes){said.data + start.len, said.len - start.len};
	for (int i = 0; i < IMPORT_REFUSED; i++) {
		struct bytes name = bytes_of(import_outcome_names[i]);
		size_t       end = name.len + (said.len > name.len); /* a space */

		if (!bytes_starts_with(said, name))
			continue;
		*out = (struct user_imported){(enum import_outcome)i, {said.data + end, said.len - end}};
		return true;
	}
	return false;
}

/* (6) */
static enum err_code check_other_line(struct context *ctx, const struct user_import *q,
                                      const struct item *row, struct err *err)
{
	struct bytes said = row_text(row, IMPORTED_AS);
	struct bytes run = arena_printf(ctx->arena, "%.*s ", BYTES_ARG(q->run));
	size_t       at = run.len;

	if (q->run.len == 0 || !bytes_starts_with(said, run))
		return ERR_NONE;
	while (at < said.len && said.data[at] != ' ')
		at++;
	return err_field(err, ERR_USER_EXISTS, "id", "id: line %.*s of this run is about the same user",
	                 (int)(at - run.len), said.data + run.len);
}

/* ---- addresses ---- */

static const struct user_email *find(const struct user_emails *all, const struct import_email *e)
{
	for (uint32_t i = 0; i < all->count; i++)
		if (bytes_equal(all->list[i].email, e->email))
			return &all->list[i];
	return NULL;
}

static bool has_id(const struct user_emails *all, struct bytes id)
{
	for (uint32_t i = 0; i < all->count; i++)
		if (bytes_equal(all->list[i].id, id))
			return true;
	return false;
}

/* Those that the user does not have yet: as many as there is room for, under ids of their own. */
static enum err_code check_new(struct context *ctx, const struct user_import *q,
                               const struct user_emails *all, struct err *err)
{
	uint32_t most = user_bounds_now(&ctx->services->users).emails_max, count = all->count;

	for (uint32_t i = 0; i < q->email_count; i++) {
		if (find(all, &q->emails[i]) != NULL)
			continue;
		count++;
		if (q->emails[i].id.len > 0 && has_id(all, q->emails[i].id))
			return err_field(err, ERR_INVALID, "emails",
			                 "emails: the id of one is that of another address of the user");
	}
	return count <= most
	               ? ERR_NONE
	               : err_field(err, ERR_LIMIT, "emails", "emails: a user has at most %u addresses", most);
}

/* One user that is being written. */
struct importing {
	struct context           *ctx;
	const struct user_import *q;
	struct user              *user;
	struct row               *row;
	struct email_trust       *emails; /* what became of each */
	uint32_t                  email_count;
	bool                      emails_changed;
	struct user_imported     *out;
};

/* (4) */
static void leave_out(struct importing *m, const struct import_email *e)
{
	struct bytes before = m->out->left_out;

	m->email_count--;
	m->out->left_out = arena_printf(m->ctx->arena, "%.*s%semails[%td]", BYTES_ARG(before),
	                                before.len > 0 ? " " : "", e - m->q->emails);
}

static enum err_code email_apply(struct importing *m, const struct import_email *e, struct err *err)
{
	struct email_trust *t = &m->emails[m->email_count++];
	enum err_code       rc;

	*t = (struct email_trust){.user = m->user,
	                          .email = e->email,
	                          .typed = e->typed,
	                          .profile = m->row,
	                          .prefer = e->primary,
	                          .evicts = true,
	                          .wanted_id = e->id,
	                          .created_at = e->created_at,
	                          .verified_at = e->verified_at};
	rc = e->verified ? user_email_trust(m->ctx, t, err) : user_email_note(m->ctx, t, err);
	if (rc == ERR_EMAIL_TAKEN && !e->verified) {
		leave_out(m, e);
		return ERR_NONE;
	}
	if (rc != ERR_NONE && strcmp(err->field, "email") == 0)
		snprintf(err->field, sizeof(err->field), "emails[%td].email", e - m->q->emails);
	if (rc != ERR_NONE)
		return rc;
	m->emails_changed = m->emails_changed || t->changed;
	if (t->primary)
		m->user->email_id = t->id; /* those that follow are not */
	return ERR_NONE;
}

/* The primary one first, then the others that are verified: the first of these is primary if none is. */
static enum err_code emails_apply(struct importing *m, const struct user_emails *all, struct err *err)
{
	m->emails = arena_array(m->ctx->arena, m->q->email_count + 1, sizeof(*m->emails));
	if (check_new(m->ctx, m->q, all, err) != ERR_NONE)
		return err->code;
	for (int round = 0; round < 3; round++)
		for (uint32_t i = 0; i < m->q->email_count; i++) {
			const struct import_email *e = &m->q->emails[i];

			if (round != (e->primary ? 0 : e->verified ? 1 : 2))
				continue;
			if (email_apply(m, e, err) != ERR_NONE)
				return err->code;
		}
	return ERR_NONE;
}

static void emails_publish(const struct importing *m)
{
	for (uint32_t i = 0; i < m->email_count; i++)
		user_email_trusted(m->ctx, &m->emails[i]);
}

/* ---- the user ---- */

static enum err_code fields_apply(struct importing *m, struct err *err)
{
	if (m->q->provider.len > 0)
		row_set_text(m->row, "provider", m->q->provider);
	if (m->q->provider_user.len > 0)
		row_set_text(m->row, "providerUser", m->q->provider_user);
	return user_fields_apply(m->ctx, m->row, m->user, &m->q->fields, err);
}

/* Of which email.added and others tell. */
static struct item told_of(struct context *ctx, const struct item *row)
{
	struct item left = item_without(ctx->arena, row, BYTES("aliases"));

	return item_without(ctx->arena, &left, BYTES("emailsVersion"));
}

static bool differs(struct context *ctx, const struct item *before, const struct item *after)
{
	struct item a = told_of(ctx, before), b = told_of(ctx, after);

	return !item_equal(&a, &b);
}

/* The row as it is so far, and the one that is written, which may have another status. */
static enum err_code write(struct importing *m, const struct item *before, struct err *err)
{
	const struct user_import *q = m->q;
	struct item               after = row_item(m->row);
	bool becomes = q->has_status && q->status != USER_ACTIVE && user_status_of(&after) != q->status;
	struct user told;
	struct row  row;

	row_from(&row, m->ctx->arena, &after);
	if (becomes)
		user_status_set(&row, q->status, q->suspended_by);
	mark(m->ctx, &row, q, m->out);
	user_put(m->ctx, m->user, &row);
	told = *m->user;
	told.row = after;
	if (before == NULL)
		user_publish(m->ctx, &(struct user_event){.type = EVENT_USER_CREATED}, &told);
	else if (differs(m->ctx, before, &after))
		user_publish(m->ctx, &(struct user_event){.type = EVENT_USER_UPDATED, .before = before},
		             &told);
	emails_publish(m);
	return becomes ? user_became(m->ctx, m->user, &after, BYTES("imported"), err) : ERR_NONE;
}

/* (5) */
static enum err_code check_erased(struct context *ctx, struct bytes id, struct err *err)
{
	struct erasure e;

	if (erased_find(ctx, id, &e, err) != ERR_NONE)
		return err->code;
	return e.found ? err_field(err, ERR_NOT_NOW, "id",
	                           "id: the user was erased here; POST /v1/users creates it again")
	               : ERR_NONE;
}

static enum err_code create(struct context *ctx, const struct user_import *q, struct user_imported *out,
                            struct err *err)
{
	struct user        user;
	struct row         row;
	struct user_emails none = {0};
	struct importing   m = {.ctx = ctx, .q = q, .user = &user, .row = &row, .out = out};

	if (check_erased(ctx, q->id, err) != ERR_NONE)
		return err->code;
	user_begin(ctx, q->id, &user, &row);
	if (q->created_at.len > 0)
		row_set_text(&row, "createdAt", q->created_at);
	if (fields_apply(&m, err) != ERR_NONE || emails_apply(&m, &none, err) != ERR_NONE)
		return err->code;
	out->outcome = IMPORT_CREATED;
	return write(&m, NULL, err);
}

static enum err_code check_change(struct context *ctx, const struct user_import *q, const struct user *u,
                                  struct err *err)
{
	struct bytes provider = row_text(&u->row, "provider");

	if (check_other_line(ctx, q, &u->row, err) != ERR_NONE)
		return err->code;
	if (q->provider.len > 0 && provider.len > 0 && !bytes_equal(q->provider, provider))
		return err_field(err, ERR_USER_EXISTS, "provider",
		                 "provider: the user came from another provider");
	if (u->status == USER_DELETED)
		return err_field(err, ERR_NOT_NOW, "status",
		                 "status: the user is deleted here and cannot change");
	if (q->has_status && q->status == USER_ACTIVE && u->status == USER_SUSPENDED)
		return err_field(
		        err, ERR_NOT_NOW, "status",
		        "status: the user is suspended here; reactivate it, or leave the status out");
	return ERR_NONE;
}

static enum err_code update(struct context *ctx, const struct user_import *q, struct user *u,
                            struct user_imported *out, struct err *err)
{
	struct item        before = u->row, after;
	struct row         row;
	struct user_emails emails = {0};
	struct importing   m = {.ctx = ctx, .q = q, .user = u, .row = &row, .out = out};

	if (check_change(ctx, q, u, err) != ERR_NONE ||
	    (q->email_count > 0 && user_emails_read(ctx, q->id, &emails, err) != ERR_NONE))
		return err->code;
	row_from(&row, ctx->arena, &u->row);
	if (fields_apply(&m, err) != ERR_NONE || emails_apply(&m, &emails, err) != ERR_NONE)
		return err->code;
	after = row_item(&row);
	out->outcome = IMPORT_UNCHANGED;
	if (!m.emails_changed && item_equal(&before, &after) && (!q->has_status || q->status == u->status))
		return ERR_NONE;
	out->outcome = IMPORT_UPDATED;
	return write(&m, &before, err);
}

enum err_code user_import(struct context *ctx, const struct user_import *q, struct user_imported *out,
                          struct err *err)
{
	struct user   u;
	enum err_code rc = user_get(ctx, q->id, &u, err);

	*out = (struct user_imported){0};
	if (rc == ERR_NOT_FOUND)
		return create(ctx, q, out, err);
	if (rc != ERR_NONE)
		return rc;
	if (u.status == USER_ERASING)
		return user_erasing(err);
	if (is_done(ctx, q, &u.row, out))
		return ERR_NONE;
	if (u.status == USER_DELETED && q->has_status && q->status == USER_DELETED) {
		out->outcome = IMPORT_UNCHANGED;
		return check_other_line(ctx, q, &u.row, err);
	}
	return update(ctx, q, &u, out, err);
}
