/* SigV4 sign: the text that both sides derive from a request, each on its own, and signing a request that goes out.
 *
 *   method \n path \n query \n { name : values \n } \n names \n SHA-256 of the body
 *
 * What always holds: apart from those written here, the text contains no line break, so that no part can be
 * taken for another. */
#include "dynamo/sigv4_parts.h"

#include <assert.h>
#include <stdlib.h>

#include "item/messages.h"

enum { METHOD_CHARS_MAX = 16 };

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
			buf_add_percent(out, segment.data[i]);
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
			buf_add_percent(&out, (char)(high * 16 + low));
			i += 2;
		} else {
			buf_add_percent(&out, raw.data[i]);
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

		if (!bytes_equal_lower(name, r->headers[i].name))
			continue;
		buf_reserve(out, value.len + 1);
		out->data[out->len++] = mark;
		out->len = (size_t)(value_fold(out->data + out->len, value) - out->data);
		mark = ',';
	}
	buf_add_byte(out, '\n');
}

/* ---- the whole text ---- */

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

void sigv4_string_write(struct buf *out, const char date[DATE_BASIC_CHARS], struct bytes scope,
                        struct bytes canonical_request)
{
	struct bytes head = BYTES(SIGV4_ALGORITHM "\n");

	buf_reserve(out, head.len + DATE_BASIC_CHARS + scope.len + SHA256_HEX_CHARS + 2);
	buf_add_bytes(out, head);
	buf_add(out, date, DATE_BASIC_CHARS);
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

/* ---- signing ----
 * The request's headers and the two that are added are listed, sorted and read again by the same code that reads a
 * client's list, so that what is signed here passes there. */

/* What a proxy or the transport may change or add under way. */
static const struct bytes unsigned_headers[] = {BYTES_INIT("connection"), BYTES_INIT("expect"),
                                                BYTES_INIT("transfer-encoding"), BYTES_INIT("user-agent"),
                                                BYTES_INIT("x-amzn-trace-id")};

static bool header_is_signed(struct bytes name)
{
	for (size_t i = 0; i < sizeof(unsigned_headers) / sizeof(unsigned_headers[0]); i++)
		if (bytes_equal_lower(unsigned_headers[i], name))
			return false;
	return true;
}

static void header_add(struct sigv4_addition *out, struct bytes name, struct bytes value)
{
	assert(out->count < SIGV4_ADDED_MAX);
	out->headers[out->count++] = (struct sigv4_header){name, value};
}

/* The request as it will be sent, but for the signature itself. */
static struct sigv4_request request_extend(const struct sigv4_request *r, const struct sigv4_addition *added,
                                           struct arena *a)
{
	struct sigv4_request full = *r;
	struct sigv4_header *headers = arena_array(a, r->header_count + added->count, sizeof(headers[0]));

	for (unsigned i = 0; i < r->header_count; i++)
		headers[i] = r->headers[i];
	for (unsigned i = 0; i < added->count; i++)
		headers[r->header_count + i] = added->headers[i];
	full.headers = headers;
	full.header_count = r->header_count + added->count;
	return full;
}

static int name_compare(const void *a, const void *b)
{
	return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

static size_t names_collect(const struct sigv4_request *r, struct arena *a, struct bytes *names)
{
	size_t count = 0;

	for (unsigned i = 0; i < r->header_count; i++) {
		struct bytes name = r->headers[i].name;
		char        *lower;

		if (!header_is_signed(name))
			continue;
		lower = arena_alloc(a, name.len);
		bytes_lower(name, lower);
		names[count++] = (struct bytes){lower, name.len};
	}
	qsort(names, count, sizeof(names[0]), name_compare);
	return count;
}

static enum err_code names_choose(const struct sigv4_request *r, struct arena *a, struct sigv4_names *out,
                                  struct err *err)
{
	struct bytes *names = arena_array(a, r->header_count, sizeof(names[0]));
	size_t        count = names_collect(r, a, names);
	struct buf    text;

	buf_init(&text, a);
	for (size_t i = 0; i < count; i++) {
		if (i > 0 && bytes_equal(names[i - 1], names[i]))
			continue;
		if (i > 0)
			buf_add_byte(&text, ';');
		buf_add_bytes(&text, names[i]);
	}
	if (sigv4_names_read(buf_bytes(&text), out, err) != ERR_NONE)
		return err->code;
	return sigv4_names_cover(out, r, err);
}

struct signing {
	struct sigv4_request           full; /* with the headers that were added */
	const struct sigv4_credential *credential;
	struct arena                  *arena;
	char                          *date; /* DATE_BASIC_CHARS */
	struct sigv4_scope             scope;
	struct sigv4_names             names;
};

static enum err_code scope_make(struct signing *s, struct err *err)
{
	const struct sigv4_credential *c = s->credential;
	struct bytes                   text =
	        arena_printf(s->arena, "%.*s/%.*s/%.*s/%.*s/" SIGV4_TERMINATOR, BYTES_ARG(c->key_id),
	                     SIGV4_DAY_CHARS, s->date, BYTES_ARG(c->region), BYTES_ARG(s->full.service));

	if (c->secret.len > SIGV4_SECRET_MAX)
		return err_set(err, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_CREDENTIAL);
	return sigv4_scope_read(text, &s->scope, err);
}

static void text_sign(const struct signing *s, struct bytes text, uint8_t mac[SHA256_BYTES])
{
	struct bytes            secret = s->credential->secret;
	struct sigv4_key_cache *cache = s->credential->cache;
	const struct hmac_key  *cached = cache == NULL ? NULL : sigv4_key_find(cache, &s->scope, secret);
	struct hmac_key         key;

	if (cached != NULL) {
		hmac_sha256(cached, text, mac);
		return;
	}
	sigv4_key_derive(&key, secret, &s->scope);
	hmac_sha256(&key, text, mac);
	if (cache != NULL)
		sigv4_key_keep(cache, &s->scope, secret, &key);
	crypto_wipe(&key, sizeof(key));
}

static enum err_code request_sign(const struct signing *s, char hex[SHA256_HEX_CHARS], struct err *err)
{
	struct buf canonical, text;
	uint8_t    mac[SHA256_BYTES];

	buf_init(&canonical, s->arena);
	sigv4_body_hex(&s->full, hex);
	if (sigv4_canonical_write(&canonical, &s->full, &s->names, hex, err) != ERR_NONE)
		return err->code;
	buf_init(&text, s->arena);
	sigv4_string_write(&text, s->date, s->scope.text, buf_bytes(&canonical));
	text_sign(s, buf_bytes(&text), mac);
	hex_write((struct bytes){(const char *)mac, sizeof(mac)}, hex);
	return ERR_NONE;
}

static enum err_code authorization_add(struct signing *s, struct sigv4_addition *out, struct err *err)
{
	char         hex[SHA256_HEX_CHARS];
	struct bytes value;

	if (names_choose(&s->full, s->arena, &s->names, err) != ERR_NONE ||
	    request_sign(s, hex, err) != ERR_NONE)
		return err->code;
	value = arena_printf(s->arena,
	                     SIGV4_ALGORITHM " Credential=%.*s/%.*s, SignedHeaders=%.*s, Signature=%.*s",
	                     BYTES_ARG(s->scope.key_id), BYTES_ARG(s->scope.text), BYTES_ARG(s->names.text),
	                     SHA256_HEX_CHARS, hex);
	if (value.len > SIGV4_AUTHORIZATION_MAX)
		return err_set(err, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_LONG, SIGV4_AUTHORIZATION_MAX);
	header_add(out, BYTES("Authorization"), value);
	return ERR_NONE;
}

enum err_code sigv4_sign(const struct sigv4_request *r, const struct sigv4_credential *c, struct arena *a,
                         struct sigv4_addition *out, struct err *err)
{
	struct signing s = {.full = *r, .credential = c, .arena = a};

	out->count = 0;
	s.date = arena_alloc(a, DATE_BASIC_CHARS);
	date_write_basic(r->now_us / 1000000, s.date);
	if (scope_make(&s, err) != ERR_NONE)
		return err->code;
	header_add(out, BYTES("X-Amz-Date"), (struct bytes){s.date, DATE_BASIC_CHARS});
	if (c->token.len > 0)
		header_add(out, BYTES("X-Amz-Security-Token"), c->token);
	s.full = request_extend(r, out, a);
	return authorization_add(&s, out, err);
}
