/* Lambda: see lambda.h. */
#include "api/lambda.h"

#include "api/v1_routes.h"
#include "api/v1_sync.h"
#include "service/cognito.h"
#include "service/provider.h"

enum invocation { INVOKE_ANSWERED, INVOKE_EVENT, INVOKE_DRY_RUN };

struct trigger_call {
	struct v1_delivery delivery; /* first */
	enum invocation    type;
	bool               called; /* the function: what fails from here on is its failure */
	struct err         bad;    /* what is wrong with the event; code ERR_NONE: nothing */
};

/* ---- the event ---- */

static struct bytes text_of(const struct json *object, const char *name)
{
	const struct json *m = json_get(object, bytes_of(name));

	return json_text(m);
}

static struct bytes provider_name(const struct providers *all, struct bytes pool)
{
	const struct provider *p = provider_of_pool(all, pool);

	return p == NULL ? pool : p->name;
}

static enum err_code read_event(struct v1_call *c, struct sync_record *q, struct err *err)
{
	const struct json *request = json_get(c->body, BYTES("request"));
	const struct json *attributes = request == NULL ? NULL : json_get(request, BYTES("userAttributes"));
	struct providers  *all = providers_acquire(c->ctx.services);

	if (all != NULL)
		v1_hold(c, &all->base);
	if (!bytes_starts_with(text_of(c->body, "triggerSource"), BYTES("PostConfirmation_")))
		return err_set(err, ERR_INVALID, "triggerSource: must be PostConfirmation_…");
	q->provider = provider_name(all, text_of(c->body, "userPoolId"));
	q->id = q->name = text_of(c->body, "userName");
	q->has_time = true;
	q->time_ms = c->ctx.now_us / 1000;
	if (attributes == NULL || attributes->type != JSON_OBJECT)
		return err_set(err, ERR_INVALID, "request.userAttributes: missing");
	for (const struct json *m = json_children(attributes); m != NULL; m = m->next)
		if (m->type == JSON_STRING)
			cognito_attribute(c->ctx.arena, q, m->name, json_text(m));
	if (!sync_provider_is(q->provider))
		return err_set(err, ERR_INVALID, "userPoolId: missing, or not the id of a pool");
	return cognito_complete(q) ? ERR_NONE
	                           : err_set(err, ERR_INVALID, "request.userAttributes.sub: not an id");
}

/* ---- the function ---- */

/* "name", "name:QUALIFIER", or an ARN that ends like that. */
static bool is_named(struct bytes given, struct bytes name)
{
	static const char arn[] = ":function:";
	struct bytes      rest = given;

	for (size_t i = 0; bytes_starts_with(given, BYTES("arn:")) && i + strlen(arn) <= given.len; i++)
		if (memcmp(given.data + i, arn, strlen(arn)) == 0)
			rest = (struct bytes){given.data + i + strlen(arn), given.len - i - strlen(arn)};
	return bytes_equal(rest, name) ||
	       (rest.len > name.len && bytes_starts_with(rest, name) && rest.data[name.len] == ':');
}

static enum err_code check_name(struct v1_call *c, struct err *err)
{
	struct providers *all = providers_acquire(c->ctx.services);
	struct bytes name = all != NULL && all->function.len > 0 ? all->function : BYTES(PROVIDER_FUNCTION);
	bool         good = is_named(c->params[0], name);

	providers_release(all);
	return good ? ERR_NONE
	            : err_set(err, ERR_NOT_FOUND,
	                      "there is no function of this name here: its name is `function` in the section "
	                      "providers of the identity file, gatehouse-post-confirmation unless set");
}

static enum err_code read_type(struct v1_call *c, enum invocation *out, struct err *err)
{
	static const char *const names[] = {"RequestResponse", "Event", "DryRun"};
	struct bytes             given = http_header_get(c->call.http, "x-amz-invocation-type");

	*out = INVOKE_ANSWERED;
	if (given.data == NULL)
		return ERR_NONE;
	for (int i = 0; i < 3; i++)
		if (bytes_is(given, names[i])) {
			*out = (enum invocation)i;
			return ERR_NONE;
		}
	return err_set(err, ERR_SERIALIZATION,
	               "X-Amz-Invocation-Type: must be RequestResponse, Event or DryRun");
}

/* An event that is not well-formed is the function's failure, which the caller learns once it may call that. */
enum err_code sync_trigger_name(struct v1_call *c, struct err *err)
{
	struct trigger_call *t = v1_request(c, sizeof(*t));

	if (read_type(c, &t->type, err) != ERR_NONE)
		return err->code;
	if (t->type == INVOKE_DRY_RUN)
		return ERR_NONE;
	if (c->body == NULL)
		err_set(&t->bad, ERR_INVALID, "the event is missing");
	else
		read_event(c, &t->delivery.q, &t->bad);
	v1_resource(c, "user", t->delivery.q.id);
	return ERR_NONE;
}

enum err_code sync_trigger_decode(struct v1_call *c, struct err *err)
{
	struct trigger_call *t = c->request;

	c->again = v1_deliver_again;
	if (check_name(c, err) != ERR_NONE)
		return err->code;
	if (t->type == INVOKE_DRY_RUN) {
		c->call.kind = READ;
		return ERR_NONE;
	}
	t->called = true;
	if (t->bad.code != ERR_NONE)
		*err = t->bad;
	return t->bad.code;
}

enum err_code sync_trigger_run(struct v1_call *c, struct err *err)
{
	struct trigger_call *t = c->request;

	return t->type == INVOKE_DRY_RUN ? ERR_NONE : v1_deliver(c, &t->delivery, err);
}

/* The event, as it came. */
void sync_trigger_encode(struct v1_call *c, struct json_writer *w)
{
	json_tree(w, c->body);
}

void sync_trigger_committed(struct v1_call *c)
{
	const struct trigger_call *t = c->request;

	if (t->type != INVOKE_DRY_RUN)
		sync_count(c->ctx.services, t->delivery.r.result.outcome);
}

/* ---- Lambda's answers ---- */

static enum err_code identify(struct call *call, struct err *err)
{
	return auth_identify_lambda(call->http, &call->who, err);
}

/* What Lambda calls them; others are ServiceException, 500. */
static const struct {
	enum err_code code;
	int           status;
	const char   *name;
} lambda_errors[] = {
        {ERR_NOT_FOUND, 404, "ResourceNotFoundException"},
        {ERR_METHOD, 404, "ResourceNotFoundException"},
        {ERR_SERIALIZATION, 400, "InvalidRequestContentException"},
        {ERR_INVALID, 400, "InvalidRequestContentException"},
        {ERR_TOO_LARGE, 413, "RequestTooLargeException"},
        {ERR_ACCESS, 403, "AccessDeniedException"},
        {ERR_ORIGIN, 403, "AccessDeniedException"},
        {ERR_NO_CREDENTIAL, 403, "MissingAuthenticationTokenException"},
        {ERR_SIGNATURE_INCOMPLETE, 403, "IncompleteSignatureException"},
        {ERR_SIGNATURE, 403, "InvalidSignatureException"},
        {ERR_UNKNOWN_KEY, 403, "UnrecognizedClientException"},
        {ERR_THROTTLED, 429, "TooManyRequestsException"},
        {ERR_CALLER_THROTTLED, 429, "TooManyRequestsException"},
};

static void answer_error(struct v1_call *c, enum err_code rc, const struct err *err,
                         struct http_response *out, struct json_writer *w)
{
	const char *name = "ServiceException";

	out->status = 500;
	for (size_t i = 0; i < sizeof(lambda_errors) / sizeof(lambda_errors[0]); i++)
		if (lambda_errors[i].code == rc) {
			out->status = lambda_errors[i].status;
			name = lambda_errors[i].name;
		}
	v1_header(c, BYTES("x-amzn-ErrorType"), bytes_of(name));
	json_begin_object(w);
	json_member_text(w, BYTES("Type"), out->status < 500 ? BYTES("User") : BYTES("Service"));
	json_member_text(w, BYTES("Message"), bytes_of(err->text));
	json_end_object(w);
}

/* The function's own failure. */
static void answer_failure(struct v1_call *c, enum err_code rc, const struct err *err, struct json_writer *w)
{
	v1_header(c, BYTES("X-Amz-Function-Error"), BYTES("Unhandled"));
	json_begin_object(w);
	json_member_text(w, BYTES("errorMessage"), bytes_of(err->text));
	json_member_text(w, BYTES("errorType"), bytes_of(err_v1_type(rc) + strlen(ERR_TYPE_PREFIX)));
	json_end_object(w);
}

/* Has the function been called? Before that, and if the key may not call it, the error is Lambda's. */
static bool was_called(const struct v1_call *c, enum err_code rc)
{
	const struct trigger_call *t = c->request;

	return t != NULL && t->called && rc != ERR_ACCESS && (c->call.admitted || rc == ERR_INVALID);
}

static enum err_code answer(struct call *call, enum err_code rc, struct err *err, struct http_response *out)
{
	static const int           statuses[] = {200, 202, 204};
	struct v1_call            *c = (struct v1_call *)call;
	const struct trigger_call *t = c->request;
	struct buf                *text = api_loop_answer(call->loop);
	struct json_writer         w;

	rc = v1_conclude(c, rc, err);
	c->header_count = 0;
	json_writer_init(&w, text);
	out->status = 200;
	if (rc == ERR_NONE && t->type != INVOKE_ANSWERED)
		out->status = statuses[t->type];
	else if (rc == ERR_NONE)
		c->route->encode(c, &w);
	else if (was_called(c, rc))
		answer_failure(c, rc, err, &w);
	else
		answer_error(c, rc, err, out, &w);
	v1_header(c, BYTES("x-amzn-RequestId"), call->request_id);
	out->content_type = text->len > 0 ? "application/json" : NULL;
	out->body = buf_bytes(text);
	out->headers = c->headers;
	out->header_count = c->header_count;
	return rc;
}

static const struct protocol lambda_protocol = {
        .identify = identify,
        .foresee = v1_foresee,
        .name = v1_name,
        .authorise = v1_authorise,
        .decode = v1_decode,
        .run = v1_run,
        .answer = answer,
        .again = v1_again,
        .label = v1_label,
        .audit = v1_audit,
        .release = v1_release,
};

void lambda_handle(struct api_loop *l, struct http_request *r)
{
	struct v1_match match;

	switch (v1_match(r, &match)) {
	case V1_MATCHED:
		dispatch(&v1_call_begin(l, r, &match, &lambda_protocol)->call);
		break;
	case V1_OTHER_METHOD:
		problem_answer_method(l, r, match.allowed);
		break;
	default:
		problem_answer(l, r, ERR_NOT_FOUND, "unknown path; GET /openapi.yaml lists every call");
		break;
	}
}
