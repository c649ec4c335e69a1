/* The routes of /v1: one table, read by the dispatcher, the metrics, and the test that says every route is
 * documented and has a test; and which row a path means. */
#include "api/v1_routes.h"

#include <stdio.h>

#include "api/v1_name.h"
#include "service/policy_store.h"
#include "service/user_import.h"

enum {
	BODY = V1_BODY_BYTES_MAX,
	NO_BODY = 0,
	POLICY_BODY = POLICY_DOCUMENT_BYTES_MAX,
	IMPORT_BODY = IMPORT_BODY_BYTES_MAX,
};

#define FUNCTIONS(name) name##_decode, name##_run, name##_encode

/* Those asked most come first: the table is searched from its top. */
static const struct v1_route routes[] = {
        {HTTP_POST, "/v1/attempts", WRITE, "RecordAttempt", BODY, "enforce", v1_name_journey,
         FUNCTIONS(attempt), attempt_committed, NULL},
        {HTTP_POST, "/v1/attempts/begin", WRITE, "BeginAttempt", BODY, "enforce", v1_name_journey,
         FUNCTIONS(attempt_begin), attempt_committed, NULL},
        {HTTP_POST, "/v1/attempts/finish", WRITE, "FinishAttempt", BODY, "enforce", attempt_finish_name,
         FUNCTIONS(attempt_finish), attempt_committed, NULL},
        {HTTP_POST, "/v1/check", READ, "Check", BODY, "enforce", check_actions_name, FUNCTIONS(check_actions),
         NULL, NULL},
        {HTTP_POST, "/v1/allow", WRITE, "Allow", BODY, "enforce", allow_name, FUNCTIONS(allow),
         allow_committed, allow_refused},
        {HTTP_POST, "/v1/refund", WRITE, "Refund", BODY, "", refund_name, FUNCTIONS(refund), allow_committed,
         allow_refused},
        {HTTP_OTHER, "/v1/authz/{*}", WRITE, "Authorize", V1_BODY_IGNORED, V1_QUERY_ANY, ext_authz_name,
         FUNCTIONS(ext_authz), ext_authz_committed, ext_authz_refused},
        {HTTP_POST, "/v1/tokens/verify", READ, "VerifyToken", BODY, "enforce", token_verify_name,
         FUNCTIONS(token_verify), NULL, NULL},
        {HTTP_GET, "/v1/locks", READ, "ListLocks", NO_BODY, "journey name limit cursor", lock_list_name,
         FUNCTIONS(lock_list), NULL, NULL},
        {HTTP_POST, "/v1/unlock", ADMINISTER, "Unlock", BODY, "", unlock_name, FUNCTIONS(unlock), NULL, NULL},
        {HTTP_PUT, "/v1/subjects/{id}/locks/{journey}/{name}", ADMINISTER, "SetLock", BODY, "", v1_name_lock,
         FUNCTIONS(lock_set), NULL, NULL},
        {HTTP_DELETE, "/v1/subjects/{id}/locks/{journey}/{name}", ADMINISTER, "ClearLock", NO_BODY,
         "qualifier", v1_name_lock, FUNCTIONS(lock_clear), NULL, NULL},
        {HTTP_PUT, "/v1/subjects/{id}/states/{family}", ADMINISTER, "SetState", BODY, "", v1_name_state,
         FUNCTIONS(state_set), NULL, NULL},
        {HTTP_DELETE, "/v1/subjects/{id}/states/{family}", ADMINISTER, "ClearState", NO_BODY, "",
         v1_name_state, FUNCTIONS(state_clear), NULL, NULL},
        {HTTP_POST, "/v1/subjects/{id}/reset", ADMINISTER, "ResetSubject", BODY, "", reset_name,
         FUNCTIONS(reset), NULL, NULL},
        {HTTP_POST, "/v1/subjects/lookup", READ, "LookupSubject", BODY, "", NULL, FUNCTIONS(subject_lookup),
         NULL, NULL},
        {HTTP_GET, "/v1/subjects/{id}", READ, "GetSubject", NO_BODY, "prefix", subject_get_name,
         FUNCTIONS(subject_get), NULL, NULL},
        {HTTP_GET, "/v1/subjects/{id}/sum", READ, "SumCounts", NO_BODY, "prefix", subject_sum_name,
         FUNCTIONS(subject_sum), NULL, NULL},
        {HTTP_GET, "/v1/subjects/{id}/explain", READ, "ExplainSubject", NO_BODY, "", subject_explain_name,
         FUNCTIONS(subject_explain), NULL, NULL},
        {HTTP_GET, "/v1/subjects/{id}/known-devices", READ, "ListKnownDevices", NO_BODY, "",
         v1_name_every_journey, FUNCTIONS(devices_list), NULL, NULL},
        {HTTP_DELETE, "/v1/subjects/{id}/known-devices/{device}", ADMINISTER, "ForgetKnownDevice", NO_BODY,
         "", v1_name_every_journey, FUNCTIONS(device_forget), NULL, NULL},
        {HTTP_DELETE, "/v1/subjects/{id}/known-devices", ADMINISTER, "ForgetKnownDevices", NO_BODY, "",
         v1_name_every_journey, FUNCTIONS(devices_forget), NULL, NULL},
        {HTTP_GET, "/v1/policies/{name}", READ, "GetPolicies", NO_BODY, "version", v1_name_policy,
         FUNCTIONS(policy_get), NULL, NULL},
        {HTTP_PUT, "/v1/policies/{name}", ADMINISTER, "PutPolicies", POLICY_BODY, "force", v1_name_policy,
         FUNCTIONS(policy_put), policy_change_committed, NULL},
        {HTTP_DELETE, "/v1/policies/{name}", ADMINISTER, "DeletePolicies", NO_BODY, "force", v1_name_policy,
         FUNCTIONS(policy_delete), policy_change_committed, NULL},
        {HTTP_POST, "/v1/users", ADMINISTER, "CreateUser", BODY, "enforce", v1_name_new_user,
         FUNCTIONS(user_create), user_create_committed, user_conflict},
        {HTTP_GET, "/v1/users", READ, "ListUsers", NO_BODY,
         "limit cursor status provider created_from created_before", NULL, FUNCTIONS(user_list), NULL, NULL},
        {HTTP_POST, "/v1/users/search", READ, "SearchUsers", BODY, "", user_search_name,
         FUNCTIONS(user_search), NULL, NULL},
        {HTTP_GET, "/v1/user-counts", READ, "GetUserCounts", NO_BODY, "", v1_name_everything,
         FUNCTIONS(user_counts), NULL, NULL},
        {HTTP_POST, "/v1/user-counts", ADMINISTER, "CountUsers", BODY, "", v1_name_everything,
         FUNCTIONS(user_count), job_wake_committed, NULL},
        {HTTP_POST, "/v1/users/lookup", READ, "LookupUser", BODY, "", NULL, FUNCTIONS(user_lookup), NULL,
         NULL},
        {HTTP_POST, "/v1/users/import", ADMINISTER, "ImportUsers", IMPORT_BODY, "", NULL,
         FUNCTIONS(users_import), NULL, users_import_refused},
        {HTTP_POST, "/v1/users/export", READ, "ExportUsers", BODY, "", NULL, FUNCTIONS(users_export), NULL,
         NULL},
        {HTTP_GET, "/v1/users/{id}", READ, "GetUser", NO_BODY, "", v1_name_user, FUNCTIONS(user_get), NULL,
         NULL},
        {HTTP_PATCH, "/v1/users/{id}", ADMINISTER, "UpdateUser", BODY, "", v1_name_user,
         FUNCTIONS(user_patch), NULL, user_conflict},
        {HTTP_DELETE, "/v1/users/{id}", ADMINISTER, "DeleteUser", NO_BODY, "", v1_name_user,
         FUNCTIONS(user_delete), NULL, NULL},
        {HTTP_POST, "/v1/users/{id}/suspend", ADMINISTER, "SuspendUser", BODY, "", v1_name_user,
         FUNCTIONS(user_suspend), NULL, NULL},
        {HTTP_POST, "/v1/users/{id}/reactivate", ADMINISTER, "ReactivateUser", BODY, "", v1_name_user,
         FUNCTIONS(user_reactivate), NULL, NULL},
        {HTTP_POST, "/v1/users/adopt", ADMINISTER, "AdoptUsers", BODY, "", v1_name_everything,
         FUNCTIONS(user_adopt), job_wake_committed, NULL},
        {HTTP_POST, "/v1/users/{id}/erase", ADMINISTER, "EraseUser", NO_BODY, "", v1_name_user,
         FUNCTIONS(user_erase), job_wake_committed, NULL},
        {HTTP_POST, "/v1/users/{id}/revoke-tokens", ADMINISTER, "RevokeUserTokens", BODY, "", v1_name_user,
         FUNCTIONS(user_revoke), revocation_committed, NULL},
        {HTTP_POST, "/v1/tokens/revoke", ADMINISTER, "RevokeToken", BODY, "", token_revoke_name,
         FUNCTIONS(token_revoke), revocation_committed, NULL},
        {HTTP_POST, "/v1/revoke-all", ADMINISTER, "RevokeAllTokens", BODY, "", v1_name_everything,
         FUNCTIONS(revoke_all), revocation_committed, NULL},
        {HTTP_POST, "/v1/revoke-users", ADMINISTER, "RevokeUsers", BODY, "", v1_name_everything,
         FUNCTIONS(revoke_users), revoke_users_committed, NULL},
        {HTTP_GET, "/v1/revocations", READ, "ListRevocations", NO_BODY, "kind limit cursor", NULL,
         FUNCTIONS(revocation_list), NULL, NULL},
        {HTTP_GET, "/v1/users/{id}/emails", READ, "ListEmails", NO_BODY, "", v1_name_user,
         FUNCTIONS(email_list), NULL, NULL},
        {HTTP_POST, "/v1/users/{id}/emails", ADMINISTER, "AddEmail", BODY, "enforce", v1_name_user,
         FUNCTIONS(email_add), email_add_committed, user_conflict},
        {HTTP_POST, "/v1/users/{id}/emails/{email_id}/verify", ADMINISTER, "VerifyEmail", BODY, "enforce",
         v1_name_user, FUNCTIONS(email_verify), email_verify_committed, NULL},
        {HTTP_DELETE, "/v1/users/{id}/emails/{email_id}", ADMINISTER, "RemoveEmail", NO_BODY, "",
         v1_name_user, FUNCTIONS(email_remove), NULL, NULL},
        {HTTP_PUT, "/v1/users/{id}/primary-email", ADMINISTER, "SetPrimaryEmail", BODY, "", v1_name_user,
         FUNCTIONS(email_primary), NULL, user_conflict},
        {HTTP_POST, "/v1/sync/users", ADMINISTER, "SyncUser", BODY, "", v1_name_record, FUNCTIONS(sync_user),
         sync_user_committed, NULL},
        {HTTP_POST, "/v1/sync/events", ADMINISTER, "SyncEvent", BODY, "", v1_name_record,
         FUNCTIONS(sync_event), sync_event_committed, sync_event_refused},
        {HTTP_POST, "/2015-03-31/functions/{name}/invocations", ADMINISTER, "SyncTrigger", BODY, V1_QUERY_ANY,
         sync_trigger_name, FUNCTIONS(sync_trigger), sync_trigger_committed, sync_event_refused},
        {HTTP_GET, "/v1/events", READ, "ReadEvents", NO_BODY, "after from types subject limit wait named",
         events_list_name, FUNCTIONS(events_list), NULL, NULL},
        {HTTP_POST, "/v1/consumers/{name}/poll", WRITE, "PollConsumer", BODY, "", consumer_poll_name,
         FUNCTIONS(consumer_poll), NULL, NULL},
        {HTTP_POST, "/v1/consumers/{name}/ack", WRITE, "AckConsumer", BODY, "", v1_name_consumer,
         FUNCTIONS(consumer_ack), consumer_ack_committed, NULL},
        {HTTP_POST, "/v1/consumers/{name}/seek", ADMINISTER, "SeekConsumer", BODY, "", v1_name_consumer,
         FUNCTIONS(consumer_seek), consumer_put_committed, NULL},
        {HTTP_GET, "/v1/consumers", READ, "ListConsumers", NO_BODY, "", NULL, FUNCTIONS(consumer_list), NULL,
         NULL},
        {HTTP_PUT, "/v1/consumers/{name}", ADMINISTER, "PutConsumer", BODY, "", consumer_put_name,
         FUNCTIONS(consumer_put), consumer_put_committed, NULL},
        {HTTP_GET, "/v1/consumers/{name}", READ, "GetConsumer", NO_BODY, "", v1_name_consumer,
         FUNCTIONS(consumer_get), NULL, NULL},
        {HTTP_DELETE, "/v1/consumers/{name}", ADMINISTER, "DeleteConsumer", NO_BODY, "", v1_name_consumer,
         FUNCTIONS(consumer_delete), consumer_put_committed, NULL},
        {HTTP_GET, "/v1/sync/dead-letters", READ, "ListSyncDeadLetters", NO_BODY, "error limit cursor", NULL,
         FUNCTIONS(letters_list), NULL, NULL},
        {HTTP_POST, "/v1/sync/dead-letters/redrive", ADMINISTER, "RedriveSyncDeadLetters", BODY, "",
         v1_name_everything, FUNCTIONS(letters_redrive), job_wake_committed, NULL},
        {HTTP_POST, "/v1/sync/reconcile", ADMINISTER, "Reconcile", BODY, "", v1_name_everything,
         FUNCTIONS(reconcile), job_wake_committed, NULL},
        {HTTP_GET, "/v1/sync/missing", READ, "ListSyncMissing", NO_BODY, "limit cursor", NULL,
         FUNCTIONS(missing_list), NULL, NULL},
        {HTTP_POST, "/v1/sync/missing/restore", ADMINISTER, "RestoreSyncMissing", BODY, "",
         v1_name_everything, FUNCTIONS(missing_restore), job_wake_committed, NULL},
        {HTTP_GET, "/v1/sync/dead-letters/{provider}/{id}", READ, "GetSyncDeadLetter", NO_BODY, "",
         v1_name_letter, FUNCTIONS(letter_get), NULL, NULL},
        {HTTP_DELETE, "/v1/sync/dead-letters/{provider}/{id}", ADMINISTER, "DeleteSyncDeadLetter", NO_BODY,
         "", v1_name_letter, FUNCTIONS(letter_delete), NULL, NULL},
        {HTTP_POST, "/v1/sync/dead-letters/{provider}/{id}/redrive", ADMINISTER, "RedriveSyncDeadLetter",
         NO_BODY, "", v1_name_letter, FUNCTIONS(letter_redrive), letter_redrive_committed, NULL},
        {HTTP_POST, "/v1/users/{id}/notify", ADMINISTER, "NotifyUser", BODY, "", v1_name_user,
         FUNCTIONS(notify), NULL, NULL},
        {HTTP_POST, "/v1/notifications", ADMINISTER, "Broadcast", BODY, "", broadcast_name,
         FUNCTIONS(broadcast), job_wake_committed, NULL},
        {HTTP_GET, "/v1/notifications", READ, "ListNotifications", NO_BODY, "limit cursor", NULL,
         FUNCTIONS(notification_list), NULL, NULL},
        {HTTP_GET, "/v1/notifications/{id}", READ, "GetNotification", NO_BODY, "", v1_name_notification,
         FUNCTIONS(notification_get), NULL, NULL},
        {HTTP_POST, "/v1/notifications/{id}/cancel", ADMINISTER, "CancelNotification", NO_BODY, "",
         v1_name_notification, FUNCTIONS(notification_cancel), notification_cancel_committed, NULL},
        {HTTP_GET, "/v1/jobs", READ, "ListJobs", NO_BODY, "kind state limit cursor", NULL,
         FUNCTIONS(job_list), NULL, NULL},
        {HTTP_GET, "/v1/jobs/{id}", READ, "GetJob", NO_BODY, "", v1_name_job, FUNCTIONS(job_get), NULL, NULL},
        {HTTP_POST, "/v1/jobs/{id}/cancel", ADMINISTER, "CancelJob", NO_BODY, "", v1_name_job,
         FUNCTIONS(job_cancel), job_cancel_committed, NULL},
        {HTTP_POST, "/v1/jobs/{id}/resume", ADMINISTER, "ResumeJob", NO_BODY, "", v1_name_job,
         FUNCTIONS(job_resume), job_wake_committed, NULL},
        {HTTP_PUT, "/v1/users/{id}/devices/{device}", WRITE, "RegisterDevice", BODY, "", v1_name_user,
         FUNCTIONS(push_register), push_register_committed, NULL},
        {HTTP_GET, "/v1/users/{id}/devices/{device}", READ, "GetDevice", NO_BODY, "", v1_name_user,
         FUNCTIONS(push_get), NULL, NULL},
        {HTTP_GET, "/v1/users/{id}/devices", READ, "ListDevices", NO_BODY, "include limit cursor",
         v1_name_user, FUNCTIONS(push_list), NULL, NULL},
        {HTTP_POST, "/v1/users/{id}/devices/{device}/deactivate", ADMINISTER, "DeactivateDevice", NO_BODY, "",
         v1_name_user, FUNCTIONS(push_deactivate), NULL, NULL},
        {HTTP_DELETE, "/v1/users/{id}/devices/{device}", ADMINISTER, "DeleteDevice", NO_BODY, "",
         v1_name_user, FUNCTIONS(push_remove), NULL, NULL},
        {HTTP_DELETE, "/v1/users/{id}/devices", ADMINISTER, "EraseDevices", NO_BODY, "", v1_name_user,
         FUNCTIONS(push_erase), job_wake_committed, NULL},
        {HTTP_GET, "/v1/devices", READ, "ListPlatformDevices", NO_BODY, "platform limit cursor",
         push_broadcast_name, FUNCTIONS(push_broadcast), NULL, NULL},
        {HTTP_POST, "/v1/devices/cleanup", ADMINISTER, "CleanUpDevices", BODY, "", v1_name_everything,
         FUNCTIONS(push_cleanup), job_wake_committed, NULL},
        {HTTP_POST, "/v1/devices/repair", ADMINISTER, "RepairDevices", BODY, "", v1_name_everything,
         FUNCTIONS(push_repair), job_wake_committed, NULL},
        {HTTP_POST, "/v1/devices/feedback", WRITE, "ReportPushFeedback", BODY, "", push_feedback_name,
         FUNCTIONS(push_feedback), push_feedback_committed, NULL},
        {HTTP_GET, "/v1/targets", READ, "ListTargets", NO_BODY, "", NULL, FUNCTIONS(targets_list), NULL,
         NULL},
        {HTTP_PUT, "/v1/targets/{name}", ADMINISTER, "PutTarget", BODY, "", target_put_name,
         FUNCTIONS(target_put), target_changed_committed, NULL},
        {HTTP_GET, "/v1/targets/{name}", READ, "GetTarget", NO_BODY, "", v1_name_target,
         FUNCTIONS(target_get), NULL, NULL},
        {HTTP_GET, "/v1/targets/{name}/tries", READ, "ListTargetTries", NO_BODY, "", target_tries_name,
         FUNCTIONS(target_tries), NULL, NULL},
        {HTTP_DELETE, "/v1/targets/{name}", ADMINISTER, "DeleteTarget", NO_BODY, "", v1_name_target,
         FUNCTIONS(target_delete), target_delete_committed, NULL},
        {HTTP_POST, "/v1/targets/{name}/enable", ADMINISTER, "EnableTarget", NO_BODY, "", v1_name_target,
         FUNCTIONS(target_enable), target_changed_committed, NULL},
        {HTTP_POST, "/v1/targets/{name}/disable", ADMINISTER, "DisableTarget", NO_BODY, "", v1_name_target,
         FUNCTIONS(target_disable), target_changed_committed, NULL},
        {HTTP_POST, "/v1/targets/{name}/rotate-secret", ADMINISTER, "RotateTargetSecret", BODY, "",
         v1_name_target, FUNCTIONS(target_rotate), target_changed_committed, NULL},
        {HTTP_POST, "/v1/targets/{name}/seek", ADMINISTER, "SeekTarget", BODY, "", target_seek_name,
         FUNCTIONS(target_seek), target_changed_committed, NULL},
        {HTTP_POST, "/v1/targets/{name}/test", ADMINISTER, "TestTarget", NO_BODY, "", v1_name_target,
         FUNCTIONS(target_test), NULL, NULL},
        {HTTP_GET, "/v1/dead-letters", READ, "ListDeadLetters", NO_BODY, "target type subject limit cursor",
         dead_list_name, FUNCTIONS(dead_list), NULL, NULL},
        {HTTP_POST, "/v1/dead-letters/redrive", ADMINISTER, "RedriveDeadLetters", BODY, "",
         dead_redrive_all_name, FUNCTIONS(dead_redrive_all), job_wake_committed, NULL},
        {HTTP_GET, "/v1/dead-letters/{target}/{id}", READ, "GetDeadLetter", NO_BODY, "", v1_name_target,
         FUNCTIONS(dead_get), NULL, NULL},
        {HTTP_DELETE, "/v1/dead-letters/{target}/{id}", ADMINISTER, "DeleteDeadLetter", NO_BODY, "",
         v1_name_target, FUNCTIONS(dead_delete), NULL, NULL},
        {HTTP_POST, "/v1/dead-letters/{target}/{id}/redrive", ADMINISTER, "RedriveDeadLetter", NO_BODY, "",
         v1_name_target, FUNCTIONS(dead_redrive), target_changed_committed, NULL},
        {HTTP_GET, "/v1/hot-keys", READ, "ListHotKeys", NO_BODY, "max", v1_name_everything,
         FUNCTIONS(hot_keys), NULL, NULL},
        {HTTP_GET, "/v1/limits/top", READ, "ListTopLimits", NO_BODY, "max", NULL, FUNCTIONS(limits_top), NULL,
         NULL},
};

enum { ROUTE_COUNT = sizeof(routes) / sizeof(routes[0]) };

const struct v1_route *v1_route_at(unsigned index)
{
	return index < ROUTE_COUNT ? &routes[index] : NULL;
}

unsigned v1_route_index(const struct v1_route *route)
{
	return (unsigned)(route - routes);
}

/* ---- matching: down the table, the first pattern that fits ----
 *
 * Parameters are taken as they came and decoded afterwards, so that an id may hold an encoded slash. */

bool percent_decode(struct arena *a, struct bytes text, bool plus, struct bytes *out)
{
	char  *to = arena_alloc(a, text.len + 1);
	size_t len = 0;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (c == '%') {
			if (text.len - i < 3 || hex_digit(text.data[i + 1]) < 0 ||
			    hex_digit(text.data[i + 2]) < 0)
				return false;
			c = (char)(hex_digit(text.data[i + 1]) * 16 + hex_digit(text.data[i + 2]));
			i += 2;
		} else if (c == '+' && plus) {
			c = ' ';
		}
		to[len++] = c;
	}
	*out = (struct bytes){to, len};
	return bytes_is_utf8(*out);
}

#define WHATEVER "{*}"

/* The text from `at` up to the next slash. */
static struct bytes segment_at(struct bytes path, size_t at)
{
	const char *start = path.data + at, *slash = memchr(start, '/', path.len - at);

	return (struct bytes){start, slash == NULL ? path.len - at : (size_t)(slash - start)};
}

/* One walk along both, which nearly always ends after a few bytes. One slash after the end is forgiven. */
static bool path_fits(const char *pattern, struct bytes path, struct bytes params[V1_PARAMS_MAX])
{
	size_t at = 0;

	for (size_t count = 0;; count++) {
		while (*pattern != '\0' && *pattern != '{' && at < path.len && path.data[at] == *pattern) {
			pattern++;
			at++;
		}
		if (*pattern != '{')
			break;
		if (strcmp(pattern, WHATEVER) == 0)
			return true;
		if (at == path.len || path.data[at] == '/' || count == V1_PARAMS_MAX)
			return false;
		params[count] = segment_at(path, at);
		at += params[count].len;
		pattern = strchr(pattern, '}') + 1;
	}
	if (at == path.len)
		return *pattern == '\0' || strcmp(pattern, "/" WHATEVER) == 0;
	return *pattern == '\0' && path.data[at] == '/' && at + 1 == path.len;
}

static bool params_decode(struct http_request *r, struct bytes params[V1_PARAMS_MAX])
{
	for (int i = 0; i < V1_PARAMS_MAX; i++)
		if (params[i].data != NULL && !percent_decode(&r->arena, params[i], false, &params[i]))
			return false;
	return true;
}

static void allowed_write(unsigned methods, char *out, size_t len)
{
	static const struct {
		enum http_method method;
		const char      *name;
	} names[] = {{HTTP_GET, "GET, HEAD"},
	             {HTTP_POST, "POST"},
	             {HTTP_PUT, "PUT"},
	             {HTTP_DELETE, "DELETE"},
	             {HTTP_PATCH, "PATCH"}};
	size_t at = 0;

	out[0] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (methods >> names[i].method & 1)
			at += (size_t)snprintf(out + at, len - at, "%s%s", at > 0 ? ", " : "", names[i].name);
}

enum v1_outcome v1_match(struct http_request *r, struct v1_match *out)
{
	enum http_method       method = r->method == HTTP_HEAD ? HTTP_GET : r->method;
	const struct v1_route *route;
	unsigned               methods = 0;

	for (unsigned i = 0; (route = v1_route_at(i)) != NULL; i++) {
		memset(out->params, 0, sizeof(out->params));
		if (!path_fits(route->path, r->path, out->params))
			continue;
		if (route->method == method || route->method == HTTP_OTHER) {
			out->route = route;
			return params_decode(r, out->params) ? V1_MATCHED : V1_BAD_PATH;
		}
		methods |= 1u << route->method;
	}
	if (methods == 0)
		return V1_NO_PATH;
	allowed_write(methods, out->allowed, sizeof(out->allowed));
	return V1_OTHER_METHOD;
}

/* ---- the query ---- */

/* As it is written, before anything is decoded; `value` has no data if there is no equals sign. */
struct parameter {
	struct bytes name, value;
};

/* Takes the first one off the query; false at its end. Empty ones (a=1&&b=2) are passed over. */
static bool parameter_next(struct bytes *rest, struct parameter *out)
{
	while (rest->len > 0) {
		const char  *end = memchr(rest->data, '&', rest->len);
		struct bytes pair = {rest->data, end == NULL ? rest->len : (size_t)(end - rest->data)};
		const char  *equals = memchr(pair.data, '=', pair.len);

		*rest = end == NULL ? (struct bytes){NULL, 0}
		                    : (struct bytes){end + 1, rest->len - pair.len - 1};
		if (pair.len == 0)
			continue;
		out->name =
		        (struct bytes){pair.data, equals == NULL ? pair.len : (size_t)(equals - pair.data)};
		out->value =
		        equals == NULL ? BYTES("") : (struct bytes){equals + 1, pair.len - out->name.len - 1};
		return true;
	}
	return false;
}

/* Is it one of the words of a list like "journey name"? */
static bool is_listed(const char *words, struct bytes name)
{
	for (const char *at = words; *at != '\0';) {
		size_t len = strcspn(at, " ");

		if (len == name.len && memcmp(at, name.data, len) == 0)
			return true;
		at += len + (at[len] == ' ');
	}
	return false;
}

static bool comes_again(struct bytes rest, struct bytes name)
{
	struct parameter other;

	while (parameter_next(&rest, &other))
		if (bytes_equal(other.name, name))
			return true;
	return false;
}

/* A misspelt filter must not list everything, nor ?dryrun=1 do what it should only show. */
enum err_code v1_query_check(struct v1_call *c, const char *known, struct err *err)
{
	struct bytes     rest = c->call.http->query;
	struct parameter p;
	char             name[ERR_FIELD_MAX / 2];

	while (parameter_next(&rest, &p)) {
		snprintf(name, sizeof(name), "%.*s", BYTES_ARG(p.name));
		if (!is_listed(known, p.name))
			return err_field(err, ERR_INVALID, name,
			                 "?%s: unknown query parameter; this call %s%s", name,
			                 known[0] == '\0' ? "takes none" : "takes: ", known);
		if (comes_again(rest, p.name))
			return err_field(err, ERR_INVALID, name, "?%s: given twice", name);
	}
	return ERR_NONE;
}

enum err_code v1_query(struct v1_call *c, const char *name, struct bytes *out, struct err *err)
{
	struct bytes     rest = c->call.http->query;
	struct parameter p;

	*out = (struct bytes){NULL, 0};
	while (parameter_next(&rest, &p)) {
		if (!bytes_is(p.name, name))
			continue;
		if (percent_decode(c->ctx.arena, p.value, true, out))
			return ERR_NONE;
		return err_field(err, ERR_INVALID, name, "?%s: not valid percent-encoding", name);
	}
	return ERR_NONE;
}
