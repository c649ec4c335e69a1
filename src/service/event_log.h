/* Event log: reading events, in order. Everyone who reads events reads them here: the routes, consumers, delivery.
 *
 *   HEAD        FIRST#0                 position                  the first position of a shard that still exists; absent: 1
 *
 * What always holds
 * (1) A page is a run of positions of each shard, without a gap. On an engine where others commit while a query runs, a
 *     query may find an event and miss the one before it: the page ends there, and the next one begins there.
 * (2) A cursor is what was read so far: the last position of each shard. Reading on from a cursor misses nothing, or fails:
 *     with ERR_GONE if what comes next was trimmed, with ERR_INVALID if the log is not as long as that.
 * (3) Reading leaves no conditions in a context, so a call may read the log and change something else, whatever is
 *     published meanwhile. */
#ifndef SERVICE_EVENT_LOG_H
#define SERVICE_EVENT_LOG_H

#include "json/write.h"
#include "service/event.h"
#include "service/user_filter.h"

enum {
	EVENTS_PAGE_MAX = 1000,
	EVENTS_EXAMINED_MAX = 2000, /* rows for one page, whatever the filter leaves of them */
	EVENT_CURSOR_TEXT_MAX = EVENT_SHARDS_MAX * (EVENT_POSITION_DIGITS + 1),
};

#define EVENTS_ALL_TYPES UINT64_MAX

/* An event of the log. Texts are the row's. */
struct event_seen {
	uint32_t     shard;
	int64_t      position, seq;
	struct bytes id, type, subject, time;
	struct item  row;
};

/* The last position that was read, of each shard; 0: none. */
struct event_cursor {
	uint32_t shards;
	int64_t  after[EVENT_SHARDS_MAX];
};

struct event_filter {
	uint64_t     types; /* a bit for each; EVENTS_ALL_TYPES: also those that this program does not know */
	struct bytes subject; /* empty: all */
	/* Subjects are spread over so many partitions, and these are wanted: a bit for each. 0: all. */
	uint32_t           partitions;
	uint64_t           mask;
	struct user_filter users; /* events about these do not pass */
};

/* Spreads subjects evenly, and always alike: consumers keep positions by it. */
uint64_t event_subject_hash(struct bytes subject);

/* What a filter looks at. */
struct event_traits {
	enum event_type type; /* EVENT_TYPE_COUNT: one that this program does not know */
	struct bytes    subject;
	uint64_t        subject_hash;
};

struct event_traits event_traits(struct bytes type, struct bytes subject);
bool                event_passes(const struct event_filter *filter, const struct event_traits *e);

struct event_page {
	struct event_seen  *list;
	uint32_t            count;
	struct event_cursor next;
	bool                more; /* there was more when this was read. The page may be empty all the same */
};

/* At most `limit` events, which is at most EVENTS_PAGE_MAX. ERR_GONE says in err->after where to go on. (2) */
struct event_query {
	struct event_cursor after;
	struct event_filter filter;
	uint32_t            limit;
	uint32_t            examined_max; /* 0: EVENTS_EXAMINED_MAX */
};

enum err_code events_read(struct context *ctx, const struct event_query *q, struct event_page *out,
                          struct err *err);

/* Could a reader begin there? ERR_GONE, ERR_INVALID: as events_read. */
enum err_code events_check(struct context *ctx, const struct event_cursor *after, struct err *err);

/* How far a reader is behind: events of all types that lie before the log's end, also those that were trimmed before it read them; and how long the
 * next one of its own types has waited. */
struct event_lag {
	int64_t events, seconds;
};

enum err_code events_lag(struct context *ctx, const struct event_cursor *after, uint64_t types,
                         struct event_lag *out, struct err *err);

/* ---- cursors ---- */

/* How far the log goes. first - 1 is a cursor that reads all that exists, last one that reads only what is still to come. */
struct event_bounds {
	uint32_t shards;
	int64_t  first[EVENT_SHARDS_MAX], last[EVENT_SHARDS_MAX]; /* last is first - 1 if there are none */
};

enum err_code events_bounds(struct context *ctx, struct event_bounds *out, struct err *err);

void event_cursor_first(const struct event_bounds *b, struct event_cursor *out);
void event_cursor_last(const struct event_bounds *b, struct event_cursor *out);

/* Before the first event of that time or later. */
enum err_code events_at_time(struct context *ctx, int64_t time_us, struct event_cursor *out, struct err *err);

/* Of each shard the later of both; the earlier. */
void event_cursor_advance(struct event_cursor *c, const struct event_cursor *to);
void event_cursor_hold_back(struct event_cursor *c, const struct event_cursor *to);

/* Is it, in every shard, at least as far as the other? */
bool event_cursor_reaches(const struct event_cursor *c, const struct event_cursor *other);

/* How many events lie between. */
int64_t event_cursor_distance(const struct event_cursor *from, const struct event_cursor *to);

/* What it means to move a reader: so many events of the log, of all types, come again, or are passed over. Of a reader whose parts are not equally far:
 * where the first of them is, and the last. */
struct event_move {
	int64_t redelivers, skips;
};

struct event_move event_cursor_move(const struct event_cursor *first, const struct event_cursor *last,
                                    const struct event_cursor *to);

/* "42"; of several shards "42-17-3". False: it is not one, or not one of so many shards. */
bool         event_cursor_read(struct bytes text, uint32_t shards, struct event_cursor *out);
struct bytes event_cursor_text(struct arena *a, const struct event_cursor *c);

/* ---- events ---- */

/* Its place in its shard: its sort key. 0: it is none of the log. */
int64_t event_position(const struct item *row);

/* When it happened, from its text; 0: it does not say. */
int64_t event_time_us(struct bytes time);

/* As a CloudEvent in JSON, with seq and position (and shard, if it is not 0) as extension attributes. */
void event_write_json(struct json_writer *w, const struct item *row);

#endif
