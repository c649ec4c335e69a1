/* Device keys: DIR/devices.key, the keys that sign the tokens of known devices (service/device_token.h). The newest
 * signs; the older ones verify what they signed. A token lives as long as its device's row, so an old key is of no use to
 * anyone once the longest `remember` of the policies has passed since it was replaced.
 *
 * A line for each key, the newest first: "ID CREATED SECRET", in hexadecimal, seconds since 1970, hexadecimal. */
#ifndef SERVER_DEVICE_KEY_H
#define SERVER_DEVICE_KEY_H

#include "service/device_token.h"

/* Reads the file, or makes it with a first key if there never was one. */
enum err_code device_keys_open(const char *dir, struct device_keys **out, struct err *err);

/* The same if the file is another one than at the last call; else *out is NULL. `seen` is 0 before the first. */
enum err_code device_keys_refresh(const char *dir, uint64_t *seen, struct device_keys **out, struct err *err);

/* Puts a new key in front. ERR_LIMIT if there are DEVICE_KEYS_MAX, unless the oldest may go: its tokens then open no
 * lane any more. */
enum err_code device_keys_rotate(const char *dir, bool drop_oldest, struct device_key *made, struct err *err);

#endif
