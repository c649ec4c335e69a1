/* Keys that a policy treats in their own way, blocks, and looks: in each of the service's ways, together with restarts,
 * refunds, shadows and calls of several asks. */
#include "service/identifier.h"
#include "service/limit_world.h"

enum { NOON_S = 1789041600, NOW_S = NOON_S + 10 };

#define SECOND_US INT64_C(1000000)

static void in_each_way(const char *policies, void (*test)(struct world *w))
{
	for (enum way way = 0; way < WAYS; way++) {
		struct world w;

		world_open(&w, way, policies);
		fixture_set_clock(&w.f, NOW_S);
		test(&w);
		world_close(&w);
	}
}

static unsigned passes(struct world *w, const char *key, unsigned asks)
{
	unsigned count = 0;

	for (unsigned i = 0; i < asks; i++)
		count += allowed(w, "p", key);
	return count;
}

static enum limit_reason reason(struct world *w, const char *key, uint64_t cost)
{
	return ask(w, LIMIT_TAKE, "p", key, cost).asks[0].answer.reason;
}

/* ---- listed keys ---- */

#define LISTED                                                                                               \
	"{'p':{'limit':3,'per':'minute','engine':'%ENGINE',"                                                 \
	"'keys':{'client-a':{'limit':5},'small':{'limit':1,'per':'hour'},'monitor':'unlimited',"             \
	"'10.0.0.0/8':{'limit':4},'10.1.0.0/16':{'limit':2},'10.1.2.3':'unlimited',"                         \
	"'2001:db8::5':{'limit':1}},"                                                                        \
	"'allow':['friend','192.0.2.0/24','both'],'deny':['foe','192.0.2.128/25','both','10.9.9.9',"         \
	"'arn:aws:iam::1:user/eve']}}"

static void own_limits(struct world *w)
{
	assert_int_equal(passes(w, "anyone", 9), 3);
	assert_int_equal(passes(w, "client-a", 9), 5);
	assert_int_equal(passes(w, "small", 9), 1);
	assert_int_equal(ask(w, LIMIT_TAKE, "p", "client-a", 0).asks[0].answer.limit, 5);
	assert_int_equal(passes(w, "monitor", 20), 20);
	assert_int_equal(reason(w, "monitor", 1), LIMIT_UNLIMITED);
	assert_int_equal(reason(w, "monitor", 1000000), LIMIT_UNLIMITED);
	assert_int_equal(world_row(w, "RL#p#monitor").count, 0);
	fixture_set_clock(&w->f, NOON_S + 60); /* the next minute, the same hour */
	assert_int_equal(passes(w, "client-a", 9), 5);
	assert_int_equal(passes(w, "small", 9), 0);
}

TEST(limit_keys, a_key_may_have_a_limit_of_its_own_or_none)
{
	in_each_way(LISTED, own_limits);
}

static void networks(struct world *w)
{
	assert_int_equal(passes(w, "10.200.0.1", 9), 4);
	assert_int_equal(passes(w, "10.200.0.2", 9), 4); /* each address by itself */
	assert_int_equal(passes(w, "10.1.9.9", 9), 2);
	assert_int_equal(passes(w, "10.1.2.3", 9), 9);
	assert_int_equal(passes(w, "11.0.0.1", 9), 3);
	assert_int_equal(passes(w, "2001:db8::77", 9), 1);
	assert_int_equal(passes(w, "2001:db8:0:1::5", 9), 3);
}

TEST(limit_keys, of_networks_the_longest_counts_and_an_ipv6_address_is_its_network_of_64_bits)
{
	in_each_way(LISTED, networks);
}

static void lists(struct world *w)
{
	unsigned before = atomic_load(&w->turns);

	assert_int_equal(passes(w, "friend", 9), 9);
	assert_int_equal(reason(w, "friend", 1), LIMIT_ON_ALLOW_LIST);
	assert_int_equal(passes(w, "192.0.2.127", 9), 9);
	assert_int_equal(passes(w, "foe", 9) + passes(w, "192.0.2.128", 9) + passes(w, "both", 9) +
	                         passes(w, "10.9.9.9", 9) + passes(w, "arn:aws:iam::1:user/eve", 1),
	                 0);
	assert_int_equal(reason(w, "foe", 1), LIMIT_ON_DENY_LIST);
	assert_int_equal(ask(w, LIMIT_TAKE, "p", "foe", 1).retry_after_us, LIMIT_NEVER);
	assert_false(ask(w, LIMIT_TAKE, "p", "foe", 0).allowed);
	assert_false(ask(w, LIMIT_LOOK, "p", "foe", 1).allowed);
	assert_true(ask(w, LIMIT_GIVE, "p", "foe", 1).allowed);
	assert_true(ask(w, LIMIT_GIVE, "p", "friend", 1).allowed);
	assert_int_equal(atomic_load(&w->turns), before);
}

TEST(limit_keys, allowed_and_denied_keys_are_answered_without_counting_and_deny_goes_first)
{
	in_each_way(LISTED, lists);
}

static void together(struct world *w)
{
	struct limit_call c;

	call_init(&c, LIMIT_TAKE);
	call_add(w, &c, "p", "anyone", 1);
	call_add(w, &c, "p", "foe", 1);
	assert_int_equal(world_run(w, &c, &w->f.arena, &w->f.err), ERR_NONE);
	assert_false(c.allowed);
	assert_true(c.asks[0].answer.allowed);
	assert_int_equal(c.retry_after_us, LIMIT_NEVER);
	assert_int_equal(remaining(w, "p", "anyone"), 3);
	call_init(&c, LIMIT_TAKE);
	call_add(w, &c, "p", "friend", 1);
	call_add(w, &c, "p", "anyone", 1);
	assert_int_equal(world_run(w, &c, &w->f.arena, &w->f.err), ERR_NONE);
	assert_true(c.allowed);
	assert_int_equal(remaining(w, "p", "anyone"), 2);
}

TEST(limit_keys, a_denied_key_refuses_the_whole_call_and_an_allowed_one_none_of_it)
{
	in_each_way(LISTED, together);
}

static void shadowed(struct world *w)
{
	struct limit_call c = ask(w, LIMIT_TAKE, "p", "foe", 1);

	assert_true(c.allowed);
	assert_false(c.asks[0].answer.allowed);
	assert_int_equal(c.asks[0].answer.reason, LIMIT_ON_DENY_LIST);
}

TEST(limit_keys, a_shadow_policy_only_tells_of_a_denied_key)
{
	in_each_way("{'p':{'limit':3,'per':'minute','engine':'%ENGINE','shadow':true,'deny':['foe']}}",
	            shadowed);
}

/* What is asked in plain is not counted as a hash, whatever it looks like. */
TEST(limit_keys, an_address_is_matched_whether_it_is_hashed_or_not)
{
	struct world               w;
	struct limit_policies     *set;
	const struct limit_policy *p;
	struct limit_key  key = {.text = BYTES("ip:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), .hashed = true};
	struct limit_call c;

	world_open(&w, MEMORY, LISTED);
	set = limits_policies(w.limits);
	p = limit_policies_find(set, BYTES("p"));
	key.is_address = identifier_ip_parse(BYTES("192.0.2.200"), key.address);
	call_init(&c, LIMIT_TAKE);
	assert_true(limit_call_add(&c, &w.f.arena, p, &key, 1));
	assert_int_equal(c.asks[0].answer.reason, LIMIT_ON_DENY_LIST);
	limit_policies_release(set);
	world_close(&w);
}

static void changed_policy(struct world *w)
{
	assert_int_equal(passes(w, "k", 9), 1);
	world_use(w, "{'p':{'limit':1,'per':'minute','engine':'%ENGINE','keys':{'k':{'limit':2}}}}");
	assert_int_equal(passes(w, "k", 9), 1); /* at once: no denial of before is remembered */
	world_use(w, "{'p':{'limit':1,'per':'minute','engine':'%ENGINE','keys':{'k':'unlimited'}}}");
	assert_int_equal(passes(w, "k", 9), 9);
	world_use(w, "{'p':{'limit':1,'per':'minute','engine':'%ENGINE','deny':['k']}}");
	assert_int_equal(passes(w, "k", 9), 0);
}

TEST(limit_keys, a_key_that_is_listed_anew_is_treated_so_at_once)
{
	in_each_way("{'p':{'limit':1,'per':'minute','engine':'%ENGINE'}}", changed_policy);
}

/* ---- blocks ---- */

#define BLOCKING                                                                                             \
	"{'p':{'algorithm':'gcra','limit':2,'per':'second','engine':'%ENGINE','block':300,"                  \
	"'keys':{'strict':{'limit':1,'block':600},'mild':{'limit':1,'block':0}}},"                           \
	"'q':{'limit':5,'per':'day','engine':'%ENGINE'}}"

static void blocks(struct world *w)
{
	assert_int_equal(passes(w, "k", 3), 2);
	for (int later = 0; later < 300; later += 60) { /* past what is remembered of a refusal */
		struct limit_call c;

		fixture_set_clock(&w->f, NOW_S + later);
		c = ask(w, LIMIT_TAKE, "p", "k", 1);
		assert_false(c.allowed);
		assert_int_equal(c.retry_after_us, (300 - later) * SECOND_US);
		assert_int_equal(c.asks[0].answer.reason, LIMIT_BLOCKED);
		assert_false(ask(w, LIMIT_TAKE, "p", "k", 0).allowed);
		assert_false(ask(w, LIMIT_LOOK, "p", "k", 1).allowed);
		assert_true(allowed(w, "p", "another"));
	}
	fixture_set_clock(&w->f, NOW_S + 300);
	assert_int_equal(passes(w, "k", 3), 2);
	assert_int_equal(ask(w, LIMIT_TAKE, "p", "k", 1).retry_after_us, 300 * SECOND_US);
}

TEST(block, a_refused_key_stays_refused_for_so_long_whatever_the_engine)
{
	in_each_way(BLOCKING, blocks);
}

static void blocks_by_key(struct world *w)
{
	passes(w, "strict", 2);
	passes(w, "mild", 2);
	fixture_set_clock(&w->f, NOW_S + 599);
	assert_false(allowed(w, "p", "strict"));
	assert_true(allowed(w, "p", "mild"));
	fixture_set_clock(&w->f, NOW_S + 600);
	assert_true(allowed(w, "p", "strict"));
}

TEST(block, a_key_may_have_a_block_of_its_own)
{
	in_each_way(BLOCKING, blocks_by_key);
}

static void looks(struct world *w)
{
	passes(w, "k", 2);
	assert_false(ask(w, LIMIT_TAKE, "p", "k", 0).allowed);
	assert_false(ask(w, LIMIT_LOOK, "p", "k", 1).allowed);
	assert_int_equal(ask(w, LIMIT_LOOK, "p", "k", 1).retry_after_us, SECOND_US / 2);
	fixture_set_clock(&w->f, NOW_S + 1);
	assert_true(allowed(w, "p", "k"));
}

TEST(block, a_look_begins_none)
{
	in_each_way(BLOCKING, looks);
}

static void refunds(struct world *w)
{
	passes(w, "k", 3);
	assert_true(ask(w, LIMIT_GIVE, "p", "k", 2).allowed);
	assert_false(allowed(w, "p", "k"));
	fixture_set_clock(&w->f, NOW_S + 299);
	ask(w, LIMIT_GIVE, "p", "k", 2);
	assert_false(allowed(w, "p", "k"));
	fixture_set_clock(&w->f, NOW_S + 300);
	assert_true(allowed(w, "p", "k"));
}

TEST(block, a_refund_ends_none)
{
	in_each_way(BLOCKING, refunds);
}

static void second_refuses(struct world *w)
{
	struct limit_call c;

	passes(w, "k", 2);
	call_init(&c, LIMIT_TAKE);
	call_add(w, &c, "q", "other", 1);
	call_add(w, &c, "p", "k", 1);
	assert_int_equal(world_run(w, &c, &w->f.arena, &w->f.err), ERR_NONE);
	assert_false(c.allowed);
	assert_int_equal(remaining(w, "q", "other"), 5);
	fixture_set_clock(&w->f, NOW_S + 60);
	assert_false(allowed(w, "p", "k")); /* though nothing was taken, it is blocked */
	assert_true(allowed(w, "q", "other"));
}

TEST(block, begins_for_the_limit_that_refuses_a_call_of_several_and_for_no_other)
{
	in_each_way(BLOCKING, second_refuses);
}

TEST(block, of_the_table_survives_a_restart_and_a_clock_that_was_set_back)
{
	struct world w;
	struct item  row;

	world_open(&w, TABLE, BLOCKING);
	fixture_set_clock(&w.f, NOW_S);
	passes(&w, "k", 3);
	row = world_row(&w, "RL#p#k");
	assert_item(&w.f, &row,
	            "{'PK':{'S':'RL#p#k'},'TAT':{'N':'1789041611000000'},'TATRest':{'N':'0'},"
	            "'BlockedAt':{'N':'1789041610000000'},'TTL':{'N':'1789045510'}}");
	clock_manual_jump(&w.f.clock, -3600 * SECOND_US);
	fixture_restart(&w.f);
	document_holder_release(limits_holder(w.limits));
	limits_close(w.limits); /* with what it remembers */
	w.limits = w.all.limits =
	        limits_open(&(struct limits_options){.memory_bytes_max = LIMIT_MAP_BYTES_MIN});
	document_holder_init(limits_holder(w.limits));
	world_use(&w, BLOCKING);
	assert_false(allowed(&w, "p", "k"));
	fixture_set_clock(&w.f, NOW_S + 301);
	assert_true(allowed(&w, "p", "k"));
	world_close(&w);
}

static void longer_block(struct world *w)
{
	passes(w, "k", 4);
	fixture_set_clock(&w->f, NOW_S + 60); /* the block of 20 s is over, and so is the minute */
	assert_true(allowed(w, "p", "k"));
	assert_true(allowed(w, "p", "k"));
	world_use(w, "{'p':{'limit':3,'per':'minute','engine':'%ENGINE','block':3600}}");
	assert_true(allowed(w, "p", "k"));
	assert_int_equal(ask(w, LIMIT_TAKE, "p", "k", 1).retry_after_us, 3600 * SECOND_US);
}

TEST(block, that_is_over_and_forgiven_is_not_revived_by_a_longer_one)
{
	in_each_way("{'p':{'limit':3,'per':'minute','engine':'%ENGINE','block':20}}", longer_block);
}

/* Two servers refuse at the same moment: the second finds it blocked, and does not begin it anew. */
static void another_refuses(struct world *w)
{
	fixture_set_clock(&w->f, NOW_S + 1);
	assert_false(ask(w, LIMIT_TAKE, "p", "k", 2).allowed);
}

TEST(block, that_another_server_began_meanwhile_is_not_begun_again)
{
	struct world      w;
	struct limit_call c;

	world_open(&w, APART, "{'p':{'limit':2,'per':'day','engine':'table','block':300}}");
	fixture_set_clock(&w.f, NOW_S);
	allowed(&w, "p", "k");
	w.between = another_refuses;
	c = ask(&w, LIMIT_TAKE, "p", "k", 1);
	assert_false(c.allowed);
	assert_int_equal(c.asks[0].answer.reason, LIMIT_BLOCKED);
	world_close(&w);
}

static void shadow_blocks(struct world *w)
{
	assert_true(allowed(w, "p", "k"));
	assert_true(allowed(w, "p", "k"));
	fixture_set_clock(&w->f, NOW_S + 200);
	assert_int_equal(reason(w, "k", 1), LIMIT_BLOCKED);
	assert_true(allowed(w, "p", "k"));
	fixture_set_clock(&w->f, NOW_S + 301);
	assert_int_equal(reason(w, "k", 1), LIMIT_NO_REASON);
}

TEST(block, of_a_shadow_policy_is_told_and_not_enforced)
{
	in_each_way("{'p':{'limit':1,'per':'second','engine':'%ENGINE','shadow':true,'block':300}}",
	            shadow_blocks);
}

/* ---- when a refusal ends ---- */

/* What answers call `until`, in microseconds. */
static int64_t until_us(struct world *w, uint64_t cost)
{
	struct limit_call c;
	int64_t           came_us = world_now_us(w);

	call_init(&c, LIMIT_TAKE);
	call_add(w, &c, "p", "k", cost);
	if (!limits_needs_turn(w->limits, &c, came_us)) { /* time passes between decode and run */
		clock_manual_set(&w->f.clock, came_us + 300000);
		assert_int_equal(world_without_turn(w, &c, &w->f.arena, &w->f.err), ERR_NONE);
		clock_manual_set(&w->f.clock, came_us);
		came_us += 300000;
	} else {
		assert_int_equal(world_run(w, &c, &w->f.arena, &w->f.err), ERR_NONE);
	}
	assert_false(c.allowed);
	return came_us + c.retry_after_us;
}

TEST(limits, a_refusal_names_the_same_end_whatever_the_engine_and_however_often_it_is_asked)
{
	static const char *const policies[] = {
	        "{'p':{'limit':3,'per':'minute','engine':'%ENGINE'}}",
	        "{'p':{'algorithm':'sliding','limit':3,'per':'minute','engine':'%ENGINE'}}",
	        "{'p':{'algorithm':'gcra','limit':3,'per':'minute','engine':'%ENGINE'}}",
	        "{'p':{'algorithm':'gcra','limit':3,'per':'minute','engine':'%ENGINE','block':90}}"};

	for (unsigned i = 0; i < 4; i++) {
		int64_t expected = 0;

		for (enum way way = 0; way < WAYS; way++) {
			struct world w;

			world_open(&w, way, policies[i]);
			fixture_set_clock(&w.f, NOW_S);
			assert_true(ask(&w, LIMIT_TAKE, "p", "k", 3).allowed);
			if (way == MEMORY || i == 3) /* a block begins when it is refused */
				expected = until_us(&w, 1);
			for (unsigned j = 0; j < 9; j++) { /* looks and asks, remembered or not */
				clock_manual_set(&w.f.clock, NOW_S * SECOND_US + j * 1100000);
				assert_int_equal(until_us(&w, i == 3 ? 1 : j % 2), expected);
			}
			world_close(&w);
		}
	}
}

/* ---- what is read, and the bounds ---- */

static enum err_code parse(struct fixture *f, const char *text)
{
	struct document *set;
	enum err_code    rc = limit_policies_parse(fixture_json(f, text), &set, &f->err);

	if (rc == ERR_NONE)
		document_release(set);
	return rc;
}

TEST(limit_keys, what_is_wrong_is_refused_and_named)
{
	static const struct {
		const char *members, *field;
	} wrong[] = {
	        {"'block':-1", "p.block"},
	        {"'block':31622401", "p.block"},
	        {"'keys':[]", "p.keys"},
	        {"'keys':{'a':1}", "p.keys"},
	        {"'keys':{'a':'free'}", "p.keys"},
	        {"'keys':{'a':{}}", "p.keys.a.limit"},
	        {"'keys':{'a':{'limit':1,'burst':2}}", "p.keys.a.burst"},
	        {"'keys':{'a':{'limit':1,'algorithm':'gcra'}}", "p.keys.a.algorithm"},
	        {"'keys':{'10.0.0.0/33':'unlimited'}", "p.keys"},
	        {"'keys':{'email:bob@example.org':'unlimited'}", "p.keys"},
	        {"'keys':{'10.1.0.0/8':'unlimited','10.0.0.0/8':'unlimited'}", "p.keys"},
	        {"'allow':{}", "p.allow"},
	        {"'allow':[{'ip':'10.0.0.1'}]", "p.allow"},
	        {"'allow':['']", "p.allow"},
	        {"'deny':['2001:db8::/65']", "p.deny"},
	        {"'deny':['x','x']", "p.deny"},
	};
	struct fixture f;
	char           text[200];

	fixture_open(&f);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text), "{'p':{'limit':1,'per':'day',%s}}", wrong[i].members);
		assert_int_not_equal(parse(&f, text), ERR_NONE);
		assert_string_equal(f.err.field, wrong[i].field);
	}
	assert_int_equal(parse(&f,
	                       "{'p':{'limit':1,'per':'day','block':31622400,"
	                       "'deny':['email:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA','a/b','2001:db8::/64']}}"),
	                 ERR_NONE);
	fixture_close(&f);
}

__attribute__((format(printf, 2, 3))) static void add(struct buf *text, const char *format, ...)
{
	char    part[100];
	va_list args;

	va_start(args, format);
	vsnprintf(part, sizeof(part), format, args);
	va_end(args);
	buf_add_bytes(text, bytes_of(part));
}

static enum err_code parse_many(struct fixture *f, unsigned keys, unsigned allow, unsigned deny)
{
	struct buf text;

	buf_init(&text, &f->arena);
	add(&text, "{'p':{'limit':1,'per':'day','keys':{");
	for (unsigned i = 0; i < keys; i++)
		add(&text, "%s'k%u':'unlimited'", i == 0 ? "" : ",", i);
	add(&text, "},'allow':[");
	for (unsigned i = 0; i < allow; i++)
		add(&text, "%s'a%u'", i == 0 ? "" : ",", i);
	add(&text, "],'deny':[");
	for (unsigned i = 0; i < deny; i++)
		add(&text, "%s'10.0.%u.%u'", i == 0 ? "" : ",", i / 256, i % 256);
	add(&text, "]}}");
	buf_add_byte(&text, '\0');
	return parse(f, text.data);
}

TEST(limit_keys, a_policy_lists_as_many_keys_as_the_bound_says_and_no_more)
{
	struct fixture f;

	fixture_open(&f);
	assert_int_equal(parse_many(&f, LIMIT_KEYS_LISTED_MAX, 0, 0), ERR_NONE);
	assert_int_equal(parse_many(&f, LIMIT_KEYS_LISTED_MAX - 400, 300, 100), ERR_NONE);
	assert_int_not_equal(parse_many(&f, LIMIT_KEYS_LISTED_MAX + 1, 0, 0), ERR_NONE);
	assert_int_not_equal(parse_many(&f, LIMIT_KEYS_LISTED_MAX - 400, 300, 101), ERR_NONE);
	fixture_close(&f);
}
