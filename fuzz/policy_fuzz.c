/* Policy fuzz: any bytes, read as a policy. It is refused with a text, or accepted; then fixed requests are
 * judged by it, alone and beside a policy that allows everything and one that denies everything, where the
 * outcome is known in part. What is explained must be what was decided. */
#include <stdio.h>
#include <stdlib.h>

#include "access/policy.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TABLE "arn:aws:dynamodb:eu-west-1:123456789012:table/Users"

static const struct bytes keys[] = {BYTES_INIT("user-1"), BYTES_INIT(""), BYTES_INIT("a\xC3\xA9zz")};
static const struct bytes selected[] = {BYTES_INIT("COUNT")};

static const struct access_value values[] = {
        {.key = ACCESS_LEADING_KEYS, .texts = {keys, 3}},
        {.key = ACCESS_ATTRIBUTES, .texts = {keys, 0}},
        {.key = ACCESS_SELECT, .texts = {selected, 1}},
        {.key = ACCESS_SOURCE_IP, .address = {{[10] = 0xFF, [11] = 0xFF, [12] = 10, [15] = 1}}},
        {.key = ACCESS_SECURE_TRANSPORT, .truth = true},
        {.key = ACCESS_CURRENT_TIME, .seconds = 1700000000},
        {.key = ACCESS_EPOCH_TIME, .seconds = INT64_MAX},
};

static const struct access_request requests[] = {
        {BYTES_INIT("dynamodb:GetItem"), BYTES_INIT(TABLE), values, sizeof(values) / sizeof(*values)},
        {BYTES_INIT("dynamodb:Query"), BYTES_INIT(TABLE "/index/ByEmail"), values, 3},
        {BYTES_INIT("dynamodb:Scan"), BYTES_INIT(TABLE), NULL, 0},
        {BYTES_INIT("dynamodb:ListTables"), BYTES_INIT("*"), values + 3, 4},
        {{NULL, 0}, {NULL, 0}, NULL, 0},
};

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static struct policy *fixed(struct json_reader *reader, const char *effect)
{
	char           text[128];
	struct policy *p;
	struct err     err;

	snprintf(text, sizeof(text),
	         "{\"Statement\":{\"Effect\":\"%s\",\"Action\":\"*\",\"Resource\":\"*\"}}", effect);
	require(policy_parse(reader, bytes_of(text), &p, &err) == ERR_NONE, "the fixed policy");
	return p;
}

static void judge(const struct policy *p, const struct policy *allow, const struct policy *deny,
                  const struct access_request *request)
{
	const struct policy *with_allow[] = {allow, p}, *with_deny[] = {p, deny};
	enum decision        alone = policy_evaluate(&p, 1, request, NULL);
	enum decision        allowed = policy_evaluate(with_allow, 2, request, NULL);
	struct buf           out;

	require((allowed == DECISION_ALLOWED) == (alone != DECISION_DENIED_EXPLICITLY),
	        "an Allow changed a Deny");
	require(policy_evaluate(with_deny, 2, request, NULL) == DECISION_DENIED_EXPLICITLY,
	        "a Deny did not win");
	buf_init(&out, NULL);
	policy_explain(&p, 1, request, &out);
	require(bytes_starts_with(buf_bytes(&out), BYTES("allowed")) == (alone == DECISION_ALLOWED),
	        "explained otherwise");
	buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct json_reader *reader; /* and what it read: kept, as the server keeps them */
	static struct policy      *allow, *deny;
	struct policy             *p;
	struct err                 err = {0};
	enum err_code              rc;

	if (reader == NULL) {
		reader = json_reader_open();
		allow = fixed(reader, "Allow");
		deny = fixed(reader, "Deny");
	}
	rc = policy_parse(reader, (struct bytes){(const char *)data, size}, &p, &err);
	require(rc == err.code && (rc == ERR_NONE || err.text[0] != '\0'), "an error without text");
	if (rc != ERR_NONE)
		return 0;
	err.text[0] = '\0';
	rc = policy_check_home(p, BYTES(ACCESS_REGION), &err);
	require((rc == ERR_NONE) == (err.text[0] == '\0'), "a foreign resource without text");
	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++)
		judge(p, allow, deny, &requests[i]);
	policy_close(p);
	return 0;
}
