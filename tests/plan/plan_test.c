/* Plans: the arithmetic, by hand; the data that ships; what is refused and how it is said. */
#include "test.h"

#include <math.h>

#include "plan/plan.h"

#define PRICE(name, usd) "    " name ": {usd: " usd ", source: test}\n"
#define PRICES                                                                                               \
	"dated: 2026-01-02\nregions:\n  r:\n" PRICE("write_per_million", "1.25")                             \
	        PRICE("read_per_million", "0.25") PRICE("write_unit_hour", "0.001") PRICE(                   \
	                "read_unit_hour", "0.0002") PRICE("storage_gb_month", "0.25") PRICE("pitr_gb_month", \
	                                                                                    "0.2")           \
	                PRICE("backup_gb_month", "0.1") PRICE("stream_read_per_million", "0.2") PRICE(       \
	                        "kms_key_month",                                                             \
	                        "1") "    kms_rotation_month: {usd: 1, unverified: true, source: test}\n"

struct data {
	struct arena       a;
	struct err         err;
	struct plan_units  units;
	struct plan_prices prices;
	struct plan        plan;
};

static void data_open(struct data *d)
{
	arena_init(&d->a);
	assert_int_equal(plan_units_read(plan_units_text(), &d->a, &d->units, &d->err), ERR_NONE);
	assert_int_equal(plan_prices_read(BYTES(PRICES), BYTES("r"), &d->a, &d->prices, &d->err), ERR_NONE);
	for (int i = 0; i < PLAN_CALL_COUNT; i++) { /* units that can be multiplied by heart */
		d->units.calls[0][i] = (struct plan_cost){1, 2};
		d->units.calls[1][i] = (struct plan_cost){10, 20};
	}
	for (int i = 0; i < PLAN_STORE_COUNT; i++)
		d->units.stores[i] = 1000;
	for (int i = 0; i < PLAN_WORK_COUNT; i++)
		d->units.works[i] = (struct plan_cost){3, 4};
	for (int i = 0; i < PLAN_IDLE_COUNT; i++)
		d->units.idles[i] = (struct plan_cost){0.25, 0.125};
	d->units.background = (struct plan_cost){0.5, 0};
	d->units.tables = 3;
}

static void data_close(struct data *d)
{
	arena_release(&d->a);
}

static bool close_to(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

static const struct plan_input small = {.users = 1000,
                                        .devices_per_user = 2,
                                        .logins_per_day = 86400,
                                        .failed_percent = 10,
                                        .peak_factor = 10,
                                        .utilisation_percent = 50,
                                        .processes = 2,
                                        .event_days = 7,
                                        .no_events = true};

TEST(plan, adds_up_calls_rates_and_dollars)
{
	struct data       d;
	struct plan_input in = small;

	data_open(&d);
	plan_make(&in, &d.units, &d.prices, &d.plan);
	assert_true(close_to(d.plan.calls[PLAN_SIGN_IN].count, 77760));
	assert_true(close_to(d.plan.calls[PLAN_SIGN_IN_AFTER].count, 8640));
	assert_true(close_to(d.plan.calls[PLAN_FAILURE].count, 8640));
	assert_true(close_to(d.plan.per_day.writes, 2 * 95040));
	assert_true(close_to(d.plan.per_day.reads,
	                     95040 + 86400)); /* two processes, half a unit per second each */
	assert_true(close_to(d.plan.average.writes, 2.2));
	assert_true(close_to(d.plan.peak.writes, 22));
	assert_true(close_to(d.plan.peak.reads, 11 + 1)); /* what idle processes ask has no peak */
	assert_true(close_to(d.plan.write_capacity, 44));
	assert_true(close_to(d.plan.read_capacity, 24));
	assert_true(close_to(d.plan.costs[0].on_demand, 190080 * 30 / 1e6 * 1.25));
	assert_true(close_to(d.plan.costs[0].provisioned, 44 * 720 * 0.001));
	assert_true(close_to(d.plan.stores[PLAN_STORE_DEVICE].bytes, 2000 * 1000));
	assert_true(close_to(d.plan.stores[PLAN_STORE_FAILURE].count,
	                     8640 / 12 * 10)); /* two hours of the peak */
	assert_true(close_to(d.plan.bytes, (1000 + 2000 + 7200) * 1000));
	assert_int_equal(d.plan.cost_count, 3);
	assert_false(d.plan.unverified);
	in.no_events = false;
	in.new_users_per_day = 10;
	plan_make(&in, &d.units, &d.prices, &d.plan);
	assert_true(close_to(d.plan.per_day.writes, 20 * 95050));
	assert_true(close_to(d.plan.stores[PLAN_STORE_USER_EVENTS].count, 70));
	data_close(&d);
}

TEST(plan, a_login_after_many_failures_is_one_login)
{
	struct data       d;
	struct plan_input in = small;

	data_open(&d);
	in.failed_percent = 300;
	plan_make(&in, &d.units, &d.prices, &d.plan);
	assert_true(close_to(d.plan.calls[PLAN_SIGN_IN].count, 0));
	assert_true(close_to(d.plan.calls[PLAN_SIGN_IN_AFTER].count, 86400));
	assert_true(close_to(d.plan.calls[PLAN_FAILURE].count, 3 * 86400));
	data_close(&d);
}

TEST(plan, push_targets_and_consumers_are_counted_and_those_that_wait_have_no_peak)
{
	struct plan_input in = {.users = 1,
	                        .peak_factor = 10,
	                        .utilisation_percent = 50,
	                        .new_users_per_day = 10,
	                        .new_devices_per_day = 5,
	                        .locks_per_day = 2,
	                        .messages_per_day = 100,
	                        .broadcast_messages_per_day = 1000,
	                        .targets = 3,
	                        .consumers = 2};
	const double      events = 10 * 2 + 5 + 2 * 2;
	struct data       d;
	struct plan_line *works;

	data_open(&d);
	plan_make(&in, &d.units, &d.prices, &d.plan);
	works = &d.plan.calls[PLAN_CALL_COUNT];
	assert_true(close_to(works[PLAN_MESSAGE].reads, 300) && close_to(works[PLAN_MESSAGE].writes, 400));
	assert_true(close_to(works[PLAN_BROADCAST_MESSAGE].reads, 3000));
	assert_true(close_to(works[PLAN_RECEIPT].count, 1100));
	assert_true(close_to(works[PLAN_EVENT_DELIVERED].count, 3 * events));
	assert_true(close_to(works[PLAN_EVENT_CONSUMED].writes, 2 * events * 4));
	assert_true(close_to(d.plan.calls[PLAN_IDLE_LINE + 1].reads, 3 * 0.25 * 86400)); /* targets */
	assert_true(close_to(d.plan.calls[PLAN_IDLE_LINE + 2].writes, 2 * 0.125 * 86400));
	in.peak_factor = 1;
	in.new_users_per_day = in.new_devices_per_day = in.locks_per_day = 0;
	in.messages_per_day = in.broadcast_messages_per_day = 0;
	plan_make(&in, &d.units, &d.prices, &d.plan);
	assert_true(close_to(d.plan.peak.reads, 5 * 0.25) && close_to(d.plan.average.reads, 5 * 0.25));
	in.no_events = true;
	in.new_users_per_day = 10;
	plan_make(&in, &d.units, &d.prices, &d.plan);
	assert_true(close_to(d.plan.calls[PLAN_CALL_COUNT + PLAN_EVENT_DELIVERED].count, 0));
	data_close(&d);
}

TEST(plan, provisioned_tables_have_a_unit_each_at_least)
{
	struct data       d;
	struct plan_input in = {
	        .users = 1, .logins_per_day = 1, .peak_factor = 1, .utilisation_percent = 100};

	data_open(&d);
	plan_make(&in, &d.units, &d.prices, &d.plan);
	assert_true(close_to(d.plan.write_capacity, 3));
	assert_true(close_to(d.plan.read_capacity, 3));
	data_close(&d);
}

/* A key costs one price, its first two rotations one each, later ones nothing. */
TEST(plan, rotations_of_a_key_are_named_where_they_cost)
{
	static const double expected[] = {1, 2, 3, 3, 3};
	struct data         d;
	struct plan_input   in = small;

	data_open(&d);
	in.kms = true;
	for (unsigned i = 0; i < 5; i++) {
		double sum = 0;

		in.kms_rotations = i;
		plan_make(&in, &d.units, &d.prices, &d.plan);
		for (unsigned c = 3; c < d.plan.cost_count; c++)
			sum += d.plan.costs[c].on_demand;
		assert_true(close_to(sum, expected[i]));
		assert_int_equal(d.plan.unverified, i > 0); /* of the prices that are used */
	}
	in.pitr = true;
	in.backups = 2;
	in.stream_reads_per_day = 1000000;
	plan_make(&in, &d.units, &d.prices, &d.plan);
	assert_int_equal(d.plan.cost_count, 8);
	assert_true(close_to(d.plan.costs[3].on_demand, d.plan.bytes / 1e9 * 0.2));
	assert_true(close_to(d.plan.costs[4].on_demand, d.plan.bytes / 1e9 * 0.1 * 2));
	assert_true(close_to(d.plan.costs[5].on_demand, 30 * 0.2));
	data_close(&d);
}

TEST(plan, everything_at_its_maximum_is_still_a_number)
{
	struct data       d;
	struct plan_input in = {.users = 1000000000,
	                        .devices_per_user = 1000,
	                        .logins_per_day = 10000000000,
	                        .failed_percent = 100000,
	                        .second_factor_percent = 1000,
	                        .locks_per_day = 10000000000,
	                        .checks_per_login = 1000,
	                        .limits_per_login = 1000,
	                        .peak_factor = 1000,
	                        .utilisation_percent = 1,
	                        .processes = 10000,
	                        .event_days = 3650,
	                        .backups = 1000,
	                        .pitr = true};

	data_open(&d);
	for (int i = 0; i < PLAN_CALL_COUNT; i++)
		d.units.calls[1][i] = (struct plan_cost){PLAN_UNITS_MAX, PLAN_UNITS_MAX};
	for (int i = 0; i < PLAN_PRICE_COUNT; i++)
		d.prices.list[i].usd = PLAN_USD_MAX;
	plan_make(&in, &d.units, &d.prices, &d.plan);
	assert_true(isfinite(d.plan.on_demand) && isfinite(d.plan.provisioned) && isfinite(d.plan.bytes));
	assert_true(d.plan.on_demand > 0);
	data_close(&d);
}

/* ---- data ---- */

TEST(plan, the_data_that_ships_is_in_order_and_says_what_nobody_verified)
{
	static const char *const regions[] = {"us-east-1", "us-east-1-before-2024-11"};
	struct data              d;

	arena_init(&d.a);
	assert_int_equal(plan_units_read(plan_units_text(), &d.a, &d.units, &d.err), ERR_NONE);
	for (int i = 0; i < PLAN_CALL_COUNT; i++) {
		assert_true(d.units.calls[1][i].reads + d.units.calls[1][i].writes >= 1);
		assert_true(d.units.calls[1][i].writes >= d.units.calls[0][i].writes); /* events cost */
	}
	for (unsigned r = 0; r < 2; r++) {
		if (plan_prices_read(plan_prices_text(), bytes_of(regions[r]), &d.a, &d.prices, &d.err) !=
		    ERR_NONE)
			fail_msg("%s", d.err.text);
		for (int i = 0; i < PLAN_PRICE_COUNT; i++)
			assert_true(d.prices.list[i].usd > 0 && d.prices.list[i].source.len > 0 &&
			            d.prices.list[i].unverified);
	}
	arena_release(&d.a);
}

static void assert_refused(const char *text, const char *error)
{
	struct plan_prices prices;
	struct arena       a;
	struct err         err;

	arena_init(&a);
	assert_int_not_equal(plan_prices_read(bytes_of(text), BYTES("r"), &a, &prices, &err), ERR_NONE);
	assert_string_equal(err.text, error);
	arena_release(&a);
}

TEST(plan, a_wrong_file_of_prices_is_refused_with_the_line)
{
	assert_refused("", "line 1: must be an object, not null");
	assert_refused("dated: 2026-01-02\n", "line 1: regions: missing");
	assert_refused("dated: 2026-01-02\nregions: {}\n", "line 2: regions: must have at least one region");
	assert_refused("dated: 2026-01-02\nregions:\n  r: {write_per_million: {usd: -1, source: x}}\n",
	               "line 3: regions.r.write_per_million.usd: must be a number from 0 to 1000000");
	assert_refused("dated: 2026-01-02\nregions:\n  r: {write_per_million: {usd: 1000001, source: x}}\n",
	               "line 3: regions.r.write_per_million.usd: must be a number from 0 to 1000000");
	assert_refused("dated: 2026-01-02\nregions:\n  r: {write_per_million: {usd: 1}}\n",
	               "line 3: regions.r.write_per_million.source: missing");
	assert_refused("dated: 2026-01-02\nregions:\n  r: {write_per_million: {usd: 1, source: x}}\n",
	               "line 3: regions.r.read_per_million: missing");
	assert_refused(PRICES "  s: {write_per_million: 1}\n",
	               "line 14: regions.s.write_per_million: must be an object, not a number");
}

/* ---- estimates ---- */

/* The figures of the device token document: its arithmetic is right but for point-in-time recovery. */
TEST(plan, an_estimate_is_checked_figure_by_figure)
{
	static const char text[] =
	        "title: Device Tokens\n"
	        "load: {items: 20000, item_bytes: 400, writes_per_day: 10000, reads_per_day: 100000}\n"
	        "says: {bytes: 8000000, writes_per_second: 0.12, reads_per_second: 1.2, write_usd_per_day: "
	        "0.0125,\n"
	        "  read_usd_per_day: 0.025, usd_per_month: 1.13, pitr_usd_per_month: 0.02}\n";
	struct plan_verdict  v[PLAN_CLAIM_COUNT];
	struct plan_estimate e;
	struct data          d;

	data_open(&d);
	assert_int_equal(plan_estimate_read(BYTES(text), &d.a, &e, &d.err), ERR_NONE);
	plan_compare(&e, &d.prices, v);
	for (int i = 0; i < PLAN_CLAIM_COUNT; i++)
		assert_int_equal(v[i].right, i != PLAN_SAYS_PITR_USD_PER_MONTH);
	assert_true(close_to(v[PLAN_SAYS_PITR_USD_PER_MONTH].computed, 0.002));
	assert_true(close_to(v[PLAN_SAYS_PITR_USD_PER_MONTH].times, 10));
	assert_true(close_to(v[PLAN_SAYS_WRITE_USD_PER_DAY].computed, 0.0125));
	e.units_per_read = 0.5; /* as DynamoDB counts such reads */
	e.says[PLAN_SAYS_BYTES] = -1;
	plan_compare(&e, &d.prices, v);
	assert_false(v[PLAN_SAYS_READ_USD_PER_DAY].right);
	assert_true(close_to(v[PLAN_SAYS_READ_USD_PER_DAY].times, 2));
	assert_false(v[PLAN_SAYS_BYTES].made);
	data_close(&d);
}
