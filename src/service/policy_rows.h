/* Policy rows: versions of policies in the table, so that whatever version an explanation cites can be shown. For each
 * kind of policies:
 *
 *   POLICY#attempts              what was PUT last, or DELETE put back
 *   POLICY#attempts#FILE         what the policy file said last
 *   POLICY#attempts#VERSION#7    what one of those two replaced
 *   POLICY#CHANGES               how often any kind was PUT or put back: a small row, for processes that look whether others changed something
 *
 * The first two name the versions they replaced, in `kept`: the last POLICY_VERSIONS_KEPT of each. An older one goes when
 * a new one comes. */
#ifndef SERVICE_POLICY_ROWS_H
#define SERVICE_POLICY_ROWS_H

#include "service/context.h"
#include "service/document.h"

enum { POLICY_VERSIONS_KEPT = 100 };

enum policy_place { PLACE_PUT, PLACE_FILE };

/* A version as it is stored. */
struct policy_version {
	bool                 found;
	int64_t              version;
	enum document_origin origin;
	int64_t              set_s; /* when it was PUT or read, since 1970 */
	struct bytes         text;  /* JSON */
	struct bytes heritage;      /* of the newest: what goes on holding of those before it (document.h) */
	struct bytes kept; /* of the newest: the versions before it, oldest first, with a space between */
};

/* The newest of that place. */
enum err_code policy_rows_newest(struct context *ctx, const char *kind, enum policy_place place,
                                 struct policy_version *out, struct err *err);

/* Any that is kept; not found is no error. */
enum err_code policy_rows_find(struct context *ctx, const char *kind, int64_t version,
                               struct policy_version *out, struct err *err);

/* Adds what makes `next` the newest, and keeps `old`, which was. */
void policy_rows_replace(struct context *ctx, const char *kind, enum policy_place place,
                         const struct policy_version *old, const struct policy_version *next);

/* How often policies were PUT or put back; 0: never, or only by programs that did not count. */
enum err_code policy_rows_changes(struct context *ctx, int64_t *out, struct err *err);

/* Adds one more, after policy_rows_changes said how many there were. */
void policy_rows_count(struct context *ctx, int64_t changes);

#endif
