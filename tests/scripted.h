/* Scripted: a peer, which is an HTTP server on loopback that follows a script. Each request it reads, over whatever connection, takes the next step of the
 * script; the last step is for all that follow. What it read is kept, so that tests can look. */
#ifndef TESTS_SCRIPTED_H
#define TESTS_SCRIPTED_H

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "test.h"

enum { PEER_SEEN_MAX = 64, PEER_CONNECTIONS_MAX = 4096, PEER_REQUEST_BYTES_MAX = 32768, PEER_PACE_MS = 2 };

enum peer_behaviour {
	PEER_ANSWER,       /* sends the text */
	PEER_ECHO,         /* an attempt's answer, with its subject as the reason */
	PEER_ANSWER_CLOSE, /* sends the text and closes, without having said so */
	PEER_CLOSE,        /* closes without a word */
	PEER_SILENT,       /* does nothing until the client closes */
	PEER_DRIP,         /* sends the text, then "a" after "a", until the client closes */
};

struct peer_step {
	enum peer_behaviour behaviour;
	const char         *text;
};

struct peer {
	/* set once */
	int               listener;
	unsigned          port;
	struct peer_step *steps;
	unsigned          step_count;
	pthread_t         thread;
	/* shared under lock */
	pthread_mutex_t lock;
	unsigned        requests;
	char           *seen[PEER_SEEN_MAX]; /* the first of them, whole */
	unsigned        connections;
	pthread_t       threads[PEER_CONNECTIONS_MAX];
	int             fds[PEER_CONNECTIONS_MAX]; /* -1: closed */
};

struct peer_conn {
	struct peer *p;
	unsigned     number;
	int          fd;
};

#define PEER_SCRIPT(...)                                                                                     \
	(const struct peer_step[]){__VA_ARGS__},                                                             \
	        sizeof((struct peer_step[]){__VA_ARGS__}) / sizeof(struct peer_step)

/* ---- reading and answering ---- */

static inline void peer_say(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		text += n;
		len -= (size_t)n;
	}
}

/* The text, with a ? for its length filled in. */
static inline void peer_say_text(int fd, const char *text)
{
	const char *hole = strstr(text, "Content-Length: ?"), *body = strstr(text, "\r\n\r\n");
	char        length[48];

	if (hole != NULL) {
		peer_say(fd, text, (size_t)(hole - text));
		snprintf(length, sizeof(length), "Content-Length: %zu", strlen(body + 4));
		peer_say(fd, length, strlen(length));
		text = hole + 17;
	}
	peer_say(fd, text, strlen(text));
}

/* One whole request, NUL-terminated; false: the client has closed. */
static inline bool peer_read(int fd, char *text)
{
	size_t used = 0, wanted = SIZE_MAX;

	while (used < wanted) {
		ssize_t n = recv(fd, text + used, PEER_REQUEST_BYTES_MAX - 1 - used, 0);
		char   *end, *length;

		if (n <= 0)
			return false;
		used += (size_t)n;
		text[used] = '\0';
		end = strstr(text, "\r\n\r\n");
		length = strstr(text, "Content-Length: ");
		if (end != NULL)
			wanted = (size_t)(end + 4 - text) + (length == NULL ? 0 : (size_t)atoi(length + 16));
	}
	return true;
}

static inline void peer_await_close(int fd)
{
	char ignored[256];

	while (recv(fd, ignored, sizeof(ignored), 0) > 0)
		continue;
}

static inline void peer_drip(int fd, const char *text)
{
	struct pollfd p = {fd, POLLIN, 0};

	peer_say(fd, text, strlen(text));
	while (poll(&p, 1, PEER_PACE_MS) == 0 && send(fd, "a", 1, MSG_NOSIGNAL) == 1)
		continue;
}

static inline void peer_echo(int fd, const char *request)
{
	const char *subject = strstr(request, "\"subject\":\"") + 11;
	char        body[512], text[1024];
	int         len = snprintf(body, sizeof(body), "{\"verdict\":\"locked\",\"reason\":\"%.*s\"}",
	                           (int)strcspn(subject, "\""), subject);

	snprintf(text, sizeof(text),
	         "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len,
	         body);
	peer_say(fd, text, strlen(text));
}

/* False: the connection is to be closed. */
static inline bool peer_do(int fd, const struct peer_step *step, const char *request)
{
	switch (step->behaviour) {
	case PEER_ANSWER:
		peer_say_text(fd, step->text);
		return true;
	case PEER_ECHO:
		peer_echo(fd, request);
		return true;
	case PEER_ANSWER_CLOSE:
		peer_say_text(fd, step->text);
		return false;
	case PEER_SILENT:
		peer_await_close(fd);
		return false;
	case PEER_DRIP:
		peer_drip(fd, step->text);
		return false;
	case PEER_CLOSE:
		return false;
	}
	return false;
}

/* ---- threads ---- */

static inline const struct peer_step *peer_next(struct peer *p, const char *request)
{
	unsigned number;

	pthread_mutex_lock(&p->lock);
	number = p->requests++;
	if (number < PEER_SEEN_MAX)
		p->seen[number] = strdup(request);
	pthread_mutex_unlock(&p->lock);
	return &p->steps[number < p->step_count ? number : p->step_count - 1];
}

static inline void *peer_serve(void *arg)
{
	struct peer_conn *c = arg;
	char             *request = malloc(PEER_REQUEST_BYTES_MAX);

	while (peer_read(c->fd, request) && peer_do(c->fd, peer_next(c->p, request), request))
		continue;
	pthread_mutex_lock(&c->p->lock);
	close(c->fd);
	c->p->fds[c->number] = -1;
	pthread_mutex_unlock(&c->p->lock);
	free(request);
	free(c);
	return NULL;
}

static inline void *peer_accept(void *arg)
{
	struct peer *p = arg;
	int          fd;

	while ((fd = accept(p->listener, NULL, NULL)) >= 0) {
		struct peer_conn *c = malloc(sizeof(*c));

		pthread_mutex_lock(&p->lock);
		if (c == NULL || p->connections == PEER_CONNECTIONS_MAX)
			abort();
		*c = (struct peer_conn){p, p->connections++, fd};
		p->fds[c->number] = fd;
		if (pthread_create(&p->threads[c->number], NULL, peer_serve, c) != 0)
			abort();
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

/* Listens on `port`, or a free one (0). */
static inline struct peer *peer_open(unsigned port, const struct peer_step *steps, unsigned long step_count)
{
	struct peer       *p = calloc(1, sizeof(*p));
	struct sockaddr_in at = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)port),
	                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t          len = sizeof(at);
	int                one = 1;

	p->steps = malloc(sizeof(*steps) * step_count);
	memcpy(p->steps, steps, sizeof(*steps) * step_count);
	p->step_count = (unsigned)step_count;
	pthread_mutex_init(&p->lock, NULL);
	p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(p->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	/* A given port was ours a moment ago; somebody may be using it for a moment. */
	while (bind(p->listener, (struct sockaddr *)&at, sizeof(at)) != 0)
		assert_true(port != 0 && poll(NULL, 0, PEER_PACE_MS) == 0);
	assert_int_equal(listen(p->listener, 128), 0);
	assert_int_equal(getsockname(p->listener, (struct sockaddr *)&at, &len), 0);
	p->port = ntohs(at.sin_port);
	assert_int_equal(pthread_create(&p->thread, NULL, peer_accept, p), 0);
	return p;
}

/* Ends everything at once, connections too, as a killed server does. */
static inline void peer_close(struct peer *p)
{
	shutdown(p->listener, SHUT_RDWR);
	pthread_join(p->thread, NULL);
	close(p->listener);
	pthread_mutex_lock(&p->lock);
	for (unsigned i = 0; i < p->connections; i++)
		if (p->fds[i] >= 0)
			shutdown(p->fds[i], SHUT_RDWR);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->connections; i++)
		pthread_join(p->threads[i], NULL);
	for (unsigned i = 0; i < PEER_SEEN_MAX; i++)
		free(p->seen[i]);
	pthread_mutex_destroy(&p->lock);
	free(p->steps);
	free(p);
}

/* Says something over the n-th connection that nobody asked for. */
static inline void peer_interject(struct peer *p, unsigned number, const char *text)
{
	pthread_mutex_lock(&p->lock);
	peer_say(p->fds[number], text, strlen(text));
	pthread_mutex_unlock(&p->lock);
}

static inline unsigned peer_requests(struct peer *p)
{
	unsigned n;

	pthread_mutex_lock(&p->lock);
	n = p->requests;
	pthread_mutex_unlock(&p->lock);
	return n;
}

static inline unsigned peer_connections(struct peer *p)
{
	unsigned n;

	pthread_mutex_lock(&p->lock);
	n = p->connections;
	pthread_mutex_unlock(&p->lock);
	return n;
}

#endif
