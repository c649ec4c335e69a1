/* Reservations: see reservation.h. */
#include "service/reservation.h"

#include "json/base64.h"
#include "service/attempt_event.h"
#include "service/lock.h"
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

/* ---- resets of its credential ---- */

struct bytes key_reset(struct arena *a, const struct rule_ref *type)
{
	return key_name(a, type->journey, BYTES(KEY_RESET), type->name, (struct bytes){NULL, 0});
}

/* Those ids of a person that a reset, whatever name it came by, has one of: the named ones and their users. */
static uint32_t reset_ids(const struct attempt *q)
{
	uint32_t found = q->account == NULL ? 0 : q->account->main_count;

	return found > q->main_count ? found : q->main_count; /* locks may be of fewer */
}

static enum err_code resets_look(struct context *ctx, const struct attempt *q, struct looked *rows,
                                 struct err *err)
{
	struct bytes sk = key_reset(ctx->arena, &(struct rule_ref){q->rule->journey, q->rule->type});

	for (uint32_t i = 0; i < reset_ids(q); i++) {
		looked_init(&rows[i], q->subjects[i], sk);
		if (i > 0)
			rows[i - 1].next = &rows[i];
	}
	return ctx_look_all(ctx, rows, err);
}

/* When each was last reset, by its id: which ids are the person's may change until it is finished. */
static enum err_code resets_note(struct context *ctx, const struct attempt *q, struct row *row,
                                 struct err *err)
{
	struct looked rows[PERSON_IDS_MAX];
	struct row    times;
	bool          any = false;

	if (resets_look(ctx, q, rows, err) != ERR_NONE)
		return err->code;
	row_init(&times, ctx->arena);
	for (uint32_t i = 0; i < reset_ids(q); i++) {
		struct value at = value_i64(rows[i].found ? row_i64(&rows[i].item, ROW_RESET_US, 0) : 0);

		any = any || rows[i].found;
		if (rows[i].found)
			times.item = item_with(ctx->arena, &times.item, rows[i].pk, &at);
	}
	if (any)
		row_set(row, "resets", (struct value){.type = VALUE_M, .map = times.item});
	return ERR_NONE;
}

/* (6) A row that was there when it began and has expired since says nothing. */
static enum err_code reset_since(struct context *ctx, const struct reservation *r, bool *yes, struct err *err)
{
	const struct value *noted = item_get(&r->row, BYTES("resets"));
	struct looked       rows[PERSON_IDS_MAX];

	*yes = false;
	if (resets_look(ctx, &r->q, rows, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < reset_ids(&r->q); i++) {
		const struct value *was =
		        noted == NULL || noted->type != VALUE_M ? NULL : item_get(&noted->map, rows[i].pk);

		*yes = *yes || (rows[i].found && row_i64(&rows[i].item, ROW_RESET_US, 0) !=
		                                         (was == NULL ? 0 : value_to_i64(was, 0)));
	}
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
	row_set_i64(row, "source_spared", q->source_spared);
	row_set_i64(row, "network_spared", q->network_spared);
	row_set_i64(row, "token_sent", q->token_sent);
	row_set_i64(row, "remembers", q->remembers);
	row_set_i64(row, "policy_version", q->rules->base.version);
}

/* `whole`: with all ids of the person. The row has those that were named: the rest is found again. */
static enum err_code reservation_put(struct context *ctx, const struct attempt *named,
                                     const struct attempt *whole, const struct begin_result *out,
                                     struct err *err)
{
	struct attempt *q = arena_alloc(ctx->arena, sizeof(*q));
	struct row      row;

	*q = *whole;
	memcpy(q->subjects, named->subjects, sizeof(q->subjects));
	q->subject_count = named->subject_count;
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
	if (resets_note(ctx, whole, &row, err) != ERR_NONE || changes_note(ctx, &row, err) != ERR_NONE)
		return err->code;
	ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
	return ERR_NONE;
}

enum err_code attempt_begin(struct context *ctx, const struct attempt *q, struct bytes name,
                            struct begin_result *out, struct err *err)
{
	struct attempt *begun = arena_alloc(ctx->arena, sizeof(*begun)), named;

	*out = (struct begin_result){.lapses_us = ctx->now_us + q->rule->lapse_s * 1000000};
	named = *q;
	named.reservation = name;
	if (attempt_whole(ctx, &named, begun, err) != ERR_NONE ||
	    attempt_record(ctx, begun, OUTCOME_FAILURE, &out->attempt, err) != ERR_NONE)
		return err->code;
	out->reserved = out->attempt.counted || out->attempt.verdict.kind == VERDICT_ALLOW;
	if (!out->reserved) /* (1) */
		return ERR_NONE;
	if (reservation_put(ctx, q, begun, out, err) != ERR_NONE)
		return err->code;
	out->locked = out->attempt.locked_now;
	out->attempt.first_time = out->attempt.device_revoked = false; /* told when it is finished */
	out->attempt.verdict = (struct verdict){0};
	return ERR_NONE;
}

/* ---- finding ---- */

static void request_read(const struct item *row, struct attempt *q)
{
	const struct value *v = item_get(row, BYTES("subjects"));

	for (uint32_t i = 0; v != NULL && v->type == VALUE_L && i < v->list.count && i < SUBJECTS_MAX; i++)
		q->subjects[q->subject_count++] = value_text(&v->list.items[i]);
	q->method_id = row_text(row, "method_id");
	q->method_type = row_text(row, "mfa_method_type");
	q->notification_type = row_text(row, "notification_type");
	q->source = row_text(row, "source");
	q->network = row_text(row, "network");
	q->device = row_text(row, "device");
	q->device_of = row_text(row, "device_of");
	q->device_id = row_text(row, DEVICE_LINK);
	q->source_allowed = row_i64(row, "source_allowed", 0) != 0;
	q->source_spared = row_i64(row, "source_spared", 0) != 0;
	q->network_spared = row_i64(row, "network_spared", 0) != 0;
	q->token_sent = row_i64(row, "token_sent", 0) != 0;
	q->remembers = row_i64(row, "remembers", 0) != 0;
}

bool reservation_under(struct reservation *r, const struct rules *rules, struct arena *a)
{
	const struct value *lane = item_get(&r->row, BYTES("lane"));

	r->q.rules = rules;
	r->q.rule =
	        rules_find(rules, row_text(&r->row, "journey"), row_text(&r->row, "type"), r->q.method_type);
	if (r->q.rule != NULL && lane != NULL && lane->type == VALUE_M)
		r->lane = device_lane_was(a, &lane->map, r->q.rule);
	return r->q.rule != NULL;
}

enum err_code reservation_find(struct context *ctx, struct bytes name, const struct rules *rules,
                               struct reservation *out, struct err *err)
{
	struct looked row;

	*out = (struct reservation){.name = name};
	if (ctx_look(ctx, key_reservation(ctx->arena, name), BYTES(KEY_RESERVATION), &row, err) != ERR_NONE)
		return err->code;
	if (row.found) {
		out->row = row.item;
		out->version = row_i64(&out->row, "policy_version", 0);
		request_read(&out->row, &out->q);
		users_read(&out->row, ctx->arena, &out->q);
	}
	if (!row.found || out->q.subject_count == 0)
		return err_field(err, ERR_NOT_FOUND, "attempt",
		                 "attempt: unknown id, or it lapsed more than an hour ago");
	out->in_shadow = row_i64(&out->row, "in_shadow", 0) != 0;
	(void)reservation_under(out, rules, ctx->arena);
	return ERR_NONE;
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

/* With another row of its group. */
static bool is_announced(const struct context *ctx, const struct item *row)
{
	return changes_find(&ctx->changes, TABLE_AUTH_STATE, row_text(row, "PK"), row_text(row, "SK")) !=
	       NULL;
}

/* Locks that it set, and that nobody changed since, were set for a reason after all. Of a source's lock that is known when all have lapsed
 * that were begun in its count. */
static enum err_code locks_announce(struct context *ctx, const struct reservation *r, struct err *err)
{
	const struct value *notes = item_get(&r->row, BYTES("changes"));
	struct looked       now;

	for (uint32_t i = 0; notes != NULL && notes->type == VALUE_L && i < notes->list.count; i++) {
		const struct value *after = item_get(&notes->list.items[i].map, BYTES("after"));

		if (after == NULL || item_get(&after->map, BYTES(LOCK_ANNOUNCE)) == NULL ||
		    is_announced(ctx, &after->map))
			continue;
		if (ctx_look(ctx, row_text(&after->map, "PK"), row_text(&after->map, "SK"), &now, err) !=
		    ERR_NONE)
			return err->code;
		if (item_get(&after->map, BYTES(LOCK_TOOK_SINCE)) == NULL && now.found &&
		    streak_row_is(ctx->arena, &now.item, &after->map) &&
		    lock_announce(ctx, &now.item, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

/* What a note says of the row that it is of: it was left as a lock; it is as it was left, or it is still the count that it was. */
struct noted {
	bool lock, same;
};

static enum err_code note_look(struct context *ctx, const struct item *note, struct noted *out,
                               struct err *err)
{
	const struct value *after = item_get(note, BYTES("after"));
	struct bytes        sk = row_text(note, "SK"), since = row_text(note, ROW_BEGUN_SINCE);
	struct looked       now;

	*out = (struct noted){0};
	if (ctx_look(ctx, row_text(note, "PK"), sk, &now, err) != ERR_NONE)
		return err->code;
	if (after == NULL) {
		out->same = since.len > 0 && now.found &&
		            bytes_equal(row_text(&now.item, ROW_BEGUN_SINCE), since);
		return ERR_NONE;
	}
	out->lock = key_is_lock(sk) && row_i64(&after->map, "count", 1) != 0;
	out->same = now.found && streak_row_is(ctx->arena, &now.item, &after->map);
	return ERR_NONE;
}

/* It was the first to say so when it began. It is not, if the lock that it set is gone, or is another's by now. */
static enum err_code is_first(struct context *ctx, const struct reservation *r,
                              const struct assessment *stands, bool *yes, struct err *err)
{
	const struct value *notes = item_get(&r->row, BYTES("changes"));
	bool                locked = false, lock = false, count = false;
	struct noted        is;

	*yes = false;
	if (row_i64(&r->row, "first_time", 0) == 0 || notes == NULL || notes->type != VALUE_L)
		return ERR_NONE;
	for (uint32_t i = 0; i < notes->list.count; i++) {
		if (notes->list.items[i].type != VALUE_M)
			continue;
		if (note_look(ctx, &notes->list.items[i].map, &is, err) != ERR_NONE)
			return err->code;
		locked |= is.lock;
		lock |= is.lock && is.same;
		count |= !is.lock && is.same;
	}
	*yes = locked ? lock
	              : count && (stands->verdict.kind != VERDICT_ALLOW ||
	                          stands->shadow.kind != VERDICT_ALLOW);
	return ERR_NONE;
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
	                               .known_device = r->lane.open,
	                               .device_revoked = spent};
	if (spent)
		attempt_device_spent(r->q.rule, &out->verdict);
	assessment_show(&now, &r->q, &out->nearest);
	if (is_first(ctx, r, &now, &out->first_time, err) != ERR_NONE)
		return err->code;
	if (spent) /* this attempt used the device up, and nothing else says so */
		out->first_time = row_i64(&r->row, "first_time", 0) != 0;
	if (locks_announce(ctx, r, err) != ERR_NONE)
		return err->code;
	state_put(ctx, r, "failure");
	if (!out->counted)
		return ERR_NONE;
	attempt_near_limit(ctx, &r->q, &out->nearest);
	return attempt_new_source(ctx, &r->q, OUTCOME_FAILURE, err);
}

static void end_late(const struct reservation *r, const char *reason, struct attempt_result *out)
{
	out->verdict = (struct verdict){.kind = VERDICT_LAPSED, .reason = reason};
	out->counted = row_i64(&r->row, "counted", 0) != 0;
}

static enum err_code finish_success(struct context *ctx, struct reservation *r, struct attempt_result *out,
                                    struct err *err)
{
	bool reset;

	if (reset_since(ctx, r, &reset, err) != ERR_NONE)
		return err->code;
	if (reset) {
		end_late(r, "reset", out);
		return ERR_NONE;
	}
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
		end_late(r, "lapsed", out);
		return ERR_NONE;
	}
	whole = r->q;
	if (attempt_whole(ctx, &whole, &r->q, err) != ERR_NONE)
		return err->code;
	return outcome == OUTCOME_SUCCESS ? finish_success(ctx, r, out, err)
	                                  : finish_failure(ctx, r, out, err);
}
