/* Tls: see tls.h. */
#include "tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "error.h"

struct tls_context {
	SSL_CTX    *context;
	BIO_METHOD *method;
};

struct tls {
	SSL *ssl;
	int  fd;
};

/* ---- the socket, as OpenSSL sees it ---- */

static bool is_passing(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

static int socket_write(BIO *b, const char *data, int len)
{
	const struct tls *t = BIO_get_data(b);
	ssize_t           n = send(t->fd, data, (size_t)len, MSG_NOSIGNAL);

	BIO_clear_retry_flags(b);
	if (is_passing(n))
		BIO_set_retry_write(b);
	return (int)n;
}

static int socket_read(BIO *b, char *data, int len)
{
	const struct tls *t = BIO_get_data(b);
	ssize_t           n = recv(t->fd, data, (size_t)len, 0);

	BIO_clear_retry_flags(b);
	if (is_passing(n))
		BIO_set_retry_read(b);
	return (int)n;
}

static long socket_control(BIO *b, int command, long number, void *pointer)
{
	(void)b;
	(void)number;
	(void)pointer;
	return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method_open(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "gatehouse socket");

	if (m == NULL)
		return NULL;
	BIO_meth_set_write(m, socket_write);
	BIO_meth_set_read(m, socket_read);
	BIO_meth_set_ctrl(m, socket_control);
	return m;
}

/* ---- the context ---- */

static const char *context_load(SSL_CTX *context, const struct gatehouse_options *options)
{
	int trusted = options->ca_file != NULL ? SSL_CTX_load_verify_file(context, options->ca_file)
	                                       : SSL_CTX_set_default_verify_paths(context);

	if (trusted != 1)
		return options->ca_file != NULL
		               ? "ca_file: no certificate could be read from it"
		               : "the system's list of certificate authorities could not be read";
	if (options->cert_file == NULL)
		return NULL;
	if (SSL_CTX_use_certificate_chain_file(context, options->cert_file) != 1)
		return "cert_file: no certificate could be read from it";
	if (options->cert_key_file == NULL ||
	    SSL_CTX_use_PrivateKey_file(context, options->cert_key_file, SSL_FILETYPE_PEM) != 1)
		return "cert_key_file: not the private key of the certificate";
	return NULL;
}

static const char *context_set_up(SSL_CTX *context, const struct gatehouse_options *options)
{
	static const unsigned char alpn[] = "\x08http/1.1";

	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
	                                  SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	if (SSL_CTX_set_alpn_protos(context, alpn, sizeof(alpn) - 1) != 0)
		return "out of memory";
	return context_load(context, options);
}

struct tls_context *tls_context_open(const struct gatehouse_options *options, struct gatehouse_error *error)
{
	struct tls_context *c = calloc(1, sizeof(*c));
	const char         *why = "out of memory";

	if (c != NULL) {
		c->context = SSL_CTX_new(TLS_client_method());
		c->method = method_open();
	}
	if (c != NULL && c->context != NULL && c->method != NULL)
		why = context_set_up(c->context, options);
	ERR_clear_error();
	if (why == NULL)
		return c;
	error_set(error, GATEHOUSE_INVALID, "%s", why);
	tls_context_close(c);
	return NULL;
}

void tls_context_close(struct tls_context *c)
{
	if (c == NULL)
		return;
	SSL_CTX_free(c->context);
	BIO_meth_free(c->method);
	free(c);
}

/* ---- a connection ---- */

static bool expect_host(SSL *ssl, const char *host, bool numeric)
{
	if (numeric)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct tls *tls_open(struct tls_context *c, int fd, const char *host, bool numeric)
{
	struct tls *t = calloc(1, sizeof(*t));
	BIO        *b = NULL;

	if (t == NULL)
		return NULL;
	t->fd = fd;
	t->ssl = SSL_new(c->context);
	if (t->ssl != NULL && expect_host(t->ssl, host, numeric))
		b = BIO_new(c->method);
	ERR_clear_error();
	if (b == NULL) {
		tls_close(t);
		return NULL;
	}
	BIO_set_data(b, t);
	BIO_set_init(b, 1);
	SSL_set_bio(t->ssl, b, b);
	SSL_set_connect_state(t->ssl);
	return t;
}

/* No farewell: every answer carries its length, so nobody can take a cut for an end. */
void tls_close(struct tls *t)
{
	if (t == NULL)
		return;
	SSL_free(t->ssl);
	free(t);
}

static ssize_t result_of(struct tls *t, int rc)
{
	int what = SSL_get_error(t->ssl, rc);

	ERR_clear_error();
	if (rc > 0)
		return rc;
	if (what == SSL_ERROR_WANT_READ)
		return IO_WANTS_READ;
	if (what == SSL_ERROR_WANT_WRITE)
		return IO_WANTS_WRITE;
	return what == SSL_ERROR_ZERO_RETURN ? IO_CLOSED : IO_BROKEN;
}

static int size_of(size_t size)
{
	return size < INT32_MAX ? (int)size : INT32_MAX;
}

ssize_t tls_handshake(struct tls *t, const char **why)
{
	ssize_t rc;
	long    verdict;

	ERR_clear_error();
	rc = result_of(t, SSL_do_handshake(t->ssl));
	verdict = SSL_get_verify_result(t->ssl);
	*why = rc == IO_BROKEN && verdict != X509_V_OK ? X509_verify_cert_error_string(verdict) : NULL;
	return rc;
}

ssize_t tls_read(struct tls *t, void *data, size_t size)
{
	ERR_clear_error();
	return result_of(t, SSL_read(t->ssl, data, size_of(size)));
}

ssize_t tls_write(struct tls *t, const void *data, size_t size)
{
	ERR_clear_error();
	return result_of(t, SSL_write(t->ssl, data, size_of(size)));
}

bool tls_is_idle(struct tls *t)
{
	char one;

	ERR_clear_error();
	return result_of(t, SSL_peek(t->ssl, &one, 1)) == IO_WANTS_READ;
}
