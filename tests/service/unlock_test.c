/* Unlocking many among others, on the rough store: locks are found by a scan or in the partitions of subjects, and lifted as
 * many at a time as fit into a commit. */
#include "service/scene.h"

#include "service/lock.h"

static struct item lock_of_rule(struct context *ctx, const char *pk)
{
	struct row  row;
	struct item old = row_with_count(ctx, pk, "SIGN_IN#LOCK#PASSWORD_ENTRY", 1);

	row_from(&row, ctx->arena, &old);
	row_set_text(&row, "cause", BYTES("SIGN_IN/PASSWORD_ENTRY"));
	return row_item(&row);
}

static enum err_code rule_locks(struct act *act, struct err *err)
{
	ctx_put(&act->ctx, TABLE_AUTH_STATE, lock_of_rule(&act->ctx, "p"));
	return commit(act, err);
}

/* Called when the scan has found the lock: a person makes it his own (n 1). */
static bool sees(void *ctx, struct bytes journey)
{
	struct act *act = ctx;

	(void)journey;
	if (act->n == 1)
		others_put(act, "p", "SIGN_IN#LOCK#PASSWORD_ENTRY", 1);
	return true;
}

static enum err_code unlock_all(struct act *act, struct err *err)
{
	struct lock_search q = {.limit = UNLOCK_MAX, .not_persons = true, .sees = sees, .sees_ctx = act};
	struct lock_page   page;

	if (locks_unlock(&act->ctx, &q, &page, err) != ERR_NONE)
		return err->code;
	assert_int_equal(page.count, 1);
	return commit(act, err);
}

TEST(unlock, an_unlock_clears_no_lock_that_has_changed_since_the_scan_found_it)
{
	for (int n = 0; n <= 1; n++) {
		struct scene x;

		scene_open(&x, 1, true);
		assert_int_equal(play(&x, rule_locks, 0), ERR_NONE);
		assert_int_equal(play(&x, unlock_all, n), n == 0 ? ERR_NONE : ERR_CONDITION);
		assert_int_equal(count_in(&x.s, "p", "SIGN_IN#LOCK#PASSWORD_ENTRY"), n);
		scene_close(&x);
	}
}

/* A lock and its level, of as many subjects as one commit takes; n: the first. */
enum { LOCKED_EACH = 30 };

static enum err_code lock_many(struct act *act, struct err *err)
{
	for (int i = act->n; i < act->n + LOCKED_EACH; i++) {
		const char *pk = arena_printf(act->ctx.arena, "subject-%d%c", i, '\0').data;

		ctx_put(&act->ctx, TABLE_AUTH_STATE, lock_of_rule(&act->ctx, pk));
		ctx_put(&act->ctx, TABLE_AUTH_STATE,
		        row_with_count(&act->ctx, pk, "SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY", 1));
	}
	return commit(act, err);
}

/* n: so many are named, of 50 at most. */
static enum err_code unlock_some(struct act *act, struct err *err)
{
	struct bytes       subjects[UNLOCK_SUBJECTS_MAX];
	struct lock_search q = {.limit = UNLOCK_MAX, .not_persons = true, .subjects = subjects};
	struct lock_page   page;

	for (int i = 0; i < act->n; i++)
		subjects[q.subject_count++] = arena_printf(act->ctx.arena, "subject-%d", i);
	if (locks_unlock(&act->ctx, &q, &page, err) != ERR_NONE || commit(act, err) != ERR_NONE)
		return err->code;
	act->n = (int)page.count;
	return ERR_NONE;
}

static int unlock_until_none(struct scene *x, int named)
{
	int total = 0, count;

	do {
		struct act act = {.base = {.run = act_run}, .x = x, .run = unlock_some, .n = named};

		assert_int_equal(store_run(&x->rough->base, &act.base, &x->s.f.err), ERR_NONE);
		count = act.n;
		total += count;
	} while (count > 0);
	return total;
}

TEST(unlock, locks_of_more_subjects_than_fit_into_one_commit_are_lifted_by_several)
{
	static const int named[] = {0, UNLOCK_SUBJECTS_MAX};

	for (int i = 0; i < 2; i++) {
		struct scene x;

		scene_open(&x, 1, true);
		for (int n = 0; n < 2; n++)
			assert_int_equal(play(&x, lock_many, n * LOCKED_EACH), ERR_NONE);
		assert_int_equal(unlock_until_none(&x, named[i]), i == 0 ? 2 * LOCKED_EACH : named[i]);
		scene_close(&x);
	}
}
