/* Setup: see setup.h. */
#include "outbound/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"

/* ---- profiles ---- */

static struct bytes line_next(struct bytes *rest)
{
	const char  *end = rest->len == 0 ? NULL : memchr(rest->data, '\n', rest->len);
	size_t       len = end == NULL ? rest->len : (size_t)(end - rest->data);
	struct bytes line = {rest->data, len};

	*rest = (struct bytes){rest->data + (end == NULL ? len : len + 1),
	                       rest->len - (end == NULL ? len : len + 1)};
	if (line.len > 0 && line.data[line.len - 1] == '\r')
		line.len--;
	return line;
}

/* "[kind name]", or "[name]" if there is no kind. */
static bool is_section(struct bytes line, struct bytes kind, struct bytes name)
{
	struct bytes title;

	line = bytes_trimmed(line);
	if (line.len < 2 || line.data[line.len - 1] != ']')
		return false;
	title = bytes_trimmed((struct bytes){line.data + 1, line.len - 2});
	if (!bytes_starts_with(title, kind))
		return false;
	title = (struct bytes){title.data + kind.len, title.len - kind.len};
	if (kind.len > 0 && (title.len == 0 || (title.data[0] != ' ' && title.data[0] != '\t')))
		return false;
	return bytes_equal(bytes_trimmed(title), name);
}

/* "name = value"; false if it is none. */
static bool setting_read(struct bytes line, struct profile_setting *out)
{
	const char *equals = line.len == 0 ? NULL : memchr(line.data, '=', line.len);

	if (equals == NULL)
		return false;
	out->name = bytes_trimmed((struct bytes){line.data, (size_t)(equals - line.data)});
	out->value = bytes_trimmed((struct bytes){equals + 1, (size_t)(line.data + line.len - equals - 1)});
	return true;
}

static void setting_add(struct profile *p, struct bytes line)
{
	struct profile_setting setting;

	if (p->count == PROFILE_SETTINGS_MAX || !setting_read(line, &setting))
		return;
	for (uint32_t i = 0; i < p->count; i++)
		if (bytes_equal(p->settings[i].name, setting.name))
			return;
	p->settings[p->count++] = setting;
}

/* "[profile work]" is `work` in the config file; "[default]" is `default` in both. */
void profile_add(struct profile *p, struct bytes file, struct bytes name, bool config)
{
	struct bytes kind = config && !bytes_is(name, "default") ? BYTES("profile") : (struct bytes){"", 0};
	bool         inside = false;

	while (file.len > 0) {
		struct bytes line = line_next(&file);
		char         first = line.len == 0 ? '#' : line.data[0];

		if (first == '#' || first == ';' || first == ' ' || first == '\t')
			continue;
		if (first == '[') {
			inside = is_section(line, kind, name);
			p->found |= inside;
		} else if (inside) {
			setting_add(p, line);
		}
	}
}

struct bytes profile_service_url(struct bytes file, struct bytes name, const char *service)
{
	bool                   inside = false, of_service = false;
	struct profile_setting setting;

	while (file.len > 0) {
		struct bytes line = line_next(&file);
		char         first = line.len == 0 ? '#' : line.data[0];
		bool         indented = first == ' ' || first == '\t';

		if (first == '#' || first == ';')
			continue;
		if (first == '[')
			inside = is_section(line, BYTES("services"), name);
		if (first == '[' || !setting_read(line, &setting))
			continue;
		if (!indented)
			of_service = inside && bytes_is(setting.name, service) && setting.value.len == 0;
		else if (inside && of_service && bytes_is(setting.name, "endpoint_url") &&
		         setting.value.len > 0)
			return setting.value;
	}
	return (struct bytes){NULL, 0};
}

struct bytes profile_get(const struct profile *p, const char *setting)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (bytes_is(p->settings[i].name, setting) && p->settings[i].value.len > 0)
			return p->settings[i].value;
	return (struct bytes){NULL, 0};
}

enum err_code profile_file_read(const char *path, struct arena *a, struct bytes *text, struct err *err)
{
	int     fd;
	bool    none = access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
	char   *data;
	size_t  len = 0;
	ssize_t n = 1;

	*text = (struct bytes){"", 0};
	if (none)
		return ERR_NONE;
	if (file_open_now(path, O_RDONLY, &fd, err) != ERR_NONE)
		return err->code = ERR_INVALID;
	data = arena_alloc(a, PROFILE_FILE_BYTES_MAX + 1);
	while (n > 0 && len <= PROFILE_FILE_BYTES_MAX) {
		n = read(fd, data + len, PROFILE_FILE_BYTES_MAX + 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	if (n < 0)
		return err_set(err, ERR_INVALID, "read %s: %s", path, strerror(errno));
	if (len > PROFILE_FILE_BYTES_MAX)
		return err_set(err, ERR_INVALID, "%s must have at most %d bytes", path,
		               PROFILE_FILE_BYTES_MAX);
	*text = (struct bytes){data, len};
	return ERR_NONE;
}

/* ---- the environment, as texts of the setup ---- */

static bool env_is_true(const struct environment *env, const char *name)
{
	const char *value = environment_get(env, name);

	return value != NULL && strcasecmp(value, "true") == 0;
}

static const char *text_keep(struct aws_setup *s, struct bytes text)
{
	return text.data == NULL ? NULL : arena_printf(s->arena, "%.*s", BYTES_ARG(text)).data;
}

static const char *text_copy(struct aws_setup *s, const char *text)
{
	return text == NULL ? NULL : text_keep(s, bytes_of(text));
}

/* ---- what is set up ---- */

/* Both shared files; one that is not there is empty. */
struct shared_files {
	struct bytes texts[2]; /* credentials, config */
};

static enum err_code files_read(struct aws_setup *s, const struct environment *env, struct shared_files *out,
                                struct err *err)
{
	const char *home = environment_get(env, "HOME");
	const char *paths[] = {environment_get(env, "AWS_SHARED_CREDENTIALS_FILE"),
	                       environment_get(env, "AWS_CONFIG_FILE")};
	const char *usual[] = {"credentials", "config"};

	*out = (struct shared_files){{{"", 0}, {"", 0}}};
	for (int i = 0; i < 2; i++) {
		if (paths[i] == NULL && home != NULL)
			paths[i] = arena_printf(s->arena, "%s/.aws/%s", home, usual[i]).data;
		if (paths[i] != NULL &&
		    profile_file_read(paths[i], s->arena, &out->texts[i], err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

static void profile_find(const struct shared_files *files, struct bytes name, struct profile *p)
{
	*p = (struct profile){0};
	for (int i = 0; i < 2; i++)
		profile_add(p, files->texts[i], name, i == 1);
}

static enum err_code profile_read(const struct shared_files *files, const struct environment *env,
                                  struct profile *p, struct err *err)
{
	const char *name = environment_get(env, "AWS_PROFILE");

	profile_find(files, bytes_of(name == NULL ? "default" : name), p);
	if (name != NULL && !p->found)
		return err_set(err, ERR_INVALID, "AWS_PROFILE: neither shared file has a profile \"%s\"",
		               name);
	return ERR_NONE;
}

/* Which identity is meant matters more than having one: what cannot be done is refused. */
static enum err_code profile_check(const struct profile *p, struct err *err)
{
	static const char *const unknown[] = {"credential_process", "sso_session", "sso_start_url",
	                                      "credential_source"};

	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
		if (profile_get(p, unknown[i]).data != NULL)
			return err_set(
			        err, ERR_INVALID,
			        "the AWS profile has \"%s\", which is not supported here: give it keys, or "
			        "role_arn with source_profile or web_identity_token_file",
			        unknown[i]);
	return ERR_NONE;
}

static void credential_set(struct aws_setup *s, const char *id, const char *secret, const char *token)
{
	s->fixed = (struct aws_credential){bytes_of(id), bytes_of(secret),
	                                   bytes_of(token == NULL ? "" : token), 0};
}

static enum err_code environment_use(struct aws_setup *s, const struct environment *env, const char *id,
                                     struct err *err)
{
	const char *secret = environment_get(env, "AWS_SECRET_ACCESS_KEY");

	if (secret == NULL)
		return err_set(err, ERR_INVALID,
		               "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
	s->source = SOURCE_ENVIRONMENT;
	credential_set(s, text_copy(s, id), text_copy(s, secret),
	               text_copy(s, environment_get(env, "AWS_SESSION_TOKEN")));
	return ERR_NONE;
}

static enum err_code sts_find(struct aws_setup *s, const struct environment *env, struct err *err)
{
	const char *endpoint = environment_get(env, "AWS_ENDPOINT_URL_STS");

	if (endpoint == NULL)
		endpoint = environment_get(env, "AWS_ENDPOINT_URL");
	if (endpoint == NULL && s->region == NULL)
		return err_set(err, ERR_INVALID, "a role needs a region: set AWS_REGION");
	s->endpoint =
	        endpoint != NULL ? text_copy(s, endpoint) : aws_url(s->arena, "sts", s->region, &s->network);
	return endpoint == NULL ? ERR_NONE : aws_network_check_own(&s->network, "AWS_ENDPOINT_URL_STS", err);
}

static enum err_code keys_take(struct aws_setup *s, const struct profile *p, struct aws_credential *out,
                               struct err *err)
{
	const char *token = text_keep(s, profile_get(p, "aws_session_token"));

	if (profile_get(p, "aws_secret_access_key").data == NULL)
		return err_set(err, ERR_INVALID,
		               "the AWS profile has aws_access_key_id, but no aws_secret_access_key");
	*out = (struct aws_credential){bytes_of(text_keep(s, profile_get(p, "aws_access_key_id"))),
	                               bytes_of(text_keep(s, profile_get(p, "aws_secret_access_key"))),
	                               bytes_of(token == NULL ? "" : token), 0};
	return ERR_NONE;
}

/* The profile whose keys ask for the role, which may be the same one. A chain of roles is refused, and so is a loop. */
static enum err_code assumer_find(struct aws_setup *s, const struct shared_files *files, struct bytes name,
                                  struct err *err)
{
	struct profile p;

	profile_find(files, name, &p);
	if (!p.found)
		return err_set(err, ERR_INVALID, "source_profile: neither shared file has a profile \"%.*s\"",
		               BYTES_ARG(name));
	if (profile_get(&p, "aws_access_key_id").data == NULL)
		return err_set(
		        err, ERR_INVALID,
		        "source_profile: the AWS profile \"%.*s\" has no aws_access_key_id; roles that "
		        "are assumed by other roles are not supported here",
		        BYTES_ARG(name));
	return keys_take(s, &p, &s->assumer, err);
}

static enum err_code role_use(struct aws_setup *s, const struct environment *env,
                              const struct shared_files *files, const struct profile *p, struct err *err)
{
	struct bytes duration = profile_get(p, "duration_seconds");
	const char  *session = text_keep(s, profile_get(p, "role_session_name"));
	uint64_t     seconds;

	s->source = SOURCE_ROLE;
	s->role_arn = text_keep(s, profile_get(p, "role_arn"));
	s->session_name = session == NULL ? "gatehouse" : session;
	s->external_id = text_keep(s, profile_get(p, "external_id"));
	s->duration_s = text_keep(s, duration);
	if (s->role_arn == NULL)
		return err_set(err, ERR_INVALID, "the AWS profile has source_profile, but no role_arn");
	if (duration.data != NULL &&
	    (!bytes_to_u64(duration, ROLE_SECONDS_MAX, &seconds) || seconds < ROLE_SECONDS_MIN))
		return err_set(err, ERR_INVALID, "duration_seconds of the AWS profile must be %d to %d",
		               ROLE_SECONDS_MIN, ROLE_SECONDS_MAX);
	if (sts_find(s, env, err) != ERR_NONE)
		return err->code;
	return assumer_find(s, files, profile_get(p, "source_profile"), err);
}

static enum err_code web_identity_use(struct aws_setup *s, const struct environment *env,
                                      const struct profile *p, struct err *err)
{
	const char *session = environment_get(env, "AWS_ROLE_SESSION_NAME");

	s->source = SOURCE_WEB_IDENTITY;
	if (s->role_arn == NULL)
		s->role_arn = text_keep(s, profile_get(p, "role_arn"));
	if (s->role_arn == NULL)
		return err_set(err, ERR_INVALID,
		               "a web identity needs a role: AWS_ROLE_ARN, or role_arn in the profile");
	if (session == NULL)
		session = text_keep(s, profile_get(p, "role_session_name"));
	s->session_name = text_copy(s, session == NULL ? "gatehouse" : session);
	return sts_find(s, env, err);
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

static enum err_code container_use(struct aws_setup *s, const struct environment *env, const char *relative,
                                   const char *full, struct err *err)
{
	struct bytes url = bytes_of(full == NULL ? "" : full), host;
	const char  *slash;

	s->source = SOURCE_CONTAINER;
	s->token = text_copy(s, environment_get(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN"));
	s->token_file = text_copy(s, environment_get(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"));
	if (relative != NULL) {
		s->endpoint = "http://169.254.170.2";
		s->path = text_copy(s, relative);
		return ERR_NONE;
	}
	slash = url.len > 8 ? memchr(url.data + 8, '/', url.len - 8) : NULL;
	s->path = text_copy(s, slash == NULL ? "/" : slash);
	s->endpoint =
	        text_keep(s, (struct bytes){url.data, slash == NULL ? url.len : (size_t)(slash - url.data)});
	host = (struct bytes){s->endpoint + 7, strlen(s->endpoint) > 7 ? strlen(s->endpoint) - 7 : 0};
	if (bytes_starts_with(url, BYTES("http://")) && !is_plain_allowed(host))
		return err_set(err, ERR_INVALID,
		               "AWS_CONTAINER_CREDENTIALS_FULL_URI: plain http is allowed only to loopback "
		               "and to AWS's container endpoints");
	return ERR_NONE;
}

static enum err_code instance_use(struct aws_setup *s, const struct environment *env, struct err *err)
{
	const char *endpoint = environment_get(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
	size_t      len;

	if (env_is_true(env, "AWS_EC2_METADATA_DISABLED"))
		return err_set(
		        err, ERR_INVALID,
		        "no AWS credentials are set up: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
		        "AWS_PROFILE");
	s->source = SOURCE_INSTANCE;
	s->endpoint = text_copy(s, endpoint == NULL ? "http://169.254.169.254" : endpoint);
	len = strlen(s->endpoint);
	if (len > 0 && s->endpoint[len - 1] == '/')
		s->endpoint = text_keep(s, (struct bytes){s->endpoint, len - 1});
	return ERR_NONE;
}

/* The first that is set counts. */
static const char *dynamodb_of(struct aws_setup *s, const struct environment *env,
                               const struct shared_files *files, const struct profile *p)
{
	const char  *url = environment_get(env, "AWS_ENDPOINT_URL_DYNAMODB");
	struct bytes services = profile_get(p, "services"), of_service = {NULL, 0};

	if (env_is_true(env, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"))
		return NULL;
	if (url == NULL)
		url = environment_get(env, "AWS_ENDPOINT_URL");
	if (url != NULL)
		return text_copy(s, url);
	if (services.data != NULL)
		of_service = profile_service_url(files->texts[1], services, "dynamodb");
	return text_keep(s, of_service.data != NULL ? of_service : profile_get(p, "endpoint_url"));
}

enum err_code aws_setup_read(struct aws_setup *s, const struct environment *env, struct arena *a,
                             struct err *err)
{
	const char         *id = environment_get(env, "AWS_ACCESS_KEY_ID");
	const char         *relative = environment_get(env, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char         *full = environment_get(env, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
	struct shared_files files;
	struct profile      p;

	*s = (struct aws_setup){.arena = a, .endpoint = ""};
	if (files_read(s, env, &files, err) != ERR_NONE || profile_read(&files, env, &p, err) != ERR_NONE)
		return err->code;
	s->region = text_copy(s, environment_get(env, "AWS_REGION"));
	if (s->region == NULL)
		s->region = text_copy(s, environment_get(env, "AWS_DEFAULT_REGION"));
	if (s->region == NULL)
		s->region = text_keep(s, profile_get(&p, "region"));
	s->dynamodb = dynamodb_of(s, env, &files, &p);
	if (aws_network_read(&s->network, env, &p, s->arena, err) != ERR_NONE)
		return err->code;
	if (s->dynamodb != NULL &&
	    aws_network_check_own(&s->network, "AWS_ENDPOINT_URL_DYNAMODB (or another setting of its kind)",
	                          err) != ERR_NONE)
		return err->code;
	if (id != NULL)
		return environment_use(s, env, id, err);
	if (profile_check(&p, err) != ERR_NONE)
		return err->code;
	if (profile_get(&p, "source_profile").data != NULL)
		return role_use(s, env, &files, &p, err);
	s->identity_file = text_copy(s, environment_get(env, "AWS_WEB_IDENTITY_TOKEN_FILE"));
	s->role_arn = text_copy(s, environment_get(env, "AWS_ROLE_ARN"));
	if (s->identity_file == NULL)
		s->identity_file = text_keep(s, profile_get(&p, "web_identity_token_file"));
	if (s->identity_file != NULL)
		return web_identity_use(s, env, &p, err);
	if (profile_get(&p, "aws_access_key_id").data != NULL) {
		s->source = SOURCE_PROFILE;
		return keys_take(s, &p, &s->fixed, err);
	}
	if (relative != NULL || full != NULL)
		return container_use(s, env, relative, full, err);
	return instance_use(s, env, err);
}
