/* Names: see names.h. */
#include "names.h"

#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "text.h"

/* ---- the URL ---- */

static bool is_host_char(char c, bool bracketed)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
		return true;
	return bracketed ? c == ':' || c == '.' : c == '.' || c == '-' || c == '_';
}

static bool host_parse(struct names *n, struct text host, bool bracketed)
{
	if (host.len == 0 || host.len >= sizeof(n->host))
		return false;
	for (size_t i = 0; i < host.len; i++)
		if (!is_host_char(host.data[i], bracketed))
			return false;
	memcpy(n->host, host.data, host.len);
	n->host[host.len] = '\0';
	return true;
}

static bool port_parse(struct names *n, struct text port)
{
	unsigned value = 0;

	for (size_t i = 0; i < port.len; i++) {
		if (port.data[i] < '0' || port.data[i] > '9' || i > 4)
			return false;
		value = value * 10 + (unsigned)(port.data[i] - '0');
	}
	if (value == 0 || value > 65535)
		return false;
	snprintf(n->port, sizeof(n->port), "%u", value & 0xffff);
	return true;
}

/* HOST, [IPV6], and a port behind a colon; a slash may end it. */
static bool authority_parse(struct names *n, const char *text)
{
	struct text rest = {text, strcspn(text, "/")}, host, port = text_of(n->tls ? "443" : "80");
	bool        bracketed = rest.len > 0 && text[0] == '[';
	const char *colon;

	if (text[rest.len] == '/' && text[rest.len + 1] != '\0')
		return false;
	colon = memchr(text, bracketed ? ']' : ':', rest.len);
	if (bracketed && colon == NULL)
		return false;
	if (bracketed)
		colon++;
	host = (struct text){text, colon == NULL ? rest.len : (size_t)(colon - text)};
	if (host.len < rest.len) {
		if (*colon != ':')
			return false;
		port = (struct text){colon + 1, rest.len - host.len - 1};
	}
	if (bracketed)
		host = (struct text){host.data + 1, host.len - 2};
	if (!host_parse(n, host, bracketed) || !port_parse(n, port))
		return false;
	snprintf(n->authority, sizeof(n->authority), bracketed ? "[%s]:%s" : "%s:%s", n->host, n->port);
	return true;
}

enum gatehouse_code names_init(struct names *n, const char *url, struct gatehouse_error *error)
{
	size_t scheme;

	memset(n, 0, sizeof(*n));
	n->tls = strncasecmp(url, "https://", 8) == 0;
	scheme = n->tls ? 8 : 7;
	if ((!n->tls && strncasecmp(url, "http://", 7) != 0) || !authority_parse(n, url + scheme))
		return error_set(error, GATEHOUSE_INVALID,
		                 "url: must be http://HOST[:PORT] or https://HOST[:PORT]");
	pthread_mutex_init(&n->lock, NULL);
	return GATEHOUSE_OK;
}

void names_release(struct names *n)
{
	if (n->started)
		pthread_join(n->thread, NULL);
	pthread_mutex_destroy(&n->lock);
}

/* ---- looking up ---- */

static bool is_loopback(const struct sockaddr *address)
{
	const struct sockaddr_in  *four = (const void *)address;
	const struct sockaddr_in6 *six = (const void *)address;

	if (address->sa_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) ||
	       (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) && six->sin6_addr.s6_addr[12] == 127);
}

static int look_up(const struct names *n, int flags, struct addresses *out)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags}, *found;
	int             rc = getaddrinfo(n->host, n->port, &hints, &found);

	out->count = 0;
	if (rc != 0)
		return rc;
	for (const struct addrinfo *i = found; i != NULL && out->count < NAMES_ADDRESSES_MAX;
	     i = i->ai_next) {
		if (i->ai_family != AF_INET && i->ai_family != AF_INET6)
			continue;
		if (n->loopback_only && !is_loopback(i->ai_addr))
			continue;
		out->list[out->count].len = i->ai_addrlen;
		memcpy(&out->list[out->count++].at, i->ai_addr, i->ai_addrlen);
	}
	freeaddrinfo(found);
	return 0;
}

enum gatehouse_code names_resolve(struct names *n, struct gatehouse_error *error)
{
	int rc = look_up(n, AI_NUMERICHOST, &n->addresses);

	n->numeric = rc == 0;
	if (rc != 0)
		rc = look_up(n, 0, &n->addresses);
	if (rc == EAI_NONAME)
		return error_set(error, GATEHOUSE_INVALID, "url: unknown host name");
	if (rc == 0 && n->addresses.count == 0)
		return error_set(error, GATEHOUSE_INVALID,
		                 "url: the key would be sent unencrypted to another machine; use https, or "
		                 "set plain_http");
	return GATEHOUSE_OK;
}

static void *look_up_again(void *arg)
{
	struct names    *n = arg;
	struct addresses found;
	int              rc = look_up(n, 0, &found);

	pthread_mutex_lock(&n->lock);
	if (rc == 0 && found.count > 0)
		n->addresses = found;
	n->finished = true;
	pthread_mutex_unlock(&n->lock);
	return NULL;
}

/* The program's signals are none of the new thread's business. */
static bool thread_start(struct names *n)
{
	sigset_t all, before;
	int      rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&n->thread, NULL, look_up_again, n);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc == 0;
}

void names_failed(struct names *n, int64_t now_us)
{
	pthread_mutex_lock(&n->lock);
	if (n->started && n->finished) {
		pthread_join(n->thread, NULL); /* it has let go of the lock for the last time */
		n->started = false;
	}
	if (!n->numeric && !n->started && now_us - n->last_us >= NAMES_AGAIN_MS * 1000) {
		n->last_us = now_us;
		n->finished = false;
		n->started = thread_start(n);
	}
	pthread_mutex_unlock(&n->lock);
}

/* ---- using ---- */

void names_copy(struct names *n, struct addresses *out)
{
	pthread_mutex_lock(&n->lock);
	*out = n->addresses;
	pthread_mutex_unlock(&n->lock);
}

void names_worked(struct names *n, const struct address *one)
{
	struct address first;

	pthread_mutex_lock(&n->lock);
	first = n->addresses.list[0];
	for (unsigned i = 1; i < n->addresses.count; i++) {
		if (n->addresses.list[i].len == one->len &&
		    memcmp(&n->addresses.list[i].at, &one->at, one->len) == 0) {
			n->addresses.list[0] = n->addresses.list[i];
			n->addresses.list[i] = first;
		}
	}
	pthread_mutex_unlock(&n->lock);
}
