/* The policy store: a file before what was PUT, that before what ships; what is not good never comes into force. */
#include "service/fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "service/event.h"
#include "service/limit_policy.h"
#include "service/policy_store.h"
#include "service/user_policy.h"

#define GOOD(max)                                                                                            \
	"attempts:\n"                                                                                        \
	"  locks: {STANDARD: {duration: 9}}\n"                                                               \
	"  journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: " max ", life: 60}}}}\n"

struct documents {
	struct service         s;
	struct document_holder holder, limits, users;
	struct event_settings  events;
	struct document_kind   kinds[4];
	struct policy_store   *store;
	int                    changed;
	char                   file[80];
};

static void note_change(void *ctx)
{
	((struct documents *)ctx)->changed++;
}

static void file_write(struct documents *s, const char *text, int age_s)
{
	struct timespec times[2] = {{.tv_sec = START_S - age_s}, {.tv_sec = START_S - age_s}};
	FILE           *f = fopen(s->file, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	fclose(f);
	assert_int_equal(utimensat(AT_FDCWD, s->file, times, 0), 0);
}

static void kinds_init(struct documents *s)
{
	s->kinds[0] = (struct document_kind){.name = "attempts",
	                                     .parse = rules_parse,
	                                     .holder = &s->holder,
	                                     .changed = note_change,
	                                     .ctx = s};
	s->kinds[1] =
	        (struct document_kind){.name = "limits", .parse = limit_policies_parse, .holder = &s->limits};
	s->kinds[2] =
	        (struct document_kind){.name = "users", .parse = user_policy_parse, .holder = &s->users};
	s->kinds[3] = (struct document_kind){.name = "events",
	                                     .parse = event_policy_parse,
	                                     .holder = &s->events.policy,
	                                     .changed = event_settings_changed,
	                                     .ctx = &s->events};
}

static void store_init(struct documents *s)
{
	*s = (struct documents){0};
	service_open(&s->s, NULL);
	kinds_init(s);
	snprintf(s->file, sizeof(s->file), "%s/policies.yaml", s->s.f.dir);
}

static enum err_code store_open(struct documents *s, bool file)
{
	return policy_store_open(&s->store, s->kinds, 4, file ? s->file : NULL, &s->s.f.err);
}

static void store_close(struct documents *s)
{
	policy_store_close(s->store);
	service_close(&s->s);
}

static int64_t max_in_force(struct documents *s)
{
	struct rules *r = document_acquire(&s->holder);
	int64_t       max = rules_find(r, BYTES("SIGN_IN"), BYTES("PASSWORD_ENTRY"), BYTES(""))->max;

	document_release(&r->base);
	return max;
}

static int64_t version_in_force(struct documents *s)
{
	struct rules *r = document_acquire(&s->holder);
	int64_t       version = r->base.version;

	document_release(&r->base);
	return version;
}

TEST(policy_store, without_a_file_what_ships_is_in_force_as_version_0)
{
	struct documents s;

	store_init(&s);
	assert_int_equal(store_open(&s, false), ERR_NONE);
	assert_int_equal(max_in_force(&s), 6);
	assert_int_equal(version_in_force(&s), 0);
	assert_null(policy_store_file(s.store));
	assert_ptr_equal(policy_store_kind(s.store, BYTES("attempts")), s.kinds);
	assert_ptr_equal(policy_store_kind(s.store, BYTES("limits")), s.kinds + 1);
	assert_ptr_equal(policy_store_kind(s.store, BYTES("users")), s.kinds + 2);
	assert_null(policy_store_kind(s.store, BYTES("nothing")));
	store_close(&s);
}

TEST(policy_store, a_file_that_is_not_good_keeps_it_from_opening_and_says_where)
{
	struct documents s;

	store_init(&s);
	assert_int_equal(store_open(&s, true), ERR_INVALID);
	assert_non_null(strstr(s.s.f.err.text, "No such file"));
	file_write(&s, GOOD("none"), 9);
	assert_int_equal(store_open(&s, true), ERR_SERIALIZATION);
	assert_non_null(strstr(s.s.f.err.text, "/policies.yaml: line 3: "));
	assert_non_null(
	        strstr(s.s.f.err.text, "line 3: attempts.journeys.SIGN_IN.types.PASSWORD_ENTRY.max: "));
	assert_string_equal(s.s.f.err.field, "attempts.journeys.SIGN_IN.types.PASSWORD_ENTRY.max");
	file_write(&s, "limits: 7\n", 9);
	assert_int_equal(store_open(&s, true), ERR_SERIALIZATION);
	assert_non_null(strstr(s.s.f.err.text, "line 1: limits: must be an object"));
	assert_string_equal(s.s.f.err.field, "limits");
	file_write(&s, "attempts: [", 9);
	assert_int_equal(store_open(&s, true), ERR_SERIALIZATION);
	file_write(&s, "other: {}\n", 9);
	assert_int_equal(store_open(&s, true), ERR_INVALID);
	assert_non_null(
	        strstr(s.s.f.err.text, "line 1: other: unknown field; expected one of: attempts, limits"));
	service_close(&s.s);
}

TEST(policy_store, a_file_that_changes_comes_into_force_if_it_is_good_and_else_all_stays)
{
	struct documents s;

	store_init(&s);
	file_write(&s, GOOD("7"), 9);
	assert_int_equal(store_open(&s, true), ERR_NONE);
	assert_int_equal(max_in_force(&s), 7);
	assert_int_equal(version_in_force(&s), START_S - 9);
	s.changed = 0;
	policy_store_refresh(s.store, NULL);
	assert_int_equal(s.changed, 0); /* it has not changed */
	file_write(&s, GOOD("8"), 8);
	policy_store_refresh(s.store, NULL);
	assert_int_equal(s.changed, 1);
	assert_int_equal(max_in_force(&s), 8);
	file_write(&s, GOOD("-1"), 7);
	policy_store_refresh(s.store, NULL);
	assert_int_equal(max_in_force(&s), 8);
	assert_int_equal(unlink(s.file), 0);
	policy_store_refresh(s.store, NULL);
	assert_int_equal(max_in_force(&s), 8);
	file_write(&s, GOOD("9"), 6);
	policy_store_refresh(s.store, NULL);
	assert_int_equal(max_in_force(&s), 9);
	store_close(&s);
}

TEST(policy_store, a_file_may_have_as_many_bytes_as_its_bound_and_no_more)
{
	char            *text = malloc(POLICY_DOCUMENT_BYTES_MAX + 2);
	struct documents s;

	store_init(&s);
	for (int past = 0; past <= 1; past++) {
		memset(text, '#', POLICY_DOCUMENT_BYTES_MAX + 2);
		memcpy(text, GOOD("5"), strlen(GOOD("5")));
		text[POLICY_DOCUMENT_BYTES_MAX + past] = '\0';
		file_write(&s, text, 9);
		assert_int_equal(store_open(&s, true), past ? ERR_INVALID : ERR_NONE);
		if (past == 0)
			policy_store_close(s.store);
		else
			assert_non_null(strstr(s.s.f.err.text, "must have at most 262144 bytes"));
	}
	free(text);
	service_close(&s.s);
}

/* ---- what was PUT ---- */

struct putting {
	struct turn_request  base;
	struct documents    *s;
	int64_t              read;
	struct bytes         text;
	enum document_origin origin;
};

static enum err_code put_in_turn(struct turn_request *w, struct table *t)
{
	struct putting      *p = (struct putting *)w;
	struct policy_change change = {p->s->kinds, p->read, p->text, p->origin, NULL};
	struct context       ctx = service_context(&p->s->s, t);
	struct document     *old;

	if (policy_store_change(&ctx, &change, &old, &w->err) != ERR_NONE)
		return w->err.code;
	return changes_commit(&ctx.changes, t, &w->err);
}

static enum err_code put(struct documents *s, int64_t read, const char *max)
{
	struct putting p = {.base = {.run = put_in_turn, .cost_bytes = 100}, .s = s, .read = read};

	p.text = arena_printf(
	        &s->s.f.arena,
	        "{\"locks\":{\"STANDARD\":{\"duration\":9}},\"journeys\":{\"SIGN_IN\":{\"types\":"
	        "{\"PASSWORD_ENTRY\":{\"max\":%s,\"life\":60}}}}}",
	        max);
	return service_run(&s->s, &p.base);
}

static void load(struct documents *s)
{
	struct fixture_reader reader;
	struct context        ctx;

	fixture_reader_begin(&reader, &s->s.f);
	ctx = service_context(&s->s, reader.table);
	if (policy_store_load(s->store, &ctx, &s->s.f.err) != ERR_NONE)
		fail_msg("%s", s->s.f.err.text);
	fixture_reader_end(&reader);
}

TEST(policy_store, what_was_put_last_is_in_force_after_a_start)
{
	struct documents s;

	store_init(&s);
	assert_int_equal(store_open(&s, false), ERR_NONE);
	load(&s);
	assert_int_equal(version_in_force(&s), 0);
	assert_int_equal(put(&s, 0, "7"), ERR_NONE);
	assert_int_equal(put(&s, 0, "8"), ERR_STALE);
	assert_string_equal(s.s.f.err.field, "If-Match");
	assert_int_equal(put(&s, 2, "8"), ERR_STALE);
	assert_int_equal(put(&s, 1, "9"), ERR_NONE);
	load(&s);
	assert_int_equal(max_in_force(&s), 9);
	assert_int_equal(version_in_force(&s), 2);
	policy_store_close(s.store);
	file_write(&s, GOOD("5"), 9);
	assert_int_equal(store_open(&s, true), ERR_NONE);
	load(&s); /* a file comes before it */
	assert_int_equal(max_in_force(&s), 5);
	store_close(&s);
}

static enum err_code keep_told(struct turn_request *w, struct table *t)
{
	struct putting *p = (struct putting *)w;
	struct context  ctx = service_context(&p->s->s, t);

	if (policy_store_keep(p->s->store, &ctx, &w->err) != ERR_NONE)
		return w->err.code;
	return changes_commit(&ctx.changes, t, &w->err);
}

TEST(policy_store, a_version_that_comes_into_force_is_told_whether_it_was_put_or_comes_from_a_file)
{
	struct documents          s;
	struct table_query_result told;
	struct putting            keeping = {.base = {.run = keep_told, .cost_bytes = 100}, .s = &s};
	struct item               data;

	store_init(&s);
	s.s.all.events.on = EVENT_ALL;
	assert_int_equal(store_open(&s, false), ERR_NONE);
	assert_int_equal(put(&s, 0, "7"), ERR_NONE);
	policy_store_close(s.store);
	file_write(&s, GOOD("5"), 9);
	assert_int_equal(store_open(&s, true), ERR_NONE);
	assert_int_equal(service_run(&s.s, &keeping.base), ERR_NONE);
	assert_int_equal(service_run(&s.s, &keeping.base), ERR_NONE); /* it is kept already */
	told = events_of(&s.s, EVENT_POLICY_CHANGED);
	assert_int_equal(told.count, 2);
	assert_bytes(row_text(&told.items[0], "subject"), "policy:attempts");
	data = event_data(&told.items[0]);
	assert_item(&s.s.f, &data, "{'name':{'S':'attempts'},'origin':{'S':'stored'},'version':{'N':'1'}}");
	data = event_data(&told.items[1]);
	assert_bytes(row_text(&data, "origin"), "file");
	store_close(&s);
}

TEST(policy_store, an_older_version_does_not_come_into_force_over_a_newer_one)
{
	struct documents s;
	struct document *old;

	store_init(&s);
	assert_int_equal(store_open(&s, false), ERR_NONE);
	assert_int_equal(put(&s, 0, "7"), ERR_NONE);
	load(&s);
	old = document_make(sizeof(struct rules));
	policy_store_install(s.store, s.kinds, old);
	assert_int_equal(version_in_force(&s), 1);
	store_close(&s);
}

/* Whoever reads an old one may go on doing so. */
TEST(policy_store, a_document_lives_until_its_last_reader_lets_go)
{
	struct documents s;
	struct rules    *before;

	store_init(&s);
	file_write(&s, GOOD("7"), 9);
	assert_int_equal(store_open(&s, true), ERR_NONE);
	before = document_acquire(&s.holder);
	file_write(&s, GOOD("8"), 8);
	policy_store_refresh(s.store, NULL);
	assert_int_equal(max_in_force(&s), 8);
	assert_int_equal(before->list[0].max, 7);
	document_release(&before->base);
	store_close(&s);
}

/* ---- versions that were in force ---- */

static struct policy_version found(struct documents *s, int64_t version)
{
	struct fixture_reader reader;
	struct context        ctx;
	struct policy_version out;

	fixture_reader_begin(&reader, &s->s.f);
	ctx = service_context(&s->s, reader.table);
	if (policy_rows_find(&ctx, "attempts", version, &out, &s->s.f.err) != ERR_NONE)
		fail_msg("%s", s->s.f.err.text);
	out.text = arena_copy(&s->s.f.arena, out.text);
	fixture_reader_end(&reader);
	return out;
}

static void assert_found(struct documents *s, int64_t version, const char *max)
{
	struct policy_version v = found(s, version);
	struct bytes          text = arena_printf(&s->s.f.arena, "\"max\":%s,", max);

	if (!v.found || v.version != version || !bytes_contains(v.text, text))
		fail_msg("version %d: %.*s", (int)version, (int)v.text.len,
		         v.text.len > 0 ? v.text.data : "");
}

TEST(policy_store, what_a_put_replaces_can_be_found_by_its_version)
{
	struct documents s;

	store_init(&s);
	assert_int_equal(store_open(&s, false), ERR_NONE);
	assert_false(found(&s, 1).found);
	assert_int_equal(put(&s, 0, "7"), ERR_NONE);
	assert_found(&s, 1, "7");
	load(&s);
	assert_int_equal(put(&s, 1, "8"), ERR_NONE);
	load(&s);
	assert_int_equal(put(&s, 2, "9"), ERR_NONE);
	assert_found(&s, 1, "7");
	assert_found(&s, 2, "8");
	assert_found(&s, 3, "9");
	assert_false(found(&s, 4).found);
	store_close(&s);
}

TEST(policy_store, as_many_replaced_versions_are_kept_as_the_bound_says_and_no_more)
{
	struct documents s;

	store_init(&s);
	assert_int_equal(store_open(&s, false), ERR_NONE);
	for (int64_t version = 0; version <= POLICY_VERSIONS_KEPT; version++)
		assert_int_equal(put(&s, version, "7"), ERR_NONE);
	assert_found(&s, 1, "7"); /* replaced, with a hundred others: the last that is kept */
	assert_int_equal(put(&s, POLICY_VERSIONS_KEPT + 1, "8"), ERR_NONE);
	assert_false(found(&s, 1).found);
	assert_found(&s, 2, "7");
	assert_found(&s, POLICY_VERSIONS_KEPT + 1, "7");
	assert_found(&s, POLICY_VERSIONS_KEPT + 2, "8");
	store_close(&s);
}

static enum err_code delete (struct documents *s, int64_t read) {
	struct putting p = {.base = {.run = put_in_turn, .cost_bytes = 100},
	                    .s = s,
	                    .read = read,
	                    .origin = DOCUMENT_SHIPPED};
	struct document * shipped;

	assert_int_equal(policy_store_shipped(s->store, s->kinds, &shipped, &s->s.f.err), ERR_NONE);
	p.text = arena_copy(&s->s.f.arena, shipped->text);
	document_release(shipped);
	return service_run(&s->s, &p.base);
}

TEST(policy_store, after_a_delete_what_ships_is_in_force_and_versions_go_on_rising)
{
	struct documents s;

	store_init(&s);
	assert_int_equal(store_open(&s, false), ERR_NONE);
	assert_int_equal(put(&s, 0, "7"), ERR_NONE);
	assert_int_equal(delete (&s, 0), ERR_STALE);
	assert_int_equal(delete (&s, 1), ERR_NONE);
	policy_store_close(s.store);
	assert_int_equal(store_open(&s, false), ERR_NONE); /* as a start does */
	load(&s);
	assert_int_equal(max_in_force(&s), 6);
	assert_int_equal(version_in_force(&s), 2);
	assert_int_equal(found(&s, 2).origin, DOCUMENT_SHIPPED);
	assert_found(&s, 1, "7");
	assert_int_equal(put(&s, 2, "9"), ERR_NONE);
	load(&s);
	assert_int_equal(version_in_force(&s), 3);
	assert_int_equal(found(&s, 2).origin, DOCUMENT_SHIPPED);
	store_close(&s);
}

static enum err_code keep_in_turn(struct turn_request *w, struct table *t)
{
	struct putting *p = (struct putting *)w;
	struct context  ctx = service_context(&p->s->s, t);

	if (policy_store_keep(p->s->store, &ctx, &w->err) != ERR_NONE)
		return w->err.code;
	return changes_commit(&ctx.changes, t, &w->err);
}

static void keep(struct documents *s)
{
	struct putting p = {.base = {.run = keep_in_turn, .cost_bytes = 100}, .s = s};

	assert_true(policy_store_unkept(s->store));
	assert_int_equal(service_run(&s->s, &p.base), ERR_NONE);
	policy_store_kept(s->store);
}

static void change_file(struct documents *s, const char *text, int age_s)
{
	file_write(s, text, age_s);
	policy_store_refresh(s->store, NULL);
}

TEST(policy_store, versions_of_the_file_rise_are_kept_and_are_known_again_after_a_start)
{
	struct documents s;

	store_init(&s);
	file_write(&s, GOOD("7"), 9);
	assert_int_equal(store_open(&s, true), ERR_NONE);
	load(&s);
	keep(&s);
	change_file(&s, GOOD("80"), 9); /* within the same second */
	assert_int_equal(version_in_force(&s), START_S - 8);
	keep(&s);
	change_file(&s, GOOD("80") "# no other\n", 2);
	assert_int_equal(version_in_force(&s), START_S - 8);
	assert_false(policy_store_unkept(s.store));
	change_file(&s, GOOD("9"), 20); /* a copy with an old date */
	assert_int_equal(version_in_force(&s), START_S - 7);
	keep(&s);
	assert_found(&s, START_S - 9, "7");
	assert_found(&s, START_S - 8, "80");
	assert_found(&s, START_S - 7, "9");
	policy_store_close(s.store);
	assert_int_equal(store_open(&s, true), ERR_NONE);
	load(&s);
	assert_int_equal(version_in_force(&s), START_S - 7);
	policy_store_close(s.store);
	file_write(&s, GOOD("5"), 30); /* changed while nobody served */
	assert_int_equal(store_open(&s, true), ERR_NONE);
	load(&s);
	keep(&s);
	assert_found(&s, START_S - 6, "5");
	assert_int_equal(version_in_force(&s), START_S - 6);
	store_close(&s);
}

/* ---- what cannot be understood ---- */

static void assert_health(struct documents *s, bool refused, uint64_t failures)
{
	struct policy_health now = policy_store_health(s->store);

	assert_int_equal(now.refused, refused);
	assert_int_equal(now.failures, failures);
}

TEST(policy_store, a_file_that_is_not_taken_over_shows_until_it_is_good_again)
{
	struct documents s;

	store_init(&s);
	file_write(&s, GOOD("7"), 9);
	assert_int_equal(store_open(&s, true), ERR_NONE);
	assert_health(&s, false, 0);
	change_file(&s, GOOD("-1"), 8);
	policy_store_refresh(s.store, NULL);
	assert_health(&s, true, 1); /* once, however often it is looked at */
	change_file(&s, GOOD("7"), 7);
	assert_health(&s, false, 1);
	assert_int_equal(unlink(s.file), 0);
	policy_store_refresh(s.store, NULL); /* maybe an editor is just writing it */
	assert_health(&s, false, 1);
	policy_store_refresh(s.store, NULL);
	policy_store_refresh(s.store, NULL);
	assert_health(&s, true, 2);
	assert_int_equal(max_in_force(&s), 7);
	change_file(&s, GOOD("7"), 7);
	assert_health(&s, false, 2);
	store_close(&s);
}

TEST(policy_store, what_is_stored_and_cannot_be_understood_shows_until_a_put_replaces_it)
{
	struct documents s;
	struct document *good;

	store_init(&s);
	assert_int_equal(store_open(&s, false), ERR_NONE);
	assert_int_equal(put(&s, 0, "0"), ERR_NONE); /* as if by a later program, which knows what 0 means */
	load(&s);
	assert_int_equal(version_in_force(&s), 1);
	assert_health(&s, true, 0);
	assert_int_equal(policy_store_shipped(s.store, s.kinds, &good, &s.s.f.err), ERR_NONE);
	good->version = 2;
	policy_store_install(s.store, s.kinds, good);
	assert_health(&s, false, 0);
	store_close(&s);
}

/* ---- several processes ---- */

/* As another process does that shares the table of `s`. */
static void follow(struct documents *other, struct documents *s)
{
	struct fixture_reader reader;
	struct context        ctx;

	fixture_reader_begin(&reader, &s->s.f);
	ctx = service_context(&s->s, reader.table);
	if (policy_store_follow(other->store, &ctx, &s->s.f.err) != ERR_NONE)
		fail_msg("%s", s->s.f.err.text);
	fixture_reader_end(&reader);
}

static void other_open(struct documents *other, const struct documents *s)
{
	*other = (struct documents){0};
	kinds_init(other);
	memcpy(other->file, s->file, sizeof(other->file));
}

TEST(policy_store, what_another_process_put_or_put_back_comes_into_force_when_it_is_followed)
{
	struct documents s, other;

	store_init(&s);
	other_open(&other, &s);
	assert_int_equal(store_open(&s, false), ERR_NONE);
	assert_int_equal(store_open(&other, false), ERR_NONE);
	follow(&other, &s);
	assert_int_equal(max_in_force(&other), 6);
	assert_int_equal(other.changed, 0);
	assert_int_equal(put(&s, 0, "7"), ERR_NONE);
	assert_int_equal(put(&s, 1, "8"), ERR_NONE);
	follow(&other, &s);
	follow(&other, &s);
	assert_int_equal(max_in_force(&other), 8);
	assert_int_equal(version_in_force(&other), 2);
	assert_int_equal(other.changed, 1);
	assert_int_equal(delete (&s, 2), ERR_NONE);
	follow(&other, &s);
	assert_int_equal(max_in_force(&other), 6);
	assert_int_equal(version_in_force(&other), 3);
	policy_store_close(other.store);
	store_close(&s);
}

TEST(policy_store, what_another_process_put_and_cannot_be_understood_here_leaves_the_previous_in_force)
{
	struct documents s, other;

	store_init(&s);
	other_open(&other, &s);
	assert_int_equal(store_open(&s, false), ERR_NONE);
	assert_int_equal(store_open(&other, false), ERR_NONE);
	assert_int_equal(put(&s, 0, "7"), ERR_NONE);
	follow(&other, &s);
	assert_int_equal(put(&s, 1, "0"), ERR_NONE); /* as if by a later program, which knows what 0 means */
	follow(&other, &s);
	assert_int_equal(max_in_force(&other), 7);
	assert_int_equal(version_in_force(&other), 2); /* so that a PUT can replace it */
	assert_health(&other, true, 0);
	assert_int_equal(put(&s, 2, "9"), ERR_NONE);
	follow(&other, &s);
	assert_int_equal(max_in_force(&other), 9);
	assert_health(&other, false, 0);
	policy_store_close(other.store);
	store_close(&s);
}

TEST(policy_store, a_process_with_a_policy_file_follows_nobody)
{
	struct documents s, other;

	store_init(&s);
	other_open(&other, &s);
	file_write(&s, GOOD("5"), 9);
	assert_int_equal(store_open(&s, false), ERR_NONE);
	assert_int_equal(store_open(&other, true), ERR_NONE);
	assert_int_equal(put(&s, 0, "7"), ERR_NONE);
	follow(&other, &s);
	assert_int_equal(max_in_force(&other), 5);
	policy_store_close(other.store);
	store_close(&s);
}
