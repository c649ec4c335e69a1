/* Reservations: see reservation.h. */
#include "service/reservation.h"

#include "json/base64.h"
#include "service/attempt_event.h"
#include "service/lock_event.h"
#include "service/row.h"

void reservation_name(struct bytes id, char name[RESERVATION_NAME_CHARS])
{
	uint8_t digest[SHA256_BYTES];

	sha256(id, digest);
	base64_url_write((struct bytes){(const char *)digest, RESERVATION_NAME_CHARS / 4 * 3}, name);
}

/* ---- what begin leaves behind, for the way back ---- */

static void text_add(struct row *row, const char *name, struct bytes text)
{
	if (text.len > 0)
		row_set_text(row, name, text);
}

/* A count that others go on counting in: it is lowered by one. `since` tells it from a later one of the same key. */
static bool is_counted_in(const struct table_write *w)
{
	return w->kind == TABLE_PUT && row_text(&w->item, ROW_BEGUN_SINCE).len > 0 &&
	       row_i64(&w->item, "count", 0) > 0;
}

/* The device's own failures are taken back by device.h. */
static bool is_lane(const struct table_write *w)
{
	return w->kind == TABLE_PUT &&
	       bytes_starts_with(row_text(&w->item, "SK"), BYTES("DEVICE#" KEY_COOKIE "#"));
}

static struct value map_value(struct row *row)
{
	return (struct value){.type = VALUE_M, .map = row_item(row)};
}

/* How a row was before, and how begin left it; absent: there was, or is, none. */
static enum err_code change_note(struct context *ctx, const struct table_write *w, struct value *out,
                                 struct err *err)
{
	const struct item *key = w->kind == TABLE_PUT ? &w->item : &w->key;
	struct bytes       pk = row_text(key, "PK"), sk = row_text(key, "SK");
	struct looked      before;
	struct row         row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", pk);
	row_set_text(&row, "SK", sk);
	if (is_counted_in(w)) {
		row_set_text(&row, ROW_BEGUN_SINCE, row_text(&w->item, ROW_BEGUN_SINCE));
		*out = map_value(&row);
		return ERR_NONE;
	}
	if (ctx_look(ctx, pk, sk, &before, err) != ERR_NONE)
		return err->code;
	if (before.found)
		row_set(&row, "before", (struct value){.type = VALUE_M, .map = before.item});
	if (w->kind == TABLE_PUT)
		row_set(&row, "after", (struct value){.type = VALUE_M, .map = w->item});
	*out = map_value(&row);
	return ERR_NONE;
}

static enum err_code changes_note(struct context *ctx, struct row *row, struct err *err)
{
	const struct changes *c = &ctx->changes;
	struct value_list     list = {arena_array(ctx->arena, c->count + 1, sizeof(struct value)), 0};

	for (uint32_t i = 0; i < c->count; i++)
		if (!is_lane(&c->list[i]) &&
		    change_note(ctx, &c->list[i], &list.items[list.count++], err) != ERR_NONE)
			return err->code;
	row_set(row, "changes", (struct value){.type = VALUE_L, .list = list});
	return ERR_NONE;
}

/* ---- beginning ---- */

/* Who a subject is that came as an address: of the address itself only the hash is kept. */
static void users_note(const struct account *account, uint32_t count, struct arena *a, struct row *row)
{
	struct value_list users = {arena_array(a, count, sizeof(struct value)), count};

	if (account->user_count == 0)
		return;
	for (uint32_t i = 0; i < count; i++)
		users.items[i] = value_string(account->users[i].len > 0 ? account->users[i] : BYTES(""));
	row_set(row, "users", (struct value){.type = VALUE_L, .list = users});
}

static void users_read(const struct item *row, struct arena *a, struct attempt *q)
{
	const struct value *v = item_get(row, BYTES("users"));

	if (v == NULL || v->type != VALUE_L)
		return;
	q->users = arena_zalloc(a, SUBJECTS_MAX * sizeof(*q->users));
	for (uint32_t i = 0; i < v->list.count && i < q->subject_count; i++)
		q->users[i] = value_text(&v->list.items[i]);
}

static void request_note(const struct attempt *q, struct arena *a, struct row *row)
{
	struct value_list subjects = {arena_array(a, q->subject_count, sizeof(struct value)),
	                              q->subject_count};

	for (uint32_t i = 0; i < q->subject_count; i++)
		subjects.items[i] = value_string(q->subjects[i]);
	row_set(row, "subjects", (struct value){.type = VALUE_L, .list = subjects});
	row_set_text(row, "journey", q->rule->journey);
	row_set_text(row, "type", q->rule->type);
	text_add(row, "method_id", q->method_id);
	text_add(row, "mfa_method_type", q->method_type);
	text_add(row, "notification_type", q->notification_type);
	text_add(row, "source", q->source);
	text_add(row, "network", q->network);
	text_add(row, "device", q->device);
	text_add(row, "device_of", q->device_of);
	text_add(row, DEVICE_LINK, q->device_id);
	row_set_i64(row, "source_allowed", q->source_allowed);
	row_set_i64(row, "token_sent", q->token_sent);
	row_set_i64(row, "remembers", q->remembers);
	row_set_i64(row, "policy_version", q->rules->base.version);
}

static enum err_code reservation_put(struct context *ctx, const struct attempt *q,
                                     const struct begin_result *out, struct err *err)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", key_reservation(ctx->arena, q->reservation));
	row_set_text(&row, "SK", BYTES(KEY_RESERVATION));
	row_set_text(&row, "state", BYTES("begun"));
	row_set_i64(&row, "begun_at", ctx->now_s);
	row_set_i64(&row, "lapses_us", out->lapses_us);
	row_set_i64(&row, "ttl", out->lapses_us / 1000000 + RESERVATION_KEEP_S);
	row_set_i64(&row, "first_time", out->attempt.first_time);
	row_set_i64(&row, "counted", out->attempt.counted);
	row_set_i64(&row, "device_forgotten", out->attempt.device_revoked);
	if (out->attempt.shadow.kind != VERDICT_ALLOW && !out->attempt.counted)
		row_set_i64(&row, "in_shadow", 1);
	request_note(q, ctx->arena, &row);
	users_note(out->attempt.account, q->subject_count, ctx->arena, &row);
	if (out->attempt.lane.open)
		row_set(&row, "lane", (struct value){.type = VALUE_M, .map = out->attempt.lane.row});
	if (changes_note(ctx, &row, err) != ERR_NONE)
		return err->code;
	ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
	return ERR_NONE;
}

enum err_code attempt_begin(struct context *ctx, const struct attempt *q, struct bytes name,
                            struct begin_result *out, struct err *err)
{
	struct attempt *begun = arena_alloc(ctx->arena, sizeof(*begun));

	*out = (struct begin_result){.lapses_us = ctx->now_us + q->rule->lapse_s * 1000000};
	if (attempt_whole(ctx, q, begun, err) != ERR_NONE)
		return err->code;
	begun->reservation = name;
	if (attempt_record(ctx, begun, OUTCOME_FAILURE, &out->attempt, err) != ERR_NONE)
		return err->code;
	memcpy(begun->subjects, q->subjects, sizeof(begun->subjects)); /* the rest is found again */
	begun->subject_count = q->subject_count;
	out->reserved = out->attempt.counted || out->attempt.verdict.kind == VERDICT_ALLOW;
	if (!out->reserved) /* (1) */
		return ERR_NONE;
	if (reservation_put(ctx, begun, out, err) != ERR_NONE)
		return err->code;
	out->locked = out->attempt.locked_now;
	out->attempt.first_time = out->attempt.device_revoked = false; /* told when it is finished */
	out->attempt.verdict = (struct verdict){0};
	return ERR_NONE;
}

/* ---- finding ---- */

static void request_read(const struct item *row, const struct rules *rules, struct attempt *q)
{
	const struct value *v = item_get(row, BYTES("subjects"));

	for (uint32_t i = 0; v != NULL && v->type == VALUE_L && i < v->list.count && i < SUBJECTS_MAX; i++)
		q->subjects[q->subject_count++] = value_text(&v->list.items[i]);
	q->rules = rules;
	q->method_id = row_text(row, "method_id");
	q->method_type = row_text(row, "mfa_method_type");
	q->notification_type = row_text(row, "notification_type");
	q->source = row_text(row, "source");
	q->network = row_text(row, "network");
	q->device = row_text(row, "device");
	q->device_of = row_text(row, "device_of");
	q->device_id = row_text(row, DEVICE_LINK);
	q->source_allowed = row_i64(row, "source_allowed", 0) != 0;
	q->token_sent = row_i64(row, "token_sent", 0) != 0;
	q->remembers = row_i64(row, "remembers", 0) != 0;
	q->rule = rules_find(rules, row_text(row, "journey"), row_text(row, "type"), q->method_type);
}

enum err_code reservation_find(struct context *ctx, struct bytes name, const struct rules *rules,
                               struct reservation *out, struct err *err)
{
	const struct value *lane;
	struct looked       row;

	*out = (struct reservation){.name = name};
	if (ctx_look(ctx, key_reservation(ctx->arena, name), BYTES(KEY_RESERVATION), &row, err) != ERR_NONE)
		return err->code;
	if (row.found) {
		out->row = row.item;
		request_read(&out->row, rules, &out->q);
		users_read(&out->row, ctx->arena, &out->q);
	}
	if (!row.found || out->q.subject_count == 0)
		return err_field(err, ERR_NOT_FOUND, "attempt",
		                 "attempt: unknown id, or it lapsed more than an hour ago");
	if (out->q.rule == NULL)
		return err_field(err, ERR_INVALID, "attempt",
		                 "attempt: its journey and type are no longer in the policies");
	out->in_shadow = row_i64(&out->row, "in_shadow", 0) != 0;
	lane = item_get(&out->row, BYTES("lane"));
	if (lane != NULL && lane->type == VALUE_M)
		out->lane = device_lane_was(ctx->arena, &lane->map, out->q.rule);
	return ERR_NONE;
}

/* ---- taking back ---- */

struct undoing {
	struct context     *ctx;
	struct reservation *r;
	bool                clears_own;
	struct err         *err;
};

/* One less, or none. What a lock of one method moved aside is lowered if the count itself is 0. */
static void count_lower(struct undoing *u, const struct item *old)
{
	struct arena *a = u->ctx->arena;
	int64_t       count = row_i64(old, "count", 0), aside = row_i64(old, ROW_LOCKED_COUNT, 0);
	struct row    row;

	if (count + aside <= 1) {
		ctx_delete(u->ctx, TABLE_AUTH_STATE,
		           row_key_two(a, row_text(old, "PK"), row_text(old, "SK")));
		return;
	}
	row_from(&row, a, old);
	row_set_i64(&row, count > 0 ? "count" : ROW_LOCKED_COUNT, (count > 0 ? count : aside) - 1);
	row_set_i64(&row, "last_updated", u->ctx->now_s);
	ctx_put(u->ctx, TABLE_AUTH_STATE, row_item(&row));
}

/* Does the success that follows clear it anyway? Then it is not put back, but told. */
static bool is_own_count(const struct undoing *u, struct bytes pk, struct bytes sk)
{
	const struct attempt *q = &u->r->q;
	struct key_parts      key = key_split(sk);
	bool                  own = false;

	for (uint32_t i = 0; i < q->subject_count; i++)
		own = own || bytes_equal(q->subjects[i], pk);
	return own && u->clears_own && bytes_equal(key.journey, q->rule->journey) &&
	       bytes_equal(key.classifier, q->rule->type) &&
	       (bytes_equal(key.type, q->rule->classifier_type) || bytes_is(key.type, KEY_SOURCE_COUNT));
}

/* ---- counts that a lock removed: attempts in them that were right are noted, for when the counts are put back ---- */

static struct bytes right_key(const struct undoing *u, struct bytes pk, struct bytes sk)
{
	return arena_printf(u->ctx->arena, KEY_RIGHT_SINCE "#%.*s#%.*s", BYTES_ARG(pk), BYTES_ARG(sk));
}

static enum err_code right_look(const struct undoing *u, const struct item *count, struct looked *out)
{
	return ctx_look(u->ctx, key_reservation(u->ctx->arena, row_text(count, ROW_BEGUN_SINCE)),
	                right_key(u, row_text(count, "PK"), row_text(count, "SK")), out, u->err);
}

static enum err_code right_note(struct undoing *u, const struct item *note)
{
	struct arena *a = u->ctx->arena;
	struct looked old;
	struct row    row;

	if (right_look(u, note, &old) != ERR_NONE)
		return u->err->code;
	row_init(&row, a);
	row_set_text(&row, "PK", old.pk);
	row_set_text(&row, "SK", old.sk);
	row_set_i64(&row, "count", (old.found ? row_i64(&old.item, "count", 0) : 0) + 1);
	row_set_i64(&row, "ttl", u->ctx->now_s + LAPSE_MAX_S);
	ctx_put(u->ctx, TABLE_AUTH_STATE, row_item(&row));
	return ERR_NONE;
}

/* A count as it was, without those in it that were right since. False: none is left. */
static enum err_code right_subtract(const struct undoing *u, struct item *count, bool *left)
{
	struct looked right = {.found = false};
	struct row    row;
	int64_t       n = row_i64(count, "count", 0);

	if (row_text(count, ROW_BEGUN_SINCE).len > 0 && right_look(u, count, &right) != ERR_NONE)
		return u->err->code;
	*left = true;
	if (!right.found)
		return ERR_NONE;
	n -= row_i64(&right.item, "count", 0);
	*left = n > 0 || row_i64(count, ROW_LOCKED_COUNT, 0) > 0;
	row_from(&row, u->ctx->arena, count);
	row_set_i64(&row, "count", n > 0 ? n : 0);
	*count = row_item(&row);
	return ERR_NONE;
}

/* (3) As it was, if it is as begin left it. */
static enum err_code row_restore(struct undoing *u, const struct item *note, const struct looked *now)
{
	struct arena       *a = u->ctx->arena;
	const struct value *before = item_get(note, BYTES("before")), *after = item_get(note, BYTES("after"));
	struct bytes        pk = row_text(note, "PK"), sk = row_text(note, "SK");
	struct item         old;
	bool                left = false;

	if (now->found != (after != NULL) || (now->found && !item_equal(&now->item, &after->map)))
		return ERR_NONE;
	if (before != NULL && row_expired(&before->map, "ttl", u->ctx->now_us))
		before = NULL;
	if (before != NULL) {
		old = before->map;
		if (right_subtract(u, &old, &left) != ERR_NONE)
			return u->err->code;
	}
	if (is_own_count(u, pk, sk)) {
		if (before != NULL && !now->found)
			u->r->removed[u->r->removed_count++] =
			        (struct cleared){pk, sk, row_i64(&before->map, "count", 0)};
	} else if (left) {
		lock_changed(u->ctx, now->found ? &now->item : NULL, &old, LOCK_CLEARED_BY_SUCCESS);
		ctx_put(u->ctx, TABLE_AUTH_STATE, old);
	} else if (now->found) {
		lock_changed(u->ctx, &now->item, NULL, LOCK_CLEARED_BY_SUCCESS);
		ctx_delete(u->ctx, TABLE_AUTH_STATE, row_key_two(a, pk, sk));
	}
	return ERR_NONE;
}

static enum err_code change_undo(struct undoing *u, const struct item *note)
{
	struct bytes  since = row_text(note, ROW_BEGUN_SINCE);
	struct looked now;

	if (ctx_look(u->ctx, row_text(note, "PK"), row_text(note, "SK"), &now, u->err) != ERR_NONE)
		return u->err->code;
	if (since.len == 0)
		return row_restore(u, note, &now);
	if (now.found && bytes_equal(row_text(&now.item, ROW_BEGUN_SINCE), since))
		count_lower(u, &now.item);
	else if (!now.found && !is_own_count(u, row_text(note, "PK"), row_text(note, "SK")))
		return right_note(u, note);
	return ERR_NONE;
}

enum err_code reservation_take_back(struct context *ctx, struct reservation *r, bool clears_own,
                                    struct err *err)
{
	struct undoing      u = {ctx, r, clears_own, err};
	const struct value *notes = item_get(&r->row, BYTES("changes"));
	uint32_t            count = notes != NULL && notes->type == VALUE_L ? notes->list.count : 0;

	r->removed = arena_array(ctx->arena, count + 1, sizeof(*r->removed));
	r->removed_count = 0;
	for (uint32_t i = 0; i < count; i++)
		if (notes->list.items[i].type == VALUE_M &&
		    change_undo(&u, &notes->list.items[i].map) != ERR_NONE)
			return err->code;
	return r->lane.open ? device_lane_take_back(ctx, &r->q, err) : ERR_NONE;
}

/* The note of a count that is still the one it was counted in, or as a lock that it set left it. */
static bool is_note_of(const struct item *note, const struct count_row *row)
{
	struct bytes        since = row_text(note, ROW_BEGUN_SINCE);
	const struct value *after = item_get(note, BYTES("after"));

	if (!bytes_equal(row_text(note, "PK"), row->pk) || !bytes_equal(row_text(note, "SK"), row->sk))
		return false;
	if (since.len > 0)
		return bytes_equal(row_text(&row->item, ROW_BEGUN_SINCE), since);
	return after != NULL && after->type == VALUE_M && item_equal(&after->map, &row->item);
}

bool reservation_counts(const struct reservation *r, const struct count_row *row)
{
	const struct value *notes = item_get(&r->row, BYTES("changes"));

	for (uint32_t i = 0; notes != NULL && notes->type == VALUE_L && i < notes->list.count; i++)
		if (notes->list.items[i].type == VALUE_M && is_note_of(&notes->list.items[i].map, row))
			return true;
	return false;
}

/* ---- finishing ---- */

static void state_put(struct context *ctx, const struct reservation *r, const char *state)
{
	struct row row;

	row_from(&row, ctx->arena, &r->row);
	row_set_text(&row, "state", bytes_of(state));
	row_remove(&row, "changes");
	row_remove(&row, "lane");
	ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
}

/* (2) It was counted when it began; what is told is how things stand now. */
static enum err_code finish_failure(struct context *ctx, struct reservation *r, struct attempt_result *out,
                                    struct err *err)
{
	bool              spent = row_i64(&r->row, "device_forgotten", 0) != 0;
	struct assessment now;

	if (spent && device_forget_spent(ctx, &r->q, &spent, err) != ERR_NONE)
		return err->code;
	if (assess(ctx, &r->q, &now, err) != ERR_NONE)
		return err->code;
	*out = (struct attempt_result){.verdict = now.verdict,
	                               .shadow = now.shadow,
	                               .required = now.required,
	                               .counted = row_i64(&r->row, "counted", 0) != 0,
	                               .first_time = row_i64(&r->row, "first_time", 0) != 0,
	                               .known_device = r->lane.open,
	                               .device_revoked = spent};
	assessment_show(&now, r->q.rule, &out->nearest);
	state_put(ctx, r, "failure");
	if (!out->counted)
		return ERR_NONE;
	attempt_near_limit(ctx, &r->q, &out->nearest);
	return attempt_new_source(ctx, &r->q, OUTCOME_FAILURE, err);
}

static enum err_code finish_success(struct context *ctx, struct reservation *r, struct attempt_result *out,
                                    struct err *err)
{
	r->q.finishing = r;
	if (attempt_record(ctx, &r->q, OUTCOME_SUCCESS, out, err) != ERR_NONE)
		return err->code;
	if (out->verdict.kind == VERDICT_ALLOW)
		state_put(ctx, r, "success");
	return ERR_NONE;
}

enum err_code attempt_finish(struct context *ctx, struct reservation *r, enum outcome outcome,
                             struct attempt_result *out, struct err *err)
{
	struct bytes   state = row_text(&r->row, "state");
	struct attempt whole;

	*out = (struct attempt_result){0};
	if (!bytes_is(state, "begun"))
		return err_field(err, ERR_FINISHED, "attempt", "attempt: already finished, as a %.*s",
		                 BYTES_ARG(state)); /* (5) */
	if (ctx->now_us >= row_i64(&r->row, "lapses_us", 0)) {
		out->verdict = (struct verdict){.kind = VERDICT_LAPSED, .reason = "lapsed"};
		out->counted = row_i64(&r->row, "counted", 0) != 0;
		return ERR_NONE;
	}
	whole = r->q;
	if (attempt_whole(ctx, &whole, &r->q, err) != ERR_NONE)
		return err->code;
	return outcome == OUTCOME_SUCCESS ? finish_success(ctx, r, out, err)
	                                  : finish_failure(ctx, r, out, err);
}
