/* Webhooks: signatures as Standard Webhooks has them, which secrets and URLs are taken, and what answers of a receiver mean. The npm
 * package `standardwebhooks` checks signatures of a running server in tests/e2e/test_codes.py. */
#include "test.h"

#include "base/clock.h"
#include "outbound/webhook.h"

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" /* of the specification's example */
#define SHORT  "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" /* 23 bytes */
#define LONG                                                                                                 \
	"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==" /* 64 */
#define LONGER                                                                                               \
	"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" /* 65 */

static enum err_code opened(const char *url, const char *secrets, bool allow_private, struct webhook **out,
                            struct err *err)
{
	struct webhook_options o = {.name = "test",
	                            .url = bytes_of(url),
	                            .secrets = bytes_of(secrets),
	                            .allow_private = allow_private,
	                            .calls_max = 1,
	                            .clock = clock_system()};

	return webhook_open(&o, out, err);
}

TEST(webhook, an_address_with_a_password_is_refused_and_not_repeated)
{
	static const char secrets[] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n";
	struct webhook   *w;
	struct err        err;

	assert_int_equal(opened("https://ann:hush-hush@mail.example/x", secrets, false, &w, &err),
	                 ERR_INVALID);
	assert_string_equal(err.field, "url");
	assert_null(strstr(err.text, "hush-hush"));
}

TEST(webhook, a_message_is_signed_as_the_specification_shows)
{
	struct webhook_message m = {.id = BYTES("msg_p5jXN8AQM9LWM0D4loKWxJek"),
	                            .body = BYTES("{\"test\": 2432232314}")};
	struct webhook        *w;
	struct arena           a;
	struct err             err;

	arena_init(&a);
	assert_int_equal(opened("https://example.org/hook", SECRET, false, &w, &err), ERR_NONE);
	assert_true(bytes_is(webhook_signature(w, &m, 1614265330, &a),
	                     "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
	webhook_close(w);
	arena_release(&a);
}

TEST(webhook, with_two_secrets_a_message_has_both_signatures)
{
	struct webhook_message m = {.id = BYTES("msg_1"), .body = BYTES("{}")};
	struct webhook        *both, *old, *new;
	struct arena           a;
	struct err             err;

	arena_init(&a);
	assert_int_equal(opened("https://example.org", "# old, then new\n" SECRET "\n\n" LONG "\r\n", false,
	                        &both, &err),
	                 ERR_NONE);
	assert_int_equal(opened("https://example.org", SECRET, false, &old, &err), ERR_NONE);
	assert_int_equal(opened("https://example.org", LONG, false, &new, &err), ERR_NONE);
	assert_true(bytes_equal(webhook_signature(both, &m, 7, &a),
	                        arena_printf(&a, "%.*s %.*s", BYTES_ARG(webhook_signature(old, &m, 7, &a)),
	                                     BYTES_ARG(webhook_signature(new, &m, 7, &a)))));
	webhook_close(both);
	webhook_close(old);
	webhook_close(new);
	arena_release(&a);
}

TEST(webhook, a_secret_has_24_to_64_bytes_and_there_are_one_or_two)
{
	static const char *const wrong[] = {"",
	                                    "\n",
	                                    "# none\n",
	                                    SHORT,
	                                    LONGER,
	                                    "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	                                    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",
	                                    "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	                                    SECRET " " SECRET,
	                                    SECRET "\n" SECRET "\n" LONG};
	struct webhook          *w;
	struct err               err;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(opened("https://example.org", wrong[i], false, &w, &err), ERR_INVALID);
		assert_string_equal(err.field, "secrets");
		assert_null(strstr(err.text, "MfKQ"));
	}
	assert_int_equal(opened("https://example.org", LONG, false, &w, &err), ERR_NONE);
	webhook_close(w);
}

TEST(webhook, a_url_is_https_unless_private_addresses_are_allowed)
{
	static const char *const wrong[] = {"",
	                                    "example.org",
	                                    "ftp://example.org",
	                                    "http://example.org",
	                                    "https://example.org/a b",
	                                    "https://example.org/#part",
	                                    "https://",
	                                    "https://user:word@example.org/"};
	char                     url[WEBHOOK_URL_BYTES_MAX + 2];
	struct webhook          *w;
	struct err               err;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (opened(wrong[i], SECRET, false, &w, &err) != ERR_INVALID)
			fail_msg("%s was taken", wrong[i]);
		assert_string_equal(err.field, "url");
	}
	assert_int_equal(opened("http://127.0.0.1:1/x?y=1", SECRET, true, &w, &err), ERR_NONE);
	webhook_close(w);
	memset(url, 'a', sizeof(url));
	memcpy(url, "https://example.org/", 20);
	url[WEBHOOK_URL_BYTES_MAX + 1] = '\0';
	assert_int_equal(opened(url, SECRET, false, &w, &err), ERR_INVALID);
	url[WEBHOOK_URL_BYTES_MAX] = '\0';
	assert_int_equal(opened(url, SECRET, false, &w, &err), ERR_NONE);
	webhook_close(w);
}

TEST(webhook, ids_are_random)
{
	char one[WEBHOOK_ID_CHARS], other[WEBHOOK_ID_CHARS];

	webhook_id_make(one);
	webhook_id_make(other);
	assert_memory_equal(one, "msg_", 4);
	assert_memory_not_equal(one, other, WEBHOOK_ID_CHARS);
}

TEST(webhook, a_receiver_that_is_not_there_may_be_tried_again)
{
	struct webhook_message m = {
	        .id = BYTES("msg_1"), .content_type = BYTES("application/json"), .body = BYTES("{}")};
	struct webhook       *w;
	struct arena          a;
	struct webhook_answer answer;
	struct err            err;

	arena_init(&a);
	assert_int_equal(opened("http://127.0.0.1:1/", SECRET, true, &w, &err), ERR_NONE);
	answer = webhook_send(w, &m, &a);
	assert_int_equal(answer.end, WEBHOOK_LATER);
	assert_int_equal(answer.status, 0);
	webhook_stop(w);
	assert_int_equal(webhook_send(w, &m, &a).end, WEBHOOK_LATER);
	webhook_close(w);
	arena_release(&a);
}
