/* Reservations: taking back what begin counted, after a success. See reservation.h, (3). */
#include "service/lock.h"
#include "service/lock_event.h"
#include "service/reservation.h"
#include "service/row.h"

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

/* ---- a source's lock that was a mistake ---- */

/* The rule's lock of that name which took the place of the count in the note. */
static enum err_code taker_look(struct undoing *u, const struct item *note, const struct rule_ref *name,
                                struct looked *out)
{
	const struct rule        *rule = u->r->q.rule;
	static const struct bytes none = {NULL, 0};
	struct lock_shape shape = counter_lock_shape(&(struct counter){.scope = SCOPE_SOURCE}, rule, false);
	struct bytes      sk = key_name(u->ctx->arena, name->journey, bytes_of(shape.type), name->name, none);

	if (ctx_look(u->ctx, row_text(note, "PK"), sk, out, u->err) != ERR_NONE)
		return u->err->code;
	out->found = out->found && !lock_is_persons(&out->item) && lock_holds(&out->item, u->ctx->now_us) &&
	             bytes_equal(row_text(&out->item, LOCK_TOOK_SINCE), row_text(note, ROW_BEGUN_SINCE));
	return ERR_NONE;
}

/* The count goes on where it was, without those that were right. */
static void count_restore(struct undoing *u, const struct item *note, const struct item *lock, int64_t count)
{
	int64_t    ends_s = row_i64(lock, LOCK_TOOK_TTL, 0);
	struct row row;

	if (count <= 0 || ends_s <= u->ctx->now_s)
		return;
	row_init(&row, u->ctx->arena);
	row_set_text(&row, "PK", row_text(note, "PK"));
	row_set_text(&row, "SK", row_text(note, "SK"));
	row_set_i64(&row, "count", count);
	row_set_i64(&row, "ttl", ends_s);
	row_set_i64(&row, "last_updated", u->ctx->now_s);
	row_set_text(&row, "history", row_text(lock, "history"));
	row_set_text(&row, ROW_BEGUN_SINCE, row_text(note, ROW_BEGUN_SINCE));
	ctx_put(u->ctx, TABLE_AUTH_STATE, row_item(&row));
}

/* One that was right is taken off a count that a lock removed: is the rest below the maximum, it locks nobody. */
static enum err_code taken_test(struct undoing *u, const struct item *note)
{
	const struct attempt   *q = &u->r->q;
	const struct rule_refs *sets = &q->rule->source_sets;
	bool                    network = bytes_equal(row_text(note, "PK"), q->network);
	int64_t                 max = network ? q->rule->max_network : q->rule->max_source;
	struct looked           lock, right;
	bool                    lifted = false;

	if (right_look(u, note, &right) != ERR_NONE)
		return u->err->code;
	for (uint32_t i = 0; i < sets->count; i++) {
		int64_t left;

		if (taker_look(u, note, &sets->list[i], &lock) != ERR_NONE)
			return u->err->code;
		left = lock.found ? row_i64(&lock.item, LOCK_TOOK_COUNT, 0) - 1 : max;
		left -= lock.found && right.found ? row_i64(&right.item, "count", 0) : 0;
		if (left >= max)
			continue;
		if (lock_withdraw(u->ctx, &lock.item, u->err) != ERR_NONE)
			return u->err->code;
		count_restore(u, note, &lock.item, left);
		lifted = true;
	}
	if (lifted && right.found)
		ctx_delete(u->ctx, TABLE_AUTH_STATE, row_key_two(u->ctx->arena, right.pk, right.sk));
	return lifted ? ERR_NONE : right_note(u, note);
}

/* A count that a lock removed when it reached its maximum, and that is back: another one in it was right, and lifted that lock. */
static bool is_back(const struct item *note, const struct looked *now)
{
	const struct value *before = item_get(note, BYTES("before"));
	struct bytes        since =
                before == NULL ? (struct bytes){NULL, 0} : row_text(&before->map, ROW_BEGUN_SINCE);

	return item_get(note, BYTES("after")) == NULL && since.len > 0 && now->found &&
	       bytes_equal(row_text(&now->item, ROW_BEGUN_SINCE), since);
}

/* (3) As it was, if it is as begin left it. */
static enum err_code row_restore(struct undoing *u, const struct item *note, const struct looked *now)
{
	struct arena       *a = u->ctx->arena;
	const struct value *before = item_get(note, BYTES("before")), *after = item_get(note, BYTES("after"));
	struct bytes        pk = row_text(note, "PK"), sk = row_text(note, "SK");
	struct item         old;
	bool                left = false;

	if (now->found != (after != NULL) || (now->found && !streak_row_is(a, &now->item, &after->map)))
		return ERR_NONE;
	if (before != NULL && row_expired(&before->map, "ttl", u->ctx->now_us))
		before = NULL;
	if (before != NULL) {
		old = before->map;
		if (right_subtract(u, &old, &left) != ERR_NONE)
			return u->err->code;
	}
	if (now->found)
		left = streak_row_back(u->ctx, &u->r->q, &now->item, left, &old);
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
	if (is_back(note, &now)) {
		count_lower(u, &now.item);
		return ERR_NONE;
	}
	if (since.len == 0)
		return row_restore(u, note, &now);
	if (now.found && bytes_equal(row_text(&now.item, ROW_BEGUN_SINCE), since))
		count_lower(u, &now.item);
	else if (!now.found && !is_own_count(u, row_text(note, "PK"), row_text(note, "SK")))
		return identifier_is(row_text(note, "PK"), IDENTIFIER_IP) ? taken_test(u, note)
		                                                          : right_note(u, note);
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
