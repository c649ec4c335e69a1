/* Subject: one query, page by page, and what kind each row is of; resets, family by family. */
#include "service/subject.h"
#include "service/account.h"

#include "service/assess.h"
#include "service/row.h"
#include "service/lock.h"
#include "service/lock_event.h"

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

enum err_code subject_read(struct context *ctx, struct bytes id, struct bytes prefix, struct subject *out,
                           struct err *err)
{
	struct expr_key_condition key;
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result page;
	struct item               start;

	while (prefix.len > 0 && prefix.data[prefix.len - 1] == '#')
		prefix.len--;
	key = row_prefix(id, prefix);
	*out = (struct subject){.id = id};
	out->rows = arena_array(ctx->arena, SUBJECT_ROWS_MAX, sizeof(*out->rows));
	do {
		if (ctx_query(ctx, &q, &page, err) != ERR_NONE)
			return err->code;
		rows_add(out, prefix, &page, ctx->now_us);
		start = page.last_key;
		q.start = &start;
	} while (page.more && out->count < SUBJECT_ROWS_MAX);
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

struct resetting {
	struct context             *ctx;
	const struct reset_request *q;
	struct reset_result        *out;
	struct err                 *err;
};

/* What a person set, a person lifts. */
static bool is_kept(const struct resetting *r, const struct item *row)
{
	return !r->q->operator_locks && bytes_is(key_split(row_text(row, "SK")).type, KEY_LOCK) &&
	       lock_holds(row, r->ctx->now_us) && lock_is_persons(row);
}

static void row_clear(struct resetting *r, const struct item *row)
{
	struct arena *a = r->ctx->arena;
	struct bytes  sk = row_text(row, "SK");

	if (is_kept(r, row)) {
		r->out->kept++;
		return;
	}
	if (r->out->count + r->out->devices >= RESET_ROWS_MAX ||
	    changes_room(&r->ctx->changes) < 1 + lock_changed_rows(r->ctx, row)) {
		r->out->more = true;
		return;
	}
	lock_changed(r->ctx, row, NULL, LOCK_CLEARED_BY_RESET);
	r->out->cleared[r->out->count++] = (struct reset_row){sk, count_of_row(row)};
	ctx_delete(r->ctx, TABLE_AUTH_STATE, row_key_two(a, r->q->subject, sk));
}

/* All rows of JOURNEY#TYPE#NAME, whatever the qualifier. They sort before those of longer names, so that the
 * limit never hides one. */
static enum err_code family_clear(struct resetting *r, const struct rule_ref *ref, struct bytes type)
{
	struct bytes name = key_name(r->ctx->arena, ref->journey, type, ref->name, (struct bytes){NULL, 0});
	struct expr_key_condition key = row_prefix(r->q->subject, name);
	struct table_query q = {.key = &key, .consistent = true, .limit = RESET_ROWS_MAX + 1 - r->out->count};
	struct table_query_result rows;
	struct item               start;

	do {
		if (ctx_query(r->ctx, &q, &rows, r->err) != ERR_NONE)
			return r->err->code;
		for (uint32_t i = 0; i < rows.count; i++)
			if (key_is_under(row_text(&rows.items[i], "SK"), name) &&
			    !row_expired(&rows.items[i], "ttl", r->ctx->now_us))
				row_clear(r, &rows.items[i]);
		start = rows.last_key;
		q.start = &start;
	} while (rows.more && !r->out->more && key_is_under(row_text(&rows.last_key, "SK"), name));
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

static enum err_code rows_clear(struct resetting *r)
{
	static const char *const locks[] = {KEY_LOCK, KEY_LOCK_LEVEL, KEY_SHADOW_LOCK, NULL};
	static const char *const device_counts[] = {KEY_DEVICE_COUNT, NULL};
	static const char *const source_locks[] = {KEY_SOURCE_LOCK, NULL};
	static const char *const source_counts[] = {KEY_SOURCE_COUNT, NULL};

	if (families_clear(r, &r->q->reset->locks, locks) != ERR_NONE)
		return r->err->code;
	for (uint32_t i = 0; i < r->q->reset->counts.count; i++)
		if (counts_clear(r, &r->q->reset->counts.list[i]) != ERR_NONE)
			return r->err->code;
	if (families_clear(r, &r->q->reset->counts, device_counts) != ERR_NONE ||
	    families_clear(r, &r->q->reset->locks, source_locks) != ERR_NONE)
		return r->err->code;
	return families_clear(r, &r->q->reset->counts, source_counts);
}

enum err_code subject_reset(struct context *ctx, const struct reset_request *q, struct reset_result *out,
                            struct err *err)
{
	struct resetting r = {ctx, q, out, err};

	*out = (struct reset_result){0};
	if (account_writable(ctx, q->subject, err) != ERR_NONE)
		return err->code;
	if (!q->reset->keeps_devices &&
	    device_forget(ctx, q->subject, (struct bytes){NULL, 0}, &out->devices, err) != ERR_NONE)
		return err->code;
	if (q->reset->ends_demand &&
	    demand_meet(ctx, q->subject, q->reset->demand, &out->met, err) != ERR_NONE)
		return err->code;
	return rows_clear(&r);
}
