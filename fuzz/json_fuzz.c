/* JSON fuzz: any bytes, read. What is accepted is written back and read again: the same tree must come back,
 * and what is refused must carry an error. The input is copied to the heap at its exact size, so that a read
 * past its end is seen. */
#include <stdio.h>
#include <stdlib.h>

#include "json/json.h"
#include "json/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static void round_trip(struct json_reader *reader, struct arena *a, const struct json *tree)
{
	struct json_writer w;
	struct buf         out;
	struct json       *again;
	struct err         err;

	buf_init(&out, a);
	json_writer_init(&w, &out);
	json_tree(&w, tree);
	require(w.depth == 0, "unbalanced");
	require(json_read(reader, a, buf_bytes(&out), &again, &err) == ERR_NONE,
	        "what was written does not read");
	require(json_equal(tree, again), "another tree came back");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct json_reader *reader; /* reused, as a loop thread reuses its own */
	char                      *text = malloc(size == 0 ? 1 : size);
	struct arena               a;
	struct json               *tree;
	struct err                 err = {0};

	if (reader == NULL)
		reader = json_reader_open();
	if (size > 0)
		memcpy(text, data, size);
	arena_init(&a);
	if (json_read(reader, &a, (struct bytes){text, size}, &tree, &err) == ERR_NONE)
		round_trip(reader, &a, tree);
	else
		require(err.code == ERR_SERIALIZATION && err.text[0] != '\0', "error without text");
	arena_release(&a);
	free(text);
	return 0;
}
