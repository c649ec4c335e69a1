/* Seal: see seal.h. A seal has one form and one length for each file, so a file either ends with exactly the bytes that
 * its text asks for, or it is not as it was written. */
#include "base/seal.h"

#include <limits.h>
#include <stdio.h>

#include "base/crypto.h"
#include "base/directory.h"
#include "base/file.h"

enum {
	ID_CHARS = 2 * DIRECTORY_ID_BYTES,
	STATEMENT_CHARS = ID_CHARS + 1 + SHA256_HEX_CHARS, /* "ID SUM" */
};

/* What stands around the statement; and what of the text makes room for it. */
struct form {
	struct bytes before, after, replaced;
};

static const struct form plain_form = {BYTES_INIT("\nsealed "), BYTES_INIT("\n"), BYTES_INIT("")};
static const struct form json_form = {BYTES_INIT(",\"seal\":\""), BYTES_INIT("\"}\n"), BYTES_INIT("}\n")};

static bool ends_with(struct bytes text, struct bytes end)
{
	return text.len >= end.len && memcmp(text.data + text.len - end.len, end.data, end.len) == 0;
}

static bool is_json(const char *name)
{
	return ends_with(bytes_of(name), BYTES(".json"));
}

static const struct form *form_of(const char *name)
{
	return is_json(name) ? &json_form : &plain_form;
}

/* ---- the seal ---- */

/* "ID SUM" of a text without what the seal replaces. */
static void state(const char *name, const uint8_t id[DIRECTORY_ID_BYTES], struct bytes text,
                  char out[STATEMENT_CHARS])
{
	struct buf covered;

	hex_write((struct bytes){(const char *)id, DIRECTORY_ID_BYTES}, out);
	out[ID_CHARS] = ' ';
	buf_init(&covered, NULL);
	buf_add_bytes(&covered, bytes_of(name));
	buf_add_byte(&covered, ' ');
	buf_add(&covered, out, ID_CHARS + 1);
	buf_add_bytes(&covered, text);
	sha256_hex(buf_bytes(&covered), out + ID_CHARS + 1);
	crypto_wipe(covered.data, covered.len);
	buf_release(&covered);
}

static size_t seal_bytes(const struct form *f)
{
	return f->before.len + STATEMENT_CHARS + f->after.len;
}

/* Takes a file apart; false if it does not end in the form of a seal. */
static bool split(const char *name, struct bytes file, struct bytes *text, struct bytes *statement)
{
	const struct form *f = form_of(name);

	if (file.len < seal_bytes(f) || !ends_with(file, f->after))
		return false;
	*text = (struct bytes){file.data, file.len - seal_bytes(f)};
	*statement = (struct bytes){file.data + text->len + f->before.len, STATEMENT_CHARS};
	return bytes_starts_with((struct bytes){file.data + text->len, f->before.len}, f->before);
}

/* Is the statement good for some directory? Then its id is the one that it names. */
static bool names_another(const char *name, struct bytes text, struct bytes statement)
{
	uint8_t id[DIRECTORY_ID_BYTES];
	char    again[STATEMENT_CHARS];

	for (int i = 0; i < DIRECTORY_ID_BYTES; i++) {
		unsigned byte;
		char     digits[3] = {statement.data[2 * i], statement.data[2 * i + 1], '\0'};

		if (sscanf(digits, "%2x", &byte) != 1)
			return false;
		id[i] = (uint8_t)byte;
	}
	state(name, id, text, again);
	return bytes_equal((struct bytes){again, sizeof(again)}, statement);
}

static const char *advice(const char *name)
{
	return is_json(name) ? "Restore it from a backup of this directory; or, if you edited it yourself, "
	                       "check it, then run `gatehouse key seal`"
	                     : "Restore it from a backup of this directory";
}

static enum err_code verify(const char *dir, const char *name, const struct directory *d, struct bytes file,
                            struct err *err)
{
	struct bytes text, statement;
	char         expected[STATEMENT_CHARS];

	if (!split(name, file, &text, &statement))
		return err_set(err, ERR_STORAGE,
		               "%s/%s has no seal: it is damaged, or was edited by hand. %s", dir, name,
		               advice(name));
	state(name, d->id, text, expected);
	if (bytes_equal((struct bytes){expected, sizeof(expected)}, statement))
		return ERR_NONE;
	if (names_another(name, text, statement))
		return err_set(err, ERR_STORAGE,
		               "%s/%s belongs to another data directory (%.*s, and this is %.*s). Restore "
		               "the one of "
		               "this directory from a backup",
		               dir, name, ID_CHARS, statement.data, ID_CHARS, expected);
	return err_set(err, ERR_STORAGE, "%s/%s is damaged: its checksum does not match. %s", dir, name,
	               advice(name));
}

/* ---- reading ---- */

/* The text of a plain file is what stands before the seal. */
static void strip(const char *name, struct buf *file)
{
	struct bytes text, statement;

	if (!is_json(name) && split(name, buf_bytes(file), &text, &statement))
		file->len = text.len;
}

/* Before there is an id. A file with a seal then says that FORMAT was lost. */
static enum err_code verify_unsealed(const char *dir, const char *name, struct bytes file, struct err *err)
{
	struct bytes text, statement;

	if (!split(name, file, &text, &statement) || !names_another(name, text, statement))
		return ERR_NONE;
	return err_set(
	        err, ERR_STORAGE,
	        "%s/%s carries the seal of a data directory, but there is no %s/FORMAT of that directory. "
	        "Restore it from a backup; if this is to be a new directory, move %s away",
	        dir, name, dir, name);
}

static enum err_code verify_in(const char *dir, const char *name, const struct directory *d,
                               struct bytes file, struct err *err)
{
	struct bytes text, statement;

	if (!directory_has_seals(d))
		return verify_unsealed(dir, name, file, err);
	/* a start that was cut short may have sealed it without taking it off the list */
	if (directory_names_have(&d->unsealed, name) && !split(name, file, &text, &statement))
		return ERR_NONE;
	return verify(dir, name, d, file, err);
}

enum err_code seal_verify(const char *dir, const char *name, struct bytes file, struct err *err)
{
	struct directory d;

	if (directory_read(dir, &d, err) != ERR_NONE)
		return err->code;
	return verify_in(dir, name, &d, file, err);
}

enum err_code seal_verify_absent(const char *dir, const char *name, struct err *err)
{
	struct directory d;

	if (directory_read(dir, &d, err) != ERR_NONE)
		return err->code;
	if (!directory_names_have(&d.sealed, name) && !directory_names_have(&d.unsealed, name))
		return ERR_NONE;
	return err_set(
	        err, ERR_STORAGE,
	        "%s/%s is missing, and the data in this directory depends on it. Restore it from a backup of "
	        "this directory",
	        dir, name);
}

enum err_code seal_read(const char *dir, const char *name, struct buf *out, bool *found, struct err *err)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (file_read(path, SEALED_BYTES_MAX, out, found, err) != ERR_NONE)
		return err->code;
	if (!*found)
		return seal_verify_absent(dir, name, err);
	if (seal_verify(dir, name, buf_bytes(out), err) != ERR_NONE)
		return err->code;
	strip(name, out);
	return ERR_NONE;
}

enum err_code seal_is_due(const char *dir, const char *name, bool *due, struct err *err)
{
	struct directory d;

	if (directory_read(dir, &d, err) != ERR_NONE)
		return err->code;
	*due = directory_names_have(&d.unsealed, name);
	return ERR_NONE;
}

/* ---- writing ---- */

static enum err_code write_sealed(const char *dir, const char *name, const struct directory *d,
                                  struct bytes text, struct err *err)
{
	const struct form *f = form_of(name);
	char               statement[STATEMENT_CHARS];
	struct buf         file;
	enum err_code      rc;

	if (!ends_with(text, f->replaced))
		return err_set(err, ERR_STORAGE, "%s/%s cannot be sealed: it does not end as JSON does", dir,
		               name);
	text.len -= f->replaced.len;
	state(name, d->id, text, statement);
	buf_init(&file, NULL);
	buf_add_bytes(&file, text);
	buf_add_bytes(&file, f->before);
	buf_add(&file, statement, sizeof(statement));
	buf_add_bytes(&file, f->after);
	rc = file_replace(dir, name, buf_bytes(&file), err);
	crypto_wipe(file.data, file.len);
	buf_release(&file);
	return rc;
}

enum err_code seal_write(const char *dir, const char *name, struct bytes text, struct err *err)
{
	struct directory d;

	if (directory_read(dir, &d, err) != ERR_NONE)
		return err->code;
	if (!directory_has_seals(&d))
		return file_replace(dir, name, text, err);
	if (write_sealed(dir, name, &d, text, err) != ERR_NONE)
		return err->code;
	return directory_names_have(&d.sealed, name) ? ERR_NONE : directory_add_sealed(dir, name, err);
}

/* ---- checking ---- */

static void check_names(const char *dir, const struct directory_names      *names,
                        void (*problem)(void *ctx, const char *text), void *ctx, unsigned *sound)
{
	for (unsigned i = 0; i < names->count; i++) {
		struct buf file;
		struct err why;
		bool       found;

		buf_init(&file, NULL);
		if (seal_read(dir, names->list[i], &file, &found, &why) == ERR_NONE)
			++*sound;
		else
			problem(ctx, why.text);
		crypto_wipe(file.data, file.len);
		buf_release(&file);
	}
}

enum err_code seal_check(const char *dir, void (*problem)(void *ctx, const char *text), void *ctx,
                         unsigned *sound, struct err *err)
{
	struct directory d;

	*sound = 0;
	if (directory_read(dir, &d, err) != ERR_NONE)
		return err->code;
	check_names(dir, &d.sealed, problem, ctx, sound);
	check_names(dir, &d.unsealed, problem, ctx, sound);
	return ERR_NONE;
}
