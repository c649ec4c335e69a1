/* Matching: segment by segment, over the table. Segments are compared as they came and decoded afterwards, so
 * that an id may hold an encoded slash. */
#include "api/v1_match.h"

#include <stdio.h>

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
	                              : -1;
}

bool percent_decode(struct arena *a, struct bytes text, bool plus, struct bytes *out)
{
	char  *to = arena_alloc(a, text.len + 1);
	size_t len = 0;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (c == '%') {
			if (text.len - i < 3 || hex_digit(text.data[i + 1]) < 0 ||
			    hex_digit(text.data[i + 2]) < 0)
				return false;
			c = (char)(hex_digit(text.data[i + 1]) * 16 + hex_digit(text.data[i + 2]));
			i += 2;
		} else if (c == '+' && plus) {
			c = ' ';
		}
		to[len++] = c;
	}
	*out = (struct bytes){to, len};
	return bytes_is_utf8(*out);
}

/* The text up to the next slash; moves past it. */
static struct bytes segment_next(struct bytes *path)
{
	struct bytes segment = {path->data, 0};

	while (segment.len < path->len && path->data[segment.len] != '/')
		segment.len++;
	path->data += segment.len;
	path->len -= segment.len;
	if (path->len > 0)
		*path = (struct bytes){path->data + 1, path->len - 1};
	return segment;
}

#define WHATEVER "{*}"

/* What every path that fits begins with. */
static struct bytes literal_of(const char *pattern)
{
	size_t len = strcspn(pattern, "{");

	while (len > 0 && pattern[len - 1] == '/')
		len--;
	return (struct bytes){pattern, len};
}

static bool path_fits(const char *pattern, struct bytes path, struct bytes params[V1_PARAMS_MAX])
{
	struct bytes rest = bytes_of(pattern);
	size_t       count = 0;

	if (!bytes_starts_with(path, literal_of(pattern))) /* most are told apart here, at once */
		return false;
	while (rest.len > 0 && path.len > 0 && !bytes_is(rest, WHATEVER)) {
		struct bytes want = segment_next(&rest), got = segment_next(&path);

		if (want.len > 0 && want.data[0] == '{') {
			if (got.len == 0 || count == V1_PARAMS_MAX)
				return false;
			params[count++] = got;
		} else if (!bytes_equal(want, got)) {
			return false;
		}
	}
	return bytes_is(rest, WHATEVER) || (rest.len == 0 && path.len == 0);
}

static bool params_decode(struct http_request *r, struct bytes params[V1_PARAMS_MAX])
{
	for (int i = 0; i < V1_PARAMS_MAX; i++)
		if (params[i].data != NULL && !percent_decode(&r->arena, params[i], false, &params[i]))
			return false;
	return true;
}

static void allowed_write(unsigned methods, char *out, size_t len)
{
	static const struct {
		enum http_method method;
		const char      *name;
	} names[] = {{HTTP_GET, "GET, HEAD"},
	             {HTTP_POST, "POST"},
	             {HTTP_PUT, "PUT"},
	             {HTTP_DELETE, "DELETE"},
	             {HTTP_PATCH, "PATCH"}};
	size_t at = 0;

	out[0] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (methods >> names[i].method & 1)
			at += (size_t)snprintf(out + at, len - at, "%s%s", at > 0 ? ", " : "", names[i].name);
}

enum v1_outcome v1_match(struct http_request *r, struct v1_match *out)
{
	enum http_method method = r->method == HTTP_HEAD ? HTTP_GET : r->method;
	unsigned         methods = 0;

	for (unsigned i = 0; v1_route_at(i) != NULL; i++) {
		const struct v1_route *route = v1_route_at(i);

		memset(out->params, 0, sizeof(out->params));
		if (!path_fits(route->path, r->path, out->params))
			continue;
		if (route->method == method || route->method == HTTP_OTHER) {
			out->route = route;
			return params_decode(r, out->params) ? V1_MATCHED : V1_BAD_PATH;
		}
		methods |= 1u << route->method;
	}
	if (methods == 0)
		return V1_NO_PATH;
	allowed_write(methods, out->allowed, sizeof(out->allowed));
	return V1_OTHER_METHOD;
}

/* ---- the query ---- */

struct bytes v1_query(struct v1_call *c, const char *name, struct err *err)
{
	struct bytes rest = c->http->query, value;

	while (rest.len > 0) {
		const char  *end = memchr(rest.data, '&', rest.len);
		struct bytes pair = {rest.data, end == NULL ? rest.len : (size_t)(end - rest.data)};
		const char  *equals = memchr(pair.data, '=', pair.len);
		struct bytes key = {pair.data, equals == NULL ? pair.len : (size_t)(equals - pair.data)};

		rest = end == NULL ? (struct bytes){NULL, 0}
		                   : (struct bytes){end + 1, rest.len - pair.len - 1};
		if (!bytes_is(key, name))
			continue;
		value = equals == NULL ? BYTES("") : (struct bytes){equals + 1, pair.len - key.len - 1};
		if (percent_decode(c->arena, value, true, &value))
			return value;
		err_field(err, ERR_INVALID, name, "?%s cannot be percent-decoded", name);
		break;
	}
	return (struct bytes){NULL, 0};
}
