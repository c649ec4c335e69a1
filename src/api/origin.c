/* Origin: see origin.h.
 *
 *   Host            must be localhost, 127.0.0.0/8, [::1] or one of --host-names, with any port: DNS rebinding
 *   Origin          if there is one, must be http(s)://HOST, or a page of one of --host-names: forms, fetch
 *   Sec-Fetch-Site  if there is one and no Origin, must be same-origin or none: links, images
 *
 * It listens on loopback only (server/options.c), so that the address it listens on is among these. */
#define _GNU_SOURCE /* memmem */
#include "api/origin.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

enum { HOST_SHOWN_MAX = 64 };

static bool equal_folded(struct bytes a, struct bytes b)
{
	return a.len == b.len && strncasecmp(a.data, b.data, a.len) == 0;
}

static struct bytes without(struct bytes text, size_t first)
{
	return (struct bytes){text.data + first, text.len - first};
}

static bool is_name(struct bytes text, const char *others)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    (c == '\0' || strchr(others, c) == NULL))
			return false;
	}
	return text.len > 0;
}

/* Without its port. */
static struct bytes name_of(struct bytes host)
{
	size_t len = host.len;

	while (len > 0 && host.data[len - 1] >= '0' && host.data[len - 1] <= '9')
		len--;
	return len > 1 && host.data[len - 1] == ':' ? (struct bytes){host.data, len - 1} : host;
}

static bool is_loopback(struct bytes name)
{
	char           text[INET_ADDRSTRLEN] = "";
	struct in_addr v4;

	if (equal_folded(name, BYTES("localhost")) || bytes_is(name, "[::1]"))
		return true;
	if (name.len >= sizeof(text))
		return false;
	memcpy(text, name.data, name.len);
	return inet_pton(AF_INET, text, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

static struct bytes next_name(struct bytes *rest)
{
	const char  *comma = memchr(rest->data, ',', rest->len);
	struct bytes name = {rest->data, comma == NULL ? rest->len : (size_t)(comma - rest->data)};

	*rest = without(*rest, name.len + (comma != NULL));
	return name;
}

static bool is_listed(const struct api *api, struct bytes name)
{
	struct bytes rest = api->parts.host_names;

	while (rest.len > 0)
		if (equal_folded(next_name(&rest), name))
			return true;
	return false;
}

enum err_code origin_names_check(struct bytes names, struct err *err)
{
	struct bytes rest = names;

	while (rest.len > 0)
		if (!is_name(next_name(&rest), "-._"))
			return err_set(err, ERR_INVALID,
			               "host-names: must be host names, without port, separated by commas");
	if (names.len > HOST_NAMES_BYTES_MAX)
		return err_set(err, ERR_INVALID, "host-names: must have at most %d bytes",
		               HOST_NAMES_BYTES_MAX);
	return ERR_NONE;
}

/* As much of it as an error may repeat. */
static struct bytes shown(struct bytes sent)
{
	return is_name(sent, "-._:/[]") && sent.len <= HOST_SHOWN_MAX ? sent : BYTES("(not shown)");
}

/* A page of this very server, or of a name that was allowed. */
static bool origin_fits(const struct api *api, const struct http_request *r, struct bytes origin,
                        struct bytes host)
{
	struct bytes scheme = r->secure ? BYTES("https://") : BYTES("http://");
	const char  *slashes = memmem(origin.data, origin.len, "://", 3);

	if (bytes_starts_with(origin, scheme) && equal_folded(without(origin, scheme.len), host))
		return true;
	return slashes != NULL &&
	       is_listed(api, name_of(without(origin, (size_t)(slashes - origin.data) + 3)));
}

enum err_code origin_check(const struct api *api, const struct http_request *r, struct err *err)
{
	struct bytes host, origin, site;

	if (api->parts.keyring != NULL)
		return ERR_NONE;
	host = http_header_get(r, "host");
	origin = http_header_get(r, "origin");
	site = http_header_get(r, "sec-fetch-site");
	if (host.data != NULL && !is_loopback(name_of(host)) && !is_listed(api, name_of(host)))
		return err_set(
		        err, ERR_ORIGIN,
		        "Host: %.*s is not a name of this server. Without authentication it answers to "
		        "localhost, 127.0.0.1, [::1] and the names in the setting host-names",
		        BYTES_ARG(shown(host)));
	if (origin.data != NULL && !origin_fits(api, r, origin, host))
		return err_set(err, ERR_ORIGIN,
		               "Origin: %.*s is the page of another site. Without authentication, only "
		               "programs and pages from hosts in the setting host-names are answered",
		               BYTES_ARG(shown(origin)));
	if (origin.data == NULL && site.data != NULL && !bytes_is(site, "same-origin") &&
	    !bytes_is(site, "none"))
		return err_set(err, ERR_ORIGIN,
		               "Sec-Fetch-Site: a browser sent this for the page of another site. Without "
		               "authentication, only programs and pages from hosts in the setting host-names "
		               "are answered");
	return ERR_NONE;
}
