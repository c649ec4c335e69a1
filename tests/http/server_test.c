/* Server: what a client on a real socket sees: keep-alive, pipelining, bodies. */
#include "peer.h"

static struct house house;

static void serve(unsigned loops)
{
	house_init(&house);
	house_open(&house, loops, clock_system());
}

TEST(server, keeps_a_connection_for_many_requests)
{
	int fd;

	serve(1);
	fd = peer_connect(&house);
	for (int i = 0; i < 50; i++) {
		peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello");
		peer_expect(fd, 200, "hello");
	}
	assert_int_equal(http_server_stats(house.server).accepted, 1);
	assert_int_equal(http_server_stats(house.server).requests, 50);
	close(fd);
	house_close(&house);
}

TEST(server, shows_the_request_as_it_was_sent)
{
	int fd;

	serve(1);
	fd = peer_connect(&house);
	peer_send(fd, "PUT /say?a=1&b=%20 HTTP/1.1\r\n" HOST
	              "x-A: \t two words \t\r\nContent-Length: 3\r\n\r\nabc");
	peer_expect(fd, 200, "3 /say a=1&b=%20 two words 3");
	peer_send(fd, "GET http://somewhere:80/say?q HTTP/1.1\r\n" HOST "\r\n");
	peer_expect(fd, 200, "0 /say q  0");
	peer_send(fd, "DELETE /say HTTP/1.1\r\n" HOST "X-A:\r\n\r\n");
	peer_expect(fd, 200, "4 /say   0");
	close(fd);
	house_close(&house);
}

TEST(server, tells_the_handler_where_the_peer_is)
{
	int fd;

	serve(1);
	fd = peer_connect(&house);
	for (int i = 0; i < 2; i++) { /* it belongs to the connection, not to its first request */
		peer_send(fd, "GET /peer HTTP/1.1\r\n" HOST "\r\n");
		peer_expect(fd, 200, "::ffff:127.0.0.1");
	}
	close(fd);
	house_close(&house);
}

TEST(server, answers_a_hundred_pipelined_requests_in_order)
{
	char   text[100 * 96], expected[16];
	size_t len = 0;
	int    fd;

	serve(2);
	fd = peer_connect(&house);
	/* Every third goes through another thread: order must hold all the same. */
	for (int i = 0; i < 100; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
		                        "POST %s HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\n%03d",
		                        i % 3 == 0 ? "/later" : "/echo", i);
	peer_send(fd, text);
	for (int i = 0; i < 100; i++) {
		snprintf(expected, sizeof(expected), "%03d", i);
		peer_expect(fd, 200, expected);
	}
	close(fd);
	house_close(&house);
}

TEST(server, answers_pipelined_requests_that_overflow_the_read_buffer)
{
	enum { COUNT = 3000 };
	struct bytes one = BYTES("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok");
	char        *text = malloc(COUNT * one.len);
	int          fd;

	for (size_t i = 0; i < COUNT; i++)
		memcpy(text + i * one.len, one.data, one.len);
	serve(1);
	fd = peer_connect(&house);
	assert_true(peer_try_send(fd, text, COUNT * one.len));
	for (int i = 0; i < COUNT; i++)
		peer_expect(fd, 200, "ok");
	free(text);
	close(fd);
	house_close(&house);
	/* However many there are, the next is handled after the last has returned. */
	assert_int_equal(house.depth_max[0], 1);
}

TEST(server, understands_a_request_that_comes_byte_by_byte)
{
	const char *text = "\r\nPOST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
	                   "3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n";
	int         fd;

	serve(1);
	fd = peer_connect(&house);
	for (const char *at = text; *at != '\0'; at++)
		assert_true(peer_try_send(fd, at, 1));
	peer_expect(fd, 200, "abc0123456789");
	peer_send(fd, "GET /say HTTP/1.1\r\n" HOST "\r\n");
	peer_expect(fd, 200, "0 /say   0");
	close(fd);
	house_close(&house);
}

TEST(server, tells_the_peer_to_go_on_when_it_asks)
{
	int fd;

	serve(1);
	fd = peer_connect(&house);
	peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 4\r\nExpect: 100-continue\r\n\r\n");
	peer_expect(fd, 100, "");
	peer_send(fd, "body");
	peer_expect(fd, 200, "body");
	/* The body is there already: no one waits. */
	peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 4\r\nExpect: 100-continue\r\n\r\nbody");
	peer_expect(fd, 200, "body");
	peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 4\r\nExpect: a-miracle\r\n\r\n");
	peer_expect(fd, 417, NULL);
	peer_expect_end(fd);
	close(fd);
	house_close(&house);
}

TEST(server, answers_head_without_a_body_and_goes_on)
{
	struct reply r;
	int          fd;

	serve(1);
	fd = peer_connect(&house);
	peer_send(fd, "HEAD /big?1000 HTTP/1.1\r\n" HOST "\r\nPOST /echo HTTP/1.1\r\n" HOST
	              "Content-Length: 1\r\n\r\nx");
	r = peer_read_reply(fd, true);
	assert_int_equal(r.status, 200);
	assert_non_null(strstr(r.head, "Content-Length: 1000\r\n"));
	reply_release(&r);
	peer_expect(fd, 200, "x");
	peer_send(fd, "GET /empty HTTP/1.1\r\n" HOST "\r\n");
	r = peer_read_reply(fd, false);
	assert_int_equal(r.status, 204);
	assert_null(strstr(r.head, "Content-Length"));
	reply_release(&r);
	close(fd);
	house_close(&house);
}

TEST(server, never_lets_a_header_value_start_another_line)
{
	struct reply r;
	int          fd;

	serve(1);
	fd = peer_connect(&house);
	peer_send(fd, "GET /header HTTP/1.1\r\n" HOST "\r\n");
	r = peer_read_reply(fd, false);
	assert_int_equal(r.status, 200);
	assert_non_null(strstr(r.head, "\r\nX-Good: yes\r\n"));
	assert_null(strstr(r.head, "X-Injected"));
	assert_null(strstr(r.head, "X-Bad"));
	reply_release(&r);
	close(fd);
	house_close(&house);
}

static void expect_connection(const char *request, const char *header, bool ends)
{
	int          fd = peer_connect(&house);
	struct reply r;

	peer_send(fd, request);
	r = peer_read_reply(fd, false);
	assert_int_equal(r.status, 200);
	if (header == NULL)
		assert_null(strstr(r.head, "Connection:"));
	else
		assert_non_null(strstr(r.head, header));
	reply_release(&r);
	if (ends) {
		peer_expect_end(fd);
	} else {
		peer_send(fd, "GET /say HTTP/1.1\r\n" HOST "\r\n");
		peer_expect(fd, 200, NULL);
	}
	close(fd);
}

TEST(server, keeps_or_ends_the_connection_as_version_and_header_say)
{
	serve(1);
	expect_connection("GET /say HTTP/1.1\r\n" HOST "\r\n", NULL, false);
	expect_connection("GET /say HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", "Connection: close\r\n",
	                  true);
	expect_connection("GET /say HTTP/1.1\r\n" HOST "Connection: keep-alive,\tCLOSE\r\n\r\n",
	                  "Connection: close\r\n", true);
	expect_connection("GET /say HTTP/1.0\r\n\r\n", "Connection: close\r\n", true);
	expect_connection("GET /say HTTP/1.0\r\nConnection: closed, Keep-Alive\r\n\r\n",
	                  "Connection: keep-alive\r\n", false);
	expect_connection("GET /say HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
	                  "Connection: close\r\n", true);
	expect_connection("GET /say HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "Connection: keep-alive\r\n",
	                  false);
	expect_connection("GET /close HTTP/1.1\r\n" HOST "\r\n", "Connection: close\r\n", true);
	house_close(&house);
}

TEST(server, answers_a_peer_that_has_closed_its_sending_side)
{
	int fd;

	serve(1);
	fd = peer_connect(&house);
	peer_send(fd, "POST /hold HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok");
	shutdown(fd, SHUT_WR);
	house_wait_held(&house, 1);
	house_let_go(&house);
	peer_expect(fd, 200, "ok");
	peer_expect_end(fd);
	close(fd);
	house_close(&house);
}

TEST(server, never_switches_protocols)
{
	int fd;

	serve(1);
	fd = peer_connect(&house);
	/* An upgrade may be ignored (RFC 9110 7.8), and clients that offer one count on it. */
	peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
	              "HTTP2-Settings: AA\r\nContent-Length: 2\r\n\r\nok");
	peer_expect(fd, 200, "ok");
	peer_send(fd, "CONNECT example:443 HTTP/1.1\r\n" HOST "\r\n");
	peer_expect(fd, 405, NULL);
	peer_expect_end(fd);
	close(fd);
	house_close(&house);
}

TEST(server, moves_large_bodies_both_ways)
{
	enum { LEN = 5 * 1000 * 1000 };
	char         head[128], *body = malloc(LEN);
	struct reply r;
	int          fd;

	for (size_t i = 0; i < LEN; i++)
		body[i] = (char)('a' + i % 23);
	serve(1);
	fd = peer_connect(&house);
	for (int round = 0; round < 2; round++) {
		snprintf(head, sizeof(head), "POST /echo HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n",
		         LEN);
		peer_send(fd, head);
		assert_true(peer_try_send(fd, body, LEN));
		r = peer_read_reply(fd, false);
		assert_int_equal(r.status, 200);
		assert_int_equal(r.body_len, LEN);
		assert_memory_equal(r.body, body, LEN);
		reply_release(&r);
	}
	free(body);
	close(fd);
	house_close(&house);
}
