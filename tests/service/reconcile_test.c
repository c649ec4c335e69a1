/* Reconciliation and redrives: what reconcile.h and redrive.h promise, step by step, on the engine or the rough store. The pool is an
 * array here. */
#include "service/scene.h"
#include "service/turn.h"

#include "service/dead_letter.h"
#include "service/reconcile.h"
#include "service/redrive.h"
#include "service/revocation.h"

/* ---- a pool ---- */

enum { POOL_MAX = 40, POOL_PAGE = 15, STEPS_MAX = 200 };

struct pool {
	struct sync_record users[POOL_MAX];
	uint32_t           count;
	unsigned           calls;
	enum err_code      fails;    /* the next calls */
	struct bytes       trace;    /* of the last call */
	bool               turns;    /* the second page comes after itself */
	bool               circle;   /* the last page is followed by the first but one */
	bool               nobody;   /* it answers that there is nobody */
	bool               half;     /* … or only every second user */
	uint32_t           list_max; /* users that a page lists at most, of the first page; 0: all */
};

static struct pool pool;

static struct sync_record person(const char *id, const char *email)
{
	return (struct sync_record){.provider = BYTES("pool"),
	                            .id = bytes_of(id),
	                            .name = bytes_of(id),
	                            .email = bytes_of(email),
	                            .email_verified = true,
	                            .standing = SYNC_WELCOME,
	                            .complete = true,
	                            .fresh = true};
}

static enum err_code pool_list(void *ctx, const struct provider_call *c, struct bytes from,
                               struct provider_page *out, struct err *err)
{
	struct pool *p = ctx;
	uint64_t     first = 0;

	p->calls++;
	p->trace = c->trace;
	if (p->fails != ERR_NONE)
		return err_set(err, p->fails, "the pool fails");
	bytes_to_u64(from, UINT32_MAX, &first);
	*out = (struct provider_page){.list = &p->users[first]};
	out->count = p->count - first < POOL_PAGE ? (uint32_t)(p->count - first) : POOL_PAGE;
	if (p->nobody)
		*out = (struct provider_page){.count = 0};
	if (first + out->count < p->count)
		out->next = arena_printf(c->arena, "%u", (unsigned)first + out->count);
	if (p->turns && first > 0)
		out->next = arena_printf(c->arena, "%u", (unsigned)first);
	if (p->circle && first + out->count == p->count)
		out->next = BYTES("15");
	if (p->list_max > 0)
		out->count = p->list_max;
	if (p->nobody || p->list_max > 0)
		out->next = (struct bytes){NULL, 0};
	return ERR_NONE;
}

static enum err_code pool_get(void *ctx, const struct provider_call *c, struct bytes name,
                              struct sync_record *out, struct err *err)
{
	struct pool *p = ctx;

	(void)c;
	for (uint32_t i = 0; i < p->count; i++)
		if (bytes_equal(p->users[i].name, name) && !p->nobody && !(p->half && i % 2 == 1)) {
			*out = p->users[i];
			return ERR_NONE;
		}
	return err_set(err, ERR_NOT_FOUND, "there is no such user");
}

static const struct provider_calls  calls = {.list = pool_list, .get = pool_get, .ctx = &pool};
static const struct job_kind *const kinds[] = {&reconcile_job, &redrive_job, &restore_job};
static struct document_holder       in_force;

static void pool_open(struct service *s, uint32_t count)
{
	struct providers *p = document_make(sizeof(*p));

	service_open(s, NULL);
	pool = (struct pool){.count = count};
	for (uint32_t i = 0; i < count; i++)
		pool.users[i] = person(arena_printf(&s->f.arena, "user%02u", i).data,
		                       arena_printf(&s->f.arena, "user%02u@example.org", i).data);
	p->list[0] = (struct provider){.name = BYTES("pool"), .pool = BYTES("local_1"), .reconcile_s = 60};
	p->count = 1;
	document_holder_init(&in_force);
	document_put(&in_force, &p->base);
	s->all.providers = &in_force;
	s->all.provider_calls = &calls;
	s->all.jobs = (struct jobs_settings){.kinds = kinds, .kind_count = 3};
}

static void pool_close(struct service *s)
{
	document_holder_release(&in_force);
	service_close(s);
}

/* ---- jobs, as the worker takes them ---- */

struct call {
	struct turn               turn;
	struct reconcile          reconcile;
	struct redrive            redrive;
	struct restore            restore;
	enum user_status          status;
	struct revoked            revoked;
	struct job_started        started;
	struct job_turn           step;
	struct job_stepped        stepped;
	struct bytes              id;
	struct user               user;
	struct sync_record        q;
	struct sync_result        applied;
	struct missing_page       missing;
	struct dead_letter_groups groups;
};

#define CALL(name, expression)                                                                               \
	static enum err_code name(struct turn *t, struct err *err)                                           \
	{                                                                                                    \
		struct call *c = (struct call *)t;                                                           \
                                                                                                             \
		return expression;                                                                           \
	}

CALL(start, reconcile_start(&t->ctx, &c->reconcile, &c->started, err))
CALL(start_redrive, redrive_start(&t->ctx, &c->redrive, &c->started, err))
CALL(take_step, job_step(&t->ctx, &c->step, &c->stepped, err))
CALL(job_look, job_get(&t->ctx, c->id, &c->started.job, err))
CALL(get, user_get(&t->ctx, c->id, &c->user, err))
CALL(apply, sync_apply(&t->ctx, &c->q, &c->applied, err))
CALL(list_missing, missing_find(&t->ctx, BYTES(""), 100, &c->missing, err))
CALL(erase_missing, missing_erase(&t->ctx, c->id, err))
CALL(start_restore, restore_start(&t->ctx, &c->restore, &c->started, err))
CALL(cancel, job_cancel(&t->ctx, c->id, &c->started.job, err))
CALL(become, user_become(&t->ctx, &(struct user_patch){.id = c->id}, c->status, &c->user, err))
CALL(tokens, revocation_get(&t->ctx, REVOKED_USER, c->id, &c->revoked, err))
CALL(group, dead_letters_group(&t->ctx, &(struct user_filter){0}, &c->groups, err))

static struct job job_seen(struct service *s, struct bytes id)
{
	struct call c = {.id = id};

	turn_take(s, &c.turn, job_look);
	return c.started.job;
}

/* Fetches outside of any turn, and steps. */
static enum err_code stepped(struct service *s, const struct job_kind *kind, const struct job *job)
{
	struct call           c = {.step = {.running = {.id = job->id, .kind = job->kind},
	                                    .steps = job->steps,
	                                    .cursor = job->cursor}};
	struct context        ctx = {.services = &s->all, .arena = &s->f.arena, .caller = BYTES("-")};
	struct fixture_reader reader;
	enum err_code         rc = ERR_NONE;

	c.step.running.key =
	        arena_printf(&s->f.arena, "%.*s#%.*s", BYTES_ARG(job->kind), BYTES_ARG(job->unique));
	fixture_reader_begin(&reader, &s->f);
	ctx_begin(&ctx, reader.table);
	if (kind->fetch != NULL)
		rc = kind->fetch(&ctx, job, &c.step.fetched, &s->f.err);
	fixture_reader_end(&reader);
	return rc != ERR_NONE ? rc : turn_try(s, &c.turn, take_step);
}

static struct job finished(struct service *s, const struct job_kind *kind, struct bytes id)
{
	struct job job = job_seen(s, id);

	for (int i = 0; job.state == JOB_RUNNING; i++) {
		assert_true(i < STEPS_MAX);
		if (stepped(s, kind, &job) != ERR_NONE)
			fail_msg("%s", s->f.err.text);
		job = job_seen(s, id);
	}
	assert_int_equal(job.state, JOB_DONE);
	return job;
}

static struct job reconciled(struct service *s, struct reconcile q)
{
	struct call c = {.reconcile = q};

	turn_take(s, &c.turn, start);
	return finished(s, &reconcile_job, c.started.job.id);
}

static int64_t number(const struct job *job, const char *name)
{
	return row_i64(&job->progress, name, 0);
}

static void applied(struct service *s, struct sync_record q)
{
	struct call c = {.q = q};

	turn_take(s, &c.turn, apply);
}

static enum user_status status_of(struct service *s, const char *id)
{
	struct call c = {.id = bytes_of(id)};

	turn_take(s, &c.turn, get);
	return c.user.status;
}

static struct missing_page missing(struct service *s)
{
	struct call c = {.step = {.steps = 0}};

	turn_take(s, &c.turn, list_missing);
	return c.missing;
}

static uint64_t letters(struct service *s)
{
	struct call c = {.step = {.steps = 0}};

	turn_take(s, &c.turn, group);
	return c.groups.letters;
}

/* ---- what it shows ---- */

TEST(reconcile, who_is_absent_here_is_created_over_several_pages_and_steps_2)
{
	struct service s;
	struct job     job;

	pool_open(&s, POOL_MAX);
	job = reconciled(&s, (struct reconcile){.dry_run = true});
	assert_int_equal(number(&job, "poolOrphans"), POOL_MAX);
	assert_int_equal(number(&job, "created"), 0);
	job = reconciled(&s, (struct reconcile){.dry_run = false});
	assert_int_equal(number(&job, "poolUsers"), POOL_MAX);
	assert_int_equal(number(&job, "created"), POOL_MAX);
	assert_int_equal(number(&job, "users"), POOL_MAX);
	assert_int_equal(number(&job, "missing"), 0);
	assert_int_equal(status_of(&s, "user39"), USER_ACTIVE);
	job = reconciled(&s, (struct reconcile){.dry_run = false});
	assert_int_equal(number(&job, "unchanged"), POOL_MAX);
	assert_int_equal(number(&job, "poolOrphans"), 0);
	pool_close(&s);
}

TEST(reconcile, who_is_missing_at_the_provider_is_listed_and_suspended_only_if_asked_1)
{
	struct service s;
	struct job     job;
	struct call    c = {.id = BYTES("gone")};

	pool_open(&s, 3);
	applied(&s, person("gone", "gone@example.org"));
	job = reconciled(&s, (struct reconcile){.dry_run = true, .suspend = true});
	assert_int_equal(number(&job, "missing"), 1);
	assert_int_equal(missing(&s).count, 0);
	job = reconciled(&s, (struct reconcile){.dry_run = false});
	assert_int_equal(number(&job, "missing"), 1);
	assert_int_equal(status_of(&s, "gone"), USER_ACTIVE);
	assert_true(bytes_is(missing(&s).list[0].user, "gone"));
	job = reconciled(&s, (struct reconcile){.suspend = true});
	assert_int_equal(number(&job, "suspended"), 1);
	assert_int_equal(status_of(&s, "gone"), USER_SUSPENDED);
	assert_true(missing(&s).list[0].suspended);
	turn_take(&s, &c.turn, erase_missing);
	assert_int_equal(missing(&s).count, 0);
	reconciled(&s, (struct reconcile){.dry_run = false});
	pool.users[pool.count++] = person("gone", "gone@example.org"); /* there again */
	reconciled(&s, (struct reconcile){.dry_run = false});
	assert_int_equal(missing(&s).count, 0);
	assert_int_equal(status_of(&s, "gone"), USER_ACTIVE); /* nobody but the run had suspended it (5) */
	pool_close(&s);
}

static void assert_reason(struct service *s, enum event_type type, const char *reason)
{
	struct table_query_result all = events_of(s, type);
	struct item               data;

	assert_true(all.count > 0);
	data = event_data(&all.items[all.count - 1]);
	assert_bytes(row_text(&data, "reason"), reason);
}

TEST(reconcile, the_events_say_why_a_missing_user_was_suspended_and_reactivated)
{
	struct service s;
	struct call    c = {.restore = {.dry_run = false}};

	pool_open(&s, 3);
	s.all.events.on = EVENT_ALL;
	applied(&s, person("gone", "gone@example.org"));
	reconciled(&s, (struct reconcile){.suspend = true});
	assert_reason(&s, EVENT_USER_SUSPENDED, "missing at the provider");
	turn_take(&s, &c.turn, start_restore);
	finished(&s, &restore_job, c.started.job.id);
	assert_reason(&s, EVENT_USER_REACTIVATED, "restored: it was missing at the provider");
	reconciled(&s, (struct reconcile){.suspend = true});
	pool.users[pool.count++] = person("gone", "gone@example.org");
	reconciled(&s, (struct reconcile){.dry_run = false});
	assert_reason(&s, EVENT_USER_REACTIVATED, "at the provider again");
	pool_close(&s);
}

TEST(reconcile, two_of_a_page_with_one_address_become_a_user_and_a_dead_letter_3)
{
	struct service s;
	struct job     job;

	pool_open(&s, 4);
	pool.users[1].email = pool.users[0].email;
	pool.users[3] = pool.users[2]; /* and one comes twice */
	job = reconciled(&s, (struct reconcile){.dry_run = false});
	assert_int_equal(number(&job, "created"), 2);
	assert_int_equal(number(&job, "dead_lettered"), 1);
	assert_int_equal(number(&job, "unchanged"), 1);
	assert_int_equal(letters(&s), 1);
	pool_close(&s);
}

TEST(reconcile, a_step_fits_a_commit_with_all_events_on_and_everyone_created_or_suspended)
{
	struct service s;
	struct job     job;

	pool_open(&s, POOL_MAX);
	s.all.events.on = EVENT_ALL;
	job = reconciled(&s, (struct reconcile){.suspend = true});
	assert_int_equal(number(&job, "created"), POOL_MAX);
	for (uint32_t i = 0; i < POOL_MAX; i++) { /* each has another address, and is disabled */
		pool.users[i].email = arena_printf(&s.f.arena, "new%02u@example.org", i);
		pool.users[i].standing = SYNC_BARRED;
	}
	job = reconciled(&s, (struct reconcile){.suspend = true});
	assert_int_equal(number(&job, "updated"), POOL_MAX);
	for (uint32_t i = 0; i < POOL_MAX; i++)
		pool.users[i].standing = SYNC_WELCOME;
	job = reconciled(&s, (struct reconcile){.suspend = true});
	assert_int_equal(number(&job, "updated"), POOL_MAX);
	pool.count = 1; /* the others are gone, all at once */
	job = reconciled(&s, (struct reconcile){.suspend = true, .percent = 100});
	assert_int_equal(number(&job, "missing"), POOL_MAX - 1);
	assert_int_equal(number(&job, "suspended"), POOL_MAX - 1);
	assert_int_equal(missing(&s).count, POOL_MAX - 1);
	pool_close(&s);
}

/* ---- standing: UserStatus and Enabled ---- */

static struct user user_seen(struct service *s, const char *id)
{
	struct call c = {.id = bytes_of(id)};

	turn_take(s, &c.turn, get);
	return c.user;
}

static int64_t revoked_before(struct service *s, const char *id)
{
	struct call c = {.id = bytes_of(id)};

	turn_take(s, &c.turn, tokens);
	return c.revoked.not_before_s;
}

static void person_sets(struct service *s, const char *id, enum user_status status)
{
	struct call c = {.id = bytes_of(id), .status = status};

	turn_take(s, &c.turn, become);
}

TEST(reconcile, an_unconfirmed_sign_up_is_left_out_until_it_is_confirmed)
{
	struct service s;
	struct job     job;
	struct call    c = {.id = BYTES("user00")};

	pool_open(&s, 3);
	pool.users[0].standing = SYNC_UNCONFIRMED;
	pool.users[1].standing = SYNC_UNKNOWN;
	job = reconciled(&s, (struct reconcile){.dry_run = false});
	assert_int_equal(number(&job, "left_out"), 2);
	assert_int_equal(number(&job, "created"), 1);
	assert_int_equal(turn_try(&s, &c.turn, get), ERR_NOT_FOUND);
	pool.users[0].standing = SYNC_WELCOME;
	job = reconciled(&s, (struct reconcile){.dry_run = false});
	assert_int_equal(number(&job, "created"), 1);
	assert_int_equal(status_of(&s, "user00"), USER_ACTIVE);
	pool_close(&s);
}

TEST(reconcile, a_disabled_account_is_suspended_with_its_tokens_and_comes_back_when_it_is_enabled)
{
	struct service s;
	struct user    u;

	pool_open(&s, 2);
	pool.users[1].standing = SYNC_BARRED; /* one that is new here, too: tokens of it may be about */
	reconciled(&s, (struct reconcile){.dry_run = false});
	assert_int_equal(status_of(&s, "user01"), USER_SUSPENDED);
	pool.users[0].standing = SYNC_BARRED;
	pool.users[0].has_time = true; /* and its record is older than what is here */
	pool.users[0].time_ms = 1;
	reconciled(&s, (struct reconcile){.dry_run = false});
	u = user_seen(&s, "user00");
	assert_int_equal(u.status, USER_SUSPENDED);
	assert_true(bytes_is(u.suspended_by, USER_BY_DISABLED));
	assert_true(revoked_before(&s, "user00") > 0);
	assert_true(revoked_before(&s, "user01") > 0);
	pool.users[0].standing = pool.users[1].standing = SYNC_WELCOME;
	reconciled(&s, (struct reconcile){.dry_run = false});
	assert_int_equal(status_of(&s, "user00"), USER_ACTIVE);
	assert_int_equal(status_of(&s, "user01"), USER_ACTIVE);
	assert_int_equal(user_seen(&s, "user00").suspended_by.len, 0);
	pool_close(&s);
}

TEST(reconcile, a_disabled_account_is_suspended_although_the_rest_of_its_record_cannot_be_written)
{
	struct service s;
	struct job     job;

	pool_open(&s, 2);
	reconciled(&s, (struct reconcile){.dry_run = false});
	pool.users[1].email = pool.users[0].email; /* taken */
	pool.users[1].standing = SYNC_BARRED;
	pool.users[pool.count++] = person("new", "user00@example.org");
	pool.users[2].standing = SYNC_BARRED;
	job = reconciled(&s, (struct reconcile){.dry_run = false});
	assert_int_equal(number(&job, "dead_lettered"), 2);
	assert_int_equal(letters(&s), 2);
	assert_int_equal(status_of(&s, "user01"), USER_SUSPENDED);
	assert_int_equal(status_of(&s, "new"), USER_SUSPENDED);
	assert_true(revoked_before(&s, "new") > 0);
	pool_close(&s);
}

TEST(reconcile, whom_a_person_suspended_is_never_reactivated_even_if_the_sync_had_suspended_it_before)
{
	struct service s;

	pool_open(&s, 3);
	reconciled(&s, (struct reconcile){.dry_run = false});
	person_sets(&s, "user00", USER_SUSPENDED);
	pool.users[0].standing = pool.users[1].standing = SYNC_BARRED;
	reconciled(&s, (struct reconcile){.dry_run = false});
	person_sets(&s, "user01", USER_SUSPENDED); /* it is already: from now on by a person */
	pool.users[0].standing = pool.users[1].standing = SYNC_WELCOME;
	reconciled(&s, (struct reconcile){.dry_run = false});
	assert_int_equal(status_of(&s, "user00"), USER_SUSPENDED);
	assert_int_equal(status_of(&s, "user01"), USER_SUSPENDED);
	pool_close(&s);
}

/* ---- the brake, and the way back ---- */

static struct job restored(struct service *s, struct restore q)
{
	struct call c = {.restore = q};

	turn_take(s, &c.turn, start_restore);
	return finished(s, &restore_job, c.started.job.id);
}

/* Runs until a step fails for good, and says why. */
static const char *refusal(struct service *s, struct reconcile q)
{
	struct call   c = {.reconcile = q};
	struct bytes  why;
	struct job    job;
	enum err_code rc;

	turn_take(s, &c.turn, start);
	do {
		job = job_seen(s, c.started.job.id);
		assert_int_equal(job.state, JOB_RUNNING);
		rc = stepped(s, &reconcile_job, &job);
	} while (rc == ERR_NONE);
	assert_int_equal(rc, ERR_NOT_NOW);
	why = arena_printf(&s->f.arena, "%s", s->f.err.text);
	c.id = job.id;
	turn_take(s, &c.turn, cancel);
	return why.data;
}

static uint32_t suspended(struct service *s)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < POOL_MAX; i++)
		count += status_of(s, arena_printf(&s->f.arena, "user%02u", i).data) == USER_SUSPENDED;
	return count;
}

TEST(reconcile, a_pool_that_answers_nobody_or_half_suspends_nobody_4)
{
	struct service s;

	pool_open(&s, POOL_MAX);
	reconciled(&s, (struct reconcile){.dry_run = false});
	pool.nobody = true;
	assert_non_null(strstr(refusal(&s, (struct reconcile){.suspend = true}), "40 of 40 active users"));
	assert_int_equal(suspended(&s), 0);
	assert_int_equal(missing(&s).count, POOL_MAX); /* it is reported */
	assert_non_null(
	        strstr(refusal(&s, (struct reconcile){.suspend = true, .dry_run = true}), "5 percent"));
	pool.nobody = false;
	pool.half = true;
	assert_non_null(strstr(refusal(&s, (struct reconcile){.suspend = true, .percent = 49}), "20 of 40"));
	assert_int_equal(suspended(&s), 0);
	reconciled(&s, (struct reconcile){.suspend = true, .percent = 50});
	assert_int_equal(suspended(&s), POOL_MAX / 2);
	pool_close(&s);
}

TEST(reconcile, a_few_may_be_missing_in_a_small_pool_but_not_all_of_it_4)
{
	struct service s;

	pool_open(&s, RECONCILE_FEW + 2);
	reconciled(&s, (struct reconcile){.dry_run = false});
	pool.count = 1; /* one more than few */
	refusal(&s, (struct reconcile){.suspend = true});
	pool.count = 2;
	reconciled(&s, (struct reconcile){.suspend = true});
	assert_int_equal(status_of(&s, "user02"), USER_SUSPENDED);
	pool.count = 0; /* two are left, and nobody is listed */
	refusal(&s, (struct reconcile){.suspend = true});
	assert_int_equal(status_of(&s, "user01"), USER_ACTIVE);
	pool_close(&s);
}

TEST(reconcile, those_who_were_suspended_before_do_not_count_again_4)
{
	struct service s;

	pool_open(&s, POOL_MAX);
	reconciled(&s, (struct reconcile){.dry_run = false});
	pool.count = POOL_MAX / 2;
	reconciled(&s, (struct reconcile){.suspend = true, .percent = 50});
	reconciled(&s, (struct reconcile){.suspend = true});
	pool.count--;
	reconciled(&s, (struct reconcile){.suspend = true});
	assert_int_equal(suspended(&s), POOL_MAX / 2 + 1);
	pool_close(&s);
}

TEST(restore, all_whom_reconciliation_suspended_come_back_and_nobody_whom_a_person_did)
{
	struct service s;
	struct job     job;

	pool_open(&s, POOL_MAX);
	reconciled(&s, (struct reconcile){.dry_run = false});
	person_sets(&s, "user00", USER_SUSPENDED);
	pool.nobody = true;
	reconciled(&s, (struct reconcile){.suspend = true, .percent = 100});
	assert_int_equal(suspended(&s), POOL_MAX);
	person_sets(&s, "user01", USER_SUSPENDED);            /* takes it over */
	reconciled(&s, (struct reconcile){.dry_run = false}); /* a run that only reports forgets nobody */
	at(&s, 2 * MISSING_KEPT_S);
	job = restored(&s, (struct restore){.provider = BYTES("other")});
	assert_int_equal(number(&job, "restored"), 0);
	job = restored(&s, (struct restore){.dry_run = true});
	assert_int_equal(number(&job, "restored"), POOL_MAX - 2);
	assert_int_equal(suspended(&s), POOL_MAX);
	job = restored(&s, (struct restore){.dry_run = false});
	assert_int_equal(number(&job, "restored"), POOL_MAX - 2);
	assert_int_equal(suspended(&s), 2);
	assert_int_equal(status_of(&s, "user01"), USER_SUSPENDED);
	job = restored(&s, (struct restore){.dry_run = false});
	assert_int_equal(number(&job, "restored"), 0);
	pool_close(&s);
}

TEST(reconcile, whom_the_list_leaves_out_but_the_provider_has_is_reactivated_too_5)
{
	struct service s;

	pool_open(&s, 4);
	reconciled(&s, (struct reconcile){.dry_run = false});
	pool.half = true;
	reconciled(&s, (struct reconcile){.suspend = true});
	assert_int_equal(status_of(&s, "user01"), USER_SUSPENDED);
	pool.half = false;
	pool.list_max = 1;
	reconciled(&s, (struct reconcile){.dry_run = false});
	assert_int_equal(status_of(&s, "user01"), USER_ACTIVE);
	pool_close(&s);
}

TEST(reconcile, one_whose_name_is_another_users_now_is_missing)
{
	struct service s;

	pool_open(&s, 2);
	reconciled(&s, (struct reconcile){.dry_run = false});
	pool.users[1].id = BYTES("new-sub"); /* deleted there, and signed up again */
	pool.users[1].email = BYTES("new-sub@example.org");
	reconciled(&s, (struct reconcile){.suspend = true});
	assert_int_equal(status_of(&s, "user01"), USER_SUSPENDED);
	assert_int_equal(status_of(&s, "new-sub"), USER_ACTIVE);
	pool_close(&s);
}

TEST(reconcile, pages_that_lead_back_to_an_earlier_one_do_not_run_for_ever_6)
{
	struct service s;
	struct call    c = {.reconcile = {.provider = BYTES("pool")}};
	struct job     job;
	enum err_code  rc;
	int            steps = 0;

	pool_open(&s, POOL_MAX);
	pool.circle = true;
	turn_take(&s, &c.turn, start);
	do {
		job = job_seen(&s, c.started.job.id);
		rc = stepped(&s, &reconcile_job, &job);
	} while (rc == ERR_NONE && steps++ < 200);
	assert_int_equal(rc, ERR_NOT_NOW); /* the job fails */
	pool_close(&s);
}

TEST(reconcile, a_pool_that_fails_for_now_changes_nothing_and_the_step_is_taken_later)
{
	struct service s;
	struct call    c = {.reconcile = {.provider = BYTES("pool"), .rate = 7}};
	struct job     job;

	pool_open(&s, 2);
	turn_take(&s, &c.turn, start);
	job = c.started.job;
	assert_int_equal(job.rate, 7);
	pool.fails = ERR_OVERLOADED;
	assert_int_equal(stepped(&s, &reconcile_job, &job), ERR_OVERLOADED);
	assert_int_equal(job_seen(&s, job.id).steps, 0);
	pool.fails = ERR_NONE;
	job = finished(&s, &reconcile_job, job.id);
	assert_int_equal(number(&job, "created"), 2);
	pool_close(&s);
}

TEST(reconcile, a_pool_whose_page_comes_after_itself_is_asked_again_later_and_not_for_ever)
{
	struct service s;
	struct call    c = {.reconcile = {.provider = BYTES("pool")}};
	struct job     job;
	enum err_code  rc;
	int            steps = 0;

	pool_open(&s, POOL_PAGE + 1);
	pool.turns = true;
	turn_take(&s, &c.turn, start);
	do {
		job = job_seen(&s, c.started.job.id);
		rc = stepped(&s, &reconcile_job, &job);
	} while (rc == ERR_NONE && steps++ < 100);
	assert_int_equal(rc, ERR_OVERLOADED);
	pool.turns = false;
	job = finished(&s, &reconcile_job, c.started.job.id);
	assert_int_equal(number(&job, "created"), POOL_PAGE + 1);
	pool_close(&s);
}

TEST(reconcile, one_runs_at_a_time_and_a_provider_that_is_gone_ends_it)
{
	struct service    s;
	struct call       c = {.step = {.steps = 0}};
	struct bytes      id;
	struct providers *none = document_make(sizeof(*none));

	pool_open(&s, 2);
	turn_take(&s, &c.turn, start);
	id = c.started.job.id;
	turn_take(&s, &c.turn, start);
	assert_true(c.started.existed);
	assert_true(bytes_equal(c.started.job.id, id));
	for (int i = 0; i < 3; i++) { /* who asks for something else is not told that it is being done */
		c.reconcile = (struct reconcile){.dry_run = i == 0, .suspend = i == 1};
		if (i == 2)
			c.reconcile.provider = BYTES("pool");
		assert_int_equal(turn_try(&s, &c.turn, start), ERR_NOT_NOW);
		assert_non_null(strstr(s.f.err.text, arena_printf(&s.f.arena, "%.*s", BYTES_ARG(id)).data));
	}
	c.reconcile = (struct reconcile){.dry_run = false};
	document_put(&in_force, &none->base);
	finished(&s, &reconcile_job, id);
	c.reconcile.provider = BYTES("pool");
	assert_int_equal(turn_try(&s, &c.turn, start), ERR_NOT_FOUND);
	pool_close(&s);
}

TEST(reconcile, how_often_it_starts_by_itself_is_the_shortest_that_is_set)
{
	struct service    s;
	struct providers *p = document_make(sizeof(*p));

	pool_open(&s, 0);
	assert_int_equal(reconcile_job.period_s(&s.all), 60);
	p->list[0].reconcile_s = 0;
	p->list[1].reconcile_s = 300;
	p->list[2].reconcile_s = 200;
	p->count = 3;
	document_put(&in_force, &p->base);
	assert_int_equal(reconcile_job.period_s(&s.all), 200);
	s.all.providers = NULL;
	assert_int_equal(reconcile_job.period_s(&s.all), 0);
	pool_close(&s);
}

TEST(redrive, all_letters_of_a_group_are_delivered_and_those_that_fail_again_stay)
{
	struct service s;
	struct call    c = {.redrive = {.dry_run = true}};
	struct job     job;

	pool_open(&s, 4);
	for (uint32_t i = 1; i < 4; i++)
		pool.users[i].email = pool.users[0].email;
	reconciled(&s, (struct reconcile){.dry_run = false});
	assert_int_equal(letters(&s), 3);
	turn_take(&s, &c.turn, start_redrive);
	job = c.started.job;
	c.redrive.dry_run = false; /* a dry run runs */
	assert_int_equal(turn_try(&s, &c.turn, start_redrive), ERR_NOT_NOW);
	c.redrive = (struct redrive){.dry_run = true, .error = BYTES("limit-exceeded")};
	assert_int_equal(turn_try(&s, &c.turn, start_redrive), ERR_NOT_NOW);
	job = finished(&s, &redrive_job, job.id);
	assert_int_equal(number(&job, "letters"), 3);
	c.redrive = (struct redrive){.error = BYTES("limit-exceeded")};
	turn_take(&s, &c.turn, start_redrive);
	job = finished(&s, &redrive_job, c.started.job.id);
	assert_int_equal(number(&job, "letters"), 0);
	address_vanishes(&s, "user00", "user00@example.org");
	c.redrive.error = BYTES("email-not-available");
	turn_take(&s, &c.turn, start_redrive);
	job = finished(&s, &redrive_job, c.started.job.id);
	assert_int_equal(number(&job, "created"), 1);
	assert_int_equal(number(&job, "dead_lettered"), 2);
	assert_int_equal(letters(&s), 2);
	pool_close(&s);
}
