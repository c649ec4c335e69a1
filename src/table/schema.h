/* Schema: what a table is: its keys, indexes, time to live and tags. Plain data in an arena; engines keep their own
 * copies. */
#ifndef TABLE_SCHEMA_H
#define TABLE_SCHEMA_H

#include "base/err.h"
#include "item/value.h"

enum {
	TABLE_NAME_MIN = 3,
	TABLE_NAME_MAX = 255,
	TABLE_GSI_MAX = 20,
	TABLE_LSI_MAX = 5,
	TABLE_INDEX_MAX = TABLE_GSI_MAX + TABLE_LSI_MAX,
	TABLE_INCLUDE_MAX = 100, /* projected non-key attributes over all indexes */
	TABLE_TAG_MAX = 50,
	TABLE_COUNT_MAX = 2500,
	SCHEMA_EXPIRY_PAST_S = 5 * 365 * 24 * 3600, /* five years */
};

struct key_attribute {
	struct bytes    name; /* empty: there is none (a table without a range key) */
	enum value_type type; /* S, N or B */
};

/* Of a table or an index. */
struct key_schema {
	struct key_attribute hash;
	struct key_attribute range;
};

enum projection_kind { PROJECT_ALL, PROJECT_KEYS_ONLY, PROJECT_INCLUDE };
enum index_status { INDEX_ACTIVE, INDEX_CREATING, INDEX_DELETING };

/* What a table or an index may take, and is to be ready for. Kept and shown, not enforced. 0: not said. */
struct throughput {
	int64_t max_read, max_write;   /* OnDemandThroughput */
	int64_t warm_read, warm_write; /* WarmThroughput, per second */
};

struct index_schema {
	struct bytes         name;
	bool                 local; /* LSI */
	struct key_schema    keys;
	enum projection_kind projection;
	struct bytes        *include; /* PROJECT_INCLUDE */
	uint32_t             include_count;
	int64_t              read_units, write_units; /* as given; kept, shown, not enforced */
	struct throughput    throughput;
	enum index_status    status;
};

struct tag {
	struct bytes key, value;
};

struct table_schema {
	struct bytes         name;
	struct bytes         id; /* a UUID */
	int64_t              created_us;
	struct key_schema    keys;
	struct index_schema *indexes;
	uint32_t             index_count;
	bool                 on_demand; /* PAY_PER_REQUEST; otherwise PROVISIONED */
	int64_t              read_units, write_units;
	struct throughput    throughput;
	int64_t on_demand_us; /* since when, or when it last became so; 0: never, or since it was created */
	bool    infrequent_access; /* STANDARD_INFREQUENT_ACCESS; otherwise STANDARD */
	int64_t class_us;          /* when that was changed; 0: never */
	bool    deletion_protected;
	struct bytes ttl_attribute; /* empty: time to live is off */
	struct bytes
	        replicas; /* at an endpoint, the regions of a global table: "eu-west-1, us-east-1"; empty: it is none */
	struct tag *tags; /* sorted by key */
	uint32_t    tag_count;
};

/* What names of tables and indexes are made of, beside letters and digits. */
#define TABLE_NAME_MARKS "_.-"

/* Is it a name of a table: of these, TABLE_NAME_MIN to TABLE_NAME_MAX? */
bool schema_name_is(struct bytes text);

/* NULL if there is none. */
const struct index_schema *schema_index(const struct table_schema *s, struct bytes name);

/* Names, counts, duplicate definitions: what CreateTable refuses. */
enum err_code schema_check(const struct table_schema *s, struct err *err);

/* What a table or index of these units is ready for: what DynamoDB begins with, or more if more was asked for. */
struct throughput schema_warm(bool on_demand, int64_t read_units, int64_t write_units,
                              const struct throughput *asked);

/* May this be asked of it? `index` is empty for the table. */
enum err_code schema_check_throughput(const struct table_schema *s, const struct index_schema *index,
                                      const struct throughput *asked, struct err *err);

/* The key attributes of an item, as an item. With an index: its keys and the table's, as in LastEvaluatedKey.
 */
struct item schema_key_of(struct arena *a, const struct table_schema *s, const struct index_schema *index,
                          const struct item *item);

/* What an index holds of an item; false if the item is not in the index (a key attribute is missing). */
bool schema_project(struct arena *a, const struct table_schema *s, const struct index_schema *index,
                    const struct item *item, struct item *out);

/* May the index hold an entry of this item, which schema_project says that it projects? Not if a key is too long: rows that
 * were there before the index may have such ones. */
bool schema_index_takes(const struct index_schema *index, const struct item *item);

/* The time (seconds since 1970) from which the item counts as absent; 0 if never. DynamoDB ignores times more
 * than SCHEMA_EXPIRY_PAST_S back, so that data that never was a time is not lost: so does this. */
int64_t schema_expiry(const struct table_schema *s, const struct item *item);
bool    schema_expired(const struct table_schema *s, const struct item *item, int64_t now_us);

/* A deep copy, so that the result depends on nothing but the arena. */
struct table_schema schema_copy(struct arena *a, const struct table_schema *s);

#endif
