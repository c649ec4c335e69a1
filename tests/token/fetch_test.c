/* Keys over HTTP from a scripted peer: discovery, then the keys; and what is not taken. */
#include "token/fetch.h"

#include "base/log.h"
#include "scripted.h"

#define KEY                                                                                                  \
	"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k\",\"x\":\"11qYAYKxCrfVS_"                          \
	"7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}"
#define OK(body) "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ?\r\n\r\n" body

struct world {
	struct token_route route;
	struct peer       *peer;
	struct arena       a;
	struct err         err;
	struct bytes       body;
	int64_t            date_s;
};

static void world_open(struct world *w, struct peer *p)
{
	log_set_level(LOG_ERROR);
	*w = (struct world){.peer = p, .route = {.allow_private = true}};
	arena_init(&w->a);
}

static void world_close(struct world *w)
{
	peer_close(w->peer);
	arena_release(&w->a);
}

static enum err_code get(struct world *w, const char *path)
{
	struct token_fetch f = token_fetch_https(clock_system());

	struct token_fetched out = {.body = w->body};
	enum err_code        rc =
	        f.get(f.ctx, &w->route, arena_printf(&w->a, "http://127.0.0.1:%u%s", w->peer->port, path),
	              &w->a, &out, &w->err);

	w->body = out.body;
	w->date_s = out.date_s;
	return rc;
}

TEST(fetch, asks_for_the_path_and_brings_the_body)
{
	struct world w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, OK("{}")})));
	assert_int_equal(get(&w, "/a/b?c=d"), ERR_NONE);
	assert_bytes(w.body, "{}");
	assert_non_null(strstr(w.peer->seen[0], "GET /a/b?c=d HTTP/1.1\r\n"));
	assert_non_null(strstr(w.peer->seen[0], "\r\nAccept: application/json\r\n"));
	assert_int_equal(get(&w, ""), ERR_NONE);
	assert_non_null(strstr(w.peer->seen[1], "GET / HTTP/1.1\r\n"));
	world_close(&w);
}

TEST(fetch, says_what_time_it_is_at_the_issuer)
{
	static const char dated[] =
	        "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 2\r\n\r\n{}";
	static const char senseless[] = "HTTP/1.1 200 OK\r\nDate: tomorrow\r\nContent-Length: 2\r\n\r\n{}";
	struct world      w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, dated}, {PEER_ANSWER, senseless},
	                                        {PEER_ANSWER, OK("{}")})));
	assert_int_equal(get(&w, "/a"), ERR_NONE);
	assert_int_equal(w.date_s, 784111777);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(get(&w, "/a"), ERR_NONE);
		assert_int_equal(w.date_s, 0);
	}
	world_close(&w);
}

TEST(fetch, a_redirect_or_an_error_is_no_answer)
{
	static const char *const answers[] = {
	        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
	        "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}",
	        "HTTP/1.1 204 No Content\r\n\r\n",
	};

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		struct world w;

		world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, answers[i]})));
		assert_int_equal(get(&w, "/keys"), ERR_OVERLOADED);
		assert_non_null(strstr(w.err.text, "the issuer answered"));
		world_close(&w);
	}
}

TEST(fetch, private_addresses_are_refused_unless_allowed)
{
	struct world w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, OK("{}")})));
	w.route.allow_private = false;
	assert_int_not_equal(get(&w, "/keys"), ERR_NONE);
	assert_int_equal(peer_connections(w.peer), 0);
	world_close(&w);
}

TEST(fetch, an_issuers_keys_by_discovery)
{
	static char           discovery[512];
	struct world          w;
	struct json_reader   *reader = json_reader_open();
	struct issuers       *all;
	struct issuer_options o = {.rules = jwt_rules_default()};
	struct issuer_numbers n;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_ANSWER, discovery},
	                                        {PEER_ANSWER, OK("{\"keys\":[" KEY "]}")})));
	o.issuer = arena_printf(&w.a, "http://127.0.0.1:%u/", w.peer->port);
	o.rules.audience_any = true;
	o.route.allow_private = true;
	snprintf(discovery, sizeof(discovery), OK("{\"issuer\":\"%s\",\"jwks_uri\":\"%sthe/keys\"}"),
	         o.issuer.data, o.issuer.data);
	all = issuers_open(token_fetch_https(clock_system()), clock_system());
	assert_int_equal(issuers_add(all, &o, &w.err), ERR_NONE);
	assert_int_equal(issuers_round(all, reader, NULL), 0);
	assert_true(issuers_read(all, 0, &n));
	assert_int_equal(n.keys, 1);
	assert_non_null(strstr(w.peer->seen[0], "GET /.well-known/openid-configuration HTTP/1.1\r\n"));
	assert_non_null(strstr(w.peer->seen[1], "GET /the/keys HTTP/1.1\r\n"));
	issuers_drop(all);
	json_reader_close(reader);
	world_close(&w);
}
