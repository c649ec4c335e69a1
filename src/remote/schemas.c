/* Schemas: see schemas.h. */
#include "remote/schemas.h"

#include <pthread.h>
#include <stdlib.h>

#include "item/messages.h"
#include "remote/tables.h"

struct entry {
	struct arena        arena; /* of the schema */
	struct table_schema schema;
	bool                absent;   /* there is no such table: only its name is known */
	int64_t             until_us; /* in steady time; 0: nothing is here */
};

struct schemas {
	pthread_mutex_t lock;
	struct entry    list[SCHEMAS_MAX];
	uint64_t        drops; /* what was asked before one of these may be wrong by now */
};

struct schemas *schemas_open(void)
{
	struct schemas *s = mem_zalloc(sizeof(*s));

	pthread_mutex_init(&s->lock, NULL);
	for (int i = 0; i < SCHEMAS_MAX; i++)
		arena_init(&s->list[i].arena);
	return s;
}

void schemas_close(struct schemas *s)
{
	for (int i = 0; i < SCHEMAS_MAX; i++)
		arena_release(&s->list[i].arena);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- under lock ---- */

static struct entry *find(struct schemas *s, struct bytes table)
{
	for (int i = 0; i < SCHEMAS_MAX; i++)
		if (s->list[i].until_us > 0 && bytes_equal(s->list[i].schema.name, table))
			return &s->list[i];
	return NULL;
}

/* The entry of that table, or one that is free, or the oldest. */
static struct entry *room_for(struct schemas *s, struct bytes table)
{
	struct entry *e = find(s, table);

	if (e != NULL)
		return e;
	e = &s->list[0];
	for (int i = 1; i < SCHEMAS_MAX; i++)
		if (s->list[i].until_us < e->until_us)
			e = &s->list[i];
	return e;
}

static void keep(struct schemas *s, const struct table_schema *schema, bool absent, int64_t until_us)
{
	struct entry *e = room_for(s, schema->name);

	arena_reset(&e->arena);
	e->schema = absent ? (struct table_schema){.name = arena_copy(&e->arena, schema->name)}
	                   : schema_copy(&e->arena, schema);
	e->absent = absent;
	e->until_us = until_us;
}

/* Another process may have made it since it was asked. */
static bool is_absent(const struct remote_session *s, const struct entry *e)
{
	return e->absent && clock_steady_us(s->remote->wire_clock) < e->until_us &&
	       e->until_us - (int64_t)SCHEMAS_ABSENT_S * 1000000 >= s->fresh_us;
}

enum knowledge { UNKNOWN, ABSENT, PRESENT };

/* UNKNOWN also if it is this caller's to ask. */
static enum knowledge known(struct remote_session *s, struct arena *a, struct bytes table,
                            struct table_schema *out)
{
	struct remote *r = s->remote;
	int64_t        now = clock_steady_us(r->wire_clock);
	enum knowledge what = UNKNOWN;
	struct entry  *e;

	pthread_mutex_lock(&r->schemas->lock);
	e = find(r->schemas, table);
	if (e != NULL && e->absent)
		what = is_absent(s, e) ? ABSENT : UNKNOWN;
	else if (e != NULL && now < e->until_us)
		what = PRESENT;
	else if (e != NULL && !e->absent)
		e->until_us = now + (int64_t)SCHEMAS_ASK_S * 1000000; /* for the others, meanwhile */
	if (what == PRESENT)
		*out = schema_copy(a, &e->schema);
	pthread_mutex_unlock(&r->schemas->lock);
	return what;
}

/* ---- any thread ---- */

/* Unless something was dropped since it was asked. absent_us: there is none, asked then, in steady time; 0: there is one. */
static void learn(struct remote *r, const struct table_schema *schema, int64_t absent_us, uint64_t drops)
{
	bool    absent = absent_us > 0;
	int64_t life_s = absent ? SCHEMAS_ABSENT_S : SCHEMAS_LIFE_S;

	pthread_mutex_lock(&r->schemas->lock);
	if (drops == r->schemas->drops)
		keep(r->schemas, schema, absent,
		     (absent ? absent_us : clock_steady_us(r->wire_clock)) + life_s * 1000000);
	pthread_mutex_unlock(&r->schemas->lock);
}

static uint64_t drops_so_far(struct schemas *s)
{
	uint64_t drops;

	pthread_mutex_lock(&s->lock);
	drops = s->drops;
	pthread_mutex_unlock(&s->lock);
	return drops;
}

enum err_code schemas_get(struct remote_session *s, struct arena *a, struct bytes table,
                          struct table_schema *out, struct err *err)
{
	struct remote *r = s->remote;
	uint64_t       drops = drops_so_far(r->schemas);
	enum knowledge what = known(s, a, table, out);
	int64_t        asked_us = clock_steady_us(r->wire_clock);
	enum err_code  rc = what == ABSENT ? ERR_NO_RESOURCE : ERR_NONE;

	if (what == UNKNOWN) {
		rc = remote_table_schema(s, a, table, out, err);
		if (rc == ERR_NONE)
			learn(r, out, 0, drops);
		else if (rc == ERR_NO_RESOURCE)
			learn(r, &(struct table_schema){.name = table}, asked_us, drops);
	}
	return rc == ERR_NO_RESOURCE ? err_set(err, rc, MSG_NO_TABLE) : rc;
}

bool schemas_lack(const struct remote_session *s, struct bytes table)
{
	struct remote      *r = s->remote;
	const struct entry *e;
	bool                lack;

	pthread_mutex_lock(&r->schemas->lock);
	e = find(r->schemas, table);
	lack = e != NULL && is_absent(s, e);
	pthread_mutex_unlock(&r->schemas->lock);
	return lack;
}

void schemas_drop(struct remote *r, struct bytes table)
{
	struct entry *e;

	pthread_mutex_lock(&r->schemas->lock);
	e = find(r->schemas, table);
	if (e != NULL)
		e->until_us = 0;
	r->schemas->drops++;
	pthread_mutex_unlock(&r->schemas->lock);
}
