/* Undelivered events: see undelivered.h. */
#include "service/undelivered.h"

#include <inttypes.h>

#include "base/buf.h"
#include "service/row.h"

/* ---- one ---- */

bool undelivered_key_read(struct bytes text, struct undelivered_key *out)
{
	const char *dash = text.len == 0 ? NULL : memchr(text.data, '-', text.len);
	uint64_t    shard, position;

	if (dash == NULL ||
	    !bytes_to_u64((struct bytes){text.data, (size_t)(dash - text.data)}, EVENT_SHARDS_MAX - 1,
	                  &shard) ||
	    !bytes_to_u64((struct bytes){dash + 1, text.len - (size_t)(dash + 1 - text.data)}, INT64_MAX,
	                  &position))
		return false;
	out->shard = (uint32_t)shard;
	out->position = (int64_t)position;
	return true;
}

struct bytes undelivered_key_text(struct arena *a, const struct undelivered *u)
{
	return arena_printf(a, "%u-%" PRIi64, u->shard, u->position);
}

static struct undelivered undelivered_of(const struct target *t, const struct item *row)
{
	const struct value *event = item_get(row, BYTES("event"));

	return (struct undelivered){.target = t->name,
	                            .shard = (uint32_t)row_i64(row, "shard", 0),
	                            .position = row_i64(row, "position", 0),
	                            .event = event != NULL && event->type == VALUE_M ? event->map
	                                                                             : (struct item){0},
	                            .error = row_text(row, "error"),
	                            .status = row_i64(row, "status", 0),
	                            .tries = row_i64(row, "tries", 0),
	                            .since_s = row_i64(row, "since", 0),
	                            .died_s = row_i64(row, "diedAt", 0),
	                            .row = *row};
}

enum err_code undelivered_unknown(struct err *err)
{
	return err_field(err, ERR_NOT_FOUND, "id", "id: there is no such dead letter");
}

static enum err_code letter_look(struct context *ctx, const struct undelivered_key *key, struct target *t,
                                 struct undelivered *out, struct err *err)
{
	struct looked row;

	if (target_get(ctx, key->target, t, err) != ERR_NONE)
		return err->code;
	looked_init(&row, delivery_dead_pk(ctx->arena, t),
	            delivery_dead_sk(ctx->arena, key->shard, key->position));
	if (ctx_look_in(ctx, TABLE_EVENTS, &row, err) != ERR_NONE)
		return err->code;
	if (!row.found)
		return undelivered_unknown(err);
	*out = undelivered_of(t, &row.item);
	return ERR_NONE;
}

enum err_code undelivered_get(struct context *ctx, const struct undelivered_key *key, struct undelivered *out,
                              struct err *err)
{
	struct target t;

	return letter_look(ctx, key, &t, out, err);
}

/* The letter goes; the target counts it no longer. `retries`: so many retry rows more, of which the sender must know. */
static enum err_code letters_taken(struct context *ctx, const struct target *t, int64_t letters,
                                   int64_t retries, struct err *err)
{
	struct row row;

	row_from(&row, ctx->arena, &t->row);
	row_set_i64(&row, "dead", t->dead - letters);
	row_set_i64(&row, "waiting", t->waiting + retries);
	if (retries > 0)
		row_set_i64(&row, "version", t->version + 1);
	ctx_put(ctx, TABLE_EVENTS, row_item(&row));
	return retries > 0 ? targets_changed(ctx, 0, err) : ERR_NONE;
}

static void letter_remove(struct context *ctx, const struct undelivered *u)
{
	ctx_delete(ctx, TABLE_EVENTS,
	           row_key_two(ctx->arena, row_text(&u->row, "PK"), row_text(&u->row, "SK")));
}

enum err_code undelivered_delete(struct context *ctx, const struct undelivered_key *key, struct err *err)
{
	struct undelivered u;
	struct target      t;

	if (letter_look(ctx, key, &t, &u, err) != ERR_NONE)
		return err->code;
	letter_remove(ctx, &u);
	return letters_taken(ctx, &t, 1, 0, err);
}

/* ---- redrive (1) ---- */

static bool is_trimmed(const struct undelivered *u)
{
	return item_get(&u->event, BYTES("trimmed")) != NULL || u->event.count == 0;
}

static void letter_back(struct context *ctx, const struct target *t, const struct undelivered *u)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", delivery_retry_pk(ctx->arena, t));
	row_set_text(&row, "SK", delivery_retry_sk(ctx->arena, u->shard, u->position));
	row_set_i64(&row, "shard", u->shard);
	row_set_i64(&row, "position", u->position);
	row_set_text(&row, "subjectKey", delivery_key(ctx, row_text(&u->event, "subject")));
	row_set_text(&row, "id", row_text(&u->event, "id"));
	row_set_text(&row, "type", row_text(&u->event, "type"));
	row_set_i64(&row, "since", ctx->now_s);
	row_set(&row, "event", (struct value){.type = VALUE_M, .map = u->event});
	row_set_i64(&row, "tries", 0);
	row_set_i64(&row, "nextAt", 0);
	row_set_i64(&row, "failedAt", 0);
	ctx_put(ctx, TABLE_EVENTS, row_item(&row));
	letter_remove(ctx, u);
}

enum err_code undelivered_redrive(struct context *ctx, const struct undelivered_key *key,
                                  struct undelivered *out, struct err *err)
{
	struct target t;

	if (letter_look(ctx, key, &t, out, err) != ERR_NONE)
		return err->code;
	if (is_trimmed(out))
		return err_field(
		        err, ERR_NOT_NOW, "id",
		        "id: the event was trimmed from the log before it could be delivered; there is "
		        "nothing left to send");
	if (t.waiting >= DELIVERY_WAITING_MAX)
		return err_set(err, ERR_LIMIT, "%d events wait for this target already; try again later",
		               DELIVERY_WAITING_MAX);
	letter_back(ctx, &t, out);
	return letters_taken(ctx, &t, 1, 1, err);
}

/* ---- many ---- */

static bool is_sought(struct context *ctx, const struct undelivered_search *q, const struct undelivered *u)
{
	return (q->type.len == 0 || bytes_equal(row_text(&u->event, "type"), q->type)) &&
	       (q->subject_key.len == 0 ||
	        bytes_equal(delivery_key(ctx, row_text(&u->event, "subject")), q->subject_key));
}

static enum err_code letters_query(struct context *ctx, const struct target *t, struct bytes after,
                                   struct table_query_result *r, struct err *err)
{
	struct bytes              pk = delivery_dead_pk(ctx->arena, t);
	struct expr_key_condition key = row_prefix(pk, BYTES(""));
	struct item               start = row_key_two(ctx->arena, pk, after);
	struct table_query        q = {.key = &key,
	                               .limit = UNDELIVERED_EXAMINED_MAX,
	                               .start = after.len > 0 ? &start : NULL,
	                               .consistent = true};

	return ctx_query_in(ctx, TABLE_EVENTS, &q, r, err);
}

/* The page goes on behind this row. */
static void stop_after(struct undelivered_page *out, const struct target *t, struct bytes sk)
{
	out->more = true;
	out->last_target = t->name;
	out->last = sk;
}

/* Those of one target; *examined grows. Once out->more is set, the page is full. */
static enum err_code target_find(struct context *ctx, const struct undelivered_search *q,
                                 const struct target *t, struct undelivered_page *out, struct err *err)
{
	struct table_query_result r;
	struct bytes              after = bytes_equal(t->name, q->after_target) ? q->after : BYTES("");

	if (letters_query(ctx, t, after, &r, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < r.count; i++) {
		struct undelivered u = undelivered_of(t, &r.items[i]);

		if (!is_sought(ctx, q, &u))
			continue;
		if (out->count == q->limit) { /* one more than fits */
			stop_after(out, t, row_text(&out->list[out->count - 1].row, "SK"));
			out->last_target = out->list[out->count - 1].target;
			return ERR_NONE;
		}
		out->list[out->count++] = u;
	}
	if (r.more)
		stop_after(out, t, row_text(&r.last_key, "SK"));
	return ERR_NONE;
}

enum err_code undelivered_find(struct context *ctx, const struct undelivered_search *q,
                               struct undelivered_page *out, struct err *err)
{
	struct targets all;

	*out = (struct undelivered_page){.list = arena_array(ctx->arena, q->limit, sizeof(*out->list))};
	if (targets_all(ctx, &all, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < all.count && !out->more; i++) {
		const struct target *t = &all.list[i];

		if (bytes_compare(t->name, q->after_target) < 0 ||
		    (q->target.len > 0 && !bytes_equal(t->name, q->target)))
			continue;
		if (target_find(ctx, q, t, out, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

/* ---- the job: some letters of one target per step ----
 *
 * It walks over all targets. One that is full, because as many events wait for it as may, is left for later, so that the others do not wait for it.
 * Its cursor is where the walk is, and where it goes on at those: "orders/00#…42|billing/00#…7|mail/". Once the walk is over it is WALK_OVER. */

#define WALK_OVER "~" /* behind every target and every letter */

struct walk {
	struct bytes at;                /* empty: at the start */
	struct bytes full[TARGETS_MAX]; /* the same, for each that was full */
	uint32_t     full_count;
};

static struct bytes part_next(struct bytes *text)
{
	const char  *bar = text->len == 0 ? NULL : memchr(text->data, '|', text->len);
	struct bytes part = {text->data, bar == NULL ? text->len : (size_t)(bar - text->data)};

	*text = bar == NULL ? (struct bytes){NULL, 0} : (struct bytes){bar + 1, text->len - part.len - 1};
	return part;
}

static void walk_read(struct bytes cursor, struct walk *out)
{
	*out = (struct walk){.at = part_next(&cursor)};
	while (cursor.len > 0 && out->full_count < TARGETS_MAX)
		out->full[out->full_count++] = part_next(&cursor);
}

static struct bytes walk_text(struct arena *a, const struct walk *w)
{
	struct buf out;

	buf_init(&out, a);
	buf_add_bytes(&out, w->at);
	for (uint32_t i = 0; i < w->full_count; i++) {
		buf_add_byte(&out, '|');
		buf_add_bytes(&out, w->full[i]);
	}
	return buf_bytes(&out);
}

static struct bytes place_text(struct arena *a, struct bytes target, struct bytes after)
{
	return arena_printf(a, "%.*s/%.*s", BYTES_ARG(target), BYTES_ARG(after));
}

static struct undelivered_search search_of(struct context *ctx, const struct job *job, struct bytes at)
{
	const char               *slash = at.len == 0 ? NULL : memchr(at.data, '/', at.len);
	uint32_t                  room = job_room(ctx) / 3;
	struct undelivered_search q = {.target = row_text(&job->args, "target"),
	                               .type = row_text(&job->args, "type"),
	                               .subject_key = row_text(&job->args, "subjectKey"),
	                               .limit = room < UNDELIVERED_STEP_MAX ? room : UNDELIVERED_STEP_MAX};

	if (slash == NULL)
		return q;
	q.after_target = (struct bytes){at.data, (size_t)(slash - at.data)};
	q.after = (struct bytes){slash + 1, at.len - q.after_target.len - 1};
	return q;
}

/* Letters of the first target on the page; the others wait for the next step. None: the target is full. */
static enum err_code page_back(struct context *ctx, struct job *job, const struct undelivered_page *page,
                               uint32_t *taken, struct err *err)
{
	struct target t;
	int64_t       back = 0;

	*taken = 0;
	if (target_get(ctx, page->list[0].target, &t, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < page->count && bytes_equal(page->list[i].target, t.name); i++) {
		const struct undelivered *u = &page->list[i];

		if (!job->dry_run && !is_trimmed(u) && t.waiting + back >= DELIVERY_WAITING_MAX)
			break;
		++*taken;
		job_count(ctx, job, "letters", 1);
		if (is_trimmed(u)) {
			job_count(ctx, job, "trimmed", 1);
			continue;
		}
		if (job->dry_run)
			continue;
		ctx_found_in(ctx, TABLE_EVENTS, &u->row);
		letter_back(ctx, &t, u);
		back++;
	}
	job_count(ctx, job, "redriven", back);
	return back > 0 ? letters_taken(ctx, &t, back, back, err) : ERR_NONE;
}

/* One step from where a search begins. */
struct stride {
	struct undelivered_search q;
	struct bytes              at;   /* where it ended; WALK_OVER: there are no more letters */
	struct bytes              full; /* the target that is, and nothing was done; empty: none */
};

static enum err_code stride_take(struct context *ctx, struct job *job, struct stride *s, struct err *err)
{
	struct undelivered_page page;
	uint32_t                taken = 0;

	if (undelivered_find(ctx, &s->q, &page, err) != ERR_NONE ||
	    (page.count > 0 && page_back(ctx, job, &page, &taken, err) != ERR_NONE))
		return err->code;
	job->handled = taken > 0 ? taken : 1;
	if (taken == 0 && page.count > 0)
		s->full = page.list[0].target;
	else if (taken < page.count)
		s->at = place_text(ctx->arena, page.list[taken - 1].target,
		                   row_text(&page.list[taken - 1].row, "SK"));
	else
		s->at = page.more ? place_text(ctx->arena, page.last_target, page.last) : BYTES(WALK_OVER);
	return ERR_NONE;
}

static enum err_code too_many_wait(struct err *err)
{
	return err_set(err, ERR_OVERLOADED, "too many events wait for the targets that are left");
}

static enum err_code walk_on(struct context *ctx, struct job *job, struct walk *w, struct err *err)
{
	struct stride s = {.q = search_of(ctx, job, w->at)};

	if (stride_take(ctx, job, &s, err) != ERR_NONE)
		return err->code;
	if (s.full.len == 0) {
		w->at = s.at;
		return ERR_NONE;
	}
	if (w->full_count == TARGETS_MAX)
		return too_many_wait(err);
	w->full[w->full_count++] =
	        place_text(ctx->arena, s.full, bytes_equal(s.full, s.q.after_target) ? s.q.after : BYTES(""));
	w->at = place_text(ctx->arena, s.full, BYTES(WALK_OVER));
	return ERR_NONE;
}

/* The first of them that has room again. */
static enum err_code full_again(struct context *ctx, struct job *job, struct walk *w, struct err *err)
{
	for (uint32_t i = 0; i < w->full_count; i++) {
		struct stride s = {.q = search_of(ctx, job, w->full[i])};

		s.q.target = s.q.after_target;
		if (stride_take(ctx, job, &s, err) != ERR_NONE)
			return err->code;
		if (s.full.len > 0)
			continue;
		w->full[i] = bytes_is(s.at, WALK_OVER) ? w->full[--w->full_count] : s.at;
		return ERR_NONE;
	}
	return too_many_wait(err);
}

static enum err_code step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	struct walk   w;
	enum err_code rc;

	(void)fetched;
	walk_read(job->cursor, &w);
	rc = bytes_is(w.at, WALK_OVER) ? full_again(ctx, job, &w, err) : walk_on(ctx, job, &w, err);
	if (rc != ERR_NONE)
		return rc;
	job->done = bytes_is(w.at, WALK_OVER) && w.full_count == 0;
	job->cursor = walk_text(ctx->arena, &w);
	return ERR_NONE;
}

const struct job_kind undelivered_job = {
        .name = "redrive-events", .rate = UNDELIVERED_RATE, .can_cancel = true, .step = step};

enum err_code undelivered_redrive_all(struct context *ctx, const struct undelivered_all *q,
                                      struct job_started *out, struct err *err)
{
	static const char *const terms[] = {"target", "type", "subjectKey", NULL};
	struct job_new           job = {
	                  .kind = &undelivered_job, .dry_run = q->dry_run, .rate = q->rate, .unique = BYTES("all")};
	struct row args;

	row_init(&args, ctx->arena);
	if (q->target.len > 0)
		row_set_text(&args, "target", q->target);
	if (q->type.len > 0)
		row_set_text(&args, "type", q->type);
	if (q->subject.len > 0)
		row_set_text(&args, "subjectKey", delivery_key(ctx, q->subject));
	job.args = row_item(&args);
	if (job_start(ctx, &job, out, err) != ERR_NONE)
		return err->code;
	return job_started_check(out, &job, terms, err);
}
