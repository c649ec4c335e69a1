/* Assess: gathers the rows that may matter, reads them in one call, and judges those that are there. Rows are
 * read by key where they can be, for hot rows are in memory; only types with qualifiers, whose rows are not known
 * beforehand, take a query. */
#include "service/assess.h"

#include "service/outage.h"
#include "service/row.h"
#include "service/reservation.h"
#include "service/lock.h"

/* A row that is to be read, and what for. */
enum want_kind { WANT_STATE, WANT_LOCK, WANT_COUNT, WANT_STREAK };

struct want {
	struct looked       row;
	enum want_kind      kind;
	struct verdict     *verdict;      /* LOCK, STREAK: what it adds to */
	const struct item **state;        /* STATE: where it is told */
	bool                only_persons; /* LOCK, STREAK */
	int64_t             until_s;      /* LOCK, STREAK: set until then */
	struct counter     *counter;      /* COUNT */
};

/* What every step needs. */
struct look {
	struct context       *ctx;
	const struct attempt *q;
	struct assessment    *out;
	struct err           *err;
	struct looked        *first, **last; /* the rows that are wanted, in the order they are judged in */
};

static const struct bytes nothing = {NULL, 0};

static struct want *want_add(struct look *l, enum want_kind kind, struct bytes pk, struct bytes sk)
{
	struct want *w = arena_alloc(l->ctx->arena, sizeof(*w));

	looked_init(&w->row, pk, sk);
	w->kind = kind;
	*l->last = &w->row;
	l->last = &w->row.next;
	return w;
}

/* ---- the user ---- */

static enum err_code account_look(const struct look *l)
{
	static const struct account nobody;
	const struct attempt       *q = l->q;
	struct account_subjects     who = {q->subjects, q->emails, q->users, q->subject_count, false};
	struct account             *account;

	l->out->account = q->account;
	if (ctx_lacks(l->ctx, TABLE_USERS)) { /* teams that use attempts alone pay nothing for users */
		l->out->account = &nobody;
		return ERR_NONE;
	}
	if (q->account == NULL) {
		l->out->account = account = arena_alloc(l->ctx->arena, sizeof(*account));
		if (account_judge(l->ctx, &who, account, l->err) != ERR_NONE)
			return l->err->code;
	}
	verdict_add(&l->out->verdict, &l->out->account->verdict);
	return ERR_NONE;
}

/* ---- the lane ---- */

static enum err_code lane_look(const struct look *l)
{
	if (l->q->finishing != NULL) { /* it ends where it began */
		l->out->lane = l->q->finishing->lane;
		return ERR_NONE;
	}
	l->out->lane = (struct device_lane){0};
	if (l->q->rule->max_device == 0 || l->q->device.len == 0)
		return ERR_NONE;
	return device_lane_look(l->ctx, l->q, &l->out->lane, l->err);
}

/* ---- counters ---- */

/* `kind` has its scope, its maxima, where it is counted, and the qualifier; `type` NULL: the rule's own. */
static void counter_add(const struct look *l, const struct counter *kind, const char *type)
{
	const struct rule *rule = l->q->rule;
	struct counter    *c = &l->out->counters[l->out->counter_count++];
	struct bytes       classifier_type = type == NULL ? rule->classifier_type : bytes_of(type);

	*c = *kind;
	c->name = key_name(l->ctx->arena, rule->journey, classifier_type, rule->type, nothing);
	c->sk = c->qualifier.len == 0
	                ? c->name
	                : key_name(l->ctx->arena, rule->journey, classifier_type, rule->type, c->qualifier);
}

static struct bytes qualifier_of(const struct attempt *q, enum rule_qualifier by)
{
	if (by == QUALIFY_NOTIFICATION)
		return q->notification_type;
	if (by == QUALIFY_METHOD)
		return q->method_id.len > 0 ? q->method_id : q->method_type;
	return nothing;
}

struct bytes attempt_qualifier(const struct attempt *q)
{
	return qualifier_of(q, q->rule->qualifier);
}

/* States are those of the ids that a call names and of their users: what is said of another address of the person is not said of these. */
static uint32_t states_of(const struct attempt *q)
{
	return q->main_count > 0 ? q->main_count : q->subject_count;
}

static void counters_choose(const struct look *l)
{
	const struct attempt *q = l->q;
	bool                  sourced = q->source.len > 0 && !q->source_allowed;

	if (l->out->lane.open) {
		counter_add(l,
		            &(struct counter){
		                    .scope = SCOPE_LANES, .pk = q->subjects[0], .max = q->rule->max_lanes},
		            KEY_DEVICE_COUNT);
		return;
	}
	if (q->rule->max > 0 || q->rule->max_each > 0)
		counter_add(l,
		            &(struct counter){.scope = SCOPE_SUBJECT,
		                              .pk = q->subjects[0],
		                              .qualifier = attempt_qualifier(q),
		                              .max = q->rule->max,
		                              .max_each = q->rule->max_each},
		            NULL);
	if (q->rule->max_pair > 0 && sourced)
		counter_add(l,
		            &(struct counter){.scope = SCOPE_PAIR,
		                              .pk = q->subjects[0],
		                              .qualifier = q->source,
		                              .max = q->rule->max_pair},
		            KEY_SOURCE_COUNT);
	if (q->rule->max_source > 0 && sourced)
		counter_add(
		        l,
		        &(struct counter){.scope = SCOPE_SOURCE, .pk = q->source, .max = q->rule->max_source},
		        NULL);
	if (q->rule->max_network > 0 && q->network.len > 0 && sourced)
		counter_add(l,
		            &(struct counter){
		                    .scope = SCOPE_SOURCE, .pk = q->network, .max = q->rule->max_network},
		            NULL);
}

/* Others may have written it: no count is negative, and none so large that a sum could overflow. */
static int64_t bounded(const struct item *item, const char *name)
{
	int64_t n = row_i64(item, name, 0);

	return n < 0 ? 0 : n > 2 * RULE_MAX_MAX ? 2 * RULE_MAX_MAX : n;
}

int64_t count_of_row(const struct item *item)
{
	return bounded(item, "count") + bounded(item, ROW_LOCKED_COUNT);
}

static int64_t shadow_count(const struct item *item, int64_t now_s)
{
	return row_i64(item, ROW_SHADOW_UNTIL, 0) > now_s ? bounded(item, ROW_SHADOW_COUNT) : 0;
}

/* Most have one row or two, and may have many. */
static void rows_reserve(struct arena *a, struct counter *c)
{
	uint32_t          room = c->row_room == 0 ? COUNTER_ROWS_FEW : 2 * c->row_room;
	struct count_row *rows = arena_array(a, room, sizeof(*rows));

	if (c->row_count > 0)
		memcpy(rows, c->rows, c->row_count * sizeof(*rows));
	if (c->own != NULL)
		c->own = &rows[c->own - c->rows];
	c->rows = rows;
	c->row_room = room;
}

/* Every row counts. Those past row_max are not kept, except the one that is counted in. */
static void row_count_in(const struct look *l, struct counter *c, struct bytes pk, struct bytes sk,
                         const struct item *item)
{
	struct count_row r = {.pk = pk, .sk = sk, .item = *item, .count = bounded(item, "count")};
	int64_t          ends_s = row_i64(item, "ttl", 0);
	bool             same_key = bytes_equal(sk, c->sk), own = same_key && bytes_equal(pk, c->pk);

	c->total += count_of_row(item);
	if (same_key)
		c->each += r.count + shadow_count(item, l->ctx->now_s);
	if (c->ends_s == 0 || (ends_s > 0 && ends_s < c->ends_s))
		c->ends_s = ends_s;
	if (c->row_count < c->row_max && c->row_count == c->row_room)
		rows_reserve(l->ctx->arena, c);
	if (c->row_count < c->row_max)
		c->rows[c->row_count++] = r;
	else if (own)
		c->rows[c->row_max - 1] = r;
	if (own)
		c->own = &c->rows[c->row_count - 1];
}

/* A method that has a rule of its own is counted there; but the row that is to be counted in always counts, also
 * if it was begun by another method with the same id. */
static bool counts_here(const struct attempt *q, const struct counter *c, struct bytes sk,
                        const struct item *item)
{
	const struct rule *rule = q->rule;
	struct bytes       method = row_text(item, "mfa_method_type");

	return rules_find(q->rules, rule->journey, rule->type, method) == rule || bytes_equal(sk, c->sk);
}

static void count_want(struct look *l, struct counter *c, struct bytes pk)
{
	want_add(l, WANT_COUNT, pk, c->sk)->counter = c;
}

static enum err_code rows_query(struct look *l, struct counter *c, struct bytes pk)
{
	struct expr_key_condition key = row_prefix(pk, c->name);
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result r;

	if (ctx_query(l->ctx, &q, &r, l->err) != ERR_NONE)
		return l->err->code;
	for (uint32_t i = 0; i < r.count; i++) {
		struct bytes sk = row_text(&r.items[i], "SK");

		if (key_is_under(sk, c->name) && !row_expired(&r.items[i], "ttl", l->ctx->now_us) &&
		    counts_here(l->q, c, sk, &r.items[i]))
			row_count_in(l, c, pk, sk, &r.items[i]);
	}
	if (!r.more)
		return ERR_NONE;
	/* Thousands of qualifiers: nobody has so many devices. It counts as full, and the row that is counted in
	 * is read by itself. */
	c->total = c->max > c->total ? c->max : c->total;
	if (c->own == NULL && bytes_equal(pk, c->pk))
		count_want(l, c, pk);
	return ERR_NONE;
}

static enum err_code counter_look(struct look *l, struct counter *c)
{
	bool     many = c->scope == SCOPE_SUBJECT && l->q->rule->qualifier != QUALIFY_NONE;
	uint32_t subjects = c->scope == SCOPE_SOURCE ? 1 : l->q->subject_count;

	c->row_max = many ? COUNTER_ROWS_MAX : subjects;
	for (uint32_t i = 0; i < subjects; i++) {
		struct bytes pk = c->scope == SCOPE_SOURCE ? c->pk : l->q->subjects[i];

		if (!many)
			count_want(l, c, pk);
		else if (rows_query(l, c, pk) != ERR_NONE)
			return l->err->code;
	}
	return ERR_NONE;
}

/* ---- locks ---- */

struct lock_shape counter_lock_shape(const struct counter *c, const struct rule *rule, bool each)
{
	switch (c->scope) {
	case SCOPE_PAIR:
		return (struct lock_shape){rule->shadow ? KEY_SHADOW_LOCK : KEY_SOURCE_LOCK, c->qualifier};
	case SCOPE_SUBJECT:
	case SCOPE_LANES: /* sets none: a full count closes them by itself */
	case SCOPE_SOURCE:
		break;
	}
	return (struct lock_shape){rule->shadow ? KEY_SHADOW_LOCK : KEY_LOCK, each ? c->qualifier : nothing};
}

const struct rule_refs *counter_sets(const struct counter *c, const struct rule *rule)
{
	return c->scope == SCOPE_SOURCE ? &rule->source_sets : &rule->sets;
}

/* What rules set since it was begun does not stop an attempt that is finished (reservation.h, 4). Of one that began though a rule
 * in shadow mode would have refused it, that is said again. */
static bool is_finished_past(const struct look *l, const struct verdict *of)
{
	return l->q->finishing != NULL && !(of == &l->out->shadow && l->q->finishing->in_shadow);
}

static void lock_judge(const struct look *l, const struct want *w)
{
	const struct item *lock = &w->row.item;
	struct verdict     locked = lock_verdict(&w->row);

	if (row_i64(lock, "count", 1) == 0 || lock_set_s(lock) > w->until_s ||
	    ((w->only_persons || is_finished_past(l, w->verdict)) && !lock_is_persons(lock)))
		return;
	verdict_add(w->verdict, &locked);
}

static struct want *lock_want(struct look *l, struct bytes pk, struct bytes sk, const struct rule_heed *h,
                              bool only_persons)
{
	struct want *w = want_add(l, WANT_LOCK, pk, sk);

	w->verdict = &l->out->verdict;
	w->only_persons = only_persons || h->only_persons;
	w->until_s = h->until_s;
	return w;
}

/* In the lane of a known device those that people set hold. */
static void subject_locks_want(struct look *l, const struct rule_heed *h, struct bytes qualifier)
{
	struct bytes sk = qualifier.len == 0 ? h->sk : key_under(l->ctx->arena, h->sk, qualifier);
	uint32_t     count = h->streak ? states_of(l->q) : l->q->subject_count; /* streak.h, 4 */

	for (uint32_t i = 0; i < count; i++) {
		struct want *w = lock_want(l, l->q->subjects[i], sk, h, l->out->lane.open);

		w->kind = h->streak ? WANT_STREAK : WANT_LOCK;
	}
}

/* Also if the source is not counted, it may have been locked before it was allowed, and people may have locked it, or the whole network, by whichever
 * name; and the lock of sources may be that of the network also if no rule counts networks by now. */
static void source_locks_want(struct look *l, const struct rule_heed *h)
{
	const struct attempt *q = l->q;
	bool                  lane = l->out->lane.open;

	if (q->source.len == 0)
		return;
	if (h->reach == REACH_SOURCE)
		lock_want(l, q->source, h->sk, h, lane || q->source_spared);
	if (h->reach == REACH_SOURCE && q->network.len > 0)
		lock_want(l, q->network, h->sk, h, lane || q->network_spared);
	if (h->reach == REACH_PAIR && !lane && !q->source_spared)
		subject_locks_want(l, h, q->source);
}

/* All that the rule heeds (heed.h), also what other rules set and what nothing counts. */
static void locks_want(struct look *l)
{
	const struct rule *rule = l->q->rule;

	for (uint32_t i = 0; i < rule->heed_count; i++) {
		const struct rule_heed *h = &rule->heeds[i];
		struct bytes            qualifier = qualifier_of(l->q, h->qualifier);

		if (h->reach == REACH_SUBJECT)
			subject_locks_want(l, h, nothing);
		else if (h->reach != REACH_QUALIFIER)
			source_locks_want(l, h);
		else if (qualifier.len > 0)
			subject_locks_want(l, h, qualifier);
	}
}

static void shadow_want(struct look *l, const struct counter *c, struct bytes pk, bool each)
{
	const struct rule_refs *sets = counter_sets(c, l->q->rule);
	struct lock_shape       shape = counter_lock_shape(c, l->q->rule, each);

	for (uint32_t i = 0; i < sets->count; i++) {
		struct bytes sk = key_name(l->ctx->arena, sets->list[i].journey, bytes_of(shape.type),
		                           sets->list[i].name, shape.qualifier);
		struct want *w = want_add(l, WANT_LOCK, pk, sk);

		w->verdict = &l->out->shadow;
		w->only_persons = false;
		w->until_s = INT64_MAX;
	}
}

/* Of a rule in shadow mode: the locks that this counter would have set. */
static void counter_shadows_want(struct look *l, const struct counter *c, struct bytes pk)
{
	if (!l->q->rule->shadow)
		return;
	shadow_want(l, c, pk, false);
	if (c->scope == SCOPE_SUBJECT && c->qualifier.len > 0)
		shadow_want(l, c, pk, true);
}

/* ---- counts that are at their maximum: where they do not lock, they bar by themselves until they expire ---- */

static bool counter_full(const struct counter *c)
{
	return (c->max > 0 && c->total >= c->max) || (c->max_each > 0 && c->each >= c->max_each);
}

/* A count that is full and has not locked was below its maximum when it was counted: that was higher, or in shadow mode, or ids were
 * counted apart. The next attempt, whatever comes of it, sets the lock (attempt.c). Until then this is what it will say. */
static enum err_code due_judge(const struct look *l, struct counter *c, struct verdict *out)
{
	const struct rule     *rule = l->q->rule;
	const struct rule_ref *name = &counter_sets(c, rule)->list[0];
	struct lock_shape      shape;
	struct lock_new        lock;
	struct verdict         due;

	if (out->kind >= VERDICT_LOCKED || l->out->due != NULL)
		return ERR_NONE; /* nothing is set while something stands */
	l->out->due_each = !(c->max > 0 && c->total >= c->max);
	shape = counter_lock_shape(c, rule, l->out->due_each);
	lock = (struct lock_new){.pk = c->pk,
	                         .others = l->q->subjects, /* whose level is the highest counts for all */
	                         .other_count = c->scope == SCOPE_SOURCE ? 0 : states_of(l->q),
	                         .journey = name->journey,
	                         .type = bytes_of(shape.type),
	                         .name = name->name,
	                         .qualifier = shape.qualifier,
	                         .kind = counter_lock_kind(c, rule)};
	if (lock_foretell(l->ctx, &lock, &due, l->err) != ERR_NONE)
		return l->err->code;
	l->out->due = c;
	verdict_add(out, &due);
	return ERR_NONE;
}

const struct lock_kind *counter_lock_kind(const struct counter *c, const struct rule *rule)
{
	return c->scope == SCOPE_PAIR || c->scope == SCOPE_SOURCE ? rule->source_lock : rule->lock;
}

bool counter_locks(const struct counter *c, const struct rule *rule)
{
	if (c->scope == SCOPE_SOURCE && rule->locks_sources)
		return true;
	return rule->at_max == AT_MAX_LOCK || (rule->at_max == AT_MAX_CHALLENGE && rule->lock_at > 0 &&
	                                       c->scope == SCOPE_SUBJECT && c->total >= rule->lock_at);
}

static enum err_code full_judge(const struct look *l, struct counter *c)
{
	const struct rule *rule = l->q->rule;
	bool               challenge = rule->at_max == AT_MAX_CHALLENGE;
	struct verdict    *to = rule->shadow ? &l->out->shadow : &l->out->verdict;
	struct verdict     out = {.kind = challenge ? VERDICT_CHALLENGE : VERDICT_SIGNED_OUT,
	                          .reason = challenge ? "challenge" : "signed_out",
	                          .pk = c->pk,
	                          .sk = c->sk,
	                          .until_s = c->ends_s};

	if (c->scope == SCOPE_LANES || !counter_full(c) || is_finished_past(l, to))
		return ERR_NONE;
	if (counter_locks(c, rule))
		return due_judge(l, c, to);
	if (rule->at_max == AT_MAX_SIGN_OUT || (challenge && !l->q->challenge_passed))
		verdict_add(to, &out);
	return ERR_NONE;
}

/* ---- risk: what the caller's own systems think of this try ---- */

/* It ends with the try, so when to come back is what a lock says, if one stands. It is judged when an attempt begins, not again when it
 * is finished. */
static void risk_judge(const struct look *l)
{
	const struct rule *rule = l->q->rule;
	struct verdict    *v = rule->shadow ? &l->out->shadow : &l->out->verdict;
	struct verdict     risk = {
	            .kind = VERDICT_ALLOW, .reason = VERDICT_REASON_RISK, .until_s = verdict_lock(v).until_s};

	if (rule->blocked_from > 0 && l->q->risk >= rule->blocked_from)
		risk.kind = VERDICT_BLOCKED;
	else if (rule->challenge_from > 0 && l->q->risk >= rule->challenge_from && !l->q->challenge_passed)
		risk.kind = VERDICT_CHALLENGE;
	if (risk.kind > v->kind && l->q->finishing == NULL)
		verdict_add(v, &risk);
}

/* ---- what is shown ---- */

static void show(int64_t count, int64_t max, int64_t ends_s, struct count_shown *shown)
{
	int64_t left = max > count ? max - count : 0;

	if (max > 0 && (shown->max == 0 || left < shown->remaining))
		*shown = (struct count_shown){count, max, left, ends_s, nothing};
}

void counter_show(const struct counter *c, struct count_shown *shown)
{
	show(c->total, c->max, c->ends_s, shown);
	show(c->each, c->max_each, c->ends_s, shown);
}

void lane_show(const struct device_lane *lane, const struct rule *rule, struct count_shown *shown)
{
	if (lane->open)
		show(lane->failures, rule->max_device, lane->failures > 0 ? row_i64(&lane->row, "ttl", 0) : 0,
		     shown);
}

void streak_show(const struct attempt *q, int64_t count, int64_t ends_s, struct count_shown *shown)
{
	const struct consecutive *c = &q->rules->consecutive;
	int64_t                   left = c->max > count ? c->max - count : 0;

	if (streak_counts(q->rule) && count > 0 && (shown->max == 0 || left <= shown->remaining))
		*shown = (struct count_shown){count, c->max, left, ends_s, c->name};
}

void assessment_show(const struct assessment *now, const struct attempt *q, struct count_shown *shown)
{
	for (uint32_t i = 0; i < now->counter_count; i++)
		counter_show(&now->counters[i], shown);
	lane_show(&now->lane, q->rule, shown);
	streak_show(q, now->streak.total, now->streak.ends_s, shown);
}

/* ---- all of it ---- */

/* Reads what is wanted, and judges what is there. */
static enum err_code wanted_judge(const struct look *l)
{
	if (ctx_look_all(l->ctx, l->first, l->err) != ERR_NONE)
		return l->err->code;
	for (struct looked *row = l->first; row != NULL; row = row->next) {
		struct want *w = (struct want *)row;

		if (w->kind == WANT_STREAK)
			streak_see(&l->out->streak, row);
		if (!row->found)
			continue;
		if (w->kind == WANT_COUNT)
			row_count_in(l, w->counter, row->pk, row->sk, &row->item);
		else if (w->kind == WANT_LOCK || w->kind == WANT_STREAK)
			lock_judge(l, w);
		else
			*w->state = &row->item;
	}
	return ERR_NONE;
}

/* What a counter counts, and the locks that it would set. */
static enum err_code counter_want(struct look *l, struct counter *c)
{
	uint32_t subjects = c->scope == SCOPE_SOURCE ? 1 : l->q->subject_count;

	if (counter_look(l, c) != ERR_NONE)
		return l->err->code;
	if (c->scope == SCOPE_LANES)
		return ERR_NONE;
	for (uint32_t i = 0; i < subjects; i++)
		counter_shadows_want(l, c, c->scope == SCOPE_SOURCE ? c->pk : l->q->subjects[i]);
	return ERR_NONE;
}

enum err_code assess(struct context *ctx, const struct attempt *q, struct assessment *out, struct err *err)
{
	struct look        l = {.ctx = ctx, .q = q, .out = out, .err = err};
	struct states_seen seen[PERSON_IDS_MAX];

	l.last = &l.first;
	out->required = (struct states_required){0};
	out->counter_count = 0;
	out->due = NULL;
	out->verdict = out->shadow = (struct verdict){0};
	if (account_look(&l) != ERR_NONE || lane_look(&l) != ERR_NONE)
		return err->code;
	out->streak = (struct streak){.lane = out->lane.open};
	counters_choose(&l);
	for (uint32_t i = 0; i < q->subject_count; i++) {
		seen[i] = (struct states_seen){
		        .subject = q->subjects[i], .verdict = &out->verdict, .required = &out->required};
		for (int row = 0; row < STATE_ROW_COUNT && i < states_of(q); row++)
			want_add(&l, WANT_STATE, q->subjects[i], state_row_key((enum state_row)row))->state =
			        &seen[i].rows[row];
	}
	locks_want(&l);
	for (uint32_t i = 0; i < out->counter_count; i++)
		if (counter_want(&l, &out->counters[i]) != ERR_NONE)
			return err->code;
	if (wanted_judge(&l) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < states_of(q); i++)
		if (states_judge(ctx, &seen[i], err) != ERR_NONE)
			return err->code;
	if (q->source_denied)
		verdict_add(&out->verdict,
		            &(struct verdict){.kind = VERDICT_BLOCKED, .reason = "source_denied"});
	for (uint32_t i = 0; i < out->counter_count; i++)
		if (full_judge(&l, &out->counters[i]) != ERR_NONE)
			return err->code;
	risk_judge(&l);
	outage_judge(ctx, q->rule->fails_closed, &out->verdict);
	return ERR_NONE;
}
