/* Tls: OpenSSL under our own names; tls.c is the only file that includes it.
 *
 * (1) TLS 1.2 or later, and a certificate that a known authority signed for the very host that was asked for, or no
 * connection. (2) No call blocks, and none raises SIGPIPE, hence the BIO of our own. (3) OpenSSL's queue of errors,
 * which belongs to the caller's thread, is left empty. */
#ifndef CLIENT_TLS_H
#define CLIENT_TLS_H

#include <sys/types.h>

#include "gatehouse.h"

/* What an attempt to move bytes came to, besides how many. */
enum { IO_CLOSED = 0, IO_BROKEN = -1, IO_WANTS_READ = -2, IO_WANTS_WRITE = -3 };

struct tls_context;
struct tls;

struct tls_context *tls_context_open(const struct gatehouse_options *options, struct gatehouse_error *error);
void                tls_context_close(struct tls_context *context);

/* NULL: no memory. The descriptor stays the caller's. */
struct tls *tls_open(struct tls_context *context, int fd, const char *host, bool numeric);
void        tls_close(struct tls *t);

/* 1: done. IO_BROKEN: *why says so, if it was for the certificate; else NULL. */
ssize_t tls_handshake(struct tls *t, const char **why);
ssize_t tls_read(struct tls *t, void *data, size_t size);
ssize_t tls_write(struct tls *t, const void *data, size_t size);

/* Nothing has come that nobody asked for, and the peer has not closed. */
bool tls_is_idle(struct tls *t);

#endif
