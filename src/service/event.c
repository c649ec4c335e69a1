/* Events: rows from what was published. See event.h. */
#include "service/event.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/crypto.h"
#include "base/hash.h"
#include "service/event_log.h"
#include "service/limit.h"
#include "service/row.h"

uint32_t event_shards(const struct services *services)
{
	uint32_t shards = services->events.shards;

	return shards == 0 ? 1 : shards > EVENT_SHARDS_MAX ? EVENT_SHARDS_MAX : shards;
}

/* The last characters of a subject count as much as the others: many are numbers that follow one another. */
uint32_t event_shard(struct bytes subject, uint32_t shards)
{
	return shards == 1 ? 0 : hash_shard(event_subject_hash(subject), shards);
}

/* What was published and has no number yet. */
struct event_pending {
	struct event_pending *next;
	struct services      *services;
	struct bytes          source;
	struct event          event;
	struct bytes          trace;
	uint32_t              shard;
	bool                  outbox; /* it is also a row of the table `outbox` */
};

/* ---- settings ---- */

void event_settings_changed(void *ctx)
{
	struct event_settings *settings = ctx;
	struct event_policy   *now = document_acquire(&settings->policy);

	atomic_store(&settings->on, now == NULL ? 0 : now->on);
	if (now != NULL)
		document_release(&now->base);
}

/* A copy: a call holds no reference that somebody would have to give back. */
const struct event_policy *ctx_event_policy(struct context *ctx)
{
	const struct event_policy *seen;
	struct event_policy       *now, *copy;

	if (ctx->changes.event_policy != NULL)
		return ctx->changes.event_policy;
	copy = arena_alloc(ctx->arena, sizeof(*copy));
	now = document_acquire(&ctx->services->events.policy);
	seen = now == NULL ? &event_policy_usual : now;
	*copy = (struct event_policy){.source = arena_copy(ctx->arena, seen->source),
	                              .on = seen->on,
	                              .personal = seen->personal,
	                              .keep_s = seen->keep_s,
	                              .lag_max_s = seen->lag_max_s,
	                              .near_limit = seen->near_limit,
	                              .outbox = seen->outbox};
	if (now != NULL)
		document_release(&now->base);
	ctx->changes.event_policy = copy;
	return copy;
}

bool ctx_publishes_personal(struct context *ctx, enum event_type type)
{
	return (ctx_event_policy(ctx)->personal & EVENT_BIT(type)) != 0;
}

/* ---- publishing ---- */

/* How many rows one more event takes, so that there is room for all of them when it is committed. */
static uint32_t rows_of(const struct context *ctx, const struct event_pending *e)
{
	const struct changes *c = &ctx->changes;
	uint32_t rows = 3, erased = !ctx->table->alone; /* a look at the number before its erasure */
	bool     subject = false, shard = false;

	for (const struct event_pending *p = c->events; p != NULL; p = p->next) {
		subject = subject || bytes_equal(p->event.subject, e->event.subject);
		shard = shard || p->shard == e->shard;
	}
	return rows - subject - shard + (subject ? 0 : erased) + e->outbox;
}

void ctx_publish(struct context *ctx, const struct event *e)
{
	struct changes       *c = &ctx->changes;
	struct event_pending *p, **last = &c->events;

	if (!ctx_publishes(ctx, e->type))
		return;
	p = arena_alloc(ctx->arena, sizeof(*p));
	*p = (struct event_pending){.services = ctx->services,
	                            .source = ctx_event_policy(ctx)->source,
	                            .event = *e,
	                            .trace = ctx->trace,
	                            .outbox = ctx_event_policy(ctx)->outbox,
	                            .shard = event_shard(e->subject, event_shards(ctx->services))}; /* (3) */
	c->event_rows += rows_of(ctx, p);
	while (*last != NULL)
		last = &(*last)->next;
	*last = p;
}

void ctx_published(struct context *ctx)
{
	const struct event_post    *post = &ctx->services->event_post;
	const struct expiry_post   *expiry = &ctx->services->expiry_post;
	const struct sign_out_post *sign_outs = &ctx->services->sign_out_post;
	const struct push_post     *push = &ctx->services->push_post;
	struct event_numbers       *numbers = ctx->services->event_numbers;

	for (const struct event_pending *p = ctx->changes.told; p != NULL && numbers != NULL; p = p->next)
		metric_spread_add(&numbers->published[p->event.type], 1);
	if (ctx->changes.told != NULL && post->wake != NULL)
		post->wake(post->ctx);
	if (ctx->changes.due_s > 0 && expiry->due != NULL)
		expiry->due(expiry->ctx, ctx->changes.due_s);
	if (ctx->changes.signs_out && sign_outs->wake != NULL)
		sign_outs->wake(sign_outs->ctx);
	if (ctx->changes.push_shards != 0 && push->wake != NULL)
		push->wake(push->ctx, ctx->changes.push_shards);
}

void ctx_published_join(struct context *to, const struct context *from)
{
	struct event_pending *first = from->changes.told, **last = &first;

	while (*last != NULL)
		last = &(*last)->next;
	*last = to->changes.told; /* that list is the longer one, and their order tells nothing */
	to->changes.told = first;
	to->changes.signs_out = to->changes.signs_out || from->changes.signs_out;
}

/* ---- subjects that are erased ---- */

static struct bytes erased_name(const struct services *s, struct arena *a, struct bytes subject)
{
	struct bytes hash = identifier_hash_text(&s->identifiers, a, "erased", subject);

	return arena_printf(a, IDENTIFIER_ERASED "%.*s", BYTES_ARG(hash));
}

struct bytes event_subject_erased(struct context *ctx, struct bytes subject)
{
	return erased_name(ctx->services, ctx->arena, subject);
}

static struct bytes subject_key(struct arena *a, struct bytes subject)
{
	static const char prefix[] = "SUBJECT#";
	char             *text = arena_alloc(a, sizeof(prefix) - 1 + subject.len);

	memcpy(text, prefix, sizeof(prefix) - 1);
	if (subject.len > 0)
		memcpy(text + sizeof(prefix) - 1, subject.data, subject.len);
	return (struct bytes){text, sizeof(prefix) - 1 + subject.len};
}

enum err_code event_number_exists(struct context *ctx, struct bytes subject, bool *out, struct err *err)
{
	struct looked row;

	looked_init(&row, subject_key(ctx->arena, subject), BYTES("SEQ"));
	if (ctx_look_in(ctx, TABLE_EVENTS, &row, err) != ERR_NONE)
		return err->code;
	*out = row.found;
	return ERR_NONE;
}

enum err_code event_number_move(struct context *ctx, struct bytes subject, struct err *err)
{
	struct looked from, to;
	struct row    row;
	int64_t       last, before;

	looked_init(&from, subject_key(ctx->arena, subject), BYTES("SEQ"));
	looked_init(&to, subject_key(ctx->arena, event_subject_erased(ctx, subject)), BYTES("SEQ"));
	if (ctx_look_in(ctx, TABLE_EVENTS, &from, err) != ERR_NONE)
		return err->code;
	if (!from.found)
		return ERR_NONE;
	if (ctx_look_in(ctx, TABLE_EVENTS, &to, err) != ERR_NONE)
		return err->code;
	last = row_i64(&from.item, "seq", 0);
	before = to.found ? row_i64(&to.item, "seq", 0) : 0;
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", to.pk);
	row_set_text(&row, "SK", to.sk);
	row_set_i64(&row, "seq", last > before ? last : before);
	ctx_put(ctx, TABLE_EVENTS, row_item(&row));
	ctx_delete(ctx, TABLE_EVENTS, row_key_two(ctx->arena, from.pk, from.sk));
	return ERR_NONE;
}

/* ---- numbers ---- */

struct numbering {
	struct changes *c;
	struct table   *t;
	struct err     *err;
};

/* A number, by its row. */
struct sequence {
	struct bytes pk, sk, name;
	const struct event_pending
	        *of; /* a subject's: which may have been erased before; NULL: the head of the log */
};

static struct sequence head_of(struct arena *a, const struct event_pending *p)
{
	return (struct sequence){.pk = event_head_key(a, event_shards(p->services), p->shard),
	                         .sk = event_log_key(a, p->shard),
	                         .name = BYTES("position")};
}

static struct sequence subject_of(struct arena *a, const struct event_pending *p)
{
	return (struct sequence){
	        .pk = subject_key(a, p->event.subject), .sk = BYTES("SEQ"), .name = BYTES("seq"), .of = p};
}

/* What the row says; 0: there is none. */
static enum err_code number_read(const struct numbering *n, const struct sequence *q, struct bytes pk,
                                 int64_t *out)
{
	struct looked seen;

	looked_init(&seen, pk, q->sk);
	if (changes_look(n->c, n->t, TABLE_EVENTS, &seen, n->err) != ERR_NONE)
		return n->err->code;
	*out = seen.found && item_get(&seen.item, q->name) != NULL ? row_i64(&seen.item, q->name.data, -1)
	                                                           : 0;
	if (*out < 0)
		return err_set(n->err, ERR_STORAGE,
		               "%.*s, of a row that counts, is not a whole number that can grow",
		               BYTES_ARG(q->name));
	return ERR_NONE;
}

/* Of a subject before it was erased. */
static enum err_code number_erased(const struct numbering *n, const struct sequence *q, int64_t *out)
{
	struct bytes before = erased_name(q->of->services, n->c->arena, q->of->event.subject);

	return number_read(n, q, subject_key(n->c->arena, before), out);
}

static void number_put(const struct numbering *n, const struct sequence *q, int64_t number)
{
	struct table_write *earlier = changes_find(n->c, TABLE_EVENTS, q->pk, q->sk);
	struct member      *m = arena_array(n->c->arena, 3, sizeof(*m));
	struct item         row = {m, 3};

	m[0] = (struct member){BYTES("PK"), value_string(q->pk)};
	m[1] = (struct member){BYTES("SK"), value_string(q->sk)};
	m[2] = (struct member){q->name, value_i64(number)};
	if (earlier == NULL)
		changes_keep(n->c, n->c->tables->names[TABLE_EVENTS], row, NULL);
	else
		*earlier = (struct table_write){.kind = TABLE_PUT,
		                                .table = earlier->table,
		                                .item = row,
		                                .condition = earlier->condition};
}

/* One more than the row says, or than that of the subject before it was erased. If an earlier event of this commit changed it, that counts. */
static enum err_code number_next(const struct numbering *n, const struct sequence *q, int64_t *out)
{
	const struct table_write *earlier = changes_find(n->c, TABLE_EVENTS, q->pk, q->sk);

	if (earlier != NULL)
		*out = row_i64(&earlier->item, q->name.data, 0);
	else if (number_read(n, q, q->pk, out) != ERR_NONE ||
	         (*out == 0 && q->of != NULL && number_erased(n, q, out) != ERR_NONE))
		return n->err->code;
	number_put(n, q, ++*out);
	return ERR_NONE;
}

/* ---- the event ---- */

static struct bytes id_make(struct changes *c)
{
	uint8_t bits[EVENT_ID_CHARS / 2];
	char   *text = arena_alloc(c->arena, EVENT_ID_CHARS);

	c->random(bits, sizeof(bits));
	hex_write((struct bytes){(const char *)bits, sizeof(bits)}, text);
	return (struct bytes){text, EVENT_ID_CHARS};
}

static void digits_write(char *to, int count, int64_t number)
{
	memset(to, '0', (size_t)count);
	for (int i = count - 1; i >= 0 && number > 0; i--, number /= 10)
		to[i] = (char)('0' + number % 10);
}

struct bytes event_seconds_text(struct arena *a, int64_t time_s)
{
	char *text = arena_alloc(a, LIMIT_TIME_TEXT);

	limit_time_format(time_s * 1000000, text);
	return (struct bytes){text, LIMIT_TIME_TEXT};
}

static struct bytes time_text(struct arena *a, int64_t now_us)
{
	char *text = arena_alloc(a, EVENT_TIME_CHARS);

	limit_time_format(now_us, text); /* …:40Z */
	text[LIMIT_TIME_TEXT - 1] = '.';
	digits_write(text + LIMIT_TIME_TEXT, 6, now_us % 1000000);
	text[EVENT_TIME_CHARS - 1] = 'Z';
	return (struct bytes){text, EVENT_TIME_CHARS};
}

struct bytes event_position_text(struct arena *a, int64_t position)
{
	char *text = arena_alloc(a, EVENT_POSITION_DIGITS);

	digits_write(text, EVENT_POSITION_DIGITS, position);
	return (struct bytes){text, EVENT_POSITION_DIGITS};
}

struct bytes event_head_key(struct arena *a, uint32_t shards, uint32_t shard)
{
	return shards == 1 ? BYTES("HEAD") : arena_printf(a, "HEAD#%u", shard);
}

/* The partition of a shard of the log. */
struct bytes event_log_key(struct arena *a, uint32_t shard)
{
	return shard == 0 ? BYTES("LOG#0") : arena_printf(a, "LOG#%u", shard);
}

static const struct bytes names[EVENT_TYPE_COUNT] = {
#define X(id, type) [id] = BYTES_INIT(type),
        EVENT_TYPES(X)
#undef X
};

/* Where it is in the log, and among its subject's. */
struct numbers {
	struct bytes log;
	int64_t      position, seq;
};

enum { EVENT_ATTRIBUTES = 10 };

/* In the order of their names, as an item is: this is done with every event, and sorting costs more. What the rest of the row says
 * already is left to whoever shows it (event_write_json). */
static struct item event_row(const struct numbering *n, const struct event_pending *p,
                             const struct numbers *at)
{
	struct arena  *a = n->c->arena;
	struct member *first = arena_array(a, EVENT_ATTRIBUTES, sizeof(*first)), *m = first;

	*m++ = (struct member){BYTES("PK"), value_string(at->log)};
	*m++ = (struct member){BYTES("SK"), value_string(event_position_text(a, at->position))};
	if (p->trace.len > 0)
		*m++ = (struct member){BYTES("correlationid"), value_string(p->trace)};
	if (p->event.data.count > 0)
		*m++ = (struct member){BYTES("data"), {.type = VALUE_M, .map = p->event.data}};
	*m++ = (struct member){BYTES("id"), value_string(id_make(n->c))};
	*m++ = (struct member){BYTES("seq"), value_i64(at->seq)};
	*m++ = (struct member){BYTES("source"), value_string(p->source)};
	*m++ = (struct member){BYTES("subject"), value_string(p->event.subject)};
	*m++ = (struct member){BYTES("time"), value_string(time_text(a, n->t->now_us))};
	*m++ = (struct member){BYTES("type"), value_string(names[p->event.type])};
	return (struct item){first, (uint32_t)(m - first)};
}

/* ---- the outbox: a contract that pollers have already. They delete what they have passed on ---- */

static void outbox_add(const struct numbering *n, const struct item *event)
{
	struct arena      *a = n->c->arena;
	struct json_writer w;
	struct buf         payload;
	struct row         row;

	buf_init(&payload, a);
	json_writer_init(&w, &payload);
	event_write_json(&w, event);
	row_init(&row, a);
	row_set_text(&row, "PK", arena_printf(a, "OUTBOX#%" PRIi64, n->t->now_us / 1000));
	row_set_text(&row, "SK", row_text(event, "id"));
	row_set_text(&row, "eventType", row_text(event, "type"));
	row_set_text(&row, "payload", buf_bytes(&payload));
	row_set_text(&row, "createdAt", row_text(event, "time"));
	row_set_text(&row, "subject", row_text(event, "subject")); /* for erase.h */
	changes_keep(n->c, n->c->tables->names[TABLE_OUTBOX], row_item(&row), NULL);
}

/* Its own rows, once it has its numbers. */
static void event_rows_add(const struct numbering *n, const struct event_pending *p, const struct numbers *at)
{
	struct item row = event_row(n, p, at);

	changes_keep(n->c, n->c->tables->names[TABLE_EVENTS], row, NULL);
	if (p->outbox)
		outbox_add(n, &row);
}

/* ---- where numbers are read, and written with the rest ---- */

static enum err_code event_add(const struct numbering *n, const struct event_pending *p)
{
	struct sequence head = head_of(n->c->arena, p), subject = subject_of(n->c->arena, p);
	struct numbers  at = {.log = head.sk};

	if (number_next(n, &head, &at.position) != ERR_NONE || number_next(n, &subject, &at.seq) != ERR_NONE)
		return n->err->code;
	event_rows_add(n, p, &at);
	return ERR_NONE;
}

static enum err_code events_number(const struct numbering *n)
{
	for (const struct event_pending *p = n->c->events; p != NULL; p = p->next)
		if (event_add(n, p) != ERR_NONE)
			return n->err->code;
	return ERR_NONE;
}

/* ---- where the table counts ---- */

/* Two numbers of each event: the head's, and its subject's. */
enum { COUNTS_EACH = 2 };

struct counting {
	struct table_numbering      base;
	struct changes             *c;
	struct table               *t;
	const struct event_pending *first;
	uint32_t                    others; /* changes that are not of events */
};

static void count_of(struct changes *c, const struct sequence *q, struct table_count *out)
{
	*out = (struct table_count){.table = c->tables->names[TABLE_EVENTS],
	                            .key = row_key_two(c->arena, q->pk, q->sk),
	                            .name = q->name};
}

/* The subject may have had no number before this commit: then it goes on from what it was before its erasure, if it was erased. */
static enum err_code number_goes_on(const struct numbering *n, const struct event_pending *p, int64_t *seq)
{
	struct sequence           q = subject_of(n->c->arena, p);
	const struct table_write *earlier = changes_find(n->c, TABLE_EVENTS, q.pk, q.sk);
	int64_t                   before = 0;

	if (earlier != NULL)
		before = row_i64(&earlier->item, q.name.data, 0);
	else if (*seq == 1 && number_erased(n, &q, &before) != ERR_NONE)
		return n->err->code;
	if (before == 0)
		return ERR_NONE;
	*seq = before + 1;
	number_put(n, &q, *seq);
	return ERR_NONE;
}

/* See struct table_numbering. It may be called again, after a table was made. */
static enum err_code events_counted(struct table_numbering *base, struct table_transact_write *out,
                                    struct err *err)
{
	struct counting          *k = (struct counting *)base;
	const struct numbering    n = {k->c, k->t, err};
	const struct table_count *q = base->counts;

	k->c->count = k->others;
	for (const struct event_pending *p = k->first; p != NULL; p = p->next, q += COUNTS_EACH) {
		struct numbers at = {.log = event_log_key(k->c->arena, p->shard),
		                     .position = q[0].number,
		                     .seq = q[1].number};

		if (at.seq <= base->count && number_goes_on(&n, p, &at.seq) != ERR_NONE)
			return err->code;
		event_rows_add(&n, p, &at);
	}
	out->writes = k->c->list;
	out->count = k->c->count;
	return changes_check(k->c, err);
}

static void events_count(struct changes *c, struct table *t)
{
	struct counting    *k = arena_alloc(c->arena, sizeof(*k));
	struct table_count *q;
	uint32_t            count = 0;

	for (const struct event_pending *p = c->events; p != NULL; p = p->next)
		count += COUNTS_EACH;
	q = arena_array(c->arena, count, sizeof(*q));
	*k = (struct counting){.base = {.counts = q, .count = count, .numbered = events_counted},
	                       .c = c,
	                       .t = t,
	                       .first = c->events,
	                       .others = c->count};
	for (const struct event_pending *p = c->events; p != NULL; p = p->next, q += COUNTS_EACH) {
		struct sequence head = head_of(c->arena, p), subject = subject_of(c->arena, p);

		count_of(c, &head, &q[0]);
		count_of(c, &subject, &q[1]);
	}
	c->numbering = &k->base;
}

/* ---- both ---- */

enum err_code events_add(struct changes *c, struct table *t, struct err *err)
{
	const struct numbering n = {c, t, err};

	if (t->backend->counts)
		events_count(c, t);
	else if (events_number(&n) != ERR_NONE)
		return err->code;
	c->told = c->events;
	c->events = NULL;
	c->event_rows = 0;
	return ERR_NONE;
}
