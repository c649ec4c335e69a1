/* Base64 (RFC 4648, section 4), strict: padding is required, white space is refused, and the bits that no
 * byte uses are zero, so that each run of bytes has exactly one text. */
#ifndef JSON_BASE64_H
#define JSON_BASE64_H

#include "base/buf.h"

enum base64_fault {
	BASE64_OK = 0,
	BASE64_LENGTH,    /* not a multiple of four */
	BASE64_CHARACTER, /* outside the alphabet, or padding where none belongs */
	BASE64_BITS,      /* the last character carries bits that no byte uses */
};

void base64_encode(struct buf *out, struct bytes data);

/* What is wrong with the text, without decoding it. */
enum base64_fault base64_check(struct bytes text);

/* The decoded bytes are in the arena. *out is set exactly when BASE64_OK is returned. */
enum base64_fault base64_decode(struct arena *a, struct bytes text, struct bytes *out);

/* The alphabet for URLs (section 5), for whole groups: three bytes, four characters, no padding, so that each run of
 * bytes has exactly one text here too. data.len is a multiple of 3; `out` has room for data.len / 3 * 4. */
void base64_url_write(struct bytes data, char *out);

/* False unless it is such a text. `out` has room for text.len / 4 * 3. */
bool base64_url_read(struct bytes text, uint8_t *out);

/* The same alphabet for any length, without padding, as JOSE writes it (RFC 7515, section 2). False unless the text is the
 * one text of its bytes. The decoded bytes are in the arena; *out is set exactly when true is returned. */
bool base64_url_decode(struct arena *a, struct bytes text, struct bytes *out);

#endif
