/* Targets, what waits for them, and what they never accepted: what target.h, delivery.h and undelivered.h promise, on the engine or the rough store. */
#include "service/turn.h"

#include "service/delivery.h"
#include "service/erase.h"
#include "service/undelivered.h"

/* ---- calls ---- */

struct call {
	struct turn               turn;
	struct target_new         make;
	struct target_put         put;
	struct target_switch      onoff;
	struct target_rotate      rotate;
	struct bytes              name, subject;
	struct target             target;
	struct targets            all;
	struct delivery_owner     owner;
	struct delivery_settle    settle;
	struct delivery_page      page;
	struct delivery_at        at;
	struct event_seen         seen;
	struct undelivered_key    key;
	struct undelivered        letter;
	struct undelivered_search search;
	struct undelivered_page   letters;
	struct undelivered_all    redrive;
	struct job_started        started;
	struct job_stepped        stepped;
	struct jobs_running       running;
	bool                      mine, lost, found;
	int                       count;
};

#define CALL(name, expression)                                                                               \
	static enum err_code name(struct turn *t, struct err *err)                                           \
	{                                                                                                    \
		struct call *c = (struct call *)t;                                                           \
                                                                                                             \
		return expression;                                                                           \
	}

CALL(put, target_put(&t->ctx, &c->make, &c->put, err))
CALL(get, target_get(&t->ctx, c->name, &c->target, err))
CALL(all, targets_all(&t->ctx, &c->all, err))
CALL(delete_it, target_delete(&t->ctx, c->name, err))
CALL(turn_onoff, target_switch(&t->ctx, &c->onoff, &c->target, err))
CALL(rotate, target_rotate(&t->ctx, &c->rotate, &c->put, err))
CALL(own, delivery_own(&t->ctx, &c->owner, &c->target, &c->mine, err))
CALL(settle, delivery_settle(&t->ctx, &c->settle, &c->target, &c->lost, err))
CALL(load, delivery_load(&t->ctx, &c->target, BYTES(""), &c->page, err))
CALL(event_of, delivery_event(&t->ctx, &c->at, &c->seen, &c->found, err))
CALL(letter_get, undelivered_get(&t->ctx, &c->key, &c->letter, err))
CALL(letter_delete, undelivered_delete(&t->ctx, &c->key, err))
CALL(letter_redrive, undelivered_redrive(&t->ctx, &c->key, &c->letter, err))
CALL(letters_find, undelivered_find(&t->ctx, &c->search, &c->letters, err))
CALL(redrive_all, undelivered_redrive_all(&t->ctx, &c->redrive, &c->started, err))
CALL(running, jobs_running(&t->ctx, &(struct jobs_look){.limit = 10}, &c->running, err))
CALL(take_step, job_step(&t->ctx, &(struct job_turn){.running = c->running.list[0], .steps = JOB_ANY_STEP},
                         &c->stepped, err))

static enum err_code publish(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;
	struct row   data;

	(void)err;
	row_init(&data, t->ctx.arena);
	row_set_i64(&data, "n", c->count);
	ctx_publish(&t->ctx,
	            &(struct event){.type = EVENT_LOCK_SET, .subject = c->subject, .data = row_item(&data)});
	return ERR_NONE;
}

/* ---- words ---- */

static const struct job_kind *const kinds[] = {&undelivered_job, &delivery_clean_job};
static struct job_counts            counts[2];

static void open_on(struct service *s)
{
	service_open(s, NULL);
	s->all.events.on = ~UINT64_C(0);
	s->all.events.shards = 1;
	s->all.jobs = (struct jobs_settings){.kinds = kinds, .counts = counts, .kind_count = 2};
}

static struct item settings(struct service *s, const char *name, const char *value)
{
	struct row row;

	row_init(&row, &s->f.arena);
	row_set_text(&row, name, bytes_of(value));
	return row_item(&row);
}

static struct call making(struct service *s, const char *name)
{
	return (struct call){.make = {.name = bytes_of(name),
	                              .type = target_type_find(BYTES("webhook")),
	                              .settings = settings(s, "url", "https://example.org/hook"),
	                              .lanes = 4,
	                              .tries = 10,
	                              .disable_after_s = 100,
	                              .enabled = true,
	                              .from = TARGET_FROM_START}};
}

static struct target made(struct service *s, const char *name)
{
	struct call c = making(s, name);

	turn_take(s, &c.turn, put);
	assert_true(c.put.created);
	return c.put.target;
}

static struct target now_of(struct service *s, const char *name)
{
	struct call c = {.name = bytes_of(name)};

	turn_take(s, &c.turn, get);
	return c.target;
}

/* Events 1 … count, of the subjects s0, s1 and s2. */
static void events(struct service *s, int count)
{
	for (int i = 0; i < count; i++) {
		struct call c = {.subject = arena_printf(&s->f.arena, "s%d", i % 3), .count = i};

		turn_take(s, &c.turn, publish);
	}
}

static void owned(struct service *s, const char *name, const char *by)
{
	struct call c = {.owner = {bytes_of(name), bytes_of(by)}};

	turn_take(s, &c.turn, own);
	assert_true(c.mine);
}

static struct delivery_note note(enum delivery_kind kind, int64_t position, bool known)
{
	return (struct delivery_note){.kind = kind,
	                              .known = known,
	                              .position = position,
	                              .key = BYTES("some key"),
	                              .id = BYTES("event-id"),
	                              .type = BYTES("lock.set"),
	                              .tries = 1,
	                              .next_us = 5,
	                              .failed_us = 4,
	                              .status = 500,
	                              .error = BYTES("the receiver answered 500")};
}

static struct call settling(const struct target *t, const struct delivery_note *notes, uint32_t count,
                            int64_t after)
{
	struct call c = {
	        .settle = {.who = {t->name, BYTES("me")}, .id = t->id, .notes = notes, .count = count}};

	c.settle.moves = after > 0;
	c.settle.after = c.settle.kept = (struct event_cursor){.shards = 1, .after = {after}};
	return c;
}

static struct target settled(struct service *s, const struct target *t, struct delivery_note n, int64_t after)
{
	struct call c = settling(t, &n, 1, after);

	turn_take(s, &c.turn, settle);
	assert_false(c.lost);
	return c.target;
}

static struct delivery_page waiting(struct service *s, const struct target *t)
{
	struct call c = {.target = *t};

	turn_take(s, &c.turn, load);
	return c.page;
}

static struct undelivered_page letters(struct service *s, struct undelivered_search q)
{
	struct call c = {.search = q};

	turn_take(s, &c.turn, letters_find);
	return c.letters;
}

static struct undelivered_key key_of(const char *target, int64_t position)
{
	return (struct undelivered_key){.target = bytes_of(target), .position = position};
}

/* A target with the dead letters 1 … count. */
static struct target with_letters(struct service *s, const char *name, int count)
{
	struct target t = made(s, name);

	owned(s, name, "me");
	for (int i = 1; i <= count; i++)
		t = settled(s, &t, note(DELIVERY_DEAD, i, false), i);
	return t;
}

static enum err_code secret_of(struct service *s, const struct target *t, const char *name, struct bytes *out)
{
	return target_secret(&(struct context){.services = &s->all, .arena = &s->f.arena}, t, name, out,
	                     &s->f.err);
}

/* ---- targets ---- */

TEST(target, one_that_is_made_is_there_with_a_secret_that_is_told_once_and_stored_sealed)
{
	struct service s;
	struct call    c;
	struct bytes   secret;
	struct target  t;

	open_on(&s);
	c = making(&s, "orders");
	turn_take(&s, &c.turn, put);
	assert_true(bytes_starts_with(c.put.secret, BYTES("whsec_")));
	t = now_of(&s, "orders");
	assert_int_equal(secret_of(&s, &t, TARGET_SECRET, &secret), ERR_NONE);
	assert_true(bytes_equal(secret, c.put.secret));
	assert_false(bytes_contains(row_text(&t.sealed, TARGET_SECRET), c.put.secret));
	turn_take(&s, &c.turn, put); /* again: it is kept */
	assert_false(c.put.created);
	assert_int_equal(c.put.secret.len, 0);
	t = now_of(&s, "orders");
	assert_int_equal(secret_of(&s, &t, TARGET_SECRET, &secret), ERR_NONE);
	assert_true(secret.len > 0);
	service_close(&s);
}

/* The secrets of a nats target after it was changed, by name and one after the other: "password token". */
static const char *changed(struct service *s, const char *url, const char *name, const char *value)
{
	struct call   c = making(s, "n");
	struct target t;
	struct buf    names;

	c.make.type = target_type_find(BYTES("nats"));
	c.make.settings = settings(s, "url", url);
	if (name != NULL)
		c.make.secrets = settings(s, name, value);
	turn_take(s, &c.turn, put);
	t = now_of(s, "n");
	buf_init(&names, &s->f.arena);
	for (uint32_t i = 0; i < t.sealed.count; i++) {
		buf_add_bytes(&names, i == 0 ? BYTES("") : BYTES(" "));
		buf_add_bytes(&names, t.sealed.members[i].name);
	}
	buf_add_byte(&names, '\0');
	return names.data;
}

TEST(target, secrets_stay_unless_one_is_given)
{
	struct service s;

	open_on(&s);
	assert_string_equal(changed(&s, "tls://a", "token", "t"), "token");
	assert_string_equal(changed(&s, "tls://a", NULL, NULL), "token");
	assert_string_equal(changed(&s, "tls://a", "seed", "s"), "seed");
	assert_string_equal(changed(&s, "tls://c", "token", "t"), "token");
	service_close(&s);
}

/* Makes a target of that type, and changes one of its settings without its secret. */
static void assert_asks(struct service *s, const char *type, const char *place, const char *secret)
{
	struct call c = making(s, type);

	c.make.type = target_type_find(bytes_of(type));
	c.make.settings = settings(s, place, "https://a");
	c.make.secrets = settings(s, secret, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
	turn_take(s, &c.turn, put);
	c.make.secrets = (struct item){0};
	turn_take(s, &c.turn, put); /* as it was */
	c.make.settings = settings(s, place, "https://b");
	assert_int_equal(turn_try(s, &c.turn, put), ERR_INVALID);
	assert_string_equal(s->f.err.field, secret);
	c.make.secrets = settings(s, secret, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
	turn_take(s, &c.turn, put);
}

TEST(target, its_secret_is_asked_for_again_when_another_receives_the_events)
{
	struct service s;

	open_on(&s);
	assert_asks(&s, "webhook", "url", TARGET_SECRET);
	assert_asks(&s, "nats", "url", "token");
	assert_asks(&s, "sqs", "queueUrl", "secretAccessKey");
	assert_asks(&s, "sqs", "endpoint", "secretAccessKey");
	assert_asks(&s, "eventbridge", "endpoint", "secretAccessKey");
	service_close(&s);
}

TEST(target, a_secret_does_not_open_under_another_key_or_for_another_target)
{
	static const uint8_t other[IDENTIFIER_KEY_BYTES] = {8};
	struct service       s;
	struct target        a, b;
	struct bytes         secret;

	open_on(&s);
	a = made(&s, "a");
	b = made(&s, "b");
	b.sealed = a.sealed;
	assert_int_equal(secret_of(&s, &b, TARGET_SECRET, &secret), ERR_STORAGE);
	identifier_key_init(&s.all.identifiers, other);
	assert_int_equal(secret_of(&s, &a, TARGET_SECRET, &secret), ERR_STORAGE);
	service_close(&s);
}

TEST(target, there_are_at_most_32_and_one_that_is_deleted_makes_room)
{
	struct service s;
	struct call    c;

	open_on(&s);
	for (int i = 0; i < TARGETS_MAX; i++)
		made(&s, arena_printf(&s.f.arena, "t%02d", i).data);
	c = making(&s, "one more");
	assert_int_equal(turn_try(&s, &c.turn, put), ERR_LIMIT);
	c = (struct call){.name = BYTES("t07")};
	turn_take(&s, &c.turn, delete_it);
	assert_int_equal(turn_try(&s, &c.turn, get), ERR_NOT_FOUND);
	made(&s, "another");
	turn_take(&s, &c.turn, all);
	assert_int_equal(c.all.count, TARGETS_MAX);
	service_close(&s);
}

TEST(target, a_name_has_letters_digits_and_three_signs)
{
	char name[TARGET_NAME_BYTES_MAX + 1];

	memset(name, 'a', sizeof(name));
	assert_true(target_name_is((struct bytes){name, TARGET_NAME_BYTES_MAX}));
	assert_false(target_name_is((struct bytes){name, TARGET_NAME_BYTES_MAX + 1}));
	assert_false(target_name_is(BYTES("")));
	assert_false(target_name_is(BYTES("a/b")));
	assert_false(target_name_is(BYTES("a#b")));
	assert_true(target_name_is(BYTES("a-b_c.D9")));
}

TEST(target, a_new_one_begins_at_the_end_at_the_start_or_at_a_time)
{
	struct service s;
	struct call    c;

	open_on(&s);
	at(&s, 0);
	events(&s, 2);
	at(&s, 100);
	events(&s, 3);
	assert_int_equal(made(&s, "start").after.after[0], 0);
	c = making(&s, "now");
	c.make.from = TARGET_FROM_NOW;
	turn_take(&s, &c.turn, put);
	assert_int_equal(c.put.target.after.after[0], 5);
	c = making(&s, "time");
	c.make.from = TARGET_FROM_TIME;
	c.make.from_us = (START_S + 50) * INT64_C(1000000);
	turn_take(&s, &c.turn, put);
	assert_int_equal(c.put.target.after.after[0], 2);
	service_close(&s);
}

TEST(target, a_rotated_secret_stays_valid_for_as_long_as_was_asked)
{
	struct service s;
	struct call    c;
	struct bytes   old, new, before;
	struct target  t;

	open_on(&s);
	at(&s, 0);
	t = made(&s, "orders");
	assert_int_equal(secret_of(&s, &t, TARGET_SECRET, &before), ERR_NONE);
	c = (struct call){.rotate = {.name = BYTES("orders"), .keep_s = 60}};
	turn_take(&s, &c.turn, rotate);
	t = c.put.target;
	assert_int_equal(secret_of(&s, &t, TARGET_SECRET, &new), ERR_NONE);
	assert_int_equal(secret_of(&s, &t, TARGET_PREVIOUS, &old), ERR_NONE);
	assert_true(bytes_equal(new, c.put.secret) && bytes_equal(old, before));
	assert_int_equal(t.previous_until_s, START_S + 60);
	service_close(&s);
}

TEST(target, a_secret_that_is_given_ends_the_one_before_a_rotation_as_well)
{
	struct service s;
	struct call    c;
	struct bytes   old;
	struct target  t;

	open_on(&s);
	at(&s, 0);
	made(&s, "orders");
	c = (struct call){.rotate = {.name = BYTES("orders"), .keep_s = 60}};
	turn_take(&s, &c.turn, rotate);
	c = making(&s, "orders");
	turn_take(&s, &c.turn, put); /* none is given: both stay */
	assert_int_equal(c.put.target.previous_until_s, START_S + 60);
	c = making(&s, "orders");
	c.make.secrets = settings(&s, TARGET_SECRET, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
	turn_take(&s, &c.turn, put);
	t = c.put.target;
	assert_int_equal(secret_of(&s, &t, TARGET_PREVIOUS, &old), ERR_NONE);
	assert_true(old.len == 0 && t.previous_until_s == 0);
	service_close(&s);
}

TEST(target, patterns_of_types_are_a_set)
{
	static const struct bytes patterns[] = {{"user.*", 6}, {"lock.set", 8}};
	struct service            s;
	struct call               c;

	open_on(&s);
	c = making(&s, "orders");
	c.make.patterns = patterns;
	c.make.pattern_count = 2;
	turn_take(&s, &c.turn, put);
	assert_true(c.put.target.types >> EVENT_USER_CREATED & 1);
	assert_true(c.put.target.types >> EVENT_LOCK_SET & 1);
	assert_false(c.put.target.types >> EVENT_LOCK_CLEARED & 1);
	assert_int_equal(made(&s, "all").types, EVENTS_ALL_TYPES);
	service_close(&s);
}

/* ---- delivery ---- */

TEST(delivery, what_failed_has_a_row_until_it_is_accepted_and_the_target_counts_it)
{
	struct service       s;
	struct target        t;
	struct delivery_page page;

	open_on(&s);
	events(&s, 3);
	t = made(&s, "orders");
	owned(&s, "orders", "me");
	t = settled(&s, &t, note(DELIVERY_WAITS, 2, false), 2); /* (1) */
	assert_int_equal(t.waiting, 1);
	assert_int_equal(t.after.after[0], 2);
	page = waiting(&s, &t);
	assert_int_equal(page.count, 1);
	assert_int_equal(page.list[0].position, 2);
	assert_int_equal(page.list[0].tries, 1);
	assert_true(bytes_is(page.list[0].key, "some key"));
	t = settled(&s, &t, note(DELIVERY_SENT, 2, true), 0);
	assert_int_equal(t.waiting, 0);
	assert_int_equal(waiting(&s, &t).count, 0);
	service_close(&s);
}

TEST(delivery, an_event_whose_tries_are_over_is_a_dead_letter_with_a_copy)
{
	struct service     s;
	struct target      t;
	struct call        c;
	struct undelivered u;

	open_on(&s);
	events(&s, 2);
	t = made(&s, "orders");
	owned(&s, "orders", "me");
	t = settled(&s, &t, note(DELIVERY_WAITS, 1, false), 1);
	t = settled(&s, &t, note(DELIVERY_DEAD, 1, true), 0);
	assert_int_equal(t.waiting, 0);
	assert_int_equal(t.dead, 1);
	assert_int_equal(waiting(&s, &t).count, 0);
	c = (struct call){.key = key_of("orders", 1)};
	turn_take(&s, &c.turn, letter_get);
	u = c.letter;
	assert_true(bytes_is(row_text(&u.event, "subject"), "s0"));
	assert_true(bytes_is(row_text(&u.event, "type"), "lock.set"));
	assert_true(bytes_is(u.error, "the receiver answered 500"));
	assert_int_equal(u.status, 500);
	service_close(&s);
}

TEST(delivery, an_event_that_dies_twice_is_one_dead_letter)
{
	struct service s;
	struct target  t;

	open_on(&s);
	events(&s, 1);
	t = made(&s, "orders");
	owned(&s, "orders", "me");
	settled(&s, &t, note(DELIVERY_DEAD, 1, false), 0); /* the position did not move: it comes again */
	t = settled(&s, &t, note(DELIVERY_DEAD, 1, false), 1);
	assert_int_equal(t.dead, 1);
	assert_int_equal(letters(&s, (struct undelivered_search){.limit = 9}).count, 1);
	service_close(&s);
}

TEST(delivery, events_that_wait_are_what_their_rows_are_once_these_were_counted)
{
	struct service       s;
	struct target        t;
	struct delivery_note n = note(DELIVERY_WAITS, 1, false);
	struct call          c;

	open_on(&s);
	events(&s, 1);
	t = made(&s, "orders");
	owned(&s, "orders", "me");
	settled(&s, &t, n, 0);
	t = settled(&s, &t, n, 0);
	assert_int_equal(t.waiting, 2); /* nobody should do that */
	c = settling(&t, &n, 0, 0);
	c.settle.recount = (int64_t)waiting(&s, &t).count - t.waiting;
	turn_take(&s, &c.turn, settle);
	assert_int_equal(c.target.waiting, 1);
	service_close(&s);
}

TEST(delivery, a_commit_holds_only_for_the_owner_and_the_target_that_was_read)
{
	struct service       s;
	struct target        t;
	struct delivery_note n = note(DELIVERY_WAITS, 1, false);
	struct call          c;

	open_on(&s);
	events(&s, 1);
	t = made(&s, "orders");
	owned(&s, "orders", "me");
	c = settling(&t, &n, 1, 1);
	c.settle.who.owner = BYTES("another");
	turn_take(&s, &c.turn, settle);
	assert_true(c.lost);
	c = settling(&t, &n, 1, 1);
	c.settle.id = BYTES("an older one");
	turn_take(&s, &c.turn, settle);
	assert_true(c.lost);
	n = note(DELIVERY_WAITS, 7, true); /* its row was removed by somebody */
	c = settling(&t, &n, 1, 1);
	turn_take(&s, &c.turn, settle);
	assert_true(c.lost);
	assert_int_equal(now_of(&s, "orders").after.after[0], 0);
	assert_int_equal(now_of(&s, "orders").waiting, 0);
	service_close(&s);
}

TEST(delivery, another_process_takes_a_target_over_once_its_owner_is_silent)
{
	struct service s;
	struct call    c = {.owner = {BYTES("orders"), BYTES("other")}};

	open_on(&s);
	at(&s, 0);
	made(&s, "orders");
	owned(&s, "orders", "me");
	turn_take(&s, &c.turn, own);
	assert_int_equal(c.mine, service_is_alone(&s)); /* a table that is alone has no other process */
	at(&s, DELIVERY_OWN_S);
	turn_take(&s, &c.turn, own);
	assert_true(c.mine);
	service_close(&s);
}

TEST(delivery, a_target_is_disabled_with_an_event_about_it_and_keeps_its_last_errors)
{
	struct target_error errors[2] = {
	        {.at_s = 9, .status = 500, .error = BYTES("two"), .event = BYTES("e2")},
	        {.at_s = 8, .error = BYTES("one")}};
	struct service s;
	struct target  t;
	struct call    c;

	open_on(&s);
	t = made(&s, "orders");
	owned(&s, "orders", "me");
	for (int i = 0; i < 4; i++) {
		c = settling(&t, NULL, 0, 0);
		c.settle.errors = errors;
		c.settle.error_count = 2;
		turn_take(&s, &c.turn, settle);
	}
	assert_int_equal(c.target.error_count, TARGET_ERRORS_MAX);
	assert_true(bytes_is(c.target.errors[0].error, "two") && bytes_is(c.target.errors[1].error, "one"));
	c = settling(&t, NULL, 0, 0);
	c.settle.disable = BYTES("it failed for 5 days");
	turn_take(&s, &c.turn, settle);
	t = now_of(&s, "orders");
	assert_false(t.enabled);
	assert_true(bytes_is(t.reason, "it failed for 5 days"));
	c = (struct call){.at = {.target = &t, .position = 1}};
	turn_take(&s, &c.turn, event_of);
	assert_true(c.found);
	assert_true(bytes_is(c.seen.type, "target.disabled"));
	assert_true(bytes_is(c.seen.subject, "target:orders"));
	c = (struct call){.onoff = {.name = BYTES("orders"), .on = true}};
	turn_take(&s, &c.turn, turn_onoff);
	assert_true(c.target.enabled && c.target.reason.len == 0);
	service_close(&s);
}

/* ---- dead letters ---- */

TEST(undelivered, letters_are_found_by_target_type_and_subject_page_by_page)
{
	struct service          s;
	struct undelivered_page page;
	struct context          ctx;
	int                     seen = 0;

	open_on(&s);
	events(&s, 6);
	with_letters(&s, "a", 6);
	with_letters(&s, "b", 3);
	ctx = (struct context){.services = &s.all, .arena = &s.f.arena};
	assert_int_equal(letters(&s, (struct undelivered_search){.limit = 100}).count, 9);
	assert_int_equal(letters(&s, (struct undelivered_search){.limit = 100, .target = BYTES("b")}).count,
	                 3);
	assert_int_equal(
	        letters(&s, (struct undelivered_search){.limit = 100,
	                                                .subject_key = delivery_key(&ctx, BYTES("s1"))})
	                .count,
	        3);
	assert_int_equal(
	        letters(&s, (struct undelivered_search){.limit = 100, .type = BYTES("user.created")}).count,
	        0);
	page = (struct undelivered_page){.more = true};
	for (int i = 0; page.more; i++) {
		page = letters(&s, (struct undelivered_search){
		                           .limit = 2, .after_target = page.last_target, .after = page.last});
		seen += (int)page.count;
		assert_true(i < 10);
	}
	assert_int_equal(seen, 9);
	service_close(&s);
}

TEST(undelivered, a_redriven_letter_waits_again_with_its_copy_and_a_deleted_one_is_gone)
{
	struct service       s;
	struct target        t;
	struct call          c;
	struct delivery_page page;

	open_on(&s);
	events(&s, 3);
	t = with_letters(&s, "orders", 3);
	c = (struct call){.key = key_of("orders", 2)};
	turn_take(&s, &c.turn, letter_redrive);
	c = (struct call){.key = key_of("orders", 3)};
	turn_take(&s, &c.turn, letter_delete);
	assert_int_equal(turn_try(&s, &c.turn, letter_delete), ERR_NOT_FOUND);
	t = now_of(&s, "orders");
	assert_int_equal(t.dead, 1);
	assert_int_equal(t.waiting, 1);
	page = waiting(&s, &t);
	assert_int_equal(page.count, 1);
	assert_int_equal(page.list[0].position, 2);
	assert_int_equal(page.list[0].tries, 0);
	c = (struct call){.at = {.target = &t, .position = 2}};
	turn_take(&s, &c.turn, event_of);
	assert_true(c.found && bytes_is(c.seen.subject, "s1"));
	service_close(&s);
}

static void run_job(struct service *s, struct call *c, const struct job_kind *kind)
{
	for (int i = 0; i < 100; i++) {
		turn_take(s, &c->turn, running);
		assert_true(c->running.count == 1 && bytes_is(c->running.list[0].kind, kind->name));
		turn_take(s, &c->turn, take_step);
		if (!c->stepped.taken || c->stepped.job.state != JOB_RUNNING)
			return;
	}
	fail_msg("the job does not end");
}

TEST(undelivered, all_letters_of_a_filter_are_redriven_by_a_job_and_a_dry_run_counts_them)
{
	struct service s;
	struct call    c = {.redrive = {.subject = BYTES("s1"), .dry_run = true}};

	open_on(&s);
	events(&s, 60);
	with_letters(&s, "a", 60);
	with_letters(&s, "b", 4);
	turn_take(&s, &c.turn, redrive_all);
	run_job(&s, &c, &undelivered_job);
	assert_int_equal(row_i64(&c.stepped.job.progress, "letters", 0), 21);
	assert_int_equal(now_of(&s, "a").dead, 60);
	c = (struct call){.redrive = {.subject = BYTES("s1")}};
	turn_take(&s, &c.turn, redrive_all);
	run_job(&s, &c, &undelivered_job);
	assert_int_equal(row_i64(&c.stepped.job.progress, "redriven", 0), 21);
	assert_int_equal(now_of(&s, "a").dead, 40);
	assert_int_equal(now_of(&s, "a").waiting, 20);
	assert_int_equal(now_of(&s, "b").waiting, 1);
	assert_int_equal(letters(&s, (struct undelivered_search){.limit = 100}).count, 43);
	service_close(&s);
}

/* As if so many events waited for the target. */
static void waiting_set(struct service *s, const char *name, int waiting)
{
	fixture_ok(&s->f, "UpdateItem",
	           arena_printf(&s->f.arena,
	                        "{'TableName':'gatehouse-events','Key':{'PK':{'S':'TARGET'},'SK':{'S':'%s'}},"
	                        "'UpdateExpression':'SET waiting = :w','ExpressionAttributeValues':{':w':{"
	                        "'N':'%d'}}}",
	                        name, waiting)
	                   .data);
	assert_int_equal(now_of(s, name).waiting, waiting);
}

TEST(undelivered, targets_that_are_full_do_not_hold_up_the_letters_of_others_and_get_theirs_later)
{
	struct service s;
	struct call    c = {0};

	open_on(&s);
	events(&s, 50);
	with_letters(&s, "a", 50);
	with_letters(&s, "b", 30);
	with_letters(&s, "c", 5);
	with_letters(&s, "d", 40);
	waiting_set(&s, "a", DELIVERY_WAITING_MAX - 25);
	waiting_set(&s, "c", DELIVERY_WAITING_MAX);
	turn_take(&s, &c.turn, redrive_all);
	turn_take(&s, &c.turn, running);
	while (turn_try(&s, &c.turn, take_step) == ERR_NONE)
		assert_int_equal(c.stepped.job.state, JOB_RUNNING);
	assert_int_equal(now_of(&s, "a").dead, 25);
	assert_int_equal(now_of(&s, "b").dead, 0);
	assert_int_equal(now_of(&s, "c").dead, 5);
	assert_int_equal(now_of(&s, "d").dead, 0);
	assert_int_equal(turn_try(&s, &c.turn, take_step), ERR_OVERLOADED);
	waiting_set(&s, "c", 0);
	while (turn_try(&s, &c.turn, take_step) == ERR_NONE)
		assert_int_equal(c.stepped.job.state, JOB_RUNNING);
	assert_int_equal(now_of(&s, "c").dead, 0);
	waiting_set(&s, "a", 0);
	run_job(&s, &c, &undelivered_job);
	assert_int_equal(c.stepped.job.state, JOB_DONE);
	assert_int_equal(row_i64(&c.stepped.job.progress, "redriven", 0), 125);
	assert_int_equal(row_i64(&c.stepped.job.progress, "letters", 0), 125);
	assert_int_equal(now_of(&s, "a").dead, 0);
	service_close(&s);
}

TEST(undelivered, a_dry_run_counts_letters_of_a_target_for_which_as_many_wait_as_may)
{
	struct service s;
	struct call    c = {.redrive = {.target = BYTES("a"), .dry_run = true}};

	open_on(&s);
	events(&s, 3);
	with_letters(&s, "a", 3);
	waiting_set(&s, "a", DELIVERY_WAITING_MAX);
	turn_take(&s, &c.turn, redrive_all);
	run_job(&s, &c, &undelivered_job);
	assert_int_equal(row_i64(&c.stepped.job.progress, "letters", 0), 3);
	assert_int_equal(now_of(&s, "a").dead, 3);
	service_close(&s);
}

TEST(undelivered, a_redrive_that_runs_does_not_pass_for_one_that_was_asked_for_otherwise)
{
	struct service s;
	struct call    c = {.redrive = {.target = BYTES("a"), .dry_run = true}};

	open_on(&s);
	events(&s, 4);
	with_letters(&s, "a", 4);
	turn_take(&s, &c.turn, redrive_all);
	turn_take(&s, &c.turn, redrive_all); /* the same again: that one is the answer */
	assert_true(c.started.existed);
	c.redrive.dry_run = false;
	assert_int_equal(turn_try(&s, &c.turn, redrive_all), ERR_NOT_NOW);
	c.redrive = (struct undelivered_all){.target = BYTES("b"), .dry_run = true};
	assert_int_equal(turn_try(&s, &c.turn, redrive_all), ERR_NOT_NOW);
	service_close(&s);
}

TEST(delivery, a_deleted_target_leaves_no_rows_and_one_of_its_name_begins_anew)
{
	struct service s;
	struct call    c = {.name = BYTES("orders")};
	struct target  old, new;

	open_on(&s);
	events(&s, 4);
	old = with_letters(&s, "orders", 2);
	old = settled(&s, &old, note(DELIVERY_WAITS, 3, false), 3);
	turn_take(&s, &c.turn, delete_it);
	new = made(&s, "orders");
	assert_int_equal(new.dead + new.waiting, 0);
	assert_int_equal(waiting(&s, &new).count, 0);
	turn_take(&s, &c.turn, running);
	assert_int_equal(c.running.count, 1);
	run_job(&s, &c, &delivery_clean_job);
	assert_int_equal(c.stepped.job.state, JOB_DONE);
	assert_int_equal(row_i64(&c.stepped.job.progress, "rows", 0), 3);
	assert_int_equal(waiting(&s, &old).count, 0);
	service_close(&s);
}

TEST(undelivered, the_key_of_a_letter_is_shard_and_position)
{
	struct undelivered_key key;
	struct arena           a;

	arena_init(&a);
	assert_true(undelivered_key_read(BYTES("3-42"), &key));
	assert_int_equal(key.shard, 3);
	assert_int_equal(key.position, 42);
	assert_true(bytes_is(undelivered_key_text(&a, &(struct undelivered){.shard = 3, .position = 42}),
	                     "3-42"));
	assert_false(undelivered_key_read(BYTES("42"), &key));
	assert_false(undelivered_key_read(BYTES("100-1"), &key));
	assert_false(undelivered_key_read(BYTES("-1"), &key));
	assert_false(undelivered_key_read(BYTES("1-"), &key));
	arena_release(&a);
}

TEST(undelivered, erasing_a_subject_blanks_its_dead_letters_and_keeps_the_others)
{
	struct service       s;
	struct call          c = {.key = key_of("orders", 1)}, other = {.key = key_of("orders", 2)};
	struct erasing       e = {.id = BYTES("s0"), .hash = BYTES("erased:x")};
	const struct eraser *eraser = NULL;
	struct context       ctx;
	struct item          blank;
	const struct value  *event;

	open_on(&s);
	events(&s, 2);
	with_letters(&s, "orders", 2);
	turn_take(&s, &c.turn, letter_get);
	turn_take(&s, &other.turn, letter_get);
	for (unsigned i = 0; i < eraser_count; i++)
		if (erasers[i].table == TABLE_EVENTS)
			eraser = &erasers[i];
	ctx = (struct context){.services = &s.all, .arena = &s.f.arena};
	assert_true(eraser->owns(&ctx, &e, &c.letter.row));
	assert_false(eraser->owns(&ctx, &e, &other.letter.row));
	blank = eraser->blank(&ctx, &e, &c.letter.row);
	event = item_get(&blank, BYTES("event"));
	assert_true(bytes_is(row_text(&event->map, "subject"), "erased:x"));
	assert_null(item_get(&event->map, BYTES("data")));
	assert_true(bytes_is(row_text(&blank, "error"), "the receiver answered 500"));
	assert_false(eraser->owns(&ctx, &e, &blank));
	service_close(&s);
}
