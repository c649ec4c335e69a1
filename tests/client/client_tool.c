/* Client tool: libgatehouse on a string, for the end-to-end tests. Takes a URL, a key, a CA file, a deadline and the time between
 * probes in milliseconds ("-" leaves a text out), then commands on standard input, and answers each with one line:
 *
 *     allow POLICY KEY                         CODE allowed|denied server|here LIMITS MS
 *     attempt SUBJECT [ONCE [JOURNEY [RISK]]]  CODE VERDICT counted|not REASON MS
 *                                              (a SUBJECT with an @ is an email address)
 *     check SUBJECT [POLICY KEY COST]...       CODE VERDICT REASON WAIT_S [POLICY:yes|no:LIMIT:REMAINING:RESET_S]... MS
 *     storm THREADS   threads call allow and attempt until the line "enough" comes; it and every line before it are
 *                     answered: ANSWERED DEGRADED UNKNOWN OTHER SLOWEST_MS
 *
 * "-" leaves ONCE out, and stands for a REASON that is not given. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gatehouse.h"

/* One limit more than may be, so that a test can ask for it. */
enum { STORM_THREADS_MAX = 64, ASKED_MAX = GATEHOUSE_CHECK_LIMITS_MAX + 1, WORDS_MAX = 2 + 3 * ASKED_MAX };

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static const char *spoken(enum gatehouse_code code, const struct gatehouse_error *error)
{
	if (code != GATEHOUSE_OK)
		fprintf(stderr, "%d %s: %s\n", error->status, error->field, error->text);
	return gatehouse_code_name(code);
}

/* ---- one call ---- */

static void allow(struct gatehouse *g, const char *policy, const char *key)
{
	struct gatehouse_allow_request request = {.policy = policy, .key = key};
	struct gatehouse_allow_answer  answer;
	struct gatehouse_error         error;
	int64_t                        began_us = now_us();
	enum gatehouse_code            code = gatehouse_allow(g, &request, &answer, &error);

	printf("%s %s %s %zu %lld\n", spoken(code, &error), answer.allowed ? "allowed" : "denied",
	       answer.cause == GATEHOUSE_OK ? "server" : "here", answer.result_count,
	       (long long)(now_us() - began_us) / 1000);
}

static struct gatehouse_attempt_request wrong_password(const char *subject)
{
	return (struct gatehouse_attempt_request){.subject = subject,
	                                          .journey = "SIGN_IN",
	                                          .type = "PASSWORD_ENTRY",
	                                          .outcome = GATEHOUSE_FAILURE};
}

static const char *given(const char *word)
{
	return word == NULL || strcmp(word, "-") == 0 ? NULL : word;
}

static const char *reason_or_none(const char *reason)
{
	return reason[0] != '\0' ? reason : "-";
}

/* Of `words`: subject, once, journey, risk; NULL ends them. */
static void attempt(struct gatehouse *g, char **words)
{
	const char                      *subject = words[0], *once = given(words[1]);
	const char                      *journey = words[1] == NULL ? NULL : given(words[2]);
	const char                      *risk = journey == NULL ? NULL : words[3];
	struct gatehouse_attempt_request request = wrong_password(subject);
	struct gatehouse_attempt_answer  answer;
	struct gatehouse_error           error;
	int64_t                          began_us = now_us();
	enum gatehouse_code              code;

	request.idempotency_key = once;
	if (strchr(subject, '@') != NULL)
		request.subject_kind = GATEHOUSE_EMAIL;
	if (journey != NULL)
		request.journey = journey;
	if (risk != NULL)
		request.risk = (int)strtol(risk, NULL, 10);
	code = gatehouse_attempt(g, &request, &answer, &error);
	printf("%s %s %s %s %lld\n", spoken(code, &error), gatehouse_verdict_name(answer.verdict),
	       answer.counted ? "counted" : "not", reason_or_none(answer.reason),
	       (long long)(now_us() - began_us) / 1000);
}

static size_t limits_given(char **words, struct gatehouse_check_limit limits[ASKED_MAX])
{
	size_t count = 0;

	for (; count < ASKED_MAX && words[3 * count] != NULL; count++)
		limits[count] = (struct gatehouse_check_limit){.policy = words[3 * count],
		                                               .key = words[3 * count + 1],
		                                               .cost = atoll(words[3 * count + 2])};
	return count;
}

static void check(struct gatehouse *g, const char *subject, char **words)
{
	struct gatehouse_check_limit   limits[ASKED_MAX];
	static const char *const       actions[] = {"PASSWORD_ENTRY"};
	struct gatehouse_check_request request = {.subject = subject,
	                                          .journey = "SIGN_IN",
	                                          .actions = actions,
	                                          .action_count = 1,
	                                          .limits = limits,
	                                          .limit_count = limits_given(words, limits)};
	struct gatehouse_check_answer  answer;
	struct gatehouse_error         error;
	int64_t                        began_us = now_us();
	enum gatehouse_code            code = gatehouse_check(g, &request, &answer, &error);

	printf("%s %s %s %lld", spoken(code, &error), gatehouse_verdict_name(answer.verdict),
	       reason_or_none(answer.reason), (long long)answer.retry_after_s);
	for (size_t i = 0; i < answer.limit_count; i++)
		printf(" %s:%s:%lld:%lld:%lld", answer.limits[i].policy,
		       answer.limits[i].allowed ? "yes" : "no", (long long)answer.limits[i].limit,
		       (long long)answer.limits[i].remaining, (long long)answer.limits[i].reset_s);
	printf(" %lld\n", (long long)(now_us() - began_us) / 1000);
}

/* ---- a storm ---- */

struct storm {
	struct gatehouse *g;
	atomic_bool       over;
	atomic_uint       answered, degraded, unknown, other, names;
	_Atomic int64_t   slowest_us;
};

static void storm_note(struct storm *s, atomic_uint *what, int64_t took_us)
{
	int64_t slowest_us = atomic_load(&s->slowest_us);

	atomic_fetch_add(what, 1);
	while (took_us > slowest_us && !atomic_compare_exchange_weak(&s->slowest_us, &slowest_us, took_us))
		continue;
}

static void storm_attempt(struct storm *s)
{
	struct gatehouse_attempt_request request;
	struct gatehouse_attempt_answer  answer;
	char                             subject[32];
	int64_t                          began_us = now_us();
	enum gatehouse_code              code;

	snprintf(subject, sizeof(subject), "storm-%u", atomic_fetch_add(&s->names, 1));
	request = wrong_password(subject);
	code = gatehouse_attempt(s->g, &request, &answer, NULL);
	if (code == GATEHOUSE_OK)
		storm_note(s, answer.verdict == GATEHOUSE_ALLOW ? &s->answered : &s->other,
		           now_us() - began_us);
	else if (code == GATEHOUSE_UNREACHABLE || code == GATEHOUSE_TIMEOUT)
		storm_note(s, answer.verdict == GATEHOUSE_UNKNOWN ? &s->unknown : &s->other,
		           now_us() - began_us);
	else
		storm_note(s, &s->other, now_us() - began_us);
}

static void storm_allow(struct storm *s)
{
	struct gatehouse_allow_request request = {.policy = "storm", .key = "k"};
	struct gatehouse_allow_answer  answer;
	int64_t                        began_us = now_us();

	gatehouse_allow(s->g, &request, &answer, NULL);
	if (answer.cause != GATEHOUSE_OK)
		storm_note(s, &s->degraded, now_us() - began_us);
}

static void *storm_main(void *arg)
{
	struct storm *s = arg;

	while (!atomic_load(&s->over)) {
		storm_attempt(s);
		storm_allow(s);
	}
	return NULL;
}

static void storm_show(const struct storm *s)
{
	printf("%u %u %u %u %lld\n", s->answered, s->degraded, s->unknown, s->other,
	       (long long)s->slowest_us / 1000);
}

static void storm(struct gatehouse *g, unsigned threads)
{
	struct storm s = {.g = g};
	pthread_t    running[STORM_THREADS_MAX];
	char         line[16];

	threads = threads < STORM_THREADS_MAX ? threads : STORM_THREADS_MAX;
	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&running[i], NULL, storm_main, &s) != 0)
			abort();
	storm_show(&s);
	while (fgets(line, sizeof(line), stdin) != NULL && strcmp(line, "enough\n") != 0)
		storm_show(&s);
	atomic_store(&s.over, true);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(running[i], NULL);
	storm_show(&s);
}

/* ---- commands ---- */

static void obey(struct gatehouse *g, char *line)
{
	char *rest, *words[WORDS_MAX + 1] = {strtok_r(line, " \n", &rest)};

	for (int i = 1; i < WORDS_MAX && words[i - 1] != NULL; i++)
		words[i] = strtok_r(NULL, " \n", &rest);
	if (words[0] == NULL)
		return;
	if (strcmp(words[0], "allow") == 0)
		allow(g, words[1], words[2]);
	else if (strcmp(words[0], "attempt") == 0)
		attempt(g, words + 1);
	else if (strcmp(words[0], "check") == 0)
		check(g, words[1], words + 2);
	else if (strcmp(words[0], "storm") == 0)
		storm(g, (unsigned)atoi(words[1]));
}

int main(int argc, char **argv)
{
	struct gatehouse_options options = {0};
	struct gatehouse_error   error;
	struct gatehouse        *g;
	char                     line[1024];

	if (argc != 6)
		return 2;
	options.url = argv[1];
	options.key = given(argv[2]);
	options.ca_file = given(argv[3]);
	options.deadline_ms = atoi(argv[4]);
	options.probe_ms = atoi(argv[5]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	g = gatehouse_open(&options, &error);
	if (g == NULL) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	while (fgets(line, sizeof(line), stdin) != NULL)
		obey(g, line);
	gatehouse_close(g);
	return 0;
}
