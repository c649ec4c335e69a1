/* Answers about what this server does not have: "disabled", "there is none", an empty list. Tools that manage tables ask for these
 * whether or not they use them, and must not take "unknown operation" for a broken server. Turning such a thing on is an unknown
 * operation still. */
#include "dynamo/errors.h"
#include "dynamo/result.h"

static void text_field(struct json_writer *w, struct bytes name, struct bytes text)
{
	json_name(w, name);
	json_string(w, text);
}

enum err_code result_backups(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                             const struct dynamo_result *r)
{
	(void)a;
	(void)q;
	(void)r;
	json_begin_object(w);
	json_name(w, BYTES("ContinuousBackupsDescription"));
	json_begin_object(w);
	text_field(w, BYTES("ContinuousBackupsStatus"), BYTES("DISABLED"));
	json_name(w, BYTES("PointInTimeRecoveryDescription"));
	json_begin_object(w);
	text_field(w, BYTES("PointInTimeRecoveryStatus"), BYTES("DISABLED"));
	json_end_object(w);
	json_end_object(w);
	json_end_object(w);
	return ERR_NONE;
}

enum err_code result_insights(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                              const struct dynamo_result *r)
{
	(void)a;
	(void)q;
	json_begin_object(w);
	text_field(w, BYTES("TableName"), r->table.schema.name);
	text_field(w, BYTES("ContributorInsightsStatus"), BYTES("DISABLED"));
	json_end_object(w);
	return ERR_NONE;
}

static void empty_list(struct json_writer *w, struct bytes name)
{
	json_name(w, name);
	json_begin_array(w);
	json_end_array(w);
}

enum err_code result_destinations(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                                  const struct dynamo_result *r)
{
	(void)a;
	(void)q;
	json_begin_object(w);
	text_field(w, BYTES("TableName"), r->table.schema.name);
	empty_list(w, BYTES("KinesisDataStreamDestinations"));
	json_end_object(w);
	return ERR_NONE;
}

enum err_code result_scaling(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                             const struct dynamo_result *r)
{
	(void)a;
	(void)q;
	json_begin_object(w);
	json_name(w, BYTES("TableAutoScalingDescription"));
	json_begin_object(w);
	text_field(w, BYTES("TableName"), r->table.schema.name);
	text_field(w, BYTES("TableStatus"), BYTES("ACTIVE"));
	empty_list(w, BYTES("Replicas"));
	json_end_object(w);
	json_end_object(w);
	return ERR_NONE;
}

#define NONE_OF(suffix, name, text)                                                                          \
	enum err_code result_##suffix(struct json_writer *w, struct arena *a,                                \
	                              const struct dynamo_request *q, const struct dynamo_result *r)         \
	{                                                                                                    \
		(void)q;                                                                                     \
		(void)r;                                                                                     \
		error_write_named(w, a, name, BYTES(text));                                                  \
		return ERR_NO_RESOURCE;                                                                      \
	}

NONE_OF(no_policy, "PolicyNotFoundException", "Resource-based policy not found for the provided ResourceArn")
NONE_OF(no_global_table, "GlobalTableNotFoundException", "Global table not found")
NONE_OF(no_import, "ImportNotFoundException", "Import not found")
NONE_OF(no_export, "ExportNotFoundException", "Export not found")
NONE_OF(no_backup, "BackupNotFoundException", "Backup not found")

#define EMPTY_LIST_OF(suffix, name)                                                                          \
	enum err_code result_empty_##suffix(struct json_writer *w, struct arena *a,                          \
	                                    const struct dynamo_request *q, const struct dynamo_result *r)   \
	{                                                                                                    \
		(void)a;                                                                                     \
		(void)q;                                                                                     \
		(void)r;                                                                                     \
		json_begin_object(w);                                                                        \
		empty_list(w, BYTES(name));                                                                  \
		json_end_object(w);                                                                          \
		return ERR_NONE;                                                                             \
	}

EMPTY_LIST_OF(insights, "ContributorInsightsSummaries")
EMPTY_LIST_OF(global_tables, "GlobalTables")
EMPTY_LIST_OF(imports, "ImportSummaryList")
EMPTY_LIST_OF(exports, "ExportSummaries")
EMPTY_LIST_OF(backups, "BackupSummaries")
