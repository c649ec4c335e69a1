/* /v1/authz: a limit as a yes or no for proxies: nginx's auth_request, Envoy's HTTP authorization. Any method, any path
 * behind it, any body: 200 or 429 (403 where a proxy takes no other).
 *
 * What is asked comes from headers that the proxy sets:
 *
 *   X-Gatehouse-Policy       which limit
 *   X-Gatehouse-Key          of whom; or
 *   X-Gatehouse-Key-From     the name of the header that says of whom
 *   X-Gatehouse-Key-Kind     ip, email, phone or device: hashed before it is kept
 *   X-Gatehouse-Cost         1 unless said
 *   X-Gatehouse-Deny-Status  429 unless said; 403
 *
 * or, if the first is absent and the path is /v1/authz itself, from a query: policy, key, kind, cost, deny. Never from
 * both: behind a proxy that passes the client's own path and query on, the client could choose them. */
#include <stdio.h>

#include "api/limit_call.h"
#include "api/v1_routes.h"

#define PATH "/v1/authz"

struct authz_call {
	struct limit_call call;
	int               deny_status;
	int64_t           now_us;
};

/* A setting, wherever it comes from. */
struct setting {
	const char *header, *query;
};

static const struct setting policy_setting = {"x-gatehouse-policy", "policy"},
                            key_setting = {"x-gatehouse-key", "key"},
                            kind_setting = {"x-gatehouse-key-kind", "kind"},
                            cost_setting = {"x-gatehouse-cost", "cost"},
                            deny_setting = {"x-gatehouse-deny-status", "deny"};

struct settings {
	struct v1_call *call;
	bool            by_query;
	struct err     *err;
};

/* Empty if it is not given. */
static struct bytes get(struct settings *s, const struct setting *what)
{
	struct bytes text = s->by_query ? v1_query(s->call, what->query, s->err)
	                                : http_header_get(s->call->http, what->header);

	if (text.len > 0 && !bytes_is_utf8(text))
		err_field(s->err, ERR_INVALID, s->by_query ? what->query : what->header, "is not UTF-8");
	return text;
}

static enum err_code wrong(struct settings *s, const struct setting *what, const char *text)
{
	const char *name = s->by_query ? what->query : what->header;

	return s->err->code != ERR_NONE ? s->err->code
	                                : err_field(s->err, ERR_INVALID, name, "%s: %s", name, text);
}

/* The key itself, or what the header that is named says. */
static struct bytes get_key(struct settings *s)
{
	struct bytes text = get(s, &key_setting), from;
	char         name[64];

	if (s->by_query || text.len > 0)
		return text;
	from = http_header_get(s->call->http, "x-gatehouse-key-from");
	if (from.len == 0 || from.len >= sizeof(name))
		return (struct bytes){NULL, 0};
	snprintf(name, sizeof(name), "%.*s", BYTES_ARG(from));
	text = http_header_get(s->call->http, name);
	return bytes_is_utf8(text) ? text : (struct bytes){NULL, 0};
}

static bool hash_key(struct settings *s, struct bytes kind, struct bytes *key)
{
	static const char *const kinds[] = {
#define X(id, name) [id] = name,
	        IDENTIFIER_KINDS(X)
#undef X
	};

	for (int i = 0; i < IDENTIFIER_KIND_COUNT; i++)
		if (bytes_is(kind, kinds[i]))
			return identifier_hash(&s->call->services->identifiers, s->call->arena,
			                       (enum identifier_kind)i, *key, key);
	return false;
}

static enum err_code read_key(struct settings *s, struct bytes *key)
{
	struct bytes kind = get(s, &kind_setting);

	*key = get_key(s);
	if (key->len < 1 || key->len > LIMIT_KEY_MAX)
		return wrong(s, &key_setting, "is missing, or longer than 256 bytes");
	if (kind.len > 0 && !hash_key(s, kind, key))
		return wrong(s, &kind_setting,
		             "must be ip, email, phone or device, and the key one of that kind");
	return s->err->code;
}

static enum err_code read_numbers(struct settings *s, struct authz_call *a, uint64_t *cost)
{
	struct bytes cost_text = get(s, &cost_setting), deny = get(s, &deny_setting);

	*cost = 1;
	a->deny_status = bytes_is(deny, "403") ? 403 : 429;
	if (cost_text.len > 0 && !bytes_to_u64(cost_text, LIMIT_UNITS_MAX, cost))
		return wrong(s, &cost_setting, "must be a whole number");
	if (deny.len > 0 && !bytes_is(deny, "403") && !bytes_is(deny, "429"))
		return wrong(s, &deny_setting, "must be 403 or 429");
	return s->err->code;
}

enum err_code authz_decode(struct v1_call *c, struct err *err)
{
	struct authz_call         *a = arena_zalloc(c->arena, sizeof(*a));
	struct settings            s = {.call = c, .err = err};
	const struct limit_policy *policy;
	struct bytes               key;
	uint64_t                   cost;

	c->request = a;
	err->code = ERR_NONE;
	s.by_query =
	        http_header_get(c->http, policy_setting.header).data == NULL && bytes_is(c->http->path, PATH);
	if (s.by_query && v1_query_check(c, "policy key kind cost deny", err) != ERR_NONE)
		return err->code;
	policy = limit_policies_find(limit_call_policies(c), get(&s, &policy_setting));
	if (policy == NULL)
		return wrong(&s, &policy_setting, "there is no such policy");
	v1_resource(c, "limit", policy->name);
	if (read_key(&s, &key) != ERR_NONE || read_numbers(&s, a, &cost) != ERR_NONE)
		return err->code;
	limit_call_add(&a->call, c->arena, policy, key, cost);
	if (!limits_needs_turn(c->services->limits, &a->call, c->now_us))
		c->kind = READ;
	c->tableless = !limits_needs_table(&a->call);
	return ERR_NONE;
}

enum err_code authz_run(struct v1_call *c, struct table *t, struct err *err)
{
	struct authz_call *a = c->request;

	a->now_us = t->now_us;
	return limits_run(c->services->limits, &a->call, t, &c->changes, err);
}

enum err_code authz_refused(struct v1_call *c, enum err_code rc, struct err *err)
{
	struct authz_call *a = c->request;

	if (a->now_us == 0) /* it never ran */
		a->now_us = c->now_us;
	return limits_failed(c->services->limits, &a->call, a->now_us, rc, err);
}

void authz_encode(struct v1_call *c, struct json_writer *w)
{
	struct authz_call *a = c->request;

	if (!a->call.allowed)
		c->status = a->deny_status;
	limit_call_headers(c, &a->call, a->now_us);
	json_begin_object(w);
	limit_call_write(w, &a->call, a->now_us);
	json_end_object(w);
}
