/* Cognito: see cognito.h. */
#include "outbound/cognito.h"

#include "base/buf.h"
#include "json/json.h"
#include "json/write.h"

static const struct aws_service service = {"cognito-idp", "AWSCognitoIdentityProviderService", "1.1"};

struct bytes cognito_region(struct bytes pool)
{
	const char *mark = pool.len == 0 ? NULL : memchr(pool.data, '_', pool.len);

	return (struct bytes){pool.data, mark == NULL ? 0 : (size_t)(mark - pool.data)};
}

/* ---- calls ---- */

static enum err_code open_target(const struct cognito_target *t, struct outbound **out, struct err *err)
{
	struct outbound_options options = {.name = "cognito",
	                                   .url = t->endpoint,
	                                   .ca_file = t->ca_file,
	                                   .allow_private = t->allow_private,
	                                   .calls_max = 1,
	                                   .connect_us = COGNITO_CALL_S * INT64_C(1000000) / 2,
	                                   .attempt_us = COGNITO_CALL_S * INT64_C(1000000),
	                                   .body_bytes_max = COGNITO_ANSWER_BYTES_MAX,
	                                   .circuit = {100, 1000000, 1000000},
	                                   .clock = t->clock};

	return outbound_open(&options, out, err);
}

/* ---- stopping them ---- */

struct under_way {
	struct list      link;
	struct outbound *target;
};

void cognito_calls_init(struct cognito_calls *all)
{
	pthread_mutex_init(&all->lock, NULL);
	list_init(&all->list);
	all->stopping = false;
}

void cognito_calls_release(struct cognito_calls *all)
{
	pthread_mutex_destroy(&all->lock);
}

void cognito_calls_stop(struct cognito_calls *all)
{
	pthread_mutex_lock(&all->lock);
	all->stopping = true;
	for (struct list *l = all->list.next; l != &all->list; l = l->next)
		outbound_stop(LIST_ENTRY(l, struct under_way, link)->target);
	pthread_mutex_unlock(&all->lock);
}

static void call_enter(struct cognito_calls *all, struct under_way *one)
{
	if (all == NULL)
		return;
	pthread_mutex_lock(&all->lock);
	list_push_back(&all->list, &one->link);
	if (all->stopping)
		outbound_stop(one->target);
	pthread_mutex_unlock(&all->lock);
}

static void call_leave(struct cognito_calls *all, struct under_way *one)
{
	if (all == NULL)
		return;
	pthread_mutex_lock(&all->lock);
	list_remove(&one->link);
	pthread_mutex_unlock(&all->lock);
}

/* ---- one call ---- */

/* (2) */
static enum err_code refusal(const struct aws_answer *answer, const char *operation, struct err *err)
{
	struct bytes type = bytes_hold_only(answer->type, "") ? answer->type : BYTES("");

	if (bytes_is(type, "UserNotFoundException"))
		return err_set(err, ERR_NOT_FOUND, "%s: there is no such user", operation);
	switch (aws_retry_kind(answer->http.status, type)) {
	case RETRY_THROTTLED:
		return err_set(err, ERR_THROTTLED, "%s: the provider asks us to slow down", operation);
	case RETRY_TRANSIENT:
		return err_set(err, ERR_OVERLOADED, "%s: the provider answered %d", operation,
		               answer->http.status);
	default:
		return err_set(err, ERR_ACCESS, "%s: the provider answered %d %.*s", operation,
		               answer->http.status, BYTES_ARG(type));
	}
}

static enum err_code parse(struct bytes body, const char *operation, struct arena *a, struct json **out,
                           struct err *err)
{
	struct json_reader *reader = json_reader_open();
	enum err_code       rc = json_read(reader, a, body.len == 0 ? BYTES("{}") : body, out, err);

	json_reader_close(reader);
	if (rc != ERR_NONE || (*out)->type != JSON_OBJECT)
		return err_set(err, ERR_OVERLOADED, "%s: the provider's answer is not a JSON object",
		               operation);
	if (json_get(*out, BYTES("__type")) != NULL) /* a proxy may have lost the status */
		return err_set(err, ERR_OVERLOADED, "%s: the provider's answer is an error", operation);
	return ERR_NONE;
}

static enum err_code call(const struct cognito_target *t, const char *operation, struct bytes body,
                          struct arena *a, struct json **out, struct err *err)
{
	struct aws_request r = {.operation = operation,
	                        .body = body,
	                        .repeatable = true, /* (1) */
	                        .deadline_us = clock_steady_us(t->clock) + COGNITO_CALL_S * INT64_C(1000000),
	                        .trace = t->trace};
	struct under_way   one;
	struct aws        *aws;
	struct aws_answer *answer = arena_alloc(a, sizeof(*answer));
	enum err_code      rc;

	*out = NULL;
	rc = open_target(t, &one.target, err);
	if (rc != ERR_NONE)
		return rc;
	call_enter(t->calls, &one);
	aws = aws_open(&service, one.target, t->credentials, t->region, t->clock);
	rc = aws_call(aws, &r, a, answer, err);
	aws_close(aws);
	call_leave(t->calls, &one);
	outbound_close(one.target);
	if (rc != ERR_NONE)
		return rc;
	if (answer->http.status / 100 != 2)
		return refusal(answer, operation, err);
	return parse(answer->http.body, operation, a, out, err);
}

/* {"UserPoolId": …, and the other members that `more` has. */
static struct bytes request(const struct cognito_target *t, struct arena *a, const char *name,
                            struct bytes value, int limit)
{
	struct json_writer w;
	struct buf         out;

	buf_init(&out, a);
	json_writer_init(&w, &out);
	json_begin_object(&w);
	json_member_text(&w, BYTES("UserPoolId"), bytes_of(t->pool));
	if (limit > 0)
		json_member_i64(&w, BYTES("Limit"), limit);
	json_member_text(&w, bytes_of(name), value);
	json_end_object(&w);
	return buf_bytes(&out);
}

/* ---- answers: what is not as it should be is passed over ---- */

static struct bytes text_of(const struct json *object, const char *name)
{
	const struct json *m = json_get(object, bytes_of(name));

	return json_text(m);
}

static int64_t milliseconds_of(const struct json *object, const char *name)
{
	const struct json *m = json_get(object, bytes_of(name));

	if (m == NULL || (m->type != JSON_INT && m->type != JSON_DOUBLE))
		return 0;
	if (m->type == JSON_INT)
		return json_integer(m) > 0 && json_integer(m) < INT64_MAX / 1000 ? json_integer(m) * 1000 : 0;
	return json_real(m) > 0 && json_real(m) < 1e12 ? (int64_t)(json_real(m) * 1000) : 0;
}

static void user_read(const struct json *user, const char *attributes, struct arena *a,
                      struct cognito_user *out)
{
	const struct json *list = json_get(user, bytes_of(attributes));
	const struct json *enabled = json_get(user, BYTES("Enabled"));
	uint32_t           count = list == NULL || list->type != JSON_ARRAY ? 0 : list->count;

	*out = (struct cognito_user){.name = text_of(user, "Username"),
	                             .modified_ms = milliseconds_of(user, "UserLastModifiedDate"),
	                             .status = text_of(user, "UserStatus")};
	if (json_is(enabled, JSON_BOOL))
		out->disabled = !json_truth(enabled);
	else if (enabled != NULL) /* neither: nothing is known of its status */
		out->status = BYTES("");
	if (count > COGNITO_ATTRIBUTES_MAX)
		count = COGNITO_ATTRIBUTES_MAX;
	out->attributes = arena_array(a, count + 1, sizeof(*out->attributes));
	for (const struct json *m = count == 0 ? NULL : json_children(list);
	     m != NULL && out->attribute_count < count; m = m->next)
		out->attributes[out->attribute_count++] =
		        (struct cognito_value){text_of(m, "Name"), text_of(m, "Value")};
}

enum err_code cognito_list_users(const struct cognito_target *t, struct bytes from, struct arena *a,
                                 struct cognito_page *out, struct err *err)
{
	struct json       *tree;
	const struct json *users;

	*out = (struct cognito_page){0};
	if (call(t, "ListUsers", request(t, a, "PaginationToken", from, COGNITO_PAGE_MAX), a, &tree, err) !=
	    ERR_NONE)
		return err->code;
	users = json_get(tree, BYTES("Users"));
	if (users == NULL || users->type != JSON_ARRAY)
		return err_set(err, ERR_OVERLOADED, "ListUsers: the provider's answer has no Users");
	out->list = arena_array(a, users->count + 1, sizeof(*out->list));
	for (const struct json *m = json_children(users); m != NULL; m = m->next)
		user_read(m, "Attributes", a, &out->list[out->count++]);
	out->next = text_of(tree, "PaginationToken");
	return ERR_NONE;
}

enum err_code cognito_get_user(const struct cognito_target *t, struct bytes name, struct arena *a,
                               struct cognito_user *out, struct err *err)
{
	struct json *tree;

	if (call(t, "AdminGetUser", request(t, a, "Username", name, 0), a, &tree, err) != ERR_NONE)
		return err->code;
	user_read(tree, "UserAttributes", a, out);
	return ERR_NONE;
}

enum err_code cognito_sign_out(const struct cognito_target *t, struct bytes name, struct arena *a,
                               struct err *err)
{
	struct json *tree;

	return call(t, "AdminUserGlobalSignOut", request(t, a, "Username", name, 0), a, &tree, err);
}
