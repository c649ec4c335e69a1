/* Accounts: what a user's status means for attempts, on the engine or the rough store. */
#include "service/scene.h"
#include "service/turn.h"

#include "service/account.h"
#include "service/lock.h"
#include "service/reservation.h"
#include "service/revocation.h"
#include "service/subject.h"

struct call {
	struct turn             turn;
	struct user_new         create;
	struct user_created     created;
	struct user_patch       patch;
	enum user_status        status;
	struct user             user;
	struct email_entry      entry;
	struct email_verdict    entered;
	struct account_subjects subjects;
	struct account          account;
	struct verdict          verdict;
};

static enum err_code create(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_create(&t->ctx, &c->create, &c->created, err);
}

static enum err_code become(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_become(&t->ctx, &c->patch, c->status, &c->user, err);
}

static enum err_code verify(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_email_verify(&t->ctx, &c->entry, &c->entered, err);
}

static enum err_code judge(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return account_judge(&t->ctx, &c->subjects, &c->account, err);
}

static enum err_code judge_user(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return account_judge_user(&t->ctx, c->patch.id, &c->verdict, err);
}

static enum err_code writable(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return account_writable(&t->ctx, c->patch.id, err);
}

/* ---- words ---- */

/* A user with an address, verified or not. */
static void made(struct service *s, const char *id, const char *email, bool verified)
{
	struct call c = {.create = {.id = bytes_of(id), .email = bytes_of(email)}};

	turn_take(s, &c.turn, create);
	if (!verified)
		return;
	c.entry = (struct email_entry){.user = bytes_of(id),
	                               .email_id = c.created.claim.email.id,
	                               .code = code_bytes(&c.created.claim.code)};
	turn_take(s, &c.turn, verify);
	assert_int_equal(c.entered.outcome, ENTRY_RIGHT);
}

static void becomes(struct service *s, const char *id, enum user_status status)
{
	struct call c = {.patch = {.id = bytes_of(id)}, .status = status};

	turn_take(s, &c.turn, become);
}

/* As somebody else may write it, or erase.h does. */
static void status_put(struct service *s, const char *id, const char *status)
{
	fixture_ok(&s->f, "PutItem",
	           arena_printf(&s->f.arena,
	                        "{'TableName':'users','Item':{'PK':{'S':'USER#%s'},'SK':{'S':'PROFILE'},"
	                        "'status':{'S':'%s'},'version':{'N':'1'}}}",
	                        id, status)
	                   .data);
}

static struct account judged(struct service *s, struct account_subjects q)
{
	struct call c = {.subjects = q};

	turn_take(s, &c.turn, judge);
	return c.account;
}

static void assert_reason(const struct verdict *v, const char *reason)
{
	if (reason == NULL) {
		assert_int_equal(v->kind, VERDICT_ALLOW);
		return;
	}
	assert_int_equal(v->kind, VERDICT_BLOCKED);
	assert_string_equal(v->reason, reason);
}

static void assert_judged(struct service *s, const char *id, const char *reason)
{
	struct call    c = {.patch = {.id = bytes_of(id)}};
	struct bytes   ids[] = {bytes_of(id)};
	struct account a = judged(s, (struct account_subjects){.ids = ids, .count = 1});

	assert_reason(&a.verdict, reason);
	turn_take(s, &c.turn, judge_user);
	assert_reason(&c.verdict, reason);
}

/* ---- what status means ---- */

TEST(account, a_user_that_is_not_active_is_kept_out_and_one_that_is_unknown_is_not_1_2)
{
	struct service s;

	service_open(&s, NULL);
	assert_judged(&s, "ann", NULL); /* there is no table yet */
	made(&s, "ann", "ann@example.org", false);
	assert_judged(&s, "ann", NULL);
	assert_judged(&s, "bob", NULL);
	becomes(&s, "ann", USER_SUSPENDED);
	assert_judged(&s, "ann", "user_suspended");
	becomes(&s, "ann", USER_ACTIVE);
	assert_judged(&s, "ann", NULL);
	becomes(&s, "ann", USER_DELETED);
	assert_judged(&s, "ann", "user_deleted");
	status_put(&s, "ann", "erasing");
	assert_judged(&s, "ann", "user_erasing");
	status_put(&s, "ann", "on holiday"); /* none of ours lets nobody in */
	assert_judged(&s, "ann", "user_suspended");
	service_close(&s);
}

TEST(account, a_subject_that_came_as_a_verified_address_is_its_user_1)
{
	struct service s;
	struct bytes   ids[] = {BYTES("email:x"), BYTES("bob")};
	struct bytes   emails[] = {BYTES("ann@example.org"), {NULL, 0}};
	struct account a;

	service_open(&s, NULL);
	ids[0] = hashed(&s, IDENTIFIER_EMAIL, "ann@example.org");
	a = judged(&s, (struct account_subjects){.ids = ids, .emails = emails, .count = 2});
	assert_reason(&a.verdict, NULL);
	assert_int_equal(a.user_count, 0);
	made(&s, "ann", "ann@example.org", true);
	a = judged(&s, (struct account_subjects){.ids = ids, .emails = emails, .count = 2});
	assert_reason(&a.verdict, NULL);
	assert_int_equal(a.user_count, 1);
	assert_true(bytes_is(a.users[0], "ann"));
	becomes(&s, "ann", USER_SUSPENDED);
	a = judged(&s, (struct account_subjects){.ids = ids, .emails = emails, .count = 2});
	assert_reason(&a.verdict, "user_suspended");
	assert_true(bytes_is(a.verdict.pk, "USER#ann"));
	service_close(&s);
}

TEST(account, a_claim_that_nobody_proved_says_nothing_1)
{
	struct service s;
	struct bytes   ids[1], emails[] = {BYTES("ann@example.org")};
	struct account a;

	service_open(&s, NULL);
	ids[0] = hashed(&s, IDENTIFIER_EMAIL, "ann@example.org");
	made(&s, "mallory", "ann@example.org", false);
	becomes(&s, "mallory", USER_SUSPENDED);
	a = judged(&s, (struct account_subjects){.ids = ids, .emails = emails, .count = 1});
	assert_reason(&a.verdict, NULL);
	assert_int_equal(a.user_count, 0);
	service_close(&s);
}

TEST(account, a_user_that_is_known_is_not_looked_for_by_address)
{
	struct service s;
	struct bytes   ids[] = {BYTES("email:x")}, users[] = {BYTES("ann")};
	struct account a;

	service_open(&s, NULL);
	made(&s, "ann", "ann@example.org", true);
	becomes(&s, "ann", USER_DELETED);
	a = judged(&s, (struct account_subjects){.ids = ids, .users = users, .count = 1});
	assert_reason(&a.verdict, "user_deleted");
	service_close(&s);
}

TEST(account, as_many_subjects_as_a_call_may_have_are_judged)
{
	struct service s;
	struct bytes   ids[SUBJECTS_MAX], emails[SUBJECTS_MAX];
	struct account a;

	service_open(&s, NULL);
	for (int i = 0; i < SUBJECTS_MAX; i++) {
		const char *email = arena_printf(&s.f.arena, "%d@example.org", i).data;

		made(&s, arena_printf(&s.f.arena, "user-%d", i).data, email, true);
		ids[i] = hashed(&s, IDENTIFIER_EMAIL, email);
		emails[i] = bytes_of(email);
	}
	a = judged(&s, (struct account_subjects){.ids = ids, .emails = emails, .count = SUBJECTS_MAX});
	assert_reason(&a.verdict, NULL);
	assert_int_equal(a.user_count, SUBJECTS_MAX);
	becomes(&s, "user-7", USER_SUSPENDED);
	a = judged(&s, (struct account_subjects){.ids = ids, .emails = emails, .count = SUBJECTS_MAX});
	assert_reason(&a.verdict, "user_suspended");
	service_close(&s);
}

/* ---- while a user is erased ---- */

TEST(account, nothing_is_written_about_a_user_that_is_being_erased_3)
{
	struct service s;
	struct call    c = {
	           .patch = {.id = BYTES("ann")}, .create = {.id = BYTES("ann")}, .status = USER_ACTIVE};

	service_open(&s, NULL);
	turn_take(&s, &c.turn, writable);
	made(&s, "ann", "ann@example.org", false);
	becomes(&s, "ann", USER_DELETED);
	turn_take(&s, &c.turn, writable);
	status_put(&s, "ann", "erasing");
	assert_int_equal(turn_try(&s, &c.turn, writable), ERR_NOT_NOW);
	assert_string_equal(s.f.err.text, "id: the user is being erased");
	assert_int_equal(turn_try(&s, &c.turn, become), ERR_NOT_NOW);
	assert_int_equal(turn_try(&s, &c.turn, create), ERR_NOT_NOW);
	service_close(&s);
}

/* ---- attempts ---- */

/* ---- all ids of a person (4), (6) ---- */

static bool has_id(const struct account *a, struct bytes id)
{
	for (uint32_t i = 0; i < a->id_count; i++)
		if (bytes_equal(a->ids[i], id))
			return true;
	return false;
}

static struct bytes alias(struct service *s, const char *email)
{
	struct bytes out;

	assert_true(
	        identifier_hash(&s->all.identifiers, &s->f.arena, IDENTIFIER_EMAIL, bytes_of(email), &out));
	return out;
}

TEST(account, finds_the_same_ids_by_the_id_an_address_and_its_hash_4)
{
	struct service s;
	struct bytes   ids[] = {BYTES("ann"), {NULL, 0}}, emails[] = {BYTES("ann@example.org")};
	struct account a;

	service_open(&s, NULL);
	made(&s, "ann", "ann@example.org", true);
	ids[1] = alias(&s, "ann@example.org");
	a = judged(&s, (struct account_subjects){.ids = ids, .count = 1, .whole = true});
	assert_true(a.id_count == 2 && a.main_count == 1 && has_id(&a, ids[1]));
	a = judged(&s, (struct account_subjects){.ids = &ids[1], .count = 1, .whole = true});
	assert_true(a.id_count == 2 && a.main_count == 2 && bytes_is(a.ids[1], "ann"));
	a = judged(&s,
	           (struct account_subjects){.ids = &ids[1], .emails = emails, .count = 1, .whole = true});
	assert_true(a.id_count == 2 && bytes_equal(a.ids[0], ids[1]) && bytes_is(a.users[0], "ann"));
	service_close(&s);
}

TEST(account, of_a_user_that_was_written_without_a_list_the_addresses_are_read)
{
	struct service s;
	struct bytes   ids[] = {BYTES("ann")};
	struct account a;

	service_open(&s, NULL);
	made(&s, "ann", "ann@example.org", true);
	status_put(&s, "ann", "active"); /* the row of an earlier program */
	a = judged(&s, (struct account_subjects){.ids = ids, .count = 1, .whole = true});
	assert_true(a.id_count == 2 && has_id(&a, alias(&s, "ann@example.org")));
	service_close(&s);
}

TEST(account, an_address_that_nobody_has_or_has_proved_stands_alone)
{
	struct service s;
	struct bytes   ids[1], emails[] = {BYTES("ann@example.org")};
	struct account a;

	service_open(&s, NULL);
	made(&s, "ann", "ann@example.org", false);
	ids[0] = alias(&s, "ann@example.org");
	a = judged(&s, (struct account_subjects){.ids = ids, .emails = emails, .count = 1, .whole = true});
	assert_true(a.id_count == 1 && a.user_count == 0);
	service_close(&s);
}

TEST(account_attempts, of_a_user_that_is_not_active_are_blocked_and_neither_count_nor_clear_1)
{
	static const struct {
		const char *status, *reason;
	} cases[] = {{"suspended", "user_suspended"},
	             {"deleted", "user_deleted"},
	             {"erasing", "user_erasing"},
	             {"frozen", "user_suspended"}};
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	made(&s, "alice", "alice@example.org", true);
	FAIL_TIMES(&s, 3);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		status_put(&s, "alice", cases[i].status);
		r = FAIL(&s);
		assert_verdict(&r, VERDICT_BLOCKED, false);
		assert_string_equal(r.verdict.reason, cases[i].reason);
		r = SUCCEED(&s);
		assert_verdict(&r, VERDICT_BLOCKED, false);
		assert_int_equal(r.cleared_count, 0);
		assert_int_equal(r.device.token.len, 0);
		r = SENT(&s, .type = "MFA_CODE_REQUEST", .notification = "MFA_SMS");
		assert_verdict(&r, VERDICT_BLOCKED, false);
		assert_int_equal(count_in(&s, "alice", PASSWORDS), 3);
	}
	status_put(&s, "alice", "active");
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 4);
	service_close(&s);
}

TEST(account_attempts, by_address_are_blocked_as_those_by_id_are_1)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	r = FAIL(&s, .email = "alice@example.org");
	assert_verdict(&r, VERDICT_ALLOW, true);
	made(&s, "alice", "alice@example.org", true);
	becomes(&s, "alice", USER_SUSPENDED);
	r = FAIL(&s, .email = "alice@example.org");
	assert_verdict(&r, VERDICT_BLOCKED, false);
	assert_string_equal(r.verdict.reason, "user_suspended");
	r = FAIL(&s, .email = "bob@example.org");
	assert_verdict(&r, VERDICT_ALLOW, true);
	r = FAIL(&s, .subject = "bob", .pairwise = "alice"); /* one of several is enough */
	assert_verdict(&r, VERDICT_BLOCKED, false);
	service_close(&s);
}

TEST(account_attempts, of_a_user_that_does_not_exist_are_as_before_2)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	made(&s, "bob", "bob@example.org", true);
	becomes(&s, "bob", USER_SUSPENDED);
	r = FAIL_TIMES(&s, 6);
	assert_verdict(&r, VERDICT_LOCKED, true);
	service_close(&s);
}

struct two_steps {
	struct turn           turn;
	struct attempt        q;
	struct begin_result   begun;
	struct reservation    reservation;
	enum outcome          outcome;
	struct attempt_result r;
};

static enum err_code begin(struct turn *t, struct err *err)
{
	struct two_steps *c = (struct two_steps *)t;

	return attempt_begin(&t->ctx, &c->q, BYTES("one"), &c->begun, err);
}

static enum err_code finish(struct turn *t, struct err *err)
{
	struct two_steps *c = (struct two_steps *)t;

	if (reservation_find(&t->ctx, BYTES("one"), t->s->rules, &c->reservation, err) != ERR_NONE)
		return err->code;
	return attempt_finish(&t->ctx, &c->reservation, c->outcome, &c->r, err);
}

TEST(account_attempts, that_began_before_the_suspension_do_not_succeed_after_it)
{
	struct try by[] = {{.subject = "alice"}, {.email = "alice@example.org"}};

	for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
		struct service   s;
		struct two_steps c = {.outcome = OUTCOME_SUCCESS};

		service_open(&s, NULL);
		made(&s, "alice", "alice@example.org", true);
		c.q = attempt_of(&s, &by[i]);
		turn_take(&s, &c.turn, begin);
		assert_true(c.begun.reserved);
		becomes(&s, "alice", USER_SUSPENDED);
		turn_take(&s, &c.turn, finish);
		assert_int_equal(c.r.verdict.kind, VERDICT_BLOCKED);
		assert_string_equal(c.r.verdict.reason, "user_suspended");
		assert_int_equal(count_in(&s,
		                          arena_printf(&s.f.arena, "%.*s", BYTES_ARG(c.q.subjects[0])).data,
		                          PASSWORDS),
		                 1); /* not taken back */
		becomes(&s, "alice", USER_ACTIVE);
		turn_take(&s, &c.turn, finish);
		assert_int_equal(c.r.verdict.kind, VERDICT_ALLOW);
		service_close(&s);
	}
}

TEST(account_attempts, cannot_begin_for_a_user_that_is_not_active)
{
	struct service   s;
	struct two_steps c = {.outcome = OUTCOME_FAILURE};
	struct item      row;

	service_open(&s, NULL);
	made(&s, "alice", "alice@example.org", true);
	becomes(&s, "alice", USER_DELETED);
	c.q = attempt_of(&s, &(struct try){.email = "alice@example.org"});
	turn_take(&s, &c.turn, begin);
	assert_false(c.begun.reserved);
	assert_string_equal(c.begun.attempt.verdict.reason, "user_deleted");
	assert_false(row_find(&s, BYTES("ATTEMPT#one"), BYTES("RESERVATION"), &row));
	service_close(&s);
}

TEST(account_attempts, that_are_begun_keep_the_user_and_not_the_address)
{
	struct service   s;
	struct two_steps c = {.outcome = OUTCOME_FAILURE};
	struct item      row;

	service_open(&s, NULL);
	made(&s, "alice", "alice@example.org", true);
	c.q = attempt_of(&s, &(struct try){.email = "alice@example.org"});
	turn_take(&s, &c.turn, begin);
	assert_true(row_find(&s, BYTES("ATTEMPT#one"), BYTES("RESERVATION"), &row));
	assert_true(bytes_is(value_text(&item_get(&row, BYTES("users"))->list.items[0]), "alice"));
	for (uint32_t i = 0; i < row.count; i++)
		assert_false(bytes_contains(value_text(&row.members[i].value), BYTES("example.org")));
	service_close(&s);
}

/* ---- everything that writes about a subject (3) ---- */

static enum err_code lock_write(struct context *ctx, const struct rules *rules, struct err *err)
{
	const struct rule *rule =
	        rules_find(rules, BYTES("SIGN_IN"), BYTES("PASSWORD_ENTRY"), (struct bytes){NULL, 0});
	struct lock_new lock = {.pk = BYTES("alice"),
	                        .journey = BYTES("SIGN_IN"),
	                        .type = BYTES(KEY_LOCK),
	                        .name = BYTES("PASSWORD_ENTRY"),
	                        .kind = rule->lock,
	                        .set_by = BYTES("op")};
	struct verdict  v;

	return lock_add(ctx, &lock, &v, err);
}

static enum err_code open_write(struct context *ctx, const struct rules *rules, struct err *err)
{
	bool held;

	(void)rules;
	return lock_open(ctx, BYTES("alice"), BYTES(PASSWORD_LOCK), &held, err);
}

static enum err_code intervention_write(struct context *ctx, const struct rules *rules, struct err *err)
{
	struct intervention q = {
	        .subject = BYTES("alice"), .flags = {[INTERVENTION_BLOCKED] = FLAG_ON}, .applied_s = START_S};
	struct intervention_result out;

	(void)rules;
	return intervention_apply(ctx, &q, &out, err);
}

static enum err_code fraud_write(struct context *ctx, const struct rules *rules, struct err *err)
{
	struct email_fraud_new q = {BYTES("alice"), EMAIL_FRAUD_PENDING, 0};
	int64_t                until_s;

	(void)rules;
	return email_fraud_set(ctx, &q, &until_s, err);
}

static enum err_code states_write(struct context *ctx, const struct rules *rules, struct err *err)
{
	struct states_cleared out;

	(void)rules;
	return states_clear(ctx, BYTES("alice"), FAMILY_EMAIL_FRAUD, &out, err);
}

static enum err_code reset_write(struct context *ctx, const struct rules *rules, struct err *err)
{
	struct reset_result out;

	return subject_reset(ctx,
	                     &(struct reset_request){
	                             .rules = rules, .reset = &rules->resets[0], .subject = BYTES("alice")},
	                     &out, err);
}

static enum err_code devices_write(struct context *ctx, const struct rules *rules, struct err *err)
{
	uint32_t count;

	(void)rules;
	return device_forget(ctx, BYTES("alice"), (struct bytes){NULL, 0}, &count, err);
}

static enum err_code (*const writers[])(struct context *, const struct rules *, struct err *) = {
        lock_write, open_write, intervention_write, fraud_write, states_write, reset_write, devices_write};
enum { WRITERS = sizeof(writers) / sizeof(writers[0]) };

struct writing {
	struct turn turn;
	int         n;
};

static enum err_code write_one(struct turn *t, struct err *err)
{
	return writers[((struct writing *)t)->n](&t->ctx, t->s->rules, err);
}

TEST(account, whoever_writes_about_a_subject_refuses_one_that_is_being_erased_3)
{
	struct service s;
	uint32_t       rows;

	service_open(&s, NULL);
	made(&s, "alice", "alice@example.org", false);
	FAIL(&s);
	for (int i = 0; i < WRITERS; i++) {
		struct writing w = {.n = i};

		turn_take(&s, &w.turn, write_one);
	}
	rows = rows_in_table(&s);
	status_put(&s, "alice", "erasing");
	for (int i = 0; i < WRITERS; i++) {
		struct writing w = {.n = i};

		assert_int_equal(turn_try(&s, &w.turn, write_one), ERR_NOT_NOW);
		assert_string_equal(s.f.err.text, "id: the user is being erased");
	}
	assert_int_equal(rows_in_table(&s), rows);
	service_close(&s);
}

/* Between its reads and its commit, somebody begins to erase the user. */
static enum err_code write_and_erase(struct act *act, struct err *err)
{
	struct context other = act->ctx;
	struct row     row;
	struct err     ignored;
	enum err_code  rc = writers[act->n](&act->ctx, act->x->s.rules, err);

	if (rc != ERR_NONE)
		return rc;
	ctx_begin(&other, act->ctx.table);
	row_init(&row, other.arena);
	row_set_text(&row, "PK", BYTES("USER#alice"));
	row_set_text(&row, "SK", BYTES("PROFILE"));
	row_set_text(&row, "status", BYTES("erasing"));
	ctx_put(&other, TABLE_USERS, row_item(&row));
	assert_int_equal(changes_commit(&other.changes, other.table, &ignored), ERR_NONE);
	changes_confirm(&act->ctx.changes); /* for those that found nothing to write */
	return commit(act, err);
}

TEST(account, no_write_slips_in_while_a_user_begins_to_be_erased_3)
{
	for (int i = 0; i < WRITERS; i++) {
		struct scene x;

		scene_open(&x, 1, true);
		made(&x.s, "alice", "alice@example.org", false);
		FAIL(&x.s, .subject = "bob"); /* makes the table */
		assert_int_equal(play(&x, write_and_erase, i), ERR_CONDITION);
		assert_int_equal(rows_in_table(&x.s), 1);
		scene_close(&x);
	}
}

/* ---- suspension and tokens ---- */

static struct revoked tokens_of(struct service *s, const char *id)
{
	struct fixture_reader reader;
	struct context        ctx = {.services = &s->all, .arena = &s->f.arena, .caller = BYTES("-")};
	struct revoked        out;

	fixture_reader_begin(&reader, &s->f);
	ctx_begin(&ctx, reader.table);
	assert_int_equal(revocation_get(&ctx, REVOKED_USER, bytes_of(id), &out, &s->f.err), ERR_NONE);
	fixture_reader_end(&reader);
	return out;
}

TEST(account_tokens, suspending_revokes_them_and_reactivating_leaves_them_revoked)
{
	struct service s;
	struct call    c = {.patch = {.id = BYTES("ann")}, .status = USER_SUSPENDED};

	service_open(&s, NULL);
	made(&s, "ann", "ann@example.org", false);
	assert_int_equal(tokens_of(&s, "ann").kind, REVOKED_NOTHING);
	at(&s, 50);
	turn_take(&s, &c.turn, become);
	assert_int_equal(c.user.tokens_not_before_s, START_S + 50);
	assert_int_equal(tokens_of(&s, "ann").not_before_s, START_S + 50);
	at(&s, 60);
	turn_take(&s, &c.turn, become); /* it is suspended already */
	assert_int_equal(c.user.tokens_not_before_s, START_S + 50);
	c.status = USER_ACTIVE;
	turn_take(&s, &c.turn, become);
	assert_int_equal(c.user.tokens_not_before_s, START_S + 50);
	assert_int_equal(tokens_of(&s, "ann").not_before_s, START_S + 50);
	at(&s, 70);
	c.status = USER_DELETED;
	turn_take(&s, &c.turn, become);
	assert_int_equal(tokens_of(&s, "ann").not_before_s, START_S + 70);
	service_close(&s);
}

/* Every third one suspends, reactivates, or tries. */
static enum err_code suspend_or_try(struct act *act, struct err *err)
{
	struct user_patch patch = {.id = BYTES("alice")};
	struct user       u;

	if (act->n % 3 == 2) {
		struct attempt       *q = arena_zalloc(act->ctx.arena, sizeof(*q));
		struct attempt_result r;

		*q = (struct attempt){
		        .subjects = {BYTES("alice")}, .subject_count = 1, .rules = act->x->s.rules};
		q->rule = rules_find(q->rules, BYTES("SIGN_IN"), BYTES("PASSWORD_ENTRY"),
		                     (struct bytes){NULL, 0});
		if (attempt_record(&act->ctx, q, OUTCOME_FAILURE, &r, err) != ERR_NONE)
			return err->code;
		if (r.verdict.kind == VERDICT_BLOCKED)
			assert_false(r.counted);
		return commit(act, err);
	}
	if (user_become(&act->ctx, &patch, act->n % 3 == 0 ? USER_SUSPENDED : USER_ACTIVE, &u, err) !=
	    ERR_NONE)
		return err->code;
	return commit(act, err);
}

TEST(account_races, suspensions_reactivations_and_attempts_at_once_leave_tokens_revoked)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct scene x;
		struct act   acts[9];

		scene_open(&x, seed, false);
		made(&x.s, "alice", "alice@example.org", false);
		at(&x.s, 5);
		for (int i = 0; i < 9; i++)
			acts[i] = (struct act){.run = suspend_or_try, .n = i};
		play_together(&x, acts, 9);
		assert_int_equal(tokens_of(&x.s, "alice").not_before_s, START_S + 5);
		assert_true(count_in(&x.s, "alice", PASSWORDS) <= 3);
		scene_close(&x);
	}
}
