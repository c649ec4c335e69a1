/* The functions of every route, by file. */
#ifndef API_V1_ROUTES_H
#define API_V1_ROUTES_H

#include "api/v1.h"

#define ROUTE_FUNCTIONS(name)                                                                                \
	enum err_code name##_decode(struct v1_call *c, struct err *err);                                     \
	enum err_code name##_run(struct v1_call *c, struct err *err);                                        \
	void          name##_encode(struct v1_call *c, struct json_writer *w)

/* attempts.c */
ROUTE_FUNCTIONS(attempt);
ROUTE_FUNCTIONS(attempt_begin);
ROUTE_FUNCTIONS(attempt_finish);
void attempt_committed(struct v1_call *c);

/* check.c */
ROUTE_FUNCTIONS(check_actions);

/* policies.c */
ROUTE_FUNCTIONS(policy_get);
ROUTE_FUNCTIONS(policy_put);
ROUTE_FUNCTIONS(policy_delete);
void policy_change_committed(struct v1_call *c);

/* limits.c */
ROUTE_FUNCTIONS(allow);
ROUTE_FUNCTIONS(refund);
ROUTE_FUNCTIONS(limits_top);
void          allow_committed(struct v1_call *c); /* refunds, too */
enum err_code allow_refused(struct v1_call *c, enum err_code rc, struct err *err);

/* authz.c */
ROUTE_FUNCTIONS(authz);
enum err_code authz_refused(struct v1_call *c, enum err_code rc, struct err *err);

/* locks.c, lock_list.c, unlock.c */
ROUTE_FUNCTIONS(lock_set);
ROUTE_FUNCTIONS(lock_clear);
ROUTE_FUNCTIONS(lock_list);
ROUTE_FUNCTIONS(unlock);

/* states.c, reset.c */
ROUTE_FUNCTIONS(state_set);
ROUTE_FUNCTIONS(state_clear);
ROUTE_FUNCTIONS(reset);

/* known_devices.c */
ROUTE_FUNCTIONS(devices_list);
ROUTE_FUNCTIONS(device_forget);
ROUTE_FUNCTIONS(devices_forget);

/* subjects.c */
ROUTE_FUNCTIONS(subject_get);
ROUTE_FUNCTIONS(subject_sum);
ROUTE_FUNCTIONS(subject_explain);
ROUTE_FUNCTIONS(subject_lookup);

#endif
