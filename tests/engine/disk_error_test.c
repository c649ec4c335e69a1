/* Disk errors: one call for a file fails with EIO, of each kind of call that the life of a server makes, from its start to its end. What was acknowledged is
 * there after the next start, however the life with the error went on; whatever a read answers in it is right; and if the server goes on, all can be read again.
 *
 * `make test` has one call fail of each kind that reads the store's files, and of some others, chosen at random. With CAMPAIGN=N in the environment up to N calls
 * of every kind fail, once and for good. SEED=N repeats a run, but for what threads make of it. KIND=TEXT has only kinds fail whose name holds it; SHOW=1 says how
 * each life went. */
#define _GNU_SOURCE
#include "engine/scene.h"

#include "engine/check.h"
#include "engine/disk_calls.h"

enum {
	LOG_AGAIN_ROWS = ENDS_IN_ORDER + 2 * WRITES_AT_ONCE, /* after which a start knows that it is a log */
	LOG_ROWS_LEFT = LOG_ROWS_MAX - LOG_FIRST_ROWS - LOG_FILES * LOG_FILE_ROWS - LOG_AGAIN_ROWS,
	FIRST_N = 10,
	KINDS_MIN = 100, /* by call, file and thread; about 170 */
	KINDS_SHORT = 20,
	LIFE_SECONDS_MAX = 60
};

struct sweep {
	struct disk_calls calls;
	struct ledger     ledger, made; /* of a life; as the scene was made */
	char              base[96], dir[64];
	bool              opened, closed; /* the life came that far */
	unsigned unhealed; /* reads that failed after the disk was well again, in a life that went on */
};

static struct sweep *sweep;

/* ---- a life ---- */

/* Of this kind, after so many have passed; NULL: none fails. */
static void arm(const char *kind, unsigned from, bool for_good)
{
	atomic_flag_clear(&sweep->calls.lock); /* a life may have ended with it */
	for (unsigned i = 0; i < sweep->calls.kind_count; i++)
		sweep->calls.kinds[i].count = 0;
	snprintf(sweep->calls.failing, CALL_NAME_MAX, "%s", kind == NULL ? "" : kind);
	sweep->calls.failing_from = from;
	sweep->calls.for_good = for_good;
	atomic_store(&sweep->calls.failed, false);
}

/* The store is a state of some time ago, and the journal has the rest. */
static void make_base(void *unused)
{
	struct scene s;
	char         line[256];

	(void)unused;
	scene_init(&s, sweep->dir, &sweep->ledger);
	scene_make(&s);
	snprintf(line, sizeof(line), "cp -r %s %s", sweep->dir, sweep->base);
	assert_int_equal(system(line), 0);
	engine_close(s.f.engine);
}

/* Rows of all kinds come, and go from the journal into files, which are merged; a table and an index come and go. Failures are noted, and it goes on. */
static void write_much(struct scene *s)
{
	union answer r;

	scene_put_subjects(s, 40, 3, FIRST_N);
	scene_append(s, LOG_AGAIN_ROWS, FIRST_N);
	scene_checkpoint(s);
	fixture_try(&s->f, "UpdateTable",
	            "{'TableName':'things','GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'by-n',"
	            "'KeySchema':[{'AttributeName':'n','KeyType':'HASH'}],'Projection':{'ProjectionType':"
	            "'KEYS_ONLY'}}}],'AttributeDefinitions':[{'AttributeName':'n','AttributeType':'N'}]}",
	            &r);
	engine_tick(s->f.engine);
	fixture_try(&s->f, "DeleteTable", "{'TableName':'later'}", &r);
	scene_append(s, WRITES_AT_ONCE, FIRST_N + 1);
	scene_checkpoint(s);
	engine_compact(s->f.engine, &s->f.err);
	scene_put_subjects(s, 40, 4, FIRST_N + 1);
}

static bool goes_on(struct scene *s)
{
	return engine_ready(s->f.engine) && write_back_is_whole(&s->f.engine->write_back) &&
	       rocks_failure(s->f.engine->rocks) == NULL;
}

/* After a failure that the disk got over; it may come only now. */
static void read_healed(struct scene *s)
{
	unsigned failed;
	bool     was_well;

	do {
		was_well = !atomic_load(&sweep->calls.failed);
		failed = s->ledger->failed;
		scene_read(s);
	} while (was_well && atomic_load(&sweep->calls.failed));
	if (!sweep->calls.for_good && goes_on(s))
		sweep->unhealed = s->ledger->failed - failed;
}

static void live(void *unused)
{
	struct scene s;

	(void)unused;
	alarm(LIFE_SECONDS_MAX);
	scene_init(&s, sweep->dir, &sweep->ledger);
	snprintf(sweep->calls.dir, sizeof(sweep->calls.dir), "%s", sweep->dir);
	if (engine_open(&s.f.engine, &s.f.options, &s.f.err) != ERR_NONE) {
		ledger_failed(s.ledger, &s.f.err);
		return;
	}
	s.f.engine->write_back.tail.file_bytes_min = 1;
	sweep->opened = true;
	engine_build_filter(s.f.engine);
	scene_read(&s);
	read_conditions(&s);
	write_much(&s);
	read_healed(&s);
	engine_close(s.f.engine);
	sweep->closed = true;
}

/* The store reads a log's file before it takes it. Each of these reads fails in turn, of one file after the other. */
static void live_with_files(void *unused)
{
	struct scene s;
	unsigned     from = 0;

	(void)unused;
	scene_init(&s, sweep->dir, &sweep->ledger);
	scene_start(&s);
	engine_build_filter(s.f.engine);
	scene_read(&s); /* after which the log is known to be large */
	scene_append(&s, LOG_AGAIN_ROWS, FIRST_N);
	assert_int_equal(scene_checkpoint(&s), ERR_NONE);
	snprintf(sweep->calls.dir, sizeof(sweep->calls.dir), "%s", sweep->dir);
	do {
		arm("pread log.run flusher", from++, false);
		scene_append(&s, 2, FIRST_N);
		assert_int_equal(scene_checkpoint(&s), ERR_NONE);
	} while (atomic_load(&sweep->calls.failed));
	sweep->calls.dir[0] = '\0';
	assert_in_range(from, 5, LOG_ROWS_LEFT / 2);
	engine_compact(s.f.engine, &s.f.err);
	scene_read(&s);
	engine_close(s.f.engine);
}

/* ---- what it left ---- */

static void on_progress(void *ctx, enum check_phase phase, unsigned percent, const struct check_found *found)
{
	(void)ctx;
	(void)phase;
	(void)percent;
	(void)found;
}

static void on_problem(void *ctx, const char *text)
{
	struct scene *s = ctx;

	ledger_wrong(s->ledger, "check: %s", text);
}

static void check_directory(struct scene *s)
{
	struct check_watch watch = {.ctx = s, .progress = on_progress, .problem = on_problem};
	struct check_found found;

	if (engine_check(sweep->dir, &watch, &found, &s->f.err) != ERR_NONE)
		ledger_wrong(s->ledger, "check: %s", s->f.err.text);
}

static void look_after(void *unused)
{
	struct scene s;

	(void)unused;
	scene_init(&s, sweep->dir, &sweep->ledger);
	scene_forget_failures(&s);
	check_directory(&s);
	if (engine_open(&s.f.engine, &s.f.options, &s.f.err) != ERR_NONE) {
		ledger_wrong(s.ledger, "it does not start: %s", s.f.err.text);
		return;
	}
	engine_build_filter(s.f.engine);
	scene_read(&s);
	if (s.ledger->failed > 0)
		ledger_wrong(s.ledger, "a read: %s", s.ledger->last_failure);
	if (engine_verify(s.f.engine, &s.f.err) != ERR_NONE ||
	    engine_verify_counts(s.f.engine, &s.f.err) != ERR_NONE)
		ledger_wrong(s.ledger, "%s", s.f.err.text);
	engine_close(s.f.engine);
}

/* ---- the sweep ---- */

static void make_directory(void)
{
	char line[256];

	snprintf(line, sizeof(line), "rm -rf %s && cp -r %s %s", sweep->dir, sweep->base, sweep->dir);
	assert_int_equal(system(line), 0);
	sweep->ledger = sweep->made;
	sweep->opened = sweep->closed = false;
	sweep->unhealed = 0;
}

static const char *outcome(int status)
{
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGALRM ? "hung" : "ended itself";
	return !sweep->opened ? "did not start" : sweep->closed ? "went on" : "?";
}

static void one_life(const char *kind, unsigned from, bool for_good)
{
	int status;

	alarm(TEST_PROGRAM_SECONDS_MAX); /* a campaign takes longer */
	make_directory();
	arm(kind, from, for_good);
	status = apart(live, NULL);
	sweep->calls.dir[0] = '\0';
	if (kind != NULL && getenv("SHOW") != NULL)
		printf("%-40s %5u%s: %s, %s%s%s\n", kind, from, for_good ? " …" : "",
		       atomic_load(&sweep->calls.failed) ? "failed" : "not met", outcome(status),
		       sweep->ledger.failed > 0 ? ": " : "",
		       sweep->ledger.failed > 0 ? sweep->ledger.last_failure : "");
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		ledger_wrong(&sweep->ledger, "it hung");
	if (sweep->unhealed > 0)
		ledger_wrong(&sweep->ledger, "%u reads failed after the disk was well again: %s",
		             sweep->unhealed, sweep->ledger.last_failure);
	status = apart(look_after, NULL);
	if (status != 0)
		ledger_wrong(&sweep->ledger, "the next start ended with %d", status);
}

static void assert_life(const char *kind, unsigned from, bool for_good)
{
	one_life(kind, from, for_good);
	if (sweep->ledger.wrong > 0)
		fail_msg("%s, call %u%s: %s (%s)", kind, from, for_good ? " and all after it" : "",
		         sweep->ledger.first_wrong, sweep->dir);
}

static void sweep_open(void)
{
	sweep = shared_open(sizeof(*sweep));
	disk_calls = &sweep->calls;
	snprintf(sweep->dir, sizeof(sweep->dir), "/tmp/gatehouse-test-XXXXXX");
	assert_non_null(mkdtemp(sweep->dir));
	snprintf(sweep->base, sizeof(sweep->base), "%s-base", sweep->dir);
	assert_int_equal(apart(make_base, NULL), 0);
	sweep->made = sweep->ledger;
}

static void sweep_close(void)
{
	char line[256];

	snprintf(line, sizeof(line), "rm -rf %s %s", sweep->dir, sweep->base);
	assert_int_equal(system(line), 0);
	shared_close(sweep, sizeof(*sweep));
}

/* So many of them, spread over all. */
static unsigned sweep_kind(const struct call_kind *kind, unsigned times, struct random *random)
{
	unsigned some = kind->count < times ? kind->count : times;

	for (unsigned i = 0; i < some; i++) {
		unsigned from = kind->count * i / some, to = kind->count * (i + 1) / some;

		from += (unsigned)random_below(random, to > from ? to - from : 1);
		assert_life(kind->name, from, false);
		if (scene_campaign() > 0)
			assert_life(kind->name, from, true);
	}
	return some;
}

static bool is_wanted(const char *kind, unsigned count, struct random *random)
{
	if (getenv("KIND") != NULL)
		return strstr(kind, getenv("KIND")) != NULL;
	return scene_campaign() > 0 || strstr(kind, "pread") == kind ||
	       random_below(random, count) < KINDS_SHORT;
}

TEST(disk_error, of_any_kind_loses_nothing_and_makes_nothing_absent)
{
	static struct call_kind kinds[CALL_KINDS_MAX];
	struct random           random = {scene_seed()};
	unsigned                count, calls = 0;

	sweep_open();
	assert_life(NULL, 0, false);
	assert_true(sweep->closed);
	assert_int_equal(sweep->ledger.failed, 0);
	count = sweep->calls.kind_count;
	memcpy(kinds, sweep->calls.kinds, sizeof(kinds));
	assert_in_range(count, KINDS_MIN, CALL_KINDS_MAX - 1);
	for (unsigned i = 0; i < count; i++)
		if (is_wanted(kinds[i].name, count, &random))
			calls += sweep_kind(&kinds[i], scene_campaign() > 0 ? scene_campaign() : 1, &random);
	printf("%u calls failed; there are %u kinds\n", calls, count);
	assert_true(calls > 0);
	sweep_close();
}

TEST(disk_error, in_a_file_of_a_log_that_the_store_is_to_take_leaves_its_rows_where_they_are)
{
	sweep_open();
	make_directory();
	assert_int_equal(apart(live_with_files, NULL), 0);
	assert_int_equal(apart(look_after, NULL), 0);
	if (sweep->ledger.wrong > 0)
		fail_msg("%s", sweep->ledger.first_wrong);
	sweep_close();
}
