/* /v1/authz: limits and tokens as a yes or no for proxies: nginx's auth_request, Envoy's HTTP authorization. Any method, any
 * path behind it, any body: 200, or 429 (403 where a proxy takes no other) of limits, 401, 403 or 503 of tokens.
 *
 * What is asked comes from headers that the proxy sets:
 *
 *   X-Gatehouse-Policy       which limits: "login-ip", or several, all or nothing:
 *                            "login-ip;from=x-real-ip;kind=ip, api-client;from=x-client-id;cost=2"
 *   X-Gatehouse-Key          of whom; or
 *   X-Gatehouse-Key-From     the name of the header that says of whom
 *   X-Gatehouse-Key-Kind     ip, email, phone or device: hashed before it is kept
 *   X-Gatehouse-Cost         1 unless set
 *   X-Gatehouse-Deny-Status  429 unless set; 403
 *   X-Gatehouse-Token        "required": the client's own Authorization header holds a token that is good; or with parameters:
 *                            "required;from=x-client-authorization;audience=orders-api"
 *
 * Limits or a token, or both; a limit is not taken if the token is refused. Or, if both are absent and the path is /v1/authz
 * itself, from a query: policy, key, kind, cost, deny, token. Never from both: behind a proxy that passes the client's own path and query on, the client could choose them. For the same reason
 * none of these headers may be there twice: one of the two would be the client's. */
#include <stdio.h>
#include <strings.h>

#include "api/v1_limits.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_tokens.h"
#include "api/v1_write.h"

#define PATH "/v1/authz"

enum { HEADER_NAME_MAX = 63 }; /* of one that a key comes from */

struct ext_authz_call {
	struct limit_call *
	        call; /* asks nothing: no limits are wanted. It outlives a run: what was taken in memory stays taken */
	int             deny_status;
	bool            wants_token;
	struct v1_token token;  /* not given: the client sent none */
	struct attempt  nobody; /* whom it is about, until the token is judged */
};

/* A setting, wherever it comes from. */
struct setting {
	const char *header, *query;
};

static const struct setting policy_setting = {"x-gatehouse-policy", "policy"},
                            key_setting = {"x-gatehouse-key", "key"},
                            from_setting = {"x-gatehouse-key-from", NULL},
                            kind_setting = {"x-gatehouse-key-kind", "kind"},
                            cost_setting = {"x-gatehouse-cost", "cost"},
                            deny_setting = {"x-gatehouse-deny-status", "deny"},
                            token_setting = {"x-gatehouse-token", "token"};

struct settings {
	struct v1_call *call;
	bool            by_query;
	struct err     *err;
};

/* One limit of X-Gatehouse-Policy. What it does not say is empty, and comes from the other headers. */
struct asked {
	struct bytes name, from, kind, cost;
};

static enum err_code wrong(struct settings *s, const struct setting *what, const char *text)
{
	const char *name = s->by_query ? what->query : what->header;

	return err_field(s->err, ERR_INVALID, name, "%s: %s", name, text);
}

/* ---- headers ---- */

/* The value of a header, or empty. ERR_SERIALIZATION if it is there twice. */
static enum err_code header_once(struct settings *s, struct bytes name, struct bytes *out)
{
	const struct http_request *r = s->call->call.http;

	*out = (struct bytes){NULL, 0};
	for (unsigned i = 0; i < r->header_count; i++) {
		const struct http_header *h = &r->headers[i];

		if (h->name.len != name.len || strncasecmp(h->name.data, name.data, name.len) != 0)
			continue;
		if (out->data != NULL)
			return err_field(s->err, ERR_SERIALIZATION,
			                 arena_printf(s->call->ctx.arena, "%.*s", BYTES_ARG(name)).data,
			                 "%.*s: this header was sent twice; the proxy must replace what the "
			                 "client sends",
			                 BYTES_ARG(name));
		*out = h->value;
	}
	return ERR_NONE;
}

/* Empty if it is not given. */
static enum err_code get(struct settings *s, const struct setting *what, struct bytes *out)
{
	enum err_code rc = ERR_NONE;

	*out = (struct bytes){NULL, 0};
	if (!s->by_query)
		rc = header_once(s, bytes_of(what->header), out);
	else if (what->query != NULL)
		rc = v1_query(s->call, what->query, out, s->err);
	if (rc == ERR_NONE && out->len > 0 && !bytes_is_utf8(*out))
		rc = wrong(s, what, "must be UTF-8");
	return rc;
}

/* A key is kept in rows and shown by GET /v1/limits/top. */
static bool holds_a_secret(struct bytes header)
{
	static const char *const names[] = {"authorization",        "proxy-authorization", "cookie",
	                                    "set-cookie",           "x-api-key",           "api-key",
	                                    "x-auth-token",         "x-access-token",      "x-csrf-token",
	                                    "x-amz-security-token", "x-xsrf-token"};
	static const char        ours[] = "x-gatehouse-";

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (header.len == strlen(names[i]) && strncasecmp(header.data, names[i], header.len) == 0)
			return true;
	return header.len >= strlen(ours) && strncasecmp(header.data, ours, strlen(ours)) == 0;
}

static enum err_code key_from(struct settings *s, const struct setting *what, struct bytes header,
                              struct bytes *out)
{
	*out = (struct bytes){NULL, 0};
	if (holds_a_secret(header))
		return wrong(
		        s, what,
		        "names a header that holds a secret or a setting, which would be stored and shown "
		        "as a key; name one that holds an address or an id");
	if (header.len <= HEADER_NAME_MAX && header_once(s, header, out) != ERR_NONE)
		return s->err->code;
	if (out->len == 0 || !bytes_is_utf8(*out))
		return wrong(s, what,
		             "the header it names is missing, empty, longer than allowed or not UTF-8");
	return ERR_NONE;
}

/* ---- X-Gatehouse-Policy ---- */

/* Takes what stands before the separator off the text, without the spaces around it. */
static struct bytes split(struct bytes *rest, char separator)
{
	const char  *at = rest->len == 0 ? NULL : memchr(rest->data, separator, rest->len);
	size_t       len = at == NULL ? rest->len : (size_t)(at - rest->data);
	struct bytes part = {rest->data, len};

	*rest = at == NULL ? (struct bytes){NULL, 0} : (struct bytes){at + 1, rest->len - len - 1};
	return bytes_trimmed(part);
}

static enum err_code asked_read(struct settings *s, struct bytes text, struct asked *out)
{
	*out = (struct asked){.name = split(&text, ';')};
	while (text.data != NULL) {
		struct bytes value = split(&text, ';'), name = split(&value, '=');

		value = bytes_trimmed(value);
		if (bytes_is(name, "from") && out->from.len == 0 && !s->by_query)
			out->from = value;
		else if (bytes_is(name, "kind") && out->kind.len == 0)
			out->kind = value;
		else if (bytes_is(name, "cost") && out->cost.len == 0)
			out->cost = value;
		else
			return wrong(s, &policy_setting,
			             "unknown or repeated parameter; a policy takes from, kind and cost, "
			             "each at most once");
		if (value.len == 0)
			return wrong(s, &policy_setting, "a parameter needs a value, like from=x-real-ip");
	}
	return ERR_NONE;
}

/* ---- keys and costs ---- */

static bool hash_key(struct settings *s, struct bytes kind, struct limit_key *key)
{
	static const char *const kinds[] = {
#define X(id, name) [id] = name,
	        IDENTIFIER_KINDS(X)
#undef X
	};

	for (int i = 0; i < IDENTIFIER_KIND_COUNT; i++)
		if (bytes_is(kind, kinds[i])) {
			key->is_address = i == IDENTIFIER_IP && identifier_ip_parse(key->text, key->address);
			key->hashed = true;
			return identifier_hash(&s->call->ctx.services->identifiers, s->call->ctx.arena,
			                       (enum identifier_kind)i, key->text, &key->text);
		}
	return false;
}

/* The key that the settings beside X-Gatehouse-Policy say, and its kind unless that is said. */
static enum err_code key_of_settings(struct settings *s, struct bytes *text, struct bytes *kind)
{
	struct bytes from;

	if (get(s, &key_setting, text) != ERR_NONE || get(s, &from_setting, &from) != ERR_NONE)
		return s->err->code;
	if (text->len > 0 && from.len > 0)
		return wrong(s, &from_setting, "must not be sent together with x-gatehouse-key");
	if (from.len > 0 && key_from(s, &from_setting, from, text) != ERR_NONE)
		return s->err->code;
	return kind->len == 0 ? get(s, &kind_setting, kind) : ERR_NONE;
}

/* An item that says where its key is from says its kind, too. */
static enum err_code read_key(struct settings *s, const struct asked *item, struct limit_key *key)
{
	struct bytes  text, kind = item->kind;
	enum err_code rc = item->from.len > 0 ? key_from(s, &policy_setting, item->from, &text)
	                                      : key_of_settings(s, &text, &kind);

	if (rc != ERR_NONE)
		return rc;
	if (text.len < 1 || text.len > LIMIT_KEY_MAX)
		return wrong(s, &key_setting, "must have 1 to 256 bytes");
	*key = limit_key_plain(text);
	if (kind.len > 0 && !hash_key(s, kind, key))
		return wrong(s, &kind_setting,
		             "must be ip, email, phone or device, and the key must be valid as one");
	return ERR_NONE;
}

static enum err_code read_cost(struct settings *s, const struct asked *item, uint64_t *cost)
{
	struct bytes text = item->cost;

	*cost = 1;
	if (text.len == 0 && get(s, &cost_setting, &text) != ERR_NONE)
		return s->err->code;
	if (text.len > 0 && !bytes_to_u64(text, LIMIT_UNITS_MAX, cost))
		return wrong(s, item->cost.len > 0 ? &policy_setting : &cost_setting,
		             "the cost must be a whole number from 0 to 1000000000");
	return ERR_NONE;
}

static enum err_code read_item(struct settings *s, const struct limit_policies *set, struct bytes text,
                               struct limit_call *out)
{
	const struct limit_policy *policy;
	struct asked               item;
	struct limit_key           key;
	uint64_t                   cost;

	if (asked_read(s, text, &item) != ERR_NONE)
		return s->err->code;
	policy = limit_policies_find(set, item.name);
	if (policy == NULL)
		return wrong(s, &policy_setting, "unknown policy; GET /v1/policies/limits shows them all");
	if (read_key(s, &item, &key) != ERR_NONE || read_cost(s, &item, &cost) != ERR_NONE)
		return s->err->code;
	if (out->count == LIMIT_ASKS_MAX)
		return wrong(s, &policy_setting, "must name at most 16 policies");
	if (!limit_call_has_room(out, policy))
		return wrong(s, &policy_setting, "must name at most 4 policies with `shards`");
	if (!limit_call_add(out, s->call->ctx.arena, policy, &key, cost))
		return wrong(s, &policy_setting, "names the same policy twice for the same key");
	return ERR_NONE;
}

static enum err_code read_items(struct settings *s, struct limit_call *out)
{
	const struct limit_policies *set = limit_call_policies(s->call);
	struct bytes                 rest;

	if (get(s, &policy_setting, &rest) != ERR_NONE)
		return s->err->code;
	do {
		if (read_item(s, set, split(&rest, ','), out) != ERR_NONE)
			return s->err->code;
	} while (rest.data != NULL);
	return ERR_NONE;
}

/* ---- X-Gatehouse-Token ---- */

struct token_wish {
	struct bytes from, audience;
};

/* One header says it all: a client that could add a second one would choose where its token is looked for, and the application
 * behind the proxy would look elsewhere. */
static enum err_code wish_read(struct settings *s, struct bytes text, struct token_wish *out)
{
	struct bytes word = split(&text, ';');

	*out = (struct token_wish){0};
	if (!bytes_is(word, "required"))
		return wrong(s, &token_setting,
		             "must be required, with parameters after a semicolon if need be");
	while (text.data != NULL) {
		struct bytes value = split(&text, ';'), name = split(&value, '=');

		value = bytes_trimmed(value);
		if (bytes_is(name, "from") && out->from.len == 0)
			out->from = value;
		else if (bytes_is(name, "audience") && out->audience.len == 0)
			out->audience = value;
		else
			return wrong(s, &token_setting,
			             "unknown or repeated parameter; it takes from and audience, each at "
			             "most once");
		if (value.len == 0 || value.len > TOKEN_TEXT_BYTES_MAX)
			return wrong(s, &token_setting,
			             "a parameter needs a value, like from=x-client-authorization");
	}
	return ERR_NONE;
}

/* "Bearer TOKEN", as clients write it (RFC 6750); empty: another scheme. */
static struct bytes bearer(struct bytes header)
{
	static const char scheme[] = "bearer ";
	size_t            len = strlen(scheme);

	header = bytes_trimmed(header);
	if (header.len <= len || strncasecmp(header.data, scheme, len) != 0)
		return (struct bytes){NULL, 0};
	return bytes_trimmed((struct bytes){header.data + len, header.len - len});
}

/* The application behind the proxy believes X-Gatehouse-Subject. If the answer had none, it might believe the client's own. */
static bool fits_a_header(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] <= ' ' || text.data[i] > '~')
			return false;
	return true;
}

static enum err_code read_token(struct settings *s, struct ext_authz_call *a)
{
	struct bytes      text, header;
	struct token_wish wish;

	if (get(s, &token_setting, &text) != ERR_NONE)
		return s->err->code;
	a->wants_token = text.data != NULL;
	if (!a->wants_token)
		return ERR_NONE;
	if (wish_read(s, text, &wish) != ERR_NONE ||
	    header_once(s, wish.from.len > 0 ? wish.from : BYTES("authorization"), &header) != ERR_NONE)
		return s->err->code;
	header = bearer(header);
	if (header.len > 0)
		v1_token_read(s->call, header, wish.audience, &a->token);
	if (a->token.given && a->token.outcome == TOKEN_VALID && !fits_a_header(a->token.jwt.subject))
		a->token.outcome = TOKEN_SUBJECT;
	a->token.rules = v1_rules(s->call);
	return ERR_NONE;
}

/* Is there nothing to ask the tables about it any more? */
static bool token_fails(const struct ext_authz_call *a)
{
	return a->wants_token && (!a->token.given || a->token.outcome != TOKEN_VALID);
}

static enum err_code read_deny(struct settings *s, int *status)
{
	struct bytes deny;

	if (get(s, &deny_setting, &deny) != ERR_NONE)
		return s->err->code;
	*status = bytes_is(deny, "403") ? 403 : 429;
	if (deny.len > 0 && !bytes_is(deny, "403") && !bytes_is(deny, "429"))
		return wrong(s, &deny_setting, "must be 403 or 429");
	return ERR_NONE;
}

/* A client that could add a header would turn the query off, and with it the token that it asks for. */
static enum err_code check_mixed(struct settings *s)
{
	struct bytes token;

	if (s->by_query)
		return v1_query_check(s->call, "policy key kind cost deny token", s->err);
	if (!bytes_is(s->call->call.http->path, PATH))
		return ERR_NONE;
	if (v1_query(s->call, token_setting.query, &token, s->err) != ERR_NONE)
		return s->err->code;
	return token.data == NULL ? ERR_NONE
	                          : err_field(s->err, ERR_SERIALIZATION, "token",
	                                      "?token: must not be sent together with the headers "
	                                      "x-gatehouse-policy or x-gatehouse-token");
}

static bool has(struct settings *s, const struct setting *what)
{
	return http_header_get(s->call->call.http, what->header).data != NULL;
}

static struct settings settings_of(struct v1_call *c, struct err *err)
{
	struct settings s = {.call = c, .err = err};

	s.by_query =
	        !has(&s, &policy_setting) && !has(&s, &token_setting) && bytes_is(c->call.http->path, PATH);
	return s;
}

enum err_code ext_authz_name(struct v1_call *c, struct err *err)
{
	struct settings s = settings_of(c, err);
	struct bytes    rest, item;

	if (get(&s, &policy_setting, &rest) != ERR_NONE)
		return err->code;
	while (rest.data != NULL) {
		item = split(&rest, ',');
		v1_resource(c, "limit", split(&item, ';'));
	}
	return ERR_NONE;
}

enum err_code ext_authz_decode(struct v1_call *c, struct err *err)
{
	struct ext_authz_call *a = v1_request(c, sizeof(*a));
	struct settings        s = settings_of(c, err);
	struct bytes           policy;

	a->call = arena_zalloc(c->ctx.arena, sizeof(*a->call));
	if (check_mixed(&s) != ERR_NONE || read_token(&s, a) != ERR_NONE ||
	    get(&s, &policy_setting, &policy) != ERR_NONE)
		return err->code;
	if (policy.len == 0 && !a->wants_token)
		return err_field(
		        err, ERR_INVALID, "policy",
		        "policy: missing; send the headers x-gatehouse-policy or x-gatehouse-token, or "
		        "?policy or ?token");
	if (policy.data != NULL && read_items(&s, a->call) != ERR_NONE)
		return err->code;
	if (read_deny(&s, &a->deny_status) != ERR_NONE)
		return err->code;
	if (a->call->count == 0 || token_fails(a) ||
	    !limits_needs_turn(c->ctx.services->limits, a->call, c->ctx.now_us))
		c->call.kind = READ;
	if (a->wants_token) /* limits have a policy of their own for tables that do not answer */
		c->who = &a->nobody;
	c->call.turn.subject = limits_line(a->call);
	c->call.tableless = token_fails(a) || (!a->wants_token && !limits_needs_table(a->call));
	return ERR_NONE;
}

/* The token first: if it is refused, no limit is taken. */
enum err_code ext_authz_run(struct v1_call *c, struct err *err)
{
	struct ext_authz_call *a = c->request;

	a->call->allowed = true;
	if (token_fails(a) && !a->token.given)
		return ERR_NONE;
	if (a->wants_token && v1_token_judge(c, &a->token, NULL, err) != ERR_NONE)
		return err->code;
	if (a->wants_token && v1_token_settle(c, &a->token, err) != ERR_NONE)
		return err->code;
	if (a->call->count == 0)
		return ERR_NONE;
	if (a->wants_token && a->token.is.verdict.kind != VERDICT_ALLOW) {
		limits_undo(c->ctx.services->limits, a->call, c->ctx.now_us);
		return ERR_NONE;
	}
	return limits_run(&c->ctx, a->call, err);
}

void ext_authz_committed(struct v1_call *c)
{
	struct ext_authz_call *a = c->request;

	if (a->call->count > 0)
		limits_written(&c->ctx, a->call);
}

/* Limits may let pass what could not be counted; a token that could not be judged never passes. */
enum err_code ext_authz_refused(struct v1_call *c, enum err_code rc, struct err *err)
{
	struct ext_authz_call *a = c->request;

	if (a->wants_token && !a->token.judged)
		return rc;
	if (a->call->count == 0)
		return rc;
	return limits_failed(c->ctx.services->limits, a->call, c->ctx.now_us, rc, err);
}

/* 401 and 403 are what proxies take for a no. The application behind one may want to know who it was. */
static void token_status(struct v1_call *c, const struct ext_authz_call *a)
{
	const struct v1_token *t = &a->token;

	v1_token_count(c, t);
	if (!t->given || t->is.verdict.kind == VERDICT_INVALID_TOKEN)
		v1_token_challenge(c, t);
	else if (t->is.verdict.kind != VERDICT_ALLOW)
		c->status = 403;
	else {
		v1_header(c, BYTES("X-Gatehouse-Subject"), t->jwt.subject);
		v1_header(c, BYTES("X-Gatehouse-Issuer"), t->jwt.issuer);
	}
}

static bool token_passes(const struct ext_authz_call *a)
{
	return !a->wants_token || (a->token.given && a->token.is.verdict.kind == VERDICT_ALLOW);
}

static void write_token(struct json_writer *w, const struct v1_token *t, int64_t now_us)
{
	json_name(w, BYTES("token"));
	json_begin_object(w);
	v1_token_write(w, t);
	if (t->given)
		v1_write_verdict_wait(w, &t->is.verdict, &t->is.wait, now_us);
	json_end_object(w);
}

void ext_authz_encode(struct v1_call *c, struct json_writer *w)
{
	struct ext_authz_call *a = c->request;
	bool                   limits = a->call->count > 0 && token_passes(a);

	if (a->wants_token) {
		token_status(c, a);
		v1_token_degraded(c);
	}
	if (limits && !a->call->allowed)
		c->status = a->deny_status;
	if (limits)
		limit_call_headers(c, a->call, c->ctx.now_us);
	json_begin_object(w);
	if (limits)
		limit_call_write(w, a->call, c->ctx.now_us);
	else
		json_member_bool(w, BYTES("allowed"), token_passes(a));
	if (a->wants_token)
		write_token(w, &a->token, c->ctx.now_us);
	if (!limits) /* they say it themselves */
		v1_write_degraded(c, w);
	json_end_object(w);
}
