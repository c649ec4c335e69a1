/* Salvage survey: what a salvage has found so far, and telling what lies behind the damage. For salvage.c only. */
#ifndef ENGINE_SALVAGE_SURVEY_H
#define ENGINE_SALVAGE_SURVEY_H

#include "engine/journal_files.h"
#include "engine/salvage.h"

struct salvage {
	const char                 *path;
	char                        journal[PATH_MAX];
	const struct salvage_watch *watch;
	struct salvage_found       *found;
	int                         lock_fd;
	struct journal_site         site;
	struct journal_place        from, end; /* the sound records */
	struct journal_damage       damage;
	uint32_t                    filled; /* the most that a sound record says */
	uint64_t highest; /* the highest number of a commit that is known to have been there */
};

/* One line, for people. */
void salvage_say(struct salvage *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* After the journal was read up to s->damage: says of each file from there on what it holds, and which commits are lost. *span
 * are the segments that are there. Changes nothing. */
enum err_code salvage_tell_journal(struct salvage *s, struct segment_span *span, struct err *err);

#endif
