/* The text of /metrics, what it counts, and what of a request gets into the log. The route itself, over a
 * socket, is in dynamodb_http_test.c; that Prometheus reads the text is shown in tests/e2e/test_metrics.py. */
#include "test.h"

#include "api/api.h"
#include "api/dynamodb.h"
#include "api/exposition.h"
#include "api/metrics.h"
#include "api/meter.h"
#include "api/v1.h"
#include "base/log.h"
#include "engine/engine.h"

/* ---- the format ---- */

static struct buf text_begin(void)
{
	struct buf out;

	buf_init(&out, NULL);
	return out;
}

static void text_end(struct buf *out, const char *expected)
{
	assert_bytes(buf_bytes(out), expected);
	buf_release(out);
}

TEST(exposition, a_family_is_announced_with_help_and_type)
{
	struct buf out = text_begin();

	exposition_family(&out, "a_total", "counter", "Back\\slash, \"quotes\" and\nlines.");
	text_end(&out, "# HELP a_total Back\\\\slash, \"quotes\" and\\nlines.\n# TYPE a_total counter\n");
}

TEST(exposition, label_values_are_escaped)
{
	struct label labels[] = {{"a", BYTES_INIT("q\"b\\n\n")}, {"b", BYTES_INIT("")}};
	struct buf   out = text_begin();

	exposition_sample(&out, "m", (struct labels){labels, 2}, 1);
	text_end(&out, "m{a=\"q\\\"b\\\\n\\n\",b=\"\"} 1\n");
}

TEST(exposition, whole_numbers_are_exact_up_to_a_thousand_billions)
{
	struct buf out = text_begin();

	exposition_sample(&out, "m", (struct labels){NULL, 0}, 999999999999999);
	exposition_sample(&out, "m", (struct labels){NULL, 0}, 0);
	exposition_sample(&out, "m", (struct labels){NULL, 0}, 0.000001);
	text_end(&out, "m 999999999999999\nm 0\nm 1e-06\n");
}

TEST(exposition, a_histogram_is_cumulated_and_in_its_unit)
{
	static const struct metric_bounds bounds = {3, {50, 1000, 2500000}};
	static const uint64_t             values[] = {50, 51, 1000, 1001, 2500000, 2500001};
	struct label                      label = {"x", BYTES_INIT("y")};
	struct metric_histogram           h = {0};
	struct metric_reading             r = {0};
	struct buf                        out = text_begin();

	for (unsigned i = 0; i < 6; i++)
		metric_observe(&h, &bounds, values[i]);
	metric_read(&h, &r);
	exposition_histogram(&out, "s", (struct labels){&label, 1}, &bounds, 1e6, &r);
	exposition_histogram(&out, "n", (struct labels){NULL, 0}, &bounds, 1, &(struct metric_reading){0});
	text_end(&out, "s_bucket{x=\"y\",le=\"5e-05\"} 1\n"
	               "s_bucket{x=\"y\",le=\"0.001\"} 3\n"
	               "s_bucket{x=\"y\",le=\"2.5\"} 5\n"
	               "s_bucket{x=\"y\",le=\"+Inf\"} 6\n"
	               "s_sum{x=\"y\"} 5.002103\n"
	               "s_count{x=\"y\"} 6\n"
	               "n_bucket{le=\"50\"} 0\n"
	               "n_bucket{le=\"1000\"} 0\n"
	               "n_bucket{le=\"2.5e+06\"} 0\n"
	               "n_bucket{le=\"+Inf\"} 0\n"
	               "n_sum 0\n"
	               "n_count 0\n");
}

/* ---- the meter ---- */

TEST(meter, every_operation_fits)
{
	unsigned count = 0;

	while (operation_at(count) != NULL)
		count++;
	assert_in_range(count, 1, METER_OPERATIONS_MAX);
}

TEST(meter, each_operation_and_outcome_is_counted_apart_and_shards_are_added_up)
{
	struct meter *m = calloc(1, sizeof(*m));

	for (unsigned i = 0; operation_at(i) != NULL; i++)
		for (unsigned c = 0; c < METER_OUTCOMES; c++)
			for (unsigned n = 0; n < i + c; n++)
				meter_note(&m->shards[n % METER_SHARDS], meter_operation_row(operation_at(i)),
				           c, 70);
	for (unsigned i = 0; operation_at(i) != NULL; i++) {
		struct metric_reading r = meter_latency(m, meter_operation_row(operation_at(i)));

		for (unsigned c = 0; c < METER_OUTCOMES; c++)
			assert_int_equal(meter_requests(m, meter_operation_row(operation_at(i)), c), i + c);
		assert_int_equal(metric_reading_count(&r),
		                 METER_OUTCOMES * i + METER_OUTCOMES * (METER_OUTCOMES - 1) / 2);
		assert_int_equal(r.buckets[1], metric_reading_count(&r));
	}
	assert_int_equal(meter_requests(m, 0, ERR_NONE), 0);
	free(m);
}

TEST(meter, a_clock_that_stands_counts_as_no_time)
{
	struct meter         *m = calloc(1, sizeof(*m));
	struct metric_reading r;

	meter_note(&m->shards[0], 0, ERR_UNKNOWN_OPERATION, -1);
	r = meter_latency(m, 0);
	assert_int_equal(meter_requests(m, 0, ERR_UNKNOWN_OPERATION), 1);
	assert_int_equal(r.buckets[0], 1);
	assert_int_equal(r.sum, 0);
	free(m);
}

/* ---- the whole text ---- */

struct house {
	char           dir[64];
	struct engine *engine;
	struct api     api;
	struct buf     text; /* ends with a NUL */
};

static bool is_ready(void *ctx)
{
	(void)ctx;
	return true;
}

static void house_open(struct house *h)
{
	struct engine_options options;
	struct err            err;

	memset(h, 0, sizeof(*h));
	strcpy(h->dir, "/tmp/gatehouse-metrics-XXXXXX");
	log_set_level(LOG_ERROR);
	assert_non_null(mkdtemp(h->dir));
	options = engine_options_default(h->dir);
	options.disk_reserve_bytes = 1 << 20;
	if (engine_open(&h->engine, &options, &err) != ERR_NONE)
		fail_msg("%s", err.text);
	api_init(&h->api, &(struct api_parts){.store = engine_store(h->engine),
	                                      .clock = clock_system(),
	                                      .ready = is_ready});
	buf_init(&h->text, NULL);
}

static void house_close(struct house *h)
{
	char command[100];

	buf_release(&h->text);
	engine_close(h->engine);
	snprintf(command, sizeof(command), "rm -rf '%s'", h->dir);
	assert_int_equal(system(command), 0);
}

static const char *scrape(struct house *h)
{
	buf_reset(&h->text);
	metrics_write(&h->api, &h->text);
	buf_add_byte(&h->text, '\0');
	return h->text.data;
}

/* The value of a series, which must be there exactly once. */
static double value_of(const char *text, const char *series)
{
	const char *at, *found = NULL;
	size_t      len = strlen(series);
	double      value;

	for (at = text; (at = strstr(at, series)) != NULL; at += len) {
		if ((at != text && at[-1] != '\n') || at[len] != ' ')
			continue;
		if (found != NULL)
			fail_msg("%s is there twice", series);
		found = at;
	}
	if (found == NULL)
		fail_msg("there is no %s", series);
	assert_int_equal(sscanf(found + len, " %lf\n", &value), 1);
	return value;
}

static double requests(const char *text, const char *operation, const char *outcome)
{
	char series[200];

	snprintf(series, sizeof(series), "gatehouse_requests_total{operation=\"%s\",outcome=\"%s\"}",
	         operation, outcome);
	return value_of(text, series);
}

TEST(metrics, every_operation_and_outcome_is_there_from_the_start_and_once)
{
	struct house *h = malloc(sizeof(*h));
	const char   *text;

	house_open(h);
	text = scrape(h);
	for (unsigned i = 0; operation_at(i) != NULL; i++) {
		char name[64], series[200];

		snprintf(name, sizeof(name), "%.*s", BYTES_ARG(operation_at(i)->name));
		assert_true(requests(text, name, "ok") == 0);
		for (unsigned c = 1; c < METER_OUTCOMES; c++)
			assert_true(requests(text, name, err_name(c)) == 0);
		snprintf(series, sizeof(series), "gatehouse_request_seconds_count{operation=\"%s\"}", name);
		assert_true(value_of(text, series) == 0);
	}
	assert_true(requests(text, "unknown", "UnknownOperationException") == 0);
	house_close(h);
	free(h);
}

TEST(metrics, codes_of_one_name_are_one_series)
{
	struct house *h = malloc(sizeof(*h));

	house_open(h);
	assert_string_equal(err_name(ERR_OVERLOADED), err_name(ERR_DISK_FULL));
	meter_note(&h->api.meter.shards[0], meter_operation_row(operation_at(0)), ERR_OVERLOADED, 1);
	meter_note(&h->api.meter.shards[METER_SHARDS - 1], meter_operation_row(operation_at(0)),
	           ERR_DISK_FULL, 1);
	assert_true(requests(scrape(h), "UpdateItem", "ServiceUnavailable") == 2);
	house_close(h);
	free(h);
}

TEST(metrics, a_route_names_its_errors_by_their_type_and_dynamodb_by_their_exception)
{
	struct house *h = malloc(sizeof(*h));
	const char   *text;

	house_open(h);
	assert_false(meter_is_route(meter_operation_row(operation_at(0))));
	assert_true(meter_is_route(meter_route_row(0)));
	meter_note(&h->api.meter.shards[0], meter_route_row(0), ERR_NOT_FOUND, 1);
	meter_note(&h->api.meter.shards[1], meter_route_row(1), ERR_NOT_FOUND, 1);
	meter_note(&h->api.meter.shards[0], meter_operation_row(operation_at(0)), ERR_METHOD, 1);
	text = scrape(h);
	assert_true(
	        value_of(text,
	                 "gatehouse_errors_total{protocol=\"v1\",outcome=\"not-found\",status=\"404\"}") ==
	        2);
	assert_true(value_of(text, "gatehouse_errors_total{protocol=\"dynamodb\",outcome="
	                           "\"UnknownOperationException\",status=\"404\"}") == 1);
	assert_true(value_of(text, "gatehouse_errors_total{protocol=\"dynamodb\",outcome="
	                           "\"UnknownOperationException\",status=\"400\"}") == 0);
	assert_true(requests(text, v1_route_at(0)->action, "not-found") == 1);
	assert_null(strstr(text, "urn:gatehouse"));
	house_close(h);
	free(h);
}

TEST(metrics, the_engines_numbers_are_told)
{
	struct house *h = malloc(sizeof(*h));
	const char   *text;
	int64_t       before_us = clock_wall_us(clock_system());

	house_open(h);
	text = scrape(h);
	assert_true(value_of(text, "gatehouse_ready") == 1);
	assert_true(value_of(text, "gatehouse_disk_full") == 0);
	assert_true(value_of(text, "gatehouse_writing_failed") == 0);
	assert_true(value_of(text, "gatehouse_restarted_after_failed_flush") == 0);
	assert_true(value_of(text, "gatehouse_queue_bytes") == 0);
	assert_true(value_of(text, "gatehouse_connections") == 0); /* no server is watched */
	assert_true(value_of(text, "process_start_time_seconds") >= (double)(before_us / 1000000));
	assert_non_null(strstr(text, "\ngatehouse_flush_seconds_bucket{le=\"+Inf\"} "));
	assert_non_null(strstr(text, "\ngatehouse_batch_requests_bucket{le=\"1024\"} "));
	house_close(h);
	free(h);
}

TEST(metrics, background_work_is_told_thread_by_thread)
{
	struct house *h = malloc(sizeof(*h));
	const char   *text;
	double        runs;

	house_open(h);
	engine_tick(h->engine);
	runs = value_of(scrape(h), "gatehouse_worker_runs_total{worker=\"ticker\"}");
	engine_tick(h->engine);
	text = scrape(h);
	assert_true(value_of(text, "gatehouse_worker_runs_total{worker=\"ticker\"}") >=
	            runs + 1); /* it also runs by itself */
	assert_true(value_of(text, "gatehouse_worker_busy_seconds_total{worker=\"ticker\"}") > 0);
	assert_true(value_of(text, "gatehouse_worker_last_run_timestamp_seconds{worker=\"ticker\"}") > 1e9);
	assert_true(value_of(text, "gatehouse_worker_stuck_seconds{worker=\"ticker\"}") >= 0);
	assert_non_null(strstr(text, "\ngatehouse_worker_runs_total{worker=\"writer\"} "));
	house_close(h);
	free(h);
}

/* ---- the log ---- */

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"

TEST(request_log, a_trace_id_is_taken_from_a_well_formed_traceparent_only)
{
	static const char *const good[] = {"00-" TRACE "-00f067aa0ba902b7-01",
	                                   "00-" TRACE "-00f067aa0ba902b7-00",
	                                   "cc-" TRACE "-00f067aa0ba902b7-01",
	                                   "cc-" TRACE "-00f067aa0ba902b7-01-what the future brings"};
	static const char *const bad[] = {"",
	                                  "00-" TRACE "-00f067aa0ba902b7-0",
	                                  "00-" TRACE "-00f067aa0ba902b7-01-more",
	                                  "cc-" TRACE "-00f067aa0ba902b7-01.more",
	                                  "ff-" TRACE "-00f067aa0ba902b7-01",
	                                  "0g-" TRACE "-00f067aa0ba902b7-01",
	                                  "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
	                                  "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
	                                  "00-" TRACE "-0000000000000000-01",
	                                  "00-" TRACE "-00f067aa0ba902b7-0x",
	                                  "00_" TRACE "-00f067aa0ba902b7-01",
	                                  "00-" TRACE "_00f067aa0ba902b7-01",
	                                  "00-" TRACE "-00f067aa0ba902b7_01",
	                                  "00-4bf92f3577b34da6a3ce929d0e0e473\"-00f067aa0ba902b7-01"};

	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_bytes(traceparent_trace_id(bytes_of(good[i])), TRACE);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(traceparent_trace_id(bytes_of(bad[i])).len, 0);
	assert_int_equal(traceparent_trace_id((struct bytes){NULL, 0}).len, 0);
}

TEST(request_log, failures_of_ours_are_always_wanted_and_the_rest_when_asked_for)
{
	assert_false(request_log_wants(false, 200));
	assert_false(request_log_wants(false, 499));
	assert_true(request_log_wants(false, 500));
	assert_true(request_log_wants(false, 503));
	assert_true(request_log_wants(true, 200));
}
