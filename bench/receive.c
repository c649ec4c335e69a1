/* Receive: webhooks that accept everything, on one thread: what it burns, the server lacks. It listens on a free port of loopback, prints it, and answers each
 * request 204 until its standard input ends. Then it prints one line of JSON: how many requests came to each path /0 to /63, and the CPU seconds
 * that it took itself. A request must fit into its buffer.
 *
 *     receive */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PEERS_MAX = 1024, PATHS = 64, REQUEST_BYTES_MAX = 32768, EVENTS_AT_ONCE = 64 };

struct peer {
	int    fd;
	size_t len;
	char   text[REQUEST_BYTES_MAX + 1];
};

static unsigned long counts[PATHS];

static const char accepted[] = "HTTP/1.1 204 No Content\r\n\r\n";

/* The length of the first request in the text; 0: it is not there yet. */
static size_t request_length(const struct peer *p)
{
	const char *end = strstr(p->text, "\r\n\r\n"), *length = strcasestr(p->text, "\r\ncontent-length:");
	size_t      whole;

	if (end == NULL || length == NULL)
		return 0;
	whole = (size_t)(end - p->text) + 4 + strtoul(length + 17, NULL, 10);
	return whole <= p->len ? whole : 0;
}

static bool peer_read(struct peer *p)
{
	ssize_t got = recv(p->fd, p->text + p->len, REQUEST_BYTES_MAX - p->len, 0);
	size_t  length;

	if (got <= 0)
		return false;
	p->len += (size_t)got;
	p->text[p->len] = '\0';
	while ((length = request_length(p)) > 0) {
		const char   *slash = strchr(p->text, '/');
		unsigned long path = slash == NULL ? PATHS : strtoul(slash + 1, NULL, 10);

		if (path >= PATHS || send(p->fd, accepted, strlen(accepted), MSG_NOSIGNAL) < 0)
			return false;
		counts[path]++;
		p->len -= length;
		memmove(p->text, p->text + length, p->len + 1);
	}
	return p->len < REQUEST_BYTES_MAX;
}

static int listen_somewhere(int *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t          len = sizeof(at);
	int                fd = socket(AF_INET, SOCK_STREAM, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 128) != 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) != 0)
		return -1;
	*port = ntohs(at.sin_port);
	return fd;
}

static void peer_open(int epoll, int listener)
{
	struct peer       *p = calloc(1, sizeof(*p));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = p};
	int                one = 1;

	if (p == NULL)
		abort();
	p->fd = accept(listener, NULL, NULL);
	setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	epoll_ctl(epoll, EPOLL_CTL_ADD, p->fd, &event);
}

static void report(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	printf("{\"cpu_s\": %.3f, \"counts\": [",
	       (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
	for (int i = 0; i < PATHS; i++)
		printf("%s%lu", i == 0 ? "" : ", ", counts[i]);
	printf("]}\n");
}

int main(void)
{
	int                epoll = epoll_create1(0), port = 0, listener = listen_somewhere(&port);
	struct epoll_event events[EVENTS_AT_ONCE], event = {.events = EPOLLIN, .data.ptr = &listener};
	struct epoll_event end = {.events = EPOLLIN | EPOLLHUP, .data.ptr = NULL};

	if (listener < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) != 0 ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &end) != 0)
		return 1;
	printf("%d\n", port);
	fflush(stdout);
	for (;;) {
		int count = epoll_wait(epoll, events, EVENTS_AT_ONCE, -1);

		for (int i = 0; i < count; i++) {
			struct peer *p = events[i].data.ptr;

			if (p == NULL) {
				report();
				return 0;
			}
			if (events[i].data.ptr == &listener) {
				peer_open(epoll, listener);
			} else if (!peer_read(p)) {
				close(p->fd);
				free(p);
			}
		}
	}
}
