/* Events: rows from what was published. See event.h. */
#include "service/event.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/crypto.h"
#include "service/limit.h"
#include "service/row.h"

static const char *const type_names[EVENT_TYPE_COUNT] = {
#define X(id, type) [id] = type,
        EVENT_TYPES(X)
#undef X
};

_Static_assert(EVENT_TYPE_COUNT <= 64, "event_settings.on has a bit for each type");

const char *event_type_name(enum event_type type)
{
	return type_names[type];
}

enum event_type event_type_named(struct bytes name)
{
	unsigned i = 0;

	while (i < EVENT_TYPE_COUNT && !bytes_is(name, type_names[i]))
		i++;
	return (enum event_type)i;
}

uint32_t event_shards(const struct services *services)
{
	uint32_t shards = services->events.shards;

	return shards == 0 ? 1 : shards > EVENT_SHARDS_MAX ? EVENT_SHARDS_MAX : shards;
}

/* What was published and has no number yet. */
struct event_pending {
	struct event_pending        *next;
	const struct event_settings *settings;
	struct event                 event;
	struct bytes                 trace;
	struct bytes                 erased; /* what the subject was called if it was erased before */
	uint32_t                     shard;
};

/* ---- publishing ---- */

/* Spread evenly, and the same for ever: FNV-1a. (3) */
static uint32_t shard_of(const struct event_settings *settings, struct bytes subject)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < subject.len; i++)
		hash = (hash ^ (uint8_t)subject.data[i]) * UINT64_C(0x100000001b3);
	return settings->shards > 1 ? (uint32_t)((hash >> 32) % settings->shards) : 0;
}

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
	return rows - subject - shard + (subject ? 0 : erased);
}

void ctx_publish(struct context *ctx, const struct event *e)
{
	const struct event_settings *settings = &ctx->services->events;
	struct changes              *c = &ctx->changes;
	struct event_pending        *p, **last = &c->events;

	if ((settings->on >> e->type & 1) == 0)
		return;
	p = arena_alloc(ctx->arena, sizeof(*p));
	*p = (struct event_pending){.settings = settings,
	                            .event = *e,
	                            .trace = ctx->trace,
	                            .erased = event_subject_erased(ctx, e->subject),
	                            .shard = shard_of(settings, e->subject)};
	c->event_rows += rows_of(ctx, p);
	while (*last != NULL)
		last = &(*last)->next;
	*last = p;
}

void ctx_published(const struct context *ctx)
{
	const struct event_post *post = &ctx->services->event_post;

	if (ctx->changes.published && post->wake != NULL)
		post->wake(post->ctx);
}

/* ---- subjects that are erased ---- */

struct bytes event_subject_erased(struct context *ctx, struct bytes subject)
{
	struct bytes hash = identifier_hash_text(&ctx->services->identifiers, ctx->arena, "erased", subject);

	return arena_printf(ctx->arena, "erased:%.*s", BYTES_ARG(hash));
}

static struct bytes subject_key(struct arena *a, struct bytes subject)
{
	return arena_printf(a, "SUBJECT#%.*s", BYTES_ARG(subject));
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

/* A number, by its row; `before`: what its partition was called, if it is not there. */
struct sequence {
	struct bytes pk, sk, before;
	const char  *name;
};

/* What the row says, or the one before it; 0: there is neither. */
static enum err_code number_last(const struct numbering *n, const struct sequence *q, int64_t *out)
{
	struct looked seen;

	looked_init(&seen, q->pk, q->sk);
	if (changes_look(n->c, n->t, TABLE_EVENTS, &seen, n->err) != ERR_NONE)
		return n->err->code;
	if (!seen.found && q->before.len > 0) {
		looked_init(&seen, q->before, q->sk);
		if (changes_look(n->c, n->t, TABLE_EVENTS, &seen, n->err) != ERR_NONE)
			return n->err->code;
	}
	*out = seen.found ? row_i64(&seen.item, q->name, 0) : 0;
	return ERR_NONE;
}

/* One more than the row says. If an earlier event of this commit changed it, that counts. */
static enum err_code number_next(const struct numbering *n, const struct sequence *q, int64_t *out)
{
	const struct table_write *earlier = changes_find(n->c, TABLE_EVENTS, q->pk, q->sk);
	struct row                row;

	if (earlier != NULL)
		*out = row_i64(&earlier->item, q->name, 0);
	else if (number_last(n, q, out) != ERR_NONE)
		return n->err->code;
	++*out;
	row_init(&row, n->c->arena);
	row_set_text(&row, "PK", q->pk);
	row_set_text(&row, "SK", q->sk);
	row_set_i64(&row, q->name, *out);
	changes_keep(n->c, n->c->tables->names[TABLE_EVENTS], row_item(&row), NULL);
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

static struct bytes time_text(struct arena *a, int64_t now_us)
{
	char seconds[LIMIT_TIME_TEXT];

	limit_time_format(now_us, seconds); /* …:40Z */
	return arena_printf(a, "%.*s.%06dZ", LIMIT_TIME_TEXT - 1, seconds, (int)(now_us % 1000000));
}

static struct item event_row(const struct numbering *n, const struct event_pending *p, struct bytes log,
                             int64_t position, int64_t seq)
{
	const char   *type = type_names[p->event.type];
	struct arena *a = n->c->arena;
	struct row    row;

	row_init(&row, a);
	row_set_text(&row, "PK", log);
	row_set_text(&row, "SK", arena_printf(a, "%0*" PRIi64, EVENT_POSITION_DIGITS, position));
	row_set_i64(&row, "position", position);
	row_set_i64(&row, "seq", seq);
	row_set_text(&row, "specversion", BYTES("1.0"));
	row_set_text(&row, "id", id_make(n->c));
	row_set_text(&row, "type", bytes_of(type));
	row_set_text(&row, "source", p->settings->source);
	row_set_text(&row, "time", time_text(a, n->t->now_us));
	row_set_text(&row, "subject", p->event.subject);
	row_set_text(&row, "dataschema", arena_printf(a, "urn:gatehouse:event:%s:1", type));
	if (p->trace.len > 0)
		row_set_text(&row, "correlationid", p->trace);
	if (p->event.data.count > 0) {
		row_set_text(&row, "datacontenttype", BYTES("application/json"));
		row_set(&row, "data", (struct value){.type = VALUE_M, .map = p->event.data});
	}
	return row_item(&row);
}

static enum err_code event_add(const struct numbering *n, const struct event_pending *p)
{
	struct arena   *a = n->c->arena;
	struct bytes    log = arena_printf(a, "LOG#%u", p->shard);
	struct sequence head = {.pk = BYTES("HEAD"), .sk = log, .name = "position"};
	struct sequence subject = {.pk = subject_key(a, p->event.subject),
	                           .sk = BYTES("SEQ"),
	                           .before = subject_key(a, p->erased),
	                           .name = "seq"};
	int64_t         position, seq;

	if (number_next(n, &head, &position) != ERR_NONE || number_next(n, &subject, &seq) != ERR_NONE)
		return n->err->code;
	changes_keep(n->c, n->c->tables->names[TABLE_EVENTS], event_row(n, p, log, position, seq), NULL);
	return ERR_NONE;
}

enum err_code events_add(struct changes *c, struct table *t, struct err *err)
{
	struct numbering n = {c, t, err};

	for (const struct event_pending *p = c->events; p != NULL; p = p->next)
		if (event_add(&n, p) != ERR_NONE)
			return err->code;
	c->published = true;
	c->events = NULL;
	c->event_rows = 0;
	return ERR_NONE;
}
