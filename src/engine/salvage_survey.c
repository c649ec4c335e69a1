/* Salvage survey: see salvage_survey.h. Behind the damage every sector is looked at by itself: it may begin a whole commit, be a
 * part of one, or be anything. */
#include "engine/salvage_survey.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

void salvage_say(struct salvage *s, const char *format, ...)
{
	char    text[ERR_TEXT_MAX];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	s->watch->say(s->watch->ctx, text);
}

static const char *time_text(int64_t time_us, char out[32])
{
	time_t    second = (time_t)(time_us / 1000000);
	struct tm tm;

	strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&second, &tm));
	return out;
}

/* ---- one file ---- */

struct lost {
	uint64_t whole, first, last; /* commits that are whole all the same */
	int64_t  first_us, last_us;
	uint64_t partial; /* a commit that is not whole; 0: there is none */
	size_t   other;   /* bytes of sectors that are not zeros and belong to no commit that can be told */
};

static bool is_zero_sector(struct bytes sector)
{
	for (size_t i = 0; i < sector.len; i++)
		if (sector.data[i] != 0)
			return false;
	return true;
}

static void lost_add(struct lost *l, const struct record *r)
{
	if (l->whole++ == 0) {
		l->first = r->number;
		l->first_us = r->time_us;
	}
	l->last = r->number;
	l->last_us = r->time_us;
}

/* One record or one sector; how many bytes it was. */
static size_t look_at_sector(struct salvage *s, struct arena *a, struct bytes rest, struct lost *l)
{
	struct bytes  sector = {rest.data, rest.len < SECTOR_BYTES ? rest.len : SECTOR_BYTES};
	struct record r;
	uint64_t      number;
	size_t        used;

	if (is_zero_sector(sector))
		return sector.len;
	if (record_number(rest, &number) && number >= s->end.record) {
		if (record_decode(a, rest, number, &r, &used) == RECORD_WHOLE) {
			lost_add(l, &r);
			return used;
		}
		l->partial = number;
	} else if (record_owns(sector, s->end.record)) {
		l->partial = s->end.record;
	} else {
		l->other += sector.len;
	}
	return sector.len;
}

static void look_at(struct salvage *s, struct bytes all, size_t at, struct lost *l)
{
	struct arena a;

	arena_init(&a);
	while (at < all.len) {
		at += look_at_sector(s, &a, (struct bytes){all.data + at, all.len - at}, l);
		arena_reset(&a);
	}
	arena_release(&a);
	if (l->whole > 0 && l->last > s->highest)
		s->highest = l->last;
	if (l->partial > s->highest)
		s->highest = l->partial;
}

static void tell_lost(struct salvage *s, const char *path, size_t at, const struct lost *l)
{
	char first[32], last[32];

	if (l->whole > 0)
		salvage_say(s,
		            "drop %s from byte %zu: %" PRIu64 " whole commits, %" PRIu64 " (%s) to %" PRIu64
		            " (%s)",
		            path, at, l->whole, l->first, time_text(l->first_us, first), l->last,
		            time_text(l->last_us, last));
	if (l->partial > 0)
		salvage_say(s, "drop %s from byte %zu: commit %" PRIu64 ", which cannot be read whole", path,
		            at, l->partial);
	if (l->other > 0)
		salvage_say(s, "drop %s from byte %zu: %zu bytes in sectors that belong to no commit", path,
		            at, l->other);
	if (l->whole == 0 && l->partial == 0 && l->other == 0)
		salvage_say(s, "drop %s from byte %zu: nothing but zeros", path, at);
}

/* A later segment, or the damaged one. */
static enum err_code tell_segment(struct salvage *s, uint64_t segment, size_t at, struct err *err)
{
	struct segment_head head;
	struct lost         l = {0};
	struct buf          all;
	char                path[PATH_MAX];

	segment_path(path, s->journal, segment);
	if (access(path, F_OK) != 0) {
		salvage_say(s, "%s is missing", path);
		return ERR_NONE;
	}
	buf_init(&all, NULL);
	err->code = ERR_NONE;
	if (segment_load(path, &all, err) == ERR_NONE) {
		if (segment_head_decode(buf_bytes(&all), &head) == RECORD_WHOLE &&
		    head.first > s->highest + 1)
			s->highest = head.first - 1;
		look_at(s, buf_bytes(&all), at < SECTOR_BYTES ? SECTOR_BYTES : at, &l);
		tell_lost(s, path, at, &l);
	}
	buf_release(&all);
	return err->code;
}

static void tell_whole(struct salvage *s)
{
	struct segment_head newest;
	struct err          ignored;
	char                text[32];

	if (s->site.sealed && journal_newest_read(&s->site, &newest, &ignored) == ERR_NONE &&
	    newest.first > s->highest + 1)
		s->highest = newest.first - 1;
	salvage_say(s, "kept: all commits up to %" PRIu64 " (%s)", s->end.record - 1,
	            time_text(s->end.time_us, text));
	if (s->highest >= s->end.record)
		salvage_say(s, "lost: commits %" PRIu64 " to %" PRIu64 ", and whatever came after them",
		            s->end.record, s->highest);
	else
		salvage_say(s, "no commit is known to be lost%s",
		            s->damage.at == 0 ? ", but there is no telling what a missing file held" : "");
}

enum err_code salvage_tell_journal(struct salvage *s, struct segment_span *span, struct err *err)
{
	*span = (struct segment_span){.from = s->damage.segment};
	if (segment_span(s->journal, span, err) != ERR_NONE)
		return err->code;
	s->highest = s->end.record - 1;
	for (uint64_t segment = s->damage.segment; segment <= span->last; segment++)
		if (tell_segment(s, segment, segment == s->damage.segment ? s->damage.at : 0, err) !=
		    ERR_NONE)
			return err->code;
	tell_whole(s);
	return ERR_NONE;
}
