/* Inspect: see inspect.h. */
#include "remote/inspect.h"

#include "remote/tables.h"

/* ---- what to do about it ---- */

#define WHERE                                                                                                \
	"AWS_ENDPOINT_URL_DYNAMODB says where the endpoint is; unless it is set, it is that of the region"

#define KEY_UNKNOWN                                                                                          \
	": it does not know this access key. Check AWS_ACCESS_KEY_ID or the profile, and that the key "      \
	"belongs "                                                                                           \
	"to "                                                                                                \
	"this endpoint and region"
#define SIGNATURE_WRONG                                                                                      \
	": the secret or the region is wrong. Check AWS_SECRET_ACCESS_KEY or the profile, and --region or "  \
	"AWS_REGION"

/* By the name of the error that the endpoint gave. */
static const struct {
	const char *type, *advice;
} advices[] = {
        {"AccessDeniedException",
         ": the credentials lack a right. `gatehouse tables policy` prints those that are needed"},
        {"UnrecognizedClientException", KEY_UNKNOWN},
        {"InvalidClientTokenId", KEY_UNKNOWN},
        {"InvalidSignatureException", SIGNATURE_WRONG},
        {"SignatureDoesNotMatch", SIGNATURE_WRONG},
        {"IncompleteSignatureException", SIGNATURE_WRONG},
        {"MissingAuthenticationTokenException", ": it got no signature. Does a proxy remove it?"},
        {"ExpiredTokenException", ": the session token has expired. Get new credentials"},
        {"UnknownOperationException", ": it does not know this operation of DynamoDB's. " WHERE},
};

static const char *advice_of(const struct remote_told *told)
{
	for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
		if (strcmp(told->type, advices[i].type) == 0)
			return advices[i].advice;
	if (told->status >= 500)
		return ": try again later";
	return told->type[0] == '\0' ? ": what answers there is not DynamoDB. " WHERE : "";
}

enum err_code remote_advise(const struct remote_session *s, struct err *err)
{
	const struct remote_told *told = &s->told;
	const char               *advice = advice_of(told);
	struct err                why = *err;

	if (told->status == 0)
		return err_set(err, why.code,
		               "no answer from the DynamoDB endpoint (%s): is it running, and may this "
		               "machine reach it? " WHERE,
		               why.text);
	if (told->status / 100 == 2)
		return err_set(err, why.code, "%s: what answers there is not DynamoDB. " WHERE, why.text);
	return err_set(err, why.code, "the DynamoDB endpoint answered %d%s%s%s%s%s", told->status,
	               told->type[0] == '\0' ? "" : " ", told->type, told->text[0] == '\0' ? "" : ": ",
	               told->text, advice);
}

/* What may be absent is no trouble. */
static enum err_code conclude(struct remote_session *s, enum err_code rc, struct err *err)
{
	if (rc != ERR_NONE && rc != ERR_NO_RESOURCE)
		remote_advise(s, err);
	remote_session_release(s);
	return rc;
}

/* ---- looking ---- */

enum err_code remote_look(struct remote *r, struct arena *a, struct bytes table, struct table_schema *out,
                          struct err *err)
{
	struct remote_session s;

	remote_session_init(&s, r, NULL, true);
	return conclude(&s, remote_table_look(&s.base, a, table, out, err), err);
}

/* A refusal for another reason is of an endpoint that knows the operation. */
enum err_code remote_transactions_check(struct remote *r, struct arena *a, const struct table_get *any,
                                        struct err *err)
{
	struct remote_session s;
	struct table_get      get;
	const struct json    *answer;
	struct ask            ask;
	enum err_code         rc;

	remote_session_init(&s, r, NULL, true);
	get = (struct table_get){.table = remote_name(&s, a, any->table), .key = any->key};
	client_transact_get(ask_init(&ask, "TransactGetItems", a, true), &(struct table_batch_get){&get, 1});
	rc = ask_send(&s, &ask, &answer, err);
	if (rc == ERR_NONE || strcmp(s.told.type, "UnknownOperationException") != 0)
		return conclude(&s, s.told.status / 100 == 4 ? ERR_NONE : rc, err);
	remote_session_release(&s);
	return err_set(
	        err, ERR_INVALID,
	        "this endpoint has no transactions (TransactGetItems, TransactWriteItems). Gatehouse needs "
	        "them, because what it decides rests on several rows. Use DynamoDB, or an endpoint that "
	        "has them; dynalite has none. " WHERE);
}

/* Not every endpoint has everything, and not everybody may ask. */
static enum told told_of(const struct remote_session *s, enum err_code rc)
{
	return rc == ERR_NONE                                           ? TOLD
	       : strcmp(s->told.type, "UnknownOperationException") == 0 ? TOLD_UNKNOWN
	                                                                : TOLD_DENIED;
}

static bool may_go_on(const struct remote_session *s, enum err_code rc)
{
	return rc == ERR_NONE || strcmp(s->told.type, "UnknownOperationException") == 0 ||
	       strcmp(s->told.type, "AccessDeniedException") == 0;
}

static enum err_code inspect(struct remote_session *s, struct arena *a, struct bytes table,
                             struct table_state *out, struct err *err)
{
	struct client_table t;
	enum err_code       rc;

	if (remote_table_once(s, a, table, &t, err) != ERR_NONE)
		return err->code;
	*out = (struct table_state){.there = t.description, .status = t.status, .kms_key = t.kms_key};
	if (remote_table_ttl(s, a, table, &out->there.schema.ttl_attribute, err) != ERR_NONE)
		return err->code;
	rc = remote_table_recovery(s, a, table, &out->recovery, err);
	out->recovery_told = told_of(s, rc);
	if (!may_go_on(s, rc))
		return rc;
	rc = remote_table_tags(s, a, t.arn, &out->there.schema, err);
	out->tags_told = told_of(s, rc);
	return may_go_on(s, rc) ? ERR_NONE : rc;
}

enum err_code remote_inspect(struct remote *r, struct arena *a, struct bytes table, struct table_state *out,
                             struct err *err)
{
	struct remote_session s;

	remote_session_init(&s, r, NULL, true);
	return conclude(&s, inspect(&s, a, table, out, err), err);
}
