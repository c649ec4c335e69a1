/* Salvage: see salvage.h. Every step leaves a journal that is still refused, or one that is sound: later segments go first,
 * then the damaged one is replaced by its sound beginning, then the newest is written down. */
#include "engine/salvage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/directory.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/seal.h"
#include "engine/disk.h"
#include "engine/manifest.h"
#include "engine/verify.h"

enum { UNIT_BYTES = 4096, FILLED_LEAST = 65536 / SECTOR_BYTES, ASIDE_TRIES_MAX = 100 };

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
__attribute__((format(printf, 2, 3))) static void say(struct salvage *s, const char *format, ...)
{
	char    text[ERR_TEXT_MAX];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	s->watch->say(s->watch->ctx, text);
}

/* ---- what is there ---- */

static enum err_code note_record(void *ctx, const struct record *r, struct err *err)
{
	struct salvage *s = ctx;

	(void)err;
	if (r->filled > s->filled)
		s->filled = r->filled;
	return ERR_NONE;
}

/* Where the store says that the journal begins. */
static enum err_code read_place(struct salvage *s, struct err *err)
{
	struct rocks *rocks;
	enum err_code rc;
	char          store[PATH_MAX];

	snprintf(store, sizeof(store), "%s/store", s->path);
	if (rocks_open_read_only(&rocks, store, 1 << 20, err) != ERR_NONE)
		return err->code;
	rc = checkpoint_place(rocks, &s->from, err);
	rocks_close(rocks);
	return rc;
}

/* The journal lacks its first segment: has it been lost, or does the store seem older than it is, because its list of files is damaged (manifest.h M2)? What the
 * journal holds must not be dropped then. */
static enum err_code check_beginning(struct salvage *s, struct err *err)
{
	struct manifest m;

	if (s->damage.at > 0 || s->damage.segment > s->from.segment + (s->from.segment == 0))
		return ERR_NONE;
	return manifest_check(s->path, &m, err);
}

/* ERR_NONE with s->damage.segment 0: nothing is wrong. */
static enum err_code read_journal(struct salvage *s, struct err *err)
{
	struct journal_reader reader = {.ctx = s, .each = note_record, .damage = &s->damage};
	struct err            why;

	if (journal_read(&s->site, &s->from, &reader, &s->end, err) == ERR_NONE)
		return ERR_NONE;
	if (s->damage.segment == 0)
		return err->code;
	if (check_beginning(s, &why) != ERR_NONE) {
		*err = why;
		return err->code;
	}
	say(s, "%s", err->text);
	return ERR_NONE;
}

static const char *time_text(int64_t time_us, char out[32])
{
	time_t    second = (time_t)(time_us / 1000000);
	struct tm tm;

	strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&second, &tm));
	return out;
}

/* ---- what lies behind the damage: every sector is looked at by itself, and may begin a whole commit, be a part of one, or
 * be anything ---- */

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
		say(s,
		    "drop %s from byte %zu: %" PRIu64 " whole commits, %" PRIu64 " (%s) to %" PRIu64 " (%s)",
		    path, at, l->whole, l->first, time_text(l->first_us, first), l->last,
		    time_text(l->last_us, last));
	if (l->partial > 0)
		say(s, "drop %s from byte %zu: commit %" PRIu64 ", which cannot be read whole", path, at,
		    l->partial);
	if (l->other > 0)
		say(s, "drop %s from byte %zu: %zu bytes in sectors that belong to no commit", path, at,
		    l->other);
	if (l->whole == 0 && l->partial == 0 && l->other == 0)
		say(s, "drop %s from byte %zu: nothing but zeros", path, at);
}

/* A later segment, or the damaged one. */
static enum err_code tell_segment(struct salvage *s, uint64_t segment, size_t at, struct err *err)
{
	struct segment_head head;
	struct lost         l = {0};
	struct buf          all;
	enum err_code       rc;
	char                path[PATH_MAX];

	segment_path(path, s->journal, segment);
	if (access(path, F_OK) != 0) {
		say(s, "%s is missing", path);
		return ERR_NONE;
	}
	buf_init(&all, NULL);
	rc = segment_load(path, &all, err);
	if (rc == ERR_NONE) {
		if (segment_head_decode(buf_bytes(&all), &head) == RECORD_WHOLE &&
		    head.first > s->highest + 1)
			s->highest = head.first - 1;
		look_at(s, buf_bytes(&all), at < SECTOR_BYTES ? SECTOR_BYTES : at, &l);
		tell_lost(s, path, at, &l);
	}
	buf_release(&all);
	return rc;
}

static void tell_whole(struct salvage *s)
{
	struct segment_head newest;
	struct err          ignored;
	char                text[32];

	if (s->site.sealed && journal_newest_read(&s->site, &newest, &ignored) == ERR_NONE &&
	    newest.first > s->highest + 1)
		s->highest = newest.first - 1;
	say(s, "kept: all commits up to %" PRIu64 " (%s)", s->end.record - 1,
	    time_text(s->end.time_us, text));
	if (s->highest >= s->end.record)
		say(s, "lost: commits %" PRIu64 " to %" PRIu64 ", and whatever came after them",
		    s->end.record, s->highest);
	else
		say(s, "no commit is known to be lost%s",
		    s->damage.at == 0 ? ", but there is no telling what a missing file held" : "");
}

/* After the journal was read up to s->damage: says of each file from there on what it holds, and which commits are lost. *span
 * are the segments that are there. Changes nothing. */
static enum err_code tell_journal(struct salvage *s, struct segment_span *span, struct err *err)
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

/* ---- copies ---- */

/* DIR/salvaged-20261116T220000Z, made when it is first needed. */
static enum err_code make_aside(struct salvage *s, struct err *err)
{
	char      stamp[32];
	time_t    now = time(NULL);
	struct tm tm;

	if (s->found->aside[0] != '\0')
		return ERR_NONE;
	strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
	for (int i = 0; i < ASIDE_TRIES_MAX; i++) {
		snprintf(s->found->aside, sizeof(s->found->aside), "%.4000s/salvaged-%s%s%.0d", s->path,
		         stamp, i == 0 ? "" : "-", i);
		if (mkdir(s->found->aside, 0700) == 0)
			return file_sync_directory(s->path, err);
		if (errno != EEXIST)
			break;
	}
	return journal_file_error(err, "create the directory", s->found->aside);
}

/* FROM/NAME, if it is there. */
static enum err_code copy_aside(struct salvage *s, const char *from, const char *name, struct err *err)
{
	char          path[PATH_MAX];
	struct buf    all;
	enum err_code rc;

	snprintf(path, sizeof(path), "%s/%s", from, name);
	if (access(path, F_OK) != 0)
		return ERR_NONE;
	if (make_aside(s, err) != ERR_NONE)
		return err->code;
	buf_init(&all, NULL);
	rc = segment_load(path, &all, err);
	if (rc == ERR_NONE)
		rc = file_replace(s->found->aside, name, buf_bytes(&all), err);
	buf_release(&all);
	return rc;
}

static const char *name_of(const char *path)
{
	return strrchr(path, '/') + 1;
}

static enum err_code copy_journal(struct salvage *s, const struct segment_span *span, struct err *err)
{
	char path[PATH_MAX];

	for (uint64_t segment = s->damage.segment; segment <= span->last; segment++) {
		segment_path(path, s->journal, segment);
		if (copy_aside(s, s->journal, name_of(path), err) != ERR_NONE)
			return err->code;
	}
	return copy_aside(s, s->journal, JOURNAL_NEWEST, err);
}

/* ---- dropping ---- */

static enum err_code remove_later(struct salvage *s, const struct segment_span *span, struct err *err)
{
	char path[PATH_MAX];

	for (uint64_t segment = span->last; segment > s->damage.segment; segment--) {
		segment_path(path, s->journal, segment);
		if (unlink(path) != 0 && errno != ENOENT)
			return journal_file_error(err, "remove", path);
	}
	return file_sync_directory(s->journal, err);
}

/* The sound beginning of the damaged segment, or a new one without records. */
static enum err_code sound_beginning(struct salvage *s, const char *path, struct buf *out,
                                     struct segment_head *head, struct err *err)
{
	if (s->damage.at >= SECTOR_BYTES) {
		if (segment_load(path, out, err) != ERR_NONE)
			return err->code;
		out->len = s->damage.at < out->len ? s->damage.at : out->len;
		segment_head_decode(buf_bytes(out), head);
		return ERR_NONE;
	}
	*head = (struct segment_head){.segment = s->damage.segment,
	                              .first = s->end.record,
	                              .unit = UNIT_BYTES,
	                              .filled = s->site.sealed ? FILLED_LEAST : 0};
	memcpy(head->directory, s->site.id, sizeof(head->directory));
	segment_head_encode(out, head);
	return ERR_NONE;
}

/* As long as its head and its records say that it was (J6). */
static void add_zeros(struct salvage *s, const struct segment_head *head, struct buf *out)
{
	uint32_t filled = head->filled > s->filled ? head->filled : s->filled;
	size_t   bytes = (size_t)(filled > FILLED_LEAST ? filled : FILLED_LEAST) * SECTOR_BYTES;

	while (bytes < out->len + UNIT_BYTES)
		bytes += UNIT_BYTES;
	buf_reserve(out, bytes - out->len);
	memset(out->data + out->len, 0, bytes - out->len);
	out->len = bytes;
}

static enum err_code replace_damaged(struct salvage *s, struct err *err)
{
	struct segment_head head = {0};
	struct buf          all;
	enum err_code       rc;
	char                path[PATH_MAX];

	segment_path(path, s->journal, s->damage.segment);
	buf_init(&all, NULL);
	rc = sound_beginning(s, path, &all, &head, err);
	if (rc == ERR_NONE) {
		add_zeros(s, &head, &all);
		rc = file_replace(s->journal, name_of(path), buf_bytes(&all), err);
	}
	if (rc == ERR_NONE && s->site.sealed)
		rc = journal_newest_write(s->journal, &head, err);
	buf_release(&all);
	return rc;
}

static enum err_code drop_journal(struct salvage *s, const struct segment_span *span, struct err *err)
{
	if (mkdir(s->journal, 0700) != 0 && errno != EEXIST)
		return journal_file_error(err, "create the directory", s->journal);
	if (copy_journal(s, span, err) != ERR_NONE || remove_later(s, span, err) != ERR_NONE)
		return err->code;
	return replace_damaged(s, err);
}

/* ---- the store ---- */

struct mending {
	struct salvage *salvage;
	struct buf      ops;
	uint64_t        left; /* differences that no change mends */
	bool            miscounted;
};

static void on_step(void *ctx, const struct verify_counts *counts)
{
	(void)ctx;
	(void)counts;
}

static void on_difference(void *ctx, const char *text)
{
	struct mending *m = ctx;

	(void)text;
	m->left++;
}

static void on_mend(void *ctx, const struct op *op)
{
	struct mending *m = ctx;

	m->left--;
	m->salvage->found->mended++;
	op_encode(&m->ops, op);
}

static enum err_code compare(struct engine *e, struct mending *m, struct counts *counted, struct err *err)
{
	struct verify_watch watch = {
	        .ctx = m, .step = on_step, .differ = on_difference, .mend = on_mend, .tally = counted};
	struct verify_tally  tally = {.is = counted, .said = e->counts};
	struct verify_counts counts = {0};
	struct err           wrong;

	if (catalog_load(e, err) != ERR_NONE ||
	    verify_all(e, e->catalog, NULL, &watch, &counts, err) != ERR_NONE)
		return err->code;
	tally.catalog = e->catalog;
	m->miscounted = verify_tally(&tally, &wrong) > 0;
	return ERR_NONE;
}

/* What the store and the journal hold together now: where do entries not agree with rows, and counts with both? */
static enum err_code find_mends(struct salvage *s, struct mending *m, struct err *err)
{
	struct counts *counted = counts_open();
	struct engine *e;
	enum err_code  rc = engine_open_reading(&e, s->path, dup(s->lock_fd), err);

	if (rc == ERR_NONE) {
		rc = compare(e, m, counted, err);
		engine_close(e);
	}
	counts_close(counted);
	return rc;
}

/* One commit more, as any other. */
static enum err_code append_mends(struct salvage *s, struct bytes ops, struct err *err)
{
	struct journal_options options = {.segment_bytes = 1 << 20};
	struct journal_reader  reader = {.ctx = s, .each = note_record};
	struct journal_place   end;
	struct journal        *j;
	enum err_code          rc;

	if (journal_read(&s->site, &s->from, &reader, &end, err) != ERR_NONE ||
	    journal_open(&j, &s->site, &end, &options, err) != ERR_NONE)
		return err->code;
	rc = journal_append(j, end.time_us, ops, err);
	journal_close(j);
	return rc;
}

static enum err_code mend_store(struct salvage *s, struct err *err)
{
	struct mending m = {.salvage = s};
	enum err_code  rc;

	if (fault_fires(FAULT_SALVAGE))
		return err_set(err, ERR_STORAGE, "a fault was injected");
	buf_init(&m.ops, NULL);
	counts_add_recount(&m.ops); /* the store may have the counts of dropped commits, too */
	rc = find_mends(s, &m, err);
	if (rc == ERR_NONE && (s->found->damaged || s->found->mended > 0 || m.miscounted))
		rc = append_mends(s, buf_bytes(&m.ops), err);
	buf_release(&m.ops);
	if (rc == ERR_NONE && s->found->mended > 0)
		say(s, "%" PRIu64 " index and expiry entries were made to agree with their rows",
		    s->found->mended);
	if (rc == ERR_NONE && m.miscounted)
		say(s, "the numbers of rows were wrong: the next start counts them");
	if (rc == ERR_NONE && m.left > 0)
		say(s, "%" PRIu64 " rows cannot be read: `gatehouse check` names their tables", m.left);
	return rc;
}

/* ---- sealed files ---- */

static const char *consequence(const char *name)
{
	if (strcmp(name, "identifiers.key") == 0)
		return "counts, locks and states of emails, phones, addresses and devices can no longer be "
		       "found";
	if (strcmp(name, "keys.json") == 0)
		return "all access keys are gone; the next start creates a new one, \"administrator\"";
	if (strcmp(name, "devices.key") == 0)
		return "no device is known any longer; each becomes known again with its next success";
	return "whatever was made with it is no longer accepted";
}

static enum err_code salvage_sealed(struct salvage *s, const struct directory_names *names, bool drop,
                                    struct err *err)
{
	for (unsigned i = 0; i < names->count; i++) {
		const char *name = names->list[i];
		char        path[PATH_MAX];
		struct buf  text;
		struct err  why;
		bool        there, good;

		buf_init(&text, NULL);
		good = seal_read(s->path, name, &text, &there, &why) == ERR_NONE;
		buf_release(&text);
		if (good)
			continue;
		s->found->damaged = true;
		say(s, "%s", why.text);
		say(s, "drop %s/%s: %s", s->path, name, consequence(name));
		if (!drop)
			continue;
		snprintf(path, sizeof(path), "%s/%s", s->path, name);
		if (copy_aside(s, s->path, name, err) != ERR_NONE ||
		    directory_forget(s->path, name, err) != ERR_NONE)
			return err->code;
		if (unlink(path) != 0 && errno != ENOENT)
			return journal_file_error(err, "remove", path);
	}
	return ERR_NONE;
}

/* ---- the whole ---- */

static enum err_code salvage_files(struct salvage *s, bool drop, struct err *err)
{
	struct directory d;

	if (directory_read(s->path, &d, err) != ERR_NONE ||
	    salvage_sealed(s, &d.sealed, drop, err) != ERR_NONE)
		return err->code;
	return salvage_sealed(s, &d.unsealed, drop, err);
}

static enum err_code salvage_journal(struct salvage *s, bool drop, struct err *err)
{
	struct segment_span span;

	if (engine_journal_site(s->path, s->journal, &s->site, err) != ERR_NONE ||
	    read_place(s, err) != ERR_NONE || read_journal(s, err) != ERR_NONE)
		return err->code;
	if (s->damage.segment == 0) /* one that was killed may have come this far, and no farther */
		return drop ? mend_store(s, err) : ERR_NONE;
	s->found->damaged = true;
	if (tell_journal(s, &span, err) != ERR_NONE)
		return err->code;
	if (!drop)
		return ERR_NONE;
	return drop_journal(s, &span, err) != ERR_NONE ? err->code : mend_store(s, err);
}

enum err_code engine_salvage(const char *path, bool drop, const struct salvage_watch *watch,
                             struct salvage_found *found, struct err *err)
{
	struct salvage s = {.path = path, .watch = watch, .found = found};
	enum err_code  rc;

	*found = (struct salvage_found){0};
	if (disk_claim_existing(path, &s.lock_fd, err) != ERR_NONE)
		return err->code;
	rc = salvage_journal(&s, drop, err);
	if (rc == ERR_NONE)
		rc = salvage_files(&s, drop, err);
	found->dropped = drop && found->damaged && rc == ERR_NONE;
	close(s.lock_fd);
	return rc;
}
