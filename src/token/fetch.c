/* Fetch: see fetch.h. */
#define _GNU_SOURCE
#include "token/fetch.h"

#include "base/date.h"
#include "outbound/outbound.h"

/* "https://host:port/path" in two: scheme, host and port with a NUL after them; the path, "/" if there is none. */
static struct bytes url_split(struct bytes url, struct arena *a, const char **origin)
{
	const char *host = memmem(url.data, url.len, "://", 3), *path = NULL;

	if (host != NULL)
		path = memchr(host + 3, '/', url.len - (size_t)(host + 3 - url.data));
	if (path == NULL) {
		*origin = arena_printf(a, "%.*s", BYTES_ARG(url)).data;
		return BYTES("/");
	}
	*origin = arena_printf(a, "%.*s", (int)(path - url.data), url.data).data;
	return (struct bytes){path, url.len - (size_t)(path - url.data)};
}

static enum err_code get(void *ctx, const struct token_route *route, struct bytes url, struct arena *a,
                         struct token_fetched *fetched, struct err *err)
{
	struct clock            *clock = ctx;
	static const int64_t     wait_us = TOKEN_FETCH_S * 1000000;
	struct outbound_options  target = {.name = "token issuer", .ca_file = route->ca_file, .clock = clock};
	struct outbound_request  request = {.method = BYTES("GET"), .repeatable = true};
	struct outbound_response answer;
	struct outbound         *out;
	enum err_code            rc;

	request.path = url_split(url, a, &target.url);
	request.deadline_us = clock_steady_us(clock) + wait_us;
	outbound_header_add(&request, BYTES("Accept"), BYTES("application/json"));
	target.allow_private = route->allow_private;
	target.calls_max = 1;
	target.connect_us = target.attempt_us = wait_us;
	target.body_bytes_max = JWKS_BYTES_MAX;
	target.circuit = (struct circuit_limits){100, 1000000, 1000000};
	if (outbound_open(&target, &out, err) != ERR_NONE)
		return err->code;
	rc = outbound_call(out, &request, a, &answer, err);
	outbound_close(out);
	if (rc != ERR_NONE)
		return rc;
	if (answer.status != 200)
		return err_set(err, ERR_OVERLOADED, "the issuer answered %d", answer.status);
	*fetched = (struct token_fetched){.body = answer.body};
	if (!date_read_http(outbound_header_get(&answer, "date"), &fetched->date_s))
		fetched->date_s = 0;
	return ERR_NONE;
}

struct token_fetch token_fetch_https(struct clock *clock)
{
	return (struct token_fetch){get, clock};
}
