/* Lines: see line.h. A line has no memory of its own: the turn that is first holds it. */
#include "remote/line.h"

#include <assert.h>

static struct turn_request **bucket_of(struct lines *l, struct bytes subject)
{
	return &l->buckets[hash_bytes(l->key, subject) % LINE_BUCKETS];
}

struct turn_request *line_find(struct lines *l, const struct turn_request *w)
{
	struct turn_request *first;

	if (!line_has(w))
		return NULL;
	first = *bucket_of(l, w->subject);
	while (first != NULL && !bytes_equal(first->subject, w->subject))
		first = first->line.beside;
	return first;
}

void line_begin(struct lines *l, struct turn_request *w)
{
	struct turn_request **bucket;

	w->line = (struct turn_line){0};
	if (!line_has(w))
		return;
	bucket = bucket_of(l, w->subject);
	w->line.beside = *bucket;
	*bucket = w;
}

bool line_join(struct turn_request *first, struct turn_request *w)
{
	struct turn_line *line = &first->line;

	if (line->count == LINE_BEHIND_MAX)
		return false;
	w->next = NULL;
	if (line->count++ == 0)
		line->next = w;
	else
		line->last->next = w;
	line->last = w;
	return true;
}

/* The next one takes its place in the bucket, too. */
struct turn_request *line_leave(struct lines *l, struct turn_request *first)
{
	struct turn_request **at, *next = first->line.next;

	if (!line_has(first) || first->line.left)
		return NULL;
	first->line.left = true;
	at = bucket_of(l, first->subject);
	while (*at != first) {
		assert(*at != NULL);
		at = &(*at)->line.beside;
	}
	if (next == NULL) {
		*at = first->line.beside;
		return NULL;
	}
	next->line = (struct turn_line){.beside = first->line.beside,
	                                .next = next->next,
	                                .last = first->line.last,
	                                .count = first->line.count - 1,
	                                .since_us = next->line.since_us};
	*at = next;
	return next;
}
