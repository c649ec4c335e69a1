/* Inherit: each case runs in a process of its own, where descriptor 3 and up are what the test puts there. */
#include "test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include "http/listener.h"

struct passing {
	int         pid_off; /* how wrong LISTEN_PID is */
	const char *count;   /* LISTEN_FDS */
	int         at;      /* the descriptor that the socket is put at */
	bool        listens;
	bool        found; /* expected */
};

static int bound(bool listens, struct sockaddr_in *address)
{
	socklen_t len = sizeof(*address);
	int       fd = socket(AF_INET, SOCK_STREAM, 0);

	*address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	if (bind(fd, (struct sockaddr *)address, sizeof(*address)) != 0 || (listens && listen(fd, 1) != 0) ||
	    getsockname(fd, (struct sockaddr *)address, &len) != 0)
		_exit(10);
	return fd;
}

static void environment_set(const struct passing *p)
{
	char pid[32];

	snprintf(pid, sizeof(pid), "%ld", (long)getpid() + p->pid_off);
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", p->count, 1);
}

static int move(int fd, int to)
{
	if (fd == to)
		return fd;
	if (dup2(fd, to) != to)
		_exit(11);
	close(fd);
	return to;
}

/* Exit status 0: as expected. */
static int child(const struct passing *p)
{
	struct sockaddr_in address;
	int                fd = move(bound(p->listens, &address), p->at), own;

	environment_set(p);
	own = inherit_find((struct sockaddr *)&address);
	if ((own >= 0) != p->found)
		return 1;
	if (own < 0)
		return 0;
	if (own == fd || fcntl(fd, F_GETFD) != 0) /* the passed one survives exec */
		return 2;
	if ((fcntl(own, F_GETFD) & FD_CLOEXEC) == 0 || (fcntl(own, F_GETFL) & O_NONBLOCK) == 0)
		return 3;
	address.sin_port ^= 1;
	return inherit_find((struct sockaddr *)&address) == -1 ? 0 : 4;
}

static void check(const struct passing *p)
{
	pid_t pid = fork();
	int   status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(child(p));
	assert_int_equal(pid, waitpid(pid, &status, 0));
	assert_int_equal(0, status);
}

enum { LAST = INHERIT_FIRST_FD + INHERIT_MAX - 1 };

TEST(inherit, finds_a_passed_socket_by_its_address)
{
	check(&(struct passing){0, "1", INHERIT_FIRST_FD, true, true});
	check(&(struct passing){0, "2", INHERIT_FIRST_FD + 1, true, true});
}

TEST(inherit, looks_at_as_many_as_were_passed_up_to_its_maximum)
{
	check(&(struct passing){0, "1", INHERIT_FIRST_FD + 1, true, false});
	check(&(struct passing){0, "16", LAST, true, true});
	check(&(struct passing){0, "17", LAST + 1, true, false});
	check(&(struct passing){0, "2147483647", LAST, true, true});
}

TEST(inherit, takes_nothing_that_is_meant_for_another_process_or_does_not_listen_or_makes_no_sense)
{
	check(&(struct passing){1, "1", INHERIT_FIRST_FD, true, false});
	check(&(struct passing){0, "1", INHERIT_FIRST_FD, false, false});
	check(&(struct passing){0, "0", INHERIT_FIRST_FD, true, false});
	check(&(struct passing){0, "-1", INHERIT_FIRST_FD, true, false});
	check(&(struct passing){0, "", INHERIT_FIRST_FD, true, false});
}

static int listen_child(void)
{
	struct sockaddr_in address;
	int                fd = move(bound(true, &address), INHERIT_FIRST_FD), own;
	char               text[32];
	struct err         err;

	environment_set(&(struct passing){.count = "1"});
	snprintf(text, sizeof(text), "127.0.0.1:%u", address_port(fd));
	if (address_listen(text, &own, &err) != ERR_NONE) /* binding anew would fail: it is in use */
		return 1;
	return address_port(own) == address_port(fd) ? 0 : 2;
}

TEST(inherit, listening_at_the_address_of_a_passed_socket_uses_it)
{
	pid_t pid = fork();
	int   status;

	if (pid == 0)
		_exit(listen_child());
	assert_int_equal(pid, waitpid(pid, &status, 0));
	assert_int_equal(0, status);
}
