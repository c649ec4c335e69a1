/* Opening: URLs and options at their bounds, and what each refusal says. */
#include "peer.h"

#include "handle.h"

static struct gatehouse_error error;

static bool opens(struct gatehouse_options options)
{
	struct gatehouse *g = gatehouse_open(&options, &error);

	gatehouse_close(g);
	return g != NULL;
}

static bool opens_url(const char *url)
{
	return opens((struct gatehouse_options){.url = url});
}

TEST(url, with_a_scheme_a_host_and_perhaps_a_port_is_taken)
{
	static const char *const good[] = {
	        "http://127.0.0.1", "HTTP://127.0.0.1:8420",  "http://127.0.0.1:65535/", "http://[::1]",
	        "http://[::1]:1",   "https://127.0.0.1:8443", "http://localhost:80"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!opens_url(good[i]))
			fail_msg("%s: %s", good[i], error.text);
}

TEST(url, of_any_other_form_is_refused)
{
	static const char *const bad[] = {"",
	                                  "127.0.0.1:80",
	                                  "ftp://127.0.0.1",
	                                  "http://",
	                                  "http:///",
	                                  "http://127.0.0.1:",
	                                  "http://127.0.0.1:0",
	                                  "http://127.0.0.1:65536",
	                                  "http://127.0.0.1:000080",
	                                  "http://127.0.0.1:8o",
	                                  "http://127.0.0.1/v1",
	                                  "http://user@127.0.0.1",
	                                  "http://[::1",
	                                  "http://[::1]x",
	                                  "http://[]",
	                                  "http://a b",
	                                  "http://a\r\nb",
	                                  "http://127.0.0.1?x"};
	char                     host[NAMES_HOST_BYTES_MAX + 16] = "http://";

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (opens_url(bad[i]))
			fail_msg("taken: %s", bad[i]);
		assert_int_equal(error.code, GATEHOUSE_INVALID);
	}
	memset(host + 7, 'a', NAMES_HOST_BYTES_MAX);
	assert_false(opens_url(host));
	assert_string_equal(error.text, "url: must be http://HOST[:PORT] or https://HOST[:PORT]");
	assert_false(opens((struct gatehouse_options){0}));
	assert_string_equal(error.text, "url: missing");
}

#define WITH(...) opens((struct gatehouse_options){.url = "http://127.0.0.1:1", __VA_ARGS__})

TEST(options, are_taken_up_to_their_maxima)
{
	char                   key[HANDLE_KEY_BYTES_MAX + 2];
	struct gatehouse_limit limits[GATEHOUSE_LIMITS_MAX + 1];
	char                   names[GATEHOUSE_LIMITS_MAX + 1][8];

	for (int i = 0; i <= GATEHOUSE_LIMITS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "%d", i);
		limits[i] = (struct gatehouse_limit){names[i], 1, 1, 0};
	}
	assert_true(WITH(.deadline_ms = GATEHOUSE_DEADLINE_MS_MAX));
	assert_false(WITH(.deadline_ms = GATEHOUSE_DEADLINE_MS_MAX + 1));
	assert_false(WITH(.deadline_ms = -1));
	assert_true(WITH(.connections_max = GATEHOUSE_CONNECTIONS_MAX));
	assert_false(WITH(.connections_max = GATEHOUSE_CONNECTIONS_MAX + 1));
	assert_true(WITH(.probe_ms = GATEHOUSE_PROBE_MS_MAX));
	assert_false(WITH(.probe_ms = GATEHOUSE_PROBE_MS_MAX + 1));
	assert_true(WITH(.local_keys_max = GATEHOUSE_LOCAL_KEYS_MAX));
	assert_false(WITH(.local_keys_max = GATEHOUSE_LOCAL_KEYS_MAX + 1));
	assert_true(WITH(.limits = limits, .limit_count = GATEHOUSE_LIMITS_MAX));
	assert_false(WITH(.limits = limits, .limit_count = GATEHOUSE_LIMITS_MAX + 1));
	assert_false(WITH(.limit_count = 1));
	limits[1].window_s = 0;
	assert_false(WITH(.limits = limits, .limit_count = 2));
	assert_non_null(strstr(error.text, "entry 1 "));
	memset(key, 'k', sizeof(key));
	key[HANDLE_KEY_BYTES_MAX + 1] = '\0';
	assert_false(WITH(.key = key));
	key[HANDLE_KEY_BYTES_MAX] = '\0';
	assert_true(WITH(.key = key));
	assert_false(WITH(.key = "a\r\nb"));
	assert_false(WITH(.key = ""));
}

TEST(options, a_key_does_not_go_to_another_machine_in_the_clear_unless_told_so)
{
	struct gatehouse_options options = {.url = "http://192.0.2.1", .key = "id.secret"};

	assert_false(opens(options));
	assert_non_null(strstr(error.text, "plain_http"));
	options.plain_http = true;
	assert_true(opens(options));
	options = (struct gatehouse_options){.url = "https://192.0.2.1", .key = "id.secret"};
	assert_true(opens(options));
	assert_true(opens_url("http://192.0.2.1"));
}

TEST(options, files_that_cannot_be_read_are_named)
{
	assert_false(
	        opens((struct gatehouse_options){.url = "https://127.0.0.1", .ca_file = "/nonexistent"}));
	assert_non_null(strstr(error.text, "ca_file"));
	assert_false(
	        opens((struct gatehouse_options){.url = "https://127.0.0.1", .cert_file = "/nonexistent"}));
	assert_non_null(strstr(error.text, "cert_file"));
}

TEST(names, a_name_is_resolved_and_looked_up_again_when_nobody_answers)
{
	struct gatehouse_options options = {.url = "http://localhost:1", .deadline_ms = 60000, .probe_ms = 1};
	struct gatehouse        *g = gatehouse_open(&options, &error);
	struct gatehouse_attempt_answer answer;

	assert_non_null(g);
	assert_int_equal(client_attempt(g, "s", &answer), GATEHOUSE_UNREACHABLE);
	assert_true(g->names.started);
	assert_int_equal(client_attempt(g, "s", &answer), GATEHOUSE_UNREACHABLE);
	gatehouse_close(g);
}

TEST(names, codes_and_verdicts_have_names)
{
	assert_string_equal(gatehouse_code_name(GATEHOUSE_UNAVAILABLE), "unavailable");
	assert_string_equal(gatehouse_verdict_name(GATEHOUSE_LOCKED_PERMANENT), "locked_permanent");
	assert_string_equal(gatehouse_verdict_name(GATEHOUSE_UNKNOWN), "unknown");
	gatehouse_close(NULL);
}
