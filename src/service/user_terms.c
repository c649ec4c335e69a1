/* User terms: see user_terms.h. */
#include "service/user_terms.h"

#include "base/date.h"
#include "service/row.h"

/* ---- folding ---- */

static bool has_control(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
			return true;
	return false;
}

static struct bytes folded(struct arena *a, struct bytes text)
{
	char   out[USER_FOLDED_BYTES_MAX];
	size_t len = has_control(text) ? 0 : text_fold(text, out, sizeof(out));

	return arena_copy(a, (struct bytes){out, len});
}

struct bytes user_name_prefix(struct arena *a, struct bytes typed)
{
	return folded(a, typed);
}

/* The letters of a host that are not ASCII are written otherwise in DNS, all of them together: there is no beginning of that. */
struct bytes user_email_prefix(struct arena *a, struct bytes typed)
{
	const char *at = typed.len == 0 ? NULL : memchr(typed.data, '@', typed.len);

	for (const char *c = at; c != NULL && c < typed.data + typed.len; c++)
		if ((unsigned char)*c > 0x7f)
			return (struct bytes){NULL, 0};
	return folded(a, typed);
}

/* ---- names ---- */

static bool begins(struct bytes text, struct bytes prefix)
{
	char   out[USER_FOLDED_BYTES_MAX];
	size_t len = text.len == 0 ? 0 : text_fold(text, out, sizeof(out));

	return bytes_starts_with((struct bytes){out, len}, prefix);
}

static bool name_fits(const struct user *u, struct bytes prefix)
{
	char both[2 * USER_NAME_BYTES_MAX + 1];

	if (begins(u->first_name, prefix) || begins(u->last_name, prefix))
		return true;
	if (u->first_name.len == 0 || u->last_name.len == 0 ||
	    u->first_name.len + u->last_name.len >= sizeof(both)) /* others may write longer ones */
		return false;
	memcpy(both, u->first_name.data, u->first_name.len);
	both[u->first_name.len] = ' ';
	memcpy(both + u->first_name.len + 1, u->last_name.data, u->last_name.len);
	return begins((struct bytes){both, u->first_name.len + 1 + u->last_name.len}, prefix);
}

/* ---- addresses ---- */

/* (3) A claim with a marker has GSI1PK (user_email.h, 1). */
static bool counts(const struct context *ctx, const struct item *row)
{
	const struct value *verified = item_get(row, BYTES("isVerified"));

	if (row_expired(row, "ttl", ctx->now_us))
		return false;
	return (verified != NULL && verified->type == VALUE_BOOL && verified->truth) ||
	       (!ctx->services->claims_verified && item_get(row, BYTES("GSI1PK")) != NULL);
}

bool user_terms_have_address(const struct context *ctx, const struct user_terms *terms,
                             const struct item *row)
{
	char   normal[EMAIL_NORMAL_BYTES_MAX];
	size_t len;

	if (terms->email.len == 0)
		return true;
	if (!counts(ctx, row))
		return false;
	len = email_of_row(row_text(row, "email"), normal);
	return bytes_starts_with((struct bytes){normal, len}, terms->email);
}

/* ---- all of it ---- */

static bool created_fits(const struct user_terms *terms, struct bytes created_at)
{
	int64_t at_us;

	if (terms->created_from_s == 0 && terms->created_before_s == 0)
		return true;
	return date_read_rfc3339(created_at, &at_us) && at_us >= terms->created_from_s * 1000000 &&
	       (terms->created_before_s == 0 || at_us < terms->created_before_s * 1000000);
}

bool user_terms_fit(const struct user_terms *terms, const struct user *u, bool has_address)
{
	return u->status != USER_ERASING &&
	       (terms->status == USER_ANY_STATUS || (enum user_status)terms->status == u->status) &&
	       (terms->provider.len == 0 || bytes_equal(row_text(&u->row, "provider"), terms->provider)) &&
	       created_fits(terms, u->created_at) && (terms->email.len == 0 || has_address) &&
	       (terms->name.len == 0 || name_fits(u, terms->name));
}
