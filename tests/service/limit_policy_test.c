/* Policies: what is read, what is refused and how it is said, and that writing and reading agree. */
#include "test.h"

#include "json/yaml.h"
#include "service/limit_policy.h"
#include "service/rules.h"

struct reading {
	struct json_reader    *reader;
	struct arena           arena;
	struct err             err;
	struct limit_policies *set; /* NULL: refused */
};

static void read_text(struct reading *r, const char *text)
{
	struct json     *tree;
	struct document *made;

	memset(r, 0, sizeof(*r));
	arena_init(&r->arena);
	r->reader = json_reader_open();
	assert_int_equal(json_read(r->reader, &r->arena, bytes_of(text), &tree, &r->err), ERR_NONE);
	if (limit_policies_parse(tree, &made, &r->err) == ERR_NONE)
		r->set = (struct limit_policies *)made;
}

static void reading_release(struct reading *r)
{
	if (r->set != NULL)
		limit_policies_release(r->set);
	json_reader_close(r->reader);
	arena_release(&r->arena);
}

TEST(limit_policy, reads_every_field)
{
	struct reading             r;
	const struct limit_policy *p;

	read_text(&r,
	          "{\"z\":{\"limit\":3,\"per\":\"month\"},\"a\":{\"algorithm\":\"gcra\",\"limit\":100,"
	          "\"per\":90,"
	          "\"burst\":7,\"engine\":\"table\",\"on_failure\":\"closed\",\"shadow\":true,\"near\":0.75,"
	          "\"prefix\":\"\",\"block\":300,\"shards\":4}}");
	assert_non_null(r.set);
	p = limit_policies_find(r.set, BYTES("a"));
	assert_int_equal(p->rule.block_us, 300000000);
	assert_int_equal(p->shards, 4);
	assert_int_equal(p->rule.algorithm, LIMIT_GCRA);
	assert_int_equal(p->rule.limit, 100);
	assert_int_equal(p->rule.burst, 7);
	assert_int_equal(p->rule.period.us, 90000000);
	assert_int_equal(p->rule.near_permille, 750);
	assert_int_equal(p->engine, LIMIT_TABLE);
	assert_true(p->fail_closed && p->shadow && p->prefix.len == 0);
	p = limit_policies_find(r.set, BYTES("z"));
	assert_int_equal(p->shards, 1);
	assert_int_equal(p->rule.algorithm, LIMIT_FIXED);
	assert_int_equal(p->rule.period.us, 0);
	assert_int_equal(p->engine, LIMIT_MEMORY);
	assert_false(p->fail_closed || p->shadow);
	assert_bytes(p->prefix, "z#");
	assert_null(limit_policies_find(r.set, BYTES("b")));
	reading_release(&r);
}

static void refused(const char *text, const char *field)
{
	struct reading r;

	read_text(&r, text);
	if (r.set != NULL)
		fail_msg("accepted %s", text);
	if (strcmp(r.err.field, field) != 0)
		fail_msg("%s: named \"%s\" (%s), not \"%s\"", text, r.err.field, r.err.text, field);
	reading_release(&r);
}

TEST(limit_policy, refuses_and_names_the_field)
{
	refused("[]", "");
	refused("{\"a\":1}", "a");
	refused("{\"a\":{\"per\":\"day\"}}", "a.limit");
	refused("{\"a\":{\"limit\":1}}", "a.per");
	refused("{\"a\":{\"limit\":0,\"per\":\"day\"}}", "a.limit");
	refused("{\"a\":{\"limit\":1000000001,\"per\":\"day\"}}", "a.limit");
	refused("{\"a\":{\"limit\":1.5,\"per\":\"day\"}}", "a.limit");
	refused("{\"a\":{\"limit\":1,\"per\":\"fortnight\"}}", "a.per");
	refused("{\"a\":{\"limit\":1,\"per\":0}}", "a.per");
	refused("{\"a\":{\"limit\":1,\"per\":31622401}}", "a.per");
	refused("{\"a\":{\"limit\":1,\"per\":\"day\",\"burst\":2}}", "a.burst");
	refused("{\"a\":{\"algorithm\":\"gcra\",\"limit\":1,\"per\":\"day\",\"burst\":36601}}", "a.burst");
	refused("{\"a\":{\"limit\":1,\"per\":\"day\",\"near\":1.01}}", "a.near");
	refused("{\"a\":{\"limit\":1,\"per\":\"day\",\"near\":\"x\"}}", "a.near");
	refused("{\"a\":{\"limit\":1,\"per\":\"day\",\"algorithm\":\"leaky\"}}", "a.algorithm");
	refused("{\"a\":{\"limit\":1,\"per\":\"day\",\"engine\":\"redis\"}}", "a.engine");
	refused("{\"a\":{\"limit\":1,\"per\":\"day\",\"on_failure\":1}}", "a.on_failure");
	refused("{\"a\":{\"limit\":1,\"per\":\"day\",\"bursts\":1}}", "a.bursts");
	refused("{\"a\":{\"limit\":1,\"limit\":2,\"per\":\"day\"}}", "a.limit");
	refused("{\"a b\":{\"limit\":1,\"per\":\"day\"}}", "a b");
	refused("{\"a\":{\"limit\":1,\"per\":\"day\"},\"a\":{\"limit\":1,\"per\":\"day\"}}", "");
}

TEST(limit_policy, a_burst_that_comes_back_within_a_century_is_taken)
{
	struct reading r;

	read_text(&r, "{\"a\":{\"algorithm\":\"gcra\",\"limit\":1,\"per\":\"day\",\"burst\":36600}}");
	assert_non_null(r.set);
	reading_release(&r);
}

TEST(limit_policy, takes_as_many_and_as_long_names_as_the_bounds_say_and_no_more)
{
	char           name[LIMIT_NAME_MAX + 2] = {0}, text[LIMIT_POLICIES_MAX * 64];
	struct reading r;
	int            at;

	memset(name, 'n', LIMIT_NAME_MAX);
	snprintf(text, sizeof(text), "{\"%s\":{\"limit\":1,\"per\":31622400,\"near\":1}}", name);
	read_text(&r, text);
	assert_non_null(r.set);
	reading_release(&r);
	name[LIMIT_NAME_MAX] = 'n';
	snprintf(text, sizeof(text), "{\"%s\":{\"limit\":1,\"per\":1}}", name);
	read_text(&r, text);
	assert_null(r.set);
	reading_release(&r);
	for (int more = 0; more < 2; more++) {
		at = snprintf(text, sizeof(text), "{");
		for (int i = 0; i < LIMIT_POLICIES_MAX + more; i++)
			at += snprintf(text + at, sizeof(text) - (size_t)at,
			               "%s\"p%d\":{\"limit\":1,\"per\":1}", i == 0 ? "" : ",", i);
		snprintf(text + at, sizeof(text) - (size_t)at, "}");
		read_text(&r, text);
		assert_int_equal(r.set != NULL, more == 0);
		reading_release(&r);
	}
}

/* Each policy of the set, written and read again, is the same. */
static void assert_round_trip(struct limit_policies *set)
{
	struct buf         out;
	struct json_writer w;
	struct reading     r;

	buf_init(&out, NULL);
	json_writer_init(&w, &out);
	json_begin_object(&w);
	for (uint32_t i = 0; i < set->count; i++) {
		json_name(&w, set->list[i].name);
		limit_policy_write(&w, &set->list[i]);
	}
	json_end_object(&w);
	buf_add_byte(&out, '\0');
	read_text(&r, out.data);
	assert_non_null(r.set);
	assert_int_equal(r.set->count, set->count);
	for (uint32_t i = 0; i < set->count; i++) {
		assert_true(bytes_equal(r.set->list[i].prefix, set->list[i].prefix));
		assert_memory_equal(&r.set->list[i].rule, &set->list[i].rule, sizeof(struct limit_rule));
		assert_int_equal(r.set->list[i].engine, set->list[i].engine);
		assert_int_equal(r.set->list[i].inline_limit, set->list[i].inline_limit);
		assert_int_equal(r.set->list[i].inline_period.us, set->list[i].inline_period.us);
		assert_int_equal(r.set->list[i].fail_closed, set->list[i].fail_closed);
		assert_int_equal(r.set->list[i].keys.count, set->list[i].keys.count);
		for (uint32_t k = 0; k < set->list[i].keys.count; k++) {
			assert_true(bytes_equal(r.set->list[i].keys.list[k].text,
			                        set->list[i].keys.list[k].text));
			assert_int_equal(r.set->list[i].keys.list[k].list, set->list[i].keys.list[k].list);
			assert_memory_equal(&r.set->list[i].keys.list[k].rule,
			                    &set->list[i].keys.list[k].rule, sizeof(struct limit_rule));
		}
	}
	reading_release(&r);
	buf_release(&out);
}

TEST(limit_policy, that_lets_calls_bring_limits_along_says_how_high_and_how_long)
{
	struct reading             r;
	const struct limit_policy *p;

	read_text(&r, "{\"a\":{\"limit\":3,\"per\":60},\"b\":{\"limit\":3,\"per\":60,\"inline\":{}},"
	              "\"c\":{\"limit\":3,\"per\":60,\"inline\":{\"limit\":500,\"per\":\"hour\"}}}");
	assert_non_null(r.set);
	assert_int_equal(limit_policies_find(r.set, BYTES("a"))->inline_limit, 0);
	p = limit_policies_find(r.set, BYTES("b"));
	assert_int_equal(p->inline_limit, LIMIT_INLINE_UNITS);
	assert_int_equal(p->inline_period.us, INT64_C(86400000000));
	p = limit_policies_find(r.set, BYTES("c"));
	assert_int_equal(p->inline_limit, 500);
	assert_int_equal(p->inline_period.us, INT64_C(3600000000));
	assert_round_trip(r.set);
	reading_release(&r);
	read_text(&r, "{\"a\":{\"limit\":3,\"per\":60,\"inline\":{\"limit\":0}}}");
	assert_null(r.set);
	assert_non_null(strstr(r.err.text, "a.inline.limit"));
	reading_release(&r);
}

TEST(limit_policy, is_read_as_it_was_written)
{
	struct reading r;

	read_text(&r,
	          "{\"a\":{\"algorithm\":\"gcra\",\"limit\":5,\"per\":90,\"engine\":\"table\",\"prefix\":"
	          "\"\",\"block\":7,\"keys\":{\"b\":\"unlimited\",\"10.0.0.0/8\":{\"limit\":9,\"burst\":2},"
	          "\"c\":{\"limit\":1,\"per\":\"month\",\"block\":0}},\"allow\":[\"x\",\"192.0.2.1\"],"
	          "\"deny\":[\"::/0\"]}}");
	assert_round_trip(r.set);
	reading_release(&r);
}

TEST(limit_policy, what_ships_is_read)
{
	struct limit_policies *p;
	struct document       *made;
	struct json           *tree;
	struct arena           a;
	struct err             err;

	arena_init(&a);
	assert_int_equal(yaml_read(&a, policy_defaults(), &tree, &err), ERR_NONE);
	if (limit_policies_parse(json_get(tree, BYTES("limits")), &made, &err) != ERR_NONE)
		fail_msg("%s", err.text);
	p = (struct limit_policies *)made;
	assert_non_null(limit_policies_find(p, BYTES("login-ip")));
	assert_round_trip(p);
	limit_policies_release(p);
	arena_release(&a);
}

TEST(limit_policy, shards_need_the_table_and_a_unit_each)
{
	static const struct {
		const char *policy, *error;
	} wrong[] = {
	        {"{'limit':100,'per':1,'shards':2}", "p.shards: only valid with `engine: table`"},
	        {"{'limit':100,'per':1,'engine':'table','shards':17}",
	         "p.shards: must be from 1 to 16, not 17"},
	        {"{'limit':100,'per':1,'engine':'table','shards':0}",
	         "p.shards: must be from 1 to 16, not 0"},
	        {"{'limit':3,'per':1,'engine':'table','shards':4}",
	         "p.limit: must be at least `shards`, 4, and so must `burst`: each shard has its share"},
	        {"{'algorithm':'gcra','limit':30,'burst':3,'per':1,'engine':'table','shards':4}",
	         "p.limit: must be at least `shards`, 4, and so must `burst`: each shard has its share"},
	        {"{'limit':9,'per':1,'engine':'table','shards':4,'keys':{'k':{'limit':3}}}",
	         "p.keys.k.limit: must be at least `shards`, 4, and so must `burst`: each shard has its "
	         "share"},
	};
	struct reading r;

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		char text[200];

		snprintf(text, sizeof(text), "{'p':%s}", wrong[i].policy);
		for (char *c = text; *c != '\0'; c++)
			if (*c == '\'')
				*c = '"';
		read_text(&r, text);
		assert_null(r.set);
		assert_string_equal(r.err.text, wrong[i].error);
		reading_release(&r);
	}
	read_text(&r, "{\"p\":{\"limit\":16,\"per\":1,\"engine\":\"table\",\"shards\":16}}");
	assert_non_null(r.set);
	reading_release(&r);
}
