/* Session: a struct table with the endpoint behind it, and one request to it: encoded, sent, its answer read, its errors told in
 * our own codes. Internal to remote/. A session belongs to one thread at a time. */
#ifndef REMOTE_SESSION_H
#define REMOTE_SESSION_H

#include "dynamo/client.h"
#include "outbound/aws.h"
#include "remote/remote.h"

struct pool;
struct schemas;

struct remote {
	struct store base; /* first */
	/* set once */
	struct retry_profile retry; /* its, with AWS_MAX_ATTEMPTS */
	struct outbound     *target;
	struct aws          *aws;
	struct clock        *clock, *wire_clock;
	char                 prefix[REMOTE_PREFIX_MAX + 1];
	int64_t              began_us, began_steady_us;
	int64_t              call_us; /* the most that a call may take */
	int64_t              turn_us; /* … and all of a turn */
	struct schemas      *schemas;
	struct pool         *pool;
	/* any thread */
	_Atomic int64_t now_us;     /* the last time given */
	_Atomic int64_t refused_us; /* when it was last logged that our credentials are refused */
	_Atomic int64_t wrong_us;   /* … and that an answer was none of DynamoDB's */
};

/* What became of the last transaction (transact.c): a repetition with the same token goes on where it was. */
struct transact_note {
	char     token[TABLE_TOKEN_MAX];
	size_t   token_len;
	uint32_t variant; /* how often it was rewritten */
	bool     reborn[TABLE_TRANSACT_MAX];
};

enum { REMOTE_TOLD_BYTES = 512 };

/* What the endpoint last answered, for people who set it up (inspect.c). */
struct remote_told {
	int  status;                       /* 0: nothing came */
	bool unsure;                       /* an earlier try of the request may have been done */
	char type[AWS_TYPE_BYTES_MAX + 1]; /* "AccessDeniedException"; empty: it gave no name */
	char text[REMOTE_TOLD_BYTES];      /* without control characters, and the full stop at its end */
};

struct remote_session {
	struct table        base; /* first */
	struct remote      *remote;
	struct json_reader *json;
	bool                own_json; /* it is the session's to close */
	int64_t fresh_us; /* steady time: that a table is absent counts if it was asked since (schemas.h) */
	bool    hurries;  /* it is a turn's: */
	int64_t deadline_us;       /* of all its calls, in steady time; 0: each has its own only */
	struct turn_request *turn; /* whose it is, if it hurries */
	struct transact_note note;
	struct remote_told   told;
};

extern const struct table_backend remote_table_backend;

/* json NULL: it opens one of its own when it needs it. reads: it never writes. */
void remote_session_init(struct remote_session *s, struct remote *r, struct json_reader *json, bool reads);
void remote_session_release(struct remote_session *s);

static inline struct remote_session *session_of(struct table *t)
{
	return (struct remote_session *)t;
}

/* The time of a turn or session that begins now: it follows the steady clock, as the embedded engine's does. */
int64_t remote_now_us(struct remote *r);

/* What a table is called at the endpoint. */
struct bytes remote_name(const struct remote_session *s, struct arena *a, struct bytes table);

/* ---- one request ---- */

struct ask {
	const char        *operation; /* "GetItem" */
	bool               repeatable;
	struct arena      *arena; /* the caller's */
	struct buf         body;
	struct json_writer writer;
};

/* Then the body is written with the client that is returned (dynamo/client.h). */
struct client ask_init(struct ask *q, const char *operation, struct arena *a, bool repeatable);

/* Sends it. *answer: what came, also if the endpoint refused it: ERR_CONDITION and ERR_CANCELLED are told there. NULL: there was no JSON. */
enum err_code ask_send(struct remote_session *s, struct ask *q, const struct json **answer, struct err *err);

/* What is to be made of an answer to that operation, which was read (dynamo/client.h) with rc. One that DynamoDB would not have given counts as none: ERR_OVERLOADED to a
 * read, ERR_STORAGE to a write. It is logged, but not over and over. */
enum err_code ask_judge(struct remote_session *s, const char *operation, enum err_code rc, struct err *err);

/* Waits, on this thread. */
void remote_sleep(int64_t us);

#endif
