/* Push tokens: see push_token.h. */
#include "service/push_token.h"

const char *const push_kind_names[PUSH_KINDS] = {
        [PUSH_EXPO] = "expoPushToken", [PUSH_FCM] = "fcmToken", [PUSH_APNS] = "apnsToken"};

const char *const push_kind_forms[PUSH_KINDS] = {
        [PUSH_EXPO] = "must be a token of Expo's: ExponentPushToken[…], ExpoPushToken[…] or a UUID",
        [PUSH_FCM] = "must be a token of FCM's: 32 to 1024 letters, digits, '-', '_' and ':'",
        [PUSH_APNS] = "must be a device token of APNs': 64 to 200 hexadecimal digits"};

static const char *const key_prefixes[PUSH_KINDS] = {
        [PUSH_EXPO] = "EXPO#", [PUSH_FCM] = "FCM#", [PUSH_APNS] = "APNS#"};

/* ---- forms ---- */

/* Whatever stands in the brackets is Expo's affair, as long as it is one word. */
static bool is_bracketed(struct bytes token, const char *name)
{
	size_t begin = strlen(name);

	if (!bytes_starts_with(token, bytes_of(name)) || token.len < begin + 3 || token.data[begin] != '[' ||
	    token.data[token.len - 1] != ']')
		return false;
	for (size_t i = begin + 1; i < token.len - 1; i++)
		if (token.data[i] <= ' ' || token.data[i] > '~' || token.data[i] == '[' ||
		    token.data[i] == ']')
			return false;
	return true;
}

/* What Expo's own client takes for one: letters and digits, not only hexadecimal ones. */
static bool is_uuid_like(struct bytes text)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	for (size_t i = 0; i < text.len && i < sizeof(form) - 1; i++)
		if (form[i] == '-' ? text.data[i] != '-'
		                   : !bytes_hold_only((struct bytes){text.data + i, 1}, ""))
			return false;
	return text.len == sizeof(form) - 1;
}

static bool is_hex(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (hex_digit(text.data[i]) < 0)
			return false;
	return true;
}

bool push_token_is(enum push_kind kind, struct bytes token)
{
	if (token.len > PUSH_TOKEN_BYTES_MAX)
		return false;
	switch (kind) {
	case PUSH_EXPO:
		return is_bracketed(token, "ExponentPushToken") || is_bracketed(token, "ExpoPushToken") ||
		       is_uuid_like(token);
	case PUSH_FCM:
		return token.len >= PUSH_FCM_BYTES_MIN && bytes_hold_only(token, "-_:");
	default:
		return token.len >= PUSH_APNS_DIGITS_MIN && token.len <= PUSH_APNS_DIGITS_MAX &&
		       token.len % 2 == 0 && is_hex(token);
	}
}

/* Digits that could be both are taken for APNs': FCM's have a colon. */
enum push_kind push_token_kind(struct bytes token)
{
	return push_token_is(PUSH_EXPO, token)   ? PUSH_EXPO
	       : push_token_is(PUSH_APNS, token) ? PUSH_APNS
	       : push_token_is(PUSH_FCM, token)  ? PUSH_FCM
	                                         : PUSH_KINDS;
}

struct bytes push_token_normal(struct arena *a, enum push_kind kind, struct bytes token)
{
	char *lower;

	if (kind != PUSH_APNS)
		return token;
	lower = arena_alloc(a, token.len);
	for (size_t i = 0; i < token.len; i++)
		lower[i] = (char)(token.data[i] >= 'A' && token.data[i] <= 'F' ? token.data[i] | 0x20
		                                                               : token.data[i]);
	return (struct bytes){lower, token.len};
}

/* ---- markers ---- */

static struct bytes marker_key(struct arena *a, const struct push_marker *m)
{
	return arena_printf(a, "%s%.*s", key_prefixes[m->kind], BYTES_ARG(m->token));
}

bool push_marker_read(const struct item *row, struct push_marker *out)
{
	struct bytes pk = row_text(row, "PK");

	for (int kind = 0; kind < PUSH_KINDS; kind++) {
		struct bytes prefix = bytes_of(key_prefixes[kind]);

		if (!bytes_starts_with(pk, prefix))
			continue;
		*out = (struct push_marker){(enum push_kind)kind,
		                            {pk.data + prefix.len, pk.len - prefix.len}};
		return true;
	}
	return false;
}

enum err_code push_marker_look(struct context *ctx, const struct push_marker *m, struct looked *out,
                               struct err *err)
{
	return ctx_get(ctx, TABLE_PUSH_TOKENS, marker_key(ctx->arena, m), out, err);
}

bool push_marker_names(const struct looked *marker, struct bytes user, struct bytes device)
{
	return marker->found && bytes_equal(row_text(&marker->item, "userId"), user) &&
	       bytes_equal(row_text(&marker->item, "deviceId"), device);
}

void push_marker_put(struct context *ctx, const struct push_marker *m, const struct item *device)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", marker_key(ctx->arena, m));
	row_set_text(&row, "userId", row_text(device, "userId"));
	row_set_text(&row, "deviceId", row_text(device, "deviceId"));
	if (row_i64(device, "expiresAt", 0) > 0) /* of a row that others wrote there may be none */
		row_set_i64(&row, "expiresAt", row_i64(device, "expiresAt", 0));
	ctx_put(ctx, TABLE_PUSH_TOKENS, row_item(&row));
}

void push_marker_delete(struct context *ctx, const struct push_marker *m)
{
	ctx_delete(ctx, TABLE_PUSH_TOKENS, row_key_one(ctx->arena, marker_key(ctx->arena, m)));
}

enum err_code push_marker_drop(struct context *ctx, const struct push_marker *m, const struct item *device,
                               struct err *err)
{
	struct looked marker;

	if (push_marker_look(ctx, m, &marker, err) != ERR_NONE)
		return err->code;
	if (push_marker_names(&marker, row_text(device, "userId"), row_text(device, "deviceId")))
		push_marker_delete(ctx, m);
	return ERR_NONE;
}

/* ---- registrations of a user ---- */

enum err_code push_user_look(struct context *ctx, struct bytes user, struct looked *out, struct err *err)
{
	return ctx_get(ctx, TABLE_PUSH_TOKENS, arena_printf(ctx->arena, "USER#%.*s", BYTES_ARG(user)), out,
	               err);
}

void push_user_note(struct context *ctx, const struct looked *read, int64_t expires_s)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", read->pk);
	row_set_i64(&row, "registrations", (read->found ? row_i64(&read->item, "registrations", 0) : 0) + 1);
	row_set_i64(&row, "expiresAt", expires_s);
	ctx_put(ctx, TABLE_PUSH_TOKENS, row_item(&row));
}
