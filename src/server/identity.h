/* Identity: the file that says whose tokens are accepted, and which identity providers and senders of codes there are
 * (--identity). YAML, strict, in sections; each section is read by a file of its own, which lists it in identity.c.
 *
 *   issuers:    identity_issuers.c     whose tokens are accepted
 *   providers:  identity_providers.c   identity providers whose users are users here
 *   codes:      identity_codes.c       who sends codes to people
 *   push:       identity_push.c        push messages through Expo
 *
 * What always holds
 * (1) A file is accepted or refused as a whole: no section takes effect unless every section is good.
 * (2) A file that is refused is logged once, with its line, and what was in effect stays. The same goes for one that is gone.
 * (3) It is read again when it changes, or when a file that it names does (keys, certificates, secrets).
 *
 * Threads: open, refresh and close are called by one thread. What a section puts into effect it hands over as it likes. */
#ifndef SERVER_IDENTITY_H
#define SERVER_IDENTITY_H

#include "base/clock.h"
#include "json/json.h"

enum {
	IDENTITY_BYTES_MAX = 256 * 1024,
	IDENTITY_PATH_MAX = 1024,
	IDENTITY_FILES_MAX = 128, /* that one file may name */
};

/* For a section: the reading under way. */
struct identity_reading {
	struct arena *arena; /* scratch, until the file has been read */
	struct clock *clock;
	/* identity.c's own */
	const char           *file;
	struct identity_seen *seen;
};

/* A section. Its code has no state of its own: what it makes of the file is passed along. */
struct identity_section {
	const char *name;
	/* Reads the member of that name, if the file has it, and sets *out to something to put into effect; NULL stays NULL.
	 * Says with fields_fail what is wrong. Calls nobody. */
	void (*read)(const struct identity_reading *r, struct fields *file, void **out);
	void (*drop)(void *made); /* it does not take effect after all */
};

extern const struct identity_section identity_issuers, identity_providers, identity_codes, identity_push;

enum identity_section_id {
	IDENTITY_ISSUERS,   /* struct issuers (token/issuer.h) */
	IDENTITY_PROVIDERS, /* struct providers (service/provider.h) */
	IDENTITY_CODES,     /* struct webhook (outbound/webhook.h) */
	IDENTITY_PUSH,      /* struct push_target (server/push.h) */
	IDENTITY_SECTION_COUNT
};

/* Puts what the sections made into effect, and owns it from then on. At open and after each change of the file. */
struct identity_target {
	void (*apply)(void *ctx, void *made[IDENTITY_SECTION_COUNT]);
	void *ctx;
};

struct identity;

/* Is the file good? Nothing takes effect. ERR_INVALID or ERR_SERIALIZATION names file and line. NULL: it is. */
enum err_code identity_check(const char *file, struct err *err);
/* The same of a text; what it names is looked for from the working directory. */
enum err_code identity_check_text(struct bytes text, struct err *err);

/* Reads the file, and has it take effect. NULL: as if it were empty. */
enum err_code identity_open(struct identity **out, const char *file, struct clock *clock,
                            struct identity_target target, struct err *err);
void          identity_close(struct identity *i); /* NULL: nothing */

/* Now and then: has the file changed (3)? */
void identity_refresh(struct identity *i);

struct identity_health {
	bool     refused;  /* the file is not in effect because of a mistake in it */
	uint64_t failures; /* how often it was read again in vain */
};

/* Any thread. */
struct identity_health identity_health(const struct identity *i);

/* ---- for sections ---- */

/* The path that a member gives, from the directory of the identity file if it is relative; with a NUL. NULL: absent. */
const char *identity_path(const struct identity_reading *r, struct fields *f, const char *name);

/* Reads a file that the member names, whose changes count as changes of the identity file (3). */
struct bytes identity_file(const struct identity_reading *r, struct fields *f, const char *name,
                           const char *path, size_t bytes_max);

#endif
