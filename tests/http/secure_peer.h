/* Secure peer: certificates made by the openssl command for one run of a test program, and a client that
 * speaks TLS over the sockets of peer.h. The client is strict: a connection that ends without a goodbye is an
 * error. */
#ifndef TESTS_HTTP_SECURE_PEER_H
#define TESTS_HTTP_SECURE_PEER_H

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "peer.h"

enum { PATH_BYTES_MAX = 256, CHAIN_BYTES_MAX = 16 << 20 };

/* Files in a directory of our own, removed at exit. */
static char secure_dir[64];

static void secure_dir_remove(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", secure_dir);
	if (system(command) != 0)
		fprintf(stderr, "left behind: %s\n", secure_dir);
}

/* "name" to "/tmp/…/name"; a few at a time, each thread its own. */
static const char *in_dir(const char *name)
{
	static _Thread_local char     paths[8][PATH_BYTES_MAX];
	static _Thread_local unsigned next;
	char                         *path = paths[next++ % 8];

	snprintf(path, PATH_BYTES_MAX, "%s/%s", secure_dir, name);
	return path;
}

/* Runs a shell command in the directory. */
static void in_dir_run(const char *command)
{
	char line[1024];

	snprintf(line, sizeof(line), "cd %s && (%s) >log 2>&1 || (cat log >&2; false)", secure_dir, command);
	if (system(line) != 0)
		fail_msg("failed: %s", line);
}

/* NAME.crt and NAME.key, signed by CA.crt with CA.key; both of them by themselves if CA is "-". */
static void certificate_make(const char *name, const char *ca, const char *kind)
{
	char command[900];
	char signer[128] = "";

	if (strcmp(ca, "-") != 0)
		snprintf(signer, sizeof(signer), "-CA %s.crt -CAkey %s.key", ca, ca);
	snprintf(command, sizeof(command),
	         "openssl req -x509 -nodes -days 2 -newkey %s -keyout %s.key -out %s.crt -subj /CN=%s %s %s",
	         kind, name, name, name,
	         strcmp(ca, "-") != 0 ? "-addext basicConstraints=critical,CA:FALSE" : "", signer);
	in_dir_run(command);
}

#define EC_KEY  "ec -pkeyopt ec_paramgen_curve:P-256"
#define RSA_KEY "rsa:2048"

/* Debian 12's `openssl req` knows -CA. */
static void certificates_make(void)
{
	if (secure_dir[0] != '\0')
		return;
	snprintf(secure_dir, sizeof(secure_dir), "/tmp/gatehouse-tls-XXXXXX");
	assert_non_null(mkdtemp(secure_dir));
	atexit(secure_dir_remove);
	certificate_make("ca", "-", EC_KEY);
	certificate_make("other-ca", "-", EC_KEY);
	certificate_make("ec", "ca", EC_KEY);
	certificate_make("ec2", "ca", EC_KEY);
	certificate_make("rsa", "ca", RSA_KEY);
	certificate_make("client", "ca", EC_KEY);
	certificate_make("stranger", "other-ca", EC_KEY);
}

/* What a test's client is willing to speak; zero and NULL: whatever the library likes. */
struct secure_wish {
	int          version_min, version_max;
	const char  *suites_12;
	const char  *suites_13;
	const char  *alpn; /* as on the wire */
	const char  *certificate;
	SSL_SESSION *session;
	bool         waits; /* says hello and reads nothing yet */
};

struct secure {
	int  fd;
	SSL *ssl;
	bool open; /* the client's side of the handshake is done */
};

static SSL_CTX *secure_context(const struct secure_wish *wish)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	char     file[64];

	assert_non_null(context);
	SSL_CTX_set_security_level(context, 0);
	SSL_CTX_set_options(context, SSL_OP_LEGACY_SERVER_CONNECT);
	SSL_CTX_set_min_proto_version(context, wish->version_min);
	SSL_CTX_set_max_proto_version(context, wish->version_max);
	assert_int_equal(SSL_CTX_load_verify_file(context, in_dir("ca.crt")), 1);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	if (wish->suites_12 != NULL)
		assert_int_equal(SSL_CTX_set_cipher_list(context, wish->suites_12), 1);
	if (wish->suites_13 != NULL)
		assert_int_equal(SSL_CTX_set_ciphersuites(context, wish->suites_13), 1);
	if (wish->alpn != NULL)
		SSL_CTX_set_alpn_protos(context, (const unsigned char *)wish->alpn,
		                        (unsigned)strlen(wish->alpn));
	if (wish->certificate != NULL) {
		snprintf(file, sizeof(file), "%s.crt", wish->certificate);
		assert_int_equal(SSL_CTX_use_certificate_file(context, in_dir(file), SSL_FILETYPE_PEM), 1);
		snprintf(file, sizeof(file), "%s.key", wish->certificate);
		assert_int_equal(SSL_CTX_use_PrivateKey_file(context, in_dir(file), SSL_FILETYPE_PEM), 1);
	}
	return context;
}

/* Over a connected socket, which it takes over. */
static struct secure secure_over(int fd, struct secure_wish wish)
{
	SSL_CTX      *context = secure_context(&wish);
	struct secure s = {.fd = fd, .ssl = SSL_new(context)};

	SSL_CTX_free(context);
	ERR_clear_error();
	SSL_set_fd(s.ssl, fd);
	SSL_set_max_cert_list(s.ssl, CHAIN_BYTES_MAX);
	if (wish.waits)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	if (wish.session != NULL)
		SSL_set_session(s.ssl, wish.session);
	s.open = SSL_connect(s.ssl) == 1;
	return s;
}

static struct secure secure_try(const struct house *h, struct secure_wish wish)
{
	return secure_over(peer_connect(h), wish);
}

static struct secure secure_connect(const struct house *h)
{
	struct secure s = secure_try(h, (struct secure_wish){0});

	if (!s.open)
		fail_msg("handshake: %s", ERR_reason_error_string(ERR_peek_last_error()));
	return s;
}

static void secure_close(struct secure *s)
{
	SSL_free(s->ssl);
	close(s->fd);
}

static void secure_send(struct secure *s, const void *data, size_t len)
{
	size_t n;

	ERR_clear_error();
	if (SSL_write_ex(s->ssl, data, len, &n) != 1 || n != len)
		fail_msg("not sent: %s", ERR_reason_error_string(ERR_peek_last_error()));
}

static void secure_say(struct secure *s, const char *text)
{
	secure_send(s, text, strlen(text));
}

static bool secure_read_all(struct secure *s, char *data, size_t len)
{
	size_t n;

	ERR_clear_error();
	for (; len > 0; data += n, len -= n)
		if (SSL_read_ex(s->ssl, data, len, &n) != 1)
			return false;
	return true;
}

static struct reply secure_read_reply(struct secure *s)
{
	struct reply r = {.body = calloc(1, 1)};
	const char  *length;
	size_t       at = 0;

	while (at < 4 || memcmp(r.head + at - 4, "\r\n\r\n", 4) != 0)
		if (at == REPLY_HEAD_MAX - 1 || !secure_read_all(s, r.head + at++, 1))
			return r;
	length = strstr(r.head, "Content-Length: ");
	r.body_len = length != NULL ? strtoul(length + 16, NULL, 10) : 0;
	r.body = realloc(r.body, r.body_len + 1);
	r.body[r.body_len] = '\0';
	if (secure_read_all(s, r.body, r.body_len))
		r.status = atoi(r.head + 9);
	return r;
}

static void secure_expect(struct secure *s, int status, const char *body)
{
	struct reply r = secure_read_reply(s);

	if (r.status != status)
		fail_msg("status %d, expected %d: %s%s (%s)", r.status, status, r.head, r.body,
		         ERR_reason_error_string(ERR_peek_last_error()));
	if (body != NULL)
		assert_string_equal(r.body, body);
	reply_release(&r);
}

/* The server said goodbye before it closed. */
static __attribute__((unused)) void secure_expect_goodbye(struct secure *s)
{
	char   byte;
	size_t n;

	ERR_clear_error();
	assert_int_equal(SSL_read_ex(s->ssl, &byte, 1, &n), 0);
	assert_int_equal(SSL_get_error(s->ssl, 0), SSL_ERROR_ZERO_RETURN);
	peer_expect_end(s->fd);
}

static __attribute__((unused)) void secure_expect_service(const struct house *h)
{
	struct secure s = secure_connect(h);

	secure_say(&s, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok");
	secure_expect(&s, 200, "ok");
	secure_close(&s);
}

/* The name in the certificate that the server showed. */
static __attribute__((unused)) const char *secure_shown(const struct secure *s)
{
	static char name[64];

	X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(s->ssl)), NID_commonName,
	                          name, sizeof(name));
	return name;
}

/* The alert that the server sent, as OpenSSL's client reports it; reads on if none has come yet. */
static __attribute__((unused)) int secure_alert(struct secure *s)
{
	char   byte;
	size_t n;

	if (ERR_peek_last_error() == 0)
		SSL_read_ex(s->ssl, &byte, 1, &n);
	return ERR_GET_REASON(ERR_peek_last_error()) - SSL_AD_REASON_OFFSET;
}

#endif
