/* Dead letters: see dead_letter.h. */
#include "service/dead_letter.h"

#include "base/fault.h"
#include "service/account.h"
#include "service/row.h"

#define KEY_DEAD_LETTER "DEAD_LETTER"

/* ---- rows ---- */

static struct bytes sort_key(struct arena *a, struct bytes id, struct bytes provider)
{
	return arena_printf(a, "%.*s#%.*s", BYTES_ARG(id), BYTES_ARG(provider));
}

static enum err_code letter_look(struct context *ctx, struct bytes id, struct bytes provider,
                                 struct looked *out, struct err *err)
{
	looked_init(out, BYTES(KEY_DEAD_LETTER), sort_key(ctx->arena, id, provider));
	return ctx_look_in(ctx, TABLE_SYNC, out, err);
}

/* A field that the record takes away is NULL. */
static void text_write(struct row *row, const char *name, const struct user_text *t)
{
	row_remove(row, name);
	if (t->given && t->text.len == 0)
		row_set(row, name, (struct value){.type = VALUE_NULL});
	else if (t->given)
		row_set_text(row, name, t->text);
}

static struct user_text text_read(const struct item *row, const char *name)
{
	return (struct user_text){item_get(row, bytes_of(name)) != NULL, row_text(row, name)};
}

static const char *const standing_names[] = {
        [SYNC_SAYS_NOTHING] = "-",          [SYNC_WELCOME] = "welcome", [SYNC_BARRED] = "barred",
        [SYNC_UNCONFIRMED] = "unconfirmed", [SYNC_UNKNOWN] = "unknown", NULL};

static void record_write(struct row *row, const struct sync_record *q)
{
	row_set_text(row, "userId", q->id);
	row_set_text(row, "provider", q->provider);
	if (q->name.len > 0)
		row_set_text(row, "name", q->name);
	if (q->email.len > 0)
		row_set_text(row, "email", q->email);
	if (q->email_typed.len > 0)
		row_set_text(row, EMAIL_TYPED, q->email_typed);
	row_set(row, "emailVerified", value_bool(q->email_verified));
	text_write(row, "firstName", &q->fields.first_name);
	text_write(row, "lastName", &q->fields.last_name);
	text_write(row, "phone", &q->fields.phone);
	if (q->fields.attributes.count > 0)
		row_set(row, "attributes", (struct value){.type = VALUE_M, .map = q->fields.attributes});
	if (q->fields.attributes_go)
		row_set(row, "attributesGo", value_bool(true));
	if (q->has_time)
		row_set_i64(row, "syncTime", q->time_ms);
	if (q->has_sequence)
		row_set_i64(row, "syncSequence", q->sequence);
	if (q->complete)
		row_set(row, "complete", value_bool(true));
	if (q->keeps)
		row_set(row, "keeps", value_bool(true));
	if (q->standing != SYNC_SAYS_NOTHING)
		row_set_text(row, "standing", bytes_of(standing_names[q->standing]));
}

static enum sync_standing standing_read(const struct item *row)
{
	struct bytes name = row_text(row, "standing");

	for (int i = 0; standing_names[i] != NULL; i++)
		if (bytes_is(name, standing_names[i]))
			return (enum sync_standing)i;
	return name.len == 0 ? SYNC_SAYS_NOTHING : SYNC_UNKNOWN;
}

static struct sync_record record_read(const struct item *row)
{
	const struct value *verified = item_get(row, BYTES("emailVerified"));
	const struct value *attributes = item_get(row, BYTES("attributes"));
	struct sync_record  q = {.provider = row_text(row, "provider"),
	                         .id = row_text(row, "userId"),
	                         .name = row_text(row, "name"),
	                         .email = row_text(row, "email"),
	                         .email_typed = row_text(row, EMAIL_TYPED),
	                         .email_verified =
	                                 verified != NULL && verified->type == VALUE_BOOL && verified->truth,
	                         .fields = {.first_name = text_read(row, "firstName"),
	                                    .last_name = text_read(row, "lastName"),
	                                    .phone = text_read(row, "phone"),
	                                    .attributes_go = item_get(row, BYTES("attributesGo")) != NULL},
	                         .time_ms = row_i64(row, "syncTime", -1),
	                         .sequence = row_i64(row, "syncSequence", -1),
	                         .complete = item_get(row, BYTES("complete")) != NULL,
	                         .keeps = item_get(row, BYTES("keeps")) != NULL,
	                         .standing = standing_read(row)};

	q.has_time = q.time_ms >= 0;
	q.has_sequence = q.sequence >= 0;
	if (attributes != NULL && attributes->type == VALUE_M)
		q.fields.attributes = attributes->map;
	return q;
}

static struct dead_letter letter_of(const struct item *row)
{
	return (struct dead_letter){.record = record_read(row),
	                            .error = row_text(row, "error"),
	                            .detail = row_text(row, "detail"),
	                            .first_at = row_text(row, "firstAt"),
	                            .last_at = row_text(row, "lastAt"),
	                            .failures = row_i64(row, "failures", 0)};
}

/* ---- writing ---- */

/* (1) Of the record and the one that is there, the newer. */
static void letter_begin(struct context *ctx, const struct sync_record *q, const struct looked *old,
                         struct row *row)
{
	if (old->found && sync_is_stale(ctx, q, &old->item)) {
		row_from(row, ctx->arena, &old->item);
		return;
	}
	row_init(row, ctx->arena);
	row_set_text(row, "PK", old->pk);
	row_set_text(row, "SK", old->sk);
	record_write(row, q);
}

static struct bytes error_name(enum err_code why)
{
	return bytes_of(err_v1_type(why) + strlen(ERR_TYPE_PREFIX));
}

static enum err_code letter_put(struct context *ctx, const struct sync_record *q, const struct err *why,
                                struct sync_delivery *out, struct err *err)
{
	struct sync_record bounded = sync_bounded(ctx, q);
	struct bytes       now = user_time(ctx->arena, ctx->now_us);
	struct looked      old;
	struct row         row;

	if (account_writable(ctx, q->id, err) != ERR_NONE ||
	    letter_look(ctx, q->id, q->provider, &old, err) != ERR_NONE)
		return err->code;
	letter_begin(ctx, &bounded, &old, &row);
	row_set_text(&row, "error", error_name(why->code));
	row_set_text(&row, "detail", arena_printf(ctx->arena, "%s", why->text));
	row_set_i64(&row, "failures", old.found ? row_i64(&old.item, "failures", 0) + 1 : 1);
	row_set_text(&row, "firstAt", old.found ? row_text(&old.item, "firstAt") : now);
	row_set_text(&row, "lastAt", now);
	row_set_i64(&row, "ttl", ctx->now_s + DEAD_LETTER_KEPT_S);
	ctx_put(ctx, TABLE_SYNC, row_item(&row));
	*out = (struct sync_delivery){.result = {.outcome = SYNC_DEAD_LETTERED},
	                              .error = error_name(why->code)};
	return ERR_NONE;
}

/* ---- delivering ---- */

/* Does it stay so, however often it is tried? */
static bool is_final(enum err_code rc)
{
	return rc == ERR_EMAIL_TAKEN || rc == ERR_LIMIT || rc == ERR_USER_EXISTS || rc == ERR_INVALID;
}

enum err_code sync_deliver(struct context *ctx, const struct sync_record *q, struct sync_delivery *out,
                           struct err *err)
{
	struct err    why;
	enum err_code rc;

	*out = (struct sync_delivery){0};
	if (fault_fires(FAULT_SYNC))
		return err_set(err, ERR_THROTTLED, "the table is throttled");
	rc = sync_apply(ctx, q, &out->result, &why);
	if (rc == ERR_NONE)
		return ERR_NONE;
	if (is_final(rc) && rc != ERR_USER_EXISTS && sync_bar(ctx, q, err) != ERR_NONE)
		return err->code;
	if (is_final(rc))
		return letter_put(ctx, q, &why, out, err);
	*err = why;
	return rc;
}

/* All other errors come before the address is looked at. */
enum err_code sync_apply_neutral(struct context *ctx, const struct sync_record *q, struct sync_delivery *out,
                                 struct err *err)
{
	struct err    why;
	enum err_code rc;

	*out = (struct sync_delivery){0};
	rc = sync_apply(ctx, q, &out->result, &why);
	if (rc == ERR_EMAIL_TAKEN || rc == ERR_LIMIT)
		return letter_put(ctx, q, &why, out, err);
	if (rc != ERR_NONE)
		*err = why;
	return rc;
}

enum err_code sync_give_up(struct context *ctx, const struct sync_record *q, enum err_code why,
                           struct sync_delivery *out, struct err *err)
{
	struct err    last;
	struct user   u;
	enum err_code rc = user_take(ctx, q->id, &(struct user_match){0}, &u, err);

	if (rc != ERR_NONE && rc != ERR_NOT_FOUND) /* deleted, or being erased */
		return rc;
	if (rc == ERR_NOT_FOUND && sync_check_erased(ctx, q->id, err) != ERR_NONE)
		return err->code;
	err_set(&last, why, "it failed for the moment, every time that it was tried");
	return letter_put(ctx, q, &last, out, err);
}

/* ---- letters ---- */

static enum err_code letter_find(struct context *ctx, const struct dead_letter_key *key, struct looked *out,
                                 struct err *err)
{
	if (letter_look(ctx, key->id, key->provider, out, err) != ERR_NONE)
		return err->code;
	return out->found ? ERR_NONE
	                  : err_field(err, ERR_NOT_FOUND, "id", "id: there is no dead letter of this user");
}

enum err_code dead_letter_get(struct context *ctx, const struct dead_letter_key *key, struct dead_letter *out,
                              struct err *err)
{
	struct looked row;

	if (letter_find(ctx, key, &row, err) != ERR_NONE)
		return err->code;
	*out = letter_of(&row.item);
	return ERR_NONE;
}

enum err_code dead_letter_delete(struct context *ctx, const struct dead_letter_key *key, struct err *err)
{
	struct looked row;

	if (letter_find(ctx, key, &row, err) != ERR_NONE)
		return err->code;
	ctx_delete(ctx, TABLE_SYNC, row_key_two(ctx->arena, row.pk, row.sk));
	return ERR_NONE;
}

/* (2) removes it. */
enum err_code dead_letter_redrive(struct context *ctx, const struct dead_letter_key *key,
                                  struct sync_delivery *out, struct err *err)
{
	struct dead_letter letter;

	if (dead_letter_get(ctx, key, &letter, err) != ERR_NONE)
		return err->code;
	return sync_deliver(ctx, &letter.record, out, err);
}

/* ---- many ---- */

static enum err_code letters_query(struct context *ctx, struct bytes after, uint32_t limit,
                                   struct table_query_result *r, struct err *err)
{
	struct expr_key_condition key = row_prefix(BYTES(KEY_DEAD_LETTER), BYTES(""));
	struct item               start = row_key_two(ctx->arena, BYTES(KEY_DEAD_LETTER), after);
	struct table_query        q = {
	               .key = &key, .limit = limit, .start = after.len > 0 ? &start : NULL, .consistent = true};

	return ctx_query_in(ctx, TABLE_SYNC, &q, r, err);
}

static bool is_sought(const struct context *ctx, const struct dead_letters_search *q, const struct item *row)
{
	return !row_expired(row, "ttl", ctx->now_us) &&
	       (q->error.len == 0 || bytes_equal(row_text(row, "error"), q->error));
}

/* False: the page is full. */
static bool letters_take(struct context *ctx, const struct dead_letters_search *q,
                         const struct table_query_result *r, struct dead_letters_page *out)
{
	for (uint32_t i = 0; i < r->count; i++) {
		if (!is_sought(ctx, q, &r->items[i]))
			continue;
		if (out->count == q->limit) { /* one more than fits */
			const struct sync_record *last = &out->list[out->count - 1].record;

			out->last = sort_key(ctx->arena, last->id, last->provider);
			return false;
		}
		out->list[out->count++] = letter_of(&r->items[i]);
	}
	if (r->more)
		out->last = row_text(&r->last_key, "SK");
	return true;
}

/* No more of them than the page is likely to need: a redrive does this in its turn, for one letter. */
enum err_code dead_letters_find(struct context *ctx, const struct dead_letters_search *q,
                                struct dead_letters_page *out, struct err *err)
{
	uint32_t     at_once = q->limit < DEAD_LETTERS_READ_MIN ? DEAD_LETTERS_READ_MIN : q->limit + 1;
	struct bytes after = q->after;
	struct table_query_result r;

	*out = (struct dead_letters_page){.list = arena_array(ctx->arena, q->limit, sizeof(*out->list))};
	for (uint32_t examined = 0; examined < DEAD_LETTERS_EXAMINED_MAX; examined += at_once) {
		bool full;

		if (letters_query(ctx, after, at_once, &r, err) != ERR_NONE)
			return err->code;
		full = !letters_take(ctx, q, &r, out);
		out->more = full || r.more;
		if (!out->more || full)
			return ERR_NONE;
		after = out->last;
	}
	return ERR_NONE;
}

static void group_add(struct arena *a, struct dead_letter_groups *out, const struct item *row)
{
	struct bytes error = row_text(row, "error"), first = row_text(row, "firstAt");
	uint32_t     i = 0;

	out->letters++;
	while (i < out->count && !bytes_equal(out->list[i].error, error))
		i++;
	if (i == DEAD_LETTER_GROUPS_MAX)
		return;
	if (i == out->count) {
		out->count++;
		out->list[i].error = arena_copy(a, error);
		out->list[i].oldest = arena_copy(a, first);
	}
	out->list[i].count++;
	if (bytes_compare(first, out->list[i].oldest) < 0)
		out->list[i].oldest = arena_copy(a, first);
}

/* One page, and *after behind it; empty: it was the last. There may be many letters: what was read of a page goes with it. */
static enum err_code page_group(struct context *ctx, const struct user_filter *users, struct bytes *after,
                                struct dead_letter_groups *out, struct err *err)
{
	struct context            reading = *ctx;
	struct arena              page;
	struct table_query_result r;
	enum err_code             rc;

	arena_init(&page);
	reading.arena = &page;
	rc = letters_query(&reading, *after, 0, &r, err);
	for (uint32_t i = 0; rc == ERR_NONE && i < r.count; i++)
		if (!row_expired(&r.items[i], "ttl", ctx->now_us) &&
		    !user_filter_hides(users, row_text(&r.items[i], "userId")))
			group_add(ctx->arena, out, &r.items[i]);
	*after = rc == ERR_NONE && r.more ? arena_copy(ctx->arena, row_text(&r.last_key, "SK"))
	                                  : (struct bytes){NULL, 0};
	arena_release(&page);
	return rc;
}

enum err_code dead_letters_group(struct context *ctx, const struct user_filter *users,
                                 struct dead_letter_groups *out, struct err *err)
{
	struct bytes after = {NULL, 0};

	*out = (struct dead_letter_groups){0};
	do {
		if (page_group(ctx, users, &after, out, err) != ERR_NONE)
			return err->code;
	} while (after.len > 0);
	return ERR_NONE;
}

/* (3) */
enum err_code dead_letters_erase(struct context *ctx, struct bytes user, struct err *err)
{
	struct expr_key_condition key =
	        row_prefix(BYTES(KEY_DEAD_LETTER), sort_key(ctx->arena, user, BYTES("")));
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result r;

	if (ctx_query_in(ctx, TABLE_SYNC, &q, &r, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < r.count && changes_room(&ctx->changes) > 0; i++)
		ctx_delete(ctx, TABLE_SYNC,
		           row_key_two(ctx->arena, row_text(&r.items[i], "PK"), row_text(&r.items[i], "SK")));
	return ERR_NONE;
}

/* (2) */
enum err_code dead_letter_settle(struct context *ctx, const struct sync_record *q, struct err *err)
{
	struct looked letter;

	if (letter_look(ctx, q->id, q->provider, &letter, err) != ERR_NONE)
		return err->code;
	if (letter.found && !sync_is_stale(ctx, q, &letter.item))
		ctx_delete(ctx, TABLE_SYNC, row_key_two(ctx->arena, letter.pk, letter.sk));
	return ERR_NONE;
}
