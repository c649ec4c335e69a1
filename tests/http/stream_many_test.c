/* Many streams: a thousand readers, races, TLS, and clients that others wrote. These run under the thread sanitizer too. */
#include <malloc.h>
#include <stdatomic.h>

#include "desk.h"
#include "secure_peer.h"

/* ---- many ---- */

TEST(stream, a_thousand_idle_streams_hold_little_and_each_gets_every_event)
{
	enum { STREAMS = 1000, SAID = 20 };
	static int fds[STREAMS];
	size_t     before, held;
	char       text[32];

	serve(2);
	peer_expect_service(&house);
	before = mallinfo2().uordblks;
	for (int i = 0; i < STREAMS; i++) {
		fds[i] = peer_subscribe();
		expect_head(fds[i]);
	}
	held = (mallinfo2().uordblks - before) / STREAMS;
	if (held > 1024)
		fail_msg("an idle stream holds %zu bytes", held);
	for (int said = 0; said < SAID; said++) {
		snprintf(text, sizeof(text), "event %d", said);
		assert_int_equal(desk_say(text), STREAMS);
	}
	for (int i = 0; i < STREAMS; i++) {
		for (int said = 0; said < SAID; said++) {
			snprintf(text, sizeof(text), "event %d", said);
			expect_event(fds[i], text);
		}
		close(fds[i]);
	}
	WAIT_UNTIL(desk_read(&desk.count) == 0);
	assert_int_equal(desk.ends[HTTP_END_GONE], STREAMS);
	serve_end();
}

TEST(stream, a_thousand_readers_that_do_not_read_hold_no_more_than_their_buffers_and_are_all_dropped)
{
	enum { STREAMS = 1000, BUFFER = 4096 };
	static int  fds[STREAMS];
	static char data[1000];
	size_t      before, most = 0;

	serve_init();
	desk.buffer_bytes_max = BUFFER;
	house_open(&house, 2, clock_system());
	peer_expect_service(&house);
	for (int i = 0; i < STREAMS; i++) {
		fds[i] = peer_subscribe();
		peer_receive_little(fds[i]);
	}
	memset(data, 'q', sizeof(data) - 1);
	before = mallinfo2().uordblks;
	while (desk_read(&desk.count) > 0) {
		size_t held;

		desk_say(data);
		held = mallinfo2().uordblks;
		most = held > before && held - before > most ? held - before : most;
	}
	if (most > STREAMS * 2 * BUFFER)
		fail_msg("%zu bytes a stream", most / STREAMS);
	assert_int_equal(desk.ends[HTTP_END_SLOW], STREAMS);
	assert_int_equal(http_server_stats(house.server).streams_slow, STREAMS);
	WAIT_UNTIL(http_server_stats(house.server).connections_now ==
	           0); /* a handler is told before its connection ends */
	peer_expect_service(&house);
	for (int i = 0; i < STREAMS; i++)
		close(fds[i]);
	serve_end();
}

TEST(stream, buffers_of_streams_have_a_share_of_the_memory_and_no_more)
{
	enum { ROOM = 5 };
	int fds[ROOM + 1];

	serve_init();
	house.limits.body_bytes_max = 1;
	house.limits.memory_bytes_max = 2 * (2 * 4096 + 1024) * ROOM;
	desk.buffer_bytes_max = 4096;
	house_open(&house, 1, clock_system());
	for (int i = 0; i < ROOM; i++)
		fds[i] = peer_subscribe();
	fds[ROOM] = peer_connect(&house);
	peer_send(fds[ROOM], EVENTS);
	peer_expect(fds[ROOM], 503, NULL);
	close(fds[0]);
	WAIT_UNTIL(desk_read(&desk.count) == ROOM - 1);
	peer_send(fds[ROOM], EVENTS);
	expect_head(fds[ROOM]);
	for (int i = 1; i <= ROOM; i++)
		close(fds[i]);
	WAIT_UNTIL(desk_read(&desk.count) == 0);
	serve_end();
}

/* ---- races ---- */

enum { RACERS = 6, RACES_EACH = 150 };

static atomic_bool racing;

static void *sender_main(void *arg)
{
	uintptr_t closes = (uintptr_t)arg;

	for (unsigned i = 0; atomic_load(&racing); i++) {
		desk_say("to all");
		if (closes && i % 50 == 0)
			desk_close();
		sched_yield();
	}
	return NULL;
}

/* Reads a little, or nothing, or all, and leaves. */
static void *racer_main(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	char     text[4096];

	for (unsigned i = 0; i < RACES_EACH; i++) {
		int fd = peer_connect(&house);

		peer_send(fd, EVENTS);
		if ((seed + i) % 3 == 0)
			recv(fd, text, sizeof(text), 0);
		else if ((seed + i) % 3 == 1)
			while (recv(fd, text, sizeof(text), 0) > 0)
				;
		close(fd);
	}
	return NULL;
}

TEST(stream, senders_closers_and_peers_that_leave_race_and_each_stream_ends_once)
{
	pthread_t racers[RACERS], senders[2];
	unsigned  ended = 0;

	serve_init();
	desk.buffer_bytes_max = HTTP_STREAM_BYTES_MIN;
	desk.heartbeat_ms = 1;
	house_open(&house, 2, clock_system());
	atomic_store(&racing, true);
	for (uintptr_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&senders[i], NULL, sender_main, (void *)i), 0);
	for (uintptr_t i = 0; i < RACERS; i++)
		assert_int_equal(pthread_create(&racers[i], NULL, racer_main, (void *)i), 0);
	for (int i = 0; i < RACERS; i++)
		pthread_join(racers[i], NULL);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	atomic_store(&racing, false);
	for (int i = 0; i < 2; i++)
		pthread_join(senders[i], NULL);
	for (int why = 0; why < ENDS; why++)
		ended += desk_read(&desk.ends[why]);
	assert_int_equal(ended, RACERS * RACES_EACH);
	assert_int_equal(ended, desk_read(&desk.opened));
	serve_end();
}

TEST(stream, a_stop_may_race_with_senders)
{
	enum { STREAMS = 50 };
	int       fds[STREAMS];
	pthread_t sender;

	for (int round = 0; round < 5; round++) {
		serve(2);
		for (int i = 0; i < STREAMS; i++)
			fds[i] = peer_subscribe();
		atomic_store(&racing, true);
		assert_int_equal(pthread_create(&sender, NULL, sender_main, NULL), 0);
		house_close(&house);
		atomic_store(&racing, false);
		pthread_join(sender, NULL);
		assert_int_equal(desk.count, 0);
		for (int i = 0; i < STREAMS; i++)
			close(fds[i]);
	}
}

/* ---- over TLS ---- */

static void serve_secure(unsigned loops, size_t buffer_bytes_max)
{
	static char                  certificate[PATH_BYTES_MAX], key[PATH_BYTES_MAX];
	static struct http_tls_files files = {.certificate = certificate, .key = key};
	struct err                   err;

	certificates_make();
	snprintf(certificate, sizeof(certificate), "%s", in_dir("ec.crt"));
	snprintf(key, sizeof(key), "%s", in_dir("ec.key"));
	serve_init();
	desk.buffer_bytes_max = buffer_bytes_max;
	assert_int_equal(http_tls_open(&house.tls, &files, &err), ERR_NONE);
	house_open(&house, loops, clock_system());
}

static struct secure secure_subscribe(void)
{
	unsigned      before = desk_read(&desk.opened);
	struct secure s = secure_connect(&house);
	char          head[REPLY_HEAD_MAX];
	size_t        at = 0;

	secure_say(&s, EVENTS);
	WAIT_UNTIL(desk_read(&desk.opened) == before + 1);
	while (at < 4 || memcmp(head + at - 4, "\r\n\r\n", 4) != 0)
		assert_true(secure_read_all(&s, head + at++, 1));
	return s;
}

static void secure_expect_bytes(struct secure *s, const char *text)
{
	char got[512] = "";

	assert_true(secure_read_all(s, got, strlen(text)));
	assert_string_equal(got, text);
}

TEST(stream, over_tls_it_carries_events_and_ends_with_a_goodbye)
{
	struct secure s, stays;

	serve_secure(1, 0);
	s = secure_subscribe();
	desk_say("one");
	secure_expect_bytes(&s, "b\r\ndata: one\n\n\r\n");
	desk_close();
	secure_expect_bytes(&s, LAST_CHUNK);
	secure_expect_goodbye(&s);
	secure_close(&s);
	stays = secure_subscribe();
	desk_say("two");
	house_close(&house);
	http_tls_close(house.tls);
	secure_expect_bytes(&stays, "b\r\ndata: two\n\n\r\n" LAST_CHUNK);
	secure_expect_goodbye(&stays);
	secure_close(&stays);
	assert_int_equal(desk.ends[HTTP_END_STOPPING], 1);
}

/* A goodbye alone, without the end of the connection, is enough. */
TEST(stream, over_tls_a_peer_that_says_goodbye_or_vanishes_is_gone)
{
	struct secure s;

	serve_secure(1, 0);
	s = secure_subscribe();
	SSL_shutdown(s.ssl);
	WAIT_UNTIL(desk_read(&desk.ends[HTTP_END_GONE]) == 1);
	secure_close(&s);
	s = secure_subscribe();
	secure_close(&s);
	WAIT_UNTIL(desk_read(&desk.ends[HTTP_END_GONE]) == 2);
	s = secure_subscribe();
	assert_int_equal(SSL_key_update(s.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
	secure_say(&s, "bytes that nobody reads");
	desk_say("one");
	secure_expect_bytes(&s, "b\r\ndata: one\n\n\r\n");
	secure_close(&s);
	WAIT_UNTIL(desk_read(&desk.count) == 0);
	house_close(&house);
	http_tls_close(house.tls);
}

/* Everything arrives whole, however the socket takes it. */
TEST(stream, over_tls_a_reader_in_small_steps_gets_all_and_one_that_never_reads_is_dropped)
{
	static char   data[900];
	struct secure slow, steady;
	char          text[1000], got[1000];
	unsigned      sent = 0;

	serve_secure(1, 8 * 1024);
	slow = secure_subscribe();
	peer_receive_little(slow.fd);
	steady = secure_subscribe();
	peer_receive_little(steady.fd);
	while (desk_read(&desk.ends[HTTP_END_SLOW]) == 0) {
		int len;

		memset(data, 'a' + (int)(sent % 26), sizeof(data) - 1);
		desk_say(data);
		len = snprintf(text, sizeof(text), "%x\r\ndata: %s\n\n\r\n", 899 + 8, data);
		for (int at = 0; at < len; at += 100)
			assert_true(secure_read_all(&steady, got + at,
			                            (size_t)(len - at < 100 ? len - at : 100)));
		assert_memory_equal(got, text, (size_t)len);
		assert_true(++sent < 100000);
	}
	assert_int_equal(desk_read(&desk.count), 1);
	secure_close(&slow);
	secure_close(&steady);
	WAIT_UNTIL(desk_read(&desk.count) == 0);
	house_close(&house);
	http_tls_close(house.tls);
}

/* It may be cut off for it, but nothing else may happen. */
TEST(stream, over_tls_a_reader_that_does_not_read_may_ask_for_new_keys)
{
	static char   data[900];
	struct secure s;

	serve_secure(1, 8 * 1024);
	s = secure_subscribe();
	peer_receive_little(s.fd);
	memset(data, 'k', sizeof(data) - 1);
	for (int i = 0; desk_read(&desk.count) > 0; i++) {
		desk_say(data);
		if (i % 4 == 0 && SSL_key_update(s.ssl, SSL_KEY_UPDATE_REQUESTED) == 1)
			SSL_do_handshake(s.ssl);
		assert_true(i < 100000);
	}
	secure_close(&s);
	secure_expect_service(&house);
	house_close(&house);
	http_tls_close(house.tls);
}

TEST(stream, over_tls_a_renegotiation_is_refused_and_hurts_nobody_else)
{
	struct secure s, other;

	serve_secure(1, 0);
	other = secure_subscribe();
	s = secure_try(&house, (struct secure_wish){.version_max = TLS1_2_VERSION});
	assert_true(s.open);
	secure_say(&s, EVENTS);
	WAIT_UNTIL(desk_read(&desk.count) == 2);
	SSL_renegotiate(s.ssl);
	SSL_do_handshake(s.ssl);
	secure_close(&s);
	WAIT_UNTIL(desk_read(&desk.ends[HTTP_END_GONE]) == 1);
	desk_say("one");
	secure_expect_bytes(&other, "b\r\ndata: one\n\n\r\n");
	secure_close(&other);
	WAIT_UNTIL(desk_read(&desk.count) == 0);
	house_close(&house);
	http_tls_close(house.tls);
}

static void expect_large_event(struct secure *s, int fd, const char *data, size_t len)
{
	char *got = malloc(len + 64);

	assert_non_null(got);
	if (s != NULL)
		assert_true(secure_read_all(s, got, len + 7 + 6 + 2 + 2));
	else
		assert_int_equal(recv(fd, got, len + 7 + 6 + 2 + 2, MSG_WAITALL), len + 7 + 6 + 2 + 2);
	assert_memory_equal(got + 7 + 6, data, len);
	free(got);
}

TEST(stream, an_event_as_large_as_the_largest_buffer_arrives_whole)
{
	enum { LEN = HTTP_STREAM_BYTES_MAX - 64 };
	const int     some = 64 * 1024;
	char         *data = malloc(LEN + 1);
	struct secure s;
	int           fd;

	for (int i = 0; i < LEN; i++)
		data[i] = (char)('a' + i % 23);
	data[LEN] = '\0';
	serve_init();
	desk.buffer_bytes_max = HTTP_STREAM_BYTES_MAX;
	house_open(&house, 1, clock_system());
	fd = peer_subscribe();
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &some, sizeof(some));
	expect_head(fd);
	assert_int_equal(desk_say(data), 1);
	expect_large_event(NULL, fd, data, LEN);
	close(fd);
	WAIT_UNTIL(desk_read(&desk.count) == 0);
	serve_end();
	serve_secure(1, HTTP_STREAM_BYTES_MAX);
	s = secure_subscribe();
	setsockopt(s.fd, SOL_SOCKET, SO_RCVBUF, &some, sizeof(some));
	assert_int_equal(desk_say(data), 1);
	expect_large_event(&s, -1, data, LEN);
	secure_close(&s);
	WAIT_UNTIL(desk_read(&desk.count) == 0);
	house_close(&house);
	http_tls_close(house.tls);
	free(data);
}

/* ---- real clients ---- */

/* Runs a command with a shell while events are sent; returns what it printed. */
static void run_client(const char *format, char *out, size_t cap)
{
	char   command[512];
	size_t len = 0, n;
	FILE  *client;

	snprintf(command, sizeof(command), format, http_server_port(house.server));
	client = popen(command, "r");
	assert_non_null(client);
	WAIT_UNTIL(desk_read(&desk.count) == 1);
	for (unsigned i = 0; i < 100; i++) {
		char data[400];

		memset(data, 'a' + (int)(i % 26), sizeof(data) - 1);
		data[sizeof(data) - 1] = '\0';
		while (desk_room() < 1000)
			poll(NULL, 0, 1);
		assert_int_equal(desk_say(data), 1);
	}
	desk_close();
	while ((n = fread(out + len, 1, cap - 1 - len, client)) > 0)
		len += n;
	out[len] = '\0';
	assert_int_equal(pclose(client), 0);
}

static void expect_hundred(const char *out)
{
	for (unsigned i = 0; i < 100; i++) {
		assert_memory_equal(out, "data: ", 6);
		for (unsigned at = 6; at < 6 + 399; at++)
			assert_int_equal(out[at], 'a' + (int)(i % 26));
		assert_memory_equal(out + 6 + 399, "\n\n", 2);
		out += 6 + 399 + 2;
	}
	assert_string_equal(out, "");
}

TEST(stream, curl_reads_it_as_it_comes_and_sees_a_clean_end)
{
	static char out[TEXT_MAX];

	serve_init();
	desk.buffer_bytes_max = 2048;
	house_open(&house, 1, clock_system());
	run_client("curl -sSfN --max-time 20 http://127.0.0.1:%u/events", out, sizeof(out));
	expect_hundred(out);
	serve_end();
}

/* A small receive buffer and small reads, so that the server writes in parts. */
TEST(stream, python_reads_it_in_small_steps_and_sees_a_clean_end)
{
	static char out[TEXT_MAX];

	serve_init();
	desk.buffer_bytes_max = 2048;
	house_open(&house, 1, clock_system());
	run_client("python3 -c '"
	           "import http.client, socket, sys, time\n"
	           "c = http.client.HTTPConnection(\"127.0.0.1\", %u, timeout=20)\n"
	           "c.connect(); c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)\n"
	           "c.request(\"GET\", \"/events\"); r = c.getresponse()\n"
	           "assert r.status == 200 and r.getheader(\"content-type\") == \"text/event-stream\"\n"
	           "while True:\n"
	           "    piece = r.read(37)\n"
	           "    if not piece: break\n"
	           "    sys.stdout.write(piece.decode()); time.sleep(0.0005)\n"
	           "'",
	           out, sizeof(out));
	expect_hundred(out);
	serve_end();
}

TEST(stream, curl_reads_it_over_tls)
{
	static char out[TEXT_MAX];
	char        command[400];

	serve_secure(1, 0);
	snprintf(command, sizeof(command),
	         "curl -sSfN --max-time 20 --cacert %s --connect-to ec:443:127.0.0.1:%%u https://ec/events",
	         in_dir("ca.crt"));
	run_client(command, out, sizeof(out));
	expect_hundred(out);
	house_close(&house);
	http_tls_close(house.tls);
}
