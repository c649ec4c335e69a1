/* Expo: the push API of exp.host, which hands messages on to Apple and Google.
 *
 *   POST /--/api/v2/push/send          messages for at most EXPO_RECIPIENTS_MAX tokens -> a ticket for each
 *   POST /--/api/v2/push/getReceipts   the ids of tickets -> what became of those messages
 *
 * What always holds
 * (1) A call sends once. Expo has no idempotency key, so a message whose call got no answer may have been accepted:
 *     EXPO_UNKNOWN. Whoever sent it must not send it again.
 * (2) EXPO_LATER and EXPO_REFUSED mean that Expo accepted none of it.
 * (3) An answer has one ticket per recipient, in their order, or it is EXPO_UNKNOWN.
 * (4) No error text and no log line holds a token, a message or the access token.
 *
 * Threads: any number may call at once, up to calls_max. Answers live in the caller's arena. */
#ifndef OUTBOUND_EXPO_H
#define OUTBOUND_EXPO_H

#include "outbound/outbound.h"

enum {
	EXPO_RECIPIENTS_MAX = 100,
	EXPO_RECEIPTS_MAX = 1000,
	EXPO_GZIP_BYTES = 1024, /* a longer body is compressed, as Expo's own client does */
	EXPO_CALL_S = 30,       /* that a call may take, unless set */
	EXPO_CALL_S_MAX = 60,
	EXPO_ANSWER_BYTES_MAX = 4 * 1024 * 1024,
	EXPO_TEXT_BYTES_MAX = 256, /* of an id or a code in an answer */
	EXPO_PROJECTS_MAX = 16,    /* that one rejection tells apart */
	EXPO_ACCESS_TOKEN_BYTES_MAX = 1024,
};

#define EXPO_URL "https://exp.host"

struct expo_options {
	struct bytes  url;          /* scheme, host and port; empty: EXPO_URL. Copied, as the others are */
	struct bytes  access_token; /* empty: none */
	const char   *ca_file;      /* NULL: the system's */
	bool          allow_private;
	uint32_t      calls_max;
	int64_t       call_s; /* how long a call may take; 0: EXPO_CALL_S */
	struct clock *clock;  /* must outlive it */
};

struct expo;

/* ERR_INVALID: the URL or the access token is wrong; err->field says which (`url`, `access_token`). */
enum err_code expo_open(const struct expo_options *options, struct expo **out, struct err *err);
void          expo_stop(struct expo *e);  /* every call returns at once */
void          expo_close(struct expo *e); /* nobody may be in a call; NULL is fine */

/* ---- sending ---- */

struct expo_message {
	struct bytes        members; /* of the JSON object, all but `to`: "\"title\":\"Hello\"" */
	const struct bytes *to;
	uint32_t            to_count; /* at least 1 */
};

struct expo_ticket {
	bool         ok;
	struct bytes id;    /* if ok: for its receipt; may be empty */
	struct bytes error; /* if not: "DeviceNotRegistered"; empty: Expo did not say */
};

/* Which tokens belong to which project: of a rejection because there are several. */
struct expo_project {
	struct bytes  name;
	struct bytes *tokens;
	uint32_t      token_count;
};

enum expo_end {
	EXPO_ANSWERED, /* a ticket for each (3) */
	EXPO_LATER,    /* not now (2): too many requests, no connection, no access */
	EXPO_REFUSED,  /* the request as a whole (2): `code` */
	EXPO_UNKNOWN,  /* (1) */
};

struct expo_answer {
	enum expo_end        end;
	int                  status; /* 0: there was no answer */
	struct bytes         code;   /* of the request: "TOO_MANY_REQUESTS"; empty: none */
	int64_t              wait_s; /* LATER: what Expo asked for; 0: nothing */
	struct expo_ticket  *tickets;
	uint32_t             ticket_count;
	struct expo_project *projects;
	uint32_t             project_count;
};

/* At most EXPO_RECIPIENTS_MAX recipients in all. */
struct expo_answer expo_send(struct expo *e, const struct expo_message *list, uint32_t count,
                             struct arena *a);

/* ---- receipts ---- */

struct expo_receipt {
	bool         found; /* false: not ready yet, or gone */
	bool         ok;
	struct bytes error;
};

struct expo_receipts {
	bool                 answered; /* false: ask again, after wait_s */
	int                  status;
	int64_t              wait_s;
	struct expo_receipt *list; /* one per id, in their order */
};

/* At most EXPO_RECEIPTS_MAX ids. May be asked as often as you like. */
struct expo_receipts expo_receipts(struct expo *e, const struct bytes *ids, uint32_t count, struct arena *a);

/* ---- for tests ---- */

/* The body of a request. */
struct bytes expo_body(const struct expo_message *list, uint32_t count, struct arena *a);

/* What an answer says to a request with so many recipients; and of receipts. */
struct expo_answer   expo_read(int status, struct bytes body, uint32_t recipients, struct arena *a);
struct expo_receipts expo_read_receipts(int status, struct bytes body, const struct bytes *ids,
                                        uint32_t count, struct arena *a);

#endif
