/* Endings: the ways in which a cycle's load meets its end. Each takes a running server, ends it in the middle
 * of the load, and leaves one running on the same data. */
#include "endings.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	LOAD_US_MIN = 50000,
	LOAD_US_MAX = 400000,
	REINDEX_ONCE_IN = 3,     /* cycles */
	RECOVERY_US_MAX = 50000, /* when the second kill comes, after the start */
	RECOVERY_KILLS_MAX = 3,
	FAULT_COMMITS_MIN =
	        40, /* more than comparing needs, since the fault is armed again after the restart */
	FAULT_COMMITS_MAX = 300,
};

static void pause_us(uint64_t us)
{
	struct timespec ts = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

	while (nanosleep(&ts, &ts) != 0 && errno == EINTR)
		;
}

/* Lets the load run, until the random moment at which the end comes. */
static void pause_load(struct campaign *c)
{
	uint64_t us = LOAD_US_MIN + random_below(&c->random, LOAD_US_MAX - LOAD_US_MIN);
	uint64_t first_us = random_below(&c->random, us);

	pause_us(first_us);
	if (random_below(&c->random, REINDEX_ONCE_IN) == 0)
		reindex_change(c);
	pause_us(us - first_us);
}

static void start(struct campaign *c, unsigned port, const char *fault)
{
	if (!server_spawn(&c->server, port, fault) || !server_await(&c->server))
		differ(c, "expected the server to start, found that it did not: see %s", c->server.log);
}

static void end_by_kill(struct campaign *c)
{
	int status = 0;

	if (!server_end(&c->server, SIGKILL, &status) || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		differ(c, "expected the server to run until it is killed, found wait status %#x: see %s",
		       (unsigned)status, c->server.log);
}

static void end_by_stop(struct campaign *c)
{
	int status = 0;

	if (!server_end(&c->server, SIGTERM, &status) || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		differ(c, "expected exit status 0 after SIGTERM, found wait status %#x: see %s",
		       (unsigned)status, c->server.log);
}

void ending_start(struct campaign *c)
{
	start(c, 0, NULL);
}

void ending_stop(struct campaign *c)
{
	end_by_stop(c);
}

static void cycle_kill(struct campaign *c)
{
	load_start(c);
	pause_load(c);
	end_by_kill(c);
	load_join(c);
	start(c, 0, NULL);
}

static void cycle_stop(struct campaign *c)
{
	c->graceful = true;
	load_start(c);
	pause_load(c);
	end_by_stop(c);
	load_join(c);
	start(c, 0, NULL);
}

static void cycle_kill_in_recovery(struct campaign *c)
{
	uint64_t kills = 1 + random_below(&c->random, RECOVERY_KILLS_MAX);

	load_start(c);
	pause_load(c);
	end_by_kill(c);
	load_join(c);
	for (uint64_t i = 0; i < kills; i++) {
		if (!server_spawn(&c->server, 0, NULL))
			abort();
		pause_us(random_below(&c->random, RECOVERY_US_MAX));
		end_by_kill(c);
	}
	start(c, 0, NULL);
}

static void cycle_kill_and_check(struct campaign *c)
{
	int rc;

	load_start(c);
	pause_load(c);
	end_by_kill(c);
	load_join(c);
	rc = server_check(&c->server);
	if (rc != 0)
		differ(c, "expected exit status 0 of gatehouse check, found %d: see %s", rc, c->server.log);
	start(c, 0, NULL);
}

/* The Nth commit fails: every write under way is answered 500, and the server starts itself again from disk,
 * on the same port. */
static void cycle_failed_commit(struct campaign *c)
{
	unsigned port = server_find_port((unsigned)random_below(&c->random, UINT32_MAX));
	uint64_t commits =
	        FAULT_COMMITS_MIN + random_below(&c->random, FAULT_COMMITS_MAX - FAULT_COMMITS_MIN);
	char fault[32];

	snprintf(fault, sizeof(fault), "commit:%u", (unsigned)commits);
	end_by_stop(c);
	start(c, port, fault);
	load_start(c);
	load_join(c);
	if (!server_await(&c->server) || c->server.port != port)
		differ(c,
		       "expected the server again on port %u after its failed commit, found port %u: see %s",
		       port, c->server.port, c->server.log);
}

/* Where the records of a log end: zeros follow them, up to the size that the file was made with. */
static off_t log_end(const char *path)
{
	char    block[65536];
	off_t   at = 0, end = 0;
	ssize_t n;
	int     fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		abort();
	while ((n = read(fd, block, sizeof(block))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			if (block[i] != 0)
				end = at + i + 1;
		at += n;
	}
	close(fd);
	return end;
}

/* No fault of the server: the disk forgets half of what the newest log holds. Proves that the test would notice. */
static void cycle_lose_log(struct campaign *c)
{
	char        pattern[PATH_MAX];
	const char *newest;
	glob_t      logs;

	load_start(c);
	pause_load(c);
	end_by_kill(c);
	load_join(c);
	snprintf(pattern, sizeof(pattern), "%s/journal/*.log", c->server.data);
	if (glob(pattern, 0, NULL, &logs) != 0)
		abort();
	newest = logs.gl_pathv[logs.gl_pathc - 1];
	if (truncate(newest, log_end(newest) / 2) != 0)
		abort();
	globfree(&logs);
	start(c, 0, NULL);
}

const struct ending ending_kill = {"kill", cycle_kill, false};
const struct ending ending_lose_log = {"kill, and half the log lost", cycle_lose_log, false};

/* By the last digit of the cycle's number, so that a short campaign has them all. */
static const struct ending endings[] = {
        {"kill", cycle_kill, false},
        {"kill", cycle_kill, false},
        {"SIGTERM", cycle_stop, false},
        {"kill", cycle_kill, false},
        {"kill, and again in recovery", cycle_kill_in_recovery, false},
        {"kill", cycle_kill, false},
        {"failed commit", cycle_failed_commit, true},
        {"kill", cycle_kill, false},
        {"kill, and again in recovery", cycle_kill_in_recovery, false},
        {"kill, then check", cycle_kill_and_check, false},
};

const struct ending *ending_of(unsigned cycle)
{
	return &endings[cycle % (sizeof(endings) / sizeof(endings[0]))];
}
