/* Reconciliation: see reconcile.h.
 *
 * The cursor: a phase, a provider, numbers of the place, and the provider's mark of the page; or, of the second phase, the last user;
 * or, of the third, the last key of missing.h:
 *
 *   pool customers 12,180,0,0,3,91fe… eyJ…
 *   here customers 0,8000,40,1 91f0c3a2-…
 *
 * The numbers: records of the page that are done, users that the provider listed, active users here, those of them who are missing,
 * pages, and a hash of an earlier page's mark.
 */
#include "service/reconcile.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "service/dead_letter.h"
#include "service/erased.h"
#include "service/row.h"

enum phase { PHASE_POOL, PHASE_HERE, PHASE_SUSPEND };

static const char *const phase_names[] = {"pool", "here", "suspend", NULL};

struct place {
	enum phase   phase;
	struct bytes provider;
	uint64_t     done;                   /* records of the page */
	uint64_t     listed, users, missing; /* of this provider: (4) */
	uint64_t     pages, seen;            /* (6) */
	struct bytes mark;                   /* of the page, or the last user */
};

/* What a step is given: a page, or who is missing. */
struct fetched {
	struct place         place; /* where that is; an empty provider: all is done */
	struct provider_page page;
	struct sync_record
	        *asked; /* users here: as the provider knows them; who is missing: provider, id and name */
	bool    *missing, *active;
	uint32_t asked_count;
	bool     more;
	bool     first; /* step of its phase */
};

/* ---- the cursor ---- */

static struct bytes word(struct bytes *rest, char end)
{
	const char  *at = rest->len == 0 ? NULL : memchr(rest->data, end, rest->len);
	struct bytes out = {rest->data, at == NULL ? rest->len : (size_t)(at - rest->data)};

	*rest = at == NULL ? (struct bytes){NULL, 0} : (struct bytes){at + 1, rest->len - out.len - 1};
	return out;
}

static uint64_t number(struct bytes *rest)
{
	uint64_t out = 0;

	bytes_to_u64(word(rest, ','), UINT64_MAX, &out);
	return out;
}

/* One of an older program has one number. */
static struct place place_read(struct bytes cursor)
{
	struct place p = {.phase = PHASE_POOL};
	struct bytes phase = word(&cursor, ' '), numbers;

	for (int i = 0; phase_names[i] != NULL; i++)
		if (bytes_is(phase, phase_names[i]))
			p.phase = (enum phase)i;
	p.provider = word(&cursor, ' ');
	numbers = word(&cursor, ' ');
	p.done = number(&numbers);
	p.listed = number(&numbers);
	p.users = number(&numbers);
	p.missing = number(&numbers);
	p.pages = number(&numbers);
	p.seen = number(&numbers);
	p.mark = cursor;
	return p;
}

static struct bytes place_write(struct arena *a, const struct place *p)
{
	return arena_printf(
	        a, "%s %.*s %" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 " %.*s",
	        phase_names[p->phase], BYTES_ARG(p->provider), p->done, p->listed, p->users, p->missing,
	        p->pages, p->seen, BYTES_ARG(p->mark));
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

static struct sync_record asked_of(struct context *ctx, const struct user *u)
{
	struct bytes name = row_text(&u->row, "providerUser");

	return (struct sync_record){.provider = arena_copy(ctx->arena, row_text(&u->row, "provider")),
	                            .id = arena_copy(ctx->arena, u->id),
	                            .name = arena_copy(ctx->arena, name.len > 0 ? name : u->id)};
}

static uint64_t mark_hash(struct bytes mark)
{
	return hash_fnv(HASH_FNV, mark);
}

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
	f->active = arena_zalloc(ctx->arena, page.count + 1);
	for (uint32_t i = 0; i < page.count; i++) {
		f->place.mark = arena_copy(ctx->arena, page.list[i].id);
		if (!bytes_equal(row_text(&page.list[i].row, "provider"), p->name) ||
		    page.list[i].status == USER_DELETED || page.list[i].status == USER_ERASING)
			continue;
		f->active[f->asked_count] = page.list[i].status == USER_ACTIVE;
		f->asked[f->asked_count++] = asked_of(ctx, &page.list[i]);
	}
	return ERR_NONE;
}

/* Those whom this job found missing, to be asked for once more. */
static enum err_code missing_page(struct context *ctx, const struct job *job, struct fetched *f,
                                  struct err *err)
{
	struct missing_page page;

	f->first = f->place.mark.len == 0;
	if (missing_find(ctx, f->place.mark, RECONCILE_LISTED_MAX, &page, err) != ERR_NONE)
		return err->code;
	f->more = page.more;
	f->place.mark = page.last;
	f->asked = arena_array(ctx->arena, RECONCILE_ASKED_MAX, sizeof(*f->asked));
	f->missing = arena_zalloc(ctx->arena, RECONCILE_ASKED_MAX);
	for (uint32_t i = 0; i < page.count; i++) {
		const struct missing *m = &page.list[i];
		struct user           u;

		if (m->suspended || !bytes_equal(m->job, job->id) ||
		    !bytes_equal(m->provider, f->place.provider) ||
		    user_get(ctx, m->user, &u, err) != ERR_NONE)
			continue;
		f->asked[f->asked_count++] = asked_of(ctx, &u);
		if (f->asked_count == RECONCILE_ASKED_MAX && (page.more || i + 1 < page.count)) {
			f->more = true;
			f->place.mark = missing_key(ctx->arena, m->user, m->provider);
			break;
		}
	}
	return ERR_NONE;
}

/* One whose name there is another user's now is missing, too. */
static enum err_code fetch_users(struct context *ctx, const struct provider_call *c, struct fetched *f,
                                 struct err *err)
{
	const struct provider_calls *calls = ctx->services->provider_calls;

	for (uint32_t i = 0; i < f->asked_count; i++) {
		struct sync_record found;
		enum err_code      rc = calls->get(calls->ctx, c, f->asked[i].name, &found, err);

		if (rc != ERR_NONE && rc != ERR_NOT_FOUND)
			return rc;
		f->missing[i] = rc == ERR_NOT_FOUND || !bytes_equal(found.id, f->asked[i].id);
		if (!f->missing[i])
			f->asked[i] = found;
	}
	return ERR_NONE;
}

/* (6) Each mark is compared with one that came before it; of a circle of any length that is found in time. */
static enum err_code fetch_page(struct context *ctx, const struct provider_call *c, struct fetched *f,
                                struct err *err)
{
	const struct provider_calls *calls = ctx->services->provider_calls;

	if (calls->list(calls->ctx, c, f->place.mark, &f->page, err) != ERR_NONE)
		return err->code;
	if (f->page.next.len > 0 && bytes_equal(f->page.next, f->place.mark))
		return err_set(err, ERR_OVERLOADED, "the provider says that a page comes after itself");
	if (f->page.next.len > 0 && f->place.pages > 0 && mark_hash(f->page.next) == f->place.seen)
		return err_set(err, ERR_NOT_NOW, "the provider's pages lead back to an earlier one");
	return ERR_NONE;
}

static enum err_code fetch_phase(struct context *ctx, const struct job *job, const struct provider_call *c,
                                 struct fetched *f, struct err *err)
{
	if (f->place.phase == PHASE_POOL)
		return fetch_page(ctx, c, f, err);
	if ((f->place.phase == PHASE_HERE ? users_page(ctx, c->provider, f, err)
	                                  : missing_page(ctx, job, f, err)) != ERR_NONE)
		return err->code;
	return fetch_users(ctx, c, f, err);
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
	else if (c.provider != NULL)
		rc = fetch_phase(ctx, job, &c, f, err);
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

/* (1) of an erased user: its tombstone stays for as long as the provider has it. */
static enum err_code record_refused(struct context *ctx, struct job *job, struct bytes id, struct err *err)
{
	struct erasure e;

	if (erased_keep(ctx, id, &e, err) != ERR_NONE)
		return err->code;
	job_count(ctx, job, e.found ? "erased" : sync_outcome_names[SYNC_REFUSED], 1);
	return ERR_NONE;
}

static enum err_code record_deliver(struct context *ctx, struct job *job, const struct sync_record *q,
                                    struct err *err)
{
	struct sync_delivery r;
	enum err_code        rc = sync_deliver(ctx, q, &r, err);

	if (rc == ERR_NOT_NOW)
		return record_refused(ctx, job, q->id, err);
	if (rc == ERR_NONE)
		job_count(ctx, job, sync_outcome_names[r.result.outcome], 1);
	return rc;
}

static enum err_code record_compare(struct context *ctx, struct job *job, const struct sync_record *q,
                                    struct err *err)
{
	struct user   u;
	enum err_code rc = user_get(ctx, q->id, &u, err);

	if (rc != ERR_NONE && rc != ERR_NOT_FOUND)
		return rc;
	if (rc == ERR_NOT_FOUND)
		job_count(ctx, job, "poolOrphans", 1);
	return job->dry_run ? ERR_NONE : record_deliver(ctx, job, q, err);
}

static enum err_code step_pool(struct context *ctx, struct job *job, const struct fetched *f, struct err *err)
{
	struct place next = f->place;
	uint32_t     first = (uint32_t)next.done, at = first;

	for (; at < f->page.count && fits(ctx, &f->page, first, at); at++)
		if (record_compare(ctx, job, &f->page.list[at], err) != ERR_NONE)
			return err->code;
	job->handled = at > first ? at - first : 1;
	job_count(ctx, job, "poolUsers", at - (first < at ? first : at));
	next.done = at;
	if (at >= f->page.count) { /* the next page, or the next phase */
		job_count(ctx, job, "unreadable", f->page.unreadable);
		next.done = 0;
		next.listed += f->page.count + f->page.unreadable;
		next.mark = f->page.next;
		next.phase = f->page.next.len == 0 ? PHASE_HERE : PHASE_POOL;
		next.pages++;
		if ((next.pages & (next.pages - 1)) == 0)
			next.seen = mark_hash(f->page.next);
	}
	job->cursor = place_write(ctx->arena, &next);
	return ERR_NONE;
}

/* ---- the second phase ---- */

/* It may have been changed, or erased, since the provider was asked. */
static enum err_code missing_note(struct context *ctx, struct job *job, const struct sync_record *q,
                                  struct place *next, struct err *err)
{
	struct missing m = {.user = q->id, .provider = q->provider, .job = job->id};
	struct user    u;
	enum err_code  rc = user_take(ctx, q->id, &(struct user_match){0}, &u, err);

	if (rc == ERR_NOT_FOUND || rc == ERR_NOT_NOW)
		return ERR_NONE;
	if (rc != ERR_NONE)
		return rc;
	job_count(ctx, job, "missing", 1);
	next->missing += u.status == USER_ACTIVE;
	m.suspended = bytes_is(u.suspended_by, USER_BY_MISSING);
	if (!job->dry_run)
		missing_put(ctx, &m);
	return ERR_NONE;
}

/* (5) It is there (again). */
static enum err_code missing_clear(struct context *ctx, struct job *job, const struct sync_record *q,
                                   struct err *err)
{
	struct missing m = {.user = q->id, .provider = q->provider};
	bool           found;

	if (missing_get(ctx, &m, &found, err) != ERR_NONE)
		return err->code;
	if (!found || job->dry_run)
		return ERR_NONE;
	missing_delete(ctx, q->id, q->provider);
	return m.suspended ? record_deliver(ctx, job, q, err) : ERR_NONE;
}

static bool suspends(const struct job *job)
{
	return item_get(&job->args, BYTES("suspend")) != NULL;
}

/* The next provider, or the end. */
static struct place place_after(struct job *job, const struct providers *all, const struct place *p)
{
	const struct provider *after = provider_after(job, all, p->provider);

	job->done = after == NULL;
	return (struct place){.provider = after == NULL ? p->provider : after->name};
}

static enum err_code step_here(struct context *ctx, struct job *job, const struct fetched *f,
                               struct providers *all, struct err *err)
{
	struct place next = f->place;

	for (uint32_t i = 0; i < f->asked_count; i++) {
		next.users += f->active[i];
		if ((f->missing[i] ? missing_note(ctx, job, &f->asked[i], &next, err)
		                   : missing_clear(ctx, job, &f->asked[i], err)) != ERR_NONE)
			return err->code;
	}
	job_count(ctx, job, "users", f->asked_count);
	job->handled = f->asked_count > 0 ? f->asked_count : 1;
	if (!f->more && suspends(job)) {
		next.phase = PHASE_SUSPEND;
		next.mark = (struct bytes){NULL, 0};
	} else if (!f->more) {
		next = place_after(job, all, &next);
	}
	job->cursor = place_write(ctx->arena, &next);
	return ERR_NONE;
}

/* ---- the third phase ---- */

/* (4) */
static enum err_code brake(const struct job *job, const struct place *p, struct err *err)
{
	int64_t percent = row_i64(&job->args, "percent", RECONCILE_PERCENT);
	bool    few = p->missing == 0 || (p->missing <= RECONCILE_FEW && p->listed > 0);

	if (few || p->missing * 100 <= (uint64_t)percent * p->users)
		return ERR_NONE;
	return err_set(err, ERR_NOT_NOW,
	               "%" PRIu64 " of %" PRIu64
	               " active users are missing at the provider %.*s, which is more "
	               "than %" PRIi64 " percent: nobody was suspended; if they have really left, start it "
	               "again with a greater missingPercentMax",
	               p->missing, p->users, BYTES_ARG(p->provider), percent);
}

/* It may have been changed since it was found missing. */
static enum err_code missing_suspend(struct context *ctx, struct job *job, const struct sync_record *q,
                                     struct err *err)
{
	struct user_patch patch = {
	        .id = q->id, .by = BYTES(USER_BY_MISSING), .reason = BYTES("missing at the provider")};
	struct missing m = {.user = q->id, .provider = q->provider, .job = job->id, .suspended = true};
	struct user    u;
	enum err_code  rc = user_take(ctx, q->id, &patch.match, &u, err);

	if (rc == ERR_NOT_FOUND || rc == ERR_NOT_NOW || (rc == ERR_NONE && u.status != USER_ACTIVE))
		return ERR_NONE;
	if (rc != ERR_NONE || user_become(ctx, &patch, USER_SUSPENDED, &u, err) != ERR_NONE)
		return err->code;
	missing_put(ctx, &m);
	job_count(ctx, job, "suspended", 1);
	return ERR_NONE;
}

static enum err_code step_suspend(struct context *ctx, struct job *job, const struct fetched *f,
                                  struct providers *all, struct err *err)
{
	struct place next = f->place;

	if (f->first && brake(job, &f->place, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < f->asked_count; i++)
		if ((f->missing[i] ? missing_suspend(ctx, job, &f->asked[i], err)
		                   : missing_clear(ctx, job, &f->asked[i], err)) != ERR_NONE)
			return err->code;
	job->handled = f->asked_count > 0 ? f->asked_count : 1;
	if (!f->more)
		next = place_after(job, all, &next);
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
	switch (f->place.phase) {
	case PHASE_HERE:
		rc = step_here(ctx, job, f, all, err);
		break;
	case PHASE_SUSPEND:
		rc = step_suspend(ctx, job, f, all, err);
		break;
	default:
		rc = step_pool(ctx, job, f, err);
		break;
	}
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
	static const char *const terms[] = {"provider", "suspend", "percent", NULL};
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
	if (q->suspend && q->percent > 0 && q->percent != RECONCILE_PERCENT)
		row_set_i64(&args, "percent", q->percent);
	if (ctx->trace.len > 0)
		row_set_text(&args, "trace", ctx->trace);
	job.args = row_item(&args);
	if (job_start(ctx, &job, out, err) != ERR_NONE)
		return err->code;
	return job_started_check(out, &job, terms, err);
}
