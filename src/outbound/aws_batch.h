/* AWS batch: what SQS and EventBridge have in common as ways to deliver events (sender.h): a signed call takes up to ten entries, its
 * answer tells what became of each, and errors have names. Internal to outbound/.
 *
 * What always holds
 * (1) An event that cannot fit is refused without a call.
 * (2) If a call as a whole is refused for what it contains, nobody knows which event it was: each is sent once more, alone, so that
 *     only the wrong one is refused.
 * (3) An answer that leaves an event out, or that is not the service's, means LATER.
 * (4) An error text repeats names of errors only if they are in the list that aws_batch.c has. */
#ifndef OUTBOUND_AWS_BATCH_H
#define OUTBOUND_AWS_BATCH_H

#include "json/json.h"
#include "json/write.h"
#include "outbound/aws.h"
#include "outbound/sender.h"

enum {
	AWS_BATCH_EVENTS_MAX = 10, /* SQS and EventBridge alike */
	AWS_BATCH_SEND_S = 15,     /* all calls of one send; credentials may take CREDENTIALS_FETCH_S more */
	AWS_BATCH_ANSWER_BYTES_MAX = 64 * 1024,
	AWS_REGION_CHARS_MAX = 64,
	AWS_SECRET_CHARS_MAX = 128,
	AWS_TRACE_HEADER_CHARS = 40, /* "Root=1-" and 8, "-" and 24 digits */
};

/* Where, and as whom. Texts are copied. */
struct aws_place {
	const char  *name;          /* for logs: of the target */
	struct bytes region;        /* empty: that of the credentials */
	struct bytes endpoint;      /* scheme, host and port; empty: AWS's own in that region */
	const char  *ca_file;       /* NULL: the system's */
	bool         allow_private; /* and plain http. AWS's own endpoints may be private: see below */
	uint32_t     calls_max;     /* at once */
	int64_t      within_us;     /* all calls of one send; 0: AWS_BATCH_SEND_S */
	struct bytes key_id, secret, session_token; /* empty: `credentials` */
	struct aws_credentials *credentials;        /* must outlive it; may be NULL if a key is given */
	struct clock           *clock;              /* must outlive it */
};

struct aws_batch;

struct aws_batch_kind {
	struct aws_service service;
	const char        *operation;
	const char        *host;            /* "sqs": of sqs.eu-west-1.amazonaws.com */
	size_t             event_bytes_max; /* of one event, as the service weighs it */

	size_t (*weigh)(const struct aws_batch *b, const struct sender_event *e);

	/* The body of a call. */
	struct bytes (*write)(const struct aws_batch *b, struct sender_event *const *list, uint32_t count,
	                      struct arena *a);

	/* Sets what the answer says of each event; what it leaves out stays LATER. False: it is no answer of this service's. */
	bool (*read)(const struct json *answer, struct sender_event *const *list, uint32_t count);
};

/* The first member of a sender. */
struct aws_batch {
	struct sender                base;
	const struct aws_batch_kind *kind;
	struct arena                 arena; /* of the sender's own texts */
	struct clock                *clock;
	int64_t                      within_us;
	struct aws_credentials      *own; /* NULL: they are somebody else's */
	struct outbound             *target;
	struct aws                  *aws;
	const char                  *region;
};

/* `b` is zeroed memory of the sender's. ERR_INVALID: err->field is region, endpoint, accessKeyId or secretAccessKey. Whatever it
 * returns, aws_batch_release is due. */
enum err_code aws_batch_init(struct aws_batch *b, const struct aws_batch_kind *kind,
                             const struct aws_place *place, struct err *err);
void          aws_batch_release(struct aws_batch *b);

/* For sender_kind. */
void aws_batch_send(struct sender *s, struct sender_event *list, uint32_t count, struct arena *a);
void aws_batch_stop(struct sender *s);

/* One entry failed, with an error of that name. An unknown one means that the event is refused if `ours` (the service says that it is
 * the sender's fault), else LATER. */
void aws_batch_entry_failed(struct sender_event *e, struct bytes code, bool ours);

/* A trace id as AWS's X-Ray writes it; empty if there is none. */
struct bytes aws_trace_header(struct bytes trace, char out[AWS_TRACE_HEADER_CHARS]);

/* Is it one of AWS's own, over TLS? In a private network its name may stand for a private address (an interface endpoint), and the
 * certificate tells whether it is what it says: no address needs to be refused. */
bool aws_endpoint_is_own(struct bytes url);

/* A text member of an answer; NULL data: none. */
struct bytes aws_text_of(const struct json *object, const char *name);

/* What one call's answer makes of its events; also for tests. True: the call was refused for what it contains. (2) */
bool aws_batch_read(const struct aws_batch_kind *kind, const struct aws_answer *answer,
                    struct sender_event *const *list, uint32_t count, struct arena *a);

#endif
