/* SigV4 sign: the way out. The request's headers and the two that are added are listed, sorted and read again
 * by the same code that reads a client's list, so that what is signed here passes there. */
#include "dynamo/sigv4.h"

#include <assert.h>
#include <stdlib.h>

#include "dynamo/sigv4_canonical.h"
#include "dynamo/sigv4_key.h"
#include "item/messages.h"

/* What a proxy or the transport may change or add under way. */
static const struct bytes unsigned_headers[] = {BYTES_INIT("connection"), BYTES_INIT("expect"),
                                                BYTES_INIT("transfer-encoding"), BYTES_INIT("user-agent"),
                                                BYTES_INIT("x-amzn-trace-id")};

static bool header_is_signed(struct bytes name)
{
	for (size_t i = 0; i < sizeof(unsigned_headers) / sizeof(unsigned_headers[0]); i++)
		if (sigv4_name_equal(unsigned_headers[i], name))
			return false;
	return true;
}

/* ---- headers ---- */

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

static struct bytes name_lower(struct arena *a, struct bytes name)
{
	char *lower = arena_alloc(a, name.len);

	for (size_t i = 0; i < name.len; i++) {
		char c = name.data[i];

		lower[i] = c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
	}
	return (struct bytes){lower, name.len};
}

static int name_compare(const void *a, const void *b)
{
	return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

static size_t names_collect(const struct sigv4_request *r, struct arena *a, struct bytes *names)
{
	size_t count = 0;

	for (unsigned i = 0; i < r->header_count; i++)
		if (header_is_signed(r->headers[i].name))
			names[count++] = name_lower(a, r->headers[i].name);
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

/* ---- the signature ---- */

struct signing {
	struct sigv4_request           full; /* with the headers that were added */
	const struct sigv4_credential *credential;
	struct sigv4_key_cache        *cache;
	struct arena                  *arena;
	char                          *date; /* SIGV4_DATE_CHARS */
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
	struct bytes           secret = s->credential->secret;
	const struct hmac_key *cached = s->cache == NULL ? NULL : sigv4_key_find(s->cache, &s->scope, secret);
	struct hmac_key        key;

	if (cached != NULL) {
		hmac_sha256(cached, text, mac);
		return;
	}
	sigv4_key_derive(&key, secret, &s->scope);
	hmac_sha256(&key, text, mac);
	if (s->cache != NULL)
		sigv4_key_keep(s->cache, &s->scope, secret, &key);
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

enum err_code sigv4_sign(const struct sigv4_request *r, const struct sigv4_credential *c,
                         struct sigv4_key_cache *cache, int64_t now_us, struct arena *a,
                         struct sigv4_addition *out, struct err *err)
{
	struct signing s = {.full = *r, .credential = c, .cache = cache, .arena = a};

	out->count = 0;
	s.date = arena_alloc(a, SIGV4_DATE_CHARS);
	sigv4_date_write(now_us / 1000000, s.date);
	if (scope_make(&s, err) != ERR_NONE)
		return err->code;
	header_add(out, BYTES("X-Amz-Date"), (struct bytes){s.date, SIGV4_DATE_CHARS});
	if (c->token.len > 0)
		header_add(out, BYTES("X-Amz-Security-Token"), c->token);
	s.full = request_extend(r, out, a);
	return authorization_add(&s, out, err);
}
