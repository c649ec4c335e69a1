/* Resets: see reset.h. */
#include "service/reset.h"

#include "service/assess.h"
#include "service/key_names.h"
#include "service/lock.h"
#include "service/row.h"

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
	if (r->out->count + r->out->devices >= RESET_ROWS_MAX || changes_room(&r->ctx->changes) == 0) {
		r->out->more = true;
		return;
	}
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

	do {
		if (ctx_query(r->ctx, &q, &rows, r->err) != ERR_NONE)
			return r->err->code;
		for (uint32_t i = 0; i < rows.count; i++)
			if (key_is_under(row_text(&rows.items[i], "SK"), name) &&
			    !row_expired(&rows.items[i], "ttl", r->ctx->now_us))
				row_clear(r, &rows.items[i]);
		q.start = &rows.last_key;
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
	if (!q->reset->keeps_devices &&
	    device_forget(ctx, q->subject, (struct bytes){NULL, 0}, &out->devices, err) != ERR_NONE)
		return err->code;
	if (q->reset->ends_demand &&
	    demand_meet(ctx, q->subject, q->reset->demand, &out->met, err) != ERR_NONE)
		return err->code;
	return rows_clear(&r);
}
