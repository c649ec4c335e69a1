/* Email addresses: the one file that knows libidn2 and libunistring. */
#include "service/email.h"

#include <errno.h>
#include <idn2.h>
#include <stdlib.h>
#include <unicase.h>
#include <unictype.h>
#include <uninorm.h>
#include <unistr.h>

/* An address, taken apart. Both parts are as they were typed, but for the quotes and the escapes of a quoted local part. */
struct parts {
	char         unquoted[EMAIL_BYTES_MAX];
	struct bytes local, host;
	bool         quoted;
};

/* ---- characters ---- */

static bool is_ascii(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] >= 0x80)
			return false;
	return true;
}

static bool is_letter_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Before the @ without quotes: atext of RFC 5322 and 6532, and dots. Dots may follow each other: some providers gave out such
 * addresses. */
static bool is_plain(char c)
{
	return is_letter_or_digit(c) || (unsigned char)c >= 0x80 ||
	       (c != '\0' && strchr("!#$%&'*+-/=?^_`{|}~.", c) != NULL);
}

/* In quotes: printable, and no second @, which some mail libraries take for the first one. */
static bool is_quotable(char c)
{
	return (unsigned char)c >= ' ' && c != 0x7f && c != '@';
}

/* Neither control and format characters, nor spaces, nor what is not shown at all. */
static bool is_visible(ucs4_t c)
{
	return !uc_is_general_category_withtable(c, UC_CATEGORY_MASK_C | UC_CATEGORY_MASK_Z) &&
	       !uc_is_property_default_ignorable_code_point(c);
}

/* Also for texts that are not UTF-8: they are not. */
static bool all_visible(struct bytes text)
{
	const uint8_t *at = (const uint8_t *)text.data, *end = at + text.len;
	ucs4_t         c;

	while (at < end) {
		int len = u8_mbtoucr(&c, at, (size_t)(end - at));

		if (len <= 0 || (c >= 0x80 && !is_visible(c)))
			return false;
		at += len;
	}
	return true;
}

/* ---- taking apart ---- */

static struct bytes trim(struct bytes text)
{
	while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
		text = (struct bytes){text.data + 1, text.len - 1};
	while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
		text.len--;
	return text;
}

/* "example.org." names the same host: the last dot is the root's. */
static size_t without_root(const char *text, size_t len)
{
	return len >= 2 && text[len - 1] == '.' && text[len - 2] != '.' && text[len - 2] != '@' ? len - 1
	                                                                                        : len;
}

/* Where the local part ends. 0: nowhere. */
static size_t plain_take(struct bytes text, struct parts *out)
{
	size_t i = 0;

	while (i < text.len && is_plain(text.data[i]))
		i++;
	out->local = (struct bytes){text.data, i};
	return i;
}

static size_t quoted_take(struct bytes text, struct parts *out)
{
	size_t i = 1, len = 0;

	for (; i < text.len && text.data[i] != '"'; i++) {
		i += text.data[i] == '\\';
		if (i >= text.len || !is_quotable(text.data[i]))
			return 0;
		out->unquoted[len++] = text.data[i];
	}
	out->local = (struct bytes){out->unquoted, len};
	return len > 0 && i < text.len ? i + 1 : 0;
}

/* What follows a NUL would not be seen by libraries that end texts there. */
static bool has_control(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] <= ' ' || text.data[i] == 0x7f)
			return true;
	return false;
}

static bool take_apart(struct bytes text, struct parts *out)
{
	size_t at;

	if (text.len == 0 || text.len > EMAIL_BYTES_MAX)
		return false;
	out->quoted = text.data[0] == '"';
	at = out->quoted ? quoted_take(text, out) : plain_take(text, out);
	if (at == 0 || at + 1 >= text.len || text.data[at] != '@')
		return false;
	out->host = (struct bytes){text.data + at + 1, text.len - at - 1};
	return !has_control(out->host);
}

static size_t ascii_lower_copy(struct bytes text, char *out)
{
	bytes_lower(text, out);
	return text.len;
}

/* ---- beyond ASCII ---- */

/* What a library returned: our buffer, memory of its own, or NULL, which is "no" unless there was no memory. */
static size_t taken(uint8_t *result, size_t len, const uint8_t *ours, char *out, size_t room)
{
	bool fits = result != NULL && len <= room;

	if (result == NULL && errno == ENOMEM)
		abort(); /* as the arena does */
	if (fits)
		memcpy(out, result, len);
	if (result != ours)
		free(result);
	return fits ? len : 0;
}

static size_t to_form(uninorm_t form, struct bytes text, char *out, size_t room)
{
	uint8_t  ours[EMAIL_NORMAL_BYTES_MAX];
	size_t   len = sizeof(ours);
	uint8_t *result = u8_normalize(form, (const uint8_t *)text.data, text.len, ours, &len);

	return taken(result, len, ours, out, room);
}

/* Caseless matching as Unicode defines it (D145), composed at the end: NFC(fold(NFD(x))). */
static size_t fold(struct bytes text, char *out, size_t room)
{
	char     apart[EMAIL_NORMAL_BYTES_MAX];
	uint8_t  folded[EMAIL_NORMAL_BYTES_MAX];
	size_t   apart_len = to_form(UNINORM_NFD, text, apart, sizeof(apart)), len = sizeof(folded);
	uint8_t *result;

	if (apart_len == 0)
		return 0;
	result = u8_casefold((const uint8_t *)apart, apart_len, NULL, UNINORM_NFC, folded, &len);
	return taken(result, len, folded, out, room);
}

size_t text_fold(struct bytes text, char *out, size_t room)
{
	if (text.len > EMAIL_NORMAL_BYTES_MAX || text.len > room || !bytes_is_utf8(text))
		return 0;
	return is_ascii(text) ? ascii_lower_copy(text, out) : fold(text, out, room);
}

/* ---- the local part ---- */

static bool holds_only(struct bytes text, bool (*is)(char))
{
	for (size_t i = 0; i < text.len; i++)
		if (!is(text.data[i]))
			return false;
	return text.len > 0;
}

/* Does it stay of such characters for a library that replaces letters by compatible ones? "；" becomes ";". */
static bool stays(struct bytes local, bool (*is)(char))
{
	char plain[EMAIL_NORMAL_BYTES_MAX];

	if (is_ascii(local))
		return holds_only(local, is);
	return holds_only((struct bytes){plain, to_form(UNINORM_NFKC, local, plain, sizeof(plain))}, is);
}

/* (4) With quotes and escapes where it needs them, and nowhere else. */
static size_t local_write(struct bytes local, char *out, size_t room)
{
	size_t len = 0;

	if (stays(local, is_plain)) {
		memcpy(out, local.data, local.len);
		return local.len <= EMAIL_LOCAL_BYTES_MAX ? local.len : 0;
	}
	out[len++] = '"';
	for (size_t i = 0; i < local.len && len + 3 < room; i++) {
		if (local.data[i] == '"' || local.data[i] == '\\')
			out[len++] = '\\';
		out[len++] = local.data[i];
	}
	out[len++] = '"';
	return len <= EMAIL_LOCAL_BYTES_MAX ? len : 0;
}

/* As it was typed, composed: does a mail server take it? */
static bool local_fits(struct bytes local)
{
	char composed[EMAIL_NORMAL_BYTES_MAX];

	return is_ascii(local) || to_form(UNINORM_NFC, local, composed, EMAIL_LOCAL_BYTES_MAX) > 0;
}

static size_t local_map(const struct parts *p, char *out)
{
	char   folded[EMAIL_NORMAL_BYTES_MAX];
	size_t len;

	if (!stays(p->local, p->quoted ? is_quotable : is_plain) || !local_fits(p->local))
		return 0;
	len = text_fold(p->local, folded, sizeof(folded));
	return len == 0 ? 0 : local_write((struct bytes){folded, len}, out, EMAIL_NORMAL_BYTES_MAX);
}

/* ---- the host ---- */

static bool is_label(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!is_letter_or_digit(text.data[i]) && text.data[i] != '-')
			return false;
	return text.len >= 1 && text.len <= HOST_LABEL_BYTES_MAX && text.data[0] != '-' &&
	       text.data[text.len - 1] != '-';
}

static bool is_number(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
	return true;
}

/* libidn2 maps and does not check: labels of letters, digits and hyphens, and the last one is no number (that is an IP address). */
static bool is_host(struct bytes text)
{
	size_t begin = 0;

	for (size_t i = 0; i <= text.len; i++) {
		if (i < text.len && text.data[i] != '.')
			continue;
		if (!is_label((struct bytes){text.data + begin, i - begin}))
			return false;
		if (i < text.len)
			begin = i + 1;
	}
	return text.len <= EMAIL_HOST_BYTES_MAX &&
	       !is_number((struct bytes){text.data + begin, text.len - begin});
}

static size_t idn_map(struct bytes host, char *out)
{
	char     terminated[EMAIL_BYTES_MAX + 1];
	uint8_t *mapped = NULL;
	size_t   len = 0;
	int      rc;

	memcpy(terminated, host.data, host.len);
	terminated[host.len] = '\0';
	rc = idn2_lookup_u8((const uint8_t *)terminated, &mapped, IDN2_NONTRANSITIONAL | IDN2_NFC_INPUT);
	if (rc == IDN2_MALLOC)
		abort();
	if (rc != IDN2_OK)
		return 0;
	if (strlen((const char *)mapped) <= EMAIL_BYTES_MAX)
		memcpy(out, mapped, len = strlen((const char *)mapped));
	idn2_free(mapped);
	return len;
}

static size_t host_map(struct bytes host, char *out)
{
	size_t len = is_ascii(host) ? ascii_lower_copy(host, out) : idn_map(host, out);

	len = without_root(out, len);
	return is_host((struct bytes){out, len}) ? len : 0;
}

/* ---- all of it ---- */

size_t email_normalise(struct bytes text, char *out)
{
	struct parts p;
	char         host[EMAIL_BYTES_MAX];
	size_t       len, host_len;

	text = trim(text);
	if (!take_apart(text, &p) || (!is_ascii(text) && !all_visible(text)))
		return 0;
	len = local_map(&p, out);
	host_len = host_map(p.host, host);
	if (len == 0 || host_len == 0)
		return 0;
	out[len] = '@';
	memcpy(out + len + 1, host, host_len);
	return len + 1 + host_len;
}

struct bytes email_as_typed(struct bytes text)
{
	text = trim(text);
	text.len = without_root(text.data, text.len);
	return text;
}

struct bytes email_typed_beside(struct bytes text, struct bytes normal)
{
	struct bytes typed = email_as_typed(text);

	return bytes_equal(typed, normal) ? (struct bytes){NULL, 0} : typed;
}

size_t email_of_row(struct bytes text, char *out)
{
	size_t len = text.len <= EMAIL_BYTES_MAX ? email_normalise(text, out) : 0;

	if (len > 0)
		return len;
	text = trim(text);
	return text.len <= EMAIL_NORMAL_BYTES_MAX ? ascii_lower_copy(text, out) : 0;
}
