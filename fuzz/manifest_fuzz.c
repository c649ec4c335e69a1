/* Fuzz: any bytes as the store's manifest. What is kept of it ends with a whole edit, reads as whole by itself, and does not
 * depend on what follows. The first byte says how many records to mend, so that checksums do not keep
 * the fuzzer out. */
#include <stdlib.h>

#include "engine/manifest.h"

enum { HEAD_BYTES = 7, TYPE_AT = 6 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
	if (!holds)
		abort();
}

/* Bit by bit, so that it is not what it tests. */
static uint32_t checksum(const char *data, size_t len)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < len * 8; i++) {
		uint32_t bit = (uint32_t)((uint8_t)data[i / 8] >> i % 8) & 1;

		crc = crc >> 1 ^ ((crc ^ bit) & 1 ? UINT32_C(0x82f63b78) : 0);
	}
	crc = ~crc;
	return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

/* The next records get types and checksums, as far as their lengths fit. */
static void mend(char *text, size_t size, unsigned records)
{
	size_t at = 0;

	while (records-- > 0 && size - at >= HEAD_BYTES) {
		size_t   left = MANIFEST_BLOCK_BYTES - at % MANIFEST_BLOCK_BYTES;
		size_t   payload = (uint8_t)text[at + 4] | (size_t)(uint8_t)text[at + 5] << 8;
		uint32_t sum;

		left = left < size - at ? left : size - at;
		if (left < HEAD_BYTES || payload > left - HEAD_BYTES)
			return;
		text[at + TYPE_AT] = (char)(1 + (uint8_t)text[at + TYPE_AT] % 4);
		sum = checksum(text + at + TYPE_AT, 1 + payload);
		memcpy(text + at, &sum, sizeof(sum));
		at += HEAD_BYTES + payload;
	}
}

/* Each block in memory of its very size. */
static struct manifest_scan scan(const char *text, size_t size)
{
	struct manifest_scan s = {0};

	for (size_t at = 0; at < size; at += MANIFEST_BLOCK_BYTES) {
		size_t len = size - at < MANIFEST_BLOCK_BYTES ? size - at : MANIFEST_BLOCK_BYTES;
		char  *block = malloc(len);

		memcpy(block, text + at, len);
		manifest_scan_block(&s, (struct bytes){block, len});
		free(block);
	}
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct manifest_scan all, kept;
	char                *text;

	if (size < 2)
		return 0;
	text = malloc(size - 1);
	memcpy(text, data + 1, size - 1);
	mend(text, size - 1, data[0]);
	all = scan(text, size - 1);
	check(all.at == size - 1 && all.sound <= all.at && (!all.torn || all.bad >= all.sound));
	kept = scan(text, all.sound);
	check(manifest_scan_end(&kept) == MANIFEST_WHOLE && kept.sound == all.sound && !kept.in_edit);
	if (manifest_scan_end(&all) == MANIFEST_TORN)
		check(all.sound > 0 && all.sound < all.at);
	free(text);
	return 0;
}
