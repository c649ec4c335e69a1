/* Secret: see secret.h. A file that is there but not as it should be is an error, never replaced: what was hashed with it
 * could not be found again. */
#include "server/secret.h"

#include <sys/random.h>

#include "base/crypto.h"
#include "base/seal.h"

static enum err_code make(const char *dir, const char *name, uint8_t *out, size_t len, struct err *err)
{
	if (getrandom(out, len, 0) != (ssize_t)len)
		return err_set(err, ERR_STORAGE, "cannot get random bytes from the system");
	return seal_write(dir, name, (struct bytes){(const char *)out, len}, err);
}

enum err_code secret_file_read(const char *dir, const char *name, uint8_t *out, size_t len, struct err *err)
{
	struct buf    text;
	bool          found, due;
	enum err_code rc;

	buf_init(&text, NULL);
	if (seal_read(dir, name, &text, &found, err) != ERR_NONE ||
	    seal_is_due(dir, name, &due, err) != ERR_NONE)
		rc = err->code;
	else if (!found)
		rc = make(dir, name, out, len, err);
	else if (text.len != len)
		rc = err_set(err, ERR_STORAGE, "%s/%s must have %zu bytes, not %zu", dir, name, len,
		             text.len);
	else /* an older program wrote it without a seal */
		rc = due ? seal_write(dir, name, buf_bytes(&text), err) : ERR_NONE;
	if (rc == ERR_NONE && found)
		memcpy(out, text.data, len);
	crypto_wipe(text.data, text.len);
	buf_release(&text);
	return rc;
}
