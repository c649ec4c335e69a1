/* Transport: see transport.h.
 *
 * libcurl by itself sends a request once more if a kept connection turns out to be dead before an answer begins. For what
 * must not be repeated that would be once too often, so such a request always gets a new connection. */
#include "outbound/transport.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/version.h"

struct transport {
	/* set once */
	const struct outbound_options *options;
	CURLM                         *multi; /* keeps the connection */
	CURL                          *easy;
	/* any thread */
	atomic_bool cancelled;
	/* of the try under way */
	struct arena             *arena;
	struct outbound_response *out;
	struct buf                body;
	size_t                    head_bytes;
	const char               *refused; /* why this side ended it */
	bool                      cut;     /* it ended the body, and has all that it wants */
	unsigned                  sends;
};

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void library_start(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- URLs ---- */

static bool is_host_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       strchr(".-_:[]", c) != NULL;
}

bool transport_url_is(const char *url, struct bytes *host)
{
	struct bytes text = bytes_of(url);
	size_t       scheme = bytes_starts_with(text, BYTES("https://"))  ? 8
	                      : bytes_starts_with(text, BYTES("http://")) ? 7
	                                                                  : 0;

	if (scheme == 0 || text.len == scheme || text.len > OUTBOUND_URL_BYTES_MAX)
		return false;
	*host = (struct bytes){url + scheme, text.len - scheme};
	for (size_t i = 0; i < host->len; i++)
		if (host->data[i] == '\0' || !is_host_byte(host->data[i]))
			return false;
	return true;
}

/* ---- which addresses may be connected to ---- */

struct network {
	uint32_t address, mask;
};

/* This host, private, shared, link-local, loopback, test and benchmark networks, multicast and what is reserved. */
static const struct network inside_v4[] = {
        {0x00000000, 0xff000000}, {0x0a000000, 0xff000000}, {0x64400000, 0xffc00000},
        {0x7f000000, 0xff000000}, {0xa9fe0000, 0xffff0000}, {0xac100000, 0xfff00000},
        {0xc0000000, 0xffffff00}, {0xc0000200, 0xffffff00}, {0xc0a80000, 0xffff0000},
        {0xc6120000, 0xfffe0000}, {0xc6336400, 0xffffff00}, {0xcb007100, 0xffffff00},
        {0xe0000000, 0xe0000000}};

static bool is_inside_v4(uint32_t address)
{
	for (size_t i = 0; i < sizeof(inside_v4) / sizeof(inside_v4[0]); i++)
		if ((address & inside_v4[i].mask) == inside_v4[i].address)
			return true;
	return false;
}

/* Public are 2000::/3 alone, and of those neither 6to4 nor Teredo nor documentation: the first two carry an IPv4 address. An
 * IPv4 address in IPv6's clothes is judged as what it is. */
static bool is_inside_v6(const uint8_t a[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}, nat64[12] = {0, 0x64, 0xff, 0x9b};
	uint32_t v4 = (uint32_t)a[12] << 24 | (uint32_t)a[13] << 16 | (uint32_t)a[14] << 8 | a[15];

	if (memcmp(a, mapped, 12) == 0 || memcmp(a, nat64, 12) == 0)
		return is_inside_v4(v4);
	return (a[0] & 0xe0) != 0x20 || (a[0] == 0x20 && a[1] == 0x02) ||
	       (a[0] == 0x20 && a[1] == 0x01 && a[2] == 0 && a[3] == 0) ||
	       (a[0] == 0x20 && a[1] == 0x01 && a[2] == 0x0d && a[3] == 0xb8);
}

static bool is_inside(const struct curl_sockaddr *at)
{
	if (at->family == AF_INET)
		return is_inside_v4(
		        ntohl(((const struct sockaddr_in *)(const void *)&at->addr)->sin_addr.s_addr));
	if (at->family == AF_INET6)
		return is_inside_v6(
		        ((const struct sockaddr_in6 *)(const void *)&at->addr)->sin6_addr.s6_addr);
	return true;
}

/* Asked after the name was resolved, for the very address that would be connected to. */
static curl_socket_t socket_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *at)
{
	struct transport *t = ctx;

	(void)purpose;
	if (!t->options->allow_private && is_inside(at)) {
		t->refused = "the address is private, and private addresses are not allowed for this target";
		return CURL_SOCKET_BAD;
	}
	return socket(at->family, at->socktype | SOCK_CLOEXEC, at->protocol);
}

/* ---- the answer ---- */

static struct bytes line_without_end(const char *data, size_t len)
{
	while (len > 0 && (data[len - 1] == '\r' || data[len - 1] == '\n'))
		len--;
	return (struct bytes){data, len};
}

static size_t header_read(char *data, size_t size, size_t count, void *ctx)
{
	struct transport         *t = ctx;
	struct bytes              line = line_without_end(data, size * count);
	const char               *colon = memchr(line.data, ':', line.len);
	struct outbound_response *out = t->out;

	t->head_bytes += size * count;
	if (t->head_bytes > OUTBOUND_ANSWER_HEAD_BYTES_MAX) {
		t->refused = "the answer's head is too large";
		return 0;
	}
	if (bytes_starts_with(line, BYTES("HTTP/"))) {
		out->header_count = 0; /* an interim answer came before */
		return size * count;
	}
	if (colon == NULL)
		return size * count;
	if (out->header_count == OUTBOUND_ANSWER_HEADERS_MAX) {
		t->refused = "the answer has too many headers";
		return 0;
	}
	line = arena_copy(t->arena, line);
	colon = memchr(line.data, ':', line.len);
	out->headers[out->header_count++] = (struct outbound_header){
	        {line.data, (size_t)(colon - line.data)},
	        bytes_trimmed((struct bytes){colon + 1, line.len - (size_t)(colon + 1 - line.data)})};
	return size * count;
}

static size_t body_read(char *data, size_t size, size_t count, void *ctx)
{
	struct transport *t = ctx;

	if (t->body.len + size * count > t->options->body_bytes_max) {
		t->cut = t->options->body_cut;
		t->refused = "the answer's body is too large";
		return 0;
	}
	buf_add(&t->body, data, size * count);
	return size * count;
}

/* ---- the request ---- */

static bool is_printable(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((uint8_t)text.data[i] < ' ' || text.data[i] == 0x7f)
			return false;
	return true;
}

/* A line break in a header or a blank in a path would begin a request of somebody else's making. */
static bool is_clean(const struct outbound_request *r)
{
	bool clean = is_printable(r->method) && is_printable(r->path) &&
	             memchr(r->path.data, ' ', r->path.len) == NULL && bytes_starts_with(r->path, BYTES("/"));

	for (uint32_t i = 0; i < r->header_count && clean; i++)
		clean = is_printable(r->headers[i].name) && is_printable(r->headers[i].value);
	return clean;
}

static struct curl_slist *list_add(struct curl_slist *list, const char *text)
{
	struct curl_slist *longer = curl_slist_append(list, text);

	if (longer == NULL)
		abort(); /* out of memory: as everywhere */
	return longer;
}

/* As libcurl takes it: "Name;" is its way to write a header without a value. Not printed with a format: that would be a twentieth of all
 * that a request to DynamoDB costs. */
static const char *header_line(const struct outbound_header *h, struct arena *a)
{
	struct buf line;

	buf_init_room(&line, a, h->name.len + h->value.len + 3);
	buf_add_bytes(&line, h->name);
	buf_add_bytes(&line, h->value.len == 0 ? BYTES(";") : BYTES(": "));
	buf_add_bytes(&line, h->value);
	buf_add_byte(&line, '\0');
	return line.data;
}

/* An empty "Expect:" keeps libcurl from asking first. */
static struct curl_slist *headers_of(const struct outbound_request *r, struct arena *a)
{
	struct curl_slist *list = list_add(NULL, "Expect:");

	for (uint32_t i = 0; i < r->header_count; i++)
		list = list_add(list, header_line(&r->headers[i], a));
	return list;
}

static long ms_up(int64_t us)
{
	int64_t ms = (us + 999) / 1000;

	return ms < 1 ? 1 : ms > LONG_MAX ? LONG_MAX : (long)ms;
}

/* libcurl sends a request again by itself, if a kept connection ended without an answer: by then the first may have been done. */
static int request_begins(void *ctx, char *to, char *from, int to_port, int from_port)
{
	struct transport *t = ctx;

	(void)to;
	(void)from;
	(void)to_port;
	(void)from_port;
	t->out->unsure |= t->sends++ > 0;
	return CURL_PREREQFUNC_OK;
}

/* The environment must not reroute a service: only what the target's options name. The proxy's own headers are no part of the answer. */
static void proxy_set(struct transport *t)
{
	const struct outbound_options *o = t->options;
	bool used = o->proxy != NULL && bytes_starts_with(bytes_of(o->url), BYTES("https://"));

	curl_easy_setopt(t->easy, CURLOPT_PROXY, used ? o->proxy : "");
	curl_easy_setopt(t->easy, CURLOPT_NOPROXY, used && o->no_proxy != NULL ? o->no_proxy : "");
	curl_easy_setopt(t->easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
}

static void easy_prepare(struct transport *t, const struct outbound_request *r, struct curl_slist *headers,
                         int64_t wait_us)
{
	CURL        *e = t->easy;
	struct bytes url = arena_printf(t->arena, "%s%.*s", t->options->url, BYTES_ARG(r->path));

	curl_easy_reset(e);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	proxy_set(t);
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_USERAGENT, "gatehouse/" GATEHOUSE_VERSION);
	curl_easy_setopt(e, CURLOPT_URL, url.data);
	curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, arena_printf(t->arena, "%.*s", BYTES_ARG(r->method)).data);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
	if (bytes_is(r->method, "HEAD"))
		curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
	if (r->body.len > 0 || bytes_is(r->method, "POST") || bytes_is(r->method, "PUT")) {
		curl_easy_setopt(e, CURLOPT_POST, 1L);
		curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.len);
		curl_easy_setopt(e, CURLOPT_POSTFIELDS, r->body.len > 0 ? r->body.data : "");
	}
	if (t->options->ca_file != NULL)
		curl_easy_setopt(e, CURLOPT_CAINFO, t->options->ca_file);
	curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, r->repeatable ? 0L : 1L);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, ms_up(t->options->connect_us));
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, ms_up(wait_us));
	curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, socket_open);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, t);
	curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, request_begins);
	curl_easy_setopt(e, CURLOPT_PREREQDATA, t);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, header_read);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, body_read);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
}

/* ---- a try ---- */

/* Runs the transfer to its end; false if it was cancelled. */
static bool transfer_run(struct transport *t, CURLcode *rc)
{
	int running = 1, left;

	*rc = CURLE_SEND_ERROR;
	while (running > 0) {
		if (atomic_load(&t->cancelled) || curl_multi_perform(t->multi, &running) != CURLM_OK)
			return false;
		if (running > 0)
			curl_multi_poll(t->multi, NULL, 0, 1000, NULL);
	}
	for (CURLMsg *m = curl_multi_info_read(t->multi, &left); m != NULL;
	     m = curl_multi_info_read(t->multi, &left))
		if (m->msg == CURLMSG_DONE)
			*rc = m->data.result;
	return true;
}

/* What a proxy was asked is none of the target's. */
static bool was_sent(struct transport *t)
{
	long bytes = 0;

	curl_easy_getinfo(t->easy, CURLINFO_REQUEST_SIZE, &bytes);
	return bytes > 0 && t->sends > 0;
}

/* Static texts: what libcurl writes into its own may hold a URL. */
static struct transport_try failure_of(struct transport *t, CURLcode rc)
{
	struct transport_try end = {.end = was_sent(t) ? TRANSPORT_LOST : TRANSPORT_UNSENT,
	                            .why = curl_easy_strerror(rc)};

	if (t->refused != NULL) {
		end.why = t->refused;
		end.hopeless = true;
	} else if (rc == CURLE_PEER_FAILED_VERIFICATION || rc == CURLE_SSL_CACERT_BADFILE ||
	           rc == CURLE_URL_MALFORMAT) {
		end.hopeless = true;
	}
	return end;
}

struct transport_try transport_perform(struct transport *t, const struct outbound_request *r, int64_t wait_us,
                                       struct arena *a, struct outbound_response *out)
{
	struct transport_try end = {.end = TRANSPORT_UNSENT, .why = "the target is being stopped"};
	struct curl_slist   *headers;
	long                 status = 0;
	CURLcode             rc;

	if (!is_clean(r))
		return (struct transport_try){TRANSPORT_UNSENT, true,
		                              "the request has a control character in its head"};
	headers = headers_of(r, a);
	t->arena = a;
	t->out = out;
	t->head_bytes = 0;
	t->refused = NULL;
	t->cut = false;
	t->sends = 0;
	out->header_count = 0;
	buf_init(&t->body, a);
	easy_prepare(t, r, headers, wait_us);
	curl_multi_add_handle(t->multi, t->easy);
	if (!transfer_run(t, &rc)) {
		end.end = was_sent(t) ? TRANSPORT_LOST : TRANSPORT_UNSENT;
		end.hopeless = true;
	} else if (rc != CURLE_OK && !t->cut) {
		end = failure_of(t, rc);
	} else {
		curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
		end = (struct transport_try){.end = TRANSPORT_ANSWERED};
		out->status = (int)status;
		out->body = buf_bytes(&t->body);
	}
	curl_multi_remove_handle(t->multi, t->easy);
	curl_slist_free_all(headers);
	return end;
}

/* ---- a bare connection ---- */

/* libcurl closes its own descriptor with the handle; the copy keeps the connection. */
static int socket_take(struct transport *t)
{
	curl_socket_t fd = CURL_SOCKET_BAD;

	if (curl_easy_getinfo(t->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD)
		return -1;
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

int transport_dial(struct transport *t, int64_t wait_us, const char **why)
{
	CURL    *e = t->easy;
	CURLcode rc;
	int      fd = -1;

	t->refused = NULL;
	curl_easy_reset(e);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http");
	curl_easy_setopt(e, CURLOPT_PROXY, "");
	curl_easy_setopt(e, CURLOPT_URL, t->options->url);
	curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, ms_up(wait_us));
	curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, socket_open);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, t);
	curl_multi_add_handle(t->multi, e);
	if (!transfer_run(t, &rc))
		*why = "the target is being stopped";
	else if (rc != CURLE_OK)
		*why = t->refused != NULL ? t->refused : curl_easy_strerror(rc);
	else if ((fd = socket_take(t)) < 0)
		*why = "the connection cannot be used";
	curl_multi_remove_handle(t->multi, e);
	curl_easy_cleanup(t->easy); /* with the connection, which is nobody's any more */
	t->easy = curl_easy_init();
	if (t->easy == NULL)
		abort(); /* out of memory: as everywhere */
	return fd;
}

void transport_cancel(struct transport *t)
{
	atomic_store(&t->cancelled, true);
	curl_multi_wakeup(t->multi);
}

/* ---- life ---- */

struct transport *transport_open(const struct outbound_options *options)
{
	struct transport *t = mem_zalloc(sizeof(*t));

	pthread_once(&library_once, library_start);
	t->options = options;
	atomic_init(&t->cancelled, false);
	t->multi = curl_multi_init();
	t->easy = curl_easy_init();
	if (t->multi == NULL || t->easy == NULL)
		abort(); /* out of memory: as everywhere */
	curl_multi_setopt(t->multi, CURLMOPT_MAXCONNECTS, 1L);
	return t;
}

void transport_close(struct transport *t)
{
	curl_easy_cleanup(t->easy);
	curl_multi_cleanup(t->multi);
	free(t);
}
