/* Code sender: see code_sender.h. */
#define _GNU_SOURCE
#include "server/code_sender.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/crypto.h"
#include "base/list.h"
#include "base/log.h"
#include "base/worker.h"
#include "json/write.h"
#include "service/limit.h"

#define SECOND_US INT64_C(1000000)

/* A receiver, kept while somebody sends to it. */
struct receiver {
	struct webhook *webhook;
	unsigned        refs; /* under lock */
};

/* A message. Its texts follow it in one piece of memory, which is wiped. */
struct waiting {
	struct list            link;
	size_t                 bytes;
	enum code_message_kind kind;
	struct bytes           user, email_id, email, code, trace;
	int64_t                expires_s, made_s;
	char                   id[WEBHOOK_ID_CHARS];
	int64_t                due_us; /* steady */
	uint32_t               tried;
	bool                   busy;     /* a thread sends it */
	bool                   replaced; /* (2) while it was busy */
};

struct code_sender {
	struct clock *clock;

	/* the owner's thread */
	struct worker workers[CODE_SENDERS];
	bool          started;

	/* any thread */
	atomic_bool on;

	/* under lock */
	pthread_mutex_t     lock;
	pthread_cond_t      changed;
	struct receiver    *receiver; /* NULL: none */
	struct list         queue;
	struct code_numbers numbers;
	unsigned            busy;
	bool                closing, stopping;
};

/* ---- messages ---- */

static struct bytes text_put(char **at, struct bytes text)
{
	char *to = *at;

	if (text.len > 0)
		memcpy(to, text.data, text.len);
	*at += text.len;
	return (struct bytes){to, text.len};
}

static struct waiting *waiting_make(const struct code_sender *s, const struct code_message *m)
{
	size_t bytes = sizeof(struct waiting) + m->user.len + m->email_id.len + m->email.len + m->code.len +
	               m->trace.len;
	struct waiting *w = mem_zalloc(bytes);
	char           *at = (char *)(w + 1);

	list_init(&w->link);
	w->bytes = bytes;
	w->kind = m->kind;
	w->user = text_put(&at, m->user);
	w->email_id = text_put(&at, m->email_id);
	w->email = text_put(&at, m->email);
	w->code = text_put(&at, m->code);
	w->trace = text_put(&at, m->trace);
	w->expires_s = m->expires_s;
	w->made_s = clock_wall_us(s->clock) / SECOND_US;
	w->due_us = clock_steady_us(s->clock);
	webhook_id_make(w->id);
	return w;
}

static void waiting_free(struct waiting *w)
{
	crypto_wipe(w, w->bytes); /* (4) */
	free(w);
}

static void time_member(struct json_writer *w, struct bytes name, int64_t seconds)
{
	char text[LIMIT_TIME_TEXT];

	limit_time_format(seconds * SECOND_US, text);
	json_member_text(w, name, (struct bytes){text, sizeof(text)});
}

static struct bytes body_of(const struct waiting *m, struct arena *a)
{
	static const char *const kinds[] = {
#define X(id, name) [id] = name,
	        CODE_MESSAGES(X)
#undef X
	};
	struct json_writer w;
	struct buf         out;

	buf_init(&out, a);
	json_writer_init(&w, &out);
	json_begin_object(&w);
	json_member_text(&w, BYTES("type"), arena_printf(a, "code.%s", kinds[m->kind]));
	time_member(&w, BYTES("timestamp"), m->made_s);
	json_name(&w, BYTES("data"));
	json_begin_object(&w);
	json_member_text(&w, BYTES("kind"), bytes_of(kinds[m->kind]));
	json_member_text(&w, BYTES("email"), m->email);
	json_member_text(&w, BYTES("userId"), m->user);
	json_member_text(&w, BYTES("emailId"), m->email_id);
	json_member_text(&w, BYTES("code"), m->code);
	if (m->kind == CODE_MESSAGE_VERIFY)
		time_member(&w, BYTES("codeExpiresAt"), m->expires_s);
	json_end_object(&w);
	json_end_object(&w);
	return buf_bytes(&out);
}

/* ---- the queue: all under lock ---- */

static void queue_remove(struct code_sender *s, struct waiting *w, uint64_t *counted)
{
	list_remove(&w->link);
	s->numbers.queued--;
	(*counted)++;
	waiting_free(w);
}

static bool is_same(const struct waiting *w, const struct code_message *m)
{
	return w->kind == m->kind && bytes_equal(w->email, m->email) && bytes_equal(w->user, m->user) &&
	       bytes_equal(w->email_id, m->email_id);
}

/* (2) */
static void queue_replace(struct code_sender *s, const struct code_message *m)
{
	for (struct list *at = s->queue.next, *next; at != &s->queue; at = next) {
		struct waiting *w = LIST_ENTRY(at, struct waiting, link);

		next = at->next;
		if (!is_same(w, m))
			continue;
		if (w->busy)
			w->replaced = true;
		else
			queue_remove(s, w, &s->numbers.replaced);
	}
}

static void post(void *ctx, const struct code_message *m)
{
	struct code_sender *s = ctx;
	struct waiting     *w;

	pthread_mutex_lock(&s->lock);
	queue_replace(s, m);
	if (s->receiver == NULL || s->closing || s->numbers.queued >= CODE_QUEUE_MAX) { /* (1) */
		s->numbers.dropped++;
	} else {
		w = waiting_make(s, m);
		list_push_back(&s->queue, &w->link);
		s->numbers.queued++;
		pthread_cond_signal(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
}

/* The one that is due first; those that have expired go. *due_us: when the next one is, if none is now. */
static struct waiting *queue_next(struct code_sender *s, int64_t *due_us)
{
	int64_t         now_us = clock_steady_us(s->clock), now_s = clock_wall_us(s->clock) / SECOND_US;
	struct waiting *first = NULL;

	for (struct list *at = s->queue.next, *next; at != &s->queue; at = next) {
		struct waiting *w = LIST_ENTRY(at, struct waiting, link);

		next = at->next;
		if (w->busy)
			continue;
		if (w->expires_s <= now_s)
			queue_remove(s, w, &s->numbers.failed); /* (3) */
		else if (first == NULL || w->due_us < first->due_us)
			first = w;
	}
	*due_us = first == NULL ? INT64_MAX : first->due_us;
	return first != NULL && first->due_us <= now_us ? first : NULL;
}

int64_t code_again_us(uint32_t tried, int64_t asked_s)
{
	int64_t wait_ms = CODE_AGAIN_FIRST_MS;

	while (--tried > 0 && wait_ms < CODE_AGAIN_LAST_MS)
		wait_ms *= 2;
	if (wait_ms > CODE_AGAIN_LAST_MS)
		wait_ms = CODE_AGAIN_LAST_MS;
	return asked_s * 1000 > wait_ms ? asked_s * SECOND_US : wait_ms * 1000;
}

/* Half as much again at most, so that those that failed together do not come together. */
static int64_t jitter_us(int64_t wait_us)
{
	uint32_t random = 0;

	return getrandom(&random, sizeof(random), GRND_NONBLOCK) == (ssize_t)sizeof(random)
	               ? (int64_t)(random % 1000) * wait_us / 2000
	               : 0;
}

static void queue_settle(struct code_sender *s, struct waiting *w, struct webhook_answer answer)
{
	int64_t wait_us;

	w->busy = false;
	w->tried++;
	if (answer.end == WEBHOOK_TAKEN) {
		queue_remove(s, w, &s->numbers.sent);
	} else if (w->replaced) {
		queue_remove(s, w, &s->numbers.replaced);
	} else if (answer.end == WEBHOOK_GONE) {
		queue_remove(s, w, &s->numbers.failed);
	} else {
		wait_us = code_again_us(w->tried, answer.wait_s);
		w->due_us = clock_steady_us(s->clock) + wait_us + jitter_us(wait_us);
	}
}

/* ---- receivers ---- */

static void receiver_drop(struct code_sender *s, struct receiver *r)
{
	bool last;

	pthread_mutex_lock(&s->lock);
	last = --r->refs == 0;
	pthread_mutex_unlock(&s->lock);
	if (!last)
		return;
	webhook_close(r->webhook);
	free(r);
}

/* Nobody is left to send to. */
static void queue_clear(struct code_sender *s)
{
	for (struct list *at = s->queue.next, *next; at != &s->queue; at = next) {
		struct waiting *w = LIST_ENTRY(at, struct waiting, link);

		next = at->next;
		if (w->busy)
			w->replaced = true;
		else
			queue_remove(s, w, &s->numbers.dropped);
	}
}

static void senders_start(struct code_sender *s);

void code_sender_put(struct code_sender *s, struct webhook *receiver)
{
	struct receiver *old, *new = NULL;

	if (receiver != NULL) {
		new = mem_zalloc(sizeof(*new));
		*new = (struct receiver){receiver, 1};
		senders_start(s);
	}
	pthread_mutex_lock(&s->lock);
	old = s->receiver;
	s->receiver = new;
	if (new == NULL)
		queue_clear(s);
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	atomic_store(&s->on, new != NULL);
	if (old != NULL)
		receiver_drop(s, old);
}

/* ---- the threads ---- */

/* With the lock, which it gives back meanwhile. */
static void send_one(struct code_sender *s, struct waiting *w)
{
	struct receiver       *r = s->receiver;
	struct webhook_answer  answer;
	struct webhook_message m = {
	        .id = {w->id, sizeof(w->id)}, .content_type = BYTES("application/json"), .trace = w->trace};
	struct arena a;

	r->refs++;
	w->busy = true;
	s->busy++;
	pthread_mutex_unlock(&s->lock);
	arena_init(&a);
	m.body = body_of(w, &a);
	answer = webhook_send(r->webhook, &m, &a);
	crypto_wipe((char *)(uintptr_t)m.body.data, m.body.len); /* (4) */
	arena_release(&a);
	receiver_drop(s, r);
	pthread_mutex_lock(&s->lock);
	s->busy--;
	queue_settle(s, w, answer);
	pthread_cond_broadcast(&s->changed);
}

/* A second at most: the clock may be a test's. */
static void wait_until(struct code_sender *s, int64_t due_us)
{
	int64_t         left_us = due_us == INT64_MAX ? INT64_MAX : due_us - clock_steady_us(s->clock);
	struct timespec until;

	if (due_us == INT64_MAX && !s->closing) {
		pthread_cond_wait(&s->changed, &s->lock);
		return;
	}
	left_us = left_us < 0 ? 0 : left_us > SECOND_US ? SECOND_US : left_us;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += left_us % SECOND_US * 1000;
	until.tv_sec += left_us / SECOND_US + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&s->changed, &s->lock, &until);
}

static void sender_main(struct worker *worker, void *ctx)
{
	struct code_sender *s = ctx;
	struct waiting     *w;
	int64_t             due_us;

	pthread_mutex_lock(&s->lock);
	while (!s->stopping) {
		w = queue_next(s, &due_us);
		if (w != NULL && s->receiver != NULL) {
			worker_begin(worker);
			send_one(s, w);
			worker_idle(worker);
		} else if (s->closing) {
			break; /* (5) */
		} else {
			wait_until(s, due_us);
		}
	}
	pthread_mutex_unlock(&s->lock);
}

static void senders_start(struct code_sender *s)
{
	struct err err;

	if (s->started)
		return;
	s->started = true;
	for (int i = 0; i < CODE_SENDERS; i++) {
		worker_init(&s->workers[i],
		            &(struct worker_options){.name = "codes", .main = sender_main, .ctx = s});
		if (worker_start(&s->workers[i], &err) != ERR_NONE)
			log_error("a thread that sends codes cannot start: %s", err.text);
	}
}

/* ---- opening, closing ---- */

struct code_sender *code_sender_open(struct clock *clock)
{
	struct code_sender *s = mem_zalloc(sizeof(*s));
	pthread_condattr_t  steady;

	s->clock = clock;
	atomic_init(&s->on, false);
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&steady);
	pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
	pthread_cond_init(&s->changed, &steady);
	pthread_condattr_destroy(&steady);
	list_init(&s->queue);
	return s;
}

/* (5) Under lock. */
static void last_sends(struct code_sender *s)
{
	struct timespec until;
	int64_t         due_us;

	s->closing = true;
	pthread_cond_broadcast(&s->changed);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += CODE_STOP_S;
	while (s->started && s->receiver != NULL && (s->busy > 0 || queue_next(s, &due_us) != NULL))
		if (pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT)
			break;
	s->stopping = true;
	if (s->receiver != NULL)
		webhook_stop(s->receiver->webhook);
	pthread_cond_broadcast(&s->changed);
}

void code_sender_close(struct code_sender *s)
{
	if (s == NULL)
		return;
	pthread_mutex_lock(&s->lock);
	last_sends(s);
	pthread_mutex_unlock(&s->lock);
	for (int i = 0; i < CODE_SENDERS && s->started; i++) {
		worker_join(&s->workers[i]);
		worker_release(&s->workers[i]);
	}
	if (s->numbers.queued > 0)
		log_warn("%u codes were not sent before the stop; their users have to ask again",
		         s->numbers.queued);
	code_sender_put(s, NULL);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- for services ---- */

static bool is_on(void *ctx)
{
	return atomic_load(&((struct code_sender *)ctx)->on);
}

static struct code_numbers read_numbers(void *ctx)
{
	struct code_sender *s = ctx;
	struct code_numbers numbers;

	pthread_mutex_lock(&s->lock);
	numbers = s->numbers;
	pthread_mutex_unlock(&s->lock);
	return numbers;
}

struct code_post code_sender_post(struct code_sender *s)
{
	return (struct code_post){is_on, post, read_numbers, s};
}
