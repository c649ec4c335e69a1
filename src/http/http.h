/* HTTP: an HTTP/1.1 server made of loops, one thread each. It knows nothing of what is served: a handler gets
 * each request whole and answers it, at once or later, from any thread.
 *
 * Life of a request:
 *
 *   loop thread                                       any thread
 *   bytes -> parsed, body complete
 *   handler(ctx, request) --- answers at once --->    http_respond
 *          '--- hands it over ------------------>     … http_resume(request, fn)
 *   fn(request) on the request's own loop <------------------'
 *      '--> http_respond
 *   bytes sent; arena reset; next request of the connection
 *
 * A connection has at most one request under way; pipelined bytes wait their turn, so answers keep their
 * order. The request and its arena stay valid until http_respond returns. If the peer goes away meanwhile,
 * the request stays valid and http_respond quietly drops the answer. Every limit is in struct http_limits. */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/wakes.h"

enum http_method {
	HTTP_GET,
	HTTP_HEAD,
	HTTP_POST,
	HTTP_PUT,
	HTTP_DELETE,
	HTTP_PATCH,
	HTTP_OPTIONS,
	HTTP_OTHER
};

/* Where a peer is: IPv6, in network order; IPv4 is ::ffff:a.b.c.d. All zeros if it cannot be told. */
struct http_address {
	uint8_t bytes[16];
};

enum {
	HTTP_HEADERS_MAX = 64,
	HTTP_SMALL_BODY_BYTES =
	        16 * 1024, /* a larger body must be admitted, and counts against memory_bytes_max */
};

struct http_header {
	struct bytes name; /* as sent */
	struct bytes value;
};

struct http_request {
	enum http_method   method;
	struct bytes       target; /* as sent: path and query */
	struct bytes       path;
	struct bytes       query; /* without '?' */
	struct http_header headers[HTTP_HEADERS_MAX];
	unsigned           header_count;
	struct bytes       body;
	struct arena       arena;
	int64_t            received_us; /* steady clock, when the request was complete */
	bool               secure;      /* came by TLS */
	const uint8_t *body_sha256; /* of a body larger than HTTP_SMALL_BODY_BYTES, if `digests`; else NULL */
	bool body_refused; /* the handler did not admit it: there is none, and the answer is the last */
	struct http_address peer;      /* of the connection: of the proxy, if there is one between */
	void               *loop_data; /* what the handler's loop_open returned for this loop */
	void               *user;      /* the handler's own */
};

/* The value of a header, name compared without case; data is NULL if absent. */
struct bytes http_header_get(const struct http_request *r, const char *name);

struct http_response {
	int                       status;
	const char               *content_type; /* NULL: no body */
	const struct http_header *headers;      /* beside Date, Content-Type, Content-Length, Connection */
	unsigned                  header_count;
	struct bytes              body;  /* need not outlive http_respond */
	bool                      close; /* end the connection after this answer */
};

/* Answers the request, exactly once, on its loop's thread. The request is gone afterwards. */
void http_respond(struct http_request *r, const struct http_response *response);

/* Has fn(r) called on the request's loop thread, soon. Callable from any thread; the request belongs to the
 * loop again from here on. Many calls in a row cost one wake-up. */
void http_resume(struct http_request *r, void (*fn)(struct http_request *r));

/* The same. Its loop may sleep until the list is run; NULL: it is woken now. */
void http_resume_with(struct http_request *r, void (*fn)(struct http_request *r), struct wakes *wakes);

/* ---- Holding an answer open ----
 *
 * A handler that has nothing to say yet parks the request (a long poll), or opens a stream of events. Both wait
 * without a thread. Other threads reach them with http_wake and http_stream_send.
 *
 *   HANDLING --http_park--> PARKED --http_wake, deadline, stop--> HANDLING, fn(r, why) --> http_respond, or http_park
 *                              '------peer gone--> ABANDONED, fn(r, why) --> http_respond, which sends nothing
 *
 *   HANDLING --http_stream_open--> OPEN --http_stream_close, stop--> ENDING --all sent--> over, ended(arg, why)
 *                                    '---peer gone, too slow-----------'-----------------> over, ended(arg, why)
 *
 * Ownership, the same for both: fn and `ended` are called exactly once, on the loop's thread, never inside a call
 * of yours. A parked request is valid until you answer it, a stream until `ended` returns. So keep them in a list
 * under a lock of your own, wake and send under that lock, and take them off the list first thing in fn or `ended`.
 * Lock order: yours, then the stream's. Let go of yours before you answer: a pipelined request may be handled in there. Park
 * first, then enter the request into your list, then look whether what it waits for is there already, and http_wake it
 * if so.
 *
 * A peer that closes its sending side counts as gone (under TLS a goodbye alone ends a stream, but not a parked request).
 * Timeouts between requests do not apply. What is held counts against connections_max, and all of it may take half of
 * memory_bytes_max, beside what memory_bytes_max bounds: peers may wait for as long as they like, and must not use up the
 * room for ordinary bodies. */
enum http_end {
	HTTP_END_WOKEN,    /* http_wake */
	HTTP_END_DEADLINE, /* of a parked request */
	HTTP_END_GONE,     /* the peer */
	HTTP_END_STOPPING, /* the server: answer now */
	HTTP_END_CLOSED,   /* http_stream_close */
	HTTP_END_SLOW,     /* the stream's peer did not take what was sent */
};

enum {
	HTTP_PARK_MS_MAX = 10 * 60 * 1000, /* a later deadline is moved here */
	HTTP_STREAM_BYTES_MIN = 1024,
	HTTP_STREAM_BYTES_DEFAULT = 16 * 1024,
	HTTP_STREAM_BYTES_MAX = 1024 * 1024,
};

/* Only on the request's loop. The deadline is by the steady clock, as in received_us. fn may park the request again, unless it
 * was told HTTP_END_GONE or HTTP_END_STOPPING: then it answers. False: there is no room, and nothing happened. */
bool http_park(struct http_request *r, int64_t deadline_us,
               void (*fn)(struct http_request *r, enum http_end why));

/* From any thread, to a request that is parked or whose fn has not answered it yet. False: its fn has been or is
 * about to be called anyway. Many calls in a row cost one wake-up of the loop. */
bool http_wake(struct http_request *r);

struct http_stream;

struct http_stream_options {
	/* Bytes that may wait to be sent. One more, and the peer is dropped. 0: the default. */
	size_t  buffer_bytes_max;
	int64_t heartbeat_ms;              /* a comment is sent after so long without an event; 0: never */
	const struct http_header *headers; /* beside Date, Content-Type, Cache-Control, Connection */
	unsigned                  header_count;
	void                     *arg;
	void (*ended)(void *arg, enum http_end why);
	/* Called on the loop's thread whenever the socket has taken all that was sent, the answer's head included: the
	 * moment for the next page of a replay. May be NULL. */
	void (*drained)(void *arg);
};

/* Answers the request with a stream of Server-Sent Events: 200, in chunks, or until the connection ends for a peer
 * of HTTP/1.0. Only on the request's loop. True: the request is gone. *out is NULL, and `ended` is never called, if
 * there is nothing to stream: a HEAD, which got its headers, or a peer that has gone. False: there is no room,
 * or the server is stopping; the request is as it was, to be answered 503. */
bool http_stream_open(struct http_request *r, const struct http_stream_options *options,
                      struct http_stream **out);

/* Sends text made by http_event_add, one event or several. From any thread; never waits. False: not sent, because the
 * stream is ending, or because its buffer had no room: then the peer is dropped. */
bool http_stream_send(struct http_stream *s, struct bytes text);

/* How many bytes of text http_stream_send would take now. From any thread. */
size_t http_stream_room(struct http_stream *s);

/* Ends the stream after what has been sent; `ended` follows. From any thread; more than once does no harm. */
void http_stream_close(struct http_stream *s);

struct http_event {
	struct bytes id;       /* comes back as the header Last-Event-ID; data NULL: none */
	struct bytes type;     /* data NULL: none */
	struct bytes data;     /* any text; data NULL: none, and browsers only note the id */
	int64_t      retry_ms; /* how long the peer should wait before it connects again; 0: not said */
};

/* Appends the event as text. False: id or type hold CR, LF or NUL, and nothing was appended. */
bool http_event_add(struct buf *out, const struct http_event *e);

/* Is nobody left to answer: has the peer gone, or is the time for a graceful stop over? Then the work may be skipped, but the
 * request is still answered. Callable from any thread that holds the request. */
bool http_abandoned(struct http_request *r);

/* What a handler keeps with a connection from one request to the next: NULL at first. Its conn_end gets what
 * is there when the connection ends, after its last request was answered. Only on the request's loop. */
void *http_conn_data(const struct http_request *r);
void  http_conn_keep(struct http_request *r, void *data);

/* Counts memory that the handler takes to work on the request against memory_bytes_max, until it is answered. False:
 * there is no room for it now. Only on the request's loop. */
bool http_charge(struct http_request *r, size_t bytes);

struct http_limits {
	size_t   head_bytes_max;   /* request line and headers: past it 431 */
	size_t   body_bytes_max;   /* past it 413 */
	size_t   target_bytes_max; /* past it 414 */
	unsigned connections_max;  /* past it: answered 503 (not under TLS) and closed */
	/* Bodies being received or worked on, what http_charge counts, and answers that wait for slow readers, all loops
	 * together; a body or answer counts from HTTP_SMALL_BODY_BYTES on. Past it a body is answered 503, a slow reader
	 * closed. */
	size_t  memory_bytes_max;
	int64_t idle_ms; /* between requests: closed */
	int64_t head_ms; /* from a request's first byte to its last header byte: 408; a TLS handshake: closed
	                  */
	int64_t body_ms; /* without a byte of body: 408 */
	/* From a request's first byte to the last of its body: 408, at the next byte that comes, or after body_ms. */
	int64_t request_ms;
	int64_t send_ms; /* without the peer taking a byte: closed */
	/* Bytes a second, over each interval of head_ms or more: a body that comes more slowly is answered 408, a peer
	 * that takes its answer more slowly is closed. What came before the interval does not count. */
	int64_t rate_min;
	int64_t drain_ms; /* how long a graceful stop waits for requests under way */
};

struct http_limits http_limits_default(void);

/* An error that the server itself makes. */
struct http_error {
	int          status; /* 400, 408, 413, 431, 503 … */
	const char  *text;
	struct bytes path; /* of the request; empty if it is not known */
};

struct http_handler {
	void *ctx;
	/* Called on each loop's thread when it starts and ends: per-thread state (a JSON reader). May be
	 * NULL. */
	void *(*loop_open)(void *ctx);
	void (*loop_close)(void *ctx, void *loop_data);
	void (*handle)(void *ctx, struct http_request *r);
	/* May this request have a body larger than HTTP_SMALL_BODY_BYTES? Asked once, when its head is there and its body
	 * is or becomes that large, before more of it is taken. False: `handle` gets the request at once, without a
	 * body and with body_refused set, and the connection ends with the answer. NULL: all may. */
	bool (*admits)(void *ctx, const struct http_request *r);
	/* Large bodies are hashed while they come. Doing that in `handle` would hold up the loop for as long as it takes. */
	bool digests;
	/* Called on each loop's thread after requests were handled, for as many as came in: before answers that
	 * http_resume brought are sent, and before the loop sleeps. May be NULL. */
	void (*round)(void *ctx);
	/* Called on the loop's thread with what http_conn_keep left, unless that is NULL. May be NULL if
	 * nothing is kept. */
	void (*conn_end)(void *ctx, void *data);
	/* The body of an error that the server itself makes; NULL: a short text. It is put into the arena; content
	 * type as returned. */
	struct bytes (*error_body)(void *ctx, struct arena *a, const struct http_error *e,
	                           const char **content_type);
};

struct http_server;

/* Counters, all atomic, for tests and metrics. */
struct http_stats {
	uint64_t accepted, refused, requests, connections_now, timeouts, bad_requests, handshakes_failed;
	uint64_t parked_now, streams_now, streams_slow; /* the last: dropped as HTTP_END_SLOW */
};

/* TLS: what to show peers, and what to ask of them. Files are PEM; their names must outlive the http_tls. */
struct http_tls_files {
	const char *certificate; /* the server's own first, then those between it and its root */
	const char *key;         /* of that certificate, without a password */
	const char
	        *client_ca; /* peers must show a certificate that one of these signed; NULL: they need none */
};

struct http_tls;

/* ERR_INVALID, with the file's name, if a file cannot be read or does not hold what it should. */
enum err_code http_tls_open(struct http_tls **out, const struct http_tls_files *files, struct err *err);

/* Reads the files again, for connections that come from now on; the others keep what they have. If anything
 * is wrong with them, everything stays as it was. From any thread. */
enum err_code http_tls_reload(struct http_tls *tls, struct err *err);

/* After the server that uses it. */
void http_tls_close(struct http_tls *tls);

/* Is this an address to listen on, "127.0.0.1:8420" or "[::1]:8420"? ERR_INVALID: no. Opens nothing. */
enum err_code http_address_check(const char *text, struct err *err);

struct http_server_options {
	const char                *listen; /* "127.0.0.1:8420", "[::1]:8420"; port 0 picks a free one */
	unsigned                   loops;
	const struct http_limits  *limits;  /* copied */
	const struct http_handler *handler; /* copied */
	struct http_tls           *tls;     /* must outlive the server; NULL: without */
	struct clock              *clock;
};

enum err_code http_server_open(struct http_server **out, const struct http_server_options *options,
                               struct err *err);

unsigned          http_server_port(const struct http_server *s);
struct http_stats http_server_stats(const struct http_server *s);

/* Has every loop come round since the last call? False if one has not: it hangs, if enough time has passed.
 * One caller at a time, now and then; not while the server is being closed. */
bool http_server_beats(struct http_server *s);

/* Stops accepting, lets requests under way finish (up to drain_ms), closes every connection, joins the
 * threads. A request that is with another thread is waited for even past drain_ms, its socket closed: its
 * memory is still in use there. So whoever holds requests must be able to resume them until this returns. Parked requests and
 * streams are ended first, as HTTP_END_STOPPING. */
void http_server_close(struct http_server *s);

#endif
