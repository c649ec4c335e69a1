/* Stream: bytes to and from one peer, over TCP and if wanted TLS, for protocols that are not HTTP. Names are resolved and addresses judged
 * as for calls (outbound.h): private ones are refused unless allowed.
 *
 *   stream_connect -> (stream_tls) -> stream_write, stream_read … -> stream_drop, and again
 *
 * What always holds
 * (1) Nothing lasts longer than its deadline, whatever the peer does. After stream_stop everything ends at once.
 * (2) After a failure the connection is gone: only stream_connect makes sense.
 * (3) With TLS, the certificate is one that the CAs vouch for, and names the host.
 *
 * Threads: one at a time, but stream_stop may come from any. */
#ifndef OUTBOUND_STREAM_H
#define OUTBOUND_STREAM_H

#include "base/clock.h"
#include "base/err.h"

enum { STREAM_HOST_CHARS_MAX = 255 };

struct stream_options {
	const char   *name;    /* for error texts */
	struct bytes  host;    /* with its port: "example.org:4222", "[::1]:4222" */
	const char   *ca_file; /* NULL: the system's */
	bool          allow_private;
	struct clock *clock; /* must outlive it */
};

struct stream;

/* ERR_INVALID: the host is none, or the CA file cannot be read. Nothing is connected yet. */
enum err_code stream_open(const struct stream_options *options, struct stream **out, struct err *err);
void          stream_stop(struct stream *s);
void          stream_close(struct stream *s); /* NULL is fine */

/* All of these fail with ERR_OVERLOADED. Deadlines are in steady time. */
enum err_code stream_connect(struct stream *s, int64_t deadline_us, struct err *err);
enum err_code stream_tls(struct stream *s, int64_t deadline_us, struct err *err);
enum err_code stream_write(struct stream *s, struct bytes data, int64_t deadline_us, struct err *err);

/* At least one byte, or as many as came; *got is 0 only if `now` and there is nothing. That the peer closed is a failure. */
struct stream_read {
	char   *to;
	size_t  room;
	bool    now; /* does not wait */
	int64_t deadline_us;
};

enum err_code stream_read(struct stream *s, const struct stream_read *r, size_t *got, struct err *err);

void stream_drop(struct stream *s);
bool stream_is_connected(const struct stream *s);

#endif
