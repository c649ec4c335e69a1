/* Tls: OpenSSL under our own names.
 *
 * (1) TLS 1.2 and 1.3, forward secrecy and authenticated ciphers only, whatever the system's configuration
 * says. (2) Certificates are loaded whole into a new context or not at all. Connections hold a reference to
 * theirs, so a reload disturbs none of them, and the old context goes with the last of them. (3) Bytes are
 * read from the socket record by record, never ahead. So what is left over after a read is the rest of one
 * record, and tls_pending knows of it exactly. (4) An idle connection holds no record buffers: OpenSSL gives
 * them back when they are empty. (5) No system call here raises SIGPIPE, hence the BIO of our own. */
#include "http/io.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

enum {
	TLS_RECORD_BYTES_MAX = SSL3_RT_MAX_PLAIN_LENGTH,
	TLS_RECORDS_A_READ_MAX = 16, /* then other connections have their turn */
	TLS_CLIENT_CHAIN_MAX = 8,    /* certificates between a peer's and the CA's */
};

#define TLS_12_SUITES                                                                                        \
	"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"                                         \
	"ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"                                         \
	"ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
#define TLS_13_SUITES "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define TLS_GROUPS    "X25519:P-256:P-384"

struct http_tls {
	/* set once */
	struct http_tls_files files;
	BIO_METHOD           *socket;
	/* shared under lock */
	pthread_mutex_t lock;
	SSL_CTX        *context;
};

struct tls {
	SSL     *ssl;
	int      fd;
	uint32_t wants;
	bool     broken; /* after a fatal error there is nothing more to say */
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
	if (n == 0)
		BIO_set_flags(b, BIO_FLAGS_IN_EOF);
	return (int)n;
}

static long socket_control(BIO *b, int what, long number, void *pointer)
{
	(void)number;
	(void)pointer;
	if (what == BIO_CTRL_EOF)
		return BIO_test_flags(b, BIO_FLAGS_IN_EOF) != 0;
	return what == BIO_CTRL_FLUSH; /* nothing is held back, nothing else is known */
}

static BIO_METHOD *socket_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");

	if (m != NULL &&
	    (BIO_meth_set_write(m, socket_write) != 1 || BIO_meth_set_read(m, socket_read) != 1 ||
	     BIO_meth_set_ctrl(m, socket_control) != 1)) {
		BIO_meth_free(m);
		return NULL;
	}
	return m;
}

/* ---- a context: the rules, and what the files hold ---- */

/* Why OpenSSL's last call on this thread failed. */
static const char *reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());

	return text != NULL ? text : "unknown reason";
}

static enum err_code fail(struct err *err, const char *what, const char *file)
{
	err_set(err, ERR_INVALID, "%s file %s: %s", what, file, reason());
	ERR_clear_error();
	return err->code;
}

/* OpenSSL would say less exactly what is wrong with a file that cannot be read. */
static enum err_code file_check(const char *what, const char *file, struct err *err)
{
	struct err why;
	ssize_t    n = -1;
	int        fd;
	char       byte;

	if (file_open_now(file, O_RDONLY, &fd, &why) != ERR_NONE)
		return err_set(err, ERR_INVALID, "%s file: %s", what, why.text);
	n = read(fd, &byte, 1);
	if (n < 0)
		err_set(err, ERR_INVALID, "%s file %s: %s", what, file, strerror(errno));
	else if (n == 0)
		err_set(err, ERR_INVALID, "%s file %s: the file is empty", what, file);
	close(fd);
	return n > 0 ? ERR_NONE : err->code;
}

/* HTTP/1.1 or nothing: a peer that names protocols but not this one would misread our answers. */
static int protocol_choose(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *offered, unsigned offered_len, void *unused)
{
	static const unsigned char ours[] = "\x08http/1.1";

	(void)ssl;
	(void)unused;
	if (SSL_select_next_proto((unsigned char **)out, out_len, ours, sizeof(ours) - 1, offered,
	                          offered_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	return SSL_TLSEXT_ERR_OK;
}

/* (1). A session's ticket is good for this context only: its keys are made with it and never written down. */
static bool context_rule(SSL_CTX *context)
{
	static const unsigned char name[] = "gatehouse";

	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
	                                     SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
	                                     SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
	                                  SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_read_ahead(context, 0); /* (3) */
	SSL_CTX_set_alpn_select_cb(context, protocol_choose, NULL);
	return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
	       SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
	       SSL_CTX_set_cipher_list(context, TLS_12_SUITES) == 1 &&
	       SSL_CTX_set_ciphersuites(context, TLS_13_SUITES) == 1 &&
	       SSL_CTX_set1_groups_list(context, TLS_GROUPS) == 1 &&
	       SSL_CTX_set_num_tickets(context, 1) == 1 &&
	       SSL_CTX_set_session_id_context(context, name, sizeof(name) - 1) == 1;
}

/* A server has no one to ask for the password of a key. */
static int password_none(char *buffer, int size, int writing, void *unused)
{
	(void)buffer;
	(void)size;
	(void)writing;
	(void)unused;
	return -1;
}

static EVP_PKEY *key_read(const char *file)
{
	FILE     *f = fopen(file, "re");
	EVP_PKEY *key = f != NULL ? PEM_read_PrivateKey(f, NULL, password_none, NULL) : NULL;

	if (f != NULL)
		fclose(f);
	return key;
}

static enum err_code context_take_key(SSL_CTX *context, const struct http_tls_files *files, struct err *err)
{
	EVP_PKEY     *key = key_read(files->key);
	enum err_code rc = ERR_NONE;

	if (key == NULL)
		return fail(err, "key", files->key);
	if (X509_check_private_key(SSL_CTX_get0_certificate(context), key) != 1)
		rc = err_set(err, ERR_INVALID, "key file %s: not the key of the certificate in %s",
		             files->key, files->certificate);
	else if (SSL_CTX_use_PrivateKey(context, key) != 1)
		rc = fail(err, "key", files->key);
	EVP_PKEY_free(key);
	ERR_clear_error();
	return rc;
}

static enum err_code context_take_certificate(SSL_CTX *context, const struct http_tls_files *files,
                                              struct err *err)
{
	if (file_check("certificate", files->certificate, err) != ERR_NONE ||
	    file_check("key", files->key, err) != ERR_NONE)
		return err->code;
	if (SSL_CTX_use_certificate_chain_file(context, files->certificate) != 1)
		return fail(err, "certificate", files->certificate);
	if (X509_cmp_current_time(X509_get0_notAfter(SSL_CTX_get0_certificate(context))) < 0)
		log_warn("the certificate in %s has expired", files->certificate);
	return context_take_key(context, files, err);
}

/* Each certificate of the file is trusted by itself, be it a root's or not. */
static enum err_code context_take_client_ca(SSL_CTX *context, const char *file, struct err *err)
{
	STACK_OF(X509_NAME) * names;

	if (file_check("client CA", file, err) != ERR_NONE)
		return err->code;
	names = SSL_load_client_CA_file(file);
	if (names == NULL || SSL_CTX_load_verify_file(context, file) != 1) {
		sk_X509_NAME_pop_free(names, X509_NAME_free);
		return fail(err, "client CA", file);
	}
	SSL_CTX_set_client_CA_list(context, names);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_verify_depth(context, TLS_CLIENT_CHAIN_MAX);
	X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
	return ERR_NONE;
}

static enum err_code context_fill(SSL_CTX *context, const struct http_tls_files *files, struct err *err)
{
	enum err_code rc;

	if (!context_rule(context))
		return err_set(err, ERR_STORAGE, "TLS cannot be set up: %s", reason());
	rc = context_take_certificate(context, files, err);
	if (rc != ERR_NONE || files->client_ca == NULL)
		return rc;
	return context_take_client_ca(context, files->client_ca, err);
}

static enum err_code context_open(SSL_CTX **out, const struct http_tls_files *files, struct err *err)
{
	SSL_CTX      *context;
	enum err_code rc;

	ERR_clear_error();
	context = SSL_CTX_new(TLS_server_method());
	if (context == NULL)
		return err_set(err, ERR_STORAGE, "TLS cannot be set up: %s", reason());
	rc = context_fill(context, files, err);
	if (rc != ERR_NONE) {
		SSL_CTX_free(context);
		return rc;
	}
	*out = context;
	return ERR_NONE;
}

/* ---- what all connections share ---- */

enum err_code http_tls_open(struct http_tls **out, const struct http_tls_files *files, struct err *err)
{
	struct http_tls *shared = mem_zalloc(sizeof(*shared));

	shared->files = *files;
	if (context_open(&shared->context, files, err) != ERR_NONE) {
		free(shared);
		return err->code;
	}
	shared->socket = socket_method();
	if (shared->socket == NULL) {
		SSL_CTX_free(shared->context);
		free(shared);
		return err_set(err, ERR_STORAGE, "TLS cannot be set up: out of memory");
	}
	pthread_mutex_init(&shared->lock, NULL);
	*out = shared;
	return ERR_NONE;
}

enum err_code http_tls_reload(struct http_tls *shared, struct err *err)
{
	SSL_CTX *fresh, *old;

	if (context_open(&fresh, &shared->files, err) != ERR_NONE)
		return err->code;
	pthread_mutex_lock(&shared->lock);
	old = shared->context;
	shared->context = fresh;
	pthread_mutex_unlock(&shared->lock);
	SSL_CTX_free(old); /* (2) */
	return ERR_NONE;
}

void http_tls_close(struct http_tls *shared)
{
	SSL_CTX_free(shared->context);
	BIO_meth_free(shared->socket);
	pthread_mutex_destroy(&shared->lock);
	free(shared);
}

/* ---- a connection ---- */

static SSL *session_open(struct http_tls *shared)
{
	SSL_CTX *context;
	SSL     *ssl;

	pthread_mutex_lock(&shared->lock);
	context = shared->context;
	SSL_CTX_up_ref(context);
	pthread_mutex_unlock(&shared->lock);
	ssl = SSL_new(context);
	SSL_CTX_free(context);
	return ssl;
}

struct tls *tls_open(struct http_tls *shared, int fd)
{
	struct tls *t = mem_zalloc(sizeof(*t));
	BIO        *bio = BIO_new(shared->socket);

	t->fd = fd;
	t->ssl = session_open(shared);
	if (t->ssl == NULL || bio == NULL) {
		BIO_free(bio);
		SSL_free(t->ssl);
		free(t);
		ERR_clear_error();
		return NULL;
	}
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	SSL_set_bio(t->ssl, bio, bio);
	SSL_set_accept_state(t->ssl);
	return t;
}

void tls_finish(struct tls *t)
{
	if (t->broken || !SSL_is_init_finished(t->ssl) || (SSL_get_shutdown(t->ssl) & SSL_SENT_SHUTDOWN))
		return;
	ERR_clear_error();
	SSL_shutdown(t->ssl);
	ERR_clear_error();
}

void tls_close(struct tls *t)
{
	SSL_free(t->ssl);
	free(t);
}

/* What a call that did not succeed means. OpenSSL judges by its error queue too: it must have been empty. */
static ssize_t outcome(struct tls *t)
{
	switch (SSL_get_error(t->ssl, 0)) {
	case SSL_ERROR_WANT_READ:
		t->wants = EPOLLIN;
		return IO_AGAIN;
	case SSL_ERROR_WANT_WRITE:
		t->wants = EPOLLOUT;
		return IO_AGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return IO_END;
	default:
		t->broken = true;
		ERR_clear_error();
		return IO_BROKEN;
	}
}

static void call_begin(struct tls *t)
{
	ERR_clear_error();
	t->wants = 0;
}

ssize_t tls_handshake(struct tls *t)
{
	ssize_t result;

	call_begin(t);
	if (SSL_do_handshake(t->ssl) == 1)
		return 1;
	result = outcome(t);
	return result == IO_AGAIN ? IO_AGAIN : IO_BROKEN;
}

static ssize_t record_read(struct tls *t, void *data, size_t len)
{
	size_t n;

	call_begin(t);
	return SSL_read_ex(t->ssl, data, len, &n) == 1 ? (ssize_t)n : outcome(t);
}

/* A full record is likely to be followed by another, as in a large body; a smaller one is mostly a whole
 * request. What a later record met will be met again by the next call. */
ssize_t tls_read(struct tls *t, void *data, size_t len)
{
	ssize_t n = record_read(t, data, len);
	size_t  got = n > 0 ? (size_t)n : 0;

	for (int i = 1; n == TLS_RECORD_BYTES_MAX && len - got >= TLS_RECORD_BYTES_MAX; i++) {
		if (i == TLS_RECORDS_A_READ_MAX)
			break;
		n = record_read(t, (char *)data + got, len - got);
		got += n > 0 ? (size_t)n : 0;
	}
	return got > 0 ? (ssize_t)got : n;
}

/* A record that the socket takes in part counts as not written, and must be offered again: the same bytes,
 * from wherever they lie then. */
ssize_t tls_write(struct tls *t, const void *data, size_t len)
{
	size_t  done = 0, n;
	ssize_t result;

	while (done < len) {
		call_begin(t);
		if (SSL_write_ex(t->ssl, (const char *)data + done, len - done, &n) != 1) {
			result = outcome(t);
			return done > 0 ? (ssize_t)done : result == IO_AGAIN ? IO_AGAIN : IO_BROKEN;
		}
		done += n;
	}
	return (ssize_t)done;
}

bool tls_pending(const struct tls *t)
{
	return SSL_pending(t->ssl) > 0;
}

uint32_t tls_wants(const struct tls *t)
{
	return t->wants;
}
