/* Pool: the threads that run turns. Each runs one turn at a time and waits for the endpoint; as many turns are under way as there are
 * workers. What waits is bounded in bytes and in number: past either, submit refuses at once. Turns that write about one subject
 * run one after the other (line.h), and those that wait for that take up no worker. Any thread submits. */
#ifndef REMOTE_POOL_H
#define REMOTE_POOL_H

#include "remote/session.h"

enum { POOL_WAITING_MAX = 65536 };

/* ERR_STORAGE if no thread can be had. */
enum err_code pool_open(struct pool **out, struct remote *r, unsigned workers, size_t bytes_max,
                        struct err *err);

/* Runs what waits, then ends. NULL is none. */
void pool_close(struct pool *p);

enum err_code pool_submit(struct pool *p, struct turn_request *w, struct err *err);

/* The next turn of the same subject may begin, although this one, which runs, has not ended. Once is enough. */
void pool_make_way(struct pool *p, struct turn_request *turn);

/* Turns that were run, and bytes that wait. */
void pool_read(struct pool *p, uint64_t *turns, size_t *bytes);

#endif
