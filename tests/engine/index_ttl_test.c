/* Index and TTL: whoever asks an index that does not hold the time to live sees entries and rows of one moment: neither
 * half a transaction, nor an entry of a row that had expired as the entry knows it. */
#include "engine/crew.h"

enum {
	RESTING = 150,
	WANDERER = 1000,
	ROUNDS = 1500,
	LATER_S = START_S + 100000,
	EARLIER_S = START_S - 100000
};

static struct item thing(struct arena *a, int64_t number, int64_t n, int64_t expires_s)
{
	struct item  item = key_numbered(a, number);
	struct value count = value_i64(n), expires = value_i64(expires_s);

	item = item_with(a, &item, BYTES("n"), &count);
	return item_with(a, &item, BYTES("ttl"), &expires);
}

static void put(struct worker *w, const struct item *item)
{
	struct table_write one = {.kind = TABLE_PUT, .table = BYTES("things"), .item = *item};
	struct crew_write  q = {.writes = &one, .count = 1};

	worker_write(w, &q);
}

static void open_with_things(struct fixture *f)
{
	fixture_open(f);
	fixture_ok(f, "CreateTable", TABLE_BY_N);
	fixture_ok(f, "UpdateTimeToLive",
	           "{'TableName':'things','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'ttl'}}");
	for (int i = 0; i < RESTING; i++)
		fixture_ok(
		        f, "PutItem",
		        arena_printf(
		                &f->arena,
		                "{'TableName':'things','Item':{'p':{'S':'p'},'s':{'N':'%d'},'n':{'N':'%d'}}}",
		                i, i)
		                .data);
}

static bool ask_index(struct worker *w, struct table_query_result *r)
{
	struct table_query q = query_p(&w->arena, "by-n");

	if (worker_query(w, &q, r) == ERR_NONE)
		return true;
	worker_note(w, "%s", w->err.text);
	return false;
}

/* One thing wanders between two rows, each time in one transaction. */
static void wander(struct worker *w)
{
	for (int i = 0; i < ROUNDS && worker_goes_on(w); i++) {
		int64_t            from = WANDERER + i % 2, to = WANDERER + (i + 1) % 2;
		struct table_write moves[2] = {{.kind = TABLE_DELETE,
		                                .table = BYTES("things"),
		                                .key = key_numbered(&w->arena, from)},
		                               {.kind = TABLE_PUT,
		                                .table = BYTES("things"),
		                                .item = thing(&w->arena, to, to, LATER_S)}};
		struct crew_write  q = {.writes = moves, .count = 2};

		worker_write(w, &q);
	}
}

static void count_things(struct worker *w)
{
	struct table_query_result r;

	while (worker_goes_on(w) && ask_index(w, &r))
		if (r.count != RESTING + 1)
			worker_note(w, "the index shows %u things, and there are always %d", r.count,
			            RESTING + 1);
}

TEST(index_ttl, shows_whole_transactions)
{
	static struct crew c;

	open_with_things(&c.f);
	fixture_ok(&c.f, "PutItem",
	           arena_printf(&c.f.arena,
	                        "{'TableName':'things','Item':{'p':{'S':'p'},'s':{'N':'%d'},'n':{'N':'%d'},"
	                        "'ttl':{'N':'%d'}}}",
	                        WANDERER, WANDERER, LATER_S)
	                   .data);
	crew_hire(&c, 1, false, wander);
	crew_hire(&c, 2, true, count_things);
	crew_work(&c);
	fixture_close(&c.f);
}

/* As WANDERER it has expired whenever it is written, as twice that it lives. */
static void flip(struct worker *w)
{
	for (int i = 0; i < ROUNDS && worker_goes_on(w); i++) {
		struct item expired = thing(&w->arena, WANDERER, WANDERER, EARLIER_S);
		struct item alive = thing(&w->arena, WANDERER, 2 * WANDERER, LATER_S);

		put(w, i % 2 == 0 ? &alive : &expired);
	}
}

static void look_for_expired(struct worker *w)
{
	struct table_query_result r;

	while (worker_goes_on(w) && ask_index(w, &r))
		for (uint32_t i = 0; i < r.count; i++)
			if (count_in(&r.items[i]) == WANDERER)
				worker_note(w, "the index shows what had expired before it was written");
}

TEST(index_ttl, does_not_show_what_had_expired_because_it_lives_again_as_something_else)
{
	static struct crew c;

	open_with_things(&c.f);
	crew_hire(&c, 1, false, flip);
	crew_hire(&c, 2, true, look_for_expired);
	crew_work(&c);
	fixture_close(&c.f);
}
