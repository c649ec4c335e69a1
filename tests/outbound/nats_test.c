/* NATS: a sender against a server of our own making, which greets, stores and misbehaves by orders. tests/e2e/test_senders_nats.py sends to
 * a real nats-server. */
#include "outbound/nats.h"

#include <dirent.h>
#include <netinet/tcp.h>

#include "senders.h"

#define INFO "INFO {\"headers\":true,\"max_payload\":1000} \r\n"
#define ACK  "{\"stream\":\"E\",\"seq\":1}"

enum { FAKE_CONNECTIONS_MAX = 64, FAKE_INPUT_BYTES = 1 << 20 };

/* How a server behaves. */
struct fake_plan {
	const char *greeting;     /* NULL: INFO */
	const char *instead;      /* of an answer to each publication: sent as it is */
	unsigned    closes_after; /* so many publications, over each connection; 0: never */
	bool        silent;       /* to publications */
	bool        floods;       /* PING after PING, once a publication came */
	bool        deaf;         /* answers nothing at all */
};

struct fake {
	/* set once */
	struct fake_plan plan;
	int              listener;
	unsigned         port;
	pthread_t        thread;
	/* shared under lock */
	pthread_mutex_t lock;
	unsigned        connections, published;
	pthread_t       threads[FAKE_CONNECTIONS_MAX];
	int             fds[FAKE_CONNECTIONS_MAX]; /* -1: closed */
	char            connect[4096];             /* the last CONNECT */
};

struct fake_conn {
	struct fake *f;
	unsigned     number, published;
	int          fd;
	char        *input;
	size_t       len;
};

static void fake_say(struct fake_conn *c, const char *text)
{
	peer_say(c->fd, text, strlen(text));
}

static bool fake_more(struct fake_conn *c)
{
	ssize_t n = recv(c->fd, c->input + c->len, FAKE_INPUT_BYTES - c->len - 1, 0);

	if (n > 0)
		c->len += (size_t)n;
	c->input[c->len] = '\0';
	return n > 0;
}

static void fake_drop(struct fake_conn *c, size_t used)
{
	c->len -= used;
	memmove(c->input, c->input + used, c->len + 1);
}

static void fake_answer(struct fake_conn *c, const char *reply)
{
	char text[512];

	if (c->f->plan.silent)
		return;
	if (c->f->plan.instead != NULL)
		snprintf(text, sizeof(text), "%s", c->f->plan.instead);
	else
		snprintf(text, sizeof(text), "MSG %s 1  %zu\r\n" ACK "\r\n", reply, strlen(ACK));
	fake_say(c, text);
	while (c->f->plan.floods && send(c->fd, "PING\r\nPING\r\n", 12, MSG_NOSIGNAL) > 0)
		continue;
}

/* HPUB subject reply head total, and what follows; false: more is needed. */
static bool fake_publication(struct fake_conn *c, size_t line)
{
	char     reply[128];
	unsigned total;

	assert_int_equal(sscanf(c->input, "HPUB %*s %127s %*u %u", reply, &total), 2);
	if (c->len < line + 2 + total + 2)
		return false;
	fake_drop(c, line + 2 + total + 2);
	pthread_mutex_lock(&c->f->lock);
	c->f->published++;
	pthread_mutex_unlock(&c->f->lock);
	c->published++;
	fake_answer(c, reply);
	return true;
}

/* One line, if there is a whole one; false: more is needed. */
static bool fake_line(struct fake_conn *c)
{
	char  *end = strstr(c->input, "\r\n");
	size_t line = end == NULL ? 0 : (size_t)(end - c->input);

	if (end == NULL)
		return false;
	if (strncmp(c->input, "HPUB", 4) == 0)
		return fake_publication(c, line);
	if (strncmp(c->input, "PING", 4) == 0 && !c->f->plan.deaf)
		fake_say(c, "PONG\r\n");
	if (strncmp(c->input, "CONNECT", 7) == 0) {
		pthread_mutex_lock(&c->f->lock);
		snprintf(c->f->connect, sizeof(c->f->connect), "%.*s", (int)line, c->input);
		pthread_mutex_unlock(&c->f->lock);
	}
	fake_drop(c, line + 2);
	return true;
}

static bool fake_is_done(const struct fake_conn *c)
{
	return c->f->plan.closes_after > 0 && c->published >= c->f->plan.closes_after;
}

static void *fake_serve(void *arg)
{
	struct fake_conn *c = arg;

	fake_say(c, c->f->plan.greeting == NULL ? INFO : c->f->plan.greeting);
	while (!fake_is_done(c) && fake_more(c))
		while (!fake_is_done(c) && fake_line(c))
			continue;
	pthread_mutex_lock(&c->f->lock);
	close(c->fd);
	c->f->fds[c->number] = -1;
	pthread_mutex_unlock(&c->f->lock);
	free(c->input);
	free(c);
	return NULL;
}

static void *fake_accept(void *arg)
{
	struct fake *f = arg;
	int          fd;

	while ((fd = accept(f->listener, NULL, NULL)) >= 0) {
		struct fake_conn *c = calloc(1, sizeof(*c));
		int               one = 1;

		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		pthread_mutex_lock(&f->lock);
		assert_true(f->connections < FAKE_CONNECTIONS_MAX);
		*c = (struct fake_conn){
		        .f = f, .number = f->connections++, .fd = fd, .input = calloc(1, FAKE_INPUT_BYTES)};
		f->fds[c->number] = fd;
		assert_int_equal(pthread_create(&f->threads[c->number], NULL, fake_serve, c), 0);
		pthread_mutex_unlock(&f->lock);
	}
	return NULL;
}

static struct fake *fake_open(struct fake_plan plan)
{
	struct fake       *f = calloc(1, sizeof(*f));
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t          len = sizeof(at);

	f->plan = plan;
	pthread_mutex_init(&f->lock, NULL);
	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(f->listener, 128), 0);
	assert_int_equal(getsockname(f->listener, (struct sockaddr *)&at, &len), 0);
	f->port = ntohs(at.sin_port);
	assert_int_equal(pthread_create(&f->thread, NULL, fake_accept, f), 0);
	return f;
}

static void fake_close(struct fake *f)
{
	shutdown(f->listener, SHUT_RDWR);
	pthread_join(f->thread, NULL);
	close(f->listener);
	pthread_mutex_lock(&f->lock);
	for (unsigned i = 0; i < f->connections; i++)
		if (f->fds[i] >= 0)
			shutdown(f->fds[i], SHUT_RDWR);
	pthread_mutex_unlock(&f->lock);
	for (unsigned i = 0; i < f->connections; i++)
		pthread_join(f->threads[i], NULL);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

static unsigned fake_count(struct fake *f, const unsigned *what)
{
	unsigned n;

	pthread_mutex_lock(&f->lock);
	n = *what;
	pthread_mutex_unlock(&f->lock);
	return n;
}

static struct nats_options options(struct sending *s, struct fake *f)
{
	return (struct nats_options){.name = "bus",
	                             .url = arena_printf(&s->arena, "nats://127.0.0.1:%u", f->port),
	                             .allow_private = true,
	                             .within_us = 60000000,
	                             .clock = clock_system()};
}

static void start(struct sending *s, struct fake *f, uint32_t count)
{
	struct nats_options o;
	struct err          err;

	sending_init(s, NULL, count);
	o = options(s, f);
	assert_int_equal(nats_open(&o, &s->sender, &err), ERR_NONE);
}

TEST(nats, events_are_published_and_acknowledged_over_one_connection)
{
	struct fake   *f = fake_open((struct fake_plan){0});
	struct sending s;

	start(&s, f, 10);
	for (int i = 0; i < 3; i++) {
		sending_run(&s);
		assert_string_equal(sending_ends(&s), "SSSSSSSSSS");
	}
	assert_int_equal(fake_count(f, &f->connections), 1);
	assert_int_equal(fake_count(f, &f->published), 30);
	sending_release(&s);
	fake_close(f);
}

static unsigned descriptors(void)
{
	DIR     *list = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(list) != NULL)
		n++;
	closedir(list);
	return n;
}

TEST(nats, a_connection_that_was_closed_meanwhile_is_made_anew)
{
	unsigned       before = descriptors();
	struct fake   *f = fake_open((struct fake_plan){.closes_after = 2});
	struct sending s;

	start(&s, f, 2);
	for (int i = 0; i < 3; i++) {
		sending_run(&s);
		assert_string_equal(sending_ends(&s), "SS");
	}
	assert_int_equal(fake_count(f, &f->connections), 3);
	sending_release(&s);
	fake_close(f);
	assert_int_equal(descriptors(), before);
}

TEST(nats, events_that_were_not_acknowledged_before_the_end_are_for_later)
{
	struct fake   *f = fake_open((struct fake_plan){.closes_after = 2});
	struct sending s;

	start(&s, f, 4);
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "SSLL");
	assert_true(s.list[2].error[0] != '\0');
	sending_run(&s); /* over a new connection */
	assert_string_equal(sending_ends(&s), "SSLL");
	sending_release(&s);
	fake_close(f);
}

/* Each takes as long as it may, at most. */
TEST(nats, whatever_a_server_does_instead_the_event_is_for_later)
{
	static const struct fake_plan plans[] = {
	        {.silent = true},
	        {.deaf = true},
	        {.floods = true, .instead = "PING\r\n"},
	        {.instead = "MSG _INBOX.other.0 1 2\r\n{}\r\n"},
	        {.instead = "HTTP/1.1 400 Bad Request\r\n\r\n"},
	        {.instead = "-ERR 'secret words'\r\n"},
	        {.instead = "-ERR 'Stale Connection'\r\n"},
	        {.instead = "MSG _INBOX.x 1 99999999\r\n"},
	        {.greeting = ""},
	        {.greeting = "HTTP/1.1 400 Bad Request\r\n\r\n"},
	        {.greeting = "220 mail.example ESMTP\r\n"},
	        {.greeting = "INFO {\"max_payload\":1000}\r\n"},
	        {.greeting =
	                 "INFO {\"headers\":true,\"max_payload\":1000,\"tls_required\":true}\r\nPING\r\n"},
	        {.greeting = "INFO {\"headers\":true,\"max_payload\":1000,\"tls_required\":true}\r\n"},
	        {.greeting = "-ERR 'Maximum Connections Exceeded'\r\n"},
	        {.greeting = "PING\r\n"}};

	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		struct fake        *f = fake_open(plans[i]);
		struct nats_options o;
		struct sending      s;
		struct err          err;

		sending_init(&s, NULL, 2);
		o = options(&s, f);
		o.within_us = 300000;
		assert_int_equal(nats_open(&o, &s.sender, &err), ERR_NONE);
		sending_run(&s);
		assert_string_equal(sending_ends(&s), "LL");
		assert_true(s.list[0].error[0] != '\0');
		assert_null(strstr(s.list[0].error, "secret"));
		sending_release(&s);
		fake_close(f);
	}
}

TEST(nats, an_event_larger_than_the_server_takes_is_refused_and_the_others_are_sent)
{
	struct fake   *f = fake_open((struct fake_plan){0});
	struct sending s;
	char           large[1000];

	start(&s, f, 3);
	memset(large, ' ', sizeof(large));
	s.list[1].json = (struct bytes){large, sizeof(large)};
	s.list[2].json =
	        (struct bytes){large, 1000 - (75 - 4 + s.list[2].id.len)}; /* with its head exactly 1,000 */
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "SRS");
	assert_non_null(strstr(s.list[1].error, "1000 at most"));
	s.list[2].json.len++;
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "SRR");
	sending_release(&s);
	fake_close(f);
}

TEST(nats, an_event_cannot_smuggle_lines_into_the_protocol)
{
	struct fake   *f = fake_open((struct fake_plan){0});
	struct sending s;

	start(&s, f, 4);
	s.list[0].id = BYTES("a\r\nPUB x 0\r\n");
	s.list[1].type = BYTES("a\r\nPUB x 0\r\n");
	s.list[2].type = BYTES("a.*");
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "RRRS");
	assert_int_equal(fake_count(f, &f->published), 1);
	sending_release(&s);
	fake_close(f);
}

TEST(nats, a_server_must_speak_tls_where_the_url_says_so)
{
	struct fake        *f = fake_open((struct fake_plan){0});
	struct nats_options o;
	struct sending      s;
	struct err          err;

	sending_init(&s, NULL, 1);
	o = options(&s, f);
	o.url = arena_printf(&s.arena, "tls://127.0.0.1:%u", f->port);
	o.token = BYTES("very-secret");
	assert_int_equal(nats_open(&o, &s.sender, &err), ERR_NONE);
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "L");
	assert_string_equal(s.list[0].error, "the server does not offer TLS");
	pthread_mutex_lock(&f->lock);
	assert_string_equal(f->connect, "");
	pthread_mutex_unlock(&f->lock);
	sending_release(&s);
	fake_close(f);
}

TEST(nats, a_private_address_is_refused_unless_allowed)
{
	struct fake        *f = fake_open((struct fake_plan){0});
	struct nats_options o;
	struct sending      s;
	struct err          err;

	sending_init(&s, NULL, 1);
	o = options(&s, f);
	o.allow_private = false;
	o.url = arena_printf(&s.arena, "tls://127.0.0.1:%u", f->port);
	assert_int_equal(nats_open(&o, &s.sender, &err), ERR_NONE);
	sending_run(&s);
	assert_string_equal(sending_ends(&s), "L");
	assert_non_null(strstr(s.list[0].error, "private"));
	assert_int_equal(fake_count(f, &f->connections), 0);
	sending_release(&s);
	fake_close(f);
}

struct stopping {
	struct sending s;
	struct fake   *f;
};

static void *stop_later(void *arg)
{
	struct stopping *w = arg;

	while (fake_count(w->f, &w->f->published) == 0)
		poll(NULL, 0, PEER_PACE_MS);
	w->s.sender->kind->stop(w->s.sender);
	return NULL;
}

TEST(nats, a_stop_ends_the_call_under_way_and_later_ones)
{
	struct stopping w = {.f = fake_open((struct fake_plan){.silent = true})};
	pthread_t       thread;

	start(&w.s, w.f, 1);
	assert_int_equal(pthread_create(&thread, NULL, stop_later, &w), 0);
	sending_run(&w.s);
	assert_string_equal(sending_ends(&w.s), "L");
	assert_non_null(strstr(w.s.list[0].error, "stopped"));
	pthread_join(thread, NULL);
	sending_run(&w.s);
	assert_string_equal(sending_ends(&w.s), "L");
	sending_release(&w.s);
	fake_close(w.f);
}

static void *send_often(void *arg)
{
	struct sending *s = arg;

	for (int i = 0; i < 50; i++) {
		sending_run(s);
		assert_string_equal(sending_ends(s), "SSSSSSSSSS");
	}
	return NULL;
}

TEST(nats, several_threads_share_one_connection)
{
	enum { THREADS = 4 };
	struct fake   *f = fake_open((struct fake_plan){0});
	struct sending all[THREADS];
	pthread_t      threads[THREADS];

	start(&all[0], f, 10);
	for (int i = 1; i < THREADS; i++) {
		sending_init(&all[i], NULL, 10);
		all[i].sender = all[0].sender;
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, send_often, &all[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(fake_count(f, &f->published), THREADS * 500);
	assert_int_equal(fake_count(f, &f->connections), 1);
	for (int i = THREADS - 1; i >= 0; i--) {
		if (i > 0)
			all[i].sender = NULL;
		sending_release(&all[i]);
	}
	fake_close(f);
}

TEST(nats, settings_that_are_wrong_are_named)
{
	struct nats_options o;
	struct sending      s;
	struct err          err;
	struct {
		struct bytes *at;
		struct bytes  value;
		const char   *field;
	} wrong[] = {{&o.url, BYTES(""), "url"},
	             {&o.url, BYTES("nats://example.org"), "url"},
	             {&o.url, BYTES("https://example.org"), "url"},
	             {&o.url, BYTES("tls://"), "url"},
	             {&o.url, BYTES("tls://user:word@example.org:4222"), "url"},
	             {&o.url, BYTES("tls://example.org:4222/path"), "url"},
	             {&o.url, BYTES("tls://example.org:99999"), "url"},
	             {&o.url, BYTES("tls://a b"), "url"},
	             {&o.subject, BYTES("a.>"), "subject"},
	             {&o.token, BYTES("\xff"), "token"},
	             {&o.user, BYTES("ann"), "password"},
	             {&o.password, BYTES("hush"), "user"},
	             {&o.seed, BYTES("SUAB"), "seed"},
	             {&o.credentials, BYTES("nothing"), "credentials"}};

	sending_init(&s, NULL, 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		o = (struct nats_options){
		        .name = "bus", .url = BYTES("tls://example.org"), .clock = clock_system()};
		*wrong[i].at = wrong[i].value;
		assert_int_equal(nats_open(&o, &s.sender, &err), ERR_INVALID);
		assert_string_equal(err.field, wrong[i].field);
		assert_null(strstr(err.text, "word@"));
	}
	o = (struct nats_options){.name = "bus",
	                          .url = BYTES("tls://[2001:db8::1]:4222"),
	                          .user = BYTES("ann"),
	                          .password = BYTES("hush"),
	                          .clock = clock_system()};
	assert_int_equal(nats_open(&o, &s.sender, &err), ERR_NONE);
	s.sender->kind->close(s.sender);
	o.token = BYTES("both");
	assert_int_equal(nats_open(&o, &s.sender, &err), ERR_INVALID);
	assert_string_equal(err.field, "token");
	s.sender = NULL;
	sending_release(&s);
}
