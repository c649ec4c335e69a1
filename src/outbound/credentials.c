/* Credentials: see credentials.h. */
#define _GNU_SOURCE
#include "outbound/credentials.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/date.h"
#include "base/log.h"
#include "dynamo/sigv4.h"
#include "json/json.h"
#include "outbound/outbound.h"
#include "outbound/setup.h"

static const char *const source_names[] = {"environment", "role",      "web identity",
                                           "profile",     "container", "instance"};

struct aws_credentials {
	/* set once */
	struct clock    *clock;
	struct arena     arena; /* of the setup */
	struct aws_setup setup;
	/* shared under lock */
	pthread_mutex_t       lock;
	pthread_cond_t        changed;
	bool                  fetching;
	struct arena          present_arena; /* of the credential in force */
	struct aws_credential present;       /* key_id is empty until the first fetch */
	struct err            failure;       /* of the last fetch; ERR_NONE: it brought some */
	int64_t               again_us;      /* steady: not fetched before (4) */
};

/* What a fetch needs. */
struct fetch {
	struct aws_credentials *c;
	struct arena           *arena;
	int64_t                 deadline_us;
	struct aws_credential  *out;
};

/* ---- asking somebody ---- */

static enum err_code ask(const struct fetch *f, const struct outbound_request *r,
                         struct outbound_response *answer, struct err *err)
{
	const struct aws_setup *s = &f->c->setup;
	bool                    sts = s->source == SOURCE_ROLE || s->source == SOURCE_WEB_IDENTITY;
	struct outbound_options options = {.name = source_names[s->source],
	                                   .url = s->endpoint,
	                                   .ca_file = s->network.ca_file,
	                                   .proxy = sts ? s->network.proxy : NULL,
	                                   .no_proxy = s->network.no_proxy,
	                                   .allow_private = true,
	                                   .calls_max = 1,
	                                   .connect_us = 2000000,
	                                   .attempt_us = 2000000,
	                                   .body_bytes_max = 64 * 1024,
	                                   .circuit = {100, 1000000, 1000000},
	                                   .clock = f->c->clock};
	struct outbound        *o;
	enum err_code           rc;

	rc = outbound_open(&options, &o, err);
	if (rc != ERR_NONE)
		return rc;
	rc = outbound_call(o, r, f->arena, answer, err);
	outbound_close(o);
	if (rc == ERR_NONE && answer->status / 100 != 2)
		return err_set(err, ERR_OVERLOADED, "AWS credentials: the %s endpoint answered %d",
		               source_names[s->source], answer->status);
	return rc;
}

/* A token that is in a file is read each time: whoever rotates it replaces the file. */
static enum err_code token_read(const struct fetch *f, const char *path, struct bytes *out, struct err *err)
{
	if (profile_file_read(path, f->arena, out, err) != ERR_NONE)
		return err->code;
	while (out->len > 0 && (out->data[out->len - 1] == '\n' || out->data[out->len - 1] == '\r'))
		out->len--;
	if (out->len == 0 || out->len > CREDENTIALS_TOKEN_BYTES_MAX)
		return err_set(err, ERR_INVALID, "%s: a token must have 1 to %d bytes", path,
		               CREDENTIALS_TOKEN_BYTES_MAX);
	return ERR_NONE;
}

/* Whole seconds: the part of one that is left does not count. */
static bool time_read(struct bytes text, int64_t *seconds)
{
	int64_t micros;

	if (!date_read_rfc3339(text, &micros))
		return false;
	*seconds = micros / 1000000;
	return true;
}

static enum err_code answer_use(const struct fetch *f, struct bytes expires, struct err *err)
{
	if (f->out->key_id.len == 0 || f->out->secret.len == 0 || expires.len == 0)
		return err_set(err, ERR_OVERLOADED,
		               "AWS credentials: the %s endpoint's answer has no key, secret or expiry",
		               source_names[f->c->setup.source]);
	if (!time_read(expires, &f->out->expires_s))
		return err_set(err, ERR_OVERLOADED,
		               "AWS credentials: the Expiration in the %s endpoint's answer is not a time in "
		               "RFC 3339's form",
		               source_names[f->c->setup.source]);
	return ERR_NONE;
}

static struct bytes member(const struct json *object, const char *name)
{
	const struct json *m = json_get(object, bytes_of(name));

	return m != NULL && m->type == JSON_STRING ? json_text(m) : (struct bytes){"", 0};
}

static enum err_code answer_json(const struct fetch *f, struct bytes body, struct err *err)
{
	struct json_reader *reader = json_reader_open();
	struct json        *tree;
	enum err_code       rc = json_read(reader, f->arena, body, &tree, err);

	json_reader_close(reader);
	if (rc != ERR_NONE)
		return err_set(err, ERR_OVERLOADED, "AWS credentials: the %s endpoint's answer is not JSON",
		               source_names[f->c->setup.source]);
	*f->out = (struct aws_credential){member(tree, "AccessKeyId"), member(tree, "SecretAccessKey"),
	                                  member(tree, "Token"), 0};
	return answer_use(f, member(tree, "Expiration"), err);
}

/* The text of the first element of that name. The answer is AWS's own and has no attributes there. */
static struct bytes element(struct bytes xml, const char *open, const char *close)
{
	const char *at = memmem(xml.data, xml.len, open, strlen(open)), *end;

	if (at == NULL)
		return (struct bytes){"", 0};
	at += strlen(open);
	end = memmem(at, (size_t)(xml.data + xml.len - at), close, strlen(close));
	return end == NULL ? (struct bytes){"", 0} : (struct bytes){at, (size_t)(end - at)};
}

static void form_add(struct buf *out, const char *name, struct bytes value)
{
	if (out->len > 0)
		buf_add_byte(out, '&');
	buf_add_bytes(out, bytes_of(name));
	buf_add_byte(out, '=');
	for (size_t i = 0; i < value.len; i++)
		buf_add_percent(out, value.data[i]);
}

/* What AssumeRole and AssumeRoleWithWebIdentity have in common. */
static void role_form(const struct fetch *f, struct buf *body, struct bytes action)
{
	buf_init(body, f->arena);
	form_add(body, "Action", action);
	form_add(body, "Version", BYTES("2011-06-15"));
	form_add(body, "RoleArn", bytes_of(f->c->setup.role_arn));
	form_add(body, "RoleSessionName", bytes_of(f->c->setup.session_name));
}

static enum err_code role_ask(const struct fetch *f, struct outbound_request *r, struct buf *body,
                              struct err *err)
{
	struct outbound_response answer;

	r->method = BYTES("POST");
	r->path = BYTES("/");
	r->body = buf_bytes(body);
	r->repeatable = true;
	r->deadline_us = f->deadline_us;
	outbound_header_add(r, BYTES("Content-Type"), BYTES("application/x-www-form-urlencoded"));
	if (ask(f, r, &answer, err) != ERR_NONE)
		return err->code;
	*f->out = (struct aws_credential){element(answer.body, "<AccessKeyId>", "</AccessKeyId>"),
	                                  element(answer.body, "<SecretAccessKey>", "</SecretAccessKey>"),
	                                  element(answer.body, "<SessionToken>", "</SessionToken>"), 0};
	return answer_use(f, element(answer.body, "<Expiration>", "</Expiration>"), err);
}

static enum err_code web_identity_fetch(const struct fetch *f, struct err *err)
{
	struct outbound_request r = {0};
	struct bytes            token;
	struct buf              body;

	if (token_read(f, f->c->setup.identity_file, &token, err) != ERR_NONE)
		return err->code;
	role_form(f, &body, BYTES("AssumeRoleWithWebIdentity"));
	form_add(&body, "WebIdentityToken", token);
	return role_ask(f, &r, &body, err);
}

/* Each try is signed anew, with the keys of the source profile. */
static enum err_code role_sign(void *ctx, struct outbound_request *r, uint32_t tried, struct arena *arena,
                               struct err *err)
{
	const struct fetch     *f = ctx;
	const struct aws_setup *s = &f->c->setup;
	const char             *host = strstr(s->endpoint, "://");
	struct sigv4_header     headers[OUTBOUND_HEADERS_MAX];
	struct sigv4_credential with = {.key_id = s->assumer.key_id,
	                                .secret = s->assumer.secret,
	                                .token = s->assumer.token,
	                                .region = bytes_of(s->region == NULL ? "us-east-1" : s->region)};
	struct sigv4_addition   added;

	(void)tried;
	outbound_header_add(r, BYTES("Host"), bytes_of(host == NULL ? s->endpoint : host + 3));
	for (uint32_t i = 0; i < r->header_count; i++)
		headers[i] = (struct sigv4_header){r->headers[i].name, r->headers[i].value};
	if (sigv4_sign(&(struct sigv4_request){.method = r->method,
	                                       .path = r->path,
	                                       .headers = headers,
	                                       .header_count = r->header_count,
	                                       .body = r->body,
	                                       .service = BYTES("sts"),
	                                       .now_us = clock_wall_us(f->c->clock)},
	               &with, arena, &added, err) != ERR_NONE)
		return err->code;
	for (unsigned i = 0; i < added.count; i++)
		outbound_header_add(r, added.headers[i].name, added.headers[i].value);
	return ERR_NONE;
}

static enum err_code role_fetch(struct fetch *f, struct err *err)
{
	struct outbound_request r = {.prepare = role_sign, .ctx = f};
	struct buf              body;

	role_form(f, &body, BYTES("AssumeRole"));
	if (f->c->setup.external_id != NULL)
		form_add(&body, "ExternalId", bytes_of(f->c->setup.external_id));
	if (f->c->setup.duration_s != NULL)
		form_add(&body, "DurationSeconds", bytes_of(f->c->setup.duration_s));
	return role_ask(f, &r, &body, err);
}

static enum err_code container_fetch(const struct fetch *f, struct err *err)
{
	struct outbound_request  r = {.method = BYTES("GET"),
	                              .path = bytes_of(f->c->setup.path),
	                              .repeatable = true,
	                              .deadline_us = f->deadline_us};
	struct outbound_response answer;
	struct bytes             token = {NULL, 0};

	if (f->c->setup.token_file != NULL && token_read(f, f->c->setup.token_file, &token, err) != ERR_NONE)
		return err->code;
	if (token.data == NULL && f->c->setup.token != NULL)
		token = bytes_of(f->c->setup.token);
	if (token.data != NULL)
		outbound_header_add(&r, BYTES("Authorization"), token);
	if (ask(f, &r, &answer, err) != ERR_NONE)
		return err->code;
	return answer_json(f, answer.body, err);
}

static enum err_code instance_get(const struct fetch *f, struct bytes session, struct bytes path,
                                  struct bytes *body, struct err *err)
{
	struct outbound_request r = {
	        .method = BYTES("GET"), .path = path, .repeatable = true, .deadline_us = f->deadline_us};
	struct outbound_response answer;
	enum err_code            rc;

	outbound_header_add(&r, BYTES("X-aws-ec2-metadata-token"), session);
	rc = ask(f, &r, &answer, err);
	if (rc != ERR_NONE)
		return rc;
	*body = answer.body;
	return ERR_NONE;
}

#define INSTANCE_PATH "/latest/meta-data/iam/security-credentials/"

/* Version 2 only: a session first, then the role's name, then its keys. */
static enum err_code instance_fetch(const struct fetch *f, struct err *err)
{
	struct outbound_request  r = {.method = BYTES("PUT"),
	                              .path = BYTES("/latest/api/token"),
	                              .repeatable = true,
	                              .deadline_us = f->deadline_us};
	struct outbound_response session;
	struct bytes             role, keys;
	const char              *end;

	outbound_header_add(&r, BYTES("X-aws-ec2-metadata-token-ttl-seconds"), BYTES("21600"));
	if (ask(f, &r, &session, err) != ERR_NONE ||
	    instance_get(f, session.body, BYTES(INSTANCE_PATH), &role, err) != ERR_NONE)
		return err->code;
	end = role.len == 0 ? NULL : memchr(role.data, '\n', role.len);
	role.len = end == NULL ? role.len : (size_t)(end - role.data);
	if (instance_get(f, session.body, arena_printf(f->arena, INSTANCE_PATH "%.*s", BYTES_ARG(role)),
	                 &keys, err) != ERR_NONE)
		return err->code;
	return answer_json(f, keys, err);
}

static enum err_code fetch(struct fetch *f, struct err *err)
{
	switch (f->c->setup.source) {
	case SOURCE_ROLE:
		return role_fetch(f, err);
	case SOURCE_WEB_IDENTITY:
		return web_identity_fetch(f, err);
	case SOURCE_CONTAINER:
		return container_fetch(f, err);
	case SOURCE_INSTANCE:
		return instance_fetch(f, err);
	case SOURCE_ENVIRONMENT:
	case SOURCE_PROFILE:
		break;
	}
	*f->out = f->c->present;
	return ERR_NONE;
}

/* ---- handing out ---- */

static void credential_copy(struct aws_credential *to, const struct aws_credential *from, struct arena *a)
{
	*to = (struct aws_credential){arena_copy(a, from->key_id), arena_copy(a, from->secret),
	                              arena_copy(a, from->token), from->expires_s};
}

/* How many seconds the present one is good for still; INT64_MAX: for good. Under lock. */
static int64_t left_s(const struct aws_credentials *c)
{
	if (c->present.key_id.len == 0)
		return 0;
	return c->present.expires_s == 0 ? INT64_MAX
	                                 : c->present.expires_s - clock_wall_us(c->clock) / 1000000;
}

/* (4) Under lock. */
static int64_t pause_s(const struct aws_credentials *c)
{
	int64_t quarter = left_s(c) / 4;

	return quarter < CREDENTIALS_PAUSE_S_MIN   ? CREDENTIALS_PAUSE_S_MIN
	       : quarter > CREDENTIALS_PAUSE_S_MAX ? CREDENTIALS_PAUSE_S_MAX
	                                           : quarter;
}

/* Under lock, but for the fetch itself. What was fetched is used even if it has ended by our clock, which may be wrong. */
static void refresh(struct aws_credentials *c)
{
	struct aws_credential fresh = {0};
	int64_t               most_s = left_s(c) > 0 ? CREDENTIALS_FETCH_EARLY_S : CREDENTIALS_FETCH_S;
	struct arena          a;
	struct err            err = {.code = ERR_NONE};

	c->fetching = true;
	pthread_mutex_unlock(&c->lock);
	arena_init(&a);
	fetch(&(struct fetch){c, &a, clock_steady_us(c->clock) + most_s * 1000000, &fresh}, &err);
	pthread_mutex_lock(&c->lock);
	c->failure = err;
	if (err.code == ERR_NONE) {
		arena_reset(&c->present_arena);
		credential_copy(&c->present, &fresh, &c->present_arena);
	} else if (left_s(c) > 0) {
		log_warn("the AWS credentials were not renewed: %s", err.text);
	}
	c->again_us = clock_steady_us(c->clock) + pause_s(c) * 1000000;
	arena_release(&a);
	c->fetching = false;
	pthread_cond_broadcast(&c->changed);
}

enum err_code aws_credentials_get(struct aws_credentials *c, struct arena *a, struct aws_credential *out,
                                  struct err *err)
{
	enum err_code rc = ERR_NONE;

	pthread_mutex_lock(&c->lock);
	while (c->fetching && left_s(c) <= 0)
		pthread_cond_wait(&c->changed, &c->lock);
	if (!c->fetching && left_s(c) <= CREDENTIALS_REFRESH_EARLY_S &&
	    clock_steady_us(c->clock) >= c->again_us)
		refresh(c);
	if (left_s(c) <= 0 && c->failure.code != ERR_NONE) {
		*err = c->failure;
		rc = err->code;
	} else {
		credential_copy(out, &c->present, a);
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* ---- life ---- */

enum err_code aws_credentials_open(const struct environment *env, struct clock *clock,
                                   struct aws_credentials **out, struct err *err)
{
	struct aws_credentials *c = mem_zalloc(sizeof(*c));

	c->clock = clock;
	arena_init(&c->arena);
	arena_init(&c->present_arena);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	if (aws_setup_read(&c->setup, env, &c->arena, err) != ERR_NONE) {
		aws_credentials_close(c);
		return err->code;
	}
	c->present = c->setup.fixed;
	*out = c;
	return ERR_NONE;
}

void aws_credentials_close(struct aws_credentials *c)
{
	arena_release(&c->arena);
	arena_release(&c->present_arena);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

const char *aws_credentials_region(const struct aws_credentials *c)
{
	return c->setup.region;
}

const char *aws_credentials_dynamodb(const struct aws_credentials *c)
{
	return c->setup.dynamodb;
}

const struct aws_network *aws_credentials_network(const struct aws_credentials *c)
{
	return &c->setup.network;
}

const char *aws_credentials_source(const struct aws_credentials *c)
{
	return source_names[c->setup.source];
}
