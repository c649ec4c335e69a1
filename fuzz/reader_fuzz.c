/* Reader fuzz: what readers of events send: cursors of any number of shards, the query of GET /v1/events, and the bodies of consumers. A cursor that is
 * read is written as it was, but for leading zeros; a request is decoded or refused with a problem that blames its sender. */
#include <stdio.h>
#include <stdlib.h>

#include "api/api.h"
#include "api/v1_routes.h"
#include "service/event_log.h"
#include "v1_steps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static void fuzz_cursor(struct arena *a, struct bytes text, uint32_t shards)
{
	struct event_cursor c, again;

	event_time_us(text);
	if (!event_cursor_read(text, shards, &c))
		return;
	require(c.shards == shards, "another number of shards");
	require(event_cursor_read(event_cursor_text(a, &c), shards, &again), "its own text is refused");
	require(event_cursor_reaches(&c, &again) && event_cursor_reaches(&again, &c),
	        "another cursor came back");
	require(event_cursor_distance(&c, &again) == 0, "a distance to itself");
}

static void fuzz_request(struct services *services, struct json_reader *json, struct bytes text,
                         unsigned which)
{
	static const struct {
		enum http_method method;
		const char      *path;
	} targets[] = {{HTTP_GET, "/v1/events"},
	               {HTTP_PUT, "/v1/consumers/c"},
	               {HTTP_POST, "/v1/consumers/c/poll"},
	               {HTTP_POST, "/v1/consumers/c/ack"},
	               {HTTP_POST, "/v1/consumers/c/seek"}};
	struct http_request r = {.method = targets[which % 5].method,
	                         .path = bytes_of(targets[which % 5].path)};
	struct v1_match     match;
	struct err          err = {.code = ERR_NONE};
	enum err_code       rc;

	arena_init(&r.arena);
	r.target = r.path;
	*(r.method == HTTP_GET ? &r.query : &r.body) = text;
	require(v1_match(&r, &match) == V1_MATCHED, "a path without a route");
	{
		struct v1_call c = {.ctx = {.services = services, .arena = &r.arena, .caller = BYTES("-")},
		                    .route = match.route,
		                    .call = {.http = &r}};

		memcpy(c.params, match.params, sizeof(c.params));
		rc = v1_steps(&c.call, json, &err);
		require(rc == ERR_NONE || (rc == err.code && err.text[0] != '\0'),
		        "a refusal without a text");
		require(rc == ERR_NONE || err_v1_status(rc) < 500, "a status that blames us");
		v1_protocol.release(&c.call);
	}
	arena_release(&r.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct json_reader *json; /* kept, as a loop thread keeps its own */
	static struct services     services;
	struct bytes               text;
	struct arena               a;

	if (json == NULL) {
		static const uint8_t secret[IDENTIFIER_KEY_BYTES] = {7};

		json = json_reader_open();
		services.tables = service_tables_default();
		identifier_key_init(&services.identifiers, secret);
	}
	if (size == 0)
		return 0;
	text = (struct bytes){(const char *)data + 1, size - 1};
	arena_init(&a);
	if (data[0] % 6 == 5)
		fuzz_cursor(&a, text, 1 + data[0] / 6 % 4);
	else
		fuzz_request(&services, json, text, data[0] % 6);
	arena_release(&a);
	return 0;
}
