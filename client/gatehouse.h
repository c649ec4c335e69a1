/* gatehouse.h: the client of a Gatehouse server, for programs written in C or C++.
 *
 * One handle serves any number of threads: it keeps a few connections open, and a call takes one of them. No
 * call lasts longer than its deadline, whatever the server or the network does. Nothing is global, no
 * signal is raised, and no thread is started except one that looks up the server's name again.
 *
 * While the server cannot be reached, gatehouse_allow answers from a limiter in this process and says so
 * (degraded); gatehouse_attempt and gatehouse_check answer GATEHOUSE_UNKNOWN, and the caller decides.
 *
 * Text passed in is UTF-8, ends with a NUL and is only read during the call. Answers and errors are the
 * caller's memory and hold no pointers. Neither may be NULL, except an error that nobody wants to know.
 * After fork() the child must open a handle of its own. */
#ifndef GATEHOUSE_H
#define GATEHOUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GATEHOUSE_API __attribute__((visibility("default")))
#else
#define GATEHOUSE_API
#endif

enum {
	GATEHOUSE_DEADLINE_MS_DEFAULT = 1000,
	GATEHOUSE_DEADLINE_MS_MAX = 3600000,
	GATEHOUSE_CONNECTIONS_DEFAULT = 8,
	GATEHOUSE_CONNECTIONS_MAX = 256,
	GATEHOUSE_PROBE_MS_DEFAULT = 1000,
	GATEHOUSE_PROBE_MS_MAX = 600000,
	GATEHOUSE_LOCAL_KEYS_DEFAULT = 65536,
	GATEHOUSE_LOCAL_KEYS_MAX = 16777216,
	GATEHOUSE_TEXT_BYTES_MAX = 2048, /* of a key, a subject and every other text in a request */
	GATEHOUSE_ACTIONS_MAX = 16,      /* in one check, and 1 at least */
	GATEHOUSE_CHECK_LIMITS_MAX = 16, /* in one check */
	GATEHOUSE_RESULTS_MAX = 8,       /* of an allow's answer; a longer list is cut */
	GATEHOUSE_LIMITS_MAX = 256       /* given in the options */
};

/* What a call returns. Everything but GATEHOUSE_OK also fills the error. */
enum gatehouse_code {
	GATEHOUSE_OK = 0,
	GATEHOUSE_INVALID,     /* an argument or option cannot be right; nothing was sent */
	GATEHOUSE_NO_MEMORY,   /* or another of this process's resources; nothing was sent */
	GATEHOUSE_UNREACHABLE, /* no connection, or it broke, or none was tried because the last ones failed */
	GATEHOUSE_TIMEOUT,     /* the deadline passed */
	GATEHOUSE_PROTOCOL,    /* what came back is no answer of a Gatehouse server */
	GATEHOUSE_REFUSED, /* the server refused the request (4xx): error.status, .field and .text say why */
	GATEHOUSE_UNAVAILABLE /* the server could not do it now (5xx): error.retry_after_s may say when */
};

struct gatehouse_error {
	enum gatehouse_code code;
	int                 status;        /* the HTTP status, or 0 when there was no answer */
	int64_t             retry_after_s; /* 0: not known */
	char                field[64];     /* which member of the request, if the server said so */
	char                text[256];     /* for people; holds nothing of what was sent */
};

/* A limit for the local limiter: `limit` in any `window_s` seconds, at most `burst` at once (0: `limit`).
 * A limit of 0 refuses everything while the server is unreachable. A policy may have up to four. */
struct gatehouse_limit {
	const char *policy;
	int64_t     limit;
	int64_t     window_s;
	int64_t     burst;
};

/* Zero, or NULL, is the default of everything but the URL. All of it is copied. */
struct gatehouse_options {
	const char *url;           /* http://HOST[:PORT] or https://HOST[:PORT] */
	const char *key;           /* ID.SECRET, sent as a bearer token; NULL: none */
	bool        plain_http;    /* send the key without TLS to another machine */
	const char *ca_file;       /* https: who may sign the server's certificate; NULL: the system's list */
	const char *cert_file;     /* https: the certificate to show, if the server asks for one, */
	const char *cert_key_file; /* and its private key */
	int         deadline_ms;   /* of every call that gives none */
	int connections_max;       /* open at a time; calls past it wait their turn, within their deadline */
	int probe_ms; /* how long an unreachable server is left alone before one call tries it again */

	/* The local limiter. Policies that are not listed use what the server last said of them; what it says of a key with
	 * a limit of its own is not taken for the policy's. */
	const struct gatehouse_limit *limits;
	size_t                        limit_count;
	size_t local_keys_max; /* how many keys it remembers, 16 bytes each and limit; the emptiest go first */
	bool deny_when_unknown; /* refuse, not allow, when the server is unreachable and the limit unknown */
};

struct gatehouse;

/* Opens a handle. Asks the system for the addresses of the server's name, which takes as long as the system takes
 * (nothing, for a numeric address), but does not connect: a server that is down is no error here.
 * NULL: failed, and *error says why. */
GATEHOUSE_API struct gatehouse *gatehouse_open(const struct gatehouse_options *options,
                                               struct gatehouse_error         *error);

/* Closes it, when no call is under way any more. Waits for a look-up of the name that may be under way. NULL is
 * fine. */
GATEHOUSE_API void gatehouse_close(struct gatehouse *handle);

/* What a text is. The server keeps a hash of an address or a number, never the text itself; it refuses a plain text that is
 * personal on its face, such as one with an @. */
enum gatehouse_kind {
	GATEHOUSE_PLAIN = 0, /* an id of yours that says nothing about the person */
	GATEHOUSE_EMAIL,
	GATEHOUSE_PHONE,
	GATEHOUSE_IP
};

/* ---- may this happen now? ---- */

struct gatehouse_allow_request {
	const char *policy;
	const char *key;
	int64_t     cost;        /* 0: 1 */
	bool        peek;        /* only look: costs nothing */
	int         deadline_ms; /* 0: the handle's */

	enum gatehouse_kind key_kind;
};

struct gatehouse_limit_state {
	char    policy[65]; /* the longest name that a server takes, and a NUL */
	int64_t limit;      /* per window, as configured */
	int64_t remaining;  /* what could be taken now: at most the burst, if the policy has one */
	int64_t reset_s;
	bool    allowed; /* by this limit */
};

struct gatehouse_allow_answer {
	bool                         allowed;
	bool                         degraded; /* not the shared count: a local one, or the server said so */
	enum gatehouse_code          cause;    /* why this process decided; GATEHOUSE_OK: the server did */
	int64_t                      retry_after_s; /* when not allowed; 0: not known */
	size_t                       result_count;
	struct gatehouse_limit_state results[GATEHOUSE_RESULTS_MAX];
};

/* Asks the server and, while it is unreachable, the local limiter: then GATEHOUSE_OK too, with degraded set and the
 * cause. GATEHOUSE_REFUSED and GATEHOUSE_UNAVAILABLE are the server's own words (a policy that fails closed, say)
 * and are not overruled: allowed is false. */
GATEHOUSE_API enum gatehouse_code gatehouse_allow(struct gatehouse                     *handle,
                                                  const struct gatehouse_allow_request *request,
                                                  struct gatehouse_allow_answer        *answer,
                                                  struct gatehouse_error               *error);

/* ---- attempts and checks ---- */

enum gatehouse_verdict {
	GATEHOUSE_UNKNOWN = 0, /* there is no verdict: the caller decides, and "let him in" is a decision */
	GATEHOUSE_ALLOW,
	GATEHOUSE_LOCKED,
	GATEHOUSE_LOCKED_PERMANENT,
	GATEHOUSE_SIGNED_OUT,
	GATEHOUSE_BLOCKED,
	GATEHOUSE_LIMITED,  /* only of a check that asked about limits */
	GATEHOUSE_CHALLENGE /* ask for more, a CAPTCHA or a second factor, before the next try */
};

enum gatehouse_outcome { GATEHOUSE_FAILURE = 1, GATEHOUSE_SUCCESS, GATEHOUSE_SENT };

/* The names are the server's; NULL leaves a member out where that is possible. */
struct gatehouse_attempt_request {
	const char            *subject;
	const char            *journey; /* SIGN_IN, … */
	const char            *type;    /* PASSWORD_ENTRY, … */
	enum gatehouse_outcome outcome;
	const char            *method_id;         /* NULL, or */
	const char            *method_type;       /* NULL, or */
	const char            *notification_type; /* NULL, or */
	const char            *ip;                /* NULL, or */
	const char            *device_token;      /* NULL, or the last that an answer gave this device */
	const char *idempotency_key;  /* NULL: a new one. The key of an answer: the same attempt again */
	int         deadline_ms;      /* 0: the handle's */
	bool        challenge_passed; /* what GATEHOUSE_CHALLENGE asked for was done for this attempt */
	int         risk;             /* 1 to 100: how risky this attempt looks to you; 0: not said */

	enum gatehouse_kind subject_kind, method_id_kind;
};

struct gatehouse_attempt_answer {
	enum gatehouse_verdict verdict; /* GATEHOUSE_UNKNOWN unless GATEHOUSE_OK is returned */
	char                   reason[64];
	bool                   counted;
	bool                   first_time;
	int64_t                retry_after_s;       /* of the lock; 0: none */
	char                   until[40];           /* of the lock, RFC 3339; empty: none */
	char                   idempotency_key[65]; /* that was sent, whether or not an answer came */
	bool                   known_device;        /* the token opened the lane of a known device */
	char                   device_token[129];   /* a new one, for the device to keep; empty: none */
};

/* Records an attempt and says what follows from it. The library sends it a second time if a connection breaks, with the
 * same idempotency key, so that it counts once. After GATEHOUSE_UNREACHABLE or _TIMEOUT it may or may not have been
 * counted; calling again with the answer's idempotency_key settles it. */
GATEHOUSE_API enum gatehouse_code gatehouse_attempt(struct gatehouse                       *handle,
                                                    const struct gatehouse_attempt_request *request,
                                                    struct gatehouse_attempt_answer        *answer,
                                                    struct gatehouse_error                 *error);

/* A limit to look at: would it let this much through now? Nothing is taken. */
struct gatehouse_check_limit {
	const char *policy;
	const char *key;
	int64_t     cost; /* 0: 1 */

	enum gatehouse_kind key_kind;
};

struct gatehouse_check_request {
	const char        *subject;
	const char        *journey;
	const char *const *actions; /* types of the journey: PASSWORD_ENTRY, … */
	size_t             action_count;
	int                deadline_ms; /* 0: the handle's */

	const struct gatehouse_check_limit *limits; /* no two with the same policy and key */
	size_t                              limit_count;

	enum gatehouse_kind subject_kind;
};

struct gatehouse_check_answer {
	enum gatehouse_verdict       verdict; /* GATEHOUSE_UNKNOWN unless GATEHOUSE_OK is returned */
	char                         reason[64];
	int64_t                      retry_after_s; /* of whatever lasts longest; 0: none, or it has no end */
	char                         until[40];
	bool                         degraded;    /* a limit could not be looked at, and lets through then */
	size_t                       limit_count; /* as many as were asked about, in that order */
	struct gatehouse_limit_state limits[GATEHOUSE_CHECK_LIMITS_MAX];
};

/* Asks for one verdict over actions and limits, without recording or taking anything. While the server is unreachable
 * the local limiter is not asked: it is GATEHOUSE_UNKNOWN, as without limits. */
GATEHOUSE_API enum gatehouse_code gatehouse_check(struct gatehouse                     *handle,
                                                  const struct gatehouse_check_request *request,
                                                  struct gatehouse_check_answer        *answer,
                                                  struct gatehouse_error               *error);

/* ---- events: a member of a consumer ----
 *
 * The server keeps the consumer's place and shares its events among members, by subject (docs/events.md). Every event comes at least
 * once, and the events of a subject come in order, to one member at a time. What this process has dealt with is not handed
 * over again, even if the server could not be told. */

enum {
	GATEHOUSE_EVENTS_DEFAULT = 20, /* per round */
	GATEHOUSE_EVENTS_MAX = 1000,
	GATEHOUSE_WAIT_S_DEFAULT = 20,
	GATEHOUSE_LEASE_S_DEFAULT = 30,
	GATEHOUSE_REMEMBER_DEFAULT = 4096,
	GATEHOUSE_REMEMBER_MAX = 1048576
};

/* Valid while the handler runs. */
struct gatehouse_event {
	char        id[65], type[65], subject[257];
	int64_t     seq;      /* counts the subject's events */
	int64_t     position; /* in the log */
	bool        erased;   /* its subject was erased: it has no data any more */
	const char *json;     /* the CloudEvent, without a NUL */
	size_t      json_len;
};

/* Zero, or NULL, is the default of everything but name and handle. Texts are copied. */
struct gatehouse_consumer_options {
	const char *name;    /* of the consumer, which must be there (PUT /v1/consumers/NAME) */
	const char *member;  /* of this process; NULL: a random one. Two processes must not share it */
	int         limit;   /* events per round */
	int         wait_s;  /* that a round waits for an event; -1: not at all */
	int         lease_s; /* how long a round may take; if it takes longer, others are given its events */
	size_t      remember_max; /* events and subjects, 400 bytes each */

	/* Deals with an event. False: it could not. The round ends there, and the event comes again. It may make calls with the
	 * same handle, but none with this consumer. */
	bool (*handle)(void *ctx, const struct gatehouse_event *event);
	void *ctx;
};

struct gatehouse_consumer_round {
	size_t handled;
	size_t repeated; /* that were dealt with before, and not handed over */
	bool   refused;  /* by the handler: wait a little before the next round */
	bool lost; /* the share of this member has changed meanwhile: others may be given some of the events again */
	bool more; /* there is more to read at once */
};

struct gatehouse_consumer;

/* The handle must outlive it. NULL: failed, and *error says why. */
GATEHOUSE_API struct gatehouse_consumer *
gatehouse_consumer_open(struct gatehouse *handle, const struct gatehouse_consumer_options *options,
                        struct gatehouse_error *error);

/* One round: asks for events, hands them over, acknowledges those that were dealt with. Call it again and again, from one thread. It
 * may last for wait_s and the handle's deadline, and as long as the handlers take. After an error, wait a little and call it again:
 * nothing is lost. GATEHOUSE_REFUSED with status 404: there is no such consumer; 410: events that it had not read were trimmed. */
GATEHOUSE_API enum gatehouse_code gatehouse_consumer_run(struct gatehouse_consumer       *consumer,
                                                         struct gatehouse_consumer_round *round,
                                                         struct gatehouse_error          *error);

/* Gives its share to others at once, if the server can be reached. NULL is fine. */
GATEHOUSE_API void gatehouse_consumer_close(struct gatehouse_consumer *consumer);

/* ---- names, for logs ---- */

GATEHOUSE_API const char *gatehouse_code_name(enum gatehouse_code code);
GATEHOUSE_API const char *gatehouse_verdict_name(enum gatehouse_verdict verdict);
GATEHOUSE_API const char *gatehouse_version(void);

#ifdef __cplusplus
}
#endif

#endif
