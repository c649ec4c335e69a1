/* The policy store: where policies come from. Each kind (attempts, limits, users, events) has one document in force, which is
 * the file's section if a file was given, else the one that was PUT last, else what ships with the program.
 * A document that cannot be understood never comes into force: the old one stays.
 *
 * Versions rise. Those that were PUT, or put back by DELETE, count from 1; 0 is what ships. A file's is the time of its
 * change in seconds since 1970, or one more than the version before, if that is later: two changes within a second, or a
 * copy with an old date, are versions of their own. What was in force is kept as rows (policy_rows.h).
 *
 * Processes that share a table follow each other: each looks now and then whether another changed policies (policy_store_follow).
 *
 * Threads: everything may be called from any thread, except refresh, unkept and kept: one thread only. So are load and then follow. A
 * document is read through document_acquire. */
#ifndef SERVICE_POLICY_STORE_H
#define SERVICE_POLICY_STORE_H

#include "base/metric.h"
#include "service/policy_rows.h"

enum { POLICY_KINDS_MAX = 8, POLICY_DOCUMENT_BYTES_MAX = 256 * 1024 };

struct policy_store;

/* `kinds` must outlive the store; their holders are initialised here. file may be NULL. ERR_INVALID or
 * ERR_SERIALIZATION names the file's line. */
enum err_code policy_store_open(struct policy_store **out, const struct document_kind *kinds, unsigned count,
                                const char *file, struct err *err);
void          policy_store_close(struct policy_store *s);

/* At start: reads what was PUT. With a file: only which versions it had, to go on from there. */
enum err_code policy_store_load(struct policy_store *s, struct context *ctx, struct err *err);

/* After a start, once: what was in force before it, of the one kind with a heritage, if it was something else; with the reference.
 * NULL: it was the same, or nobody knows. */
struct document *policy_store_replaced(struct policy_store *s);

/* Later: has anybody changed what was PUT, in another process too? Then it is read again. One small row if nobody has, and nothing at all
 * if there is a file. What cannot be understood is logged, once, and the previous policies stay in force under its version. */
enum err_code policy_store_follow(struct policy_store *s, struct context *ctx, struct err *err);

/* Who is asked before a file that was read again comes into force. */
struct policy_check {
	int64_t now_s;
	/* May `next` replace `now`? Of kinds with a heritage. ERR_LOCKS_END: no, and that is told; other errors: not known yet. */
	enum err_code (*allows)(void *arg, const struct document *now, const struct document *next,
	                        struct err *err);
	void *arg;
};

/* Has the file changed? Then it is read again; if it is not good, or gone, or check says no, that is logged, once, and all stays. A
 * section that says what it said stays in force under its version. */
void policy_store_refresh(struct policy_store *s, const struct policy_check *check);

const char *policy_store_file(const struct policy_store *s); /* NULL: none */

/* NULL if there is no such kind. */
const struct document_kind *policy_store_kind(const struct policy_store *s, struct bytes name);

/* What ships of that kind, as a new document of version 0. */
enum err_code policy_store_shipped(const struct policy_store *s, const struct document_kind *kind,
                                   struct document **out, struct err *err);

/* A version that was in force, as a new document. *out NULL: it is not kept any more. */
enum err_code policy_store_version(struct context *ctx, const struct document_kind *kind, int64_t version,
                                   struct document **out, struct err *err);

/* ---- changing ---- */

struct policy_change {
	const struct document_kind *kind;
	int64_t                     read; /* the version that it replaces */
	struct bytes                text;
	enum document_origin        origin; /* DOCUMENT_STORED, or DOCUMENT_SHIPPED: back to that */
	struct document            *next;   /* the same as a document, which is given its heritage */
};

/* Adds the rows for a new version, one above `read`. ERR_STALE if another than `read` is in force. *old: of a kind with a heritage,
 * what it replaces, with a reference; else NULL. */
enum err_code policy_store_change(struct context *ctx, const struct policy_change *p, struct document **old,
                                  struct err *err);

/* Puts a committed version into force, unless a later one is. Takes the reference. */
void policy_store_install(struct policy_store *s, const struct document_kind *kind, struct document *d);

/* ---- versions of the file ---- */

/* Is a version of the file in force that the table does not have yet? Then whoever asks commits what policy_store_keep
 * adds, and calls policy_store_kept. */
bool          policy_store_unkept(const struct policy_store *s);
enum err_code policy_store_keep(const struct policy_store *s, struct context *ctx, struct err *err);
void          policy_store_kept(struct policy_store *s);

/* ---- for metrics ---- */

struct policy_health {
	bool     refused;  /* the file, or what is stored, is not in force because of a mistake in it */
	uint64_t failures; /* how often a file was read again in vain */
};

struct policy_health policy_store_health(const struct policy_store *s);

#endif
