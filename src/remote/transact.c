/* Transactions: reads of one moment, and writes, all or none.
 *
 * A transaction carries a token, its caller's or one of its own, so that the endpoint does it once however often it is sent. An update
 * of a row that has expired must be sent as another action, a put (expiry.h); the transaction is then another one, and has another
 * token, which is made of the first. A caller that does not know the outcome repeats its token: the session remembers which variant
 * that token had come to, and goes on with it. Else the first variant would be done after the second. */
#include <sys/random.h>

#include "base/crypto.h"
#include "item/messages.h"
#include "remote/items.h"

enum { VARIANTS_MAX = 4 };

/* ---- reading ---- */

/* A writer was in its way, or there was no room: nothing is wrong with the request. */
static enum err_code get_cancelled(struct arena *a, const struct json *answer, uint32_t count,
                                   struct table_batch_get_result *r, struct err *err)
{
	struct table_reason  *reasons = arena_zalloc(a, (count + 1) * sizeof(*reasons));
	struct client_actions asked = {.count = count};
	bool                  busy;

	if (client_read_reasons(a, answer, &asked, reasons, &busy, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < count; i++)
		if (reasons[i].code == ERR_INVALID) {
			r->reasons = reasons;
			return err_set(err, ERR_INVALID, "%s", reasons[i].text);
		}
	if (busy)
		return err_set(err, ERR_THROTTLED, "the DynamoDB endpoint has no room for the transaction");
	return err_set(err, ERR_CONDITION, "another transaction was in the way; try again");
}

enum err_code items_transact_get(struct table *t, struct arena *a, const struct table_batch_get *q,
                                 struct table_batch_get_result *r, struct err *err)
{
	struct remote_session *s = session_of(t);
	struct table_schema   *schemas = arena_array(a, q->count + 1, sizeof(*schemas));
	struct table_get      *gets = arena_array(a, q->count + 1, sizeof(*gets));
	const struct json     *answer;
	struct ask             ask;
	enum err_code          rc;

	*r = (struct table_batch_get_result){0};
	if (q->count == 0 || items_schemas(s, a, q, schemas, err) != ERR_NONE)
		return q->count == 0 ? ERR_NONE : err->code;
	for (uint32_t i = 0; i < q->count; i++)
		gets[i] = (struct table_get){.table = remote_name(s, a, q->gets[i].table),
		                             .key = q->gets[i].key};
	client_transact_get(ask_init(&ask, "TransactGetItems", a, true),
	                    &(struct table_batch_get){gets, q->count});
	rc = ask_send(s, &ask, &answer, err);
	if (rc == ERR_CANCELLED) {
		rc = get_cancelled(a, answer, q->count, r, err);
		return rc == ERR_STORAGE ? ask_judge(s, ask.operation, rc, err) : rc;
	}
	if (rc != ERR_NONE) {
		for (uint32_t i = 0; i < q->count; i++)
			items_failed(s, q->gets[i].table, rc);
		return rc;
	}
	if (ask_judge(s, ask.operation, client_read_transact_get(a, answer, q, r, err), err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < q->count; i++)
		items_settle(s, a, &schemas[i], &q->gets[i], &r->results[i]);
	return ERR_NONE;
}

/* ---- tokens ---- */

static void random_token(char token[TABLE_TOKEN_MAX])
{
	uint8_t bits[TABLE_TOKEN_MAX / 2];

	while (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		continue;
	hex_write((struct bytes){(const char *)bits, sizeof(bits)}, token);
}

/* The note of this token: as it was left, or a new one. */
static struct transact_note *note_of(struct remote_session *s, struct bytes token)
{
	struct transact_note *n = &s->note;

	if (token.len > 0 && bytes_equal(token, (struct bytes){n->token, n->token_len}))
		return n;
	*n = (struct transact_note){0};
	if (token.len > 0 && token.len <= TABLE_TOKEN_MAX) {
		memcpy(n->token, token.data, token.len);
		n->token_len = token.len;
	} else if (token.len == 0) {
		random_token(n->token);
		n->token_len = TABLE_TOKEN_MAX;
	}
	return n;
}

/* Of the first variant, the token itself. */
static struct bytes variant_token(const struct transact_note *n, struct bytes asked, struct arena *a)
{
	uint8_t      digest[SHA256_BYTES];
	char        *token = arena_alloc(a, TABLE_TOKEN_MAX);
	struct bytes text;

	if (n->variant == 0)
		return asked.len > TABLE_TOKEN_MAX ? asked : (struct bytes){n->token, n->token_len};
	text = arena_printf(a, "%.*s variant %u", (int)n->token_len, n->token, n->variant);
	sha256(text, digest);
	hex_write((struct bytes){(const char *)digest, TABLE_TOKEN_MAX / 2}, token);
	return (struct bytes){token, TABLE_TOKEN_MAX};
}

/* ---- writing ---- */

/* A transaction under way. */
struct transacting {
	struct remote_session             *s;
	struct arena                      *arena;
	const struct table_transact_write *q;
	const struct table_schema        **schemas; /* one an action */
	struct transact_note              *note;
	struct table_write                *actions; /* as they are sent */
	struct table_transact_result      *r;
};

/* One schema a table: actions of a table share it. */
static enum err_code schemas_of_writes(struct transacting *x, struct err *err)
{
	for (uint32_t i = 0; i < x->q->count; i++) {
		struct table_schema *schema = NULL;

		for (uint32_t k = 0; k < i && x->schemas[i] == NULL; k++)
			if (bytes_equal(x->q->writes[k].table, x->q->writes[i].table))
				x->schemas[i] = x->schemas[k];
		if (x->schemas[i] != NULL)
			continue;
		schema = arena_alloc(x->arena, sizeof(*schema));
		if (schemas_get(x->s, x->arena, x->q->writes[i].table, schema, err) != ERR_NONE)
			return err->code;
		x->schemas[i] = schema;
	}
	return ERR_NONE;
}

static bool has_ttl(const struct transacting *x, uint32_t i)
{
	return x->schemas[i]->ttl_attribute.len > 0;
}

static enum err_code action_make(struct transacting *x, uint32_t i, struct err *err)
{
	const struct table_write *q = &x->q->writes[i];
	struct expiry             e = items_expiry(x->s, x->arena, x->schemas[i]);
	struct table_write       *to = &x->actions[i];

	*to = *q;
	if (q->kind == TABLE_UPDATE && has_ttl(x, i)) {
		if (x->note->reborn[i] && expiry_reborn(e, q, to, err) != ERR_NONE)
			return err->code;
		if (!x->note->reborn[i])
			to->condition = expiry_update_condition(e, q->condition);
		to->return_old_on_failure = true;
	} else {
		to->condition = expiry_condition(e, q->condition);
	}
	to->table = remote_name(x->s, x->arena, q->table);
	return ERR_NONE;
}

/* Is it an update that an absent item would have passed, and failed on a row that has expired? */
static enum err_code is_reborn(struct transacting *x, uint32_t i, bool *out, struct err *err)
{
	const struct table_write *q = &x->q->writes[i];
	struct table_reason      *reason = &x->r->reasons[i];
	struct table_get_result   there = {.found = reason->has_item, .item = reason->item};

	*out = false;
	if (q->kind != TABLE_UPDATE || !has_ttl(x, i) || reason->code != ERR_CONDITION ||
	    x->note->reborn[i] || !expiry_holds_absent(q->condition))
		return ERR_NONE;
	if (!there.found && items_fetch(x->s, x->arena, q->table, &q->key, &there, err) != ERR_NONE)
		return err->code;
	*out = there.found && schema_expired(x->schemas[i], &there.item, x->s->base.now_us);
	return ERR_NONE;
}

/* Which updates are to be sent as puts next time? *again: some are. An update of that kind that failed is one again. */
static enum err_code reborn_mark(struct transacting *x, bool *again, struct err *err)
{
	bool *marks = arena_zalloc(x->arena, x->q->count + 1);

	*again = false;
	for (uint32_t i = 0; i < x->q->count; i++) {
		bool was = x->note->reborn[i], failed = x->r->reasons[i].code == ERR_CONDITION;

		if (is_reborn(x, i, &marks[i], err) != ERR_NONE)
			return err->code;
		*again = *again || marks[i] || (was && failed);
		marks[i] = marks[i] || (was && !failed);
	}
	if (*again) {
		memcpy(x->note->reborn, marks, x->q->count * sizeof(*marks));
		x->note->variant++;
	}
	return ERR_NONE;
}

/* Old items that have expired, or that nobody asked for, were not there. */
static void reasons_settle(struct transacting *x)
{
	for (uint32_t i = 0; i < x->q->count; i++) {
		struct table_reason *reason = &x->r->reasons[i];

		if (reason->has_item && (!x->q->writes[i].return_old_on_failure ||
		                         schema_expired(x->schemas[i], &reason->item, x->s->base.now_us)))
			reason->has_item = false;
	}
}

/* An update of nothing cannot be done: that is its reason. Others like it are fine, and all else failed or not as the endpoint said
 * of the variant before. */
static void reborn_wrong(struct transacting *x)
{
	for (uint32_t i = 0; i < x->q->count; i++) {
		struct table_reason *reason = &x->r->reasons[i];
		struct err           why;

		if (!x->note->reborn[i])
			continue;
		*reason = (struct table_reason){0};
		if (action_make(x, i, &why) != ERR_NONE)
			*reason = (struct table_reason){.code = why.code,
			                                .text = arena_printf(x->arena, "%s", why.text).data};
	}
	x->r->cancelled = true;
	reasons_settle(x);
}

static enum err_code cancelled(struct transacting *x, const struct json *answer, bool *again, struct err *err)
{
	struct client_action *actions = arena_array(x->arena, x->q->count + 1, sizeof(*actions));
	struct client_actions asked = {actions, x->q->count};
	bool                  busy;

	for (uint32_t i = 0; i < asked.count; i++)
		actions[i] = items_action(x->arena, x->schemas[i], &x->actions[i]);
	x->r->reasons = arena_zalloc(x->arena, (x->q->count + 1) * sizeof(*x->r->reasons));
	if (ask_judge(x->s, "TransactWriteItems",
	              client_read_reasons(x->arena, answer, &asked, x->r->reasons, &busy, err),
	              err) != ERR_NONE)
		return err->code;
	if (busy)
		return err_set(err, ERR_THROTTLED, "the DynamoDB endpoint has no room for the transaction");
	if (reborn_mark(x, again, err) != ERR_NONE)
		return err->code;
	x->r->cancelled = !*again;
	if (x->r->cancelled)
		reasons_settle(x);
	return ERR_NONE;
}

/* A try that was refused for the moment says nothing of the one before it, which nobody answered. */
static enum err_code settle(const struct transacting *x, enum err_code rc, struct err *err)
{
	if (!x->s->told.unsure || (rc != ERR_OVERLOADED && rc != ERR_THROTTLED))
		return rc;
	return err_set(err, ERR_STORAGE, "the outcome is unknown: no answer, and then a refusal");
}

/* One variant. */
static enum err_code variant_send(struct transacting *x, bool *again, struct err *err)
{
	struct table_transact_write q = {.writes = x->actions, .count = x->q->count};
	const struct json          *answer;
	struct ask                  ask;
	enum err_code               rc;

	*again = false;
	for (uint32_t i = 0; i < q.count; i++)
		if (action_make(x, i, err) != ERR_NONE) {
			reborn_wrong(x);
			return ERR_NONE;
		}
	q.token = variant_token(x->note, x->q->token, x->arena);
	client_transact_write(ask_init(&ask, "TransactWriteItems", x->arena, true), &q);
	rc = ask_send(x->s, &ask, &answer, err);
	if (rc == ERR_CANCELLED)
		return settle(x, cancelled(x, answer, again, err), err);
	if (rc == ERR_NONE)
		return ask_judge(x->s, ask.operation, client_read_done(answer, err), err);
	for (uint32_t i = 0; i < q.count; i++)
		items_failed(x->s, x->q->writes[i].table, rc);
	return settle(x, rc, err);
}

static void results_make(struct transacting *x)
{
	x->r->results = arena_zalloc(x->arena, (x->q->count + 1) * sizeof(*x->r->results));
	for (uint32_t i = 0; i < x->q->count; i++)
		x->r->results[i].capacity.table = x->q->writes[i].table;
}

enum err_code items_transact_write(struct table *t, struct arena *a, const struct table_transact_write *q,
                                   struct table_transact_result *r, struct err *err)
{
	struct remote_session *s = session_of(t);
	struct transacting     x = {.s = s, .arena = a, .q = q, .r = r};
	bool                   again = true;

	*r = (struct table_transact_result){0};
	if (q->count == 0) /* services check what they read, which may be nothing */
		return ERR_NONE;
	if (q->count > TABLE_TRANSACT_MAX)
		return err_set(err, ERR_INVALID, "a transaction may have %d actions", TABLE_TRANSACT_MAX);
	x.note = note_of(s, q->token);
	x.schemas = arena_zalloc(a, (q->count + 1) * sizeof(*x.schemas));
	x.actions = arena_array(a, q->count + 1, sizeof(*x.actions));
	r->reasons = arena_zalloc(a, (q->count + 1) * sizeof(*r->reasons));
	if (schemas_of_writes(&x, err) != ERR_NONE)
		return err->code;
	for (int i = 0; i < VARIANTS_MAX && again; i++)
		if (variant_send(&x, &again, err) != ERR_NONE)
			return err->code;
	if (again)
		return err_set(err, ERR_OVERLOADED, "too many requests changed this at once; try again");
	if (!r->cancelled)
		results_make(&x);
	return ERR_NONE;
}
