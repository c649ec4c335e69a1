/* Notify over real datagram sockets, the test in the service manager's place. */
#include "test.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "server/notify.h"

enum { PATH_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path), RECEIVE_S_MAX = 20 };

struct manager {
	int           fd;
	char          name[PATH_BYTES + 2];
	struct notify notify;
	sem_t         asked;
	atomic_bool   alive;
};

static bool is_alive(void *ctx)
{
	struct manager *m = ctx;

	sem_post(&m->asked);
	return atomic_load(&m->alive);
}

/* name: as in NOTIFY_SOCKET. */
static void manager_open(struct manager *m, const char *name)
{
	const struct timeval wait = {.tv_sec = RECEIVE_S_MAX};
	struct sockaddr_un   address = {.sun_family = AF_UNIX};
	size_t               len = strlen(name);

	*m = (struct manager){.alive = true};
	sem_init(&m->asked, 0, 0);
	memcpy(m->name, name, len + 1);
	memcpy(address.sun_path, name, len);
	if (name[0] == '@')
		address.sun_path[0] = '\0';
	else
		unlink(name);
	m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	setsockopt(m->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	assert_int_equal(0, bind(m->fd, (struct sockaddr *)&address,
	                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)));
	setenv("NOTIFY_SOCKET", name, 1);
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

static void manager_close(struct manager *m)
{
	close(m->fd);
	if (m->name[0] == '/')
		unlink(m->name);
	sem_destroy(&m->asked);
	unsetenv("NOTIFY_SOCKET");
}

static void assert_received(struct manager *m, const char *expected)
{
	char    text[256];
	ssize_t len = recv(m->fd, text, sizeof(text), 0);

	assert_true(len > 0);
	assert_bytes((struct bytes){text, (size_t)len}, expected);
}

static void assert_nothing_received(struct manager *m)
{
	char text[256];

	assert_int_equal(-1, recv(m->fd, text, sizeof(text), MSG_DONTWAIT));
	assert_int_equal(EAGAIN, errno);
}

static void path_of(char *out, size_t len)
{
	size_t used = (size_t)snprintf(out, len + 1, "/tmp/gatehouse-notify-%ld-", (long)getpid());

	while (used < len)
		out[used++] = 'x';
	out[len] = '\0';
}

static void assert_spoken(const char *name)
{
	struct manager m;

	manager_open(&m, name);
	notify_open(&m.notify, is_alive, &m);
	notify_send(&m.notify, "READY=1");
	notify_send(&m.notify, "STOPPING=1");
	assert_received(&m, "READY=1");
	assert_received(&m, "STOPPING=1");
	notify_close(&m.notify);
	assert_nothing_received(&m); /* there was no watchdog */
	manager_close(&m);
}

TEST(notify, speaks_to_a_path_as_long_as_one_can_be)
{
	char name[PATH_BYTES];

	path_of(name, PATH_BYTES - 1);
	assert_spoken(name);
}

TEST(notify, speaks_to_an_abstract_name)
{
	char name[64];

	snprintf(name, sizeof(name), "@gatehouse-notify-%ld", (long)getpid());
	assert_spoken(name);
}

TEST(notify, says_nothing_without_a_manager_or_with_a_name_that_cannot_be)
{
	struct notify n;
	char          too_long[PATH_BYTES + 1];
	const char   *names[] = {"", "/", "@", "relative", "/nowhere/to/be/found", too_long};

	log_set_level(LOG_ERROR);
	path_of(too_long, PATH_BYTES);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		setenv("NOTIFY_SOCKET", names[i], 1);
		notify_open(&n, is_alive, NULL);
		assert_int_equal(-1, n.fd);
		notify_send(&n, "READY=1");
		notify_close(&n);
	}
	unsetenv("NOTIFY_SOCKET");
	notify_open(&n, is_alive, NULL);
	assert_int_equal(-1, n.fd);
	notify_close(&n);
}

TEST(notify, a_manager_that_went_away_does_not_end_the_server)
{
	struct manager m;

	log_set_level(LOG_ERROR);
	manager_open(&m, "@gatehouse-notify-gone");
	notify_open(&m.notify, is_alive, &m);
	manager_close(&m);
	notify_send(&m.notify, "STOPPING=1");
	notify_close(&m.notify);
}

static void watchdog_open(struct manager *m, const char *period_us, long pid)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", pid);
	manager_open(m, "@gatehouse-notify-watchdog");
	setenv("WATCHDOG_USEC", period_us, 1);
	setenv("WATCHDOG_PID", text, 1);
}

TEST(notify, the_watchdog_hears_of_a_living_server_at_once_and_again_and_again)
{
	struct manager m;

	watchdog_open(&m, "2000", getpid());
	notify_open(&m.notify, is_alive, &m);
	for (int i = 0; i < 5; i++)
		assert_received(&m, "WATCHDOG=1");
	notify_close(&m.notify);
	manager_close(&m);
}

TEST(notify, the_watchdog_hears_nothing_while_the_server_is_not_alive)
{
	struct manager m;

	watchdog_open(&m, "2000", getpid());
	atomic_store(&m.alive, false);
	notify_open(&m.notify, is_alive, &m);
	for (int i = 0; i < 5; i++)
		sem_wait(&m.asked);
	assert_nothing_received(&m);
	atomic_store(&m.alive, true);
	assert_received(&m, "WATCHDOG=1");
	notify_close(&m.notify);
	manager_close(&m);
}

TEST(notify, without_a_thread_the_watchdog_hears_nothing_and_the_rest_goes_on)
{
	struct manager m;

	watchdog_open(&m, "2000", getpid());
	log_set_level(LOG_ERROR);
	fault_arm(FAULT_THREAD, 0);
	notify_open(&m.notify, is_alive, &m);
	fault_disarm(FAULT_THREAD);
	assert_false(m.notify.pinging);
	notify_send(&m.notify, "READY=1");
	assert_received(&m, "READY=1");
	notify_close(&m.notify);
	manager_close(&m);
}

TEST(notify, a_long_period_does_not_delay_the_end)
{
	struct manager m;

	watchdog_open(&m, "3600000000", getpid());
	notify_open(&m.notify, is_alive, &m);
	assert_received(&m, "WATCHDOG=1");
	notify_close(&m.notify);
	manager_close(&m);
}

TEST(notify, the_watchdog_of_another_process_or_of_no_sense_is_left_alone)
{
	const char    *periods[] = {"2000", "0", "1", "-5", "soon", ""};
	struct manager m;

	for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++) {
		watchdog_open(&m, periods[i], i == 0 ? getpid() + 1L : (long)getpid());
		notify_open(&m.notify, is_alive, &m);
		assert_false(m.notify.pinging);
		notify_close(&m.notify);
		manager_close(&m);
	}
}
