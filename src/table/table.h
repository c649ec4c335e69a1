/* Table: where items live. THE interface: services and DynamoDB's protocol are written against it, and nothing
 * above it knows which backend is behind.
 *
 * Backends: engine/ (this process), remote/ (any DynamoDB endpoint). tests/contract/ holds what they
 * must do alike. It promises nothing that an endpoint over HTTP cannot give.
 *
 * A `struct table` is a session with a store (store.h): outside of a turn, a view of what is committed, for reads
 * only; in a turn, for reads and for one writing call, the last. Each writing call is atomic by itself, and nothing
 * undoes it. It belongs to one thread at a time.
 *
 * Memory: results are allocated in the caller's arena and are valid as long as it is. Request memory is only
 * read during the call. Results are zeroed by the callee first. All calls of a session get the same arena, which
 * outlives the session: a backend may keep there what it read.
 *
 * Errors: every call returns an err_code and fills *err with DynamoDB's text. Common to all: ERR_INVALID (the
 * request breaks a rule), ERR_NO_RESOURCE (no such table or index), ERR_STORAGE (the outcome is unknown),
 * ERR_OVERLOADED and ERR_DISK_FULL (nothing was written; try again later). An absent item is a result; so is
 * a false condition. */
#ifndef TABLE_TABLE_H
#define TABLE_TABLE_H

#include "expr/eval.h"
#include "table/schema.h"

enum {
	TABLE_PAGE_BYTES_MAX = 1024 * 1024,
	TABLE_BATCH_GET_MAX = 100,
	TABLE_BATCH_GET_BYTES_MAX = 16 * 1024 * 1024,
	TABLE_BATCH_WRITE_MAX = 25,
	TABLE_TRANSACT_MAX = 100,
	TABLE_TRANSACT_BYTES_MAX = 4 * 1024 * 1024,
	TABLE_SEGMENTS_MAX = 1000000,
	TABLE_TOKEN_MAX = 36,
	TABLE_TOKEN_LIFE_S = 600,
	TABLE_LIST_MAX = 100,
};

enum return_values { RETURN_NONE, RETURN_ALL_OLD, RETURN_UPDATED_OLD, RETURN_ALL_NEW, RETURN_UPDATED_NEW };

/* Capacity units, as DynamoDB counts them, of one table. */
struct index_capacity {
	struct bytes name;
	bool         local;
	double       read_units, write_units;
};

struct capacity {
	struct bytes           table;
	double                 read_units, write_units; /* of the table itself */
	struct index_capacity *indexes;                 /* those touched */
	uint32_t               index_count;
};

/* ---- one item ---- */

struct table_get {
	struct bytes                  table;
	struct item                   key;
	const struct expr_projection *projection; /* NULL: all */
	bool consistent; /* only decides the capacity units: reads are always consistent */
};

struct table_get_result {
	bool            found;
	struct item     item;
	size_t          size_bytes; /* of the whole stored item, before projection; 0 if absent */
	struct capacity capacity;
};

enum table_action_kind { TABLE_PUT, TABLE_UPDATE, TABLE_DELETE, TABLE_CHECK };

/* A put, update, delete or condition check of one item: alone, or as part of a batch or transaction. */
struct table_write {
	enum table_action_kind kind;
	struct bytes           table;
	struct item            item; /* PUT */
	struct item            key;  /* UPDATE, DELETE, CHECK */
	const struct expr_update
	        *update; /* UPDATE; NULL or empty creates a bare key, one that only removes nothing */
	const struct expr *condition;             /* NULL: none */
	enum return_values returns;               /* PUT, DELETE: NONE or ALL_OLD */
	bool               return_old_on_failure; /* ReturnValuesOnConditionCheckFailure = ALL_OLD */
};

struct table_write_result {
	bool         condition_failed; /* nothing was written */
	bool         has_item;
	struct item  item; /* what `returns` asked for; the old item if the condition failed and it was asked
	                     for */
	bool         has_collection;  /* the table has a local index: the fields below are set */
	struct bytes collection_name; /* of the hash key attribute */
	struct value collection_key;
	double       collection_gb; /* an estimate of the item collection's size */
	size_t       size_bytes;    /* of the item, before or after, whichever is larger */
	struct capacity capacity;
};

/* ---- many items ---- */

/* A query reads one hash key of a table or index, in range-key order; a scan reads all of it. */
struct table_query {
	struct bytes                     table;
	struct bytes                     index;  /* empty: the table itself */
	const struct expr_key_condition *key;    /* NULL: a scan */
	const struct expr               *filter; /* NULL: none; applied after the page was read */
	const struct expr_projection    *projection;
	const struct item               *start; /* ExclusiveStartKey, or NULL */
	uint32_t                         limit; /* items examined; 0: no limit but the page's bytes */
	bool                             backward;
	bool                             consistent;
	bool                             count_only; /* Select COUNT: no items in the result */
	bool     all_attributes;    /* Select ALL_ATTRIBUTES: a local index fetches the rest */
	uint32_t segment, segments; /* scan; segments 0: not parallel */
};

struct table_query_result {
	struct item    *items;
	uint32_t        count;   /* after the filter */
	uint32_t        scanned; /* before the filter */
	bool            more;
	struct item     last_key; /* if more: where to go on */
	struct capacity capacity;
};

struct table_batch_get {
	const struct table_get *gets;
	uint32_t                count;
};

/* Why a transaction was cancelled, per action or get. */
struct table_reason {
	enum err_code code; /* ERR_NONE: this one was fine. ERR_CONDITION or ERR_INVALID */
	const char   *text;
	bool          has_item; /* the old item, where return_old_on_failure asked for it */
	struct item   item;
};

/* results[i] answers gets[i]; those with `skipped` did not fit into the answer and must be asked again. */
struct table_batch_get_result {
	struct table_get_result *results;
	bool                    *skipped;
	struct table_reason
	        *reasons; /* transact_get: one per get, if it was refused because keys do not fit */
};

/* Puts and deletes without conditions. All are done, or the call fails. */
struct table_batch_write {
	const struct table_write *writes;
	uint32_t                  count;
};

struct table_batch_write_result {
	struct table_write_result *results;
};

/* A row that counts: a whole number of it, which goes up by one; from 0 if there is no row, or no such attribute. Its other
 * attributes stay. ERR_STORAGE if it is something else than a whole number. */
struct table_count {
	struct bytes table;
	struct item  key;
	struct bytes name;
	int64_t      number; /* what it has become */
};

struct table_transact_write;

/* A transaction that takes numbers, and writes rows with these numbers in them. */
struct table_numbering {
	struct table_count *counts;
	uint32_t            count;
	/* Called once they are taken: says what is written. If it fails, so does the transaction. */
	enum err_code (*numbered)(struct table_numbering *n, struct table_transact_write *out,
	                          struct err *err);
};

/* All or nothing. */
struct table_transact_write {
	const struct table_write *writes;
	uint32_t                  count;
	struct bytes              token; /* ClientRequestToken; empty: none */
	uint8_t digest[32];              /* SHA-256 of the request, compared when the token is seen again */
	struct table_numbering *
	        numbering; /* NULL: none. Only where the backend `counts`, and without a token: writes and count are its to say */
};

struct table_transact_result {
	bool                       cancelled; /* nothing was written; see reasons */
	bool                       repeated;  /* the token was seen before: nothing was written this time */
	struct table_reason       *reasons;   /* one an action, if cancelled */
	struct table_write_result *results;   /* one an action, otherwise */
};

/* ---- tables ---- */

struct table_description {
	struct table_schema schema;
	int64_t             item_count; /* approximate, like DynamoDB's */
	int64_t             size_bytes;
	int64_t            *index_item_counts; /* parallel to schema.indexes */
	int64_t            *index_size_bytes;
	bool                deleting;
};

enum table_change_kind {
	CHANGE_CREATE_INDEX, /* index; filled in the background while its status is CREATING */
	CHANGE_DELETE_INDEX, /* index.name */
	CHANGE_INDEX_UNITS,  /* index.name, read_units, write_units */
	CHANGE_BILLING,      /* on_demand, read_units, write_units */
	CHANGE_THROUGHPUT, /* throughput, where 0 leaves it and -1 takes it away; index.name, empty for the table's */
	CHANGE_CLASS,       /* infrequent_access */
	CHANGE_PROTECTION,  /* deletion_protected */
	CHANGE_TTL,         /* ttl_attribute; empty turns it off */
	CHANGE_TAGS_ADD,    /* tags */
	CHANGE_TAGS_REMOVE, /* tags: keys only */
};

struct table_change {
	enum table_change_kind kind;
	struct index_schema    index;
	bool                   on_demand, deletion_protected, infrequent_access;
	int64_t                read_units, write_units;
	struct throughput      throughput;
	struct bytes           ttl_attribute;
	struct tag            *tags;
	uint32_t               tag_count;
};

/* All changes are made, or none. */
struct table_alter {
	struct bytes               table;
	const struct table_change *changes;
	uint32_t                   count;
};

struct table_list {
	struct bytes after; /* ExclusiveStartTableName; empty: from the start */
	uint32_t     limit; /* 1 to TABLE_LIST_MAX */
};

struct table_list_result {
	struct bytes *names; /* sorted */
	uint32_t      count;
	bool          more;
};

/* ---- the interface ---- */

struct table;

struct table_backend {
	const char *name;

	enum err_code (*get)(struct table *t, struct arena *a, const struct table_get *q,
	                     struct table_get_result *r, struct err *err);
	/* kind CHECK is for transactions only. */
	enum err_code (*write)(struct table *t, struct arena *a, const struct table_write *q,
	                       struct table_write_result *r, struct err *err);
	enum err_code (*query)(struct table *t, struct arena *a, const struct table_query *q,
	                       struct table_query_result *r, struct err *err);
	enum err_code (*batch_get)(struct table *t, struct arena *a, const struct table_batch_get *q,
	                           struct table_batch_get_result *r, struct err *err);
	enum err_code (*batch_write)(struct table *t, struct arena *a, const struct table_batch_write *q,
	                             struct table_batch_write_result *r, struct err *err);
	/* A consistent snapshot of all items. ERR_INVALID with `reasons` if some keys do not fit their tables. ERR_CONDITION: a
	 * writer was in the way, which is no failure. */
	enum err_code (*transact_get)(struct table *t, struct arena *a, const struct table_batch_get *q,
	                              struct table_batch_get_result *r, struct err *err);
	/* ERR_TOKEN_MISMATCH if the token was used for another request. */
	enum err_code (*transact_write)(struct table *t, struct arena *a,
	                                const struct table_transact_write *q, struct table_transact_result *r,
	                                struct err *err);

	/* ERR_RESOURCE_IN_USE if the name is taken. Only what CreateTable sets is read from the schema. */
	enum err_code (*create)(struct table *t, struct arena *a, const struct table_schema *q,
	                        struct table_description *r, struct err *err);
	enum err_code (*describe)(struct table *t, struct arena *a, struct bytes name,
	                          struct table_description *r, struct err *err);
	enum err_code (*list)(struct table *t, struct arena *a, const struct table_list *q,
	                      struct table_list_result *r, struct err *err);
	enum err_code (*alter)(struct table *t, struct arena *a, const struct table_alter *q,
	                       struct table_description *r, struct err *err);
	/* The last description of what was deleted. */
	enum err_code (*remove)(struct table *t, struct arena *a, struct bytes name,
	                        struct table_description *r, struct err *err);

	/* What describe tells without counts and tags, for those who must know now but not ask much. NULL: describe costs nothing. */
	enum err_code (*schema)(struct table *t, struct arena *a, struct bytes name, struct table_schema *r,
	                        struct err *err);

	/* Is there certainly no such table? Costs next to nothing. NULL: nobody knows without asking. */
	bool (*lacks)(const struct table *t, struct bytes name);

	/* Lets so much time pass, so that others get through. NULL: turns run one at a time. */
	void (*pause)(struct table *t, int64_t us);

	/* Would a call be refused at once, because nobody answers there at present? Costs next to nothing. NULL: never. */
	bool (*out)(const struct table *t);

	/* What is left of the turn is to wait for a disk here: whoever decides next knows already what it has decided. Turns that wait for this one
	 * because they are about the same subject may begin. NULL: none do. */
	void (*make_way)(struct table *t);

	/* Each call goes over a network: whoever reads much reads it together. */
	bool reads_wait;

	/* transact_write takes numbers (struct table_numbering), in a turn. Otherwise whoever needs one reads it, and writes it with the rest. */
	bool counts;
};

struct table {
	const struct table_backend *backend;
	int64_t                     now_us; /* the session's time: read once, never goes back */
	/* Turns run one at a time, and this is one (or only reads): nothing that was read in it changes before it ends. */
	bool alone;
	struct expr_cost
	        cost; /* what expressions have looked at so far; each call may add as much as the backend allows */
};

#endif
