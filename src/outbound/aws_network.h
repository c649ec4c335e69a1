/* AWS network: where a service of AWS is, and how it is reached: by the region, and by the settings that AWS's SDKs know too. The settings
 * hold for DynamoDB and STS. Targets of events, pools of users and webhooks have settings of their own. */
#ifndef OUTBOUND_AWS_NETWORK_H
#define OUTBOUND_AWS_NETWORK_H

#include "base/arena.h"
#include "base/err.h"

enum { AWS_TRIES_MAX = 10 }; /* that AWS_MAX_ATTEMPTS may ask for */

/* Where settings come from: the process's environment, or a test's. */
struct environment {
	const char *(*get)(void *ctx, const char *name); /* NULL: not set */
	void *ctx;
};

/* getenv. */
extern const struct environment environment_process;

/* NULL: it is not set, or empty. */
const char *environment_get(const struct environment *env, const char *name);

struct aws_network {
	bool        fips;       /* AWS_USE_FIPS_ENDPOINT, use_fips_endpoint */
	bool        dual_stack; /* AWS_USE_DUALSTACK_ENDPOINT, use_dualstack_endpoint */
	const char *ca_file;    /* AWS_CA_BUNDLE, ca_bundle; NULL: the system's */
	const char *proxy;      /* HTTPS_PROXY, for https alone; NULL: none */
	const char *no_proxy;   /* NO_PROXY: hosts that are called without the proxy; NULL: none */
	uint32_t
	        tries_max; /* AWS_MAX_ATTEMPTS, max_attempts: of a request, the first one included; 0: not set */
};

struct profile;

/* The environment counts for more than the profile. Texts live in the arena. ERR_INVALID names what is set wrongly. */
enum err_code aws_network_read(struct aws_network *n, const struct environment *env, const struct profile *p,
                               struct arena *a, struct err *err);

/* An endpoint of the operator's own has neither kind of address. ERR_INVALID if one is wanted; `set` names the setting with the URL. */
enum err_code aws_network_check_own(const struct aws_network *n, const char *set, struct err *err);

/* "https://dynamodb.eu-west-1.amazonaws.com", in the arena. `n` may be NULL: neither FIPS nor dual stack. */
const char *aws_url(struct arena *a, const char *service, const char *region, const struct aws_network *n);

#endif
