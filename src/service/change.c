/* Changes: a list, and the one place where services write. See change.h. */
#include "service/change.h"

#include <assert.h>

#include "service/event.h"
#include "service/hot_keys.h"
#include "service/last_known.h"
#include "service/foresight.h"
#include "service/read_set.h"
#include "service/single.h"

void changes_init(struct changes *c, struct arena *a, const struct service_tables *tables)
{
	*c = (struct changes){.arena = a, .tables = tables};
}

/* ---- the list ---- */

/* An update of what an earlier change left. Our own updates fit our own rows. */
static void update_join(struct changes *c, struct table_write *earlier, const struct table_write *w)
{
	struct item   after;
	struct err    err;
	enum err_code rc;

	assert(earlier->kind != TABLE_UPDATE); /* two updates of one row: nobody makes them */
	rc = expr_update_apply(c->arena, w->update, write_target(earlier), &after, &err);
	assert(rc == ERR_NONE);
	(void)rc;
	*earlier = (struct table_write){
	        .kind = TABLE_PUT, .table = w->table, .item = after, .condition = earlier->condition};
}

static bool replace(struct changes *c, const struct table_write *w)
{
	struct row_place to, other;

	if (c->count == 0)
		return false;
	to = place_of(c, w);
	for (uint32_t i = 0; i < c->count; i++) {
		const struct expr *condition = c->list[i].condition;

		if (!bytes_equal(c->list[i].table, w->table))
			continue;
		other = place_of(c, &c->list[i]);
		if (!same_place(&to, &other))
			continue;
		if (w->kind == TABLE_UPDATE) {
			update_join(c, &c->list[i], w);
			return true;
		}
		c->list[i] = *w;
		c->list[i].condition = condition;
		return true;
	}
	return false;
}

/* The list has no change of its row. */
static void append(struct changes *c, struct table_write w, uint32_t most)
{
	if (c->count >= most) {
		c->too_many = true;
		return;
	}
	if (c->count % 4 == 0) { /* most calls change one or two rows */
		struct table_write *larger = arena_array(c->arena, c->count + 4, sizeof(*larger));

		if (c->count > 0)
			memcpy(larger, c->list, c->count * sizeof(*larger));
		c->list = larger;
	}
	c->list[c->count++] = w;
}

static void add(struct changes *c, struct table_write w, uint32_t most)
{
	if (!replace(c, &w))
		append(c, w, most);
}

/* (4) Events that do not fit into what is reserved for them leave less for others. */
static uint32_t rows_max(const struct changes *c)
{
	uint32_t reserved = CHANGES_RESERVED - 1;

	return c->event_rows <= reserved                 ? CHANGES_MAX
	       : c->event_rows - reserved >= CHANGES_MAX ? 0
	                                                 : CHANGES_MAX - (c->event_rows - reserved);
}

void changes_put(struct changes *c, struct bytes table, struct item item, const struct expr *condition)
{
	add(c, (struct table_write){.kind = TABLE_PUT, .table = table, .item = item, .condition = condition},
	    rows_max(c));
}

void changes_update(struct changes *c, struct bytes table, struct item key, const struct expr_update *update,
                    const struct expr *condition)
{
	add(c,
	    (struct table_write){.kind = TABLE_UPDATE,
	                         .table = table,
	                         .key = key,
	                         .update = update,
	                         .condition = condition},
	    rows_max(c));
}

void changes_delete(struct changes *c, struct bytes table, struct item key, const struct expr *condition)
{
	add(c, (struct table_write){.kind = TABLE_DELETE, .table = table, .key = key, .condition = condition},
	    rows_max(c));
}

void changes_keep(struct changes *c, struct bytes table, struct item item, const struct expr *condition)
{
	append(c,
	       (struct table_write){.kind = TABLE_PUT, .table = table, .item = item, .condition = condition},
	       TABLE_TRANSACT_MAX);
}

static void attach(struct changes *c, struct table_write w)
{
	if (c->attached_count % 4 == 0) {
		struct table_write *larger = arena_array(c->arena, c->attached_count + 4, sizeof(*larger));

		if (c->attached_count > 0)
			memcpy(larger, c->attached, c->attached_count * sizeof(*larger));
		c->attached = larger;
	}
	c->attached[c->attached_count++] = w;
	c->event_rows++;
}

void changes_attach_put(struct changes *c, enum service_table which, struct item item)
{
	attach(c, (struct table_write){.kind = TABLE_PUT, .table = c->tables->names[which], .item = item});
}

void changes_attach_delete(struct changes *c, enum service_table which, struct item key)
{
	attach(c, (struct table_write){.kind = TABLE_DELETE, .table = c->tables->names[which], .key = key});
}

static void attached_add(struct changes *c)
{
	for (uint32_t i = 0; i < c->attached_count; i++)
		add(c, c->attached[i], TABLE_TRANSACT_MAX);
	c->attached_count = 0;
}

struct table_write *changes_find(const struct changes *c, enum service_table which, struct bytes pk,
                                 struct bytes sk)
{
	struct row_place wanted = {which, pk, sk}, p;

	for (uint32_t i = 0; i < c->count; i++) {
		if (!bytes_equal(c->list[i].table, c->tables->names[which]))
			continue;
		p = place_of(c, &c->list[i]);
		if (same_place(&p, &wanted))
			return &c->list[i];
	}
	return NULL;
}

/* ---- committing on a table that is alone ---- */

static const char moved_on[] = "another request changed the same rows first; try again";

static enum err_code too_many(struct err *err)
{
	return err_set(err, ERR_LIMIT,
	               "this would change more than %d rows at once; split it into smaller requests",
	               CHANGES_MAX);
}

static enum err_code too_large(struct err *err)
{
	return err_set(err, ERR_LIMIT,
	               "this would change more than %d bytes at once; split it into smaller requests",
	               TABLE_TRANSACT_BYTES_MAX);
}

/* Fewer rows than this cannot be too large together. */
enum { SMALL_COUNT = TABLE_TRANSACT_BYTES_MAX / ITEM_BYTES_MAX };

static bool fits(const struct table_write *actions, uint32_t count)
{
	size_t bytes = 0;

	for (uint32_t i = 0; count > SMALL_COUNT && i < count; i++)
		bytes += item_size(write_target(&actions[i]));
	return bytes <= TABLE_TRANSACT_BYTES_MAX;
}

enum err_code changes_check(const struct changes *c, struct err *err)
{
	if (c->too_many)
		return too_many(err);
	return fits(c->list, c->count) ? ERR_NONE : too_large(err);
}

static enum err_code commit_one(struct changes *c, struct table *t, struct err *err)
{
	struct table_write_result r;

	if (t->backend->write(t, c->arena, &c->list[0], &r, err) != ERR_NONE)
		return err->code;
	return r.condition_failed ? err_set(err, ERR_CONDITION, "%s", moved_on) : ERR_NONE;
}

static enum err_code commit_many(struct changes *c, struct table *t, const struct table_transact_write *q,
                                 struct err *err)
{
	struct table_transact_result r;

	if (t->backend->transact_write(t, c->arena, q, &r, err) != ERR_NONE)
		return err->code;
	if (!r.cancelled)
		return ERR_NONE;
	for (uint32_t i = 0; i < (q->numbering == NULL ? q->count : c->count); i++)
		if (r.reasons[i].code == ERR_INVALID)
			return err_set(err, ERR_INVALID, "%s", r.reasons[i].text);
	c->unsure |= r.unsure;
	return err_set(err, c->unsure && r.undecided ? ERR_THROTTLED : ERR_CONDITION, "%s", moved_on);
}

static enum err_code commit_alone(struct changes *c, struct table *t, struct err *err)
{
	struct table_transact_write q = {.writes = c->list, .count = c->count, .numbering = c->numbering};

	return c->count == 1 && c->numbering == NULL ? commit_one(c, t, err) : commit_many(c, t, &q, err);
}

/* ---- committing among others ---- */

/* Nobody decided: it was refused for the moment, or got no answer. */
static bool is_passing(enum err_code rc)
{
	return rc == ERR_OVERLOADED || rc == ERR_THROTTLED || rc == ERR_STORAGE;
}

static const char unknown[] = "the outcome is unknown: it may have been done, or not";

/* What the transaction will take of each partition, done or not: two units per kilobyte and row. */
static void count_units(struct changes *c, const struct transaction *x, int64_t now_us)
{
	for (uint32_t i = 0; c->hot_keys != NULL && i < x->count; i++) {
		const struct table_write *w = &x->actions[i];
		struct row_place          p = place_of(c, w);
		size_t                    bytes = w->kind == TABLE_PUT ? item_size(&w->item) : 1;

		hot_keys_add(c->hot_keys, w->table, p.pk,
		             2 * ((bytes + HOT_KEYS_UNIT_BYTES - 1) / HOT_KEYS_UNIT_BYTES), now_us);
	}
}

/* The version that the transaction gives a partition; NULL: it moves none. */
static const struct table_write *version_of(const struct changes *c, const struct transaction *x)
{
	for (uint32_t i = 0; i < x->count; i++) {
		struct row_place p = place_of(c, &x->actions[i]);

		if (x->actions[i].kind == TABLE_PUT && p.which == TABLE_AUTH_STATE &&
		    bytes_is(p.sk, CHANGES_VERSION_KEY))
			return &x->actions[i];
	}
	return NULL;
}

/* A condition failed after a try that got no answer. An endpoint that remembers tokens would have said that the try was done. One that was restarted meanwhile has
 * forgotten them, and the condition may have failed because of what the try itself wrote: its version tells. */
static enum err_code commit_is_ours(struct changes *c, struct table *t, const struct transaction *x,
                                    struct err *err)
{
	const struct table_write *version = version_of(c, x);
	struct table_get_result   got;
	struct table_get          q = {.consistent = true};
	unsigned                  repeats = 0;
	enum err_code             rc;

	if (version == NULL)
		return ERR_CONDITION;
	q.table = version->table;
	q.key = row_key_two(c->arena, row_text(&version->item, "PK"), BYTES(CHANGES_VERSION_KEY));
	do
		rc = t->backend->get(t, c->arena, &q, &got, err);
	while (changes_repeat(c, t, rc, ++repeats));
	if (rc != ERR_NONE)
		return rc;
	return got.found && bytes_equal(row_text(&got.item, "version"),
	                                (struct bytes){x->token, sizeof(x->token)})
	               ? ERR_NONE
	               : err_set(err, ERR_CONDITION, "%s", moved_on);
}

/* The same token each time: of a transaction that was done although nobody said so, a repetition does nothing. One that
 * the table decided says that it was not done, and will not be. One that was refused for the moment, or because others were in the way, says
 * nothing: an earlier try may be late, and come after that. */
static enum err_code commit_apart(struct changes *c, struct table *t, struct err *err)
{
	struct transaction          x;
	struct table_transact_write q;
	unsigned                    repeats = 0;
	enum err_code               rc;

	transaction_make(&x, c, t->now_us);
	if (x.count > TABLE_TRANSACT_MAX)
		return too_many(err);
	if (x.checked_bytes > TABLE_TRANSACT_BYTES_MAX || !fits(x.actions, x.count))
		return too_large(err);
	if (single_fits(&x))
		return single_commit(&x, t, err);
	q = (struct table_transact_write){
	        .writes = x.actions, .count = x.count, .token = {x.token, sizeof(x.token)}};
	do {
		count_units(c, &x, t->now_us);
		rc = commit_many(c, t, &q, err);
		c->unsure |= rc == ERR_STORAGE;
	} while (changes_repeat(c, t, rc, ++repeats));
	if (rc == ERR_CONDITION && c->unsure)
		rc = commit_is_ours(c, t, &x, err);
	single_forget(&x);
	c->unsure = c->unsure && is_passing(rc);
	return c->unsure ? err_set(err, ERR_STORAGE, "%s", unknown) : rc;
}

/* ---- both ---- */

/* With what (1) and (2) would add now. */
uint32_t changes_room(const struct changes *c)
{
	uint32_t used = c->count + read_set_actions(c);

	return used < rows_max(c) ? rows_max(c) - used : 0;
}

static enum err_code commit_once(struct changes *c, struct table *t, struct err *err)
{
	return t->alone ? commit_alone(c, t, err) : commit_apart(c, t, err);
}

static enum err_code table_make(struct changes *c, struct table *t, struct bytes name, struct err *err)
{
	unsigned      repeats = 0;
	enum err_code rc;

	do
		rc = tables_ensure(c->tables, t, c->arena, name, err);
	while (changes_repeat(c, t, rc, ++repeats));
	return rc;
}

/* Those that are written to, those that count, and those that are looked at. */
static enum err_code tables_make(struct changes *c, struct table *t, struct err *err)
{
	for (uint32_t i = 0; c->numbering != NULL && i < c->numbering->count; i++)
		if (table_make(c, t, c->numbering->counts[i].table, err) != ERR_NONE)
			return err->code;
	for (uint32_t i = 0; i < c->count; i++)
		if (table_make(c, t, c->list[i].table, err) != ERR_NONE)
			return err->code;
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
		if (read_set_has(c, (enum service_table)i) &&
		    table_make(c, t, c->tables->names[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

/* Where there is no table nothing was found, and still is not; what is to be written there makes it. Rows that have numbers in them are known
 * only once there is a table that counts, so these may take two rounds. */
static enum err_code commit_or_make(struct changes *c, struct table *t, struct err *err)
{
	enum err_code rc = commit_once(c, t, err);
	int           rounds = c->numbering != NULL ? 2 : 1;

	for (; rc == ERR_NO_RESOURCE && rounds > 0; rounds--) {
		if (c->count == 0 && c->numbering == NULL)
			return ERR_NONE;
		rc = tables_make(c, t, err) == ERR_NONE ? commit_once(c, t, err) : err->code;
	}
	return rc;
}

enum err_code changes_commit(struct changes *c, struct table *t, struct err *err)
{
	bool nothing = c->count == 0 && c->attached_count == 0 && c->events == NULL &&
	               (t->alone || !c->certain || foresight_is_snapshot(c->foresight));
	enum err_code rc;

	attached_add(c);
	if (c->events != NULL && events_add(c, t, err) != ERR_NONE)
		return err->code;
	if (foresight_guesses(c->foresight))
		return ERR_NONE;
	if (changes_check(c, err) != ERR_NONE)
		return err->code;
	rc = nothing ? ERR_NONE : commit_or_make(c, t, err);
	if (rc == ERR_NONE && c->known != NULL)
		known_wrote(c->known, c->tables, c->list, c->count, t->now_us);
	return rc;
}

/* ---- again ---- */

void changes_pause(const struct changes *c, struct table *t, unsigned n, int64_t least_us)
{
	uint32_t bits;

	if (t->backend->pause == NULL)
		return;
	c->random(&bits, sizeof(bits));
	t->backend->pause(t, (int64_t)bits % (least_us << (n < 4 ? n : 4)));
}

bool changes_decide_again(const struct changes *c, struct table *t, enum err_code rc, unsigned decisions)
{
	if (rc != ERR_CONDITION ||
	    decisions >= (t->alone ? CHANGES_DECISIONS_MAX : CHANGES_DECISIONS_APART_MAX))
		return false;
	if (!t->alone)
		changes_pause(c, t, decisions, 1000);
	return true;
}

bool changes_repeat(const struct changes *c, struct table *t, enum err_code rc, unsigned repeats)
{
	if (t->alone || !is_passing(rc) || repeats > CHANGES_REPEATS_MAX ||
	    (t->backend->out != NULL && t->backend->out(t)))
		return false;
	changes_pause(c, t, repeats, 5000);
	return true;
}
