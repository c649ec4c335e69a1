/* Cognito: see cognito.h. */
#include "service/cognito.h"

#include "service/email.h"

#define CUSTOM "custom:"

static bool is_one_line(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
			return false;
	return text.len > 0;
}

static void text_set(struct user_text *t, struct bytes value, bool good)
{
	if (good)
		*t = (struct user_text){true, value};
}

static bool is_name(struct bytes value)
{
	return value.len <= USER_NAME_BYTES_MAX && is_one_line(value);
}

static void email_set(struct arena *a, struct sync_record *q, struct bytes value)
{
	char   normal[EMAIL_NORMAL_BYTES_MAX];
	size_t len = value.len <= EMAIL_BYTES_MAX ? email_normalise(value, normal) : 0;

	if (len == 0 || len > USER_EMAIL_BYTES_MAX)
		return;
	q->email = arena_copy(a, (struct bytes){normal, len});
	q->email_typed = email_typed_beside(value, q->email);
}

static void custom_set(struct arena *a, struct sync_record *q, struct bytes name, struct bytes value)
{
	struct value text = value_string(value);

	if (name.len >= 1 && name.len <= USER_ATTRIBUTE_NAME_MAX && bytes_hold_only(name, "-_.") &&
	    value.len <= USER_ATTRIBUTE_TEXT_MAX)
		q->fields.attributes = item_with(a, &q->fields.attributes, name, &text);
}

void cognito_attribute(struct arena *a, struct sync_record *q, struct bytes name, struct bytes value)
{
	if (bytes_is(name, "sub"))
		q->id = value;
	else if (bytes_is(name, "email"))
		email_set(a, q, value);
	else if (bytes_is(name, "email_verified"))
		q->email_verified = bytes_is(value, "true");
	else if (bytes_is(name, "given_name"))
		text_set(&q->fields.first_name, value, is_name(value));
	else if (bytes_is(name, "family_name"))
		text_set(&q->fields.last_name, value, is_name(value));
	else if (bytes_is(name, "phone_number"))
		text_set(&q->fields.phone, value, identifier_phone_is(value));
	else if (bytes_starts_with(name, BYTES(CUSTOM)))
		custom_set(a, q, (struct bytes){name.data + strlen(CUSTOM), name.len - strlen(CUSTOM)},
		           value);
}

enum sync_standing cognito_standing(struct bytes status, bool disabled)
{
	static const char *const welcome[] = {"CONFIRMED", "EXTERNAL_PROVIDER", "RESET_REQUIRED",
	                                      "FORCE_CHANGE_PASSWORD"};

	if (bytes_is(status, "UNCONFIRMED"))
		return SYNC_UNCONFIRMED;
	if (disabled || bytes_is(status, "ARCHIVED") || bytes_is(status, "COMPROMISED"))
		return SYNC_BARRED;
	for (size_t i = 0; i < sizeof(welcome) / sizeof(welcome[0]); i++)
		if (bytes_is(status, welcome[i]))
			return SYNC_WELCOME;
	return SYNC_UNKNOWN;
}

bool cognito_complete(struct sync_record *q)
{
	if (q->name.len > SYNC_NAME_BYTES_MAX)
		return false;
	return user_id_is(q->id);
}
