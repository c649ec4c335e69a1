/* TLS: what is spoken and what is refused, and that requests and answers pass whole however they fall into
 * records. Certificates, reloading and client certificates are in tls_files_test.c. */
#include "secure_peer.h"

static struct house          house;
static struct http_tls_files files;

static void prepare(const char *certificate, const char *key)
{
	struct err err;

	certificates_make();
	house_init(&house);
	house.limits.head_ms = 10000;
	files = (struct http_tls_files){.certificate = strdup(in_dir(certificate)),
	                                .key = strdup(in_dir(key))};
	if (http_tls_open(&house.tls, &files, &err) != ERR_NONE)
		fail_msg("%s", err.text);
}

static void serve(unsigned loops)
{
	prepare("ec.crt", "ec.key");
	house_open(&house, loops, clock_system());
}

/* With the test's clock: time passes when the test says so. */
static void serve_slowly(void)
{
	prepare("ec.crt", "ec.key");
	house_open(&house, 1, &house.manual.base);
}

static void serve_rsa(void)
{
	prepare("rsa.crt", "rsa.key");
	house_open(&house, 1, clock_system());
}

static void end(void)
{
	house_close(&house);
	http_tls_close(house.tls);
	free((char *)files.certificate);
	free((char *)files.key);
}

/* ---- what is spoken ---- */

static void expect_spoken(struct secure_wish wish, const char *version)
{
	struct secure s = secure_try(&house, wish);

	if (!s.open)
		fail_msg("%s: %s", version, ERR_reason_error_string(ERR_peek_last_error()));
	assert_string_equal(SSL_get_version(s.ssl), version);
	secure_say(&s, "GET /secure HTTP/1.1\r\n" HOST "\r\n");
	secure_expect(&s, 200, "yes");
	secure_close(&s);
}

static void expect_refused(struct secure_wish wish, int alert)
{
	uint64_t      before = http_server_stats(house.server).handshakes_failed;
	struct secure s = secure_try(&house, wish);

	assert_false(s.open);
	assert_int_equal(secure_alert(&s), alert);
	WAIT_UNTIL(http_server_stats(house.server).handshakes_failed == before + 1);
	secure_close(&s);
}

TEST(tls, versions_1_2_and_1_3_are_spoken_and_requests_know_it)
{
	serve(1);
	expect_spoken((struct secure_wish){.version_max = TLS1_2_VERSION}, "TLSv1.2");
	expect_spoken((struct secure_wish){.version_min = TLS1_3_VERSION}, "TLSv1.3");
	end();
}

TEST(tls, older_versions_are_refused)
{
	serve(1);
	expect_refused((struct secure_wish){.version_min = TLS1_1_VERSION, .version_max = TLS1_1_VERSION},
	               SSL_AD_PROTOCOL_VERSION);
	expect_refused((struct secure_wish){.version_min = TLS1_VERSION, .version_max = TLS1_VERSION},
	               SSL_AD_PROTOCOL_VERSION);
	secure_expect_service(&house);
	end();
}

TEST(tls, every_suite_with_forward_secrecy_and_aead_is_spoken)
{
	static const char *const old[] = {"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384",
	                                  "ECDHE-RSA-CHACHA20-POLY1305"};
	static const char *const new[] = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384",
	                                  "TLS_CHACHA20_POLY1305_SHA256"};

	serve_rsa();
	for (int i = 0; i < 3; i++) {
		expect_spoken((struct secure_wish){.version_max = TLS1_2_VERSION, .suites_12 = old[i]},
		              "TLSv1.2");
		expect_spoken((struct secure_wish){.version_min = TLS1_3_VERSION, .suites_13 = new[i]},
		              "TLSv1.3");
	}
	end();
}

TEST(tls, suites_without_forward_secrecy_or_aead_are_refused)
{
	static const char *const suites[] = {"AES128-GCM-SHA256",
	                                     "AES128-SHA",
	                                     "ECDHE-RSA-AES128-SHA256",
	                                     "ECDHE-RSA-AES256-SHA384",
	                                     "ECDHE-RSA-AES128-SHA",
	                                     "DHE-RSA-AES128-GCM-SHA256",
	                                     "aNULL",
	                                     "eNULL"};

	serve_rsa();
	for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
		expect_refused((struct secure_wish){.version_max = TLS1_2_VERSION, .suites_12 = suites[i]},
		               SSL_AD_HANDSHAKE_FAILURE);
	end();
}

TEST(tls, the_protocol_agreed_on_is_http_1_1_or_the_peer_is_told)
{
	struct secure        s;
	const unsigned char *chosen;
	unsigned             len;

	serve(1);
	s = secure_try(&house, (struct secure_wish){.alpn = "\x02h2\x08http/1.1"});
	SSL_get0_alpn_selected(s.ssl, &chosen, &len);
	assert_bytes((struct bytes){(const char *)chosen, len}, "http/1.1");
	secure_close(&s);
	expect_refused((struct secure_wish){.alpn = "\x02h2"}, SSL_AD_NO_APPLICATION_PROTOCOL);
	end();
}

TEST(tls, nobody_renegotiates)
{
	struct secure s;

	serve(1);
	s = secure_try(&house, (struct secure_wish){.version_max = TLS1_2_VERSION});
	assert_true(s.open);
	assert_int_equal(SSL_renegotiate(s.ssl), 1);
	assert_int_not_equal(SSL_do_handshake(s.ssl), 1);
	secure_close(&s);
	secure_expect_service(&house);
	end();
}

TEST(tls, a_session_is_taken_up_again_by_its_ticket)
{
	struct secure_wish wish = {0};
	struct secure      s;

	serve(1);
	for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
		wish = (struct secure_wish){.version_min = version, .version_max = version};
		s = secure_try(&house, wish);
		secure_say(&s, "GET /secure HTTP/1.1\r\n" HOST "\r\n");
		secure_expect(&s, 200, "yes");
		wish.session = SSL_get1_session(s.ssl);
		SSL_shutdown(s.ssl);
		secure_close(&s);
		s = secure_try(&house, wish);
		assert_true(s.open && SSL_session_reused(s.ssl));
		secure_say(&s, "GET /secure HTTP/1.1\r\n" HOST "\r\n");
		secure_expect(&s, 200, "yes");
		secure_close(&s);
		SSL_SESSION_free(wish.session);
	}
	end();
}

/* ---- handshakes that do not come to an end ---- */

TEST(tls, plain_http_is_closed_without_a_reset)
{
	int     fd;
	char    byte;
	ssize_t n;

	serve(1);
	fd = peer_connect(&house);
	peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 100000\r\n\r\n");
	for (int i = 0; i < 1000; i++)
		peer_try_send(fd, "0123456789", 10);
	while ((n = recv(fd, &byte, 1, 0)) > 0)
		;
	assert_int_equal(n, 0);
	close(fd);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	assert_int_equal(http_server_stats(house.server).handshakes_failed, 1);
	assert_int_equal(http_server_stats(house.server).requests, 0);
	secure_expect_service(&house);
	end();
}

/* The same look as in timeout_test.c: one loop, so after another peer was served twice it has seen
 * everything. */
static void let_it_look(void)
{
	secure_expect_service(&house);
	secure_expect_service(&house);
}

TEST(tls, a_peer_that_dawdles_over_its_handshake_is_dropped_at_its_time_and_not_before)
{
	static const char hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"; /* the start of one */
	int               silent, slow;
	char              byte;

	serve_slowly();
	silent = peer_connect(&house);
	slow = peer_connect(&house);
	assert_true(peer_try_send(slow, hello, 6));
	let_it_look();
	house_pass_ms(&house, 9999);
	assert_true(peer_try_send(slow, hello + 6, 5)); /* wins it no time */
	let_it_look();
	assert_int_equal(recv(silent, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(recv(slow, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	house_pass_ms(&house, 1);
	peer_expect_end(silent);
	peer_expect_end(slow);
	assert_int_equal(http_server_stats(house.server).timeouts, 2);
	close(silent);
	close(slow);
	end();
}

TEST(tls, after_the_handshake_the_idle_time_counts)
{
	struct secure s;

	serve_slowly();
	s = secure_connect(&house);
	let_it_look();
	house_pass_ms(&house, house.limits.idle_ms - 1);
	let_it_look();
	secure_say(&s, "GET /secure HTTP/1.1\r\n" HOST "\r\n");
	secure_expect(&s, 200, "yes");
	house_pass_ms(&house, house.limits.idle_ms);
	secure_expect_goodbye(&s);
	secure_close(&s);
	end();
}

TEST(tls, past_the_most_connections_a_peer_is_closed_without_a_word)
{
	struct secure s;
	int           fd;

	prepare("ec.crt", "ec.key");
	house.limits.connections_max = 1;
	house_open(&house, 1, clock_system());
	s = secure_connect(&house);
	fd = peer_connect(&house);
	peer_expect_end(fd);
	assert_int_equal(http_server_stats(house.server).refused, 1);
	secure_say(&s, "GET /secure HTTP/1.1\r\n" HOST "\r\n");
	secure_expect(&s, 200, "yes");
	close(fd);
	secure_close(&s);
	end();
}

/* ---- records ---- */

TEST(tls, the_largest_body_passes_whole_both_ways)
{
	const size_t  len = http_limits_default().body_bytes_max;
	char         *body = malloc(len);
	char          head[128];
	struct secure s;
	struct reply  r;

	for (size_t i = 0; i < len; i++)
		body[i] = (char)('a' + i % 23);
	serve(1);
	s = secure_connect(&house);
	snprintf(head, sizeof(head), "POST /echo HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n", len);
	secure_say(&s, head);
	secure_send(&s, body, len);
	r = secure_read_reply(&s);
	assert_int_equal(r.status, 200);
	assert_int_equal(r.body_len, len);
	assert_memory_equal(r.body, body, len);
	reply_release(&r);
	secure_close(&s);
	free(body);
	end();
}

TEST(tls, a_large_answer_waits_for_a_slow_reader_and_comes_whole)
{
	enum { LEN = 40 * 1000 * 1000 };
	struct secure s;
	struct reply  r;

	serve(1);
	s = secure_connect(&house);
	secure_say(&s, "GET /big?40000000 HTTP/1.1\r\n" HOST "\r\n");
	WAIT_UNTIL(http_server_stats(house.server).requests == 1);
	secure_expect_service(&house); /* the loop goes on meanwhile */
	r = secure_read_reply(&s);
	assert_int_equal(r.status, 200);
	assert_int_equal(r.body_len, LEN);
	for (size_t i = 0; i < LEN; i++)
		if (r.body[i] != (char)('a' + i % 26))
			fail_msg("byte %zu", i);
	reply_release(&r);
	secure_say(&s, "GET /secure HTTP/1.1\r\n" HOST "\r\n");
	secure_expect(&s, 200, "yes");
	secure_close(&s);
	end();
}

TEST(tls, a_byte_a_record_is_a_request_too)
{
	static const char text[] = "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello";
	struct secure     s;

	serve(1);
	s = secure_connect(&house);
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		secure_send(&s, text + i, 1);
	secure_expect(&s, 200, "hello");
	secure_close(&s);
	end();
}

/* `count` requests of 64 bytes, the last one `more` bytes longer. */
static void pipeline(char *text, unsigned count, unsigned more, const char *path)
{
	enum { EACH = 64 };
	const char *form = "POST %s HTTP/1.1\r\n" HOST "X:%*s\r\nContent-Length: 4\r\n\r\n%04u";
	int         pad = EACH - snprintf(NULL, 0, form, path, 0, "", 0);

	for (unsigned i = 0; i + 1 < count; i++)
		text += sprintf(text, form, path, pad, "", i);
	sprintf(text, form, path, pad + (int)more, "", count - 1);
}

/* The first record holds the start of a request. Then the server's buffer of 16 KB cannot take the second
 * record whole, and the rest of it waits where epoll does not look. */
static void expect_pipeline(unsigned count, unsigned more, const char *path)
{
	enum { COUNT_MAX = 768, FIRST = 11 };
	static char   text[COUNT_MAX * 64 + FIRST + 1];
	struct secure s = secure_connect(&house);
	char          expected[16];

	pipeline(text, count, more, path);
	secure_send(&s, text, FIRST);
	secure_expect_service(&house); /* it has read that much */
	secure_send(&s, text + FIRST, strlen(text) - FIRST);
	for (unsigned i = 0; i < count; i++) {
		snprintf(expected, sizeof(expected), "%04u", i);
		secure_expect(&s, 200, expected);
	}
	secure_close(&s);
}

TEST(tls, pipelined_requests_are_answered_if_the_end_of_the_last_record_waits_in_tls)
{
	enum { FILL_BUFFER = 256, REST = 11 };

	serve(1);
	expect_pipeline(FILL_BUFFER, REST, "/echo");
	expect_pipeline(FILL_BUFFER, REST, "/later");
	end();
}

TEST(tls, pipelined_requests_are_answered_if_one_ends_where_the_buffer_does)
{
	enum { FILL_BUFFER_THRICE = 768 };

	serve(1);
	expect_pipeline(FILL_BUFFER_THRICE, 0, "/echo");
	expect_pipeline(FILL_BUFFER_THRICE, 0, "/later");
	end();
}

TEST(tls, a_peer_that_waits_for_100_continue_gets_it)
{
	struct secure s;

	serve(1);
	s = secure_connect(&house);
	secure_say(&s, "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
	secure_expect(&s, 100, NULL);
	secure_say(&s, "ok");
	secure_expect(&s, 200, "ok");
	secure_close(&s);
	end();
}

TEST(tls, keys_may_be_updated_between_requests_and_within_one)
{
	struct secure s;

	serve(1);
	s = secure_connect(&house);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(SSL_key_update(s.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
		secure_say(&s, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\nab");
		assert_int_equal(SSL_key_update(s.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
		secure_say(&s, "cd");
		secure_expect(&s, 200, "abcd");
	}
	secure_close(&s);
	end();
}

/* ---- ends ---- */

TEST(tls, the_last_answer_is_followed_by_a_goodbye)
{
	struct secure s;

	serve(1);
	s = secure_connect(&house);
	secure_say(&s, "GET /close HTTP/1.1\r\n" HOST "\r\n");
	secure_expect(&s, 200, NULL);
	secure_expect_goodbye(&s);
	secure_close(&s);
	end();
}

TEST(tls, a_refused_request_is_told_why_and_then_goodbye)
{
	struct secure s;
	static char   rest[100000];

	serve(1);
	s = secure_connect(&house);
	secure_say(&s, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 999999999\r\n\r\n");
	secure_send(&s, rest, sizeof(rest));
	secure_expect(&s, 413, NULL);
	secure_expect_goodbye(&s);
	secure_close(&s);
	end();
}

TEST(tls, a_peer_that_has_said_goodbye_still_gets_its_answer)
{
	struct secure s;

	serve(1);
	s = secure_connect(&house);
	secure_say(&s, "POST /later HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok");
	SSL_shutdown(s.ssl);
	shutdown(s.fd, SHUT_WR);
	secure_expect(&s, 200, "ok");
	secure_expect_goodbye(&s);
	secure_close(&s);
	end();
}

/* Closes at once and with a reset. */
static void vanish(int fd)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

TEST(tls, peers_may_vanish_in_every_state)
{
	struct secure s;
	int           fd;

	serve(1);
	for (int i = 0; i < 20; i++) {
		fd = peer_connect(&house);
		peer_try_send(fd, "\x16\x03\x01", (size_t)(i % 4));
		vanish(fd);
		close(fd);
		s = secure_connect(&house);
		if (i % 3 == 0)
			secure_say(&s, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 20\r\n\r\nabc");
		else if (i % 3 == 1)
			secure_say(&s, "GET /big?30000000 HTTP/1.1\r\n" HOST "\r\n");
		else
			secure_say(&s, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
		vanish(s.fd);
		secure_close(&s);
	}
	house_wait_held(&house, 6);
	house_let_go(&house);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	secure_expect_service(&house);
	end();
}

TEST(tls, a_stop_finishes_what_is_under_way_and_says_goodbye_to_the_others)
{
	struct secure busy, idle;
	int           halfway;

	serve_slowly(); /* nothing waits for a deadline */
	idle = secure_connect(&house);
	secure_say(&idle, "GET /secure HTTP/1.1\r\n" HOST "\r\n");
	secure_expect(&idle, 200, "yes");
	busy = secure_connect(&house);
	secure_say(&busy, "POST /later HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok");
	halfway = peer_connect(&house);
	WAIT_UNTIL(http_server_stats(house.server).requests == 2);
	end();
	secure_expect(&busy, 200, "ok");
	secure_expect_goodbye(&busy);
	secure_expect_goodbye(&idle);
	peer_expect_end(halfway);
	secure_close(&busy);
	secure_close(&idle);
	close(halfway);
}
