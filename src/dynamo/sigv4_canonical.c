/* SigV4 canonical:
 *
 *   method \n path \n query \n { name : values \n } \n names \n SHA-256 of the body
 *
 * What always holds: apart from those written here, the text contains no line break, so that no part can be
 * taken for another. */
#include "dynamo/sigv4_canonical.h"

#include <stdlib.h>

#include "item/messages.h"

enum { METHOD_CHARS_MAX = 16 };

/* ---- percent-encoding ---- */

static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
	       c == '.' || c == '_' || c == '~';
}

static void encode_byte(struct buf *out, char c)
{
	static const char digits[] = "0123456789ABCDEF";
	uint8_t           byte = (uint8_t)c;

	if (is_unreserved(c)) {
		buf_add_byte(out, byte);
		return;
	}
	buf_add_byte(out, '%');
	buf_add_byte(out, (uint8_t)digits[byte >> 4]);
	buf_add_byte(out, (uint8_t)digits[byte & 15]);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* ---- path ---- */

static struct bytes segment_take(struct bytes *rest)
{
	const char  *slash = memchr(rest->data, '/', rest->len);
	struct bytes segment = {rest->data, slash == NULL ? rest->len : (size_t)(slash - rest->data)};
	size_t       taken = segment.len + (slash != NULL);

	*rest = (struct bytes){rest->data + taken, rest->len - taken};
	return segment;
}

/* Takes back "/last" of what was written from `start` on. */
static void segment_drop(struct buf *out, size_t start)
{
	while (out->len > start)
		if (out->data[--out->len] == '/')
			break;
}

/* The path was encoded for the wire already and is encoded once more here: '%' becomes "%25". Only S3
 * differs. Empty and "." segments vanish, ".." takes its predecessor with it. */
static void path_write(struct buf *out, struct bytes path)
{
	size_t       start = out->len;
	struct bytes rest = path;

	while (rest.len > 0) {
		struct bytes segment = segment_take(&rest);

		if (bytes_is(segment, "..")) {
			segment_drop(out, start);
			continue;
		}
		if (segment.len == 0 || bytes_is(segment, "."))
			continue;
		buf_add_byte(out, '/');
		for (size_t i = 0; i < segment.len; i++)
			encode_byte(out, segment.data[i]);
	}
	if (out->len == start || path.data[path.len - 1] == '/')
		buf_add_byte(out, '/');
}

/* ---- query ---- */

struct parameter {
	struct bytes name, value; /* in canonical form */
};

static int parameter_compare(const void *left, const void *right)
{
	const struct parameter *a = left;
	const struct parameter *b = right;
	int                     order = bytes_compare(a->name, b->name);

	return order != 0 ? order : bytes_compare(a->value, b->value);
}

/* What was encoded for the wire is decoded and encoded in the one right way. '+' stays '+': some read it as a
 * space and some as itself, and so neither may stand for the other under one signature. */
static struct bytes query_part(struct arena *a, struct bytes raw)
{
	struct buf out;

	buf_init(&out, a);
	buf_reserve(&out, 3 * raw.len);
	for (size_t i = 0; i < raw.len; i++) {
		int high = raw.data[i] == '%' && raw.len - i > 2 ? hex_digit(raw.data[i + 1]) : -1;
		int low = high >= 0 ? hex_digit(raw.data[i + 2]) : -1;

		if (raw.data[i] == '+') {
			buf_add_byte(&out, '+');
		} else if (low >= 0) {
			encode_byte(&out, (char)(high * 16 + low));
			i += 2;
		} else {
			encode_byte(&out, raw.data[i]);
		}
	}
	return buf_bytes(&out);
}

static struct parameter parameter_read(struct arena *a, struct bytes pair)
{
	const char  *equal = pair.len == 0 ? NULL : memchr(pair.data, '=', pair.len);
	struct bytes name = {pair.data, equal == NULL ? pair.len : (size_t)(equal - pair.data)};
	struct bytes value = {equal == NULL ? NULL : equal + 1, equal == NULL ? 0 : pair.len - name.len - 1};

	return (struct parameter){query_part(a, name), query_part(a, value)};
}

static size_t parameters_count(struct bytes query)
{
	size_t count = 1;

	for (size_t i = 0; i < query.len; i++)
		count += query.data[i] == '&';
	return count;
}

static void parameters_read(struct arena *a, struct bytes query, struct parameter *list, size_t count)
{
	const char *at = query.data;
	const char *end = query.data + query.len;

	for (size_t i = 0; i < count; i++) {
		const char *stop = memchr(at, '&', (size_t)(end - at));

		stop = stop == NULL ? end : stop;
		list[i] = parameter_read(a, (struct bytes){at, (size_t)(stop - at)});
		at = stop + (stop < end);
	}
}

static enum err_code query_write(struct buf *out, struct bytes query, struct err *err)
{
	struct parameter list[SIGV4_QUERY_MAX];
	size_t           count = parameters_count(query);

	if (query.len == 0)
		return ERR_NONE;
	if (count > SIGV4_QUERY_MAX)
		return err_set(err, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_QUERY_MAX, SIGV4_QUERY_MAX);
	parameters_read(out->arena, query, list, count);
	qsort(list, count, sizeof(list[0]), parameter_compare);
	for (size_t i = 0; i < count; i++) {
		if (i > 0)
			buf_add_byte(out, '&');
		buf_add_bytes(out, list[i].name);
		buf_add_byte(out, '=');
		buf_add_bytes(out, list[i].value);
	}
	return ERR_NONE;
}

/* ---- headers ---- */

static bool is_space(char c)
{
	return (uint8_t)c <= ' ' && (c == ' ' || (c >= '\t' && c <= '\r'));
}

/* White space at the ends vanishes, a run of it within becomes one space. A run that holds a line break
 * separates two values, as if the header had been sent twice. `at` has room for the whole value. */
static char *value_fold(char *at, struct bytes value)
{
	char *start = at;
	char  gap = '\0';

	for (size_t i = 0; i < value.len; i++) {
		char c = value.data[i];

		if (is_space(c)) {
			gap = c == '\n' ? ',' : gap == '\0' ? ' ' : gap;
			continue;
		}
		if (gap != '\0') {
			*at = gap;
			at += at != start;
			gap = '\0';
		}
		*at++ = c;
	}
	return at;
}

static void header_write(struct buf *out, const struct sigv4_request *r, struct bytes name)
{
	char mark = ':';

	buf_add_bytes(out, name);
	for (unsigned i = 0; i < r->header_count; i++) {
		struct bytes value = r->headers[i].value;

		if (!sigv4_name_equal(name, r->headers[i].name))
			continue;
		buf_reserve(out, value.len + 1);
		out->data[out->len++] = mark;
		out->len = (size_t)(value_fold(out->data + out->len, value) - out->data);
		mark = ',';
	}
	buf_add_byte(out, '\n');
}

/* ---- the whole ---- */

static bool method_is_plain(struct bytes method)
{
	for (size_t i = 0; i < method.len; i++)
		if (method.data[i] < 'A' || method.data[i] > 'Z')
			return false;
	return method.len > 0 && method.len <= METHOD_CHARS_MAX;
}

/* Room for all of a usual request at once. */
static size_t size_guess(const struct sigv4_request *r, const struct sigv4_names *names)
{
	size_t size =
	        METHOD_CHARS_MAX + 3 * (r->path.len + r->query.len) + names->text.len + SHA256_HEX_CHARS + 8;

	for (unsigned i = 0; i < r->header_count; i++)
		size += r->headers[i].name.len + r->headers[i].value.len + 2;
	return size;
}

enum err_code sigv4_canonical_write(struct buf *out, const struct sigv4_request *r,
                                    const struct sigv4_names *names, const char body_hex[SHA256_HEX_CHARS],
                                    struct err *err)
{
	if (!method_is_plain(r->method))
		return err_set(err, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
	buf_reserve(out, size_guess(r, names));
	buf_add_bytes(out, r->method);
	buf_add_byte(out, '\n');
	path_write(out, r->path);
	buf_add_byte(out, '\n');
	if (query_write(out, r->query, err) != ERR_NONE)
		return err->code;
	buf_add_byte(out, '\n');
	for (unsigned i = 0; i < names->count; i++)
		header_write(out, r, names->names[i]);
	buf_add_byte(out, '\n');
	buf_add_bytes(out, names->text);
	buf_add_byte(out, '\n');
	buf_add(out, body_hex, SHA256_HEX_CHARS);
	return ERR_NONE;
}

void sigv4_string_write(struct buf *out, const char date[SIGV4_DATE_CHARS], struct bytes scope,
                        struct bytes canonical_request)
{
	struct bytes head = BYTES(SIGV4_ALGORITHM "\n");

	buf_reserve(out, head.len + SIGV4_DATE_CHARS + scope.len + SHA256_HEX_CHARS + 2);
	buf_add_bytes(out, head);
	buf_add(out, date, SIGV4_DATE_CHARS);
	buf_add_byte(out, '\n');
	buf_add_bytes(out, scope);
	buf_add_byte(out, '\n');
	sha256_hex(canonical_request, out->data + out->len);
	out->len += SHA256_HEX_CHARS;
}

void sigv4_body_hex(const struct sigv4_request *r, char hex[SHA256_HEX_CHARS])
{
	if (r->body_sha256 != NULL)
		hex_write((struct bytes){(const char *)r->body_sha256, SHA256_BYTES}, hex);
	else
		sha256_hex(r->body, hex);
}
