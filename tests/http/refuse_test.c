/* Refusals: every limit at it and one past it, every malformed request, every wrong address; and after each,
 * the server serves the next connection as if nothing had been. */
#include "peer.h"

static struct house house;

static void serve(unsigned loops)
{
	house_init(&house);
	house_open(&house, loops, clock_system());
}

TEST(refuse, refuses_a_body_that_is_announced_too_large_before_it_is_sent)
{
	int fd;

	house_init(&house);
	house.limits.body_bytes_max = 10;
	house_open(&house, 1, clock_system());
	fd = peer_connect(&house);
	peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 11\r\nExpect: 100-continue\r\n\r\n");
	peer_expect(fd, 413, NULL);
	peer_expect_end(fd);
	close(fd);
	house_close(&house);
}

TEST(refuse, lets_a_peer_that_overruns_the_limit_read_why)
{
	enum { LEN = 4 * 1000 * 1000 };
	char *body = calloc(1, LEN);
	int   fd;

	house_init(&house);
	house.limits.body_bytes_max = 1000;
	house_open(&house, 1, clock_system());
	fd = peer_connect(&house);
	peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 4000000\r\n\r\n");
	/* Like most clients: everything first, then a look at the answer. */
	assert_true(peer_try_send(fd, body, LEN));
	peer_expect(fd, 413, NULL);
	free(body);
	close(fd);
	house_close(&house);
}

static void send_stranger(int fd, const char *framing)
{
	peer_send(fd, "POST /say HTTP/1.1\r\n" HOST "X-Stranger: yes\r\n");
	peer_send(fd, framing);
}

TEST(refuse, takes_a_small_body_from_anyone_and_a_byte_more_only_from_those_it_knows)
{
	static char body[HTTP_SMALL_BODY_BYTES + 1];
	char        text[128];
	int         fd;

	house_init(&house);
	house_open(&house, 1, clock_system());
	fd = peer_connect(&house);
	snprintf(text, sizeof(text), "Content-Length: %d\r\n\r\n", HTTP_SMALL_BODY_BYTES);
	send_stranger(fd, text);
	assert_true(peer_try_send(fd, body, HTTP_SMALL_BODY_BYTES));
	peer_expect(fd, 200, "2 /say   16384");
	snprintf(text, sizeof(text), "POST /say HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n",
	         HTTP_SMALL_BODY_BYTES + 1);
	peer_send(fd, text);
	assert_true(peer_try_send(fd, body, HTTP_SMALL_BODY_BYTES + 1));
	peer_expect(fd, 200, "2 /say   16385");
	/* Answered by its head alone, without waiting for a byte of the body, and the last of its connection. */
	snprintf(text, sizeof(text), "Content-Length: %d\r\n\r\n", HTTP_SMALL_BODY_BYTES + 1);
	send_stranger(fd, text);
	peer_expect(fd, 200, "2 /say   0");
	peer_expect_end(fd);
	close(fd);
	house_close(&house);
}

TEST(refuse, tells_no_stranger_to_go_on_with_a_large_body)
{
	int fd;

	house_init(&house);
	house_open(&house, 1, clock_system());
	fd = peer_connect(&house);
	send_stranger(fd, "Expect: 100-continue\r\nContent-Length: 16385\r\n\r\n");
	peer_expect(fd, 200, "2 /say   0");
	peer_expect_end(fd);
	close(fd);
	house_close(&house);
}

TEST(refuse, takes_no_more_of_a_strangers_chunks_once_they_are_a_large_body)
{
	static char body[HTTP_SMALL_BODY_BYTES];
	int         fd;

	house_init(&house);
	house_open(&house, 1, clock_system());
	fd = peer_connect(&house);
	send_stranger(fd, "Transfer-Encoding: chunked\r\n\r\n4000\r\n");
	assert_true(peer_try_send(fd, body, sizeof(body)));
	peer_send(fd, "\r\n0\r\n\r\n");
	peer_expect(fd, 200, "2 /say   16384");
	send_stranger(fd, "Transfer-Encoding: chunked\r\n\r\n4000\r\n");
	assert_true(peer_try_send(fd, body, sizeof(body)));
	peer_send(fd, "\r\n1\r\nx");
	peer_expect(fd, 200, "2 /say   0");
	peer_expect_end(fd);
	close(fd);
	house_close(&house);
}

TEST(refuse, counts_what_the_handler_takes_until_it_has_answered_and_never_refuses_one_that_is_alone)
{
	enum { MEMORY = 1000000 };
	int first, second;

	house_init(&house);
	house.limits.body_bytes_max = MEMORY / 2;
	house.limits.memory_bytes_max = MEMORY;
	house_open(&house, 1, clock_system());
	first = peer_connect(&house);
	second = peer_connect(&house);
	peer_send(first, "GET /charge?600000 HTTP/1.1\r\n" HOST "\r\n");
	house_wait_held(&house, 1);
	peer_send(second, "GET /charge?400001 HTTP/1.1\r\n" HOST "\r\n");
	peer_expect(second, 503, NULL);
	peer_send(second, "GET /charge?400000 HTTP/1.1\r\n" HOST "\r\n");
	house_wait_held(&house, 2);
	house_let_go(&house);
	peer_expect(first, 200, NULL);
	peer_expect(second, 200, NULL);
	peer_send(first, "GET /charge?2000000 HTTP/1.1\r\n" HOST "\r\n");
	house_wait_held(&house, 1);
	house_let_go(&house);
	peer_expect(first, 200, NULL);
	close(first);
	close(second);
	house_close(&house);
}

/* Large bodies held at once are bounded: past the bound 503, and below it again all is well. */
TEST(refuse, bounds_the_memory_of_all_bodies_together)
{
	enum { LEN = 100 * 1000 };
	char head[128], *body = calloc(1, LEN);
	int  fds[8], refused = 0;

	house_init(&house);
	house.limits.body_bytes_max = LEN;
	house.limits.memory_bytes_max = 2 * LEN;
	house_open(&house, 1, clock_system());
	snprintf(head, sizeof(head), "POST /hold HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n", LEN);
	for (int i = 0; i < 8; i++) {
		fds[i] = peer_connect(&house);
		peer_send(fds[i], head);
		assert_true(peer_try_send(fds[i], body, LEN));
	}
	WAIT_UNTIL(http_server_stats(house.server).requests + http_server_stats(house.server).bad_requests ==
	           8);
	refused = (int)http_server_stats(house.server).bad_requests;
	assert_in_range(refused, 6, 7);
	house_let_go(&house);
	for (int i = 0; i < 8; i++) {
		struct reply r = peer_read_reply(fds[i], false);

		refused -= r.status == 503;
		reply_release(&r);
		close(fds[i]);
	}
	assert_int_equal(refused, 0);
	peer_expect_service(&house);
	free(body);
	house_close(&house);
}

/* Each sends a request whose head, target or body is exactly that long. */
static void send_head_of(int fd, size_t len)
{
	const char *start = "GET /say HTTP/1.1\r\n" HOST "X-B: ";
	char       *text = malloc(len + 1);

	memset(text, 'b', len);
	memcpy(text, start, strlen(start));
	memcpy(text + len - 4, "\r\n\r\n", 5);
	peer_send(fd, text);
	free(text);
}

static void send_target_of(int fd, size_t len)
{
	char       *target = malloc(len + 1);
	const char *end = " HTTP/1.1\r\n" HOST "\r\n";

	memset(target, 'x', len);
	memcpy(target, "/say?", 5);
	target[len] = '\0';
	peer_send(fd, "GET ");
	peer_send(fd, target);
	peer_try_send(fd, end, strlen(end)); /* may have been refused already */
	free(target);
}

static void send_headers(int fd, int count)
{
	char line[32];

	peer_send(fd, "GET /say HTTP/1.1\r\n" HOST);
	for (int i = 1; i < count; i++) {
		snprintf(line, sizeof(line), "X-%d: %d\r\n", i, i);
		peer_send(fd, line);
	}
	peer_send(fd, "\r\n");
}

static void send_body_of(int fd, size_t len, bool chunked)
{
	char *body = calloc(1, len + 1), head[128];

	memset(body, 'c', len);
	if (chunked)
		snprintf(head, sizeof(head),
		         "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n%zx\r\n", len);
	else
		snprintf(head, sizeof(head), "POST /echo HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n",
		         len);
	peer_send(fd, head);
	peer_send(fd, body);
	if (chunked)
		peer_send(fd, "\r\n0\r\n\r\n");
	free(body);
}

/* The same connection is served at the limit and refused one past it. */
#define EXPECT_LIMIT(status, at, past)                                                                       \
	do {                                                                                                 \
		int fd = peer_connect(&house);                                                               \
		at;                                                                                          \
		peer_expect(fd, 200, NULL);                                                                  \
		past;                                                                                        \
		peer_expect(fd, status, NULL);                                                               \
		peer_expect_end(fd);                                                                         \
		close(fd);                                                                                   \
	} while (0)

TEST(refuse, holds_each_limit_at_it_and_one_past_it)
{
	house_init(&house);
	house.limits.head_bytes_max = 4000;
	house.limits.target_bytes_max = 1000;
	house.limits.body_bytes_max = 5000;
	house_open(&house, 1, clock_system());
	EXPECT_LIMIT(431, send_head_of(fd, 4000), send_head_of(fd, 4001));
	EXPECT_LIMIT(414, send_target_of(fd, 1000), send_target_of(fd, 1001));
	EXPECT_LIMIT(431, send_headers(fd, HTTP_HEADERS_MAX), send_headers(fd, HTTP_HEADERS_MAX + 1));
	EXPECT_LIMIT(413, send_body_of(fd, 5000, false), send_body_of(fd, 5001, false));
	EXPECT_LIMIT(413, send_body_of(fd, 5000, true), send_body_of(fd, 5001, true));
	peer_expect_service(&house);
	house_close(&house);
}

TEST(refuse, takes_a_head_of_the_default_limit_and_of_the_largest)
{
	serve(1);
	EXPECT_LIMIT(431, send_head_of(fd, 16 * 1024), send_head_of(fd, 16 * 1024 + 1));
	EXPECT_LIMIT(414, send_target_of(fd, 8 * 1024), send_target_of(fd, 8 * 1024 + 1));
	house_close(&house);
	house_init(&house);
	house.limits.head_bytes_max = 64 * 1024;
	house_open(&house, 1, clock_system());
	EXPECT_LIMIT(431, send_head_of(fd, 64 * 1024), send_head_of(fd, 64 * 1024 + 1));
	house_close(&house);
}

struct malformed {
	const char *what;
	const char *text;
	size_t      len;
	int         status;
};

#define BAD(what, text, status)                                                                              \
	{                                                                                                    \
		what, text, sizeof(text) - 1, status                                                         \
	}

static const struct malformed malformed[] = {
        BAD("unknown method", "FETCH / HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("method in lower case", "get / HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("no method", " / HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("no target", "GET HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("target without slash", "GET say HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("space in the target", "GET /a b HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("two spaces before the target", "GET  / HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("two spaces after the target", "GET /  HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("tab in the target", "GET /\t HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("a user before the host", "GET http://me@t/ HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("a host that is none", "GET /say HTTP/1.1\r\nHost: a b/c\r\n\r\n", 400),
        BAD("a scheme without host", "GET http:///say HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("a scheme without slashes", "GET http:say HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("CONNECT", "CONNECT t:80 HTTP/1.1\r\n" HOST "\r\n", 405),
        BAD("no version", "GET /\r\n" HOST "\r\n", 505),
        BAD("version 2.0", "GET / HTTP/2.0\r\n" HOST "\r\n", 505),
        BAD("version 1.2", "GET / HTTP/1.2\r\n" HOST "\r\n", 505),
        BAD("version of words", "GET / HTTP/one\r\n" HOST "\r\n", 400),
        BAD("version with another letter", "GET / HTTQ/1.1\r\n" HOST "\r\n", 400),
        BAD("version with another mark", "GET / HTTP 1.1\r\n" HOST "\r\n", 400),
        BAD("another protocol", "GET / HTCPCP/1.1\r\n" HOST "\r\n", 400),
        BAD("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        BAD("TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        BAD("no host", "GET / HTTP/1.1\r\n\r\n", 400),
        BAD("two hosts", "GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400),
        BAD("header without colon", "GET / HTTP/1.1\r\n" HOST "X-A\r\n\r\n", 400),
        BAD("header without name", "GET / HTTP/1.1\r\n" HOST ": a\r\n\r\n", 400),
        BAD("space before the colon", "GET / HTTP/1.1\r\n" HOST "X-A : a\r\n\r\n", 400),
        BAD("space in a name", "GET / HTTP/1.1\r\n" HOST "X A: a\r\n\r\n", 400),
        BAD("folded line", "GET / HTTP/1.1\r\n" HOST "X-A: a\r\n b\r\n\r\n", 400),
        BAD("folded first header", "GET / HTTP/1.1\r\n Host: t\r\n\r\n", 400),
        BAD("NUL in a value", "GET / HTTP/1.1\r\n" HOST "X-A: a\0b\r\n\r\n", 400),
        BAD("NUL in a name", "GET / HTTP/1.1\r\n" HOST "X\0A: a\r\n\r\n", 400),
        BAD("NUL in the target", "GET /\0 HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("NUL first", "\0GET / HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("DEL in a value", "GET / HTTP/1.1\r\n" HOST "X-A: \x7f\r\n\r\n", 400),
        BAD("bare LF on the request line", "GET / HTTP/1.1\n" HOST "\r\n", 400),
        BAD("bare LF after a header", "GET / HTTP/1.1\r\nHost: t\n\r\n", 400),
        BAD("bare LF for the empty line", "GET / HTTP/1.1\r\n" HOST "\n", 400),
        BAD("bare CR", "GET / HTTP/1.1\r\n" HOST "X-A: a\rb\r\n\r\n", 400),
        BAD("two empty lines before", "\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 400),
        BAD("two lengths", "POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            400),
        BAD("the same length twice",
            "POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400),
        BAD("a list of lengths", "POST / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\na", 400),
        BAD("negative length", "POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n", 400),
        BAD("signed length", "POST / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\na", 400),
        BAD("length of words", "POST / HTTP/1.1\r\n" HOST "Content-Length: one\r\n\r\na", 400),
        BAD("hex length", "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x1\r\n\r\na", 400),
        BAD("empty length", "POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", 400),
        BAD("huge length", "POST / HTTP/1.1\r\n" HOST "Content-Length: 9223372036854775807\r\n\r\n", 413),
        BAD("length past 64 bits", "POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n",
            400),
        BAD("length and chunked",
            "POST / HTTP/1.1\r\n" HOST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400),
        BAD("chunked and length",
            "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
            400),
        BAD("chunked twice",
            "POST / HTTP/1.1\r\n" HOST
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400),
        BAD("chunked by another name",
            "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
        BAD("encoding with a blank before the colon",
            "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
        BAD("gzip, chunked", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            400),
        BAD("identity", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n", 400),
        BAD("chunked in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        BAD("chunk size of words", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
            400),
        BAD("no chunk size", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n\r\n", 400),
        BAD("negative chunk size", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-1\r\n",
            400),
        BAD("chunk with bare LF",
            "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n", 400),
        BAD("chunk longer than its size",
            "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 400),
        BAD("huge chunk",
            "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400),
};

TEST(refuse, answers_every_malformed_request_and_serves_the_next_connection)
{
	serve(2);
	for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		const struct malformed *m = &malformed[i];
		int                     fd = peer_connect(&house);
		struct reply            r;

		assert_true(peer_try_send(fd, m->text, m->len));
		r = peer_read_reply(fd, false);
		if (r.status != m->status)
			fail_msg("%s: %d, expected %d", m->what, r.status, m->status);
		if (strstr(r.head, "Connection: close\r\n") == NULL)
			fail_msg("%s: does not say that it closes", m->what);
		reply_release(&r);
		peer_expect_end(fd);
		close(fd);
		peer_expect_service(&house);
	}
	assert_int_equal(http_server_stats(house.server).bad_requests,
	                 sizeof(malformed) / sizeof(malformed[0]));
	house_close(&house);
}

static struct bytes error_body(void *ctx, struct arena *a, const struct http_error *e,
                               const char **content_type)
{
	(void)ctx;
	*content_type = "application/json";
	return arena_printf(a, "{\"status\":%d,\"message\":\"%s\"}", e->status, e->text);
}

static void handle_nothing(void *ctx, struct http_request *r)
{
	(void)ctx;
	answer_status(r, 204, false);
}

TEST(refuse, lets_the_handler_word_its_errors)
{
	struct http_handler handler = {.handle = handle_nothing, .error_body = error_body};
	struct err          err;
	struct reply        r;
	int                 fd;

	house_init(&house);
	assert_int_equal(http_server_open(&house.server,
	                                  &(struct http_server_options){.listen = "127.0.0.1:0",
	                                                                .loops = 1,
	                                                                .limits = &house.limits,
	                                                                .handler = &handler,
	                                                                .clock = clock_system()},
	                                  &err),
	                 ERR_NONE);
	fd = peer_connect(&house);
	peer_send(fd, "GET / HTTP/1.1\r\n\r\n");
	r = peer_read_reply(fd, false);
	assert_int_equal(r.status, 400);
	assert_non_null(strstr(r.head, "Content-Type: application/json\r\n"));
	assert_string_equal(r.body, "{\"status\":400,\"message\":\"the Host header is missing\"}");
	reply_release(&r);
	close(fd);
	http_server_close(house.server);
}

static enum err_code open_on(const char *listen, unsigned loops, const struct http_limits *limits,
                             struct err *err)
{
	struct http_handler handler = {.handle = handle_nothing};
	struct http_server *server;
	enum err_code       rc = http_server_open(&server,
	                                          &(struct http_server_options){.listen = listen,
	                                                                        .loops = loops,
	                                                                        .limits = limits,
	                                                                        .handler = &handler,
	                                                                        .clock = clock_system()},
	                                          err);

	if (rc == ERR_NONE)
		http_server_close(server);
	return rc;
}

TEST(refuse, refuses_addresses_it_cannot_listen_on)
{
	static const char *const wrong[] = {
	        "",         "127.0.0.1", ":80",           "localhost:80",  "127.0.0.1:",   "127.0.0.1:65536",
	        "::1:80",   "[::1]",     "[127.0.0.1]:1", "[]:80",         "127.0.0.1:-1", "127.0.0.1:8o",
	        "1.2.3:80", "[::1:80",   "a.b.c.d:80",    "127.0.0.1:80 ",
	};
	struct http_limits limits = http_limits_default();
	char               listen[64];
	struct err         err;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (open_on(wrong[i], 1, &limits, &err) != ERR_INVALID)
			fail_msg("\"%s\" was taken", wrong[i]);
	serve(1);
	snprintf(listen, sizeof(listen), "127.0.0.1:%u", http_server_port(house.server));
	assert_int_equal(open_on(listen, 1, &limits, &err), ERR_RESOURCE_IN_USE);
	assert_non_null(strstr(err.text, listen));
	house_close(&house);
	assert_int_equal(open_on("127.0.0.1:0", 0, &limits, &err), ERR_INVALID);
	assert_int_equal(open_on("127.0.0.1:0", 257, &limits, &err), ERR_INVALID);
	limits.head_bytes_max = 64 * 1024 + 1;
	assert_int_equal(open_on("127.0.0.1:0", 1, &limits, &err), ERR_INVALID);
}

TEST(refuse, takes_an_ipv6_address_all_the_same)
{
	struct http_limits  limits = http_limits_default();
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct http_handler handler = {.handle = handle_nothing};
	struct http_server *server;
	struct err          err;
	int                 fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		print_message("no IPv6 on this machine\n");
		close(fd);
		skip();
	}
	close(fd);
	assert_int_equal(http_server_open(&server,
	                                  &(struct http_server_options){.listen = "[::1]:0",
	                                                                .loops = 1,
	                                                                .limits = &limits,
	                                                                .handler = &handler,
	                                                                .clock = clock_system()},
	                                  &err),
	                 ERR_NONE);
	address.sin6_port = htons((uint16_t)http_server_port(server));
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	peer_send(fd, "GET / HTTP/1.1\r\n" HOST "\r\n");
	peer_expect(fd, 204, "");
	close(fd);
	http_server_close(server);
}
