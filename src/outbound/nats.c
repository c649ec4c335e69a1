/* NATS: see nats.h. */
#define _GNU_SOURCE
#include "outbound/nats.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/crypto.h"
#include "base/version.h"
#include "json/base64.h"
#include "json/write.h"
#include "outbound/nats_wire.h"
#include "outbound/nkey.h"
#include "outbound/stream.h"

#define SECOND_US INT64_C(1000000)

enum { INBOX_BYTES = 15, INBOX_CHARS = 20 };

struct nats {
	struct sender base;
	/* set once */
	struct arena  arena; /* of the texts */
	struct clock *clock;
	int64_t       within_us;
	struct bytes  subject, token, user, password, jwt;
	struct nkey   key;
	bool          has_key, want_tls;
	/* shared under lock */
	pthread_mutex_t lock;
	pthread_cond_t  freed;
	bool            busy; /* somebody has the connection, and everything below */
	bool            stopping;
	/* whoever is busy */
	struct stream *stream;
	bool           ready;
	uint64_t       payload_bytes_max;
	int64_t        used_us;            /* when it was last used */
	char           inbox[INBOX_CHARS]; /* of this connection */
	uint64_t       next;               /* the number of the next publication: its reply subject */
	char           input[NATS_INPUT_BYTES_MAX];
	size_t         input_len;
};

/* One send. */
struct sending {
	struct nats         *n;
	struct sender_event *list;
	uint32_t             count;
	struct bytes         subjects[NATS_EVENTS_MAX];
	bool                 waiting[NATS_EVENTS_MAX]; /* for its answer, or to be sent */
	uint32_t             left;                     /* how many of those */
	uint64_t             first;                    /* the number of the first of the list */
	int64_t              deadline_us;
	struct arena        *arena;
};

/* ---- the connection, one at a time ---- */

/* False: it is being stopped, or the deadline has come. */
static bool connection_take(struct nats *n, int64_t deadline_us)
{
	struct timespec until;
	int64_t         left_us = deadline_us - clock_steady_us(n->clock);
	bool            taken;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += left_us / SECOND_US + 1;
	pthread_mutex_lock(&n->lock);
	while (n->busy && !n->stopping && pthread_cond_timedwait(&n->freed, &n->lock, &until) == 0)
		continue;
	taken = !n->busy && !n->stopping;
	if (taken)
		n->busy = true;
	pthread_mutex_unlock(&n->lock);
	return taken;
}

static void connection_give(struct nats *n)
{
	pthread_mutex_lock(&n->lock);
	n->busy = false;
	pthread_cond_signal(&n->freed);
	pthread_mutex_unlock(&n->lock);
}

static enum err_code broken(struct nats *n, struct err *err, const char *why)
{
	stream_drop(n->stream);
	n->ready = false;
	return err_set(err, ERR_OVERLOADED, "%s", why);
}

static enum err_code say(struct nats *n, struct bytes text, int64_t deadline_us, struct err *err)
{
	if (stream_write(n->stream, text, deadline_us, err) == ERR_NONE)
		return ERR_NONE;
	n->ready = false;
	return err->code;
}

/* The next message, which stays until the next call. With `now`, MORE if there is no whole one yet. A PING is answered here. */
static enum err_code hear(struct nats *n, bool now, int64_t deadline_us, struct nats_message *out,
                          struct err *err)
{
	for (;;) {
		size_t got;

		*out = nats_read((struct bytes){n->input, n->input_len});
		if (out->op == NATS_WRONG)
			return broken(n, err, "the server does not speak NATS as it should");
		if (out->op != NATS_MORE)
			return ERR_NONE;
		if (stream_read(n->stream,
		                &(struct stream_read){n->input + n->input_len,
		                                      sizeof(n->input) - n->input_len, now, deadline_us},
		                &got, err) != ERR_NONE) {
			n->ready = false;
			return err->code;
		}
		if (got == 0)
			return ERR_NONE;
		n->input_len += got;
	}
}

/* The message that was heard is done with. */
static enum err_code heard(struct nats *n, const struct nats_message *m, int64_t deadline_us, struct err *err)
{
	bool ping = m->op == NATS_PING;

	n->input_len -= m->used;
	memmove(n->input, n->input + m->used, n->input_len);
	return ping ? say(n, BYTES("PONG\r\n"), deadline_us, err) : ERR_NONE;
}

/* ---- connecting ---- */

static void auth_write(struct nats *n, struct json_writer *w, struct bytes nonce)
{
	char signature[NKEY_SIGNATURE_CHARS];

	json_member_text(w, BYTES("auth_token"), n->token);
	json_member_text(w, BYTES("user"), n->user);
	json_member_text(w, BYTES("pass"), n->password);
	if (!n->has_key || nonce.len == 0 || !nkey_sign(&n->key, nonce, signature))
		return;
	if (n->jwt.len > 0)
		json_member_text(w, BYTES("jwt"), n->jwt);
	else
		json_member_text(w, BYTES("nkey"), (struct bytes){n->key.name, NKEY_PUBLIC_CHARS});
	json_member_text(w, BYTES("sig"), (struct bytes){signature, NKEY_SIGNATURE_CHARS});
}

/* CONNECT, the subscription to answers, and PING: its PONG says that all of it was accepted. */
static struct bytes hello(struct nats *n, const struct nats_info *info, bool tls, struct arena *a)
{
	struct json_writer w;
	struct buf         out;

	buf_init(&out, a);
	buf_add_bytes(&out, BYTES("CONNECT "));
	json_writer_init(&w, &out);
	json_begin_object(&w);
	json_member_bool(&w, BYTES("verbose"), false);
	json_member_bool(&w, BYTES("pedantic"), false);
	json_member_bool(&w, BYTES("tls_required"), tls);
	json_member_bool(&w, BYTES("headers"), true);
	json_member_bool(&w, BYTES("no_responders"), true);
	json_member_text(&w, BYTES("name"), BYTES("gatehouse"));
	json_member_text(&w, BYTES("lang"), BYTES("c"));
	json_member_text(&w, BYTES("version"), BYTES(GATEHOUSE_VERSION));
	json_member_i64(&w, BYTES("protocol"), 1);
	auth_write(n, &w, info->nonce);
	json_end_object(&w);
	buf_add_bytes(&out, BYTES("\r\nSUB _INBOX."));
	buf_add(&out, n->inbox, INBOX_CHARS);
	buf_add_bytes(&out, BYTES(".* 1\r\nPING\r\n"));
	return buf_bytes(&out);
}

static enum err_code pong_await(struct nats *n, int64_t deadline_us, struct err *err)
{
	struct nats_message m;

	do {
		if (hear(n, false, deadline_us, &m, err) != ERR_NONE)
			return err->code;
		if (m.op == NATS_ERR)
			return broken(n, err, nats_err_text(m.text));
		if (heard(n, &m, deadline_us, err) != ERR_NONE)
			return err->code;
	} while (m.op != NATS_PONG);
	return ERR_NONE;
}

/* (1), (3) */
static enum err_code tls_agree(struct nats *n, const struct nats_info *info, int64_t deadline_us, bool *tls,
                               struct err *err)
{
	*tls = n->want_tls || info->tls_required;
	if (!*tls)
		return ERR_NONE;
	if (!info->tls_required && !info->tls_available)
		return broken(n, err, "the server does not offer TLS");
	if (n->input_len > 0)
		return broken(n, err, "the server spoke before TLS was agreed on");
	return stream_tls(n->stream, deadline_us, err);
}

static enum err_code connect_now(struct nats *n, int64_t deadline_us, struct arena *a, struct err *err)
{
	struct nats_message m;
	struct nats_info    info;
	uint8_t             random[INBOX_BYTES];
	bool                tls;

	n->input_len = 0;
	n->ready = false;
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return broken(n, err, "cannot get random bytes from the system");
	base64_url_write((struct bytes){(const char *)random, sizeof(random)}, n->inbox);
	if (stream_connect(n->stream, deadline_us, err) != ERR_NONE ||
	    hear(n, false, deadline_us, &m, err) != ERR_NONE)
		return err->code;
	if (m.op == NATS_ERR)
		return broken(n, err, nats_err_text(m.text));
	if (m.op != NATS_INFO || !nats_info_read(m.text, a, &info))
		return broken(n, err,
		              "the server's greeting is not that of NATS with headers (2.2 or later)");
	n->payload_bytes_max = info.payload_bytes_max;
	if (heard(n, &m, deadline_us, err) != ERR_NONE ||
	    tls_agree(n, &info, deadline_us, &tls, err) != ERR_NONE ||
	    say(n, hello(n, &info, tls, a), deadline_us, err) != ERR_NONE ||
	    pong_await(n, deadline_us, err) != ERR_NONE)
		return err->code;
	n->ready = true;
	return ERR_NONE;
}

/* What came while nobody looked: pings, news of the cluster, late answers; or the end. */
static bool still_good(struct nats *n, int64_t deadline_us)
{
	struct nats_message m;
	struct err          err;

	if (!n->ready || clock_steady_us(n->clock) - n->used_us > NATS_IDLE_S * SECOND_US)
		return false;
	while (hear(n, true, deadline_us, &m, &err) == ERR_NONE && m.op != NATS_ERR) {
		if (m.op == NATS_MORE)
			return true;
		if (heard(n, &m, deadline_us, &err) != ERR_NONE)
			return false;
	}
	return false;
}

/* ---- publishing ---- */

static void settle(struct sending *s, uint32_t i)
{
	if (s->waiting[i]) {
		s->waiting[i] = false;
		s->left--;
	}
}

static bool fits(const struct sending *s, uint32_t i, const struct nats_publication *p)
{
	struct sender_event *e = &s->list[i];
	size_t               size = nats_publication_bytes(p);

	if (size <= s->n->payload_bytes_max)
		return true;
	sender_result(e, SENDER_REFUSED, 0,
	              "it has %zu bytes with its head, and the server takes %" PRIu64 " at most", size,
	              s->n->payload_bytes_max);
	return false;
}

/* All that are waiting, in one piece. */
static struct bytes publications(struct sending *s)
{
	struct buf out;

	buf_init(&out, s->arena);
	s->first = s->n->next;
	s->n->next += s->count;
	for (uint32_t i = 0; i < s->count; i++) {
		struct nats_publication p = {.subject = s->subjects[i],
		                             .reply = arena_printf(s->arena, "_INBOX.%.*s.%" PRIu64,
		                                                   INBOX_CHARS, s->n->inbox, s->first + i),
		                             .id = s->list[i].id,
		                             .body = s->list[i].json};

		if (!s->waiting[i])
			continue;
		if (fits(s, i, &p))
			nats_write(&out, &p);
		else
			settle(s, i);
	}
	return buf_bytes(&out);
}

/* The answer to which of the list? `count` if to none. */
static uint32_t place_of(const struct sending *s, struct bytes subject)
{
	size_t   prefix = strlen("_INBOX.") + INBOX_CHARS + 1;
	uint64_t number;

	if (subject.len <= prefix ||
	    memcmp(subject.data + strlen("_INBOX."), s->n->inbox, INBOX_CHARS) != 0 ||
	    !bytes_to_u64((struct bytes){subject.data + prefix, subject.len - prefix}, UINT64_MAX, &number) ||
	    number < s->first || number - s->first >= s->count)
		return s->count;
	return (uint32_t)(number - s->first);
}

/* An error about one subject leaves the rest as it is. */
static bool error_is_about_some(struct sending *s, struct bytes text)
{
	bool any = false;

	for (uint32_t i = 0; i < s->count; i++)
		if (s->waiting[i] && nats_err_is_about(text, s->subjects[i])) {
			sender_result(&s->list[i], SENDER_LATER, 0, "%s: it may not publish to %.*s",
			              nats_err_text(text), BYTES_ARG(s->subjects[i]));
			settle(s, i);
			any = true;
		}
	return any;
}

static enum err_code answers_collect(struct sending *s, struct err *err)
{
	struct nats_message m;

	while (s->left > 0) {
		uint32_t i;

		if (hear(s->n, false, s->deadline_us, &m, err) != ERR_NONE)
			return err->code;
		i = m.op == NATS_MSG ? place_of(s, m.subject) : s->count;
		if (i < s->count && s->waiting[i]) {
			nats_answer_read(&m, s->subjects[i], &s->list[i], s->arena);
			settle(s, i);
		} else if (m.op == NATS_ERR && !error_is_about_some(s, m.text)) {
			return broken(s->n, err, nats_err_text(m.text));
		}
		if (heard(s->n, &m, s->deadline_us, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

static enum err_code publish(struct sending *s, struct err *err)
{
	struct bytes all = publications(s);

	return s->left == 0 || (say(s->n, all, s->deadline_us, err) == ERR_NONE &&
	                        answers_collect(s, err) == ERR_NONE)
	               ? ERR_NONE
	               : err->code;
}

/* A connection that was kept may have died unseen. If nothing came back over it, a new one has a chance: what was sent twice is stored once. */
static enum err_code deliver(struct sending *s, struct err *err)
{
	struct nats *n = s->n;
	bool         kept = still_good(n, s->deadline_us);
	uint32_t     before = s->left;

	if (kept && (publish(s, err) == ERR_NONE || s->left < before))
		return s->left == 0 ? ERR_NONE : err->code;
	if (connect_now(n, s->deadline_us, s->arena, err) != ERR_NONE)
		return err->code;
	return publish(s, err);
}

/* Nothing of an event may end a line of the protocol. */
static bool is_plain(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] <= ' ' || text.data[i] > '~')
			return false;
	return text.len > 0;
}

static void sending_begin(struct sending *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		struct sender_event *e = &s->list[i];

		s->subjects[i] =
		        arena_printf(s->arena, "%.*s.%.*s", BYTES_ARG(s->n->subject), BYTES_ARG(e->type));
		if (!is_plain(e->id) || !nats_subject_is(s->subjects[i])) {
			sender_result(e, SENDER_REFUSED, 0,
			              "its id or type cannot be part of a NATS message");
			continue;
		}
		s->waiting[i] = true;
		s->left++;
	}
}

static void sending_fail(struct sending *s, const char *why)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->waiting[i])
			sender_result(&s->list[i], SENDER_LATER, 0, "%s", why);
}

static void nats_send(struct sender *base, struct sender_event *list, uint32_t count, struct arena *a)
{
	struct nats   *n = (struct nats *)base;
	struct sending s = {.n = n, .list = list, .count = count, .arena = a};
	struct err     err;

	assert(count <= NATS_EVENTS_MAX);
	sending_begin(&s);
	if (s.left == 0)
		return;
	if (!connection_take(n, clock_steady_us(n->clock) + NATS_LANES_MAX * n->within_us)) {
		sending_fail(&s, "the connection did not become free in time");
		return;
	}
	s.deadline_us = clock_steady_us(n->clock) + n->within_us; /* (5) */
	if (deliver(&s, &err) != ERR_NONE) {
		stream_drop(n->stream);
		n->ready = false;
		sending_fail(&s, err.text);
	}
	n->used_us = clock_steady_us(n->clock);
	connection_give(n);
}

/* ---- life ---- */

static void nats_stop(struct sender *base)
{
	struct nats *n = (struct nats *)base;

	pthread_mutex_lock(&n->lock);
	n->stopping = true;
	pthread_cond_broadcast(&n->freed);
	pthread_mutex_unlock(&n->lock);
	stream_stop(n->stream);
}

static void nats_close(struct sender *base)
{
	struct nats *n = (struct nats *)base;

	stream_close(n->stream);
	pthread_cond_destroy(&n->freed);
	pthread_mutex_destroy(&n->lock);
	crypto_wipe(&n->key, sizeof(n->key));
	arena_release(&n->arena);
	free(n);
}

static const struct sender_kind kind = {.name = "nats",
                                        .batch_max = NATS_EVENTS_MAX,
                                        .batch_bytes_max = 512 * 1024,
                                        .lanes_max = NATS_LANES_MAX,
                                        .send = nats_send,
                                        .stop = nats_stop,
                                        .close = nats_close};

/* ---- opening ---- */

static enum err_code url_wrong(struct err *err)
{
	return err_field(err, ERR_INVALID, "url",
	                 "must be like tls://example.org:4222, without a name or a path; nats:// needs a "
	                 "server with --private-targets");
}

/* (1) */
static enum err_code url_read(struct nats *n, const struct nats_options *o, struct err *err)
{
	struct stream_options s = {
	        .name = o->name, .ca_file = o->ca_file, .allow_private = o->allow_private, .clock = o->clock};
	struct err  why;
	const char *colon;

	n->want_tls = bytes_starts_with(o->url, BYTES("tls://"));
	if (o->url.len > NATS_URL_CHARS_MAX ||
	    (!n->want_tls && !(o->allow_private && bytes_starts_with(o->url, BYTES("nats://")))))
		return url_wrong(err);
	s.host = (struct bytes){o->url.data + (n->want_tls ? 6 : 7), o->url.len - (n->want_tls ? 6 : 7)};
	colon = s.host.len == 0 ? NULL : memrchr(s.host.data, ':', s.host.len);
	if (colon == NULL || s.host.data[s.host.len - 1] == ']')
		s.host = arena_printf(&n->arena, "%.*s:4222", BYTES_ARG(s.host));
	return stream_open(&s, &n->stream, &why) == ERR_NONE ? ERR_NONE : url_wrong(err);
}

static enum err_code text_read(struct nats *n, struct bytes given, const char *field, struct bytes *out,
                               struct err *err)
{
	if (given.len > NATS_SECRET_CHARS_MAX || !bytes_is_utf8(given))
		return err_field(err, ERR_INVALID, field, "must be a text of at most %d bytes",
		                 NATS_SECRET_CHARS_MAX);
	*out = arena_copy(&n->arena, given);
	return ERR_NONE;
}

static enum err_code key_read(struct nats *n, const struct nats_options *o, struct err *err)
{
	struct bytes jwt;

	n->has_key = o->seed.len > 0 || o->credentials.len > 0;
	if (o->seed.len > 0 && !nkey_read(o->seed, &n->key))
		return err_field(err, ERR_INVALID, "seed",
		                 "must be the seed of a user's nkey: SU and 56 characters");
	if (o->credentials.len == 0)
		return ERR_NONE;
	if (!nkey_credentials_read(o->credentials, &jwt, &n->key))
		return err_field(err, ERR_INVALID, "credentials",
		                 "must be the text of a file with the JWT and the seed of a user");
	n->jwt = arena_copy(&n->arena, jwt);
	return ERR_NONE;
}

static enum err_code secrets_read(struct nats *n, const struct nats_options *o, struct err *err)
{
	int ways = (o->token.len > 0) + (o->user.len > 0) + (o->seed.len > 0) + (o->credentials.len > 0);

	if (ways > 1)
		return err_field(
		        err, ERR_INVALID,
		        o->token.len > 0  ? "token"
		        : o->user.len > 0 ? "user"
		                          : "seed",
		        "is one way to log in too many: give a token, a user with a password, a seed or "
		        "credentials");
	if ((o->user.len > 0) != (o->password.len > 0))
		return err_field(err, ERR_INVALID, o->user.len > 0 ? "password" : "user",
		                 "is needed: a user and a password belong together");
	if (text_read(n, o->token, "token", &n->token, err) != ERR_NONE ||
	    text_read(n, o->user, "user", &n->user, err) != ERR_NONE ||
	    text_read(n, o->password, "password", &n->password, err) != ERR_NONE)
		return err->code;
	return key_read(n, o, err);
}

static enum err_code subject_read(struct nats *n, const struct nats_options *o, struct err *err)
{
	struct bytes subject = o->subject.len > 0 ? o->subject : BYTES(NATS_SUBJECT);

	if (subject.len > NATS_SUBJECT_CHARS_MAX || !nats_subject_is(subject))
		return err_field(err, ERR_INVALID, "subject",
		                 "must be at most %d letters, digits, - and _, with single dots between them",
		                 NATS_SUBJECT_CHARS_MAX);
	n->subject = arena_copy(&n->arena, subject);
	return ERR_NONE;
}

enum err_code nats_open(const struct nats_options *options, struct sender **out, struct err *err)
{
	struct nats       *n = mem_zalloc(sizeof(*n));
	pthread_condattr_t steady;

	n->base.kind = &kind;
	arena_init(&n->arena);
	n->clock = options->clock;
	n->within_us = options->within_us > 0 ? options->within_us : NATS_SEND_S * SECOND_US;
	pthread_mutex_init(&n->lock, NULL);
	pthread_condattr_init(&steady);
	pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
	pthread_cond_init(&n->freed, &steady);
	pthread_condattr_destroy(&steady);
	if (url_read(n, options, err) != ERR_NONE || subject_read(n, options, err) != ERR_NONE ||
	    secrets_read(n, options, err) != ERR_NONE) {
		nats_close(&n->base);
		return err->code;
	}
	*out = &n->base;
	return ERR_NONE;
}
