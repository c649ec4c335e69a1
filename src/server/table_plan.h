/* Table plan: the tables that services need, as they are to be (table_settings.h), compared with what is at the endpoint; and the steps that make
 * them so. For `gatehouse tables`. No step removes anything or touches rows: what would, is named and left to people. */
#ifndef SERVER_TABLE_PLAN_H
#define SERVER_TABLE_PLAN_H

#include "remote/inspect.h"
#include "remote/provision.h"
#include "server/endpoint.h"
#include "server/table_settings.h"

enum { PLAN_DIFFERENCES_MAX = 16, PLAN_NOTES_MAX = 8 };

/* Texts are for people. */
struct plan_difference {
	const char           *what; /* "keys" */
	const char           *there, *wanted;
	const char           *by_hand; /* what to do about it; NULL: `step` does it */
	struct provision_step step;
};

struct plan_table {
	enum service_table     which;
	struct bytes           name; /* at the endpoint */
	struct table_schema    wanted;
	bool                   present;
	struct table_state     state; /* if present */
	struct plan_difference differences[PLAN_DIFFERENCES_MAX];
	uint32_t               count;
	const char            *notes[PLAN_NOTES_MAX]; /* what is no difference, but worth knowing */
	uint32_t               note_count;
};

struct table_plan {
	struct arena         *arena;
	struct table_settings settings;
	struct plan_table     tables[SERVICE_TABLE_COUNT];
	/* of the endpoint */
	const char *notes[PLAN_NOTES_MAX];
	uint32_t    note_count;
};

/* All tables, with nothing asked: as if none were there. */
void table_plan_init(struct table_plan *p, const struct serve_options *options,
                     const struct table_settings *settings, struct arena *a);

/* Looks at the endpoint, and compares. */
enum err_code table_plan_look(struct table_plan *p, struct endpoint *e, struct err *err);

/* What became of a step. */
enum plan_outcome {
	PLAN_DONE,
	PLAN_SKIPPED, /* the endpoint does not have it, and nobody asked for it */
};

struct plan_watch {
	struct provision_wait wait;
	/* Before a step, and after it. what: "waiting for it", "time to live". */
	void (*begins)(void *ctx, const struct plan_table *t, const char *what);
	void (*ended)(void *ctx, const struct plan_table *t, enum plan_outcome outcome);
	void *ctx;
};

/* Makes what is missing and turns on what is wanted, of all tables. ERR_FOREIGN_TABLE: there are tables with other keys; then nothing is done. */
enum err_code table_plan_apply(struct table_plan *p, struct endpoint *e, const struct plan_watch *watch,
                               struct err *err);

/* ---- for printing ---- */

/* "PK and SK, both text", in the arena. */
const char *plan_keys_text(struct arena *a, const struct key_schema *keys);
/* "on demand", "provisioned, 5 read and 5 write units per second" */
const char *plan_billing_text(struct arena *a, const struct table_schema *s);

#endif
