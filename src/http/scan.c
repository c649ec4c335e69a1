/* Scan: one pass over the head with a table of byte classes; line ends are the only bytes that take a
 * decision. */
#include "http/scan.h"

#include "base/word.h"

enum byte_class { PLAIN, LINE_END, BAD };

/* Control bytes but tab are BAD; CR and LF decide. Everything else is zero: PLAIN. */
static const uint8_t byte_classes[256] = {
        [0x00 ... 0x08] = BAD, ['\n'] = LINE_END,     [0x0b] = BAD, [0x0c] = BAD,
        ['\r'] = LINE_END,     [0x0e ... 0x1f] = BAD, [0x7f] = BAD,
};

static const uint8_t token_bytes[256] = {
        ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1, ['!'] = 1, ['#'] = 1, ['$'] = 1,
        ['%'] = 1,         ['&'] = 1,         ['\''] = 1,        ['*'] = 1, ['+'] = 1, ['-'] = 1,
        ['.'] = 1,         ['^'] = 1,         ['_'] = 1,         ['`'] = 1, ['|'] = 1, ['~'] = 1,
};

/* What follows the target on a request line: " HTTP/1.1". */
enum { AFTER_TARGET_BYTES = 9 };

void scan_init(struct scan *s)
{
	*s = (struct scan){0};
}

size_t scan_token_len(struct bytes text)
{
	size_t len = 0;

	while (len < text.len && token_bytes[(uint8_t)text.data[len]])
		len++;
	return len;
}

static enum scan_result refuse(struct refusal *refusal, int status, const char *text)
{
	*refusal = (struct refusal){status, text};
	return SCAN_REFUSED;
}

/* Is the request line, whole or not, longer than the longest target makes it? in[0, end) is what there is of
 * it. Asked of whole and of partial lines alike, so that it does not matter how they arrive. */
static bool target_too_long(const struct scan *s, struct bytes in, size_t end, size_t target_bytes_max)
{
	const char *line = in.data + s->line_start;
	size_t      len = end - s->line_start;
	const char *space;

	if (len <= target_bytes_max)
		return false;
	len -= line[len - 1] == '\r';
	space = memchr(line, ' ', len);
	return space != NULL && len - (size_t)(space + 1 - line) > target_bytes_max + AFTER_TARGET_BYTES;
}

static enum scan_result scan_wait(const struct scan *s, struct bytes in, const struct scan_limits *limits,
                                  struct refusal *refusal)
{
	if (s->lines == 0 && target_too_long(s, in, in.len, limits->target_bytes_max))
		return refuse(refusal, 414, "the request target is too long");
	if (in.len >= limits->head_bytes_max)
		return refuse(refusal, 431, "the request's headers are too large");
	return SCAN_MORE;
}

/* A line ended at s->at (CR LF there). Moves past it; true if it closes the head. */
static bool line_ends(struct scan *s)
{
	bool empty = s->at == s->line_start;

	s->at += 2;
	s->line_start = s->at;
	if (empty && s->lines > 0)
		return true;
	if (empty)
		s->head_start = s->at;
	else
		s->lines++;
	return false;
}

/* At CR or LF, with the byte after it known if it is CR. */
static bool line_end_is_right(const struct scan *s, struct bytes in)
{
	bool first = s->lines == 0 && s->at == s->line_start;

	if (in.data[s->at] != '\r' || in.data[s->at + 1] != '\n')
		return false;
	/* One empty line before a request is forgiven, as RFC 9112 2.2 asks; more are not a client. */
	return !(first && s->head_start > 0);
}

static bool line_is_folded(const struct scan *s, struct bytes in)
{
	return s->at == s->line_start && (in.data[s->at] == ' ' || in.data[s->at] == '\t');
}

static struct bytes scan_window(struct bytes in, const struct scan_limits *limits)
{
	return in.len > limits->head_bytes_max ? (struct bytes){in.data, limits->head_bytes_max} : in;
}

/* The first byte from `at` on that is not plain, or the end. */
static size_t plain_end(struct bytes in, size_t at)
{
	for (; in.len - at >= WORD_BYTES; at += WORD_BYTES) {
		uint64_t word = word_at(in.data + at);

		if (word_below(word, ' ') | word_has(word, 0x7f))
			break;
	}
	while (at < in.len && byte_classes[(uint8_t)in.data[at]] == PLAIN)
		at++;
	return at;
}

enum scan_result scan_head(struct scan *s, struct bytes in, const struct scan_limits *limits,
                           struct refusal *refusal)
{
	struct bytes window = scan_window(in, limits);

	while (s->at < window.len) {
		if (line_is_folded(s, window))
			return refuse(refusal, 400, "a line of the request's head starts with a space");
		s->at = plain_end(window, s->at);
		if (s->at == window.len)
			break;
		if (byte_classes[(uint8_t)window.data[s->at]] == BAD)
			return refuse(refusal, 400, "the request's head contains a control character");
		if (window.data[s->at] == '\r' && s->at + 1 == window.len)
			break;
		if (!line_end_is_right(s, window))
			return refuse(refusal, 400, "a line of the request's head does not end with CR LF");
		if (s->lines == 0 && target_too_long(s, window, s->at, limits->target_bytes_max))
			return refuse(refusal, 414, "the request target is too long");
		if (line_ends(s))
			return SCAN_END;
	}
	return scan_wait(s, window, limits, refusal);
}
