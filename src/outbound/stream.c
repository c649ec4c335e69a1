/* Stream: see stream.h. The descriptor never blocks; whoever must wait polls it together with `stopped`, which stream_stop makes ready
 * for good. */
#define _GNU_SOURCE
#include "outbound/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "outbound/transport.h"

struct stream {
	/* set once */
	struct arena            arena;
	struct outbound_options dial; /* what transport.h needs to know */
	const char             *host; /* without port and brackets */
	bool                    is_address;
	int                     stopped; /* an eventfd */
	SSL_CTX                *context;
	struct transport       *transport;
	struct clock           *clock;
	/* any thread */
	atomic_bool stopping;
	/* one thread at a time */
	int  fd; /* -1: not connected */
	SSL *ssl;
};

static enum err_code broken(struct stream *s, struct err *err, const char *why)
{
	stream_drop(s);
	return err_set(err, ERR_OVERLOADED, "%s: %s", s->dial.name, why);
}

/* ---- waiting ---- */

/* A peer that always has something to say never lets anybody wait: so this is asked before each step, too. NULL: go on. */
static const char *over(struct stream *s, int64_t deadline_us)
{
	if (atomic_load(&s->stopping))
		return "the target is being stopped";
	return clock_steady_us(s->clock) >= deadline_us ? "no answer came in time" : NULL;
}

/* Until the socket is ready for `events`, or it is not worth waiting; NULL: it is ready. */
static const char *wait_for(struct stream *s, short events, int64_t deadline_us)
{
	struct pollfd list[] = {{s->fd, events, 0}, {s->stopped, POLLIN, 0}};
	int64_t       left_us;
	int           n;

	do {
		left_us = deadline_us - clock_steady_us(s->clock);
		if (left_us <= 0)
			return "no answer came in time";
		n = poll(list, 2, left_us / 1000 >= INT_MAX ? INT_MAX : (int)(left_us / 1000) + 1);
	} while (n == 0 || (n < 0 && errno == EINTR));
	if (n < 0)
		return "the connection cannot be watched";
	return list[1].revents != 0 ? "the target is being stopped" : NULL;
}

enum { IO_FAILED = -1 }; /* 0: the peer closed; else bytes */

/* What OpenSSL wants before it goes on: 0 if nothing helps. */
static short tls_wants(struct stream *s, int rc)
{
	switch (SSL_get_error(s->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
		return POLLIN;
	case SSL_ERROR_WANT_WRITE:
		return POLLOUT;
	default:
		return 0;
	}
}

/* One try. *wants: to be waited for, if it was not possible now. */
static ssize_t io_once(struct stream *s, char *to, struct bytes from, short *wants)
{
	ssize_t n;
	int     rc;

	*wants = 0;
	if (s->ssl != NULL) {
		ERR_clear_error();
		rc = to != NULL ? SSL_read(s->ssl, to, (int)from.len)
		                : SSL_write(s->ssl, from.data, from.len > INT_MAX ? INT_MAX : (int)from.len);
		if (rc > 0)
			return rc;
		*wants = tls_wants(s, rc);
		return IO_FAILED;
	}
	n = to != NULL ? recv(s->fd, to, from.len, 0) : send(s->fd, from.data, from.len, MSG_NOSIGNAL);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		*wants = to != NULL ? POLLIN : POLLOUT;
	return n;
}

/* ---- life ---- */

/* The host without its port; a port is needed. */
static bool host_read(struct stream *s, struct bytes host)
{
	const char *colon = host.len == 0 ? NULL : memrchr(host.data, ':', host.len);
	uint64_t    port;
	uint8_t     address[16];

	if (colon == NULL || colon == host.data || host.len > STREAM_HOST_CHARS_MAX ||
	    !bytes_to_u64((struct bytes){colon + 1, host.len - (size_t)(colon + 1 - host.data)}, 65535,
	                  &port))
		return false;
	s->dial.url = arena_printf(&s->arena, "http://%.*s", BYTES_ARG(host)).data;
	host.len = (size_t)(colon - host.data);
	if (host.data[0] == '[' && host.data[host.len - 1] == ']')
		host = (struct bytes){host.data + 1, host.len - 2};
	s->host = arena_printf(&s->arena, "%.*s", BYTES_ARG(host)).data;
	s->is_address =
	        inet_pton(AF_INET, s->host, address) == 1 || inet_pton(AF_INET6, s->host, address) == 1;
	return outbound_url_is(s->dial.url);
}

/* (3) */
static bool context_open(struct stream *s, const char *ca_file)
{
	s->context = SSL_CTX_new(TLS_client_method());
	if (s->context == NULL)
		abort(); /* out of memory: as everywhere */
	SSL_CTX_set_min_proto_version(s->context, TLS1_2_VERSION);
	SSL_CTX_set_verify(s->context, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(s->context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return ca_file != NULL ? SSL_CTX_load_verify_locations(s->context, ca_file, NULL) == 1
	                       : SSL_CTX_set_default_verify_paths(s->context) == 1;
}

enum err_code stream_open(const struct stream_options *options, struct stream **out, struct err *err)
{
	struct stream *s = mem_zalloc(sizeof(*s));
	bool           good;

	arena_init(&s->arena);
	s->clock = options->clock;
	s->fd = -1;
	s->stopped = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->stopped < 0)
		abort(); /* out of descriptors: as out of memory */
	s->dial = (struct outbound_options){.name = arena_printf(&s->arena, "%s", options->name).data,
	                                    .allow_private = options->allow_private,
	                                    .clock = options->clock};
	good = host_read(s, options->host);
	if (!good)
		err_set(err, ERR_INVALID, "%s: not a host with a port, like example.org:4222", options->name);
	else if (!context_open(s, options->ca_file)) {
		good = false;
		err_set(err, ERR_INVALID, "%s: the file of CA certificates cannot be read", options->name);
	}
	if (!good) {
		stream_close(s);
		return ERR_INVALID;
	}
	s->transport = transport_open(&s->dial);
	*out = s;
	return ERR_NONE;
}

void stream_stop(struct stream *s)
{
	uint64_t one = 1;

	atomic_store(&s->stopping, true);
	while (write(s->stopped, &one, sizeof(one)) < 0 && errno == EINTR)
		continue;
	transport_cancel(s->transport);
}

void stream_drop(struct stream *s)
{
	SSL_free(s->ssl);
	s->ssl = NULL;
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

bool stream_is_connected(const struct stream *s)
{
	return s->fd >= 0;
}

void stream_close(struct stream *s)
{
	if (s == NULL)
		return;
	stream_drop(s);
	if (s->transport != NULL)
		transport_close(s->transport);
	SSL_CTX_free(s->context);
	close(s->stopped);
	arena_release(&s->arena);
	free(s);
}

/* ---- connecting ---- */

enum err_code stream_connect(struct stream *s, int64_t deadline_us, struct err *err)
{
	int64_t     left_us = deadline_us - clock_steady_us(s->clock);
	const char *why = "the deadline has passed";

	stream_drop(s);
	if (left_us > 0)
		s->fd = transport_dial(s->transport, left_us, &why);
	return s->fd < 0 ? broken(s, err, why) : ERR_NONE;
}

static bool host_expect(struct stream *s)
{
	if (s->is_address)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s->ssl), s->host) == 1;
	return SSL_set1_host(s->ssl, s->host) == 1 && SSL_set_tlsext_host_name(s->ssl, s->host) == 1;
}

static const char *handshake_fault(struct stream *s)
{
	long why = SSL_get_verify_result(s->ssl);

	return why == X509_V_OK ? "TLS: the peer broke off the handshake"
	                        : X509_verify_cert_error_string(why);
}

enum err_code stream_tls(struct stream *s, int64_t deadline_us, struct err *err)
{
	int rc;

	s->ssl = SSL_new(s->context);
	if (s->ssl == NULL || !host_expect(s) || SSL_set_fd(s->ssl, s->fd) != 1)
		return broken(s, err, "TLS cannot be started");
	for (;;) {
		const char *why;
		short       wants;

		ERR_clear_error();
		rc = SSL_connect(s->ssl);
		if (rc == 1)
			return ERR_NONE;
		wants = tls_wants(s, rc);
		if (wants == 0)
			return broken(s, err, handshake_fault(s));
		why = wait_for(s, wants, deadline_us);
		if (why != NULL)
			return broken(s, err, why);
	}
}

/* ---- bytes ---- */

enum err_code stream_write(struct stream *s, struct bytes data, int64_t deadline_us, struct err *err)
{
	while (data.len > 0) {
		const char *why = over(s, deadline_us);
		short       wants = 0;
		ssize_t     n = why != NULL ? IO_FAILED : io_once(s, NULL, data, &wants);

		if (n > 0)
			data = (struct bytes){data.data + n, data.len - (size_t)n};
		else if (why == NULL)
			why = wants == 0 ? "the peer closed the connection" : wait_for(s, wants, deadline_us);
		if (why != NULL)
			return broken(s, err, why);
	}
	return ERR_NONE;
}

enum err_code stream_read(struct stream *s, const struct stream_read *r, size_t *got, struct err *err)
{
	*got = 0;
	for (;;) {
		const char *why = over(s, r->deadline_us);
		short       wants = 0;
		ssize_t     n =
                        why != NULL ? IO_FAILED : io_once(s, r->to, (struct bytes){r->to, r->room}, &wants);

		if (n > 0) {
			*got = (size_t)n;
			return ERR_NONE;
		}
		if (wants != 0 && r->now)
			return ERR_NONE;
		if (why == NULL)
			why = wants == 0 ? "the peer closed the connection"
			                 : wait_for(s, wants, r->deadline_us);
		if (why != NULL)
			return broken(s, err, why);
	}
}
