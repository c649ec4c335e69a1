/* Adopting: what adopt.h promises, on the engine or the rough store. The numbers are those of adopt.h. */
#include "service/turn.h"

#include "service/adopt.h"
#include "service/user.h"
#include "service/user_check.h"
#include "service/user_policy.h"

static const struct job_kind *const kinds[] = {&adopt_job};
static struct job_counts            counts[1];

static void open(struct service *s)
{
	service_open(s, NULL);
	s->all.jobs = (struct jobs_settings){.kinds = kinds, .counts = counts, .kind_count = 1};
}

struct call {
	struct turn         turn;
	struct user_new     create;
	struct user_created created;
	struct job_new      terms;
	struct job_started  started;
	struct job_turn     q;
	struct job_stepped  stepped;
};

static enum err_code create(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_create(&t->ctx, &c->create, &c->created, err);
}

static enum err_code start(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return adopt_start(&t->ctx, &c->terms, &c->started, err);
}

static enum err_code step(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return job_step(&t->ctx, &c->q, &c->stepped, err);
}

static void made(struct service *s, const char *id)
{
	struct call c = {.create = {.id = bytes_of(id)}};

	turn_take(s, &c.turn, create);
}

/* Fetches and steps as the worker does, to the end. */
static struct job adopted(struct service *s, bool dry_run)
{
	struct call           c = {.terms = {.dry_run = dry_run}};
	struct fixture_reader reader;
	struct context        ctx;
	struct job            j;

	turn_take(s, &c.turn, start);
	j = c.started.job;
	while (j.state == JOB_RUNNING) {
		c.q = (struct job_turn){.running = {.id = j.id, .kind = j.kind, .key = BYTES("adopt#users")},
		                        .steps = j.steps,
		                        .cursor = j.cursor};
		fixture_reader_begin(&reader, &s->f);
		ctx = service_context(s, reader.table);
		assert_int_equal(adopt_job.fetch(&ctx, &j, &c.q.fetched, &s->f.err), ERR_NONE);
		fixture_reader_end(&reader);
		turn_take(s, &c.turn, step);
		assert_true(c.stepped.taken);
		j = c.stepped.job;
	}
	assert_int_equal(j.state, JOB_DONE);
	return j;
}

static void put(struct service *s, const char *item)
{
	fixture_ok(&s->f, "PutItem", arena_printf(&s->f.arena, "{'TableName':'users','Item':%s}", item).data);
}

/* As old code writes it: no marker. */
static void plant(struct service *s, const char *user, const char *id, const char *email, const char *more)
{
	put(s, arena_printf(&s->f.arena,
	                    "{'PK':{'S':'USER#%s'},'SK':{'S':'EMAIL#%s'},'email':{'S':'%s'},'GSI1PK':{'S':'"
	                    "EMAIL#%s'},"
	                    "'GSI1SK':{'S':'USER#%s'}%s}%c",
	                    user, id, email, email, user, more, '\0')
	               .data);
}

#define VERIFIED ",'isVerified':{'BOOL':true},'isPrimary':{'BOOL':false}"
#define PRIMARY  ",'isVerified':{'BOOL':true},'isPrimary':{'BOOL':true}"
#define CLAIMED  ",'isVerified':{'BOOL':false},'isPrimary':{'BOOL':false}"

static struct item row_in_users(struct service *s, const char *pk, const char *sk)
{
	struct bytes body = arena_printf(
	        &s->f.arena, "{'TableName':'users','Key':{'PK':{'S':'%s'},'SK':{'S':'%s'}}}%c", pk, sk, '\0');
	union answer r = fixture_ok(&s->f, "GetItem", body.data);

	return r.get.found ? r.get.item : (struct item){0};
}

static void count_problem(void *ctx, const char *text)
{
	(void)text;
	++*(unsigned *)ctx;
}

static unsigned problems(struct service *s)
{
	unsigned              found = 0;
	struct users_check    check = {.problem = count_problem, .ctx = &found};
	struct fixture_reader reader;
	struct context        ctx;

	fixture_reader_begin(&reader, &s->f);
	ctx = service_context(s, reader.table);
	do
		assert_int_equal(users_check_page(&ctx, &check, &s->f.err), ERR_NONE);
	while (check.more);
	fixture_reader_end(&reader);
	assert_int_equal(found, check.found.problems);
	return found;
}

static int64_t progress(const struct job *j, const char *name)
{
	return row_i64(&j->progress, name, 0);
}

TEST(adopt, an_address_without_a_marker_gets_one_and_its_user_a_primary_address)
{
	struct service s;
	struct job     j;
	struct item    row;

	open(&s);
	made(&s, "u-1");
	plant(&s, "u-1", "e-1", "Ann@Example.org", VERIFIED);
	assert_true(problems(&s) > 0);
	j = adopted(&s, false);
	assert_int_equal(progress(&j, "adopted"), 1);
	assert_int_equal(problems(&s), 0);
	row = row_in_users(&s, "EMAIL#ann@example.org", "MARKER");
	assert_bytes(row_text(&row, "userId"), "u-1");
	row = row_in_users(&s, "USER#u-1", "PROFILE");
	assert_bytes(row_text(&row, "email"), "ann@example.org");
	assert_int_equal(row_i64(&row, "version", 0), 2);
	j = adopted(&s, false); /* nothing is left to do */
	assert_int_equal(progress(&j, "adopted") + progress(&j, "repaired"), 0);
	service_close(&s);
}

/* (4) */
TEST(adopt, a_dry_run_counts_and_changes_nothing)
{
	struct service s;
	struct job     j;
	unsigned       before;

	open(&s);
	made(&s, "u-1");
	plant(&s, "u-1", "e-1", "ann@example.org", VERIFIED);
	before = problems(&s);
	j = adopted(&s, true);
	assert_int_equal(progress(&j, "adopted"), 1);
	assert_int_equal(problems(&s), before);
	assert_int_equal(row_in_users(&s, "EMAIL#ann@example.org", "MARKER").count, 0);
	service_close(&s);
}

TEST(adopt, one_runs_at_a_time_and_a_dry_run_does_not_pass_for_the_real_one)
{
	struct service s;
	struct call    c = {.terms = {.dry_run = true}};
	struct bytes   id;

	open(&s);
	turn_take(&s, &c.turn, start);
	id = c.started.job.id;
	turn_take(&s, &c.turn, start);
	assert_true(c.started.existed && bytes_equal(c.started.job.id, id));
	c.terms.dry_run = false;
	assert_int_equal(turn_try(&s, &c.turn, start), ERR_NOT_NOW);
	service_close(&s);
}

/* (1) */
TEST(adopt, of_two_who_want_one_address_one_gets_it_and_the_other_is_reported)
{
	struct service      s;
	struct job          j;
	const struct value *conflicts;

	open(&s);
	made(&s, "u-1");
	made(&s, "u-2");
	plant(&s, "u-1", "e-1", "ann@example.org", PRIMARY);
	plant(&s, "u-2", "e-2", "ANN@example.org", PRIMARY);
	j = adopted(&s, false);
	assert_int_equal(progress(&j, "adopted"), 1);
	assert_int_equal(progress(&j, "conflicts"), 1);
	conflicts = item_get(&j.args, BYTES("conflicts"));
	assert_int_equal(conflicts->list.count, 1);
	assert_true(bytes_is(conflicts->list.items[0].text, "u-1/e-1") ||
	            bytes_is(conflicts->list.items[0].text, "u-2/e-2"));
	service_close(&s);
}

TEST(adopt, a_marker_whose_address_is_gone_is_free)
{
	struct service s;
	struct job     j;

	open(&s);
	made(&s, "u-1");
	put(&s, "{'PK':{'S':'EMAIL#ann@example.org'},'SK':{'S':'MARKER'},'userId':{'S':'u-9'},'emailId':{'S':"
	        "'e'}}");
	plant(&s, "u-1", "e-1", "ann@example.org", PRIMARY);
	j = adopted(&s, false);
	assert_int_equal(progress(&j, "adopted"), 1);
	assert_int_equal(problems(&s), 0);
	service_close(&s);
}

/* (1) Under `added`, where a claim has a marker. */
TEST(adopt, a_verified_address_takes_the_place_of_a_claim)
{
	struct service s;
	struct job     j;
	struct item    marker;
	struct call    c = {.create = {.id = BYTES("u-2"), .email = BYTES("ann@example.org")}};

	open(&s);
	made(&s, "u-1");
	turn_take(&s, &c.turn, create);
	plant(&s, "u-1", "e-1", "ann@example.org", PRIMARY);
	j = adopted(&s, true);
	assert_int_equal(progress(&j, "adopted"), 1);
	j = adopted(&s, false);
	assert_int_equal(progress(&j, "adopted"), 1);
	assert_int_equal(progress(&j, "conflicts"), 0);
	marker = row_in_users(&s, "EMAIL#ann@example.org", "MARKER");
	assert_true(bytes_is(row_text(&marker, "userId"), "u-1") && row_i64(&marker, "ttl", 0) == 0);
	assert_int_equal(problems(&s), 0);
	service_close(&s);
}

/* To end it in a day, as a claim, could lose the address of a customer. */
TEST(adopt, an_address_that_does_not_say_whether_it_is_verified_is_reported_and_left)
{
	struct service s;
	struct job     j;
	struct item    before, after;

	open(&s);
	made(&s, "u-1");
	plant(&s, "u-1", "e-1", "ann@example.org", "");
	before = row_in_users(&s, "USER#u-1", "EMAIL#e-1");
	j = adopted(&s, false);
	assert_int_equal(progress(&j, "unstated"), 1);
	after = row_in_users(&s, "USER#u-1", "EMAIL#e-1");
	assert_true(item_equal(&before, &after));
	service_close(&s);
}

/* More than a step takes, of which some want the same address and some are of one user. */
TEST(adopt, many_are_adopted_in_few_steps_and_each_sees_the_ones_before)
{
	struct service s;
	struct job     j;

	open(&s);
	for (int i = 0; i < 60; i++) {
		char user[16], first[32];

		snprintf(user, sizeof(user), "u-%d", i);
		snprintf(first, sizeof(first), "m-%d@example.org", i - i % 10 % 2);
		made(&s, user);
		plant(&s, user, "e-1", first, PRIMARY);
		snprintf(first, sizeof(first), "n-%d@example.org", i);
		plant(&s, user, "e-2", first, VERIFIED);
	}
	j = adopted(&s, false);
	assert_int_equal(progress(&j, "adopted"), 90);
	assert_int_equal(progress(&j, "conflicts"), 30);
	assert_true(j.steps < 90);
	service_close(&s);
}

/* (2) */
TEST(adopt, an_address_that_is_not_verified_ends_as_a_claim_does)
{
	struct service s;
	struct item    row;

	for (int verified_only = 0; verified_only < 2; verified_only++) {
		open(&s);
		s.all.claims_verified = verified_only;
		made(&s, "u-1");
		plant(&s, "u-1", "e-1", "ann@example.org", CLAIMED);
		adopted(&s, false);
		row = row_in_users(&s, "USER#u-1", "EMAIL#e-1");
		assert_int_equal(row_i64(&row, "ttl", 0), START_S + EMAIL_CLAIM_S);
		row = row_in_users(&s, "EMAIL#ann@example.org", "MARKER");
		assert_int_equal(row_i64(&row, "ttl", 0), verified_only ? 0 : START_S + EMAIL_CLAIM_S);
		assert_int_equal(problems(&s), 0);
		service_close(&s);
	}
}

TEST(adopt, a_claim_lives_as_long_as_the_policies_in_force_say)
{
	struct user_policy *p = document_make(sizeof(*p));
	struct service      s;
	struct item         row;

	open(&s);
	document_holder_init(&s.all.users);
	p->claim_s = 600;
	document_put(&s.all.users, &p->base);
	made(&s, "u-1");
	plant(&s, "u-1", "e-1", "ann@example.org", CLAIMED);
	adopted(&s, false);
	row = row_in_users(&s, "USER#u-1", "EMAIL#e-1");
	assert_int_equal(row_i64(&row, "ttl", 0), START_S + 600);
	document_holder_release(&s.all.users);
	service_close(&s);
}

/* (3) */
TEST(adopt, of_two_primary_addresses_one_stays)
{
	struct service s;
	struct job     j;

	open(&s);
	made(&s, "u-1");
	plant(&s, "u-1", "e-1", "one@example.org", PRIMARY);
	plant(&s, "u-1", "e-2", "two@example.org", PRIMARY);
	j = adopted(&s, false);
	assert_int_equal(progress(&j, "adopted"), 2);
	assert_int_equal(problems(&s), 0);
	service_close(&s);
}

TEST(adopt, what_is_no_address_or_of_no_user_is_reported_and_left)
{
	struct service s;
	struct job     j;

	open(&s);
	made(&s, "u-1");
	plant(&s, "u-1", "e-1", "nonsense", VERIFIED);
	plant(&s, "u-2", "e-2", "ann@example.org", VERIFIED);
	j = adopted(&s, false);
	assert_int_equal(progress(&j, "invalid"), 1);
	assert_int_equal(progress(&j, "orphans"), 1);
	assert_int_equal(progress(&j, "adopted"), 0);
	service_close(&s);
}

/* One past the bound is counted, and not named. */
TEST(adopt, a_report_names_at_most_so_many)
{
	struct service s;
	struct job     j;

	open(&s);
	made(&s, "u-1");
	for (int i = 0; i <= ADOPT_REPORTED_MAX; i++)
		plant(&s, "u-9", arena_printf(&s.f.arena, "e-%d%c", i, '\0').data, "ann@example.org",
		      VERIFIED);
	j = adopted(&s, false);
	assert_int_equal(progress(&j, "orphans"), ADOPT_REPORTED_MAX + 1);
	assert_int_equal(item_get(&j.args, BYTES("orphans"))->list.count, ADOPT_REPORTED_MAX);
	service_close(&s);
}
