/* Transfers: a transaction of three actions in two tables moves an amount between two accounts, which all
 * workers share, and puts a log row. Each account also counts the transfers that named it.
 *
 * (T1) An account holds what it began with plus what the log rows moved, and counts exactly those rows: no
 *      transaction is done in part. The sum over all accounts never changes.
 * (T2) The transaction whose answer was lost is sent again with its token after the restart, and is then
 *      done exactly once. One that was acknowledged is sent again as well, and changes nothing.
 * (T3) A transaction that is refused (its log row has a false condition) changes nothing. */
#include <stdio.h>
#include <stdlib.h>

#include "series.h"
#include "text.h"

enum {
	BALANCE_AT_FIRST = 1000000,
	AMOUNT_MAX = 1000,
};

struct transfer {
	unsigned from, to;
	int64_t  amount;
};

static struct transfer transfer_of(const struct place *p)
{
	struct random   r = series_random(p, SERIES_TRANSFERS);
	struct transfer t = {.from = (unsigned)random_below(&r, ACCOUNTS),
	                     .amount = 1 + (int64_t)random_below(&r, AMOUNT_MAX)};

	t.to = (t.from + 1 + (unsigned)random_below(&r, ACCOUNTS - 1)) % ACCOUNTS;
	return t;
}

static void transfer_item(struct buf *out, const struct place *p)
{
	struct transfer t = transfer_of(p);

	text_add(out, "{");
	series_add_key(out, p);
	text_add(out, ",\"origin\":{\"S\":\"a%u\"},\"target\":{\"S\":\"a%u\"},\"amount\":{\"N\":\"%lld\"}}",
	         t.from, t.to, (long long)t.amount);
}

const struct series_type series_transfers = {"transfers", 1, transfer_item, NULL, NULL};

/* ---- setting up ---- */

static void transfers_setup(struct campaign *c)
{
	struct buf body;

	series_setup(c, SERIES_TRANSFERS);
	campaign_call(c, "CreateTable",
	              BYTES("{\"TableName\":\"accounts\",\"BillingMode\":\"PAY_PER_REQUEST\","
	                    "\"AttributeDefinitions\":[{\"AttributeName\":\"id\",\"AttributeType\":\"S\"}],"
	                    "\"KeySchema\":[{\"AttributeName\":\"id\",\"KeyType\":\"HASH\"}]}"));
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		buf_init(&body, NULL);
		text_add(&body,
		         "{\"TableName\":\"accounts\",\"Item\":{\"id\":{\"S\":\"a%u\"},\"balance\":{\"N\":\"%"
		         "d\"},"
		         "\"moves\":{\"N\":\"0\"}}}",
		         i, BALANCE_AT_FIRST);
		campaign_call(c, "PutItem", buf_bytes(&body));
		buf_release(&body);
	}
}

/* ---- the load ---- */

static void add_move(struct buf *out, unsigned account, int64_t amount)
{
	text_add(out,
	         "{\"Update\":{\"TableName\":\"accounts\",\"Key\":{\"id\":{\"S\":\"a%u\"}},"
	         "\"UpdateExpression\":\"ADD balance :amount, moves :one\",\"ExpressionAttributeValues\":{"
	         "\":amount\":{\"N\":\"%lld\"},\":one\":{\"N\":\"1\"}}}},",
	         account, (long long)amount);
}

static void compose_moves(struct buf *out, const struct place *p)
{
	struct transfer t = transfer_of(p);

	text_add(out, "{\"TransactItems\":[");
	add_move(out, t.from, -t.amount);
	add_move(out, t.to, t.amount);
}

static void compose_transfer(struct buf *out, const struct place *p)
{
	compose_moves(out, p);
	text_add(out, "{\"Put\":{\"TableName\":\"transfers\",\"Item\":");
	transfer_item(out, p);
	text_add(out, "}}],\"ClientRequestToken\":\"t-c%u-w%u-n%u\"}", p->cycle, p->worker, p->n);
}

static void transfers_compose(struct worker *w)
{
	struct place p = series_next(w, SERIES_TRANSFERS);

	w->operation = "TransactWriteItems";
	compose_transfer(&w->body, &p);
}

static void account_for(struct worker *w, const struct place *p)
{
	struct transfer t = transfer_of(p);

	w->must.moved[t.from] -= t.amount;
	w->must.moved[t.to] += t.amount;
	w->must.touched[t.from]++;
	w->must.touched[t.to]++;
}

static void transfers_settle(struct worker *w, const struct answer *answer)
{
	struct place p = series_next(w, SERIES_TRANSFERS);

	if (series_settle(w, SERIES_TRANSFERS, answer))
		account_for(w, &p);
}

/* ---- comparing ---- */

struct totals {
	unsigned seen;
	int64_t  sum;
};

/* (T1) */
static void notice(struct campaign *c, const struct json *item, void *ctx)
{
	struct totals *totals = ctx;
	struct bytes   id = text_attribute(item, "id");
	unsigned       account = id.len >= 2 && id.data[0] == 'a' ? (unsigned)atoi(id.data + 1) : ACCOUNTS;
	int64_t        balance = BALANCE_AT_FIRST;
	uint64_t       moves = 0;
	struct buf     expected;

	for (unsigned w = 0; account < ACCOUNTS && w < WORKERS; w++) {
		balance += c->workers[w].must.moved[account];
		moves += c->workers[w].must.touched[account];
	}
	buf_init(&expected, &c->client.arena);
	text_add(&expected,
	         "{\"id\":{\"S\":\"a%u\"},\"balance\":{\"N\":\"%lld\"},\"moves\":{\"N\":\"%llu\"}}", account,
	         (long long)balance, (unsigned long long)moves);
	if (!campaign_same(c, item, buf_bytes(&expected)))
		differ_item(c, "accounts", item, buf_bytes(&expected));
	totals->sum += text_number(item, "balance");
	totals->seen++;
}

static void verify_accounts(struct campaign *c)
{
	struct totals totals = {0};

	campaign_read(c, "Scan", BYTES("{\"TableName\":\"accounts\",\"ConsistentRead\":true"), notice,
	              &totals);
	if (totals.seen != ACCOUNTS || totals.sum != (int64_t)ACCOUNTS * BALANCE_AT_FIRST)
		differ(c, "accounts: expected %d with %lld in all, found %u with %lld", ACCOUNTS,
		       (long long)ACCOUNTS * BALANCE_AT_FIRST, totals.seen, (long long)totals.sum);
}

static void send_again(struct campaign *c, const struct place *p)
{
	struct buf body;

	buf_init(&body, NULL);
	compose_transfer(&body, p);
	campaign_call(c, "TransactWriteItems", buf_bytes(&body));
	buf_release(&body);
}

/* (T2): `doubt` is whether the answer to the worker's last transfer was lost. */
static void repeat(struct worker *w, bool doubt, uint32_t acknowledged)
{
	struct campaign *c = w->campaign;
	struct series   *s = &c->series[SERIES_TRANSFERS][c->cycle][w->id];
	struct place     p = {c->seed, c->cycle, w->id, acknowledged, s->began_s};

	if (doubt) {
		send_again(c, &p);
		if (s->stored == acknowledged) {
			s->stored++;
			account_for(w, &p);
		}
	}
	if (acknowledged > 0) {
		p.n = acknowledged - 1;
		send_again(c, &p);
	}
}

static void transfers_verify(struct campaign *c, bool whole)
{
	struct series *s = c->series[SERIES_TRANSFERS][c->cycle];
	uint32_t       acknowledged[WORKERS];
	bool           doubt[WORKERS];

	for (unsigned i = 0; i < WORKERS; i++) {
		acknowledged[i] = s[i].stored;
		doubt[i] = s[i].doubt;
	}
	series_verify(c, SERIES_TRANSFERS, whole);
	for (unsigned i = 0; i < WORKERS; i++) {
		struct place p = {c->seed, c->cycle, i, acknowledged[i], s[i].began_s};

		if (s[i].stored > acknowledged[i])
			account_for(&c->workers[i], &p);
	}
	verify_accounts(c);
	for (unsigned i = 0; i < WORKERS; i++)
		repeat(&c->workers[i], doubt[i], acknowledged[i]);
	series_verify(c, SERIES_TRANSFERS, false);
	verify_accounts(c);
}

static void transfers_lie(struct worker *w)
{
	w->must.moved[0]++;
}

const struct book book_transfers = {
        "transfers",      15,           transfers_setup, transfers_compose, transfers_settle,
        transfers_verify, transfers_lie};

/* ---- transfers that are refused (T3) ---- */

static void refusals_compose(struct worker *w)
{
	struct place p = series_next(w, SERIES_TRANSFERS);

	w->operation = "TransactWriteItems";
	compose_moves(&w->body, &p);
	text_add(&w->body,
	         "{\"Put\":{\"TableName\":\"transfers\",\"Item\":{\"pk\":{\"S\":\"refused\"},\"n\":{\"N\":\"%"
	         "u\"}},"
	         "\"ConditionExpression\":\"attribute_exists(pk)\"}}]}",
	         p.n);
}

static void refusals_settle(struct worker *w, const struct answer *answer)
{
	const struct json *type = answer == NULL ? NULL : text_get(answer->body, "__type");

	if (answer == NULL)
		return;
	if (answer->status != 400 || type == NULL || type->type != JSON_STRING ||
	    !bytes_contains(json_text(type), BYTES("TransactionCanceledException")))
		differ(w->campaign, "refusals: expected 400 TransactionCanceledException, found %d",
		       answer->status);
}

const struct book book_refusals = {"refusals", 3, NULL, refusals_compose, refusals_settle, NULL, NULL};
