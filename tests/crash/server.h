/* Server: the process under test: started, ended by a signal, its end awaited. The main thread's. */
#ifndef CRASH_SERVER_H
#define CRASH_SERVER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	SERVER_START_MS_MAX = 30000,
	SERVER_STOP_MS_MAX = 30000,
};

struct server {
	const char *program;
	char        data[PATH_MAX / 2];
	char        log[PATH_MAX];   /* its standard error, and the ports it said */
	char        clock[PATH_MAX]; /* its clock's file (base/clock.h) */
	int64_t     passed_us;       /* more than on ours, by that */
	pid_t       pid;             /* 0: not running */
	int         out;             /* its standard output */
	unsigned    port;
};

/* Makes the file of its clock, before it is first started. */
bool server_make_clock(struct server *s);

/* So much time passes. */
bool server_pass(struct server *s, int64_t us);

/* What its clock says. Not by time(): that one is coarse, and says the old second for milliseconds after the server saw the new one and hid what expired. */
int64_t server_now_s(const struct server *s);

/* Starts it, on the port or (0) any free one; `fault` is for --fault, or NULL. Whatever it says
 * is absent, it also looks up in its store. Does not wait. */
bool server_spawn(struct server *s, unsigned port, const char *fault);

/* Waits until it says where it listens; fills s->port. false: it ended, or said nothing in time. */
bool server_await(struct server *s);

/* Sends the signal and waits for the end; false if it does not end in time (then it is killed).
 * *status is waitpid's. */
bool server_end(struct server *s, int signal, int *status);

/* Runs `gatehouse check` on the data directory; its exit status, or -1. */
int server_check(struct server *s);

/* A port that is free now, outside the range that the system hands out by itself; 0 if there is none. */
unsigned server_find_port(unsigned start);

#endif
