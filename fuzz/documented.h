/* Documented: the requests that openapi.yaml shows (tools/documented), and ways to spoil a JSON document, by what an input draws.
 *
 * Mutation of bytes seldom makes a request that gets past the first member. These begin with one that is right, and have a few values of it
 * replaced by others of any type. */
#ifndef FUZZ_DOCUMENTED_H
#define FUZZ_DOCUMENTED_H

#include "http/http.h"
#include "json/write.h"
#include "v1_steps.h"
#include "v1_world.h"

__asm__(".section .rodata\n"
        ".global documented_begin, documented_end\n"
        "documented_begin:\n"
        ".incbin \"build/fuzz/documented.json\"\n"
        "documented_end:\n"
        ".previous\n");

extern const char documented_begin[], documented_end[];

/* ---- what an input draws ---- */

struct draws {
	const uint8_t *at, *end;
};

/* One of `count`; the first once there is nothing left to draw. */
static inline unsigned draw(struct draws *d, unsigned count)
{
	unsigned drawn = d->at < d->end ? *d->at++ : 0;

	if (count > 256 && d->at < d->end)
		drawn = drawn << 8 | *d->at++;
	return drawn % count;
}

/* ---- the requests ---- */

enum { DOCUMENTED_MAX = 256 };

struct documented {
	enum http_method   method;
	struct bytes       path; /* with {id} in it */
	const struct json *body; /* NULL: it has none */
};

struct documented_list {
	struct arena      arena;
	struct documented list[DOCUMENTED_MAX];
	unsigned          count;
};

static inline struct documented_list *documented_open(struct json_reader *reader)
{
	static const struct {
		const char      *name;
		enum http_method method;
	} methods[] = {{"get", HTTP_GET},
	               {"put", HTTP_PUT},
	               {"post", HTTP_POST},
	               {"delete", HTTP_DELETE},
	               {"patch", HTTP_PATCH}};
	struct documented_list *l = mem_zalloc(sizeof(*l));
	struct bytes            text = {documented_begin, (size_t)(documented_end - documented_begin)};
	struct json            *tree;
	struct err              err;

	arena_init(&l->arena);
	require(json_read(reader, &l->arena, text, &tree, &err) == ERR_NONE, err.text);
	for (const struct json *r = json_children(tree); r != NULL && l->count < DOCUMENTED_MAX;
	     r = r->next) {
		struct documented one = {.path = json_text(json_get(r, BYTES("path"))),
		                         .body = json_get(r, BYTES("body"))};

		for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
			if (bytes_is(json_text(json_get(r, BYTES("method"))), methods[i].name))
				one.method = methods[i].method;
		l->list[l->count++] = one;
	}
	require(l->count > 50, "there are documented requests");
	return l;
}

/* The path with a word in the place of each parameter. */
static inline struct bytes documented_path(struct arena *a, const struct documented *one, struct draws *d)
{
	static const char *const words[] = {"alice",        "SIGN_IN",     "PASSWORD_ENTRY",
	                                    "intervention", "email_fraud", "attempts",
	                                    "limits",       "a-b",         "0"};
	const char              *end = one->path.data + one->path.len;
	struct buf               out;

	buf_init(&out, a);
	for (const char *at = one->path.data; at < end; at++) {
		const char *close = *at == '{' ? memchr(at, '}', (size_t)(end - at)) : NULL;
		const char *word = words[close == NULL ? 0 : draw(d, sizeof(words) / sizeof(words[0]))];

		buf_add(&out, close == NULL ? at : word, close == NULL ? 1 : strlen(word));
		at = close == NULL ? at : close;
	}
	return buf_bytes(&out);
}

/* ---- spoiling ---- */

enum { SPOILS_MAX = 3 };

/* Which values of a document, in its order, are replaced by which. */
struct spoiling {
	unsigned at[SPOILS_MAX], stray[SPOILS_MAX], count;
	bool     front[SPOILS_MAX];
	unsigned next; /* the number of the value that comes next */
};

static const char *const strays[] = {"null",
                                     "true",
                                     "false",
                                     "0",
                                     "-1",
                                     "1",
                                     "9223372036854775807",
                                     "4294967296",
                                     "1.5",
                                     "-1e300",
                                     "\"\"",
                                     "\"x\"",
                                     "\"\\u0000\"",
                                     "\"a#b\"",
                                     "\"1\"",
                                     "\"ERROR\"",
                                     "[]",
                                     "[null]",
                                     "[7,8]",
                                     "[\"x\",\"x\"]",
                                     "[[]]",
                                     "{}",
                                     "{\"a\":7}",
                                     "{\"S\":\"x\"}",
                                     "{\"N\":\"7\"}",
                                     "{\"S\":7}",
                                     "{\"M\":{}}",
                                     "{\"L\":[{\"NULL\":true}]}",
                                     "{\"N\":\"1E125\"}",
                                     "{\"N\":\"-1\"}",
                                     "{\"S\":\"\"}"};

static inline unsigned values_count(const struct json *tree)
{
	unsigned count = 1;

	for (const struct json *m = json_children(tree); m != NULL; m = m->next)
		count += values_count(m);
	return count;
}

static inline struct spoiling spoiling_draw(struct draws *d, const struct json *tree)
{
	unsigned        values = values_count(tree);
	struct spoiling s = {.count = draw(d, SPOILS_MAX + 1)};

	for (unsigned i = 0; i < s.count; i++) {
		s.at[i] = draw(d, values);
		s.stray[i] = draw(d, sizeof(strays) / sizeof(strays[0]));
		s.front[i] = draw(d, 2) == 1;
	}
	return s;
}

/* The value itself, unless the stray is in its place. In a list it may stand in front instead: lists grow, too. */
static inline bool stray_write(struct json_writer *w, const struct spoiling *s, bool in_list)
{
	unsigned number = s->next - 1;

	for (unsigned i = 0; i < s->count; i++) {
		if (s->at[i] != number)
			continue;
		json_raw(w, bytes_of(strays[s->stray[i]]));
		if (!in_list || !s->front[i])
			return true;
	}
	return false;
}

static inline void spoiled_write(struct json_writer *w, struct spoiling *s, const struct json *tree,
                                 bool in_list)
{
	bool list = tree->type == JSON_ARRAY;

	s->next++;
	if (stray_write(w, s, in_list))
		return;
	if (tree->type != JSON_OBJECT && !list) {
		json_tree(w, tree);
		return;
	}
	list ? json_begin_array(w) : json_begin_object(w);
	for (const struct json *m = json_children(tree); m != NULL; m = m->next) {
		if (!list)
			json_name(w, m->name);
		spoiled_write(w, s, m, list);
	}
	list ? json_end_array(w) : json_end_object(w);
}

static inline struct bytes spoiled(struct arena *a, struct spoiling s, const struct json *tree)
{
	struct json_writer w;
	struct buf         out;

	buf_init(&out, a);
	json_writer_init(&w, &out);
	spoiled_write(&w, &s, tree, false);
	return buf_bytes(&out);
}

#endif
