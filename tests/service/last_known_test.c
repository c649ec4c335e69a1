/* What this process last knew of rows at an endpoint: what it keeps, for how long, and what it must not pass for absent. */
#include "service/known.h"

TEST(known, rows_absent_rows_and_rows_of_which_nothing_is_known_are_three_things)
{
	struct known *k = memory(KNOWN_BYTES_MIN);
	struct arena  a;
	struct item   three;

	arena_init(&a);
	three = counted(&a, "ann", "S", 3);
	learn(k, "ann", "S", &three, 100);
	learn(k, "ann", "T", NULL, 200);
	assert_int_equal(recall(k, &a, "ann", "S", 0), 3);
	assert_int_equal(recall(k, &a, "ann", "T", 0), 0);
	assert_int_equal(recall(k, &a, "ann", "U", 0), -1);
	assert_int_equal(recall(k, &a, "bob", "S", 0), -1);
	assert_int_equal(recall(k, &a, "ann", "S", 101), -1); /* (4) */
	known_close(k);
	arena_release(&a);
}

TEST(known, all_rows_of_a_prefix_are_known_after_a_query_also_those_that_are_absent)
{
	struct known             *k = memory(KNOWN_BYTES_MIN);
	struct table_query_result r;
	struct known_ask          q = {.which = TABLE_AUTH_STATE,
	                               .pk = BYTES("ann"),
	                               .sk = BYTES("S#"),
	                               .since_us = 0,
	                               .arena = NULL};
	struct arena              a;
	struct item               one;

	arena_init(&a);
	q.arena = &a;
	assert_false(known_rows(k, &q, &r));
	one = counted(&a, "ann", "S#1", 7);
	learn_found(k, "ann", "S#", (struct table_query_result){.items = &one, .count = 1}, 1);
	assert_true(known_rows(k, &q, &r));
	assert_int_equal(r.count, 1);
	assert_int_equal(recall(k, &a, "ann", "S#1", 0), 7);
	assert_int_equal(recall(k, &a, "ann", "S#2", 0), 0);
	assert_int_equal(recall(k, &a, "ann", "T", 0), -1);
	known_close(k);
	arena_release(&a);
}

/* (1) */
TEST(known, memory_is_bounded_and_what_was_not_asked_for_longest_goes_first_but_not_what_is_pinned)
{
	struct known *k = memory(KNOWN_BYTES_MIN);
	struct arena  a;
	struct item   one;
	char          name[32];

	arena_init(&a);
	one = counted(&a, "x", "S", 1);
	learn(k, "pinned", "S", &one, 1);
	known_pin(k, TABLE_AUTH_STATE, BYTES("pinned"));
	for (int i = 0; i < 40000; i++) {
		snprintf(name, sizeof(name), "subject-%d", i);
		learn(k, name, "S", &one, 1);
		assert_true(known_read(k).bytes <= KNOWN_BYTES_MIN + 64 * 1024);
	}
	assert_true(known_read(k).forgotten > 10000);
	assert_int_equal(recall(k, &a, "subject-0", "S", 0), -1);
	assert_int_equal(recall(k, &a, "subject-39999", "S", 0), 1);
	assert_int_equal(recall(k, &a, "pinned", "S", 0), 1);
	known_close(k);
	arena_release(&a);
}

/* (1) As many as the spool has subjects: past the bound too. */
TEST(known, what_is_pinned_stays_also_if_there_is_nothing_else_to_forget)
{
	enum { PINNED_COUNT = 8000 };
	struct known *k = memory(KNOWN_BYTES_MIN);
	struct arena  a;
	struct item   one;
	char          name[32];

	arena_init(&a);
	one = counted(&a, "x", "S", 1);
	for (int i = 0; i < PINNED_COUNT; i++) {
		snprintf(name, sizeof(name), "pinned-%d", i);
		known_pin(k, TABLE_AUTH_STATE, bytes_of(name));
		known_put(k, &(struct known_write){.which = TABLE_AUTH_STATE,
		                                   .pk = bytes_of(name),
		                                   .sk = BYTES("S"),
		                                   .item = &one,
		                                   .ours = true});
	}
	assert_true(known_read(k).bytes > KNOWN_BYTES_MIN);
	assert_int_equal(known_read(k).partitions, PINNED_COUNT);
	for (int i = 0; i < PINNED_COUNT; i++) {
		snprintf(name, sizeof(name), "pinned-%d", i);
		known_unpin(k, TABLE_AUTH_STATE, bytes_of(name));
	}
	assert_true(known_read(k).bytes <= KNOWN_BYTES_MIN);
	known_close(k);
	arena_release(&a);
}

TEST(known, a_partition_keeps_as_many_rows_as_said_and_a_prefix_that_lost_one_is_not_known)
{
	struct known *k = memory(KNOWN_BYTES_MIN);
	struct arena  a;
	struct item   first;
	char          sk[32];

	arena_init(&a);
	first = counted(&a, "ann", "row-first", 1);
	learn_found(k, "ann", "row-", (struct table_query_result){.items = &first, .count = 1}, 1);
	for (int i = 2; i < KNOWN_ROWS_MAX; i++) {
		snprintf(sk, sizeof(sk), "other-%d", i);
		learn(k, "ann", sk, NULL, 1);
	}
	assert_int_equal(recall(k, &a, "ann", "row-first", 0), 1);
	assert_int_equal(recall(k, &a, "ann", "row-2", 0), 0);
	learn(k, "ann", "one-more", NULL, 1);
	assert_int_equal(recall(k, &a, "ann", "row-first", 0), -1);
	assert_int_equal(recall(k, &a, "ann", "row-2", 0), -1);
	known_close(k);
	arena_release(&a);
}

/* (2) A lock with a long history, say: a query would pass for "there is none". */
TEST(known, a_row_that_is_too_large_to_be_remembered_is_not_taken_for_absent)
{
	struct known             *k = memory(KNOWN_BYTES_MIN);
	struct table_query_result r;
	struct known_ask          q = {.which = TABLE_AUTH_STATE,
	                               .pk = BYTES("ann"),
	                               .sk = BYTES("S#"),
	                               .since_us = 0,
	                               .arena = NULL};
	struct arena              a;
	struct item               rows[2];
	struct row                large;
	char                     *text;

	arena_init(&a);
	q.arena = &a;
	text = arena_zalloc(&a, KNOWN_ROW_BYTES_MAX);
	memset(text, 'x', KNOWN_ROW_BYTES_MAX);
	rows[0] = counted(&a, "ann", "S#1", 1);
	row_from(&large, &a, &rows[0]);
	row_set_text(&large, "SK", BYTES("S#2"));
	row_set_text(&large, "history", (struct bytes){text, KNOWN_ROW_BYTES_MAX});
	rows[1] = row_item(&large);
	learn_found(k, "ann", "S#", (struct table_query_result){.items = rows, .count = 2}, 1);
	assert_false(known_rows(k, &q, &r));
	assert_int_equal(recall(k, &a, "ann", "S#2", 0), -1);
	assert_int_equal(recall(k, &a, "ann", "S#1", 0), 1);
	learn_found(k, "ann", "S#", (struct table_query_result){.items = rows, .count = 1}, 1);
	assert_true(known_rows(k, &q, &r));
	learn(k, "ann", "S#2", &rows[1], 2); /* … and so if it grew since */
	assert_false(known_rows(k, &q, &r));
	assert_int_equal(recall(k, &a, "ann", "S#2", 0), -1);
	known_close(k);
	arena_release(&a);
}

/* (2) … and so if there are too many, or a page does not hold them all. */
TEST(known, a_query_whose_rows_are_too_many_to_be_remembered_ends_what_was_known_of_its_prefix)
{
	struct known             *k = memory(KNOWN_BYTES_MIN);
	struct table_query_result r;
	struct known_ask          q = {.which = TABLE_AUTH_STATE,
	                               .pk = BYTES("ann"),
	                               .sk = BYTES("S#"),
	                               .since_us = 0,
	                               .arena = NULL};
	struct arena              a;
	struct item               rows[KNOWN_ROWS_MAX];

	arena_init(&a);
	q.arena = &a;
	for (int i = 0; i < KNOWN_ROWS_MAX; i++)
		rows[i] = counted(&a, "ann", arena_printf(&a, "S#%d", i).data, i);
	for (int more = 0; more < 2; more++) {
		learn_found(k, "ann", "S#",
		            (struct table_query_result){.items = rows, .count = KNOWN_ROWS_MAX - 1}, 1);
		assert_true(known_rows(k, &q, &r));
		assert_int_equal(r.count, KNOWN_ROWS_MAX - 1);
		learn_found(k, "ann", "S#",
		            (struct table_query_result){
		                    .items = rows, .count = more ? 1 : KNOWN_ROWS_MAX, .more = more},
		            2);
		assert_false(known_rows(k, &q, &r));
		assert_int_equal(recall(k, &a, "ann", "S#127", 0), -1);
		assert_int_equal(recall(k, &a, "ann", "S#5", 0), 5); /* as it was last read */
	}
	known_close(k);
	arena_release(&a);
}

/* (2) It was cleared through another process, say. */
TEST(known, a_row_that_a_query_no_longer_finds_is_gone_unless_it_is_newer)
{
	struct known *k = memory(KNOWN_BYTES_MIN);
	struct arena  a;
	struct item   one;

	arena_init(&a);
	one = counted(&a, "ann", "S#1", 7);
	learn(k, "ann", "S#1", &one, 10);
	learn(k, "ann", "S#2", &one, 30);
	learn(k, "ann", "T", &one, 10);
	learn_found(k, "ann", "S#", (struct table_query_result){0}, 20);
	assert_int_equal(recall(k, &a, "ann", "S#1", 0), 0);
	assert_int_equal(recall(k, &a, "ann", "S#2", 0), 7);
	assert_int_equal(recall(k, &a, "ann", "T", 0), 7);
	known_close(k);
	arena_release(&a);
}

/* (1b) Within a partition too: attempts from many sources leave a row each. */
TEST(known, a_lock_is_not_pushed_out_by_other_rows_of_its_subject_until_it_is_over)
{
	const int64_t second = 1000000;
	struct known *k = memory(KNOWN_BYTES_MIN);
	struct arena  a;
	struct item   one;
	char          sk[64];

	arena_init(&a);
	one = counted_until(&a, "ann", "S", 1000);
	learn(k, "ann", "SIGN_IN#LOCK#MFA_CODE_ENTRY", &one, second);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 2 * KNOWN_ROWS_MAX; i++) {
			snprintf(sk, sizeof(sk), "SIGN_IN#SOURCE_ERROR_COUNT#PASSWORD_ENTRY#ip:%d", i);
			learn(k, "ann", sk, &one, (round == 0 ? 2 : 2000) * second);
		}
		assert_int_equal(recall(k, &a, "ann", "SIGN_IN#LOCK#MFA_CODE_ENTRY", 0), round == 0 ? 1 : -1);
	}
	known_close(k);
	arena_release(&a);
}

/* (1b) */
TEST(known, those_whom_a_lock_keeps_out_and_those_who_came_again_are_not_pushed_out_by_strangers)
{
	const int64_t second = 1000000;
	struct known *k = memory(KNOWN_BYTES_MIN);
	struct arena  a;
	struct item   one;

	arena_init(&a);
	one = counted_until(&a, "x", "S", 1000);
	learn(k, "locked", "SIGN_IN#LOCK#PASSWORD_ENTRY", &one, second);
	learn(k, "again", "S", &one, second);
	learn(k, "again", "S", &one, (KNOWN_RETURN_S + 1) * second);
	learn(k, "once", "S", &one, (KNOWN_RETURN_S + 1) * second);
	strangers(k, &a, "stranger", 40000, 100 * second);
	assert_int_equal(recall(k, &a, "once", "S", 0), -1);
	assert_int_equal(recall(k, &a, "locked", "SIGN_IN#LOCK#PASSWORD_ENTRY", 0), 1);
	assert_int_equal(recall(k, &a, "again", "S", 0), 1);
	assert_int_equal(known_read(k).guards_forgotten, 0);
	assert_true(known_read(k).bytes <= KNOWN_BYTES_MIN);
	strangers(k, &a, "later", 40000, 2000 * second); /* the lock is over */
	assert_int_equal(recall(k, &a, "locked", "SIGN_IN#LOCK#PASSWORD_ENTRY", 0), -1);
	assert_int_equal(recall(k, &a, "again", "S", 0), 1);
	known_close(k);
	arena_release(&a);
}

/* (1b) … but whoever locks many does not take all of the memory. */
TEST(known, locks_have_half_of_the_memory)
{
	struct known *k = memory(KNOWN_BYTES_MIN);
	struct arena  a;
	struct item   one;
	char          name[32];

	arena_init(&a);
	one = counted(&a, "x", "S", 1);
	strangers(k, &a, "early", 1000, 1);
	for (int i = 0; i < 40000; i++) {
		snprintf(name, sizeof(name), "locked-%d", i);
		learn(k, name, "SIGN_IN#LOCK#PASSWORD_ENTRY", &one, 1);
		assert_true(known_read(k).bytes <= KNOWN_BYTES_MIN);
	}
	assert_true(known_read(k).guards_forgotten > 10000);
	assert_int_equal(recall(k, &a, "early-999", "S", 0), 1);
	assert_int_equal(recall(k, &a, "locked-0", "SIGN_IN#LOCK#PASSWORD_ENTRY", 0), -1);
	assert_int_equal(recall(k, &a, "locked-39999", "SIGN_IN#LOCK#PASSWORD_ENTRY", 0), 1);
	known_close(k);
	arena_release(&a);
}

/* (3) */
TEST(known, what_is_learned_of_a_pinned_partition_is_not_taken)
{
	struct known *k = memory(KNOWN_BYTES_MIN);
	struct arena  a;
	struct item   here, there;

	arena_init(&a);
	here = counted(&a, "ann", "S", 5);
	there = counted(&a, "ann", "S", 3);
	known_put(k, &(struct known_write){
	                     .which = TABLE_AUTH_STATE, .pk = BYTES("ann"), .sk = BYTES("S"), .item = &here});
	known_pin(k, TABLE_AUTH_STATE, BYTES("ann"));
	learn(k, "ann", "S", &there, 1);
	assert_int_equal(recall(k, &a, "ann", "S", 0), 5);
	known_unpin(k, TABLE_AUTH_STATE, BYTES("ann"));
	learn(k, "ann", "S", &there, 1);
	assert_int_equal(recall(k, &a, "ann", "S", 0), 3);
	known_close(k);
	arena_release(&a);
}

TEST(known, a_lock_or_state_that_this_process_committed_holds_at_once_for_a_pinned_subject_but_not_a_count)
{
	static const char *const keys[] = {"SIGN_IN#LOCK#PASSWORD_ENTRY",
	                                   "ACCOUNT_INTERVENTION#STATE#BLOCKED",
	                                   "SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY"};
	struct known            *k = memory(KNOWN_BYTES_MIN);
	struct service           s;

	service_open(&s, NULL);
	known_pin(k, TABLE_AUTH_STATE, BYTES("ann"));
	for (int i = 0; i < 3; i++) {
		struct table_write w = {.kind = TABLE_PUT,
		                        .table = s.all.tables.names[TABLE_AUTH_STATE],
		                        .item = counted(&s.f.arena, "ann", keys[i], 4)};

		known_wrote(k, &s.all.tables, &w, 1, 1);
		assert_int_equal(recall(k, &s.f.arena, "ann", keys[i], 0), i < 2 ? 4 : -1);
		w = (struct table_write){.kind = TABLE_DELETE,
		                         .table = w.table,
		                         .key = row_key_two(&s.f.arena, BYTES("ann"), bytes_of(keys[i]))};
		known_wrote(k, &s.all.tables, &w, 1, 2);
		assert_int_equal(recall(k, &s.f.arena, "ann", keys[i], 0), i < 2 ? 0 : -1);
	}
	service_close(&s);
	known_close(k);
}

/* Failures in a row are in the row of their lock, and are a count as long as it is none. */
TEST(known, failures_in_a_row_that_this_process_committed_do_not_take_the_place_of_those_that_wait)
{
	struct known  *k = memory(KNOWN_BYTES_MIN);
	struct service s;
	struct value   none = {.type = VALUE_M};
	struct item    row;

	service_open(&s, NULL);
	known_pin(k, TABLE_AUTH_STATE, BYTES("ann"));
	for (int count = 0; count < 2; count++) {
		struct table_write w = {.kind = TABLE_PUT, .table = s.all.tables.names[TABLE_AUTH_STATE]};

		row = counted(&s.f.arena, "ann", STREAK, count);
		w.item = item_with(&s.f.arena, &row, BYTES("failures"), &none);
		known_wrote(k, &s.all.tables, &w, 1, 1);
		assert_int_equal(recall(k, &s.f.arena, "ann", STREAK, 0), count == 0 ? -1 : 1);
	}
	service_close(&s);
	known_close(k);
}

TEST(known, a_refusal_is_remembered_for_its_time_and_no_longer)
{
	struct known *k = memory(KNOWN_BYTES_MIN);

	assert_false(known_denied(k, BYTES("ann"), 1));
	known_deny(k, BYTES("ann"), 5000);
	assert_true(known_denied(k, BYTES("ann"), 5999));
	assert_false(known_denied(k, BYTES("ann"), 6000));
	assert_false(known_denied(k, BYTES("ann"), 4999)); /* the clock stepped back */
	assert_false(known_denied(k, BYTES("bob"), 5001));
	known_close(k);
}
