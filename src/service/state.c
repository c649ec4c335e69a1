/* States: see state.h. */
#include "service/state.h"

#include "service/key_names.h"
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

/* ---- interventions ---- */

struct applying {
	const struct intervention  *q;
	struct bytes                table;
	struct table               *t;
	struct changes             *changes;
	struct intervention_result *out;
	struct err                 *err;
	struct item                 rows[INTERVENTION_COUNT]; /* as they were */
	bool                        found[INTERVENTION_COUNT];
};

static struct bytes flag_key(struct arena *a, int flag)
{
	return key_state(a, KEY_INTERVENTION, flags[flag].key);
}

/* (1) */
static enum err_code latest_advance(struct applying *p)
{
	static const char *const same[] = {"applied_at", NULL};
	struct arena            *a = p->changes->arena;
	struct bytes             sk = key_applied(a);
	struct item              old;
	struct row               row;
	bool                     found;

	if (tables_look(p->t, a, p->table, p->q->subject, sk, &found, &old, p->err) != ERR_NONE)
		return p->err->code;
	p->out->latest_s = found ? row_i64(&old, "applied_at", 0) : 0;
	p->out->applied = p->q->applied_s >= p->out->latest_s;
	if (!p->out->applied)
		return ERR_NONE;
	p->out->latest_s = p->q->applied_s;
	row_init(&row, a);
	row_set_text(&row, "PK", p->q->subject);
	row_set_text(&row, "SK", sk);
	row_set_i64(&row, "applied_at", p->q->applied_s);
	row_set_i64(&row, "last_updated", p->t->now_us / 1000000);
	changes_put(p->changes, p->table, row_item(&row),
	            found ? row_same(a, &old, same) : row_absent(a, "PK", "ttl", p->t->now_us));
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
static enum err_code met_since(struct bytes subject, enum intervention_flag demand, int64_t applied_s,
                               struct bytes table, struct table *t, struct arena *a, bool *yes,
                               struct err *err)
{
	struct item item;
	bool        found;

	if (tables_look(t, a, table, subject, key_demand_met(a, met_names[demand]), &found, &item, err) !=
	    ERR_NONE)
		return err->code;
	*yes = found && applied_s != INT64_MAX &&
	       (row_i64(&item, "reset_at", 0) > applied_s ||
	        row_i64(&item, "demand_applied_at", -1) >= applied_s);
	return ERR_NONE;
}

/* Notes when it was met, and which demand that ended; the latest of both counts. */
static enum err_code met_note(struct bytes subject, enum intervention_flag demand, const struct item *ended,
                              struct bytes table, struct table *t, struct changes *c, struct err *err)
{
	static const char *const same[] = {"reset_at", "demand_applied_at", NULL};
	struct arena            *a = c->arena;
	struct bytes             sk = key_demand_met(a, met_names[demand]);
	int64_t                  now_s = t->now_us / 1000000, applied_s;
	struct item              old;
	struct row               row;
	bool                     found;

	if (tables_look(t, a, table, subject, sk, &found, &old, err) != ERR_NONE)
		return err->code;
	applied_s = found ? row_i64(&old, "demand_applied_at", 0) : 0;
	if (ended != NULL && applied_at(ended) != INT64_MAX && applied_at(ended) > applied_s)
		applied_s = applied_at(ended);
	row_init(&row, a);
	row_set_text(&row, "PK", subject);
	row_set_text(&row, "SK", sk);
	row_set_i64(&row, "reset_at", now_s);
	row_set_i64(&row, "last_updated", now_s);
	if (applied_s > 0)
		row_set_i64(&row, "demand_applied_at", applied_s);
	changes_put(c, table, row_item(&row),
	            found ? row_same(a, &old, same) : row_absent(a, "PK", "ttl", t->now_us));
	return ERR_NONE;
}

struct demand_rows {
	struct item demand, other, suspension;
	bool        demanded, other_demanded, suspended;
};

/* (3) */
static bool suspension_ends(const struct demand_rows *r)
{
	int64_t applied_s = applied_at(&r->demand);

	return r->demanded && r->suspended && applied_s != INT64_MAX &&
	       applied_at(&r->suspension) == applied_s &&
	       !(r->other_demanded && applied_at(&r->other) == applied_s);
}

static void state_delete(struct bytes subject, enum intervention_flag flag, const struct item *row,
                         struct bytes table, struct changes *c)
{
	static const char *const same[] = {"applied_at", NULL};

	changes_delete(c, table, row_key_two(c->arena, subject, flag_key(c->arena, flag)),
	               row_same(c->arena, row, same));
}

enum err_code demand_meet(struct bytes subject, enum intervention_flag demand, struct bytes table,
                          struct table *t, struct changes *c, struct demand_met *out, struct err *err)
{
	enum intervention_flag other =
	        demand == INTERVENTION_RESET ? INTERVENTION_REPROVE : INTERVENTION_RESET;
	struct arena      *a = c->arena;
	struct demand_rows r;

	if (tables_look(t, a, table, subject, flag_key(a, demand), &r.demanded, &r.demand, err) != ERR_NONE ||
	    tables_look(t, a, table, subject, flag_key(a, other), &r.other_demanded, &r.other, err) !=
	            ERR_NONE ||
	    tables_look(t, a, table, subject, flag_key(a, INTERVENTION_SUSPENDED), &r.suspended,
	                &r.suspension, err) != ERR_NONE)
		return err->code;
	out->demand_ended = r.demanded;
	out->suspension_ended = suspension_ends(&r);
	if (r.demanded)
		state_delete(subject, demand, &r.demand, table, c);
	if (out->suspension_ended)
		state_delete(subject, INTERVENTION_SUSPENDED, &r.suspension, table, c);
	return met_note(subject, demand, r.demanded ? &r.demand : NULL, table, t, c, err);
}

/* ---- applying ---- */

static void flag_put(struct applying *p, int flag, int64_t applied_s)
{
	struct row row;

	row_init(&row, p->changes->arena);
	row_set_text(&row, "PK", p->q->subject);
	row_set_text(&row, "SK", flag_key(p->changes->arena, flag));
	row_set_i64(&row, "count", 1);
	row_set_i64(&row, "last_updated", p->t->now_us / 1000000);
	row_set_i64(&row, "applied_at", applied_s);
	row_set_text(&row, "intervention_state", bytes_of(flags[flag].key));
	if (flags[flag].block_type[0] != '\0')
		row_set_text(&row, "block_type", bytes_of(flags[flag].block_type));
	changes_put(p->changes, p->table, row_item(&row), NULL);
	p->out->flags[flag] = true;
}

static void flag_remove(struct applying *p, int flag)
{
	changes_delete(p->changes, p->table,
	               row_key_two(p->changes->arena, p->q->subject, flag_key(p->changes->arena, flag)),
	               NULL);
	p->out->flags[flag] = false;
}

/* Flags need no condition of their own: whoever sets one changes the row of the latest intervention too. */
static void flag_apply(struct applying *p, int flag)
{
	if (p->q->flags[flag] == FLAG_ON && !p->out->is_void[flag])
		flag_put(p, flag, p->q->applied_s);
	else if (p->q->flags[flag] != FLAG_AS_IT_IS)
		flag_remove(p, flag);
}

static enum err_code demand_apply(struct applying *p, enum intervention_flag demand)
{
	if (p->q->flags[demand] == FLAG_ON &&
	    met_since(p->q->subject, demand, p->q->applied_s, p->table, p->t, p->changes->arena,
	              &p->out->is_void[demand], p->err) != ERR_NONE)
		return p->err->code;
	flag_apply(p, demand);
	return ERR_NONE;
}

/* Did a suspension of that time come with this demand, as it was or as it is from now on? */
static bool comes_with(const struct applying *p, enum intervention_flag demand, int64_t suspended_s)
{
	bool was = p->found[demand] && applied_at(&p->rows[demand]) == suspended_s;

	if (p->q->flags[demand] == FLAG_OFF)
		return false;
	return was || (p->q->flags[demand] == FLAG_ON && p->q->applied_s == suspended_s);
}

/* (3) A demand that is made again takes its suspension along: they keep the same time. */
static void suspension_apply(struct applying *p)
{
	bool    set = p->q->flags[INTERVENTION_SUSPENDED] == FLAG_ON, met = false, open = false;
	int64_t was_s = set ? p->q->applied_s : applied_at(&p->rows[INTERVENTION_SUSPENDED]), is_s = was_s;

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
	struct arena *a = p->changes->arena;

	for (int i = 0; i < INTERVENTION_COUNT; i++) {
		if (tables_look(p->t, a, p->table, p->q->subject, flag_key(a, i), &p->found[i], &p->rows[i],
		                p->err) != ERR_NONE)
			return p->err->code;
		p->out->flags[i] = p->found[i];
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
	else if (p->q->flags[INTERVENTION_SUSPENDED] == FLAG_ON || p->found[INTERVENTION_SUSPENDED])
		suspension_apply(p);
	return ERR_NONE;
}

enum err_code intervention_apply(const struct intervention *q, struct bytes table, struct table *t,
                                 struct changes *c, struct intervention_result *out, struct err *err)
{
	struct applying p = {.q = q, .table = table, .t = t, .changes = c, .out = out, .err = err};

	*out = (struct intervention_result){0};
	if (latest_advance(&p) != ERR_NONE || rows_look(&p) != ERR_NONE)
		return err->code;
	return out->applied ? flags_apply(&p) : ERR_NONE;
}

/* ---- email fraud ---- */

static struct item fraud_item(struct arena *a, struct bytes subject, enum email_fraud state,
                              int64_t duration_s, int64_t now_us, int64_t until_s)
{
	struct row row;

	row_init(&row, a);
	row_set_text(&row, "PK", subject);
	row_set_text(&row, "SK", key_state(a, KEY_EMAIL_FRAUD, frauds[state].key));
	row_set_i64(&row, "count", 1);
	row_set_i64(&row, "last_updated", now_us / 1000000);
	row_set_text(&row, "intervention_state", bytes_of(frauds[state].state));
	if (until_s > 0) {
		row_set_text(&row, "block_type", BYTES("STANDARD"));
		row_set_i64(&row, "block_duration", duration_s);
		row_set_i64(&row, "ttl", until_s);
	}
	return row_item(&row);
}

/* Without reading and without conditions, so that of two at once one wins whole (4). */
void email_fraud_set(struct bytes subject, enum email_fraud state, int64_t duration_s, struct bytes table,
                     int64_t now_us, struct changes *c, int64_t *until_s)
{
	*until_s = state == EMAIL_FRAUD_DENY ? now_us / 1000000 + duration_s : 0;
	for (int i = 0; i < EMAIL_FRAUD_STATE_COUNT; i++) {
		struct bytes sk = key_state(c->arena, KEY_EMAIL_FRAUD, frauds[i].key);

		if (i == (int)state)
			changes_put(c, table,
			            fraud_item(c->arena, subject, state, duration_s, now_us, *until_s), NULL);
		else
			changes_delete(c, table, row_key_two(c->arena, subject, sk), NULL);
	}
}

/* ---- clearing ---- */

enum err_code states_clear(struct bytes subject, enum state_family family, struct bytes table,
                           struct table *t, struct changes *c, const char *names[STATES_MAX], uint32_t *count,
                           struct err *err)
{
	bool fraud = family == FAMILY_EMAIL_FRAUD;
	int  states = fraud ? (int)EMAIL_FRAUD_STATE_COUNT : (int)INTERVENTION_COUNT;

	*count = 0;
	for (int i = 0; i < states; i++) {
		struct bytes sk =
		        fraud ? key_state(c->arena, KEY_EMAIL_FRAUD, frauds[i].key) : flag_key(c->arena, i);
		struct item item;
		bool        found;

		if (tables_look(t, c->arena, table, subject, sk, &found, &item, err) != ERR_NONE)
			return err->code;
		if (!found)
			continue;
		names[(*count)++] = fraud ? email_fraud_names[i] : flags[i].name;
		changes_delete(c, table, row_key_two(c->arena, subject, sk), NULL);
	}
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

static void require(struct states_required *out, enum intervention_flag flag)
{
	for (uint32_t i = 0; i < out->count; i++)
		if (out->list[i] == flags[flag].name)
			return;
	out->list[out->count++] = flags[flag].name;
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
static enum err_code demand_judge(const struct states_seen *seen, enum state_row row, struct bytes table,
                                  struct table *t, struct arena *a, bool *lifted, struct err *err)
{
	enum intervention_flag demand = row == STATE_RESET ? INTERVENTION_RESET : INTERVENTION_REPROVE;
	const struct item     *item = seen->rows[row], *suspension = seen->rows[STATE_SUSPENDED];
	bool                   is_void;

	if (item == NULL)
		return ERR_NONE;
	if (met_since(seen->subject, demand, applied_at(item), table, t, a, &is_void, err) != ERR_NONE)
		return err->code;
	if (!is_void)
		require(seen->required, demand);
	*lifted |= !is_void || (suspension != NULL && applied_at(suspension) == applied_at(item));
	return ERR_NONE;
}

enum err_code states_judge(const struct states_seen *seen, struct bytes table, struct table *t,
                           struct arena *a, struct err *err)
{
	bool lifted = false;

	if (demand_judge(seen, STATE_RESET, table, t, a, &lifted, err) != ERR_NONE ||
	    demand_judge(seen, STATE_REPROVE, table, t, a, &lifted, err) != ERR_NONE)
		return err->code;
	bar(seen, STATE_BLOCKED, "intervention_blocked");
	if (!lifted)
		bar(seen, STATE_SUSPENDED, "intervention_suspended");
	bar(seen, STATE_FRAUD_BLOCKED, "email_fraud_denied");
	seen->required->email_fraud_pending |= seen->rows[STATE_FRAUD_PENDING] != NULL;
	return ERR_NONE;
}
