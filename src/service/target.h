/* Targets: where events are delivered to, and how far each one is. Rows of the table gatehouse-events:
 *
 *   TARGET   <name>      what it is, its sealed secrets, how far it is, how it fares
 *   HEAD     TARGETS     count: of all targets; version: moves with each change that the sender must know of
 *
 * People change what a target is (here); the sender (delivery.h) changes how far it is. Both change the same row, on the row as they read
 * it, so that a target that is deleted and made anew never gets the position of the old one: `id` tells them apart.
 *
 * What always holds
 * (1) There are at most TARGETS_MAX, and of those that one key created targets_per_key (services.h), also after the key was revoked. Without keys there is
 *     one caller, who may have all.
 * (2) Secrets are stored encrypted, with a key that is derived from the key of identifiers, each for its target and its name. They are told
 *     once, when Gatehouse makes them, and shown to nobody afterwards.
 * (3) A secret that was replaced is good until previous_until_s. Meanwhile messages carry both signatures.
 * (4) `positions` is what trimming may rely on: every event up to there was delivered, or has a row of its own that holds all of it.
 * (5) A stored secret is for the receiver that it was given for: if that changes, it is asked for again.
 * (6) `seeks` counts how often people moved it. Whoever sends moves `after` only if that is as it was when the target was loaded: what was under way before
 *     does not undo a move. */
#ifndef SERVICE_TARGET_H
#define SERVICE_TARGET_H

#include "service/event_log.h"
#include "service/target_header.h"

enum {
	TARGETS_MAX = 32,
	TARGETS_PER_KEY = 16, /* unless set */
	TARGET_NAME_BYTES_MAX = 64,
	TARGET_LANES = 4, /* calls at once, unless set */
	TARGET_LANES_MAX = 16,
	TARGET_TRIES = 10, /* of one event, unless set */
	TARGET_TRIES_MAX = 100,
	TARGET_RATE_MAX = 10000, /* messages per second; unless set there is no such limit */
	TARGET_CALL_S = 15,      /* of one call of a webhook, unless set */
	TARGET_CALL_S_MAX = 30,
	TARGET_DISABLE_S = 5 * 86400, /* of failures without a success, unless set */
	TARGET_DISABLE_S_MAX = 366 * 86400,
	TARGET_PATTERNS_MAX = 64, /* of types */
	TARGET_ERRORS_MAX = 5,    /* that a target shows */
	TARGET_ERROR_BYTES_MAX = 160,
	TARGET_REASON_BYTES_MAX = 200,
	TARGET_SECRET_S = 86400, /* (3), unless set */
	TARGET_SECRET_S_MAX = 30 * 86400,
	TARGET_SECRET_BYTES = 32, /* of one that Gatehouse makes */
	TARGET_ID_CHARS = 32,
};

#define TARGET_TIME_S_MAX INT64_C(253402300799) /* of a row: the end of the year 9999 */

/* ---- types of targets ---- */

struct target_field {
	const char *name;
	uint32_t    bytes_max;
	bool        required, secret;
	bool        place; /* it says who receives the events */
};

struct target_type {
	const char                *name;
	const struct target_field *fields; /* ends with one without a name */
};

extern const struct target_type target_types[];
extern const unsigned           target_type_count;

const struct target_type *target_type_find(struct bytes name); /* NULL: none */

#define TARGET_SECRET   "secret" /* of a webhook: made if none is given, and rotated */
#define TARGET_PREVIOUS "previousSecret"

/* ---- one target ---- */

struct target_error {
	int64_t      at_s;
	int64_t      status; /* of HTTP; 0: none */
	struct bytes error, event;
};

struct target {
	/* what it is */
	struct bytes              name, id;
	const struct target_type *type;             /* NULL: of a newer program */
	struct item               settings, sealed; /* texts by name */
	struct bytes             *patterns;         /* of types; none: all */
	uint32_t                  pattern_count;
	uint64_t                  types;   /* the same, as a set */
	struct target_header     *headers; /* of a webhook's messages */
	uint32_t                  header_count;
	int64_t                   lanes, tries, disable_after_s, previous_until_s;
	int64_t                   rate;   /* messages per second; 0: as fast as it takes them */
	int64_t                   call_s; /* of a webhook: how long a call may take */
	bool                      enabled;
	struct bytes              reason; /* why it is not; empty: a person disabled it */
	struct bytes              created_at, updated_at;
	int64_t                   version;

	/* how it fares */
	struct event_cursor after;
	int64_t             seeks;                        /* (6) */
	int64_t             sent, waiting, dead, skipped; /* events. skipped: trimmed before they were sent */
	int64_t             success_s;                    /* when it last accepted one; 0: never */
	int64_t             failing_s;                 /* since when it accepts none; 0: it does not fail */
	struct target_error errors[TARGET_ERRORS_MAX]; /* the newest first */
	uint32_t            error_count;
	struct bytes        owner; /* of the process that sends */
	int64_t             owned_until_s;

	struct item row;
};

bool target_name_is(struct bytes name);

/* ERR_NOT_FOUND. */
enum err_code target_get(struct context *ctx, struct bytes name, struct target *out, struct err *err);

struct targets {
	struct target *list; /* by name */
	uint32_t       count;
};

enum err_code targets_all(struct context *ctx, struct targets *out, struct err *err);

/* Moves with each change that senders must know of. */
enum err_code targets_version(struct context *ctx, int64_t *out, struct err *err);

/* ---- changing: for people ---- */

enum target_from { TARGET_FROM_NOW, TARGET_FROM_START, TARGET_FROM_TIME };

struct target_new {
	struct bytes              name;
	const struct target_type *type;
	struct item               settings, secrets; /* texts by name; see target_secret_stays */
	const struct bytes       *patterns;          /* none: all types */
	uint32_t                  pattern_count;
	struct target_header     *headers;
	uint32_t                  header_count;
	int64_t                   lanes, tries, disable_after_s, rate, call_s;
	bool                      enabled;
	enum target_from          from; /* of a new one */
	int64_t                   from_us;
	bool                      from_given; /* then it must be a new one */
};

struct target_put {
	struct target target;
	bool          created;
	struct bytes  secret; /* that was made; empty: none */
};

/* Does a stored secret stay, if the target is changed like this? All go if one is given anew, since they belong together (a token and a password are
 * two ways to log in). Headers do not belong to them: a secret one stays if it is listed without a value. */
bool target_secret_stays(const struct target_new *q, struct bytes name);

/* ERR_LIMIT: (1). ERR_NOT_NOW: it is of another type, or has a place already and `from` is given. ERR_INVALID: (5). */
enum err_code target_put(struct context *ctx, const struct target_new *q, struct target_put *out,
                         struct err *err);

/* Its other rows are removed by a job (delivery_clean, delivery.h), which the caller wakes. Its name may be used again at once. */
enum err_code target_delete(struct context *ctx, struct bytes name, struct err *err);

/* `reason` is empty if a person disables it. An enabled target begins with a clean record: it is not failing. */
struct target_switch {
	struct bytes name, reason;
	bool         on;
};

enum err_code target_switch(struct context *ctx, const struct target_switch *q, struct target *out,
                            struct err *err);

/* Moves it: events from there on are sent, again or for the first time. What was put aside before stays so, and so do dead letters: neither is lost, nor sent twice by
 * being read again. The process that sends writes down no place that it had before (6). ERR_GONE, ERR_INVALID: as events_check. */
struct target_seek {
	struct bytes        name;
	struct event_cursor to;
};

enum err_code target_seek(struct context *ctx, const struct target_seek *q, struct target *out,
                          struct event_move *move, struct err *err);

/* (3) ERR_NOT_NOW: it has no secret that is rotated. An empty secret: one is made. */
struct target_rotate {
	struct bytes name, secret;
	int64_t      keep_s; /* the old one */
};

enum err_code target_rotate(struct context *ctx, const struct target_rotate *q, struct target_put *out,
                            struct err *err);

/* ---- for the sender ---- */

/* A secret, in the arena; empty if there is none. ERR_STORAGE: the key of identifiers is another one than when it was stored. */
enum err_code target_secret(const struct context *ctx, const struct target *t, const char *name,
                            struct bytes *out, struct err *err);

static inline struct bytes target_setting(const struct target *t, const char *name)
{
	return row_text(&t->settings, name);
}

struct target target_of(struct arena *a, const struct item *row);

/* ---- for delivery.h ---- */

#define TARGET_PARTITION "TARGET"

struct value cursor_value(struct arena *a, const struct event_cursor *c);
void         cursor_of(const struct value *v, struct event_cursor *out);

/* Moves HEAD TARGETS; by: how many targets more there are. */
enum err_code targets_changed(struct context *ctx, int by, struct err *err);

#endif
