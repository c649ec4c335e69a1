/* Credentials: looking them up, and changing the file. Every change reads the file, changes the list and
 * writes it, under the lock. */
#include "access/credential.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "access/credential_file.h"
#include "base/log.h"
#include "json/json.h"

const struct credential *credentials_find(const struct credentials *c, struct bytes id)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (bytes_equal(c->list[i].id, id))
			return &c->list[i];
	return NULL;
}

const struct credential *credentials_named(const struct credentials *c, struct bytes name)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (bytes_equal(c->list[i].name, name))
			return &c->list[i];
	return NULL;
}

void credentials_release(const struct credentials *c)
{
	struct credentials *counted = (struct credentials *)(uintptr_t)c;

	if (atomic_fetch_sub(&counted->refs, 1) != 1)
		return;
	for (uint32_t i = 0; i < counted->count; i++) {
		policy_close(counted->list[i].policy);
		key_use_release(counted->list[i].use);
	}
	if (counted->file >= 0)
		close(counted->file);
	arena_release(&counted->arena);
	free(counted);
}

enum err_code credentials_load(const char *data_dir, const struct credentials **out, struct err *err)
{
	struct credentials *c;

	if (credential_file_read(data_dir, (struct bytes){NULL, 0}, &c, err) != ERR_NONE)
		return err->code;
	*out = c;
	return ERR_NONE;
}

/* ---- making ---- */

/* Characters drawn evenly from an alphabet of 32 or 64. */
static struct bytes random_text(struct arena *a, const char *alphabet, size_t len)
{
	size_t size = strlen(alphabet);
	char  *text = arena_alloc(a, len);

	if (getrandom(text, len, 0) != (ssize_t)len) {
		log_error("cannot get random bytes from the system");
		abort();
	}
	for (size_t i = 0; i < len; i++)
		text[i] = alphabet[(uint8_t)text[i] % size];
	return (struct bytes){text, len};
}

/* 160 bits of id in AWS's shape, 240 bits of secret. */
static struct bytes make_id(struct arena *a)
{
	struct bytes rest = random_text(a, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", CREDENTIAL_ID_BYTES - 4);

	return arena_printf(a, "AKGH%.*s", BYTES_ARG(rest));
}

static struct bytes make_secret(struct arena *a)
{
	return random_text(a, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
	                   CREDENTIAL_SECRET_BYTES);
}

static enum err_code check_name(struct bytes name, struct err *err)
{
	if (!bytes_hold_only(name, "-_."))
		return err_set(err, ERR_INVALID,
		               "a key's name must contain only letters, digits, '-', '_' and '.'");
	if (name.len == 0 || name.len > CREDENTIAL_NAME_MAX)
		return err_set(err, ERR_INVALID, "a key's name must have 1 to %d characters",
		               CREDENTIAL_NAME_MAX);
	return ERR_NONE;
}

static enum err_code check_policy(struct bytes text, struct bytes region, struct err *err)
{
	struct json_reader *reader = json_reader_open();
	struct policy      *policy = NULL;
	enum err_code       rc = policy_parse(reader, text, &policy, err);

	if (rc == ERR_NONE)
		rc = policy_check_home(policy, region, err);
	policy_close(policy);
	json_reader_close(reader);
	return rc;
}

static enum err_code check_limits(struct key_limits c, struct err *err)
{
	if (c.connections_max > KEY_LIMIT_MAX || c.requests_per_second_max > KEY_LIMIT_MAX)
		return err_set(err, ERR_INVALID, "the limits of a key must be at most %d", KEY_LIMIT_MAX);
	return ERR_NONE;
}

/* ---- changing the file ---- */

/* Called under the lock with a copy of the list, with room for one more. */
struct edit {
	struct credential *list;
	uint32_t           count;
	struct bytes       region; /* empty: none is written down */
	struct arena      *arena;
};

/* An absent file is an empty list. */
static enum err_code edit_begin(const char *data_dir, struct arena *a, struct edit *e,
                                const struct credentials **old, struct err *err)
{
	enum err_code rc;

	*old = NULL;
	*e = (struct edit){.arena = a};
	rc = credentials_load(data_dir, old, err);
	if (rc != ERR_NONE && rc != ERR_NO_RESOURCE)
		return rc;
	e->count = *old == NULL ? 0 : (*old)->count;
	e->region = *old == NULL ? (struct bytes){NULL, 0} : (*old)->region;
	e->list = arena_array(a, e->count + 1, sizeof(*e->list));
	if (e->count > 0)
		memcpy(e->list, (*old)->list, e->count * sizeof(*e->list));
	return ERR_NONE;
}

static struct credential *edit_find(struct edit *e, struct bytes id_or_name)
{
	for (uint32_t i = 0; i < e->count; i++)
		if (bytes_equal(e->list[i].id, id_or_name) || bytes_equal(e->list[i].name, id_or_name))
			return &e->list[i];
	return NULL;
}

static enum err_code edit_file(const char *data_dir, struct arena                               *a,
                               enum err_code (*step)(struct edit *, void *, struct err *), void *ctx,
                               struct err *err)
{
	const struct credentials *old;
	struct edit               e;
	int                       lock;
	enum err_code             rc;

	if (credential_file_lock(data_dir, &lock, err) != ERR_NONE)
		return err->code;
	rc = edit_begin(data_dir, a, &e, &old, err);
	if (rc == ERR_NONE)
		rc = step(&e, ctx, err);
	if (rc == ERR_NONE)
		rc = credential_file_write(data_dir, e.region, e.list, e.count, err);
	if (old != NULL)
		credentials_release(old);
	close(lock);
	return rc;
}

struct create {
	const struct credential_new *n;
	struct credential           *out;
};

static struct bytes create_region(const struct edit *e, const struct credential_new *n)
{
	if (n->region.len > 0)
		return n->region;
	return e->region.len > 0 ? e->region : BYTES(ACCESS_REGION);
}

static enum err_code create_step(struct edit *e, void *ctx, struct err *err)
{
	struct create               *c = ctx;
	const struct credential_new *n = c->n;

	if (check_policy(n->policy_text, create_region(e, n), err) != ERR_NONE)
		return err->code;
	if (edit_find(e, n->name) != NULL)
		return err_set(err, ERR_RESOURCE_IN_USE, "a key named \"%.*s\" already exists",
		               BYTES_ARG(n->name));
	if (e->count == CREDENTIAL_COUNT_MAX)
		return err_set(err, ERR_LIMIT, "there are already %d keys, which is the maximum",
		               CREDENTIAL_COUNT_MAX);
	*c->out = (struct credential){.id = make_id(e->arena),
	                              .secret = make_secret(e->arena),
	                              .name = n->name,
	                              .created_s = (int64_t)time(NULL),
	                              .active = true,
	                              .policy_text = n->policy_text,
	                              .limits = n->limits};
	e->list[e->count++] = *c->out;
	return ERR_NONE;
}

enum err_code credential_create(const char *data_dir, const struct credential_new *n, struct arena *a,
                                struct credential *out, struct err *err)
{
	struct create c = {n, out};

	if (check_name(n->name, err) != ERR_NONE || check_limits(n->limits, err) != ERR_NONE)
		return err->code;
	return edit_file(data_dir, a, create_step, &c, err);
}

static enum err_code region_step(struct edit *e, void *ctx, struct err *err)
{
	const struct bytes *region = ctx;

	(void)err;
	e->region = *region;
	return ERR_NONE;
}

enum err_code credentials_set_region(const char *data_dir, struct bytes region, struct err *err)
{
	struct arena  a;
	enum err_code rc;

	arena_init(&a);
	rc = edit_file(data_dir, &a, region_step, &region, err);
	arena_release(&a);
	return rc;
}

struct change {
	struct bytes id_or_name;
	enum { ROTATE, LIMIT, REVOKE } what;
	struct key_limits  limits; /* LIMIT */
	struct credential *out;
};

static void change_limit(uint32_t *limit, uint32_t to)
{
	if (to != KEY_LIMIT_KEPT)
		*limit = to;
}

static void change_key(struct edit *e, const struct change *c, struct credential *key)
{
	switch (c->what) {
	case ROTATE:
		key->secret = make_secret(e->arena);
		break;
	case LIMIT:
		change_limit(&key->limits.connections_max, c->limits.connections_max);
		change_limit(&key->limits.requests_per_second_max, c->limits.requests_per_second_max);
		break;
	case REVOKE:
		key->active = false;
		break;
	}
}

static enum err_code change_step(struct edit *e, void *ctx, struct err *err)
{
	struct change     *c = ctx;
	struct credential *key = edit_find(e, c->id_or_name);

	if (key == NULL)
		return err_set(err, ERR_NO_RESOURCE, "unknown key \"%.*s\"; `gatehouse key list` lists them",
		               BYTES_ARG(c->id_or_name));
	if (!key->active && c->what != REVOKE)
		return err_set(err, ERR_INVALID, "the key \"%.*s\" is revoked for good; create another",
		               BYTES_ARG(c->id_or_name));
	change_key(e, c, key);
	if (check_limits(key->limits, err) != ERR_NONE)
		return err->code;
	*c->out = *key;
	c->out->secret = arena_copy(e->arena, key->secret);
	c->out->id = arena_copy(e->arena, key->id);
	c->out->name = arena_copy(e->arena, key->name);
	c->out->policy = NULL;
	c->out->policy_text = arena_copy(e->arena, key->policy_text);
	return ERR_NONE;
}

enum err_code credential_rotate(const char *data_dir, struct bytes id_or_name, struct arena *a,
                                struct credential *out, struct err *err)
{
	struct change c = {.id_or_name = id_or_name, .what = ROTATE, .out = out};

	return edit_file(data_dir, a, change_step, &c, err);
}

enum err_code credential_limit(const char *data_dir, const struct credential_limit *l, struct arena *a,
                               struct credential *out, struct err *err)
{
	struct change c = {.id_or_name = l->id_or_name, .what = LIMIT, .limits = l->to, .out = out};

	return edit_file(data_dir, a, change_step, &c, err);
}

enum err_code credential_revoke(const char *data_dir, struct bytes id_or_name, struct arena *a,
                                struct credential *out, struct err *err)
{
	struct change c = {.id_or_name = id_or_name, .what = REVOKE, .out = out};

	return edit_file(data_dir, a, change_step, &c, err);
}

enum err_code credential_seal(const char *data_dir, uint32_t *count, struct err *err)
{
	struct credentials *c;
	int                 lock;
	enum err_code       rc;

	if (credential_file_lock(data_dir, &lock, err) != ERR_NONE)
		return err->code;
	rc = credential_file_read_unsealed(data_dir, &c, err);
	if (rc == ERR_NONE) {
		rc = credential_file_write(data_dir, c->region, c->list, c->count, err);
		*count = c->count;
		credentials_release(c);
	}
	close(lock);
	return rc;
}
