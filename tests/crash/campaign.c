/* Campaign: cycle after cycle, load a server, end it, start it again on the same data, compare.
 *
 *    running, compared --> load --> the end (five kinds) --> started again --> compared
 *          ^                                                                      |
 *          '----------------------------------------------------------------------'
 *
 * The seed decides the requests, the kinds and the moments; how the threads interleave it cannot decide. So a
 * seed that failed is likely to fail again, not certain to; the data directory is kept. */
#include "campaign.h"

#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lies.h"
#include "text.h"

enum {
	LOAD_US_MIN = 50000,
	LOAD_US_MAX = 400000,
	RECOVERY_US_MAX = 50000, /* when the second kill comes, after the start */
	RECOVERY_KILLS_MAX = 3,
	FAULT_COMMITS_MIN = 40, /* more than comparing needs, since the fault is armed again after the restart */
	FAULT_COMMITS_MAX = 300,
	CYCLES_DEFAULT = 100,
	PROGRESS_EVERY = 10,
};

/* ---- how a cycle ends ---- */

static void pause_us(uint64_t us)
{
	struct timespec ts = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

	while (nanosleep(&ts, &ts) != 0 && errno == EINTR)
		;
}

/* The random moment at which the end comes. */
static void pause_load(struct campaign *c)
{
	pause_us(LOAD_US_MIN + random_below(&c->random, LOAD_US_MAX - LOAD_US_MIN));
}

static void start(struct campaign *c, unsigned port, const char *fault)
{
	if (!server_spawn(&c->server, port, fault) || !server_await(&c->server))
		differ(c, "expected the server to start, found that it did not: see %s", c->server.log);
}

static void end_by_kill(struct campaign *c)
{
	int status;

	if (!server_end(&c->server, SIGKILL, &status) || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		differ(c, "expected the server to run until it is killed, found wait status %#x: see %s",
		       (unsigned)status, c->server.log);
}

static void end_by_stop(struct campaign *c)
{
	int status;

	if (!server_end(&c->server, SIGTERM, &status) || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		differ(c, "expected exit status 0 after SIGTERM, found wait status %#x: see %s", (unsigned)status,
		       c->server.log);
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
	uint64_t commits = FAULT_COMMITS_MIN +
	                   random_below(&c->random, FAULT_COMMITS_MAX - FAULT_COMMITS_MIN);
	char     fault[32];

	snprintf(fault, sizeof(fault), "commit:%u", (unsigned)commits);
	end_by_stop(c);
	start(c, port, fault);
	load_start(c);
	load_join(c);
	if (!server_await(&c->server) || c->server.port != port)
		differ(c, "expected the server again on port %u after its failed commit, found port %u: see %s",
		       port, c->server.port, c->server.log);
}

struct ending {
	const char *name;
	void (*run)(struct campaign *c);
};

/* By the last digit of the cycle's number. */
static const struct ending endings[] = {
        {"kill", cycle_kill},
        {"kill", cycle_kill},
        {"SIGTERM", cycle_stop},
        {"kill", cycle_kill},
        {"kill, and again in recovery", cycle_kill_in_recovery},
        {"kill", cycle_kill},
        {"failed commit", cycle_failed_commit},
        {"kill", cycle_kill},
        {"kill, and again in recovery", cycle_kill_in_recovery},
        {"kill, then check", cycle_kill_and_check},
};

enum { ENDINGS = sizeof(endings) / sizeof(endings[0]) };
