/* Secrets: see secrets.h. */
#include "migrate/secrets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crypto.h"
#include "base/file.h"
#include "base/seal.h"

enum { SECRET_BYTES_MAX = 64 * 1024, SECRET_PATH_MAX = 4096 };

static const char *const names[] = {"identifiers.key", "devices.key"};

enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void wipe(struct buf *text)
{
	crypto_wipe(text->data, text->len);
	buf_release(text);
}

enum err_code secrets_export(const char *data, const char *dir, struct err *err)
{
	enum err_code rc = ERR_NONE;

	for (int i = 0; i < NAMES && rc == ERR_NONE; i++) {
		struct buf text;
		bool       found;

		buf_init(&text, NULL);
		rc = seal_read(data, names[i], &text, &found, err);
		if (rc == ERR_NONE && !found)
			rc = err_set(err, ERR_INVALID,
			             "%s/%s: there is none; --data must be the server's data directory", data,
			             names[i]);
		if (rc == ERR_NONE)
			rc = file_replace(dir, names[i], buf_bytes(&text), err);
		wipe(&text);
	}
	return rc;
}

/* *there: DATA has the same one. */
static enum err_code compare(const char *data, const char *name, struct bytes text, bool *there,
                             struct err *err)
{
	struct buf    now;
	enum err_code rc;

	buf_init(&now, NULL);
	rc = seal_read(data, name, &now, there, err);
	if (rc == ERR_NONE && *there && !crypto_equal(buf_bytes(&now), text))
		rc = err_set(
		        err, ERR_INVALID,
		        "%s/%s is another key than the one in the export: name an empty directory, or leave "
		        "--data out if you know that it is right",
		        data, name);
	wipe(&now);
	return rc;
}

static enum err_code secret_import(const char *dir, const char *data, const char *name, bool writes,
                                   struct err *err)
{
	char          path[SECRET_PATH_MAX];
	struct buf    text;
	bool          found, there;
	enum err_code rc;

	buf_init(&text, NULL);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	rc = file_read(path, SECRET_BYTES_MAX, &text, &found, err);
	if (rc == ERR_NONE && !found)
		rc = err_set(err, ERR_INVALID, "%s: there is none; export with --data to have it", path);
	if (rc == ERR_NONE)
		rc = compare(data, name, buf_bytes(&text), &there, err);
	if (rc == ERR_NONE && writes && !there)
		rc = seal_write(data, name, buf_bytes(&text), err);
	wipe(&text);
	return rc;
}

enum err_code secrets_import(const char *dir, const char *data, struct err *err)
{
	if (mkdir(data, 0700) != 0 && errno != EEXIST)
		return err_set(err, ERR_STORAGE, "cannot make %s: %s", data, strerror(errno));
	for (int writes = 0; writes < 2; writes++)
		for (int i = 0; i < NAMES; i++)
			if (secret_import(dir, data, names[i], writes != 0, err) != ERR_NONE)
				return err->code;
	return ERR_NONE;
}
