/* Schemas: see schemas.h. */
#include "remote/schemas.h"

#include <pthread.h>
#include <stdlib.h>

#include "item/messages.h"
#include "remote/tables.h"

struct entry {
	struct arena        arena; /* of the schema */
	struct table_schema schema;
	int64_t             until_us; /* in steady time; 0: nothing is here */
};

struct schemas {
	pthread_mutex_t lock;
	struct entry    list[SCHEMAS_MAX];
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

static void keep(struct schemas *s, const struct table_schema *schema, int64_t until_us)
{
	struct entry *e = room_for(s, schema->name);

	arena_reset(&e->arena);
	e->schema = schema_copy(&e->arena, schema);
	e->until_us = until_us;
}

/* What is known; false if nothing is, or if it is this caller's to ask. */
static bool known(struct remote *r, struct arena *a, struct bytes table, struct table_schema *out)
{
	int64_t       now = clock_steady_us(r->wire_clock);
	struct entry *e;
	bool          fresh;

	pthread_mutex_lock(&r->schemas->lock);
	e = find(r->schemas, table);
	fresh = e != NULL && now < e->until_us;
	if (fresh)
		*out = schema_copy(a, &e->schema);
	else if (e != NULL)
		e->until_us = now + (int64_t)SCHEMAS_ASK_S * 1000000; /* for the others, meanwhile */
	pthread_mutex_unlock(&r->schemas->lock);
	return fresh;
}

/* ---- any thread ---- */

enum err_code schemas_get(struct remote_session *s, struct arena *a, struct bytes table,
                          struct table_schema *out, struct err *err)
{
	struct remote *r = s->remote;
	enum err_code  rc;

	if (known(r, a, table, out))
		return ERR_NONE;
	rc = remote_table_schema(s, a, table, out, err);
	if (rc == ERR_NO_RESOURCE) {
		schemas_drop(r, table);
		return err_set(err, ERR_NO_RESOURCE, MSG_NO_TABLE);
	}
	if (rc != ERR_NONE)
		return rc;
	pthread_mutex_lock(&r->schemas->lock);
	keep(r->schemas, out, clock_steady_us(r->wire_clock) + (int64_t)SCHEMAS_LIFE_S * 1000000);
	pthread_mutex_unlock(&r->schemas->lock);
	return ERR_NONE;
}

void schemas_drop(struct remote *r, struct bytes table)
{
	struct entry *e;

	pthread_mutex_lock(&r->schemas->lock);
	e = find(r->schemas, table);
	if (e != NULL)
		e->until_us = 0;
	pthread_mutex_unlock(&r->schemas->lock);
}
