/* Webhook: see webhook.h. */
#define _GNU_SOURCE
#include "outbound/webhook.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/crypto.h"
#include "base/log.h"
#include "json/base64.h"

#define SECOND_US INT64_C(1000000)

struct webhook {
	struct sender          base;
	struct arena           arena;
	struct clock          *clock;
	struct outbound       *target;
	struct bytes           path;
	int64_t                try_us;
	struct outbound_header headers[WEBHOOK_HEADERS_MAX];
	uint32_t               header_count;
	struct hmac_key        keys[WEBHOOK_SECRETS_MAX];
	unsigned               key_count;
};

/* One try: a message is sent again later or never, with a new signature (webhook.h). */
static const struct retry_profile once = {.attempts_max = 1, .quota_max = 1, .cost = 1, .throttled_cost = 1};

/* ---- secrets ---- */

static enum err_code secrets_wrong(struct err *err)
{
	return err_field(err, ERR_INVALID, "secrets",
	                 "must be one or two lines, each whsec_ and the base64 of %d to %d bytes",
	                 WEBHOOK_SECRET_BYTES_MIN, WEBHOOK_SECRET_BYTES_MAX);
}

static bool secret_read(struct webhook *w, struct bytes line, struct arena *scratch)
{
	struct bytes prefix = BYTES("whsec_"), key;

	if (!bytes_starts_with(line, prefix) || w->key_count == WEBHOOK_SECRETS_MAX ||
	    base64_decode(scratch, (struct bytes){line.data + prefix.len, line.len - prefix.len}, &key) !=
	            BASE64_OK ||
	    key.len < WEBHOOK_SECRET_BYTES_MIN || key.len > WEBHOOK_SECRET_BYTES_MAX)
		return false;
	hmac_key_init(&w->keys[w->key_count++], key);
	crypto_wipe((char *)(uintptr_t)key.data, key.len);
	return true;
}

static enum err_code secrets_read(struct webhook *w, struct bytes text, struct err *err)
{
	struct arena scratch;
	bool         good = true;

	arena_init(&scratch);
	while (text.len > 0 && good) {
		const char  *end = memchr(text.data, '\n', text.len);
		size_t       len = end == NULL ? text.len : (size_t)(end - text.data);
		bool         dos = len > 0 && text.data[len - 1] == '\r';
		struct bytes line = bytes_trimmed((struct bytes){text.data, dos ? len - 1 : len});

		if (line.len > 0 && line.data[0] != '#')
			good = secret_read(w, line, &scratch);
		text = (struct bytes){text.data + len, text.len - len};
		if (end != NULL)
			text = (struct bytes){text.data + 1, text.len - 1};
	}
	arena_release(&scratch);
	return good && w->key_count > 0 ? ERR_NONE : secrets_wrong(err);
}

/* ---- opening ---- */

/* Scheme, host and port, with a NUL; the rest is the path. */
static const char *origin_of(struct webhook *w, struct bytes url)
{
	const char *host = memmem(url.data, url.len, "://", 3), *path = NULL;

	if (host != NULL)
		path = memchr(host + 3, '/', url.len - (size_t)(host + 3 - url.data));
	w->path = path == NULL
	                  ? BYTES("/")
	                  : arena_copy(&w->arena, (struct bytes){path, url.len - (size_t)(path - url.data)});
	return arena_printf(&w->arena, "%.*s", path == NULL ? (int)url.len : (int)(path - url.data), url.data)
	        .data;
}

static bool url_is_plain(struct bytes url)
{
	for (size_t i = 0; i < url.len; i++)
		if (url.data[i] <= ' ' || url.data[i] > '~' || url.data[i] == '#')
			return false;
	return url.len >= 1 && url.len <= WEBHOOK_URL_BYTES_MAX;
}

static enum err_code target_open(struct webhook *w, const struct webhook_options *o, struct err *err)
{
	struct outbound_options target = {.name = o->name,
	                                  .allow_private = o->allow_private,
	                                  .calls_max = o->calls_max,
	                                  .waits_max = o->calls_max,
	                                  .connect_us = w->try_us,
	                                  .attempt_us = w->try_us,
	                                  .body_bytes_max = WEBHOOK_ANSWER_BYTES_MAX,
	                                  .body_cut = true,
	                                  .retry = &once,
	                                  .circuit = {20, SECOND_US, 10 * SECOND_US},
	                                  .clock = o->clock};
	struct err              why;

	if (!url_is_plain(o->url))
		return err_field(err, ERR_INVALID, "url",
		                 "must be a URL of 1 to %d characters, without a fragment",
		                 WEBHOOK_URL_BYTES_MAX);
	if (!bytes_starts_with(o->url, BYTES("https://")) &&
	    !(o->allow_private && bytes_starts_with(o->url, BYTES("http://")))) /* (2) */
		return err_field(
		        err, ERR_INVALID, "url",
		        "must begin with https://; http:// needs --private-targets, or `allow_private: true` "
		        "for codes");
	target.url = origin_of(w, o->url);
	if (o->ca_file != NULL)
		target.ca_file = arena_printf(&w->arena, "%s", o->ca_file).data;
	if (outbound_open(&target, &w->target, &why) != ERR_NONE)
		return err_field(err, ERR_INVALID, "url", "%s", why.text);
	return ERR_NONE;
}

static void headers_copy(struct webhook *w, const struct webhook_options *o)
{
	assert(o->header_count <= WEBHOOK_HEADERS_MAX);
	for (; w->header_count < o->header_count; w->header_count++)
		w->headers[w->header_count] =
		        (struct outbound_header){arena_copy(&w->arena, o->headers[w->header_count].name),
		                                 arena_copy(&w->arena, o->headers[w->header_count].value)};
}

/* They may be secrets. */
static void headers_wipe(struct webhook *w)
{
	for (uint32_t i = 0; i < w->header_count; i++)
		crypto_wipe((char *)(uintptr_t)w->headers[i].value.data, w->headers[i].value.len);
}

enum err_code webhook_open(const struct webhook_options *options, struct webhook **out, struct err *err)
{
	struct webhook *w = mem_zalloc(sizeof(*w));

	arena_init(&w->arena);
	w->clock = options->clock;
	w->try_us = (options->try_s > 0 ? options->try_s : WEBHOOK_TRY_S) * SECOND_US;
	headers_copy(w, options);
	if (secrets_read(w, options->secrets, err) != ERR_NONE || target_open(w, options, err) != ERR_NONE) {
		webhook_close(w);
		return err->code;
	}
	*out = w;
	return ERR_NONE;
}

void webhook_stop(struct webhook *w)
{
	outbound_stop(w->target);
}

void webhook_close(struct webhook *w)
{
	if (w == NULL)
		return;
	if (w->target != NULL)
		outbound_close(w->target);
	headers_wipe(w);
	arena_release(&w->arena);
	crypto_wipe(w->keys, sizeof(w->keys));
	free(w);
}

/* ---- sending ---- */

void webhook_id_make(char out[WEBHOOK_ID_CHARS])
{
	uint8_t bits[(WEBHOOK_ID_CHARS - 4) / 4 * 3];

	if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits)) {
		log_error("cannot get random bytes from the system");
		abort();
	}
	memcpy(out, "msg_", 4);
	base64_url_write((struct bytes){(const char *)bits, sizeof(bits)}, out + 4);
}

struct bytes webhook_signature(const struct webhook *w, const struct webhook_message *m, int64_t now_s,
                               struct arena *a)
{
	struct bytes head = arena_printf(a, "%.*s.%" PRIi64 ".", BYTES_ARG(m->id), now_s);
	struct buf   content, out;

	buf_init(&content, a);
	buf_add_bytes(&content, head);
	buf_add_bytes(&content, m->body);
	buf_init(&out, a);
	for (unsigned i = 0; i < w->key_count; i++) {
		uint8_t mac[SHA256_BYTES];

		hmac_sha256(&w->keys[i], buf_bytes(&content), mac);
		buf_add_bytes(&out, i == 0 ? BYTES("v1,") : BYTES(" v1,"));
		base64_encode(&out, (struct bytes){(const char *)mac, sizeof(mac)});
	}
	return buf_bytes(&out);
}

static struct webhook_answer unanswered(const struct err *err)
{
	struct webhook_answer r = {.end = WEBHOOK_LATER};

	snprintf(r.error, sizeof(r.error), "%.*s", (int)sizeof(r.error) - 1, err->text);
	return r;
}

struct webhook_answer webhook_send(struct webhook *w, const struct webhook_message *m, struct arena *a)
{
	int64_t                  now_s = clock_wall_us(w->clock) / SECOND_US;
	struct outbound_request  r = {.method = BYTES("POST"),
	                              .path = w->path,
	                              .body = m->body,
	                              .repeatable = true,
	                              .trace = m->trace,
	                              .deadline_us = clock_steady_us(w->clock) + w->try_us};
	struct outbound_response answer;
	struct err               err;

	outbound_header_add(&r, BYTES("Content-Type"), m->content_type);
	outbound_header_add(&r, BYTES("User-Agent"), BYTES("gatehouse"));
	outbound_header_add(&r, BYTES("webhook-id"), m->id);
	outbound_header_add(&r, BYTES("webhook-timestamp"), arena_printf(a, "%" PRIi64, now_s));
	outbound_header_add(&r, BYTES("webhook-signature"), webhook_signature(w, m, now_s, a));
	for (uint32_t i = 0; i < w->header_count; i++)
		outbound_header_add(&r, w->headers[i].name, w->headers[i].value);
	if (outbound_call(w->target, &r, a, &answer, &err) != ERR_NONE)
		return unanswered(&err);
	if (answer.status >= 200 && answer.status < 300) /* (1) */
		return (struct webhook_answer){.end = WEBHOOK_TAKEN, .status = answer.status};
	if (answer.status == 410)
		return (struct webhook_answer){.end = WEBHOOK_GONE, .status = answer.status};
	return (struct webhook_answer){
	        .end = WEBHOOK_LATER, .status = answer.status, .wait_s = outbound_wait_s(&answer)};
}

/* ---- events ---- */

static bool is_about_the_event(int status)
{
	static const int others[] = {401, 403, 404, 405, 407, 408, 421, 423, 425, 429};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (status == others[i])
			return false;
	return status >= 400 && status < 500;
}

static void event_send(struct webhook *w, struct sender_event *e, struct arena *a)
{
	struct webhook_message m = {
	        .id = e->id, .content_type = BYTES(WEBHOOK_EVENT_TYPE), .body = e->json, .trace = e->trace};
	struct webhook_answer r = webhook_send(w, &m, a);

	e->status = r.status;
	e->wait_s = r.wait_s;
	e->end = r.end == WEBHOOK_TAKEN         ? SENDER_SENT
	         : r.end == WEBHOOK_GONE        ? SENDER_GONE
	         : is_about_the_event(r.status) ? SENDER_REFUSED
	                                        : SENDER_LATER;
	if (r.status == 0)
		snprintf(e->error, sizeof(e->error), "%s", r.error);
	else if (e->end != SENDER_SENT)
		snprintf(e->error, sizeof(e->error), "the receiver answered %d", r.status);
}

static void sender_send(struct sender *s, struct sender_event *list, uint32_t count, struct arena *a)
{
	for (uint32_t i = 0; i < count; i++)
		event_send((struct webhook *)s, &list[i], a);
}

static void sender_stop(struct sender *s)
{
	webhook_stop((struct webhook *)s);
}

static void sender_close(struct sender *s)
{
	webhook_close((struct webhook *)s);
}

static const struct sender_kind webhook_kind = {.name = "webhook",
                                                .batch_max = 1,
                                                .batch_bytes_max = SIZE_MAX,
                                                .send = sender_send,
                                                .stop = sender_stop,
                                                .close = sender_close};

enum err_code webhook_sender_open(const struct webhook_options *options, struct sender **out, struct err *err)
{
	struct webhook *w;

	if (webhook_open(options, &w, err) != ERR_NONE)
		return err->code;
	w->base.kind = &webhook_kind;
	*out = &w->base;
	return ERR_NONE;
}
