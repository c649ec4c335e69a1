/* Manifest: see manifest.h. */
#include "engine/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "engine/state.h"
#include "engine/rocks.h"

enum { HEAD_BYTES = 7, TYPE_AT = 6, CRC_SHIFT = 15, BLOCK_CACHE_BYTES = 1 << 20 };
enum { TYPE_FULL = 1, TYPE_FIRST, TYPE_MIDDLE, TYPE_LAST };
enum { TAG_COMPARATOR = 1, TAG_LOG_NUMBER = 2 }; /* of an edit's fields */

#define CRC_MASK UINT32_C(0xa282ead8) /* so that a checksum of data with checksums in it is not a weak one */

/* ---- records ---- */

/* CRC-32C, half a byte at a time: quick enough for a file that is read once, at a start. */
static uint32_t crc32c(struct bytes data)
{
	static const uint32_t step[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
	                                  0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
	                                  0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
	                                  0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
	uint32_t              crc = UINT32_MAX;

	for (size_t i = 0; i < data.len; i++) {
		crc ^= (uint8_t)data.data[i];
		crc = crc >> 4 ^ step[crc & 15];
		crc = crc >> 4 ^ step[crc & 15];
	}
	return ~crc;
}

static uint32_t checksum(struct bytes data)
{
	uint32_t crc = crc32c(data);

	return (crc >> CRC_SHIFT | crc << (32 - CRC_SHIFT)) + CRC_MASK;
}

static uint32_t number(const char *at, int bytes)
{
	uint32_t n = 0;

	while (bytes-- > 0)
		n = n << 8 | (uint8_t)at[bytes];
	return n;
}

/* How long the record at the beginning is, with its head; 0 if none can be read there. */
static size_t record_at(struct bytes rest)
{
	size_t payload;

	if (rest.len < HEAD_BYTES || rest.data[TYPE_AT] < TYPE_FULL || rest.data[TYPE_AT] > TYPE_LAST)
		return 0;
	payload = number(rest.data + 4, 2);
	if (payload > rest.len - HEAD_BYTES ||
	    checksum((struct bytes){rest.data + TYPE_AT, 1 + payload}) != number(rest.data, 4))
		return 0;
	return HEAD_BYTES + payload;
}

/* ---- blocks ---- */

/* Does this edit name a family, in a file's head? It begins with a comparator, which the name of the family follows. In the edit that makes a new family, later,
 * a log's number does. The first record may hold too little to tell: then it is taken for one, which costs nothing but an edit or two of a tail. */
static bool names_family(struct bytes payload)
{
	size_t after;

	if (payload.len > 0 && payload.data[0] != TAG_COMPARATOR)
		return false;
	after = payload.len < 2 ? payload.len : 2 + (size_t)(uint8_t)payload.data[1];
	return after >= payload.len || payload.data[after] != TAG_LOG_NUMBER;
}

static void end_edit(struct manifest_scan *s, uint64_t end)
{
	if (!s->names && !s->listed)
		s->sound = end;
	s->listed = s->names;
	s->end = end;
}

/* A record begins an edit outside of one, and goes on with it inside; false if it does neither. */
static bool take_record(struct manifest_scan *s, struct bytes record, uint64_t end)
{
	char type = record.data[TYPE_AT];
	bool begins = type == TYPE_FULL || type == TYPE_FIRST;

	if (begins == s->in_edit)
		return false;
	if (begins)
		s->names = names_family((struct bytes){record.data + HEAD_BYTES, record.len - HEAD_BYTES});
	s->in_edit = type == TYPE_FIRST || type == TYPE_MIDDLE;
	if (!s->in_edit)
		end_edit(s, end);
	return true;
}

/* Up to the end of the block, or to what cannot be read (M1). */
void manifest_scan_block(struct manifest_scan *s, struct bytes block)
{
	size_t at = 0, used;

	while (!s->torn && block.len - at >= HEAD_BYTES) {
		used = record_at((struct bytes){block.data + at, block.len - at});
		if (used == 0 || !take_record(s, (struct bytes){block.data + at, used}, s->at + at + used)) {
			s->torn = true;
			s->bad = s->at + at;
		}
		at += used;
	}
	s->at += block.len;
}

enum manifest_state manifest_scan_end(const struct manifest_scan *s)
{
	if (s->end == s->at)
		return MANIFEST_WHOLE;
	return s->sound > 0 ? MANIFEST_TORN : MANIFEST_DAMAGED;
}

/* ---- the file ---- */

/* "MANIFEST-000004\n" */
static bool is_name(struct bytes text)
{
	struct bytes prefix = BYTES("MANIFEST-");

	if (!bytes_starts_with(text, prefix) || text.len <= prefix.len + 1 || text.len > MANIFEST_NAME_BYTES)
		return false;
	for (size_t i = prefix.len; i < text.len - 1; i++)
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
	return text.data[text.len - 1] == '\n';
}

/* The name that the store's CURRENT holds; "" if that is not one: RocksDB will say why. */
static enum err_code read_name(const char *store, char out[MANIFEST_NAME_BYTES], struct err *err)
{
	char          path[PATH_MAX];
	struct buf    text;
	enum err_code rc;
	bool          found;

	out[0] = '\0';
	snprintf(path, sizeof(path), "%s/CURRENT", store);
	buf_init(&text, NULL);
	rc = file_read(path, PATH_MAX, &text, &found, err);
	if (rc == ERR_NONE && is_name(buf_bytes(&text)))
		snprintf(out, MANIFEST_NAME_BYTES, "%.*s", (int)text.len - 1, text.data);
	buf_release(&text);
	return rc;
}

/* One block, or what there is of it; -1 with errno. */
static ssize_t read_block(int fd, char *block)
{
	size_t  len = 0;
	ssize_t n;

	do {
		n = read(fd, block + len, MANIFEST_BLOCK_BYTES - len);
		len += n > 0 ? (size_t)n : 0;
	} while ((n > 0 && len < MANIFEST_BLOCK_BYTES) || (n < 0 && errno == EINTR));
	return n < 0 ? -1 : (ssize_t)len;
}

static bool scan_file(int fd, struct manifest_scan *s)
{
	char    block[MANIFEST_BLOCK_BYTES];
	ssize_t n;

	while ((n = read_block(fd, block)) > 0)
		manifest_scan_block(s, (struct bytes){block, (size_t)n});
	return n == 0;
}

enum err_code manifest_look(const char *store, struct manifest *out, struct err *err)
{
	struct manifest_scan s = {0};
	char                 path[PATH_MAX];
	enum err_code        rc;
	int                  fd;

	*out = (struct manifest){0};
	rc = read_name(store, out->name, err);
	if (rc != ERR_NONE || out->name[0] == '\0')
		return rc;
	snprintf(path, sizeof(path), "%s/%s", store, out->name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || !scan_file(fd, &s))
		rc = err_set(err, ERR_STORAGE, "read %s: %s", path, strerror(errno));
	else if (manifest_scan_end(&s) == MANIFEST_DAMAGED)
		rc = err_set(err, ERR_STORAGE,
		             "%s is damaged at byte %" PRIu64
		             ": it says which files the store consists of. Restore a "
		             "backup of the data directory",
		             path, s.torn ? s.bad : s.end);
	if (fd >= 0)
		close(fd);
	out->bytes = s.at;
	out->sound = manifest_scan_end(&s) == MANIFEST_TORN ? s.sound : s.at;
	return rc;
}

/* ---- opening without the tail ---- */

static enum err_code pass_record(void *ctx, const struct record *r, struct err *err)
{
	(void)ctx;
	(void)r;
	(void)err;
	return ERR_NONE;
}

/* (M2) Without it, are the store's files there, and does the journal hold all that came after? */
static enum err_code try_without_tail(const char *dir, const char *store, struct err *err)
{
	struct journal_reader reader = {.each = pass_record};
	struct journal_site   site;
	struct journal_place  from, end;
	struct rocks         *rocks;
	enum err_code         rc;
	char                  journal[PATH_MAX];

	if (engine_journal_site(dir, journal, &site, err) != ERR_NONE ||
	    rocks_open_read_only(&rocks, store, BLOCK_CACHE_BYTES, err) != ERR_NONE)
		return err->code;
	rc = checkpoint_place(rocks, &from, err);
	if (rc == ERR_NONE)
		rc = journal_read(&site, &from, &reader, &end, err);
	rocks_close(rocks);
	return rc;
}

/* RocksDB removes the file once it has written a new one. A link needs no room. */
static void keep(const char *dir, const struct manifest *m)
{
	char from[PATH_MAX], to[PATH_MAX];

	snprintf(from, sizeof(from), "%s/store/%s", dir, m->name);
	snprintf(to, sizeof(to), "%s/%s.torn", dir, m->name);
	unlink(to); /* of a start that got no further */
	log_warn("the last %" PRIu64
	         " bytes of %s were not written to their end. They are left out: the journal "
	         "holds what they stood for",
	         m->bytes - m->sound, from);
	if (link(from, to) == 0)
		log_warn("the file is kept as %s", to);
	else
		log_warn("the file cannot be kept as %s: %s", to, strerror(errno));
}

enum err_code manifest_check(const char *dir, struct manifest *out, struct err *err)
{
	struct err why;
	char       store[PATH_MAX];

	snprintf(store, sizeof(store), "%s/store", dir);
	if (manifest_look(store, out, err) != ERR_NONE)
		return err->code;
	if (manifest_is_torn(out) && try_without_tail(dir, store, &why) != ERR_NONE)
		return err_set(err, ERR_STORAGE,
		               "%s/%s is damaged at byte %" PRIu64
		               ", and the store is not complete without its end: %s",
		               store, out->name, out->sound, why.text);
	return ERR_NONE;
}

enum err_code manifest_pass_over(const char *dir, struct err *err)
{
	struct manifest m;

	if (manifest_check(dir, &m, err) != ERR_NONE)
		return err->code;
	if (manifest_is_torn(&m))
		keep(dir, &m);
	return ERR_NONE;
}
