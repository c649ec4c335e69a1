/* Searching users: which terms fit whom, hidden users, and pages that end where they may. Over HTTP, at an endpoint, and while others change users: test_users_search.py. */
#include "service/scene.h"
#include "service/people.h"

#include "service/user_terms.h"

/* ---- words ---- */

static void put_row(struct service *s, const char *pk, const char *sk, const char *more)
{
	fixture_ok(&s->f, "PutItem",
	           arena_printf(&s->f.arena,
	                        "{'TableName':'users','Item':{'PK':{'S':'%s'},'SK':{'S':'%s'}%s}}%c", pk, sk,
	                        more, '\0')
	                   .data);
}

enum { SEEN_MAX = 16 };

static bool has(const struct bytes *ids, size_t count, struct bytes id)
{
	for (size_t i = 0; i < count; i++)
		if (bytes_equal(ids[i], id))
			return true;
	return false;
}

/* All pages. Ids, each of which is found once, with a space behind; in the order of the table. */
static struct bytes found(struct service *s, struct call *c, uint32_t *pages)
{
	struct bytes seen_ids[SEEN_MAX];
	size_t       total = 0;
	struct buf   out;

	buf_init(&out, &s->f.arena);
	c->search.after_pk = (struct bytes){NULL, 0};
	*pages = 0;
	do {
		turn_take(s, &c->turn, page);
		for (uint32_t i = 0; i < c->page.count && !c->search.count_only; i++) {
			struct bytes id = arena_printf(&s->f.arena, "%.*s ", BYTES_ARG(c->page.list[i].id));

			assert_true(total < SEEN_MAX && !has(seen_ids, total, id));
			seen_ids[total++] = id;
			buf_add_bytes(&out, id);
		}
		c->search.after_pk = arena_copy(&s->f.arena, c->page.last_pk);
		c->search.after_sk = arena_copy(&s->f.arena, c->page.last_sk);
		assert_true(++*pages < 1000);
	} while (c->page.more);
	return buf_bytes(&out);
}

static void assert_found(struct service *s, struct user_terms terms, const char *expected)
{
	struct call c = {.search = {.limit = 10, .terms = &terms}};
	uint32_t    pages;

	assert_bytes(found(s, &c, &pages), expected);
}

static struct user_terms named(struct service *s, const char *name)
{
	return (struct user_terms){.status = USER_ANY_STATUS,
	                           .name = user_name_prefix(&s->f.arena, bytes_of(name))};
}

static struct user_terms addressed(struct service *s, const char *email)
{
	return (struct user_terms){.status = USER_ANY_STATUS,
	                           .email = user_email_prefix(&s->f.arena, bytes_of(email))};
}

static bool is_bob(const void *ctx, struct bytes user)
{
	(void)ctx;
	return bytes_is(user, "bob");
}

/* ---- terms ---- */

TEST(user_terms, what_cannot_be_the_beginning_of_an_address_or_a_name_is_no_prefix)
{
	struct arena a;

	arena_init(&a);
	assert_bytes(user_email_prefix(&a, BYTES("Stra\xc3\x9f")), "strass");
	assert_bytes(user_email_prefix(&a, BYTES("Ann@EX")), "ann@ex");
	assert_bytes(user_name_prefix(&a, BYTES("E\xcc\x80VE")), "\xc3\xa8ve");
	assert_int_equal(user_email_prefix(&a, BYTES("ann@stra\xc3\x9f")).len, 0); /* DNS has it otherwise */
	assert_int_equal(user_email_prefix(&a, BYTES("")).len, 0);
	assert_int_equal(user_name_prefix(&a, BYTES("a\nb")).len, 0);
	assert_int_equal(user_name_prefix(&a, BYTES("\xff")).len, 0);
	arena_release(&a);
}

TEST(user_terms, times_are_compared_whichever_way_other_code_wrote_them)
{
	struct user_terms terms = {
	        .status = USER_ANY_STATUS, .created_from_s = 1000, .created_before_s = 2000};
	struct user u = {.created_at = BYTES("1970-01-01T00:16:40Z")};

	assert_true(user_terms_fit(&terms, &u, false)); /* 1000 */
	u.created_at = BYTES("1970-01-01T00:16:39.999Z");
	assert_false(user_terms_fit(&terms, &u, false));
	u.created_at = BYTES("1970-01-01T00:33:19.999Z");
	assert_true(user_terms_fit(&terms, &u, false));
	u.created_at = BYTES("1970-01-01T00:33:20Z"); /* 2000 */
	assert_false(user_terms_fit(&terms, &u, false));
	u.created_at = BYTES("1970-01-01T01:16:40+01:00");
	assert_true(user_terms_fit(&terms, &u, false));
	u.created_at = BYTES("long ago");
	assert_false(user_terms_fit(&terms, &u, false));
	u.created_at = BYTES("1970-01-01T00:16:40Z");
	u.status = USER_ERASING;
	assert_false(user_terms_fit(&terms, &u, false));
}

/* ---- searches ---- */

TEST(user_find, an_address_counts_if_a_lookup_finds_it)
{
	struct service s;

	service_open(&s, NULL);
	s.all.claims_verified = true;
	made(&s, "ann");
	made(&s, "bob");
	owned(&s, "ann", "ann@example.org");
	owned(&s, "ann", "second@example.org");
	added(&s, "bob", "second.bob@example.org");
	assert_found(&s, addressed(&s, "SECOND"), "ann ");
	s.all.claims_verified =
	        false; /* claims take addresses: but not this one, which was made without a marker */
	assert_found(&s, addressed(&s, "second"), "ann ");
	added(&s, "bob", "third.bob@example.org");
	assert_found(&s, addressed(&s, "third"), "bob ");
	service_close(&s);
}

TEST(user_find, hidden_users_neither_fill_a_page_nor_count)
{
	struct service    s;
	struct user_terms terms = {.status = USER_ANY_STATUS};
	struct call       c = {.search = {.limit = 1, .terms = &terms, .hidden = {is_bob, NULL}}};
	uint32_t          pages;

	service_open(&s, NULL);
	made(&s, "bob");
	turn_take(&s, &c.turn, page);
	assert_int_equal(c.page.count, 0);
	assert_false(c.page.more);
	made(&s, "ann");
	assert_bytes(found(&s, &c, &pages), "ann ");
	assert_int_equal(pages, 1);
	c.search.count_only = true;
	assert_bytes(found(&s, &c, &pages), "");
	assert_int_equal(c.page.count, 1);
	service_close(&s);
}

/* Their keys may not be in a job's row; those of a search are encrypted. Twice as many as a page looks at without an end. */
TEST(user_find, a_search_passes_users_whose_ids_are_addresses)
{
	enum { STRANGERS = USERS_EXAMINED_MAX + 500 };
	struct service    s;
	struct call       c = {.search = {.limit = 2}};
	struct user_terms terms;
	uint32_t          pages;

	service_open(&s, NULL);
	made(&s, "ann");
	for (int i = 0; i < STRANGERS; i++) {
		char pk[64];

		snprintf(pk, sizeof(pk), "USER#%d@example.org", i);
		put_row(&s, pk, "PROFILE", i % 1000 == 7 ? ",'firstName':{'S':'Seven'}" : "");
	}
	terms = named(&s, "SEV");
	c.search.terms = &terms;
	assert_int_equal(found(&s, &c, &pages).len,
	                 strlen("7@example.org 1007@example.org 2007@example.org "));
	assert_true(pages > 1);
	c.search.count_only = true;
	found(&s, &c, &pages);
	assert_true(pages > 1);
	service_close(&s);
}

TEST(user_find, a_page_that_ends_among_the_addresses_of_a_user_begins_again_with_them)
{
	enum { ADDRESSES = 90 };
	struct service s;

	service_open(&s, NULL);
	made(&s, "ann");
	for (int i = 0; i < ADDRESSES; i++) {
		char sk[64], more[128];

		snprintf(sk, sizeof(sk), "EMAIL#%03d", i);
		snprintf(more, sizeof(more), ",'email':{'S':'a%d@example.org'},'isVerified':{'BOOL':true}",
		         i);
		put_row(&s, "USER#ann", sk, more);
	}
	for (int i = 0; i < ADDRESSES; i += 30)
		assert_found(&s, addressed(&s, arena_printf(&s.f.arena, "A%d@", i).data), "ann ");
	service_close(&s);
}
