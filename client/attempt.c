/* Attempt: gatehouse_attempt and gatehouse_check. There is no verdict but the server's: whatever goes wrong leaves
 * GATEHOUSE_UNKNOWN in the answer; see gatehouse.h. */
#include <stdio.h>

#include "ask.h"
#include "call.h"
#include "error.h"

/* ---- verdicts ---- */

static enum gatehouse_verdict verdict_of(struct text value)
{
	char said[32];

	if (!json_string(value, said, sizeof(said)))
		return GATEHOUSE_UNKNOWN;
	for (enum gatehouse_verdict v = GATEHOUSE_ALLOW; v <= GATEHOUSE_CHALLENGE; v++)
		if (strcmp(gatehouse_verdict_name(v), said) == 0)
			return v;
	return GATEHOUSE_UNKNOWN;
}

struct ruling {
	enum gatehouse_verdict verdict;
	int64_t                retry_after_s;
	char                   reason[64], until[40];
};

static enum gatehouse_code ruling_read(struct text json, struct ruling *r, struct gatehouse_error *error)
{
	struct text value;

	*r = (struct ruling){0};
	if (json_find(json, "verdict", &value))
		r->verdict = verdict_of(value);
	if (r->verdict == GATEHOUSE_UNKNOWN)
		return error_set(error, GATEHOUSE_PROTOCOL,
		                 "the answer has no verdict that this library knows");
	if (json_find(json, "reason", &value))
		(void)json_string(value, r->reason, sizeof(r->reason));
	/* Not the lock's own: in a check something else may last longer, or have no end. */
	if (json_find(json, "retry_after", &value))
		(void)json_whole(value, &r->retry_after_s);
	if (json_find(json, "until", &value))
		(void)json_string(value, r->until, sizeof(r->until));
	return GATEHOUSE_OK;
}

/* ---- attempts ---- */

static const char *outcome_name(enum gatehouse_outcome outcome)
{
	switch (outcome) {
	case GATEHOUSE_FAILURE:
		return "failure";
	case GATEHOUSE_SUCCESS:
		return "success";
	case GATEHOUSE_SENT:
		return "sent";
	}
	return NULL;
}

/* The caller's key, or 128 random bits. False: it cannot stand in a header. */
static bool once_key(const char *given, char out[REQUEST_KEY_BYTES_MAX + 1])
{
	uint64_t bits[2];
	size_t   len;

	if (given == NULL) {
		if (!random_fill(bits, sizeof(bits)))
			return false;
		snprintf(out, REQUEST_KEY_BYTES_MAX + 1, "%016llx%016llx", (unsigned long long)bits[0],
		         (unsigned long long)bits[1]);
		return true;
	}
	len = strnlen(given, REQUEST_KEY_BYTES_MAX + 1);
	for (size_t i = 0; i < len; i++)
		if (given[i] <= ' ' || given[i] > '~')
			return false;
	if (len == 0 || len > REQUEST_KEY_BYTES_MAX)
		return false;
	memcpy(out, given, len + 1);
	return true;
}

static void attempt_write(struct request *request, const struct gatehouse_attempt_request *q)
{
	request_init(request);
	request_open(request, NULL, '{');
	request_identifier(request, "subject", q->subject, q->subject_kind);
	request_text(request, "journey", q->journey);
	request_text(request, "type", q->type);
	request_text(request, "outcome", outcome_name(q->outcome));
	if (q->method_id != NULL)
		request_identifier(request, "method_id", q->method_id, q->method_id_kind);
	request_optional(request, "method_type", q->method_type);
	request_optional(request, "notification_type", q->notification_type);
	request_optional(request, "challenge", q->challenge_passed ? "passed" : NULL);
	if (q->ip != NULL || q->device_token != NULL || q->risk != 0) {
		request_open(request, "context", '{');
		request_optional(request, "ip", q->ip);
		request_optional(request, "device_token", q->device_token);
		if (q->risk != 0)
			request_whole(request, "risk", q->risk);
		request_close(request, '}');
	}
	request_close(request, '}');
}

static enum gatehouse_code attempt_read(struct text json, struct gatehouse_attempt_answer *answer,
                                        struct gatehouse_error *error)
{
	struct ruling       r;
	enum gatehouse_code rc = ruling_read(json, &r, error);
	struct text         value;

	if (rc != GATEHOUSE_OK)
		return rc;
	answer->verdict = r.verdict;
	answer->retry_after_s = r.retry_after_s;
	memcpy(answer->reason, r.reason, sizeof(answer->reason));
	memcpy(answer->until, r.until, sizeof(answer->until));
	if (json_find(json, "counted", &value))
		(void)json_bool(value, &answer->counted);
	if (json_find(json, "first_time", &value))
		(void)json_bool(value, &answer->first_time);
	if (json_find(json, "known_device", &value))
		(void)json_bool(value, &answer->known_device);
	if (json_find(json, "device_token", &value))
		(void)json_string(value, answer->device_token, sizeof(answer->device_token));
	return GATEHOUSE_OK;
}

enum gatehouse_code gatehouse_attempt(struct gatehouse *g, const struct gatehouse_attempt_request *q,
                                      struct gatehouse_attempt_answer *answer, struct gatehouse_error *error)
{
	struct gatehouse_error unwanted;
	struct request         request;
	struct call            call;
	enum gatehouse_code    rc;

	if (error == NULL)
		error = &unwanted;
	memset(answer, 0, sizeof(*answer));
	if (!once_key(q->idempotency_key, answer->idempotency_key))
		return error_set(error, GATEHOUSE_INVALID,
		                 "idempotency_key: must have 1 to %d visible characters",
		                 REQUEST_KEY_BYTES_MAX);
	attempt_write(&request, q);
	rc = request_finish(&request, g, "/v1/attempts", answer->idempotency_key, error);
	if (rc != GATEHOUSE_OK)
		return rc;
	rc = call_begin(&call, g, q->deadline_ms, &request, error);
	if (rc == GATEHOUSE_OK)
		rc = attempt_read(call.json, answer, error);
	call_end(&call);
	return rc;
}

/* ---- checks ---- */

static enum gatehouse_code check_bounds(const struct gatehouse_check_request *q,
                                        struct gatehouse_error               *error)
{
	if (q->action_count == 0 || q->action_count > GATEHOUSE_ACTIONS_MAX || q->actions == NULL)
		return error_set(error, GATEHOUSE_INVALID, "actions: must be 1 to %d", GATEHOUSE_ACTIONS_MAX);
	if (q->limit_count > GATEHOUSE_CHECK_LIMITS_MAX || (q->limit_count > 0 && q->limits == NULL))
		return error_set(error, GATEHOUSE_INVALID, "limits: must be at most %d",
		                 GATEHOUSE_CHECK_LIMITS_MAX);
	for (size_t i = 0; i < q->limit_count; i++)
		if (q->limits[i].cost < 0)
			return error_set(error, GATEHOUSE_INVALID, "cost: must be at least 0");
	return GATEHOUSE_OK;
}

static void check_limits_write(struct request *request, const struct gatehouse_check_request *q)
{
	request_open(request, "limits", '[');
	for (size_t i = 0; i < q->limit_count; i++)
		ask_write(request, &q->limits[i], ask_cost(q->limits[i].cost));
	request_close(request, ']');
}

static void check_write(struct request *request, const struct gatehouse_check_request *q)
{
	request_init(request);
	request_open(request, NULL, '{');
	request_identifier(request, "subject", q->subject, q->subject_kind);
	request_text(request, "journey", q->journey);
	request_open(request, "actions", '[');
	for (size_t i = 0; i < q->action_count; i++)
		request_text(request, NULL, q->actions[i]);
	request_close(request, ']');
	if (q->limit_count > 0)
		check_limits_write(request, q);
	request_close(request, '}');
}

/* Without the state of every limit it is a verdict over something else than was asked. */
static bool check_limits_read(struct text json, size_t asked, struct gatehouse_check_answer *answer)
{
	struct text value;

	if (json_find(json, "degraded", &value))
		(void)json_bool(value, &answer->degraded);
	if (json_find(json, "limits", &value))
		answer->limit_count = states_read(value, answer->limits, GATEHOUSE_CHECK_LIMITS_MAX);
	return answer->limit_count == asked;
}

static enum gatehouse_code check_read(struct text json, size_t asked, struct gatehouse_check_answer *answer,
                                      struct gatehouse_error *error)
{
	struct ruling       r;
	enum gatehouse_code rc = ruling_read(json, &r, error);

	if (rc != GATEHOUSE_OK)
		return rc;
	if (!check_limits_read(json, asked, answer)) {
		memset(answer, 0, sizeof(*answer));
		return error_set(error, GATEHOUSE_PROTOCOL,
		                 "the answer does not have the limits that were asked about");
	}
	answer->verdict = r.verdict;
	answer->retry_after_s = r.retry_after_s;
	memcpy(answer->reason, r.reason, sizeof(answer->reason));
	memcpy(answer->until, r.until, sizeof(answer->until));
	return GATEHOUSE_OK;
}

enum gatehouse_code gatehouse_check(struct gatehouse *g, const struct gatehouse_check_request *q,
                                    struct gatehouse_check_answer *answer, struct gatehouse_error *error)
{
	struct gatehouse_error unwanted;
	struct request         request;
	struct call            call;
	enum gatehouse_code    rc;

	if (error == NULL)
		error = &unwanted;
	memset(answer, 0, sizeof(*answer));
	rc = check_bounds(q, error);
	if (rc != GATEHOUSE_OK)
		return rc;
	check_write(&request, q);
	rc = request_finish(&request, g, "/v1/check", NULL, error);
	if (rc != GATEHOUSE_OK)
		return rc;
	rc = call_begin(&call, g, q->deadline_ms, &request, error);
	if (rc == GATEHOUSE_OK)
		rc = check_read(call.json, q->limit_count, answer, error);
	call_end(&call);
	return rc;
}
