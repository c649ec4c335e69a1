/* What many routes read and write alike: subjects, contexts, verdicts, times. */
#ifndef API_V1_READ_H
#define API_V1_READ_H

#include "api/v1.h"
#include "service/assess.h"
#include "service/subject.h"

/* The rules in force, held for the length of the call. */
const struct rules *v1_rules(struct v1_call *c);

/* The {id} of a path, as it is stored. ERR_INVALID if it is not one. */
enum err_code v1_subject_param(struct v1_call *c, unsigned index, struct bytes *out, struct err *err);

/* The same of a query parameter. */
enum err_code v1_subject_query(struct v1_call *c, const char *name, struct bytes value, struct bytes *out,
                               struct err *err);

/* `subject`, or `subjects`, a list of up to SUBJECTS_MAX; never the same twice. */
void v1_read_subjects(struct v1_call *c, struct fields *f, struct attempt *out);

/* `context`: {ip, device_token, remember_device}. After v1_read_subjects: a token is good for one subject. */
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
bool    time_parse(struct bytes text, int64_t *seconds);

/* It writes in all journeys: a key that is denied one of them is denied this. */
void v1_every_journey(struct v1_call *c, const struct rules *rules);

/* It reads all journeys: a key sees those that it may (v1_sees), and is denied this only if there is none. */
void v1_any_journey(struct v1_call *c, const struct rules *rules);

/* The same of all rows of a subject, states too; or, if a prefix of their keys is given, of that journey alone. */
void v1_any_row(struct v1_call *c, const struct rules *rules, struct bytes prefix);

/* May the caller have what the journey of a row's key says? States have resources of their own: state/intervention. */
bool v1_sees(void *call, struct bytes journey);

/* Takes the rows out that the caller may not see. */
void v1_hide_rows(struct v1_call *c, struct subject *s);

/* ERR_ACCESS names the first journey that the caller may not have. */
enum err_code v1_check_sees(struct v1_call *c, struct bytes journey, struct err *err);

/* A rule of the policies changes these, too: whoever is denied their journeys is denied this. Not being allowed them is
 * no reason: the rule says what follows from its own journey. */
enum err_code v1_check_follows(struct v1_call *c, const struct rule *rule, const struct rule_refs *refs,
                               struct err *err);

/* Does the request say what the rule counts by? An attempt must; a check may leave the qualifier out, and is
 * then told what holds for all of them. */
void v1_check_source(struct fields *f, const struct attempt *q, const struct rule *rule);
void v1_check_qualifier(struct fields *f, const struct attempt *q, const struct rule *rule);

/* `challenge`: "passed" if what a verdict `challenge` asked for was done. */
void v1_read_challenge(struct fields *f, struct attempt *out);

/* `method_id`, `method_type`, `notification_type`. */
void v1_read_method(struct v1_call *c, struct fields *f, struct attempt *out);

/* ---- members, with names of our own ---- */

/* "2026-11-15T22:00:00Z" */
void v1_write_time(struct json_writer *w, struct bytes name, int64_t seconds);

/* "verdict", "reason", "until", "retry_after", "lock", as members. */
void v1_write_verdict(struct json_writer *w, const struct verdict *v, int64_t now_us);

/* If the call was decided on what was last known. */
void v1_write_degraded(const struct v1_call *c, struct json_writer *w);

/* The same for one of several verdicts, of which another may last longer. */
void v1_write_verdict_wait(struct json_writer *w, const struct verdict *v, const struct verdict_wait *wait,
                           int64_t now_us);

/* "required", "email_fraud_pending", as members, if there is anything to tell. */
void v1_write_required(struct json_writer *w, const struct states_required *r);

/* "count", "max", "remaining", "expires_in", as members. */
void v1_write_count(struct json_writer *w, const struct count_shown *shown, int64_t now_us);

/* ?enforce=status: the verdict as HTTP status, and when to come back. */
void v1_enforce_verdict(struct v1_call *c, const struct verdict *v, int64_t now_us);
void v1_enforce_wait(struct v1_call *c, enum verdict_kind kind, const struct verdict_wait *wait);

#endif
