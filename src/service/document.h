/* Documents: policies in force. One is made of a JSON or YAML tree, never changes afterwards, and is counted:
 * whoever acquired it may read it without a lock while the next one is already in force. A kind of policies
 * (attempts, limits, users, events) has a struct of its own that begins with this one and lives in its arena. */
#ifndef SERVICE_DOCUMENT_H
#define SERVICE_DOCUMENT_H

#include <pthread.h>
#include <stdatomic.h>

#include "json/json.h"

/* Where a document comes from. X(id, name in answers and rows) */
#define DOCUMENT_ORIGINS(X)                                                                                  \
	X(DOCUMENT_STORED, "stored")   /* was PUT */                                                         \
	X(DOCUMENT_SHIPPED, "default") /* comes with the program */                                          \
	X(DOCUMENT_FILE, "file")

enum document_origin {
#define X(id, name) id,
	DOCUMENT_ORIGINS(X)
#undef X
};

const char          *document_origin_name(enum document_origin origin);
enum document_origin document_origin_of(struct bytes name); /* DOCUMENT_STORED if it is none of them */

struct document {
	atomic_uint          refs;
	struct arena         arena; /* holds the document itself, and all it points to */
	int64_t              version;
	enum document_origin origin;
	struct bytes         text; /* as JSON */
};

/* Allocates `len` bytes for a struct that begins with a document, cleared, with one reference. */
void *document_make(size_t len);
void  document_release(struct document *d); /* NULL is fine */

/* Where the one in force is kept. */
struct document_holder {
	pthread_mutex_t  lock;
	struct document *now; /* under lock */
};

void  document_holder_init(struct document_holder *h);
void  document_holder_release(struct document_holder *h);
void *document_acquire(struct document_holder *h);                 /* with a reference; NULL: there is none */
void  document_put(struct document_holder *h, struct document *d); /* takes the caller's reference */

/* The same, if its version is above that of the one in force; else it is released. */
bool document_put_newer(struct document_holder *h, struct document *d);

/* What goes on holding of the documents before one, for kinds that have such. It is part of a document, though not of what
 * was written: it is kept beside it, as text. */
struct document_heritage {
	/* Before `next` comes into force in the place of `now`. */
	void (*inherit)(struct document *next, const struct document *now, int64_t now_s);
	/* As if nothing had been inherited. */
	void (*drop)(struct document *d);
	struct bytes (*write)(const struct document *d, struct arena *a);
	void (*read)(struct document *d, struct bytes text);
};

/* A kind of policies, for the store: how a tree becomes a document, and where it is in force. Its name is a section of
 * the policy file. */
struct document_kind {
	const char *name; /* "attempts" */
	enum err_code (*parse)(const struct json *tree, struct document **out, struct err *err);
	struct document_holder *holder;
	/* Before one comes into force in the place of another; NULL: nothing to do. */
	void (*inherit)(struct document *next, const struct document *now);
	/* After another one came into force; NULL: nothing to do. */
	void (*changed)(void *ctx);
	void                           *ctx;
	const struct document_heritage *heritage; /* NULL: nothing goes on */
};

#endif
