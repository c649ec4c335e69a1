/* A week under the shipped policies, on a clock that the test sets: an attacker guesses at one account as fast as the policies let
 * through, from one source or from 10,000, and the owner signs in once a day, from a known device or from a new one. What is
 * measured is the table in docs/policies.md, line by line: so the table is true, or this test fails. */
#include "service/fixture.h"

enum {
	STEP_S = 300, /* every lock ends at a multiple of it */
	DAY_S = 86400,
	DAYS = 7,
	SOURCES = 10000,
	TRIES = 30,            /* a step; all but the last ones are refused long before */
	OWNER_AT_S = 43200,    /* noon: the attack begins at midnight */
	CONSECUTIVE_MAX = 100, /* NIST SP 800-63B */
};

enum kind { PASSWORDS_GUESSED, CODES_GUESSED, CODES_REQUESTED, RESETS_GUESSED, KINDS };

static const struct {
	const char  *label;
	struct try   t;
	enum outcome outcome;
} kinds[] = {
        [PASSWORDS_GUESSED] = {"passwords", {.type = "PASSWORD_ENTRY"}, OUTCOME_FAILURE},
        [CODES_GUESSED] = {"codes, with the right password",
                           {.type = "MFA_CODE_ENTRY", .method_type = "SMS"},
                           OUTCOME_FAILURE},
        [CODES_REQUESTED] = {"requests for codes",
                             {.type = "MFA_CODE_REQUEST", .notification = "MFA_SMS"},
                             OUTCOME_SENT},
        [RESETS_GUESSED] = {"codes that reset the password",
                            {.journey = "PASSWORD_RESET", .type = "CODE_ENTRY"},
                            OUTCOME_FAILURE},
};

struct week {
	struct service s;
	enum kind      kind;
	int            sources;
	bool           known;
	int64_t        guesses, in_a_row, longest;
	int            got_in, source;
	char           cookie[DEVICE_TOKEN_CHARS];
};

static struct bytes cookie_of(const struct week *w)
{
	return w->known ? (struct bytes){w->cookie, sizeof(w->cookie)} : (struct bytes){NULL, 0};
}

/* Where she is signed in, she proves who she is once more, and changes something of her account. */
static bool owner_stays_in(struct week *w, struct bytes token)
{
	static const char *const journeys[] = {"REAUTHENTICATION", "ACCOUNT_MANAGEMENT"};
	bool                     stays = true;

	for (int i = 0; i < 2; i++)
		stays &= SUCCEED(&w->s, .journey = journeys[i], .ip = "198.51.100.7", .token = token)
		                 .verdict.kind == VERDICT_ALLOW;
	return stays;
}

/* As far as the policies let her: the password, a code that is sent, the code. */
static bool owner_signs_in(struct week *w)
{
	struct try            t = {.ip = "198.51.100.7", .token = cookie_of(w)};
	struct attempt_result r = service_record(&w->s, OUTCOME_SUCCESS, t);

	t.type = "MFA_CODE_REQUEST";
	t.notification = "MFA_SMS";
	if (r.verdict.kind != VERDICT_ALLOW ||
	    service_record(&w->s, OUTCOME_SENT, t).verdict.kind != VERDICT_ALLOW)
		return false;
	t.type = "MFA_CODE_ENTRY";
	t.notification = NULL;
	t.method_type = "SMS";
	r = service_record(&w->s, OUTCOME_SUCCESS, t);
	if (r.verdict.kind != VERDICT_ALLOW)
		return false;
	memcpy(w->cookie, r.device.token.data, sizeof(w->cookie));
	w->in_a_row =
	        w->known ? w->in_a_row : 0; /* what she does on her own device ends nothing of strangers */
	return owner_stays_in(w, r.device.token);
}

static bool guess(struct week *w)
{
	struct try t = kinds[w->kind].t;
	char       ip[32];
	bool       counted;

	w->source = (w->source + 1) % w->sources;
	snprintf(ip, sizeof(ip), "203.%d.%d.9", w->source / 250, w->source % 250);
	t.ip = ip;
	if (w->kind == CODES_GUESSED)
		SUCCEED(&w->s, .ip = ip,
		        .forgetful = true); /* again and again: it ends nothing of the codes */
	counted = service_record(&w->s, kinds[w->kind].outcome, t).counted;
	w->guesses += counted;
	w->in_a_row += counted;
	w->longest = w->in_a_row > w->longest ? w->in_a_row : w->longest;
	return counted;
}

static void week_run(struct week *w)
{
	bool known = w->known;

	service_open(&w->s, NULL);
	w->known = false;
	assert_true(owner_signs_in(w));
	w->known = known;
	for (int64_t now = STEP_S; now <= (int64_t)DAYS * DAY_S; now += STEP_S) {
		at(&w->s, now);
		for (int i = 0; i < TRIES && guess(w); i++)
			;
		if (now % DAY_S == OWNER_AT_S)
			w->got_in += owner_signs_in(w);
		arena_reset(&w->s.f.arena);
	}
	service_close(&w->s);
}

/* Is that line in the document? */
static bool is_documented(const char *line)
{
	char  text[1024];
	bool  found = false;
	FILE *file = fopen("docs/policies.md", "r");

	if (file == NULL)
		fail_msg("docs/policies.md: run this in the repository");
	while (!found && fgets(text, sizeof(text), file) != NULL) {
		text[strcspn(text, "\n")] = '\0';
		found = strcmp(text, line) == 0;
	}
	fclose(file);
	return found;
}

static void expect(const char *line)
{
	if (!is_documented(line))
		fail_msg("measured, and not in docs/policies.md: %s", line);
}

static void show(enum kind kind, int sources)
{
	struct week known = {.kind = kind, .sources = sources, .known = true};
	struct week new = {.kind = kind, .sources = sources};
	char line[256];

	week_run(&known);
	week_run(&new);
	assert_true(kind == CODES_REQUESTED || known.longest <= CONSECUTIVE_MAX);
	assert_true(kind == CODES_REQUESTED || new.longest <= CONSECUTIVE_MAX);
	assert_int_equal(known.got_in, DAYS); /* whatever the attacker does */
	snprintf(line, sizeof(line), "| %s | %s | %ld | %d of 7 | %ld | %d of 7 |", kinds[kind].label,
	         sources == 1 ? "1" : "10,000", (long)known.guesses, known.got_in, (long)new.guesses,
	         new.got_in);
	expect(line);
}

TEST(week, of_guesses_at_passwords)
{
	show(PASSWORDS_GUESSED, 1);
	show(PASSWORDS_GUESSED, SOURCES);
}
TEST(week, of_guesses_at_codes_by_whoever_has_the_password)
{
	show(CODES_GUESSED, 1);
	show(CODES_GUESSED, SOURCES);
}
TEST(week, of_requests_for_codes)
{
	show(CODES_REQUESTED, 1);
	show(CODES_REQUESTED, SOURCES);
}
TEST(week, of_guesses_at_reset_codes)
{
	show(RESETS_GUESSED, 1);
	show(RESETS_GUESSED, SOURCES);
}

/* One source, each time another account. */
TEST(week, of_one_source_that_sprays)
{
	struct service s;
	char           line[256], name[24];
	long           guesses = 0;
	int            account = 0;

	service_open(&s, NULL);
	for (int64_t now = 0; now < (int64_t)DAYS * DAY_S; now += STEP_S) {
		bool stood = true;

		at(&s, now);
		for (int i = 0; i < 100 && stood; i++) {
			snprintf(name, sizeof(name), "account-%d", account++);
			stood = FAIL(&s, .subject = name, .ip = "203.0.113.9").counted;
			guesses += stood;
		}
		arena_reset(&s.f.arena);
	}
	snprintf(line, sizeof(line), "One source that tries each account once gets %ld guesses in a week.",
	         guesses);
	service_close(&s);
	expect(line);
}
