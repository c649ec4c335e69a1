/* Scene: a store whose levels hold several files each, files of logs among them, rows that wait in the journal, and a table that was deleted; and a ledger
 * of what each row must be. Readings compare with the ledger: a read may fail, because the disk does, but what it answers is right. The ledger is shared
 * with children: a process that ends halfway leaves in it what was acknowledged.
 *
 * Rows are numbered: first those of the subjects, ROWS of each, then those of a log. */
#ifndef TESTS_ENGINE_SCENE_H
#define TESTS_ENGINE_SCENE_H

#include <time.h>

#include "engine/apart.h"
#include "engine/fixture.h"
#include "engine/journal.h"
#include "engine/partition.h"
#include "engine/state.h"
#include "random.h"

enum {
	SUBJECTS = 150,
	ROWS = 6,
	SUBJECT_ROWS = SUBJECTS * ROWS,
	LOG_FIRST_ROWS = PARTITION_WHOLE_ROWS_MAX + ENDS_IN_ORDER + 25, /* after which a log has a tail */
	LOG_FILE_ROWS = 60,
	LOG_FILES = 4,
	LOG_ROWS_MAX = 3 * LOG_FIRST_ROWS,
	NUMBERS = SUBJECT_ROWS + LOG_ROWS_MAX,
	GROUPS = 7, /* of the index */
	PAD_BYTES = 120,
	SCENE_FILE_BYTES = 16 << 10,
	WRITES_AT_ONCE = 25,
	PAGE_ROWS = 70,
	GONE_ROWS = 300, /* of the deleted table */
};

struct ledger {
	/* n of each row, 0 if there is none: as last acknowledged, and as last sent. They differ if no answer came: then either is right. */
	uint32_t acknowledged[NUMBERS], sent[NUMBERS];
	uint32_t log_end;        /* the number of its next row */
	int      order[NUMBERS]; /* in which a Scan comes to them */
	unsigned right, failed, wrong;
	char     first_wrong[256]; /* what it was */
	char     last_failure[ERR_TEXT_MAX];
};

struct scene {
	struct fixture f;
	struct ledger *ledger;
};

/* ---- how much, and what ---- */

/* Of `make campaign`: how many times as much as is tested otherwise; 0: it is none. */
static inline unsigned scene_campaign(void)
{
	const char *text = getenv("CAMPAIGN");

	return text == NULL ? 0 : (unsigned)atoi(text);
}

/* It is printed, so that SEED=N can repeat a run. */
static inline uint64_t scene_seed(void)
{
	uint64_t chosen = random_seed();

	printf("seed %llu\n", (unsigned long long)chosen);
	return chosen;
}

/* ---- the ledger ---- */

__attribute__((format(printf, 2, 3))) static inline void ledger_wrong(struct ledger *l, const char *format,
                                                                      ...)
{
	va_list args;

	if (l->wrong++ > 0)
		return;
	va_start(args, format);
	vsnprintf(l->first_wrong, sizeof(l->first_wrong), format, args);
	va_end(args);
}

/* The row was read; n is 0 if it was said to be absent. */
static inline void ledger_saw(struct ledger *l, const char *how, int number, int64_t n)
{
	if (n == l->acknowledged[number] || n == l->sent[number])
		l->right++;
	else
		ledger_wrong(l, "%s: row %d is %lld, and not %u", how, number, (long long)n,
		             l->acknowledged[number]);
}

static inline void ledger_failed(struct ledger *l, const struct err *err)
{
	l->failed++;
	snprintf(l->last_failure, sizeof(l->last_failure), "%s", err->text);
}

static inline bool ledger_has(const struct ledger *l, int number)
{
	return l->acknowledged[number] != 0 && l->sent[number] != 0;
}

/* ---- rows ---- */

static inline bool is_of_log(int number)
{
	return number >= SUBJECT_ROWS;
}

static inline struct value hash_of(struct arena *a, int number)
{
	if (is_of_log(number))
		return value_string(BYTES("log"));
	return value_string(arena_printf(a, "subject-%d", number / ROWS));
}

static inline struct item key_of(struct arena *a, int number)
{
	struct value p = hash_of(a, number);
	struct value s = value_i64(is_of_log(number) ? number : number % ROWS);
	struct item  key = {0};

	key = item_with(a, &key, BYTES("p"), &p);
	return item_with(a, &key, BYTES("s"), &s);
}

/* Its pad is the same each time, and no other row's. */
static inline struct item item_of(struct arena *a, int number, int64_t n)
{
	struct random random = {(uint64_t)number << 32 | (uint64_t)n};
	struct value  g = value_string(arena_printf(a, "g%d", number % GROUPS)), count = value_i64(n), pad;
	struct item   item = key_of(a, number);
	char         *text = arena_alloc(a, PAD_BYTES);

	for (int i = 0; i < PAD_BYTES; i++)
		text[i] = (char)('a' + random_below(&random, 26));
	pad = value_string((struct bytes){text, PAD_BYTES});
	item = item_with(a, &item, BYTES("g"), &g);
	item = item_with(a, &item, BYTES("n"), &count);
	return item_with(a, &item, BYTES("pad"), &pad);
}

static inline int64_t i64_in(const struct item *item, const char *name)
{
	const struct value *v = item_get(item, bytes_of(name));
	int64_t             n = -1;

	if (v != NULL && v->type == VALUE_N)
		number_to_i64(&v->number, &n);
	return n;
}

static inline int number_in(const struct item *item)
{
	const struct value *p = item_get(item, BYTES("p"));
	int                 subject = 0;

	if (p->text.data[0] == 'l')
		return (int)i64_in(item, "s");
	sscanf(p->text.data, "subject-%d", &subject);
	return subject * ROWS + (int)i64_in(item, "s");
}

/* ---- writing ---- */

struct scene_put {
	struct turn_request base;
	struct arena       *arena;
	struct table_write *writes;
	uint32_t            count;
};

static inline enum err_code scene_put_run(struct turn_request *w, struct table *t)
{
	struct scene_put               *p = (struct scene_put *)w;
	struct table_batch_write        q = {p->writes, p->count};
	struct table_batch_write_result r;

	return t->backend->batch_write(t, p->arena, &q, &r, &w->err);
}

/* These rows get this n, in one turn. False if it failed: then nothing says whether they have. */
static inline bool scene_put(struct scene *s, const int *numbers, uint32_t count, int64_t n)
{
	struct arena    *a = &s->f.arena;
	struct scene_put put = {.base = {.run = scene_put_run, .cost_bytes = 100},
	                        .arena = a,
	                        .writes = arena_zalloc(a, count * sizeof(struct table_write)),
	                        .count = count};

	for (uint32_t i = 0; i < count; i++) {
		put.writes[i] =
		        (struct table_write){.table = BYTES("things"), .item = item_of(a, numbers[i], n)};
		s->ledger->sent[numbers[i]] = (uint32_t)n;
	}
	if (engine_run(s->f.engine, &put.base, &s->f.err) != ERR_NONE) {
		ledger_failed(s->ledger, &s->f.err);
		return false;
	}
	for (uint32_t i = 0; i < count; i++)
		s->ledger->acknowledged[numbers[i]] = (uint32_t)n;
	arena_reset(a);
	return true;
}

/* All rows of subjects whose number leaves this rest. */
static inline void scene_put_subjects(struct scene *s, int modulus, int rest, int64_t n)
{
	int      numbers[WRITES_AT_ONCE];
	uint32_t count = 0;

	for (int i = 0; i < SUBJECT_ROWS; i++) {
		if (i % modulus == rest)
			numbers[count++] = i;
		if (count == WRITES_AT_ONCE || (i == SUBJECT_ROWS - 1 && count > 0)) {
			scene_put(s, numbers, count, n);
			count = 0;
		}
	}
}

static inline void scene_append(struct scene *s, int count, int64_t n)
{
	int numbers[WRITES_AT_ONCE];

	while (count > 0) {
		uint32_t some = 0;

		for (; some < WRITES_AT_ONCE && count > 0; count--)
			numbers[some++] = (int)s->ledger->log_end++;
		scene_put(s, numbers, some, n);
	}
}

/* The journal is the writer's. */
static inline enum err_code scene_next_segment(struct turn_request *w, struct table *t)
{
	return journal_next_segment(((struct engine_session *)t)->engine->journal, &w->err);
}

static inline enum err_code scene_checkpoint(struct scene *s)
{
	struct turn_request next = {.run = scene_next_segment};

	if (engine_run(s->f.engine, &next, &s->f.err) != ERR_NONE)
		return s->f.err.code;
	return checkpoint_run(s->f.engine, &s->f.err);
}

/* ---- reading ---- */

static inline void read_rows(struct scene *s, struct table *t)
{
	for (int i = 0; i < (int)s->ledger->log_end; i++) {
		struct table_get        q = {.table = BYTES("things"), .key = key_of(&s->f.arena, i)};
		struct table_get_result r;

		if (t->backend->get(t, &s->f.arena, &q, &r, &s->f.err) != ERR_NONE)
			ledger_failed(s->ledger, &s->f.err);
		else
			ledger_saw(s->ledger, "GetItem", i, r.found ? i64_in(&r.item, "n") : 0);
		arena_reset(&s->f.arena);
	}
}

/* The rows of a walk, as the ledger has them in its order. */
struct reading {
	struct scene      *scene;
	const char        *how;
	struct table_query query;
	const int         *order; /* of all that it may come to, forward */
	int                count, at;
};

/* All up to this row, if there is one; all that are left otherwise. */
static inline void reading_comes_to(struct reading *r, const struct item *item)
{
	struct ledger *l = r->scene->ledger;
	int            number = item == NULL ? -1 : number_in(item);

	for (; r->at < r->count; r->at++) {
		int expected = r->order[r->query.backward ? r->count - 1 - r->at : r->at];

		if (expected == number)
			break;
		if (ledger_has(l, expected))
			ledger_wrong(l, "%s: row %d was passed over", r->how, expected);
	}
	if (item == NULL)
		return;
	if (r->at == r->count)
		ledger_wrong(l, "%s: row %d came out of order", r->how, number);
	else
		ledger_saw(l, r->how, number, i64_in(item, "n"));
	r->at++;
}

/* Page by page; one that fails ends it. */
static inline void reading_run(struct reading *r, struct table *t)
{
	struct scene             *s = r->scene;
	struct table_query_result page;
	struct item               start;
	struct arena              a;

	arena_init(&a);
	do {
		if (t->backend->query(t, &a, &r->query, &page, &s->f.err) != ERR_NONE) {
			ledger_failed(s->ledger, &s->f.err);
			break;
		}
		for (uint32_t i = 0; i < page.count; i++)
			reading_comes_to(r, &page.items[i]);
		if (!page.more)
			reading_comes_to(r, NULL);
		start = page.last_key;
		r->query.start = &start;
	} while (page.more);
	arena_release(&a);
}

static inline struct expr_key_condition *key_is(struct arena *a, const char *name, struct value value)
{
	struct expr_key_condition *key = arena_zalloc(a, sizeof(*key));

	*key = (struct expr_key_condition){.hash_name = bytes_of(name), .hash = value};
	return key;
}

static inline void read_partitions(struct scene *s, struct table *t, bool backward)
{
	int order[NUMBERS];

	for (int i = 0; i < NUMBERS; i++)
		order[i] = i;
	for (int i = 0; i <= SUBJECTS; i++) {
		struct reading r = {
		        .scene = s,
		        .how = backward ? "Query backward" : "Query",
		        .query = {.table = BYTES("things"), .backward = backward, .limit = PAGE_ROWS},
		        .order = order + i * ROWS,
		        .count = i < SUBJECTS ? ROWS : LOG_ROWS_MAX};

		r.query.key = key_is(&s->f.arena, "p", hash_of(&s->f.arena, i * ROWS));
		reading_run(&r, t);
		arena_reset(&s->f.arena);
	}
}

static inline void read_all(struct scene *s, struct table *t, uint32_t limit)
{
	struct reading r = {.scene = s,
	                    .how = limit == 0 ? "Scan" : "Scan in pages",
	                    .query = {.table = BYTES("things"), .limit = limit},
	                    .order = s->ledger->order,
	                    .count = NUMBERS};

	reading_run(&r, t);
}

/* What the index has of a group comes in an order of its own. */
static inline void read_group(struct scene *s, struct table *t, int group)
{
	static bool               seen[NUMBERS];
	struct table_query        q = {.table = BYTES("things"), .index = BYTES("by-g"), .limit = PAGE_ROWS};
	struct table_query_result page;
	struct item               start;

	memset(seen, 0, sizeof(seen));
	q.key = key_is(&s->f.arena, "g", value_string(arena_printf(&s->f.arena, "g%d", group)));
	do {
		if (t->backend->query(t, &s->f.arena, &q, &page, &s->f.err) != ERR_NONE) {
			ledger_failed(s->ledger, &s->f.err);
			return;
		}
		for (uint32_t i = 0; i < page.count; i++) {
			seen[number_in(&page.items[i])] = true;
			ledger_saw(s->ledger, "index", number_in(&page.items[i]),
			           i64_in(&page.items[i], "n"));
		}
		start = page.last_key;
		q.start = &start;
	} while (page.more);
	for (int i = group; i < NUMBERS; i += GROUPS)
		if (!seen[i] && ledger_has(s->ledger, i))
			ledger_wrong(s->ledger, "index: row %d was passed over", i);
}

/* A write that needs the row to be absent: as an attempt of somebody who is locked, it must not get through. */
static inline void read_conditions(struct scene *s)
{
	for (int i = 0; i < SUBJECT_ROWS; i += 5) {
		struct bytes body = arena_printf(
		        &s->f.arena,
		        "{'TableName':'things','Item':{'p':{'S':'subject-%d'},'s':{'N':'%d'},'g':{'S':'g%d'},"
		        "'n':{'N':'999'}},'ConditionExpression':'attribute_not_exists(p)'}",
		        i / ROWS, i % ROWS, i % GROUPS);
		union answer r;

		if (fixture_try(&s->f, "PutItem", body.data, &r) != ERR_NONE)
			ledger_failed(s->ledger, &s->f.err);
		else if (!r.write.condition_failed && ledger_has(s->ledger, i))
			ledger_wrong(s->ledger, "PutItem: a condition took row %d for absent", i);
		arena_reset(&s->f.arena);
	}
}

/* By every kind of read. */
static inline void scene_read(struct scene *s)
{
	struct fixture_reader reader;

	fixture_reader_begin(&reader, &s->f);
	read_all(s, reader.table, 0);
	read_all(s, reader.table, PAGE_ROWS);
	read_rows(s, reader.table);
	read_partitions(s, reader.table, false);
	read_partitions(s, reader.table, true);
	for (int i = 0; i < GROUPS; i++)
		read_group(s, reader.table, i);
	fixture_reader_end(&reader);
	arena_reset(&s->f.arena);
}

static inline void scene_forget_failures(struct scene *s)
{
	s->ledger->failed = 0;
}

static inline void scene_forget_readings(struct scene *s)
{
	s->ledger->right = s->ledger->failed = s->ledger->wrong = 0;
}

static inline void assert_none_wrong(struct scene *s, const char *where)
{
	if (s->ledger->wrong > 0)
		fail_msg("%s: %u of %u readings are wrong: %s", where, s->ledger->wrong,
		         s->ledger->wrong + s->ledger->right, s->ledger->first_wrong);
}

/* Each row can be read, and is right. */
static inline void assert_scene(struct scene *s, const char *where)
{
	scene_forget_readings(s);
	scene_read(s);
	assert_none_wrong(s, where);
	if (s->ledger->failed > 0)
		fail_msg("%s: %u reads failed: %s", where, s->ledger->failed, s->ledger->last_failure);
}

/* ---- making it ---- */

#define TABLE_SCENE                                                                                          \
	"{'TableName':'%s','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'AttributeName':'p',"    \
	"'AttributeType':'S'},{'AttributeName':'s','AttributeType':'N'},{'AttributeName':'g',"               \
	"'AttributeType':'S'}],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'},{'AttributeName':'s',"    \
	"'KeyType':'RANGE'}],'GlobalSecondaryIndexes':[{'IndexName':'by-g','KeySchema':[{"                   \
	"'AttributeName':'g','KeyType':'HASH'}],'Projection':{'ProjectionType':'ALL'}}]}"

static inline void scene_create(struct scene *s, const char *table)
{
	char body[1024];

	snprintf(body, sizeof(body), TABLE_SCENE, table);
	fixture_ok(&s->f, "CreateTable", body);
}

static inline void scene_fill_gone(struct scene *s)
{
	for (int i = 0; i < GONE_ROWS; i++) {
		struct bytes body = arena_printf(
		        &s->f.arena,
		        "{'TableName':'gone','Item':{'p':{'S':'p%d'},'s':{'N':'1'},'g':{'S':'g'}}}", i);

		fixture_ok(&s->f, "PutItem", body.data);
		arena_reset(&s->f.arena);
	}
}

/* Partitions by the order in which a Scan comes to them; rows of one lie together. */
static inline void scene_learn_order(struct scene *s)
{
	struct table_query        q = {.table = BYTES("things")};
	struct table_query_result r;
	struct fixture_reader     reader;
	int                       count = 0, before = -1;

	fixture_reader_begin(&reader, &s->f);
	assert_int_equal(reader.table->backend->query(reader.table, &s->f.arena, &q, &r, &s->f.err),
	                 ERR_NONE);
	assert_false(r.more);
	for (uint32_t i = 0; i < r.count; i++) {
		int number = number_in(&r.items[i]), first = is_of_log(number) ? SUBJECT_ROWS : number;
		int rows = is_of_log(number) ? LOG_ROWS_MAX : 1;

		if (is_of_log(number) && before >= SUBJECT_ROWS)
			continue;
		before = number;
		for (int j = 0; j < rows; j++)
			s->ledger->order[count++] = first + j;
	}
	assert_int_equal(count, NUMBERS);
	fixture_reader_end(&reader);
	arena_reset(&s->f.arena);
}

static inline void scene_start(struct scene *s)
{
	fixture_start(&s->f);
	s->f.engine->write_back.tail.file_bytes_min = 1;
}

static inline void scene_init(struct scene *s, const char *dir, struct ledger *ledger)
{
	memset(s, 0, sizeof(*s));
	s->ledger = ledger;
	fixture_init(&s->f, dir);
	s->f.options.store_file_bytes = SCENE_FILE_BYTES;
	s->f.options.block_cache_bytes = 64 << 10; /* little is remembered of the time before */
	s->f.options.cache_bytes_max = 256 << 10;
	s->f.options.checks_absent = false; /* it would read ahead of the test, and say nothing */
}

/* Leaves it open. Of both families the last level has several files; rows of others are in level 0, and in the journal alone. */
static inline void scene_make(struct scene *s)
{
	s->ledger->log_end = SUBJECT_ROWS;
	scene_start(s);
	scene_create(s, "gone");
	scene_create(s, "things");
	scene_create(s, "later");
	scene_fill_gone(s);
	scene_put_subjects(s, 1, 0, 1);
	scene_append(s, LOG_FIRST_ROWS, 1);
	scene_learn_order(s);
	assert_int_equal(scene_checkpoint(s), ERR_NONE);
	assert_int_equal(engine_compact(s->f.engine, &s->f.err), ERR_NONE);
	for (int i = 0; i < LOG_FILES; i++) {
		scene_append(s, LOG_FILE_ROWS, 1);
		assert_int_equal(scene_checkpoint(s), ERR_NONE);
	}
	fixture_ok(&s->f, "DeleteTable", "{'TableName':'gone'}");
	scene_put_subjects(s, 4, 1, 2);
	assert_int_equal(scene_checkpoint(s), ERR_NONE);
	assert_in_range(atomic_load(&s->f.engine->write_back.tail.files), LOG_FILES, LOG_FILES + 1);
	scene_put_subjects(s, 50, 2, 3);
}

/* For a test that needs but one, in its own process. */
static inline void scene_open(struct scene *s)
{
	char dir[] = "/tmp/gatehouse-test-XXXXXX";

	assert_non_null(mkdtemp(dir));
	scene_init(s, dir, shared_open(sizeof(struct ledger)));
	scene_make(s);
}

static inline void scene_close(struct scene *s)
{
	engine_close(s->f.engine);
	fixture_release(&s->f);
	shared_close(s->ledger, sizeof(*s->ledger));
}

#endif
