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

/* (2) Was the password reset later than that? */
static enum err_code reset_since(struct bytes subject, int64_t applied_s, struct bytes table, struct table *t,
                                 struct arena *a, bool *yes, struct err *err)
{
	struct item item;
	bool        found;

	if (tables_look(t, a, table, subject, key_password_reset(a), &found, &item, err) != ERR_NONE)
		return err->code;
	*yes = found && row_i64(&item, "reset_at", 0) > applied_s;
	return ERR_NONE;
}

static void flag_put(struct applying *p, int flag)
{
	struct row row;

	row_init(&row, p->changes->arena);
	row_set_text(&row, "PK", p->q->subject);
	row_set_text(&row, "SK", flag_key(p->changes->arena, flag));
	row_set_i64(&row, "count", 1);
	row_set_i64(&row, "last_updated", p->t->now_us / 1000000);
	row_set_i64(&row, "applied_at", p->q->applied_s);
	row_set_text(&row, "intervention_state", bytes_of(flags[flag].key));
	if (flags[flag].block_type[0] != '\0')
		row_set_text(&row, "block_type", bytes_of(flags[flag].block_type));
	changes_put(p->changes, p->table, row_item(&row), NULL);
}

/* Flags need no condition of their own: whoever changes one changes the row of the latest intervention too. */
static enum err_code flag_apply(struct applying *p, int flag)
{
	struct arena    *a = p->changes->arena;
	struct bytes     sk = flag_key(a, flag);
	enum flag_change change = p->q->flags[flag];
	struct item      item;

	if (change == FLAG_AS_IT_IS)
		return tables_look(p->t, a, p->table, p->q->subject, sk, &p->out->flags[flag], &item, p->err);
	if (flag == INTERVENTION_RESET && change == FLAG_ON &&
	    reset_since(p->q->subject, p->q->applied_s, p->table, p->t, a, &p->out->is_void, p->err) !=
	            ERR_NONE)
		return p->err->code;
	p->out->flags[flag] = change == FLAG_ON && !(flag == INTERVENTION_RESET && p->out->is_void);
	if (p->out->flags[flag])
		flag_put(p, flag);
	else
		changes_delete(p->changes, p->table, row_key_two(a, p->q->subject, sk), NULL);
	return ERR_NONE;
}

enum err_code intervention_apply(const struct intervention *q, struct bytes table, struct table *t,
                                 struct changes *c, struct intervention_result *out, struct err *err)
{
	struct applying     p = {q, table, t, c, out, err};
	struct intervention none = {.subject = q->subject};

	*out = (struct intervention_result){0};
	if (latest_advance(&p) != ERR_NONE)
		return err->code;
	if (!out->applied)
		p.q = &none; /* only looks */
	for (int i = 0; i < INTERVENTION_COUNT; i++)
		if (flag_apply(&p, i) != ERR_NONE)
			return err->code;
	return ERR_NONE;
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

/* Without reading and without conditions, so that of two at once one wins whole (3). */
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

/* ---- what is demanded ---- */

static void require(struct states_required *out, enum intervention_flag flag)
{
	for (uint32_t i = 0; i < out->count; i++)
		if (out->list[i] == flags[flag].name)
			return;
	out->list[out->count++] = flags[flag].name;
}

/* (2) again: the two rows may have been written at the same time, elsewhere. */
static enum err_code reset_required(struct bytes subject, struct bytes table, struct table *t,
                                    struct arena *a, struct states_required *out, struct err *err)
{
	struct item item;
	bool        found, is_void = false;

	if (tables_look(t, a, table, subject, flag_key(a, INTERVENTION_RESET), &found, &item, err) !=
	    ERR_NONE)
		return err->code;
	if (found && reset_since(subject, row_i64(&item, "applied_at", INT64_MAX), table, t, a, &is_void,
	                         err) != ERR_NONE)
		return err->code;
	if (found && !is_void)
		require(out, INTERVENTION_RESET);
	return ERR_NONE;
}

enum err_code states_required(const struct bytes *subjects, uint32_t count, struct bytes table,
                              struct table *t, struct arena *a, struct states_required *out, struct err *err)
{
	struct bytes pending = key_state(a, KEY_EMAIL_FRAUD, frauds[EMAIL_FRAUD_PENDING].key);
	struct item  item;
	bool         found;

	*out = (struct states_required){0};
	for (uint32_t i = 0; i < count; i++) {
		if (reset_required(subjects[i], table, t, a, out, err) != ERR_NONE ||
		    tables_look(t, a, table, subjects[i], flag_key(a, INTERVENTION_REPROVE), &found, &item,
		                err) != ERR_NONE)
			return err->code;
		if (found)
			require(out, INTERVENTION_REPROVE);
		if (tables_look(t, a, table, subjects[i], pending, &found, &item, err) != ERR_NONE)
			return err->code;
		out->email_fraud_pending |= found;
	}
	return ERR_NONE;
}
