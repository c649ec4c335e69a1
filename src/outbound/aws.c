/* AWS: see aws.h. */
#include "outbound/aws.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/crypto.h"
#include "base/date.h"
#include "dynamo/sigv4.h"
#include "json/json.h"

const struct aws_service aws_dynamodb = {"dynamodb", "DynamoDB_20120810", "1.0"};

/* Signing keys that were derived, for one thread at a time: each is good for a day. */
struct signer {
	pthread_mutex_t         lock;
	struct sigv4_key_cache *cache; /* under lock */
};

enum { SIGNERS = 4 }; /* past as many threads that sign at the same moment, a key is derived anew */

struct aws {
	/* set once */
	const struct aws_service *service;
	struct outbound          *target;
	struct aws_credentials   *credentials;
	char                     *region;
	struct clock             *clock;
	/* any thread */
	_Atomic int64_t skew_us; /* the service's time less ours */
	struct signer   signers[SIGNERS];
};

enum { ID_BYTES = 16, ID_TEXT = 36 };

/* One call, from try to try. */
struct call {
	struct aws               *a;
	const struct aws_request *r;
	struct arena             *arena;
	char                      id[ID_TEXT]; /* (3) */
};

/* ---- what an error is called ---- */

/* "com.amazonaws.dynamodb.v20120810#ValidationException:http://…" is ValidationException. */
static struct bytes type_bare(struct bytes text)
{
	const char *colon = text.len == 0 ? NULL : memchr(text.data, ':', text.len);
	const char *hash;

	if (colon != NULL)
		text.len = (size_t)(colon - text.data);
	hash = text.len == 0 ? NULL : memchr(text.data, '#', text.len);
	if (hash != NULL)
		text = (struct bytes){hash + 1, text.len - (size_t)(hash + 1 - text.data)};
	return text.len > AWS_TYPE_BYTES_MAX ? (struct bytes){"", 0} : text;
}

static struct bytes type_of_body(struct bytes body, struct arena *a)
{
	static const char *const names[] = {"__type", "code"};
	struct json_reader      *reader = json_reader_open();
	struct bytes             type = {"", 0};
	struct json             *tree;
	struct err               err;

	if (json_read(reader, a, body, &tree, &err) == ERR_NONE)
		for (size_t i = 0; i < 2 && type.len == 0; i++) {
			const struct json *m = json_get(tree, bytes_of(names[i]));

			if (m != NULL && m->type == JSON_STRING)
				type = json_text(m);
		}
	json_reader_close(reader);
	return type;
}

struct bytes aws_error_type(const struct outbound_response *r, struct arena *a)
{
	struct bytes type = outbound_header_get(r, "x-amzn-errortype");

	if (r->status / 100 == 2)
		return (struct bytes){"", 0};
	return type_bare(type.len > 0 ? type : type_of_body(r->body, a));
}

static bool is_one_of(struct bytes type, const char *const *names)
{
	for (; *names != NULL; names++)
		if (bytes_is(type, *names))
			return true;
	return false;
}

enum retry_kind aws_retry_kind(int status, struct bytes type)
{
	static const char *const throttled[] = {"Throttling",
	                                        "ThrottlingException",
	                                        "ThrottledException",
	                                        "RequestThrottled",
	                                        "RequestThrottledException",
	                                        "TooManyRequestsException",
	                                        "ProvisionedThroughputExceededException",
	                                        "TransactionInProgressException",
	                                        "RequestLimitExceeded",
	                                        "BandwidthLimitExceeded",
	                                        "LimitExceededException",
	                                        "SlowDown",
	                                        "PriorRequestNotComplete",
	                                        NULL};
	static const char *const transient[] = {"RequestTimeout", "RequestTimeoutException",
	                                        "ReplicatedWriteConflictException", NULL};

	if (is_one_of(type, throttled))
		return RETRY_THROTTLED;
	return is_one_of(type, transient) ? RETRY_TRANSIENT : retry_kind_of_status(status);
}

static enum retry_kind classify(void *ctx, const struct outbound_response *r)
{
	struct call *c = ctx;

	return r->status / 100 == 2 ? RETRY_NEVER : aws_retry_kind(r->status, aws_error_type(r, c->arena));
}

/* ---- signing ---- */

/* As a random UUID. */
static bool id_make(char out[ID_TEXT])
{
	uint8_t random[ID_BYTES];
	char    hex[2 * ID_BYTES];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return false;
	random[6] = (uint8_t)((random[6] & 0x0f) | 0x40);
	random[8] = (uint8_t)((random[8] & 0x3f) | 0x80);
	hex_write((struct bytes){(const char *)random, sizeof(random)}, hex);
	for (size_t from = 0, to = 0; from < sizeof(hex); from++) {
		if (from == 8 || from == 12 || from == 16 || from == 20)
			out[to++] = '-';
		out[to++] = hex[from];
	}
	return true;
}

/* NULL: all are in use. */
static struct signer *signer_take(struct aws *a)
{
	for (int i = 0; i < SIGNERS; i++)
		if (pthread_mutex_trylock(&a->signers[i].lock) == 0)
			return &a->signers[i];
	return NULL;
}

static void signer_give(struct signer *s)
{
	if (s != NULL)
		pthread_mutex_unlock(&s->lock);
}

static enum err_code sign(struct call *c, struct outbound_request *r, struct err *err)
{
	struct sigv4_header     headers[OUTBOUND_HEADERS_MAX];
	struct sigv4_request    unsigned_request = {.method = r->method,
	                                            .path = r->path,
	                                            .headers = headers,
	                                            .header_count = r->header_count,
	                                            .body = r->body,
	                                            .service = bytes_of(c->a->service->name),
	                                            .now_us = clock_wall_us(c->a->clock) +
	                                                      atomic_load(&c->a->skew_us)};
	struct aws_credential   credential;
	struct sigv4_credential with = {.region = bytes_of(c->a->region)};
	struct sigv4_addition   added;
	struct signer          *signer;
	enum err_code           rc;

	for (uint32_t i = 0; i < r->header_count; i++)
		headers[i] = (struct sigv4_header){r->headers[i].name, r->headers[i].value};
	if (aws_credentials_get(c->a->credentials, c->arena, &credential, err) != ERR_NONE)
		return err->code;
	with.key_id = credential.key_id;
	with.secret = credential.secret;
	with.token = credential.token;
	signer = signer_take(c->a);
	with.cache = signer == NULL ? NULL : signer->cache;
	rc = sigv4_sign(&unsigned_request, &with, c->arena, &added, err);
	signer_give(signer);
	if (rc != ERR_NONE)
		return rc;
	for (unsigned i = 0; i < added.count; i++)
		outbound_header_add(r, added.headers[i].name, added.headers[i].value);
	return ERR_NONE;
}

static enum err_code prepare(void *ctx, struct outbound_request *r, uint32_t tried, struct arena *arena,
                             struct err *err)
{
	struct call              *c = ctx;
	const struct aws_service *s = c->a->service;

	outbound_header_add(r, BYTES("Host"), outbound_host(c->a->target));
	outbound_header_add(r, BYTES("Content-Type"),
	                    arena_printf(arena, "application/x-amz-json-%s", s->version));
	outbound_header_add(r, BYTES("X-Amz-Target"),
	                    arena_printf(arena, "%s.%s", s->prefix, c->r->operation));
	outbound_header_add(r, BYTES("amz-sdk-invocation-id"), (struct bytes){c->id, ID_TEXT});
	outbound_header_add(
	        r, BYTES("amz-sdk-request"),
	        arena_printf(arena, "attempt=%u; max=%u", tried, outbound_tries_max(c->a->target)));
	return sign(c, r, err);
}

/* ---- clocks ---- */

static bool is_about_time(struct bytes type)
{
	static const char *const names[] = {"InvalidSignatureException",
	                                    "RequestExpired",
	                                    "RequestInTheFuture",
	                                    "RequestTimeTooSkewed",
	                                    "SignatureDoesNotMatch",
	                                    "AuthFailure",
	                                    NULL};

	return is_one_of(type, names);
}

/* (2) */
static bool clock_correct(struct aws *a, const struct aws_answer *answer)
{
	int64_t theirs_s, skew;

	if (!is_about_time(answer->type) ||
	    !date_read_http(outbound_header_get(&answer->http, "date"), &theirs_s))
		return false;
	skew = theirs_s * 1000000 - clock_wall_us(a->clock);
	if (llabs(skew - atomic_load(&a->skew_us)) < (int64_t)AWS_SKEW_MIN_S * 1000000)
		return false;
	atomic_store(&a->skew_us, skew);
	return true;
}

/* ---- calls ---- */

static enum err_code send(struct call *c, struct aws_answer *out, struct err *err)
{
	struct outbound_request r = {.method = BYTES("POST"),
	                             .path = BYTES("/"),
	                             .body = c->r->body,
	                             .repeatable = c->r->repeatable,
	                             .deadline_us = c->r->deadline_us,
	                             .trace = c->r->trace,
	                             .prepare = prepare,
	                             .classify = classify,
	                             .ctx = c};

	if (outbound_call(c->a->target, &r, c->arena, &out->http, err) != ERR_NONE)
		return err->code;
	out->type = aws_error_type(&out->http, c->arena);
	return ERR_NONE;
}

enum err_code aws_call(struct aws *a, const struct aws_request *r, struct arena *arena,
                       struct aws_answer *out, struct err *err)
{
	struct call c = {.a = a, .r = r, .arena = arena};

	*out = (struct aws_answer){0};
	if (!id_make(c.id))
		return err_set(err, ERR_OVERLOADED, "cannot get random bytes from the system");
	if (send(&c, out, err) != ERR_NONE)
		return err->code;
	return clock_correct(a, out) ? send(&c, out, err) : ERR_NONE;
}

/* ---- life ---- */

struct aws *aws_open(const struct aws_service *service, struct outbound *target,
                     struct aws_credentials *credentials, const char *region, struct clock *clock)
{
	struct aws *a = mem_zalloc(sizeof(*a));
	size_t      len = strlen(region) + 1;

	a->service = service;
	a->target = target;
	a->credentials = credentials;
	a->region = memcpy(mem_alloc(len), region, len);
	a->clock = clock;
	for (int i = 0; i < SIGNERS; i++) {
		pthread_mutex_init(&a->signers[i].lock, NULL);
		a->signers[i].cache = sigv4_key_cache_open(HASH_KEY_STABLE); /* of our own keys only */
	}
	return a;
}

void aws_close(struct aws *a)
{
	for (int i = 0; i < SIGNERS; i++) {
		sigv4_key_cache_close(a->signers[i].cache);
		pthread_mutex_destroy(&a->signers[i].lock);
	}
	free(a->region);
	free(a);
}
