/* View: what a session sees: its turn's changes, if it has a turn, over what is committed. The only way that
 * the rest of the engine reads. */
#ifndef ENGINE_VIEW_H
#define ENGINE_VIEW_H

#include "engine/state.h"
#include "engine/waiting.h"

/* The value is in the arena. */
enum err_code view_get(struct engine_session *s, struct arena *a, struct bytes key, struct bytes *value,
                       bool *found, struct err *err);

/* The same, with the key's hash (state.h). */
enum err_code view_get_hashed(struct engine_session *s, struct arena *a, uint64_t hash, struct bytes key,
                              struct bytes *value, bool *found, struct err *err);

/* What is committed at this moment, for several reads: all of it is put into the store first, which may take tens of
 * milliseconds. Not in a turn. */
enum err_code view_snapshot_open(struct engine *e, struct rocks_snapshot **out, struct err *err);

/* The same for these rows alone, and at once: those that are not in the store yet are in `waiting`, and the others have
 * no key there. */
void view_rows_snapshot_open(struct engine *e, struct arena *a, const uint64_t *hashes,
                             const struct bytes *keys, uint32_t count, struct cache_row *waiting,
                             struct rocks_snapshot **out);

/* The same as of a snapshot, past the cache. Without one (NULL) only of what never waits there: not of rows, unless
 * nothing can be written. */
enum err_code view_get_at(struct engine_session *s, struct rocks_snapshot *snapshot, struct arena *a,
                          struct bytes key, struct bytes *value, bool *found, struct err *err);

/* The item of the engine's own under this key, which is none of a row, as it is on the disk. */
enum err_code view_item(struct engine *e, struct arena *a, struct bytes key, struct item *out, bool *found,
                        struct err *err);

/* All that a turn changes, in the order of the keys, in its memory: of one that is made once, and walked often. */
struct cache_rows view_sorted(struct turn *t);

/* For tests (engine.h, checks_absent): ends the process if what memory knows of the partition, whose keys begin with the prefix, is
 * not what the store has. */
void view_check_partition(struct engine_session *s, struct bytes prefix);

/* Walks the keys of a range, up or down. Its bounds must stay valid while it is open, and the session and the arena too. If more rows of the range are not in
 * the store yet than are likely to be needed, it goes part by part (waiting.h). */
struct view_cursor {
	struct engine          *engine;
	struct engine_session  *session;
	struct arena           *arena;
	struct waiting_range    rest;     /* of the range, behind this part: empty at the last one */
	struct rocks_snapshot  *snapshot; /* its own, if it was given none */
	struct rocks_cursor    *rocks;
	const struct cache_row *changes; /* in this range, not in the store yet; sorted in walking order */
	size_t                  change_count, change_at;
	bool                    whole; /* all there is, is in `changes`: the store is not asked */
	bool                    backward;
	bool                    on_change; /* the current row is changes[change_at] */
	bool                    on_stored; /* … or the store's, or both of the same key */
	struct err              err;       /* of opening; then there is no rocks */
};

/* `snapshot` may be NULL: then the state is that of the moment of opening, or, of a later part, of when the part before it ended. */
void view_cursor_open(struct view_cursor *c, struct engine_session *s, struct rocks_snapshot *snapshot,
                      struct arena *a, const struct waiting_range *range);
void view_cursor_close(struct view_cursor *c);

/* Moves to the next row; false at the end (then view_cursor_check). Key and value are valid until the next
 * call. */
bool          view_cursor_next(struct view_cursor *c, struct bytes *key, struct bytes *value);
enum err_code view_cursor_check(const struct view_cursor *c, struct err *err);

/* For tests (engine.h, checks_absent): what memory says and what the store has differ. Ends the process. */
void view_contradict(const char *what);

#endif
