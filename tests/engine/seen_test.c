/* What a request has read in its turn is not read again when it is written: so that must never be stale. */
#include "engine/fixture.h"

struct steps {
	struct turn_request base;
	struct fixture     *f;
	enum err_code (*run)(struct steps *s, struct table *t);
};

static enum err_code steps_in_turn(struct turn_request *w, struct table *t)
{
	struct steps *s = (struct steps *)w;

	return s->run(s, t);
}

static void in_one_turn(struct fixture *f, enum err_code (*run)(struct steps *s, struct table *t))
{
	struct steps s = {.base = {.run = steps_in_turn, .cost_bytes = 100}, .f = f, .run = run};

	if (engine_run(f->engine, &s.base, &f->err) != ERR_NONE)
		fail_msg("%s", f->err.text);
}

/* Reads the items a to z of the table with one call; results[i] is that of the i-th letter. */
static struct table_get_result *letters_read(struct steps *s, struct table *t)
{
	struct table_get              gets[26];
	struct table_batch_get        q = {gets, 26};
	struct table_batch_get_result r;

	for (int i = 0; i < 26; i++)
		gets[i] = (struct table_get){
		        .table = BYTES("things"),
		        .key = fixture_item(
		                s->f,
		                arena_printf(&s->f->arena, "{'p':{'S':'x'},'s':{'S':'%c'}}", 'a' + i).data)};
	assert_int_equal(t->backend->batch_get(t, &s->f->arena, &q, &r, &s->f->err), ERR_NONE);
	return r.results;
}

static bool letter_put(struct steps *s, struct table *t, char letter, const char *more,
                       const struct expr *condition)
{
	struct table_write        w = {.kind = TABLE_PUT, .table = BYTES("things"), .condition = condition};
	struct table_write_result r;

	w.item = fixture_item(
	        s->f, arena_printf(&s->f->arena, "{'p':{'S':'x'},'s':{'S':'%c'}%s}", letter, more).data);
	assert_int_equal(t->backend->write(t, &s->f->arena, &w, &r, &s->f->err), ERR_NONE);
	return !r.condition_failed;
}

static struct expr as_read(const struct item *read)
{
	static const char *const names[] = {"n", NULL};

	return (struct expr){.kind = EXPR_SAME, .read = *read, .names = names};
}

/* More rows than are remembered: the first are forgotten, the last are not. */
static enum err_code write_what_was_read(struct steps *s, struct table *t)
{
	struct table_get_result *before = letters_read(s, t), *after;
	struct expr              first = as_read(&before[0].item), last = as_read(&before[25].item);

	assert_true(letter_put(s, t, 'a', ",'n':{'N':'1'}", &first));
	assert_true(letter_put(s, t, 'z', ",'n':{'N':'1'}", &last));
	assert_false(letter_put(s, t, 'a', ",'n':{'N':'2'}", &first));
	assert_false(letter_put(s, t, 'z', ",'n':{'N':'2'}", &last));
	after = letters_read(s, t);
	for (int i = 0; i < 26; i++)
		assert_int_equal(after[i].found, i == 0 || i == 25);
	first = as_read(&after[0].item);
	assert_true(letter_put(s, t, 'a', ",'n':{'N':'3'}", &first));
	assert_false(letter_put(s, t, 'a', ",'n':{'N':'4'}", &first));
	return ERR_NONE;
}

static void assert_letter(struct fixture *f, char letter, const char *item)
{
	struct bytes q = arena_printf(&f->arena,
	                              "{'TableName':'things','Key':{'p':{'S':'x'},'s':{'S':'%c'}}}", letter);
	union answer r = fixture_ok(f, "GetItem", q.data);

	assert_item(f, &r.get.item, item);
}

TEST(seen, a_row_that_was_read_and_written_is_read_as_it_was_written)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	in_one_turn(&f, write_what_was_read);
	assert_letter(&f, 'a', "{'p':{'S':'x'},'s':{'S':'a'},'n':{'N':'3'}}");
	assert_verified(&f);
	fixture_close(&f);
}

/* The transaction writes z, then fails at a: z is as it was before. */
static enum err_code cancel_what_was_read(struct steps *s, struct table *t)
{
	struct table_get_result     *before = letters_read(s, t);
	struct expr                  absent = as_read(&before[1].item), last = as_read(&before[25].item);
	struct table_write           writes[2];
	struct table_transact_write  q = {.writes = writes, .count = 2};
	struct table_transact_result r;

	writes[0] = (struct table_write){.kind = TABLE_DELETE, .table = BYTES("things"), .condition = &last};
	writes[0].key = fixture_item(s->f, "{'p':{'S':'x'},'s':{'S':'z'}}");
	writes[1] =
	        (struct table_write){.kind = TABLE_DELETE, .table = BYTES("things"), .condition = &absent};
	writes[1].key = fixture_item(s->f, "{'p':{'S':'x'},'s':{'S':'a'}}");
	assert_int_equal(t->backend->transact_write(t, &s->f->arena, &q, &r, &s->f->err), ERR_NONE);
	assert_true(r.cancelled);
	assert_true(letters_read(s, t)[25].found);
	assert_true(letter_put(s, t, 'z', ",'n':{'N':'5'}", &last));
	return ERR_NONE;
}

TEST(seen, what_a_cancelled_transaction_wrote_is_read_as_it_was_before)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	in_one_turn(&f, write_what_was_read);
	in_one_turn(&f, cancel_what_was_read);
	assert_letter(&f, 'z', "{'p':{'S':'x'},'s':{'S':'z'},'n':{'N':'5'}}");
	assert_verified(&f);
	fixture_close(&f);
}

/* `item` NULL: there is none. */
static void assert_read(struct steps *s, struct table *t, const char *key, const char *item)
{
	struct table_get        q = {.table = BYTES("things"), .key = fixture_item(s->f, key)};
	struct table_get_result r;

	assert_int_equal(t->backend->get(t, &s->f->arena, &q, &r, &s->f->err), ERR_NONE);
	assert_int_equal(r.found, item != NULL);
	if (item != NULL)
		assert_item(s->f, &r.item, item);
}

#define LETTER(l) "{'p':{'S':'x'},'s':{'S':'" l "'}}"

static enum err_code write_and_read(struct steps *s, struct table *t)
{
	assert_true(letter_put(s, t, 'a', ",'n':{'N':'2'}", NULL));
	assert_read(s, t, LETTER("a"), "{'p':{'S':'x'},'s':{'S':'a'},'n':{'N':'2'}}");
	assert_read(s, t, LETTER("c"), NULL);
	return ERR_NONE;
}

/* The table was asked for just before. */
static enum err_code remove_the_table(struct steps *s, struct table *t)
{
	struct table_description gone;
	struct table_get         q = {.table = BYTES("things"), .key = fixture_item(s->f, LETTER("a"))};
	struct table_get_result  r;

	assert_read(s, t, LETTER("a"), "{'p':{'S':'x'},'s':{'S':'a'},'n':{'N':'2'}}");
	assert_int_equal(t->backend->remove(t, &s->f->arena, BYTES("things"), &gone, &s->f->err), ERR_NONE);
	assert_int_equal(t->backend->get(t, &s->f->arena, &q, &r, &s->f->err), ERR_NO_RESOURCE);
	return err_set(&s->base.err, ERR_INVALID, "it is undone");
}

TEST(seen, a_table_that_the_turn_removes_is_not_found_any_more_and_is_found_again_once_that_is_undone)
{
	struct steps   s = {.base = {.run = steps_in_turn, .cost_bytes = 100}, .run = remove_the_table};
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	in_one_turn(&f, write_and_read);
	s.f = &f;
	assert_int_equal(engine_run(f.engine, &s.base, &f.err), ERR_INVALID);
	in_one_turn(&f, write_and_read);
	assert_letter(&f, 'a', "{'p':{'S':'x'},'s':{'S':'a'},'n':{'N':'2'}}");
	assert_verified(&f);
	fixture_close(&f);
}
