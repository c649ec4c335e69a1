/* Response: written by hand into a buffer, because printf would be a tenth of a request's time. */
#include "http/response.h"

#include <stdio.h>
#include <time.h>

#include "base/word.h"

void date_init(struct date *d)
{
	*d = (struct date){.second = -1};
}

/* By hand, not strftime: its names follow the locale. */
static void date_make(struct date *d, int64_t second)
{
	static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
	static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
	                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	time_t            when = (time_t)second;
	char              text[80]; /* more than a date: the compiler reckons with years of ten digits */
	struct tm         tm;

	gmtime_r(&when, &tm);
	snprintf(text, sizeof(text), "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm.tm_wday], tm.tm_mday,
	         months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
	memcpy(d->text, text, DATE_BYTES);
	d->second = second;
}

struct bytes date_at(struct date *d, int64_t wall_us)
{
	int64_t second = wall_us / 1000000;

	if (second != d->second)
		date_make(d, second);
	return (struct bytes){d->text, DATE_BYTES};
}

#define LINE(status, reason)                                                                                 \
	{                                                                                                    \
		status, BYTES_INIT("HTTP/1.1 " #status " " reason "\r\n")                                    \
	}

static void add_status_line(struct buf *out, int status)
{
	static const struct {
		int          status;
		struct bytes line;
	} lines[] = {
	        LINE(200, "OK"),
	        LINE(201, "Created"),
	        LINE(202, "Accepted"),
	        LINE(204, "No Content"),
	        LINE(304, "Not Modified"),
	        LINE(400, "Bad Request"),
	        LINE(401, "Unauthorized"),
	        LINE(403, "Forbidden"),
	        LINE(404, "Not Found"),
	        LINE(405, "Method Not Allowed"),
	        LINE(406, "Not Acceptable"),
	        LINE(408, "Request Timeout"),
	        LINE(409, "Conflict"),
	        LINE(410, "Gone"),
	        LINE(412, "Precondition Failed"),
	        LINE(413, "Content Too Large"),
	        LINE(414, "URI Too Long"),
	        LINE(415, "Unsupported Media Type"),
	        LINE(417, "Expectation Failed"),
	        LINE(422, "Unprocessable Content"),
	        LINE(423, "Locked"),
	        LINE(428, "Precondition Required"),
	        LINE(429, "Too Many Requests"),
	        LINE(431, "Request Header Fields Too Large"),
	        LINE(500, "Internal Server Error"),
	        LINE(501, "Not Implemented"),
	        LINE(502, "Bad Gateway"),
	        LINE(503, "Service Unavailable"),
	        LINE(504, "Gateway Timeout"),
	        LINE(505, "HTTP Version Not Supported"),
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (lines[i].status == status) {
			buf_add_bytes(out, lines[i].line);
			return;
		}
	buf_add_bytes(out, BYTES("HTTP/1.1 "));
	buf_add_i64(out, status);
	buf_add_bytes(out, BYTES(" Unknown\r\n"));
}

bool response_has_body(int status)
{
	return status >= 200 && status != 204 && status != 304;
}

static void add_header(struct buf *out, struct bytes name, struct bytes value)
{
	buf_add_bytes(out, name);
	buf_add_bytes(out, BYTES(": "));
	buf_add_bytes(out, value);
	buf_add_bytes(out, BYTES("\r\n"));
}

static bool is_one_line(struct bytes text)
{
	size_t at = 0;

	while (text.len - at >= WORD_BYTES && !word_below(word_at(text.data + at), ' '))
		at += WORD_BYTES;
	for (; at < text.len; at++)
		if (text.data[at] == '\r' || text.data[at] == '\n' || text.data[at] == '\0')
			return false;
	return true;
}

static void add_own_headers(struct buf *out, const struct http_response *response)
{
	for (unsigned i = 0; i < response->header_count; i++) {
		const struct http_header *h = &response->headers[i];

		if (is_one_line(h->name) && is_one_line(h->value))
			add_header(out, h->name, h->value);
	}
}

static void add_body_headers(struct buf *out, const struct http_response *response,
                             const struct response_facts *facts)
{
	if (!response_has_body(response->status))
		return;
	if (response->content_type != NULL)
		add_header(out, BYTES("Content-Type"), bytes_of(response->content_type));
	if (facts->stream) {
		buf_add_bytes(out, BYTES("Cache-Control: no-store\r\n"));
		if (!facts->version_1_0)
			buf_add_bytes(out, BYTES("Transfer-Encoding: chunked\r\n"));
		return;
	}
	buf_add_bytes(out, BYTES("Content-Length: "));
	buf_add_i64(out, response->content_type == NULL ? 0 : (int64_t)response->body.len);
	buf_add_bytes(out, BYTES("\r\n"));
}

void response_head(struct buf *out, const struct http_response *response, const struct response_facts *facts)
{
	add_status_line(out, response->status);
	add_header(out, BYTES("Date"), facts->date);
	add_body_headers(out, response, facts);
	if (facts->close)
		buf_add_bytes(out, BYTES("Connection: close\r\n"));
	else if (facts->version_1_0)
		buf_add_bytes(out, BYTES("Connection: keep-alive\r\n"));
	add_own_headers(out, response);
	buf_add_bytes(out, BYTES("\r\n"));
}
