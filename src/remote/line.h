/* Lines: turns that write about one subject, one after the other. Side by side they would read the same rows, and all but one of them
 * would be refused by the endpoint and have to decide again. Under the pool's lock.
 *
 * (1) Of each subject at most one turn is first: it waits in the pool's queue, or runs. The others are behind it, oldest first, and take
 *     up no worker.
 * (2) Whoever is first leaves once, when it has run and before it is done, or when it makes way; then the next one is first.
 * (3) A turn that writes about nobody in particular, or only reads, is in no line. */
#ifndef REMOTE_LINE_H
#define REMOTE_LINE_H

#include "base/hash.h"
#include "table/store.h"

enum {
	LINE_BEHIND_MAX = 128, /* turns behind the first one of a subject; past it they are refused */
	LINE_BUCKETS = 4096,   /* a power of two */
};

struct lines {
	struct hash_key      key;
	struct turn_request *buckets[LINE_BUCKETS]; /* those that are first */
};

static inline bool line_has(const struct turn_request *w)
{
	return w->subject.len > 0 && !w->reads;
}

/* The one that is first of w's subject; NULL: nobody is, or w needs no line. */
struct turn_request *line_find(struct lines *l, const struct turn_request *w);

/* w becomes the first of its subject: nobody else is. */
void line_begin(struct lines *l, struct turn_request *w);

/* Puts w behind `first`. False: there is no room. */
bool line_join(struct turn_request *first, struct turn_request *w);

/* It has run, or makes way. Returns who is first now; NULL: nobody, or it had left. */
struct turn_request *line_leave(struct lines *l, struct turn_request *first);

#endif
