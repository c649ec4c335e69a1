/* Reconciliation: see reconcile.h.
 *
 * The cursor: a phase, a provider, how many records of the page are done, and the provider's mark of the page; or, of the second
 * phase, the last user:
 *
 *   pool customers 12 eyJ…
 *   here customers 0 91f0c3a2-…
 */
#include "service/reconcile.h"

#include <inttypes.h>
#include <stdio.h>

#include "service/dead_letter.h"
#include "service/row.h"

#define KEY_MISSING "MISSING"
#define PHASE_POOL  "pool"
#define PHASE_HERE  "here"

struct place {
	bool         here; /* the second phase */
	struct bytes provider;
	uint32_t     done; /* records of the page */
	struct bytes mark; /* of the page, or the last user */
};

/* What a step is given: a page, or who is missing. */
struct fetched {
	struct place         place; /* where that is; an empty provider: all is done */
	struct provider_page page;
	struct sync_record  *asked; /* users here: provider, id and name */
	bool                *missing;
	uint32_t             asked_count;
	bool                 more;
	bool                 last_provider;
};

/* ---- the cursor ---- */

static struct bytes word(struct bytes *rest)
{
	const char  *space = rest->len == 0 ? NULL : memchr(rest->data, ' ', rest->len);
	struct bytes out = {rest->data, space == NULL ? rest->len : (size_t)(space - rest->data)};

	*rest = space == NULL ? (struct bytes){NULL, 0} : (struct bytes){space + 1, rest->len - out.len - 1};
	return out;
}

static struct place place_read(struct bytes cursor)
{
	struct place p = {.here = bytes_is(word(&cursor), PHASE_HERE)};
	uint64_t     done = 0;

	p.provider = word(&cursor);
	bytes_to_u64(word(&cursor), UINT32_MAX, &done);
	p.done = (uint32_t)done;
	p.mark = cursor;
	return p;
}

static struct bytes place_write(struct arena *a, const struct place *p)
{
	return arena_printf(a, "%s %.*s %" PRIu32 " %.*s", p->here ? PHASE_HERE : PHASE_POOL,
	                    BYTES_ARG(p->provider), p->done, BYTES_ARG(p->mark));
}

/* ---- providers ---- */

/* Does the job look at it? One that was started by itself leaves out those that are never reconciled by themselves. */
static bool is_wanted(const struct job *job, const struct provider *p)
{
	struct bytes only = row_text(&job->args, "provider");

	if (only.len > 0)
		return bytes_equal(only, p->name);
	return p->reconcile_s > 0 || item_get(&job->args, BYTES("all")) != NULL;
}

/* The one after that name, or the first; NULL: there is none. */
static const struct provider *provider_after(const struct job *job, const struct providers *all,
                                             struct bytes name)
{
	uint32_t i = 0;

	while (name.len > 0 && all != NULL && i < all->count && !bytes_equal(all->list[i].name, name))
		i++;
	for (i += name.len > 0; all != NULL && i < all->count; i++)
		if (is_wanted(job, &all->list[i]))
			return &all->list[i];
	return NULL;
}

static int64_t period_s(const struct services *s)
{
	struct providers *all = providers_acquire(s);
	int64_t           shortest = 0;

	for (uint32_t i = 0; all != NULL && i < all->count; i++) {
		int64_t each = all->list[i].reconcile_s;

		if (each > 0 && (shortest == 0 || each < shortest))
			shortest = each;
	}
	providers_release(all);
	return shortest;
}

/* ---- fetching, outside of any turn ---- */

/* Users here who came from it, after the last one: few enough to ask for each. The mark of a page is a user: where the table lies
 * between two users may be an address, which no job may hold (job.h, 5). */
static enum err_code users_page(struct context *ctx, const struct provider *p, struct fetched *f,
                                struct err *err)
{
	struct users_search q = {.limit = RECONCILE_ASKED_MAX};
	struct users_page   page = {.more = true};

	if (f->place.mark.len > 0) {
		q.after_pk = user_key(ctx->arena, f->place.mark);
		q.after_sk = BYTES("PROFILE");
	}
	for (int scans = 0; page.more && page.count == 0; scans++) {
		if (scans == RECONCILE_SCANS_MAX)
			return err_set(err, ERR_OVERLOADED, "too many rows without a user among them");
		if (users_find(ctx, &q, &page, err) != ERR_NONE)
			return err->code;
		q.after_pk = page.last_pk;
		q.after_sk = page.last_sk;
	}
	f->more = page.more;
	f->asked = arena_array(ctx->arena, page.count + 1, sizeof(*f->asked));
	f->missing = arena_zalloc(ctx->arena, page.count + 1);
	for (uint32_t i = 0; i < page.count; i++) {
		struct bytes name = row_text(&page.list[i].row, "providerUser");

		f->place.mark = arena_copy(ctx->arena, page.list[i].id);
		if (!bytes_equal(row_text(&page.list[i].row, "provider"), p->name) ||
		    page.list[i].status == USER_DELETED || page.list[i].status == USER_ERASING)
			continue;
		f->asked[f->asked_count++] = (struct sync_record){
		        .provider = arena_copy(ctx->arena, p->name),
		        .id = f->place.mark,
		        .name = arena_copy(ctx->arena, name.len > 0 ? name : page.list[i].id)};
	}
	return ERR_NONE;
}

static enum err_code fetch_here(struct context *ctx, const struct provider_call *c, struct fetched *f,
                                struct err *err)
{
	const struct provider_calls *calls = ctx->services->provider_calls;

	if (users_page(ctx, c->provider, f, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < f->asked_count; i++) {
		struct sync_record ignored;
		enum err_code      rc = calls->get(calls->ctx, c, f->asked[i].name, &ignored, err);

		f->missing[i] = rc == ERR_NOT_FOUND;
		if (rc != ERR_NONE && rc != ERR_NOT_FOUND)
			return rc;
	}
	return ERR_NONE;
}

static enum err_code fetch(struct context *ctx, const struct job *job, void **out, struct err *err)
{
	const struct provider_calls *calls = ctx->services->provider_calls;
	struct fetched              *f = arena_zalloc(ctx->arena, sizeof(*f));
	struct providers            *all = providers_acquire(ctx->services);
	struct provider_call         c = {.trace = row_text(&job->args, "trace"), .arena = ctx->arena};
	enum err_code                rc = ERR_NONE;

	*out = f;
	f->place = place_read(job->cursor);
	c.provider = f->place.provider.len == 0 ? provider_after(job, all, (struct bytes){NULL, 0})
	                                        : provider_named(all, f->place.provider);
	if (c.provider != NULL && calls == NULL)
		rc = err_set(err, ERR_OVERLOADED, "no provider can be called");
	else if (c.provider != NULL && f->place.here)
		rc = fetch_here(ctx, &c, f, err);
	else if (c.provider != NULL)
		rc = calls->list(calls->ctx, &c, f->place.mark, &f->page, err);
	if (rc == ERR_NONE && c.provider != NULL && f->page.next.len > 0 &&
	    bytes_equal(f->page.next, f->place.mark))
		rc = err_set(err, ERR_OVERLOADED, "the provider says that a page comes after itself");
	if (c.provider != NULL && f->place.provider.len == 0)
		f->place.provider = arena_copy(ctx->arena, c.provider->name);
	providers_release(all);
	return rc;
}

/* ---- the first phase ---- */

/* (3) */
static bool concerns_same(const struct sync_record *a, const struct sync_record *b)
{
	return bytes_equal(a->id, b->id) || (a->email.len > 0 && bytes_equal(a->email, b->email));
}

static bool fits(const struct context *ctx, const struct provider_page *page, uint32_t first, uint32_t at)
{
	if (at == first)
		return true;
	if (job_room(ctx) < RECONCILE_ROOM || (!ctx->table->alone && at - first >= RECONCILE_APART_MAX))
		return false;
	for (uint32_t i = first; i < at; i++)
		if (concerns_same(&page->list[i], &page->list[at]))
			return false;
	return true;
}

static enum err_code record_compare(struct context *ctx, struct job *job, const struct sync_record *q,
                                    struct err *err)
{
	struct user          u;
	struct sync_delivery r;
	enum err_code        rc = user_get(ctx, q->id, &u, err);

	if (rc != ERR_NONE && rc != ERR_NOT_FOUND)
		return rc;
	if (rc == ERR_NOT_FOUND)
		job_count(ctx, job, "poolOrphans", 1);
	if (job->dry_run)
		return ERR_NONE;
	rc = sync_deliver(ctx, q, &r, err);
	if (rc != ERR_NONE && rc != ERR_NOT_NOW)
		return rc;
	job_count(ctx, job, sync_outcome_names[rc == ERR_NONE ? r.result.outcome : SYNC_REFUSED], 1);
	return ERR_NONE;
}

static enum err_code step_pool(struct context *ctx, struct job *job, const struct fetched *f, struct err *err)
{
	struct place next = f->place;
	uint32_t     first = next.done, at = first;

	for (; at < f->page.count && fits(ctx, &f->page, first, at); at++)
		if (record_compare(ctx, job, &f->page.list[at], err) != ERR_NONE)
			return err->code;
	job->handled = at > first ? at - first : 1;
	job_count(ctx, job, "poolUsers", at - (first < at ? first : at));
	next.done = at;
	if (at >= f->page.count) { /* the next page, or the next phase */
		job_count(ctx, job, "unreadable", f->page.unreadable);
		next.done = 0;
		next.mark = f->page.next;
		next.here = f->page.next.len == 0;
	}
	job->cursor = place_write(ctx->arena, &next);
	return ERR_NONE;
}

/* ---- the second phase ---- */

static struct bytes missing_key(struct arena *a, struct bytes user, struct bytes provider)
{
	return arena_printf(a, "%.*s#%.*s", BYTES_ARG(user), BYTES_ARG(provider));
}

static void missing_put(struct context *ctx, const struct sync_record *q, bool suspended)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", BYTES(KEY_MISSING));
	row_set_text(&row, "SK", missing_key(ctx->arena, q->id, q->provider));
	row_set_text(&row, "userId", q->id);
	row_set_text(&row, "provider", q->provider);
	row_set_text(&row, "foundAt", user_time(ctx->arena, ctx->now_us));
	row_set(&row, "suspended", value_bool(suspended));
	row_set_i64(&row, "ttl", ctx->now_s + RECONCILE_KEPT_S);
	ctx_put(ctx, TABLE_SYNC, row_item(&row));
}

/* It may have been changed, or erased, since the provider was asked. */
static enum err_code missing_note(struct context *ctx, struct job *job, const struct sync_record *q,
                                  struct err *err)
{
	bool              suspend = item_get(&job->args, BYTES("suspend")) != NULL;
	struct user_patch patch = {.id = q->id, .reason = BYTES("missing at the provider")};
	struct user       u;
	enum err_code     rc = user_take(ctx, q->id, &patch.match, &u, err);

	if (rc == ERR_NOT_FOUND || rc == ERR_NOT_NOW)
		return ERR_NONE;
	if (rc != ERR_NONE)
		return rc;
	job_count(ctx, job, "missing", 1);
	if (job->dry_run)
		return ERR_NONE;
	if (suspend && u.status == USER_ACTIVE) {
		if (user_become(ctx, &patch, USER_SUSPENDED, &u, err) != ERR_NONE)
			return err->code;
		job_count(ctx, job, "suspended", 1);
	}
	missing_put(ctx, q, suspend);
	return ERR_NONE;
}

/* It is there (again). */
static enum err_code missing_clear(struct context *ctx, const struct job *job, const struct sync_record *q,
                                   struct err *err)
{
	struct looked row;

	looked_init(&row, BYTES(KEY_MISSING), missing_key(ctx->arena, q->id, q->provider));
	if (ctx_look_in(ctx, TABLE_SYNC, &row, err) != ERR_NONE)
		return err->code;
	if (row.found && !job->dry_run)
		ctx_delete(ctx, TABLE_SYNC, row_key_two(ctx->arena, row.pk, row.sk));
	return ERR_NONE;
}

static enum err_code step_here(struct context *ctx, struct job *job, const struct fetched *f,
                               struct providers *all, struct err *err)
{
	const struct provider *after = provider_after(job, all, f->place.provider);
	struct place           next = f->place;

	for (uint32_t i = 0; i < f->asked_count; i++)
		if ((f->missing[i] ? missing_note(ctx, job, &f->asked[i], err)
		                   : missing_clear(ctx, job, &f->asked[i], err)) != ERR_NONE)
			return err->code;
	job_count(ctx, job, "users", f->asked_count);
	job->handled = f->asked_count > 0 ? f->asked_count : 1;
	if (!f->more) {
		job->done = after == NULL;
		next = (struct place){.provider = after == NULL ? f->place.provider : after->name};
	}
	job->cursor = place_write(ctx->arena, &next);
	return ERR_NONE;
}

static enum err_code step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	struct fetched   *f = fetched;
	struct providers *all;
	enum err_code     rc;

	if (f->place.provider.len == 0) { /* there is none */
		job->done = true;
		return ERR_NONE;
	}
	all = providers_acquire(ctx->services);
	rc = f->place.here ? step_here(ctx, job, f, all, err) : step_pool(ctx, job, f, err);
	providers_release(all);
	return rc;
}

const struct job_kind reconcile_job = {.name = "reconcile",
                                       .rate = PROVIDER_RATE,
                                       .can_cancel = true,
                                       .period_s = period_s,
                                       .fetch = fetch,
                                       .step = step};

/* ---- starting ---- */

enum err_code reconcile_start(struct context *ctx, const struct reconcile *q, struct job_started *out,
                              struct err *err)
{
	static const char *const terms[] = {"provider", "suspend", NULL};
	struct providers        *all = providers_acquire(ctx->services);
	const struct provider   *p = provider_named(all, q->provider);
	struct job_new           job = {
	                  .kind = &reconcile_job, .dry_run = q->dry_run, .rate = q->rate, .unique = BYTES("PERIODIC")};
	struct row args;
	bool       known = q->provider.len == 0 || p != NULL;

	if (job.rate == 0 && p != NULL)
		job.rate = p->rate;
	providers_release(all);
	if (!known)
		return err_field(err, ERR_NOT_FOUND, "provider",
		                 "provider: the identity file has no pool of this name");
	row_init(&args, ctx->arena);
	row_set(&args, "all", value_bool(true));
	if (q->provider.len > 0)
		row_set_text(&args, "provider", q->provider);
	if (q->suspend)
		row_set(&args, "suspend", value_bool(true));
	if (ctx->trace.len > 0)
		row_set_text(&args, "trace", ctx->trace);
	job.args = row_item(&args);
	if (job_start(ctx, &job, out, err) != ERR_NONE)
		return err->code;
	return job_started_check(out, &job, terms, err);
}

/* ---- who is missing ---- */

enum err_code missing_find(struct context *ctx, struct bytes after, uint32_t limit, struct missing_page *out,
                           struct err *err)
{
	struct expr_key_condition key = row_prefix(BYTES(KEY_MISSING), BYTES(""));
	struct item               start = row_key_two(ctx->arena, BYTES(KEY_MISSING), after);
	struct table_query        q = {
	               .key = &key, .limit = limit, .start = after.len > 0 ? &start : NULL, .consistent = true};
	struct table_query_result r;

	if (ctx_query_in(ctx, TABLE_SYNC, &q, &r, err) != ERR_NONE)
		return err->code;
	*out = (struct missing_page){.list = arena_array(ctx->arena, r.count + 1, sizeof(*out->list)),
	                             .more = r.more,
	                             .last = r.more ? row_text(&r.last_key, "SK") : BYTES("")};
	for (uint32_t i = 0; i < r.count; i++) {
		const struct value *suspended = item_get(&r.items[i], BYTES("suspended"));

		if (row_expired(&r.items[i], "ttl", ctx->now_us))
			continue;
		out->list[out->count++] = (struct missing){
		        .user = row_text(&r.items[i], "userId"),
		        .provider = row_text(&r.items[i], "provider"),
		        .found_at = row_text(&r.items[i], "foundAt"),
		        .suspended = suspended != NULL && suspended->type == VALUE_BOOL && suspended->truth};
	}
	return ERR_NONE;
}

enum err_code missing_erase(struct context *ctx, struct bytes user, struct err *err)
{
	struct expr_key_condition key =
	        row_prefix(BYTES(KEY_MISSING), missing_key(ctx->arena, user, BYTES("")));
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result r;

	if (ctx_query_in(ctx, TABLE_SYNC, &q, &r, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < r.count && changes_room(&ctx->changes) > 0; i++)
		ctx_delete(ctx, TABLE_SYNC,
		           row_key_two(ctx->arena, row_text(&r.items[i], "PK"), row_text(&r.items[i], "SK")));
	return ERR_NONE;
}
