/* Credentials: who we are to AWS, found where AWS's SDKs look, in their order:
 *
 *   1. AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN)
 *   2. the profile's role_arn with source_profile: a role, assumed with the keys of that profile (AWS_PROFILE names it; `default`
 *      otherwise)
 *   3. web identity: AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, or the profile's web_identity_token_file and role_arn
 *   4. the profile's aws_access_key_id and aws_secret_access_key
 *   5. a container's endpoint: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI
 *   6. the instance's endpoint (IMDSv2), unless AWS_EC2_METADATA_DISABLED is true
 * The first source that is configured must work or fail: nobody falls through to another identity than the one that
 * was set up. A profile that asks for something else (a role assumed by a role, credential_source, sso_*, credential_process) is
 * refused by name.
 *
 * What always holds
 * (1) With REFRESH_EARLY_S left one caller fetches new credentials. Until they end the present ones are used by all others, and by that one if the fetch
 *     fails, which is only logged. Once they have ended everybody waits for the fetch, and a failure is an error.
 * (2) No text here ever holds a secret or a token. Plain http goes only to loopback and to the addresses that AWS
 *     names.
 * (3) A fetch takes at most FETCH_S in all; FETCH_EARLY_S while the present credentials are good.
 * (4) After each fetch, whatever it brought, there is a pause before the next: a quarter of the time that is left, PAUSE_S_MIN to PAUSE_S_MAX. So sources
 *     whose credentials always end soon are not asked for each call, and those who waited for a fetch that failed get its error and do not queue up
 *     for more.
 *
 * Threads: any. What is handed out lives in the caller's arena. */
#ifndef OUTBOUND_CREDENTIALS_H
#define OUTBOUND_CREDENTIALS_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "outbound/aws_network.h"

enum {
	CREDENTIALS_REFRESH_EARLY_S = 15 * 60,
	CREDENTIALS_FETCH_S = 10,
	CREDENTIALS_FETCH_EARLY_S = 4,
	CREDENTIALS_PAUSE_S_MIN = 1,
	CREDENTIALS_PAUSE_S_MAX = 60,
	CREDENTIALS_TOKEN_BYTES_MAX = 16 * 1024, /* of a web identity or a session */
};

struct aws_credential {
	struct bytes key_id, secret;
	struct bytes token;     /* empty: none */
	int64_t      expires_s; /* seconds since 1970; 0: it does not */
};

struct aws_credentials;

/* Reads environment and files; fetches nothing yet. ERR_INVALID says what is set up wrongly, or that nothing is. */
enum err_code aws_credentials_open(const struct environment *env, struct clock *clock,
                                   struct aws_credentials **out, struct err *err);
void          aws_credentials_close(struct aws_credentials *c);

/* ERR_OVERLOADED: the source did not give any. */
enum err_code aws_credentials_get(struct aws_credentials *c, struct arena *a, struct aws_credential *out,
                                  struct err *err);

/* AWS_REGION, AWS_DEFAULT_REGION, or the profile's region; NULL if none is set. Lives as long as `c`. */
const char *aws_credentials_region(const struct aws_credentials *c);

/* Where DynamoDB is to be called, if that is set: AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL, the profile's section
 * [services], or its endpoint_url;
 * NULL: at AWS itself. AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true switches all of them off. Lives as long as `c`. */
const char *aws_credentials_dynamodb(const struct aws_credentials *c);

/* Lives as long as `c`. */
const struct aws_network *aws_credentials_network(const struct aws_credentials *c);

/* "environment", "role", "web identity", "profile", "container", "instance": for the log. */
const char *aws_credentials_source(const struct aws_credentials *c);

#endif
