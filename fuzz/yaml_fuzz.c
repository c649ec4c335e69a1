/* YAML fuzz: any bytes, read. What is accepted is written as JSON and read as that: the same tree must come
 * back, so that whatever is in it is UTF-8, finite and within JSON's depth; every node has a line, no name is
 * twice in an object. What is refused must carry an error. The input is copied to the heap at its exact size,
 * so that a read past its end is seen. */
#include <stdio.h>
#include <stdlib.h>

#include "json/write.h"
#include "json/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static void check_node(const struct json *node)
{
	require(node->line >= 1, "a node without a line");
	if (node->type != JSON_OBJECT && node->type != JSON_ARRAY)
		return;
	for (const struct json *child = json_children(node); child != NULL; child = child->next) {
		require(child->line >= node->line, "a child before its parent");
		require(node->type == JSON_ARRAY || json_get(node, child->name) == child, "a name twice");
		check_node(child);
	}
}

static void compare_as_json(struct json_reader *reader, struct arena *a, const struct json *tree)
{
	struct json_writer w;
	struct buf         out;
	struct json       *again;
	struct err         err;

	buf_init(&out, a);
	json_writer_init(&w, &out);
	json_tree(&w, tree);
	require(json_read(reader, a, buf_bytes(&out), &again, &err) == ERR_NONE,
	        "what was written does not read as JSON");
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
	if (yaml_read(&a, (struct bytes){text, size}, &tree, &err) == ERR_NONE) {
		check_node(tree);
		compare_as_json(reader, &a, tree);
	} else {
		require(tree == NULL && err.code == ERR_SERIALIZATION && strncmp(err.text, "line ", 5) == 0,
		        "an error without its place");
	}
	arena_release(&a);
	free(text);
	return 0;
}
