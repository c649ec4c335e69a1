/* Where AWS's services are, and how they are reached: the settings that AWS's SDKs know too. */
#include "outbound/aws_network.h"

#include <stdlib.h>
#include <unistd.h>

#include "outbound/setup.h"
#include "test.h"

struct world {
	const char        *names[8], *values[8];
	unsigned           count;
	struct environment env;
	struct profile     profile;
	struct aws_network network;
	struct arena       arena;
	struct err         err;
};

static const char *world_get(void *ctx, const char *name)
{
	struct world *w = ctx;

	for (unsigned i = 0; i < w->count; i++)
		if (strcmp(w->names[i], name) == 0)
			return w->values[i];
	return NULL;
}

static void world_init(struct world *w)
{
	*w = (struct world){0};
	w->env = (struct environment){world_get, w};
	arena_init(&w->arena);
}

static void set(struct world *w, const char *name, const char *value)
{
	w->names[w->count] = name;
	w->values[w->count++] = value;
}

static enum err_code read_network(struct world *w)
{
	return aws_network_read(&w->network, &w->env, &w->profile, &w->arena, &w->err);
}

static void assert_refused(const char *name, const char *value, const char *said)
{
	struct world w;

	world_init(&w);
	set(&w, name, value);
	assert_int_equal(read_network(&w), ERR_INVALID);
	assert_non_null(strstr(w.err.text, said));
	arena_release(&w.arena);
}

static void assert_url(const char *service, const char *region, struct aws_network n, const char *expected)
{
	struct arena a;

	arena_init(&a);
	assert_string_equal(aws_url(&a, service, region, &n), expected);
	arena_release(&a);
}

/* As the endpoint rules of AWS's SDKs have them. */
TEST(aws_network, an_address_is_by_region_partition_and_kind)
{
	struct aws_network plain = {0}, fips = {.fips = true}, dual = {.dual_stack = true},
	                   both = {.fips = true, .dual_stack = true};

	assert_url("dynamodb", "eu-west-1", plain, "https://dynamodb.eu-west-1.amazonaws.com");
	assert_url("dynamodb", "us-east-1", fips, "https://dynamodb-fips.us-east-1.amazonaws.com");
	assert_url("dynamodb", "us-east-1", dual, "https://dynamodb.us-east-1.api.aws");
	assert_url("dynamodb", "us-east-1", both, "https://dynamodb-fips.us-east-1.api.aws");
	assert_url("sts", "cn-north-1", plain, "https://sts.cn-north-1.amazonaws.com.cn");
	assert_url("dynamodb", "cn-north-1", dual,
	           "https://dynamodb.cn-north-1.api.amazonwebservices.com.cn");
	assert_url("dynamodb", "us-gov-west-1", fips, "https://dynamodb.us-gov-west-1.amazonaws.com");
	assert_url("sts", "eusc-de-east-1", plain, "https://sts.eusc-de-east-1.amazonaws.eu");
}

TEST(aws_network, nothing_is_set_unless_it_is_set)
{
	struct world w;

	world_init(&w);
	set(&w, "HTTPS_PROXY", "");
	assert_int_equal(read_network(&w), ERR_NONE);
	assert_false(w.network.fips || w.network.dual_stack);
	assert_null(w.network.ca_file);
	assert_null(w.network.proxy);
	assert_int_equal(w.network.tries_max, 0);
	arena_release(&w.arena);
}

TEST(aws_network, the_environment_counts_for_more_than_the_profile)
{
	struct world w;

	world_init(&w);
	profile_add(
	        &w.profile,
	        BYTES("[default]\nuse_fips_endpoint = true\nuse_dualstack_endpoint = true\nmax_attempts = 7\n"
	              "ca_bundle = /dev/null\n"),
	        BYTES("default"), true);
	set(&w, "AWS_USE_FIPS_ENDPOINT", "FALSE");
	set(&w, "AWS_MAX_ATTEMPTS", "1");
	assert_int_equal(read_network(&w), ERR_NONE);
	assert_false(w.network.fips);
	assert_true(w.network.dual_stack);
	assert_int_equal(w.network.tries_max, 1);
	assert_string_equal(w.network.ca_file, "/dev/null");
	arena_release(&w.arena);
}

TEST(aws_network, the_small_name_of_the_proxy_counts_first)
{
	struct world w;

	world_init(&w);
	set(&w, "HTTPS_PROXY", "http://large:3128");
	set(&w, "https_proxy", "small:3128");
	set(&w, "NO_PROXY", "localhost,.internal");
	assert_int_equal(read_network(&w), ERR_NONE);
	assert_string_equal(w.network.proxy, "small:3128");
	assert_string_equal(w.network.no_proxy, "localhost,.internal");
	arena_release(&w.arena);
}

TEST(aws_network, what_is_set_wrongly_is_named)
{
	assert_refused("AWS_USE_FIPS_ENDPOINT", "yes", "AWS_USE_FIPS_ENDPOINT: must be true or false");
	assert_refused("AWS_USE_DUALSTACK_ENDPOINT", "1",
	               "AWS_USE_DUALSTACK_ENDPOINT: must be true or false");
	assert_refused("AWS_MAX_ATTEMPTS", "0", "AWS_MAX_ATTEMPTS: must be 1 to 10");
	assert_refused("AWS_MAX_ATTEMPTS", "11", "AWS_MAX_ATTEMPTS: must be 1 to 10");
	assert_refused("AWS_CA_BUNDLE", "/nowhere/ca.pem", "AWS_CA_BUNDLE: cannot read /nowhere/ca.pem");
	assert_refused("HTTPS_PROXY", "socks5://u:secret@host",
	               "HTTPS_PROXY: must be a URL like http://host:port");
}

TEST(aws_network, no_message_repeats_a_proxys_password)
{
	struct world w;

	world_init(&w);
	set(&w, "HTTPS_PROXY", "socks5://u:secret@host");
	assert_int_equal(read_network(&w), ERR_INVALID);
	assert_null(strstr(w.err.text, "secret"));
	arena_release(&w.arena);
}

TEST(aws_network, an_endpoint_of_ones_own_has_neither_kind_of_address)
{
	struct aws_network plain = {0}, fips = {.fips = true}, dual = {.dual_stack = true};
	struct err         err;

	assert_int_equal(aws_network_check_own(&plain, "URL", &err), ERR_NONE);
	assert_int_equal(aws_network_check_own(&fips, "URL", &err), ERR_INVALID);
	assert_non_null(strstr(err.text, "AWS_USE_FIPS_ENDPOINT is true, but URL gives"));
	assert_int_equal(aws_network_check_own(&dual, "URL", &err), ERR_INVALID);
	assert_non_null(strstr(err.text, "AWS_USE_DUALSTACK_ENDPOINT"));
}
