/* Aws like: a proxy before a DynamoDB endpoint (our own server, dynoxide) that makes it behave as AWS documents where test endpoints are kinder: they
 * queue transactions that overlap, and AWS refuses them (aws_keys.h). Every write holds its items for `hold_us`, half of it before it is done and half
 * after.
 *
 * It also does what AWS does rarely, when a test asks for it:
 *   refuse  the next N requests of an operation, as if they met others (one that never does: throttled), or a share of all transactions
 *   late    the next N arrive late: the client gets no answer. When it repeats the request, with the same token or the same body, the late one is done
 *           first, and the repetition is refused as a conflict
 *   lose    the next N are done, and the client gets no answer
 *   mix     the next N queries, or a share of all, have rows of two moments: the first half as they were, the others as they are after the next write,
 *           or after mix_us
 *   hold    the next N writes hold their items until aws_like_release
 *   forget  tokens: each request is a new one, as at an endpoint that was restarted
 *
 * A thread per connection, with a connection of its own to the endpoint: everything waits where it stands. Tests in C have it in their process;
 * aws_like_tool.c is a program, for which GET and POST /aws-like show and set the same. */
#ifndef TESTS_REMOTE_AWS_LIKE_H
#define TESTS_REMOTE_AWS_LIKE_H

#include "remote/aws_answer.h"

/* ---- a request ---- */

/* Those under way are as they were: this one was refused. */
static inline bool aws_begin(struct aws_conn *c, struct aws_items *q, bool *running)
{
	struct aws_like *p = c->p;
	bool             meets;

	*running = false;
	pthread_mutex_lock(&p->lock);
	for (const struct aws_items *u = p->under_way; u != NULL; u = u->next)
		*running |= q->token.len > 0 && bytes_equal(q->token, u->token);
	meets = !*running && aws_meets(q, p->under_way);
	if (!meets && !*running && q->kind != AWS_TRANSACT_GET && q->kind != AWS_OTHER) {
		q->next = p->under_way;
		p->under_way = q;
	}
	pthread_mutex_unlock(&p->lock);
	return !meets && !*running;
}

static inline void aws_end(struct aws_conn *c, struct aws_items *q)
{
	pthread_mutex_lock(&c->p->lock);
	for (struct aws_items **u = &c->p->under_way; *u != NULL; u = &(*u)->next)
		if (*u == q) {
			*u = q->next;
			break;
		}
	pthread_mutex_unlock(&c->p->lock);
}

/* At an endpoint that forgets tokens each is new. */
static inline void aws_forget(struct aws_conn *c, const struct aws_items *q)
{
	struct bytes body = wire_body(&c->request);
	char        *at = q->token.len == 0 ? NULL : wire_find(body, q->token);

	if (at == NULL)
		return;
	pthread_mutex_lock(&c->p->lock);
	for (size_t i = 0, n = ++c->p->renamed; i < q->token.len; i++, n /= 16)
		at[i] = "0123456789abcdef"[n % 16];
	pthread_mutex_unlock(&c->p->lock);
}

static inline void aws_await_release(struct aws_like *p)
{
	uint64_t before;

	pthread_mutex_lock(&p->lock);
	before = p->releases;
	p->holding++;
	while (p->releases == before && !p->closing)
		pthread_cond_wait(&p->moved, &p->lock);
	p->holding--;
	pthread_mutex_unlock(&p->lock);
}

static inline bool aws_pass(struct aws_conn *c, struct aws_items *q, const struct aws_settings *s)
{
	bool writes = q->kind != AWS_OTHER && q->kind != AWS_TRANSACT_GET, ok;

	if (s->forget)
		aws_forget(c, q);
	if (writes)
		aws_wait(s->hold_us / 2);
	if (writes && aws_fault_take(c, AWS_HOLD))
		aws_await_release(c->p);
	ok = aws_send_over(c, buf_bytes(&c->request.raw), &c->answer);
	if (!writes)
		return ok;
	pthread_mutex_lock(&c->p->lock);
	c->p->writes++;
	pthread_cond_broadcast(&c->p->moved);
	pthread_mutex_unlock(&c->p->lock);
	aws_wait(s->hold_us - s->hold_us / 2);
	aws_end(c, q);
	return ok;
}

/* Kept until it is repeated; the client hears nothing. */
static inline void aws_late_keep(struct aws_conn *c, const struct aws_items *q)
{
	struct aws_late *l = &c->p->late[c->p->late_count % AWS_LATE_MAX];

	pthread_mutex_lock(&c->p->lock);
	c->p->late_count += c->p->late_count < AWS_LATE_MAX;
	l->raw.len = 0;
	buf_add_bytes(&l->raw, buf_bytes(&c->request.raw));
	l->head_len = c->request.head_len;
	snprintf(l->token, sizeof(l->token), "%.*s", BYTES_ARG(q->token));
	pthread_mutex_unlock(&c->p->lock);
}

/* Is this the repetition of a late one? Then that one is done now. */
static inline bool aws_late_arrives(struct aws_conn *c, const struct aws_items *q)
{
	struct aws_late mine = {0};

	pthread_mutex_lock(&c->p->lock);
	for (unsigned i = 0; i < c->p->late_count && mine.raw.len == 0; i++) {
		struct aws_late *l = &c->p->late[i];
		struct bytes     body = {l->raw.data + l->head_len, l->raw.len - l->head_len};

		if (q->token.len > 0 ? !bytes_is(q->token, l->token)
		                     : !bytes_equal(body, wire_body(&c->request)))
			continue;
		mine = *l;
		*l = c->p->late[--c->p->late_count];
		c->p->late[c->p->late_count] = (struct aws_late){0};
	}
	pthread_mutex_unlock(&c->p->lock);
	if (mine.raw.len == 0)
		return false;
	aws_send_over(c, buf_bytes(&mine.raw), &c->answer);
	buf_release(&mine.raw);
	return true;
}

/* False: the client hears nothing more. */
static inline bool aws_serve_items(struct aws_conn *c, struct aws_items *q, const struct json *body)
{
	struct aws_settings s = aws_like_settings(c->p);
	bool is_transaction = q->kind == AWS_TRANSACT_GET || q->kind == AWS_TRANSACT_WRITE, running;

	if (aws_late_arrives(c, q))
		return aws_refuse(c, q, body);
	if (aws_fault_take(c, AWS_LATE)) {
		aws_late_keep(c, q);
		return false;
	}
	if (aws_fault_take(c, AWS_REFUSE) || (is_transaction && aws_drawn(c, s.refuse_share)))
		return aws_refuse(c, q, body);
	if (!aws_begin(c, q, &running))
		return running ? aws_in_progress(c) : aws_refuse(c, q, body);
	if (bytes_is(aws_operation_of(wire_head(&c->request)), "Query") && aws_mixes(c, &s))
		return aws_mixed(c, &s, body);
	return aws_pass(c, q, &s) && !aws_fault_take(c, AWS_LOSE) &&
	       wire_send(c->fd, buf_bytes(&c->answer.raw));
}

static inline bool aws_serve_one(struct aws_conn *c)
{
	struct bytes       operation = aws_operation_of(wire_head(&c->request));
	struct aws_items  *q = arena_zalloc(&c->arena, sizeof(*q));
	const struct json *body = aws_json(c, wire_body(&c->request));

	pthread_mutex_lock(&c->p->lock);
	aws_operation_find(c->p, operation)->requests++;
	pthread_mutex_unlock(&c->p->lock);
	aws_wait(aws_like_settings(c->p).delay_us);
	if (bytes_is(operation, "DeleteTable") || bytes_is(operation, "CreateTable"))
		aws_schema_drop(c->p, json_text(json_get(body, BYTES("TableName"))));
	q->kind = aws_kind_of(operation);
	aws_items_read(q, &c->arena, &(struct aws_schemas){aws_schema_find, c}, body);
	return aws_serve_items(c, q, body);
}

static inline void *aws_conn_run(void *arg)
{
	struct aws_conn *c = arg;
	struct aws_like *p = c->p;
	bool             go_on = true;

	while (go_on && wire_read(c->fd, &c->request)) {
		arena_reset(&c->arena);
		go_on = wire_find(wire_head(&c->request), BYTES(" /aws-like ")) != NULL ? aws_control(c)
		                                                                        : aws_serve_one(c);
	}
	pthread_mutex_lock(&p->lock);
	if (c->next != NULL)
		c->next->link = c->link;
	*c->link = c->next;
	close(c->fd);
	if (c->endpoint >= 0)
		close(c->endpoint);
	buf_release(&c->request.raw);
	buf_release(&c->answer.raw);
	buf_release(&c->second.raw);
	arena_release(&c->arena);
	json_reader_close(c->json);
	free(c);
	pthread_cond_broadcast(&p->moved);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static inline void aws_conn_open(struct aws_like *p, int fd)
{
	struct aws_conn *c = calloc(1, sizeof(*c));
	pthread_t        thread;

	*c = (struct aws_conn){
	        .p = p, .fd = fd, .endpoint = -1, .json = json_reader_open(), .seed = (unsigned)fd};
	wire_quick(fd);
	arena_init(&c->arena);
	pthread_mutex_lock(&p->lock);
	c->next = p->conns;
	c->link = &p->conns;
	if (c->next != NULL)
		c->next->link = &c->next;
	p->conns = c;
	if (pthread_create(&thread, NULL, aws_conn_run, c) != 0)
		abort();
	pthread_detach(thread);
	pthread_mutex_unlock(&p->lock);
}

static inline void *aws_accept_run(void *arg)
{
	struct aws_like *p = arg;
	int              fd;

	while ((fd = accept(p->listener, NULL, NULL)) >= 0)
		aws_conn_open(p, fd);
	return NULL;
}

/* Before the endpoint on that port of loopback. `port` 0: any that is free. */
static inline bool aws_like_open(struct aws_like *p, unsigned endpoint_port, unsigned port)
{
	*p = (struct aws_like){.port = port,
	                       .endpoint_port = endpoint_port,
	                       .schemas = calloc(AWS_TABLES_MAX, sizeof(*p->schemas)),
	                       .settings = {.hold_us = AWS_HOLD_US, .mix_us = AWS_HOLD_US}};
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->moved, NULL);
	p->listener = wire_listen(&p->port);
	return p->listener >= 0 && pthread_create(&p->thread, NULL, aws_accept_run, p) == 0;
}

static inline void aws_like_close(struct aws_like *p)
{
	shutdown(p->listener, SHUT_RDWR);
	pthread_join(p->thread, NULL);
	close(p->listener);
	pthread_mutex_lock(&p->lock);
	p->closing = true;
	pthread_cond_broadcast(&p->moved);
	for (struct aws_conn *c = p->conns; c != NULL; c = c->next)
		shutdown(c->fd, SHUT_RDWR);
	while (p->conns != NULL)
		pthread_cond_wait(&p->moved, &p->lock);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < AWS_LATE_MAX; i++)
		buf_release(&p->late[i].raw);
	free(p->schemas);
}

#endif
