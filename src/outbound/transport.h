/* Transport: one try of one call (or a bare connection, for stream.h): a request out, an answer in, over a connection that is kept for the next. transport.c is
 * the only file that knows libcurl. A handle belongs to one thread at a time; only transport_cancel may come from another. */
#ifndef OUTBOUND_TRANSPORT_H
#define OUTBOUND_TRANSPORT_H

#include "outbound/outbound.h"

struct transport;

enum transport_end {
	TRANSPORT_ANSWERED,
	TRANSPORT_UNSENT, /* nothing of the request reached the peer */
	TRANSPORT_LOST,   /* something may have, and no whole answer came back */
};

struct transport_try {
	enum transport_end end;
	bool        hopeless; /* trying again would end the same way: a certificate, an address, a bound */
	const char *why;      /* unless ANSWERED: a static text */
};

/* Is it scheme://host[:port], http or https? Fills what the Host header says; it points into `url`. */
bool transport_url_is(const char *url, struct bytes *host);

/* The options must outlive it. */
struct transport *transport_open(const struct outbound_options *options);
void              transport_close(struct transport *t);

/* Takes at most wait_us. */
struct transport_try transport_perform(struct transport *t, const struct outbound_request *r, int64_t wait_us,
                                       struct arena *a, struct outbound_response *out);

/* Only connects to the host and port of the options' URL, for those who speak something else than HTTP over it: the name is resolved and
 * the address judged as for a call. A descriptor that does not block, and that the caller closes; or -1, and *why says it in a static text. */
int transport_dial(struct transport *t, int64_t wait_us, const char **why);

/* The try that is under way ends at once, and so does every later one. */
void transport_cancel(struct transport *t);

#endif
