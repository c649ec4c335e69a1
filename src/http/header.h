/* Header: one name and value, as http.h shows them and as parse.h fills them. It is apart from http.h because
 * the parsing library's own names clash with those there, so the file that includes the library cannot
 * include http.h. */
#ifndef HTTP_HEADER_H
#define HTTP_HEADER_H

#include "base/bytes.h"

enum { HTTP_HEADERS_MAX = 64 };

struct http_header {
	struct bytes name; /* as sent */
	struct bytes value;
};

#endif
