/* Reservations: see reservation.h. */
#include "service/reservation.h"

#include "json/base64.h"
#include "service/key_names.h"
#include "service/row.h"

static const char *const count_same[] = {"count", "ttl", "last_updated", NULL};
static const char *const state_same[] = {"state", NULL};

void reservation_name(struct bytes id, char name[RESERVATION_NAME_CHARS])
{
	uint8_t digest[SHA256_BYTES];

	sha256(id, digest);
	base64_url_write((struct bytes){(const char *)digest, RESERVATION_NAME_CHARS / 4 * 3}, name);
}

static struct bytes table_of(const struct changes *c)
{
	return c->tables->names[TABLE_AUTH_STATE];
}

/* ---- what begin leaves behind, for the way back ---- */

static void text_add(struct row *row, const char *name, struct bytes text)
{
	if (text.len > 0)
		row_set_text(row, name, text);
}

static struct value texts_value(struct arena *a, const struct bytes *texts, uint32_t count)
{
	struct value_list list = {arena_array(a, count, sizeof(struct value)), count};

	for (uint32_t i = 0; i < count; i++)
		list.items[i] = value_string(texts[i]);
	return (struct value){.type = VALUE_L, .list = list};
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
static enum err_code change_note(const struct table_write *w, struct table *t, struct changes *c,
                                 struct value *out, struct err *err)
{
	const struct item *key = w->kind == TABLE_PUT ? &w->item : &w->key;
	struct bytes       pk = row_text(key, "PK"), sk = row_text(key, "SK");
	struct item        before;
	struct row         row;
	bool               found;

	row_init(&row, c->arena);
	row_set_text(&row, "PK", pk);
	row_set_text(&row, "SK", sk);
	if (is_counted_in(w)) {
		row_set_text(&row, ROW_BEGUN_SINCE, row_text(&w->item, ROW_BEGUN_SINCE));
		*out = map_value(&row);
		return ERR_NONE;
	}
	if (tables_look(t, c->arena, w->table, pk, sk, &found, &before, err) != ERR_NONE)
		return err->code;
	if (found)
		row_set(&row, "before", (struct value){.type = VALUE_M, .map = before});
	if (w->kind == TABLE_PUT)
		row_set(&row, "after", (struct value){.type = VALUE_M, .map = w->item});
	*out = map_value(&row);
	return ERR_NONE;
}

static enum err_code changes_note(struct table *t, struct changes *c, struct row *row, struct err *err)
{
	struct value_list list = {arena_array(c->arena, c->count + 1, sizeof(struct value)), 0};

	for (uint32_t i = 0; i < c->count; i++)
		if (!is_lane(&c->list[i]) &&
		    change_note(&c->list[i], t, c, &list.items[list.count++], err) != ERR_NONE)
			return err->code;
	row_set(row, "changes", (struct value){.type = VALUE_L, .list = list});
	return ERR_NONE;
}

/* ---- beginning ---- */

static void request_note(const struct attempt *q, struct arena *a, struct row *row)
{
	row_set(row, "subjects", texts_value(a, q->subjects, q->subject_count));
	row_set_text(row, "journey", q->rule->journey);
	row_set_text(row, "type", q->rule->type);
	text_add(row, "method_id", q->method_id);
	text_add(row, "mfa_method_type", q->method_type);
	text_add(row, "notification_type", q->notification_type);
	text_add(row, "source", q->source);
	text_add(row, "device", q->device);
	row_set_i64(row, "source_allowed", q->source_allowed);
	row_set_i64(row, "token_sent", q->token_sent);
	row_set_i64(row, "remembers", q->remembers);
	row_set_i64(row, "policy_version", q->rules->base.version);
}

static enum err_code reservation_put(const struct attempt *q, struct table *t, struct changes *c,
                                     const struct begin_result *out, struct err *err)
{
	struct row row;

	row_init(&row, c->arena);
	row_set_text(&row, "PK", key_reservation(c->arena, q->reservation));
	row_set_text(&row, "SK", BYTES(KEY_RESERVATION));
	row_set_text(&row, "state", BYTES("begun"));
	row_set_i64(&row, "begun_at", t->now_us / 1000000);
	row_set_i64(&row, "lapses_us", out->lapses_us);
	row_set_i64(&row, "ttl", out->lapses_us / 1000000 + RESERVATION_KEEP_S);
	row_set_i64(&row, "first_time", out->attempt.first_time);
	row_set_i64(&row, "counted", out->attempt.counted);
	row_set_i64(&row, "device_forgotten", out->attempt.device_revoked);
	request_note(q, c->arena, &row);
	if (out->attempt.lane.open)
		row_set(&row, "lane", (struct value){.type = VALUE_M, .map = out->attempt.lane.row});
	if (changes_note(t, c, &row, err) != ERR_NONE)
		return err->code;
	changes_put(c, table_of(c), row_item(&row), row_absent(c->arena, "PK", "ttl", t->now_us));
	return ERR_NONE;
}

enum err_code attempt_begin(const struct attempt *q, struct bytes name, struct table *t, struct changes *c,
                            struct begin_result *out, struct err *err)
{
	struct attempt *begun = arena_alloc(c->arena, sizeof(*begun));

	*out = (struct begin_result){.lapses_us = t->now_us + q->rule->lapse_s * 1000000};
	*begun = *q;
	begun->reservation = name;
	if (attempt_record(begun, OUTCOME_FAILURE, table_of(c), t, c, &out->attempt, err) != ERR_NONE)
		return err->code;
	out->reserved = out->attempt.counted || out->attempt.verdict.kind == VERDICT_ALLOW;
	if (!out->reserved) /* (1) */
		return ERR_NONE;
	if (reservation_put(begun, t, c, out, err) != ERR_NONE)
		return err->code;
	out->locked = out->attempt.locked_now;
	out->attempt.first_time = out->attempt.device_revoked = false; /* told when it is finished */
	out->attempt.verdict = (struct verdict){0};
	return ERR_NONE;
}

/* ---- finding ---- */

static void subjects_read(const struct item *row, struct attempt *q)
{
	const struct value *v = item_get(row, BYTES("subjects"));

	for (uint32_t i = 0; v != NULL && v->type == VALUE_L && i < v->list.count && i < SUBJECTS_MAX; i++)
		q->subjects[q->subject_count++] = value_text(&v->list.items[i]);
}

static void request_read(const struct item *row, const struct rules *rules, struct attempt *q)
{
	subjects_read(row, q);
	q->rules = rules;
	q->method_id = row_text(row, "method_id");
	q->method_type = row_text(row, "mfa_method_type");
	q->notification_type = row_text(row, "notification_type");
	q->source = row_text(row, "source");
	q->device = row_text(row, "device");
	q->source_allowed = row_i64(row, "source_allowed", 0) != 0;
	q->token_sent = row_i64(row, "token_sent", 0) != 0;
	q->remembers = row_i64(row, "remembers", 0) != 0;
	q->rule = rules_find(rules, row_text(row, "journey"), row_text(row, "type"), q->method_type);
}

enum err_code reservation_find(struct bytes name, const struct rules *rules, struct table *t,
                               struct changes *c, struct reservation *out, struct err *err)
{
	const struct value *lane;
	bool                found;

	*out = (struct reservation){.name = name};
	if (tables_look(t, c->arena, table_of(c), key_reservation(c->arena, name), BYTES(KEY_RESERVATION),
	                &found, &out->row, err) != ERR_NONE)
		return err->code;
	if (found)
		request_read(&out->row, rules, &out->q);
	if (!found || out->q.subject_count == 0)
		return err_field(err, ERR_NOT_FOUND, "attempt",
		                 "attempt: unknown id, or it lapsed more than an hour ago");
	if (out->q.rule == NULL)
		return err_field(err, ERR_INVALID, "attempt",
		                 "attempt: its journey and type are no longer in the policies");
	lane = item_get(&out->row, BYTES("lane"));
	if (lane != NULL && lane->type == VALUE_M)
		out->lane = device_lane_was(c->arena, &lane->map, out->q.rule);
	return ERR_NONE;
}

/* ---- taking back ---- */

struct undoing {
	struct reservation *r;
	bool                clears_own;
	struct table       *t;
	struct changes     *changes;
	struct err         *err;
};

static enum err_code row_look(const struct undoing *u, struct bytes pk, struct bytes sk, bool *found,
                              struct item *row)
{
	return tables_look(u->t, u->changes->arena, table_of(u->changes), pk, sk, found, row, u->err);
}

/* One less, or none. What a lock of one method moved aside is lowered if the count itself is 0. */
static void count_lower(struct undoing *u, const struct item *old)
{
	struct arena      *a = u->changes->arena;
	int64_t            count = row_i64(old, "count", 0), aside = row_i64(old, ROW_LOCKED_COUNT, 0);
	const struct expr *same = row_same(a, old, count_same);
	struct row         row;

	if (count + aside <= 1) {
		changes_delete(u->changes, table_of(u->changes),
		               row_key_two(a, row_text(old, "PK"), row_text(old, "SK")), same);
		return;
	}
	row_from(&row, a, old);
	row_set_i64(&row, count > 0 ? "count" : ROW_LOCKED_COUNT, (count > 0 ? count : aside) - 1);
	row_set_i64(&row, "last_updated", u->t->now_us / 1000000);
	changes_put(u->changes, table_of(u->changes), row_item(&row), same);
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

/* ---- counts that a lock removed: who was in them and was right is noted for whoever puts them back ---- */

static struct bytes right_key(const struct undoing *u, struct bytes pk, struct bytes sk)
{
	return arena_printf(u->changes->arena, KEY_RIGHT_SINCE "#%.*s#%.*s", BYTES_ARG(pk), BYTES_ARG(sk));
}

static enum err_code right_look(const struct undoing *u, const struct item *count, bool *found,
                                struct item *row)
{
	return row_look(u, key_reservation(u->changes->arena, row_text(count, ROW_BEGUN_SINCE)),
	                right_key(u, row_text(count, "PK"), row_text(count, "SK")), found, row);
}

static enum err_code right_note(struct undoing *u, const struct item *note)
{
	struct arena *a = u->changes->arena;
	struct item   old;
	struct row    row;
	bool          found;

	if (right_look(u, note, &found, &old) != ERR_NONE)
		return u->err->code;
	row_init(&row, a);
	row_set_text(&row, "PK", key_reservation(a, row_text(note, ROW_BEGUN_SINCE)));
	row_set_text(&row, "SK", right_key(u, row_text(note, "PK"), row_text(note, "SK")));
	row_set_i64(&row, "count", (found ? row_i64(&old, "count", 0) : 0) + 1);
	row_set_i64(&row, "ttl", u->t->now_us / 1000000 + LAPSE_MAX_S);
	changes_put(u->changes, table_of(u->changes), row_item(&row),
	            found ? row_same(a, &old, count_same) : row_absent(a, "PK", "ttl", u->t->now_us));
	return ERR_NONE;
}

/* A count as it was, without those in it that were right since. False: none is left. */
static enum err_code right_subtract(const struct undoing *u, struct item *count, bool *left)
{
	struct item right;
	struct row  row;
	bool        found = false;
	int64_t     n = row_i64(count, "count", 0);

	if (row_text(count, ROW_BEGUN_SINCE).len > 0 && right_look(u, count, &found, &right) != ERR_NONE)
		return u->err->code;
	*left = true;
	if (!found)
		return ERR_NONE;
	n -= row_i64(&right, "count", 0);
	*left = n > 0 || row_i64(count, ROW_LOCKED_COUNT, 0) > 0;
	row_from(&row, u->changes->arena, count);
	row_set_i64(&row, "count", n > 0 ? n : 0);
	*count = row_item(&row);
	return ERR_NONE;
}

/* (3) As it was, if it is as begin left it. */
static enum err_code row_restore(struct undoing *u, const struct item *note, bool found,
                                 const struct item *now)
{
	struct arena       *a = u->changes->arena;
	const struct value *before = item_get(note, BYTES("before")), *after = item_get(note, BYTES("after"));
	struct bytes        pk = row_text(note, "PK"), sk = row_text(note, "SK");
	const struct expr  *same =
                found ? row_same(a, now, count_same) : row_absent(a, "PK", "ttl", u->t->now_us);

	struct item old;
	bool        left = false;

	if (found != (after != NULL) || (found && !item_equal(now, &after->map)))
		return ERR_NONE;
	if (before != NULL && row_expired(&before->map, "ttl", u->t->now_us))
		before = NULL;
	if (before != NULL) {
		old = before->map;
		if (right_subtract(u, &old, &left) != ERR_NONE)
			return u->err->code;
	}
	if (is_own_count(u, pk, sk)) {
		if (before != NULL && !found)
			u->r->removed[u->r->removed_count++] =
			        (struct cleared){pk, sk, row_i64(&before->map, "count", 0)};
	} else if (left) {
		changes_put(u->changes, table_of(u->changes), old, same);
	} else if (found) {
		changes_delete(u->changes, table_of(u->changes), row_key_two(a, pk, sk), same);
	}
	return ERR_NONE;
}

static enum err_code change_undo(struct undoing *u, const struct item *note)
{
	struct bytes since = row_text(note, ROW_BEGUN_SINCE);
	struct item  now;
	bool         found;

	if (row_look(u, row_text(note, "PK"), row_text(note, "SK"), &found, &now) != ERR_NONE)
		return u->err->code;
	if (since.len == 0)
		return row_restore(u, note, found, &now);
	if (found && bytes_equal(row_text(&now, ROW_BEGUN_SINCE), since))
		count_lower(u, &now);
	else if (!found && !is_own_count(u, row_text(note, "PK"), row_text(note, "SK")))
		return right_note(u, note);
	return ERR_NONE;
}

enum err_code reservation_take_back(struct reservation *r, bool clears_own, struct table *t,
                                    struct changes *c, struct err *err)
{
	struct undoing      u = {r, clears_own, t, c, err};
	struct device_store devices = {table_of(c), t, c->arena, err};
	const struct value *notes = item_get(&r->row, BYTES("changes"));
	uint32_t            count = notes != NULL && notes->type == VALUE_L ? notes->list.count : 0;

	r->removed = arena_array(c->arena, count + 1, sizeof(*r->removed));
	r->removed_count = 0;
	for (uint32_t i = 0; i < count; i++)
		if (notes->list.items[i].type == VALUE_M &&
		    change_undo(&u, &notes->list.items[i].map) != ERR_NONE)
			return err->code;
	return r->lane.open ? device_lane_take_back(&devices, &r->q, c) : ERR_NONE;
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

static void state_put(const struct reservation *r, const char *state, struct changes *c)
{
	struct row row;

	row_from(&row, c->arena, &r->row);
	row_set_text(&row, "state", bytes_of(state));
	row_remove(&row, "changes");
	row_remove(&row, "lane");
	changes_put(c, table_of(c), row_item(&row), row_same(c->arena, &r->row, state_same));
}

/* (2) It was counted when it began; what is told is how things stand now. */
static enum err_code finish_failure(struct reservation *r, struct table *t, struct changes *c,
                                    struct attempt_result *out, struct err *err)
{
	struct device_store devices = {table_of(c), t, c->arena, err};
	bool                spent = row_i64(&r->row, "device_forgotten", 0) != 0;
	struct assessment   now;

	if (spent && device_forget_spent(&devices, &r->q, c, &spent) != ERR_NONE)
		return err->code;
	if (assess(&r->q, table_of(c), t, c->arena, &now, err) != ERR_NONE)
		return err->code;
	*out = (struct attempt_result){.verdict = now.verdict,
	                               .shadow = now.shadow,
	                               .required = now.required,
	                               .counted = row_i64(&r->row, "counted", 0) != 0,
	                               .first_time = row_i64(&r->row, "first_time", 0) != 0,
	                               .known_device = r->lane.open,
	                               .device_revoked = spent};
	assessment_show(&now, r->q.rule, &out->nearest);
	state_put(r, "failure", c);
	return ERR_NONE;
}

static enum err_code finish_success(struct reservation *r, struct table *t, struct changes *c,
                                    struct attempt_result *out, struct err *err)
{
	r->q.finishing = r;
	if (attempt_record(&r->q, OUTCOME_SUCCESS, table_of(c), t, c, out, err) != ERR_NONE)
		return err->code;
	if (out->verdict.kind == VERDICT_ALLOW)
		state_put(r, "success", c);
	return ERR_NONE;
}

enum err_code attempt_finish(struct reservation *r, enum outcome outcome, struct table *t, struct changes *c,
                             struct attempt_result *out, struct err *err)
{
	struct bytes state = row_text(&r->row, "state");

	*out = (struct attempt_result){0};
	if (!bytes_is(state, "begun"))
		return err_field(err, ERR_FINISHED, "attempt", "attempt: already finished, as a %.*s",
		                 BYTES_ARG(state)); /* (5) */
	if (t->now_us >= row_i64(&r->row, "lapses_us", 0)) {
		out->verdict = (struct verdict){.kind = VERDICT_LAPSED, .reason = "lapsed"};
		out->counted = row_i64(&r->row, "counted", 0) != 0;
		return ERR_NONE;
	}
	return outcome == OUTCOME_SUCCESS ? finish_success(r, t, c, out, err)
	                                  : finish_failure(r, t, c, out, err);
}
