/* Tail: its rows by themselves: which are found, which are gone, which are given to the store, and who waits for a file. In an engine: log_test.c. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "engine/layout.h"
#include "engine/tail.h"
#include "test.h"

static struct bytes key_of(char text[32], unsigned number)
{
	snprintf(text, 32, "rTTTTPPPP%08u", number);
	return bytes_of(text);
}

static void add(struct tail *t, unsigned from, unsigned to)
{
	char text[32];

	for (unsigned i = from; i < to; i++) {
		struct bytes key = key_of(text, i);

		tail_add(t, layout_partition_number(key), &(struct cache_row){.key = key, .value = key});
	}
}

static void forget(struct tail *t, unsigned number)
{
	char         text[32];
	struct bytes key = key_of(text, number);

	tail_forget(t, layout_partition_number(key), key);
}

static enum tail_found find(struct tail *t, unsigned number)
{
	struct arena    a;
	struct bytes    value;
	enum tail_found found;
	char            text[32];

	arena_init(&a);
	found = tail_get(t, key_of(text, number), &a, &value);
	if (found == TAIL_FOUND)
		assert_bytes(value, text);
	arena_release(&a);
	return found;
}

struct given {
	unsigned numbers[100];
	size_t   count;
};

static void note(void *given, const struct cache_row *row)
{
	struct given *g = given;

	g->numbers[g->count++] = (unsigned)test_number(row->key, 9);
}

static struct given walk(struct tail *t, unsigned low, unsigned high, bool backward, size_t max)
{
	struct given g = {0};
	char         from[32], to[32];

	tail_each(t, &(struct tail_walk){key_of(from, low), key_of(to, high), backward, max}, note, &g);
	return g;
}

TEST(tail, gives_the_rows_of_a_range_that_are_not_gone_in_both_directions)
{
	struct tail  t;
	struct given g;

	tail_init(&t);
	add(&t, 0, 20);
	forget(&t, 11);
	g = walk(&t, 10, 14, false, 100);
	assert_true(g.count == 3 && g.numbers[0] == 10 && g.numbers[1] == 12 && g.numbers[2] == 13);
	g = walk(&t, 10, 14, true, 2);
	assert_true(g.count == 2 && g.numbers[0] == 13 && g.numbers[1] == 12);
	tail_seal(&t);
	add(&t, 20, 30);
	g = walk(&t, 18, 22, false, 100);
	assert_true(g.count == 4 && g.numbers[0] == 18 && g.numbers[3] == 21);
	assert_int_equal(walk(&t, 30, 40, false, 100).count, 0);
	tail_release(&t);
}

TEST(tail, finds_a_row_and_says_that_it_is_gone_and_knows_no_other)
{
	struct tail t;
	char        text[32];
	uint64_t    number = layout_partition_number(key_of(text, 0));

	tail_init(&t);
	assert_false(tail_has(&t, number));
	add(&t, 10, 12);
	tail_seal(&t);
	assert_true(find(&t, 10) == TAIL_FOUND && find(&t, 9) == TAIL_NONE && find(&t, 12) == TAIL_NONE);
	forget(&t, 10);
	forget(&t, 10);
	assert_true(find(&t, 10) == TAIL_GONE && find(&t, 11) == TAIL_FOUND && tail_has(&t, number));
	assert_false(tail_has(&t, number + 1));
	forget(&t, 11);
	assert_false(tail_has(&t, number));
	add(&t, 13, 14);
	assert_true(tail_has(&t, number));
	tail_forget_range(&t, BYTES("rTTTT"), BYTES("rTTTU"));
	assert_true(find(&t, 13) == TAIL_GONE);
	tail_release(&t);
}

TEST(tail, puts_each_row_that_is_not_gone_into_the_store_once)
{
	struct tail      t;
	struct cache_row rows[8];

	tail_init(&t);
	add(&t, 0, 10);
	forget(&t, 3);
	tail_seal(&t);
	add(&t, 10, 12);
	assert_int_equal(tail_some(&t, true, rows, 4), 4);
	assert_bytes(rows[3].key, "rTTTTPPPP00000004");
	tail_some_done(&t, 4);
	forget(&t, 6);
	assert_int_equal(tail_some(&t, true, rows, 8), 4);
	assert_bytes(rows[0].key, "rTTTTPPPP00000005");
	assert_bytes(rows[1].key, "rTTTTPPPP00000007");
	tail_some_done(&t, 4);
	assert_int_equal(tail_some(&t, true, rows, 8), 0);
	tail_drop(&t);
	assert_int_equal(tail_some(&t, false, rows, 8), 2); /* those that are open */
	tail_some_done(&t, 2);
	assert_true(find(&t, 11) == TAIL_GONE && find(&t, 5) == TAIL_NONE);
	assert_int_equal(t.rows_put, 10);
	tail_release(&t);
}

static unsigned count_file(const struct rocks_run *file)
{
	struct bytes key, value;
	unsigned     count = 0;

	while (file->next(file->ctx, &key, &value))
		count++;
	return count;
}

/* A run of which ten rows are sealed, one of them gone. */
static struct rocks_run sealed_file(struct tail *t)
{
	char text[32];

	tail_init(t);
	add(t, 0, 10);
	forget(t, 0);
	tail_seal(t);
	return tail_file(&t->sealed[layout_partition_number(key_of(text, 0)) % ENDS_MAX]);
}

TEST(tail, a_file_that_has_a_row_which_is_gone_since_is_not_taken)
{
	struct tail      t;
	struct cache_row rows[10];
	struct rocks_run file = sealed_file(&t);

	assert_int_equal(count_file(&file), 9);
	forget(&t, 5);
	assert_false(file.ready(file.ctx));
	file.done(file.ctx, false);
	assert_int_equal(tail_some(&t, true, rows, 10), 8);
	tail_release(&t);
}

TEST(tail, rows_of_a_file_that_was_taken_are_there_until_they_are_dropped)
{
	struct tail      t;
	struct cache_row rows[10];
	struct rocks_run file = sealed_file(&t);

	assert_int_equal(count_file(&file), 9);
	assert_true(file.ready(file.ctx));
	file.done(file.ctx, true);
	assert_int_equal(tail_some(&t, true, rows, 10), 0);
	assert_int_equal(find(&t, 5), TAIL_FOUND);
	forget(&t, 5);
	tail_drop(&t);
	assert_int_equal(find(&t, 5), TAIL_NONE);
	assert_int_equal(t.files, 1);
	tail_release(&t);
}

TEST(tail, rows_that_are_put_while_the_store_takes_their_file_are_not_taken_for_others)
{
	struct tail      t;
	struct cache_row rows[10];
	struct rocks_run file = sealed_file(&t);

	add(&t, 10, 30);
	count_file(&file);
	assert_true(file.ready(file.ctx));
	assert_int_equal(tail_some(&t, false, rows, 10), 10); /* nine of the file, and the next */
	file.done(file.ctx, true);
	tail_some_done(&t, 10);
	assert_true(find(&t, 10) == TAIL_GONE && find(&t, 11) == TAIL_FOUND && find(&t, 5) == TAIL_GONE);
	tail_drop(&t);
	assert_int_equal(tail_some(&t, false, rows, 10), 10);
	assert_bytes(rows[0].key, "rTTTTPPPP00000011");
	tail_release(&t);
}

TEST(tail, rows_that_the_store_did_not_take_are_not_done_when_it_takes_others)
{
	struct tail      t;
	struct cache_row rows[10];

	sealed_file(&t);
	add(&t, 10, 12);
	assert_int_equal(tail_some(&t, true, rows, 5), 5);
	assert_int_equal(tail_some(&t, false, rows, 10), 10);
	assert_int_equal(tail_some(&t, true, rows, 5), 5);
	tail_some_done(&t, 5);
	assert_true(find(&t, 5) == TAIL_GONE && find(&t, 6) == TAIL_FOUND && find(&t, 10) == TAIL_FOUND);
	tail_release(&t);
}

struct change_meanwhile {
	struct tail *tail;
	atomic_bool  begun, done;
};

static void *forget_five(void *change)
{
	struct change_meanwhile *c = change;

	atomic_store(&c->begun, true);
	forget(c->tail, 5);
	atomic_store(&c->done, true);
	return NULL;
}

/* (G3) */
TEST(tail, a_change_waits_while_the_store_takes_the_file)
{
	struct tail             t;
	struct rocks_run        file = sealed_file(&t);
	struct change_meanwhile change = {.tail = &t};
	pthread_t               thread;

	count_file(&file);
	assert_true(file.ready(file.ctx));
	assert_int_equal(pthread_create(&thread, NULL, forget_five, &change), 0);
	while (!atomic_load(&change.begun))
		;
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(find(&t, 5), TAIL_FOUND); /* and readers do not wait */
		assert_false(atomic_load(&change.done));
	}
	file.done(file.ctx, true);
	pthread_join(thread, NULL);
	assert_int_equal(find(&t, 5), TAIL_GONE);
	tail_release(&t);
}
