/* Text: a borrowed run of bytes, with no NUL at its end. */
#ifndef CLIENT_TEXT_H
#define CLIENT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct text {
	const char *data;
	size_t      len;
};

static inline struct text text_of(const char *s)
{
	return (struct text){s, strlen(s)};
}

static inline bool text_is(struct text t, const char *s)
{
	return t.len == strlen(s) && memcmp(t.data, s, t.len) == 0;
}

/* Without regard to case, as HTTP compares names; never by the locale of more than ASCII names. */
static inline bool text_is_name(struct text t, const char *s)
{
	return t.len == strlen(s) && strncasecmp(t.data, s, t.len) == 0;
}

/* How many bytes the well-formed UTF-8 character at `s` has; 0: it is none. */
static inline size_t text_char_len(const unsigned char *s, size_t left)
{
	size_t   len = s[0] < 0x80   ? 1
	               : s[0] < 0xc2 ? 0
	               : s[0] < 0xe0 ? 2
	               : s[0] < 0xf0 ? 3
	               : s[0] < 0xf5 ? 4
	                             : 0;
	unsigned first = len < 2 || left < 2 ? 0 : s[1];

	if (len == 0 || len > left)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* overlong forms, surrogates, past the last character */
	if ((s[0] == 0xe0 && first < 0xa0) || (s[0] == 0xed && first > 0x9f))
		return 0;
	if ((s[0] == 0xf0 && first < 0x90) || (s[0] == 0xf4 && first > 0x8f))
		return 0;
	return len;
}

static inline bool text_is_utf8(struct text t)
{
	size_t step;

	for (size_t at = 0; at < t.len; at += step) {
		step = text_char_len((const unsigned char *)t.data + at, t.len - at);
		if (step == 0)
			return false;
	}
	return true;
}

/* Copies as many whole characters as fit, and a NUL. */
static inline void text_cut(struct text t, char *out, size_t size)
{
	size_t len = 0, step;

	while (len < t.len) {
		step = text_char_len((const unsigned char *)t.data + len, t.len - len);
		if (step == 0 || len + step >= size)
			break;
		len += step;
	}
	memcpy(out, t.data, len);
	out[len] = '\0';
}

#endif
