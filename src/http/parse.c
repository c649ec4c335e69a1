/* Parse: one pass finds the end of the head, with a table of byte classes; line ends are the only bytes that take a decision.
 * Then the request line, and one header per line:
 *
 *   request line   METHOD SP target SP HTTP/1.1
 *   header         name ":" blanks value blanks */
#include "http/parse.h"

#include <assert.h>
#include <ctype.h>
#include <strings.h>

#include "base/bytes.h"

/* ---- where the head ends ---- */

enum byte_class { PLAIN, LINE_END, BAD };

/* Control bytes but tab are BAD; CR and LF decide. Everything else is zero: PLAIN. */
static const uint8_t byte_classes[256] = {
        [0x00 ... 0x08] = BAD, ['\n'] = LINE_END,     [0x0b] = BAD, [0x0c] = BAD,
        ['\r'] = LINE_END,     [0x0e ... 0x1f] = BAD, [0x7f] = BAD,
};

/* What follows the target on a request line: " HTTP/1.1". */
enum { AFTER_TARGET_BYTES = 9 };

void scan_init(struct scan *s)
{
	*s = (struct scan){0};
}

static enum scan_result scan_refuse(struct refusal *refusal, int status, const char *text)
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
		return scan_refuse(refusal, 414, "the request target is too long");
	if (in.len >= limits->head_bytes_max)
		return scan_refuse(refusal, 431, "the request's headers are too large");
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
	struct bytes window = {in.data, in.len < limits->head_bytes_max ? in.len : limits->head_bytes_max};

	while (s->at < window.len) {
		if (line_is_folded(s, window))
			return scan_refuse(refusal, 400, "a line of the request's head starts with a space");
		s->at = plain_end(window, s->at);
		if (s->at == window.len)
			break;
		if (byte_classes[(uint8_t)window.data[s->at]] == BAD)
			return scan_refuse(refusal, 400, "the request's head contains a control character");
		if (window.data[s->at] == '\r' && s->at + 1 == window.len)
			break;
		if (!line_end_is_right(s, window))
			return scan_refuse(refusal, 400,
			                   "a line of the request's head does not end with CR LF");
		if (s->lines == 0 && target_too_long(s, window, s->at, limits->target_bytes_max))
			return scan_refuse(refusal, 414, "the request target is too long");
		if (line_ends(s))
			return SCAN_END;
	}
	return scan_wait(s, window, limits, refusal);
}

/* ---- what it says: whole lines, without control bytes but tabs ---- */

struct parsing {
	struct http_header *headers;
	struct head        *head;
	struct refusal     *refusal;
	/* which of the headers that may come once have been seen */
	unsigned hosts, lengths, encodings;
	/* what Connection says */
	bool close, keep_alive;
};

static bool refuse(struct parsing *p, int status, const char *text)
{
	*p->refusal = (struct refusal){status, text};
	return false;
}

bool parse_name_is(struct bytes name, struct bytes other)
{
	return name.len == other.len && strncasecmp(name.data, other.data, name.len) == 0;
}

/* The text before the first `mark`, or all of it. Moves *rest past the mark. */
static struct bytes cut(struct bytes *rest, char mark)
{
	const char  *at = memchr(rest->data, mark, rest->len);
	struct bytes part = {rest->data, at == NULL ? rest->len : (size_t)(at - rest->data)};
	size_t       used = at == NULL ? part.len : part.len + 1;

	*rest = (struct bytes){rest->data + used, rest->len - used};
	return part;
}

/* ---- the request line ---- */

/* Methods that nobody here answers to; a proxy that asks /v1/authz passes on whatever its client used. */
static bool method_is_registered(struct bytes name)
{
	static const char *const others[] = {
	        "ACL",       "BIND",       "CHECKOUT",   "COPY",   "LINK",        "LOCK",   "M-SEARCH",
	        "MERGE",     "MKACTIVITY", "MKCALENDAR", "MKCOL",  "MOVE",        "NOTIFY", "PROPFIND",
	        "PROPPATCH", "PURGE",      "REBIND",     "REPORT", "SEARCH",      "SOURCE", "SUBSCRIBE",
	        "TRACE",     "UNBIND",     "UNLINK",     "UNLOCK", "UNSUBSCRIBE",
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (bytes_is(name, others[i]))
			return true;
	return false;
}

static bool take_method(struct parsing *p, struct bytes name)
{
	static const struct {
		struct bytes     name;
		enum http_method method;
	} methods[] = {
	        {BYTES_INIT("GET"), HTTP_GET},         {BYTES_INIT("HEAD"), HTTP_HEAD},
	        {BYTES_INIT("POST"), HTTP_POST},       {BYTES_INIT("PUT"), HTTP_PUT},
	        {BYTES_INIT("DELETE"), HTTP_DELETE},   {BYTES_INIT("PATCH"), HTTP_PATCH},
	        {BYTES_INIT("OPTIONS"), HTTP_OPTIONS},
	};

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (bytes_equal(methods[i].name, name)) {
			p->head->method = methods[i].method;
			return true;
		}
	if (bytes_is(name, "CONNECT"))
		return refuse(p, 405, "this server is not a proxy");
	p->head->method = HTTP_OTHER;
	return method_is_registered(name) || refuse(p, 400, "unknown method");
}

/* A host, maybe with its port: at least no bytes that neither can have. */
static bool host_is_right(struct bytes host)
{
	for (size_t i = 0; i < host.len; i++)
		if (!isalnum((unsigned char)host.data[i]) &&
		    strchr("-_.!~*'()%;:&=+$,[]", host.data[i]) == NULL)
			return false;
	return true;
}

/* "http://host:80" before the path, which a server must take too (RFC 9112 3.2.2); with a user's name in it, it must not
 * be trusted (RFC 9110 4.2.4). */
static bool authority_is_right(struct bytes target)
{
	struct bytes scheme = cut(&target, ':'), authority;

	for (size_t i = 0; i < scheme.len; i++)
		if (!isalpha((unsigned char)scheme.data[i]))
			return false;
	if (scheme.len == 0 || !bytes_starts_with(target, BYTES("//")))
		return false;
	target = (struct bytes){target.data + 2, target.len - 2};
	authority = cut(&target, '/');
	authority = cut(&authority, '?');
	return authority.len > 0 && host_is_right(authority);
}

static bool take_target(struct parsing *p, struct bytes target)
{
	bool starts_right = target.len > 0 &&
	                    (target.data[0] == '/' || target.data[0] == '*' || authority_is_right(target));

	if (!starts_right || memchr(target.data, '\t', target.len) != NULL)
		return refuse(p, 400, "malformed request target");
	p->head->target = target;
	return true;
}

/* One that is shaped like a version, and none at all (that would be 0.9), is known not to be spoken here. */
static bool take_version(struct parsing *p, struct bytes version)
{
	bool shaped = version.len == 8 && memcmp(version.data, "HTTP/", 5) == 0 &&
	              isdigit((unsigned char)version.data[5]) && version.data[6] == '.' &&
	              isdigit((unsigned char)version.data[7]);

	if (!shaped && version.len > 0)
		return refuse(p, 400, "malformed request line");
	if (!bytes_is(version, "HTTP/1.1") && !bytes_is(version, "HTTP/1.0"))
		return refuse(p, 505, "only HTTP/1.1 and HTTP/1.0 are supported");
	p->head->version_1_0 = version.data[7] == '0';
	return true;
}

static bool take_request_line(struct parsing *p, struct bytes line)
{
	struct bytes method = cut(&line, ' '), target = cut(&line, ' ');

	return take_method(p, method) && take_target(p, target) && take_version(p, line);
}

/* ---- headers ---- */

static bool take_length(struct parsing *p, struct bytes value)
{
	if (p->lengths++ > 0)
		return refuse(p, 400, "more than one Content-Length");
	if (!bytes_to_u64(value, UINT64_MAX, &p->head->content_length))
		return refuse(p, 400, "Content-Length must be a whole number");
	return true;
}

/* Only "chunked": no client of ours compresses, and every other list is an invitation to disagree. */
static bool take_encoding(struct parsing *p, struct bytes value)
{
	if (p->encodings++ > 0 || !parse_name_is(value, BYTES("chunked")))
		return refuse(p, 400, "Transfer-Encoding must be chunked");
	p->head->chunked = true;
	return true;
}

static bool take_expect(struct parsing *p, struct bytes value)
{
	if (!parse_name_is(value, BYTES("100-continue")))
		return refuse(p, 417, "Expect must be 100-continue");
	p->head->expects_continue = !p->head->version_1_0;
	return true;
}

static bool take_connection(struct parsing *p, struct bytes value)
{
	while (value.len > 0) {
		struct bytes option = bytes_trimmed(cut(&value, ','));

		p->close = p->close || parse_name_is(option, BYTES("close"));
		p->keep_alive = p->keep_alive || parse_name_is(option, BYTES("keep-alive"));
	}
	return true;
}

static bool take_host(struct parsing *p, struct bytes value)
{
	if (p->hosts++ > 0)
		return refuse(p, 400, "more than one Host");
	return host_is_right(value) || refuse(p, 400, "the Host header is not a valid host");
}

/* What concerns the message itself. */
static bool take_meaning(struct parsing *p, const struct http_header *h)
{
	switch (h->name.len) { /* tells nearly all apart */
	case 4:
		return !parse_name_is(h->name, BYTES("Host")) || take_host(p, h->value);
	case 6:
		return !parse_name_is(h->name, BYTES("Expect")) || take_expect(p, h->value);
	case 10:
		return !parse_name_is(h->name, BYTES("Connection")) || take_connection(p, h->value);
	case 14:
		return !parse_name_is(h->name, BYTES("Content-Length")) || take_length(p, h->value);
	case 17:
		return !parse_name_is(h->name, BYTES("Transfer-Encoding")) || take_encoding(p, h->value);
	default:
		return true;
	}
}

static const uint8_t token_bytes[256] = {
        ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1, ['!'] = 1, ['#'] = 1, ['$'] = 1,
        ['%'] = 1,         ['&'] = 1,         ['\''] = 1,        ['*'] = 1, ['+'] = 1, ['-'] = 1,
        ['.'] = 1,         ['^'] = 1,         ['_'] = 1,         ['`'] = 1, ['|'] = 1, ['~'] = 1,
};

/* How many bytes at its start could be a header's name (a token, RFC 9110 5.6.2). */
static size_t token_len(struct bytes text)
{
	size_t len = 0;

	while (len < text.len && token_bytes[(uint8_t)text.data[len]])
		len++;
	return len;
}

static bool take_header(struct parsing *p, struct bytes line)
{
	struct http_header *h = &p->headers[p->head->header_count];

	if (p->head->header_count == HTTP_HEADERS_MAX)
		return refuse(p, 431, "the request has too many headers");
	h->name = (struct bytes){line.data, token_len(line)};
	if (h->name.len == 0 || h->name.len == line.len || line.data[h->name.len] != ':')
		return refuse(p, 400, "a header line must be a name, a colon and a value");
	h->value = bytes_trimmed((struct bytes){line.data + h->name.len + 1, line.len - h->name.len - 1});
	p->head->header_count++;
	return take_meaning(p, h);
}

static bool headers_agree(struct parsing *p)
{
	struct head *head = p->head;

	if (p->lengths > 0 && p->encodings > 0)
		return refuse(p, 400, "Content-Length and Transfer-Encoding must not be sent together");
	if (p->encodings > 0 && head->version_1_0)
		return refuse(p, 400, "HTTP/1.0 does not have Transfer-Encoding");
	if (p->hosts == 0 && !head->version_1_0)
		return refuse(p, 400, "the Host header is missing");
	head->keep_alive = !p->close && (!head->version_1_0 || p->keep_alive);
	return true;
}

static struct bytes line_next(struct bytes *rest)
{
	struct bytes line = cut(rest, '\r');

	assert(rest->len > 0);
	*rest = (struct bytes){rest->data + 1, rest->len - 1}; /* the LF */
	return line;
}

bool parse_head(struct bytes text, struct http_header headers[HTTP_HEADERS_MAX], struct head *out,
                struct refusal *refusal)
{
	struct parsing p = {.headers = headers, .head = out, .refusal = refusal};
	struct bytes   line;

	*out = (struct head){0};
	*refusal = (struct refusal){0};
	if (!take_request_line(&p, line_next(&text)))
		return false;
	while ((line = line_next(&text)).len > 0)
		if (!take_header(&p, line))
			return false;
	return headers_agree(&p);
}
