/* Server: fork and exec, a pipe for what it prints, a pidfd for its end. It dies with the test, whatever
 * happens to the test. */
#define _GNU_SOURCE
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	GREETING_BYTES_MAX = 4096,
	PORT_FIRST = 20000, /* the system's own range begins at 32768 */
	PORTS = 12000,
};

/* The file is never made anew: the server has it mapped. */
static bool write_clock(const struct server *s, int flags)
{
	int     fd = open(s->clock, O_WRONLY | flags, 0600);
	char    text[sizeof(CLOCK_FILE_HEAD) - 1 + 2 * sizeof(int64_t)] = CLOCK_FILE_HEAD;
	ssize_t n = -1;

	memcpy(text + sizeof(CLOCK_FILE_HEAD) - 1, &s->passed_us, sizeof(s->passed_us));
	memset(text + sizeof(text) - sizeof(int64_t), 0, sizeof(int64_t));
	if (fd >= 0) {
		n = pwrite(fd, text, sizeof(text), 0);
		close(fd);
	}
	return n == (ssize_t)sizeof(text);
}

bool server_make_clock(struct server *s)
{
	s->passed_us = 0;
	return write_clock(s, O_CREAT | O_TRUNC) && setenv("GATEHOUSE_TEST_CLOCK", s->clock, 1) == 0;
}

bool server_pass(struct server *s, int64_t us)
{
	s->passed_us += us;
	return write_clock(s, 0);
}

int64_t server_now_s(const struct server *s)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (ts.tv_sec * INT64_C(1000000) + ts.tv_nsec / 1000 + s->passed_us) / 1000000;
}

static void child_redirect(const struct server *s, int out)
{
	int log = open(s->log, O_WRONLY | O_CREAT | O_APPEND, 0600);

	if (log < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
		_exit(126);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

bool server_spawn(struct server *s, unsigned port, const char *fault)
{
	char        listen[32], faults[64];
	const char *argv[] = {s->program, "serve",     "--listen", listen, "--data",
	                      s->data,    "--no-auth", "--fault",  faults, NULL};
	int         ends[2];

	snprintf(listen, sizeof(listen), "127.0.0.1:%u", port);
	snprintf(faults, sizeof(faults), "check%s%s", fault != NULL ? "," : "", fault != NULL ? fault : "");
	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	s->pid = fork();
	if (s->pid == 0) {
		child_redirect(s, ends[1]);
		execv(s->program, (char *const *)argv);
		_exit(127);
	}
	close(ends[1]);
	s->out = ends[0];
	if (s->pid > 0)
		return true;
	s->pid = 0;
	close(s->out);
	return false;
}

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Waits until the descriptor is readable or at its end. */
static bool await_readable(int fd, long deadline_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	long          left = deadline_ms - now_ms();

	return left > 0 && poll(&p, 1, (int)left) == 1;
}

bool server_await(struct server *s)
{
	static const char sign[] = "listening on http://127.0.0.1:";
	char              text[GREETING_BYTES_MAX] = "";
	size_t            len = 0;
	long              deadline = now_ms() + SERVER_START_MS_MAX;

	while (len < sizeof(text) - 1 && await_readable(s->out, deadline)) {
		ssize_t n = read(s->out, text + len, sizeof(text) - 1 - len);
		char   *found;

		if (n <= 0)
			return false;
		len += (size_t)n;
		text[len] = '\0';
		found = strstr(text, sign);
		if (found != NULL && strpbrk(found + sizeof(sign) - 1, " \n") != NULL) {
			s->port = (unsigned)atoi(found + sizeof(sign) - 1);
			return true;
		}
	}
	return false;
}

/* Waits for the end of a child; kills it if that takes too long. */
static bool await_end(pid_t pid, int *status)
{
	int  fd = pidfd_open(pid, 0);
	bool ended = fd >= 0 && await_readable(fd, now_ms() + SERVER_STOP_MS_MAX);

	if (!ended)
		kill(pid, SIGKILL);
	waitpid(pid, status, 0);
	if (fd >= 0)
		close(fd);
	return ended;
}

bool server_end(struct server *s, int signal, int *status)
{
	bool ended;

	if (s->pid <= 0) /* 0 would mean ourselves and our parents */
		return false;
	kill(s->pid, signal);
	ended = await_end(s->pid, status);
	close(s->out);
	s->pid = 0;
	return ended;
}

int server_check(struct server *s)
{
	const char *argv[] = {s->program, "check", "--data", s->data, NULL};
	pid_t       pid = fork();
	int         status;

	if (pid < 0)
		return -1;
	if (pid == 0) {
		int log = open(s->log, O_WRONLY | O_CREAT | O_APPEND, 0600);

		child_redirect(s, log);
		execv(s->program, (char *const *)argv);
		_exit(127);
	}
	return await_end(pid, &status) && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool port_is_free(unsigned port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)port),
	                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool               is_free = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;

	if (fd >= 0)
		close(fd);
	return is_free;
}

unsigned server_find_port(unsigned start)
{
	for (unsigned i = 0; i < PORTS; i++) {
		unsigned port = PORT_FIRST + (start + i) % PORTS;

		if (port_is_free(port))
			return port;
	}
	return 0;
}
