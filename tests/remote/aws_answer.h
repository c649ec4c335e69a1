/* Aws answer: what the proxy of aws_like.h says itself: refusals, queries with rows of two moments, and what it counted. */
#ifndef TESTS_REMOTE_AWS_ANSWER_H
#define TESTS_REMOTE_AWS_ANSWER_H

#include "remote/aws_state.h"

#define AWS_ONGOING "Transaction is ongoing for the item"
#define AWS_TYPE    "com.amazonaws.dynamodb.v20120810#"

static inline bool aws_say(struct aws_conn *c, int status, struct bytes body)
{
	struct bytes text =
	        arena_printf(&c->arena,
	                     "HTTP/1.1 %d %s\r\nContent-Type: application/x-amz-json-1.0\r\n"
	                     "Content-Length: %zu\r\n\r\n%.*s",
	                     status, status == 200 ? "OK" : "Bad Request", body.len, BYTES_ARG(body));

	return wire_send(c->fd, text);
}

static inline bool aws_in_progress(struct aws_conn *c)
{
	return aws_say(c, 400,
	               BYTES("{\"__type\":\"" AWS_TYPE "TransactionInProgressException\",\"Message\":"
	                     "\"The transaction with the given request token is already in progress.\"}"));
}

/* ---- refusals ---- */

/* A transaction whose items met others. If none did, it was to be refused anyway: its first. */
static inline void aws_write_cancelled(struct json_writer *w, const struct aws_items *q, struct arena *a)
{
	struct buf list;
	bool       any = false;

	buf_init(&list, a);
	for (uint32_t i = 0; i < q->count; i++)
		any |= q->keys[i].meets;
	json_member_text(w, BYTES("__type"), BYTES(AWS_TYPE "TransactionCanceledException"));
	json_key(w, BYTES("CancellationReasons"));
	json_begin_array(w);
	for (uint32_t i = 0; i < q->count; i++) {
		bool meets = any ? q->keys[i].meets : i == 0;

		buf_add_bytes(&list, bytes_of(i == 0 ? "" : ", "));
		buf_add_bytes(&list, bytes_of(meets ? "TransactionConflict" : "None"));
		json_begin_object(w);
		json_member_text(w, BYTES("Code"), bytes_of(meets ? "TransactionConflict" : "None"));
		json_member_text(w, BYTES("Message"), bytes_of(meets ? AWS_ONGOING : ""));
		json_end_object(w);
	}
	json_end_array(w);
	json_member_text(w, BYTES("Message"),
	                 arena_printf(a,
	                              "Transaction cancelled, please refer cancellation reasons for specific "
	                              "reasons [%.*s]",
	                              BYTES_ARG(buf_bytes(&list))));
}

static inline void aws_write_refusal(struct json_writer *w, const struct aws_items *q,
                                     const struct json *body, struct arena *a)
{
	switch (q->kind) {
	case AWS_TRANSACT_WRITE:
	case AWS_TRANSACT_GET:
		aws_write_cancelled(w, q, a);
		break;
	case AWS_WRITE:
		json_member_text(w, BYTES("__type"), BYTES(AWS_TYPE "TransactionConflictException"));
		json_member_text(w, BYTES("message"), BYTES(AWS_ONGOING));
		break;
	case AWS_BATCH_WRITE: /* all of it: how much of it AWS would do is not documented */
		json_key(w, BYTES("UnprocessedItems"));
		json_tree(w, json_get(body, BYTES("RequestItems")));
		break;
	default:
		json_member_text(w, BYTES("__type"),
		                 BYTES(AWS_TYPE "ProvisionedThroughputExceededException"));
		json_member_text(w, BYTES("message"), BYTES("refused by aws_like"));
	}
}

/* AWS does not document what a refused transaction costs. We assume what it would have cost, and say so to tools that ask for it. */
static inline void aws_charge(struct aws_conn *c, const struct aws_items *q, const struct json *body,
                              struct json_writer *w)
{
	bool         reads = q->kind == AWS_TRANSACT_GET;
	uint64_t     units = reads || q->kind == AWS_TRANSACT_WRITE ? aws_units(q) : 0;
	struct bytes asked = json_text(json_get(body, BYTES("ReturnConsumedCapacity")));

	pthread_mutex_lock(&c->p->lock);
	*(reads ? &c->p->refused_read_units : &c->p->refused_write_units) += units;
	aws_operation_find(c->p, aws_operation_of(wire_head(&c->request)))->refused++;
	pthread_mutex_unlock(&c->p->lock);
	if (units == 0 || asked.len == 0 || bytes_is(asked, "NONE"))
		return;
	json_key(w, BYTES("ConsumedCapacity"));
	json_begin_array(w);
	json_begin_object(w);
	json_member_i64(w, BYTES("CapacityUnits"), (int64_t)units);
	json_member_i64(w, reads ? BYTES("ReadCapacityUnits") : BYTES("WriteCapacityUnits"), (int64_t)units);
	json_end_object(w);
	json_end_array(w);
}

static inline bool aws_refuse(struct aws_conn *c, const struct aws_items *q, const struct json *body)
{
	struct json_writer w;
	struct buf         text;

	buf_init(&text, &c->arena);
	json_writer_init(&w, &text);
	json_begin_object(&w);
	aws_write_refusal(&w, q, body, &c->arena);
	aws_charge(c, q, body, &w);
	json_end_object(&w);
	return aws_say(c, q->kind == AWS_BATCH_WRITE ? 200 : 400, buf_bytes(&text));
}

/* Is it one of the share that is? */
static inline bool aws_drawn(struct aws_conn *c, double share)
{
	return share > 0 && rand_r(&c->seed) < share * RAND_MAX;
}

/* ---- a query of two moments ---- */

static inline bool aws_mixes(struct aws_conn *c, const struct aws_settings *s)
{
	return aws_fault_take(c, AWS_MIX) || aws_drawn(c, s->mix_share);
}

/* Until one that came meanwhile is done. */
static inline void aws_await_write(struct aws_like *p, int64_t us)
{
	struct timespec until;
	uint64_t        before;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (until.tv_nsec / 1000 + us) / 1000000;
	until.tv_nsec = (until.tv_nsec / 1000 + us) % 1000000 * 1000;
	pthread_mutex_lock(&p->lock);
	before = p->writes;
	p->mixing++;
	while (p->writes == before && pthread_cond_timedwait(&p->moved, &p->lock, &until) == 0)
		continue;
	p->mixing--;
	pthread_mutex_unlock(&p->lock);
}

/* Is it one of the first n? */
static inline bool aws_among(struct bytes *keys, uint32_t n, struct bytes key)
{
	for (uint32_t i = 0; i < n; i++)
		if (bytes_equal(keys[i], key))
			return true;
	return false;
}

/* The first half of `then`, and what comes after it in `now`. Returns how many. */
static inline uint32_t aws_write_mixed(struct json_writer *w, struct arena *a,
                                       const struct aws_schema *schema, const struct json *then,
                                       const struct json *now)
{
	uint32_t           half = (then->count + 1) / 2, n = 0, written = half;
	struct bytes      *keys = arena_array(a, half + 1, sizeof(*keys));
	const struct json *rest = json_children(now);

	json_key(w, BYTES("Items"));
	json_begin_array(w);
	for (const struct json *one = json_children(then); n < half; one = one->next) {
		keys[n++] = aws_key_text(a, schema, one);
		json_tree(w, one);
	}
	for (const struct json *one = rest; one != NULL; one = one->next)
		if (aws_among(keys, half, aws_key_text(a, schema, one)))
			rest = one->next;
	for (; rest != NULL; rest = rest->next, written++)
		json_tree(w, rest);
	json_end_array(w);
	return written;
}

static inline bool aws_mixed(struct aws_conn *c, const struct aws_settings *s, const struct json *body)
{
	const struct aws_schema *schema = aws_schema_find(c, json_text(json_get(body, BYTES("TableName"))));
	const struct json       *then, *now, *last;
	struct json_writer       w;
	struct buf               text;
	uint32_t                 count;

	if (!aws_send_over(c, buf_bytes(&c->request.raw), &c->answer))
		return false;
	aws_await_write(c->p, s->mix_us);
	if (!aws_send_over(c, buf_bytes(&c->request.raw), &c->second))
		return false;
	then = json_get(aws_json(c, wire_body(&c->answer)), BYTES("Items"));
	now = aws_json(c, wire_body(&c->second));
	if (schema == NULL || then == NULL || json_get(now, BYTES("Items")) == NULL)
		return wire_send(c->fd, buf_bytes(&c->second.raw));
	buf_init(&text, &c->arena);
	json_writer_init(&w, &text);
	json_begin_object(&w);
	count = aws_write_mixed(&w, &c->arena, schema, then, json_get(now, BYTES("Items")));
	json_member_i64(&w, BYTES("Count"), count);
	json_member_i64(&w, BYTES("ScannedCount"), count);
	last = json_get(now, BYTES("LastEvaluatedKey"));
	if (last != NULL) {
		json_key(&w, BYTES("LastEvaluatedKey"));
		json_tree(&w, last);
	}
	json_end_object(&w);
	return aws_say(c, 200, buf_bytes(&text));
}

/* ---- /aws-like ---- */

static const char *const aws_fault_names[AWS_FAULT_COUNT] = {"refuse", "late", "lose", "mix", "hold"};

/* {"refuse":{"TransactGetItems":2},"release":true,"holdUs":4000,"delayUs":0,"mixUs":4000,"mixPercent":10,"refusePercent":5,"forget":true}: what is not named stays. */
static inline void aws_control_set(struct aws_like *p, const struct json *asked)
{
	const struct {
		const char *name;
		int64_t    *to;
	} times[] = {{"holdUs", &p->settings.hold_us},
	             {"delayUs", &p->settings.delay_us},
	             {"mixUs", &p->settings.mix_us}};
	const struct {
		const char *name;
		double     *to;
	} shares[] = {{"mixPercent", &p->settings.mix_share}, {"refusePercent", &p->settings.refuse_share}};

	for (int i = 0; i < AWS_FAULT_COUNT; i++)
		for (const struct json *one = json_children(json_get(asked, bytes_of(aws_fault_names[i])));
		     one != NULL; one = one->next)
			aws_operation_find(p, one->name)->faults[i] = (unsigned)json_integer(one);
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		if (json_get(asked, bytes_of(times[i].name)) != NULL)
			*times[i].to = json_integer(json_get(asked, bytes_of(times[i].name)));
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		if (json_get(asked, bytes_of(shares[i].name)) != NULL)
			*shares[i].to = (double)json_integer(json_get(asked, bytes_of(shares[i].name))) / 100;
	if (json_truth(json_get(asked, BYTES("release")))) {
		p->releases++;
		pthread_cond_broadcast(&p->moved);
	}
	if (json_get(asked, BYTES("forget")) != NULL)
		p->settings.forget = json_truth(json_get(asked, BYTES("forget")));
}

static inline void aws_control_show(struct aws_like *p, struct json_writer *w)
{
	json_begin_object(w);
	json_key(w, BYTES("operations"));
	json_begin_object(w);
	for (unsigned i = 0; i < p->operation_count; i++) {
		json_name(w, bytes_of(p->operations[i].name));
		json_begin_object(w);
		json_member_i64(w, BYTES("requests"), (int64_t)p->operations[i].requests);
		json_member_i64(w, BYTES("refused"), (int64_t)p->operations[i].refused);
		json_end_object(w);
	}
	json_end_object(w);
	json_member_i64(w, BYTES("refusedReadUnits"), (int64_t)p->refused_read_units);
	json_member_i64(w, BYTES("refusedWriteUnits"), (int64_t)p->refused_write_units);
	json_member_i64(w, BYTES("late"), p->late_count);
	json_end_object(w);
}

static inline bool aws_control(struct aws_conn *c)
{
	const struct json *asked = aws_json(c, wire_body(&c->request));
	struct json_writer w;
	struct buf         text;

	buf_init(&text, &c->arena);
	json_writer_init(&w, &text);
	pthread_mutex_lock(&c->p->lock);
	aws_control_set(c->p, asked);
	aws_control_show(c->p, &w);
	pthread_mutex_unlock(&c->p->lock);
	return aws_say(c, 200, buf_bytes(&text));
}

#endif
