/* Codes that prove addresses: see email_code.h. */
#include "service/email_code.h"

#include "base/crypto.h"
#include "service/attempt.h"
#include "service/row.h"

const struct user_policy *email_policy(const struct email_terms *terms)
{
	return terms == NULL ? &user_policy_usual : terms->policy;
}

/* ---- counting ---- */

static bool fits(const struct rule *rule, enum rule_counts counts)
{
	return rule->counts == counts && rule->qualifier != QUALIFY_METHOD &&
	       (rule->skips_source || !rule_counts_sources(rule));
}

static enum err_code rule_get(const struct rules *rules, const struct rule_ref *ref, enum rule_counts counts,
                              const struct rule **out, struct err *err)
{
	*out = rules_find(rules, ref->journey, ref->name, BYTES(""));
	if (*out == NULL || !fits(*out, counts))
		return err_set(err, ERR_NOT_NOW,
		               "codes cannot be counted: the policies `users` count them as %.*s/%.*s, and "
		               "the policies `attempts` have no such type that counts %s, without a method "
		               "and without a source",
		               BYTES_ARG(ref->journey), BYTES_ARG(ref->name),
		               counts == COUNT_SENT ? "what was sent" : "failures");
	return ERR_NONE;
}

enum err_code code_rules_check(const struct rules *rules, const struct user_policy *p, struct err *err)
{
	const struct rule *rule;

	if (rule_get(rules, &p->requests_of_user, COUNT_SENT, &rule, err) != ERR_NONE ||
	    rule_get(rules, &p->requests_of_address, COUNT_SENT, &rule, err) != ERR_NONE ||
	    rule_get(rules, &p->entries_of_user, COUNT_FAILURE, &rule, err) != ERR_NONE)
		return err->code;
	return ERR_NONE;
}

/* A count that cannot be kept is an error: codes are not given uncounted. */
static enum err_code attempt_init(struct attempt *q, const struct email_terms *terms,
                                  const struct rule_ref *ref, enum rule_counts counts, struct err *err)
{
	static const struct attempt nowhere;
	const struct attempt       *from = terms->from == NULL ? &nowhere : terms->from;
	const struct rule          *rule;

	if (rule_get(terms->rules, ref, counts, &rule, err) != ERR_NONE)
		return err->code;
	*q = (struct attempt){.subject_count = 1,
	                      .alone = true, /* by user, or by mailbox: each on its own */
	                      .rules = terms->rules,
	                      .rule = rule,
	                      .source = from->source, /* (4) */
	                      .network = from->network,
	                      .source_allowed = from->source_allowed,
	                      .source_denied = from->source_denied,
	                      .risk = from->risk,
	                      .token_sent = from->token_sent,
	                      .token = from->token,
	                      .keys = from->keys,
	                      .notification_type = rule->qualifier == QUALIFY_NOTIFICATION
	                                                   ? BYTES("VERIFY_EMAIL")
	                                                   : (struct bytes){NULL, 0}};
	return ERR_NONE;
}

/* The mailbox, as attempts call it: {"email": …}. */
static struct bytes mailbox(struct context *ctx, struct bytes email)
{
	return identifier_of_row_email(&ctx->services->identifiers, ctx->arena, email);
}

static enum err_code record(struct context *ctx, const struct attempt *q, enum outcome outcome,
                            struct code_standing *out, struct err *err)
{
	struct attempt_result r;
	uint32_t              n = out->counts.count++;

	if (attempt_record(ctx, q, outcome, &r, err) != ERR_NONE)
		return err->code;
	out->counts.list[n].rule = q->rule;
	out->counts.list[n].kind = r.verdict.kind;
	out->counts.list[n].shadow = r.shadow.kind;
	out->counts.list[n].locked = r.locked_now;
	out->counts.list[n].outcome = outcome;
	verdict_add(&out->verdict, &r.verdict);
	return ERR_NONE;
}

/* (1) The second is asked before the first is counted: if it refuses, nothing is. */
enum err_code code_request_count(struct context *ctx, const struct email_terms *terms,
                                 const struct code_subject *who, struct code_standing *out, struct err *err)
{
	struct attempt     of_user, of_address;
	struct assessment *seen;

	*out = (struct code_standing){0};
	if (terms == NULL)
		return ERR_NONE;
	if (attempt_init(&of_user, terms, &terms->policy->requests_of_user, COUNT_SENT, err) != ERR_NONE ||
	    attempt_init(&of_address, terms, &terms->policy->requests_of_address, COUNT_SENT, err) !=
	            ERR_NONE)
		return err->code;
	of_user.subjects[0] = who->user;
	of_address.subjects[0] = mailbox(ctx, who->email);
	seen = arena_alloc(ctx->arena, sizeof(*seen));
	if (assess(ctx, &of_address, seen, err) != ERR_NONE)
		return err->code;
	out->verdict = seen->verdict;
	if (out->verdict.kind == VERDICT_ALLOW && record(ctx, &of_user, OUTCOME_SENT, out, err) != ERR_NONE)
		return err->code;
	if (out->verdict.kind == VERDICT_ALLOW &&
	    record(ctx, &of_address, OUTCOME_SENT, out, err) != ERR_NONE)
		return err->code;
	out->refused = out->verdict.kind != VERDICT_ALLOW;
	return ERR_NONE;
}

/* (3) An entry without a code counts as well. Whoever proves an address shows that its mail arrives. */
enum err_code code_entry_count(struct context *ctx, const struct email_terms *terms,
                               const struct code_entry *entry, struct code_standing *out, struct err *err)
{
	struct attempt       of_user, of_address;
	struct code_standing ignored = {0};
	uint32_t             before = ctx->changes.count;

	*out = (struct code_standing){0};
	if (terms == NULL)
		return ERR_NONE;
	if (attempt_init(&of_user, terms, &terms->policy->entries_of_user, COUNT_FAILURE, err) != ERR_NONE)
		return err->code;
	of_user.subjects[0] = entry->who.user;
	if (record(ctx, &of_user, entry->right ? OUTCOME_SUCCESS : OUTCOME_FAILURE, out, err) != ERR_NONE)
		return err->code;
	out->refused = out->verdict.kind != VERDICT_ALLOW && (entry->right || ctx->changes.count == before);
	if (!entry->right || out->refused)
		return ERR_NONE;
	if (attempt_init(&of_address, terms, &terms->policy->requests_of_address, COUNT_SENT, err) !=
	    ERR_NONE)
		return err->code;
	of_address.subjects[0] = mailbox(ctx, entry->who.email);
	return record(ctx, &of_address, OUTCOME_SUCCESS, &ignored, err);
}

/* ---- the code itself ---- */

/* Crockford's digits: none is taken for another. */
static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

void code_make(struct context *ctx, uint32_t chars, struct code *out)
{
	uint8_t bits[EMAIL_CODE_CHARS_MAX];

	ctx_random(ctx, bits, sizeof(bits));
	out->len = chars;
	for (uint32_t i = 0; i < chars; i++)
		out->text[i] = digits[bits[i] % 32];
}

static struct bytes code_clean(struct arena *a, struct bytes typed)
{
	char *out = arena_alloc(a, typed.len);

	for (size_t i = 0; i < typed.len; i++) {
		char c = typed.data[i] >= 'a' && typed.data[i] <= 'z' ? (char)(typed.data[i] - 'a' + 'A')
		                                                      : typed.data[i];

		out[i] = c == 'O' ? '0' : c == 'I' || c == 'L' ? '1' : c;
	}
	return (struct bytes){out, typed.len};
}

static struct bytes code_hash(struct context *ctx, struct bytes email_id, struct bytes code)
{
	return identifier_hash_text(
	        &ctx->services->identifiers, ctx->arena, "email-code",
	        arena_printf(ctx->arena, "%.*s\n%.*s", BYTES_ARG(email_id), BYTES_ARG(code)));
}

void code_keep(struct context *ctx, struct row *row, const struct code *code, const struct code_kept *kept)
{
	row_set_text(row, "codeHash", code_hash(ctx, kept->email_id, code_bytes(code)));
	row_set_i64(row, "codeExpires", kept->ends_s);
	row_set_i64(row, "codeTries", 0);
}

void code_drop(struct row *row)
{
	row_remove(row, "codeHash");
	row_remove(row, "codeExpires");
	row_remove(row, "codeTries");
}

bool code_is_kept(struct context *ctx, const struct item *row)
{
	return row_text(row, "codeHash").len > 0 && !row_expired(row, "codeExpires", ctx->now_us);
}

bool code_matches(struct context *ctx, const struct item *row, struct bytes email_id, struct bytes typed)
{
	return crypto_equal(row_text(row, "codeHash"),
	                    code_hash(ctx, email_id, code_clean(ctx->arena, typed)));
}
