/* What many routes read alike: subjects, contexts, names, times. What they write is in v1_write.h. */
#ifndef API_V1_READ_H
#define API_V1_READ_H

#include "api/v1.h"
#include "service/assess.h"

#define V1_SECONDS_MAX INT64_C(253402300799) /* the end of the year 9999 */

/* The rules in force, held for the length of the call: the same from naming to the end. */
const struct rules *v1_rules(struct v1_call *c);

/* The {id} of a path, as it is stored. ERR_INVALID if it is not one. */
enum err_code v1_subject_param(struct v1_call *c, unsigned index, struct bytes *out, struct err *err);

/* The same of a query parameter. */
enum err_code v1_subject_query(struct v1_call *c, const char *name, struct bytes value, struct bytes *out,
                               struct err *err);

/* `subject`, or `subjects`, a list of up to SUBJECTS_MAX; never the same twice. */
void v1_read_subjects(struct v1_call *c, struct fields *f, struct attempt *out);

/* Refuses an entry of a list of subjects that is null. */
void v1_check_listed(struct fields *f, const char *name, const struct json *member);

/* `subjects`, beside the id in the path: further ids of the same person. The path's is the first; one that is named twice counts once. */
void v1_read_others(struct v1_call *c, struct fields *f, struct bytes id, struct attempt *out);

/* `context`: {ip, device_token, remember_device}. Whose the token is, attempt_whole finds out. */
void v1_read_context(struct v1_call *c, struct fields *f, struct attempt *out);

/* For a success: what a new device token is made of. */
const struct device_making *v1_device_making(struct v1_call *c);

/* ?enforce=status: the caller wants verdicts as HTTP statuses. */
bool v1_read_enforce(struct v1_call *c, struct fields *f);

/* A name like SIGN_IN; required unless `optional`. */
struct bytes v1_read_name(struct fields *f, const char *name, bool optional);

/* A journey of the rules. */
struct bytes v1_read_journey(struct v1_call *c, struct fields *f, const struct rules *rules);

/* A qualifier of a key, which is a method's id: plain, up to METHOD_ID_MAX bytes without # and control characters, and
 * not personal on its face; or an object that is hashed ({"phone": …}). Empty if absent. */
struct bytes  v1_read_qualifier(struct v1_call *c, struct fields *f, const char *name);
enum err_code v1_query_qualifier(struct v1_call *c, const char *name, struct bytes *out, struct err *err);

/* A journey and a lock of it, given in the path or the query; an empty name is any. The err names the field. */
enum err_code v1_check_lock(const struct rules *rules, struct bytes journey, struct bytes name,
                            struct err *err);

/* A time as whole seconds since 1970, or as RFC 3339 has it ("2026-11-15T22:00:00Z"). */
int64_t v1_read_time(struct fields *f, const char *name);
bool    v1_time_is(struct bytes text, int64_t *seconds);

/* Does the request say what the rule counts by? An attempt must; a check may leave the qualifier out, and is
 * then told what holds for all of them. */
void v1_check_source(struct fields *f, const struct attempt *q, const struct rule *rule);
void v1_check_qualifier(struct fields *f, const struct attempt *q, const struct rule *rule);

/* `challenge`: "passed" if what a verdict `challenge` asked for was done. */
void v1_read_challenge(struct fields *f, struct attempt *out);

/* `method_id`, `method_type`, `notification_type`. */
void v1_read_method(struct v1_call *c, struct fields *f, struct attempt *out);

#endif
