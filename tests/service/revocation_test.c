/* Revocation: what revocation.h promises, on the engine or the rough store. */
#include "service/scene.h"
#include "service/turn.h"

#include "service/event.h"
#include "service/revocation.h"

enum { DAY_S = 86400 };

struct call {
	struct turn               turn;
	struct revocation         revoke;
	struct revoked            row;
	struct revocation_query   q;
	struct revocation_found   found;
	struct revocations_search search;
	struct revocations_page   page;
};

static enum err_code add(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return revocation_add(&t->ctx, &c->revoke, &c->row, err);
}

static enum err_code check(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return revocation_check(&t->ctx, &c->q, &c->found, err);
}

static enum err_code get(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return revocation_get(&t->ctx, c->revoke.kind, c->revoke.name, &c->row, err);
}

static enum err_code page(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return revocations_find(&t->ctx, &c->search, &c->page, err);
}

/* ---- words: times in seconds since the fixture began ---- */

static struct revoked revoked(struct service *s, struct revocation q)
{
	struct call c = {.revoke = q};

	turn_take(s, &c.turn, add);
	return c.row;
}

/* A token of ann's, for the client web, with that jti. */
static enum revocation_kind seen(struct service *s, const char *jti, int64_t issued)
{
	struct call c = {.q = {.issuer = BYTES("https://idp.example"),
	                       .jti = bytes_of(jti),
	                       .user = BYTES("ann"),
	                       .client = BYTES("web"),
	                       .issued_s = START_S + issued}};

	turn_take(s, &c.turn, check);
	return c.found.kind;
}

static void assert_times(const struct revoked *r, int64_t not_before, int64_t ends)
{
	assert_int_equal(r->not_before_s - START_S, not_before);
	assert_int_equal(r->ends_s - START_S, ends);
}

/* ---- each kind ---- */

TEST(revocation, nothing_is_revoked_where_there_is_no_table)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(seen(&s, "t1", 0), REVOKED_NOTHING);
	service_close(&s);
}

TEST(revocation, one_token_is_revoked_by_issuer_and_jti_and_no_other)
{
	struct service s;
	struct call    c = {.q = {.issuer = BYTES("https://other.example"), .jti = BYTES("t1")}};

	service_open(&s, NULL);
	revoked(&s, (struct revocation){.kind = REVOKED_TOKEN,
	                                .issuer = BYTES("https://idp.example"),
	                                .name = BYTES("t1")});
	assert_int_equal(seen(&s, "t1", 0), REVOKED_TOKEN);
	assert_int_equal(seen(&s, "t1", DAY_S), REVOKED_TOKEN); /* whenever it says that it was issued */
	assert_int_equal(seen(&s, "t2", 0), REVOKED_NOTHING);
	turn_take(&s, &c.turn, check);
	assert_int_equal(c.found.kind, REVOKED_NOTHING);
	c.q = (struct revocation_query){.issuer = BYTES("https://idp.examplet"), .jti = BYTES("1")};
	turn_take(&s, &c.turn, check);
	assert_int_equal(c.found.kind, REVOKED_NOTHING);
	service_close(&s);
}

TEST(revocation, a_users_tokens_are_revoked_up_to_the_second_of_not_before)
{
	struct service s;
	struct revoked r;

	service_open(&s, NULL);
	at(&s, 100);
	r = revoked(&s, (struct revocation){
	                        .kind = REVOKED_USER, .name = BYTES("ann"), .reason = BYTES("stolen phone")});
	assert_times(&r, 100, 100 + DAY_S + REVOCATION_LEEWAY_S);
	assert_true(bytes_is(r.reason, "stolen phone"));
	assert_int_equal(seen(&s, "t1", 99), REVOKED_USER);
	assert_int_equal(seen(&s, "t1", 100), REVOKED_USER);
	assert_int_equal(seen(&s, "t1", 101), REVOKED_NOTHING);
	service_close(&s);
}

/* `iat` is a time of the issuer's clock. */
TEST(revocation, what_may_have_been_issued_by_then_is_revoked_for_a_user_a_client_and_all_6)
{
	static const struct {
		enum revocation_kind kind;
		const char          *name;
	} kinds[] = {{REVOKED_USER, "ann"}, {REVOKED_CLIENT, "web"}, {REVOKED_ALL, ""}};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct service s;
		struct call    c = {
		           .q = {.user = BYTES("ann"), .client = BYTES("web"), .issued_s = START_S + 160}};

		service_open(&s, NULL);
		at(&s, 100);
		revoked(&s, (struct revocation){.kind = kinds[i].kind, .name = bytes_of(kinds[i].name)});
		c.q.ahead_s = 60;
		turn_take(&s, &c.turn, check);
		assert_int_equal(c.found.kind, kinds[i].kind);
		at(&s, 1000); /* also later, when it is no longer ahead */
		turn_take(&s, &c.turn, check);
		assert_int_equal(c.found.kind, kinds[i].kind);
		c.q.issued_s++;
		turn_take(&s, &c.turn, check);
		assert_int_equal(c.found.kind, REVOKED_NOTHING);
		service_close(&s);
	}
}

TEST(revocation, a_clients_tokens_and_everyones_are_revoked_and_others_are_not)
{
	struct service s;

	service_open(&s, NULL);
	revoked(&s, (struct revocation){.kind = REVOKED_USER, .name = BYTES("bob")});
	revoked(&s, (struct revocation){.kind = REVOKED_CLIENT, .name = BYTES("app")});
	assert_int_equal(seen(&s, "t1", 0), REVOKED_NOTHING);
	revoked(&s, (struct revocation){.kind = REVOKED_CLIENT, .name = BYTES("web")});
	assert_int_equal(seen(&s, "t1", 0), REVOKED_CLIENT);
	at(&s, 10);
	assert_int_equal(seen(&s, "t1", 5), REVOKED_NOTHING);
	revoked(&s, (struct revocation){.kind = REVOKED_ALL});
	assert_int_equal(seen(&s, "t1", 5), REVOKED_ALL);
	assert_int_equal(seen(&s, "t1", 0), REVOKED_CLIENT); /* the narrowest is told */
	assert_int_equal(seen(&s, "t1", 11), REVOKED_NOTHING);
	service_close(&s);
}

TEST(revocation, a_token_without_jti_or_client_is_checked_for_the_rest)
{
	struct service s;
	struct call    c = {.q = {.user = BYTES("ann"), .issued_s = START_S}};

	service_open(&s, NULL);
	turn_take(&s, &c.turn, check);
	assert_int_equal(c.found.kind, REVOKED_NOTHING);
	revoked(&s, (struct revocation){.kind = REVOKED_USER, .name = BYTES("ann")});
	turn_take(&s, &c.turn, check);
	assert_int_equal(c.found.kind, REVOKED_USER);
	assert_int_equal(c.found.not_before_s, START_S);
	service_close(&s);
}

/* ---- time ---- */

TEST(revocation, a_not_before_only_rises_and_neither_does_the_end_come_nearer_2)
{
	struct service s;
	struct revoked r;

	service_open(&s, NULL);
	at(&s, 1000);
	revoked(&s, (struct revocation){
	                    .kind = REVOKED_USER, .name = BYTES("ann"), .not_before_s = START_S + 1300});
	at(&s, 1100);
	r = revoked(&s, (struct revocation){.kind = REVOKED_USER, .name = BYTES("ann")});
	assert_times(&r, 1300, 1300 + DAY_S + REVOCATION_LEEWAY_S);
	r = revoked(&s, (struct revocation){
	                        .kind = REVOKED_USER, .name = BYTES("ann"), .not_before_s = START_S + 5});
	assert_times(&r, 1300, 1300 + DAY_S + REVOCATION_LEEWAY_S);
	assert_int_equal(seen(&s, "t1", 1300), REVOKED_USER);
	service_close(&s);
}

TEST(revocation, a_row_is_kept_as_long_as_the_oldest_token_may_be_taken_3)
{
	struct service s;
	struct revoked r;

	service_open(&s, NULL);
	atomic_store(&s.all.token_age_s, 3600);
	r = revoked(&s, (struct revocation){.kind = REVOKED_ALL});
	assert_times(&r, 0, 3600 + REVOCATION_LEEWAY_S);
	at(&s, 3600 + REVOCATION_LEEWAY_S - 1);
	assert_int_equal(seen(&s, "t1", 0), REVOKED_ALL);
	at(&s, 3600 + REVOCATION_LEEWAY_S);
	assert_int_equal(seen(&s, "t1", 0), REVOKED_NOTHING); /* the token is too old by now */
	service_close(&s);
}

TEST(revocation, the_row_of_one_token_is_kept_until_that_token_has_expired_3)
{
	struct revocation q = {.kind = REVOKED_TOKEN,
	                       .issuer = BYTES("https://idp.example"),
	                       .name = BYTES("t1"),
	                       .expires_s = START_S + 300};
	struct service    s;
	struct revoked    r;

	service_open(&s, NULL);
	r = revoked(&s, q);
	assert_int_equal(r.ends_s - START_S, 300 + REVOCATION_LEEWAY_S);
	q.expires_s = START_S - 5000; /* it says that it has expired: not for long */
	r = revoked(&s, q);
	assert_int_equal(r.ends_s - START_S, 300 + REVOCATION_LEEWAY_S);
	q.name = BYTES("t2");
	r = revoked(&s, q);
	assert_int_equal(r.ends_s - START_S, REVOCATION_LEEWAY_S);
	at(&s, 300 + REVOCATION_LEEWAY_S - 1);
	assert_int_equal(seen(&s, "t1", 0), REVOKED_TOKEN);
	at(&s, 300 + REVOCATION_LEEWAY_S);
	assert_int_equal(seen(&s, "t1", 0), REVOKED_NOTHING);
	service_close(&s);
}

TEST(revocation, a_not_before_may_be_ahead_by_the_leeway_and_no_more)
{
	assert_true(revocation_not_before_is(1000 + REVOCATION_LEEWAY_S, 1000));
	assert_false(revocation_not_before_is(1001 + REVOCATION_LEEWAY_S, 1000));
	assert_true(revocation_not_before_is(1, 1000));
	assert_false(revocation_not_before_is(0, 1000));
	assert_false(revocation_not_before_is(-1, 1000));
}

/* ---- rows ---- */

TEST(revocation, a_row_that_somebody_else_wrote_revokes_all_of_its_tokens_4)
{
	struct service s;
	struct revoked r;

	service_open(&s, NULL);
	revoked(&s, (struct revocation){.kind = REVOKED_USER, .name = BYTES("bob")}); /* makes the table */
	fixture_ok(&s.f, "PutItem",
	           "{'TableName':'gatehouse-revocations','Item':{'PK':{'S':'USER#ann'},'notBefore':{'S':'now'"
	           "}}}");
	assert_int_equal(seen(&s, "t1", 10 * DAY_S), REVOKED_USER);
	r = revoked(&s, (struct revocation){.kind = REVOKED_USER, .name = BYTES("ann")});
	assert_int_equal(r.ends_s, 0); /* it had no end, and gets none */
	assert_int_equal(seen(&s, "t1", 10 * DAY_S), REVOKED_USER);
	service_close(&s);
}

TEST(revocation, the_row_holds_no_jti)
{
	struct service s;
	union answer   r;

	service_open(&s, NULL);
	revoked(&s, (struct revocation){.kind = REVOKED_TOKEN,
	                                .issuer = BYTES("https://idp.example"),
	                                .name = BYTES("secret-jti"),
	                                .reason = BYTES("logout")});
	memset(&r, 0, sizeof(r));
	assert_int_equal(fixture_try(&s.f, "Scan", "{'TableName':'gatehouse-revocations'}", &r), ERR_NONE);
	assert_int_equal(r.query.count, 1);
	for (uint32_t i = 0; i < r.query.items[0].count; i++)
		assert_false(
		        bytes_contains(value_text(&r.query.items[0].members[i].value), BYTES("secret-jti")));
	service_close(&s);
}

TEST(revocation, a_list_comes_in_pages_and_holds_each_row_once)
{
	struct service s;
	struct call    c = {.search = {.limit = 3}};
	uint32_t       count = 0, pages = 0;

	service_open(&s, NULL);
	turn_take(&s, &c.turn, page);
	assert_int_equal(c.page.count, 0);
	for (int i = 0; i < 7; i++)
		revoked(&s, (struct revocation){.kind = REVOKED_USER,
		                                .name = arena_printf(&s.f.arena, "user-%d", i)});
	revoked(&s, (struct revocation){.kind = REVOKED_CLIENT, .name = BYTES("web")});
	revoked(&s, (struct revocation){.kind = REVOKED_ALL});
	do {
		turn_take(&s, &c.turn, page);
		assert_true(c.page.count <= 3);
		count += c.page.count;
		c.search.after = c.page.last;
	} while (c.page.more && ++pages < 10);
	assert_int_equal(count, 9);
	c.search = (struct revocations_search){.kind = REVOKED_CLIENT, .limit = 3};
	turn_take(&s, &c.turn, page);
	assert_int_equal(c.page.count, 1);
	assert_int_equal(c.page.list[0].kind, REVOKED_CLIENT);
	assert_true(bytes_is(c.page.list[0].name, "web"));
	at(&s, 2 * DAY_S);
	c.search = (struct revocations_search){.limit = 3};
	turn_take(&s, &c.turn, page);
	assert_int_equal(c.page.count, 0);
	service_close(&s);
}

TEST(revocation, what_was_revoked_of_a_user_is_told)
{
	struct service s;
	struct call    c = {.revoke = {.kind = REVOKED_USER, .name = BYTES("ann")}};

	service_open(&s, NULL);
	turn_take(&s, &c.turn, get);
	assert_int_equal(c.row.kind, REVOKED_NOTHING);
	turn_take(&s, &c.turn, add);
	turn_take(&s, &c.turn, get);
	assert_int_equal(c.row.kind, REVOKED_USER);
	assert_int_equal(c.row.not_before_s, START_S);
	assert_true(bytes_is(c.row.by, "-"));
	service_close(&s);
}

TEST(revocation, each_is_published_without_the_jti)
{
	static const char *const subjects[] = {"ann", "client:web", "everyone"};
	struct service           s;
	union answer             r;

	service_open(&s, NULL);
	s.all.events.on = EVENT_ALL;
	revoked(&s, (struct revocation){.kind = REVOKED_USER, .name = BYTES("ann")});
	revoked(&s, (struct revocation){.kind = REVOKED_CLIENT, .name = BYTES("web")});
	revoked(&s, (struct revocation){.kind = REVOKED_ALL});
	revoked(&s, (struct revocation){
	                    .kind = REVOKED_TOKEN, .issuer = BYTES("i"), .name = BYTES("secret-jti")});
	memset(&r, 0, sizeof(r));
	assert_int_equal(fixture_try(&s.f, "Query",
	                             "{'TableName':'gatehouse-events','KeyConditionExpression':'PK = :p',"
	                             "'ExpressionAttributeValues':{':p':{'S':'LOG#0'}}}",
	                             &r),
	                 ERR_NONE);
	assert_int_equal(r.query.count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		struct bytes subject = row_text(&r.query.items[i], "subject");

		assert_true(bytes_is(row_text(&r.query.items[i], "type"), "token.revoked"));
		assert_true(i == 3 ? bytes_starts_with(subject, BYTES("token:"))
		                   : bytes_is(subject, subjects[i]));
		assert_false(bytes_contains(subject, BYTES("secret")));
	}
	service_close(&s);
}

/* ---- others at the same time ---- */

static enum err_code revoke_at(struct act *act, struct err *err)
{
	struct revocation q = {.kind = REVOKED_USER, .name = BYTES("ann"), .not_before_s = START_S - act->n};
	struct revoked    row;

	return revocation_add(&act->ctx, &q, &row, err) == ERR_NONE ? commit(act, err) : err->code;
}

TEST(revocation, of_many_at_once_the_latest_not_before_stays_2)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct scene x;
		struct act   acts[8];

		scene_open(&x, seed, false);
		for (int i = 0; i < 8; i++)
			acts[i] = (struct act){.run = revoke_at, .n = (i * 5 + 3) % 8};
		play_together(&x, acts, 8);
		assert_int_equal(seen(&x.s, "t1", 0), REVOKED_USER);
		assert_int_equal(seen(&x.s, "t1", 1), REVOKED_NOTHING);
		scene_close(&x);
	}
}
