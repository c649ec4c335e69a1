/* Directory: see directory.h. The text is read, written anew from what was read, and compared: whatever is not exactly
 * what this file writes is damage (D2). */
#define _GNU_SOURCE
#include "base/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crypto.h"
#include "base/file.h"

enum { FORMAT_BYTES_MAX = 4096 };

#define FORMAT_NAME "FORMAT"

/* ---- names ---- */

bool directory_names_have(const struct directory_names *names, const char *name)
{
	for (unsigned i = 0; i < names->count; i++)
		if (strcmp(names->list[i], name) == 0)
			return true;
	return false;
}

static void names_add(struct directory_names *names, const char *name)
{
	if (directory_names_have(names, name))
		return;
	if (names->count == DIRECTORY_NAMES_MAX || strlen(name) >= DIRECTORY_NAME_BYTES)
		abort(); /* they are names of ours */
	memcpy(names->list[names->count++], name, strlen(name) + 1);
}

static void names_remove(struct directory_names *names, const char *name)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < names->count; i++) {
		if (strcmp(names->list[i], name) == 0)
			continue;
		if (kept != i)
			memcpy(names->list[kept], names->list[i], sizeof(names->list[i]));
		kept++;
	}
	names->count = kept;
}

/* ---- the text ---- */

static void print_names(struct buf *out, const char *what, const struct directory_names *names)
{
	buf_add_bytes(out, bytes_of(what));
	for (unsigned i = 0; i < names->count; i++) {
		buf_add_byte(out, ' ');
		buf_add_bytes(out, bytes_of(names->list[i]));
	}
	buf_add_byte(out, '\n');
}

static void print_sum(struct buf *out)
{
	char sum[SHA256_HEX_CHARS];

	sha256_hex(buf_bytes(out), sum);
	buf_add_bytes(out, BYTES("sum "));
	buf_add(out, sum, sizeof(sum));
	buf_add_byte(out, '\n');
}

static void print(struct buf *out, const struct directory *d)
{
	char id[2 * DIRECTORY_ID_BYTES];

	buf_add_bytes(out, BYTES("gatehouse "));
	buf_add_i64(out, d->format);
	buf_add_byte(out, '\n');
	if (!directory_has_seals(d))
		return;
	hex_write((struct bytes){(const char *)d->id, sizeof(d->id)}, id);
	buf_add_bytes(out, BYTES("id "));
	buf_add(out, id, sizeof(id));
	buf_add_byte(out, '\n');
	print_names(out, "holds", &d->holds);
	print_names(out, "sealed", &d->sealed);
	print_names(out, "unsealed", &d->unsealed);
	print_sum(out);
}

static bool parse_id(const char *text, uint8_t id[DIRECTORY_ID_BYTES])
{
	for (int i = 0; i < DIRECTORY_ID_BYTES; i++)
		if (sscanf(text + 2 * i, "%2hhx", &id[i]) != 1)
			return false;
	return true;
}

/* `line` is "what name name …". */
static bool parse_names(char *line, const char *what, struct directory_names *out)
{
	char *rest, *word;

	word = line == NULL ? NULL : strtok_r(line, " ", &rest);
	if (word == NULL || strcmp(word, what) != 0)
		return false;
	while ((word = strtok_r(NULL, " ", &rest)) != NULL) {
		if (out->count == DIRECTORY_NAMES_MAX || strlen(word) >= DIRECTORY_NAME_BYTES)
			return false;
		memcpy(out->list[out->count++], word, strlen(word) + 1);
	}
	return true;
}

/* As far as it goes: what is wrong shows when it is printed again. */
static bool parse(char *text, struct directory *out)
{
	char *rest, *line = strtok_r(text, "\n", &rest);

	if (line == NULL || sscanf(line, "gatehouse %d", &out->format) != 1)
		return false;
	if (!directory_has_seals(out))
		return true;
	line = strtok_r(NULL, "\n", &rest);
	return line != NULL && strncmp(line, "id ", 3) == 0 && strlen(line) == 3 + 2 * DIRECTORY_ID_BYTES &&
	       parse_id(line + 3, out->id) &&
	       parse_names(strtok_r(NULL, "\n", &rest), "holds", &out->holds) &&
	       parse_names(strtok_r(NULL, "\n", &rest), "sealed", &out->sealed) &&
	       parse_names(strtok_r(NULL, "\n", &rest), "unsealed", &out->unsealed);
}

/* Does its last line hold the sum of the others? A newer format's does too, if it has more lines than one. */
static bool is_whole(struct bytes text)
{
	struct bytes above = {text.data, text.len};
	struct buf   again;
	bool         matches;

	if (memchr(text.data, '\n', text.len) == text.data + text.len - 1)
		return true;
	if (text.len < sizeof("sum \n") - 1 + SHA256_HEX_CHARS)
		return false;
	above.len -= sizeof("sum \n") - 1 + SHA256_HEX_CHARS;
	buf_init(&again, NULL);
	buf_add_bytes(&again, above);
	print_sum(&again);
	matches = bytes_equal(buf_bytes(&again), text);
	buf_release(&again);
	return matches;
}

static bool is_as_printed(const struct directory *d, struct bytes text)
{
	struct buf again;
	bool       same;

	buf_init(&again, NULL);
	print(&again, d);
	same = bytes_equal(buf_bytes(&again), text);
	buf_release(&again);
	return same;
}

static enum err_code understand(const char *dir, struct bytes text, struct directory *out, struct err *err)
{
	char copy[FORMAT_BYTES_MAX + 1];
	bool parsed;

	memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	parsed = parse(copy, out);
	if (out->format > DIRECTORY_FORMAT && is_whole(text))
		return err_set(err, ERR_STORAGE,
		               "%s was written in format %d, but this program reads format %d: use a newer "
		               "program",
		               dir, out->format, DIRECTORY_FORMAT);
	if (parsed && is_as_printed(out, text))
		return out->format >= DIRECTORY_FORMAT_OLDEST
		               ? ERR_NONE
		               : err_set(err, ERR_STORAGE,
		                         "%s was written in format %d, which this program does not read", dir,
		                         out->format);
	if (!bytes_starts_with(text, BYTES("gatehouse ")))
		return err_set(err, ERR_STORAGE,
		               "%s/FORMAT does not begin with \"gatehouse\": is this a data directory of "
		               "Gatehouse?",
		               dir);
	return err_set(err, ERR_STORAGE,
	               "%s/FORMAT is damaged: its checksum does not match. Restore it from a backup of this "
	               "directory",
	               dir);
}

enum err_code directory_read(const char *dir, struct directory *out, struct err *err)
{
	char          path[PATH_MAX];
	struct buf    text;
	bool          found;
	enum err_code rc;

	*out = (struct directory){0};
	snprintf(path, sizeof(path), "%s/%s", dir, FORMAT_NAME);
	buf_init(&text, NULL);
	rc = file_read(path, FORMAT_BYTES_MAX, &text, &found, err);
	if (rc == ERR_NONE && found)
		rc = understand(dir, buf_bytes(&text), out, err);
	buf_release(&text);
	return rc;
}

static enum err_code directory_write(const char *dir, const struct directory *d, struct err *err)
{
	struct buf    text;
	enum err_code rc;

	buf_init(&text, NULL);
	print(&text, d);
	rc = file_replace(dir, FORMAT_NAME, buf_bytes(&text), err);
	buf_release(&text);
	return rc;
}

/* ---- making and changing ---- */

static bool is_there(const char *dir, const char *name)
{
	struct stat st;
	char        path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return lstat(path, &st) == 0;
}

/* Every server of formats 2 and 3 made the key of identifiers. The others may have been made before the first start, or never: a directory
 * of a server whose tables were elsewhere has them, and so has one that an import put them into. */
enum err_code directory_make(const char *dir, int old_format, struct err *err)
{
	struct directory d = {.format = DIRECTORY_FORMAT};

	if (getrandom(d.id, sizeof(d.id), 0) != (ssize_t)sizeof(d.id))
		return err_set(err, ERR_STORAGE, "cannot get random bytes from the system");
	if (old_format > 0)
		names_add(&d.holds, "store");
	if (old_format > 0 || is_there(dir, "identifiers.key"))
		names_add(&d.unsealed, "identifiers.key");
	if (is_there(dir, "devices.key"))
		names_add(&d.unsealed, "devices.key");
	if (is_there(dir, "keys.json"))
		names_add(&d.unsealed, "keys.json");
	return directory_write(dir, &d, err);
}

static enum err_code change_locked(const char *dir, bool (*step)(struct directory *d, const char *name),
                                   const char *name, struct err *err)
{
	struct directory d;

	if (directory_read(dir, &d, err) != ERR_NONE)
		return err->code;
	if (!directory_has_seals(&d))
		return err_set(err, ERR_STORAGE, "%s/FORMAT is missing or of an older format", dir);
	return step(&d, name) ? directory_write(dir, &d, err) : ERR_NONE;
}

/* Calls `step` on what FORMAT says now, and writes it if that returns true. */
static enum err_code change(const char *dir, bool (*step)(struct directory *d, const char *name),
                            const char *name, struct err *err)
{
	int           lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum err_code rc;

	if (lock < 0 || flock(lock, LOCK_EX) != 0)
		rc = err_set(err, ERR_STORAGE, "lock %s: %s", dir, strerror(errno));
	else
		rc = change_locked(dir, step, name, err);
	if (lock >= 0)
		close(lock);
	return rc;
}

static bool raise_format(struct directory *d, const char *unused)
{
	(void)unused;
	if (d->format == DIRECTORY_FORMAT)
		return false;
	d->format = DIRECTORY_FORMAT;
	return true;
}

static bool add_held(struct directory *d, const char *name)
{
	if (directory_names_have(&d->holds, name))
		return false;
	names_add(&d->holds, name);
	return true;
}

static bool add_sealed(struct directory *d, const char *name)
{
	if (directory_names_have(&d->sealed, name))
		return false;
	names_add(&d->sealed, name);
	names_remove(&d->unsealed, name);
	return true;
}

static bool forget(struct directory *d, const char *name)
{
	names_remove(&d->sealed, name);
	names_remove(&d->unsealed, name);
	return true;
}

enum err_code directory_raise(const char *dir, struct err *err)
{
	return change(dir, raise_format, "", err);
}

enum err_code directory_add_held(const char *dir, const char *name, struct err *err)
{
	return change(dir, add_held, name, err);
}

enum err_code directory_add_sealed(const char *dir, const char *name, struct err *err)
{
	return change(dir, add_sealed, name, err);
}

enum err_code directory_forget(const char *dir, const char *name, struct err *err)
{
	return change(dir, forget, name, err);
}
