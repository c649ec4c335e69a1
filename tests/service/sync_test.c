/* Records of identity providers: what sync.h promises, on the engine or the rough store, and races on the rough store. */
#include "service/scene.h"
#include "service/turn.h"

#include "service/alias.h"
#include "service/erased.h"
#include "service/sync.h"

/* ---- calls ---- */

struct call {
	struct turn         turn;
	struct sync_record  q;
	struct sync_result  r;
	struct bytes        id, email, reason;
	struct user         user;
	struct user_emails  emails;
	struct user_new     create;
	struct user_created created;
	struct email_claim  claim;
	enum user_status    status;
	struct user_fields  fields;
};

static enum err_code apply(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return sync_apply(&t->ctx, &c->q, &c->r, err);
}

static enum err_code get(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	if (user_get(&t->ctx, c->id, &c->user, err) != ERR_NONE)
		return err->code;
	return user_emails_find(&t->ctx, c->id, &c->emails, err);
}

static enum err_code create(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_create(&t->ctx, &c->create, &c->created, err);
}

static enum err_code become(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_become(&t->ctx, &(struct user_patch){.id = c->id, .reason = c->reason}, c->status,
	                   &c->user, err);
}

static enum err_code change(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_change(&t->ctx, &(struct user_patch){.id = c->id, .fields = c->fields}, &c->user, err);
}

static enum err_code add(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return user_email_add(&t->ctx, &(struct email_add){.user = c->id, .email = c->email}, &c->claim, err);
}

/* ---- words ---- */

static struct sync_record record(const char *id, const char *email)
{
	return (struct sync_record){.provider = BYTES("pool"),
	                            .id = bytes_of(id),
	                            .email = bytes_of(email == NULL ? "" : email),
	                            .email_verified = email != NULL};
}

static enum err_code try_sync(struct service *s, const struct sync_record *q, struct sync_result *out)
{
	struct call   c = {.q = *q};
	enum err_code rc = turn_try(s, &c.turn, apply);

	*out = c.r;
	return rc;
}

static struct sync_result synced(struct service *s, const struct sync_record *q)
{
	struct sync_result r;

	if (try_sync(s, q, &r) != ERR_NONE)
		fail_msg("%s", s->f.err.text);
	return r;
}

static struct call seen(struct service *s, const char *id)
{
	struct call c = {.id = bytes_of(id)};

	turn_take(s, &c.turn, get);
	return c;
}

static void made(struct service *s, const char *id)
{
	struct call c = {.create = {.id = bytes_of(id)}};

	turn_take(s, &c.turn, create);
}

static uint32_t rows_of_users(struct service *s)
{
	union answer r;

	memset(&r, 0, sizeof(r));
	return fixture_try(&s->f, "Scan", "{'TableName':'users'}", &r) == ERR_NONE ? r.query.count : 0;
}

/* ---- creating and changing ---- */

TEST(sync, a_record_creates_the_user_with_its_verified_address_as_the_primary_one_4)
{
	struct service     s;
	struct sync_record q = record("ann", "ann@example.org");
	struct call        c;

	service_open(&s, NULL);
	q.fields.first_name = (struct user_text){true, BYTES("Ann")};
	q.name = BYTES("ann-at-pool");
	assert_int_equal(synced(&s, &q).outcome, SYNC_CREATED);
	c = seen(&s, "ann");
	assert_int_equal(c.user.version, 1);
	assert_true(bytes_is(c.user.first_name, "Ann"));
	assert_true(bytes_is(c.user.email, "ann@example.org"));
	assert_true(bytes_is(row_text(&c.user.row, "provider"), "pool"));
	assert_true(bytes_is(row_text(&c.user.row, "providerUser"), "ann-at-pool"));
	assert_int_equal(c.emails.count, 1);
	assert_true(c.emails.list[0].verified && c.emails.list[0].primary);
	assert_int_equal(c.emails.list[0].expires_s, 0);
	assert_int_equal(rows_of_users(&s), 4); /* with the marker, and whose its alias is */
	service_close(&s);
}

TEST(sync, the_same_record_twice_changes_nothing_2)
{
	struct service     s;
	struct sync_record q = record("ann", "ann@example.org");
	struct sync_result r;

	service_open(&s, NULL);
	q.has_time = true;
	q.time_ms = 1000;
	synced(&s, &q);
	at(&s, 10);
	r = synced(&s, &q);
	assert_int_equal(r.outcome, SYNC_UNCHANGED);
	assert_int_equal(r.user.version, 1);
	q.time_ms = 2000; /* newer, and says the same: that is noted */
	r = synced(&s, &q);
	assert_int_equal(r.outcome, SYNC_UNCHANGED);
	assert_int_equal(seen(&s, "ann").user.version, 1);
	r.user = seen(&s, "ann").user;
	assert_int_equal(row_i64(&r.user.row, "syncTime", 0), 2000);
	service_close(&s);
}

TEST(sync, fields_change_one_version_on_and_those_that_are_not_sent_stay_2_4)
{
	struct service     s;
	struct sync_record q = record("ann", NULL);
	struct sync_result r;

	service_open(&s, NULL);
	q.fields.first_name = (struct user_text){true, BYTES("Ann")};
	synced(&s, &q);
	q.fields = (struct user_fields){.last_name = {true, BYTES("Lee")}};
	q.email = BYTES("ann@example.org");
	q.email_verified = true;
	r = synced(&s, &q);
	assert_int_equal(r.outcome, SYNC_UPDATED);
	assert_int_equal(r.user.version, 2); /* fields and primary address together */
	assert_true(bytes_is(r.user.first_name, "Ann"));
	assert_true(bytes_is(r.user.email, "ann@example.org"));
	service_close(&s);
}

TEST(sync, an_older_record_never_replaces_a_newer_one_3)
{
	struct service     s;
	struct sync_record q = record("ann", NULL);

	service_open(&s, NULL);
	q.has_time = true;
	q.time_ms = 2000;
	q.fields.first_name = (struct user_text){true, BYTES("new")};
	synced(&s, &q);
	q.time_ms = 1999;
	q.fields.first_name.text = BYTES("old");
	assert_int_equal(synced(&s, &q).outcome, SYNC_STALE);
	assert_true(bytes_is(seen(&s, "ann").user.first_name, "new"));
	q.has_sequence = true; /* the first with one: there is none to compare it with */
	q.sequence = 5;
	q.time_ms = 2000;
	assert_int_equal(synced(&s, &q).outcome, SYNC_UPDATED);
	q.sequence = 4;
	q.time_ms = 3000; /* the sequence decides */
	assert_int_equal(synced(&s, &q).outcome, SYNC_STALE);
	q.sequence = 6;
	q.time_ms = 1000;
	q.fields.first_name.text = BYTES("newest");
	assert_int_equal(synced(&s, &q).outcome, SYNC_UPDATED);
	service_close(&s);
}

TEST(sync, an_unverified_address_is_left_out_until_the_provider_says_otherwise_4)
{
	struct service     s;
	struct sync_record q = record("ann", "ann@example.org");

	service_open(&s, NULL);
	q.email_verified = false;
	synced(&s, &q);
	assert_int_equal(seen(&s, "ann").emails.count, 0);
	q.email_verified = true;
	assert_int_equal(synced(&s, &q).outcome, SYNC_UPDATED);
	assert_true(bytes_is(seen(&s, "ann").user.email, "ann@example.org"));
	q.email = BYTES("second@example.org");
	assert_int_equal(synced(&s, &q).outcome, SYNC_UPDATED);
	assert_true(bytes_is(seen(&s, "ann").user.email, "ann@example.org")); /* the first stays primary */
	assert_int_equal(seen(&s, "ann").emails.count, 2);
	service_close(&s);
}

TEST(sync, an_address_that_the_user_only_claimed_is_verified_by_it_and_its_end_is_lifted_4)
{
	struct service     s;
	struct sync_record q = record("ann", "ann@example.org");
	struct call        c = {.id = BYTES("ann"), .email = BYTES("ann@example.org")};

	service_open(&s, NULL);
	made(&s, "ann");
	turn_take(&s, &c.turn, add);
	assert_int_equal(synced(&s, &q).outcome, SYNC_UPDATED);
	at(&s, 2 * EMAIL_CLAIM_S); /* neither address nor marker expires */
	c = seen(&s, "ann");
	assert_int_equal(c.emails.count, 1);
	assert_true(c.emails.list[0].verified && c.emails.list[0].primary);
	assert_int_equal(rows_of_users(&s), 4);
	assert_null(item_get(&c.emails.list[0].row, BYTES("codeHash")));
	service_close(&s);
}

/* ---- complete records ---- */

static struct bytes attribute(struct service *s, const char *id, const char *name)
{
	struct call c = seen(s, id);

	return row_text(&c.user.attributes, name);
}

static void patched(struct service *s, const char *id, const char *name, const char *text)
{
	struct call  c = {.id = bytes_of(id), .status = USER_ACTIVE};
	struct value v = value_string(bytes_of(text));

	c.fields.attributes = item_with(&s->f.arena, &(struct item){0}, bytes_of(name), &v);
	turn_take(s, &c.turn, change);
}

static struct sync_record complete(struct service *s, const char *id, const char *email)
{
	struct sync_record q = record(id, email);
	struct value       gold = value_string(BYTES("gold"));

	q.complete = q.fresh = true;
	q.standing = SYNC_WELCOME;
	q.fields.first_name = (struct user_text){true, BYTES("Ann")};
	q.fields.phone = (struct user_text){true, BYTES("+442071838750")};
	q.fields.attributes = item_with(&s->f.arena, &(struct item){0}, BYTES("tier"), &gold);
	return q;
}

TEST(sync, the_address_of_a_complete_record_becomes_primary_and_the_one_before_goes_7)
{
	struct service     s;
	struct sync_record q;
	struct call        c;

	service_open(&s, NULL);
	q = complete(&s, "ann", "old@example.org");
	synced(&s, &q);
	q.email = BYTES("new@example.org");
	assert_int_equal(synced(&s, &q).outcome, SYNC_UPDATED);
	c = seen(&s, "ann");
	assert_true(bytes_is(c.user.email, "new@example.org"));
	assert_int_equal(c.emails.count, 1);
	assert_true(c.emails.list[0].primary && bytes_equal(c.emails.list[0].id, c.user.email_id));
	assert_int_equal(rows_of_users(&s), 4); /* no marker or alias is left of the old one */
	assert_int_equal(synced(&s, &q).outcome, SYNC_UNCHANGED);
	q = complete(&s, "bob", "old@example.org"); /* it is free */
	assert_int_equal(synced(&s, &q).outcome, SYNC_CREATED);
	service_close(&s);
}

TEST(sync, the_address_that_replaces_another_is_kept_as_it_was_typed_and_the_aliases_follow_7)
{
	struct service     s;
	struct sync_record q;
	struct aliases     all;
	struct bytes       fresh;
	struct call        c;

	service_open(&s, NULL);
	s.all.events.on = EVENT_ALL;
	q = complete(&s, "ann", "old@example.org");
	q.email_typed = BYTES("Old@Example.org");
	synced(&s, &q);
	assert_bytes(seen(&s, "ann").user.email_typed, "Old@Example.org");
	q.email = BYTES("new@example.org");
	q.email_typed = BYTES("New@Example.org");
	synced(&s, &q);
	c = seen(&s, "ann");
	assert_bytes(c.user.email_typed, "New@Example.org");
	assert_bytes(c.emails.list[0].typed, "New@Example.org");
	fresh = identifier_of_row_email(&s.all.identifiers, &s.f.arena, q.email);
	assert_true(aliases_of(&s.f.arena, &c.user.row, &all));
	assert_true(all.count == 1 && aliases_have(&all, fresh));
	q.email = BYTES("third@example.org");
	q.email_typed = (struct bytes){NULL, 0};
	synced(&s, &q);
	assert_int_equal(seen(&s, "ann").user.email_typed.len, 0);
	service_close(&s);
}

TEST(sync, an_address_that_the_user_proved_here_stays_when_the_providers_changes_7)
{
	struct service     s;
	struct sync_record q, own = record("ann", "own@example.org");
	struct call        c;

	service_open(&s, NULL);
	synced(&s, &own);
	fixture_ok(&s.f, "UpdateItem",
	           "{'TableName':'users','Key':{'PK':{'S':'USER#ann'},'SK':{'S':'PROFILE'}},"
	           "'UpdateExpression':'REMOVE syncEmailId'}"); /* as if it was proved here */
	q = complete(&s, "ann", "first@example.org");
	synced(&s, &q);
	assert_true(bytes_is(seen(&s, "ann").user.email, "first@example.org"));
	q.email = BYTES("second@example.org");
	synced(&s, &q);
	c = seen(&s, "ann");
	assert_int_equal(c.emails.count, 2);
	assert_true(bytes_is(c.user.email, "second@example.org"));
	q.email = BYTES("own@example.org"); /* and back to it: the user's own becomes the primary one */
	synced(&s, &q);
	c = seen(&s, "ann");
	assert_int_equal(c.emails.count, 1);
	assert_true(bytes_is(c.user.email, "own@example.org") && c.emails.list[0].primary);
	service_close(&s);
}

TEST(sync, an_address_that_is_not_verified_there_leaves_the_primary_one_7)
{
	struct service     s;
	struct sync_record q;

	service_open(&s, NULL);
	q = complete(&s, "ann", "old@example.org");
	synced(&s, &q);
	q.email = BYTES("new@example.org");
	q.email_verified = false;
	assert_int_equal(synced(&s, &q).outcome, SYNC_UNCHANGED);
	assert_true(bytes_is(seen(&s, "ann").user.email, "old@example.org"));
	service_close(&s);
}

TEST(sync, a_complete_record_takes_away_what_the_provider_gave_and_nothing_else_7)
{
	struct service     s;
	struct sync_record q, partial = record("ann", NULL);

	service_open(&s, NULL);
	q = complete(&s, "ann", "ann@example.org");
	synced(&s, &q);
	patched(&s, "ann", "mine", "kept");
	assert_int_equal(synced(&s, &partial).outcome, SYNC_UNCHANGED);
	assert_true(bytes_is(attribute(&s, "ann", "tier"), "gold"));
	q.fields = (struct user_fields){.last_name = {true, BYTES("Lee")}};
	q.keeps = true;
	assert_int_equal(synced(&s, &q).outcome, SYNC_UPDATED);
	assert_true(bytes_is(seen(&s, "ann").user.first_name, "Ann"));
	q.keeps = false;
	assert_int_equal(synced(&s, &q).outcome, SYNC_UPDATED);
	assert_int_equal(seen(&s, "ann").user.first_name.len, 0);
	assert_int_equal(seen(&s, "ann").user.phone.len, 0);
	assert_true(bytes_is(seen(&s, "ann").user.last_name, "Lee"));
	assert_int_equal(attribute(&s, "ann", "tier").len, 0);
	assert_true(bytes_is(attribute(&s, "ann", "mine"), "kept"));
	assert_int_equal(synced(&s, &q).outcome, SYNC_UNCHANGED);
	service_close(&s);
}

/* ---- events ---- */

static struct table_query_result events(struct service *s)
{
	union answer r;

	memset(&r, 0, sizeof(r));
	fixture_try(&s->f, "Query",
	            "{'TableName':'gatehouse-events','KeyConditionExpression':'PK = :p',"
	            "'ExpressionAttributeValues':{':p':{'S':'LOG#0'}}}",
	            &r);
	return r.query;
}

static void assert_types(const struct table_query_result *all, uint32_t from, const char *const *types)
{
	uint32_t i = from;

	for (; types[i - from] != NULL; i++) {
		assert_true(i < all->count);
		assert_bytes(row_text(&all->items[i], "type"), types[i - from]);
		assert_int_equal(row_i64(&all->items[i], "seq", 0), i + 1);
	}
	assert_int_equal(all->count, i);
}

/* Which fields, in this order, and that it says who. */
static void assert_changed(const struct item *event, const char *first, const char *second)
{
	struct item         data = event_data(event);
	const struct value *list = item_get(&data, BYTES("changed"));

	assert_non_null(list);
	assert_int_equal(list->list.count, second == NULL ? 1 : 2);
	assert_bytes(list->list.items[0].text, first);
	if (second != NULL)
		assert_bytes(list->list.items[1].text, second);
	assert_true(row_text(&data, "by").len > 0);
}

static void assert_reason(const struct item *event, const char *reason)
{
	struct item data = event_data(event);

	assert_bytes(row_text(&data, "reason"), reason);
}

TEST(sync, a_user_who_is_created_suspended_is_published_first_and_its_suspension_last_8)
{
	static const char *const  types[] = {"user.created",          "email.added",    "email.verified",
	                                     "email.primary.changed", "user.suspended", NULL};
	struct service            s;
	struct sync_record        q;
	struct table_query_result all;

	service_open(&s, NULL);
	s.all.events.on = EVENT_ALL;
	q = complete(&s, "ann", "ann@example.org");
	q.standing = SYNC_BARRED;
	assert_int_equal(synced(&s, &q).outcome, SYNC_CREATED);
	assert_int_equal(seen(&s, "ann").user.version, 1);
	all = events(&s);
	assert_types(&all, 0, types);
	assert_changed(&all.items[4], "status", "suspendedBy");
	assert_reason(&all.items[4], "disabled at the provider");
	service_close(&s);
}

TEST(sync, a_record_that_changes_fields_and_status_tells_of_each_in_its_own_event_8)
{
	static const char *const  first[] = {"user.updated", "user.suspended", NULL};
	static const char *const  second[] = {"user.reactivated", NULL};
	static const char *const  third[] = {"user.updated",          "email.added",   "email.verified",
	                                     "email.primary.changed", "email.removed", NULL};
	struct service            s;
	struct sync_record        q;
	struct table_query_result all;

	service_open(&s, NULL);
	s.all.events.on = EVENT_ALL;
	q = complete(&s, "ann", "ann@example.org");
	synced(&s, &q);
	q.fields.first_name.text = BYTES("Anna");
	q.standing = SYNC_BARRED;
	synced(&s, &q);
	all = events(&s);
	assert_types(&all, 4, first);
	assert_changed(&all.items[4], "firstName", NULL);
	assert_changed(&all.items[5], "status", "suspendedBy");
	assert_reason(&all.items[5], "disabled at the provider");
	q.standing = SYNC_WELCOME;
	synced(&s, &q);
	all = events(&s);
	assert_types(&all, 6, second);
	assert_changed(&all.items[6], "status", "suspendedBy");
	assert_reason(&all.items[6], "enabled at the provider");
	q.email = BYTES("new@example.org");
	synced(&s, &q);
	all = events(&s);
	assert_types(&all, 7, third);
	assert_changed(&all.items[7], "email", NULL);
	service_close(&s);
}

TEST(sync, a_person_who_takes_a_suspension_over_is_told_of_with_what_changed)
{
	struct service            s;
	struct sync_record        q;
	struct table_query_result all;
	struct call c = {.id = BYTES("ann"), .status = USER_SUSPENDED, .reason = BYTES("chargeback")};

	service_open(&s, NULL);
	s.all.events.on = EVENT_ALL;
	q = record("ann", NULL);
	q.standing = SYNC_BARRED;
	synced(&s, &q);
	turn_take(&s, &c.turn, become);
	all = events(&s);
	assert_int_equal(all.count, 3);
	assert_bytes(row_text(&all.items[2], "type"), "user.updated");
	assert_changed(&all.items[2], "suspendedBy", NULL);
	assert_reason(&all.items[2], "chargeback");
	service_close(&s);
}

TEST(sync, ids_and_addresses_that_are_refused_by_now_do_not_come_in_through_old_records)
{
	struct service     s;
	struct sync_record q = record("..", NULL);
	struct sync_result r;

	service_open(&s, NULL);
	assert_int_equal(try_sync(&s, &q, &r), ERR_INVALID);
	q = record("ann", "ann@example.org,eve@evil.example");
	assert_int_equal(try_sync(&s, &q, &r), ERR_INVALID);
	assert_int_equal(rows_of_users(&s), 0);
	service_close(&s);
}

/* ---- limits ---- */

TEST(sync, fifty_attributes_are_taken_and_one_more_is_refused)
{
	struct service     s;
	struct sync_record q = record("ann", NULL);
	struct sync_result r;
	struct value       text = value_string(BYTES("x"));

	service_open(&s, NULL);
	for (int i = 0; i < 50; i++)
		q.fields.attributes = item_with(&s.f.arena, &q.fields.attributes,
		                                arena_printf(&s.f.arena, "a%02d", i), &text);
	assert_int_equal(synced(&s, &q).outcome, SYNC_CREATED);
	assert_int_equal(seen(&s, "ann").user.attributes.count, 50);
	q.fields.attributes = item_with(&s.f.arena, &q.fields.attributes, BYTES("b"), &text);
	assert_int_equal(try_sync(&s, &q, &r), ERR_INVALID);
	service_close(&s);
}

/* ---- times ahead, and people who were erased ---- */

TEST(sync, a_time_far_ahead_counts_as_now_and_freezes_nobody_9)
{
	struct service     s;
	struct sync_record q = record("ann", NULL);
	const int64_t      now_ms = START_S * INT64_C(1000);

	service_open(&s, NULL);
	at(&s, 0);
	q.has_time = true;
	q.time_ms = INT64_C(4070908800000); /* 2099 */
	synced(&s, &q);
	at(&s, 1);
	q.time_ms = now_ms + 1000;
	q.fields.first_name = (struct user_text){true, BYTES("later")};
	assert_int_equal(synced(&s, &q).outcome, SYNC_UPDATED);
	fixture_ok(&s.f, "UpdateItem",
	           "{'TableName':'users','Key':{'PK':{'S':'USER#ann'},'SK':{'S':'PROFILE'}},"
	           "'UpdateExpression':'SET syncTime = :t',"
	           "'ExpressionAttributeValues':{':t':{'N':'4070908800000'}}}"); /* of an earlier build */
	q.fields.first_name.text = BYTES("latest");
	assert_int_equal(synced(&s, &q).outcome, SYNC_UPDATED);
	q.time_ms = now_ms + 1000 + SYNC_LEEWAY_MS; /* clocks differ: as it says */
	assert_int_equal(synced(&s, &q).outcome, SYNC_UNCHANGED);
	q.time_ms--;
	assert_int_equal(synced(&s, &q).outcome, SYNC_STALE);
	service_close(&s);
}

static enum err_code mark_erased(struct turn *t, struct err *err)
{
	(void)err;
	erased_mark(&t->ctx, BYTES("ann"));
	return ERR_NONE;
}

TEST(sync, a_user_who_was_erased_does_not_come_back_5)
{
	struct service     s;
	struct sync_record q = record("ann", "ann@example.org");
	struct sync_result r;
	struct call        c = {.id = BYTES("ann")};

	service_open(&s, NULL);
	turn_take(&s, &c.turn, mark_erased);
	assert_int_equal(try_sync(&s, &q, &r), ERR_NOT_NOW);
	made(&s, "ann"); /* a person says otherwise */
	assert_int_equal(synced(&s, &q).outcome, SYNC_UPDATED);
	service_close(&s);
}

/* ---- refusals ---- */

TEST(sync, an_address_of_another_user_is_refused_and_nothing_is_written_6)
{
	struct service     s;
	struct sync_record ann = record("ann", "ann@example.org"), bob = record("bob", "ann@example.org");
	struct sync_result r;

	service_open(&s, NULL);
	synced(&s, &ann);
	bob.fields.first_name = (struct user_text){true, BYTES("Bob")};
	assert_int_equal(try_sync(&s, &bob, &r), ERR_EMAIL_TAKEN);
	assert_int_equal(rows_of_users(&s), 4);
	made(&s, "bob");
	assert_int_equal(try_sync(&s, &bob, &r), ERR_EMAIL_TAKEN);
	assert_int_equal(seen(&s, "bob").user.version, 1);
	assert_int_equal(seen(&s, "bob").user.first_name.len, 0);
	service_close(&s);
}

TEST(sync, a_user_of_another_provider_is_refused_and_one_of_none_is_adopted_1)
{
	struct service     s;
	struct sync_record q = record("ann", NULL);
	struct sync_result r;

	service_open(&s, NULL);
	made(&s, "ann");
	assert_int_equal(synced(&s, &q).outcome, SYNC_UPDATED);
	q.provider = BYTES("other");
	assert_int_equal(try_sync(&s, &q, &r), ERR_USER_EXISTS);
	service_close(&s);
}

TEST(sync, a_deleted_user_is_refused_and_a_suspended_one_stays_suspended_5)
{
	struct service     s;
	struct sync_record q = record("ann", "ann@example.org");
	struct sync_result r;
	struct call        c = {.id = BYTES("ann"), .status = USER_SUSPENDED};

	service_open(&s, NULL);
	made(&s, "ann");
	turn_take(&s, &c.turn, become);
	assert_int_equal(synced(&s, &q).outcome, SYNC_UPDATED);
	assert_int_equal(seen(&s, "ann").user.status, USER_SUSPENDED);
	c.status = USER_DELETED;
	turn_take(&s, &c.turn, become);
	q.email = BYTES("new@example.org");
	assert_int_equal(try_sync(&s, &q, &r), ERR_NOT_NOW);
	assert_int_equal(seen(&s, "ann").emails.count, 1);
	service_close(&s);
}

TEST(sync, the_policies_in_force_say_how_many_addresses_a_user_has)
{
	static const uint32_t maximums[] = {1, USER_EMAILS_MAX + 1};

	for (size_t m = 0; m < sizeof(maximums) / sizeof(maximums[0]); m++) {
		struct user_policy *p = document_make(sizeof(*p));
		struct service      s;
		struct sync_record  q = record("ann", "ann@example.org");
		struct sync_result  r;

		service_open(&s, NULL);
		document_holder_init(&s.all.users);
		p->emails_max = maximums[m];
		document_put(&s.all.users, &p->base);
		for (uint32_t i = 0; i < maximums[m]; i++) {
			q.email = arena_printf(&s.f.arena, "ann%u@example.org", i);
			synced(&s, &q);
		}
		q.email = BYTES("more@example.org");
		assert_int_equal(try_sync(&s, &q, &r), ERR_LIMIT);
		document_holder_release(&s.all.users);
		service_close(&s);
	}
}

TEST(sync, a_user_has_so_many_addresses_and_no_more_by_sync_either)
{
	struct service     s;
	struct sync_record q = record("ann", "ann@example.org");
	struct sync_result r;

	service_open(&s, NULL);
	for (int i = 0; i < USER_EMAILS_MAX; i++) {
		q.email = arena_printf(&s.f.arena, "ann%d@example.org", i);
		synced(&s, &q);
	}
	q.email = BYTES("more@example.org");
	assert_int_equal(try_sync(&s, &q, &r), ERR_LIMIT);
	assert_int_equal(seen(&s, "ann").emails.count, USER_EMAILS_MAX);
	service_close(&s);
}

TEST(sync, what_is_the_name_of_a_provider)
{
	char long_name[SYNC_PROVIDER_BYTES_MAX + 1];

	memset(long_name, 'a', sizeof(long_name));
	assert_true(sync_provider_is(BYTES("eu-west-1_Ab.c")));
	assert_true(sync_provider_is((struct bytes){long_name, SYNC_PROVIDER_BYTES_MAX}));
	assert_false(sync_provider_is((struct bytes){long_name, SYNC_PROVIDER_BYTES_MAX + 1}));
	assert_false(sync_provider_is(BYTES("")));
	assert_false(sync_provider_is(BYTES("a#b")));
}

/* ---- races ---- */

enum { RACERS = 6 };

static enum err_code race_address(struct act *act, struct err *err)
{
	struct sync_record q = record(arena_printf(act->ctx.arena, "user%d", act->n).data, "one@example.org");
	struct sync_result r;
	enum err_code      rc = sync_apply(&act->ctx, &q, &r, err);

	if (rc == ERR_EMAIL_TAKEN)
		return ERR_NONE;
	return rc != ERR_NONE ? rc : commit(act, err);
}

/* The same user, each with a newer record. */
static enum err_code race_record(struct act *act, struct err *err)
{
	struct sync_record q = record("ann", "one@example.org");
	struct sync_result r;

	q.has_sequence = true;
	q.sequence = act->n;
	q.fields.first_name = (struct user_text){true, arena_printf(act->ctx.arena, "n%d", act->n)};
	return sync_apply(&act->ctx, &q, &r, err) != ERR_NONE ? err->code : commit(act, err);
}

TEST(sync, of_many_users_at_once_one_gets_the_address)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct act   acts[RACERS] = {0};
		struct scene x;

		scene_open(&x, seed, false);
		for (int i = 0; i < RACERS; i++) {
			acts[i].run = race_address;
			acts[i].n = i;
		}
		play_together(&x, acts, RACERS);
		assert_int_equal(rows_of_users(&x.s), 4);
		scene_close(&x);
	}
}

TEST(sync, of_many_records_at_once_the_newest_stays_3)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct act   acts[RACERS] = {0};
		struct scene x;

		scene_open(&x, seed, false);
		for (int i = 0; i < RACERS; i++) {
			acts[i].run = race_record;
			acts[i].n = i;
		}
		play_together(&x, acts, RACERS);
		assert_true(bytes_is(seen(&x.s, "ann").user.first_name, "n5"));
		assert_int_equal(seen(&x.s, "ann").emails.count, 1);
		assert_int_equal(rows_of_users(&x.s), 4);
		scene_close(&x);
	}
}
