/* Credentials: the file, and the keyring that follows it. */
#include "test.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/credential_file.h"
#include "base/log.h"

#define POLICY                                                                                               \
	"{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*" \
	"\"}]}"

/* &: what credential_create takes */
#define NEW(...) (&(struct credential_new){.name = __VA_ARGS__, .policy_text = BYTES(POLICY)})

struct fixture {
	char            dir[64];
	struct keyring *keyring;
	struct arena    arena;
	struct err      err;
};

static void open_fixture(struct fixture *f)
{
	bool made;

	*f = (struct fixture){.dir = "/tmp/gatehouse-keys-XXXXXX"};
	assert_non_null(mkdtemp(f->dir));
	log_set_level(LOG_ERROR + 1);
	arena_init(&f->arena);
	assert_int_equal(keyring_open(&f->keyring, f->dir, BYTES("local"), &made, &f->err), ERR_NONE);
	assert_true(made);
}

static void close_fixture(struct fixture *f)
{
	char command[128];

	keyring_close(f->keyring);
	arena_release(&f->arena);
	snprintf(command, sizeof(command), "rm -rf %s", f->dir);
	assert_int_equal(system(command), 0);
}

static void overwrite(struct fixture *f, const char *text)
{
	char  path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/keys.json", f->dir);
	file = fopen(path, "w");
	fputs(text, file);
	fclose(file);
}

static uint32_t count_now(struct fixture *f)
{
	const struct credentials *c = keyring_acquire(f->keyring);
	uint32_t                  count = c->count;

	credentials_release(c);
	return count;
}

TEST(credentials, the_first_key_is_made_once_with_mode_0600_and_found_again)
{
	struct fixture            f;
	const struct credentials *c;
	struct keyring           *again;
	struct stat               st;
	char                      path[128];
	bool                      made;

	open_fixture(&f);
	snprintf(path, sizeof(path), "%s/keys.json", f.dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	c = keyring_acquire(f.keyring);
	assert_int_equal(c->count, 1);
	assert_bytes(c->list[0].name, "administrator");
	assert_int_equal(c->list[0].id.len, CREDENTIAL_ID_BYTES);
	assert_int_equal(c->list[0].secret.len, CREDENTIAL_SECRET_BYTES);
	assert_int_equal(keyring_open(&again, f.dir, BYTES("local"), &made, &f.err), ERR_NONE);
	assert_false(made);
	keyring_close(again);
	credentials_release(c);
	close_fixture(&f);
}

TEST(credentials, a_change_of_the_file_is_in_force_for_the_next_acquire_and_what_was_acquired_stays)
{
	struct fixture            f;
	struct credential         key, rotated;
	const struct credentials *before, *after;

	open_fixture(&f);
	assert_int_equal(credential_create(f.dir, NEW(BYTES("one")), &f.arena, &key, &f.err), ERR_NONE);
	before = keyring_acquire(f.keyring);
	assert_true(bytes_equal(credentials_find(before, key.id)->secret, key.secret));
	assert_int_equal(credential_rotate(f.dir, key.id, &f.arena, &rotated, &f.err), ERR_NONE);
	after = keyring_acquire(f.keyring);
	assert_true(bytes_equal(credentials_find(after, key.id)->secret, rotated.secret));
	assert_false(bytes_equal(key.secret, rotated.secret));
	assert_true(bytes_equal(credentials_find(before, key.id)->secret, key.secret));
	credentials_release(after);
	assert_int_equal(credential_revoke(f.dir, BYTES("one"), &f.arena, &rotated, &f.err), ERR_NONE);
	after = keyring_acquire(f.keyring);
	assert_false(credentials_named(after, BYTES("one"))->active);
	credentials_release(after);
	credentials_release(before);
	close_fixture(&f);
}

TEST(credentials, a_broken_file_leaves_the_last_good_keys_in_force)
{
	static const char *const broken[] = {"",
	                                     "{",
	                                     "[]",
	                                     "{\"format\":2,\"keys\":[]}",
	                                     "{\"format\":1,\"keys\":{}}",
	                                     "{\"format\":1,\"keys\":[null]}",
	                                     "{\"format\":1,\"keys\":[{\"id\":\"a\",\"secret\":\"b\","
	                                     "\"name\":\"c\",\"created\":1,\"active\":true}]}",
	                                     "{\"format\":1,\"keys\":[{\"id\":\"a\",\"secret\":\"b\","
	                                     "\"name\":\"c\",\"created\":1,\"active\":true,\"policy\":{}}]}"};
	struct fixture           f;

	open_fixture(&f);
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		const struct credentials *c;

		overwrite(&f, broken[i]);
		assert_int_equal(count_now(&f), 1);
		assert_int_not_equal(credentials_load(f.dir, &c, &f.err), ERR_NONE);
	}
	overwrite(&f, "{\"format\":1,\"keys\":[]}");
	assert_int_equal(count_now(&f), 0);
	close_fixture(&f);
}

TEST(credentials, a_file_that_is_gone_leaves_the_keys_in_force_until_another_is_there)
{
	struct fixture f;
	char           path[128], aside[128];

	open_fixture(&f);
	snprintf(path, sizeof(path), "%s/keys.json", f.dir);
	snprintf(aside, sizeof(aside), "%s/aside.json", f.dir);
	assert_int_equal(rename(path, aside), 0);
	assert_int_equal(count_now(&f), 1);
	overwrite(&f, "{\"format\":1,\"keys\":[]}");
	assert_int_equal(count_now(&f), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(count_now(&f), 0);
	assert_int_equal(rename(aside, path), 0);
	assert_int_equal(count_now(&f), 1);
	close_fixture(&f);
}

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int  count = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

TEST(credentials, no_set_of_keys_keeps_its_file_open_longer_than_it_is_used)
{
	struct fixture f;
	int            before;

	open_fixture(&f);
	before = descriptors();
	for (int i = 0; i < 10; i++) {
		overwrite(&f, i % 2 == 0 ? "{\"format\":1,\"keys\":[]}" : "{");
		count_now(&f);
	}
	assert_int_equal(descriptors(), before);
	close_fixture(&f);
}

TEST(credentials, names_are_unique_and_well_formed_and_the_longest_is_taken)
{
	struct fixture    f;
	struct credential key;
	char              name[CREDENTIAL_NAME_MAX + 1];

	open_fixture(&f);
	memset(name, 'a', sizeof(name));
	assert_int_equal(
	        credential_create(f.dir, NEW((struct bytes){name, sizeof(name)}), &f.arena, &key, &f.err),
	        ERR_INVALID);
	assert_int_equal(credential_create(f.dir, NEW((struct bytes){name, CREDENTIAL_NAME_MAX}), &f.arena,
	                                   &key, &f.err),
	                 ERR_NONE);
	assert_int_equal(credential_create(f.dir, NEW(BYTES("administrator")), &f.arena, &key, &f.err),
	                 ERR_RESOURCE_IN_USE);
	assert_int_equal(credential_create(f.dir, NEW(BYTES("")), &f.arena, &key, &f.err), ERR_INVALID);
	assert_int_equal(credential_create(f.dir, NEW(BYTES("a b")), &f.arena, &key, &f.err), ERR_INVALID);
	assert_int_equal(credential_revoke(f.dir, BYTES("nobody"), &f.arena, &key, &f.err), ERR_NO_RESOURCE);
	assert_int_equal(count_now(&f), 2);
	close_fixture(&f);
}

/* ---- threads ---- */

/* As if the keyring had opened the file, and another one took its place before the keyring looked at its links. */
TEST(credentials, a_file_that_was_replaced_while_it_was_read_is_not_in_force_for_ever)
{
	struct credentials *c;
	struct credential   key;
	struct fixture      f;

	open_fixture(&f);
	c = (struct credentials *)(uintptr_t)keyring_acquire(f.keyring);
	assert_int_equal(credential_create(f.dir, NEW(BYTES("second")), &f.arena, &key, &f.err), ERR_NONE);
	assert_int_equal(fstat(c->file, &c->read), 0);
	assert_int_equal(c->read.st_nlink, 0);
	credentials_release(c);
	assert_int_equal(count_now(&f), 2);
	close_fixture(&f);
}

struct making {
	struct fixture *f;
	int             number;
};

static void *make_ten(void *arg)
{
	struct making *m = arg;
	struct arena   a;

	arena_init(&a);
	for (int i = 0; i < 10; i++) {
		struct credential key;
		struct err        err;
		struct bytes      name = arena_printf(&a, "key-%d-%d", m->number, i);

		if (credential_create(m->f->dir, NEW(name), &a, &key, &err) != ERR_NONE)
			fail_msg("%s", err.text);
		credentials_release(keyring_acquire(m->f->keyring));
	}
	arena_release(&a);
	return NULL;
}

TEST(credentials, changes_made_at_the_same_time_are_all_there)
{
	struct fixture f;
	struct making  makings[4];
	pthread_t      threads[4];

	open_fixture(&f);
	for (int i = 0; i < 4; i++) {
		makings[i] = (struct making){&f, i};
		pthread_create(&threads[i], NULL, make_ten, &makings[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(count_now(&f), 41);
	close_fixture(&f);
}

/* ---- limits ---- */

static struct key_limits limits_now(struct fixture *f, const char *name, struct key_use **use)
{
	const struct credentials *c = keyring_acquire(f->keyring);
	const struct credential  *key = credentials_named(c, bytes_of(name));
	struct key_limits         limits = key->limits;

	*use = key->use;
	credentials_release(c);
	return limits;
}

TEST(limits, are_kept_in_the_file_and_changed_one_by_one_while_the_use_goes_on)
{
	struct key_limits wanted = {.connections_max = 7}, none = {0}, now;
	struct fixture    f;
	struct credential key;
	struct key_use   *use, *before;

	open_fixture(&f);
	assert_int_equal(
	        credential_create(f.dir, NEW(BYTES("one"), .limits = wanted), &f.arena, &key, &f.err),
	        ERR_NONE);
	now = limits_now(&f, "one", &use);
	assert_int_equal(now.connections_max, 7);
	assert_int_equal(now.requests_per_second_max, 0);
	assert_true(key_use_connect(use, &none));
	before = use;
	wanted = (struct key_limits){KEY_LIMIT_KEPT, KEY_LIMIT_MAX};
	assert_int_equal(credential_limit(f.dir, &(struct credential_limit){BYTES("one"), wanted}, &f.arena,
	                                  &key, &f.err),
	                 ERR_NONE);
	assert_int_equal(credential_rotate(f.dir, BYTES("one"), &f.arena, &key, &f.err), ERR_NONE);
	now = limits_now(&f, "one", &use);
	assert_int_equal(now.connections_max, 7);
	assert_int_equal(now.requests_per_second_max, KEY_LIMIT_MAX);
	assert_ptr_equal(use, before);
	wanted = (struct key_limits){0, KEY_LIMIT_KEPT};
	assert_int_equal(
	        credential_limit(f.dir, &(struct credential_limit){key.id, wanted}, &f.arena, &key, &f.err),
	        ERR_NONE);
	now = limits_now(&f, "one", &use);
	assert_int_equal(now.connections_max, 0);
	assert_int_equal(now.requests_per_second_max, KEY_LIMIT_MAX);
	/* also past the key's end: the connection still holds it */
	overwrite(&f, "{\"format\":1,\"keys\":[]}");
	assert_int_equal(count_now(&f), 0);
	assert_int_equal(atomic_load(&before->connections), 1);
	key_use_disconnect(before);
	close_fixture(&f);
}

TEST(limits, one_past_the_largest_is_refused_and_nothing_changes)
{
	static const struct key_limits bad[] = {{KEY_LIMIT_MAX + 1, 0}, {0, KEY_LIMIT_MAX + 1}};
	struct fixture                 f;
	struct credential              key;
	struct key_use                *use;

	open_fixture(&f);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(
		        credential_create(f.dir, NEW(BYTES("one"), .limits = bad[i]), &f.arena, &key, &f.err),
		        ERR_INVALID);
		assert_int_equal(credential_limit(f.dir,
		                                  &(struct credential_limit){BYTES("administrator"), bad[i]},
		                                  &f.arena, &key, &f.err),
		                 ERR_INVALID);
	}
	assert_int_equal(count_now(&f), 1);
	assert_int_equal(limits_now(&f, "administrator", &use).connections_max, 0);
	assert_int_equal(credential_limit(f.dir, &(struct credential_limit){BYTES("nobody"), {1, 1}},
	                                  &f.arena, &key, &f.err),
	                 ERR_NO_RESOURCE);
	close_fixture(&f);
}

TEST(limits, a_file_with_one_that_is_no_number_from_1_is_refused_whole)
{
	static const char *const bad[] = {"0", "-1", "1.5", "\"7\"", "null", "1000001"};
	struct fixture           f;
	char                     text[512];

	open_fixture(&f);
	for (size_t i = 0; i <= sizeof(bad) / sizeof(bad[0]); i++) {
		bool                      good = i == sizeof(bad) / sizeof(bad[0]);
		const struct credentials *c;

		snprintf(
		        text, sizeof(text),
		        "{\"format\":1,\"keys\":[{\"id\":\"a\",\"secret\":\"b\",\"name\":\"c\",\"created\":1,"
		        "\"active\":true,\"max_requests_per_second\":%s,\"policy\":" POLICY "}]}",
		        good ? "1000000" : bad[i]);
		overwrite(&f, text);
		assert_int_equal(credentials_load(f.dir, &c, &f.err), good ? ERR_NONE : ERR_INVALID);
		if (good)
			credentials_release(c);
	}
	close_fixture(&f);
}
