/* Dead letters and sign-outs: what dead_letter.h and sign_out.h promise, on the engine or the rough store. */
#include "service/scene.h"
#include "service/turn.h"

#include "base/fault.h"
#include "service/dead_letter.h"
#include "service/erase.h"
#include "service/sign_out.h"

/* ---- calls ---- */

struct call {
	struct turn                turn;
	struct sync_record         q;
	struct sync_delivery       r;
	struct sync_result         applied;
	enum err_code              why;
	struct dead_letter_key     key;
	struct dead_letter         letter;
	struct dead_letters_search search;
	struct dead_letters_page   page;
	struct dead_letter_groups  groups;
	struct bytes               id;
	enum user_status           status;
	struct user                user;
	struct sign_outs           outs;
	struct sign_out            out;
	const char                *failed;
	struct job_started         started;
};

#define CALL(name, expression)                                                                               \
	static enum err_code name(struct turn *t, struct err *err)                                           \
	{                                                                                                    \
		struct call *c = (struct call *)t;                                                           \
                                                                                                             \
		return expression;                                                                           \
	}

CALL(apply, sync_apply(&t->ctx, &c->q, &c->applied, err))
CALL(deliver, sync_deliver(&t->ctx, &c->q, &c->r, err))
CALL(give_up, sync_give_up(&t->ctx, &c->q, c->why, &c->r, err))
CALL(letter_get, dead_letter_get(&t->ctx, &c->key, &c->letter, err))
CALL(letter_delete, dead_letter_delete(&t->ctx, &c->key, err))
CALL(redrive, dead_letter_redrive(&t->ctx, &c->key, &c->r, err))
CALL(find, dead_letters_find(&t->ctx, &c->search, &c->page, err))
CALL(group, dead_letters_group(&t->ctx, &(struct user_filter){0}, &c->groups, err))
CALL(letters_erase, dead_letters_erase(&t->ctx, c->id, err))
CALL(erase, erase_start(&t->ctx, c->id, &c->started, err))
CALL(become, user_become(&t->ctx, &(struct user_patch){.id = c->id}, c->status, &c->user, err))
CALL(outs_find, sign_outs_find(&t->ctx, &c->outs, err))
CALL(out_note, sign_out_note(&t->ctx, &c->out, c->failed, err))

/* ---- words ---- */

static struct sync_record record(const char *id, const char *email)
{
	return (struct sync_record){.provider = BYTES("pool"),
	                            .id = bytes_of(id),
	                            .email = bytes_of(email == NULL ? "" : email),
	                            .email_verified = email != NULL};
}

static struct sync_delivery delivered(struct service *s, struct sync_record q)
{
	struct call c = {.q = q};

	turn_take(s, &c.turn, deliver);
	return c.r;
}

static void applied(struct service *s, struct sync_record q)
{
	struct call c = {.q = q};

	turn_take(s, &c.turn, apply);
}

static struct dead_letter_groups grouped(struct service *s)
{
	struct call c = {.why = ERR_NONE};

	turn_take(s, &c.turn, group);
	return c.groups;
}

static struct dead_letter letter_of_bob(struct service *s)
{
	struct call c = {.key = {BYTES("pool"), BYTES("bob")}};

	turn_take(s, &c.turn, letter_get);
	return c.letter;
}

/* ---- letters ---- */

TEST(dead_letters, an_address_that_is_taken_makes_one_and_a_redrive_repairs_it_1_2)
{
	struct service       s;
	struct sync_record   bob = record("bob", "one@example.org");
	struct call          c = {.key = {BYTES("pool"), BYTES("bob")}};
	struct sync_delivery r;
	struct member        some[] = {{BYTES("tier"), value_string(BYTES("gold"))}};

	service_open(&s, NULL);
	applied(&s, record("ann", "one@example.org"));
	bob.fields = (struct user_fields){
	        .first_name = {true, BYTES("Bob")}, .last_name = {.given = true}, .attributes = {some, 1}};
	r = delivered(&s, bob);
	assert_int_equal(r.result.outcome, SYNC_DEAD_LETTERED);
	assert_true(bytes_is(r.error, "email-not-available"));
	delivered(&s, bob);
	assert_int_equal(grouped(&s).letters, 1);
	c.letter = letter_of_bob(&s);
	assert_int_equal(c.letter.failures, 2);
	assert_true(bytes_is(c.letter.record.fields.first_name.text, "Bob"));
	assert_true(c.letter.record.fields.last_name.given);
	assert_false(c.letter.record.fields.phone.given);
	turn_take(&s, &c.turn, redrive); /* still taken */
	assert_int_equal(c.r.result.outcome, SYNC_DEAD_LETTERED);
	address_vanishes(&s, "ann", "one@example.org");
	turn_take(&s, &c.turn, redrive);
	assert_int_equal(c.r.result.outcome, SYNC_CREATED);
	assert_true(bytes_is(c.r.result.user.email, "one@example.org"));
	assert_int_equal(c.r.result.user.attributes.count, 1);
	assert_int_equal(grouped(&s).letters, 0);
	assert_int_equal(turn_try(&s, &c.turn, redrive), ERR_NOT_FOUND);
	service_close(&s);
}

TEST(dead_letters, what_fails_for_the_moment_is_an_error_until_it_is_given_up)
{
	struct service s;
	struct call    c = {.q = record("bob", "bob@example.org"), .why = ERR_THROTTLED};

	service_open(&s, NULL);
	fault_arm(FAULT_SYNC, 0);
	assert_int_equal(turn_try(&s, &c.turn, deliver), ERR_THROTTLED);
	assert_int_equal(grouped(&s).letters, 0);
	turn_take(&s, &c.turn, give_up);
	fault_disarm(FAULT_SYNC);
	assert_true(bytes_is(grouped(&s).list[0].error, "tables-busy"));
	c.key = (struct dead_letter_key){BYTES("pool"), BYTES("bob")};
	turn_take(&s, &c.turn, redrive);
	assert_int_equal(c.r.result.outcome, SYNC_CREATED);
	service_close(&s);
}

TEST(dead_letters, a_newer_record_that_is_written_removes_the_letter_and_an_older_one_does_not_2)
{
	struct service     s;
	struct sync_record bob = record("bob", "one@example.org");

	service_open(&s, NULL);
	applied(&s, record("ann", "one@example.org"));
	bob.has_time = true;
	bob.time_ms = 5000;
	delivered(&s, bob);
	bob.email = BYTES("");
	bob.time_ms = 4000;
	applied(&s, bob);
	assert_int_equal(grouped(&s).letters, 1);
	bob.time_ms = 5001;
	applied(&s, bob);
	assert_int_equal(grouped(&s).letters, 0);
	service_close(&s);
}

TEST(dead_letters, the_newer_of_two_records_that_fail_is_kept_1)
{
	struct service     s;
	struct sync_record bob = record("bob", "one@example.org");

	service_open(&s, NULL);
	applied(&s, record("ann", "one@example.org"));
	bob.has_sequence = true;
	bob.sequence = 2;
	bob.fields.first_name = (struct user_text){true, BYTES("new")};
	delivered(&s, bob);
	bob.sequence = 1;
	bob.fields.first_name.text = BYTES("old");
	delivered(&s, bob);
	assert_true(bytes_is(letter_of_bob(&s).record.fields.first_name.text, "new"));
	assert_int_equal(letter_of_bob(&s).failures, 2);
	service_close(&s);
}

TEST(dead_letters, nothing_is_kept_of_a_user_that_is_deleted_or_being_erased_3)
{
	struct service s;
	struct call c = {.q = record("bob", "one@example.org"), .id = BYTES("bob"), .status = USER_DELETED};

	service_open(&s, NULL);
	applied(&s, record("bob", NULL));
	turn_take(&s, &c.turn, become);
	c.why = ERR_THROTTLED;
	assert_int_equal(turn_try(&s, &c.turn, deliver), ERR_NOT_NOW);
	assert_int_equal(turn_try(&s, &c.turn, give_up), ERR_NOT_NOW);
	fixture_ok(&s.f, "UpdateItem",
	           "{'TableName':'users','Key':{'PK':{'S':'USER#bob'},'SK':{'S':'PROFILE'}},"
	           "'UpdateExpression':'SET #s = :e','ExpressionAttributeNames':{'#s':'status'},"
	           "'ExpressionAttributeValues':{':e':{'S':'erasing'}}}");
	assert_int_equal(turn_try(&s, &c.turn, deliver), ERR_NOT_NOW);
	assert_int_equal(turn_try(&s, &c.turn, give_up), ERR_NOT_NOW);
	assert_int_equal(grouped(&s).letters, 0);
	service_close(&s);
}

TEST(dead_letters, they_are_listed_in_pages_by_group_deleted_erased_and_expire_3_4)
{
	struct service s;
	struct call    c = {.search = {.limit = 2}};

	service_open(&s, NULL);
	applied(&s, record("ann", "one@example.org"));
	for (int i = 0; i < 3; i++)
		delivered(&s, record(arena_printf(&s.f.arena, "bob%d", i).data, "one@example.org"));
	c.q = record("carl", NULL);
	c.why = ERR_OVERLOADED;
	turn_take(&s, &c.turn, give_up);
	assert_int_equal(grouped(&s).count, 2);
	assert_int_equal(grouped(&s).list[0].count, 3);
	c.search.error = BYTES("email-not-available");
	turn_take(&s, &c.turn, find);
	assert_int_equal(c.page.count, 2);
	assert_true(c.page.more);
	c.search.after = c.page.last;
	turn_take(&s, &c.turn, find);
	assert_int_equal(c.page.count, 1);
	assert_true(bytes_is(c.page.list[0].record.id, "bob2"));
	assert_false(c.page.more);
	c.id = BYTES("bob1");
	turn_take(&s, &c.turn, letters_erase);
	c.key = (struct dead_letter_key){BYTES("pool"), BYTES("bob0")};
	turn_take(&s, &c.turn, letter_delete);
	assert_int_equal(turn_try(&s, &c.turn, letter_delete), ERR_NOT_FOUND);
	assert_int_equal(grouped(&s).letters, 2);
	at(&s, DEAD_LETTER_KEPT_S - 1);
	assert_int_equal(grouped(&s).letters, 2);
	at(&s, DEAD_LETTER_KEPT_S + 1);
	assert_int_equal(grouped(&s).letters, 0);
	service_close(&s);
}

/* ---- sign-outs ---- */

static struct document_holder in_force;

static void providers_set(struct service *s, bool sign_out)
{
	struct providers *p = document_make(sizeof(*p));

	p->list[0] = (struct provider){.name = BYTES("pool"), .pool = BYTES("local_1"), .sign_out = sign_out};
	p->count = 1;
	document_holder_init(&in_force);
	document_put(&in_force, &p->base);
	s->all.providers = &in_force;
}

static struct sign_outs waiting(struct service *s)
{
	struct call c = {.why = ERR_NONE};

	turn_take(s, &c.turn, outs_find);
	return c.outs;
}

static void suspended(struct service *s, const char *id)
{
	struct call c = {.id = bytes_of(id), .status = USER_SUSPENDED};

	turn_take(s, &c.turn, become);
}

TEST(sign_outs, suspending_queues_one_of_a_user_that_came_from_the_provider_and_of_no_other_1)
{
	struct service     s;
	struct sync_record ann = record("ann", NULL), eve = record("eve", NULL);
	struct sign_outs   outs;

	service_open(&s, NULL);
	providers_set(&s, true);
	ann.name = BYTES("ann-there");
	eve.provider = BYTES("elsewhere");
	applied(&s, ann);
	applied(&s, eve);
	suspended(&s, "eve");
	suspended(&s, "ann");
	suspended(&s, "ann");
	outs = waiting(&s);
	assert_int_equal(outs.count, 1);
	assert_true(bytes_is(outs.list[0].name, "ann-there"));
	document_holder_release(&in_force);
	service_close(&s);
}

TEST(sign_outs, a_provider_that_does_not_sign_out_has_none)
{
	struct service s;

	service_open(&s, NULL);
	providers_set(&s, false);
	applied(&s, record("ann", NULL));
	suspended(&s, "ann");
	assert_int_equal(waiting(&s).pending, 0);
	document_holder_release(&in_force);
	service_close(&s);
}

TEST(sign_outs, one_that_fails_waits_longer_each_time_and_goes_once_it_succeeds_2_3)
{
	struct service s;
	struct call    c = {.failed = "nobody answered"};
	int64_t        now = 0;

	service_open(&s, NULL);
	providers_set(&s, true);
	applied(&s, record("ann", NULL));
	suspended(&s, "ann");
	for (int64_t pause = SIGN_OUT_PAUSE_S, tries = 1; tries <= 12; tries++) {
		c.out = waiting(&s).list[0];
		assert_int_equal(c.out.tries, tries - 1);
		turn_take(&s, &c.turn, out_note);
		turn_take(&s, &c.turn, out_note); /* of a row that has changed since: nothing */
		at(&s, now + pause - 1);
		assert_int_equal(waiting(&s).count, 0);
		assert_int_equal(waiting(&s).pending, 1);
		at(&s, now += pause);
		assert_int_equal(waiting(&s).count, 1);
		pause = pause * 2 < SIGN_OUT_PAUSE_MAX_S ? pause * 2 : SIGN_OUT_PAUSE_MAX_S;
	}
	c.out = waiting(&s).list[0];
	c.failed = NULL;
	turn_take(&s, &c.turn, out_note);
	assert_int_equal(waiting(&s).pending, 0);
	document_holder_release(&in_force);
	service_close(&s);
}

TEST(sign_outs, counting_those_that_wait_and_letters_holds_no_more_than_a_page)
{
	enum { ROWS = 60, ROW_BYTES = 100 * 1000, HELD_MAX = 1000 * 1000 };
	struct service            s;
	struct fixture_reader     reader;
	struct context            ctx;
	struct arena              arena;
	struct sign_outs          outs;
	struct dead_letter_groups groups;
	char                     *padding = mem_alloc(ROW_BYTES + 1);

	memset(padding, 'x', ROW_BYTES);
	padding[ROW_BYTES] = '\0';
	service_open(&s, NULL);
	applied(&s, record("ann", "one@example.org"));
	delivered(&s, record("eve", "one@example.org")); /* now the table is there */
	for (int i = 0; i < 2 * ROWS; i++)
		fixture_ok(&s.f, "PutItem",
		           arena_printf(
		                   &s.f.arena,
		                   "{'TableName':'gatehouse-sync','Item':{'PK':{'S':'%s'},'SK':{'S':'u%d#p'},"
		                   "'error':{'S':'e'},'firstAt':{'S':'2026'},'x':{'S':'%s'}}}%c",
		                   i < ROWS ? "SIGN_OUT" : "DEAD_LETTER", i, padding, '\0')
		                   .data);
	arena_init(&arena);
	fixture_reader_begin(&reader, &s.f);
	ctx = service_context(&s, reader.table);
	ctx.arena = &arena;
	assert_int_equal(sign_outs_find(&ctx, &outs, &s.f.err), ERR_NONE);
	assert_int_equal(outs.pending, ROWS);
	assert_int_equal(outs.count, ROWS);
	assert_int_equal(dead_letters_group(&ctx, &(struct user_filter){0}, &groups, &s.f.err), ERR_NONE);
	assert_true(groups.letters >= ROWS);
	assert_true(arena.used_bytes < HELD_MAX);
	fixture_reader_end(&reader);
	arena_release(&arena);
	free(padding);
	service_close(&s);
}

TEST(sign_outs, erasing_queues_one_and_leaves_those_that_wait_1_2)
{
	struct service s;
	struct call    c = {.id = BYTES("ann")};

	service_open(&s, NULL);
	providers_set(&s, true);
	applied(&s, record("ann", NULL));
	applied(&s, record("eve", NULL));
	turn_take(&s, &c.turn, erase);
	assert_int_equal(waiting(&s).pending, 1);
	assert_true(bytes_is(waiting(&s).list[0].name, "ann"));
	c.id = BYTES("eve");
	suspended(&s, "eve");
	turn_take(&s, &c.turn, erase);
	turn_take(&s, &c.turn, erase); /* the same job */
	assert_int_equal(waiting(&s).pending, 2);
	c.id = BYTES("nobody");
	turn_take(&s, &c.turn, erase);
	assert_int_equal(waiting(&s).pending, 2);
	document_holder_release(&in_force);
	service_close(&s);
}
