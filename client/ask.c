/* Ask: see ask.h. */
#include "ask.h"

void ask_write(struct request *request, const struct gatehouse_check_limit *limit, int64_t cost)
{
	request_open(request, NULL, '{');
	request_text(request, "policy", limit->policy);
	request_identifier(request, "key", limit->key, limit->key_kind);
	request_whole(request, "cost", cost);
	request_close(request, '}');
}

static bool find_whole(struct text json, const char *name, int64_t *out)
{
	struct text value;

	return json_find(json, name, &value) && json_whole(value, out);
}

static bool state_read(struct text json, struct gatehouse_limit_state *state)
{
	struct text value;

	memset(state, 0, sizeof(*state));
	return json_find(json, "policy", &value) &&
	       json_string(value, state->policy, sizeof(state->policy)) &&
	       json_find(json, "allowed", &value) && json_bool(value, &state->allowed) &&
	       find_whole(json, "limit", &state->limit) && find_whole(json, "remaining", &state->remaining) &&
	       find_whole(json, "reset", &state->reset_s);
}

size_t states_read(struct text list, struct gatehouse_limit_state *states, size_t max)
{
	struct text value;
	size_t      at = 0, count = 0;

	while (count < max && json_next(list, &at, &value))
		count += state_read(value, &states[count]);
	return count;
}
