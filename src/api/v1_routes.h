/* Routes: which one a path means, and the functions of each, by file. */
#ifndef API_V1_ROUTES_H
#define API_V1_ROUTES_H

#include "api/v1.h"

enum v1_outcome { V1_MATCHED, V1_NO_PATH, V1_OTHER_METHOD, V1_BAD_PATH };

struct v1_match {
	const struct v1_route *route;
	struct bytes           params[V1_PARAMS_MAX]; /* percent-decoded, in the request's arena */
	char                   allowed[64];           /* V1_OTHER_METHOD: for the Allow header */
};

enum v1_outcome v1_match(struct http_request *r, struct v1_match *out);

/* %41 is A; with `plus`, + is a space. False if it is malformed or not UTF-8. */
bool percent_decode(struct arena *a, struct bytes text, bool plus, struct bytes *out);

/* ---- the functions of every route ---- */

#define ROUTE_NAME(name) enum err_code name##_name(struct v1_call *c, struct err *err)

#define ROUTE_FUNCTIONS(name)                                                                                \
	enum err_code name##_decode(struct v1_call *c, struct err *err);                                     \
	enum err_code name##_run(struct v1_call *c, struct err *err);                                        \
	void          name##_encode(struct v1_call *c, struct json_writer *w)

/* v1_attempts.c */
ROUTE_FUNCTIONS(attempt);
ROUTE_FUNCTIONS(attempt_begin);
ROUTE_FUNCTIONS(attempt_finish);
ROUTE_NAME(attempt_finish);
void attempt_committed(struct v1_call *c);

/* v1_check.c */
ROUTE_FUNCTIONS(check_actions);
ROUTE_NAME(check_actions);

/* v1_policies.c */
ROUTE_FUNCTIONS(policy_get);
ROUTE_FUNCTIONS(policy_put);
ROUTE_FUNCTIONS(policy_delete);
void policy_change_committed(struct v1_call *c);

/* v1_limits.c */
ROUTE_FUNCTIONS(allow);
ROUTE_NAME(allow);
ROUTE_FUNCTIONS(refund);
ROUTE_NAME(refund);
ROUTE_FUNCTIONS(limits_top);
void          allow_committed(struct v1_call *c); /* refunds, too */
enum err_code allow_refused(struct v1_call *c, enum err_code rc, struct err *err);

/* v1_hot_keys.c */
ROUTE_FUNCTIONS(hot_keys);

/* v1_ext_authz.c */
ROUTE_FUNCTIONS(ext_authz);
ROUTE_NAME(ext_authz);
void          ext_authz_committed(struct v1_call *c);
enum err_code ext_authz_refused(struct v1_call *c, enum err_code rc, struct err *err);

/* v1_locks.c */
ROUTE_FUNCTIONS(lock_set);
ROUTE_FUNCTIONS(lock_clear);
ROUTE_FUNCTIONS(lock_list);
ROUTE_NAME(lock_list);
ROUTE_FUNCTIONS(unlock);
ROUTE_NAME(unlock);

/* v1_states.c */
ROUTE_FUNCTIONS(state_set);
ROUTE_FUNCTIONS(state_clear);
ROUTE_FUNCTIONS(reset);
ROUTE_NAME(reset);

/* v1_known_devices.c */
ROUTE_FUNCTIONS(devices_list);
ROUTE_FUNCTIONS(device_forget);
ROUTE_FUNCTIONS(devices_forget);

/* v1_users.c */
ROUTE_FUNCTIONS(user_create);
ROUTE_FUNCTIONS(user_get);
ROUTE_FUNCTIONS(user_patch);
ROUTE_FUNCTIONS(user_delete);
ROUTE_FUNCTIONS(user_suspend);
ROUTE_FUNCTIONS(user_revoke);
ROUTE_FUNCTIONS(token_revoke);
ROUTE_NAME(token_revoke);
ROUTE_FUNCTIONS(revoke_all);
ROUTE_FUNCTIONS(revoke_users);
ROUTE_FUNCTIONS(revocation_list);
ROUTE_FUNCTIONS(user_reactivate);
ROUTE_FUNCTIONS(user_lookup);

/* v1_users_import.c */
ROUTE_FUNCTIONS(users_import);
ROUTE_FUNCTIONS(users_export);
enum err_code users_import_refused(struct v1_call *c, enum err_code rc, struct err *err);

/* v1_user_search.c */
ROUTE_FUNCTIONS(user_list);
ROUTE_FUNCTIONS(user_search);
ROUTE_NAME(user_search);
ROUTE_FUNCTIONS(user_counts);
ROUTE_FUNCTIONS(user_count);

/* v1_user_emails.c */
ROUTE_FUNCTIONS(email_list);
ROUTE_FUNCTIONS(email_add);
ROUTE_FUNCTIONS(email_verify);
ROUTE_FUNCTIONS(email_remove);
ROUTE_FUNCTIONS(email_primary);
void user_create_committed(struct v1_call *c);
void email_add_committed(struct v1_call *c);
void email_verify_committed(struct v1_call *c);

/* The `committed` of routes that revoke. */
void revocation_committed(struct v1_call *c);
void revoke_users_committed(struct v1_call *c);

/* The `refused` of routes of users: meters conflicts. */
enum err_code user_conflict(struct v1_call *c, enum err_code rc, struct err *err);

/* v1_sync.c */
ROUTE_FUNCTIONS(sync_user);
ROUTE_FUNCTIONS(sync_event);
void          sync_user_committed(struct v1_call *c);
void          sync_event_committed(struct v1_call *c);
enum err_code sync_event_refused(struct v1_call *c, enum err_code rc, struct err *err); /* triggers, too */

/* v1_sync_letters.c */
ROUTE_FUNCTIONS(letters_list);
ROUTE_FUNCTIONS(letter_get);
ROUTE_FUNCTIONS(letter_delete);
ROUTE_FUNCTIONS(letter_redrive);
void letter_redrive_committed(struct v1_call *c);

/* v1_sync_jobs.c */
ROUTE_FUNCTIONS(reconcile);
ROUTE_FUNCTIONS(letters_redrive);
ROUTE_FUNCTIONS(missing_list);
ROUTE_FUNCTIONS(missing_restore);

/* v1_targets.c */
ROUTE_FUNCTIONS(target_put);
ROUTE_NAME(target_put);
ROUTE_FUNCTIONS(target_get);
ROUTE_FUNCTIONS(targets_list);
ROUTE_FUNCTIONS(target_delete);
ROUTE_FUNCTIONS(target_enable);
ROUTE_FUNCTIONS(target_disable);
ROUTE_FUNCTIONS(target_rotate);
ROUTE_FUNCTIONS(target_seek);
ROUTE_NAME(target_seek);
ROUTE_FUNCTIONS(target_test);
void target_changed_committed(struct v1_call *c);
void target_delete_committed(struct v1_call *c);

/* Its name, from the path: ERR_INVALID. */
enum err_code v1_target_name(struct v1_call *c, struct bytes *out, struct err *err);

/* v1_target_tries.c */
ROUTE_FUNCTIONS(target_tries);
ROUTE_NAME(target_tries);

/* v1_dead_letters.c */
ROUTE_FUNCTIONS(dead_list);
ROUTE_NAME(dead_list);
ROUTE_FUNCTIONS(dead_redrive_all);
ROUTE_NAME(dead_redrive_all);
ROUTE_FUNCTIONS(dead_get);
ROUTE_FUNCTIONS(dead_delete);
ROUTE_FUNCTIONS(dead_redrive);

/* lambda.c */
ROUTE_FUNCTIONS(sync_trigger);
ROUTE_NAME(sync_trigger);
void sync_trigger_committed(struct v1_call *c);

/* v1_tokens.c */
ROUTE_FUNCTIONS(token_verify);
ROUTE_NAME(token_verify);

/* v1_notifications.c */
ROUTE_FUNCTIONS(notify);
ROUTE_FUNCTIONS(broadcast);
ROUTE_NAME(broadcast);
ROUTE_FUNCTIONS(notification_get);
ROUTE_FUNCTIONS(notification_cancel);
ROUTE_FUNCTIONS(notification_list);
void notification_cancel_committed(struct v1_call *c);

/* v1_jobs.c */
ROUTE_FUNCTIONS(job_list);
ROUTE_FUNCTIONS(job_get);
ROUTE_FUNCTIONS(job_cancel);
ROUTE_FUNCTIONS(job_resume);
ROUTE_FUNCTIONS(user_erase);
ROUTE_FUNCTIONS(user_adopt);
void job_cancel_committed(struct v1_call *c);
void job_wake_committed(struct v1_call *c); /* of every route that starts a job */

/* v1_devices.c */
ROUTE_FUNCTIONS(push_register);
ROUTE_FUNCTIONS(push_get);
ROUTE_FUNCTIONS(push_list);
ROUTE_FUNCTIONS(push_deactivate);
ROUTE_FUNCTIONS(push_remove);
ROUTE_FUNCTIONS(push_erase);
void push_register_committed(struct v1_call *c);

/* v1_devices_all.c */
ROUTE_FUNCTIONS(push_broadcast);
ROUTE_NAME(push_broadcast);
ROUTE_FUNCTIONS(push_feedback);
ROUTE_NAME(push_feedback);
ROUTE_FUNCTIONS(push_cleanup);
ROUTE_FUNCTIONS(push_repair);
void push_feedback_committed(struct v1_call *c);

/* v1_events.c */
ROUTE_FUNCTIONS(events_list);
ROUTE_NAME(events_list);

/* v1_consumers.c */
ROUTE_FUNCTIONS(consumer_list);
ROUTE_FUNCTIONS(consumer_put);
ROUTE_NAME(consumer_put);
ROUTE_FUNCTIONS(consumer_get);
ROUTE_FUNCTIONS(consumer_delete);
ROUTE_FUNCTIONS(consumer_seek);
ROUTE_FUNCTIONS(consumer_poll);
ROUTE_NAME(consumer_poll);
ROUTE_FUNCTIONS(consumer_ack);
void consumer_put_committed(struct v1_call *c); /* seek and delete, too */
void consumer_ack_committed(struct v1_call *c);

/* v1_subjects.c */
ROUTE_FUNCTIONS(subject_get);
ROUTE_NAME(subject_get);
ROUTE_FUNCTIONS(subject_sum);
ROUTE_NAME(subject_sum);
ROUTE_FUNCTIONS(subject_explain);
ROUTE_NAME(subject_explain);
ROUTE_FUNCTIONS(subject_lookup);

#endif
