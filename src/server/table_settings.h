/* Table settings: how operators want the tables at a DynamoDB endpoint kept, beyond what services need (service/row.h). What is not set is
 * not asked for: a new table then gets DynamoDB's own default, and one that is there stays as it is. */
#ifndef SERVER_TABLE_SETTINGS_H
#define SERVER_TABLE_SETTINGS_H

#include "server/serve.h"

enum {
	TABLE_UNITS_DEFAULT = 5,
	TABLE_UNITS_MAX = 1000000,
	TABLE_TAG_KEY_MAX = 128,
	TABLE_TAG_VALUE_MAX = 256,
};

/* As they were said. */
struct table_settings_text {
	const char *billing;    /* "on-demand" or "provisioned"; NULL: not said */
	const char *units;      /* "READ/WRITE" of all, "TABLE=READ/WRITE" of one; several with commas */
	const char *tags;       /* "KEY=VALUE", several with commas */
	const char *kms_key;    /* an ARN */
	bool        recovery;   /* point-in-time recovery */
	bool        protection; /* from deletion */
};

/* As they are meant. */
struct table_settings {
	bool         billing_said, on_demand;
	int64_t      read_units[SERVICE_TABLE_COUNT], write_units[SERVICE_TABLE_COUNT];
	struct tag  *tags; /* sorted by key */
	uint32_t     tag_count;
	struct bytes kms_key; /* empty: a key that the endpoint owns */
	bool         recovery, protection;
};

/* ERR_INVALID names the setting. Points into the texts and the arena. */
enum err_code table_settings_read(const struct table_settings_text *text, struct arena *a,
                                  struct table_settings *out, struct err *err);

/* One of the services' tables, as it is to be. */
struct table_schema table_settings_schema(const struct table_settings *s, const struct service_tables *tables,
                                          enum service_table which, struct arena *a);

#endif
