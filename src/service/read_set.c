/* Read set: rows and versions that were read, and the conditions that they become. See change.h, (1) and (2). */
#include "service/read_set.h"

#include <assert.h>

#include "base/crypto.h"
#include "service/context.h"
#include "service/foresight.h"
#include "service/row.h"

struct row_read {
	struct row_place place;
	bool             found, covered; /* covered: the version of its partition was read before */
	bool             no_table;
	struct item      item; /* if found */
	int64_t          now_us;
	uint32_t         round; /* of foresight.h that it was read in; 0: at once */
};

/* (2) */
struct partition_read {
	struct bytes pk;
	bool         found;
	struct bytes version; /* if found */
	int64_t      now_us;
	uint32_t     round; /* of foresight.h that it was read in, or the next one if it was read at once */
};

struct row_place place_of(const struct changes *c, const struct table_write *w)
{
	const struct item *key = write_target(w);
	enum service_table which = tables_which(c->tables, w->table);
	struct row_place   p = {.which = which};

	assert(which != SERVICE_TABLE_COUNT); /* services write to no others */
	p.pk = row_text(key, service_table_shape(which)->hash);
	if (service_table_shape(which)->range[0] != '\0')
		p.sk = row_text(key, service_table_shape(which)->range);
	return p;
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

static struct item place_key(struct arena *a, const struct row_place *p)
{
	return row_key_in(a, p->which, p->pk, p->sk);
}

/* What a row was, and in which round of foresight.h it was read; 0: at once. */
struct got {
	struct table_get_result row;
	uint32_t                round;
};

static enum err_code get(struct changes *c, struct table *t, const struct row_place *p, struct got *out,
                         struct err *err)
{
	struct table_get q = {
	        .table = c->tables->names[p->which], .key = place_key(c->arena, p), .consistent = true};
	const struct foreseen *known;
	unsigned               repeats = 0;
	enum err_code          rc;

	*out = (struct got){0};
	switch (c->foresight == NULL ? FORESEEN_NOT : foresight_look(c, p, &known)) {
	case FORESEEN_KNOWN:
	case FORESEEN_GUESSED:
		*out = (struct got){known->got, known->round};
		return ERR_NONE;
	case FORESEEN_NOT:
		break;
	}
	do
		rc = t->backend->get(t, c->arena, &q, &out->row, err);
	while (changes_repeat(c, t, rc, ++repeats));
	if (rc != ERR_NO_RESOURCE)
		return rc;
	out->row = (struct table_get_result){0}; /* no table yet */
	return ERR_NONE;
}

static void follow(struct changes *c, struct bytes pk, const struct got *got, int64_t now_us)
{
	c->partitions = grown(c->arena, c->partitions, c->partition_count, sizeof(*c->partitions));
	c->partitions[c->partition_count++] = (struct partition_read){
	        .pk = pk,
	        .found = got->row.found && !row_expired(&got->row.item, "ttl", now_us),
	        .version = row_text(&got->row.item, "version"),
	        .now_us = now_us,
	        .round = got->round};
}

enum err_code changes_follow(struct changes *c, struct table *t, struct bytes pk, struct err *err)
{
	struct row_place version = {TABLE_AUTH_STATE, pk, BYTES(CHANGES_VERSION_KEY)};
	struct got       got;

	if (t->alone || followed(c, pk) != NULL)
		return ERR_NONE;
	if (get(c, t, &version, &got, err) != ERR_NONE)
		return err->code;
	if (got.round == 0 && c->foresight != NULL)
		got.round = c->foresight->round + 1;
	follow(c, pk, &got, t->now_us);
	return ERR_NONE;
}

static const struct row_read *row_find(const struct changes *c, const struct row_place *p)
{
	for (uint32_t i = 0; i < c->row_count; i++)
		if (same_place(&c->rows[i].place, p))
			return &c->rows[i];
	return NULL;
}

/* Was it read after the version of its partition, or with it? */
static bool is_covered(const struct changes *c, const struct looked *l)
{
	const struct partition_read *p = followed(c, l->pk);

	return p != NULL && (l->round == 0 || l->round >= p->round);
}

/* Of a row that is read again, what was found first counts: if it has changed in between, the commit fails. */
void changes_read(struct changes *c, const struct table *t, enum service_table which, const struct looked *l)
{
	struct row_read r = {.place = {which, l->pk, l->sk},
	                     .found = l->found,
	                     .no_table = l->no_table,
	                     .now_us = t->now_us,
	                     .round = l->round};

	if (row_find(c, &r.place) != NULL)
		return;
	if (l->found)
		r.item = l->item;
	r.covered = moves_version(&r.place) && is_covered(c, l);
	c->uncovered += !r.covered;
	c->rows = grown(c->arena, c->rows, c->row_count, sizeof(*c->rows));
	c->rows[c->row_count++] = r;
}

enum err_code changes_look(struct changes *c, struct table *t, enum service_table which, struct looked *l,
                           struct err *err)
{
	const char      *ttl = service_table_shape(which)->ttl;
	struct row_place p = {which, l->pk, l->sk};
	struct got       got;

	if (get(c, t, &p, &got, err) != ERR_NONE)
		return err->code;
	l->round = got.round;
	l->found = got.row.found && (ttl[0] == '\0' || !row_expired(&got.row.item, ttl, t->now_us));
	if (l->found)
		l->item = got.row.item;
	if (!t->alone)
		changes_read(c, t, which, l);
	return ERR_NONE;
}

void changes_confirm(struct changes *c)
{
	c->certain = true;
}

/* ---- the transaction ---- */

/* Every attribute that was read is what it was, and what the write adds is not there yet: somebody else may have added
 * it and left the rest as it was. */
static const struct expr *unchanged(struct arena *a, const struct item *read, const struct item *written)
{
	const char **names = arena_array(a, read->count + written->count + 1, sizeof(*names));
	uint32_t     count = 0;

	for (uint32_t i = 0; i < read->count; i++)
		names[count++] = arena_printf(a, "%.*s", BYTES_ARG(read->members[i].name)).data;
	for (uint32_t i = 0; i < written->count; i++)
		if (item_get(read, written->members[i].name) == NULL)
			names[count++] = arena_printf(a, "%.*s", BYTES_ARG(written->members[i].name)).data;
	names[count] = NULL;
	return row_same(a, read, names);
}

/* `written`: what takes its place, or nothing. */
static const struct expr *as_read(struct arena *a, const struct row_read *r, const struct item *written)
{
	const struct service_table_shape *shape = service_table_shape(r->place.which);

	return r->found ? unchanged(a, &r->item, written) : row_absent(a, shape->hash, shape->ttl, r->now_us);
}

static bool is_written(const struct changes *c, const struct row_place *p)
{
	return changes_find(c, p->which, p->pk, p->sk) != NULL;
}

static bool writes_to(const struct changes *c, enum service_table which)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (tables_which(c->tables, c->list[i].table) == which)
			return true;
	return false;
}

/* Does what was read have to be checked by an action of its own? (5) */
static bool is_checked(const struct changes *c, const struct row_read *r)
{
	return !r->covered && !is_written(c, &r->place) && (!r->no_table || writes_to(c, r->place.which));
}

static void rows_check(struct transaction *x)
{
	static const struct item nothing = {0};
	struct changes          *c = x->c;

	for (uint32_t i = 0; i < c->row_count; i++) {
		const struct row_read *r = &c->rows[i];

		if (!is_checked(c, r))
			continue;
		x->checked_bytes += r->found ? item_size(&r->item) : 0;
		x->actions[x->count++] = (struct table_write){.kind = TABLE_CHECK,
		                                              .table = c->tables->names[r->place.which],
		                                              .key = place_key(c->arena, &r->place),
		                                              .condition = as_read(c->arena, r, &nothing)};
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
	row_set_i64(&row, "ttl", now_us / 1000000 + x->c->late_s + CHANGES_VERSION_LIFE_S);
	x->actions[x->count++] =
	        (struct table_write){.kind = TABLE_PUT,
	                             .table = x->c->tables->names[TABLE_AUTH_STATE],
	                             .item = row_item(&row),
	                             .condition = read == NULL ? NULL : version_same(a, read)};
}

bool moves_version(const struct row_place *p)
{
	return p->which == TABLE_AUTH_STATE && !bytes_is(p->sk, KEY_RESERVATION);
}

/* Is it the first change of the list in its partition? */
static bool is_first(const struct changes *c, uint32_t at, struct row_place *out)
{
	*out = place_of(c, &c->list[at]);
	for (uint32_t i = 0; i < at; i++) {
		struct row_place p = place_of(c, &c->list[i]);

		if (moves_version(&p) && bytes_equal(p.pk, out->pk))
			return false;
	}
	return moves_version(out);
}

static bool is_moved(const struct changes *c, struct bytes pk)
{
	for (uint32_t i = 0; i < c->count; i++) {
		struct row_place p = place_of(c, &c->list[i]);

		if (moves_version(&p) && bytes_equal(p.pk, pk))
			return true;
	}
	return false;
}

/* (2) */
static void versions_move(struct transaction *x, int64_t now_us)
{
	struct changes  *c = x->c;
	struct row_place p;

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

/* ---- one condition for many rows ---- */

static bool is_under(const struct changes *c, const struct row_read *r, const struct foreseen *version)
{
	return is_checked(c, r) && moves_version(&r->place) && r->round >= version->round &&
	       bytes_equal(r->place.pk, version->place.pk);
}

/* Rows that need a check of their own, and that the version of the partition, read with them or before, could stand for. */
static uint32_t rows_under(const struct changes *c, const struct foreseen *version)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < c->row_count; i++)
		count += is_under(c, &c->rows[i], version);
	return count;
}

/* A version that is moved anyway carries its condition for nothing; one that is only looked at takes the place of several rows. */
static void partition_cover(struct changes *c, const struct foreseen *version, int64_t now_us)
{
	struct bytes pk = version->place.pk;
	struct got   got = {version->got, version->round};

	if (rows_under(c, version) < (is_moved(c, pk) ? 1 : 2))
		return;
	if (followed(c, pk) == NULL)
		follow(c, pk, &got, now_us);
	for (uint32_t i = 0; i < c->row_count; i++)
		c->rows[i].covered = c->rows[i].covered || is_under(c, &c->rows[i], version);
}

/* Decision 037. */
static void rows_cover(struct changes *c, int64_t now_us)
{
	for (uint32_t i = 0; c->foresight != NULL && i < c->row_count; i++) {
		const struct row_read *r = &c->rows[i];
		const struct foreseen *version =
		        moves_version(&r->place) ? foresight_version(c->foresight, r->place.pk) : NULL;

		if (!r->covered && version != NULL)
			partition_cover(c, version, now_us);
	}
}

static void token_make(struct changes *c, char token[TABLE_TOKEN_MAX])
{
	uint8_t bits[TABLE_TOKEN_MAX / 2];

	c->random(bits, sizeof(bits));
	hex_write((struct bytes){(const char *)bits, sizeof(bits)}, token);
}

void transaction_make(struct transaction *x, struct changes *c, int64_t now_us)
{
	uint32_t room;

	rows_cover(c, now_us);
	room = 2 * c->count + c->row_count + c->partition_count;
	*x = (struct transaction){.c = c};
	token_make(c, x->token);
	x->actions = arena_array(c->arena, room + 1, sizeof(*x->actions));
	for (uint32_t i = 0; i < c->count; i++) {
		struct row_place       p = place_of(c, &c->list[i]);
		const struct row_read *r = row_find(c, &p);

		x->actions[x->count] = c->list[i];
		if (r != NULL && c->list[i].condition == NULL)
			x->actions[x->count].condition = as_read(c->arena, r, write_target(&c->list[i]));
		x->count++;
	}
	rows_check(x);
	versions_move(x, now_us);
}

uint32_t read_set_actions(const struct changes *c)
{
	uint32_t         count = 0;
	struct row_place p;

	if (c->row_count + c->partition_count == 0)
		return 0;
	for (uint32_t i = 0; i < c->row_count; i++)
		count += !c->rows[i].covered && !is_written(c, &c->rows[i].place);
	for (uint32_t i = 0; i < c->count; i++)
		count += is_first(c, i, &p);
	for (uint32_t i = 0; i < c->partition_count; i++)
		count += !is_moved(c, c->partitions[i].pk);
	return count;
}

bool read_set_has(const struct changes *c, enum service_table which)
{
	for (uint32_t i = 0; i < c->row_count; i++)
		if (c->rows[i].place.which == which && !c->rows[i].no_table)
			return true;
	return which == TABLE_AUTH_STATE && c->partition_count > 0;
}
