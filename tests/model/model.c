/* Model test: random operations on the embedded engine, in process, compared with a model that does the same
 * in the simplest way there is. One seed is one sequence: a difference is replayed by giving its seed again.
 *
 *   [SEED=N] model [--operations N]
 *
 * Steps (step.h) are groups of writing requests submitted at once, reads, clock, sweeper, restarts. Every
 * call is compared when it is made; every CHECK_EVERY operations whole tables and indexes are, and
 * engine_verify looks at what no call shows. */
#include <time.h>

#include "base/log.h"
#include "model/step.h"

enum {
	START_S = 1789000000,
	OPERATIONS_DEFAULT = 60000,
	CHECK_EVERY = 4000,
	SAY_EVERY = 100000,
	SEGMENT_BYTES = 64 << 10, /* of the journal: a checkpoint is due after four */
};

/* ---- everything at once ---- */

static void check_whole(struct driver *d, struct table *t, int sheet, int side)
{
	struct query q = {.sheet = sheet, .side = side, .scan = true};

	call_run(prepare_this_query(d, &q), t);
}

static unsigned side_size(const struct driver *d, int sheet, const struct side *side)
{
	unsigned count = 0;

	for (int h = 0; h < HASHES; h++)
		for (int r = 0; r < RANGES; r++) {
			const struct record *record = world_get(&d->world, sheet, h, r);

			count += record != NULL &&
			         (side == NULL || side_has(&d->world.sheets[sheet], side, record));
		}
	return count;
}

static int side_named(const struct sheet *s, struct bytes name)
{
	for (int i = 0; i < SIDES; i++)
		if (s->sides[i].used && bytes_is(name, s->sides[i].name))
			return i;
	return -1;
}

/* Counts are exact where nothing ever expires. */
static void check_description(struct driver *d, struct table *t, int sheet)
{
	const struct sheet      *s = &d->world.sheets[sheet];
	struct call              c = {.driver = d, .number = d->operations, .operation = "DescribeTable"};
	struct table_description r;

	c.body = bytes_of(s->name);
	c.code = s->used ? ERR_NONE : ERR_NO_RESOURCE;
	if (!check_code(&c, BACKEND(&c, t, describe, c.body, &r)))
		return;
	for (uint32_t i = 0; i < r.schema.index_count; i++) {
		int side = side_named(s, r.schema.indexes[i].name);

		if (side < 0)
			call_differ(&c, "an index", BYTES("none by that name"), r.schema.indexes[i].name);
		check_number(&c, "an index's status", INDEX_ACTIVE, r.schema.indexes[i].status);
		if (!s->timed)
			check_number(&c, "the size of an index", side_size(d, sheet, &s->sides[side]),
			             r.index_item_counts[i]);
	}
	if (!s->timed)
		check_number(&c, "the size of a table", side_size(d, sheet, NULL), r.item_count);
}

static void check_all(struct driver *d)
{
	struct call           c = {.driver = d, .number = d->operations, .operation = "engine_verify"};
	struct engine_session reader;

	step_tick(d); /* indexes that are being filled are full after it */
	engine_session_init(&reader, d->engine);
	for (int s = 0; s < SHEETS; s++) {
		check_description(d, &reader.base, s);
		if (d->world.sheets[s].used)
			check_whole(d, &reader.base, s, -1);
		for (int i = 0; i < SIDES; i++)
			if (d->world.sheets[s].used && d->world.sheets[s].sides[i].used)
				check_whole(d, &reader.base, s, i);
	}
	engine_session_release(&reader);
	c.body = BYTES("all tables");
	if (engine_verify(d->engine, &d->err) != ERR_NONE)
		call_differ(&c, "the store", BYTES("indexes agree with their tables"), bytes_of(d->err.text));
	if (engine_compact(d->engine, &d->err) != ERR_NONE ||
	    engine_verify_counts(d->engine, &d->err) != ERR_NONE)
		call_differ(&c, "the store", BYTES("as many rows as are counted"), bytes_of(d->err.text));
	arena_reset(&d->arena);
}

/* ---- the run ---- */

static void driver_open(struct driver *d)
{
	snprintf(d->dir, sizeof(d->dir), "/tmp/gatehouse-model-XXXXXX");
	if (mkdtemp(d->dir) == NULL)
		exit(1);
	log_set_level(LOG_ERROR);
	d->world.random.state = d->seed;
	d->world.now_s = START_S;
	clock_manual_init(&d->clock, (int64_t)START_S * 1000000);
	arena_init(&d->arena);
	d->json = json_reader_open();
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->finished, NULL);
	for (int i = 0; i < TOKENS; i++)
		buf_init(&d->world.tokens[i].body, NULL);
	for (int i = 0; i < SHEETS; i++) {
		sheet_plan(&d->world, i);
		d->world.sheets[i].used = false;
	}
	d->options = engine_options_default(d->dir);
	d->options.clock = &d->clock.base;
	d->options.tick_ms = 3600 * 1000; /* only when the model says so, or a table changes */
	d->options.disk_reserve_bytes = 1 << 20;
	d->options.checks_absent = true;
	d->options.journal_segment_bytes = SEGMENT_BYTES;
	driver_start(d);
	log_open(d);
}

static void driver_close(struct driver *d)
{
	char command[128];

	engine_close(d->engine);
	world_keep(&d->world);
	free(d->world.undo);
	for (int i = 0; i < TOKENS; i++)
		buf_release(&d->world.tokens[i].body);
	json_reader_close(d->json);
	arena_release(&d->arena);
	snprintf(command, sizeof(command), "rm -rf %s", d->dir);
	if (system(command) != 0)
		exit(1);
}

static void run(struct driver *d, uint64_t operations)
{
	uint64_t check_at = CHECK_EVERY, say_at = SAY_EVERY;

	while (d->operations < operations) {
		step(d);
		if (d->operations >= check_at) {
			check_all(d);
			check_at = d->operations + CHECK_EVERY;
		}
		if (d->operations >= say_at) {
			printf("%llu operations\n", (unsigned long long)d->operations);
			fflush(stdout);
			say_at += SAY_EVERY;
		}
	}
	step_restart(d);
	check_all(d);
}

static uint64_t option(int argc, char **argv, const char *name, uint64_t otherwise)
{
	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return strtoull(argv[i + 1], NULL, 10);
	return otherwise;
}

int main(int argc, char **argv)
{
	struct driver *d = mem_zalloc(sizeof(*d));

	d->seed = random_seed();
	printf("seed %llu\n", (unsigned long long)d->seed);
	driver_open(d);
	run(d, option(argc, argv, "--operations", OPERATIONS_DEFAULT));
	driver_close(d);
	printf("%llu passed, 0 failed\n", (unsigned long long)(d->operations / 1000)); /* one a thousand */
	free(d);
	return 0;
}
