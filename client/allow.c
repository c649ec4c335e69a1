/* Allow: gatehouse_allow. The server decides, or, when it cannot be asked, the limiter here; see gatehouse.h. */
#include "ask.h"
#include "call.h"
#include "error.h"

/* Details are welcome; without `allowed` it is no answer. */
static bool answer_read(struct text json, struct gatehouse_allow_answer *answer)
{
	struct text value;

	if (!json_find(json, "allowed", &value) || !json_bool(value, &answer->allowed))
		return false;
	if (json_find(json, "degraded", &value))
		(void)json_bool(value, &answer->degraded);
	if (!answer->allowed && json_find(json, "retry_after", &value))
		(void)json_whole(value, &answer->retry_after_s);
	if (json_find(json, "results", &value))
		answer->result_count = states_read(value, answer->results, GATEHOUSE_RESULTS_MAX);
	return true;
}

/* Keeps the limiter ready to take over. */
static void limiter_follow(struct gatehouse *g, const struct gatehouse_allow_request *q, int64_t cost,
                           const struct call *c, const struct gatehouse_allow_answer *answer)
{
	if (c->answer->policy.len > 0)
		limiter_learn(&g->limiter, q->policy, c->answer->policy);
	if (answer->allowed)
		limiter_note(&g->limiter, q->policy, q->key, cost, clock_us());
}

static enum gatehouse_code ask_server(struct gatehouse *g, const struct gatehouse_allow_request *q,
                                      int64_t cost, struct gatehouse_allow_answer *answer,
                                      struct gatehouse_error *error)
{
	struct gatehouse_check_limit limit = {.policy = q->policy, .key = q->key, .key_kind = q->key_kind};
	struct request               request;
	struct call                  call;
	enum gatehouse_code          rc;

	request_init(&request);
	ask_write(&request, &limit, cost);
	rc = request_finish(&request, g, "/v1/allow", NULL, error);
	if (rc != GATEHOUSE_OK)
		return rc;
	rc = call_begin(&call, g, q->deadline_ms, &request, error);
	if (rc == GATEHOUSE_OK && !answer_read(call.json, answer))
		rc = error_set(error, GATEHOUSE_PROTOCOL,
		               "the answer does not say whether the call is allowed");
	if (rc == GATEHOUSE_OK)
		limiter_follow(g, q, cost, &call, answer);
	call_end(&call);
	return rc;
}

enum gatehouse_code gatehouse_allow(struct gatehouse *g, const struct gatehouse_allow_request *q,
                                    struct gatehouse_allow_answer *answer, struct gatehouse_error *error)
{
	struct gatehouse_error unwanted;
	int64_t                cost = q->peek ? 0 : ask_cost(q->cost);
	enum gatehouse_code    rc;

	if (error == NULL)
		error = &unwanted;
	memset(answer, 0, sizeof(*answer));
	if (cost < 0)
		return error_set(error, GATEHOUSE_INVALID, "cost: must be at least 0");
	rc = ask_server(g, q, cost, answer, error);
	if (!code_is_unreachable(rc))
		return rc;
	memset(answer, 0, sizeof(*answer));
	answer->degraded = true;
	answer->cause = rc;
	if (!limiter_decide(&g->limiter, q->policy, q->key, cost, clock_us(), answer))
		answer->allowed = !g->deny_when_unknown;
	return GATEHOUSE_OK;
}
