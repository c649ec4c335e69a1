/* Target fuzz: what people send about targets and dead letters (bodies, queries, ids in paths), settings and secrets as the sender of each type reads them,
 * and rows of targets that somebody else wrote. A request is decoded or refused with a problem that blames its sender; a sender is opened, which connects
 * nothing, or a field is named; what is read of a row is within its bounds. */
#include <stdio.h>
#include <stdlib.h>

#include "api/api.h"
#include "api/v1_routes.h"
#include "dynamo/wire.h"
#include "server/target_sender.h"
#include "v1_steps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

/* ---- requests ---- */

enum { IN_BODY, IN_QUERY, IN_PATH };

static const struct {
	enum http_method method;
	const char      *path;
	int              where;
} routes[] = {{HTTP_PUT, "/v1/targets/t", IN_BODY},
              {HTTP_POST, "/v1/targets/t/rotate-secret", IN_BODY},
              {HTTP_POST, "/v1/dead-letters/redrive", IN_BODY},
              {HTTP_GET, "/v1/dead-letters", IN_QUERY},
              {HTTP_GET, "/v1/targets/", IN_PATH},
              {HTTP_GET, "/v1/dead-letters/t/", IN_PATH}};

enum { ROUTES = sizeof(routes) / sizeof(routes[0]) };

static void fuzz_request(struct services *services, struct json_reader *json, struct bytes text,
                         unsigned which)
{
	struct http_request r = {.method = routes[which].method, .path = bytes_of(routes[which].path)};
	struct v1_match     match;
	struct err          err = {.code = ERR_NONE};
	enum err_code       rc;

	arena_init(&r.arena);
	if (routes[which].where == IN_PATH)
		r.path = arena_printf(&r.arena, "%s%.*s", routes[which].path, BYTES_ARG(text));
	else
		*(routes[which].where == IN_QUERY ? &r.query : &r.body) = text;
	r.target = r.path;
	if (v1_match(&r, &match) == V1_MATCHED) {
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

/* ---- senders: {"url": "…", "secret": "…"} for each type ---- */

static struct item texts_of(struct arena *a, const struct json *tree)
{
	struct row row;

	row_init(&row, a);
	for (const struct json *m = tree->type == JSON_OBJECT ? json_children(tree) : NULL; m != NULL;
	     m = m->next)
		if (m->type == JSON_STRING && memchr(m->name.data, '\0', m->name.len) == NULL)
			row_set_text(&row, arena_printf(a, "%.*s", BYTES_ARG(m->name)).data, json_text(m));
	return row_item(&row);
}

static void fuzz_senders(struct arena *a, const struct json *tree, bool allow_private)
{
	struct target_senders s;
	struct target_sending q = {.name = BYTES("t"), .lanes = 1};
	struct sender        *sender;
	struct err            err;

	target_senders_init(&s, clock_system());
	s.allow_private = allow_private;
	q.settings = q.secrets = texts_of(a, tree);
	for (unsigned i = 0; i < target_type_count; i++) {
		q.type = &target_types[i];
		if (target_sender_open(&s, &q, &sender, &err) == ERR_NONE)
			sender->kind->close(sender);
		else
			require(err.code == ERR_INVALID && err.field[0] != '\0', "no field is named");
	}
	target_senders_release(&s);
}

/* ---- rows ---- */

static void fuzz_row(struct arena *a, const struct json *tree)
{
	struct item   row;
	struct target t;
	struct err    err;

	if (wire_item_check(tree, &err) != ERR_NONE || wire_item_read(a, tree, &row, &err) != ERR_NONE)
		return;
	t = target_of(a, &row);
	require(t.lanes >= 1 && t.lanes <= TARGET_LANES_MAX && t.tries >= 1 && t.tries <= TARGET_TRIES_MAX,
	        "lanes or tries out of their bounds");
	require(t.error_count <= TARGET_ERRORS_MAX && t.after.shards <= EVENT_SHARDS_MAX, "too many");
	require(t.success_s >= 0 && t.success_s <= TARGET_TIME_S_MAX && t.failing_s >= 0 &&
	                t.failing_s <= TARGET_TIME_S_MAX && t.disable_after_s <= TARGET_DISABLE_S_MAX,
	        "a time out of its bounds");
	for (uint32_t i = 0; i < t.after.shards; i++)
		require(t.after.after[i] >= 0, "a place before the first");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct json_reader *json; /* kept, as a loop thread keeps its own */
	static struct services     services;
	struct json               *tree;
	struct bytes               text;
	struct arena               a;
	struct err                 err;

	if (json == NULL) {
		static const uint8_t secret[IDENTIFIER_KEY_BYTES] = {7};

		setenv("AWS_ACCESS_KEY_ID", "id", 1); /* no file and no network is asked for credentials */
		setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
		json = json_reader_open();
		services.tables = service_tables_default();
		identifier_key_init(&services.identifiers, secret);
	}
	if (size == 0)
		return 0;
	text = (struct bytes){(const char *)data + 1, size - 1};
	if (data[0] % (ROUTES + 3) < ROUTES) {
		fuzz_request(&services, json, text, data[0] % (ROUTES + 3));
		return 0;
	}
	arena_init(&a);
	if (json_read(json, &a, text, &tree, &err) == ERR_NONE) {
		if (data[0] % (ROUTES + 3) == ROUTES)
			fuzz_row(&a, tree);
		else
			fuzz_senders(&a, tree, data[0] % (ROUTES + 3) == ROUTES + 1);
	}
	arena_release(&a);
	return 0;
}
