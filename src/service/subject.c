/* Subject: one query, page by page, and what kind each row is of; resets, family by family. */
#include "service/subject.h"

#include "service/assess.h"
#include "service/row.h"
#include "service/lock.h"
#include "service/lock_event.h"
#include "service/lock_group.h"
#include "service/reservation.h"

static bool ends_with(struct bytes text, const char *end)
{
	size_t len = strlen(end);

	return text.len >= len && memcmp(text.data + text.len - len, end, len) == 0;
}

/* By the classifier type: ERROR_COUNT, REQUEST_COUNT and whatever else policies call a count end alike. */
static enum subject_row_kind kind_of(const struct key_parts *k)
{
	if (ends_with(k->type, "COUNT"))
		return ROW_COUNT;
	if (ends_with(k->type, "LOCK"))
		return ROW_LOCK;
	if (bytes_is(k->type, KEY_STATE))
		return ROW_STATE;
	if (bytes_is(k->journey, "DEVICE") && bytes_is(k->type, KEY_COOKIE))
		return ROW_DEVICE;
	return ROW_OTHER; /* DEVICE#KNOWN of the scheme before device tokens, too */
}

static void rows_add(struct subject *s, struct bytes prefix, const struct table_query_result *page,
                     int64_t now_us)
{
	for (uint32_t i = 0; i < page->count; i++) {
		struct subject_row *row = &s->rows[s->count];

		if (row_expired(&page->items[i], "ttl", now_us) ||
		    (prefix.len > 0 && !key_is_under(row_text(&page->items[i], "SK"), prefix)))
			continue;
		if (s->count == SUBJECT_ROWS_MAX) {
			s->more = true;
			return;
		}
		row->item = page->items[i];
		row->pk = row_text(&row->item, "PK");
		row->sk = row_text(&row->item, "SK");
		row->key = key_split(row->sk);
		row->kind = kind_of(&row->key);
		if (row->kind == ROW_LOCK && !lock_holds(&row->item, now_us))
			row->kind = ROW_OTHER;
		if (row->kind == ROW_OTHER)
			continue;
		s->count++;
	}
}

/* The rows of one id. */
static enum err_code rows_read(struct context *ctx, struct bytes id, struct bytes prefix, struct subject *out,
                               struct err *err)
{
	struct expr_key_condition key = row_prefix(id, prefix);
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result page;
	struct item               start;

	do {
		if (ctx_query(ctx, &q, &page, err) != ERR_NONE)
			return err->code;
		rows_add(out, prefix, &page, ctx->now_us);
		start = page.last_key;
		q.start = &start;
	} while (page.more && out->count < SUBJECT_ROWS_MAX);
	return ERR_NONE;
}

static bool is_denied(const struct subject_query *q, const struct account *found)
{
	return found->owners[0].len > 0 && user_filter_hides(&q->denied, found->owners[0]);
}

static void ids_set(struct subject *out, const struct subject_query *q, const struct account *found)
{
	out->ids[out->id_count++] = q->id;
	for (uint32_t i = 0; i < found->id_count && !is_denied(q, found); i++)
		if (!bytes_equal(found->ids[i], q->id))
			out->ids[out->id_count++] = found->ids[i];
}

enum err_code subject_read(struct context *ctx, const struct subject_query *q, struct subject *out,
                           struct err *err)
{
	struct account *found = arena_alloc(ctx->arena, sizeof(*found));
	struct bytes    prefix = q->prefix;

	while (prefix.len > 0 && prefix.data[prefix.len - 1] == '#')
		prefix.len--;
	*out = (struct subject){0};
	out->rows = arena_array(ctx->arena, SUBJECT_ROWS_MAX, sizeof(*out->rows));
	if (account_find(ctx, q->id, found, err) != ERR_NONE)
		return err->code;
	ids_set(out, q, found);
	for (uint32_t i = 0; i < out->id_count; i++)
		if (rows_read(ctx, out->ids[i], prefix, out, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

int64_t subject_counts_sum(const struct subject *s)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < s->count; i++)
		if (s->rows[i].kind == ROW_COUNT)
			sum += count_of_row(&s->rows[i].item);
	return sum;
}

/* ---- resets ---- */

/* The rows of one id. Read at once, if they are not too many: one query instead of one for each family. */
struct reset_rows {
	bool                      read;
	bool                      whole;
	struct table_query_result r;
};

struct resetting {
	struct context             *ctx;
	const struct reset_request *q;
	struct account             *who;
	struct reset_rows           rows[PERSON_IDS_MAX];
	bool                        left; /* of locks whose names left the policies, those that it ends */
	struct reset_result        *out;
	struct err                 *err;
};

/* What a person set, a person lifts. */
static bool is_kept(const struct resetting *r, const struct item *row)
{
	return !r->q->operator_locks && bytes_is(key_split(row_text(row, "SK")).type, KEY_LOCK) &&
	       lock_holds(row, r->ctx->now_us) && lock_is_persons(row);
}

/* A lock over several ids is one: it is counted at its head, unless that is not an id of this person. */
static bool is_counted(const struct resetting *r, const struct item *row)
{
	struct value_list group = lock_group_of(row);

	for (uint32_t i = 0; group.count > 0 && i < r->who->id_count; i++)
		if (bytes_equal(r->who->ids[i], value_text(&group.items[0])))
			return lock_is_head(row);
	return true;
}

static enum err_code row_clear(struct resetting *r, const struct item *row)
{
	struct bytes pk = row_text(row, "PK"), sk = row_text(row, "SK");
	bool         gone = lock_is_removed(r->ctx, pk, sk);
	uint32_t     rows = gone ? 0 : key_is_lock(sk) ? lock_remove_rows(r->ctx, row) : 1;

	if (is_kept(r, row)) {
		r->out->kept += is_counted(r, row);
		lock_failures_end(r->ctx, row);
		return ERR_NONE;
	}
	if (r->out->count + r->out->devices >= RESET_ROWS_MAX || changes_room(&r->ctx->changes) < rows) {
		r->out->more = true;
		return ERR_NONE;
	}
	r->out->cleared[r->out->count++] =
	        (struct reset_row){pk, sk, count_of_row(row) + streak_of_row(row, false)};
	if (!gone && key_is_lock(sk))
		return lock_remove(r->ctx, row, LOCK_CLEARED_BY_RESET, r->err);
	if (!gone)
		ctx_delete(r->ctx, TABLE_AUTH_STATE, row_key_two(r->ctx->arena, pk, sk));
	return ERR_NONE;
}

static bool is_streak(const struct item *row)
{
	return (row_text(row, "cause").len > 0 &&
	        bytes_is(row_text(row, "reason"), LOCK_TOO_MANY_FAILURES)) ||
	       streak_of_row(row, false) > 0 || streak_of_row(row, true) > 0;
}

bool reset_ends(const struct rules *rules, const struct reset *reset, const struct item *lock)
{
	struct key_parts key = key_split(row_text(lock, "SK"));
	struct rule_ref  ref = {key.journey, key.classifier};

	return rule_refs_have(&reset->locks, ref.journey, ref.name) ||
	       heeds_reset_left(rules, reset, &ref, is_streak(lock));
}

static enum err_code page_clear(struct resetting *r, struct bytes name, const struct table_query_result *rows)
{
	for (uint32_t i = 0; i < rows->count; i++)
		if (key_is_under(row_text(&rows->items[i], "SK"), name) &&
		    !row_expired(&rows->items[i], "ttl", r->ctx->now_us) &&
		    (!r->left || reset_ends(r->q->rules, r->q->reset, &rows->items[i])) &&
		    row_clear(r, &rows->items[i]) != ERR_NONE)
			return r->err->code;
	return ERR_NONE;
}

static enum err_code rows_look(struct resetting *r, uint32_t n)
{
	struct expr_key_condition key = row_prefix(r->who->ids[n], (struct bytes){NULL, 0});
	struct table_query        q = {.key = &key, .consistent = true, .limit = SUBJECT_ROWS_MAX};

	if (r->rows[n].read)
		return ERR_NONE;
	if (ctx_query(r->ctx, &q, &r->rows[n].r, r->err) != ERR_NONE)
		return r->err->code;
	r->rows[n].read = true;
	r->rows[n].whole = !r->rows[n].r.more;
	return ERR_NONE;
}

/* They sort before those of longer names, so that the limit never hides one. */
static enum err_code family_query(struct resetting *r, struct bytes pk, struct bytes name)
{
	struct expr_key_condition key = row_prefix(pk, name);
	struct table_query q = {.key = &key, .consistent = true, .limit = RESET_ROWS_MAX + 1 - r->out->count};
	struct table_query_result rows;
	struct item               start;

	do {
		if (ctx_query(r->ctx, &q, &rows, r->err) != ERR_NONE ||
		    page_clear(r, name, &rows) != ERR_NONE)
			return r->err->code;
		start = rows.last_key;
		q.start = &start;
	} while (rows.more && !r->out->more && key_is_under(row_text(&rows.last_key, "SK"), name));
	return ERR_NONE;
}

/* All rows of JOURNEY#TYPE#NAME, whatever the qualifier, of all ids. */
static enum err_code family_clear(struct resetting *r, const struct rule_ref *ref, struct bytes type)
{
	struct bytes name = key_name(r->ctx->arena, ref->journey, type, ref->name, (struct bytes){NULL, 0});

	for (uint32_t i = 0; i < r->who->id_count; i++) {
		if (rows_look(r, i) != ERR_NONE)
			return r->err->code;
		if ((r->rows[i].whole ? page_clear(r, name, &r->rows[i].r)
		                      : family_query(r, r->who->ids[i], name)) != ERR_NONE)
			return r->err->code;
	}
	return ERR_NONE;
}

/* The same for each ref and each type. */
static enum err_code families_clear(struct resetting *r, const struct rule_refs *refs,
                                    const char *const *types)
{
	for (uint32_t i = 0; i < refs->count; i++)
		for (size_t j = 0; types[j] != NULL; j++)
			if (family_clear(r, &refs->list[i], bytes_of(types[j])) != ERR_NONE)
				return r->err->code;
	return ERR_NONE;
}

/* Each rule of a type says what its rows are called; those of one type mostly agree. */
static enum err_code counts_clear(struct resetting *r, const struct rule_ref *ref)
{
	struct bytes done = {NULL, 0};

	for (uint32_t i = 0; i < r->q->rules->count; i++) {
		const struct rule *rule = &r->q->rules->list[i];

		if (!bytes_equal(rule->journey, ref->journey) || !bytes_equal(rule->type, ref->name) ||
		    bytes_equal(rule->classifier_type, done))
			continue;
		done = rule->classifier_type;
		if (family_clear(r, ref, done) != ERR_NONE)
			return r->err->code;
	}
	return ERR_NONE;
}

static enum err_code left_clear(struct resetting *r)
{
	static const char *const types[] = {KEY_LOCK, KEY_LOCK_LEVEL, KEY_SHADOW_LOCK, KEY_SOURCE_LOCK, NULL};
	const struct rules      *rules = r->q->rules;

	r->left = true;
	for (uint32_t i = 0; i < rules->lock_count; i++) {
		struct key_parts key = key_split(rules->locks[i].sk);
		struct rule_ref  ref = {key.journey, key.classifier};
		struct rule_refs one = {&ref, 1};

		if (heeds_reset_left(rules, r->q->reset, &ref, false) ||
		    heeds_reset_left(rules, r->q->reset, &ref, true))
			if (families_clear(r, &one, types) != ERR_NONE)
				return r->err->code;
	}
	r->left = false;
	return ERR_NONE;
}

static enum err_code rows_clear(struct resetting *r)
{
	static const char *const locks[] = {KEY_LOCK, KEY_LOCK_LEVEL, KEY_SHADOW_LOCK, NULL};
	static const char *const device_counts[] = {KEY_DEVICE_COUNT, NULL};
	static const char *const source_locks[] = {KEY_SOURCE_LOCK, NULL};
	static const char *const source_counts[] = {KEY_SOURCE_COUNT, NULL};

	if (families_clear(r, &r->q->reset->locks, locks) != ERR_NONE || left_clear(r) != ERR_NONE)
		return r->err->code;
	for (uint32_t i = 0; i < r->q->reset->counts.count; i++)
		if (counts_clear(r, &r->q->reset->counts.list[i]) != ERR_NONE)
			return r->err->code;
	if (families_clear(r, &r->q->reset->counts, device_counts) != ERR_NONE ||
	    families_clear(r, &r->q->reset->locks, source_locks) != ERR_NONE)
		return r->err->code;
	return families_clear(r, &r->q->reset->counts, source_counts);
}

/* Whose it is: the ids that were named, and all others of the person. */
static enum err_code person_find(struct resetting *r)
{
	const struct reset_request *q = r->q;
	struct bytes                ids[SUBJECTS_MAX] = {q->subject}, emails[SUBJECTS_MAX] = {{NULL, 0}};
	struct account_subjects     who = {
	            .ids = ids, .emails = emails, .count = 1 + q->other_count, .whole = true};

	for (uint32_t i = 0; i < q->other_count; i++) {
		ids[1 + i] = q->others[i];
		emails[1 + i] = q->emails == NULL ? (struct bytes){NULL, 0} : q->emails[i];
	}
	r->who = arena_zalloc(r->ctx->arena, sizeof(*r->who));
	if (!ctx_lacks(r->ctx, TABLE_USERS))
		return account_judge(r->ctx, &who, r->who, r->err);
	memcpy(r->who->ids, ids, who.count * sizeof(*ids));
	r->who->id_count = r->who->main_count = who.count;
	return ERR_NONE;
}

/* States are those of the ids that were named and of their users: so demands are met there. */
static enum err_code demands_meet(struct resetting *r)
{
	struct demand_met met;

	for (uint32_t i = 0; r->q->reset->ends_demand && i < r->who->main_count; i++) {
		if (demand_meet(r->ctx, r->who->ids[i], r->q->reset->demand, &met, r->err) != ERR_NONE)
			return r->err->code;
		r->out->met.demand_ended |= met.demand_ended;
		r->out->met.suspension_ended |= met.suspension_ended;
	}
	return ERR_NONE;
}

static enum err_code devices_forget(struct resetting *r)
{
	uint32_t count;

	for (uint32_t i = 0; !r->q->reset->keeps_devices && i < r->who->id_count; i++) {
		r->out->more = changes_room(&r->ctx->changes) < KNOWN_DEVICES_MAX;
		if (r->out->more)
			return ERR_NONE;
		if (device_forget(r->ctx, r->who->ids[i], (struct bytes){NULL, 0}, &count, r->err) !=
		    ERR_NONE)
			return r->err->code;
		r->out->devices += count;
	}
	return ERR_NONE;
}

/* ---- attempts that were begun before cannot be finished as successes any more (reservation.h, 6) ---- */

/* Whoever comes by another name of a user looks at the user's id too. */
static bool is_noted(const struct resetting *r, uint32_t i)
{
	return r->who->owners[i].len == 0 || bytes_equal(r->who->owners[i], r->who->ids[i]);
}

static void note_put(struct context *ctx, struct bytes id, const struct rule_refs *types)
{
	struct row row;

	for (uint32_t i = 0; i < types->count; i++) {
		row_init(&row, ctx->arena);
		row_set_text(&row, "PK", id);
		row_set_text(&row, "SK", key_reset(ctx->arena, &types->list[i]));
		row_set_i64(&row, ROW_RESET_US, ctx->now_us);
		row_set_i64(&row, "last_updated", ctx->now_s);
		row_set_i64(&row, "ttl", ctx->now_s + RESET_NOTE_S);
		ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
	}
}

static enum err_code reset_note(struct resetting *r)
{
	const struct rule_refs *types = &r->q->reset->counts;
	uint32_t                ids = 0;

	for (uint32_t i = 0; i < r->who->main_count; i++)
		ids += is_noted(r, i);
	if (ids > 1 && ids * types->count > RESET_NOTES_MAX)
		return err_field(
		        r->err, ERR_INVALID, "subjects",
		        "subjects: are too many: the reset names %u types for each, and one call can "
		        "note %d",
		        types->count, RESET_NOTES_MAX);
	for (uint32_t i = 0; i < r->who->main_count; i++)
		if (is_noted(r, i))
			note_put(r->ctx, r->who->ids[i], types);
	return ERR_NONE;
}

enum err_code subject_reset(struct context *ctx, const struct reset_request *q, struct reset_result *out,
                            struct err *err)
{
	struct resetting *r = arena_zalloc(ctx->arena, sizeof(*r));

	r->ctx = ctx;
	r->q = q;
	r->out = out;
	r->err = err;
	*out = (struct reset_result){0};
	if (person_find(r) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < r->who->main_count; i++)
		if (account_writable(ctx, r->who->ids[i], err) != ERR_NONE)
			return err->code;
	if (reset_note(r) != ERR_NONE || devices_forget(r) != ERR_NONE || demands_meet(r) != ERR_NONE)
		return err->code;
	return rows_clear(r);
}
