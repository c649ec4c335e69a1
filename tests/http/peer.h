/* Peer: the other side of a test: a server with a handler made for tests, and a client on a real loopback
 * socket that sends exactly the bytes it is told to and reads answers one by one. */
#ifndef TESTS_HTTP_PEER_H
#define TESTS_HTTP_PEER_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "http/http.h"
#include "test.h"

enum { PEER_WAIT_MS = 20000, HELD_MAX = 4096, REPLY_HEAD_MAX = 8192, HOUSE_LOOPS_MAX = 16 };

#define HOST "Host: t\r\n"

/* What the handler does, by path:
 *   /echo   the body back               /big     as many bytes as the query says
 *   /hold   kept until house_let_go     /later   answered by way of another thread
 *   /say    method, path, query, header X-A, length of the body
 *   /close  Connection: close           /empty   204          /header  headers, one of them malicious
 *   /secure did it come by TLS?         /peer    its address
 *   /kept   how often this connection asked for /kept
 *   /block  keeps the loop until house_let_go
 *   /charge says whether as many bytes as the query says fit into the memory, holding them until house_let_go if they do
 * A request with the header X-Stranger may have no large body. */
struct house {
	struct http_server *server;
	/* A test's own paths: true if it took the request. NULL: none. */
	bool (*route)(struct house *h, struct http_request *r);
	struct http_limits  limits;
	struct http_tls    *tls; /* NULL: plain */
	struct clock_manual manual;
	/* shared, under lock */
	pthread_mutex_t      lock;
	pthread_cond_t       changed;
	struct http_request *held[HELD_MAX];
	unsigned             held_count;
	struct http_request *later[HELD_MAX];
	unsigned             later_count;
	bool                 worker_ends;
	bool                 blocked;     /* a loop is, in /block */
	unsigned             conns_ended; /* that had kept something, and how much they had kept */
	unsigned             kept_total;
	unsigned             loops_open;
	/* by loop, each its own */
	unsigned  loop_requests[HOUSE_LOOPS_MAX];
	unsigned  depth[HOUSE_LOOPS_MAX]; /* handlers on the stack now, and at most */
	unsigned  depth_max[HOUSE_LOOPS_MAX];
	pthread_t worker;
};

/* One entry a loop: which one this is. */
static void *house_loop_open(void *ctx)
{
	struct house *h = ctx;
	unsigned     *index = malloc(sizeof(*index));

	pthread_mutex_lock(&h->lock);
	*index = h->loops_open++;
	pthread_mutex_unlock(&h->lock);
	return index;
}

static void house_loop_close(void *ctx, void *loop_data)
{
	struct house *h = ctx;

	free(loop_data);
	pthread_mutex_lock(&h->lock);
	h->loops_open--;
	pthread_mutex_unlock(&h->lock);
}

static void house_conn_end(void *ctx, void *data)
{
	struct house *h = ctx;

	pthread_mutex_lock(&h->lock);
	h->conns_ended++;
	h->kept_total += (unsigned)(uintptr_t)data;
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

static void answer_text(struct http_request *r, struct bytes body)
{
	struct http_response response = {.status = 200, .content_type = "text/plain", .body = body};

	http_respond(r, &response);
}

static void answer_echo(struct http_request *r)
{
	answer_text(r, r->body);
}

static void answer_say(struct http_request *r)
{
	struct bytes a = http_header_get(r, "x-a");

	answer_text(r, arena_printf(&r->arena, "%d %.*s %.*s %.*s %zu", (int)r->method, BYTES_ARG(r->path),
	                            BYTES_ARG(r->query), BYTES_ARG(a), r->body.len));
}

static void answer_big(struct http_request *r)
{
	uint64_t len = 0;
	char    *body;

	bytes_to_u64(r->query, 1u << 30, &len);
	body = arena_alloc(&r->arena, len);
	for (size_t i = 0; i < len; i++)
		body[i] = (char)('a' + i % 26);
	answer_text(r, (struct bytes){body, len});
}

static void answer_header(struct http_request *r)
{
	struct http_header headers[] = {
	        {BYTES("X-Good"), BYTES("yes")},
	        {BYTES("X-Bad"), BYTES("a\r\nX-Injected: b")},
	};
	struct http_response response = {.status = 200,
	                                 .content_type = "text/plain",
	                                 .headers = headers,
	                                 .header_count = 2,
	                                 .body = BYTES("h")};

	http_respond(r, &response);
}

static void answer_peer(struct http_request *r)
{
	char text[INET6_ADDRSTRLEN];

	assert_non_null(inet_ntop(AF_INET6, r->peer.bytes, text, sizeof(text)));
	answer_text(r, bytes_of(text));
}

/* Puts a number with the connection, one more each time. */
static void answer_kept(struct http_request *r)
{
	uintptr_t number = (uintptr_t)http_conn_data(r) + 1;

	http_conn_keep(r, (void *)number);
	answer_text(r, arena_printf(&r->arena, "%d", (int)number));
}

static void answer_status(struct http_request *r, int status, bool ends)
{
	struct http_response response = {.status = status, .close = ends};

	http_respond(r, &response);
}

static void house_keep(struct house *h, struct http_request **where, unsigned *count, struct http_request *r)
{
	pthread_mutex_lock(&h->lock);
	assert_true(*count < HELD_MAX);
	where[(*count)++] = r;
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

/* Keeps the whole loop busy, until house_let_go. */
static void answer_block(struct house *h, struct http_request *r)
{
	pthread_mutex_lock(&h->lock);
	h->blocked = true;
	pthread_cond_broadcast(&h->changed);
	while (h->blocked)
		pthread_cond_wait(&h->changed, &h->lock);
	pthread_mutex_unlock(&h->lock);
	answer_echo(r);
}

static void answer_charge(struct house *h, struct http_request *r)
{
	uint64_t bytes = 0;

	bytes_to_u64(r->query, 1u << 30, &bytes);
	if (http_charge(r, bytes))
		house_keep(h, h->held, &h->held_count, r);
	else
		answer_status(r, 503, false);
}

static bool house_admits(void *ctx, const struct http_request *r)
{
	(void)ctx;
	return http_header_get(r, "x-stranger").data == NULL;
}

static void house_route(struct house *h, struct http_request *r)
{
	if (bytes_is(r->path, "/hold"))
		house_keep(h, h->held, &h->held_count, r);
	else if (bytes_is(r->path, "/later"))
		house_keep(h, h->later, &h->later_count, r);
	else if (bytes_is(r->path, "/say"))
		answer_say(r);
	else if (bytes_is(r->path, "/big"))
		answer_big(r);
	else if (bytes_is(r->path, "/header"))
		answer_header(r);
	else if (bytes_is(r->path, "/close"))
		answer_status(r, 200, true);
	else if (bytes_is(r->path, "/secure"))
		answer_text(r, r->secure ? BYTES("yes") : BYTES("no"));
	else if (bytes_is(r->path, "/block"))
		answer_block(h, r);
	else if (bytes_is(r->path, "/kept"))
		answer_kept(r);
	else if (bytes_is(r->path, "/peer"))
		answer_peer(r);
	else if (bytes_is(r->path, "/charge"))
		answer_charge(h, r);
	else if (bytes_is(r->path, "/empty"))
		answer_status(r, 204, false);
	else
		answer_echo(r);
}

static void house_handle(void *ctx, struct http_request *r)
{
	struct house *h = ctx;
	unsigned      loop = *(unsigned *)r->loop_data;

	h->loop_requests[loop]++;
	if (++h->depth[loop] > h->depth_max[loop])
		h->depth_max[loop] = h->depth[loop];
	if (h->route == NULL || !h->route(h, r))
		house_route(h, r);
	h->depth[loop]--;
}

/* Resumes whatever /later put aside, all that waits at a time, as a writer with group commit would. */
static void *house_worker(void *arg)
{
	struct house        *h = arg;
	struct http_request *batch[HELD_MAX];
	unsigned             count;
	bool                 ends;

	do {
		pthread_mutex_lock(&h->lock);
		while (h->later_count == 0 && !h->worker_ends)
			pthread_cond_wait(&h->changed, &h->lock);
		count = h->later_count;
		memcpy(batch, h->later, count * sizeof(*batch));
		h->later_count = 0;
		ends = h->worker_ends;
		pthread_mutex_unlock(&h->lock);
		for (unsigned i = 0; i < count; i++)
			http_resume(batch[i], answer_echo);
	} while (!ends || count > 0);
	return NULL;
}

/* Limits may be changed between house_init and house_open. */
static void house_init(struct house *h)
{
	memset(h, 0, sizeof(*h));
	h->limits = http_limits_default();
	clock_manual_init(&h->manual, 1000000000);
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->changed, NULL);
}

static void house_open(struct house *h, unsigned loops, struct clock *clock)
{
	struct http_handler handler = {.ctx = h,
	                               .loop_open = house_loop_open,
	                               .loop_close = house_loop_close,
	                               .handle = house_handle,
	                               .admits = house_admits,
	                               .conn_end = house_conn_end};
	struct err          err;

	if (http_server_open(&h->server,
	                     &(struct http_server_options){.listen = "127.0.0.1:0",
	                                                   .loops = loops,
	                                                   .limits = &h->limits,
	                                                   .handler = &handler,
	                                                   .tls = h->tls,
	                                                   .clock = clock},
	                     &err) != ERR_NONE)
		fail_msg("%s", err.text);
	assert_int_equal(pthread_create(&h->worker, NULL, house_worker, h), 0);
}

static void house_close(struct house *h)
{
	http_server_close(h->server);
	pthread_mutex_lock(&h->lock);
	h->worker_ends = true;
	pthread_cond_broadcast(&h->changed);
	assert_int_equal(h->loops_open, 0);
	pthread_mutex_unlock(&h->lock);
	pthread_join(h->worker, NULL);
	pthread_cond_destroy(&h->changed);
	pthread_mutex_destroy(&h->lock);
}

/* Waits until `count` requests are held. */
static __attribute__((unused)) void house_wait_held(struct house *h, unsigned count)
{
	pthread_mutex_lock(&h->lock);
	while (h->held_count < count)
		pthread_cond_wait(&h->changed, &h->lock);
	pthread_mutex_unlock(&h->lock);
}

/* Waits until a loop is kept busy by /block. */
static __attribute__((unused)) void house_wait_blocked(struct house *h)
{
	pthread_mutex_lock(&h->lock);
	while (!h->blocked)
		pthread_cond_wait(&h->changed, &h->lock);
	pthread_mutex_unlock(&h->lock);
}

/* Resumes everything held, from this thread. */
static __attribute__((unused)) void house_let_go(struct house *h)
{
	pthread_mutex_lock(&h->lock);
	for (unsigned i = 0; i < h->held_count; i++)
		http_resume(h->held[i], answer_echo);
	h->held_count = 0;
	h->blocked = false;
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

static __attribute__((unused)) void house_pass_ms(struct house *h, int64_t ms)
{
	clock_manual_set(&h->manual, h->manual.now_us + ms * 1000);
}

static int peer_connect(const struct house *h)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
	                              .sin_port = htons((uint16_t)http_server_port(h->server)),
	                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval     wait = {.tv_sec = PEER_WAIT_MS / 1000};
	const int          on = 1;
	int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* False if the server does not take it. */
static bool peer_try_send(int fd, const void *data, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		data = (const char *)data + n;
		len -= (size_t)n;
	}
	return true;
}

static void peer_send(int fd, const char *text)
{
	assert_true(peer_try_send(fd, text, strlen(text)));
}

struct reply {
	int    status; /* 0: the connection ended first */
	char   head[REPLY_HEAD_MAX];
	char  *body;
	size_t body_len;
};

static bool peer_read_head(int fd, char *head)
{
	size_t len = 0;

	while (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0) {
		if (len == REPLY_HEAD_MAX - 1 || recv(fd, head + len, 1, 0) != 1)
			return false;
		len++;
	}
	head[len] = '\0';
	return true;
}

/* `head_only`: the request was HEAD. */
static struct reply peer_read_reply(int fd, bool head_only)
{
	struct reply r = {0};
	const char  *length;

	r.body = calloc(1, 1);
	if (!peer_read_head(fd, r.head))
		return r;
	r.status = atoi(r.head + 9);
	length = strstr(r.head, "Content-Length: ");
	if (length == NULL || head_only)
		return r;
	r.body_len = strtoul(length + 16, NULL, 10);
	r.body = realloc(r.body, r.body_len + 1);
	r.body[r.body_len] = '\0';
	for (size_t at = 0; at < r.body_len;) {
		ssize_t n = recv(fd, r.body + at, r.body_len - at, 0);

		if (n <= 0) {
			r.status = 0;
			return r;
		}
		at += (size_t)n;
	}
	return r;
}

static void reply_release(struct reply *r)
{
	free(r->body);
}

/* Reads an answer and checks its status and, if given, its body. */
static void peer_expect(int fd, int status, const char *body)
{
	struct reply r = peer_read_reply(fd, false);

	if (r.status != status)
		fail_msg("status %d, expected %d: %s%s", r.status, status, r.head, r.body);
	if (body != NULL)
		assert_string_equal(r.body, body);
	reply_release(&r);
}

/* Nothing more comes: the server has closed. */
static __attribute__((unused)) void peer_expect_end(int fd)
{
	char    byte;
	ssize_t n = recv(fd, &byte, 1, 0);

	if (n > 0 || (n < 0 && errno != ECONNRESET))
		fail_msg("the connection is still open");
}

/* Does a fresh connection get served? */
static __attribute__((unused)) void peer_expect_service(const struct house *h)
{
	int fd = peer_connect(h);

	peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok");
	peer_expect(fd, 200, "ok");
	close(fd);
}

/* Has the server stopped listening? */
static __attribute__((unused)) bool peer_is_refused(unsigned port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
	                              .sin_port = htons((uint16_t)port),
	                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool               refused = connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0;

	close(fd);
	return refused;
}

/* Waits for something that another thread is about to make true. */
#define WAIT_UNTIL(condition)                                                                                \
	do {                                                                                                 \
		time_t wait_end = time(NULL) + PEER_WAIT_MS / 1000;                                          \
		while (!(condition)) {                                                                       \
			if (time(NULL) > wait_end)                                                           \
				fail_msg("never happened: %s", #condition);                                  \
			poll(NULL, 0, 1);                                                                    \
		}                                                                                            \
	} while (0)

#endif
