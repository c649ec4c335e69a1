/* Rules: what is refused, and where it says the fault is; what the defaults hold; every bound, at it and past it. */
#include "service/fixture.h"

/* The least that is a rule set, with room for one more setting of its one rule. */
#define ONE_RULE(settings)                                                                                   \
	"locks: {STANDARD: {duration: 900}}\n"                                                               \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {" settings "}\n"

/* Behind it. */
#define CONSECUTIVE(settings)                                                                                \
	"consecutive: {max: 9, lock: STANDARD, of: [SIGN_IN/PASSWORD_ENTRY], " settings "}\n"

struct parsed {
	struct arena  arena;
	struct err    err;
	struct rules *rules;
};

static const struct rule *parse(struct parsed *p, const char *yaml)
{
	arena_init(&p->arena);
	if (rules_read_yaml(&p->arena, yaml, &p->rules, &p->err) != ERR_NONE)
		fail_msg("%s", p->err.text);
	return p->rules->list;
}

static void parsed_release(struct parsed *p)
{
	if (p->rules != NULL)
		document_release(&p->rules->base);
	arena_release(&p->arena);
}

static void accepts(const char *yaml)
{
	struct parsed p;

	parse(&p, yaml);
	parsed_release(&p);
}

static void refuses(const char *yaml, const char *field, const char *text)
{
	struct parsed p;

	arena_init(&p.arena);
	assert_int_not_equal(rules_read_yaml(&p.arena, yaml, &p.rules, &p.err), ERR_NONE);
	assert_string_equal(p.err.text, text);
	assert_string_equal(p.err.field, field);
	parsed_release(&p);
}

/* ---- what ships ---- */

TEST(rules, the_defaults_parse_and_hold_every_journey_of_the_document)
{
	static const char *const journeys[] = {"SIGN_IN",           "REAUTHENTICATION",   "ACCOUNT_CREATION",
	                                       "PASSWORD_RESET",    "PASSWORD_RESET_MFA", "ACCOUNT_RECOVERY",
	                                       "AUTHENTICATION",    "ACCOUNT_MANAGEMENT", "PHONE_NUMBER",
	                                       "EMAIL_VERIFICATION"};
	struct service           s = {0};

	arena_init(&s.f.arena);
	service_rules(&s, NULL);
	assert_int_equal(s.rules->journey_count, sizeof(journeys) / sizeof(journeys[0]));
	for (size_t i = 0; i < sizeof(journeys) / sizeof(journeys[0]); i++)
		assert_non_null(rules_journey(s.rules, bytes_of(journeys[i])));
	assert_non_null(rules_reset(s.rules, BYTES("PASSWORD")));
	assert_true(rules_has_lock(s.rules, BYTES("AUTHENTICATION"), BYTES("SIGN_IN")));
	document_release(&s.rules->base);
	arena_release(&s.f.arena);
}

TEST(rules, the_defaults_are_the_numbers_of_the_origin)
{
	static const struct {
		const char *journey, *type, *method, *lock;
		int64_t     max, max_each, life_s;
	} want[] = {{"SIGN_IN", "PASSWORD_ENTRY", "", "STANDARD", 6, 0, 7200},
	            {"SIGN_IN", "MFA_CODE_ENTRY", "SMS", "STANDARD", 11, 6, 900},
	            {"SIGN_IN", "PASSWORD_RESET_REQUEST", "", "STANDARD", 6, 0, 900},
	            {"REAUTHENTICATION", "EMAIL_ENTRY", "", NULL, 6, 0, 3600},
	            {"ACCOUNT_CREATION", "MFA_CODE_ENTRY", "SMS", "REDUCED", 6, 0, 3600},
	            {"ACCOUNT_CREATION", "MFA_CODE_ENTRY", "AUTH_APP", "REDUCED", 999999, 0, 3600},
	            {"ACCOUNT_RECOVERY", "MFA_CODE_ENTRY", "SMS", "REDUCED", 6, 0, 900},
	            {"ACCOUNT_RECOVERY", "MFA_CODE_ENTRY", "AUTH_APP", "REDUCED", 999999, 0, 900},
	            {"PHONE_NUMBER", "INTERNATIONAL_SMS", "", "PERMANENT", 6, 0, 86400}};
	struct service s = {0};

	arena_init(&s.f.arena);
	service_rules(&s, NULL);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		const struct rule *r = rules_find(s.rules, bytes_of(want[i].journey), bytes_of(want[i].type),
		                                  bytes_of(want[i].method));

		assert_non_null(r);
		assert_int_equal(r->max, want[i].max);
		assert_int_equal(r->max_each, want[i].max_each);
		assert_int_equal(r->life_s, want[i].life_s);
		if (want[i].lock == NULL)
			assert_int_equal(r->at_max, AT_MAX_SIGN_OUT);
		else
			assert_bytes(r->lock->name, want[i].lock);
	}
	assert_int_equal(rules_kind(s.rules, BYTES("STANDARD"))->duration_s, 900);
	assert_int_equal(rules_kind(s.rules, BYTES("REDUCED"))->duration_s, 300);
	assert_int_equal(rules_kind(s.rules, BYTES("PERMANENT"))->duration_s, 0);
	document_release(&s.rules->base);
	arena_release(&s.f.arena);
}

/* ---- what a rule is when little is said ---- */

TEST(rules, a_rule_locks_by_its_own_name_and_success_clears_its_own_count_unless_it_says_otherwise)
{
	struct parsed      p;
	const struct rule *r = parse(&p, ONE_RULE("max: 6, life: 60"));

	assert_int_equal(r->at_max, AT_MAX_LOCK);
	assert_bytes(r->lock->name, "STANDARD");
	assert_bytes(r->classifier_type, "ERROR_COUNT");
	assert_int_equal(r->sets.count, 1);
	assert_bytes(r->sets.list[0].journey, "SIGN_IN");
	assert_bytes(r->sets.list[0].name, "PASSWORD_ENTRY");
	assert_int_equal(r->clears.count, 1);
	assert_bytes(r->clears.list[0].name, "PASSWORD_ENTRY");
	assert_false(r->renewed || r->shadow);
	assert_true(rules_has_lock(p.rules, BYTES("SIGN_IN"), BYTES("PASSWORD_ENTRY")));
	assert_false(rules_has_lock(p.rules, BYTES("SIGN_IN"), BYTES("OTHER")));
	parsed_release(&p);
}

TEST(rules, the_rule_for_a_method_comes_before_the_one_for_any)
{
	struct parsed p;

	parse(&p, "locks: {STANDARD: {duration: 9}}\n"
	          "journeys: {J: {types: {CODE: {max: 6, life: 9}, CODE/APP: {max: 7, life: 9}}}}\n");
	assert_int_equal(rules_find(p.rules, BYTES("J"), BYTES("CODE"), BYTES("APP"))->max, 7);
	assert_int_equal(rules_find(p.rules, BYTES("J"), BYTES("CODE"), BYTES("SMS"))->max, 6);
	assert_int_equal(rules_find(p.rules, BYTES("J"), BYTES("CODE"), BYTES(""))->max, 6);
	assert_null(rules_find(p.rules, BYTES("J"), BYTES("COD"), BYTES("")));
	assert_null(rules_find(p.rules, BYTES("K"), BYTES("CODE"), BYTES("")));
	parsed_release(&p);
}

TEST(rules, json_is_read_like_yaml)
{
	accepts("{\"locks\":{\"STANDARD\":{\"duration\":900}},\"journeys\":{\"SIGN_IN\":{\"types\":"
	        "{\"PASSWORD_ENTRY\":{\"max\":6,\"life\":60}}}}}");
}

/* ---- refusals: each names the field and the line ---- */

#define AT "journeys.SIGN_IN.types.PASSWORD_ENTRY"

static const struct {
	const char *yaml, *field, *text;
} faults[] = {
        {ONE_RULE("max: six, life: 60"), AT ".max",
         "line 5: " AT ".max: must be a whole number, not a string"},
        {ONE_RULE("life: 60"), AT ".max",
         "line 5: " AT ".max: missing: set max, max_each, max_from_source, max_of_source or max_of_network"},
        {ONE_RULE("max: 6"), AT ".life", "line 5: " AT ".life: missing"},
        {ONE_RULE("max: 6, life: 60, renewd: true"), AT ".renewd",
         "line 5: " AT ".renewd: unknown field; did you mean `renewed`?"},
        {ONE_RULE("max: 6, life: 60, counts: all"), AT ".counts",
         "line 5: " AT ".counts: must be failure or sent"},
        {ONE_RULE("max: 6, life: 60, qualifier: device"), AT ".qualifier",
         "line 5: " AT ".qualifier: must be none, method or notification"},
        {ONE_RULE("max: 6, life: 60, at_max: stop"), AT ".at_max",
         "line 5: " AT ".at_max: must be lock, sign_out, reset or challenge"},
        {ONE_RULE("max: 6, life: 60, renewed: 1"), AT ".renewed",
         "line 5: " AT ".renewed: must be a boolean, not a number"},
        {ONE_RULE("max: 6, life: 60, lock: NONE"), AT ".lock",
         "line 5: " AT ".lock: unknown lock kind NONE; define it under `locks`"},
        {ONE_RULE("max: 6, life: 60, at_max: sign_out, lock: STANDARD"), AT ".lock",
         "line 5: " AT ".lock: only valid if the rule locks: `at_max: lock`, or `challenge` with `lock_at`"},
        {ONE_RULE("max: 6, life: 60, at_max: reset, sets: [A]"), AT ".sets",
         "line 5: " AT ".sets: only valid if the rule locks: `at_max: lock`, or `challenge` with `lock_at`"},
        {ONE_RULE("max: 6, life: 60, sets: [a]"), AT ".sets",
         "line 5: " AT ".sets: must be a list of names like JOURNEY/NAME"},
        {ONE_RULE("max: 6, life: 60, clears: [A/B/C]"), AT ".clears",
         "line 5: " AT ".clears: must be a list of names like JOURNEY/NAME"},
        {ONE_RULE("max: 6, life: 60, notification_types: [sms]"), AT ".notification_types",
         "line 5: " AT ".notification_types: must be a list of names of capital letters, digits and "
         "underscores, a letter first"},
        {ONE_RULE("max: 6, life: 60, classifier_type: count"), AT ".classifier_type",
         "line 5: " AT ".classifier_type: must be a name of capital letters, digits and underscores, "
         "a letter first"},
        {ONE_RULE("max: 6, life: 60, known_device: {remember: 1}"), AT ".known_device.max",
         "line 5: " AT ".known_device.max: missing"},
        {ONE_RULE("max: 6, life: 60, known_device: {max: 1, cap: 1}"), AT ".known_device.cap",
         "line 5: " AT
         ".known_device.cap: unknown field; expected one of: max, max_all, remember, devices, after"},
        {ONE_RULE("max: 6, life: 60, known_device: {max: 1, after: []}"), AT ".known_device.after",
         "line 5: " AT ".known_device.after: must name at least one type; leave it out for the default"},
        {ONE_RULE("max: 6, life: 60, known_device: {max: 1, after: [OTHER]}"), "journeys",
         "line 2: journeys: SIGN_IN/PASSWORD_ENTRY: `known_device.after` names SIGN_IN/OTHER, which "
         "is not a type in these policies"},
        {"locks: {standard: {duration: 1}}\njourneys: {}\n", "locks.standard",
         "line 1: locks.standard: the name of a lock kind must have at most 64 capital letters, "
         "digits and underscores, a letter first"},
        {"locks:\n  SHORT: {}\njourneys: {}\n", "locks.SHORT.duration",
         "line 2: locks.SHORT.duration: missing"},
        {"locks:\n  LONG: {permanent: true, duration: 5}\njourneys: {}\n", "locks.LONG.duration",
         "line 2: locks.LONG.duration: not valid for a permanent lock, which does not end"},
        {"locks:\n  G: {duration: 9, factor: 2, cap: 8}\njourneys: {}\n", "locks.G.cap",
         "line 2: locks.G.cap: must be at least `duration`"},
        {"locks:\n  G: {duration: 9, factor: 2}\njourneys: {}\n", "locks.G.cap",
         "line 2: locks.G.cap: missing: a `factor` above 1 needs a longest duration, in seconds"},
        {ONE_RULE("max: 6, life: 60, classifier_type: LOCK"), AT ".classifier_type",
         "line 5: " AT ".classifier_type: reserved for rows of Gatehouse's own; choose another name"},
        {"locks: {}\n", "journeys", "line 1: journeys: missing"},
        {"journeys:\n  sign in: {}\n", "journeys.sign in",
         "line 2: journeys.sign in: the name of a journey must have at most 64 capital letters, "
         "digits and underscores, a letter first"},
        {"journeys:\n  A: {types: {b: {}}}\n", "journeys.A.types.b",
         "line 2: journeys.A.types.b: the name of a type must be like PASSWORD_ENTRY or "
         "MFA_CODE_ENTRY/SMS: capital letters, digits and underscores"},
        {"journeys:\n  A: {types: {B/: {}}}\n", "journeys.A.types.B/",
         "line 2: journeys.A.types.B/: the name of a type must be like PASSWORD_ENTRY or "
         "MFA_CODE_ENTRY/SMS: capital letters, digits and underscores"},
        {"journeys:\n  A: 6\n", "journeys.A", "line 2: journeys.A: must be an object, not a number"},
        {"journeys: {}\nresets:\n  PASSWORD: {counts: [A/B]}\n", "resets",
         "line 2: resets: PASSWORD names A/B, which is not in these policies"},
        {"journeys: {}\nresets:\n  PASSWORD: {locks: [A/B]}\n", "resets",
         "line 2: resets: PASSWORD names A/B, which is not in these policies"},
        {"journeys: {}\nresets:\n  PASSWORD: {counts: [B]}\n", "resets.PASSWORD.counts",
         "line 3: resets.PASSWORD.counts: must be a list of names like JOURNEY/NAME"},
        {"journeys: {}\nallow_sources: [10.0.0.0/33]\n", "allow_sources",
         "line 2: allow_sources: must be a list of IP addresses or networks like 10.0.0.0/8"},
        {"journeys: {}\nallow_sources: ['10.0.0.0/']\n", "allow_sources",
         "line 2: allow_sources: must be a list of IP addresses or networks like 10.0.0.0/8"},
        {"journeys: {}\ndeny_sources: [10.0.0.0/33]\n", "deny_sources",
         "line 2: deny_sources: must be a list of IP addresses or networks like 10.0.0.0/8"},
        {"locks:\n  A: {duration: 9, then: B}\njourneys: {}\n", "locks.A.then",
         "line 2: locks.A.then: unknown lock kind B; define it under `locks`"},
        {"locks:\n  A: {duration: 9, then: A}\njourneys: {}\n", "locks.A.then",
         "line 2: locks.A.then: A must be another lock kind, without a `then` of its own"},
        {"locks:\n  A: {duration: 9, then: B}\n  B: {duration: 9, then: C}\n  C: {duration: 9}\n"
         "journeys: {}\n",
         "locks.A.then", "line 2: locks.A.then: B must be another lock kind, without a `then` of its own"},
        {"locks:\n  A: {permanent: true, then: B}\n  B: {duration: 9}\njourneys: {}\n", "locks.A.then",
         "line 2: locks.A.then: not valid for a permanent lock, which does not end"},
        {"locks:\n  A: {duration: 9, after: 2}\njourneys: {}\n", "locks.A.after",
         "line 2: locks.A.after: only valid together with `then`"},
        {ONE_RULE("max: 6, life: 60, source_life: 9"), AT ".source_life",
         "line 5: " AT
         ".source_life: only valid together with max_from_source, max_of_source or max_of_network"},
        {ONE_RULE("max: 6, life: 60, without_source: skip"), AT ".without_source",
         "line 5: " AT
         ".without_source: only valid together with max_from_source, max_of_source or max_of_network"},
        {ONE_RULE("max: 6, life: 60, lock_at: 9"), AT ".lock_at",
         "line 5: " AT ".lock_at: only valid with `at_max: challenge`"},
        {ONE_RULE("max: 6, life: 60, at_max: challenge, lock_at: 6"), AT ".lock_at",
         "line 5: " AT ".lock_at: must be greater than `max`, which must be set"},
        {ONE_RULE("max: 6, life: 60, at_max: challenge, lock: STANDARD"), AT ".lock",
         "line 5: " AT ".lock: only valid if the rule locks: `at_max: lock`, or `challenge` with `lock_at`"},
        {"journeys: {}\nallow_sources: ['']\n", "allow_sources",
         "line 2: allow_sources: must be a list of IP addresses or networks like 10.0.0.0/8"},
        {"journeys: {}\nallow_sources: ['2001:db8::/129']\n", "allow_sources",
         "line 2: allow_sources: must be a list of IP addresses or networks like 10.0.0.0/8"},
        {"journeys: {}\nrules: {}\n", "rules",
         "line 2: rules: unknown field; expected one of: on_failure, locks, sources, journeys, consecutive, "
         "resets, "
         "allow_sources, "
         "deny_sources"},
        {ONE_RULE("max: 6, life: 60, clears: [OTHER]"), "journeys",
         "line 2: journeys: SIGN_IN/PASSWORD_ENTRY: `clears` names SIGN_IN/OTHER, which is not a "
         "type in these policies"},
        {"locks: {STANDARD: {duration: 9}}\njourneys:\n  A: {types: {B/C: {max: 6, life: 60, clears: "
         "[D]}}}\n",
         "journeys", "line 2: journeys: A/B: `clears` names A/D, which is not a type in these policies"},
        {ONE_RULE("max: 6, life: 60, blocked_by: [A/OTHER]"), "journeys",
         "line 2: journeys: SIGN_IN/PASSWORD_ENTRY: `blocked_by` names A/OTHER, which is not a lock "
         "in these policies"},
        {ONE_RULE("max: 6, life: 60") CONSECUTIVE("sets: SIGN_IN/PASSWORD_ENTRY"), "consecutive.sets",
         "line 6: consecutive.sets: SIGN_IN/PASSWORD_ENTRY is the lock of a type, SIGN_IN/PASSWORD_ENTRY; "
         "choose a name that no type has or sets"},
        {ONE_RULE("max: 6, life: 60, sets: [OTHER]") CONSECUTIVE("sets: SIGN_IN/OTHER"), "consecutive.sets",
         "line 6: consecutive.sets: SIGN_IN/OTHER is the lock of a type, SIGN_IN/PASSWORD_ENTRY; choose a "
         "name that no type has or sets"},
        {ONE_RULE("max: 6, life: 60, sets: [OTHER]") CONSECUTIVE("sets: SIGN_IN/PASSWORD_ENTRY"),
         "consecutive.sets",
         "line 6: consecutive.sets: SIGN_IN/PASSWORD_ENTRY is the lock of a type, SIGN_IN/PASSWORD_ENTRY; "
         "choose a name that no type has or sets"},
        {ONE_RULE("max: 6, life: 60") CONSECUTIVE("sets: SIGN_IN/SOURCE"), "consecutive.sets",
         "line 6: consecutive.sets: SOURCE is the lock of a journey's sources; choose another name"},
        {ONE_RULE("max: 6, life: 60") CONSECUTIVE("sets: NOWHERE/ROW"), "consecutive.sets",
         "line 6: consecutive.sets: unknown journey NOWHERE; define it under `journeys`"},
        {ONE_RULE("max: 6, life: 60") CONSECUTIVE("sets: SIGN_IN/ROW, ended_by: [A/B]"),
         "consecutive.ended_by", "line 6: consecutive.ended_by: names A/B, which is not in `of`"},
        {ONE_RULE("max: 6, life: 60, counts: sent") CONSECUTIVE("sets: SIGN_IN/ROW"), "consecutive.of",
         "line 6: consecutive.of: names SIGN_IN/PASSWORD_ENTRY, which is not a type that counts failures"},
        {ONE_RULE("max: 6, life: 60") CONSECUTIVE("sets: SIGN_IN/ROW, life: 9, ended_by: [], lif: 9"),
         "consecutive.lif", "line 6: consecutive.lif: unknown field; did you mean `life`?"},
        {ONE_RULE("max: 6, life: 60, known_device: {max: 6, max_all: 9, devices: 2, remember: 9, after: "
                  "[PASSWORD_ENTRY], maximum: 1}"),
         AT ".known_device.maximum",
         "line 5: " AT ".known_device.maximum: unknown field; expected one of: max, max_all, remember, "
         "devices, after"},
        {ONE_RULE("max: 6, life: 60, at_risk: {from: 9, verdict: blocked, til: 9}"), AT ".at_risk.til",
         "line 5: " AT ".at_risk.til: unknown field; expected one of: verdict, from"},
        {"locks: {A: {duration: 9}}\nsources: {life: 9, lock: A, without: skip, with: skip}\njourneys: {}\n",
         "sources.with", "line 2: sources.with: unknown field; expected one of: life, without, lock"},
};

#undef AT

TEST(rules, a_fault_is_named_by_its_field_and_its_line)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		refuses(faults[i].yaml, faults[i].field, faults[i].text);
}

/* ---- bounds ---- */

static void bound(const char *setting, int64_t at_bound)
{
	char yaml[512];

	for (int past = 0; past <= 1; past++) {
		struct parsed p;
		char          value[128];

		snprintf(value, sizeof(value), setting, (long long)(at_bound + past));
		snprintf(yaml, sizeof(yaml), ONE_RULE("%s"), value);
		arena_init(&p.arena);
		assert_int_equal(rules_read_yaml(&p.arena, yaml, &p.rules, &p.err) != ERR_NONE, past);
		if (past)
			assert_non_null(strstr(p.err.text, "must be from"));
		parsed_release(&p);
	}
}

TEST(rules, numbers_may_be_as_large_as_their_bounds_and_no_larger)
{
	bound("life: 1, max: %lld", RULE_MAX_MAX);
	bound("life: 1, max: 1, max_each: %lld", RULE_MAX_MAX);
	bound("life: 1, max_from_source: %lld", RULE_MAX_MAX);
	bound("life: 1, max_of_source: %lld", RULE_MAX_MAX);
	bound("life: 1, max: 1, known_device: {max: %lld}", RULE_MAX_MAX);
	bound("life: 1, max: 1, known_device: {max: 1, remember: %lld}", RULE_SECONDS_MAX);
	bound("life: 1, max: 1, known_device: {max: 1, max_all: %lld}", RULE_MAX_MAX);
	bound("life: 1, max: 1, known_device: {max: 1, devices: %lld}", KNOWN_DEVICES_MAX);
	bound("life: 1, max: 1, lapse: %lld", LAPSE_MAX_S);
	bound("max: 1, life: %lld", RULE_SECONDS_MAX);
}

TEST(rules, zero_and_less_are_no_maximum_and_no_life)
{
	static const char *const bad[] = {
	        ONE_RULE("life: 1, max: 0"), ONE_RULE("life: 1, max: -1"), ONE_RULE("life: 0, max: 1"),
	        ONE_RULE("life: 1, max: 1, max_each: 0"), ONE_RULE("life: 1, max: 1.5")};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct parsed p;

		arena_init(&p.arena);
		assert_int_not_equal(rules_read_yaml(&p.arena, bad[i], &p.rules, &p.err), ERR_NONE);
		parsed_release(&p);
	}
}

/* A list of `count` members, each printed with its number. */
static struct bytes many(struct arena *a, const char *before, const char *each, int count, const char *after)
{
	struct buf   out;
	struct bytes text;

	buf_init(&out, a);
	buf_add(&out, before, strlen(before));
	for (int i = 0; i < count; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		text = arena_printf(a, each, i, i);
#pragma GCC diagnostic pop
		buf_add(&out, text.data, text.len);
	}
	buf_add(&out, after, strlen(after) + 1);
	return buf_bytes(&out);
}

static void list_bound(const char *before, const char *each, int max, const char *after, const char *why)
{
	for (int past = 0; past <= 1; past++) {
		struct parsed p;
		struct bytes  yaml;

		arena_init(&p.arena);
		yaml = many(&p.arena, before, each, max + past, after);
		rules_read_yaml(&p.arena, yaml.data, &p.rules, &p.err);
		if (past == 0 && p.rules == NULL)
			fail_msg("%s", p.err.text);
		if (past == 1 && (p.rules != NULL || strstr(p.err.text, why) == NULL))
			fail_msg("%d of %s: %s", max + 1, each, p.rules != NULL ? "accepted" : p.err.text);
		parsed_release(&p);
	}
}

TEST(rules, lists_may_be_as_long_as_their_bounds_and_no_longer)
{
	list_bound("locks: {", "K%d: {duration: 9}, ", LOCK_KIND_MAX, "}\njourneys: {}\n",
	           "must have at most 32");
	list_bound("journeys: {", "J%d: {}, ", JOURNEY_MAX, "}\n", "must have at most 200");
	list_bound("journeys: {}\nresets: {", "R%d: {}, ", RESET_MAX, "}\n", "must have at most 50");
	list_bound("journeys: {}\nallow_sources: [", "10.0.%d.1, ", SOURCE_RANGES_MAX, "]\n",
	           "must have at most 256");
	list_bound("journeys: {J: {locks: [", "L%d, ", RULE_LIST_MAX, "]}}\n", "must have at most 32");
	list_bound("locks: {STANDARD: {duration: 9}}\njourneys: {J: {types: {T: {max: 1, life: 1, sets: [",
	           "L%d, ", RULE_LIST_MAX, "]}}}}\n", "must have at most 32");
}

/* Two rows for each lock of a kind that grows: of a subject, and from one source; of a source there is one lock. */
TEST(rules, a_rule_that_sets_more_locks_than_one_attempt_can_is_refused)
{
	list_bound(
	        "locks: {STANDARD: {duration: 9, factor: 2, cap: 99}}\n"
	        "journeys: {J: {types: {T: {max: 1, max_from_source: 1, max_of_source: 1, life: 1, sets: [",
	        "L%d, ", (LOCK_ROWS_MAX - 2) / 4, "]}}}}\n", "sets more locks than one attempt can set");
}

/* Five journeys of 200 types each, and one type more. */
TEST(rules, there_may_be_as_many_types_as_their_bound_over_all_journeys_and_no_more)
{
	for (int past = 0; past <= 1; past++) {
		struct parsed p;
		struct bytes  types, yaml;

		arena_init(&p.arena);
		types = many(&p.arena, "{types: {", "T%d: {max: 1, life: 1}, ", RULE_COUNT_MAX / 5, "}}");
		yaml = arena_printf(&p.arena,
		                    "locks: {STANDARD: {duration: 9}}\n"
		                    "journeys: {A: %s, B: %s, C: %s, D: %s, E: %s%s}\n",
		                    types.data, types.data, types.data, types.data, types.data,
		                    past ? ", F: {types: {T: {max: 1, life: 1}}}" : "");
		rules_read_yaml(&p.arena, yaml.data, &p.rules, &p.err);
		if (past == 0 && p.rules == NULL)
			fail_msg("%s", p.err.text);
		if (past == 1)
			assert_non_null(strstr(p.err.text,
			                       "F.types: must have at most 1000 types over all journeys"));
		parsed_release(&p);
	}
}

TEST(rules, a_name_has_at_most_64_bytes)
{
	char name[RULE_NAME_MAX + 2];

	memset(name, 'A', sizeof(name));
	assert_true(rule_name_is((struct bytes){name, RULE_NAME_MAX}));
	assert_false(rule_name_is((struct bytes){name, RULE_NAME_MAX + 1}));
	assert_false(rule_name_is(BYTES("")));
	assert_true(rule_name_is(BYTES("A_1")));
	assert_false(rule_name_is(BYTES("1A")));
	assert_false(rule_name_is(BYTES("_A")));
	assert_false(rule_name_is(BYTES("A#B")));
	assert_false(rule_name_is(BYTES("a")));
}

/* ---- allowed sources ---- */

static bool allows(const struct rules *r, const char *ip)
{
	uint8_t address[16];

	assert_true(identifier_ip_parse(bytes_of(ip), address));
	return rules_allowed_bits(r, address) >= 0;
}

TEST(rules, an_allowed_range_ends_where_its_bits_say)
{
	struct parsed p;

	parse(&p, "journeys: {}\n"
	          "allow_sources: [10.20.0.0/15, 192.0.2.7, '2001:db8::/33', 198.51.100.128/25]\n");
	assert_true(allows(p.rules, "10.20.0.0") && allows(p.rules, "10.21.255.255"));
	assert_false(allows(p.rules, "10.19.255.255") || allows(p.rules, "10.22.0.0"));
	assert_true(allows(p.rules, "192.0.2.7") && allows(p.rules, "::ffff:192.0.2.7"));
	assert_false(allows(p.rules, "192.0.2.6") || allows(p.rules, "192.0.2.8"));
	assert_true(allows(p.rules, "2001:db8:7fff::1"));
	assert_false(allows(p.rules, "2001:db8:8000::1") || allows(p.rules, "2001:db9::"));
	assert_true(allows(p.rules, "198.51.100.128"));
	assert_false(allows(p.rules, "198.51.100.127"));
	parsed_release(&p);
}

/* As in the conditions of access policies. */
TEST(rules, a_network_of_one_family_holds_no_address_of_the_other)
{
	struct parsed p;

	parse(&p, "journeys: {}\nallow_sources: ['::/0']\n");
	assert_true(allows(p.rules, "2001:db8::1") && allows(p.rules, "::1"));
	assert_false(allows(p.rules, "1.2.3.4") || allows(p.rules, "::ffff:1.2.3.4"));
	parsed_release(&p);
	parse(&p, "journeys: {}\nallow_sources: [0.0.0.0/0]\n");
	assert_true(allows(p.rules, "1.2.3.4") && allows(p.rules, "::ffff:1.2.3.4"));
	assert_false(allows(p.rules, "2001:db8::1"));
	parsed_release(&p);
}

TEST(rules, no_list_allows_no_source)
{
	struct parsed p;

	parse(&p, "journeys: {}\n");
	assert_false(allows(p.rules, "127.0.0.1"));
	parsed_release(&p);
}

TEST(rules, say_what_happens_without_tables_for_all_types_or_for_one)
{
	struct parsed p;

	parse(&p, "locks: {STANDARD: {duration: 1}}\njourneys: {J: {types: {A: {max: 1, life: 1}}}}\n");
	assert_true(p.rules->fails_closed && p.rules->list[0].fails_closed);
	parsed_release(&p);
	parse(&p,
	      "on_failure: open\nlocks: {STANDARD: {duration: 1}}\n"
	      "journeys: {J: {types: {A: {max: 1, life: 1}, B: {max: 1, life: 1, on_failure: closed}}}}\n");
	assert_false(p.rules->fails_closed || p.rules->list[0].fails_closed);
	assert_true(p.rules->list[1].fails_closed);
	parsed_release(&p);
}
