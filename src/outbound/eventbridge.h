/* EventBridge: events to a bus of Amazon EventBridge (PutEvents, JSON 1.1), as a sender (sender.h).
 *
 *   Source        `user-service` unless set            DetailType    the event's type: "user.created"
 *   Detail        the CloudEvent, as JSON              EventBusName  unless it is the account's default bus
 *   Time          the event's                          TraceHeader   its trace, as X-Ray writes it
 *
 * EventBridge promises no order and no deduplication: a receiver deduplicates by the CloudEvent's `id` and drops what is stale by its
 * `seq`. An event with its names may have EVENTBRIDGE_BYTES_MAX bytes.
 *
 * What always holds: see sender.h and aws_batch.h. */
#ifndef OUTBOUND_EVENTBRIDGE_H
#define OUTBOUND_EVENTBRIDGE_H

#include "outbound/aws_batch.h"

#define EVENTBRIDGE_SOURCE "user-service"

enum {
	EVENTBRIDGE_BYTES_MAX = 256 * 1024 - 1, /* "less than 256 KB", of a whole call */
	EVENTBRIDGE_SOURCE_CHARS_MAX = 256,
	EVENTBRIDGE_BUS_CHARS_MAX = 1600, /* an ARN */
	EVENTBRIDGE_TYPE_CHARS_MAX = 128,
};

struct eventbridge_options {
	struct aws_place place;
	struct bytes     bus;    /* a name or an ARN; empty: the account's default bus */
	struct bytes     source; /* empty: EVENTBRIDGE_SOURCE */
};

/* ERR_INVALID: err->field is bus, source or one of aws_batch_init's. Nothing is connected yet. */
enum err_code eventbridge_open(const struct eventbridge_options *options, struct sender **out,
                               struct err *err);

/* For tests. */
extern const struct aws_batch_kind eventbridge_batch;

#endif
