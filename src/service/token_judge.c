/* Tokens: see token_judge.h. */
#include "service/token_judge.h"

#include "service/lock.h"
#include "service/outage.h"
#include "service/row.h"

struct bytes token_subject(struct context *ctx, struct bytes subject, struct bytes *email)
{
	struct json   text = json_of_text(subject);
	struct err    err = {.code = ERR_NONE};
	struct fields f = {.err = &err};
	const char   *looks = identifier_looks_like(subject);
	struct bytes  id = {NULL, 0};
	char         *normal;

	*email = (struct bytes){NULL, 0};
	if (looks != NULL && strcmp(looks, "email") == 0) {
		normal = arena_alloc(ctx->arena, EMAIL_NORMAL_BYTES_MAX);
		*email = (struct bytes){normal, email_normalise(subject, normal)};
		if (identifier_hash(&ctx->services->identifiers, ctx->arena, IDENTIFIER_EMAIL, subject, &id))
			return id;
	}
	id = identifier_read(&ctx->services->identifiers, ctx->arena, &f, "sub", &text);
	return fields_failed(&f) ? (struct bytes){NULL, 0} : id;
}

/* ---- revocation and status ---- */

static enum err_code revocation_judge(struct context *ctx, const struct token_facts *t, struct bytes address,
                                      struct token_judged *out, struct err *err)
{
	struct revocation_query q = {.issuer = t->issuer,
	                             .jti = t->jti,
	                             .user = out->user,
	                             .client = t->client,
	                             .address = bytes_equal(address, out->user) ? (struct bytes){NULL, 0}
	                                                                        : address,
	                             .issued_s = t->issued_s,
	                             .ahead_s = t->ahead_s};

	if (revocation_check(ctx, &q, &out->revoked, err) != ERR_NONE)
		return err->code;
	if (out->revoked.kind != REVOKED_NOTHING)
		verdict_add(&out->verdict,
		            &(struct verdict){.kind = VERDICT_INVALID_TOKEN, .reason = "revoked"});
	return ERR_NONE;
}

/* (5) */
static bool is_foreign(const struct token_facts *t, const struct item *profile)
{
	return t->provider.len > 0 && profile->count > 0 &&
	       !bytes_equal(row_text(profile, "provider"), t->provider);
}

/* Whose token it is, and whether the account is active. out->user: the id in the token, which need not be one that attempts could
 * be counted for, or the hash of an address; then the owner of the address, if there is one. */
static enum err_code status_judge(struct context *ctx, const struct token_facts *t, struct bytes email,
                                  struct token_judged *out, struct err *err)
{
	struct account_subjects q = {.ids = &out->user, .emails = &email, .count = 1};
	struct account          found;

	if (account_judge(ctx, &q, &found, err) != ERR_NONE)
		return err->code;
	out->foreign = is_foreign(t, &found.profile);
	if (out->foreign) {
		out->verdict = (struct verdict){.kind = VERDICT_INVALID_TOKEN, .reason = "provider"};
		return ERR_NONE;
	}
	out->inactive = found.verdict.kind != VERDICT_ALLOW;
	verdict_add(&out->verdict, &found.verdict);
	if (found.users[0].len > 0)
		out->user = found.users[0];
	return ERR_NONE;
}

/* ---- states and locks ---- */

/* Interventions, and locks that people set, of one subject (3). */
struct standing {
	struct looked  states[STATE_ROW_COUNT];
	struct looked *locks; /* as many as the policies have */
};

static void standing_want(struct context *ctx, struct bytes subject, const struct rules *rules,
                          struct standing *s)
{
	s->locks = arena_array(ctx->arena, rules->lock_count, sizeof(*s->locks));
	for (int i = 0; i < STATE_ROW_COUNT; i++) {
		looked_init(&s->states[i], subject, state_row_key((enum state_row)i));
		s->states[i].next = i + 1 < STATE_ROW_COUNT ? &s->states[i + 1] : NULL;
	}
	for (uint32_t i = 0; i < rules->lock_count; i++) {
		looked_init(&s->locks[i], subject, rules->locks[i].sk);
		s->locks[i].next = i + 1 < rules->lock_count ? &s->locks[i + 1] : NULL;
	}
	if (rules->lock_count > 0)
		s->states[STATE_ROW_COUNT - 1].next = s->locks;
}

static void locks_judge(struct context *ctx, const struct rules *rules, const struct standing *s,
                        struct verdict *out)
{
	for (uint32_t i = 0; i < rules->lock_count; i++) {
		const struct looked *l = &s->locks[i];

		if (l->found && lock_holds(&l->item, ctx->now_us) &&
		    (rules->locks[i].only_people || lock_is_persons(&l->item))) {
			struct verdict locked = lock_verdict(l);

			verdict_add(out, &locked);
		}
	}
}

static enum err_code standing_judge(struct context *ctx, struct bytes subject, const struct rules *rules,
                                    struct token_judged *out, struct err *err)
{
	struct standing    s;
	struct states_seen seen = {.subject = subject, .verdict = &out->verdict, .required = &out->required};

	standing_want(ctx, subject, rules, &s);
	if (ctx_look_all(ctx, s.states, err) != ERR_NONE)
		return err->code;
	for (int i = 0; i < STATE_ROW_COUNT; i++)
		seen.rows[i] = s.states[i].found ? &s.states[i].item : NULL;
	if (states_judge(ctx, &seen, err) != ERR_NONE)
		return err->code;
	locks_judge(ctx, rules, &s, &out->verdict);
	return ERR_NONE;
}

/* ---- all of it ---- */

static enum err_code begin(struct context *ctx, const struct token_facts *t, struct token_judged *out,
                           struct bytes *subject, struct err *err)
{
	struct bytes email;

	*out = (struct token_judged){0};
	*subject = token_subject(ctx, t->subject, &email);
	out->user = email.len > 0 ? *subject : t->subject;
	if (status_judge(ctx, t, email, out, err) != ERR_NONE)
		return err->code;
	if (out->foreign) {
		*subject = (struct bytes){NULL, 0};
		return ERR_NONE;
	}
	return revocation_judge(ctx, t, email.len > 0 ? *subject : (struct bytes){NULL, 0}, out, err);
}

enum err_code token_judge(struct context *ctx, const struct token_facts *t, const struct rules *rules,
                          struct token_judged *out, struct err *err)
{
	struct bytes subject;

	if (begin(ctx, t, out, &subject, err) != ERR_NONE)
		return err->code;
	if (subject.len > 0 && standing_judge(ctx, subject, rules, out, err) != ERR_NONE)
		return err->code;
	if (identifier_is_hashed(subject) && !identifier_is_hashed(out->user) &&
	    standing_judge(ctx, out->user, rules, out, err) != ERR_NONE) /* an address, and its user */
		return err->code;
	out->unsure = outage_judge_token(ctx, rules->fails_closed, &out->verdict);
	out->wait = verdict_wait_all(&out->verdict, ctx->now_us);
	return ERR_NONE;
}

enum err_code token_judge_actions(struct context *ctx, const struct token_facts *t,
                                  const struct token_actions *actions, struct token_judged *out,
                                  struct err *err)
{
	struct check   *q = arena_alloc(ctx->arena, sizeof(*q));
	struct checked *checked = actions->out;

	*q = *actions->q;
	*checked = (struct checked){0};
	if (begin(ctx, t, out, &q->who.subjects[0], err) != ERR_NONE)
		return err->code;
	q->who.subject_count = q->who.subjects[0].len > 0;
	if (q->who.subject_count == 0)
		return ERR_NONE;
	if (check_run(ctx, q, checked, err) != ERR_NONE)
		return err->code;
	out->required = checked->required;
	out->unsure = outage_judge_token(ctx, q->who.rules->fails_closed, &out->verdict);
	check_join(checked, &out->verdict, verdict_wait_all(&out->verdict, ctx->now_us));
	out->verdict = checked->verdict;
	out->wait = checked->wait;
	out->unsure = out->unsure && strcmp(out->verdict.reason, OUTAGE_REASON) == 0;
	return ERR_NONE;
}
