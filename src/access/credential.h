/* Credentials: the access keys that may sign requests, each with its policy. They live in one file of the
 * data directory, DIR/keys.json (mode 0600), which the command line edits and the server reads: no other
 * mechanism, so a key that was revoked on the command line is refused by the next request, and it works
 * whether the server runs or not.
 *
 * A set of credentials is immutable and counted: whoever acquired one may read it without a lock while the
 * next one is already in force. */
#ifndef ACCESS_CREDENTIAL_H
#define ACCESS_CREDENTIAL_H

#include <stdatomic.h>
#include <sys/stat.h>

#include "access/policy.h"

enum {
	CREDENTIAL_FORMAT = 1,
	CREDENTIAL_COUNT_MAX = 1000,
	CREDENTIAL_NAME_MAX = 64,
	CREDENTIAL_ID_BYTES = 20,
	CREDENTIAL_SECRET_BYTES = 40,
	CREDENTIAL_FILE_BYTES_MAX = 16 * 1024 * 1024,
};

/* ---- what a key takes up ----
 * A use is how much of the server a key takes up at this moment. An operator may put limits on it, so that one
 * client that runs wild cannot keep the others out. It belongs to a key, not to a reading of the key file: it goes
 * on when the file is read again, also with another secret or other limits. It is counted: by every set of
 * credentials that names the key and by every connection that the key has open. Any thread; no lock. */

enum { KEY_LIMIT_MAX = 1000000 }; /* of either kind */

/* 0: none. */
struct key_limits {
	uint32_t connections_max;
	uint32_t requests_per_second_max;
};

struct key_use {
	atomic_uint refs;
	atomic_uint connections;
	atomic_uint followers; /* of events: streams, and requests that wait */
	_Atomic int64_t
	        free_ns; /* steady clock: when all requests so far will have had their share of a second */
};

/* With one reference. */
struct key_use *key_use_open(void);
struct key_use *key_use_ref(struct key_use *u);
void            key_use_release(struct key_use *u); /* NULL is fine */

/* One more connection, with a reference, until key_use_disconnect; false if there are as many as there may
 * be. */
bool key_use_connect(struct key_use *u, const struct key_limits *limits);
void key_use_disconnect(struct key_use *u);

/* One more follower of events, until key_use_unfollow; false if there are `most`. Without a reference: a set of credentials that names the key is held
 * meanwhile. */
bool key_use_follow(struct key_use *u, unsigned most);
void key_use_unfollow(struct key_use *u);

/* One more request; false if that would be more than the limit in a second. As many as a second allows may
 * come at once, after a second of rest. `now_us` is steady; a little earlier than in another thread is fine. */
bool key_use_request(struct key_use *u, const struct key_limits *limits, int64_t now_us);

/* ---- keys ---- */

struct credential {
	struct bytes      id;     /* 20 capitals and digits */
	struct bytes      secret; /* 40 characters */
	struct bytes      name;   /* what people call it; unique */
	int64_t           created_s;
	bool              active;
	struct bytes      policy_text; /* JSON */
	struct policy    *policy;
	struct key_limits limits;
	struct key_use   *use; /* in the server; NULL on the command line */
};

struct credentials {
	atomic_uint        refs;
	struct arena       arena; /* holds everything below but the policies */
	struct credential *list;  /* in the order of the file */
	uint32_t           count;
	struct bytes       region; /* of the server, as its last start wrote it down */
	int                file;   /* what they were read from, held open */
	struct stat        read;   /* how it was then */
};

/* NULL if there is none (by id, also revoked ones; by name). */
const struct credential *credentials_find(const struct credentials *c, struct bytes id);
const struct credential *credentials_named(const struct credentials *c, struct bytes name);

/* ---- the server's side ---- */

struct keyring;

/* Opens DIR/keys.json. If there never was one, makes it with one key, "administrator", that may do everything;
 * *made says so. One of an older program is sealed (base/seal.h). The file is told the server's region, for the
 * command line. ERR_INVALID names a key in force whose policy is for another region or account. */
enum err_code keyring_open(struct keyring **out, const char *data_dir, struct bytes region, bool *made,
                           struct err *err);
void          keyring_close(struct keyring *k);

/* The credentials in force now: the file is read again if it changed since. A file that cannot be read or
 * understood leaves the last good set in force, and is logged. Any thread. */
const struct credentials *keyring_acquire(struct keyring *k);
void                      credentials_release(const struct credentials *c);

/* ---- the command line's side: each call locks the file against others, changes it whole, and syncs it ----
 */

struct credential_new {
	struct bytes      name, policy_text;
	struct bytes      region; /* that its policy is for; empty: the server's, as the file has it */
	struct key_limits limits;
};

/* Makes a key. ERR_RESOURCE_IN_USE if the name is taken; ERR_INVALID if the name or the policy is no good, or the
 * policy is for another region or account. */
enum err_code credential_create(const char *data_dir, const struct credential_new *n, struct arena *a,
                                struct credential *out, struct err *err);
/* Gives the key of that id or name a new secret. ERR_NO_RESOURCE if there is none. */
enum err_code credential_rotate(const char *data_dir, struct bytes id_or_name, struct arena *a,
                                struct credential *out, struct err *err);
/* Changes the limits of the key of that id or name; KEY_LIMIT_KEPT leaves one as it is. */
#define KEY_LIMIT_KEPT UINT32_MAX
struct credential_limit {
	struct bytes      id_or_name;
	struct key_limits to;
};
enum err_code credential_limit(const char *data_dir, const struct credential_limit *l, struct arena *a,
                               struct credential *out, struct err *err);
/* Ends it for good: its id stays known, so that it is never given out again. */
enum err_code credential_revoke(const char *data_dir, struct bytes id_or_name, struct arena *a,
                                struct credential *out, struct err *err);
/* Seals the file again as it is now, after somebody edited it by hand; *count keys are in it. ERR_INVALID, and it
 * stays as it is, if it cannot be understood. */
enum err_code credential_seal(const char *data_dir, uint32_t *count, struct err *err);
/* Reads the file as it is. */
enum err_code credentials_load(const char *data_dir, const struct credentials **out, struct err *err);

#endif
