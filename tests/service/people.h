/* Users in tests: calls of user.h and user_email.h, each in a turn of its own, and words for what tests do most. */
#ifndef TESTS_SERVICE_PEOPLE_H
#define TESTS_SERVICE_PEOPLE_H

#include "service/turn.h"

#include "service/user.h"

/* ---- calls ---- */

struct call {
	struct turn               turn;
	struct user_new           create;
	struct user_patch         patch;
	enum user_status          status;
	struct bytes              email, typed;
	struct email_add          adding;
	const struct email_terms *terms; /* NULL: terms_of */
	struct email_entry        entry;
	struct user_created       created;
	struct user               user;
	struct email_claim        claim;
	struct email_verdict      verdict;
	struct user_emails        emails;
	struct user_found         found;
	struct users_search       search;
	struct users_page         page;
};

/* The rules of the fixture, and the policies that ship. */
static inline const struct email_terms *terms_of(struct service *s)
{
	struct email_terms *terms = arena_zalloc(&s->f.arena, sizeof(*terms));

	*terms = (struct email_terms){.rules = s->rules, .policy = &user_policy_usual};
	return terms;
}

static inline enum err_code create(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	if (c->create.terms == NULL)
		c->create.terms = terms_of(t->s);
	return user_create(&t->ctx, &c->create, &c->created, err);
}

static inline enum err_code get(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_get(&t->ctx, c->patch.id, &c->user, err);
}

static inline enum err_code change(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_change(&t->ctx, &c->patch, &c->user, err);
}

static inline enum err_code become(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_become(&t->ctx, &c->patch, c->status, &c->user, err);
}

static inline enum err_code add(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	c->adding = (struct email_add){c->patch.id, c->email, c->terms != NULL ? c->terms : terms_of(t->s),
	                               c->typed};
	return user_email_add(&t->ctx, &c->adding, &c->claim, err);
}

static inline enum err_code verify(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	if (c->entry.terms == NULL)
		c->entry.terms = terms_of(t->s);
	return user_email_verify(&t->ctx, &c->entry, &c->verdict, err);
}

static inline enum err_code drop(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_email_remove(&t->ctx, &c->entry, err);
}

static inline enum err_code prefer(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_email_prefer(&t->ctx, &c->entry, &c->patch.match, &c->user, err);
}

static inline enum err_code list(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_emails_find(&t->ctx, c->patch.id, &c->emails, err);
}

static inline enum err_code lookup(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_lookup(&t->ctx, c->email, &c->found, err);
}

static inline enum err_code page(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return users_find(&t->ctx, &c->search, &c->page, err);
}

/* ---- words ---- */

static inline struct user made(struct service *s, const char *id)
{
	struct call c = {.create = {.id = bytes_of(id)}};

	turn_take(s, &c.turn, create);
	return c.created.user;
}

static inline struct user seen(struct service *s, const char *id)
{
	struct call c = {.patch = {.id = bytes_of(id)}};

	turn_take(s, &c.turn, get);
	return c.user;
}

static inline enum err_code try_add(struct service *s, const char *id, const char *email,
                                    struct email_claim *out)
{
	struct call   c = {.patch = {.id = bytes_of(id)}, .email = bytes_of(email)};
	enum err_code rc = turn_try(s, &c.turn, add);

	*out = c.claim;
	return rc;
}

static inline struct email_claim added(struct service *s, const char *id, const char *email)
{
	struct email_claim claim;

	assert_int_equal(try_add(s, id, email, &claim), ERR_NONE);
	return claim;
}

static inline struct email_verdict entered(struct service *s, const char *id, struct bytes email_id,
                                           struct bytes code)
{
	struct call c = {.entry = {bytes_of(id), email_id, code, NULL}};

	turn_take(s, &c.turn, verify);
	return c.verdict;
}

static inline struct bytes code_of(const struct email_claim *claim)
{
	return code_bytes(&claim->code);
}

/* Added and verified; its id. */
static inline struct bytes owned(struct service *s, const char *id, const char *email)
{
	struct email_claim claim = added(s, id, email);

	assert_int_equal(entered(s, id, claim.email.id, code_of(&claim)).outcome, ENTRY_RIGHT);
	return claim.email.id;
}

static inline struct user_emails emails_of(struct service *s, const char *id)
{
	struct call c = {.patch = {.id = bytes_of(id)}};

	turn_take(s, &c.turn, list);
	return c.emails;
}

/* How many rows of `users` are in the index under that address. */
static inline uint32_t indexed(struct service *s, const char *email)
{
	union answer r;

	memset(&r, 0, sizeof(r));
	if (fixture_try(
	            &s->f, "Query",
	            arena_printf(&s->f.arena,
	                         "{'TableName':'users','IndexName':'GSI1','KeyConditionExpression':'GSI1PK "
	                         "= :e','ExpressionAttributeValues':{':e':{'S':'EMAIL#%s'}}}",
	                         email)
	                    .data,
	            &r) != ERR_NONE)
		return 0;
	return r.query.count;
}

/* Rows of `users` that are of no other kind than this: PROFILE, MARKER, EMAIL#. */
static inline uint32_t rows_of_kind(struct service *s, const char *kind)
{
	union answer r;
	uint32_t     count = 0;

	memset(&r, 0, sizeof(r));
	if (fixture_try(&s->f, "Scan", "{'TableName':'users'}", &r) != ERR_NONE)
		return 0;
	for (uint32_t i = 0; i < r.query.count; i++)
		count += bytes_starts_with(row_text(&r.query.items[i], "SK"), bytes_of(kind));
	return count;
}

#endif
