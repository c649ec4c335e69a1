/* Known devices: see device.h. */
#include "service/device.h"
#include "service/account.h"

#include "service/assess.h"
#include "service/row.h"
#include "service/reservation.h"

/* "SIGN_IN/PASSWORD_ENTRY": what maps of a device's row are keyed by. */
static struct bytes ref_text(struct arena *a, struct bytes journey, struct bytes name)
{
	return arena_printf(a, "%.*s/%.*s", BYTES_ARG(journey), BYTES_ARG(name));
}

/* ---- attributes that are maps of numbers, lists of texts. Others may have written them: what is of another type counts
 * as absent ---- */

static struct item map_of(const struct item *row, const char *name)
{
	const struct value *v = item_get(row, bytes_of(name));

	return v != NULL && v->type == VALUE_M ? v->map : (struct item){NULL, 0};
}

static int64_t map_number(const struct item *map, struct bytes name)
{
	int64_t n = value_to_i64(item_get(map, name), 0);

	return n < 0 ? 0 : n;
}

static void map_set(struct row *row, const char *attribute, struct bytes name, int64_t number)
{
	struct item  map = map_of(&row->item, attribute);
	struct value value = value_i64(number);

	if (map.count >= RULE_LIST_MAX) /* of policies long gone, for the most part */
		map = (struct item){NULL, 0};
	row_set(row, attribute,
	        (struct value){.type = VALUE_M, .map = item_with(row->arena, &map, name, &value)});
}

static struct value_list subjects_of(const struct item *row)
{
	const struct value *v = item_get(row, BYTES("subjects"));

	return v != NULL && v->type == VALUE_L ? v->list : (struct value_list){NULL, 0};
}

static bool subjects_have(const struct value_list *list, struct bytes id)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (bytes_equal(value_text(&list->items[i]), id))
			return true;
	return false;
}

/* ---- the lane ---- */

/* The id that the device of a call is known for. */
static struct bytes home_of(const struct attempt *q)
{
	return q->device_of.len > 0 ? q->device_of : q->subjects[0];
}

static struct bytes owner_of(const struct attempt *q, struct bytes id)
{
	for (uint32_t i = 0; q->owners != NULL && i < q->subject_count; i++)
		if (bytes_equal(q->subjects[i], id))
			return q->owners[i];
	return (struct bytes){NULL, 0};
}

/* The ids that a call names, and their users; the others are these users'. */
static uint32_t main_count(const struct attempt *q)
{
	return q->main_count > 0 ? q->main_count : q->subject_count;
}

/* (1) Every id of the call belongs to the owner of this device: else one could add a stranger's to one's own. */
static bool knows_subjects(const struct item *row, const struct attempt *q)
{
	struct value_list known = subjects_of(row);
	struct bytes      home = home_of(q), owner = owner_of(q, home);

	for (uint32_t i = 0; i < main_count(q); i++) {
		bool same = bytes_equal(q->subjects[i], home) ||
		            (owner.len > 0 && bytes_equal(q->owners[i], owner));

		if (!same && !subjects_have(&known, q->subjects[i]))
			return false;
	}
	return true;
}

/* (1) */
static bool known_after(const struct context *ctx, const struct item *row, const struct rule *rule)
{
	struct item after = map_of(row, "after");

	for (uint32_t i = 0; i < rule->known_after.count; i++) {
		const struct rule_ref *ref = &rule->known_after.list[i];
		int64_t since_s = map_number(&after, ref_text(ctx->arena, ref->journey, ref->name));

		if (since_s > 0 && since_s > ctx->now_s - rule->known_s)
			return true;
	}
	return false;
}

static struct bytes lanes_key(struct arena *a, struct bytes journey, struct bytes type)
{
	return key_name(a, journey, BYTES(KEY_DEVICE_COUNT), type, (struct bytes){NULL, 0});
}

/* Too many in a row close them too: over all types, and until a reset or a full sign-in (streak.h, 3). */
static enum err_code streak_closes(struct context *ctx, const struct attempt *q, bool *closed,
                                   struct err *err)
{
	const struct consecutive *c = &q->rules->consecutive;
	int64_t                   failures = 0;
	struct looked             row;

	for (uint32_t i = 0; i < main_count(q); i++) {
		if (ctx_look(ctx, q->subjects[i], c->sk, &row, err) != ERR_NONE)
			return err->code;
		failures += row.found ? streak_of_row(&row.item, true) : 0;
	}
	*closed = failures >= c->max;
	return ERR_NONE;
}

/* (4) */
static enum err_code lanes_closed(struct context *ctx, const struct attempt *q, bool *closed, struct err *err)
{
	struct bytes  sk = lanes_key(ctx->arena, q->rule->journey, q->rule->type);
	int64_t       failures = 0;
	struct looked row;

	for (uint32_t i = 0; i < q->subject_count && failures < q->rule->max_lanes; i++) {
		if (ctx_look(ctx, q->subjects[i], sk, &row, err) != ERR_NONE)
			return err->code;
		failures += row.found ? row_i64(&row.item, "count", 0) : 0;
	}
	*closed = failures >= q->rule->max_lanes;
	return *closed || !streak_counts(q->rule) ? ERR_NONE : streak_closes(ctx, q, closed, err);
}

static int64_t failures_of(struct arena *a, const struct item *row, const struct rule *rule)
{
	struct item failures = map_of(row, "failures");

	return map_number(&failures, ref_text(a, rule->journey, rule->type));
}

struct device_lane device_lane_was(struct arena *a, const struct item *row, const struct rule *rule)
{
	return (struct device_lane){.open = true, .row = *row, .failures = failures_of(a, row, rule)};
}

/* The row of the device that a call came from. */
static enum err_code row_look(struct context *ctx, const struct attempt *q, struct looked *out,
                              struct err *err)
{
	return ctx_look(ctx, home_of(q), key_device(ctx->arena, q->device), out, err);
}

enum err_code device_lane_look(struct context *ctx, const struct attempt *q, struct device_lane *out,
                               struct err *err)
{
	struct looked row;
	bool          closed = false;

	*out = (struct device_lane){0};
	if (row_look(ctx, q, &row, err) != ERR_NONE)
		return err->code;
	if (!row.found || !knows_subjects(&row.item, q) || !known_after(ctx, &row.item, q->rule))
		return ERR_NONE;
	if (lanes_closed(ctx, q, &closed, err) != ERR_NONE)
		return err->code;
	out->row = row.item;
	out->failures = failures_of(ctx->arena, &row.item, q->rule);
	out->open = !closed && out->failures < q->rule->max_device;
	return ERR_NONE;
}

static void failures_put(struct context *ctx, const struct attempt *q, const struct item *old,
                         int64_t failures)
{
	struct row row;

	row_from(&row, ctx->arena, old);
	map_set(&row, "failures", ref_text(ctx->arena, q->rule->journey, q->rule->type), failures);
	row_set_i64(&row, "last_updated", ctx->now_s);
	ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
}

bool device_lane_fail(struct context *ctx, const struct attempt *q, struct device_lane *lane)
{
	bool last;

	lane->failures += ctx_weight(ctx);
	last = lane->failures >= q->rule->max_device && !q->rule->shadow;

	if (!last || q->reservation.len > 0) {
		failures_put(ctx, q, &lane->row, lane->failures);
		return last;
	}
	ctx_delete(ctx, TABLE_AUTH_STATE,
	           row_key_two(ctx->arena, home_of(q), key_device(ctx->arena, q->device))); /* (2) */
	return true;
}

enum err_code device_forget_spent(struct context *ctx, const struct attempt *q, bool *forgotten,
                                  struct err *err)
{
	struct looked row;

	if (row_look(ctx, q, &row, err) != ERR_NONE)
		return err->code;
	*forgotten = !row.found || failures_of(ctx->arena, &row.item, q->rule) >= q->rule->max_device;
	if (row.found && *forgotten)
		ctx_delete(ctx, TABLE_AUTH_STATE, row_key_two(ctx->arena, row.pk, row.sk));
	return ERR_NONE;
}

enum err_code device_lane_take_back(struct context *ctx, const struct attempt *q, struct err *err)
{
	struct looked row;
	int64_t       failures;

	if (row_look(ctx, q, &row, err) != ERR_NONE)
		return err->code;
	failures = row.found ? failures_of(ctx->arena, &row.item, q->rule) : 0;
	if (failures > 0)
		failures_put(ctx, q, &row.item, failures - 1);
	return ERR_NONE;
}

/* ---- issuing ---- */

struct issuing {
	struct context       *ctx;
	const struct attempt *q;
	struct bytes          home; /* the id that the new token is good for */
	struct device_list    list;
	const struct item    *old; /* the device that the call came from; NULL: a stranger's */
	struct device_issued *out;
	struct err           *err;
};

static const struct item *list_find(const struct device_list *list, struct bytes sk)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (bytes_equal(row_text(&list->rows[i], "SK"), sk))
			return &list->rows[i];
	return NULL;
}

/* The other ids of the call, and those that the device was known for before, as long as there is room. */
static struct value subjects_join(const struct issuing *i)
{
	struct value_list old = i->old == NULL ? (struct value_list){NULL, 0} : subjects_of(i->old);
	struct value_list all = {arena_array(i->ctx->arena, DEVICE_SUBJECTS_MAX, sizeof(struct value)), 0};

	for (uint32_t j = 0; j < main_count(i->q) && all.count < DEVICE_SUBJECTS_MAX; j++)
		if (!bytes_equal(i->q->subjects[j], i->home))
			all.items[all.count++] = value_string(i->q->subjects[j]);
	for (uint32_t j = 0; j < old.count && all.count < DEVICE_SUBJECTS_MAX; j++)
		if (!subjects_have(&all, value_text(&old.items[j])))
			all.items[all.count++] = old.items[j];
	return (struct value){.type = VALUE_L, .list = all};
}

static void new_put(struct issuing *i)
{
	const struct rule *rule = i->q->rule;
	struct arena      *a = i->ctx->arena;
	int64_t            old_ends_s = i->old == NULL ? 0 : row_i64(i->old, "ttl", 0);
	struct value       subjects = subjects_join(i);
	struct row         row;

	i->out->expires_s = i->ctx->now_s + rule->remember_s;
	if (i->out->expires_s < old_ends_s)
		i->out->expires_s = old_ends_s;
	row_init(&row, a);
	row_set_text(&row, "PK", i->home);
	row_set_text(&row, "SK", key_device(a, i->out->name));
	if (i->old != NULL)
		row_set(&row, "after", (struct value){.type = VALUE_M, .map = map_of(i->old, "after")});
	map_set(&row, "after", ref_text(a, rule->journey, rule->type), i->ctx->now_s);
	if (subjects.list.count > 0)
		row_set(&row, "subjects", subjects);
	if (i->q->device_id.len > 0)
		row_set_text(&row, DEVICE_LINK, i->q->device_id);
	else if (i->old != NULL && row_text(i->old, DEVICE_LINK).len > 0)
		row_set_text(&row, DEVICE_LINK, row_text(i->old, DEVICE_LINK));
	row_set_i64(&row, "issued_at", i->ctx->now_s);
	row_set_i64(&row, "last_updated", i->ctx->now_s);
	row_set_i64(&row, "ttl", i->out->expires_s);
	ctx_put(i->ctx, TABLE_AUTH_STATE, row_item(&row));
}

/* (2) */
static int64_t grace_ends(const struct issuing *i)
{
	int64_t ends_s = row_i64(i->old, "ttl", 0), grace_s = i->ctx->now_s + DEVICE_GRACE_S;

	return ends_s < grace_s ? ends_s : grace_s;
}

static void old_shorten(struct issuing *i)
{
	struct row row;

	row_from(&row, i->ctx->arena, i->old);
	if (i->q->finishing != NULL &&
	    i->q->finishing->lane.open) /* device_lane_take_back's, which this replaces */
		map_set(&row, "failures", ref_text(i->ctx->arena, i->q->rule->journey, i->q->rule->type),
		        failures_of(i->ctx->arena, i->old, i->q->rule) - 1);
	row_set_i64(&row, "ttl", grace_ends(i));
	row_set_i64(&row, "replaced_at", i->ctx->now_s);
	row_set_i64(&row, "last_updated", i->ctx->now_s);
	ctx_put(i->ctx, TABLE_AUTH_STATE, row_item(&row));
}

/* One row of them. *failures: how many are still to be taken off. */
static enum err_code lane_lower(struct issuing *i, struct bytes pk, struct bytes sk, int64_t *failures)
{
	struct arena *a = i->ctx->arena;
	int64_t       count;
	struct looked old;
	struct row    row;

	if (ctx_look(i->ctx, pk, sk, &old, i->err) != ERR_NONE)
		return i->err->code;
	count = old.found ? row_i64(&old.item, "count", 0) : 0;
	if (old.found && count <= *failures) {
		ctx_delete(i->ctx, TABLE_AUTH_STATE, row_key_two(a, pk, sk));
	} else if (old.found && *failures > 0) {
		row_from(&row, a, &old.item);
		row_set_i64(&row, "count", count - *failures);
		row_set_i64(&row, "last_updated", i->ctx->now_s);
		ctx_put(i->ctx, TABLE_AUTH_STATE, row_item(&row));
	}
	*failures = count > *failures ? 0 : *failures - count;
	return ERR_NONE;
}

/* (4) of one type: as many fewer as this device failed, by whatever name. */
static enum err_code lanes_lower(struct issuing *i, struct bytes ref, int64_t failures)
{
	const char  *slash = memchr(ref.data, '/', ref.len);
	struct bytes journey = {ref.data, slash == NULL ? 0 : (size_t)(slash - ref.data)};
	struct bytes sk;

	if (slash == NULL)
		return ERR_NONE;
	sk = lanes_key(i->ctx->arena, journey, (struct bytes){slash + 1, ref.len - journey.len - 1});
	for (uint32_t j = 0; j < i->q->subject_count && failures > 0; j++)
		if (lane_lower(i, i->q->subjects[j], sk, &failures) != ERR_NONE)
			return i->err->code;
	return ERR_NONE;
}

/* The owner was there: what this device failed was hers. Once; what comes from an old token later is not. */
static enum err_code lanes_forgive(struct issuing *i)
{
	struct item failures = map_of(i->old, "failures");

	if (row_i64(i->old, "replaced_at", 0) > 0)
		return ERR_NONE;
	for (uint32_t j = 0; j < failures.count; j++)
		if (lanes_lower(i, failures.members[j].name,
		                map_number(&failures, failures.members[j].name)) != ERR_NONE)
			return i->err->code;
	return ERR_NONE;
}

/* (3) Those that expire first go first: so a token that was replaced goes before any that was not. */
static void rest_trim(struct issuing *i)
{
	bool    *gone = arena_zalloc(i->ctx->arena, i->list.count + 1);
	uint32_t kept = i->list.count;

	for (; kept + 1 > i->q->rule->remember_devices; kept--) {
		uint32_t first = i->list.count;
		int64_t  first_s = INT64_MAX;

		for (uint32_t j = 0; j < i->list.count; j++) {
			const struct item *row = &i->list.rows[j];
			int64_t ends_s = row == i->old ? grace_ends(i) : row_i64(row, "ttl", INT64_MAX);

			if (!gone[j] && ends_s < first_s) {
				first = j;
				first_s = ends_s;
			}
		}
		if (first == i->list.count)
			return;
		gone[first] = true;
		ctx_delete(i->ctx, TABLE_AUTH_STATE,
		           row_key_two(i->ctx->arena, i->home, row_text(&i->list.rows[first], "SK")));
	}
}

static enum err_code issue_note(struct issuing *i)
{
	struct arena *a = i->ctx->arena;
	struct bytes  sk = key_devices_issued(a);
	struct looked old;
	struct row    row;

	if (ctx_look(i->ctx, i->home, sk, &old, i->err) != ERR_NONE)
		return i->err->code;
	row_init(&row, a);
	row_set_text(&row, "PK", i->home);
	row_set_text(&row, "SK", sk);
	row_set_i64(&row, "count", (old.found ? row_i64(&old.item, "count", 0) : 0) + 1);
	row_set_i64(&row, "last_updated", i->ctx->now_s);
	row_set_i64(&row, "ttl", i->out->expires_s);
	ctx_put(i->ctx, TABLE_AUTH_STATE, row_item(&row));
	return ERR_NONE;
}

/* The device that the call came from: it may be known for another id of the person. */
static enum err_code old_find(struct issuing *i, struct looked *elsewhere)
{
	const struct attempt *q = i->q;

	if (q->device.len == 0)
		return ERR_NONE;
	if (bytes_equal(home_of(q), i->home)) {
		i->old = list_find(&i->list, key_device(i->ctx->arena, q->device));
		return ERR_NONE;
	}
	if (row_look(i->ctx, q, elsewhere, i->err) != ERR_NONE)
		return i->err->code;
	i->old = elsewhere->found ? &elsewhere->item : NULL;
	return ERR_NONE;
}

enum err_code device_issue(struct context *ctx, const struct attempt *q, struct device_issued *out,
                           struct err *err)
{
	struct issuing i = {.ctx = ctx, .q = q, .out = out, .err = err};
	char          *name, *token;
	struct looked  elsewhere;

	*out = (struct device_issued){0};
	if (q->rule->remember_s == 0 || q->making == NULL)
		return ERR_NONE;
	i.home = owner_of(q, q->subjects[0]).len > 0 ? owner_of(q, q->subjects[0]) : q->subjects[0];
	if (device_list(ctx, i.home, &i.list, err) != ERR_NONE || old_find(&i, &elsewhere) != ERR_NONE)
		return err->code;
	name = arena_alloc(ctx->arena, DEVICE_NAME_CHARS);
	token = arena_alloc(ctx->arena, DEVICE_TOKEN_CHARS);
	device_name(q->making->id, name);
	device_token_make(q->making->keys, q->making->id, i.home, ctx->now_s, token);
	out->name = (struct bytes){name, DEVICE_NAME_CHARS};
	out->token = (struct bytes){token, DEVICE_TOKEN_CHARS};
	out->replaced = i.old != NULL;
	new_put(&i);
	if (i.old != NULL && lanes_forgive(&i) != ERR_NONE)
		return err->code;
	if (i.old != NULL)
		old_shorten(&i);
	rest_trim(&i);
	return issue_note(&i);
}

/* ---- for people ---- */

enum err_code device_list(struct context *ctx, struct bytes subject, struct device_list *out, struct err *err)
{
	struct expr_key_condition key = row_prefix(subject, key_device(ctx->arena, (struct bytes){NULL, 0}));
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result r;
	struct item              *rows;

	*out = (struct device_list){0};
	if (ctx_query(ctx, &q, &r, err) != ERR_NONE)
		return err->code;
	rows = arena_array(ctx->arena, r.count + 1, sizeof(*rows));
	for (uint32_t i = 0; i < r.count; i++)
		if (!row_expired(&r.items[i], "ttl", ctx->now_us))
			rows[out->count++] = r.items[i];
	out->rows = rows;
	return ERR_NONE;
}

enum err_code device_forget(struct context *ctx, struct bytes subject, struct bytes name, uint32_t *count,
                            struct err *err)
{
	struct device_list list;

	*count = 0;
	if (account_writable(ctx, subject, err) != ERR_NONE ||
	    device_list(ctx, subject, &list, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < list.count; i++) {
		struct bytes sk = row_text(&list.rows[i], "SK");

		if (name.len > 0 && !bytes_equal(sk, key_device(ctx->arena, name)))
			continue;
		(*count)++;
		ctx_delete(ctx, TABLE_AUTH_STATE, row_key_two(ctx->arena, subject, sk));
	}
	return ERR_NONE;
}
