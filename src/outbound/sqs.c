/* SQS: see sqs.h. */
#define _GNU_SOURCE
#include "outbound/sqs.h"

#include <stdlib.h>

#include "base/crypto.h"

#define TYPE_NAME "eventType" /* of the message attribute */

struct sqs {
	struct aws_batch batch;
	struct bytes     queue_url;
	bool             fifo;
};

/* ---- requests ---- */

static size_t weigh(const struct aws_batch *b, const struct sender_event *e)
{
	(void)b;
	return e->json.len + strlen(TYPE_NAME "String") + e->type.len;
}

/* SQS takes what XML 1.0 takes. JSON has escaped control characters already; what is left are U+FFFE and U+FFFF, which can only be in
 * a string here, and are escaped too. */
static struct bytes body_clean(struct bytes json, struct arena *a)
{
	struct buf  out;
	const char *at = json.data, *end = json.data + json.len, *found;

	buf_init(&out, a);
	while ((found = memmem(at, (size_t)(end - at), "\xef\xbf", 2)) != NULL && found + 2 < end) {
		bool bad = found[2] == '\xbe' || found[2] == '\xbf';

		buf_add(&out, at, (size_t)(found - at) + (bad ? 0 : 3));
		if (bad)
			buf_add_bytes(&out, found[2] == '\xbe' ? BYTES("\\ufffe") : BYTES("\\uffff"));
		at = found + 3;
	}
	if (at == json.data)
		return json;
	buf_add(&out, at, (size_t)(end - at));
	return buf_bytes(&out);
}

struct bytes sqs_group(struct bytes subject, struct arena *a)
{
	char  *hash;
	bool   fits = subject.len <= SQS_GROUP_CHARS_MAX;
	size_t i = 0;

	if (subject.len == 0)
		return BYTES("gatehouse");
	for (; i < subject.len && fits; i++)
		fits = subject.data[i] > ' ' && subject.data[i] <= '~';
	if (fits)
		return subject;
	hash = arena_alloc(a, SHA256_HEX_CHARS);
	sha256_hex(subject, hash);
	return (struct bytes){hash, SHA256_HEX_CHARS};
}

static void attribute_write(struct json_writer *w, struct bytes name, struct bytes value)
{
	json_key(w, name);
	json_begin_object(w);
	json_member_text(w, BYTES("DataType"), BYTES("String"));
	json_member_text(w, BYTES("StringValue"), value);
	json_end_object(w);
}

static void attributes_write(struct json_writer *w, const struct sender_event *e)
{
	char         space[AWS_TRACE_HEADER_CHARS];
	struct bytes trace = aws_trace_header(e->trace, space);

	json_key(w, BYTES("MessageAttributes"));
	json_begin_object(w);
	attribute_write(w, BYTES(TYPE_NAME), e->type);
	json_end_object(w);
	if (trace.len == 0)
		return;
	json_key(w, BYTES("MessageSystemAttributes"));
	json_begin_object(w);
	attribute_write(w, BYTES("AWSTraceHeader"), trace);
	json_end_object(w);
}

/* The Id tells entries of one call apart: its place among them, one digit. */
static void entry_write(const struct sqs *q, struct json_writer *w, const struct sender_event *e,
                        uint32_t place, struct arena *a)
{
	char id = (char)('0' + place);

	json_begin_object(w);
	json_member_text(w, BYTES("Id"), (struct bytes){&id, 1});
	json_member_text(w, BYTES("MessageBody"), body_clean(e->json, a));
	attributes_write(w, e);
	if (q->fifo) {
		json_member_text(w, BYTES("MessageDeduplicationId"), e->id);
		json_member_text(w, BYTES("MessageGroupId"), sqs_group(e->subject, a));
	}
	json_end_object(w);
}

static struct bytes body_write(const struct aws_batch *b, struct sender_event *const *list, uint32_t count,
                               struct arena *a)
{
	const struct sqs  *q = (const struct sqs *)b;
	struct json_writer w;
	struct buf         out;

	buf_init(&out, a);
	json_writer_init(&w, &out);
	json_begin_object(&w);
	json_member_text(&w, BYTES("QueueUrl"), q->queue_url);
	json_key(&w, BYTES("Entries"));
	json_begin_array(&w);
	for (uint32_t i = 0; i < count; i++)
		entry_write(q, &w, list[i], i, a);
	json_end_array(&w);
	json_end_object(&w);
	return buf_bytes(&out);
}

/* ---- answers ---- */

/* NULL: no event has that id. */
static struct sender_event *event_of(const struct json *entry, struct sender_event *const *list,
                                     uint32_t count)
{
	struct bytes id = aws_text_of(entry, "Id");
	bool         ours = id.len == 1 && id.data[0] >= '0' && (uint32_t)(id.data[0] - '0') < count;

	return ours ? list[id.data[0] - '0'] : NULL;
}

static const struct json *first_of(const struct json *answer, struct bytes name)
{
	const struct json *list = json_get(answer, name);

	return list != NULL && list->type == JSON_ARRAY ? json_children(list) : NULL;
}

/* Lists that are empty may be missing. What is in both is sent again: whoever gets it twice knows it by its id. */
static bool answer_read(const struct json *answer, struct sender_event *const *list, uint32_t count)
{
	struct sender_event *e;

	if (answer->type != JSON_OBJECT)
		return false;
	for (const struct json *m = first_of(answer, BYTES("Successful")); m != NULL; m = m->next)
		if ((e = event_of(m, list, count)) != NULL && aws_text_of(m, "MessageId").len > 0)
			sender_result(e, SENDER_SENT, e->status, NULL);
	for (const struct json *m = first_of(answer, BYTES("Failed")); m != NULL; m = m->next) {
		const struct json *fault = json_get(m, BYTES("SenderFault"));
		bool               ours = fault != NULL && fault->type == JSON_BOOL && json_truth(fault);

		if ((e = event_of(m, list, count)) == NULL)
			continue;
		if (e->end == SENDER_SENT)
			sender_result(e, SENDER_LATER, e->status,
			              "the answer says both that it was taken and that it failed");
		else
			aws_batch_entry_failed(e, aws_text_of(m, "Code"), ours);
	}
	return true;
}

const struct aws_batch_kind sqs_batch = {.service = {"sqs", "AmazonSQS", "1.0"},
                                         .operation = "SendMessageBatch",
                                         .host = "sqs",
                                         .event_bytes_max = SQS_MESSAGE_BYTES_MAX,
                                         .weigh = weigh,
                                         .write = body_write,
                                         .read = answer_read};

/* ---- life ---- */

static void sqs_close(struct sender *s)
{
	aws_batch_release((struct aws_batch *)s);
	free(s);
}

/* The attributes of ten events fit beside their JSON. */
static const struct sender_kind kind = {.name = "sqs",
                                        .batch_max = AWS_BATCH_EVENTS_MAX,
                                        .batch_bytes_max = SQS_BATCH_BYTES_MAX - 4096,
                                        .send = aws_batch_send,
                                        .stop = aws_batch_stop,
                                        .close = sqs_close};

/* Scheme, host and port; the rest is the account and the queue's name. Empty: it is no such URL. */
static struct bytes origin_of(struct bytes url)
{
	const char *host = url.len == 0 ? NULL : memmem(url.data, url.len, "://", 3);
	const char *path =
	        host == NULL ? NULL : memchr(host + 3, '/', url.len - (size_t)(host + 3 - url.data));

	if (path == NULL || path + 1 == url.data + url.len || url.len > SQS_QUEUE_URL_BYTES_MAX)
		return (struct bytes){"", 0};
	if (!bytes_hold_only((struct bytes){path, url.len - (size_t)(path - url.data)}, "/-_."))
		return (struct bytes){"", 0};
	return (struct bytes){url.data, (size_t)(path - url.data)};
}

/* "https://sqs.eu-west-1.amazonaws.com" is in eu-west-1. Empty: it does not say. */
static struct bytes region_of(struct bytes origin)
{
	struct bytes prefix = BYTES("https://sqs.");
	const char  *end;

	if (!bytes_starts_with(origin, prefix))
		return (struct bytes){"", 0};
	origin = (struct bytes){origin.data + prefix.len, origin.len - prefix.len};
	end = memmem(origin.data, origin.len, ".amazonaws.com", 14);
	return (struct bytes){origin.data, end == NULL ? 0 : (size_t)(end - origin.data)};
}

static bool is_fifo(struct bytes url)
{
	struct bytes ending = BYTES(".fifo");

	return url.len > ending.len && memcmp(url.data + url.len - ending.len, ending.data, ending.len) == 0;
}

static enum err_code queue_url_wrong(struct err *err)
{
	return err_field(err, ERR_INVALID, "queueUrl",
	                 "must be the URL of a queue, like "
	                 "https://sqs.eu-west-1.amazonaws.com/123456789012/events.fifo; http:// "
	                 "needs --private-targets");
}

enum err_code sqs_open(const struct sqs_options *options, struct sender **out, struct err *err)
{
	struct aws_place place = options->place;
	struct bytes     origin = origin_of(options->queue_url);
	struct sqs      *q;

	if (origin.len == 0)
		return queue_url_wrong(err);
	if (place.endpoint.len == 0)
		place.endpoint = origin;
	if (place.region.len == 0)
		place.region = region_of(origin);
	q = mem_zalloc(sizeof(*q));
	q->batch.base.kind = &kind;
	if (aws_batch_init(&q->batch, &sqs_batch, &place, err) != ERR_NONE) {
		sqs_close(&q->batch.base);
		return options->place.endpoint.len == 0 && strcmp(err->field, "endpoint") == 0
		               ? queue_url_wrong(err)
		               : err->code;
	}
	q->queue_url = arena_copy(&q->batch.arena, options->queue_url);
	q->fifo = is_fifo(options->queue_url);
	*out = &q->batch.base;
	return ERR_NONE;
}
