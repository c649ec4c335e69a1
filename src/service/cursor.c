/* Cursors: see cursor.h. */
#include "service/cursor.h"

#include "base/buf.h"
#include "base/cipher.h"
#include "json/base64.h"

enum { PK_BYTES_MAX = 2048, SK_BYTES_MAX = 1024 }; /* of DynamoDB's keys */

/* ---- the key of a row as one text, and back ---- */

static struct bytes place_join(struct arena *a, struct bytes pk, struct bytes sk)
{
	return arena_printf(a, "%zu:%.*s%.*s", pk.len, BYTES_ARG(pk), BYTES_ARG(sk));
}

static bool place_split(struct bytes plain, struct bytes *pk, struct bytes *sk)
{
	const char *colon = plain.len == 0 ? NULL : memchr(plain.data, ':', plain.len);
	uint64_t    len;

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

static struct bytes to_text(struct arena *a, struct bytes data)
{
	struct buf   out;
	struct bytes text;
	char        *to;

	buf_init(&out, a);
	base64_encode(&out, data);
	text = arena_copy(a, buf_bytes(&out));
	to = (char *)(uintptr_t)text.data;
	for (size_t i = 0; i < text.len; i++)
		to[i] = to[i] == '+' ? '-' : to[i] == '/' ? '_' : to[i];
	while (text.len > 0 && to[text.len - 1] == '=')
		text.len--;
	return text;
}

static bool of_text(struct arena *a, struct bytes text, struct bytes *out)
{
	return text.len > 0 && text.len <= CURSOR_BYTES_MAX && base64_url_decode(a, text, out);
}

/* ---- for callers ---- */

static void key_make(const struct context *ctx, struct cipher_key *out)
{
	cipher_key_make(&ctx->services->identifiers.hmac, BYTES("cursors of lists"), out);
}

struct bytes cursor_write(const struct context *ctx, struct bytes pk, struct bytes sk)
{
	struct cipher_key key;
	struct bytes      sealed;

	key_make(ctx, &key);
	sealed = cipher_seal(&key, ctx->arena, BYTES(""), place_join(ctx->arena, pk, sk));
	crypto_wipe(&key, sizeof(key));
	return to_text(ctx->arena, sealed);
}

bool cursor_read(const struct context *ctx, struct bytes text, struct bytes *pk, struct bytes *sk)
{
	struct cipher_key key;
	struct bytes      sealed, plain;
	bool              good;

	if (!of_text(ctx->arena, text, &sealed))
		return false;
	key_make(ctx, &key);
	good = cipher_open(&key, ctx->arena, BYTES(""), sealed, &plain);
	crypto_wipe(&key, sizeof(key));
	return good && place_split(plain, pk, sk);
}

/* ---- for rows of ours ---- */

struct bytes cursor_pack(struct arena *a, struct bytes pk, struct bytes sk)
{
	return to_text(a, place_join(a, pk, sk));
}

bool cursor_unpack(struct arena *a, struct bytes text, struct bytes *pk, struct bytes *sk)
{
	struct bytes plain;

	return of_text(a, text, &plain) && place_split(plain, pk, sk);
}
