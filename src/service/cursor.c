/* Cursors: see cursor.h. */
#include "service/cursor.h"

#include "base/buf.h"
#include "json/base64.h"

enum { PK_BYTES_MAX = 2048, SK_BYTES_MAX = 1024 }; /* of DynamoDB's keys */

struct bytes cursor_write(struct arena *a, struct bytes pk, struct bytes sk)
{
	struct bytes plain = arena_printf(a, "%zu:%.*s%.*s", pk.len, BYTES_ARG(pk), BYTES_ARG(sk));
	struct buf   out;
	struct bytes text;
	char        *to;

	buf_init(&out, a);
	base64_encode(&out, plain);
	text = arena_copy(a, buf_bytes(&out));
	to = (char *)(uintptr_t)text.data;
	for (size_t i = 0; i < text.len; i++)
		to[i] = to[i] == '+' ? '-' : to[i] == '/' ? '_' : to[i];
	while (text.len > 0 && to[text.len - 1] == '=')
		text.len--;
	return text;
}

static bool decode(struct arena *a, struct bytes text, struct bytes *out)
{
	size_t padded = (text.len + 3) / 4 * 4;
	char  *to = arena_alloc(a, padded + 1);

	for (size_t i = 0; i < padded; i++) {
		char c = i < text.len ? text.data[i] : '=';

		if (c == '+' || c == '/')
			return false;
		to[i] = c == '-' ? '+' : c == '_' ? '/' : c;
	}
	return base64_decode(a, (struct bytes){to, padded}, out) == BASE64_OK;
}

bool cursor_read(struct arena *a, struct bytes text, struct bytes *pk, struct bytes *sk)
{
	struct bytes plain;
	const char  *colon;
	uint64_t     len;

	if (text.len == 0 || text.len > CURSOR_BYTES_MAX || !decode(a, text, &plain) || plain.len == 0)
		return false;
	colon = memchr(plain.data, ':', plain.len);
	if (colon == NULL ||
	    !bytes_to_u64((struct bytes){plain.data, (size_t)(colon - plain.data)}, PK_BYTES_MAX, &len))
		return false;
	*sk = (struct bytes){colon + 1, plain.len - (size_t)(colon + 1 - plain.data)};
	if (len < 1 || len > sk->len || sk->len - len > SK_BYTES_MAX)
		return false;
	*pk = (struct bytes){sk->data, len};
	*sk = (struct bytes){sk->data + len, sk->len - len};
	return bytes_is_utf8(*pk) && bytes_is_utf8(*sk);
}
