/* AWS network: see aws_network.h. */
#define _GNU_SOURCE
#include "outbound/aws_network.h"

#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "outbound/setup.h"

/* ---- the environment ---- */

static const char *process_get(void *ctx, const char *name)
{
	(void)ctx;
	return getenv(name);
}

const struct environment environment_process = {process_get, NULL};

const char *environment_get(const struct environment *env, const char *name)
{
	const char *value = env->get(env->ctx, name);

	return value == NULL || value[0] == '\0' ? NULL : value;
}

/* ---- settings ---- */

/* One setting: a variable, and its name in a profile. */
struct named {
	const char *variable, *setting;
};

struct reading {
	const struct environment *env;
	const struct profile     *profile;
	struct arena             *arena;
};

/* NULL: not set. *from is where it was found. */
static const char *setting_of(const struct reading *r, struct named name, const char **from)
{
	const char  *value = environment_get(r->env, name.variable);
	struct bytes text = profile_get(r->profile, name.setting);

	*from = value != NULL ? name.variable : name.setting;
	if (value == NULL && text.data == NULL)
		return NULL;
	return arena_printf(r->arena, "%.*s", BYTES_ARG(value != NULL ? bytes_of(value) : text)).data;
}

static enum err_code switch_read(const struct reading *r, struct named name, bool *out, struct err *err)
{
	const char *from, *value = setting_of(r, name, &from);

	*out = value != NULL && strcasecmp(value, "true") == 0;
	if (value == NULL || *out || strcasecmp(value, "false") == 0)
		return ERR_NONE;
	return err_set(err, ERR_INVALID, "%s: must be true or false", from);
}

static enum err_code tries_read(const struct reading *r, struct aws_network *n, struct err *err)
{
	const char *from, *value = setting_of(r, (struct named){"AWS_MAX_ATTEMPTS", "max_attempts"}, &from);
	uint64_t    tries = 0;

	if (value != NULL && (!bytes_to_u64(bytes_of(value), AWS_TRIES_MAX, &tries) || tries == 0))
		return err_set(err, ERR_INVALID, "%s: must be 1 to %d", from, AWS_TRIES_MAX);
	n->tries_max = (uint32_t)tries;
	return ERR_NONE;
}

static enum err_code bundle_read(const struct reading *r, struct aws_network *n, struct err *err)
{
	const char *from;

	n->ca_file = setting_of(r, (struct named){"AWS_CA_BUNDLE", "ca_bundle"}, &from);
	if (n->ca_file == NULL || access(n->ca_file, R_OK) == 0)
		return ERR_NONE;
	return err_set(err, ERR_INVALID, "%s: cannot read %s", from, n->ca_file);
}

static bool is_proxy(struct bytes url)
{
	return bytes_starts_with(url, BYTES("http://")) || bytes_starts_with(url, BYTES("https://")) ||
	       memmem(url.data, url.len, "://", 3) == NULL;
}

/* The small name counts if both are set, as it does for curl. The text may hold a password: no message repeats it. */
static enum err_code proxy_read(const struct reading *r, struct aws_network *n, struct err *err)
{
	const char *proxy = environment_get(r->env, "https_proxy"),
	           *except = environment_get(r->env, "no_proxy");

	if (proxy == NULL)
		proxy = environment_get(r->env, "HTTPS_PROXY");
	if (except == NULL)
		except = environment_get(r->env, "NO_PROXY");
	if (proxy != NULL && !is_proxy(bytes_of(proxy)))
		return err_set(err, ERR_INVALID, "HTTPS_PROXY: must be a URL like http://host:port");
	n->proxy = proxy == NULL ? NULL : arena_printf(r->arena, "%s", proxy).data;
	n->no_proxy = except == NULL ? NULL : arena_printf(r->arena, "%s", except).data;
	return ERR_NONE;
}

enum err_code aws_network_read(struct aws_network *n, const struct environment *env, const struct profile *p,
                               struct arena *a, struct err *err)
{
	const struct reading r = {env, p, a};
	const struct named   fips = {"AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint"};
	const struct named   dual_stack = {"AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint"};

	*n = (struct aws_network){0};
	if (switch_read(&r, fips, &n->fips, err) != ERR_NONE ||
	    switch_read(&r, dual_stack, &n->dual_stack, err) != ERR_NONE ||
	    bundle_read(&r, n, err) != ERR_NONE || tries_read(&r, n, err) != ERR_NONE)
		return err->code;
	return proxy_read(&r, n, err);
}

enum err_code aws_network_check_own(const struct aws_network *n, const char *set, struct err *err)
{
	if (!n->fips && !n->dual_stack)
		return ERR_NONE;
	return err_set(
	        err, ERR_INVALID,
	        "%s is true, but %s gives the endpoint's URL, which is called as it is: unset one of them",
	        n->fips ? "AWS_USE_FIPS_ENDPOINT" : "AWS_USE_DUALSTACK_ENDPOINT", set);
}

/* ---- addresses ---- */

/* Regions whose names begin so are a partition of AWS with domains of its own. */
struct partition {
	const char *prefix, *domain, *dual_stack;
	bool        all_fips; /* every address is one of FIPS, and none is called so */
};

static const struct partition partitions[] = {
        {"cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn", false},
        {"eusc-", "amazonaws.eu", "api.amazonwebservices.eu", false},
        {"us-gov-", "amazonaws.com", "api.aws", true},
        {"", "amazonaws.com", "api.aws", false},
};

const char *aws_url(struct arena *a, const char *service, const char *region, const struct aws_network *n)
{
	const struct partition *p = partitions;
	bool                    fips = n != NULL && n->fips, dual_stack = n != NULL && n->dual_stack;

	while (!bytes_starts_with(bytes_of(region), bytes_of(p->prefix)))
		p++;
	return arena_printf(a, "https://%s%s.%s.%s", service,
	                    fips && (dual_stack || !p->all_fips) ? "-fips" : "", region,
	                    dual_stack ? p->dual_stack : p->domain)
	        .data;
}
