/* NATS on the wire: what a server says, in one piece and byte by byte; what the answers of a stream mean; what is written. And the keys
 * of NATS. */
#include "test.h"

#include "outbound/nats_wire.h"
#include "outbound/nkey.h"

static enum nats_op op_of(const char *text)
{
	return nats_read(bytes_of(text)).op;
}

TEST(nats_wire, each_line_of_a_server_is_known)
{
	static const struct {
		const char  *text;
		enum nats_op op;
	} cases[] = {{"INFO {}\r\n", NATS_INFO},
	             {"PING\r\n", NATS_PING},
	             {"PONG\r\n", NATS_PONG},
	             {"+OK\r\n", NATS_OK},
	             {"-ERR 'x'\r\n", NATS_ERR},
	             {"MSG a 1 0\r\n\r\n", NATS_MSG},
	             {"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n", NATS_MSG},
	             {"", NATS_MORE},
	             {"PIN", NATS_MORE},
	             {"PING\r", NATS_MORE},
	             {"MSG a 1 5\r\nhello\r", NATS_MORE},
	             {"PING\n\r\n", NATS_WRONG},
	             {"ping\r\n", NATS_WRONG},
	             {"\r\n", NATS_WRONG},
	             {"HTTP/1.1 400 Bad Request\r\n", NATS_WRONG},
	             {"MSG a 1\r\n", NATS_WRONG},
	             {"MSG a 1 r s 5\r\nhello\r\n", NATS_WRONG},
	             {"MSG a 1 -5\r\n", NATS_WRONG},
	             {"MSG a 1 5\r\nhello world\r\n", NATS_WRONG},
	             {"HMSG a 1 5\r\nhello\r\n", NATS_WRONG},
	             {"HMSG a 1 6 5\r\nhello\r\n", NATS_WRONG}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (op_of(cases[i].text) != cases[i].op)
			fail_msg("%s", cases[i].text);
}

TEST(nats_wire, a_message_has_subject_head_and_body)
{
	struct nats_message m = nats_read(BYTES("MSG _INBOX.x.1 1  5\r\nhelloPING\r\n"));

	assert_int_equal(m.op, NATS_WRONG);
	m = nats_read(BYTES("MSG _INBOX.x.1 1  5\r\nhello\r\nPING\r\n")); /* two spaces: no reply subject */
	assert_true(m.op == NATS_MSG && bytes_is(m.subject, "_INBOX.x.1") && bytes_is(m.body, "hello"));
	assert_true(m.head.len == 0 && m.used == strlen("MSG _INBOX.x.1 1  5\r\nhello\r\n"));
	m = nats_read(BYTES("HMSG s 1 reply 16 18\r\nNATS/1.0 503\r\n\r\nhi\r\n"));
	assert_true(m.op == NATS_MSG && bytes_is(m.head, "NATS/1.0 503\r\n\r\n") && bytes_is(m.body, "hi"));
	assert_true(bytes_is(nats_read(BYTES("-ERR 'Stale Connection'\r\n")).text, "Stale Connection"));
	assert_true(bytes_is(nats_read(BYTES("INFO {\"a\":1} \r\n")).text, "{\"a\":1}"));
}

/* At the maximum, and one past it. */
TEST(nats_wire, lines_and_bodies_are_bounded)
{
	struct arena a;
	char        *line;
	struct bytes body;

	arena_init(&a);
	line = arena_alloc(&a, NATS_INPUT_BYTES_MAX + 16);
	memset(line, 'x', NATS_INPUT_BYTES_MAX + 16);
	memcpy(line, "INFO ", 5);
	assert_int_equal(nats_read((struct bytes){line, NATS_LINE_BYTES_MAX}).op, NATS_MORE);
	assert_int_equal(nats_read((struct bytes){line, NATS_LINE_BYTES_MAX + 1}).op, NATS_WRONG);
	memcpy(line + NATS_LINE_BYTES_MAX, "\r\n", 2);
	assert_int_equal(nats_read((struct bytes){line, NATS_LINE_BYTES_MAX + 2}).op, NATS_INFO);
	memcpy(line + NATS_LINE_BYTES_MAX, "x\r\n", 3);
	assert_int_equal(nats_read((struct bytes){line, NATS_LINE_BYTES_MAX + 3}).op, NATS_WRONG);
	body = arena_printf(&a, "MSG a 1 %d\r\n", NATS_BODY_BYTES_MAX);
	assert_int_equal(nats_read(body).op, NATS_MORE);
	body = arena_printf(&a, "MSG a 1 %d\r\n", NATS_BODY_BYTES_MAX + 1);
	assert_int_equal(nats_read(body).op, NATS_WRONG);
	arena_release(&a);
}

TEST(nats_wire, info_says_what_the_server_can)
{
	struct nats_info info;
	struct arena     a;

	arena_init(&a);
	assert_true(nats_info_read(BYTES("{\"headers\":true,\"max_payload\":1048576,\"tls_available\":true,"
	                                 "\"auth_required\":true,\"nonce\":\"abc\"}"),
	                           &a, &info));
	assert_true(info.payload_bytes_max == 1048576 && info.tls_available && !info.tls_required &&
	            info.auth_required && bytes_is(info.nonce, "abc"));
	assert_false(nats_info_read(BYTES("{\"max_payload\":1048576}"), &a, &info));
	assert_false(nats_info_read(BYTES("{\"headers\":true}"), &a, &info));
	assert_false(nats_info_read(BYTES("{\"headers\":true,\"max_payload\":-1}"), &a, &info));
	assert_false(nats_info_read(BYTES("[]"), &a, &info));
	assert_false(nats_info_read(BYTES("{"), &a, &info));
	arena_release(&a);
}

TEST(nats_wire, only_a_stream_that_stored_an_event_says_sent)
{
	static const struct {
		const char     *head, *body;
		enum sender_end end;
	} cases[] = {{"", "{\"stream\":\"E\", \"seq\":1}", SENDER_SENT},
	             {"", "{\"stream\":\"E\", \"seq\":1,\"duplicate\": true}", SENDER_SENT},
	             {"NATS/1.0\r\n\r\n", "{\"stream\":\"E\", \"seq\":1}", SENDER_SENT},
	             {"NATS/1.0 503\r\n\r\n", "", SENDER_LATER},
	             {"NATS/1.0 503\r\n\r\n", "{\"stream\":\"E\", \"seq\":1}", SENDER_LATER},
	             {"", "{\"error\":{\"code\":400,\"err_code\":10054},\"stream\":\"E\",\"seq\":0}",
	              SENDER_REFUSED},
	             {"", "{\"error\":{\"code\":503,\"err_code\":10077},\"stream\":\"E\",\"seq\":0}",
	              SENDER_LATER},
	             {"", "{\"error\":{\"code\":400,\"err_code\":10060},\"stream\":\"E\",\"seq\":7}",
	              SENDER_LATER},
	             {"", "{\"error\":\"secret words\",\"stream\":\"E\",\"seq\":7}", SENDER_LATER},
	             {"", "{\"stream\":\"E\", \"seq\":0}", SENDER_LATER},
	             {"", "{\"stream\":\"E\"}", SENDER_LATER},
	             {"", "{\"seq\":1}", SENDER_LATER},
	             {"", "[1]", SENDER_LATER},
	             {"", "", SENDER_LATER},
	             {"", "+OK", SENDER_LATER}};
	struct arena a;

	arena_init(&a);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nats_message m = {
		        .op = NATS_MSG, .head = bytes_of(cases[i].head), .body = bytes_of(cases[i].body)};
		struct sender_event e = {.end = SENDER_GONE};

		nats_answer_read(&m, BYTES("s"), &e, &a);
		if (e.end != cases[i].end)
			fail_msg("%s: %d", cases[i].body, e.end);
		assert_true((e.end == SENDER_SENT) == (e.error[0] == '\0'));
		assert_null(strstr(e.error, "secret"));
	}
	arena_release(&a);
}

TEST(nats_wire, an_error_is_told_by_a_known_text_only)
{
	assert_string_equal(nats_err_text(BYTES("Authorization Violation")), "Authorization Violation");
	assert_string_equal(nats_err_text(BYTES("Permissions Violation for Publish to \"x\"")),
	                    "Permissions Violation");
	assert_null(strstr(nats_err_text(BYTES("secret words")), "secret"));
	assert_true(nats_err_is_about(BYTES("Permissions Violation for Publish to \"a.b\""), BYTES("a.b")));
	assert_false(nats_err_is_about(BYTES("Permissions Violation for Publish to \"a.b\""), BYTES("a")));
	assert_false(nats_err_is_about(BYTES("Permissions Violation for Publish to \"a.b"), BYTES("a.b")));
	assert_false(nats_err_is_about(BYTES("Stale Connection"), BYTES("a.b")));
}

TEST(nats_wire, a_publication_says_how_long_its_parts_are)
{
	struct nats_publication p = {BYTES("s.t"), BYTES("_INBOX.x.7"), BYTES("id-1"), BYTES("{}")};
	struct arena            a;
	struct buf              out;

	arena_init(&a);
	buf_init(&out, &a);
	nats_write(&out, &p);
	assert_true(bytes_is(buf_bytes(&out),
	                     "HPUB s.t _INBOX.x.7 75 77\r\nNATS/1.0\r\nNats-Msg-Id: id-1\r\ncontent-type: "
	                     "application/cloudevents+json\r\n\r\n{}\r\n"));
	assert_int_equal(nats_publication_bytes(&p), 77);
	arena_release(&a);
}

TEST(nats_wire, subjects_have_tokens_without_wildcards)
{
	static const char *const good[] = {"a", "gatehouse.events", "A-1_b.c"};
	static const char *const bad[] = {"",    ".",   "a.", ".a",      "a..b",
	                                  "a b", "a.*", ">",  "$JS.API", "a\r\nPUB b 0"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(nats_subject_is(bytes_of(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(nats_subject_is(bytes_of(bad[i])));
}

/* The pair that NATS's documentation shows; nats-server itself checks signatures in tests/e2e/test_senders_nats.py. */
#define SEED   "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
#define PUBLIC "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"

TEST(nkey, the_seed_of_a_user_gives_its_public_key)
{
	struct nkey k;
	char        changed[] = SEED;

	assert_true(nkey_read(BYTES(SEED), &k));
	assert_true(bytes_is((struct bytes){k.name, NKEY_PUBLIC_CHARS}, PUBLIC));
	for (size_t i = 0; i < NKEY_SEED_CHARS; i++) {
		changed[i] = changed[i] == 'A' ? 'B' : 'A';
		assert_false(nkey_read(bytes_of(changed), &k));
		changed[i] = SEED[i];
	}
	assert_true(nkey_read(BYTES(SEED), &k));
	assert_false(nkey_read(BYTES(PUBLIC), &k));
	assert_false(nkey_read(BYTES(SEED "A"), &k));
	assert_false(nkey_read(BYTES(""), &k));
}

TEST(nkey, a_file_with_credentials_has_a_jwt_and_a_seed)
{
	struct bytes jwt;
	struct nkey  k;

	assert_true(nkey_credentials_read(
	        BYTES("-----BEGIN NATS USER JWT-----\r\neyJ0.eyJq.c2ln\r\n"
	              "------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n" SEED
	              "\n------END USER NKEY SEED------\n"),
	        &jwt, &k));
	assert_true(bytes_is(jwt, "eyJ0.eyJq.c2ln"));
	assert_false(nkey_credentials_read(BYTES(""), &jwt, &k));
	assert_false(nkey_credentials_read(BYTES("-----BEGIN NATS USER JWT-----"), &jwt, &k));
	assert_false(nkey_credentials_read(
	        BYTES("-----BEGIN NATS USER JWT-----\na\"b\n-----BEGIN USER NKEY SEED-----\n" SEED), &jwt,
	        &k));
	assert_false(nkey_credentials_read(
	        BYTES("-----BEGIN NATS USER JWT-----\nab\n-----BEGIN USER NKEY SEED-----\nSU"), &jwt, &k));
}
