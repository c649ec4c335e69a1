/* Credentials: see credentials.h. */
#define _GNU_SOURCE
#include "outbound/credentials.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/buf.h"
#include "base/log.h"
#include "json/json.h"
#include "outbound/outbound.h"
#include "outbound/profile.h"

enum source { SOURCE_ENVIRONMENT, SOURCE_WEB_IDENTITY, SOURCE_PROFILE, SOURCE_CONTAINER, SOURCE_INSTANCE };

static const char *const source_names[] = {"environment", "web identity", "profile", "container", "instance"};

struct aws_credentials {
	/* set once */
	struct clock *clock;
	struct arena  arena; /* of all texts here */
	enum source   source;
	const char   *region;                                  /* NULL: none */
	const char   *role_arn, *session_name, *identity_file; /* WEB_IDENTITY */
	const char   *endpoint;           /* scheme, host, port of whoever is asked; "" if nobody is */
	const char   *path;               /* CONTAINER */
	const char   *token, *token_file; /* CONTAINER: its Authorization; NULL: none */
	/* shared under lock */
	pthread_mutex_t       lock;
	pthread_cond_t        changed;
	bool                  fetching;
	struct arena          present_arena; /* of the credential in force */
	struct aws_credential present;       /* key_id is empty until the first fetch */
	struct err            failure;       /* of the last fetch, until again_us */
	int64_t               again_us;      /* steady */
};

/* What a fetch needs. */
struct fetch {
	struct aws_credentials *c;
	struct arena           *arena;
	int64_t                 deadline_us;
	struct aws_credential  *out;
};

static const char *process_get(void *ctx, const char *name)
{
	(void)ctx;
	return getenv(name);
}

const struct environment environment_process = {process_get, NULL};

/* An empty variable is not set. */
static const char *env_get(const struct environment *env, const char *name)
{
	const char *value = env->get(env->ctx, name);

	return value == NULL || value[0] == '\0' ? NULL : value;
}

static bool env_is_true(const struct environment *env, const char *name)
{
	const char *value = env_get(env, name);

	return value != NULL && strcasecmp(value, "true") == 0;
}

static const char *text_keep(struct aws_credentials *c, struct bytes text)
{
	return text.data == NULL ? NULL : arena_printf(&c->arena, "%.*s", BYTES_ARG(text)).data;
}

static const char *text_copy(struct aws_credentials *c, const char *text)
{
	return text == NULL ? NULL : text_keep(c, bytes_of(text));
}

/* ---- what is set up ---- */

static enum err_code profile_read(struct aws_credentials *c, const struct environment *env, struct profile *p,
                                  struct err *err)
{
	const char  *home = env_get(env, "HOME"), *name = env_get(env, "AWS_PROFILE");
	const char  *paths[] = {env_get(env, "AWS_SHARED_CREDENTIALS_FILE"), env_get(env, "AWS_CONFIG_FILE")};
	const char  *usual[] = {"credentials", "config"};
	struct bytes text;

	*p = (struct profile){0};
	for (int i = 0; i < 2; i++) {
		if (paths[i] == NULL && home != NULL)
			paths[i] = arena_printf(&c->arena, "%s/.aws/%s", home, usual[i]).data;
		if (paths[i] == NULL)
			continue;
		if (profile_file_read(paths[i], &c->arena, &text, err) != ERR_NONE)
			return err->code;
		profile_add(p, text, bytes_of(name == NULL ? "default" : name), i == 1);
	}
	if (name != NULL && !p->found)
		return err_set(err, ERR_INVALID, "AWS_PROFILE: neither shared file has a profile \"%s\"",
		               name);
	return ERR_NONE;
}

/* Which identity is meant matters more than having one: what cannot be done is refused. */
static enum err_code profile_check(const struct profile *p, struct err *err)
{
	static const char *const unknown[] = {"credential_process", "sso_session", "sso_start_url",
	                                      "source_profile", "credential_source"};

	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
		if (profile_get(p, unknown[i]).data != NULL)
			return err_set(
			        err, ERR_INVALID,
			        "the AWS profile has \"%s\", which is not supported here: give it keys, or "
			        "role_arn with web_identity_token_file",
			        unknown[i]);
	return ERR_NONE;
}

static void credential_set(struct aws_credentials *c, const char *id, const char *secret, const char *token)
{
	c->present = (struct aws_credential){bytes_of(id), bytes_of(secret),
	                                     bytes_of(token == NULL ? "" : token), 0};
}

static enum err_code environment_use(struct aws_credentials *c, const struct environment *env, const char *id,
                                     struct err *err)
{
	const char *secret = env_get(env, "AWS_SECRET_ACCESS_KEY");

	if (secret == NULL)
		return err_set(err, ERR_INVALID,
		               "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
	c->source = SOURCE_ENVIRONMENT;
	credential_set(c, text_copy(c, id), text_copy(c, secret),
	               text_copy(c, env_get(env, "AWS_SESSION_TOKEN")));
	return ERR_NONE;
}

static enum err_code web_identity_use(struct aws_credentials *c, const struct environment *env,
                                      const struct profile *p, struct err *err)
{
	const char *session = env_get(env, "AWS_ROLE_SESSION_NAME"),
	           *endpoint = env_get(env, "AWS_ENDPOINT_URL_STS");

	c->source = SOURCE_WEB_IDENTITY;
	if (c->role_arn == NULL)
		c->role_arn = text_keep(c, profile_get(p, "role_arn"));
	if (c->role_arn == NULL)
		return err_set(err, ERR_INVALID,
		               "a web identity needs a role: AWS_ROLE_ARN, or role_arn in the profile");
	if (session == NULL)
		session = text_keep(c, profile_get(p, "role_session_name"));
	c->session_name = text_copy(c, session == NULL ? "gatehouse" : session);
	if (endpoint == NULL)
		endpoint = env_get(env, "AWS_ENDPOINT_URL");
	if (endpoint == NULL && c->region == NULL)
		return err_set(err, ERR_INVALID, "a web identity needs a region: set AWS_REGION");
	c->endpoint = endpoint != NULL
	                      ? text_copy(c, endpoint)
	                      : arena_printf(&c->arena, "https://sts.%s.amazonaws.com", c->region).data;
	return ERR_NONE;
}

/* (2) */
static bool is_plain_allowed(struct bytes host)
{
	static const char *const allowed[] = {"localhost",     "127.",           "[::1]",
	                                      "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};

	for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed); i++) {
		struct bytes prefix = bytes_of(allowed[i]);
		bool         whole =
		        host.len == prefix.len || (host.len > prefix.len && host.data[prefix.len] == ':');

		if (bytes_starts_with(host, prefix) && (whole || bytes_is(prefix, "127.")))
			return true;
	}
	return false;
}

static enum err_code container_use(struct aws_credentials *c, const struct environment *env,
                                   const char *relative, const char *full, struct err *err)
{
	struct bytes url = bytes_of(full == NULL ? "" : full), host;
	const char  *slash;

	c->source = SOURCE_CONTAINER;
	c->token = text_copy(c, env_get(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN"));
	c->token_file = text_copy(c, env_get(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"));
	if (relative != NULL) {
		c->endpoint = "http://169.254.170.2";
		c->path = text_copy(c, relative);
		return ERR_NONE;
	}
	slash = url.len > 8 ? memchr(url.data + 8, '/', url.len - 8) : NULL;
	c->path = text_copy(c, slash == NULL ? "/" : slash);
	c->endpoint =
	        text_keep(c, (struct bytes){url.data, slash == NULL ? url.len : (size_t)(slash - url.data)});
	host = (struct bytes){c->endpoint + 7, strlen(c->endpoint) > 7 ? strlen(c->endpoint) - 7 : 0};
	if (bytes_starts_with(url, BYTES("http://")) && !is_plain_allowed(host))
		return err_set(err, ERR_INVALID,
		               "AWS_CONTAINER_CREDENTIALS_FULL_URI: plain http is allowed only to loopback "
		               "and to AWS's container endpoints");
	return ERR_NONE;
}

static enum err_code instance_use(struct aws_credentials *c, const struct environment *env, struct err *err)
{
	const char *endpoint = env_get(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
	size_t      len;

	if (env_is_true(env, "AWS_EC2_METADATA_DISABLED"))
		return err_set(
		        err, ERR_INVALID,
		        "no AWS credentials are set up: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
		        "AWS_PROFILE");
	c->source = SOURCE_INSTANCE;
	c->endpoint = text_copy(c, endpoint == NULL ? "http://169.254.169.254" : endpoint);
	len = strlen(c->endpoint);
	if (len > 0 && c->endpoint[len - 1] == '/')
		c->endpoint = text_keep(c, (struct bytes){c->endpoint, len - 1});
	return ERR_NONE;
}

static enum err_code source_choose(struct aws_credentials *c, const struct environment *env, struct err *err)
{
	const char    *id = env_get(env, "AWS_ACCESS_KEY_ID");
	const char    *relative = env_get(env, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char    *full = env_get(env, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
	struct profile p;

	if (profile_read(c, env, &p, err) != ERR_NONE)
		return err->code;
	c->region = text_copy(c, env_get(env, "AWS_REGION"));
	if (c->region == NULL)
		c->region = text_copy(c, env_get(env, "AWS_DEFAULT_REGION"));
	if (c->region == NULL)
		c->region = text_keep(c, profile_get(&p, "region"));
	if (id != NULL)
		return environment_use(c, env, id, err);
	if (profile_check(&p, err) != ERR_NONE)
		return err->code;
	c->identity_file = text_copy(c, env_get(env, "AWS_WEB_IDENTITY_TOKEN_FILE"));
	c->role_arn = text_copy(c, env_get(env, "AWS_ROLE_ARN"));
	if (c->identity_file == NULL)
		c->identity_file = text_keep(c, profile_get(&p, "web_identity_token_file"));
	if (c->identity_file != NULL)
		return web_identity_use(c, env, &p, err);
	if (profile_get(&p, "aws_access_key_id").data != NULL) {
		if (profile_get(&p, "aws_secret_access_key").data == NULL)
			return err_set(err, ERR_INVALID,
			               "the AWS profile has aws_access_key_id, but no aws_secret_access_key");
		c->source = SOURCE_PROFILE;
		credential_set(c, text_keep(c, profile_get(&p, "aws_access_key_id")),
		               text_keep(c, profile_get(&p, "aws_secret_access_key")),
		               text_keep(c, profile_get(&p, "aws_session_token")));
		return ERR_NONE;
	}
	if (relative != NULL || full != NULL)
		return container_use(c, env, relative, full, err);
	return instance_use(c, env, err);
}

/* ---- asking somebody ---- */

static enum err_code ask(const struct fetch *f, const struct outbound_request *r,
                         struct outbound_response *answer, struct err *err)
{
	struct outbound_options options = {.name = source_names[f->c->source],
	                                   .url = f->c->endpoint,
	                                   .allow_private = true,
	                                   .calls_max = 1,
	                                   .connect_us = 2000000,
	                                   .attempt_us = 2000000,
	                                   .body_bytes_max = 64 * 1024,
	                                   .circuit = {100, 1000000, 1000000},
	                                   .clock = f->c->clock};
	struct outbound        *o;
	enum err_code           rc;

	if (outbound_open(&options, &o, err) != ERR_NONE)
		return err->code;
	rc = outbound_call(o, r, f->deadline_us, f->arena, answer, err);
	outbound_close(o);
	if (rc == ERR_NONE && answer->status / 100 != 2)
		return err_set(err, ERR_OVERLOADED, "AWS credentials: the %s endpoint answered %d",
		               source_names[f->c->source], answer->status);
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

static bool time_read(struct bytes text, int64_t *seconds)
{
	struct tm time = {0};
	char      copy[40];

	if (text.len >= sizeof(copy))
		return false;
	memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	if (strptime(copy, "%Y-%m-%dT%H:%M:%S", &time) == NULL)
		return false;
	*seconds = timegm(&time);
	return true;
}

static enum err_code answer_use(const struct fetch *f, struct bytes expires, struct err *err)
{
	if (f->out->key_id.len == 0 || f->out->secret.len == 0 || !time_read(expires, &f->out->expires_s))
		return err_set(err, ERR_OVERLOADED,
		               "AWS credentials: the %s endpoint's answer has no key, secret or expiry",
		               source_names[f->c->source]);
	return ERR_NONE;
}

static struct bytes member(const struct json *object, const char *name)
{
	const struct json *m = json_get(object, bytes_of(name));

	return m != NULL && m->type == JSON_STRING ? m->text : (struct bytes){"", 0};
}

static enum err_code answer_json(const struct fetch *f, struct bytes body, struct err *err)
{
	struct json_reader *reader = json_reader_open();
	struct json        *tree;
	enum err_code       rc = json_read(reader, f->arena, body, &tree, err);

	json_reader_close(reader);
	if (rc != ERR_NONE)
		return err_set(err, ERR_OVERLOADED, "AWS credentials: the %s endpoint's answer is not JSON",
		               source_names[f->c->source]);
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
	static const char hex[] = "0123456789ABCDEF";

	if (out->len > 0)
		buf_add_byte(out, '&');
	buf_add_bytes(out, bytes_of(name));
	buf_add_byte(out, '=');
	for (size_t i = 0; i < value.len; i++) {
		uint8_t byte = (uint8_t)value.data[i];

		if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
		    (byte >= '0' && byte <= '9') || strchr("-_.~", byte) != NULL) {
			buf_add_byte(out, byte);
		} else {
			buf_add_byte(out, '%');
			buf_add_byte(out, (uint8_t)hex[byte >> 4]);
			buf_add_byte(out, (uint8_t)hex[byte & 15]);
		}
	}
}

static enum err_code web_identity_fetch(const struct fetch *f, struct err *err)
{
	struct outbound_request  r = {.method = BYTES("POST"), .path = BYTES("/"), .repeatable = true};
	struct outbound_response answer;
	struct bytes             token;
	struct buf               body;

	if (token_read(f, f->c->identity_file, &token, err) != ERR_NONE)
		return err->code;
	buf_init(&body, f->arena);
	form_add(&body, "Action", BYTES("AssumeRoleWithWebIdentity"));
	form_add(&body, "Version", BYTES("2011-06-15"));
	form_add(&body, "RoleArn", bytes_of(f->c->role_arn));
	form_add(&body, "RoleSessionName", bytes_of(f->c->session_name));
	form_add(&body, "WebIdentityToken", token);
	r.body = buf_bytes(&body);
	outbound_header_add(&r, BYTES("Content-Type"), BYTES("application/x-www-form-urlencoded"));
	if (ask(f, &r, &answer, err) != ERR_NONE)
		return err->code;
	*f->out = (struct aws_credential){element(answer.body, "<AccessKeyId>", "</AccessKeyId>"),
	                                  element(answer.body, "<SecretAccessKey>", "</SecretAccessKey>"),
	                                  element(answer.body, "<SessionToken>", "</SessionToken>"), 0};
	return answer_use(f, element(answer.body, "<Expiration>", "</Expiration>"), err);
}

static enum err_code container_fetch(const struct fetch *f, struct err *err)
{
	struct outbound_request r = {
	        .method = BYTES("GET"), .path = bytes_of(f->c->path), .repeatable = true};
	struct outbound_response answer;
	struct bytes             token = {NULL, 0};

	if (f->c->token_file != NULL && token_read(f, f->c->token_file, &token, err) != ERR_NONE)
		return err->code;
	if (token.data == NULL && f->c->token != NULL)
		token = bytes_of(f->c->token);
	if (token.data != NULL)
		outbound_header_add(&r, BYTES("Authorization"), token);
	if (ask(f, &r, &answer, err) != ERR_NONE)
		return err->code;
	return answer_json(f, answer.body, err);
}

static enum err_code instance_get(const struct fetch *f, struct bytes session, struct bytes path,
                                  struct bytes *body, struct err *err)
{
	struct outbound_request  r = {.method = BYTES("GET"), .path = path, .repeatable = true};
	struct outbound_response answer;

	outbound_header_add(&r, BYTES("X-aws-ec2-metadata-token"), session);
	if (ask(f, &r, &answer, err) != ERR_NONE)
		return err->code;
	*body = answer.body;
	return ERR_NONE;
}

#define INSTANCE_PATH "/latest/meta-data/iam/security-credentials/"

/* Version 2 only: a session first, then the role's name, then its keys. */
static enum err_code instance_fetch(const struct fetch *f, struct err *err)
{
	struct outbound_request r = {
	        .method = BYTES("PUT"), .path = BYTES("/latest/api/token"), .repeatable = true};
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

static enum err_code fetch(struct aws_credentials *c, struct arena *a, struct aws_credential *out,
                           struct err *err)
{
	struct fetch f = {c, a, clock_steady_us(c->clock) + (int64_t)CREDENTIALS_FETCH_S * 1000000, out};

	switch (c->source) {
	case SOURCE_WEB_IDENTITY:
		return web_identity_fetch(&f, err);
	case SOURCE_CONTAINER:
		return container_fetch(&f, err);
	case SOURCE_INSTANCE:
		return instance_fetch(&f, err);
	case SOURCE_ENVIRONMENT:
	case SOURCE_PROFILE:
		break;
	}
	*out = c->present;
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

/* Under lock, but for the fetch itself. */
static enum err_code refresh(struct aws_credentials *c, struct err *err)
{
	struct aws_credential fresh;
	struct arena          a;
	enum err_code         rc;

	c->fetching = true;
	pthread_mutex_unlock(&c->lock);
	arena_init(&a);
	rc = fetch(c, &a, &fresh, err);
	pthread_mutex_lock(&c->lock);
	if (rc != ERR_NONE) {
		c->failure = *err;
		c->again_us = clock_steady_us(c->clock) + (int64_t)CREDENTIALS_AGAIN_MS * 1000;
	} else {
		arena_reset(&c->present_arena);
		credential_copy(&c->present, &fresh, &c->present_arena);
	}
	arena_release(&a);
	c->fetching = false;
	pthread_cond_broadcast(&c->changed);
	return rc;
}

enum err_code aws_credentials_get(struct aws_credentials *c, struct arena *a, struct aws_credential *out,
                                  struct err *err)
{
	enum err_code rc = ERR_NONE;

	pthread_mutex_lock(&c->lock);
	while (c->fetching && left_s(c) <= CREDENTIALS_REFRESH_LATE_S)
		pthread_cond_wait(&c->changed, &c->lock);
	if (!c->fetching && left_s(c) <= CREDENTIALS_REFRESH_EARLY_S) {
		if (clock_steady_us(c->clock) < c->again_us)
			*err = c->failure; /* (4) */
		rc = clock_steady_us(c->clock) < c->again_us ? err->code : refresh(c, err);
		if (rc != ERR_NONE && left_s(c) > CREDENTIALS_REFRESH_LATE_S) {
			log_warn("the AWS credentials were not renewed: %s", err->text);
			rc = ERR_NONE;
		}
	}
	if (rc == ERR_NONE)
		credential_copy(out, &c->present, a);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* ---- life ---- */

enum err_code aws_credentials_open(const struct environment *env, struct clock *clock,
                                   struct aws_credentials **out, struct err *err)
{
	struct aws_credentials *c = mem_zalloc(sizeof(*c));

	c->clock = clock;
	c->endpoint = "";
	arena_init(&c->arena);
	arena_init(&c->present_arena);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	if (source_choose(c, env, err) != ERR_NONE) {
		aws_credentials_close(c);
		return err->code;
	}
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
	return c->region;
}

const char *aws_credentials_source(const struct aws_credentials *c)
{
	return source_names[c->source];
}
