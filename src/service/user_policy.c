/* The policies of users: see user_policy.h. */
#include "service/user_policy.h"

#define JOURNEY "EMAIL_VERIFICATION"

const struct user_policy user_policy_usual = {
        .emails_max = USER_EMAILS_MAX,
        .devices_max = USER_DEVICES_MAX,
        .claim_s = EMAIL_CLAIM_S,
        .code_s = EMAIL_CODE_S,
        .code_chars = EMAIL_CODE_CHARS,
        .code_tries = EMAIL_CODE_TRIES_MAX,
        .requests_of_user = {BYTES_INIT(JOURNEY), BYTES_INIT("USER_CODE_REQUEST")},
        .requests_of_address = {BYTES_INIT(JOURNEY), BYTES_INIT("CODE_REQUEST")},
        .entries_of_user = {BYTES_INIT(JOURNEY), BYTES_INIT("CODE_ENTRY")},
};

/* "JOURNEY/TYPE". Whether there is such a rule, only the rules in force can say, which change by themselves. */
static struct rule_ref ref_read(struct fields *f, struct arena *a, const char *name,
                                struct rule_ref otherwise)
{
	struct bytes    text = fields_text_or(f, name, 2 * RULE_NAME_MAX + 1, (struct bytes){NULL, 0});
	const char     *slash = text.len == 0 ? NULL : memchr(text.data, '/', text.len);
	struct rule_ref ref = otherwise;

	if (fields_failed(f) || text.len == 0)
		return otherwise;
	if (slash != NULL) {
		ref.journey = arena_copy(a, (struct bytes){text.data, (size_t)(slash - text.data)});
		ref.name = arena_copy(a, (struct bytes){slash + 1, text.len - ref.journey.len - 1});
	}
	if (slash == NULL || !rule_name_is(ref.journey) || !rule_name_is(ref.name))
		fields_fail(f, name, ERR_INVALID,
		            "must be a type of the policies for attempts, like " JOURNEY "/CODE_REQUEST");
	return ref;
}

static void codes_read(struct user_policy *p, struct fields *f)
{
	const struct user_policy *usual = &user_policy_usual;
	struct arena             *a = &p->base.arena;

	p->code_s = fields_i64_or(f, "life", EMAIL_CODE_S_MIN, EMAIL_CODE_S_MAX, usual->code_s);
	p->code_chars = (uint32_t)fields_i64_or(f, "length", EMAIL_CODE_CHARS_MIN, EMAIL_CODE_CHARS_MAX,
	                                        usual->code_chars);
	p->code_tries = (uint32_t)fields_i64_or(f, "tries", 1, EMAIL_CODE_TRIES_LIMIT, usual->code_tries);
	p->requests_of_user = ref_read(f, a, "requests_of_user", usual->requests_of_user);
	p->requests_of_address = ref_read(f, a, "requests_of_address", usual->requests_of_address);
	p->entries_of_user = ref_read(f, a, "entries_of_user", usual->entries_of_user);
}

static const struct json no_members = {.type = JSON_OBJECT};

enum err_code user_policy_parse(const struct json *tree, struct document **out, struct err *err)
{
	struct user_policy *p = document_make(sizeof(*p));
	const struct json  *codes;
	struct fields       f, within;

	fields_init(&f, tree, err);
	p->emails_max = (uint32_t)fields_i64_or(&f, "emails", 1, USER_EMAILS_LIMIT, USER_EMAILS_MAX);
	p->devices_max = (uint32_t)fields_i64_or(&f, "devices", 1, USER_DEVICES_LIMIT, USER_DEVICES_MAX);
	p->claim_s = fields_i64_or(&f, "claim_life", EMAIL_CLAIM_S_MIN, EMAIL_CLAIM_S_MAX, EMAIL_CLAIM_S);
	codes = fields_object(&f, "codes", 16);
	fields_enter(&within, &f, BYTES("codes"), codes == NULL ? &no_members : codes);
	codes_read(p, &within);
	fields_end(&within);
	if (fields_end(&f) != ERR_NONE) {
		document_release(&p->base);
		return err->code;
	}
	*out = &p->base;
	return ERR_NONE;
}

struct user_bounds user_bounds_now(struct document_holder *users)
{
	struct user_policy       *now = document_acquire(users);
	const struct user_policy *p = now == NULL ? &user_policy_usual : now;
	struct user_bounds        out = {p->emails_max, p->claim_s};

	if (now != NULL)
		document_release(&now->base);
	return out;
}
