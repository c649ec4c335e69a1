/* Changes: a list, what it depends on, and the one place where services write. See change.h. */
#include "service/change.h"

#include <assert.h>

#include "base/crypto.h"
#include "service/event.h"
#include "service/row.h"

/* Where a row is. */
struct place {
	enum service_table which;
	struct bytes       pk, sk; /* sk: empty if the table has none */
};

struct row_read {
	struct place place;
	bool         found, covered; /* covered: the version of its partition was read before */
	struct item  item;           /* if found */
	int64_t      now_us;
};

/* (2) */
struct partition_read {
	struct bytes pk;
	bool         found;
	struct bytes version; /* if found */
	int64_t      now_us;
};

void changes_init(struct changes *c, struct arena *a, const struct service_tables *tables)
{
	*c = (struct changes){.arena = a, .tables = tables};
}

/* ---- the list ---- */

static const struct item *target(const struct table_write *w)
{
	return w->kind == TABLE_PUT ? &w->item : &w->key;
}

static struct place place_of(const struct changes *c, struct bytes table, const struct item *key)
{
	enum service_table which = tables_which(c->tables, table);
	struct place       p = {.which = which};

	assert(which != SERVICE_TABLE_COUNT); /* services write to no others */
	p.pk = row_text(key, service_table_shape(which)->hash);
	if (service_table_shape(which)->range[0] != '\0')
		p.sk = row_text(key, service_table_shape(which)->range);
	return p;
}

static bool same_place(const struct place *a, const struct place *b)
{
	return a->which == b->which && bytes_equal(a->sk, b->sk) && bytes_equal(a->pk, b->pk);
}

/* An update of what an earlier change left. Our own updates fit our own rows. */
static void update_join(struct changes *c, struct table_write *earlier, const struct table_write *w)
{
	struct item   after;
	struct err    err;
	enum err_code rc;

	assert(earlier->kind != TABLE_UPDATE); /* two updates of one row: nobody makes them */
	rc = expr_update_apply(c->arena, w->update, target(earlier), &after, &err);
	assert(rc == ERR_NONE);
	(void)rc;
	*earlier = (struct table_write){
	        .kind = TABLE_PUT, .table = w->table, .item = after, .condition = earlier->condition};
}

static bool replace(struct changes *c, const struct table_write *w)
{
	struct place to, other;

	if (c->count == 0)
		return false;
	to = place_of(c, w->table, target(w));
	for (uint32_t i = 0; i < c->count; i++) {
		const struct expr *condition = c->list[i].condition;

		other = place_of(c, c->list[i].table, target(&c->list[i]));
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

static void add(struct changes *c, struct table_write w, uint32_t most)
{
	if (replace(c, &w))
		return;
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
	add(c, (struct table_write){.kind = TABLE_PUT, .table = table, .item = item, .condition = condition},
	    TABLE_TRANSACT_MAX);
}

const struct table_write *changes_find(const struct changes *c, enum service_table which, struct bytes pk,
                                       struct bytes sk)
{
	struct place wanted = {which, pk, sk}, p;

	for (uint32_t i = 0; i < c->count; i++) {
		p = place_of(c, c->list[i].table, target(&c->list[i]));
		if (same_place(&p, &wanted))
			return &c->list[i];
	}
	return NULL;
}

/* ---- what was read ---- */

static void *grown(struct arena *a, void *list, uint32_t count, size_t size)
{
	void *larger;

	if (count % 16 != 0)
		return list;
	larger = arena_array(a, count + 16, size);
	if (count > 0)
		memcpy(larger, list, count * size);
	return larger;
}

static struct partition_read *followed(const struct changes *c, struct bytes pk)
{
	for (uint32_t i = 0; i < c->partition_count; i++)
		if (bytes_equal(c->partitions[i].pk, pk))
			return &c->partitions[i];
	return NULL;
}

static struct item place_key(struct arena *a, const struct place *p)
{
	return service_table_shape(p->which)->range[0] == '\0' ? row_key_one(a, p->pk)
	                                                       : row_key_two(a, p->pk, p->sk);
}

static enum err_code get(struct changes *c, struct table *t, const struct place *p,
                         struct table_get_result *r, struct err *err)
{
	struct table_get q = {
	        .table = c->tables->names[p->which], .key = place_key(c->arena, p), .consistent = true};
	unsigned      repeats = 0;
	enum err_code rc;

	do
		rc = t->backend->get(t, c->arena, &q, r, err);
	while (changes_repeat(c, t, rc, ++repeats));
	if (rc != ERR_NO_RESOURCE)
		return rc;
	*r = (struct table_get_result){0}; /* no table yet */
	return ERR_NONE;
}

enum err_code changes_follow(struct changes *c, struct table *t, struct bytes pk, struct err *err)
{
	struct place            version = {TABLE_AUTH_STATE, pk, BYTES(CHANGES_VERSION_KEY)};
	struct table_get_result r;

	if (t->alone || followed(c, pk) != NULL)
		return ERR_NONE;
	if (get(c, t, &version, &r, err) != ERR_NONE)
		return err->code;
	c->partitions = grown(c->arena, c->partitions, c->partition_count, sizeof(*c->partitions));
	c->partitions[c->partition_count++] =
	        (struct partition_read){.pk = pk,
	                                .found = r.found && !row_expired(&r.item, "ttl", t->now_us),
	                                .version = row_text(&r.item, "version"),
	                                .now_us = t->now_us};
	return ERR_NONE;
}

static const struct row_read *row_find(const struct changes *c, const struct place *p)
{
	for (uint32_t i = 0; i < c->row_count; i++)
		if (same_place(&c->rows[i].place, p))
			return &c->rows[i];
	return NULL;
}

/* Of a row that is read again, what was found first counts: if it has changed in between, the commit fails. */
void changes_read(struct changes *c, const struct table *t, enum service_table which, const struct looked *l)
{
	struct row_read r = {.place = {which, l->pk, l->sk}, .found = l->found, .now_us = t->now_us};

	if (row_find(c, &r.place) != NULL)
		return;
	if (l->found)
		r.item = l->item;
	r.covered = which == TABLE_AUTH_STATE && followed(c, l->pk) != NULL;
	c->uncovered += !r.covered;
	c->rows = grown(c->arena, c->rows, c->row_count, sizeof(*c->rows));
	c->rows[c->row_count++] = r;
}

enum err_code changes_look(struct changes *c, struct table *t, enum service_table which, struct looked *l,
                           struct err *err)
{
	const char             *ttl = service_table_shape(which)->ttl;
	struct place            p = {which, l->pk, l->sk};
	struct table_get_result r;

	if (get(c, t, &p, &r, err) != ERR_NONE)
		return err->code;
	l->found = r.found && (ttl[0] == '\0' || !row_expired(&r.item, ttl, t->now_us));
	if (l->found)
		l->item = r.item;
	if (!t->alone)
		changes_read(c, t, which, l);
	return ERR_NONE;
}

void changes_confirm(struct changes *c)
{
	c->certain = true;
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
		bytes += item_size(target(&actions[i]));
	return bytes <= TABLE_TRANSACT_BYTES_MAX;
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
	for (uint32_t i = 0; i < q->count; i++)
		if (r.reasons[i].code == ERR_INVALID)
			return err_set(err, ERR_INVALID, "%s", r.reasons[i].text);
	return err_set(err, ERR_CONDITION, "%s", moved_on);
}

static enum err_code commit_alone(struct changes *c, struct table *t, struct err *err)
{
	struct table_transact_write q = {.writes = c->list, .count = c->count};

	return c->count == 1 ? commit_one(c, t, err) : commit_many(c, t, &q, err);
}

/* ---- committing among others ---- */

/* The transaction: the list with its conditions, checks of what was only read, and versions. */
struct transaction {
	struct changes     *c;
	struct table_write *actions;
	uint32_t            count;
	size_t              checked_bytes; /* a transaction is measured with what it looks at */
	char                token[TABLE_TOKEN_MAX];
};

/* Every attribute that was read is what it was. */
static const struct expr *unchanged(struct arena *a, const struct item *read)
{
	const char **names = arena_array(a, read->count + 1, sizeof(*names));

	for (uint32_t i = 0; i < read->count; i++)
		names[i] = arena_printf(a, "%.*s", BYTES_ARG(read->members[i].name)).data;
	names[read->count] = NULL;
	return row_same(a, read, names);
}

static const struct expr *as_read(struct arena *a, const struct row_read *r)
{
	const struct service_table_shape *shape = service_table_shape(r->place.which);

	return r->found ? unchanged(a, &r->item) : row_absent(a, shape->hash, shape->ttl, r->now_us);
}

static bool is_written(const struct changes *c, const struct place *p)
{
	return changes_find(c, p->which, p->pk, p->sk) != NULL;
}

static void rows_check(struct transaction *x)
{
	struct changes *c = x->c;

	for (uint32_t i = 0; i < c->row_count; i++) {
		const struct row_read *r = &c->rows[i];

		if (r->covered || is_written(c, &r->place))
			continue;
		x->checked_bytes += r->found ? item_size(&r->item) : 0;
		x->actions[x->count++] = (struct table_write){.kind = TABLE_CHECK,
		                                              .table = c->tables->names[r->place.which],
		                                              .key = place_key(c->arena, &r->place),
		                                              .condition = as_read(c->arena, r)};
	}
}

static const struct expr *version_same(struct arena *a, const struct partition_read *p)
{
	static const char *const version[] = {"version", NULL};
	struct row               read;

	if (!p->found)
		return row_absent(a, "PK", "ttl", p->now_us);
	row_init(&read, a);
	row_set_text(&read, "version", p->version);
	return row_same(a, &read.item, version);
}

/* A token is never used twice, so that a version never comes back, even if its row expired meanwhile. */
static void version_put(struct transaction *x, struct bytes pk, const struct partition_read *read,
                        int64_t now_us)
{
	struct arena *a = x->c->arena;
	struct row    row;

	row_init(&row, a);
	row_set_text(&row, "PK", pk);
	row_set_text(&row, "SK", BYTES(CHANGES_VERSION_KEY));
	row_set_text(&row, "version", (struct bytes){x->token, sizeof(x->token)});
	row_set_i64(&row, "ttl", now_us / 1000000 + CHANGES_VERSION_LIFE_S);
	x->actions[x->count++] =
	        (struct table_write){.kind = TABLE_PUT,
	                             .table = x->c->tables->names[TABLE_AUTH_STATE],
	                             .item = row_item(&row),
	                             .condition = read == NULL ? NULL : version_same(a, read)};
}

/* A reservation is alone in its partition and never found by a query. */
static bool moves_version(const struct place *p)
{
	return p->which == TABLE_AUTH_STATE && !bytes_is(p->sk, KEY_RESERVATION);
}

/* Is it the first change of the list in its partition? */
static bool is_first(const struct changes *c, uint32_t at, struct place *out)
{
	*out = place_of(c, c->list[at].table, target(&c->list[at]));
	for (uint32_t i = 0; i < at; i++) {
		struct place p = place_of(c, c->list[i].table, target(&c->list[i]));

		if (moves_version(&p) && bytes_equal(p.pk, out->pk))
			return false;
	}
	return moves_version(out);
}

static bool is_moved(const struct changes *c, struct bytes pk)
{
	for (uint32_t i = 0; i < c->count; i++) {
		struct place p = place_of(c, c->list[i].table, target(&c->list[i]));

		if (moves_version(&p) && bytes_equal(p.pk, pk))
			return true;
	}
	return false;
}

/* (2) */
static void versions_move(struct transaction *x, int64_t now_us)
{
	struct changes *c = x->c;
	struct place    p;

	for (uint32_t i = 0; i < c->count; i++)
		if (is_first(c, i, &p))
			version_put(x, p.pk, followed(c, p.pk), now_us);
	for (uint32_t i = 0; i < c->partition_count; i++)
		if (!is_moved(c, c->partitions[i].pk))
			x->actions[x->count++] = (struct table_write){
			        .kind = TABLE_CHECK,
			        .table = c->tables->names[TABLE_AUTH_STATE],
			        .key = row_key_two(c->arena, c->partitions[i].pk, BYTES(CHANGES_VERSION_KEY)),
			        .condition = version_same(c->arena, &c->partitions[i])};
}

static void token_make(struct changes *c, char token[TABLE_TOKEN_MAX])
{
	uint8_t bits[TABLE_TOKEN_MAX / 2];

	c->random(bits, sizeof(bits));
	hex_write((struct bytes){(const char *)bits, sizeof(bits)}, token);
}

static void transaction_make(struct transaction *x, struct changes *c, int64_t now_us)
{
	uint32_t room = 2 * c->count + c->row_count + c->partition_count;

	*x = (struct transaction){.c = c};
	token_make(c, x->token);
	x->actions = arena_array(c->arena, room + 1, sizeof(*x->actions));
	for (uint32_t i = 0; i < c->count; i++) {
		struct place           p = place_of(c, c->list[i].table, target(&c->list[i]));
		const struct row_read *r = row_find(c, &p);

		x->actions[x->count] = c->list[i];
		if (r != NULL && c->list[i].condition == NULL)
			x->actions[x->count].condition = as_read(c->arena, r);
		x->count++;
	}
	rows_check(x);
	versions_move(x, now_us);
}

/* The same token each time: of a transaction that was done although nobody said so, a repetition does nothing. */
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
	q = (struct table_transact_write){
	        .writes = x.actions, .count = x.count, .token = {x.token, sizeof(x.token)}};
	do
		rc = commit_many(c, t, &q, err);
	while (changes_repeat(c, t, rc, ++repeats));
	return rc;
}

/* ---- both ---- */

/* Counts what (1) and (2) would add now. */
uint32_t changes_room(const struct changes *c)
{
	uint32_t     used = c->count;
	struct place p;

	for (uint32_t i = 0; i < c->row_count; i++)
		used += !c->rows[i].covered && !is_written(c, &c->rows[i].place);
	for (uint32_t i = 0; c->row_count + c->partition_count > 0 && i < c->count; i++)
		used += is_first(c, i, &p);
	for (uint32_t i = 0; i < c->partition_count; i++)
		used += !is_moved(c, c->partitions[i].pk);
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

/* Those that are written to, and those that are looked at. */
static enum err_code tables_make(struct changes *c, struct table *t, struct err *err)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (table_make(c, t, c->list[i].table, err) != ERR_NONE)
			return err->code;
	for (uint32_t i = 0; i < c->row_count; i++)
		if (table_make(c, t, c->tables->names[c->rows[i].place.which], err) != ERR_NONE)
			return err->code;
	return c->partition_count == 0 ? ERR_NONE : table_make(c, t, c->tables->names[TABLE_AUTH_STATE], err);
}

enum err_code changes_commit(struct changes *c, struct table *t, struct err *err)
{
	bool          nothing = c->count == 0 && c->events == NULL && (t->alone || !c->certain);
	enum err_code rc;

	if (c->events != NULL && events_add(c, t, err) != ERR_NONE)
		return err->code;
	if (c->too_many)
		return too_many(err);
	if (!fits(c->list, c->count))
		return too_large(err);
	rc = nothing ? ERR_NONE : commit_once(c, t, err);
	if (rc != ERR_NO_RESOURCE)
		return rc;
	if (c->count == 0) /* nothing was found where there is no table, and still is not */
		return ERR_NONE;
	return tables_make(c, t, err) == ERR_NONE ? commit_once(c, t, err) : err->code;
}

/* ---- again ---- */

/* Longer each time, and never the same for two: 0 to `least` << n, at most 16 times as long. */
static void pause(const struct changes *c, struct table *t, unsigned n, int64_t least_us)
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
		pause(c, t, decisions, 1000);
	return true;
}

bool changes_repeat(const struct changes *c, struct table *t, enum err_code rc, unsigned repeats)
{
	if (t->alone || (rc != ERR_OVERLOADED && rc != ERR_THROTTLED && rc != ERR_STORAGE) ||
	    repeats > CHANGES_REPEATS_MAX)
		return false;
	pause(c, t, repeats, 5000);
	return true;
}
