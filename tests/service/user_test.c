/* Users and their addresses: what user.h and user_email.h promise, on the engine or the rough store, and races on the rough store. */
#include "service/scene.h"
#include "service/people.h"

#include "service/event.h"

/* ---- users ---- */

TEST(users, one_that_is_created_is_found_and_a_second_of_the_same_id_is_refused)
{
	struct service s;
	struct call c = {.create = {.id = BYTES("ann"), .fields = {.phone = {true, BYTES("+442071838750")}}}};
	struct user u;

	service_open(&s, NULL);
	turn_take(&s, &c.turn, create);
	u = seen(&s, "ann");
	assert_int_equal(u.version, 1);
	assert_int_equal(u.status, USER_ACTIVE);
	assert_true(bytes_is(u.phone, "+442071838750"));
	assert_true(u.created_at.len == 20 && u.created_at.data[19] == 'Z');
	assert_int_equal(turn_try(&s, &c.turn, create), ERR_USER_EXISTS);
	service_close(&s);
}

TEST(users, an_id_that_is_not_given_is_generated)
{
	struct service s;
	struct call    c = {.create = {.id = {NULL, 0}}};

	service_open(&s, NULL);
	turn_take(&s, &c.turn, create);
	assert_int_equal(c.created.user.id.len, USER_ID_CHARS);
	assert_true(user_id_is(c.created.user.id));
	service_close(&s);
}

TEST(users, what_is_no_id_and_no_phone_number)
{
	assert_true(user_id_is(BYTES("auth0|5f7c")));
	assert_false(user_id_is(BYTES("")));
	assert_false(user_id_is(BYTES("ann@example.org")));
	assert_false(user_id_is(BYTES("a#b")));
	assert_false(user_id_is(BYTES("."))); /* no path could name them: they are dot segments */
	assert_false(user_id_is(BYTES("..")));
	assert_true(user_id_is(BYTES("...")));
	assert_true(user_id_is(BYTES(".a")));
	assert_true(identifier_phone_is(BYTES("+442071838750")));
	assert_true(identifier_phone_is(BYTES("+123456789012345")));
	assert_false(identifier_phone_is(BYTES("+1234567890123456")));
	assert_false(identifier_phone_is(BYTES("+0123456789")));
	assert_false(identifier_phone_is(BYTES("442071838750")));
	assert_false(identifier_phone_is(BYTES("+44 207183875")));
}

TEST(users, a_patch_changes_what_was_sent_and_the_version_that_was_read_1_2)
{
	struct service s;
	struct call    c = {.create = {.id = BYTES("ann"),
	                               .fields = {.first_name = {true, BYTES("Ann")},
	                                          .last_name = {true, BYTES("Lee")}}}};

	service_open(&s, NULL);
	turn_take(&s, &c.turn, create);
	c.patch = (struct user_patch){.id = BYTES("ann"),
	                              .match = {.has_version = true, .version = 1},
	                              .fields = {.first_name = {true, BYTES("Anna")}}};
	turn_take(&s, &c.turn, change);
	assert_int_equal(c.user.version, 2);
	assert_true(bytes_is(c.user.first_name, "Anna"));
	assert_true(bytes_is(c.user.last_name, "Lee"));
	assert_int_equal(turn_try(&s, &c.turn, change), ERR_MODIFIED);
	assert_string_equal(s.f.err.text, "Resource modified, please refresh");
	c.patch.match = (struct user_match){.has_etag = true, .etags = {1}, .etag_count = 1};
	assert_int_equal(turn_try(&s, &c.turn, change), ERR_STALE);
	c.patch.match = (struct user_match){
	        .has_etag = true, .etags = {2}, .etag_count = 1, .has_version = true, .version = 1};
	assert_int_equal(turn_try(&s, &c.turn, change), ERR_MODIFIED);
	c.patch.match = (struct user_match){
	        .has_etag = true, .etags = {7, 2}, .etag_count = 2, .has_version = true, .version = 2};
	c.patch.fields = (struct user_fields){.last_name = {.given = true}};
	turn_take(&s, &c.turn, change);
	assert_int_equal(seen(&s, "ann").last_name.len, 0);
	service_close(&s);
}

TEST(users, attributes_are_merged_and_bounded)
{
	struct member  some[] = {{BYTES("color"), value_string(BYTES("red"))}, {BYTES("size"), value_i64(3)}};
	struct member  gone[] = {{BYTES("color"), {.type = VALUE_NULL}}};
	struct service s;
	struct call    c = {.create = {.id = BYTES("ann"), .fields = {.attributes = {some, 2}}}};
	struct row     many;

	service_open(&s, NULL);
	turn_take(&s, &c.turn, create);
	c.patch = (struct user_patch){.id = BYTES("ann"), .fields = {.attributes = {gone, 1}}};
	turn_take(&s, &c.turn, change);
	assert_int_equal(c.user.attributes.count, 1);
	row_init(&many, &s.f.arena);
	for (int i = 0; i < USER_ATTRIBUTES_MAX / 2; i++)
		row_set_i64(&many, arena_printf(&s.f.arena, "n%d", i).data, i);
	c.patch.fields.attributes = row_item(&many);
	turn_take(&s, &c.turn, change);
	row_init(&many, &s.f.arena);
	for (int i = 0; i < USER_ATTRIBUTES_MAX / 2; i++)
		row_set_i64(&many, arena_printf(&s.f.arena, "m%d", i).data, i);
	c.patch.fields.attributes = row_item(&many);
	assert_int_equal(turn_try(&s, &c.turn, change), ERR_INVALID);
	assert_string_equal(s.f.err.field, "attributes");
	service_close(&s);
}

TEST(users, status_moves_as_drawn_and_nothing_leads_back_from_deleted_3)
{
	struct service s;
	struct call    c = {.patch = {.id = BYTES("ann")}, .status = USER_SUSPENDED};

	service_open(&s, NULL);
	assert_int_equal(turn_try(&s, &c.turn, become), ERR_NOT_FOUND);
	made(&s, "ann");
	turn_take(&s, &c.turn, become);
	assert_int_equal(c.user.version, 2);
	turn_take(&s, &c.turn, become);
	assert_int_equal(c.user.version, 2); /* it was suspended already */
	c.status = USER_ACTIVE;
	turn_take(&s, &c.turn, become);
	assert_int_equal(seen(&s, "ann").status, USER_ACTIVE);
	c.status = USER_DELETED;
	turn_take(&s, &c.turn, become);
	turn_take(&s, &c.turn, become);
	c.status = USER_ACTIVE;
	assert_int_equal(turn_try(&s, &c.turn, become), ERR_NOT_NOW);
	c.patch.fields.first_name = (struct user_text){true, BYTES("Ann")};
	assert_int_equal(turn_try(&s, &c.turn, change), ERR_NOT_NOW);
	assert_int_equal(seen(&s, "ann").status, USER_DELETED);
	service_close(&s);
}

TEST(users, a_list_comes_in_pages_and_holds_each_user_once)
{
	struct service s;
	struct call    c = {.search = {.limit = 3}};
	uint32_t       count = 0, pages = 0;

	service_open(&s, NULL);
	turn_take(&s, &c.turn, page);
	assert_int_equal(c.page.count, 0);
	for (int i = 0; i < 10; i++) {
		const char *id = arena_printf(&s.f.arena, "user-%d", i).data;

		made(&s, id);
		added(&s, id, arena_printf(&s.f.arena, "%d@example.org", i).data);
	}
	do {
		turn_take(&s, &c.turn, page);
		assert_true(c.page.count <= 3);
		count += c.page.count;
		c.search.after_pk = c.page.last_pk;
		c.search.after_sk = c.page.last_sk;
	} while (c.page.more && ++pages < 10);
	assert_int_equal(count, 10);
	service_close(&s);
}

/* It becomes a cursor: part of a URL, or of a job's row. */
TEST(users, a_page_never_ends_with_an_address)
{
	enum { USERS = 20, MARKERS = 2 * USERS_EXAMINED_MAX };
	struct service s;
	struct call    c = {.search = {.limit = USERS_PAGE_MAX}};
	uint32_t       count = 0, pages = 0;

	service_open(&s, NULL);
	for (int i = 0; i < USERS; i++)
		made(&s, arena_printf(&s.f.arena, "user-%d", i).data);
	for (int i = 0; i < MARKERS; i++)
		fixture_ok(&s.f, "PutItem",
		           arena_printf(&s.f.arena,
		                        "{'TableName':'users','Item':{'PK':{'S':'EMAIL#%d@example.org'},"
		                        "'SK':{'S':'MARKER'}}}%c",
		                        i, '\0')
		                   .data);
	do {
		turn_take(&s, &c.turn, page);
		count += c.page.count;
		if (c.page.more)
			assert_true(bytes_starts_with(c.page.last_pk, BYTES("USER#")));
		c.search.after_pk = c.page.last_pk;
		c.search.after_sk = c.page.last_sk;
	} while (c.page.more && ++pages < 100);
	assert_int_equal(count, USERS);
	assert_true(pages > 0 || s.f.store != NULL); /* elsewhere a scan may have another order */
	service_close(&s);
}

TEST(users, what_happens_is_published_without_addresses)
{
	struct service s;
	union answer   r;
	const char    *types[] = {"user.created", "email.added", "email.verified", "email.primary.changed",
	                          "user.suspended"};
	struct call    c = {.patch = {.id = BYTES("ann")}, .status = USER_SUSPENDED};

	service_open(&s, NULL);
	s.all.events.on = EVENT_ALL;
	made(&s, "ann");
	owned(&s, "ann", "ann@example.org");
	turn_take(&s, &c.turn, become);
	memset(&r, 0, sizeof(r));
	assert_int_equal(fixture_try(&s.f, "Query",
	                             "{'TableName':'gatehouse-events','KeyConditionExpression':'PK = :p',"
	                             "'ExpressionAttributeValues':{':p':{'S':'LOG#0'}}}",
	                             &r),
	                 ERR_NONE);
	assert_int_equal(r.query.count, 5);
	for (uint32_t i = 0; i < 5; i++) {
		const struct value *data = item_get(&r.query.items[i], BYTES("data"));

		assert_true(bytes_is(row_text(&r.query.items[i], "type"), types[i]));
		assert_int_equal(row_i64(&r.query.items[i], "seq", 0), i + 1);
		for (uint32_t n = 0; n < data->map.count; n++)
			assert_false(bytes_contains(value_text(&data->map.members[n].value), BYTES("@")));
	}
	service_close(&s);
}

static bool names(const struct item *data, const char *field)
{
	const struct value *list = item_get(data, BYTES("changed"));

	for (uint32_t i = 0; list != NULL && i < list->list.count; i++)
		if (bytes_is(list->list.items[i].text, field))
			return true;
	return false;
}

TEST(users, one_that_is_created_with_an_address_is_published_before_the_address)
{
	struct service s;
	union answer   r;
	struct call    c = {.create = {.id = BYTES("ann"), .email = BYTES("ann@example.org")}};

	service_open(&s, NULL);
	s.all.events.on = EVENT_ALL;
	turn_take(&s, &c.turn, create);
	memset(&r, 0, sizeof(r));
	fixture_try(&s.f, "Query",
	            "{'TableName':'gatehouse-events','KeyConditionExpression':'PK = :p',"
	            "'ExpressionAttributeValues':{':p':{'S':'LOG#0'}}}",
	            &r);
	assert_int_equal(r.query.count, 2);
	assert_bytes(row_text(&r.query.items[0], "type"), "user.created");
	assert_int_equal(row_i64(&r.query.items[0], "seq", 0), 1);
	assert_bytes(row_text(&r.query.items[1], "type"), "email.added");
	service_close(&s);
}

TEST(users, events_say_which_fields_changed_who_did_it_and_why)
{
	struct member  some[] = {{BYTES("color"), value_string(BYTES("red"))}, {BYTES("size"), value_i64(3)}};
	struct member  gone[] = {{BYTES("color"), {.type = VALUE_NULL}}, {BYTES("size"), value_i64(3)}};
	struct service s;
	struct item    data;
	struct call    c = {.create = {.id = BYTES("ann"),
	                               .fields = {.first_name = {true, BYTES("Ann")}, .attributes = {some, 2}}}};

	service_open(&s, NULL);
	s.all.events.on = EVENT_ALL;
	turn_take(&s, &c.turn, create);
	data = event_data(&events_of(&s, EVENT_USER_CREATED).items[0]);
	assert_true(names(&data, "firstName") && names(&data, "attributes.size") && names(&data, "status"));
	assert_false(names(&data, "lastName"));
	assert_true(row_text(&data, "by").len > 0);
	c.patch = (struct user_patch){.id = BYTES("ann"),
	                              .fields = {.last_name = {true, BYTES("Lee")},
	                                         .first_name = {true, BYTES("Ann")},
	                                         .attributes = {gone, 2}}};
	turn_take(&s, &c.turn, change);
	data = event_data(&events_of(&s, EVENT_USER_UPDATED).items[0]);
	assert_true(names(&data, "lastName") && names(&data, "attributes.color"));
	assert_false(names(&data, "firstName") || names(&data, "attributes.size") || names(&data, "status"));
	c.patch = (struct user_patch){.id = BYTES("ann"), .reason = BYTES("chargeback")};
	c.status = USER_SUSPENDED;
	turn_take(&s, &c.turn, become);
	data = event_data(&events_of(&s, EVENT_USER_SUSPENDED).items[0]);
	assert_bytes(row_text(&data, "reason"), "chargeback");
	assert_true(names(&data, "status") && !names(&data, "lastName"));
	service_close(&s);
}

TEST(users, addresses_are_published_where_the_policy_allows_it)
{
	struct event_policy *policy = document_make(sizeof(*policy));
	struct service       s;
	struct item          data;

	service_open(&s, NULL);
	policy->on = EVENT_ALL;
	policy->personal = EVENT_BIT(EVENT_EMAIL_VERIFIED);
	policy->source = BYTES("gatehouse");
	document_holder_init(&s.all.events.policy);
	document_put(&s.all.events.policy, &policy->base);
	s.all.events.on = EVENT_ALL;
	made(&s, "ann");
	owned(&s, "ann", "ann@example.org");
	data = event_data(&events_of(&s, EVENT_EMAIL_VERIFIED).items[0]);
	assert_bytes(row_text(&data, "email"), "ann@example.org");
	data = event_data(&events_of(&s, EVENT_EMAIL_ADDED).items[0]);
	assert_null(item_get(&data, BYTES("email")));
	document_holder_release(&s.all.events.policy);
	service_close(&s);
}

/* ---- addresses ---- */

TEST(user_emails, an_address_is_taken_when_it_is_added_and_found_in_the_index_1)
{
	struct service     s;
	struct email_claim claim;
	struct call        c = {.create = {.id = BYTES("ann"), .email = BYTES("ann@example.org")}};

	service_open(&s, NULL);
	turn_take(&s, &c.turn, create);
	assert_true(c.created.claimed);
	assert_int_equal(indexed(&s, "ann@example.org"), 1);
	made(&s, "bob");
	assert_int_equal(try_add(&s, "bob", "ann@example.org", &claim), ERR_EMAIL_TAKEN);
	assert_string_equal(s.f.err.text, "Email not available");
	c.create.id = BYTES("eve");
	assert_int_equal(turn_try(&s, &c.turn, create), ERR_EMAIL_TAKEN);
	c.patch.id = BYTES("eve");
	assert_int_equal(turn_try(&s, &c.turn, get), ERR_NOT_FOUND); /* all or nothing */
	assert_int_equal(try_add(&s, "nobody", "x@example.org", &claim), ERR_NOT_FOUND);
	service_close(&s);
}

TEST(user_emails, the_first_that_is_verified_becomes_primary_and_cannot_be_removed_2)
{
	struct service s;
	struct user    u;
	struct call    c;
	struct bytes   first, second;

	service_open(&s, NULL);
	made(&s, "ann");
	assert_int_equal(seen(&s, "ann").email.len, 0);
	first = owned(&s, "ann", "one@example.org");
	u = seen(&s, "ann");
	assert_int_equal(u.version, 2);
	assert_true(bytes_is(u.email, "one@example.org"));
	assert_int_equal(indexed(&s, "one@example.org"), 2); /* the address and the profile */
	second = owned(&s, "ann", "two@example.org");
	assert_int_equal(seen(&s, "ann").version, 2);
	c = (struct call){.entry = {.user = BYTES("ann"), .email_id = first}};
	assert_int_equal(turn_try(&s, &c.turn, drop), ERR_NOT_NOW);
	c.entry.email_id = second;
	turn_take(&s, &c.turn, prefer);
	assert_int_equal(c.user.version, 3);
	assert_true(bytes_is(c.user.email, "two@example.org"));
	assert_int_equal(turn_try(&s, &c.turn, drop), ERR_NOT_NOW);
	c.entry.email_id = first;
	turn_take(&s, &c.turn, drop);
	assert_int_equal(emails_of(&s, "ann").count, 1);
	assert_int_equal(rows_of_kind(&s, "MARKER"), 1);
	made(&s, "bob");
	owned(&s, "bob", "one@example.org"); /* it is free again */
	service_close(&s);
}

TEST(user_emails, an_address_that_is_not_verified_cannot_be_primary)
{
	struct service     s;
	struct email_claim claim;
	struct call        c;

	service_open(&s, NULL);
	made(&s, "ann");
	claim = added(&s, "ann", "one@example.org");
	c = (struct call){.entry = {.user = BYTES("ann"), .email_id = claim.email.id}};
	assert_int_equal(turn_try(&s, &c.turn, prefer), ERR_NOT_NOW);
	c.entry.email_id = BYTES("none");
	assert_int_equal(turn_try(&s, &c.turn, prefer), ERR_NOT_FOUND);
	service_close(&s);
}

TEST(user_emails, a_claim_that_nobody_proved_expires_with_its_marker_3)
{
	struct service     s;
	struct email_claim claim;

	service_open(&s, NULL);
	made(&s, "ann");
	made(&s, "bob");
	added(&s, "ann", "x@example.org");
	at(&s, EMAIL_CLAIM_S - 10);
	assert_int_equal(try_add(&s, "bob", "x@example.org", &claim), ERR_EMAIL_TAKEN);
	claim = added(&s, "ann", "x@example.org"); /* another code does not prolong it */
	assert_true(claim.again);
	assert_int_equal(claim.code_expires_s, START_S + EMAIL_CLAIM_S);
	at(&s, EMAIL_CLAIM_S);
	owned(&s, "bob", "x@example.org");
	assert_int_equal(emails_of(&s, "ann").count, 0);
	at(&s, 3 * EMAIL_CLAIM_S);
	assert_int_equal(emails_of(&s, "bob").count, 1); /* what is verified stays */
	assert_int_equal(try_add(&s, "ann", "x@example.org", &claim), ERR_EMAIL_TAKEN);
	service_close(&s);
}

TEST(user_emails, a_code_works_once_and_a_newer_one_replaces_it_4)
{
	struct service     s;
	struct email_claim old, claim;
	char               small[EMAIL_CODE_CHARS];

	service_open(&s, NULL);
	made(&s, "ann");
	old = added(&s, "ann", "x@example.org");
	claim = added(&s, "ann", "x@example.org");
	assert_true(bytes_equal(old.email.id, claim.email.id));
	assert_int_equal(entered(&s, "ann", claim.email.id, code_of(&old)).outcome, ENTRY_WRONG);
	bytes_lower(code_of(&claim), small); /* as people type */
	assert_int_equal(entered(&s, "ann", claim.email.id, (struct bytes){small, EMAIL_CODE_CHARS}).outcome,
	                 ENTRY_RIGHT);
	assert_int_equal(entered(&s, "ann", claim.email.id, code_of(&claim)).outcome, ENTRY_NO_CODE);
	service_close(&s);
}

TEST(user_emails, a_code_expires_and_is_void_after_a_few_wrong_entries_4)
{
	struct service       s;
	struct email_claim   claim;
	struct email_verdict v;

	service_open(&s, NULL);
	made(&s, "ann");
	claim = added(&s, "ann", "x@example.org");
	for (int i = 1; i <= EMAIL_CODE_TRIES_MAX; i++) {
		v = entered(&s, "ann", claim.email.id, BYTES("UUUUUUUU"));
		assert_int_equal(v.outcome, ENTRY_WRONG);
		assert_int_equal(v.tries_left, EMAIL_CODE_TRIES_MAX - i);
	}
	assert_int_equal(entered(&s, "ann", claim.email.id, code_of(&claim)).outcome, ENTRY_NO_CODE);
	claim = added(&s, "ann", "x@example.org");
	at(&s, EMAIL_CODE_S);
	assert_int_equal(entered(&s, "ann", claim.email.id, code_of(&claim)).outcome, ENTRY_NO_CODE);
	claim = added(&s, "ann", "x@example.org");
	at(&s, 2 * EMAIL_CODE_S - 1);
	assert_int_equal(entered(&s, "ann", claim.email.id, code_of(&claim)).outcome, ENTRY_RIGHT);
	service_close(&s);
}

TEST(user_emails, no_row_holds_a_code)
{
	struct service     s;
	struct email_claim claim;
	union answer       r;

	service_open(&s, NULL);
	made(&s, "ann");
	claim = added(&s, "ann", "x@example.org");
	memset(&r, 0, sizeof(r));
	assert_int_equal(fixture_try(&s.f, "Scan", "{'TableName':'users'}", &r), ERR_NONE);
	for (uint32_t i = 0; i < r.query.count; i++)
		for (uint32_t n = 0; n < r.query.items[i].count; n++)
			assert_false(bytes_contains(value_text(&r.query.items[i].members[n].value),
			                            code_of(&claim)));
	service_close(&s);
}

TEST(user_emails, a_user_has_at_most_so_many_5)
{
	struct service     s;
	struct email_claim claim;

	service_open(&s, NULL);
	made(&s, "ann");
	for (int i = 0; i < USER_EMAILS_MAX; i++)
		added(&s, "ann", arena_printf(&s.f.arena, "%d@example.org", i).data);
	assert_int_equal(try_add(&s, "ann", "more@example.org", &claim), ERR_LIMIT);
	added(&s, "ann", "0@example.org"); /* another code for one that is there */
	at(&s, EMAIL_CLAIM_S);
	added(&s, "ann", "more@example.org");
	service_close(&s);
}

TEST(user_emails, lookup_says_whose_address_it_is_and_whether_that_was_proved)
{
	struct service s;
	struct call    c = {.email = BYTES("x@example.org")};

	service_open(&s, NULL);
	assert_int_equal(turn_try(&s, &c.turn, lookup), ERR_NOT_FOUND);
	made(&s, "ann");
	added(&s, "ann", "x@example.org");
	turn_take(&s, &c.turn, lookup);
	assert_false(c.found.verified);
	owned(&s, "ann", "x@example.org");
	turn_take(&s, &c.turn, lookup);
	assert_true(c.found.verified);
	assert_true(bytes_is(c.found.user.id, "ann"));
	service_close(&s);
}

TEST(user_emails, those_of_a_deleted_user_stay_taken)
{
	struct service     s;
	struct email_claim claim;
	struct call        c = {.patch = {.id = BYTES("ann")}, .status = USER_DELETED};

	service_open(&s, NULL);
	made(&s, "ann");
	made(&s, "bob");
	owned(&s, "ann", "x@example.org");
	turn_take(&s, &c.turn, become);
	assert_int_equal(try_add(&s, "bob", "x@example.org", &claim), ERR_EMAIL_TAKEN);
	assert_int_equal(try_add(&s, "ann", "y@example.org", &claim), ERR_NOT_NOW);
	service_close(&s);
}

/* ---- one mailbox ---- */

static struct email_claim typed(struct service *s, const char *id, const char *as_typed)
{
	char        normal[EMAIL_NORMAL_BYTES_MAX];
	struct call c = {.patch = {.id = bytes_of(id)}};

	c.email = (struct bytes){normal, email_normalise(bytes_of(as_typed), normal)};
	c.typed = email_typed_beside(bytes_of(as_typed), c.email);
	turn_take(s, &c.turn, add);
	return c.claim;
}

static struct bytes marker_typed(struct service *s, const char *email)
{
	union answer r;

	memset(&r, 0, sizeof(r));
	assert_int_equal(fixture_try(&s->f, "GetItem",
	                             arena_printf(&s->f.arena,
	                                          "{'TableName':'users','Key':{'PK':{'S':'EMAIL#%s'},"
	                                          "'SK':{'S':'MARKER'}}}%c",
	                                          email, '\0')
	                                     .data,
	                             &r),
	                 ERR_NONE);
	return row_text(&r.get.item, EMAIL_TYPED);
}

TEST(user_emails, an_address_is_kept_as_it_was_typed_beside_what_is_compared_7)
{
	struct service     s;
	struct email_claim claim;
	struct call        c = {.email = BYTES("strasse@example.org")};

	service_open(&s, NULL);
	made(&s, "ann");
	claim = typed(&s, "ann", "Stra\u00dfe@Example.org");
	assert_bytes(claim.email.email, "strasse@example.org");
	assert_bytes(claim.email.typed, "Stra\u00dfe@Example.org");
	assert_int_equal(entered(&s, "ann", claim.email.id, code_of(&claim)).outcome, ENTRY_RIGHT);
	assert_bytes(seen(&s, "ann").email, "strasse@example.org");
	assert_bytes(seen(&s, "ann").email_typed, "Stra\u00dfe@Example.org");
	assert_bytes(emails_of(&s, "ann").list[0].typed, "Stra\u00dfe@Example.org");
	assert_bytes(marker_typed(&s, "strasse@example.org"), "Stra\u00dfe@Example.org");
	turn_take(&s, &c.turn, lookup);
	assert_bytes(c.found.typed, "Stra\u00dfe@Example.org");
	service_close(&s);
}

/* Else a code that one mailbox got would prove another. */
TEST(user_emails, a_code_proves_the_address_as_it_was_typed_last_7)
{
	struct service     s;
	struct email_claim first, second;

	service_open(&s, NULL);
	made(&s, "ann");
	first = typed(&s, "ann", "Stra\u00dfe@example.org");
	second = typed(&s, "ann", "strasse@example.org");
	assert_true(second.again && bytes_equal(first.email.id, second.email.id));
	assert_int_equal(second.email.typed.len, 0);
	assert_int_equal(marker_typed(&s, "strasse@example.org").len, 0);
	assert_int_equal(entered(&s, "ann", first.email.id, code_of(&first)).outcome, ENTRY_WRONG);
	assert_int_equal(entered(&s, "ann", first.email.id, code_of(&second)).outcome, ENTRY_RIGHT);
	assert_int_equal(seen(&s, "ann").email_typed.len, 0);
	service_close(&s);
}

TEST(user_emails, another_primary_address_brings_its_own_spelling_7)
{
	struct service     s;
	struct email_claim claim;
	struct call        c = {.entry = {.user = BYTES("ann")}};

	service_open(&s, NULL);
	made(&s, "ann");
	claim = typed(&s, "ann", "Ann@example.org");
	entered(&s, "ann", claim.email.id, code_of(&claim));
	assert_bytes(seen(&s, "ann").email_typed, "Ann@example.org");
	c.entry.email_id = owned(&s, "ann", "two@example.org");
	turn_take(&s, &c.turn, prefer);
	assert_bytes(seen(&s, "ann").email, "two@example.org");
	assert_int_equal(seen(&s, "ann").email_typed.len, 0);
	service_close(&s);
}

/* An address of before they were refused: a verified one of Ann, and one that she claimed. */
TEST(user_emails, a_list_from_before_is_read_and_removed_and_proves_nothing_8)
{
	static const char  list[] = "a@evil.org,x@corp.example";
	struct service     s;
	struct email_claim claim;
	struct call        c = {.entry = {.user = BYTES("ann")}};

	service_open(&s, NULL);
	made(&s, "ann");
	claim = added(&s, "ann", list); /* the service itself takes what was read */
	assert_int_equal(emails_of(&s, "ann").count, 1);
	assert_int_equal(entered(&s, "ann", claim.email.id, code_of(&claim)).outcome, ENTRY_NO_CODE);
	fixture_ok(&s.f, "UpdateItem",
	           arena_printf(&s.f.arena,
	                        "{'TableName':'users','Key':{'PK':{'S':'USER#ann'},'SK':{'S':'EMAIL#%.*s'}},"
	                        "'UpdateExpression':'SET isVerified = :t REMOVE #t',"
	                        "'ExpressionAttributeNames':{'#t':'ttl'},"
	                        "'ExpressionAttributeValues':{':t':{'BOOL':true}}}%c",
	                        BYTES_ARG(claim.email.id), '\0')
	                   .data);
	c.entry.email_id = claim.email.id;
	assert_int_equal(turn_try(&s, &c.turn, prefer), ERR_NOT_NOW);
	assert_bytes(emails_of(&s, "ann").list[0].email, list);
	turn_take(&s, &c.turn, drop);
	assert_int_equal(emails_of(&s, "ann").count, 0);
	assert_int_equal(rows_of_kind(&s, "MARKER"), 0);
	service_close(&s);
}

/* ---- races, each with several seeds, and as a control without conditions ---- */

enum { ADDERS = 32, PATCHERS = 8, SEEDS = 6, CONTROL_SEEDS = 8 };

struct racer {
	struct act    act;
	struct bytes  user, email, email_id;
	bool          prefers;
	enum err_code rc; /* an answer, too */
};

/* An error of the service's is an answer; a commit that failed is decided again. */
static enum err_code answered(struct racer *r, enum err_code rc, struct err *err)
{
	if (rc == ERR_NONE)
		rc = commit(&r->act, err);
	r->rc = rc;
	return rc == ERR_EMAIL_TAKEN || rc == ERR_NOT_NOW || rc == ERR_MODIFIED || rc == ERR_NOT_FOUND ||
	                       rc == ERR_LIMIT
	               ? ERR_NONE
	               : rc;
}

static enum err_code race_add(struct act *act, struct err *err)
{
	struct racer      *r = (struct racer *)act;
	struct email_claim claim;
	struct email_add   q = {.user = r->user, .email = r->email, .terms = terms_of(&act->x->s)};

	return answered(r, user_email_add(&act->ctx, &q, &claim, err), err);
}

static enum err_code race_primary(struct act *act, struct err *err)
{
	struct racer      *r = (struct racer *)act;
	struct email_entry q = {.user = r->user, .email_id = r->email_id};
	struct user        u;

	return answered(r,
	                r->prefers ? user_email_prefer(&act->ctx, &q, &(struct user_match){0}, &u, err)
	                           : user_email_remove(&act->ctx, &q, err),
	                err);
}

/* Reads, then patches what it read, as clients do. Of two who read the same version one is told to refresh. */
static enum err_code race_patch(struct act *act, struct err *err)
{
	struct racer     *r = (struct racer *)act;
	struct user       u;
	struct user_patch q = {.id = r->user, .match = {.has_version = true}};
	struct row        row;
	const char       *name = arena_printf(act->ctx.arena, "n%d", act->n).data;

	if (user_get(&act->ctx, r->user, &u, err) != ERR_NONE)
		return err->code;
	q.match.version = u.version;
	row_init(&row, act->ctx.arena);
	row_set_i64(&row, name, 1);
	q.fields.attributes = row_item(&row);
	return answered(r, user_change(&act->ctx, &q, &u, err), err);
}

static void race(struct scene *x, struct racer *racers, int count)
{
	rough_hold(x->rough);
	for (int i = 0; i < count; i++) {
		racers[i].act.base = (struct turn_request){.run = act_run_again, .done = act_done};
		racers[i].act.x = x;
		racers[i].act.n = i;
		assert_int_equal(rough_submit(&x->rough->base, &racers[i].act.base, &x->s.f.err), ERR_NONE);
	}
	rough_release(x->rough);
	rough_finish(x->rough);
	for (int i = 0; i < count; i++)
		if (racers[i].act.base.rc != ERR_NONE)
			fail_msg("seed %lu: %s", x->rough->seed, racers[i].act.base.err.text);
}

static bool adders_of_one_address(uint64_t seed, bool blind)
{
	struct racer racers[ADDERS] = {0};
	struct scene x;
	int          won = 0;
	bool         holds;

	scene_open(&x, seed, false);
	for (int i = 0; i < ADDERS; i++) {
		racers[i].act.run = race_add;
		racers[i].user = arena_printf(&x.s.f.arena, "user-%d", i);
		racers[i].email = BYTES("x@example.org");
		made(&x.s, racers[i].user.data);
	}
	x.rough->blind = blind;
	race(&x, racers, ADDERS);
	for (int i = 0; i < ADDERS; i++)
		won += racers[i].rc == ERR_NONE;
	holds = won == 1 && rows_of_kind(&x.s, "EMAIL#") == 1 && rows_of_kind(&x.s, "MARKER") == 1;
	scene_close(&x);
	return holds;
}

static bool adders_to_one_user(uint64_t seed, bool blind)
{
	struct racer racers[8] = {0};
	struct scene x;
	bool         holds;

	scene_open(&x, seed, false);
	made(&x.s, "ann");
	for (int i = 0; i < USER_EMAILS_MAX - 4; i++)
		added(&x.s, "ann", arena_printf(&x.s.f.arena, "%d@example.org", i).data);
	for (int i = 0; i < 8; i++) {
		racers[i].act.run = race_add;
		racers[i].user = BYTES("ann");
		racers[i].email = arena_printf(&x.s.f.arena, "racer-%d@example.org", i);
	}
	x.rough->blind = blind;
	race(&x, racers, 8);
	holds = emails_of(&x.s, "ann").count == USER_EMAILS_MAX;
	scene_close(&x);
	return holds;
}

/* Four make their address the primary one, four others remove theirs: the same four, so each pair fights over one. */
static bool primary_against_remove(uint64_t seed, bool blind)
{
	struct racer       racers[8] = {0};
	struct scene       x;
	struct user        u;
	struct user_emails left;
	int                primary = 0, verified_primary = 0;

	scene_open(&x, seed, false);
	made(&x.s, "ann");
	owned(&x.s, "ann", "first@example.org");
	for (int i = 0; i < 4; i++) {
		racers[i].email_id = owned(&x.s, "ann", arena_printf(&x.s.f.arena, "%d@example.org", i).data);
		racers[i].prefers = true;
		racers[i + 4].email_id = racers[i].email_id;
	}
	for (int i = 0; i < 8; i++) {
		racers[i].act.run = race_primary;
		racers[i].user = BYTES("ann");
	}
	x.rough->blind = blind;
	race(&x, racers, 8);
	u = seen(&x.s, "ann");
	left = emails_of(&x.s, "ann");
	for (uint32_t i = 0; i < left.count; i++) {
		primary += left.list[i].primary;
		verified_primary += left.list[i].primary && left.list[i].verified &&
		                    bytes_equal(left.list[i].id, u.email_id) &&
		                    bytes_equal(left.list[i].email, u.email);
	}
	scene_close(&x);
	return primary == 1 && verified_primary == 1;
}

static bool patches_of_one_user(uint64_t seed, bool blind)
{
	struct racer racers[PATCHERS] = {0};
	struct scene x;
	struct user  u;
	int          won = 0;

	scene_open(&x, seed, false);
	made(&x.s, "ann");
	for (int i = 0; i < PATCHERS; i++) {
		racers[i].act.run = race_patch;
		racers[i].user = BYTES("ann");
	}
	x.rough->blind = blind;
	race(&x, racers, PATCHERS);
	for (int i = 0; i < PATCHERS; i++)
		won += racers[i].rc == ERR_NONE;
	u = seen(&x.s, "ann");
	scene_close(&x);
	return won > 0 && u.version == won + 1 && u.attributes.count == (uint32_t)won;
}

static void show(scene_holds *holds)
{
	scene_show(holds, SEEDS, CONTROL_SEEDS);
}

TEST(user_races, of_32_who_add_one_address_one_wins)
{
	show(adders_of_one_address);
}

TEST(user_races, of_many_who_add_to_one_user_only_so_many_succeed)
{
	show(adders_to_one_user);
}

TEST(user_races, set_primary_against_remove_leaves_exactly_one_verified_primary)
{
	show(primary_against_remove);
}

TEST(user_races, no_patch_is_lost)
{
	show(patches_of_one_user);
}
