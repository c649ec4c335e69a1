/* Device keys: see device_key.h. */
#include "server/device_key.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/seal.h"

#define DEVICE_KEYS_FILE "devices.key"

enum { KEYS_TEXT_MAX = DEVICE_KEYS_MAX * (8 + 1 + 20 + 1 + 2 * DEVICE_KEY_BYTES + 1) + 1 };

/* ---- the text ---- */

/* In lower case only: each key has one text. */
static int digit_of(char c)
{
	return c >= 'A' && c <= 'F' ? -1 : hex_digit(c);
}

static bool hex_read(struct bytes text, uint8_t *out, size_t len)
{
	for (size_t i = 0; i < len && text.len == 2 * len; i++) {
		int high = digit_of(text.data[2 * i]), low = digit_of(text.data[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return text.len == 2 * len;
}

/* What stands before the next such character, or the rest. */
static struct bytes text_until(struct bytes *rest, char end)
{
	const char  *at = rest->len == 0 ? NULL : memchr(rest->data, end, rest->len);
	struct bytes part = {rest->data, at == NULL ? rest->len : (size_t)(at - rest->data)};
	size_t       used = at == NULL ? part.len : part.len + 1;

	*rest = (struct bytes){rest->data + used, rest->len - used};
	return part;
}

static bool key_parse(struct bytes line, struct device_key *out)
{
	struct bytes id = text_until(&line, ' '), created = text_until(&line, ' ');
	uint64_t     seconds;
	uint8_t      number[4];

	if (!hex_read(id, number, sizeof(number)) || !bytes_to_u64(created, INT64_MAX, &seconds))
		return false;
	out->id =
	        (uint32_t)number[0] << 24 | (uint32_t)number[1] << 16 | (uint32_t)number[2] << 8 | number[3];
	out->created_s = (int64_t)seconds;
	return hex_read(line, out->secret, DEVICE_KEY_BYTES);
}

static enum err_code keys_parse(const char *dir, struct bytes text, struct device_key *list, uint32_t *count,
                                struct err *err)
{
	for (*count = 0; text.len > 0; (*count)++)
		if (*count == DEVICE_KEYS_MAX || !key_parse(text_until(&text, '\n'), &list[*count]))
			return err_set(err, ERR_STORAGE,
			               "%s/" DEVICE_KEYS_FILE
			               ", line %u: not a key; restore the file from a backup",
			               dir, (unsigned)*count + 1);
	if (*count == 0)
		return err_set(err, ERR_STORAGE,
		               "%s/" DEVICE_KEYS_FILE " contains no key; restore it from a backup", dir);
	return ERR_NONE;
}

static enum err_code keys_write(const char *dir, const struct device_key *list, uint32_t count,
                                struct err *err)
{
	char          text[KEYS_TEXT_MAX];
	char          secret[2 * DEVICE_KEY_BYTES];
	size_t        len = 0;
	enum err_code rc;

	for (uint32_t i = 0; i < count; i++) {
		hex_write((struct bytes){(const char *)list[i].secret, DEVICE_KEY_BYTES}, secret);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%08x %lld %.*s\n",
		                        (unsigned)list[i].id, (long long)list[i].created_s,
		                        (int)sizeof(secret), secret);
	}
	rc = seal_write(dir, DEVICE_KEYS_FILE, (struct bytes){text, len}, err);
	crypto_wipe(text, sizeof(text));
	crypto_wipe(secret, sizeof(secret));
	return rc;
}

/* ---- the file ---- */

static enum err_code keys_read(const char *dir, struct device_key *list, uint32_t *count, struct err *err)
{
	struct buf    text;
	bool          found;
	enum err_code rc;

	*count = 0;
	buf_init(&text, NULL);
	rc = seal_read(dir, DEVICE_KEYS_FILE, &text, &found, err);
	if (rc == ERR_NONE && found)
		rc = keys_parse(dir, buf_bytes(&text), list, count, err);
	crypto_wipe(text.data, text.len);
	buf_release(&text);
	return rc;
}

static bool id_taken(const struct device_key *list, uint32_t count, uint32_t id)
{
	for (uint32_t i = 0; i < count; i++)
		if (list[i].id == id)
			return true;
	return false;
}

/* A new one in front of the others. */
static enum err_code key_add(const char *dir, struct device_key *list, uint32_t count, struct err *err)
{
	struct device_key made = {.created_s = (int64_t)time(NULL)};

	do {
		if (getrandom(&made.id, sizeof(made.id), 0) != (ssize_t)sizeof(made.id) ||
		    getrandom(made.secret, DEVICE_KEY_BYTES, 0) != DEVICE_KEY_BYTES)
			return err_set(err, ERR_STORAGE, "cannot get random bytes from the system");
	} while (id_taken(list, count, made.id));
	memmove(list + 1, list, count * sizeof(*list));
	list[0] = made;
	crypto_wipe(&made, sizeof(made));
	return keys_write(dir, list, count + 1, err);
}

enum err_code device_keys_open(const char *dir, struct device_keys **out, struct err *err)
{
	struct device_key list[DEVICE_KEYS_MAX];
	uint32_t          count;
	bool              due = false;
	enum err_code     rc = keys_read(dir, list, &count, err);

	if (rc == ERR_NONE && count == 0)
		rc = key_add(dir, list, count++, err);
	else if (rc == ERR_NONE) /* made before the directory's first start */
		rc = seal_is_due(dir, DEVICE_KEYS_FILE, &due, err);
	if (rc == ERR_NONE && due)
		rc = keys_write(dir, list, count, err);
	if (rc == ERR_NONE)
		*out = device_keys_make(list, count);
	crypto_wipe(list, sizeof(list));
	return rc;
}

/* Every replacement is a file of its own: its number and its time of change tell it from the one before. */
enum err_code device_keys_refresh(const char *dir, uint64_t *seen, struct device_keys **out, struct err *err)
{
	char        path[PATH_MAX];
	struct stat now;
	uint64_t    mark;

	*out = NULL;
	snprintf(path, sizeof(path), "%s/" DEVICE_KEYS_FILE, dir);
	if (stat(path, &now) != 0)
		return ERR_NONE; /* the keys in use stay; a start would say that it is missing */
	mark = (uint64_t)now.st_ino * 1000003 ^ (uint64_t)now.st_mtim.tv_sec << 20 ^
	       (uint64_t)now.st_mtim.tv_nsec;
	if (mark == *seen)
		return ERR_NONE;
	if (*seen == 0) {
		*seen = mark;
		return ERR_NONE;
	}
	*seen = mark;
	return device_keys_open(dir, out, err);
}

/* Two who rotate at once take turns: each reads what the other has written. */
static enum err_code rotation_lock(const char *dir, int *fd, struct err *err)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/devices.lock", dir);
	*fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (*fd >= 0 && flock(*fd, LOCK_EX) == 0)
		return ERR_NONE;
	err_set(err, ERR_STORAGE, "lock %s: %s", path, strerror(errno));
	if (*fd >= 0)
		close(*fd);
	return err->code;
}

static enum err_code rotate(const char *dir, bool drop_oldest, struct device_key *made, struct err *err)
{
	struct device_key list[DEVICE_KEYS_MAX + 1];
	uint32_t          count;
	enum err_code     rc = keys_read(dir, list, &count, err);

	if (rc == ERR_NONE && count == DEVICE_KEYS_MAX && !drop_oldest)
		rc = err_set(err, ERR_LIMIT,
		             "there are already %d keys, which is the maximum; --drop-oldest drops the "
		             "oldest, whose tokens are then unknown",
		             DEVICE_KEYS_MAX);
	if (rc == ERR_NONE)
		rc = key_add(dir, list, count == DEVICE_KEYS_MAX ? count - 1 : count, err);
	if (rc == ERR_NONE)
		*made = (struct device_key){.id = list[0].id, .created_s = list[0].created_s};
	crypto_wipe(list, sizeof(list));
	return rc;
}

enum err_code device_keys_rotate(const char *dir, bool drop_oldest, struct device_key *made, struct err *err)
{
	enum err_code rc;
	int           lock;

	if (rotation_lock(dir, &lock, err) != ERR_NONE)
		return err->code;
	rc = rotate(dir, drop_oldest, made, err);
	close(lock);
	return rc;
}
