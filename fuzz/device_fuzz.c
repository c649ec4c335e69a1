/* Device fuzz: tokens of known devices, as a caller may send them. The first byte chooses: the rest is a token as it is, or
 * says what to change in a good one: pairs of a place and a character.
 *
 * Nothing may crash, and nothing is accepted but the token that was issued, for the subject it was issued to. */
#include <stdio.h>
#include <stdlib.h>

#include "service/device_token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct device_keys *keys;
	static const uint8_t       id[DEVICE_ID_BYTES] = {1, 2, 3};
	char         good[DEVICE_TOKEN_CHARS], sent[DEVICE_TOKEN_CHARS], name[DEVICE_NAME_CHARS];
	struct bytes text = {sent, sizeof(sent)};
	bool         same;

	if (keys == NULL)
		keys = device_keys_make(&(struct device_key){.id = 7, .secret = {9}}, 1);
	if (size == 0)
		return 0;
	device_token_make(keys, id, BYTES("alice"), 1789000000, good);
	memcpy(sent, good, sizeof(good));
	if (data[0] & 1)
		text = (struct bytes){(const char *)data + 1, size - 1};
	else
		for (size_t i = 1; i + 1 < size; i += 2)
			sent[data[i] % DEVICE_TOKEN_CHARS] = (char)data[i + 1];
	same = text.len == sizeof(good) && memcmp(text.data, good, sizeof(good)) == 0;
	require(device_token_read(keys, text, BYTES("alice"), name) == same, "another token is accepted");
	require(!device_token_read(keys, text, BYTES("bob"), name), "it is accepted for another subject");
	return 0;
}
