/* States: see state.h. */
#include "service/state.h"
#include "service/account.h"

#include "service/event.h"
#include "service/row.h"

struct flag_row {
	const char *name, *key, *block_type;
};

static const struct flag_row flags[INTERVENTION_COUNT] = {
#define X(id, name, key, block_type) [id] = {name, key, block_type},
        INTERVENTIONS(X)
#undef X
};

struct fraud_row {
	const char *key, *state;
};

static const struct fraud_row frauds[EMAIL_FRAUD_STATE_COUNT] = {
        [EMAIL_FRAUD_PENDING] = {"PENDING", "FRAUD_PENDING"},
        [EMAIL_FRAUD_ALLOW] = {"ALLOWED", "FRAUD_ALLOWED"},
        [EMAIL_FRAUD_DENY] = {"BLOCKED", "FRAUD_BLOCKED"},
};

const char *const email_fraud_names[EMAIL_FRAUD_STATE_COUNT + 1] = {"PENDING", "ALLOW", "DENY", NULL};
const char *const state_family_names[] = {"intervention", "email_fraud", NULL};

const char *intervention_name(enum intervention_flag flag)
{
	return flags[flag].name;
}

/* ---- what is told ---- */

struct state_change {
	struct bytes      subject;
	enum state_family family;
	const char       *set[STATES_MAX], *cleared[STATES_MAX];
	int               set_count, cleared_count;
	int64_t           until_s; /* 0: it does not end by itself */
};

static struct value names_value(struct arena *a, const char *const *names, int count)
{
	struct value v = {.type = VALUE_L,
	                  .list = {arena_array(a, (size_t)count, sizeof(struct value)), (uint32_t)count}};

	for (int i = 0; i < count; i++)
		v.list.items[i] = value_string(bytes_of(names[i]));
	return v;
}

static void state_publish(struct context *ctx, const struct state_change *c)
{
	struct event e = {.type = EVENT_STATE_CHANGED, .subject = c->subject};
	struct row   data;

	if (!ctx_publishes(ctx, e.type) || c->set_count + c->cleared_count == 0)
		return;
	row_init(&data, ctx->arena);
	row_set_text(&data, "family", bytes_of(state_family_names[c->family]));
	if (c->set_count > 0)
		row_set(&data, "set", names_value(ctx->arena, c->set, c->set_count));
	if (c->cleared_count > 0)
		row_set(&data, "cleared", names_value(ctx->arena, c->cleared, c->cleared_count));
	if (c->until_s > 0)
		row_set_text(&data, "until", event_seconds_text(ctx->arena, c->until_s));
	e.data = row_item(&data);
	ctx_publish(ctx, &e);
}

/* ---- interventions ---- */

struct applying {
	struct context             *ctx;
	const struct intervention  *q;
	struct intervention_result *out;
	struct err                 *err;
	struct looked               rows[INTERVENTION_COUNT]; /* as they were */
};

static struct bytes flag_key(struct arena *a, unsigned flag)
{
	return key_state(a, KEY_INTERVENTION, flags[flag].key);
}

/* (1) */
static enum err_code latest_advance(struct applying *p)
{
	struct arena *a = p->ctx->arena;
	struct bytes  sk = key_applied(a);
	struct looked old;
	struct row    row;

	if (ctx_look(p->ctx, p->q->subject, sk, &old, p->err) != ERR_NONE)
		return p->err->code;
	p->out->latest_s = old.found ? row_i64(&old.item, "applied_at", 0) : 0;
	p->out->applied = p->q->applied_s >= p->out->latest_s;
	if (!p->out->applied)
		return ERR_NONE;
	p->out->latest_s = p->q->applied_s;
	row_init(&row, a);
	row_set_text(&row, "PK", p->q->subject);
	row_set_text(&row, "SK", sk);
	row_set_i64(&row, "applied_at", p->q->applied_s);
	row_set_i64(&row, "last_updated", p->ctx->now_s);
	ctx_put(p->ctx, TABLE_AUTH_STATE, row_item(&row));
	return ERR_NONE;
}

/* ---- demands, and what met them ---- */

/* What a demand is called in the row that says when it was last met. */
static const char *const met_names[INTERVENTION_COUNT] = {
        [INTERVENTION_REPROVE] = "IDENTITY",
        [INTERVENTION_RESET] = "PASSWORD",
};

static const enum intervention_flag demands[] = {INTERVENTION_RESET, INTERVENTION_REPROVE};

enum { DEMAND_COUNT = sizeof(demands) / sizeof(demands[0]) };

/* A row without a time, which somebody else wrote, is never void. */
static int64_t applied_at(const struct item *row)
{
	return row_i64(row, "applied_at", INT64_MAX);
}

/* (2) Was it met later than that? Or did meeting it end a demand that was applied then? The clock of whoever
 * intervenes may be ahead of ours. */
struct demand {
	struct bytes           subject;
	enum intervention_flag flag;
	int64_t                applied_s;
};

static enum err_code met_since(struct context *ctx, const struct demand *d, bool *yes, struct err *err)
{
	struct looked met;
	enum err_code rc =
	        ctx_look(ctx, d->subject, key_demand_met(ctx->arena, met_names[d->flag]), &met, err);

	if (rc != ERR_NONE)
		return rc;
	*yes = met.found && d->applied_s != INT64_MAX &&
	       (row_i64(&met.item, "reset_at", 0) > d->applied_s ||
	        row_i64(&met.item, "demand_applied_at", -1) >= d->applied_s);
	return ERR_NONE;
}

/* Notes when it was met, and which demand that ended; the latest of both counts. */
static enum err_code met_note(struct context *ctx, struct bytes subject, enum intervention_flag demand,
                              const struct looked *ended, struct err *err)
{
	struct bytes  sk = key_demand_met(ctx->arena, met_names[demand]);
	int64_t       now_s = ctx->now_s, applied_s;
	struct looked old;
	struct row    row;

	if (ctx_look(ctx, subject, sk, &old, err) != ERR_NONE)
		return err->code;
	applied_s = old.found ? row_i64(&old.item, "demand_applied_at", 0) : 0;
	if (ended->found && applied_at(&ended->item) != INT64_MAX && applied_at(&ended->item) > applied_s)
		applied_s = applied_at(&ended->item);
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", subject);
	row_set_text(&row, "SK", sk);
	row_set_i64(&row, "reset_at", now_s);
	row_set_i64(&row, "last_updated", now_s);
	if (applied_s > 0)
		row_set_i64(&row, "demand_applied_at", applied_s);
	ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
	return ERR_NONE;
}

struct demand_rows {
	struct looked demand, other, suspension;
};

/* (3) */
static bool suspension_ends(const struct demand_rows *r)
{
	int64_t applied_s = r->demand.found ? applied_at(&r->demand.item) : INT64_MAX;

	return r->suspension.found && applied_s != INT64_MAX &&
	       applied_at(&r->suspension.item) == applied_s &&
	       !(r->other.found && applied_at(&r->other.item) == applied_s);
}

static void state_delete(struct context *ctx, const struct looked *row)
{

	ctx_delete(ctx, TABLE_AUTH_STATE, row_key_two(ctx->arena, row->pk, row->sk));
}

enum err_code demand_meet(struct context *ctx, struct bytes subject, enum intervention_flag demand,
                          struct demand_met *out, struct err *err)
{
	enum intervention_flag other =
	        demand == INTERVENTION_RESET ? INTERVENTION_REPROVE : INTERVENTION_RESET;
	struct state_change told = {.subject = subject, .family = FAMILY_INTERVENTION};
	struct arena       *a = ctx->arena;
	struct demand_rows  r;

	if (ctx_look(ctx, subject, flag_key(a, demand), &r.demand, err) != ERR_NONE ||
	    ctx_look(ctx, subject, flag_key(a, other), &r.other, err) != ERR_NONE ||
	    ctx_look(ctx, subject, flag_key(a, INTERVENTION_SUSPENDED), &r.suspension, err) != ERR_NONE)
		return err->code;
	out->demand_ended = r.demand.found;
	out->suspension_ended = suspension_ends(&r);
	if (r.demand.found) {
		state_delete(ctx, &r.demand);
		told.cleared[told.cleared_count++] = flags[demand].name;
	}
	if (out->suspension_ended) {
		state_delete(ctx, &r.suspension);
		told.cleared[told.cleared_count++] = flags[INTERVENTION_SUSPENDED].name;
	}
	state_publish(ctx, &told);
	return met_note(ctx, subject, demand, &r.demand, err);
}

/* ---- applying ---- */

static void flag_put(struct applying *p, unsigned flag, int64_t applied_s)
{
	struct row row;

	row_init(&row, p->ctx->arena);
	row_set_text(&row, "PK", p->q->subject);
	row_set_text(&row, "SK", flag_key(p->ctx->arena, flag));
	row_set_i64(&row, "count", 1);
	row_set_i64(&row, "last_updated", p->ctx->now_s);
	row_set_i64(&row, "applied_at", applied_s);
	row_set_text(&row, "intervention_state", bytes_of(flags[flag].key));
	if (flags[flag].block_type[0] != '\0')
		row_set_text(&row, "block_type", bytes_of(flags[flag].block_type));
	ctx_put(p->ctx, TABLE_AUTH_STATE, row_item(&row));
	p->out->flags[flag] = true;
}

static void flag_remove(struct applying *p, unsigned flag)
{
	ctx_delete(p->ctx, TABLE_AUTH_STATE,
	           row_key_two(p->ctx->arena, p->q->subject, flag_key(p->ctx->arena, flag)));
	p->out->flags[flag] = false;
}

static void flag_apply(struct applying *p, unsigned flag)
{
	if (p->q->flags[flag] == FLAG_ON && !p->out->is_void[flag])
		flag_put(p, flag, p->q->applied_s);
	else if (p->q->flags[flag] != FLAG_AS_IT_IS)
		flag_remove(p, flag);
}

static enum err_code demand_apply(struct applying *p, enum intervention_flag demand)
{
	struct demand made = {p->q->subject, demand, p->q->applied_s};

	if (p->q->flags[demand] == FLAG_ON &&
	    met_since(p->ctx, &made, &p->out->is_void[demand], p->err) != ERR_NONE)
		return p->err->code;
	flag_apply(p, demand);
	return ERR_NONE;
}

/* Did a suspension of that time come with this demand, as it was or as it is from now on? */
static bool comes_with(const struct applying *p, enum intervention_flag demand, int64_t suspended_s)
{
	bool was = p->rows[demand].found && applied_at(&p->rows[demand].item) == suspended_s;

	if (p->q->flags[demand] == FLAG_OFF)
		return false;
	return was || (p->q->flags[demand] == FLAG_ON && p->q->applied_s == suspended_s);
}

/* (3) A demand that is made again takes its suspension along: they keep the same time. */
static void suspension_apply(struct applying *p)
{
	bool    set = p->q->flags[INTERVENTION_SUSPENDED] == FLAG_ON, met = false, open = false;
	int64_t was_s = set ? p->q->applied_s : applied_at(&p->rows[INTERVENTION_SUSPENDED].item),
	        is_s = was_s;

	for (int i = 0; i < DEMAND_COUNT; i++) {
		if (!comes_with(p, demands[i], was_s))
			continue;
		met |= p->out->is_void[demands[i]];
		open |= !p->out->is_void[demands[i]];
		if (p->q->flags[demands[i]] == FLAG_ON && !p->out->is_void[demands[i]])
			is_s = p->q->applied_s;
	}
	p->out->is_void[INTERVENTION_SUSPENDED] = met && !open;
	if (met && !open)
		flag_remove(p, INTERVENTION_SUSPENDED);
	else if (set || is_s != was_s)
		flag_put(p, INTERVENTION_SUSPENDED, is_s);
}

static enum err_code rows_look(struct applying *p)
{
	for (unsigned i = 0; i < INTERVENTION_COUNT; i++) {
		if (ctx_look(p->ctx, p->q->subject, flag_key(p->ctx->arena, i), &p->rows[i], p->err) !=
		    ERR_NONE)
			return p->err->code;
		p->out->flags[i] = p->rows[i].found;
	}
	return ERR_NONE;
}

static enum err_code flags_apply(struct applying *p)
{
	for (int i = 0; i < DEMAND_COUNT; i++)
		if (demand_apply(p, demands[i]) != ERR_NONE)
			return p->err->code;
	flag_apply(p, INTERVENTION_BLOCKED);
	if (p->q->flags[INTERVENTION_SUSPENDED] == FLAG_OFF)
		flag_remove(p, INTERVENTION_SUSPENDED);
	else if (p->q->flags[INTERVENTION_SUSPENDED] == FLAG_ON || p->rows[INTERVENTION_SUSPENDED].found)
		suspension_apply(p);
	return ERR_NONE;
}

/* What was asked for and is so now, and what is no longer. */
static void flags_publish(struct applying *p)
{
	struct state_change told = {.subject = p->q->subject, .family = FAMILY_INTERVENTION};

	for (unsigned i = 0; i < INTERVENTION_COUNT; i++)
		if (p->out->flags[i] && p->q->flags[i] == FLAG_ON)
			told.set[told.set_count++] = flags[i].name;
		else if (!p->out->flags[i] && p->rows[i].found)
			told.cleared[told.cleared_count++] = flags[i].name;
	state_publish(p->ctx, &told);
}

enum err_code intervention_apply(struct context *ctx, const struct intervention *q,
                                 struct intervention_result *out, struct err *err)
{
	struct applying p = {.ctx = ctx, .q = q, .out = out, .err = err};

	*out = (struct intervention_result){0};
	if (account_writable(ctx, q->subject, err) != ERR_NONE || latest_advance(&p) != ERR_NONE ||
	    rows_look(&p) != ERR_NONE)
		return err->code;
	if (!out->applied)
		return ERR_NONE;
	if (flags_apply(&p) != ERR_NONE)
		return err->code;
	flags_publish(&p);
	return ERR_NONE;
}

/* ---- email fraud ---- */

/* Without reading what was there, so that of two at once one wins whole (4). */
enum err_code email_fraud_set(struct context *ctx, const struct email_fraud_new *q, int64_t *until_s,
                              struct err *err)
{
	enum email_fraud    state = q->state;
	struct bytes        subject = q->subject;
	struct state_change told = {.subject = subject,
	                            .family = FAMILY_EMAIL_FRAUD,
	                            .set = {email_fraud_names[state]},
	                            .set_count = 1};
	struct row          row;

	*until_s = state == EMAIL_FRAUD_DENY ? ctx->now_s + q->duration_s : 0;
	if (account_writable(ctx, subject, err) != ERR_NONE)
		return err->code;
	for (int i = 0; i < EMAIL_FRAUD_STATE_COUNT; i++)
		if (i != (int)state)
			ctx_delete(ctx, TABLE_AUTH_STATE,
			           row_key_two(ctx->arena, subject,
			                       key_state(ctx->arena, KEY_EMAIL_FRAUD, frauds[i].key)));
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", subject);
	row_set_text(&row, "SK", key_state(ctx->arena, KEY_EMAIL_FRAUD, frauds[state].key));
	row_set_i64(&row, "count", 1);
	row_set_i64(&row, "last_updated", ctx->now_s);
	row_set_text(&row, "intervention_state", bytes_of(frauds[state].state));
	if (*until_s > 0) {
		row_set_text(&row, "block_type", BYTES("STANDARD"));
		row_set_i64(&row, "block_duration", q->duration_s);
		row_set_i64(&row, "ttl", *until_s);
	}
	ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
	told.until_s = *until_s;
	state_publish(ctx, &told);
	return ERR_NONE;
}

/* ---- clearing ---- */

enum err_code states_clear(struct context *ctx, struct bytes subject, enum state_family family,
                           struct states_cleared *out, struct err *err)
{
	struct state_change told = {.subject = subject, .family = family};
	bool                fraud = family == FAMILY_EMAIL_FRAUD;
	unsigned            states = fraud ? (unsigned)EMAIL_FRAUD_STATE_COUNT : (unsigned)INTERVENTION_COUNT;

	out->count = 0;
	if (account_writable(ctx, subject, err) != ERR_NONE)
		return err->code;
	for (unsigned i = 0; i < states; i++) {
		struct bytes  sk = fraud ? key_state(ctx->arena, KEY_EMAIL_FRAUD, frauds[i].key)
		                         : flag_key(ctx->arena, i);
		struct looked row;

		if (ctx_look(ctx, subject, sk, &row, err) != ERR_NONE)
			return err->code;
		if (!row.found)
			continue;
		told.cleared[told.cleared_count++] = fraud ? email_fraud_names[i] : flags[i].name;
		out->names[out->count++] = fraud ? email_fraud_names[i] : flags[i].name;
		ctx_delete(ctx, TABLE_AUTH_STATE, row_key_two(ctx->arena, subject, sk));
	}
	state_publish(ctx, &told);
	return ERR_NONE;
}

/* ---- what states mean for an attempt ---- */

struct bytes state_row_key(enum state_row row)
{
	static const struct bytes keys[STATE_ROW_COUNT] = {
	        [STATE_BLOCKED] = BYTES_INIT(KEY_OF_STATE(KEY_INTERVENTION, "BLOCKED")),
	        [STATE_SUSPENDED] = BYTES_INIT(KEY_OF_STATE(KEY_INTERVENTION, "SUSPENDED")),
	        [STATE_REPROVE] = BYTES_INIT(KEY_OF_STATE(KEY_INTERVENTION, "REPROVE_IDENTITY")),
	        [STATE_RESET] = BYTES_INIT(KEY_OF_STATE(KEY_INTERVENTION, "RESET_PASSWORD")),
	        [STATE_FRAUD_BLOCKED] = BYTES_INIT(KEY_OF_STATE(KEY_EMAIL_FRAUD, "BLOCKED")),
	        [STATE_FRAUD_PENDING] = BYTES_INIT(KEY_OF_STATE(KEY_EMAIL_FRAUD, "PENDING")),
	};

	return keys[row];
}

static void require(struct states_required *out, const char *name)
{
	for (uint32_t i = 0; i < out->count; i++)
		if (out->list[i] == name)
			return;
	out->list[out->count++] = name;
}

void states_required_join(struct states_required *r, const struct states_required *other)
{
	for (uint32_t i = 0; i < other->count; i++)
		require(r, other->list[i]);
	r->email_fraud_pending |= other->email_fraud_pending;
}

static void bar(const struct states_seen *seen, enum state_row row, const char *reason)
{
	const struct item *item = seen->rows[row];
	struct verdict     blocked = {.kind = VERDICT_BLOCKED, .reason = reason, .pk = seen->subject};

	if (item == NULL)
		return;
	blocked.sk = state_row_key(row);
	blocked.until_s = row_i64(item, "ttl", 0);
	blocked.block_type = row_text(item, "block_type");
	verdict_add(seen->verdict, &blocked);
}

/* (2) and (3) hold for rows too: a demand and what met it may have been written at the same time, elsewhere.
 * *lifted: a demand says how to get back in after a suspension, or was met and takes it along. */
static enum err_code demand_judge(struct context *ctx, const struct states_seen *seen, enum state_row row,
                                  bool *lifted, struct err *err)
{
	const struct item *item = seen->rows[row], *suspension = seen->rows[STATE_SUSPENDED];
	struct demand d = {seen->subject, row == STATE_RESET ? INTERVENTION_RESET : INTERVENTION_REPROVE, 0};
	bool          is_void;

	if (item == NULL)
		return ERR_NONE;
	d.applied_s = applied_at(item);
	if (met_since(ctx, &d, &is_void, err) != ERR_NONE)
		return err->code;
	if (!is_void)
		require(seen->required, flags[d.flag].name);
	*lifted |= !is_void || (suspension != NULL && applied_at(suspension) == applied_at(item));
	return ERR_NONE;
}

enum err_code states_judge(struct context *ctx, const struct states_seen *seen, struct err *err)
{
	bool lifted = false;

	if (demand_judge(ctx, seen, STATE_RESET, &lifted, err) != ERR_NONE ||
	    demand_judge(ctx, seen, STATE_REPROVE, &lifted, err) != ERR_NONE)
		return err->code;
	bar(seen, STATE_BLOCKED, "intervention_blocked");
	if (!lifted)
		bar(seen, STATE_SUSPENDED, "intervention_suspended");
	bar(seen, STATE_FRAUD_BLOCKED, "email_fraud_denied");
	seen->required->email_fraud_pending |= seen->rows[STATE_FRAUD_PENDING] != NULL;
	return ERR_NONE;
}
