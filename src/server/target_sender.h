/* Target senders: a sender (outbound/sender.h) for each type of target (service/target.h). The only file that knows which sender a type has. */
#ifndef SERVER_TARGET_SENDER_H
#define SERVER_TARGET_SENDER_H

#include <pthread.h>

#include "outbound/credentials.h"
#include "outbound/sender.h"
#include "service/target.h"

/* What all senders of this server share. */
struct target_senders {
	struct clock           *clock;
	bool                    allow_private; /* addresses on this machine and in this network */
	const char             *ca_file;       /* NULL: the system's */
	pthread_mutex_t         lock;
	struct aws_credentials *credentials; /* under lock: looked for when they are first needed */
};

void target_senders_init(struct target_senders *s, struct clock *clock);
void target_senders_release(struct target_senders *s); /* all senders are closed */

struct target_sending {
	struct bytes                name;
	const struct target_type   *type;
	struct item                 settings, secrets; /* texts by name; secrets as they are */
	const struct target_header *headers; /* of a webhook; values of secret ones are among the secrets */
	uint32_t                    header_count, lanes;
	int64_t                     call_s;
};

/* ERR_INVALID: err->field is one of the type's. Nothing is connected yet. */
enum err_code target_sender_open(struct target_senders *s, const struct target_sending *q,
                                 struct sender **out, struct err *err);

/* The same for a stored target. ERR_STORAGE: its secrets cannot be read. */
enum err_code target_sender_open_stored(struct target_senders *s, const struct context *ctx,
                                        const struct target *t, struct sender **out, struct err *err);

#endif
