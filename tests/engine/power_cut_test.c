/* Power cuts: an engine works, and every call that it makes to the disk is recorded (tape.h). Whatever a power cut after any of these calls leaves, the next start
 * comes up with exactly the state after some number of steps: no fewer than were acknowledged. So it does if the power is cut again while it starts. What the
 * engine does: rows in a log and rows that change, in one transaction per step; checkpoints, which make files of logs; merges of files; restarts.
 *
 * POWER_CUTS=5000 makes so many cuts of each kind instead of a few. SEED=n repeats a run. */
#define _GNU_SOURCE
#include "engine/long_log.h"
#include "engine/tape.h"

#include <time.h>

enum {
	STEPS = 60,
	STEP_ROWS = 60, /* that are added to the log */
	COUNTERS = 15,
	KEY_BYTES = 1500,
	CHECKPOINT_EVERY = 6,
	CUTS_FEW = 120,
	AGAIN_EVERY = 3, /* cuts, one is followed by another during recovery */
};

struct trial {
	struct fixture   f;
	char             dir[40], copy[48];
	struct recording work;
	struct random    random;
	uint64_t         seed;
	long             cuts;
};

/* ---- steps ---- */

/* The key of the counters' partition is long, and so is an edit of the list of files that names one of their keys: it has sectors that the next edit is not in. */
static const char *counters_key(void)
{
	static char key[KEY_BYTES + 1];

	memset(key, 'c', KEY_BYTES);
	return key;
}

/* Rows of the log, and one counter that says which step was the last to change it. */
static void step(struct fixture *f, int step)
{
	struct buf body;

	buf_init(&body, &f->arena);
	buf_add_bytes(&body,
	              arena_printf(&f->arena,
	                           "{'TransactItems':[{'Put':{'TableName':'things','Item':{'p':{'S':'%s'},"
	                           "'s':{'N':'%d'},'n':{'N':'%d'}}}}",
	                           counters_key(), step % COUNTERS, step));
	for (int i = 0; i < STEP_ROWS; i++)
		buf_add_bytes(
		        &body,
		        arena_printf(&f->arena,
		                     ",{'Put':{'TableName':'things','Item':{'p':{'S':'p'},'s':{'N':'%d'}}}}",
		                     (step - 1) * STEP_ROWS + i + 1));
	buf_add(&body, "]}", 3);
	tape_mark(2 * step - 1);
	fixture_ok(f, "TransactWriteItems", body.data);
	tape_mark(2 * step);
	arena_reset(&f->arena);
}

static void checkpoint(struct fixture *f)
{
	struct turn_request next = {.run = next_segment_run};

	assert_int_equal(engine_run(f->engine, &next, &f->err), ERR_NONE);
	if (checkpoint_run(f->engine, &f->err) != ERR_NONE)
		fail_msg("%s", f->err.text);
}

static void work(struct trial *t)
{
	struct fixture *f = &t->f;
	uint64_t        files = 0;

	fixture_start(f);
	fixture_ok(f, "CreateTable", TABLE_BY_N);
	for (int i = 1; i <= STEPS; i++) {
		step(f, i);
		if (i % CHECKPOINT_EVERY == 0)
			checkpoint(f);
		if (i % (STEPS / 3) == 0) {
			rocks_compact(f->engine->rocks);
			files += atomic_load(&f->engine->write_back.tail.files);
			fixture_restart(f);
			engine_build_filter(f->engine);
		}
	}
	files += atomic_load(&f->engine->write_back.tail.files);
	assert_true(files > 2); /* the log has files of its own */
}

/* ---- what is there ---- */

/* Of one partition: how many rows there are; each is asked about. -1: a read failed. */
static int rows_of(struct fixture *f, const char *partition, void (*each)(void *ctx, const struct item *item),
                   void *ctx)
{
	struct bytes body = arena_printf(&f->arena,
	                                 "{'TableName':'things','KeyConditionExpression':'p=:p','"
	                                 "ExpressionAttributeValues':{':p':{'S':'%s'}}}",
	                                 partition);
	union answer r;

	memset(&r, 0, sizeof(r));
	if (fixture_try(f, "Query", body.data, &r) != ERR_NONE)
		return -1;
	for (uint32_t i = 0; i < r.query.count; i++)
		each(ctx, &r.query.items[i]);
	return (int)r.query.count;
}

struct found_rows {
	int64_t next; /* of the log */
	int64_t counters[COUNTERS];
	bool    wrong;
};

static void see_log(void *ctx, const struct item *item)
{
	struct found_rows *s = ctx;

	s->wrong |= number_in(item) != s->next++;
}

static void see_counter(void *ctx, const struct item *item)
{
	struct found_rows *s = ctx;
	int64_t            number = number_in(item);

	if (number < 0 || number >= COUNTERS)
		s->wrong = true;
	else
		s->counters[number] = count_in(item);
}

/* The counters of a state after so many steps. */
static bool counters_are(const struct found_rows *s, int64_t steps)
{
	for (int64_t i = 0; i < COUNTERS; i++) {
		int64_t last = steps - (steps - i) % COUNTERS;

		if (s->counters[i] != (steps < i || last < 1 ? 0 : last))
			return false;
	}
	return true;
}

/* NULL, or what is wrong. */
static const char *judge(struct fixture *f, int64_t mark)
{
	struct found_rows s = {.next = 1};
	union answer      table;
	int64_t           steps;

	memset(&table, 0, sizeof(table));
	if (fixture_try(f, "DescribeTable", "{'TableName':'things'}", &table) != ERR_NONE)
		return mark == 0 ? NULL : "the table is not there";
	if (rows_of(f, "p", see_log, &s) < 0 || rows_of(f, counters_key(), see_counter, &s) < 0)
		return f->err.text;
	steps = (s.next - 1) / STEP_ROWS;
	if (s.wrong || (s.next - 1) % STEP_ROWS != 0)
		return "rows of the log are missing, or a part of a step is there";
	if (steps < mark / 2)
		return "an acknowledged step is lost";
	if (steps > (mark + 1) / 2)
		return "there is a step that was never begun";
	if (!counters_are(&s, steps))
		return "the counters are those of another step";
	return engine_verify(f->engine, &f->err) != ERR_NONE ||
	                       engine_verify_counts(f->engine, &f->err) != ERR_NONE
	               ? f->err.text
	               : NULL;
}

/* Opens the copy. NULL, or what is wrong. */
static const char *start_and_judge(struct trial *t, int64_t mark)
{
	const char *wrong;

	if (engine_open(&t->f.engine, &t->f.options, &t->f.err) != ERR_NONE)
		return t->f.err.text;
	wrong = judge(&t->f, mark);
	engine_close(t->f.engine);
	arena_reset(&t->f.arena);
	return wrong;
}

/* ---- cuts ---- */

/* Half of them come while the list of files is written to: between the two edits of an append, or before it is synced. */
static void cut_once(struct trial *t, const struct recording *r, struct power_cut *cut)
{
	cut->at = power_cut_place(r, random_below(&t->random, 2) == 0 ? "MANIFEST-" : NULL, &t->random);
	power_cut(r, cut, &t->random, t->copy);
}

/* A cut while the copy is opened: what that did is recorded, and cut. */
static const char *cut_again(struct trial *t, struct power_cut cut, int64_t mark)
{
	struct recording recovery;
	const char      *wrong;

	tape_begin(t->copy);
	wrong = start_and_judge(t, mark);
	tape_end();
	recording_take(&recovery);
	if (wrong == NULL) {
		cut_once(t, &recovery, &cut);
		wrong = start_and_judge(t, mark);
	}
	recording_release(&recovery);
	return wrong;
}

/* NULL, or what is wrong. */
static const char *cut_and_judge(struct trial *t, bool by_sector, const char *liar, bool again)
{
	struct power_cut cut = {.by_sector = by_sector, .liar = liar};
	int64_t          mark;

	cut_once(t, &t->work, &cut);
	mark = power_cut_mark(&t->work, &cut);
	t->f.options.path = t->copy;
	return again ? cut_again(t, cut, mark) : start_and_judge(t, mark);
}

static void trial_open(struct trial *t)
{
	const char *cuts = getenv("POWER_CUTS");
	const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* the disk is simulated */

	*t = (struct trial){.seed = random_seed(), .cuts = cuts != NULL ? strtol(cuts, NULL, 10) : CUTS_FEW};
	if (cuts != NULL)
		alarm(0);
	t->random = (struct random){t->seed};
	printf("seed %llu\n", (unsigned long long)t->seed);
	snprintf(t->dir, sizeof(t->dir), "%s/gatehouse-test-XXXXXX", where);
	assert_non_null(mkdtemp(t->dir));
	snprintf(t->copy, sizeof(t->copy), "%s-copy", t->dir);
	fixture_init(&t->f, t->dir);
	log_set_level((enum log_level)(LOG_ERROR + 1)); /* torn tails are no news here */
	t->f.options.journal_segment_bytes = 32 << 10;
	tape_begin(t->dir);
	work(t);
	tape_end();
	recording_take(&t->work);
	engine_close(t->f.engine);
}

static void trial_close(struct trial *t)
{
	char line[128];

	recording_release(&t->work);
	snprintf(line, sizeof(line), "rm -rf %s", t->copy);
	assert_int_equal(system(line), 0);
	fixture_release(&t->f);
}

static void assert_survives(bool by_sector)
{
	static struct trial t;
	const char         *wrong;

	trial_open(&t);
	for (long i = 0; i < t.cuts; i++) {
		wrong = cut_and_judge(&t, by_sector, NULL, i % AGAIN_EVERY == 0);
		if (wrong != NULL)
			fail_msg("SEED=%llu, cut %ld of %zu calls: %s", (unsigned long long)t.seed, i,
			         t.work.count, wrong);
	}
	trial_close(&t);
}

TEST(power_cut, by_file_loses_no_acknowledged_step_and_leaves_what_opens)
{
	assert_survives(false);
}

TEST(power_cut, by_sector_loses_no_acknowledged_step_and_leaves_what_opens)
{
	assert_survives(true);
}

/* The control: of a disk that says it has flushed the journal and has not, something is lost, and it is noticed. */
TEST(power_cut, of_a_disk_that_does_not_flush_the_journal_is_noticed)
{
	static struct trial t;
	int                 lost = 0;

	trial_open(&t);
	for (int i = 0; i < CUTS_FEW / 2; i++)
		lost += cut_and_judge(&t, i % 2 == 0, "journal/", false) != NULL;
	assert_true(lost > 0);
	trial_close(&t);
}
