/* The policies of events: what is switched on, what is refused, and what holds where nothing is said. */
#include "service/fixture.h"

#include "service/event.h"

static struct event_policy *policy_read(struct fixture *f, const char *yaml)
{
	struct document *d = NULL;
	struct json     *tree;

	f->err.code = ERR_NONE;
	assert_int_equal(yaml_read(&f->arena, bytes_of(yaml), &tree, &f->err), ERR_NONE);
	return event_policy_parse(tree, &d, &f->err) == ERR_NONE ? (struct event_policy *)d : NULL;
}

TEST(event_policy, switches_on_all_but_what_may_come_with_every_attempt)
{
	struct fixture       f;
	struct event_policy *p;

	fixture_open(&f);
	p = policy_read(&f, "{}");
	assert_true(p->on == (EVENT_ALL &
	                      ~(EVENT_BIT(EVENT_ATTEMPT_NEAR_LIMIT) | EVENT_BIT(EVENT_ATTEMPT_NEW_SOURCE))));
	assert_true(p->personal == 0);
	assert_bytes(p->source, "gatehouse");
	assert_int_equal(p->keep_s, 7 * 86400);
	assert_int_equal(p->lag_max_s, 30 * 86400);
	assert_int_equal(p->near_limit, 1);
	assert_false(p->outbox);
	document_release(&p->base);
	fixture_close(&f);
}

TEST(event_policy, that_ships_says_what_holds_where_nothing_is_said)
{
	struct fixture       f;
	struct event_policy *shipped, *none;
	struct document     *d;
	struct json         *tree;

	fixture_open(&f);
	assert_int_equal(yaml_read(&f.arena, policy_defaults(), &tree, &f.err), ERR_NONE);
	f.err.code = ERR_NONE;
	assert_int_equal(event_policy_parse(json_get(tree, BYTES("events")), &d, &f.err), ERR_NONE);
	shipped = (struct event_policy *)d;
	none = policy_read(&f, "{}");
	assert_true(shipped->on == none->on && shipped->personal == none->personal);
	assert_true(shipped->keep_s == none->keep_s && shipped->lag_max_s == none->lag_max_s);
	assert_true(shipped->near_limit == none->near_limit && shipped->outbox == none->outbox);
	assert_true(bytes_equal(shipped->source, none->source));
	document_release(&shipped->base);
	document_release(&none->base);
	fixture_close(&f);
}

TEST(event_policy, names_types_one_by_one_by_group_or_all)
{
	struct fixture       f;
	struct event_policy *p;

	fixture_open(&f);
	p = policy_read(&f,
	                "{types: [lock.set, 'email.*'], personal_data: ['*'], outbox: true, source: /login}");
	assert_true(p->on == (EVENT_BIT(EVENT_LOCK_SET) | EVENT_BIT(EVENT_EMAIL_ADDED) |
	                      EVENT_BIT(EVENT_EMAIL_VERIFIED) | EVENT_BIT(EVENT_EMAIL_REMOVED) |
	                      EVENT_BIT(EVENT_EMAIL_PRIMARY_CHANGED)));
	assert_true(p->personal == EVENT_ALL);
	assert_true(p->outbox);
	assert_bytes(p->source, "/login");
	document_release(&p->base);
	p = policy_read(&f, "{types: []}");
	assert_true(p->on == 0);
	document_release(&p->base);
	fixture_close(&f);
}

TEST(event_policy, refuses_what_it_does_not_know_and_names_the_member)
{
	static const struct {
		const char *yaml, *field;
	} bad[] = {
	        {"{types: [lock.opened]}", "types"},
	        {"{types: ['loc*']}", "types"},
	        {"{types: [7]}", "types"},
	        {"{types: lock.set}", "types"},
	        {"{personal_data: ['*.set']}", "personal_data"},
	        {"{source: 'a b'}", "source"},
	        {"{source: ''}", "source"},
	        {"{keep: 59}", "keep"},
	        {"{keep: 3600, lag_max: 3599}", "lag_max"},
	        {"{near_limit: -1}", "near_limit"},
	        {"{near_limit: 1000001}", "near_limit"},
	        {"{outbox: 1}", "outbox"},
	        {"{keeps: 7}", "keeps"},
	};
	struct fixture f;

	fixture_open(&f);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_null(policy_read(&f, bad[i].yaml));
		assert_string_equal(f.err.field, bad[i].field);
	}
	fixture_close(&f);
}

TEST(event_policy, that_keeps_events_long_waits_as_long_for_those_who_read_them)
{
	struct fixture       f;
	struct event_policy *p;

	fixture_open(&f);
	p = policy_read(&f, "{keep: 8640000}");
	assert_int_equal(p->lag_max_s, 8640000);
	document_release(&p->base);
	fixture_close(&f);
}

TEST(event_policy, in_force_is_what_one_look_tells)
{
	struct fixture        f;
	struct event_settings settings = {0};

	fixture_open(&f);
	document_holder_init(&settings.policy);
	event_settings_changed(&settings);
	assert_true(settings.on == 0);
	document_put(&settings.policy, &policy_read(&f, "{types: [lock.set]}")->base);
	event_settings_changed(&settings);
	assert_true(settings.on == EVENT_BIT(EVENT_LOCK_SET));
	document_holder_release(&settings.policy);
	fixture_close(&f);
}
