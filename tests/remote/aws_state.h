/* Aws state: what the proxy of aws_like.h holds, what is asked of it, and its way to the endpoint. */
#ifndef TESTS_REMOTE_AWS_STATE_H
#define TESTS_REMOTE_AWS_STATE_H

#include <pthread.h>
#include <time.h>

#include "remote/aws_keys.h"
#include "remote/aws_wire.h"

enum { AWS_HOLD_US = 4000, AWS_OPERATIONS_MAX = 32, AWS_LATE_MAX = 64 };

enum aws_fault { AWS_REFUSE, AWS_LATE, AWS_LOSE, AWS_MIX, AWS_HOLD, AWS_FAULT_COUNT };

/* Of one operation. */
struct aws_operation {
	char     name[48];
	uint64_t requests, refused;
	unsigned faults[AWS_FAULT_COUNT]; /* so many of the next */
};

struct aws_settings {
	int64_t hold_us;  /* of a write */
	int64_t delay_us; /* of every request: how far the endpoint is away */
	int64_t mix_us;
	double  mix_share;    /* of queries */
	double  refuse_share; /* of transactions, beside those that meet others */
	bool    forget;
};

struct aws_late {
	char       token[AWS_TOKEN_BYTES];
	struct buf raw; /* the whole request */
	size_t     head_len;
};

struct aws_like {
	/* set once */
	int       listener;
	unsigned  port, endpoint_port;
	pthread_t thread;
	/* shared under lock */
	pthread_mutex_t      lock;
	pthread_cond_t       moved; /* a write was done, held ones may go on, or a connection ended */
	struct aws_settings  settings;
	struct aws_items    *under_way;
	struct aws_operation operations[AWS_OPERATIONS_MAX];
	unsigned             operation_count;
	struct aws_late      late[AWS_LATE_MAX];
	unsigned             late_count;
	uint64_t             writes, releases, renamed, refused_read_units, refused_write_units;
	unsigned             holding; /* requests that wait for a release */
	struct aws_schema   *schemas; /* AWS_TABLES_MAX */
	unsigned             schema_count;
	struct aws_conn     *conns;
	unsigned             mixing; /* queries that wait for a write */
	bool                 closing;
};

/* A client's connection. Only its thread's, but for the list and fd. */
struct aws_conn {
	struct aws_like    *p;
	int                 fd, endpoint;
	struct wire_message request, answer, second;
	struct arena        arena; /* of the request */
	struct json_reader *json;
	unsigned            seed;
	struct aws_conn    *next, **link;
};

/* ---- the endpoint ---- */

static inline bool aws_send_over(struct aws_conn *c, struct bytes text, struct wire_message *answer)
{
	if (c->endpoint >= 0 && wire_gone(c->endpoint)) {
		close(c->endpoint);
		c->endpoint = -1;
	}
	if (c->endpoint < 0)
		c->endpoint = wire_connect(c->p->endpoint_port);
	if (c->endpoint >= 0 && wire_send(c->endpoint, text) && wire_read(c->endpoint, answer))
		return true;
	close(c->endpoint);
	c->endpoint = -1;
	return false;
}

static inline const struct json *aws_json(struct aws_conn *c, struct bytes text)
{
	struct json *out;
	struct err   err;

	return json_read(c->json, &c->arena, text, &out, &err) == ERR_NONE ? out : NULL;
}

static inline struct bytes aws_operation_of(struct bytes head)
{
	struct bytes target = wire_header(head, "X-Amz-Target");
	const char  *dot = target.len == 0 ? NULL : memchr(target.data, '.', target.len);

	return dot == NULL ? BYTES("")
	                   : (struct bytes){dot + 1, target.len - (size_t)(dot + 1 - target.data)};
}

/* The table's keys, as the endpoint names them. */
static inline bool aws_describe(struct aws_conn *c, struct bytes table, struct aws_schema *out)
{
	struct wire_message m = {0};
	struct bytes        head = wire_head(&c->request), allowed = wire_header(head, "Authorization"),
	             date = wire_header(head, "X-Amz-Date");
	struct bytes text = arena_printf(
	        &c->arena,
	        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-amz-json-1.0\r\n"
	        "X-Amz-Target: DynamoDB_20120810.DescribeTable\r\nX-Amz-Date: %.*s\r\n"
	        "Authorization: %.*s\r\nContent-Length: %zu\r\n\r\n{\"TableName\":\"%.*s\"}",
	        BYTES_ARG(date), BYTES_ARG(allowed), table.len + 16, BYTES_ARG(table));
	const struct json *keys = NULL;
	int                i = 0;

	if (aws_send_over(c, text, &m))
		keys = json_get(json_get(aws_json(c, wire_body(&m)), BYTES("Table")), BYTES("KeySchema"));
	*out = (struct aws_schema){0};
	snprintf(out->table, sizeof(out->table), "%.*s", BYTES_ARG(table));
	for (const struct json *one = json_children(keys); one != NULL && i < 2; one = one->next, i++)
		snprintf(out->names[i], sizeof(out->names[i]), "%.*s",
		         BYTES_ARG(json_text(json_get(one, BYTES("AttributeName")))));
	buf_release(&m.raw);
	return keys != NULL;
}

/* Under lock. */
static inline struct aws_schema *aws_schema_known(struct aws_like *p, struct bytes table)
{
	for (unsigned i = 0; i < p->schema_count; i++)
		if (bytes_is(table, p->schemas[i].table))
			return &p->schemas[i];
	return NULL;
}

static inline const struct aws_schema *aws_schema_find(void *ctx, struct bytes table)
{
	struct aws_conn   *c = ctx;
	struct aws_schema *copy = arena_alloc(&c->arena, sizeof(*copy)), *known;

	pthread_mutex_lock(&c->p->lock);
	known = aws_schema_known(c->p, table);
	if (known != NULL)
		*copy = *known;
	pthread_mutex_unlock(&c->p->lock);
	if (known != NULL)
		return copy;
	if (!aws_describe(c, table, copy))
		return NULL;
	pthread_mutex_lock(&c->p->lock);
	if (c->p->schema_count < AWS_TABLES_MAX && aws_schema_known(c->p, table) == NULL)
		c->p->schemas[c->p->schema_count++] = *copy;
	pthread_mutex_unlock(&c->p->lock);
	return copy;
}

/* The next table of that name may have other keys. */
static inline void aws_schema_drop(struct aws_like *p, struct bytes table)
{
	struct aws_schema *known;

	pthread_mutex_lock(&p->lock);
	known = aws_schema_known(p, table);
	if (known != NULL)
		*known = p->schemas[--p->schema_count];
	pthread_mutex_unlock(&p->lock);
}

/* ---- what it counts, and what is asked of it ---- */

/* Under lock. */
static inline struct aws_operation *aws_operation_find(struct aws_like *p, struct bytes name)
{
	struct aws_operation *o = p->operations;

	for (unsigned i = 0; i < p->operation_count; i++, o++)
		if (bytes_is(name, o->name))
			return o;
	if (p->operation_count == AWS_OPERATIONS_MAX)
		return o - 1;
	p->operation_count++;
	snprintf(o->name, sizeof(o->name), "%.*s", BYTES_ARG(name));
	return o;
}

/* The next `count` requests of that operation. */
static inline void aws_like_fault(struct aws_like *p, enum aws_fault fault, const char *operation,
                                  unsigned count)
{
	pthread_mutex_lock(&p->lock);
	aws_operation_find(p, bytes_of(operation))->faults[fault] = count;
	pthread_mutex_unlock(&p->lock);
}

/* Those that are held go on. */
static inline void aws_like_release(struct aws_like *p)
{
	pthread_mutex_lock(&p->lock);
	p->releases++;
	pthread_cond_broadcast(&p->moved);
	pthread_mutex_unlock(&p->lock);
}

static inline void aws_like_set(struct aws_like *p, const struct aws_settings *settings)
{
	pthread_mutex_lock(&p->lock);
	p->settings = *settings;
	pthread_mutex_unlock(&p->lock);
}

static inline struct aws_settings aws_like_settings(struct aws_like *p)
{
	struct aws_settings s;

	pthread_mutex_lock(&p->lock);
	s = p->settings;
	pthread_mutex_unlock(&p->lock);
	return s;
}

/* How many requests of that operation came, and how many of them were refused. */
static inline struct aws_operation aws_like_count(struct aws_like *p, const char *operation)
{
	struct aws_operation o;

	pthread_mutex_lock(&p->lock);
	o = *aws_operation_find(p, bytes_of(operation));
	pthread_mutex_unlock(&p->lock);
	return o;
}

/* Is this request one of the next? */
static inline bool aws_fault_take(struct aws_conn *c, enum aws_fault fault)
{
	struct aws_operation *o;
	bool                  is;

	pthread_mutex_lock(&c->p->lock);
	o = aws_operation_find(c->p, aws_operation_of(wire_head(&c->request)));
	is = o->faults[fault] > 0;
	o->faults[fault] -= is;
	pthread_mutex_unlock(&c->p->lock);
	return is;
}

static inline void aws_wait(int64_t us)
{
	nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

#endif
