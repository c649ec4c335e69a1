/* Late: a thread for the work of callers in debt (base/debt.h), one for every two loops. Decoding a large request or testing a
 * heavy filter takes milliseconds, and on the loop's own thread every other connection would wait for it. The thread gives way
 * to others that wake up. Its priority is the same as theirs: with a low one, everybody on a busy machine would wait for it
 * while it holds a lock of the store.
 *
 * Any loop may feed it; the work runs on the late thread, and hands itself back with http_resume. */
#ifndef API_LATE_H
#define API_LATE_H

#include <stdbool.h>

struct json_reader;
struct late;

enum {
	LATE_WAITING_MAX = 1024, /* of small requests; memory_bytes_max bounds the large ones */
	LATE_THREADS_MAX = 64,
};

/* Owned by whoever submits it, until run is called. */
struct late_work {
	void (*run)(struct late_work *r, struct json_reader *json); /* with a reader of this thread's own */
	struct late_work *next;
};

/* NULL if no thread can be had: then the loop does it all. */
struct late *late_open(void);

/* Nothing may wait any more. NULL is fine. */
void late_close(struct late *l);

/* False if as many wait as may. Then it stays the submitter's. */
bool late_submit(struct late *l, struct late_work *r);

#endif
