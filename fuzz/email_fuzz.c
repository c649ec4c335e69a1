/* Email fuzz: the input is an address. What is taken must be UTF-8 and exactly one mailbox, as a simple reader of lists would see it
 * too; it must stay as it is when it is normalised again, and must be what its other Unicode form becomes. In ASCII without quotes it
 * must be the input in small letters: rows are stored under that. */
#define _GNU_SOURCE /* memrchr */
#include <stdio.h>
#include <stdlib.h>
#include <uninorm.h>

#include "service/email.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static bool is_ascii(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] >= 0x80)
			return false;
	return true;
}

static void ascii_kept(struct bytes text, struct bytes normal)
{
	while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
		text = (struct bytes){text.data + 1, text.len - 1};
	require(normal.len <= text.len, "longer in ASCII");
	for (size_t i = 0; i < normal.len; i++) {
		char c = text.data[i];

		require(normal.data[i] == (c >= 'A' && c <= 'Z' ? (char)(c + 32) : c), "changed in ASCII");
	}
}

/* One @ at all, and nothing that separates or encloses addresses but in quotes. */
static void one_mailbox(struct bytes text)
{
	bool   quoted = text.data[0] == '"';
	size_t ats = 0;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		ats += c == '@';
		require((unsigned char)c >= ' ' && c != 0x7f, "a control character");
		require((quoted && ats == 0) || memchr(" ,;<>()[]:\\\"", c, 12) == NULL, "a separator");
	}
	require(ats == 1, "not one @");
}

static void host_right(struct bytes host)
{
	require(host.len <= EMAIL_HOST_BYTES_MAX, "a host that is too long");
	for (size_t i = 0; i < host.len; i++) {
		char c = host.data[i];

		require((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.', "no host");
	}
}

/* The same letters, taken apart. Longer, so that it may be refused for that. */
static void same_taken_apart(struct bytes text, struct bytes normal)
{
	char         out[EMAIL_NORMAL_BYTES_MAX];
	size_t       len = 0;
	uint8_t     *apart = u8_normalize(UNINORM_NFD, (const uint8_t *)text.data, text.len, NULL, &len);
	struct bytes again = {out, 0};

	require(apart != NULL, "no memory");
	again.len = email_normalise((struct bytes){(const char *)apart, len}, out);
	require(again.len == 0 || bytes_equal(again, normal), "another Unicode form is another mailbox");
	require(again.len > 0 || len > EMAIL_BYTES_MAX, "another Unicode form is refused");
	free(apart);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char  out[EMAIL_NORMAL_BYTES_MAX], twice[EMAIL_NORMAL_BYTES_MAX];
	struct bytes text = {(const char *)data, size}, normal = {out, 0}, again = {twice, 0};
	const char  *at;

	normal.len = email_normalise(text, out);
	if (normal.len == 0)
		return 0;
	at = memrchr(normal.data, '@', normal.len);
	require(normal.len <= EMAIL_NORMAL_BYTES_MAX, "longer than its bound");
	require(bytes_is_utf8(normal), "no UTF-8");
	require(at != NULL && at > normal.data && at + 1 < normal.data + normal.len, "no address");
	require((size_t)(at - normal.data) <= EMAIL_LOCAL_BYTES_MAX, "a local part that is too long");
	host_right((struct bytes){at + 1, (size_t)(normal.data + normal.len - at - 1)});
	again.len = email_normalise(normal, twice);
	require(bytes_equal(again, normal), "normalised twice, it is another");
	one_mailbox(normal);
	if (!is_ascii(text))
		same_taken_apart(text, normal);
	else if (memchr(text.data, '"', text.len) == NULL)
		ascii_kept(text, normal);
	return 0;
}
