/* Identifiers: normalising by kind, and the keyed hash. The kind is part of what is hashed, so that equal
 * texts of two kinds have nothing in common. */
#include "service/identifier.h"

#include <arpa/inet.h>

#include "json/base64.h"

static const char *const kinds[] = {
#define X(id, name) [id] = name,
        IDENTIFIER_KINDS(X)
#undef X
};

void identifier_key_init(struct identifier_key *k, const uint8_t secret[IDENTIFIER_KEY_BYTES])
{
	hmac_key_init(&k->hmac, (struct bytes){(const char *)secret, IDENTIFIER_KEY_BYTES});
}

#define IDENTIFIER_PHONE_FORM                                                                                \
	": must be in E.164: + and 7 to 15 digits, as in +442071838750; without spaces, brackets or a "      \
	"leading 00"

/* ---- normalising (email.h has addresses): out has room for as many bytes as the text has, and at least 16 ---- */

bool identifier_phone_is(struct bytes text)
{
	uint64_t number;

	return text.len >= 1 + IDENTIFIER_DIGITS_MIN && text.len <= 1 + IDENTIFIER_DIGITS_MAX &&
	       text.data[0] == '+' && text.data[1] != '0' &&
	       bytes_to_u64((struct bytes){text.data + 1, text.len - 1}, UINT64_MAX, &number);
}

/* One number, one text: how else it may be written depends on the country, and is the caller's to resolve. */
static size_t phone_normalise(struct bytes text, char *out)
{
	if (!identifier_phone_is(text))
		return 0;
	memcpy(out, text.data, text.len);
	return text.len;
}

bool identifier_ip_parse(struct bytes text, uint8_t out[16])
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	char                 terminated[INET6_ADDRSTRLEN];

	if (text.len == 0 || text.len >= sizeof(terminated))
		return false;
	memcpy(terminated, text.data, text.len);
	terminated[text.len] = '\0';
	if (strlen(terminated) != text.len)
		return false;
	memcpy(out, mapped, sizeof(mapped));
	return inet_pton(AF_INET, terminated, out + 12) == 1 || inet_pton(AF_INET6, terminated, out) == 1;
}

/* An IPv6 network of 64 bits is one customer's: whoever has it has all its addresses. */
static size_t ip_normalise(struct bytes text, uint8_t out[16])
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	if (!identifier_ip_parse(text, out))
		return 0;
	if (memcmp(out, mapped, sizeof(mapped)) != 0)
		memset(out + 8, 0, 8);
	return 16;
}

static size_t normalise(enum identifier_kind kind, struct bytes text, char *out)
{
	switch (kind) {
	case IDENTIFIER_EMAIL:
		return email_normalise(text, out);
	case IDENTIFIER_PHONE:
		return phone_normalise(text, out);
	case IDENTIFIER_IP:
		return ip_normalise(text, (uint8_t *)out);
	case IDENTIFIER_DEVICE:
	case IDENTIFIER_KIND_COUNT:
		break;
	}
	memcpy(out, text.data, text.len);
	return text.len <= IDENTIFIER_DEVICE_MAX ? text.len : 0;
}

/* ---- hashing ---- */

#define NETWORK_SUFFIX "/48"

enum { NETWORK_BYTES = 6 };

/* *normal is what was hashed. */
static bool normal_hash(const struct identifier_key *k, struct arena *a, enum identifier_kind kind,
                        struct bytes *normal, struct bytes *out)
{
	struct bytes text = *normal;
	size_t       prefix = strlen(kinds[kind]) + 1;
	size_t       room = kind == IDENTIFIER_EMAIL ? EMAIL_NORMAL_BYTES_MAX : text.len + 16;
	char        *message = arena_alloc(a, prefix + room);
	char        *id = arena_alloc(a, prefix + IDENTIFIER_HASH_CHARS);
	uint8_t      mac[SHA256_BYTES];
	size_t       len;

	memcpy(message, kinds[kind], prefix - 1);
	message[prefix - 1] = ':';
	len = text.len == 0 ? 0 : normalise(kind, text, message + prefix);
	if (len == 0)
		return false;
	hmac_sha256(&k->hmac, (struct bytes){message, prefix + len}, mac);
	memcpy(id, message, prefix);
	base64_url_write((struct bytes){(const char *)mac, IDENTIFIER_HASH_CHARS / 4 * 3}, id + prefix);
	*out = (struct bytes){id, prefix + IDENTIFIER_HASH_CHARS};
	*normal = (struct bytes){message + prefix, len};
	return true;
}

struct bytes identifier_of_row_email(const struct identifier_key *k, struct arena *a, struct bytes email)
{
	char         normal[EMAIL_NORMAL_BYTES_MAX];
	struct bytes text = {normal, email_of_row(email, normal)};

	return arena_printf(a, "%s:%.*s", kinds[IDENTIFIER_EMAIL],
	                    BYTES_ARG(identifier_hash_text(k, a, kinds[IDENTIFIER_EMAIL], text)));
}

bool identifier_hash(const struct identifier_key *k, struct arena *a, enum identifier_kind kind,
                     struct bytes text, struct bytes *out)
{
	return normal_hash(k, a, kind, &text, out);
}

/* What is hashed ends unlike any address, for the first source of a network is not the network. */
bool identifier_hash_network(const struct identifier_key *k, struct arena *a, struct bytes address,
                             struct bytes *out)
{
	char    message[] = "ip:......" NETWORK_SUFFIX;
	char   *id = arena_alloc(a, 3 + IDENTIFIER_HASH_CHARS);
	uint8_t ip[16], mac[SHA256_BYTES];

	if (!identifier_ip_parse(address, ip) || address_is_v4(ip))
		return false;
	memcpy(message + 3, ip, NETWORK_BYTES);
	hmac_sha256(&k->hmac, (struct bytes){message, sizeof(message) - 1}, mac);
	memcpy(id, message, 3);
	base64_url_write((struct bytes){(const char *)mac, IDENTIFIER_HASH_CHARS / 4 * 3}, id + 3);
	*out = (struct bytes){id, 3 + IDENTIFIER_HASH_CHARS};
	return true;
}

struct bytes identifier_hash_text(const struct identifier_key *k, struct arena *a, const char *purpose,
                                  struct bytes text)
{
	struct bytes message = arena_printf(a, "%s:%.*s", purpose, BYTES_ARG(text));
	char        *out = arena_alloc(a, IDENTIFIER_HASH_CHARS);
	uint8_t      mac[SHA256_BYTES];

	hmac_sha256(&k->hmac, message, mac);
	base64_url_write((struct bytes){(const char *)mac, IDENTIFIER_HASH_CHARS / 4 * 3}, out);
	return (struct bytes){out, IDENTIFIER_HASH_CHARS};
}

/* ---- reading ---- */

static bool is_hash(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		      c == '-' || c == '_'))
			return false;
	}
	return text.len == IDENTIFIER_HASH_CHARS;
}

bool identifier_is(struct bytes text, enum identifier_kind kind)
{
	size_t len = strlen(kinds[kind]);

	return text.len > len && text.data[len] == ':' && memcmp(text.data, kinds[kind], len) == 0 &&
	       is_hash((struct bytes){text.data + len + 1, text.len - len - 1});
}

bool identifier_is_hashed(struct bytes text)
{
	for (int i = 0; i < IDENTIFIER_KIND_COUNT; i++)
		if (identifier_is(text, (enum identifier_kind)i))
			return true;
	return false;
}

/* An id that looks like "email:someone@example" was meant to be an object: it would be stored as it is. */
static bool is_plain(struct bytes text)
{
	for (int i = 0; i < IDENTIFIER_KIND_COUNT; i++) {
		size_t len = strlen(kinds[i]);

		if (text.len > len && text.data[len] == ':' && memcmp(text.data, kinds[i], len) == 0)
			return is_hash((struct bytes){text.data + len + 1, text.len - len - 1});
	}
	return true;
}

static struct bytes plain_read(struct fields *f, const char *name, struct bytes text)
{
	if (text.len < 1 || text.len > IDENTIFIER_BYTES_MAX)
		fields_fail(f, name, ERR_INVALID, "must have 1 to %d bytes, not %zu", IDENTIFIER_BYTES_MAX,
		            text.len);
	else if (!is_plain(text))
		fields_fail(f, name, ERR_INVALID,
		            "must be an object like {\"email\": …}, because it is a personal value");
	return text;
}

static bool kind_hash(const struct identifier_key *k, struct arena *a, enum identifier_kind kind,
                      struct bytes *text, struct bytes *out)
{
	size_t suffix = strlen(NETWORK_SUFFIX);

	if (kind == IDENTIFIER_IP && text->len > suffix &&
	    memcmp(text->data + text->len - suffix, NETWORK_SUFFIX, suffix) == 0)
		return identifier_hash_network(k, a, (struct bytes){text->data, text->len - suffix}, out);
	return normal_hash(k, a, kind, text, out);
}

static struct identifier personal_read(const struct identifier_key *k, struct arena *a, struct fields *f,
                                       const char *name, const struct json *member)
{
	struct identifier out = {{NULL, 0}, {NULL, 0}};

	for (int i = 0; i < IDENTIFIER_KIND_COUNT; i++) {
		struct bytes text;

		if (member->count != 1 || !bytes_is(json_children(member)->name, kinds[i]))
			continue;
		text = json_text(json_children(member));
		if (json_children(member)->type != JSON_STRING ||
		    !kind_hash(k, a, (enum identifier_kind)i, &text, &out.id))
			fields_fail(f, name, ERR_INVALID, "not a valid %s%s", kinds[i],
			            i == IDENTIFIER_PHONE ? IDENTIFIER_PHONE_FORM : "");
		else if (i == IDENTIFIER_EMAIL)
			out.email = text;
		return out;
	}
	fields_fail(f, name, ERR_INVALID,
	            "must be an id, or an object with exactly one member: email, phone, ip or device");
	return out;
}

static struct identifier any_read(const struct identifier_key *k, struct arena *a, struct fields *f,
                                  const char *name, const struct json *member)
{
	if (member == NULL || member->type == JSON_NULL)
		fields_fail(f, name, ERR_INVALID, "missing");
	else if (member->type == JSON_STRING)
		return (struct identifier){plain_read(f, name, json_text(member)), {NULL, 0}};
	else if (member->type == JSON_OBJECT)
		return personal_read(k, a, f, name, member);
	else
		fields_fail(f, name, ERR_SERIALIZATION, "must be a string or an object, not %s",
		            json_type_name(member->type));
	return (struct identifier){{NULL, 0}, {NULL, 0}};
}

struct bytes identifier_read_key(const struct identifier_key *k, struct arena *a, struct fields *f,
                                 const char *name, const struct json *member)
{
	return any_read(k, a, f, name, member).id;
}

/* ---- what is personal on its face ---- */

static bool phone_like(struct bytes text)
{
	size_t digits = 0;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (c >= '0' && c <= '9')
			digits++;
		else if (!(c == '+' && i == 0) && memchr(" -.()/", c, 6) == NULL)
			return false;
	}
	return digits >= IDENTIFIER_DIGITS_MIN && digits <= IDENTIFIER_DIGITS_MAX;
}

const char *identifier_looks_like(struct bytes text)
{
	uint8_t address[16];

	if (text.len > 0 && memchr(text.data, '@', text.len) != NULL)
		return kinds[IDENTIFIER_EMAIL];
	if (identifier_ip_parse(text, address))
		return kinds[IDENTIFIER_IP];
	return phone_like(text) ? kinds[IDENTIFIER_PHONE] : NULL;
}

/* 1234567 is rather a row of somebody's users than a telephone; 07700900123 is not. */
static bool counts_rows(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
	return text.len > 0 && text.data[0] != '0';
}

static struct bytes refuse_personal(struct fields *f, const char *name, struct bytes text)
{
	const char *kind = identifier_looks_like(text);

	if (kind != NULL)
		fields_fail(f, name, ERR_INVALID,
		            "looks like %s, which must not be stored as it is: send {\"%s\": …}, or an id "
		            "that does not identify a person",
		            strcmp(kind, "email") == 0 ? "an email address"
		            : strcmp(kind, "ip") == 0  ? "an IP address"
		                                       : "a phone number",
		            kind);
	return text;
}

static struct identifier past_read(const struct identifier_key *k, struct arena *a, struct fields *f,
                                   const char *name, const struct json *member)
{
	struct identifier out = any_read(k, a, f, name, member);

	if (out.id.len > 0 && member->type == JSON_STRING && !counts_rows(out.id))
		refuse_personal(f, name, out.id);
	return out;
}

struct bytes identifier_read_past(const struct identifier_key *k, struct arena *a, struct fields *f,
                                  const char *name, const struct json *member)
{
	return past_read(k, a, f, name, member).id;
}

struct identifier identifier_read_subject(const struct identifier_key *k, struct arena *a, struct fields *f,
                                          const char *name, const struct json *member)
{
	struct identifier out = past_read(k, a, f, name, member);

	if (bytes_starts_with(out.id, BYTES(IDENTIFIER_ERASED)))
		fields_fail(f, name, ERR_INVALID,
		            "must not begin with " IDENTIFIER_ERASED
		            ", which is how Gatehouse names subjects that were erased");
	return out;
}

struct bytes identifier_read(const struct identifier_key *k, struct arena *a, struct fields *f,
                             const char *name, const struct json *member)
{
	return identifier_read_subject(k, a, f, name, member).id;
}

struct bytes identifier_read_method(const struct identifier_key *k, struct arena *a, struct fields *f,
                                    const char *name, const struct json *member)
{
	struct bytes out = identifier_read_key(k, a, f, name, member);

	return out.len > 0 && member->type == JSON_STRING ? refuse_personal(f, name, out) : out;
}

/* ---- networks ---- */

enum { BITS = 128, BITS_BEFORE_V4 = 96, BITS_V4 = 32 };

bool address_is_v4(const uint8_t address[16])
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	return memcmp(address, mapped, sizeof(mapped)) == 0;
}

static void clear_host(struct network *n)
{
	for (unsigned bit = n->bits; bit < BITS; bit++)
		n->address[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
}

bool network_parse(struct bytes text, struct network *out)
{
	const char  *slash = text.len == 0 ? NULL : memchr(text.data, '/', text.len);
	struct bytes address = {text.data, slash == NULL ? text.len : (size_t)(slash - text.data)};
	uint64_t     bits;
	bool         v4;

	if (!identifier_ip_parse(address, out->address))
		return false;
	out->bits = BITS;
	if (slash == NULL)
		return true;
	v4 = address_is_v4(out->address);
	if (!bytes_to_u64((struct bytes){slash + 1, text.len - address.len - 1}, v4 ? BITS_V4 : BITS, &bits))
		return false;
	out->bits = (unsigned)bits + (v4 ? BITS_BEFORE_V4 : 0);
	clear_host(out);
	return true;
}

bool network_holds(const struct network *n, const uint8_t address[16])
{
	unsigned whole = n->bits / 8, rest = n->bits % 8;

	if (n->bits < BITS_BEFORE_V4 && address_is_v4(address))
		return false;
	if (memcmp(n->address, address, whole) != 0)
		return false;
	return rest == 0 || ((n->address[whole] ^ address[whole]) >> (8 - rest)) == 0;
}
