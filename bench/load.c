/* Load: a load generator for HTTP/1.1 and Redis' RESP. Each of N connections sends a request, waits for the answer,
 * sends the next one with another key: at once, or with --rate when it is due. One thread and epoll, because the generator shares the machine with
 * the server it measures: what it burns, the server lacks. It prints one line of JSON and exits with 1 if
 * anything went wrong.
 *
 *     start      warm-up ends             seconds are over      all answered
 *       |  not measured  |      measured        |  answers awaited  |
 *
 * (1) Every request sent is answered and counted in "answered", or the run is invalid: so a counter on the
 * server that each request adds 1 to ends exactly "answered" higher. (2) An answer other than 2xx (or an error of Redis), one
 * without the --expect text, a lost connection, or silence makes the run invalid. (3) At most one request is
 * in flight on a connection. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "answer.h"
#include "histogram.h"
#include "options.h"
#include "request.h"
#include "resp.h"
#include "sign.h"

enum {
	EVENTS_AT_ONCE = 256,
	SILENCE_MS_MAX = 10000,
	PROBLEM_BYTES_MAX = 200,
	TTL_AHEAD_S = 900,
};

static const uint64_t NS_PER_S = 1000000000;

struct conn {
	int      fd;
	uint64_t sent_ns;
	size_t   got;
	char     answer[ANSWER_BYTES_MAX + 1];
};

struct load {
	struct options   options;
	struct request   request; /* one is enough: send copies it before the next key is patched in */
	struct signer    signer;
	struct histogram latency;
	struct conn     *conns;
	struct conn *
	        *ready; /* answered, to be sent the next request at the end of the round, or when it is due */
	int      ready_count;
	int      epoll;
	int      in_flight;
	uint64_t start_ns;
	uint64_t measure_ns;
	uint64_t end_ns;
	uint64_t random;
	uint64_t sent;
	uint64_t answered;
	uint64_t errors;
	bool     stopped; /* after a lost connection: no use going on */
	char     problem[PROBLEM_BYTES_MAX];
};

static bool load_open(struct load *load);
static void load_run(struct load *load);
static void load_print(const struct load *load);
static void load_close(struct load *load);

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Counts an error and keeps the first one's text. */
__attribute__((format(printf, 2, 3))) static void load_fail(struct load *load, const char *format, ...)
{
	va_list args;

	if (load->errors++ > 0)
		return;
	va_start(args, format);
	vsnprintf(load->problem, sizeof load->problem, format, args);
	va_end(args);
}

static void load_stop(struct load *load, const char *what, int error)
{
	load_fail(load, "%s: %s", what, error ? strerror(error) : "the server closed the connection");
	load->stopped = true;
}

int main(int argc, char **argv)
{
	struct load *load = calloc(1, sizeof *load);
	int          failed;

	if (load == NULL || !options_read(&load->options, argc, argv)) {
		fprintf(stderr,
		        "usage: load --port N --target OPERATION|/PATH|redis --body-template TEXT [--host "
		        "A]\n"
		        "            [--connections N] [--seconds S] [--warmup S] [--keys N] [--first N] "
		        "[--seed N]\n"
		        "            [--rate N] [--once] [--spin] [--sign] [--expect TEXT]\n"
		        "TEXT is JSON, or a Redis command with a word a line; in it %%d is a key, %%t a time "
		        "to live\n");
		free(load);
		return 2;
	}
	if (load_open(load))
		load_run(load);
	load_print(load);
	failed = load->errors > 0;
	load_close(load);
	return failed;
}

/* --- connections --- */

static bool conn_connect(struct conn *conn, const struct options *o)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->port)};
	int                on = 1;

	if (inet_pton(AF_INET, o->host, &to.sin_addr) != 1) {
		errno = EINVAL;
		return false;
	}
	conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return conn->fd >= 0 && connect(conn->fd, (struct sockaddr *)&to, sizeof to) == 0 &&
	       setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
	       fcntl(conn->fd, F_SETFL, O_NONBLOCK) == 0;
}

static bool load_connect_all(struct load *load)
{
	for (int i = 0; i < load->options.connections; i++) {
		struct conn       *conn = &load->conns[i];
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};

		if (!conn_connect(conn, &load->options) ||
		    epoll_ctl(load->epoll, EPOLL_CTL_ADD, conn->fd, &event) != 0) {
			load_stop(load, "connect", errno);
			return false;
		}
	}
	return true;
}

/* The time to live moves with the clock, as a real caller's does. */
static void load_refresh_ttl(struct load *load)
{
	request_set_ttl(&load->request, (uint64_t)time(NULL) + TTL_AHEAD_S);
}

static bool load_build(struct load *load)
{
	const struct options *o = &load->options;

	if (o->redis)
		return resp_build(&load->request, o->body);
	return request_build(&load->request, o->host, o->port, o->target, o->body);
}

static bool load_open(struct load *load)
{
	const struct options *o = &load->options;

	load->random = o->seed * UINT64_C(0x9E3779B97F4A7C15) | 1;
	load->epoll = epoll_create1(EPOLL_CLOEXEC);
	load->conns = calloc((size_t)o->connections, sizeof *load->conns);
	load->ready = calloc((size_t)o->connections, sizeof(struct conn *));
	if (load->epoll < 0 || load->conns == NULL || load->ready == NULL) {
		load_stop(load, "set-up", errno);
		return false;
	}
	if (!load_build(load)) {
		load_stop(load, "body template", E2BIG);
		return false;
	}
	load_refresh_ttl(load);
	if (o->sign && !signer_open(&load->signer, &load->request, o->keys)) {
		load_stop(load, "signing", EINVAL);
		return false;
	}
	return load_connect_all(load);
}

static void load_close(struct load *load)
{
	for (int i = 0; load->conns != NULL && i < load->options.connections; i++) {
		if (load->conns[i].fd > 0)
			close(load->conns[i].fd);
	}
	if (load->epoll >= 0)
		close(load->epoll);
	signer_close(&load->signer);
	free(load->conns);
	free(load->ready);
	free(load);
}

/* --- the loop --- */

static uint64_t load_next_key(struct load *load)
{
	if (load->options.once)
		return load->sent;
	load->random ^= load->random << 13; /* xorshift: the quality does not matter, the cost does */
	load->random ^= load->random >> 7;
	load->random ^= load->random << 17;
	return load->random % load->options.keys;
}

static bool load_has_more(const struct load *load, uint64_t now_ns)
{
	if (load->stopped)
		return false;
	return load->options.once ? load->sent < load->options.keys : now_ns < load->end_ns;
}

/* The next request's text. */
static const char *load_next(struct load *load)
{
	uint64_t key = load_next_key(load);

	if (load->options.sign)
		return load->signer.texts + key * load->request.length;
	request_set_key(&load->request, load->options.first + key);
	return load->request.text;
}

static void load_send(struct load *load, struct conn *conn, uint64_t now_ns)
{
	ssize_t n;

	conn->sent_ns = now_ns;
	conn->got = 0;
	n = send(conn->fd, load_next(load), load->request.length, MSG_NOSIGNAL);
	if (n != (ssize_t)load->request.length) {
		load_stop(load, "send", n < 0 ? errno : EMSGSIZE);
		return;
	}
	load->sent++;
	load->in_flight++;
}

static void load_check(struct load *load, const struct answer *a)
{
	const char *expect = load->options.expect;
	int         shown = a->body_length < 120 ? (int)a->body_length : 120;

	if (a->status / 100 != ANSWER_GOOD / 100) /* 201 is fine: something was made */
		load_fail(load, "status %d: %.*s", a->status, shown, a->body);
	else if (expect != NULL && memmem(a->body, a->body_length, expect, strlen(expect)) == NULL)
		load_fail(load, "unexpected body: %.*s", shown, a->body);
}

static void load_answered(struct load *load, struct conn *conn, const struct answer *a)
{
	uint64_t now_ns = clock_ns();

	load->in_flight--;
	load->answered++;
	load_check(load, a);
	if (now_ns >= load->measure_ns && now_ns < load->end_ns)
		histogram_add(&load->latency, now_ns - conn->sent_ns);
	load->ready[load->ready_count++] = conn;
}

/* With a rate: when the next request is to be sent. Its time counts from then, also if no connection is free. */
static uint64_t load_due_ns(const struct load *load)
{
	return load->start_ns + (uint64_t)((double)load->sent * (double)NS_PER_S / load->options.rate);
}

/* After all that has come was read: each request sent wakes the server, which may take this core. */
static void load_send_ready(struct load *load)
{
	int i;

	for (i = 0; i < load->ready_count; i++) {
		uint64_t now_ns = clock_ns(), due_ns = load->options.rate > 0 ? load_due_ns(load) : now_ns;

		if (!load_has_more(load, now_ns))
			i = load->ready_count - 1;
		else if (due_ns > now_ns)
			break;
		else
			load_send(load, load->ready[i], due_ns);
	}
	load->ready_count -= i;
	memmove(load->ready, load->ready + i, (size_t)load->ready_count * sizeof(struct conn *));
}

static enum answer_state load_parse(const struct load *load, const struct conn *conn, struct answer *a)
{
	return load->options.redis ? resp_parse(a, conn->answer, conn->got)
	                           : answer_parse(a, conn->answer, conn->got);
}

static void load_receive(struct load *load, struct conn *conn)
{
	struct answer a;
	ssize_t       n = recv(conn->fd, conn->answer + conn->got, ANSWER_BYTES_MAX - conn->got, 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		load_stop(load, "receive", n < 0 ? errno : 0);
		return;
	}
	conn->got += (size_t)n;
	conn->answer[conn->got] = '\0';
	switch (load_parse(load, conn, &a)) {
	case ANSWER_PARTIAL:
		break;
	case ANSWER_WHOLE:
		load_answered(load, conn, &a);
		break;
	case ANSWER_BROKEN:
		load_stop(load, "answer", EPROTO);
		break;
	}
}

static void load_start(struct load *load)
{
	load->start_ns = clock_ns();
	load->measure_ns = load->start_ns + (uint64_t)(load->options.warmup * (double)NS_PER_S);
	load->end_ns = load->measure_ns + (uint64_t)(load->options.seconds * (double)NS_PER_S);
	if (load->options.once)
		load->end_ns = UINT64_MAX;
	for (int i = 0; i < load->options.connections; i++)
		load->ready[load->ready_count++] = &load->conns[i];
	load_send_ready(load);
}

/* Something may come, or the next request is due. */
static int load_wait_due(struct load *load, struct epoll_event *events)
{
	uint64_t        now_ns = clock_ns(), due_ns = load_due_ns(load);
	uint64_t        left_ns = due_ns > now_ns ? due_ns - now_ns : 0;
	struct timespec left = {(time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S)};
	int             n = epoll_pwait2(load->epoll, events, EVENTS_AT_ONCE, &left, NULL);

	if (n < 0 && errno != EINTR)
		load_stop(load, "epoll_pwait2", errno);
	return n;
}

/* Spinning keeps the generator's own waking up out of the latencies; an idle virtual core takes long to wake.
 */
static int load_wait(struct load *load, struct epoll_event *events)
{
	uint64_t give_up_ns = clock_ns() + SILENCE_MS_MAX * UINT64_C(1000000);
	int      n;

	do {
		n = epoll_wait(load->epoll, events, EVENTS_AT_ONCE, load->options.spin ? 0 : SILENCE_MS_MAX);
	} while (n == 0 && load->options.spin && clock_ns() < give_up_ns);
	if (n == 0)
		load_stop(load, "waiting for answers", ETIMEDOUT);
	if (n < 0 && errno != EINTR)
		load_stop(load, "epoll_wait", errno);
	return n;
}

static void load_run(struct load *load)
{
	struct epoll_event events[EVENTS_AT_ONCE];

	load_start(load);
	while ((load->in_flight > 0 || load->ready_count > 0) && !load->stopped) {
		int n = load->ready_count > 0 ? load_wait_due(load, events) : load_wait(load, events);

		load_refresh_ttl(load);
		for (int i = 0; i < n && !load->stopped; i++)
			load_receive(load, events[i].data.ptr);
		load_send_ready(load);
	}
	if (load->options.once)
		load->end_ns = clock_ns();
}

/* --- the report --- */

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void print_text(const char *text)
{
	putchar('"');
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar((unsigned char)*text < ' ' ? ' ' : *text);
	}
	putchar('"');
}

static double load_quantile_us(const struct load *load, double share)
{
	return (double)histogram_quantile(&load->latency, share) / 1e3;
}

static void load_print(const struct load *load)
{
	double seconds = (double)(load->end_ns - load->measure_ns) / (double)NS_PER_S;

	printf("{\"valid\": %s, \"errors\": %llu, \"problem\": ", load->errors ? "false" : "true",
	       (unsigned long long)load->errors);
	print_text(load->problem);
	printf(", \"connections\": %d, \"seconds\": %.3f, \"answered\": %llu, \"measured\": %llu",
	       load->options.connections, seconds, (unsigned long long)load->answered,
	       (unsigned long long)load->latency.count);
	printf(", \"requests_per_s\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, "
	       "\"max_us\": %.1f",
	       seconds > 0 ? (double)load->latency.count / seconds : 0, load_quantile_us(load, 0.50),
	       load_quantile_us(load, 0.99), load_quantile_us(load, 0.999), (double)load->latency.max / 1e3);
	printf(", \"client_cpu_s\": %.3f}\n", cpu_seconds());
}
