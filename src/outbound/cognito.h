/* Cognito: signed calls of Amazon Cognito's user pools (JSON 1.1): ListUsers, AdminGetUser, AdminUserGlobalSignOut.
 *
 * What always holds
 * (1) All three may be repeated: two read, and signing somebody out twice is doing it once.
 * (2) ERR_NOT_FOUND: there is no such user. ERR_THROTTLED, ERR_OVERLOADED, ERR_STORAGE: for now. ERR_ACCESS: the pool refuses us, or
 *     there is no such pool, until somebody changes something. No error holds more of an answer than the name of its error.
 *
 * Threads: any. Calls wait for at most COGNITO_CALL_S, and end at once when all are stopped; answers live in the caller's arena. */
#ifndef OUTBOUND_COGNITO_H
#define OUTBOUND_COGNITO_H

#include <pthread.h>

#include "base/list.h"
#include "outbound/aws.h"

enum {
	COGNITO_PAGE_MAX = 60,
	COGNITO_CALL_S = 8,
	COGNITO_ANSWER_BYTES_MAX = 4 * 1024 * 1024, /* an emulator ignores the limit of a page */
	COGNITO_ATTRIBUTES_MAX = 128,
};

/* Calls under way, so that a stop need not wait for a provider that does not answer. */
struct cognito_calls {
	pthread_mutex_t lock;
	struct list     list; /* under lock; so with the next one */
	bool            stopping;
};

void cognito_calls_init(struct cognito_calls *all);
void cognito_calls_stop(
        struct cognito_calls
                *all); /* they end soon, and later ones at once, with ERR_OVERLOADED or ERR_STORAGE */
void cognito_calls_release(struct cognito_calls *all); /* when none is under way */

struct cognito_target {
	const char             *endpoint; /* "https://cognito-idp.eu-west-1.amazonaws.com" */
	const char             *region;
	const char             *pool;
	const char             *ca_file; /* NULL: the system's */
	bool                    allow_private;
	struct aws_credentials *credentials;
	struct clock           *clock;
	struct cognito_calls   *calls; /* NULL: nobody stops it */
	struct bytes            trace; /* as outbound_request */
};

struct cognito_value {
	struct bytes name, value;
};

struct cognito_user {
	struct bytes          name;
	struct cognito_value *attributes;
	uint32_t              attribute_count;
	int64_t               modified_ms; /* 0: it does not say */
	struct bytes          status;      /* "CONFIRMED"; empty: it does not say */
	bool                  disabled;    /* it says so */
};

struct cognito_page {
	struct cognito_user *list;
	uint32_t             count;
	struct bytes         next; /* of the next page; empty: this was the last */
};

/* from: `next` of the page before; empty: the first. */
enum err_code cognito_list_users(const struct cognito_target *t, struct bytes from, struct arena *a,
                                 struct cognito_page *out, struct err *err);
enum err_code cognito_get_user(const struct cognito_target *t, struct bytes name, struct arena *a,
                               struct cognito_user *out, struct err *err);
enum err_code cognito_sign_out(const struct cognito_target *t, struct bytes name, struct arena *a,
                               struct err *err);

/* "eu-west-1_AbCdEf123" is in eu-west-1. Empty: it does not say. */
struct bytes cognito_region(struct bytes pool);

#endif
