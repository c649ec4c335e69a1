/* Call: see call.h.
 *
 * (1) A request is sent again, once, only when its connection broke before the answer was whole. Attempts carry an
 * idempotency key, checks change nothing, and a limit that counts one too many errs on the safe side.
 * (2) Any answer to a request, even a refusal, shows that the server is there; but a 5xx without Gatehouse's own
 * problem document comes from a proxy before it, and shows the opposite. */
#include "call.h"

#include "error.h"

bool code_is_unreachable(enum gatehouse_code code)
{
	return code == GATEHOUSE_NO_MEMORY || code == GATEHOUSE_UNREACHABLE || code == GATEHOUSE_TIMEOUT ||
	       code == GATEHOUSE_PROTOCOL;
}

/* ---- what came back ---- */

static enum gatehouse_code call_fail(struct call *c, struct gatehouse_error *error, enum gatehouse_code code,
                                     const char *text)
{
	c->sight = BREAKER_SAW_FAILURE;
	return error_set(error, code, "%s", text);
}

/* Fills *error from a problem document (RFC 9457), as far as there is one. */
static enum gatehouse_code call_refused(struct call *c, struct gatehouse_error *error)
{
	const struct answer *a = c->answer;
	enum gatehouse_code  code = a->status < 500 ? GATEHOUSE_REFUSED : GATEHOUSE_UNAVAILABLE;
	struct text          value;

	error_set(error, code, "the server answered with status %d", a->status);
	error->status = a->status;
	error->retry_after_s = a->retry_after;
	if (!a->problem || !json_check(a->body, &c->json))
		return code;
	if (json_find(c->json, "detail", &value) || json_find(c->json, "title", &value))
		(void)json_string(value, error->text, sizeof(error->text));
	if (json_find(c->json, "field", &value))
		(void)json_string(value, error->field, sizeof(error->field));
	return code;
}

static enum gatehouse_code call_judge(struct call *c, struct gatehouse_error *error)
{
	const struct answer *a = c->answer;

	if (a->status >= 500 && !a->problem) {
		call_fail(c, error, GATEHOUSE_UNREACHABLE, "a 5xx status that did not come from Gatehouse");
		error->status = a->status;
		return GATEHOUSE_UNREACHABLE;
	}
	if (a->status >= 300 && a->status < 400)
		return call_fail(c, error, GATEHOUSE_PROTOCOL, "a redirection");
	if (a->status < 300 && (!a->json || !json_check(a->body, &c->json)))
		return call_fail(c, error, GATEHOUSE_PROTOCOL, "the answer is not JSON");
	c->sight = BREAKER_SAW_SERVER;
	return a->status < 300 ? GATEHOUSE_OK : call_refused(c, error);
}

/* ---- one try ---- */

/* LINK_OK: an answer; LINK_BROKEN: none, and it may be tried again. *bad: what came is no HTTP. */
static enum link_result exchange(struct conn *conn, const struct request *q, int64_t deadline_us, bool *bad)
{
	struct answer   *a = &conn->answer;
	enum answer_step step = ANSWER_MORE;
	enum link_result rc = link_send(&conn->link, q->bytes + q->start, q->end - q->start, deadline_us);
	size_t           len = 0, size;
	char            *room;

	/* A server that refuses before it has read everything may have answered all the same. */
	if (rc == LINK_TIMEOUT)
		return rc;
	answer_reset(a);
	while (step == ANSWER_MORE) {
		room = answer_room(a, &size);
		rc = link_receive(&conn->link, room, size, deadline_us, &len);
		if (rc != LINK_OK)
			return rc;
		step = answer_took(a, len);
	}
	*bad = step == ANSWER_BAD;
	/* The server has grown tired of an idle connection, just as it was used. */
	return !*bad && a->status == 408 ? LINK_BROKEN : LINK_OK;
}

static enum gatehouse_code call_failed(struct call *c, enum link_result rc, const char *why,
                                       struct gatehouse_error *error)
{
	switch (rc) {
	case LINK_TIMEOUT:
		return call_fail(c, error, GATEHOUSE_TIMEOUT, "no answer within the deadline");
	case LINK_REFUSED:
		return call_fail(c, error, GATEHOUSE_UNREACHABLE, "no connection to the server");
	case LINK_UNTRUSTED:
		call_fail(c, error, GATEHOUSE_UNREACHABLE, "TLS failed");
		if (why != NULL)
			error_set(error, GATEHOUSE_UNREACHABLE, "the server's certificate: %s", why);
		return error->code;
	case LINK_NO_MEMORY:
		return error_set(error, GATEHOUSE_NO_MEMORY,
		                 "out of memory or file descriptors for a connection");
	default:
		return call_fail(c, error, GATEHOUSE_UNREACHABLE, "the connection broke");
	}
}

/* ---- the tries ---- */

static enum gatehouse_code call_try(struct call *c, const struct request *q, struct gatehouse_error *error)
{
	struct link     *link = &c->conn->link;
	enum link_result rc = LINK_BROKEN;
	const char      *why = NULL;
	bool             bad = false;

	for (int i = 0; i < CALL_TRIES_MAX && rc == LINK_BROKEN; i++) {
		rc = link->fd >= 0 ? LINK_OK : link_open(link, &c->g->names, c->g->tls, c->deadline_us, &why);
		if (rc != LINK_OK)
			break;
		rc = exchange(c->conn, q, c->deadline_us, &bad);
		if (rc != LINK_OK || bad || !c->conn->answer.keep)
			link_close(link);
		if (rc == LINK_BROKEN)
			pool_drop_idle(c->g);
	}
	if (rc != LINK_OK)
		return call_failed(c, rc, why, error);
	if (bad)
		return call_fail(c, error, GATEHOUSE_PROTOCOL, "the answer is not valid HTTP");
	c->answer = &c->conn->answer;
	return call_judge(c, error);
}

static enum gatehouse_code call_turned_away(enum gatehouse_code code, struct gatehouse_error *error)
{
	error_set(error, code, "%s",
	          code == GATEHOUSE_TIMEOUT     ? "all connections were in use until the deadline"
	          : code == GATEHOUSE_NO_MEMORY ? "out of memory for a connection"
	                                        : "the server could not be reached a moment ago");
	return code;
}

static enum gatehouse_code call_enter(struct call *c, struct gatehouse_error *error)
{
	enum gatehouse_code rc;
	bool                entered;

	pthread_mutex_lock(&c->g->lock);
	entered = breaker_enter(&c->g->breaker, clock_us(), &c->pass);
	pthread_mutex_unlock(&c->g->lock);
	if (!entered) {
		c->g = NULL;
		return call_turned_away(GATEHOUSE_UNREACHABLE, error);
	}
	rc = pool_take(c->g, c->pass.probe != 0, c->deadline_us, &c->conn);
	return rc == GATEHOUSE_OK ? rc : call_turned_away(rc, error);
}

enum gatehouse_code call_begin(struct call *c, struct gatehouse *g, int deadline_ms, const struct request *q,
                               struct gatehouse_error *error)
{
	enum gatehouse_code rc;

	*c = (struct call){.g = g};
	if (deadline_ms < 0 || deadline_ms > GATEHOUSE_DEADLINE_MS_MAX) {
		c->g = NULL;
		return error_set(error, GATEHOUSE_INVALID,
		                 "deadline_ms: must be from 0 to GATEHOUSE_DEADLINE_MS_MAX");
	}
	c->deadline_us = clock_us() + (deadline_ms != 0 ? deadline_ms : g->deadline_ms) * INT64_C(1000);
	rc = call_enter(c, error);
	return rc == GATEHOUSE_OK ? call_try(c, q, error) : rc;
}

/* A call that never entered (g is NULL) has nothing to give back. */
void call_end(struct call *c)
{
	if (c->g == NULL)
		return;
	if (c->conn != NULL)
		pool_give(c->g, c->conn);
	pthread_mutex_lock(&c->g->lock);
	breaker_leave(&c->g->breaker, &c->pass, c->sight, clock_us());
	if (c->g->breaker.state != BREAKER_CLOSED)
		pthread_cond_broadcast(&c->g->changed);
	pthread_mutex_unlock(&c->g->lock);
}
