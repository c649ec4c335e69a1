/* Rules: from a tree to a rule set. Everything is checked, so that nothing is half in force: names and ranges here,
 * what they refer to in rules.c. */
#include "service/identifier.h"
#include "service/row.h"
#include "service/rules.h"

/* What a reader needs: the rule set under construction, and where it lives. */
struct reader {
	struct rules *rules;
	struct arena *arena;

	/* `sources`: what rules that count by source say of it unless they say otherwise. */
	int64_t      source_life_s;
	struct bytes source_lock;
	int          without_source;
};

/* ---- names and references ---- */

static struct bytes name_of(struct reader *r, struct fields *f, const struct json *member, const char *what)
{
	if (!rule_name_is(member->name))
		fields_fail(f, NULL, ERR_INVALID,
		            "the name of a %s must have at most %d capital letters, digits and underscores, "
		            "a letter first",
		            what, RULE_NAME_MAX);
	return arena_copy(r->arena, member->name);
}

/* "SIGN_IN/PASSWORD_ENTRY", or "PASSWORD_ENTRY" within its own journey. */
static bool ref_read(struct reader *r, struct bytes text, struct bytes journey, struct rule_ref *out)
{
	const char *slash = memchr(text.data, '/', text.len);

	out->journey = journey;
	out->name = text;
	if (slash != NULL) {
		out->journey = (struct bytes){text.data, (size_t)(slash - text.data)};
		out->name = (struct bytes){slash + 1, text.len - out->journey.len - 1};
	}
	out->journey = arena_copy(r->arena, out->journey);
	out->name = arena_copy(r->arena, out->name);
	return rule_name_is(out->journey) && rule_name_is(out->name);
}

static struct rule_refs refs_read(struct reader *r, struct fields *f, const char *name, struct bytes journey)
{
	const struct json *array = fields_array(f, name, RULE_LIST_MAX);
	struct rule_refs   refs = {NULL, 0};

	if (array == NULL)
		return refs;
	refs.list = arena_array(r->arena, array->count, sizeof(*refs.list));
	for (const struct json *m = fields_first(f, array); m != NULL; m = fields_next(f, m))
		if (ref_read(r, json_text(m), journey, &refs.list[refs.count]))
			refs.count++;
		else
			fields_fail(f, name, ERR_INVALID, "must be a list of names like JOURNEY/NAME");
	return refs;
}

static struct rule_refs refs_one(struct reader *r, struct bytes journey, struct bytes name)
{
	struct rule_refs refs = {arena_array(r->arena, 1, sizeof(struct rule_ref)), 1};

	refs.list[0] = (struct rule_ref){journey, name};
	return refs;
}

static struct bytes *names_read(struct reader *r, struct fields *f, const char *name, uint32_t *count)
{
	const struct json *array = fields_array(f, name, RULE_LIST_MAX);
	struct bytes      *names;

	*count = 0;
	if (array == NULL)
		return NULL;
	names = arena_array(r->arena, array->count, sizeof(*names));
	for (const struct json *m = fields_first(f, array); m != NULL; m = fields_next(f, m)) {
		if (!rule_name_is(json_text(m)))
			fields_fail(f, name, ERR_INVALID,
			            "must be a list of names of capital letters, digits and underscores, a "
			            "letter first");
		else
			names[(*count)++] = arena_copy(r->arena, json_text(m));
	}
	return names;
}

/* ---- kinds of locks ---- */

static void kind_read(struct reader *r, const struct fields *parent, const struct json *member)
{
	struct lock_kind *k = &r->rules->kinds[r->rules->kind_count++];
	struct fields     f;
	bool              permanent;

	fields_enter(&f, parent, member->name, member);
	k->name = name_of(r, &f, member, "lock kind");
	permanent = fields_bool_or(&f, "permanent", false);
	k->duration_s = permanent ? 0 : fields_i64(&f, "duration", 1, RULE_SECONDS_MAX);
	k->factor = fields_i64_or(&f, "factor", 1, 100, 1);
	k->cap_s = fields_i64_or(&f, "cap", 1, RULE_SECONDS_MAX, k->duration_s);
	k->forget_s = fields_i64_or(&f, "forget", 1, RULE_SECONDS_MAX, 86400);
	k->after = fields_i64_or(&f, "after", 1, RULE_MAX_MAX, 1);
	if (permanent && fields_has(&f, "duration"))
		fields_fail(&f, "duration", ERR_INVALID,
		            "not valid for a permanent lock, which does not end");
	if (fields_has(&f, "after") && !fields_has(&f, "then"))
		fields_fail(&f, "after", ERR_INVALID, "only valid together with `then`");
	if (permanent && fields_has(&f, "then"))
		fields_fail(&f, "then", ERR_INVALID, "not valid for a permanent lock, which does not end");
	fields_get(&f, "then"); /* then_read, once all kinds are known */
	if (!permanent && k->factor > 1 && !fields_has(&f, "cap"))
		fields_fail(&f, "cap", ERR_INVALID,
		            "missing: a `factor` above 1 needs a longest duration, in seconds");
	if (!permanent && k->cap_s < k->duration_s)
		fields_fail(&f, "cap", ERR_INVALID, "must be at least `duration`");
	fields_end(&f);
}

/* One step is all there is: a kind that follows another is not followed by a third. */
static void then_read(struct reader *r, const struct fields *parent, const struct json *member)
{
	struct lock_kind       *k = (struct lock_kind *)(uintptr_t)rules_kind(r->rules, member->name);
	const struct lock_kind *then;
	struct fields           f;
	struct bytes            name;

	fields_enter(&f, parent, member->name, member);
	name = fields_text_or(&f, "then", RULE_NAME_MAX, (struct bytes){NULL, 0});
	if (name.len == 0 || k == NULL)
		return;
	then = rules_kind(r->rules, name);
	if (then == NULL)
		fields_fail(&f, "then", ERR_INVALID, "unknown lock kind %.*s; define it under `locks`",
		            BYTES_ARG(name));
	else if (then == k || json_get(json_get(parent->object, then->name), BYTES("then")) != NULL)
		fields_fail(&f, "then", ERR_INVALID,
		            "%.*s must be another lock kind, without a `then` of its own", BYTES_ARG(name));
	k->then = then;
}

static void kinds_read(struct reader *r, struct fields *f)
{
	const struct json *kinds = fields_object(f, "locks", LOCK_KIND_MAX);
	struct fields      at;

	if (kinds == NULL)
		return;
	fields_enter(&at, f, BYTES("locks"), kinds);
	r->rules->kinds = arena_zalloc(r->arena, kinds->count * sizeof(struct lock_kind));
	for (const struct json *m = fields_first(f, kinds); m != NULL; m = fields_next(f, m))
		kind_read(r, &at, m);
	for (const struct json *m = fields_first(f, kinds); m != NULL; m = fields_next(f, m))
		then_read(r, &at, m);
}

/* ---- rules ---- */

static const struct lock_kind *lock_read(struct reader *r, struct fields *f, const char *setting,
                                         struct bytes otherwise)
{
	struct bytes            name = fields_text_or(f, setting, RULE_NAME_MAX, otherwise);
	const struct lock_kind *kind = rules_kind(r->rules, name);

	if (kind == NULL)
		fields_fail(f, setting, ERR_INVALID, "unknown lock kind %.*s; define it under `locks`",
		            BYTES_ARG(name));
	return kind;
}

/* The lane of known devices: unless set, all of them together get so many times the budget of one. */
enum { LANES_FACTOR = 3 };

static void lane_read(struct reader *r, struct rule *rule, struct fields *f)
{
	const struct json *lane = fields_object(f, "known_device", FIELDS_MEMBERS_MAX);
	struct fields      device;

	if (lane == NULL)
		return;
	fields_enter(&device, f, BYTES("known_device"), lane);
	rule->max_device = fields_i64(&device, "max", 1, RULE_MAX_MAX);
	rule->max_lanes = fields_i64_or(&device, "max_all", 1, RULE_MAX_MAX, LANES_FACTOR * rule->max_device);
	rule->known_s = fields_i64_or(&device, "remember", 1, RULE_SECONDS_MAX, 90 * 86400);
	rule->devices = (uint32_t)fields_i64_or(&device, "devices", 1, KNOWN_DEVICES_MAX, 10);
	rule->known_after = refs_read(r, &device, "after", rule->journey);
	if (fields_has(&device, "after") && rule->known_after.count == 0)
		fields_fail(&device, "after", ERR_INVALID,
		            "must name at least one type; leave it out for the default");
	fields_end(&device);
}

static const char *const without_names[] = {"refuse", "skip", NULL};

/* Whatever the subject. */
static bool counts_sources(const struct rule *rule)
{
	return rule->max_source > 0 || rule->max_network > 0;
}

/* What is different of counts by source. One cannot count an attempt without a source: it is refused, or taken
 * uncounted. */
static void source_read(struct reader *r, struct rule *rule, struct fields *f)
{
	static const char *const settings[] = {"without_source", "source_life", "source_lock", NULL};

	rule->skips_source = fields_choice(f, "without_source", without_names, r->without_source) == 1;
	rule->source_life_s = fields_i64_or(f, "source_life", 1, RULE_SECONDS_MAX, r->source_life_s);
	for (int i = 0; settings[i] != NULL; i++)
		if (fields_has(f, settings[i]) && !counts_sources(rule) && rule->max_pair == 0)
			fields_fail(
			        f, settings[i], ERR_INVALID,
			        "only valid together with max_from_source, max_of_source or max_of_network");
}

static void maxima_read(struct reader *r, struct rule *rule, struct fields *f)
{
	rule->max = fields_i64_or(f, "max", 1, RULE_MAX_MAX, 0);
	rule->max_each = fields_i64_or(f, "max_each", 1, RULE_MAX_MAX, 0);
	rule->max_pair = fields_i64_or(f, "max_from_source", 1, RULE_MAX_MAX, 0);
	rule->max_source = fields_i64_or(f, "max_of_source", 1, RULE_MAX_MAX, 0);
	rule->max_network = fields_i64_or(f, "max_of_network", 1, RULE_MAX_MAX, 0);
	source_read(r, rule, f);
	lane_read(r, rule, f);
	if (rule->max == 0 && rule->max_each == 0 && rule->max_pair == 0 && !counts_sources(rule))
		fields_fail(f, "max", ERR_INVALID,
		            "missing: set max, max_each, max_from_source, max_of_source or max_of_network");
}

/* Sources lock where subjects do; and where a kind of lock is named for them, whatever becomes of subjects. */
static void source_ends_read(struct reader *r, struct rule *rule, struct fields *f)
{
	bool named = fields_has(f, "source_lock") || r->source_lock.len > 0;

	rule->source_sets = refs_one(r, rule->journey, BYTES(LOCK_OF_SOURCE));
	rule->source_lock = rule->lock;
	if (named && (counts_sources(rule) || rule->max_pair > 0))
		rule->source_lock = lock_read(r, f, "source_lock", r->source_lock);
	rule->locks_sources = counts_sources(rule) && (rule->at_max == AT_MAX_LOCK || named);
}

static void rule_read_ends(struct reader *r, struct rule *rule, struct fields *f)
{
	static const char *const ends[] = {"lock", "sign_out", "reset", "challenge", NULL};
	bool                     locks;

	rule->at_max = (enum rule_end)fields_choice(f, "at_max", ends, AT_MAX_LOCK);
	rule->lock_at = fields_i64_or(f, "lock_at", 1, RULE_MAX_MAX, 0);
	if (fields_has(f, "lock_at") && rule->at_max != AT_MAX_CHALLENGE)
		fields_fail(f, "lock_at", ERR_INVALID, "only valid with `at_max: challenge`");
	else if (fields_has(f, "lock_at") && (rule->max == 0 || rule->lock_at <= rule->max))
		fields_fail(f, "lock_at", ERR_INVALID, "must be greater than `max`, which must be set");
	locks = rule->at_max == AT_MAX_LOCK || rule->lock_at > 0;
	rule->sets = refs_read(r, f, "sets", rule->journey);
	rule->blocked_by = refs_read(r, f, "blocked_by", rule->journey);
	rule->clears = refs_read(r, f, "clears", rule->journey);
	if (locks) {
		rule->lock = lock_read(r, f, "lock", BYTES("STANDARD"));
		if (rule->sets.count == 0)
			rule->sets = refs_one(r, rule->journey, rule->type);
	} else if (fields_has(f, "lock") || rule->sets.count > 0) {
		fields_fail(f, fields_has(f, "lock") ? "lock" : "sets", ERR_INVALID,
		            "only valid if the rule locks: `at_max: lock`, or `challenge` with `lock_at`");
	}
	source_ends_read(r, rule, f);
	if (!fields_has(f, "clears"))
		rule->clears = refs_one(r, rule->journey, rule->type);
}

/* ---- risk ---- */

enum { RISK_STEPS = 2 }; /* a verdict each */

static void risk_step_read(struct rule *rule, const struct fields *parent, struct bytes place,
                           const struct json *member)
{
	static const char *const verdicts[] = {"challenge", "blocked", NULL};
	int64_t                 *from;
	struct fields            f;

	fields_enter(&f, parent, place, member);
	from = fields_choice(&f, "verdict", verdicts, 0) == 1 ? &rule->blocked_from : &rule->challenge_from;
	if (*from > 0)
		fields_fail(&f, "verdict", ERR_INVALID, "given twice; each verdict may have one `from`");
	*from = fields_i64(&f, "from", 1, RISK_MAX);
	fields_end(&f);
}

/* `at_risk`: one step, or a list of them. */
static void risk_read(struct reader *r, struct rule *rule, struct fields *f)
{
	const struct json *member = fields_get(f, "at_risk");
	uint32_t           at = 0;

	if (member == NULL)
		return;
	if (member->type != JSON_ARRAY) {
		fields_object(f, "at_risk", FIELDS_MEMBERS_MAX);
		risk_step_read(rule, f, BYTES("at_risk"), member);
		return;
	}
	if (member->count < 1 || member->count > RISK_STEPS)
		fields_fail(f, "at_risk", ERR_INVALID, "must have 1 or %d entries, one for each verdict",
		            RISK_STEPS);
	for (const struct json *m = fields_first(f, member); m != NULL; m = fields_next(f, m))
		risk_step_read(rule, f, arena_printf(r->arena, "at_risk[%u]", at++), m);
	if (rule->blocked_from > 0 && rule->blocked_from <= rule->challenge_from)
		fields_fail(f, "at_risk", ERR_INVALID,
		            "`from` of `blocked` must be above that of `challenge`, which would never be "
		            "answered");
}

/* "MFA_CODE_ENTRY", or "MFA_CODE_ENTRY/AUTH_APP" for one method type. */
static void rule_name_read(struct reader *r, struct rule *rule, struct fields *f, struct bytes name)
{
	const char *slash = memchr(name.data, '/', name.len);

	rule->type = arena_copy(
	        r->arena, slash == NULL ? name : (struct bytes){name.data, (size_t)(slash - name.data)});
	if (slash != NULL)
		rule->method = arena_copy(r->arena, (struct bytes){slash + 1, name.len - rule->type.len - 1});
	if (!rule_name_is(rule->type) || (slash != NULL && !rule_name_is(rule->method)))
		fields_fail(f, NULL, ERR_INVALID,
		            "the name of a type must be like PASSWORD_ENTRY or MFA_CODE_ENTRY/SMS: capital "
		            "letters, digits and underscores");
}

/* Under these the program keeps something else than a rule's counts. */
static bool classifier_type_taken(struct bytes name)
{
	static const char *const taken[] = {
	        KEY_LOCK,         KEY_SHADOW_LOCK, KEY_LOCK_LEVEL, KEY_SOURCE_COUNT, KEY_SOURCE_LOCK,
	        KEY_DEVICE_COUNT, KEY_DEVICE_LOCK, KEY_STATE,      KEY_COOKIE,       KEY_APPLIED,
	        KEY_RESET,        KEY_ISSUED,      KEY_SEEN};

	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		if (bytes_is(name, taken[i]))
			return true;
	return false;
}

static const char *const failure_names[] = {"open", "closed", NULL};

static void rule_read(struct reader *r, const struct fields *parent, struct bytes journey,
                      const struct json *member)
{
	static const char *const counts[] = {"failure", "sent", NULL};
	static const char *const qualifiers[] = {"none", "method", "notification", NULL};
	struct rule             *rule = &r->rules->list[r->rules->count++];
	struct fields            f;

	fields_enter(&f, parent, member->name, member);
	rule->journey = journey;
	rule_name_read(r, rule, &f, member->name);
	rule->counts = (enum rule_counts)fields_choice(&f, "counts", counts, COUNT_FAILURE);
	rule->qualifier = (enum rule_qualifier)fields_choice(&f, "qualifier", qualifiers, QUALIFY_NONE);
	rule->classifier_type =
	        fields_text_or(&f, "classifier_type", RULE_NAME_MAX,
	                       rule->counts == COUNT_SENT ? BYTES("REQUEST_COUNT") : BYTES("ERROR_COUNT"));
	rule->classifier_type = arena_copy(r->arena, rule->classifier_type);
	if (!rule_name_is(rule->classifier_type))
		fields_fail(&f, "classifier_type", ERR_INVALID,
		            "must be a name of capital letters, digits and underscores, a letter first");
	if (classifier_type_taken(rule->classifier_type))
		fields_fail(&f, "classifier_type", ERR_INVALID,
		            "reserved for rows of Gatehouse's own; choose another name");
	maxima_read(r, rule, &f);
	rule->life_s = fields_i64(&f, "life", 1, RULE_SECONDS_MAX);
	rule->lapse_s = fields_i64_or(&f, "lapse", 1, LAPSE_MAX_S, 30);
	rule->renewed = fields_bool_or(&f, "renewed", false);
	rule->shadow = fields_bool_or(&f, "shadow", false);
	rule->fails_closed = fields_choice(&f, "on_failure", failure_names, r->rules->fails_closed) == 1;
	risk_read(r, rule, &f);
	rule->notifications = names_read(r, &f, "notification_types", &rule->notification_count);
	rule_read_ends(r, rule, &f);
	fields_end(&f);
}

/* ---- journeys ---- */

/* What blocks a whole journey blocks each of its types. */
static void blocked_by_add(struct reader *r, struct rule *rule, const struct rule_refs *more)
{
	struct rule_refs all = {.count = rule->blocked_by.count + more->count};

	if (more->count == 0)
		return;
	all.list = arena_array(r->arena, all.count, sizeof(*all.list));
	if (rule->blocked_by.count > 0)
		memcpy(all.list, rule->blocked_by.list, rule->blocked_by.count * sizeof(*all.list));
	memcpy(all.list + rule->blocked_by.count, more->list, more->count * sizeof(*all.list));
	rule->blocked_by = all;
}

static void journey_read(struct reader *r, const struct fields *parent, const struct json *member)
{
	struct journey    *j = &r->rules->journeys[r->rules->journey_count++];
	const struct json *types;
	struct rule_refs   blocked_by;
	uint32_t           first;
	struct fields      f, at;

	fields_enter(&f, parent, member->name, member);
	j->name = name_of(r, &f, member, "journey");
	j->locks = names_read(r, &f, "locks", &j->lock_count);
	blocked_by = refs_read(r, &f, "blocked_by", j->name);
	first = r->rules->count;
	types = fields_object(&f, "types", RULE_COUNT_MAX);
	if (types != NULL && r->rules->count + types->count > RULE_COUNT_MAX) {
		fields_fail(&f, "types", ERR_INVALID, "must have at most %d types over all journeys",
		            RULE_COUNT_MAX);
		return;
	}
	if (types != NULL) {
		fields_enter(&at, &f, BYTES("types"), types);
		for (const struct json *m = fields_first(&at, types); m != NULL; m = fields_next(&at, m))
			rule_read(r, &at, j->name, m);
	}
	for (uint32_t i = first; i < r->rules->count; i++)
		blocked_by_add(r, &r->rules->list[i], &blocked_by);
	fields_end(&f);
}

static void journeys_read(struct reader *r, struct fields *f)
{
	const struct json *journeys = fields_object(f, "journeys", JOURNEY_MAX);
	struct fields      at;

	if (journeys == NULL) {
		fields_fail(f, "journeys", ERR_INVALID, "missing");
		return;
	}
	fields_enter(&at, f, BYTES("journeys"), journeys);
	r->rules->journeys = arena_zalloc(r->arena, journeys->count * sizeof(struct journey));
	r->rules->list = arena_zalloc(r->arena, RULE_COUNT_MAX * sizeof(struct rule));
	for (const struct json *m = fields_first(f, journeys); m != NULL; m = fields_next(f, m))
		journey_read(r, &at, m);
}

/* ---- resets, sources ---- */

/* `ends_demand`: reset_password or reprove_identity; true is short for the first. */
static void demand_read(struct reset *reset, struct fields *f)
{
	static const char *const names[] = {"reset_password", "reprove_identity", NULL};
	const struct json       *member = fields_get(f, "ends_demand");

	reset->demand = INTERVENTION_RESET;
	if (member == NULL)
		return;
	if (member->type == JSON_BOOL) {
		reset->ends_demand = fields_bool_or(f, "ends_demand", false);
		return;
	}
	reset->ends_demand = true;
	if (fields_choice(f, "ends_demand", names, 0) == 1)
		reset->demand = INTERVENTION_REPROVE;
}

static void resets_read(struct reader *r, struct fields *f)
{
	static const char *const devices[] = {"forget", "keep", NULL};
	const struct json       *resets = fields_object(f, "resets", RESET_MAX);
	struct fields            at, one;

	if (resets == NULL)
		return;
	fields_enter(&at, f, BYTES("resets"), resets);
	r->rules->resets = arena_zalloc(r->arena, resets->count * sizeof(struct reset));
	for (const struct json *m = fields_first(f, resets); m != NULL; m = fields_next(f, m)) {
		struct reset *reset = &r->rules->resets[r->rules->reset_count++];

		fields_enter(&one, &at, m->name, m);
		reset->name = name_of(r, &one, m, "reset");
		reset->counts = refs_read(r, &one, "counts", (struct bytes){NULL, 0});
		reset->locks = refs_read(r, &one, "locks", (struct bytes){NULL, 0});
		demand_read(reset, &one);
		reset->keeps_devices = fields_choice(&one, "devices", devices, 0) == 1;
		fields_end(&one);
	}
}

/* ---- consecutive failures ---- */

enum { CONSECUTIVE_LIFE_S = 365 * 86400 };

static void consecutive_read(struct reader *r, struct fields *f)
{
	const struct json  *member = fields_object(f, "consecutive", FIELDS_MEMBERS_MAX);
	struct consecutive *c = &r->rules->consecutive;
	struct fields       in;

	if (member == NULL)
		return;
	fields_enter(&in, f, BYTES("consecutive"), member);
	c->max = fields_i64(&in, "max", 1, RULE_MAX_MAX);
	c->life_s = fields_i64_or(&in, "life", 1, RULE_SECONDS_MAX, CONSECUTIVE_LIFE_S);
	c->lock = lock_read(r, &in, "lock", BYTES("PERMANENT"));
	if (!ref_read(r, fields_text(&in, "sets", 2 * RULE_NAME_MAX + 1), (struct bytes){NULL, 0}, &c->sets))
		fields_fail(&in, "sets", ERR_INVALID, "must be the name of a lock, like JOURNEY/NAME");
	c->of = refs_read(r, &in, "of", (struct bytes){NULL, 0});
	c->ended_by = refs_read(r, &in, "ended_by", (struct bytes){NULL, 0});
	if (c->of.count == 0)
		fields_fail(&in, "of", ERR_INVALID, "must name at least one type, like JOURNEY/TYPE");
	fields_end(&in);
}

static struct network *networks_read(struct reader *r, struct fields *f, const char *name, uint32_t *count)
{
	const struct json *array = fields_array(f, name, SOURCE_RANGES_MAX);
	struct network    *list;

	if (array == NULL)
		return NULL;
	list = arena_array(r->arena, array->count, sizeof(*list));
	for (const struct json *m = fields_first(f, array); m != NULL; m = fields_next(f, m))
		if (network_parse(json_text(m), &list[*count]))
			(*count)++;
		else
			fields_fail(f, name, ERR_INVALID,
			            "must be a list of IP addresses or networks like 10.0.0.0/8");
	return list;
}

/* ---- all of it ---- */

static void sources_read(struct reader *r, struct fields *f)
{
	const struct json *sources = fields_object(f, "sources", FIELDS_MEMBERS_MAX);
	struct fields      in;

	if (sources == NULL)
		return;
	fields_enter(&in, f, BYTES("sources"), sources);
	r->source_life_s = fields_i64_or(&in, "life", 1, RULE_SECONDS_MAX, 0);
	r->without_source = fields_choice(&in, "without", without_names, 0);
	if (fields_has(&in, "lock")) {
		const struct lock_kind *kind = lock_read(r, &in, "lock", (struct bytes){NULL, 0});

		r->source_lock = kind == NULL ? r->source_lock : kind->name;
	}
	fields_end(&in);
}

enum err_code rules_parse(const struct json *tree, struct document **out, struct err *err)
{
	struct rules *rules = document_make(sizeof(*rules));
	struct reader r = {.rules = rules, .arena = &rules->base.arena};
	struct fields f;

	fields_init(&f, tree, err);
	rules->fails_closed = fields_choice(&f, "on_failure", failure_names, 1) == 1;
	kinds_read(&r, &f);
	sources_read(&r, &f);
	journeys_read(&r, &f);
	consecutive_read(&r, &f);
	resets_read(&r, &f);
	rules->allowed = networks_read(&r, &f, "allow_sources", &rules->allowed_count);
	rules->denied = networks_read(&r, &f, "deny_sources", &rules->denied_count);
	if (fields_end(&f) == ERR_NONE)
		rules_link(rules, &f);
	if (fields_failed(&f)) {
		document_release(&rules->base);
		return err->code;
	}
	*out = &rules->base;
	return ERR_NONE;
}
