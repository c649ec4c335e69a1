/* Email addresses: the one file that knows libidn2 and libunistring. */
#include "service/email.h"

#include <errno.h>
#include <idn2.h>
#include <stdlib.h>
#include <unicase.h>
#include <uninorm.h>

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

static bool is_ascii(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] >= 0x80)
			return false;
	return true;
}

/* Where the host begins, after the last @. 0: something is missing, or there is a space or a control character. */
static size_t host_find(struct bytes text)
{
	size_t host = 0;

	for (size_t i = 0; i < text.len; i++) {
		if ((unsigned char)text.data[i] <= ' ')
			return 0;
		if (text.data[i] == '@')
			host = i + 1;
	}
	return host > 1 && host < text.len ? host : 0;
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

/* Caseless matching as Unicode defines it (D145), composed at the end: NFC(fold(NFD(x))). */
static size_t fold(struct bytes text, char *out, size_t room)
{
	uint8_t  apart[EMAIL_NORMAL_BYTES_MAX], folded[EMAIL_NORMAL_BYTES_MAX];
	size_t   apart_len = sizeof(apart), folded_len = sizeof(folded), len;
	uint8_t *result = u8_normalize(UNINORM_NFD, (const uint8_t *)text.data, text.len, apart, &apart_len);

	len = taken(result, apart_len, apart, (char *)folded, sizeof(folded));
	if (len == 0)
		return 0;
	memcpy(apart, folded, len);
	result = u8_casefold(apart, len, NULL, UNINORM_NFC, folded, &folded_len);
	return taken(result, folded_len, folded, out, room);
}

/* libidn2 maps and does not check: letters, digits, hyphens, and no empty label but the root's. */
static bool is_host(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];
		bool ldh = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';

		if (!ldh && !(c == '.' && i > 0 && text.data[i - 1] != '.'))
			return false;
	}
	return text.len > 0;
}

static size_t host_map(struct bytes host, char *out, size_t room)
{
	char         terminated[EMAIL_BYTES_MAX + 1];
	uint8_t     *mapped = NULL;
	struct bytes result;
	size_t       len = 0;
	int          rc;

	if (is_ascii(host))
		return ascii_lower_copy(host, out);
	memcpy(terminated, host.data, host.len);
	terminated[host.len] = '\0';
	rc = idn2_lookup_u8((const uint8_t *)terminated, &mapped, IDN2_NONTRANSITIONAL | IDN2_NFC_INPUT);
	if (rc == IDN2_MALLOC)
		abort();
	if (rc != IDN2_OK)
		return 0;
	result = bytes_of((const char *)mapped);
	if (is_host(result) && result.len <= room)
		memcpy(out, result.data, len = result.len);
	idn2_free(mapped);
	return len;
}

static size_t unicode_normalise(struct bytes text, size_t host, char *out)
{
	struct bytes local = {text.data, host - 1}, name = {text.data + host, text.len - host};
	size_t       local_len, host_len;

	if (!bytes_is_utf8(text))
		return 0;
	local_len = fold(local, out, EMAIL_NORMAL_BYTES_MAX - EMAIL_BYTES_MAX - 1);
	if (local_len == 0)
		return 0;
	out[local_len] = '@';
	host_len = host_map(name, out + local_len + 1, EMAIL_BYTES_MAX);
	return host_len == 0 ? 0 : local_len + 1 + host_len;
}

size_t email_normalise(struct bytes text, char *out)
{
	size_t host, len;

	text = trim(text);
	host = host_find(text);
	if (host == 0 || text.len > EMAIL_BYTES_MAX)
		return 0;
	len = is_ascii(text) ? ascii_lower_copy(text, out) : unicode_normalise(text, host, out);
	return without_root(out, len);
}
