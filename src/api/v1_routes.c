/* The routes of /v1: one table, read by the dispatcher, the metrics, and the test that says every route is
 * documented and has a test. */
#include "api/v1_routes.h"

#include "service/policy_store.h"

enum { BODY = V1_BODY_BYTES_MAX, NO_BODY = 0, POLICY_BODY = POLICY_DOCUMENT_BYTES_MAX };

#define FUNCTIONS(name) name##_decode, name##_run, name##_encode

/* Those asked most come first: the table is searched from its top. */
static const struct v1_route routes[] = {
        {HTTP_POST, "/v1/attempts", WRITE, "RecordAttempt", BODY, "enforce", FUNCTIONS(attempt),
         attempt_committed, NULL},
        {HTTP_POST, "/v1/attempts/begin", WRITE, "BeginAttempt", BODY, "enforce", FUNCTIONS(attempt_begin),
         attempt_committed, NULL},
        {HTTP_POST, "/v1/attempts/finish", WRITE, "FinishAttempt", BODY, "enforce", FUNCTIONS(attempt_finish),
         attempt_committed, NULL},
        {HTTP_POST, "/v1/check", READ, "Check", BODY, "enforce", FUNCTIONS(check_actions), NULL, NULL},
        {HTTP_POST, "/v1/allow", WRITE, "Allow", BODY, "enforce", FUNCTIONS(allow), allow_committed,
         allow_refused},
        {HTTP_POST, "/v1/refund", WRITE, "Refund", BODY, "", FUNCTIONS(refund), allow_committed,
         allow_refused},
        {HTTP_OTHER, "/v1/authz/{*}", WRITE, "Authorize", V1_BODY_IGNORED, V1_QUERY_ANY, FUNCTIONS(authz),
         NULL, authz_refused},
        {HTTP_GET, "/v1/locks", READ, "ListLocks", NO_BODY, "journey name limit cursor", FUNCTIONS(lock_list),
         NULL, NULL},
        {HTTP_POST, "/v1/unlock", ADMINISTER, "Unlock", BODY, "", FUNCTIONS(unlock), NULL, NULL},
        {HTTP_PUT, "/v1/subjects/{id}/locks/{journey}/{name}", ADMINISTER, "SetLock", BODY, "",
         FUNCTIONS(lock_set), NULL, NULL},
        {HTTP_DELETE, "/v1/subjects/{id}/locks/{journey}/{name}", ADMINISTER, "ClearLock", NO_BODY,
         "qualifier", FUNCTIONS(lock_clear), NULL, NULL},
        {HTTP_PUT, "/v1/subjects/{id}/states/{family}", ADMINISTER, "SetState", BODY, "",
         FUNCTIONS(state_set), NULL, NULL},
        {HTTP_DELETE, "/v1/subjects/{id}/states/{family}", ADMINISTER, "ClearState", NO_BODY, "",
         FUNCTIONS(state_clear), NULL, NULL},
        {HTTP_POST, "/v1/subjects/{id}/reset", ADMINISTER, "ResetSubject", BODY, "", FUNCTIONS(reset), NULL,
         NULL},
        {HTTP_POST, "/v1/subjects/lookup", READ, "LookupSubject", BODY, "", FUNCTIONS(subject_lookup), NULL,
         NULL},
        {HTTP_GET, "/v1/subjects/{id}", READ, "GetSubject", NO_BODY, "prefix", FUNCTIONS(subject_get), NULL,
         NULL},
        {HTTP_GET, "/v1/subjects/{id}/sum", READ, "SumCounts", NO_BODY, "prefix", FUNCTIONS(subject_sum),
         NULL, NULL},
        {HTTP_GET, "/v1/subjects/{id}/explain", READ, "ExplainSubject", NO_BODY, "",
         FUNCTIONS(subject_explain), NULL, NULL},
        {HTTP_GET, "/v1/subjects/{id}/known-devices", READ, "ListKnownDevices", NO_BODY, "",
         FUNCTIONS(devices_list), NULL, NULL},
        {HTTP_DELETE, "/v1/subjects/{id}/known-devices/{device}", ADMINISTER, "ForgetKnownDevice", NO_BODY,
         "", FUNCTIONS(device_forget), NULL, NULL},
        {HTTP_DELETE, "/v1/subjects/{id}/known-devices", ADMINISTER, "ForgetKnownDevices", NO_BODY, "",
         FUNCTIONS(devices_forget), NULL, NULL},
        {HTTP_GET, "/v1/policies/{name}", READ, "GetPolicies", NO_BODY, "version", FUNCTIONS(policy_get),
         NULL, NULL},
        {HTTP_PUT, "/v1/policies/{name}", ADMINISTER, "PutPolicies", POLICY_BODY, "", FUNCTIONS(policy_put),
         policy_change_committed, NULL},
        {HTTP_DELETE, "/v1/policies/{name}", ADMINISTER, "DeletePolicies", NO_BODY, "",
         FUNCTIONS(policy_delete), policy_change_committed, NULL},
        {HTTP_GET, "/v1/limits/top", READ, "ListTopLimits", NO_BODY, "max", FUNCTIONS(limits_top), NULL,
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
