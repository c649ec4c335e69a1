/* SQS: events to a queue of Amazon SQS (SendMessageBatch, JSON 1.0), as a sender (sender.h).
 *
 *   MessageBody        the CloudEvent, as JSON
 *   MessageAttributes  eventType: "user.created"
 *   on a FIFO queue (its name ends with .fifo):
 *   MessageGroupId           the event's subject, so that its events stay in order; if SQS does not take it as it is, its SHA-256
 *   MessageDeduplicationId   the event's id: what is sent again within five minutes is delivered once
 *
 * A standard queue promises neither order nor that a message comes once: a receiver deduplicates by the CloudEvent's `id` and drops what
 * is stale by its `seq`. A FIFO queue takes 300 calls per second, 3,000 events in batches of ten, unless high throughput is switched on
 * for it; what exceeds that is throttled, and sent later.
 *
 * Calls go to the queue's URL, as those of AWS's SDKs do. What always holds: see sender.h and aws_batch.h. */
#ifndef OUTBOUND_SQS_H
#define OUTBOUND_SQS_H

#include "outbound/aws_batch.h"

enum {
	SQS_MESSAGE_BYTES_MAX = 1024 * 1024,
	SQS_BATCH_BYTES_MAX =
	        256 * 1024, /* queues set up before 2026, and emulators, take no more in one call */
	SQS_QUEUE_URL_BYTES_MAX = 1024,
	SQS_GROUP_CHARS_MAX = 128,
};

struct sqs_options {
	struct aws_place
	             place; /* no endpoint: the queue's; no region: that in the queue's host, if it has one */
	struct bytes queue_url; /* https://sqs.eu-west-1.amazonaws.com/123456789012/events.fifo */
};

/* ERR_INVALID: err->field is queueUrl or one of aws_batch_init's. Nothing is connected yet. */
enum err_code sqs_open(const struct sqs_options *options, struct sender **out, struct err *err);

/* ---- for tests ---- */

extern const struct aws_batch_kind sqs_batch;

/* The group of a subject. */
struct bytes sqs_group(struct bytes subject, struct arena *a);

#endif
