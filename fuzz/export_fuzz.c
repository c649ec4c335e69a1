/* Exports: a manifest (first byte even) or a line of rows (odd). Whatever it is, it is read or refused; what was read can be written again. */
#include <stdlib.h>

#include "dynamo/wire.h"
#include "migrate/manifest.h"

static void line(struct arena *a, struct bytes text)
{
	struct json_reader *json = json_reader_open();
	struct json_writer  w;
	struct buf          out;
	struct item         item;
	struct err          err;

	if (rows_line_read(json, a, text, &item, &err) == ERR_NONE) {
		buf_init(&out, a);
		json_writer_init(&w, &out);
		wire_item_write(&w, &item);
	}
	json_reader_close(json);
}

static void manifest(struct arena *a, struct bytes text)
{
	struct manifest *m = arena_zalloc(a, sizeof(*m));
	struct manifest *again = arena_zalloc(a, sizeof(*again));
	struct err       err;

	if (manifest_parse(text, a, m, &err) != ERR_NONE)
		return;
	if (manifest_parse(manifest_print(m, 0, a), a, again, &err) != ERR_NONE || again->count != m->count)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct arena a;

	if (len == 0)
		return 0;
	arena_init(&a);
	(data[0] % 2 == 0 ? manifest : line)(&a, (struct bytes){(const char *)data + 1, len - 1});
	arena_release(&a);
	return 0;
}
