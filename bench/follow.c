/* Follow: many readers of GET /v1/events as a stream, each of one subject, on one thread: what it burns, the server lacks. It connects them all, says
 * "ready", and counts events until its standard input ends. Then it prints one line of JSON: how many events came, and the CPU seconds that it
 * took itself. Exits with 1 if a stream ended.
 *
 *     follow PORT STREAMS PATH        in PATH, %08d stands for the number of the stream */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STREAMS_MAX = 10000, READ_BYTES = 65536, EVENTS_AT_ONCE = 256 };

static const char mark[] = "\nevent: "; /* each event has it once */

struct stream {
	int    fd;
	size_t matched; /* of the mark: it may come in two pieces */
};

static struct stream streams[STREAMS_MAX];
static unsigned long events;

static int stream_open(int port, const char *path, int number)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int                fd = socket(AF_INET, SOCK_STREAM, 0);
	char               filled[512], text[1024];

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
		return -1;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(filled, sizeof(filled), path, number);
#pragma GCC diagnostic pop
	snprintf(text, sizeof(text),
	         "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n", filled);
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		return -1;
	return fd;
}

/* The answer's head has come: the server follows for it. */
static bool stream_await(int fd)
{
	char    text[4096];
	ssize_t got = recv(fd, text, sizeof(text) - 1, 0);

	if (got <= 0)
		return false;
	text[got] = '\0';
	return strstr(text, "200 OK") != NULL && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

static void count(struct stream *s, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		s->matched = text[i] == mark[s->matched] ? s->matched + 1 : text[i] == mark[0];
		if (s->matched == sizeof(mark) - 1) {
			events++;
			s->matched = 0;
		}
	}
}

static bool stream_read(struct stream *s)
{
	static char text[READ_BYTES];
	ssize_t     got = recv(s->fd, text, sizeof(text), 0);

	if (got < 0)
		return errno == EAGAIN;
	count(s, text, (size_t)got);
	return got > 0;
}

static double cpu_s(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static bool follow(int epoll)
{
	struct epoll_event list[EVENTS_AT_ONCE];

	for (;;) {
		int n = epoll_wait(epoll, list, EVENTS_AT_ONCE, -1);

		for (int i = 0; i < n; i++) {
			if (list[i].data.ptr == NULL)
				return true; /* standard input has ended */
			if (!stream_read(list[i].data.ptr))
				return false;
		}
	}
}

int main(int argc, char **argv)
{
	struct epoll_event input = {.events = EPOLLIN | EPOLLHUP};
	int                epoll = epoll_create1(0), total = argc > 3 ? atoi(argv[2]) : 0;
	bool               held;

	if (total < 1 || total > STREAMS_MAX)
		return 2;
	for (int i = 0; i < total; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.ptr = &streams[i]};

		streams[i].fd = stream_open(atoi(argv[1]), argv[3], i);
		if (streams[i].fd < 0 || !stream_await(streams[i].fd) ||
		    epoll_ctl(epoll, EPOLL_CTL_ADD, streams[i].fd, &e) != 0) {
			fprintf(stderr, "stream %d: %s\n", i, strerror(errno));
			return 1;
		}
	}
	epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &input);
	printf("ready\n");
	fflush(stdout);
	held = follow(epoll);
	printf("{\"events\": %lu, \"cpu_s\": %.3f}\n", events, cpu_s());
	return held ? 0 : 1;
}
