/* The policy store: where policies come from. Each kind (attempts, limits) has one document in force, which is
 * the file's section if a file was given, else the one that was PUT last, else what ships with the program.
 * A document that cannot be understood never comes into force: the old one stays.
 *
 * Threads: everything may be called from any thread; a document is read through document_acquire. */
#ifndef SERVICE_POLICY_STORE_H
#define SERVICE_POLICY_STORE_H

#include "service/change.h"
#include "service/document.h"

enum { POLICY_KINDS_MAX = 4, POLICY_DOCUMENT_BYTES_MAX = 256 * 1024 };

struct policy_store;

/* `kinds` must outlive the store; their holders are initialised here. file may be NULL. ERR_INVALID or
 * ERR_SERIALIZATION names the file's line. */
enum err_code policy_store_open(struct policy_store **out, const struct document_kind *kinds, unsigned count,
                                const char *file, struct err *err);
void          policy_store_close(struct policy_store *s);

/* Reads what was PUT, at start. With a file nothing is read. */
enum err_code policy_store_load(struct policy_store *s, const struct service_tables *tables, struct table *t,
                                struct err *err);

/* Has the file changed? Then it is read again; if it is not good that is logged, once, and all stays. */
void policy_store_refresh(struct policy_store *s);

const char *policy_store_file(const struct policy_store *s); /* NULL: none */

/* NULL if there is no such kind. */
const struct document_kind *policy_store_kind(const struct policy_store *s, struct bytes name);

/* ---- putting ---- */

/* Adds the row for a new version, one above `read`. ERR_STALE if another than `read` is stored. */
enum err_code policy_store_change(const struct document_kind *kind, int64_t read, struct bytes text,
                                  struct changes *c, struct table *t, struct err *err);

/* Puts a committed version into force, unless a later one is. Takes the reference. */
void policy_store_install(const struct document_kind *kind, struct document *d);

#endif
