/* Decode fuzz: documented requests under /v1 with some of their values replaced, decoded for a caller with an access key.
 *
 * The request is decoded as it is documented first, in the memory that the spoiled one gets then: a decoder that reads what it has not checked finds
 * the texts of the first one there. Nothing may crash; a refusal has a text, and blames the caller. */
#include "documented.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(struct world *w, struct arena *memory, const struct documented *one, struct bytes path,
                   struct bytes body)
{
	struct http_request r = {.method = one->method, .target = path, .path = path, .body = body};
	struct v1_match     match;
	struct err          err = {.code = ERR_NONE};

	r.arena = *memory;
	if (v1_match(&r, &match) == V1_MATCHED) {
		struct v1_call c = {.ctx = {.services = &w->services, .arena = &r.arena, .caller = w->key.id},
		                    .route = match.route,
		                    .call = {.http = &r,
		                             .loop = &w->loop,
		                             .who = {.key = &w->key, .region = BYTES("local")}}};
		enum err_code  rc;

		memcpy(c.params, match.params, sizeof(c.params));
		rc = v1_steps(&c.call, w->json, &err);
		require(rc == ERR_NONE || (rc == err.code && err.text[0] != '\0' && err_v1_status(rc) < 500),
		        "a refusal without a text, or one that blames us");
		v1_protocol.release(&c.call);
	}
	*memory = r.arena;
	arena_reset(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world           *w; /* kept, as a loop thread keeps its own */
	static struct documented_list *all;
	struct draws                   d = {data, data + size};
	const struct documented       *one;
	struct arena                   memory, texts;
	struct bytes                   path;

	if (w == NULL) {
		w = world_open();
		all = documented_open(w->json);
	}
	arena_init(&memory);
	arena_init(&texts);
	one = &all->list[draw(&d, all->count)];
	path = documented_path(&texts, one, &d);
	if (one->body == NULL) {
		decode(w, &memory, one, path, (struct bytes){NULL, 0});
	} else {
		decode(w, &memory, one, path, spoiled(&texts, (struct spoiling){.count = 0}, one->body));
		decode(w, &memory, one, path, spoiled(&texts, spoiling_draw(&d, one->body), one->body));
	}
	arena_release(&memory);
	arena_release(&texts);
	return 0;
}
