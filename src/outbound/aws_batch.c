/* AWS batch: see aws_batch.h. */
#include "outbound/aws_batch.h"

#include <assert.h>
#include <stdlib.h>

#define SECOND_US INT64_C(1000000)

/* One try: whoever delivers knows when to send again. */
static const struct retry_profile once = {.attempts_max = 1, .quota_max = 1, .cost = 1, .throttled_cost = 1};

/* ---- names of errors ---- */

struct code {
	const char     *name;
	enum sender_end end;
};

/* What AWS documents for SendMessageBatch and PutEvents, for their entries, and for any signed call. */
static const struct code codes[] = {
        {"BatchRequestTooLong", SENDER_REFUSED},
        {"InvalidArgument", SENDER_REFUSED},
        {"InvalidMessageContents", SENDER_REFUSED},
        {"InvalidParameterCombination", SENDER_REFUSED},
        {"InvalidParameterValue", SENDER_REFUSED},
        {"MalformedDetail", SENDER_REFUSED},
        {"MissingParameter", SENDER_REFUSED},
        {"RequestEntityTooLargeException", SENDER_REFUSED},
        {"SerializationException", SENDER_REFUSED},
        {"ValidationError", SENDER_REFUSED},
        {"ValidationException", SENDER_REFUSED},
        {"AccessDenied", SENDER_LATER},
        {"AccessDeniedException", SENDER_LATER},
        {"EventBusDoesNotExist", SENDER_LATER},
        {"ExpiredToken", SENDER_LATER},
        {"ExpiredTokenException", SENDER_LATER},
        {"IncompleteSignature", SENDER_LATER},
        {"IncompleteSignatureException", SENDER_LATER},
        {"InternalError", SENDER_LATER},
        {"InternalException", SENDER_LATER},
        {"InternalFailure", SENDER_LATER},
        {"InternalServerError", SENDER_LATER},
        {"InvalidAction", SENDER_LATER},
        {"InvalidAddress", SENDER_LATER},
        {"InvalidClientTokenId", SENDER_LATER},
        {"InvalidSecurity", SENDER_LATER},
        {"InvalidSignatureException", SENDER_LATER},
        {"KmsAccessDenied", SENDER_LATER},
        {"KmsDisabled", SENDER_LATER},
        {"KmsInvalidKeyUsage", SENDER_LATER},
        {"KmsInvalidState", SENDER_LATER},
        {"KmsNotFound", SENDER_LATER},
        {"KmsOptInRequired", SENDER_LATER},
        {"KmsThrottled", SENDER_LATER},
        {"MissingAuthenticationToken", SENDER_LATER},
        {"MissingAuthenticationTokenException", SENDER_LATER},
        {"NotAuthorizedForDetailTypeException", SENDER_LATER},
        {"NotAuthorizedForSourceException", SENDER_LATER},
        {"OptInRequired", SENDER_LATER},
        {"OverLimit", SENDER_LATER},
        {"QueueDoesNotExist", SENDER_LATER},
        {"RequestExpired", SENDER_LATER},
        {"RequestThrottled", SENDER_LATER},
        {"ResourceNotFoundException", SENDER_LATER},
        {"ServiceUnavailable", SENDER_LATER},
        {"SignatureDoesNotMatch", SENDER_LATER},
        {"Throttling", SENDER_LATER},
        {"ThrottlingException", SENDER_LATER},
        {"TooManyRequestsException", SENDER_LATER},
        {"UnknownOperationException", SENDER_LATER},
        {"UnrecognizedClientException", SENDER_LATER},
        {"UnsupportedOperation", SENDER_LATER},
};

static const struct code *code_find(struct bytes name)
{
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (bytes_is(name, codes[i].name))
			return &codes[i];
	return NULL;
}

void aws_batch_entry_failed(struct sender_event *e, struct bytes name, bool ours)
{
	const struct code *code = code_find(name);

	if (code != NULL)
		sender_result(e, code->end, e->status, "%s", code->name);
	else
		sender_result(e, ours ? SENDER_REFUSED : SENDER_LATER, e->status,
		              "it was refused with an error that Gatehouse does not know");
}

/* ---- answers ---- */

struct bytes aws_text_of(const struct json *object, const char *name)
{
	const struct json *m = json_get(object, bytes_of(name));

	return json_text(m);
}

static void all_end(struct sender_event *const *list, uint32_t count, enum sender_end end, int status,
                    const char *text)
{
	for (uint32_t i = 0; i < count; i++)
		sender_result(list[i], end, status, "%s", text);
}

/* (3) */
static void read_good(const struct aws_batch_kind *kind, const struct outbound_response *http,
                      struct sender_event *const *list, uint32_t count, struct arena *a)
{
	struct json_reader *reader = json_reader_open();
	struct json        *tree;
	struct err          err;

	all_end(list, count, SENDER_LATER, http->status, "the answer leaves this event out");
	if (json_read(reader, a, http->body, &tree, &err) != ERR_NONE || !kind->read(tree, list, count))
		all_end(list, count, SENDER_LATER, http->status, "the answer is not one of this service's");
	json_reader_close(reader);
}

/* The whole call failed. */
static bool read_refusal(const struct aws_answer *answer, struct sender_event *const *list, uint32_t count)
{
	enum { HTTP_TOO_LARGE = 413 };
	const struct code *code = code_find(answer->type);
	int                status = answer->http.status;
	bool content = status == HTTP_TOO_LARGE || (code != NULL && code->end == SENDER_REFUSED);

	for (uint32_t i = 0; i < count; i++) {
		sender_result(list[i], content ? SENDER_REFUSED : SENDER_LATER, status, "%d%s%s", status,
		              code == NULL ? "" : " ", code == NULL ? "" : code->name);
		list[i]->wait_s = content ? 0 : outbound_wait_s(&answer->http);
	}
	return content;
}

bool aws_batch_read(const struct aws_batch_kind *kind, const struct aws_answer *answer,
                    struct sender_event *const *list, uint32_t count, struct arena *a)
{
	if (answer->http.status / 100 != 2)
		return read_refusal(answer, list, count);
	read_good(kind, &answer->http, list, count, a);
	return false;
}

/* ---- calls ---- */

/* The trace of a call is that of its event, if it has only one. */
static bool call(struct aws_batch *b, struct sender_event *const *list, uint32_t count, int64_t deadline_us,
                 struct arena *a)
{
	struct aws_request r = {.operation = b->kind->operation,
	                        .body = b->kind->write(b, list, count, a),
	                        .repeatable = true, /* events have ids: a receiver can tell a repeat */
	                        .deadline_us = deadline_us,
	                        .trace = count == 1 ? list[0]->trace : (struct bytes){"", 0}};
	struct aws_answer *answer = arena_alloc(a, sizeof(*answer));
	struct err         err;

	if (aws_call(b->aws, &r, a, answer, &err) != ERR_NONE) {
		all_end(list, count, SENDER_LATER, 0, err.text);
		return false;
	}
	return aws_batch_read(b->kind, answer, list, count, a);
}

/* (1) */
static bool fits(struct aws_batch *b, struct sender_event *e)
{
	size_t weight = b->kind->weigh(b, e);

	if (weight <= b->kind->event_bytes_max)
		return true;
	sender_result(e, SENDER_REFUSED, 0, "it has %zu bytes, and one event may have %zu at most", weight,
	              b->kind->event_bytes_max);
	return false;
}

void aws_batch_send(struct sender *s, struct sender_event *list, uint32_t count, struct arena *a)
{
	struct aws_batch    *b = (struct aws_batch *)s;
	int64_t              deadline_us = clock_steady_us(b->clock) + b->within_us;
	struct sender_event *fitting[AWS_BATCH_EVENTS_MAX];
	uint32_t             n = 0;

	assert(count <= AWS_BATCH_EVENTS_MAX);
	for (uint32_t i = 0; i < count; i++)
		if (fits(b, &list[i]))
			fitting[n++] = &list[i];
	if (n == 0 || !call(b, fitting, n, deadline_us, a) || n == 1)
		return;
	for (uint32_t i = 0; i < n; i++) /* (2) */
		call(b, &fitting[i], 1, deadline_us, a);
}

void aws_batch_stop(struct sender *s)
{
	outbound_stop(((struct aws_batch *)s)->target);
}

struct bytes aws_trace_header(struct bytes trace, char out[AWS_TRACE_HEADER_CHARS])
{
	enum { TIME_CHARS = 8 };

	if (trace.len != OUTBOUND_TRACE_CHARS)
		return (struct bytes){"", 0};
	memcpy(out, "Root=1-", 7);
	memcpy(out + 7, trace.data, TIME_CHARS);
	out[7 + TIME_CHARS] = '-';
	memcpy(out + 8 + TIME_CHARS, trace.data + TIME_CHARS, OUTBOUND_TRACE_CHARS - TIME_CHARS);
	return (struct bytes){out, AWS_TRACE_HEADER_CHARS};
}

/* ---- life ---- */

/* A key of the target's own, as if it came from an environment that has nothing else. */
static const char *key_get(void *ctx, const char *name)
{
	const struct aws_credential *key = ctx;

	if (strcmp(name, "AWS_ACCESS_KEY_ID") == 0)
		return key->key_id.data;
	if (strcmp(name, "AWS_SECRET_ACCESS_KEY") == 0)
		return key->secret.data;
	return strcmp(name, "AWS_SESSION_TOKEN") == 0 && key->token.len > 0 ? key->token.data : NULL;
}

static bool is_key_text(struct bytes text, size_t max)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] <= ' ' || text.data[i] > '~')
			return false;
	return text.len > 0 && text.len <= max;
}

static enum err_code key_use(struct aws_batch *b, const struct aws_place *p, struct err *err)
{
	struct aws_credential    key;
	const struct environment env = {key_get, &key};

	if (!is_key_text(p->key_id, AWS_SECRET_CHARS_MAX))
		return err_field(err, ERR_INVALID, "accessKeyId",
		                 "must be 1 to %d printable characters without spaces", AWS_SECRET_CHARS_MAX);
	if (!is_key_text(p->secret, AWS_SECRET_CHARS_MAX))
		return err_field(err, ERR_INVALID, "secretAccessKey",
		                 "must be 1 to %d printable characters without spaces", AWS_SECRET_CHARS_MAX);
	if (p->session_token.len > 0 && !is_key_text(p->session_token, CREDENTIALS_TOKEN_BYTES_MAX))
		return err_field(err, ERR_INVALID, "sessionToken",
		                 "must be at most %d printable characters without spaces",
		                 CREDENTIALS_TOKEN_BYTES_MAX);
	key.key_id = arena_printf(&b->arena, "%.*s", BYTES_ARG(p->key_id));
	key.secret = arena_printf(&b->arena, "%.*s", BYTES_ARG(p->secret));
	key.token = arena_printf(&b->arena, "%.*s", BYTES_ARG(p->session_token));
	return aws_credentials_open(&env, p->clock, &b->own, err);
}

static enum err_code region_use(struct aws_batch *b, const struct aws_place *p, struct err *err)
{
	const char  *theirs = p->credentials == NULL ? NULL : aws_credentials_region(p->credentials);
	struct bytes region = p->region;

	if (region.len == 0 && theirs != NULL)
		region = bytes_of(theirs);
	if (region.len == 0)
		return err_field(err, ERR_INVALID, "region",
		                 "is needed: neither the target nor the server's AWS settings have a region");
	if (region.len > AWS_REGION_CHARS_MAX || !bytes_hold_only(region, "-"))
		return err_field(err, ERR_INVALID, "region",
		                 "must be 1 to %d letters, digits and hyphens, like eu-west-1",
		                 AWS_REGION_CHARS_MAX);
	b->region = arena_printf(&b->arena, "%.*s", BYTES_ARG(region)).data;
	return ERR_NONE;
}

static const char *endpoint_of(struct aws_batch *b, struct bytes given)
{
	if (given.len > 0)
		return arena_printf(&b->arena, "%.*s", BYTES_ARG(given)).data;
	return aws_url(&b->arena, b->kind->host, b->region, NULL);
}

static bool ends_with(struct bytes text, struct bytes ending)
{
	return text.len > ending.len &&
	       memcmp(text.data + text.len - ending.len, ending.data, ending.len) == 0;
}

bool aws_endpoint_is_own(struct bytes url)
{
	struct bytes scheme = BYTES("https://");
	struct bytes host = {url.data + scheme.len, url.len - scheme.len};

	return bytes_starts_with(url, scheme) && bytes_hold_only(host, "-.") &&
	       (ends_with(host, BYTES(".amazonaws.com")) || ends_with(host, BYTES(".amazonaws.com.cn")));
}

static enum err_code target_open(struct aws_batch *b, const struct aws_place *p, struct err *err)
{
	struct outbound_options o = {.name = arena_printf(&b->arena, "%s", p->name).data,
	                             .url = endpoint_of(b, p->endpoint),
	                             .ca_file = p->ca_file,
	                             .allow_private = p->allow_private,
	                             .calls_max = p->calls_max,
	                             .waits_max = p->calls_max,
	                             .connect_us = b->within_us / 3,
	                             .attempt_us = b->within_us,
	                             .body_bytes_max = AWS_BATCH_ANSWER_BYTES_MAX,
	                             .retry = &once,
	                             .circuit = {20, SECOND_US, 10 * SECOND_US},
	                             .clock = p->clock};
	struct err              why;

	if (!bytes_starts_with(bytes_of(o.url), BYTES("https://")) && !p->allow_private)
		return err_field(err, ERR_INVALID, "endpoint",
		                 "must begin with https://; http:// needs a server with --private-targets");
	o.allow_private |= aws_endpoint_is_own(bytes_of(o.url));
	if (outbound_open(&o, &b->target, &why) != ERR_NONE)
		return err_field(err, ERR_INVALID, "endpoint", "%s", why.text);
	return ERR_NONE;
}

enum err_code aws_batch_init(struct aws_batch *b, const struct aws_batch_kind *kind,
                             const struct aws_place *place, struct err *err)
{
	bool key = place->key_id.len > 0 || place->secret.len > 0;

	arena_init(&b->arena);
	b->kind = kind;
	b->clock = place->clock;
	b->within_us = place->within_us > 0 ? place->within_us : AWS_BATCH_SEND_S * SECOND_US;
	if (!key && place->credentials == NULL)
		return err_field(err, ERR_INVALID, "accessKeyId",
		                 "is needed: the server has no AWS credentials of its own");
	if ((key && key_use(b, place, err) != ERR_NONE) || region_use(b, place, err) != ERR_NONE ||
	    target_open(b, place, err) != ERR_NONE)
		return err->code;
	b->aws = aws_open(&kind->service, b->target, key ? b->own : place->credentials, b->region, b->clock);
	return ERR_NONE;
}

void aws_batch_release(struct aws_batch *b)
{
	if (b->aws != NULL)
		aws_close(b->aws);
	if (b->target != NULL)
		outbound_close(b->target);
	if (b->own != NULL)
		aws_credentials_close(b->own);
	arena_release(&b->arena);
}
