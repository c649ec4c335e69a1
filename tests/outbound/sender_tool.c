/* Sender tool: lets tests written in other languages send events. The first line of standard input sets up, each further line is a list
 * of events; each line of standard output is a list of results:
 *
 *   {"type": "sqs", "queueUrl", "region", "endpoint"}, {"type": "eventbridge", "bus", "source", "region", "endpoint"} or
 *   {"type": "nats", "url", "subject", "token", "user", "password", "seed", "credentials", "caFile"}, each with "withinMs"
 *   [{"id", "type", "subject", "time", "json", "trace"}, …]
 *   [{"end": "sent", "status": 200, "wait": 0, "error": ""}, …]
 *
 * AWS's credentials come from the environment. Private addresses are allowed unless "private" is false. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "outbound/eventbridge.h"
#include "outbound/nats.h"
#include "outbound/sqs.h"

static struct bytes text(const struct json *object, const char *name)
{
	return aws_text_of(object, name);
}

static bool is_private(const struct json *setup)
{
	const struct json *private = json_get(setup, BYTES("private"));

	return private == NULL || json_truth(private);
}

/* One send; 0: as long as senders take unless told. */
static int64_t within_us(const struct json *setup)
{
	const struct json *ms = json_get(setup, BYTES("withinMs"));

	return ms == NULL ? 0 : json_integer(ms) * 1000;
}

static enum err_code nats(const struct json *setup, struct sender **out, struct err *err)
{
	struct bytes        ca = text(setup, "caFile");
	struct nats_options o = {.name = "tool",
	                         .url = text(setup, "url"),
	                         .subject = text(setup, "subject"),
	                         .token = text(setup, "token"),
	                         .user = text(setup, "user"),
	                         .password = text(setup, "password"),
	                         .seed = text(setup, "seed"),
	                         .credentials = text(setup, "credentials"),
	                         .allow_private = is_private(setup),
	                         .within_us = within_us(setup),
	                         .clock = clock_system()};
	struct arena        a;
	enum err_code       rc;

	arena_init(&a);
	if (ca.len > 0)
		o.ca_file = arena_printf(&a, "%.*s", BYTES_ARG(ca)).data;
	rc = nats_open(&o, out, err);
	arena_release(&a);
	return rc;
}

static struct aws_place place_of(const struct json *setup)
{
	struct aws_place p = {.name = "tool",
	                      .region = text(setup, "region"),
	                      .endpoint = text(setup, "endpoint"),
	                      .allow_private = is_private(setup),
	                      .calls_max = 4,
	                      .within_us = within_us(setup),
	                      .clock = clock_system()};
	struct err       err;

	if (aws_credentials_open(&environment_process, p.clock, &p.credentials, &err) != ERR_NONE)
		p.credentials = NULL;
	return p;
}

static struct sender *opened(const struct json *setup)
{
	struct sender *s = NULL;
	struct err     err;
	enum err_code  rc = ERR_INVALID;

	err_field(&err, ERR_INVALID, "type", "is unknown");
	if (bytes_is(text(setup, "type"), "sqs"))
		rc = sqs_open(&(struct sqs_options){place_of(setup), text(setup, "queueUrl")}, &s, &err);
	else if (bytes_is(text(setup, "type"), "eventbridge"))
		rc = eventbridge_open(&(struct eventbridge_options){place_of(setup), text(setup, "bus"),
		                                                    text(setup, "source")},
		                      &s, &err);
	else if (bytes_is(text(setup, "type"), "nats"))
		rc = nats(setup, &s, &err);
	if (rc != ERR_NONE) {
		printf("{\"field\":\"%s\"}\n", err.field);
		exit(0);
	}
	return s;
}

static struct sender_event event_of(const struct json *from)
{
	return (struct sender_event){.id = text(from, "id"),
	                             .type = text(from, "type"),
	                             .subject = text(from, "subject"),
	                             .time = text(from, "time"),
	                             .json = text(from, "json"),
	                             .trace = text(from, "trace")};
}

static void result_write(struct json_writer *w, const struct sender_event *e)
{
	static const char *const ends[] = {[SENDER_LATER] = "later",
	                                   [SENDER_SENT] = "sent",
	                                   [SENDER_REFUSED] = "refused",
	                                   [SENDER_GONE] = "gone"};

	json_begin_object(w);
	json_member_text(w, BYTES("end"), bytes_of(ends[e->end]));
	json_member_i64(w, BYTES("status"), e->status);
	json_member_i64(w, BYTES("wait"), e->wait_s);
	json_key(w, BYTES("error"));
	json_string(w, bytes_of(e->error));
	json_end_object(w);
}

static void answer(struct sender *s, const struct json *list, struct arena *a)
{
	struct sender_event *events = arena_array(a, list->count + 1, sizeof(*events));
	struct json_writer   w;
	struct buf           out;
	uint32_t             n = 0;

	for (const struct json *m = json_children(list); m != NULL; m = m->next)
		events[n++] = event_of(m);
	s->kind->send(s, events, n, a);
	buf_init(&out, a);
	json_writer_init(&w, &out);
	json_begin_array(&w);
	for (uint32_t i = 0; i < n; i++)
		result_write(&w, &events[i]);
	json_end_array(&w);
	printf("%.*s\n", BYTES_ARG(buf_bytes(&out)));
	fflush(stdout);
}

int main(void)
{
	struct json_reader *reader = json_reader_open();
	struct sender      *s = NULL;
	char               *line = NULL;
	size_t              size = 0;
	ssize_t             len;

	log_set_level(LOG_ERROR);
	while ((len = getline(&line, &size, stdin)) > 0) {
		struct arena a;
		struct json *tree;
		struct err   err;

		arena_init(&a);
		if (json_read(reader, &a, (struct bytes){line, (size_t)len}, &tree, &err) != ERR_NONE)
			return 1;
		if (s == NULL)
			s = opened(tree);
		else
			answer(s, tree, &a);
		arena_release(&a);
	}
	if (s != NULL)
		s->kind->close(s);
	json_reader_close(reader);
	free(line);
	return 0;
}
