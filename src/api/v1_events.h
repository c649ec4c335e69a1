/* What routes that read events share. */
#ifndef API_V1_EVENTS_H
#define API_V1_EVENTS_H

#include "api/event_hub.h"
#include "api/v1.h"

enum {
	EVENTS_LIMIT_DEFAULT = 100,
	EVENTS_WAIT_S_MAX = 60,
};

/* Where to begin: "first", "last" or a time. ERR_INVALID, about `from`. */
enum err_code v1_events_from(struct v1_call *c, struct bytes from, struct event_cursor *out, struct err *err);

/* Is it such a text? Before anything is read. */
bool v1_events_from_is(struct bytes from);

/* Where a reader is to be moved: {"from": …} or {"after": …}. The cursor of `from` is known only in run. */
struct v1_seek {
	struct bytes        from;
	struct event_cursor to;
};

/* `from` of a body, or `otherwise`: a text of v1_events_from, or it fails. */
struct bytes v1_from_read(struct fields *f, struct bytes otherwise);

/* A cursor, if there is one. */
void v1_after_read(struct v1_call *c, struct fields *f, struct bytes text, struct event_cursor *out);

void          v1_seek_read(struct v1_call *c, struct fields *f, struct v1_seek *out);
enum err_code v1_seek_find(struct v1_call *c, struct v1_seek *q, struct err *err);
void          v1_write_move(struct json_writer *w, const struct event_move *m);

/* "events" and "after" and "more", as members. */
void v1_write_events(struct json_writer *w, struct arena *a, const struct event_texts *page);

/* ERR_ACCESS if the caller's policy denies this call one of these event types by name. It need not allow them. In decode or run. */
enum err_code v1_events_check_denied(const struct v1_call *c, uint64_t types, struct err *err);

/* A call that may wait for events: embedded in the request of its route. */
struct v1_events_wait {
	struct event_wait wait; /* filter and after are set by run */
	int64_t           deadline_us;
	bool              marked;
	struct arena      mark; /* what it allocated since is given back before it runs again */
	/* On the loop, after a wait that is over: `once_more` says whether it will run again. May be NULL. */
	void (*waited)(struct v1_call *c, bool once_more);
};

/* First thing in run. */
void v1_events_mark(struct v1_call *c, struct v1_events_wait *w);

/* Of a route's `waits`: parks it until there is an event, or for at most until_us (0: its deadline). */
bool v1_events_park(struct v1_call *c, struct v1_events_wait *w, int64_t until_us);

#endif
