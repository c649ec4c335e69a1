/* Peer: what the client library's tests need beside a scripted peer (scripted.h). */
#ifndef TESTS_CLIENT_PEER_H
#define TESTS_CLIENT_PEER_H

#include "scripted.h"

#include "gatehouse.h"

#define ALLOWED                                                                                              \
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"allowed\":true}"
#define ADMITTED                                                                                             \
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "                              \
	"19\r\n\r\n{\"verdict\":\"allow\"}"

static inline struct gatehouse *client_open(unsigned port, struct gatehouse_options options)
{
	struct gatehouse_error error;
	struct gatehouse      *g;
	char                   url[64];

	snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
	options.url = url;
	g = gatehouse_open(&options, &error);
	if (g == NULL)
		fail_msg("%s", error.text);
	return g;
}

static inline struct gatehouse_allow_answer client_allow(struct gatehouse *g, const char *key)
{
	struct gatehouse_allow_request request = {.policy = "p", .key = key};
	struct gatehouse_allow_answer  answer;
	struct gatehouse_error         error;

	if (gatehouse_allow(g, &request, &answer, &error) != GATEHOUSE_OK)
		fail_msg("%s: %s", gatehouse_code_name(error.code), error.text);
	return answer;
}

static inline enum gatehouse_code client_attempt(struct gatehouse *g, const char *subject,
                                                 struct gatehouse_attempt_answer *answer)
{
	struct gatehouse_attempt_request request = {.subject = subject,
	                                            .journey = "SIGN_IN",
	                                            .type = "PASSWORD_ENTRY",
	                                            .outcome = GATEHOUSE_FAILURE};

	return gatehouse_attempt(g, &request, answer, NULL);
}

/* Tests that are not about deadlines have one that a slow machine keeps. */
#define PATIENT                                                                                              \
	(struct gatehouse_options)                                                                           \
	{                                                                                                    \
		.deadline_ms = 60000                                                                         \
	}

#endif
