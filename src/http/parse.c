/* Parse: the only file that knows the parsing library. The library splits the head; what decides where the
 * body ends (Content-Length, Transfer-Encoding) is checked once more here, because Debian builds the library
 * without its strict mode: it takes blanks in header names, for one.
 *
 * The head is complete and contiguous, so each name and each value comes in one piece. */
#include "http/parse.h"

#include <http_parser.h>
#include <strings.h>

/* Which of the headers that frame a message have been seen. */
struct framing {
	unsigned hosts, lengths, encodings;
};

struct parsing {
	struct http_header *headers;
	struct head        *head;
	struct refusal     *refusal;
	struct framing      framing;
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

static int on_target(http_parser *parser, const char *at, size_t len)
{
	struct parsing *p = parser->data;

	p->head->target = (struct bytes){at, len};
	return 0;
}

static int on_name(http_parser *parser, const char *at, size_t len)
{
	struct parsing *p = parser->data;

	if (p->head->header_count == HTTP_HEADERS_MAX)
		return !refuse(p, 431, "the request has too many headers");
	p->headers[p->head->header_count++] = (struct http_header){{at, len}, {at + len, 0}};
	return 0;
}

static int on_value(http_parser *parser, const char *at, size_t len)
{
	struct parsing *p = parser->data;

	while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t'))
		len--;
	p->headers[p->head->header_count - 1].value = (struct bytes){at, len};
	return 0;
}

/* Returns 1: the body is not the library's business. */
static int on_head(http_parser *parser)
{
	struct parsing *p = parser->data;

	p->head->keep_alive = http_should_keep_alive(parser) != 0;
	return 1;
}

static const http_parser_settings settings = {
        .on_url = on_target,
        .on_header_field = on_name,
        .on_header_value = on_value,
        .on_headers_complete = on_head,
};

static bool take_length(struct parsing *p, struct bytes value)
{
	if (p->framing.lengths++ > 0)
		return refuse(p, 400, "more than one Content-Length");
	if (!bytes_to_u64(value, UINT64_MAX, &p->head->content_length))
		return refuse(p, 400, "Content-Length is not a number");
	return true;
}

/* Only "chunked": no client of ours compresses, and every other list is an invitation to disagree. */
static bool take_encoding(struct parsing *p, struct bytes value)
{
	if (p->framing.encodings++ > 0 || !parse_name_is(value, BYTES("chunked")))
		return refuse(p, 400, "Transfer-Encoding can only be chunked");
	p->head->chunked = true;
	return true;
}

static bool take_expect(struct parsing *p, struct bytes value)
{
	if (!parse_name_is(value, BYTES("100-continue")))
		return refuse(p, 417, "the only expectation known is 100-continue");
	p->head->expects_continue = !p->head->version_1_0;
	return true;
}

static bool take_header(struct parsing *p, const struct http_header *h)
{
	if (!scan_is_token(h->name))
		return refuse(p, 400, "a header's name holds a byte that names cannot hold");
	if (parse_name_is(h->name, BYTES("Content-Length")))
		return take_length(p, h->value);
	if (parse_name_is(h->name, BYTES("Transfer-Encoding")))
		return take_encoding(p, h->value);
	if (parse_name_is(h->name, BYTES("Expect")))
		return take_expect(p, h->value);
	if (parse_name_is(h->name, BYTES("Host")) && p->framing.hosts++ > 0)
		return refuse(p, 400, "more than one Host");
	return true;
}

static bool take_headers(struct parsing *p)
{
	for (unsigned i = 0; i < p->head->header_count; i++)
		if (!take_header(p, &p->headers[i]))
			return false;
	if (p->framing.lengths > 0 && p->framing.encodings > 0)
		return refuse(p, 400, "Content-Length and Transfer-Encoding together");
	if (p->framing.encodings > 0 && p->head->version_1_0)
		return refuse(p, 400, "HTTP/1.0 has no Transfer-Encoding");
	if (p->framing.hosts == 0 && !p->head->version_1_0)
		return refuse(p, 400, "the Host header is missing");
	return true;
}

static bool take_request_line(struct parsing *p, const http_parser *parser)
{
	if (parser->http_major != 1 || parser->http_minor > 1)
		return refuse(p, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
	if (parser->method == HTTP_CONNECT)
		return refuse(p, 405, "this server is no proxy");
	p->head->method = http_method_str((enum http_method)parser->method);
	p->head->version_1_0 = parser->http_minor == 0;
	return true;
}

static bool refuse_library(struct parsing *p, enum http_errno error)
{
	switch (error) {
	case HPE_INVALID_METHOD:
		return refuse(p, 400, "unknown method");
	case HPE_INVALID_URL:
	case HPE_INVALID_HOST:
		return refuse(p, 400, "malformed request target");
	case HPE_INVALID_CONSTANT:
	case HPE_INVALID_VERSION:
		return refuse(p, 400, "malformed request line");
	case HPE_INVALID_CONTENT_LENGTH:
	case HPE_UNEXPECTED_CONTENT_LENGTH:
	case HPE_INVALID_TRANSFER_ENCODING:
		return refuse(p, 400, "Content-Length or Transfer-Encoding is malformed");
	default:
		return refuse(p, 400, "malformed request head");
	}
}

bool parse_head(struct bytes text, struct http_header headers[HTTP_HEADERS_MAX], struct head *out,
                struct refusal *refusal)
{
	struct parsing p = {headers, out, refusal, {0}};
	http_parser    parser;
	size_t         used;

	*out = (struct head){0};
	*refusal = (struct refusal){0};
	http_parser_init(&parser, HTTP_REQUEST);
	parser.data = &p;
	used = http_parser_execute(&parser, &settings, text.data, text.len);
	if (refusal->status != 0)
		return false;
	if (HTTP_PARSER_ERRNO(&parser) != HPE_OK || used != text.len)
		return refuse_library(&p, HTTP_PARSER_ERRNO(&parser));
	return take_request_line(&p, &parser) && take_headers(&p);
}
