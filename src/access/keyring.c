/* Keyring: the credentials in force, and what each key takes up.
 *
 * Editing replaces the file, so a change is seen by the very next request if each
 * acquire looks at the file. It does so by the descriptor that the set in force was read from: a file that was
 * replaced, moved, removed or written to has other links or times, and not searching for the path makes the look
 * three times cheaper. Held open, its inode is never given to another file. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "access/credential_file.h"
#include "base/log.h"
#include "base/seal.h"

#define ADMINISTRATOR "administrator"
#define EVERYTHING                                                                                           \
	"{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*" \
	"\"}]}"

struct keyring {
	/* set once */
	char data_dir[PATH_MAX];
	char path[PATH_MAX];
	char region[ACCESS_REGION_BYTES_MAX + 1];

	/* under lock */
	pthread_mutex_t           lock;
	struct stat               read; /* the file that was read last, good or not */
	const struct credentials *now;
};

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_nlink == b->st_nlink && a->st_size == b->st_size &&
	       same_time(a->st_mtim, b->st_mtim) && same_time(a->st_ctim, b->st_ctim);
}

static enum err_code make_first(const char *data_dir, struct err *err)
{
	struct credential_new administrator = {.name = BYTES(ADMINISTRATOR),
	                                       .policy_text = BYTES(EVERYTHING)};
	struct credential     ignored;
	struct arena          a;
	enum err_code         rc;

	arena_init(&a);
	rc = credential_create(data_dir, &administrator, &a, &ignored, err);
	arena_release(&a);
	return rc;
}

/* Seals the file if an older program wrote it. */
static enum err_code seal_first(const char *data_dir, struct err *err)
{
	uint32_t count;
	bool     due;

	if (seal_is_due(data_dir, "keys.json", &due, err) != ERR_NONE)
		return err->code;
	return due ? credential_seal(data_dir, &count, err) : ERR_NONE;
}

/* A key that was there before goes on with its use; `old` may be NULL. */
static void link_uses(struct credentials *c, const struct credentials *old)
{
	for (uint32_t i = 0; i < c->count; i++) {
		const struct credential *before = old == NULL ? NULL : credentials_find(old, c->list[i].id);

		c->list[i].use = before == NULL ? key_use_open() : key_use_ref(before->use);
	}
}

/* For `gatehouse key create`, which checks that policies are for it. */
static enum err_code read_first(struct keyring *k, struct credentials **c, struct err *err)
{
	struct bytes region = bytes_of(k->region);

	if (credential_file_read(k->data_dir, region, c, err) != ERR_NONE)
		return err->code;
	if (bytes_equal((*c)->region.len > 0 ? (*c)->region : BYTES(ACCESS_REGION), region))
		return ERR_NONE;
	credentials_release(*c);
	if (credentials_set_region(k->data_dir, region, err) != ERR_NONE)
		return err->code;
	return credential_file_read(k->data_dir, region, c, err);
}

enum err_code keyring_open(struct keyring **out, const char *data_dir, struct bytes region, bool *made,
                           struct err *err)
{
	struct keyring     *k = mem_zalloc(sizeof(*k));
	struct credentials *c;
	enum err_code       rc;

	snprintf(k->data_dir, sizeof(k->data_dir), "%s", data_dir);
	snprintf(k->path, sizeof(k->path), "%s/keys.json", data_dir);
	snprintf(k->region, sizeof(k->region), "%.*s", BYTES_ARG(region));
	pthread_mutex_init(&k->lock, NULL);
	*made = false;
	rc = seal_first(data_dir, err);
	if (rc == ERR_NONE)
		rc = read_first(k, &c, err);
	if (rc == ERR_NO_RESOURCE) {
		rc = make_first(data_dir, err);
		*made = rc == ERR_NONE;
		if (rc == ERR_NONE)
			rc = read_first(k, &c, err);
	}
	if (rc != ERR_NONE) {
		keyring_close(k);
		return rc;
	}
	link_uses(c, NULL);
	k->now = c;
	k->read = c->read;
	*out = k;
	return ERR_NONE;
}

void keyring_close(struct keyring *k)
{
	if (k->now != NULL)
		credentials_release(k->now);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

/* Under the lock. A file that is gone leaves the last good set: only revoking revokes. */
static void read_again(struct keyring *k, const struct stat *changed)
{
	struct credentials *c;
	struct err          err;

	k->read = *changed; /* a bad file is complained of once */
	if (credential_file_read(k->data_dir, bytes_of(k->region), &c, &err) != ERR_NONE) {
		log_error("the access keys were not reloaded, and the previous ones stay in force: %s",
		          err.text);
		return;
	}
	k->read = c->read;
	link_uses(c, k->now);
	credentials_release(k->now);
	k->now = c;
	log_info("reloaded the access keys: %u", c->count);
}

/* Under the lock. */
static const struct credentials *count_now(struct keyring *k)
{
	struct credentials *c = (struct credentials *)(uintptr_t)k->now;

	atomic_fetch_add(&c->refs, 1);
	return c;
}

/* A file without links was replaced, maybe before it was first looked at: then it would look the same for ever. */
static bool is_as_read(const struct credentials *c)
{
	struct stat st;

	return fstat(c->file, &st) == 0 && st.st_nlink > 0 && same_file(&st, &c->read);
}

/* By its path: another file may be there, the same one changed, or none. */
static const struct credentials *acquire_anew(struct keyring *k)
{
	const struct credentials *c;
	struct stat               st;
	bool                      known = stat(k->path, &st) == 0;

	pthread_mutex_lock(&k->lock);
	if (known && !same_file(&st, &k->read))
		read_again(k, &st);
	c = count_now(k);
	pthread_mutex_unlock(&k->lock);
	return c;
}

const struct credentials *keyring_acquire(struct keyring *k)
{
	const struct credentials *c;

	pthread_mutex_lock(&k->lock);
	c = count_now(k);
	pthread_mutex_unlock(&k->lock);
	if (is_as_read(c))
		return c;
	credentials_release(c);
	return acquire_anew(k);
}

/* ---- what a key takes up: two numbers, each moved by compare and swap, so that of any number of threads exactly as
 * many get in as there is room for ---- */

#define SECOND_NS 1000000000

struct key_use *key_use_open(void)
{
	struct key_use *u = mem_zalloc(sizeof(*u));

	atomic_init(&u->refs, 1);
	return u;
}

struct key_use *key_use_ref(struct key_use *u)
{
	atomic_fetch_add(&u->refs, 1);
	return u;
}

void key_use_release(struct key_use *u)
{
	if (u != NULL && atomic_fetch_sub(&u->refs, 1) == 1)
		free(u);
}

/* They are counted without a limit too: there may be one tomorrow. */
bool key_use_connect(struct key_use *u, const struct key_limits *limits)
{
	unsigned now = atomic_load(&u->connections);

	do {
		if (limits->connections_max > 0 && now >= limits->connections_max)
			return false;
	} while (!atomic_compare_exchange_weak(&u->connections, &now, now + 1));
	key_use_ref(u);
	return true;
}

void key_use_disconnect(struct key_use *u)
{
	atomic_fetch_sub(&u->connections, 1);
	key_use_release(u);
}

/* Each request takes its share of a second, and they stand in line; the line may be a second long. */
bool key_use_follow(struct key_use *u, unsigned most)
{
	unsigned now = atomic_load(&u->followers);

	do
		if (now >= most)
			return false;
	while (!atomic_compare_exchange_weak(&u->followers, &now, now + 1));
	return true;
}

void key_use_unfollow(struct key_use *u)
{
	atomic_fetch_sub(&u->followers, 1);
}

bool key_use_request(struct key_use *u, const struct key_limits *limits, int64_t now_us)
{
	int64_t now_ns = now_us * 1000, line = atomic_load(&u->free_ns), after;

	if (limits->requests_per_second_max == 0)
		return true;
	do {
		after = (line > now_ns ? line : now_ns) + SECOND_NS / limits->requests_per_second_max;
		if (after - now_ns > SECOND_NS)
			return false;
	} while (!atomic_compare_exchange_weak(&u->free_ns, &line, after));
	return true;
}
