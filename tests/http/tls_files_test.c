/* TLS: certificates and keys as files: what is refused and how it is said, reading them again under load, and
 * certificates that peers must show. */
#include <fcntl.h>
#include <sys/ioctl.h>

#include "secure_peer.h"

enum { LOADS = 6, RELOADS = 20 };

static struct house house;

/* The files that the server is given; tests copy others over them. */
static const struct http_tls_files *live(const char *client_ca)
{
	static char                  certificate[PATH_BYTES_MAX], key[PATH_BYTES_MAX], ca[PATH_BYTES_MAX];
	static struct http_tls_files files;

	snprintf(certificate, sizeof(certificate), "%s", in_dir("live.crt"));
	snprintf(key, sizeof(key), "%s", in_dir("live.key"));
	files = (struct http_tls_files){.certificate = certificate, .key = key};
	if (client_ca != NULL) {
		snprintf(ca, sizeof(ca), "%s", in_dir(client_ca));
		files.client_ca = ca;
	}
	return &files;
}

static void put_live(const char *certificate, const char *key)
{
	char command[256];

	snprintf(command, sizeof(command), "cp %s live.crt; cp %s live.key", certificate, key);
	in_dir_run(command);
}

static void serve(const char *client_ca)
{
	struct err err;

	certificates_make();
	put_live("ec.crt", "ec.key");
	house_init(&house);
	if (http_tls_open(&house.tls, live(client_ca), &err) != ERR_NONE)
		fail_msg("%s", err.text);
	house_open(&house, 2, clock_system());
}

static void end(void)
{
	house_close(&house);
	http_tls_close(house.tls);
}

/* ---- files ---- */

static void expect_error(const struct http_tls_files *files, const char *text)
{
	struct http_tls *tls;
	struct err       err;

	assert_int_equal(http_tls_open(&tls, files, &err), ERR_INVALID);
	if (strstr(err.text, text) == NULL)
		fail_msg("said \"%s\", expected \"%s\"", err.text, text);
}

TEST(tls_files, what_is_wrong_with_a_file_is_said_with_its_name)
{
	static const struct {
		const char *certificate, *key, *ca, *says;
	} cases[] = {
	        {"none.crt", "ec.key", NULL, "none.crt: No such file or directory"},
	        {"ec.crt", "none.key", NULL, "none.key: No such file or directory"},
	        {"ec.crt", "ec.key", "none.crt", "client CA file"},
	        {"empty", "ec.key", NULL, "empty: the file is empty"},
	        {"ec.crt", "empty", NULL, "empty: the file is empty"},
	        {"noise", "ec.key", NULL, "certificate file"},
	        {"ec.crt", "noise", NULL, "key file"},
	        {"ec.crt", "ec.key", "noise", "client CA file"},
	        {"ec.crt", "ec.key", "ec.key", "client CA file"},
	        {".", "ec.key", NULL, "Is a directory"},
	        {"ec.key", "ec.key", NULL, "certificate file"},
	        {"ec.crt", "ec.crt", NULL, "key file"},
	        {"ec.crt", "ec2.key", NULL, "ec2.key: not the key of the certificate in"},
	        {"ec.crt", "rsa.key", NULL, "rsa.key: not the key of the certificate in"},
	        {"ec.crt", "locked.key", NULL, "locked.key: "},
	};

	certificates_make();
	in_dir_run("touch empty; echo noise >noise; openssl ec -in ec.key -aes128 -passout pass:x -out "
	           "locked.key");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct http_tls_files files = {in_dir(cases[i].certificate), in_dir(cases[i].key),
		                               cases[i].ca != NULL ? in_dir(cases[i].ca) : NULL};

		expect_error(&files, cases[i].says);
	}
}

TEST(tls_files, the_chain_behind_the_certificate_is_sent_with_it)
{
	struct secure s;

	serve(NULL);
	in_dir_run("cat ec.crt ca.crt >live.crt");
	assert_int_equal(http_tls_reload(house.tls, &(struct err){0}), ERR_NONE);
	s = secure_connect(&house);
	assert_int_equal(sk_X509_num(SSL_get_peer_cert_chain(s.ssl)), 2);
	secure_close(&s);
	end();
}

/* More than the sockets hold between them: the server must wait for the peer in the middle of its part. */
TEST(tls_files, a_chain_of_10_mb_is_sent_as_fast_as_the_peer_reads_it)
{
	struct secure s;
	int           fd, waiting = 0;

	serve(NULL);
	in_dir_run("openssl req -x509 -nodes -days 2 -newkey " EC_KEY
	           " -keyout fat.key -out fat.crt -subj /CN=fat "
	           "-addext nsComment=$(head -c 60000 /dev/zero | tr '\\0' x); "
	           "for i in $(seq 160); do cat fat.crt; done >>live.crt");
	assert_int_equal(http_tls_reload(house.tls, &(struct err){0}), ERR_NONE);
	fd = peer_connect(&house);
	s = secure_over(fd, (struct secure_wish){.waits = true});
	assert_false(s.open);
	WAIT_UNTIL(ioctl(fd, FIONREAD, &waiting) == 0 && waiting > SSL3_RT_MAX_PLAIN_LENGTH);
	fcntl(fd, F_SETFL, 0);
	assert_int_equal(SSL_connect(s.ssl), 1);
	secure_say(&s, "GET /secure HTTP/1.1\r\n" HOST "\r\n");
	secure_expect(&s, 200, "yes");
	secure_close(&s);
	end();
}

/* ---- reading them again ---- */

static void expect_shown(const char *name)
{
	struct secure s = secure_connect(&house);

	assert_string_equal(secure_shown(&s), name);
	secure_say(&s, "GET /secure HTTP/1.1\r\n" HOST "\r\n");
	secure_expect(&s, 200, "yes");
	secure_close(&s);
}

TEST(tls_files, after_a_reload_new_peers_see_the_new_certificate_and_old_ones_go_on)
{
	struct secure old, halfway;
	int           fd;

	serve(NULL);
	old = secure_connect(&house);
	fd = peer_connect(&house);
	WAIT_UNTIL(http_server_stats(house.server).accepted == 2);
	put_live("rsa.crt", "rsa.key");
	assert_int_equal(http_tls_reload(house.tls, &(struct err){0}), ERR_NONE);
	expect_shown("rsa");
	secure_say(&old, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok");
	secure_expect(&old, 200, "ok");
	assert_string_equal(secure_shown(&old), "ec");
	halfway = secure_over(fd, (struct secure_wish){0});
	assert_true(halfway.open);
	secure_close(&halfway);
	secure_close(&old);
	end();
}

TEST(tls_files, a_reload_of_bad_files_changes_nothing)
{
	struct err err;

	serve(NULL);
	put_live("rsa.crt", "ec.key");
	assert_int_equal(http_tls_reload(house.tls, &err), ERR_INVALID);
	assert_non_null(strstr(err.text, "live.key: not the key"));
	expect_shown("ec");
	in_dir_run("rm live.crt");
	assert_int_equal(http_tls_reload(house.tls, &err), ERR_INVALID);
	assert_non_null(strstr(err.text, "live.crt: No such file"));
	expect_shown("ec");
	put_live("ec2.crt", "ec2.key");
	assert_int_equal(http_tls_reload(house.tls, &err), ERR_NONE);
	expect_shown("ec2");
	end();
}

TEST(tls_files, a_session_from_before_a_reload_is_made_anew)
{
	struct secure_wish wish = {0};
	struct secure      s;

	serve(NULL);
	s = secure_connect(&house);
	secure_say(&s, "GET /secure HTTP/1.1\r\n" HOST "\r\n");
	secure_expect(&s, 200, "yes");
	wish.session = SSL_get1_session(s.ssl);
	secure_close(&s);
	assert_int_equal(http_tls_reload(house.tls, &(struct err){0}), ERR_NONE);
	s = secure_try(&house, wish);
	assert_true(s.open && !SSL_session_reused(s.ssl));
	secure_close(&s);
	SSL_SESSION_free(wish.session);
	end();
}

struct load {
	pthread_t   thread;
	atomic_bool ends;
	unsigned    sent, right;
};

/* Requests on a kept connection and on fresh ones in turn, until told to end. */
static void *load_main(void *arg)
{
	struct load  *load = arg;
	struct secure kept = secure_try(&house, (struct secure_wish){0});

	while (!atomic_load(&load->ends)) {
		struct secure  fresh = secure_try(&house, (struct secure_wish){0});
		struct secure *both[] = {&kept, &fresh};

		for (int i = 0; i < 2; i++) {
			struct reply r;
			const char  *text = "POST /later HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok";
			size_t       n;

			load->sent++;
			SSL_write_ex(both[i]->ssl, text, strlen(text), &n);
			r = secure_read_reply(both[i]);
			load->right += r.status == 200 && strcmp(r.body, "ok") == 0;
			reply_release(&r);
		}
		secure_close(&fresh);
	}
	secure_close(&kept);
	return NULL;
}

TEST(tls_files, reloads_under_load_lose_no_request)
{
	struct load loads[LOADS] = {0};
	uint64_t    seen = 0;

	serve(NULL);
	for (int i = 0; i < LOADS; i++)
		assert_int_equal(pthread_create(&loads[i].thread, NULL, load_main, &loads[i]), 0);
	for (int i = 0; i < RELOADS; i++) {
		WAIT_UNTIL(http_server_stats(house.server).requests >= seen + 4 * LOADS);
		seen = http_server_stats(house.server).requests;
		put_live(i % 2 ? "ec.crt" : "ec2.crt", i % 2 ? "ec.key" : "ec2.key");
		assert_int_equal(http_tls_reload(house.tls, &(struct err){0}), ERR_NONE);
		expect_shown(i % 2 ? "ec" : "ec2");
	}
	for (int i = 0; i < LOADS; i++)
		atomic_store(&loads[i].ends, true);
	for (int i = 0; i < LOADS; i++) {
		pthread_join(loads[i].thread, NULL);
		assert_true(loads[i].sent > 0);
		assert_int_equal(loads[i].right, loads[i].sent);
	}
	end();
}

/* ---- peers that must show a certificate ---- */

static void expect_turned_away(struct secure_wish wish, int alert)
{
	struct secure s = secure_try(&house, wish);
	size_t        n;

	/* In TLS 1.3 the client is done first and may have sent requests already: it must hear why, still. */
	if (s.open) {
		for (int i = 0; i < 50; i++)
			SSL_write_ex(s.ssl, "GET /secure HTTP/1.1\r\n" HOST "\r\n", 33, &n);
		ERR_clear_error();
	}
	assert_int_equal(secure_alert(&s), alert);
	secure_close(&s);
	assert_int_equal(http_server_stats(house.server).requests, 0);
}

TEST(tls_files, without_the_right_certificate_a_peer_is_turned_away_and_told)
{
	serve("ca.crt");
	for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
		struct secure_wish wish = {.version_min = version, .version_max = version};

		expect_turned_away(wish, version == TLS1_2_VERSION ? SSL_AD_HANDSHAKE_FAILURE
		                                                   : SSL_AD_CERTIFICATE_REQUIRED);
		wish.certificate = "stranger";
		expect_turned_away(wish, SSL_AD_UNKNOWN_CA);
	}
	WAIT_UNTIL(http_server_stats(house.server).handshakes_failed == 4);
	end();
}

TEST(tls_files, with_the_right_certificate_a_peer_is_served_and_taken_up_again)
{
	serve("ca.crt");
	for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
		struct secure_wish wish = {
		        .version_min = version, .version_max = version, .certificate = "client"};

		for (int i = 0; i < 2; i++) {
			struct secure s = secure_try(&house, wish);

			assert_true(s.open);
			assert_int_equal(SSL_session_reused(s.ssl), i);
			secure_say(&s, "GET /secure HTTP/1.1\r\n" HOST "\r\n");
			secure_expect(&s, 200, "yes");
			SSL_SESSION_free(wish.session);
			wish.session = SSL_get1_session(s.ssl);
			SSL_shutdown(s.ssl);
			secure_close(&s);
		}
		SSL_SESSION_free(wish.session);
	}
	end();
}

TEST(tls_files, a_ca_that_is_no_root_is_enough)
{
	struct secure s;

	certificates_make();
	in_dir_run("openssl req -x509 -nodes -days 2 -newkey " EC_KEY
	           " -keyout mid.key -out mid.crt -subj /CN=mid -CA ca.crt -CAkey ca.key");
	certificate_make("below", "mid", EC_KEY);
	serve("mid.crt");
	expect_turned_away((struct secure_wish){.version_min = TLS1_3_VERSION, .certificate = "client"},
	                   SSL_AD_UNKNOWN_CA);
	s = secure_try(&house, (struct secure_wish){.certificate = "below"});
	secure_say(&s, "GET /secure HTTP/1.1\r\n" HOST "\r\n");
	secure_expect(&s, 200, "yes");
	secure_close(&s);
	end();
}
