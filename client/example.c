/* A login page, with its state kept by Gatehouse. Reads "NAME PASSWORD" lines; the only right password is "sesame".
 *
 *     cc -o example example.c $(pkg-config --cflags --libs gatehouse)
 *     echo 'ada guess' | ./example http://127.0.0.1:8420 [ID.SECRET] */
#include <stdio.h>
#include <string.h>

#include <gatehouse.h>

/* How fast may one name be tried? This answers even while the server is away. */
static bool is_too_fast(struct gatehouse *g, const char *name)
{
	struct gatehouse_allow_request request = {.policy = "login-account", .key = name};
	struct gatehouse_allow_answer  answer;
	struct gatehouse_error         error;

	if (gatehouse_allow(g, &request, &answer, &error) != GATEHOUSE_OK) {
		printf("allow: %s: %s\n", gatehouse_code_name(error.code), error.text);
		return false; /* there is still the count of attempts */
	}
	if (answer.degraded)
		printf("allow: decided here (%s)\n", gatehouse_code_name(answer.cause));
	if (!answer.allowed)
		printf("%s: slow down, %lld s\n", name, (long long)answer.retry_after_s);
	return !answer.allowed;
}

/* Reports the outcome. If there is no verdict, the page decides for itself: this one lets nobody in. */
static void log_in(struct gatehouse *g, const char *name, const char *password)
{
	bool                             right = strcmp(password, "sesame") == 0;
	struct gatehouse_attempt_request request = {.subject = name,
	                                            .journey = "SIGN_IN",
	                                            .type = "PASSWORD_ENTRY",
	                                            .outcome = right ? GATEHOUSE_SUCCESS : GATEHOUSE_FAILURE};
	struct gatehouse_attempt_answer  answer;
	struct gatehouse_error           error;

	if (gatehouse_attempt(g, &request, &answer, &error) != GATEHOUSE_OK)
		printf("%s: try again later (%s: %s)\n", name, gatehouse_code_name(error.code), error.text);
	else if (answer.verdict != GATEHOUSE_ALLOW)
		printf("%s: %s until %s\n", name, gatehouse_verdict_name(answer.verdict), answer.until);
	else
		printf("%s: %s\n", name, right ? "welcome" : "wrong password");
}

int main(int argc, char **argv)
{
	struct gatehouse_limit   limits[] = {{.policy = "login-account", .limit = 10, .window_s = 60}};
	struct gatehouse_options options = {.url = argc > 1 ? argv[1] : "http://127.0.0.1:8420",
	                                    .key = argc > 2 ? argv[2] : NULL,
	                                    .deadline_ms = 2000,
	                                    .limits = limits,
	                                    .limit_count = 1};
	struct gatehouse_error   error;
	struct gatehouse        *g = gatehouse_open(&options, &error);
	char                     name[100], password[100];

	if (g == NULL) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	while (scanf("%99s %99s", name, password) == 2)
		if (!is_too_fast(g, name))
			log_in(g, name, password);
	gatehouse_close(g);
	return 0;
}
