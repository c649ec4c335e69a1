/* V1 fuzz: requests under /v1 through matching and decoding, and policies through reading, as YAML and as JSON.
 *
 * The first byte chooses what the rest is: a request (a byte for the method, the target up to a line's end, the body),
 * or policies. Its lowest bit chooses how the rest is written: as it is, or with every byte from 96 on standing for a
 * word of the API, which is how mutation comes to requests that are nearly right.
 *
 * Nothing may crash; a refusal is a problem that reads as JSON and names a status; what is accepted of policies refers
 * only to what exists, and is the same after a trip through JSON. */
#include <stdio.h>
#include <stdlib.h>

#include "api/api.h"
#include "json/yaml.h"
#include "v1_steps.h"
#include "v1_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORDS_FROM = 96 }; /* lower case is in the words */

static const char *const words[] = {
        /* targets */
        "/v1/attempts\n", "/v1/attempts/begin\n", "/v1/attempts/finish\n", "/v1/check\n",
        "/v1/subjects/lookup\n", "/v1/subjects/alice", "/v1/subjects/", "/sum?prefix=", "/explain",
        "/v1/policies/attempts\n", "?include=counts,locks", "?enforce=status\n", "%23", "%", "/locks/",
        "/states/intervention", "/reset\n",
        /* members and values of requests */
        "{\"subject\":\"alice\",\"journey\":\"SIGN_IN\",\"type\":\"PASSWORD_ENTRY\",\"outcome\":\"failure\"",
        "{\"attempt\":\"SIGN_IN.PASSWORD_ENTRY.", "\"subject\":", "\"subjects\":[",
        "\"journey\":", "\"type\":", "\"outcome\":", "\"method_id\":", "\"method_type\":",
        "\"notification_type\":", "\"context\":{",
        "\"ip\":", "\"device_token\":", "\"remember_device\":false", "\"actions\":[",
        "\"email\":", "\"phone\":", "\"sent\"", "\"success\"", "\"SMS\"", "\"MFA_SMS\"", "\"MFA_CODE_ENTRY\"",
        "\"MFA_CODE_REQUEST\"", "\"bob@example.org\"", "\"::1\"", "\"10.0.0.0/8\"", "\"\\u0000\"", "null",
        "},", "}", "],", "]", "{", ":", ",",
        /* of locks, states, limits */
        "/v1/subjects/alice/locks/SIGN_IN/PASSWORD_ENTRY\n", "/v1/locks?limit=1&cursor=", "/v1/unlock\n",
        "/v1/subjects/alice/known-devices", "/v1/subjects/alice/states/intervention\n",
        "/v1/subjects/alice/states/email_fraud\n", "\"reset\":", "/v1/allow\n", "/v1/refund\n",
        "/v1/authz?policy=login-ip&key=", "/v1/authz?policy=", "login-ip;cost=2,", ";kind=ip", "sms-number",
        ";from=", "\"policy\":\"login-ip\"", "\"key\":", "\"cost\":", "\"all\":[", "\"kind\":\"STANDARD\"",
        "\"dry_run\":true", "\"state\":",
        /* policies */
        "locks: {STANDARD: {duration: 900}}\njourneys:\n  SIGN_IN:\n    types:\n      ",
        "PASSWORD_ENTRY: {max: 6, life: 60", "MFA/SMS: {", "locks:\n", "journeys:\n", "journeys: {}\n",
        "resets:\n", "allow_sources: [", "duration: ", "permanent: true", "factor: 2", "cap: ", "forget: ",
        "max: ", "max_each: ", "max_from_source: ", "max_of_source: ", "known_device: {max: 1",
        "remember: ", "max_all: ", "devices: ", "life: ", "renewed: true", "at_max: sign_out",
        "at_max: reset", "lock: ", "sets: [", "blocked_by: [", "clears: [", "SIGN_IN/PASSWORD_ENTRY",
        "MFA/SMS", "qualifier: method", "counts: sent", "shadow: true", "notification_types: [",
        "classifier_type: ", "STANDARD", "    ", "  ", "\n", "types: {",
        "{\"journeys\":{\"A\":{\"types\":{\"B\":{\"max\":1,\"life\":1}}}},\"locks\":{\"STANDARD\":{"
        "\"duration\":1}}}",
        "\"limits\":[{\"policy\":\"login-ip\",\"key\":\"k\"", "after: [",
        /* limits */
        "limits: {p: {limit: 1, per: day, ", "keys: {a: unlimited, ", "10.0.0.0/8: {limit: 2}", "allow: [",
        "deny: [", "block: ", "2001:db8::/64"};

enum { WORD_COUNT = sizeof(words) / sizeof(words[0]) };

/* ---- policies ---- */

static void refs_hold(const struct rules *r, const struct rule_refs *refs, bool locks)
{
	uint32_t count;

	for (uint32_t i = 0; i < refs->count; i++)
		require(locks ? rules_has_lock(r, refs->list[i].journey, refs->list[i].name)
		              : rules_of_type(r, refs->list[i].journey, refs->list[i].name, &count) != NULL,
		        "it refers to what is not there");
}

static void rules_hold(const struct rules *r)
{
	for (uint32_t i = 0; i < r->count; i++) {
		const struct rule *rule = &r->list[i];

		require(rules_find(r, rule->journey, rule->type, rule->method) == rule,
		        "a rule is not found");
		require((rule->at_max == AT_MAX_LOCK) == (rule->lock != NULL), "a lock without a kind");
		require(rule->life_s >= 1 && rule->life_s <= RULE_SECONDS_MAX, "a life out of its bounds");
		refs_hold(r, &rule->sets, true);
		refs_hold(r, &rule->blocked_by, true);
		refs_hold(r, &rule->clears, false);
		refs_hold(r, &rule->known_after, false);
	}
	for (uint32_t i = 0; i < r->reset_count; i++) {
		refs_hold(r, &r->resets[i].counts, false);
		refs_hold(r, &r->resets[i].locks, true);
	}
	rules_allowed_bits(r, (const uint8_t[16]){[10] = 0xff, [11] = 0xff, [12] = 10});
}

static void reads_again(struct world *w, struct arena *a, const struct json *tree, const struct rules *before)
{
	struct json_writer writer;
	struct buf         out;
	struct json       *json;
	struct document   *again;
	struct err         err = {.code = ERR_NONE};

	buf_init(&out, a);
	json_writer_init(&writer, &out);
	json_tree(&writer, tree);
	require(json_read(w->json, a, buf_bytes(&out), &json, &err) == ERR_NONE, "it does not read as JSON");
	require(rules_parse(json, &again, &err) == ERR_NONE, "it is refused as JSON");
	require(((struct rules *)again)->count == before->count, "other rules came back");
	document_release(again);
}

static void fuzz_limits(struct arena *a, struct bytes text)
{
	struct err       err = {.code = ERR_NONE};
	struct document *d;
	struct json     *tree;
	enum err_code    rc = yaml_read(a, text, &tree, &err);

	if (rc == ERR_NONE)
		rc = limit_policies_parse(tree, &d, &err);
	if (rc == ERR_NONE)
		document_release(d);
	else
		require(rc == err.code && err.text[0] != '\0', "a refusal without a text");
}

static void fuzz_policies(struct world *w, struct arena *a, struct bytes text, bool yaml)
{
	struct err       err = {.code = ERR_NONE};
	struct document *d;
	struct json     *tree;
	enum err_code rc = yaml ? yaml_read(a, text, &tree, &err) : json_read(w->json, a, text, &tree, &err);

	if (rc == ERR_NONE)
		rc = rules_parse(tree, &d, &err);
	if (rc != ERR_NONE) {
		require(rc == err.code && err.text[0] != '\0', "a refusal without a text");
		return;
	}
	rules_hold((struct rules *)d);
	reads_again(w, a, tree, (struct rules *)d);
	document_release(d);
}

/* ---- requests ---- */

static void problem_reads(struct world *w, struct arena *a, enum err_code rc, const struct err *err)
{
	struct buf         out;
	struct json       *json;
	const struct json *status;
	struct err         inner;

	require(rc == err->code && err->text[0] != '\0', "a refusal without a text");
	buf_init(&out, a);
	problem_write_err(&out, rc, err);
	require(json_read(w->json, a, buf_bytes(&out), &json, &inner) == ERR_NONE, "the problem is not JSON");
	status = json_get(json, BYTES("status"));
	require(status != NULL && json_integer(status) >= 400 && json_integer(status) < 500,
	        "a status that blames us");
}

static void fuzz_request(struct world *w, struct bytes text)
{
	static const enum http_method methods[] = {HTTP_POST, HTTP_GET, HTTP_PUT, HTTP_DELETE};
	struct http_request           r = {.method = methods[text.len > 0 ? (uint8_t)text.data[0] % 4 : 0]};
	struct bytes    rest = text.len > 0 ? (struct bytes){text.data + 1, text.len - 1} : text;
	const char     *end = rest.len > 0 ? memchr(rest.data, '\n', rest.len) : NULL, *question;
	struct v1_match match;
	struct err      err = {.code = ERR_NONE};

	arena_init(&r.arena);
	r.target = end == NULL ? rest : (struct bytes){rest.data, (size_t)(end - rest.data)};
	r.body = end == NULL ? (struct bytes){NULL, 0} : (struct bytes){end + 1, rest.len - r.target.len - 1};
	question = r.target.len > 0 ? memchr(r.target.data, '?', r.target.len) : NULL;
	r.path = question == NULL ? r.target
	                          : (struct bytes){r.target.data, (size_t)(question - r.target.data)};
	if (question != NULL)
		r.query = (struct bytes){question + 1, r.target.len - r.path.len - 1};
	if (v1_match(&r, &match) == V1_MATCHED) {
		struct v1_call c = {
		        .ctx = {.services = &w->services, .arena = &r.arena, .caller = BYTES("-")},
		        .route = match.route,
		        .call = {.http = &r}};
		enum err_code rc;

		memcpy(c.params, match.params, sizeof(c.params));
		rc = v1_steps(&c.call, w->json, &err);
		if (rc != ERR_NONE)
			problem_reads(w, &r.arena, rc, &err);
		v1_protocol.release(&c.call);
	}
	arena_release(&r.arena);
}

/* ---- both ---- */

static struct bytes expanded(struct arena *a, const uint8_t *data, size_t size)
{
	struct buf out;

	buf_init(&out, a);
	for (size_t i = 0; i < size; i++) {
		const char *word = words[(data[i] - (unsigned)WORDS_FROM) % WORD_COUNT];

		if (data[i] < WORDS_FROM)
			buf_add(&out, (const char *)data + i, 1);
		else
			buf_add(&out, word, strlen(word));
	}
	return buf_bytes(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world *w; /* kept, as a loop thread keeps its own */
	struct arena         a;
	struct bytes         text;

	if (w == NULL)
		w = world_open();
	if (size == 0)
		return 0;
	arena_init(&a);
	text = data[0] & 1 ? expanded(&a, data + 1, size - 1)
	                   : (struct bytes){(const char *)data + 1, size - 1};
	switch (data[0] / 2 % 4) {
	case 0:
		fuzz_request(w, text);
		break;
	case 1:
		fuzz_policies(w, &a, text, true);
		break;
	case 2:
		fuzz_policies(w, &a, text, false);
		break;
	default:
		fuzz_limits(&a, text);
	}
	arena_release(&a);
	return 0;
}
