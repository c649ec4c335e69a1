/* Table policy: see table_policy.h. */
#include "server/table_policy.h"

#include "access/policy.h"

enum { ACCOUNT_DIGITS = 12 };

/* Transactions need the rights of their parts: GetItem, PutItem, UpdateItem, DeleteItem, ConditionCheckItem. */
static const char *const serve_actions[] = {"dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive",
                                            "dynamodb:GetItem",       "dynamodb:BatchGetItem",
                                            "dynamodb:Query",         "dynamodb:Scan",
                                            "dynamodb:PutItem",       "dynamodb:UpdateItem",
                                            "dynamodb:DeleteItem",    "dynamodb:ConditionCheckItem"};

static const char *const create_actions[] = {"dynamodb:CreateTable",
                                             "dynamodb:DescribeTable",
                                             "dynamodb:UpdateTable",
                                             "dynamodb:UpdateTimeToLive",
                                             "dynamodb:DescribeTimeToLive",
                                             "dynamodb:UpdateContinuousBackups",
                                             "dynamodb:DescribeContinuousBackups",
                                             "dynamodb:TagResource",
                                             "dynamodb:ListTagsOfResource"};

/* It reads back what it has written. */
static const char *const import_actions[] = {
        "dynamodb:BatchWriteItem",     "dynamodb:BatchGetItem",      "dynamodb:Scan",
        "dynamodb:CreateTable",        "dynamodb:DescribeTable",     "dynamodb:UpdateTimeToLive",
        "dynamodb:DescribeTimeToLive", "dynamodb:ListTagsOfResource"};

const char *const table_policy_names[POLICY_FOR_KINDS] = {"serve", "create", "import"};

struct kind {
	const char        *sid;
	const char *const *actions;
	size_t             count;
};

#define KIND(sid, actions)                                                                                   \
	{                                                                                                    \
		sid, actions, sizeof(actions) / sizeof(actions[0])                                           \
	}

static const struct kind kinds[POLICY_FOR_KINDS] = {KIND("GatehouseServes", serve_actions),
                                                    KIND("GatehouseCreatesTables", create_actions),
                                                    KIND("GatehouseImports", import_actions)};

/* What DynamoDB does with a customer's key on our behalf, as its documentation asks for. */
static const char *const kms_actions[] = {"kms:Encrypt",          "kms:Decrypt",     "kms:ReEncrypt*",
                                          "kms:GenerateDataKey*", "kms:DescribeKey", "kms:CreateGrant"};

enum err_code table_policy_place_check(const struct table_policy_place *place, struct err *err)
{
	uint64_t number;

	if (strlen(place->account) != ACCOUNT_DIGITS ||
	    !bytes_to_u64(bytes_of(place->account), UINT64_MAX, &number))
		return err_set(err, ERR_INVALID, "account: must have %d digits", ACCOUNT_DIGITS);
	return access_region_check(bytes_of(place->region), "region", err);
}

static const char *partition_of(const char *region)
{
	return strncmp(region, "cn-", 3) == 0       ? "aws-cn"
	       : strncmp(region, "us-gov-", 7) == 0 ? "aws-us-gov"
	                                            : "aws";
}

static void texts_write(struct json_writer *w, const char *const *texts, size_t count)
{
	json_begin_array(w);
	for (size_t i = 0; i < count; i++)
		json_string(w, bytes_of(texts[i]));
	json_end_array(w);
}

static void statement_begin(struct json_writer *w, const char *sid, const char *const *actions, size_t count)
{
	json_begin_object(w);
	json_member_text(w, BYTES("Sid"), bytes_of(sid));
	json_member_text(w, BYTES("Effect"), BYTES("Allow"));
	json_key(w, BYTES("Action"));
	texts_write(w, actions, count);
}

static struct bytes arn_of(const struct table_plan *p, int which, const struct table_policy_place *place)
{
	return arena_printf(p->arena, "arn:%s:dynamodb:%s:%s:table/%.*s", partition_of(place->region),
	                    place->region, place->account, BYTES_ARG(p->tables[which].name));
}

static void tables_write(struct json_writer *w, const struct table_plan *p, enum table_policy_for what,
                         const struct table_policy_place *place)
{
	statement_begin(w, kinds[what].sid, kinds[what].actions, kinds[what].count);
	json_key(w, BYTES("Resource"));
	json_begin_array(w);
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
		json_string(w, arn_of(p, i, place));
	json_end_array(w);
	json_end_object(w);
}

/* Whose addresses are without markers, as other programs write them; and devices by their platform, if that is switched on. */
static const struct {
	enum service_table which;
	const char        *sid;
} read_indexes[] = {{TABLE_USERS, "GatehouseReadsUsersByAddress"},
                    {TABLE_DEVICES, "GatehouseReadsDevicesByPlatform"}};

static void indexes_write(struct json_writer *w, const struct table_plan *p,
                          const struct table_policy_place *place)
{
	static const char *const query[] = {"dynamodb:Query"};

	for (size_t i = 0; i < sizeof(read_indexes) / sizeof(read_indexes[0]); i++) {
		const struct table_schema *table = &p->tables[read_indexes[i].which].wanted;

		if (table->index_count == 0)
			continue;
		statement_begin(w, read_indexes[i].sid, query, 1);
		json_member_text(w, BYTES("Resource"),
		                 arena_printf(p->arena, "%s/index/%.*s",
		                              arn_of(p, (int)read_indexes[i].which, place).data,
		                              BYTES_ARG(table->indexes[0].name)));
		json_end_object(w);
	}
}

static void kms_write(struct json_writer *w, const struct table_plan *p,
                      const struct table_policy_place *place)
{
	if (p->settings.kms_key.len == 0)
		return;
	statement_begin(w, "GatehouseTablesKey", kms_actions, sizeof(kms_actions) / sizeof(kms_actions[0]));
	json_member_text(w, BYTES("Resource"), p->settings.kms_key);
	json_key(w, BYTES("Condition"));
	json_begin_object(w);
	json_key(w, BYTES("StringEquals"));
	json_begin_object(w);
	json_name(w, BYTES("kms:ViaService"));
	json_string(w, arena_printf(p->arena, "dynamodb.%s.amazonaws.com", place->region));
	json_end_object(w);
	json_end_object(w);
	json_end_object(w);
}

void table_policy_write(struct json_writer *w, const struct table_plan *p, enum table_policy_for what,
                        const struct table_policy_place *place)
{
	json_begin_object(w);
	json_member_text(w, BYTES("Version"), BYTES("2012-10-17"));
	json_key(w, BYTES("Statement"));
	json_begin_array(w);
	tables_write(w, p, what, place);
	if (what == POLICY_FOR_SERVE)
		indexes_write(w, p, place);
	kms_write(w, p, place);
	json_end_array(w);
	json_end_object(w);
}
