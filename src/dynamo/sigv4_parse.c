/* SigV4 parse: what an Authorization header says, and whether its list of signed headers covers the request.
 * Every part keeps pointing into what was sent; nothing is copied or unescaped, since nothing in these headers is
 * ever escaped. */
#include "dynamo/sigv4_parts.h"

#include "item/messages.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct bytes skip(struct bytes text, size_t len)
{
	return (struct bytes){text.data + len, text.len - len};
}

static struct bytes skip_blanks(struct bytes text)
{
	while (text.len > 0 && is_blank(text.data[0]))
		text = skip(text, 1);
	return text;
}

/* ---- Authorization ---- */

static struct bytes cut_before(struct bytes text, char mark)
{
	const char *at = text.len == 0 ? NULL : memchr(text.data, mark, text.len);

	return (struct bytes){text.data, at == NULL ? text.len : (size_t)(at - text.data)};
}

/* Up to the next blank or comma. */
static struct bytes word_take(struct bytes *rest)
{
	struct bytes word = cut_before(cut_before(cut_before(*rest, ','), ' '), '\t');

	*rest = skip(*rest, word.len);
	return word;
}

/* Blanks, and at most one comma. */
static struct bytes separator_skip(struct bytes rest)
{
	rest = skip_blanks(rest);
	if (rest.len > 0 && rest.data[0] == ',')
		rest = skip_blanks(skip(rest, 1));
	return rest;
}

static enum err_code parameter_set(struct sigv4_authorization *out, struct bytes pair, struct err *err)
{
	const char   *equal = pair.len == 0 ? NULL : memchr(pair.data, '=', pair.len);
	struct bytes  name = {pair.data, equal == NULL ? 0 : (size_t)(equal - pair.data)};
	struct bytes *value = NULL;

	if (equal == NULL)
		return err_set(err, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_EQUAL);
	if (bytes_is(name, "Credential"))
		value = &out->credential;
	else if (bytes_is(name, "SignedHeaders"))
		value = &out->signed_headers;
	else if (bytes_is(name, "Signature"))
		value = &out->signature;
	if (value == NULL || value->data != NULL)
		return err_set(err, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_UNKNOWN);
	*value = skip(pair, name.len + 1);
	return ERR_NONE;
}

enum err_code sigv4_authorization_read(struct bytes value, struct sigv4_authorization *out, struct err *err)
{
	struct bytes rest = skip_blanks(value);

	*out = (struct sigv4_authorization){0};
	if (value.len > SIGV4_AUTHORIZATION_MAX)
		return err_set(err, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_LONG, SIGV4_AUTHORIZATION_MAX);
	out->algorithm = word_take(&rest);
	rest = skip_blanks(rest);
	while (rest.len > 0) {
		if (parameter_set(out, word_take(&rest), err) != ERR_NONE)
			return err->code;
		rest = separator_skip(rest);
	}
	return ERR_NONE;
}

/* ---- Credential ---- */

/* Up to the next slash, which is passed; *more says whether there was one. */
static struct bytes element_take(struct bytes *rest, bool *more)
{
	const char  *slash = rest->len == 0 ? NULL : memchr(rest->data, '/', rest->len);
	struct bytes element = {rest->data, slash == NULL ? rest->len : (size_t)(slash - rest->data)};

	*more = slash != NULL;
	*rest = skip(*rest, element.len + *more);
	return element;
}

enum err_code sigv4_scope_read(struct bytes credential, struct sigv4_scope *out, struct err *err)
{
	struct bytes  rest = credential;
	struct bytes *parts[] = {&out->key_id, &out->date, &out->region, &out->service, &out->terminator};
	bool          more = true;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!more)
			return err_set(err, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_CREDENTIAL);
		*parts[i] = element_take(&rest, &more);
		if (i == 0)
			out->text = rest;
	}
	if (more || out->key_id.len > SIGV4_KEY_ID_MAX || out->text.len > SIGV4_SCOPE_MAX)
		return err_set(err, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_CREDENTIAL);
	return ERR_NONE;
}

bool sigv4_claimed_key(struct bytes authorization, struct bytes *key_id)
{
	struct sigv4_authorization given;
	struct sigv4_scope         scope;
	struct err                 err;

	if (sigv4_authorization_read(authorization, &given, &err) != ERR_NONE ||
	    given.credential.data == NULL || sigv4_scope_read(given.credential, &scope, &err) != ERR_NONE)
		return false;
	*key_id = scope.key_id;
	return true;
}

/* ---- SignedHeaders ---- */

/* A token (RFC 9110 5.6.2) without capitals. */
static bool name_is_canonical(struct bytes name)
{
	static const char marks[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < name.len; i++) {
		char c = name.data[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
		    memchr(marks, c, sizeof(marks) - 1) == NULL)
			return false;
	}
	return name.len > 0;
}

static struct bytes name_take(struct bytes *rest)
{
	const char  *end = rest->len == 0 ? NULL : memchr(rest->data, ';', rest->len);
	struct bytes name = {rest->data, end == NULL ? rest->len : (size_t)(end - rest->data)};

	*rest = skip(*rest, name.len);
	return name;
}

enum err_code sigv4_names_read(struct bytes text, struct sigv4_names *out, struct err *err)
{
	struct bytes rest = text;
	struct bytes before = {0};

	out->text = text;
	for (out->count = 0;; out->count++) {
		struct bytes name = name_take(&rest);

		if (out->count == SIGV4_SIGNED_MAX || !name_is_canonical(name) ||
		    bytes_compare(before, name) >= 0)
			return err_set(err, ERR_SIGNATURE, MSG_SIGN_HEADERS, SIGV4_SIGNED_MAX);
		out->names[out->count] = before = name;
		if (rest.len == 0)
			break;
		rest = skip(rest, 1);
	}
	out->count++;
	return ERR_NONE;
}

bool sigv4_names_hold(const struct sigv4_names *names, struct bytes header_name)
{
	for (unsigned i = 0; i < names->count; i++)
		if (bytes_equal_lower(names->names[i], header_name))
			return true;
	return false;
}

static bool name_was_sent(struct bytes name, const struct sigv4_request *r)
{
	for (unsigned i = 0; i < r->header_count; i++)
		if (bytes_equal_lower(name, r->headers[i].name))
			return true;
	return false;
}

static bool name_starts(struct bytes name, struct bytes prefix)
{
	return name.len >= prefix.len && bytes_equal_lower(prefix, (struct bytes){name.data, prefix.len});
}

/* What changes the meaning of a request. Proxies add headers of other names. */
static bool name_must_be_signed(struct bytes name)
{
	return name_starts(name, BYTES("x-amz-")) || name_starts(name, BYTES("x-gatehouse-")) ||
	       bytes_equal_lower(BYTES("if-match"), name) ||
	       bytes_equal_lower(BYTES("if-none-match"), name) ||
	       bytes_equal_lower(BYTES("idempotency-key"), name);
}

enum err_code sigv4_names_cover(const struct sigv4_names *names, const struct sigv4_request *r,
                                struct err *err)
{
	if (!sigv4_names_hold(names, BYTES("host")))
		return err_set(err, ERR_SIGNATURE, MSG_SIGN_HOST);
	for (unsigned i = 0; i < r->header_count; i++) {
		struct bytes name = r->headers[i].name;

		if (name_must_be_signed(name) && !sigv4_names_hold(names, name))
			return err_set(err, ERR_SIGNATURE, MSG_SIGN_HEADER, BYTES_ARG(sigv4_shown(name)));
	}
	for (unsigned i = 0; i < names->count; i++)
		if (!name_was_sent(names->names[i], r))
			return err_set(err, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
	return ERR_NONE;
}
