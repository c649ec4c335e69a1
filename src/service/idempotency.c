/* Idempotency: one row a key. */
#include "service/idempotency.h"

#include "service/row.h"

static struct bytes row_key(const struct idempotency *i, struct arena *a)
{
	return arena_printf(a, "IDEMPOTENCY#%.*s#%.*s", BYTES_ARG(i->caller), BYTES_ARG(i->key));
}

static struct bytes digest_text(const struct idempotency *i, struct arena *a)
{
	char *text = arena_alloc(a, SHA256_HEX_CHARS);

	hex_write((struct bytes){(const char *)i->digest, SHA256_BYTES}, text);
	return (struct bytes){text, SHA256_HEX_CHARS};
}

enum err_code idempotency_find(const struct idempotency *i, struct bytes table, struct table *t,
                               struct arena *a, struct kept_answer *out, struct err *err)
{
	struct table_get        q = {.table = table, .consistent = true};
	struct table_get_result r;

	*out = (struct kept_answer){0};
	q.key = row_key_one(a, row_key(i, a));
	if (tables_get(t, a, &q, &r, err) != ERR_NONE)
		return err->code;
	if (!r.found || row_expired(&r.item, "ttl", t->now_us))
		return ERR_NONE;
	if (!bytes_equal(row_text(&r.item, "digest"), digest_text(i, a)))
		return err_field(err, ERR_TOKEN_MISMATCH, "Idempotency-Key",
		                 "Idempotency-Key: already used for a different request; use a new key");
	*out = (struct kept_answer){true, (int)row_i64(&r.item, "status", 200), row_text(&r.item, "body")};
	return ERR_NONE;
}

/* The condition is for a second request with the same key at the same moment: it decides again, and finds
 * this one's answer. */
void idempotency_keep(const struct idempotency *i, struct changes *c, struct bytes table, int64_t now_us,
                      int status, struct bytes body)
{
	struct row r;

	row_init(&r, c->arena);
	row_set_text(&r, "PK", row_key(i, c->arena));
	row_set_text(&r, "body", body);
	row_set_text(&r, "digest", digest_text(i, c->arena));
	row_set_i64(&r, "status", status);
	row_set_i64(&r, "ttl", now_us / 1000000 + IDEMPOTENCY_LIFE_S);
	changes_keep(c, table, row_item(&r), row_absent(c->arena, "PK", "ttl", now_us));
}
