/* Locks set and cleared by people, listed, and cleared in bulk. */
#include "service/resetting.h"

#include "service/lock.h"

#define GROWING_RULES                                                                                        \
	"locks:\n"                                                                                           \
	"  STANDARD: {duration: 900}\n"                                                                      \
	"  PERMANENT: {permanent: true}\n"                                                                   \
	"  GROWING: {duration: 60, factor: 2, cap: 3600, forget: 3600}\n"                                    \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 2, max_from_source: 2, life: 900, lock: GROWING,\n"                     \
	"                       known_device: {max: 2, remember: 9000, after: [PASSWORD_ENTRY]}}\n"          \
	"    locks: [OTHER]\n"

#define HEEDED_RULES                                                                                         \
	"locks:\n"                                                                                           \
	"  STANDARD: {duration: 900}\n"                                                                      \
	"  PERMANENT: {permanent: true}\n"                                                                   \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    blocked_by: [OTHER]\n"                                                                          \
	"    locks: [OTHER, UNHEEDED]\n"                                                                     \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 2, life: 900}\n"                                                        \
	"      PAIRS: {max_from_source: 2, life: 900, qualifier: method}\n"                                  \
	"      QUALIFIED: {max: 9, max_each: 2, life: 900, qualifier: method, shadow: true,\n"               \
	"                  known_device: {max: 2, remember: 9000}}\n"

/* ---- the calls ---- */

struct lock_turn {
	struct turn     turn;
	struct lock_new lock;
	struct verdict  verdict;
	bool            held;
};

static enum err_code add_run(struct turn *turn, struct err *err)
{
	struct lock_turn *l = (struct lock_turn *)turn;

	return lock_add(&turn->ctx, &l->lock, &l->verdict, err);
}

static struct bytes lock_sk(struct lock_turn *l)
{
	return key_name(&l->turn.s->f.arena, l->lock.journey, l->lock.type, l->lock.name, l->lock.qualifier);
}

static enum err_code clear_run(struct turn *turn, struct err *err)
{
	struct lock_turn *l = (struct lock_turn *)turn;

	return lock_clear(&turn->ctx, l->lock.pk, lock_sk(l), &l->held, err);
}

static enum err_code open_run(struct turn *turn, struct err *err)
{
	struct lock_turn *l = (struct lock_turn *)turn;

	return lock_open(&turn->ctx, l->lock.pk, lock_sk(l), &l->held, err);
}

static struct lock_turn lock_of(const char *pk, const char *name, const char *qualifier)
{
	struct lock_turn l = {.lock = {.pk = bytes_of(pk),
	                               .journey = BYTES("SIGN_IN"),
	                               .type = BYTES(KEY_LOCK),
	                               .name = bytes_of(name),
	                               .qualifier = bytes_of(qualifier)}};

	return l;
}

static struct verdict set(struct service *s, const char *pk, const char *name, const char *kind,
                          int64_t duration_s)
{
	struct lock_turn l = lock_of(pk, name, "");

	l.lock.kind = rules_kind(s->rules, bytes_of(kind));
	l.lock.duration_s = duration_s;
	turn_take(s, &l.turn, add_run);
	return l.verdict;
}

static bool clear(struct service *s, const char *pk, const char *name)
{
	struct lock_turn l = lock_of(pk, name, "");

	turn_take(s, &l.turn, clear_run);
	return l.held;
}

/* ---- one ---- */

TEST(lock, set_by_hand_is_the_row_of_the_document_and_bars_until_the_second)
{
	struct service        s;
	struct attempt_result r;
	struct verdict        v;

	service_open(&s, NULL);
	v = set(&s, "alice", "PASSWORD_ENTRY", "STANDARD", 0);
	assert_int_equal(v.kind, VERDICT_LOCKED);
	assert_int_equal(v.until_s, START_S + 900);
	assert_row(&s, "alice", PASSWORD_LOCK,
	           "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'},'count':{'N':'1'},"
	           "'last_updated':{'N':'1789000000'},'ttl':{'N':'1789000900'},'block_type':{'S':'STANDARD'},"
	           "'block_duration':{'N':'900'},'set_by':{'S':'an operator'}}");
	at(&s, 899);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_LOCKED, false);
	at(&s, 900);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

TEST(lock, is_never_made_shorter_by_a_second_one_and_keeps_its_kind)
{
	struct service s;
	struct verdict v;

	service_open(&s, NULL);
	set(&s, "alice", "PASSWORD_ENTRY", "STANDARD", 5000);
	v = set(&s, "alice", "PASSWORD_ENTRY", "REDUCED", 10);
	assert_int_equal(v.until_s, START_S + 5000);
	assert_bytes(v.block_type, "STANDARD");
	set(&s, "alice", "PASSWORD_ENTRY", "PERMANENT", 0);
	v = set(&s, "alice", "PASSWORD_ENTRY", "STANDARD", 0);
	assert_int_equal(v.kind, VERDICT_LOCKED_PERMANENT);
	assert_bytes(v.block_type, "PERMANENT");
	assert_row(&s, "alice", PASSWORD_LOCK,
	           "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'},'count':{'N':'1'},"
	           "'last_updated':{'N':'1789000000'},'block_type':{'S':'PERMANENT'},'set_by':{'S':'an "
	           "operator'}}");
	service_close(&s);
}

TEST(lock, a_row_with_count_zero_is_no_lock_and_does_not_make_the_next_one_permanent)
{
	struct service        s;
	struct lock_turn      l = lock_of("alice", "PASSWORD_ENTRY", "");
	struct attempt_result r;

	service_open(&s, NULL);
	turn_take(&s, &l.turn, open_run);
	assert_false(l.held);
	assert_row(&s, "alice", PASSWORD_LOCK,
	           "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'},'count':{'N':'0'},"
	           "'last_updated':{'N':'1789000000'}}");
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(set(&s, "alice", "PASSWORD_ENTRY", "STANDARD", 0).until_s, START_S + 900);
	turn_take(&s, &l.turn, open_run);
	assert_true(l.held);
	assert_false(clear(&s, "alice", "PASSWORD_ENTRY"));
	assert_false(row_there(&s, "alice", PASSWORD_LOCK));
	service_close(&s);
}

TEST(lock, clearing_says_whether_it_held_and_forgets_how_often_it_was_set)
{
	struct service s;

	service_open(&s, GROWING_RULES);
	FAIL_TIMES(&s, 2);
	at(&s, 100);
	FAIL_TIMES(&s, 2);
	assert_int_equal(ttl_in(&s, "alice", PASSWORD_LOCK), 100 + 120);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY"), 2);
	assert_true(clear(&s, "alice", "PASSWORD_ENTRY"));
	assert_false(clear(&s, "alice", "PASSWORD_ENTRY"));
	assert_int_equal(rows_in_table(&s), 0);
	FAIL_TIMES(&s, 2);
	assert_int_equal(ttl_in(&s, "alice", PASSWORD_LOCK), 100 + 60);
	at(&s, 160);
	assert_false(clear(&s, "alice", "PASSWORD_ENTRY")); /* it had expired */
	service_close(&s);
}

/* ---- many ---- */

struct list_turn {
	struct turn        turn;
	struct lock_search q;
	struct lock_page   page;
};

static enum err_code find_run(struct turn *turn, struct err *err)
{
	struct list_turn *l = (struct list_turn *)turn;

	return locks_find(&turn->ctx, &l->q, &l->page, err);
}

static enum err_code unlock_run(struct turn *turn, struct err *err)
{
	struct list_turn *l = (struct list_turn *)turn;

	return locks_unlock(&turn->ctx, &l->q, &l->page, err);
}

/* Follows the cursor to the end; how many locks there were. */
static uint32_t walk(struct service *s, struct list_turn                         *l,
                     enum err_code (*run)(struct turn *, struct err *), uint32_t *pages)
{
	uint32_t locks = 0;

	*pages = 0;
	do {
		turn_take(s, &l->turn, run);
		assert_true(l->page.count <= l->q.limit);
		locks += l->page.count;
		l->q.after_pk = l->page.last_pk;
		l->q.after_sk = l->page.last_sk;
		assert_true(++*pages < 100);
	} while (l->page.more);
	l->q.after_pk = l->q.after_sk = (struct bytes){NULL, 0};
	return locks;
}

static void lock_many(struct service *s, int count)
{
	for (int i = 0; i < count; i++)
		set(s, arena_printf(&s->f.arena, "subject-%d", i).data, "PASSWORD_ENTRY", "STANDARD", 0);
}

TEST(locks, are_listed_page_by_page_each_once_and_nothing_else_is)
{
	struct service   s;
	struct list_turn l = {.q.limit = 7};
	uint32_t         pages;

	service_open(&s, NULL);
	assert_int_equal(walk(&s, &l, find_run, &pages), 0); /* before there is a table */
	lock_many(&s, 20);
	FAIL(&s);                                          /* a count */
	set(&s, "short", "PASSWORD_ENTRY", "STANDARD", 5); /* will have expired */
	set(&s, "bob", "PASSWORD_RESET", "PERMANENT", 0);
	row_put(&s, "{'PK':{'S':'eve'},'SK':{'S':'SIGN_IN#SHADOW_LOCK#PASSWORD_ENTRY'},'count':{'N':'1'}}");
	row_put(&s, "{'PK':{'S':'eve'},'SK':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'},'count':{'N':'0'}}");
	row_put(&s, "{'PK':{'S':'LOCK#'},'SK':{'S':'LOCK#'},'count':{'N':'1'}}");
	at(&s, 5);
	assert_int_equal(walk(&s, &l, find_run, &pages), 21);
	assert_int_equal(pages, 4); /* the fourth is empty: 21 is three times 7 */
	l.q.name = BYTES("PASSWORD_RESET");
	assert_int_equal(walk(&s, &l, find_run, &pages), 1);
	l.q.journey = BYTES("AUTHENTICATION");
	assert_int_equal(walk(&s, &l, find_run, &pages), 0);
	service_close(&s);
}

TEST(locks, a_page_examines_no_more_rows_than_it_may_and_goes_on_from_there)
{
	struct service   s;
	struct list_turn l = {.q.limit = LOCKS_PAGE_MAX};
	struct bytes     both[] = {BYTES("crowd"), BYTES("zoe")};
	uint32_t         pages;

	service_open(&s, NULL);
	set(&s, "zoe", "PASSWORD_ENTRY", "STANDARD", 0);
	for (int i = 0; i < LOCKS_EXAMINED_MAX; i++)
		row_put(&s, arena_printf(&s.f.arena,
		                         "{'PK':{'S':'crowd'},'SK':{'S':'SIGN_IN#SOURCE_ERROR_COUNT#"
		                         "PASSWORD_ENTRY#%d'},'count':{'N':'1'}}",
		                         i)
		                    .data);
	set(&s, "crowd", "Z_LAST", "STANDARD", 0);
	assert_int_equal(walk(&s, &l, find_run, &pages), 2);
	assert_int_equal(pages, 2);
	l.q.subjects = both;
	l.q.subject_count = 2;
	turn_take(&s, &l.turn, find_run); /* the crowd's lock sorts first, and then all of its rows but one */
	assert_true(l.page.more);
	assert_int_equal(walk(&s, &l, find_run, &pages), 2);
	assert_int_equal(pages, 2);
	clear(&s, "crowd", "Z_LAST");
	row_put(&s, "{'PK':{'S':'crowd'},'SK':{'S':'SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY'},'count':{'N':'1'}}");
	clear(&s, "zoe", "PASSWORD_ENTRY");
	l.q.subject_count = 0;
	turn_take(&s, &l.turn, find_run);
	assert_int_equal(l.page.count, 0);
	assert_true(l.page.more); /* nothing found is not the end */
	assert_int_equal(walk(&s, &l, find_run, &pages), 0);
	assert_int_equal(pages, 2);
	service_close(&s);
}

TEST(locks, a_cursor_of_another_list_is_refused)
{
	struct service   s;
	struct bytes     alice = BYTES("alice");
	struct list_turn l = {.q = {.limit = 1, .after_pk = BYTES("bob"), .after_sk = BYTES("X")}};

	service_open(&s, NULL);
	l.q.subjects = &alice;
	l.q.subject_count = 1;
	assert_int_equal(turn_try(&s, &l.turn, find_run), ERR_INVALID);
	assert_string_equal(s.f.err.field, "cursor");
	l.q.subject_count = 0;
	l.q.after_sk = (struct bytes){NULL, 0};
	assert_int_equal(turn_try(&s, &l.turn, find_run), ERR_INVALID);
	assert_string_equal(s.f.err.field, "cursor");
	service_close(&s);
}

TEST(unlock, clears_every_lane_of_a_subject_and_leaves_others_and_counts)
{
	struct service   s;
	struct bytes     alice = BYTES("alice");
	struct list_turn l = {.q = {.limit = UNLOCK_MAX, .subjects = &alice, .subject_count = 1}};

	service_open(&s, GROWING_RULES);
	FAIL_TIMES(&s, 2, .ip = "192.0.2.1");
	FAIL(&s, .subject = "bob");
	set(&s, "bob", "OTHER", "STANDARD", 0);
	set(&s, "alice", "OTHER", "STANDARD", 0);
	turn_take(&s, &l.turn, find_run);  /* a dry run */
	assert_int_equal(l.page.count, 3); /* of the subject, the source, and by hand */
	turn_take(&s, &l.turn, find_run);
	assert_int_equal(l.page.count, 3);
	turn_take(&s, &l.turn, unlock_run);
	assert_int_equal(l.page.count, 3);
	turn_take(&s, &l.turn, find_run);
	assert_int_equal(l.page.count, 0);
	assert_false(row_there(&s, "alice", "SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY"));
	assert_true(row_there(&s, "bob", PASSWORDS));
	assert_true(row_there(&s, "bob", "SIGN_IN#LOCK#OTHER"));
	service_close(&s);
}

/* Of the whole table, in one call, at least. */
static int unlock_max(const struct service *s)
{
	return service_is_alone(s)
	               ? UNLOCK_MAX
	               : CHANGES_MAX / 4; /* among others each moves a version, and may have a due row */
}

TEST(unlock, of_a_journey_takes_as_many_calls_as_it_needs)
{
	struct service   s;
	struct list_turn l = {.q = {.limit = LOCKS_PAGE_MAX, .journey = BYTES("SIGN_IN")}};
	uint32_t         pages, left;

	service_open(&s, NULL);
	lock_many(&s, UNLOCK_MAX + 1);
	turn_take(&s, &l.turn, unlock_run);
	assert_in_range(l.page.count, unlock_max(&s), UNLOCK_MAX);
	assert_true(l.page.more);
	left = UNLOCK_MAX + 1 - l.page.count;
	assert_int_equal(rows_in_table(&s), 2 * left); /* each with its level */
	assert_int_equal(walk(&s, &l, unlock_run, &pages), left);
	assert_int_equal(rows_in_table(&s), 0);
	service_close(&s);
}

TEST(unlock, the_most_locks_of_one_call_fit_into_one_commit_though_all_have_grown)
{
	struct service   s;
	struct list_turn l = {.q = {.limit = LOCKS_PAGE_MAX}};

	service_open(&s, GROWING_RULES);
	for (int i = 0; i < unlock_max(&s); i++)
		set(&s, arena_printf(&s.f.arena, "subject-%d", i).data, "PASSWORD_ENTRY", "GROWING", 0);
	assert_int_equal(rows_in_table(&s), 2 * unlock_max(&s));
	turn_take(&s, &l.turn, unlock_run);
	assert_int_equal(rows_in_table(&s), 0);
	service_close(&s);
}

TEST(unlock, of_as_many_subjects_as_a_call_may_name_fits_into_each_commit)
{
	struct service   s;
	struct bytes     subjects[UNLOCK_SUBJECTS_MAX];
	struct list_turn l = {.q = {.limit = LOCKS_PAGE_MAX, .subjects = subjects}};
	uint32_t         pages;

	service_open(&s, GROWING_RULES);
	l.q.subject_count = UNLOCK_SUBJECTS_MAX;
	for (int i = 0; i < UNLOCK_SUBJECTS_MAX; i++) {
		subjects[i] = arena_printf(&s.f.arena, "subject-%d", i);
		set(&s, subjects[i].data, "PASSWORD_ENTRY", "GROWING", 0);
	}
	assert_int_equal(walk(&s, &l, unlock_run, &pages), UNLOCK_SUBJECTS_MAX);
	assert_true(pages > 1);
	assert_int_equal(rows_in_table(&s), 0);
	service_close(&s);
}

/* ---- a lock that would stop nobody ---- */

static bool heeded(struct service *s, const char *name, enum lock_reach reach, bool persons)
{
	struct heed_lock lock = {.ref = {BYTES("SIGN_IN"), bytes_of(name)},
	                         .reach = reach,
	                         .persons = persons,
	                         .set_s = HEED_ALWAYS};

	return rules_heed(s->rules, &lock);
}

TEST(lock, is_heeded_where_a_rule_has_what_its_key_names)
{
	struct service s;

	service_open(&s, HEEDED_RULES);
	assert_true(heeded(&s, "PASSWORD_ENTRY", REACH_SUBJECT, false));
	assert_true(heeded(&s, "OTHER", REACH_SUBJECT, false));
	assert_false(heeded(&s, "UNHEEDED", REACH_SUBJECT, true));
	assert_false(heeded(&s, "PASSWORD_ENTRY", REACH_QUALIFIER, true));
	assert_false(heeded(&s, "OTHER", REACH_QUALIFIER, true));
	assert_true(heeded(&s, "PAIRS", REACH_QUALIFIER, true));
	assert_true(heeded(&s, "PASSWORD_ENTRY", REACH_SOURCE, true)); /* a person's */
	assert_false(heeded(&s, "PASSWORD_ENTRY", REACH_SOURCE, false));
	assert_true(heeded(&s, "PAIRS", REACH_PAIR, false));
	assert_false(heeded(&s, "PASSWORD_ENTRY", REACH_PAIR, false));
	service_close(&s);
}

static void set_by_hand(struct service *s, const char *pk, const char *name, const char *qualifier)
{
	struct lock_turn l = lock_of(pk, name, qualifier);

	l.lock.kind = rules_kind(s->rules, BYTES("PERMANENT"));
	turn_take(s, &l.turn, add_run);
}

TEST(lock, of_one_method_holds_where_the_rule_counts_something_else_or_only_watches)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, HEEDED_RULES);
	set_by_hand(&s, "alice", "PAIRS", "phone-1");
	set_by_hand(&s, "alice", "QUALIFIED", "phone-1");
	r = FAIL(&s, .type = "PAIRS", .method_id = "phone-1", .ip = "192.0.2.1");
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, false);
	r = FAIL(&s, .type = "QUALIFIED", .method_id = "phone-1");
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, false);
	r = FAIL(&s, .type = "PAIRS", .method_id = "phone-2", .ip = "192.0.2.1");
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

TEST(lock, that_a_person_set_stays_that_persons_when_a_rule_sets_it_again)
{
	struct service   s;
	struct lock_turn l = lock_of("alice", "PASSWORD_ENTRY", "");
	struct item      row;

	service_open(&s, HEEDED_RULES);
	l.lock.kind = rules_kind(s.rules, BYTES("STANDARD"));
	l.lock.set_by = BYTES("carol");
	l.lock.reason = BYTES("ticket 7");
	turn_take(&s, &l.turn, add_run);
	l.lock.set_by = l.lock.reason = (struct bytes){NULL, 0};
	l.lock.cause = BYTES("SIGN_IN/PASSWORD_ENTRY");
	turn_take(&s, &l.turn, add_run);
	assert_true(row_find(&s, BYTES("alice"), BYTES(PASSWORD_LOCK), &row));
	assert_true(lock_is_persons(&row));
	assert_bytes(lock_set_by(&row), "carol");
	assert_bytes(row_text(&row, "reason"), "ticket 7");
	at(&s, 900); /* it has ended: the next one is the rule's */
	turn_take(&s, &l.turn, add_run);
	assert_true(row_find(&s, BYTES("alice"), BYTES(PASSWORD_LOCK), &row));
	assert_bytes(lock_set_by(&row), "SIGN_IN/PASSWORD_ENTRY");
	service_close(&s);
}

/* ---- rows that other code wrote ---- */

#define OLD_LOCK                                                                                             \
	"{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'},'count':{'N':'1'},"                    \
	"'last_updated':{'N':'1789000000'},'ttl':{'N':'1789000900'},'block_type':{'S':'STANDARD'},"          \
	"'block_duration':{'N':'900'}"

#define OLD_RULES                                                                                            \
	GROWING_RULES                                                                                        \
	"resets: {PASSWORD: {counts: [SIGN_IN/PASSWORD_ENTRY], locks: [SIGN_IN/PASSWORD_ENTRY]}}\n"

static uint32_t unlocked(struct service *s)
{
	struct list_turn l = {.q = {.not_persons = true, .limit = 10}};

	turn_take(s, &l.turn, unlock_run);
	return l.page.count;
}

/* It has neither `cause` nor `set_by`: it is that of a rule, as the document says. */
TEST(lock, of_other_code_is_a_rules_lock)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, OLD_RULES);
	token = SUCCEED(&s, .ip = "192.0.2.1").device.token;
	row_put(&s, OLD_LOCK "}");
	r = SUCCEED(&s, .ip = "192.0.2.1");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = SUCCEED(&s, .ip = "192.0.2.1", .token = token);
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_int_equal(reset(&s).count, 1);
	row_put(&s, OLD_LOCK "}");
	assert_int_equal(unlocked(&s), 1);
	service_close(&s);
}

/* What earlier versions wrote for people who did not say who they were, but why. */
TEST(lock, with_a_reason_is_a_persons_lock)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, OLD_RULES);
	token = SUCCEED(&s, .ip = "192.0.2.1").device.token;
	row_put(&s, OLD_LOCK ",'reason':{'S':'ticket 7'}}");
	r = SUCCEED(&s, .ip = "192.0.2.1", .token = token);
	assert_verdict(&r, VERDICT_LOCKED, false);
	assert_int_equal(reset(&s).kept, 1);
	assert_int_equal(unlocked(&s), 0);
	service_close(&s);
}
