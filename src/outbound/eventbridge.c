/* EventBridge: see eventbridge.h. */
#include "outbound/eventbridge.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/date.h"

struct eventbridge {
	struct aws_batch batch;
	struct bytes     bus, source;
};

enum { TIME_BYTES = 14 }; /* what a Time weighs, whatever it is */

static size_t weigh(const struct aws_batch *b, const struct sender_event *e)
{
	const struct eventbridge *eb = (const struct eventbridge *)b;

	return TIME_BYTES + eb->source.len + e->type.len + e->json.len;
}

/* Seconds since 1970 with milliseconds, as AWS's SDKs write it. */
static void time_write(struct json_writer *w, struct bytes time, struct arena *a)
{
	int64_t micros;

	if (!date_read_iso(time, &micros))
		return;
	json_key(w, BYTES("Time"));
	json_raw(w, arena_printf(a, "%" PRIi64 ".%03d", micros / 1000000, (int)(micros / 1000 % 1000)));
}

static void entry_write(const struct eventbridge *eb, struct json_writer *w, const struct sender_event *e,
                        struct arena *a)
{
	char trace[AWS_TRACE_HEADER_CHARS];

	json_begin_object(w);
	time_write(w, e->time, a);
	json_member_text(w, BYTES("Source"), eb->source);
	json_member_text(w, BYTES("DetailType"), e->type);
	json_member_text(w, BYTES("Detail"), e->json);
	json_member_text(w, BYTES("EventBusName"), eb->bus);
	json_member_text(w, BYTES("TraceHeader"), aws_trace_header(e->trace, trace));
	json_end_object(w);
}

static struct bytes body_write(const struct aws_batch *b, struct sender_event *const *list, uint32_t count,
                               struct arena *a)
{
	struct json_writer w;
	struct buf         out;

	buf_init(&out, a);
	json_writer_init(&w, &out);
	json_begin_object(&w);
	json_key(&w, BYTES("Entries"));
	json_begin_array(&w);
	for (uint32_t i = 0; i < count; i++)
		entry_write((const struct eventbridge *)b, &w, list[i], a);
	json_end_array(&w);
	json_end_object(&w);
	return buf_bytes(&out);
}

/* More entries failed than say so: then none of the others is known to be taken. */
static void doubt(const struct json *failed, uint32_t told, struct sender_event *const *list, uint32_t count)
{
	if (failed == NULL || failed->type != JSON_INT || json_integer(failed) <= (int64_t)told)
		return;
	for (uint32_t i = 0; i < count; i++)
		if (list[i]->end == SENDER_SENT)
			sender_result(list[i], SENDER_LATER, list[i]->status,
			              "the answer counts more failures than it names");
}

/* One entry for each event, in their order. */
static bool answer_read(const struct json *answer, struct sender_event *const *list, uint32_t count)
{
	const struct json *entries = json_get(answer, BYTES("Entries")), *entry;
	uint32_t           failed = 0;

	if (entries == NULL || entries->type != JSON_ARRAY || entries->count != count)
		return false;
	entry = json_children(entries);
	for (uint32_t i = 0; i < count; i++, entry = entry->next) {
		struct bytes code = aws_text_of(entry, "ErrorCode");

		if (code.len > 0)
			aws_batch_entry_failed(list[i], code, false);
		else if (aws_text_of(entry, "EventId").len > 0)
			sender_result(list[i], SENDER_SENT, list[i]->status, NULL);
		failed += list[i]->end != SENDER_SENT;
	}
	doubt(json_get(answer, BYTES("FailedEntryCount")), failed, list, count);
	return true;
}

const struct aws_batch_kind eventbridge_batch = {.service = {"events", "AWSEvents", "1.1"},
                                                 .operation = "PutEvents",
                                                 .host = "events",
                                                 .event_bytes_max = EVENTBRIDGE_BYTES_MAX,
                                                 .weigh = weigh,
                                                 .write = body_write,
                                                 .read = answer_read};

/* ---- life ---- */

static void eventbridge_close(struct sender *s)
{
	aws_batch_release((struct aws_batch *)s);
	free(s);
}

/* The names of ten events fit beside their JSON. */
static const struct sender_kind kind = {
        .name = "eventbridge",
        .batch_max = AWS_BATCH_EVENTS_MAX,
        .batch_bytes_max = EVENTBRIDGE_BYTES_MAX -
                           AWS_BATCH_EVENTS_MAX *
                                   (TIME_BYTES + EVENTBRIDGE_SOURCE_CHARS_MAX + EVENTBRIDGE_TYPE_CHARS_MAX),
        .send = aws_batch_send,
        .stop = aws_batch_stop,
        .close = eventbridge_close};

static enum err_code names_read(struct eventbridge *eb, const struct eventbridge_options *o, struct err *err)
{
	struct bytes source = o->source.len > 0 ? o->source : BYTES(EVENTBRIDGE_SOURCE);

	if (o->bus.len > EVENTBRIDGE_BUS_CHARS_MAX || !bytes_hold_only(o->bus, "/.-_:"))
		return err_field(err, ERR_INVALID, "bus",
		                 "must be a name or an ARN: at most %d letters, digits and / . - _ :",
		                 EVENTBRIDGE_BUS_CHARS_MAX);
	if (source.len > EVENTBRIDGE_SOURCE_CHARS_MAX || !bytes_hold_only(source, "/.-_:@") ||
	    bytes_starts_with(source, BYTES("aws.")))
		return err_field(
		        err, ERR_INVALID, "source",
		        "must be at most %d letters, digits and / . - _ : @, and not begin with aws.",
		        EVENTBRIDGE_SOURCE_CHARS_MAX);
	eb->bus = arena_copy(&eb->batch.arena, o->bus);
	eb->source = arena_copy(&eb->batch.arena, source);
	return ERR_NONE;
}

enum err_code eventbridge_open(const struct eventbridge_options *options, struct sender **out,
                               struct err *err)
{
	struct eventbridge *eb = mem_zalloc(sizeof(*eb));

	eb->batch.base.kind = &kind;
	if (aws_batch_init(&eb->batch, &eventbridge_batch, &options->place, err) != ERR_NONE ||
	    names_read(eb, options, err) != ERR_NONE) {
		eventbridge_close(&eb->batch.base);
		return err->code;
	}
	*out = &eb->batch.base;
	return ERR_NONE;
}
