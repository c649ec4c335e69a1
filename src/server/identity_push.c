/* The section `push` of the identity file: push messages through Expo. Without it, none are sent.
 *
 *   push:
 *     access_token_file: expo.token     # if the project demands one; one line
 *     rate: 600                         # messages per second
 *     queue: 1000000                    # messages that may wait, of broadcasts and of others; past it a notification is refused
 *     on_unknown: give_up               # of messages whose call got no answer, unless they say so: retry or give_up
 *     timeout: 30                       # seconds that a call may take; then it is unknown what became of it
 *     url: https://exp.host             # Expo's unless set
 *     ca_file: private-ca.pem           # the system's unless set
 *     allow_private: true               # its address may be on this machine or in this network */
#include "server/identity.h"
#include "server/push.h"

enum { CA_BYTES_MAX = 4 * 1024 * 1024, URL_BYTES_MAX = 1024 };

static struct bytes read_token(const struct identity_reading *r, struct fields *f)
{
	const char  *path = identity_path(r, f, "access_token_file");
	struct bytes token = {NULL, 0};

	if (path == NULL)
		return token;
	token = bytes_trimmed(
	        identity_file(r, f, "access_token_file", path, EXPO_ACCESS_TOKEN_BYTES_MAX + 2));
	while (token.len > 0 && (token.data[token.len - 1] == '\n' || token.data[token.len - 1] == '\r'))
		token.len--;
	if (token.len == 0)
		fields_fail(f, "access_token_file", ERR_INVALID, "the file is empty");
	return token;
}

static void open_expo(struct fields *f, const struct expo_options *o, struct expo **out)
{
	struct err why;

	if (!fields_failed(f) && expo_open(o, out, &why) != ERR_NONE)
		fields_fail(f, strcmp(why.field, "url") == 0 ? "url" : "access_token_file", ERR_INVALID, "%s",
		            why.text);
}

static void push_read(const struct identity_reading *r, struct fields *file, void **out)
{
	const struct json       *section = fields_object(file, "push", 16);
	struct expo_options      o = {.calls_max = PUSH_SHARDS, .clock = r->clock};
	struct push_target       made = {0};
	struct fields            f;
	static const char *const on_unknown[] = {"auto", "retry", "give_up", NULL};

	if (section == NULL)
		return;
	fields_enter(&f, file, BYTES("push"), section);
	o.url = fields_text_or(&f, "url", URL_BYTES_MAX, (struct bytes){NULL, 0});
	o.access_token = read_token(r, &f);
	o.ca_file = identity_path(r, &f, "ca_file");
	o.allow_private = fields_bool_or(&f, "allow_private", false);
	made.rate = fields_i64_or(&f, "rate", 1, PUSH_RATE_MAX, PUSH_RATE);
	o.call_s = fields_i64_or(&f, "timeout", 1, EXPO_CALL_S_MAX, EXPO_CALL_S);
	made.on_unknown = (enum push_on_unknown)fields_choice(&f, "on_unknown", on_unknown, 0);
	made.queue_max = fields_i64_or(&f, "queue", PUSH_QUEUE_MIN, PUSH_QUEUE_HIGH, PUSH_QUEUE_MAX);
	if (o.ca_file != NULL)
		identity_file(r, &f, "ca_file", o.ca_file, CA_BYTES_MAX);
	open_expo(&f, &o, &made.expo);
	if (fields_end(&f) != ERR_NONE) {
		expo_close(made.expo);
		return;
	}
	*out = mem_alloc(sizeof(made));
	*(struct push_target *)*out = made;
}

static void push_drop(void *made)
{
	push_target_close(made);
}

const struct identity_section identity_push = {"push", push_read, push_drop};
