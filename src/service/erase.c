/* Erasing: see erase.h. */
#include "service/erase.h"

#include <stdio.h>

#include "service/alias.h"
#include "service/erased.h"
#include "service/event.h"
#include "service/limit_row.h"
#include "service/limits.h"
#include "service/lock.h"
#include "service/lock_event.h"
#include "service/lock_group.h"
#include "service/revocation.h"
#include "service/row.h"
#include "service/scan.h"
#include "service/sign_out.h"
#include "service/user.h"

/* ---- where it is ----
 *
 * "PASS FOUND STAGE CURSOR": FOUND is 1 if this pass erased something. */

enum { STAGE_ADDRESSES, STAGE_PROFILE, STAGE_ERASERS }; /* from there on: an eraser each */

#define STAGE_NUMBER "number" /* the last: of the event */

#define NO_USER "noUser" /* of a PROFILE that the start of an erasure made: there was none */

struct at {
	int64_t      pass;
	bool         found;
	unsigned     stage;
	struct bytes cursor; /* in the table that is read */
};

static struct bytes word_next(struct bytes *rest)
{
	const char  *space = rest->len == 0 ? NULL : memchr(rest->data, ' ', rest->len);
	struct bytes word = {rest->data, space == NULL ? rest->len : (size_t)(space - rest->data)};

	*rest = space == NULL ? (struct bytes){NULL, 0} : (struct bytes){space + 1, rest->len - word.len - 1};
	return word;
}

/* The name of a stage says what it reads: a newer program may have more of them. */
static struct bytes stage_name(struct arena *a, unsigned stage)
{
	const struct eraser *eraser = stage < STAGE_ERASERS ? NULL : &erasers[stage - STAGE_ERASERS];

	if (eraser == NULL)
		return stage == STAGE_ADDRESSES ? BYTES("addresses") : BYTES("profile");
	return arena_printf(a, "%s/%u", service_table_shape(eraser->table)->name, stage - STAGE_ERASERS);
}

/* A stage that is not known any more: the pass begins again. */
static struct at at_read(struct arena *a, const struct job *job)
{
	struct bytes rest = job->cursor, pass = word_next(&rest), found = word_next(&rest);
	struct bytes stage = word_next(&rest);
	uint64_t     number;
	struct at    at = {.pass = 1, .found = bytes_is(found, "1"), .cursor = rest};

	if (bytes_to_u64(pass, INT32_MAX, &number))
		at.pass = (int64_t)number;
	for (at.stage = 0; at.stage < STAGE_ERASERS + eraser_count; at.stage++)
		if (bytes_equal(stage, stage_name(a, at.stage)))
			return at;
	at.stage = 0;
	at.cursor = (struct bytes){NULL, 0};
	return at;
}

static void at_write(struct context *ctx, struct job *job, const struct at *at)
{
	struct bytes stage = stage_name(ctx->arena, at->stage);

	job->cursor = arena_printf(ctx->arena, "%lld %d %.*s %.*s", (long long)at->pass, at->found,
	                           BYTES_ARG(stage), BYTES_ARG(at->cursor));
}

/* ---- whom it is about ---- */

static struct erasing erasing_of(struct context *ctx, const struct job *job)
{
	const struct value *list = item_get(&job->args, BYTES("handles"));
	uint32_t            count = list != NULL && list->type == VALUE_L ? list->list.count : 0;
	struct erasing e = {.id = row_text(&job->args, "userId"), .hash = row_text(&job->args, "userHash")};

	e.handles = arena_array(ctx->arena, count + 1, sizeof(*e.handles));
	for (uint32_t i = 0; i < count; i++)
		e.handles[e.handle_count++] = value_text(&list->list.items[i]);
	return e;
}

bool erase_is_handle(const struct erasing *e, struct bytes text)
{
	if (text.len == 0)
		return false;
	if (bytes_equal(text, e->id))
		return true;
	for (uint32_t i = 0; i < e->handle_count; i++)
		if (bytes_equal(text, e->handles[i]))
			return true;
	return false;
}

static enum err_code handle_add(struct context *ctx, struct job *job, struct bytes handle, struct err *err)
{
	struct erasing    e = erasing_of(ctx, job);
	struct value_list list = {arena_array(ctx->arena, e.handle_count + 1, sizeof(struct value)), 0};
	struct value      value;

	if (erase_is_handle(&e, handle))
		return ERR_NONE;
	if (e.handle_count >= ERASE_HANDLES_MAX)
		return err_set(err, ERR_LIMIT, "the user was known by more than %d addresses",
		               ERASE_HANDLES_MAX);
	for (uint32_t i = 0; i < e.handle_count; i++)
		list.items[list.count++] = value_string(e.handles[i]);
	list.items[list.count++] = value_string(handle);
	value = (struct value){.type = VALUE_L, .list = list};
	job->args = item_with(ctx->arena, &job->args, BYTES("handles"), &value);
	return ERR_NONE;
}

/* ---- deleting ---- */

static void erased(struct context *ctx, struct job *job, struct at *at, enum service_table table,
                   uint32_t rows)
{
	if (rows == 0)
		return;
	at->found = true;
	job->handled += rows;
	job_count(ctx, job, service_table_shape(table)->name, rows);
}

/* A lock over several ids is erased with all of them: the others name this one. */
static bool is_group(const struct erase_partition *q, const struct item *row)
{
	return q->table == TABLE_AUTH_STATE && lock_group_of(row).count > 0;
}

/* Rows of auth-state are under the version of their partition; others are deleted as they are. */
enum err_code erase_rows(struct context *ctx, const struct erase_partition *q, struct err *err)
{
	struct expr_key_condition key = row_prefix(q->pk, q->prefix);
	struct table_query        query = {.key = &key, .limit = CHANGES_MAX, .consistent = true};
	struct table_query_result r;
	enum err_code             rc = q->table == TABLE_AUTH_STATE ? ctx_query(ctx, &query, &r, err)
	                                                            : ctx_query_in(ctx, q->table, &query, &r, err);

	for (uint32_t i = 0; rc == ERR_NONE && i < r.count; i++) {
		struct bytes sk = row_text(&r.items[i], "SK");

		if (job_room(ctx) < lock_remove_rows(ctx, &r.items[i]))
			break;
		if (is_group(q, &r.items[i]))
			rc = lock_remove(ctx, &r.items[i], LOCK_CLEARED_BY_ERASURE, err);
		else if (q->table == TABLE_AUTH_STATE)
			lock_changed(ctx, &r.items[i], NULL, LOCK_CLEARED_BY_ERASURE);
		if (q->but.len == 0 || !bytes_equal(sk, q->but))
			ctx_delete(ctx, q->table, row_key_two(ctx->arena, q->pk, sk));
	}
	return rc;
}

/* The rows of auth-state under a hash. *left: there was not room for all, or they were not all read. */
static enum err_code handle_rows(struct context *ctx, struct job *job, struct at *at, struct bytes handle,
                                 struct err *err)
{
	uint32_t before = ctx->changes.count;

	if (handle_add(ctx, job, handle, err) != ERR_NONE ||
	    erase_rows(ctx, &(struct erase_partition){.table = TABLE_AUTH_STATE, .pk = handle}, err) !=
	            ERR_NONE)
		return err->code;
	erased(ctx, job, at, TABLE_AUTH_STATE, ctx->changes.count - before);
	return ERR_NONE;
}

/* ---- addresses (2) ---- */

/* (7) What is under the hash of an address is its owner's: not of those who have claimed it and proved nothing. */
static bool is_proved(const struct item *row, const struct looked *marker, struct bytes user)
{
	const struct value *verified = item_get(row, BYTES("isVerified"));

	return verified != NULL && verified->type == VALUE_BOOL && verified->truth &&
	       (!marker->found || bytes_equal(row_text(&marker->item, "userId"), user));
}

/* The address goes in a commit that found nothing under its hash. Nobody can tell any more whose the tokens in its name are. */
static enum err_code address_erase(struct context *ctx, struct job *job, struct at *at,
                                   const struct item *row, struct err *err)
{
	struct bytes  email = row_text(row, "email"), handle, user = row_text(&job->args, "userId");
	uint32_t      before = ctx->changes.count;
	bool          proved;
	struct looked marker;

	user_marker_key(ctx->arena, email, &marker);
	if (ctx_look_in(ctx, TABLE_USERS, &marker, err) != ERR_NONE)
		return err->code;
	proved = is_proved(row, &marker, user);
	handle = identifier_of_row_email(&ctx->services->identifiers, ctx->arena, email);
	if (proved) {
		if (handle_rows(ctx, job, at, handle, err) != ERR_NONE)
			return err->code;
		if (ctx->changes.count > before)
			return ERR_NONE;
	}
	ctx_delete(ctx, TABLE_USERS, row_key_two(ctx->arena, row_text(row, "PK"), row_text(row, "SK")));
	if (marker.found && bytes_equal(row_text(&marker.item, "userId"), user))
		ctx_delete(ctx, TABLE_USERS, row_key_two(ctx->arena, marker.pk, marker.sk));
	if (proved && alias_erase(ctx, handle, user, err) != ERR_NONE)
		return err->code;
	erased(ctx, job, at, TABLE_USERS, ctx->changes.count - before);
	if (proved)
		erased_mark(ctx, handle);
	return proved ? revocation_add_address(ctx, handle, BYTES("erased"), err) : ERR_NONE;
}

/* One a step: it is seldom that there are many. */
static enum err_code addresses_step(struct context *ctx, struct job *job, struct at *at, struct err *err)
{
	struct bytes              pk = user_key(ctx->arena, row_text(&job->args, "userId"));
	struct expr_key_condition key = row_prefix(pk, BYTES("EMAIL#"));
	struct table_query        q = {.key = &key, .limit = 1, .consistent = true};
	struct table_query_result r;

	if (ctx_query_in(ctx, TABLE_USERS, &q, &r, err) != ERR_NONE)
		return err->code;
	if (r.count > 0)
		return address_erase(ctx, job, at, &r.items[0], err);
	if (!r.more) /* else an expired row was left out */
		at->stage++;
	return ERR_NONE;
}

/* ---- the profile (1) ---- */

/* Nothing but its status, until all else is gone. */
static struct item profile_bare(struct context *ctx, const struct job *job, const struct item *profile)
{
	struct user u;
	struct row  row;

	user_begin(ctx, row_text(&job->args, "userId"), &u, &row);
	row_set_text(&row, "status", bytes_of(user_status_names[USER_ERASING]));
	row_set_text(&row, "createdAt", job->created_at);
	row_set_text(&row, "updatedAt", job->created_at);
	row_set_text(&row, "eraseJob", job->id);
	row_set_i64(&row, "version", profile == NULL ? 1 : row_i64(profile, "version", 1));
	return row_item(&row);
}

static enum err_code profile_step(struct context *ctx, struct job *job, struct at *at, struct err *err)
{
	uint32_t      before = ctx->changes.count;
	struct looked profile;
	struct item   bare;
	struct bytes  handle;

	user_profile_key(ctx->arena, row_text(&job->args, "userId"), &profile);
	if (ctx_look_in(ctx, TABLE_USERS, &profile, err) != ERR_NONE)
		return err->code;
	if (profile.found && identifier_hash(&ctx->services->identifiers, ctx->arena, IDENTIFIER_PHONE,
	                                     row_text(&profile.item, "phone"), &handle)) {
		if (handle_rows(ctx, job, at, handle, err) != ERR_NONE)
			return err->code;
		if (ctx->changes.count > before)
			return ERR_NONE;
		erased_mark(ctx, handle);
	}
	bare = profile_bare(ctx, job, profile.found ? &profile.item : NULL);
	if (!profile.found || !item_equal(&profile.item, &bare))
		ctx_put(ctx, TABLE_USERS, bare);
	at->stage++;
	return ERR_NONE;
}

/* ---- tables that are read ---- */

/* Of one eraser, and of one user. */
struct seeking {
	const struct eraser *eraser;
	struct erasing       e;
};

static bool is_owned(struct context *ctx, const void *arg, const struct item *row)
{
	const struct seeking *s = arg;

	return s->eraser->owns(ctx, &s->e, row);
}

static enum err_code erase_fetch(struct context *ctx, const struct job *job, void **out, struct err *err)
{
	struct at      at = at_read(ctx->arena, job);
	struct seeking s = {.eraser = at.stage < STAGE_ERASERS ? NULL : &erasers[at.stage - STAGE_ERASERS],
	                    .e = erasing_of(ctx, job)};
	struct scan    q = {.page = ERASE_PAGE,
	                    .found_max = SCAN_FOUND_MAX,
	                    .from = at.cursor,
	                    .wanted = is_owned,
	                    .arg = &s};

	*out = NULL;
	if (bytes_is(job->cursor, STAGE_NUMBER) || s.eraser == NULL || s.eraser->owns == NULL)
		return ERR_NONE;
	q.table = s.eraser->table;
	*out = arena_alloc(ctx->arena, sizeof(struct scan_found));
	return scan_read(ctx, &q, *out, err);
}

/* The row may have become another one since it was found. */
static enum err_code found_erase(struct context *ctx, const struct seeking *s, struct looked *row,
                                 struct err *err)
{
	enum service_table table = s->eraser->table;

	if (ctx_look_in(ctx, table, row, err) != ERR_NONE)
		return err->code;
	if (!row->found || !is_owned(ctx, s, &row->item))
		return ERR_NONE;
	if (s->eraser->blank != NULL)
		ctx_put(ctx, table, s->eraser->blank(ctx, &s->e, &row->item));
	else if (row->sk.data == NULL)
		ctx_delete(ctx, table, row_key_one(ctx->arena, row->pk));
	else
		ctx_delete(ctx, table, row_key_two(ctx->arena, row->pk, row->sk));
	return ERR_NONE;
}

static enum err_code found_step(struct context *ctx, const struct eraser *eraser, struct job *job,
                                const struct scan_found *f, struct err *err)
{
	struct seeking s = {.eraser = eraser, .e = erasing_of(ctx, job)};
	struct looked  row;

	for (uint32_t i = 0; i < f->count; i++) {
		scan_key(f, eraser->table, i, &row);
		if (found_erase(ctx, &s, &row, err) != ERR_NONE)
			return err->code;
	}
	job->handled += f->read;
	return ERR_NONE;
}

static enum err_code eraser_step(struct context *ctx, struct job *job, struct at *at,
                                 const struct scan_found *f, struct err *err)
{
	const struct eraser *eraser = &erasers[at->stage - STAGE_ERASERS];
	uint32_t             before = ctx->changes.count;
	bool                 over;

	if (eraser->rows != NULL) {
		if (eraser->rows(ctx, row_text(&job->args, "userId"), err) != ERR_NONE)
			return err->code;
		over = ctx->changes.count == before;
	} else {
		if (found_step(ctx, eraser, job, f, err) != ERR_NONE)
			return err->code;
		at->cursor = f->next;
		over = f->whole;
	}
	erased(ctx, job, at, eraser->table, ctx->changes.count - before);
	if (over) {
		at->stage++;
		at->cursor = (struct bytes){NULL, 0};
	}
	return ERR_NONE;
}

/* ---- the end ---- */

/* The id is free again, and what happened before and arrives later is dropped. */
static enum err_code profile_drop(struct context *ctx, struct bytes user, bool *dropped, struct err *err)
{
	struct looked profile;
	enum err_code rc;

	user_profile_key(ctx->arena, user, &profile);
	rc = ctx_look_in(ctx, TABLE_USERS, &profile, err);
	if (rc != ERR_NONE)
		return rc;
	if (profile.found)
		ctx_delete(ctx, TABLE_USERS, row_key_two(ctx->arena, profile.pk, profile.sk));
	*dropped = profile.found;
	erased_mark(ctx, user);
	return ERR_NONE;
}

static enum err_code user_end(struct context *ctx, struct job *job, struct err *err)
{
	struct event e = {.type = EVENT_USER_ERASED, .subject = row_text(&job->args, "userId")};
	bool         dropped;

	if (profile_drop(ctx, e.subject, &dropped, err) != ERR_NONE)
		return err->code;
	if (dropped)
		job_count(ctx, job, service_table_shape(TABLE_USERS)->name, 1);
	ctx_publish(ctx, &e);
	atomic_fetch_add(&ctx->services->events.erasures, 1);
	job->cursor = BYTES(STAGE_NUMBER);
	return ERR_NONE;
}

/* (5) */
static void job_become_receipt(struct context *ctx, struct job *job)
{
	struct bytes hash = row_text(&job->args, "userHash");
	struct row   args;

	row_init(&args, ctx->arena);
	row_set_text(&args, "userHash", hash);
	job->args = row_item(&args);
	job->cursor = (struct bytes){NULL, 0};
	job->done = true;
}

/* (4) */
static enum err_code number_step(struct context *ctx, struct job *job, struct err *err)
{
	if (event_number_move(ctx, row_text(&job->args, "userId"), err) != ERR_NONE)
		return err->code;
	job_become_receipt(ctx, job);
	return ERR_NONE;
}

/* ---- an id that is not known (8) ---- */

/* A row under the id that is not the PROFILE which the start wrote. */
static enum err_code has_user_rows(struct context *ctx, struct bytes user, bool *out, struct err *err)
{
	struct expr_key_condition key = row_prefix(user_key(ctx->arena, user), BYTES(""));
	struct table_query        q = {.key = &key, .limit = 2, .consistent = true};
	struct table_query_result r;
	enum err_code             rc = ctx_query_in(ctx, TABLE_USERS, &q, &r, err);

	if (rc != ERR_NONE)
		return rc;
	*out = r.count > 1 || r.more;
	return ERR_NONE;
}

static enum err_code has_limits(struct context *ctx, struct bytes user, bool *out, struct err *err)
{
	struct limits         *limits = ctx->services->limits;
	struct limit_policies *set = limits == NULL ? NULL : limits_policies(limits);
	enum err_code          rc = ERR_NONE;

	*out = false;
	for (uint32_t i = 0; set != NULL && rc == ERR_NONE && !*out && i < set->count; i++) {
		struct bytes     prefix = set->list[i].prefix;
		struct limit_row row;

		if (set->list[i].engine != LIMIT_TABLE)
			continue;
		limit_row_init(&row, ctx->arena,
		               arena_printf(ctx->arena, "%.*s%.*s", BYTES_ARG(prefix), BYTES_ARG(user)), 0);
		rc = ctx_look_in(ctx, TABLE_RATE_LIMITS, &row.row, err);
		*out = rc == ERR_NONE && row.row.found;
	}
	if (set != NULL)
		limit_policies_release(set);
	return rc;
}

/* Rows that erasers find by the id. What they have found, they have erased. */
static enum err_code has_rows(struct context *ctx, struct job *job, struct at *at, bool *out, struct err *err)
{
	uint32_t before = ctx->changes.count;

	*out = false;
	for (unsigned i = 0; i < eraser_count && !*out; i++) {
		if (erasers[i].rows == NULL || erasers[i].table == TABLE_USERS)
			continue;
		if (erasers[i].rows(ctx, row_text(&job->args, "userId"), err) != ERR_NONE)
			return err->code;
		*out = ctx->changes.count > before;
		erased(ctx, job, at, erasers[i].table, ctx->changes.count - before);
	}
	return ERR_NONE;
}

static enum err_code id_is_known(struct context *ctx, struct job *job, struct at *at, bool *out,
                                 struct err *err)
{
	struct bytes  user = row_text(&job->args, "userId");
	enum err_code rc = has_user_rows(ctx, user, out, err);

	if (rc == ERR_NONE && !*out)
		rc = event_number_exists(ctx, user, out, err);
	if (rc == ERR_NONE && !*out)
		rc = has_limits(ctx, user, out, err);
	if (rc == ERR_NONE && !*out)
		rc = has_rows(ctx, job, at, out, err);
	return rc;
}

static enum err_code had_no_user(struct context *ctx, const struct job *job, bool *out, struct err *err)
{
	struct looked profile;

	user_profile_key(ctx->arena, row_text(&job->args, "userId"), &profile);
	if (ctx_look_in(ctx, TABLE_USERS, &profile, err) != ERR_NONE)
		return err->code;
	*out = profile.found && item_get(&profile.item, BYTES(NO_USER)) != NULL;
	return ERR_NONE;
}

/* Of an id that was no user's when it started: the first step finds out whether there is anything to erase. */
static enum err_code unknown_step(struct context *ctx, struct job *job, struct at *at, struct err *err)
{
	bool known, dropped;

	if (id_is_known(ctx, job, at, &known, err) != ERR_NONE)
		return err->code;
	at_write(ctx, job, at);
	if (known)
		return ERR_NONE;
	if (profile_drop(ctx, row_text(&job->args, "userId"), &dropped, err) != ERR_NONE)
		return err->code;
	job_count(ctx, job, "unknown", 1);
	job_become_receipt(ctx, job);
	return ERR_NONE;
}

/* Once more from the start, if this pass found something. The first one always does: it cannot know what came behind it. */
static enum err_code pass_end(struct context *ctx, struct job *job, struct at *at, struct err *err)
{
	job_count(ctx, job, "passes", 1);
	if (at->pass > 1 && (!at->found || at->pass >= ERASE_PASSES_MAX))
		return user_end(ctx, job, err);
	*at = (struct at){.pass = at->pass + 1};
	at_write(ctx, job, at);
	return ERR_NONE;
}

static enum err_code erase_step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	struct at     at = at_read(ctx->arena, job);
	bool          unknown = false;
	enum err_code rc;

	if (bytes_is(job->cursor, STAGE_NUMBER))
		return number_step(ctx, job, err);
	if (job->cursor.len == 0 && had_no_user(ctx, job, &unknown, err) != ERR_NONE)
		return err->code;
	if (unknown)
		return unknown_step(ctx, job, &at, err);
	rc = at.stage == STAGE_ADDRESSES ? addresses_step(ctx, job, &at, err)
	     : at.stage == STAGE_PROFILE ? profile_step(ctx, job, &at, err)
	                                 : eraser_step(ctx, job, &at, fetched, err);
	if (rc != ERR_NONE)
		return rc;
	if (at.stage == STAGE_ERASERS + eraser_count)
		return pass_end(ctx, job, &at, err);
	at_write(ctx, job, &at);
	return ERR_NONE;
}

const struct job_kind erase_job = {
        .name = "erase", .rate = ERASE_RATE, .fetch = erase_fetch, .step = erase_step};

/* ---- starting ---- */

/* (6) */
static enum err_code start_again(struct context *ctx, const struct user *u, struct job_started *out,
                                 bool *done, struct err *err)
{
	struct bytes  id = row_text(&u->row, "eraseJob");
	enum err_code rc = id.len == 0 ? ERR_NOT_FOUND : job_get(ctx, id, &out->job, err);

	*done = rc == ERR_NONE && out->job.state != JOB_DONE;
	if (rc != ERR_NONE)
		return rc == ERR_NOT_FOUND ? ERR_NONE : rc;
	out->existed = true;
	return *done ? job_resume(ctx, id, &out->job, err) : ERR_NONE;
}

static void profile_mark(struct context *ctx, struct user *u, bool found, const struct job *job)
{
	struct bytes id = row_text(&job->args, "userId");
	struct row   row;

	if (found)
		row_from(&row, ctx->arena, &u->row);
	else
		user_begin(ctx, id, u, &row);
	if (!found)
		row_set(&row, NO_USER, value_bool(true));
	row_set_text(&row, "status", bytes_of(user_status_names[USER_ERASING]));
	row_set_text(&row, "eraseJob", job->id);
	user_put(ctx, u, &row);
}

enum err_code erase_start(struct context *ctx, struct bytes user, struct job_started *out, struct err *err)
{
	struct bytes      hash = event_subject_erased(ctx, user);
	struct revocation tokens = {
	        .kind = REVOKED_USER, .name = user, .reason = BYTES("erased"), .told = true};
	struct job_new q = {.kind = &erase_job, .unique = hash};
	struct revoked revoked;
	struct user    u = {0};
	enum err_code  rc = user_get(ctx, user, &u, err);
	bool           found = rc == ERR_NONE, again = false;
	struct row     args;

	*out = (struct job_started){0};
	if (rc != ERR_NONE && rc != ERR_NOT_FOUND)
		return rc;
	if (found && u.status == USER_ERASING && start_again(ctx, &u, out, &again, err) != ERR_NONE)
		return err->code;
	if (again)
		return ERR_NONE;
	row_init(&args, ctx->arena);
	row_set_text(&args, "userId", user);
	row_set_text(&args, "userHash", hash);
	q.args = row_item(&args);
	if (job_start(ctx, &q, out, err) != ERR_NONE)
		return err->code;
	if (out->existed &&
	    found) /* it began since the user was read; or it ends, and the id is used again */
		return err_set(err, ERR_CONDITION, "the user of this id is being erased; try again");
	if (out->existed)
		return ERR_NONE;
	if (found) /* while PROFILE still says who it is there */
		signout_queue(ctx, &u);
	profile_mark(ctx, &u, found, &out->job);
	return revocation_add(ctx, &tokens, &revoked, err);
}
