/* See event_schemas.h. */
#include "api/event_schemas.h"

#include "json/write.h"
#include "service/event_policy.h"

#define X(id, type)                                                                                          \
	__asm__(".section .rodata\n"                                                                         \
	        ".global gatehouse_schema_" #id "_begin, gatehouse_schema_" #id "_end\n"                     \
	        "gatehouse_schema_" #id "_begin:\n"                                                          \
	        ".incbin \"docs/events/" type ".json\"\n"                                                    \
	        "gatehouse_schema_" #id "_end:\n"                                                            \
	        ".previous\n");                                                                              \
	extern const char gatehouse_schema_##id##_begin[], gatehouse_schema_##id##_end[];
EVENT_TYPES(X)
#undef X

static const struct {
	const char *begin, *end;
} schemas[EVENT_TYPE_COUNT] = {
#define X(id, type) [id] = {gatehouse_schema_##id##_begin, gatehouse_schema_##id##_end},
        EVENT_TYPES(X)
#undef X
};

bool event_schemas_is(struct bytes path)
{
	return bytes_is(path, EVENT_SCHEMAS_PATH) || bytes_starts_with(path, BYTES(EVENT_SCHEMAS_PATH "/"));
}

/* "lock.set", or "urn:gatehouse:event:lock.set:1". */
static enum event_type type_of(struct bytes name)
{
	struct bytes before = BYTES(EVENT_SCHEMA_BEFORE), after = BYTES(EVENT_SCHEMA_AFTER);

	if (bytes_starts_with(name, before) && name.len > before.len + after.len &&
	    memcmp(name.data + name.len - after.len, after.data, after.len) == 0)
		name = (struct bytes){name.data + before.len, name.len - before.len - after.len};
	return event_type_named(name);
}

static struct bytes list_write(struct arena *a)
{
	struct json_writer w;
	struct buf         out;

	buf_init(&out, a);
	json_writer_init(&w, &out);
	json_begin_object(&w);
	json_key(&w, BYTES("schemas"));
	json_begin_array(&w);
	for (unsigned i = 0; i < EVENT_TYPE_COUNT; i++) {
		const char *type = event_type_name((enum event_type)i);

		json_begin_object(&w);
		json_member_text(&w, BYTES("type"), bytes_of(type));
		json_member_text(&w, BYTES("dataschema"),
		                 arena_printf(a, EVENT_SCHEMA_BEFORE "%s" EVENT_SCHEMA_AFTER, type));
		json_member_text(&w, BYTES("path"), arena_printf(a, EVENT_SCHEMAS_PATH "/%s", type));
		json_end_object(&w);
	}
	json_end_array(&w);
	json_end_object(&w);
	buf_add(&out, "\n", 1);
	return buf_bytes(&out);
}

static void list_answer(struct http_request *r)
{
	struct http_response response = {
	        .status = 200, .content_type = "application/json", .body = list_write(&r->arena)};

	http_respond(r, &response);
}

void event_schemas_handle(struct api_loop *l, struct http_request *r)
{
	size_t               prefix = sizeof(EVENT_SCHEMAS_PATH "/") - 1;
	struct http_response response = {.status = 200, .content_type = "application/schema+json"};
	enum event_type      type = EVENT_TYPE_COUNT;

	if (r->method != HTTP_GET && r->method != HTTP_HEAD) {
		problem_answer_method(l, r, "GET, HEAD");
		return;
	}
	if (r->path.len < prefix) {
		list_answer(r);
		return;
	}
	type = type_of((struct bytes){r->path.data + prefix, r->path.len - prefix});
	if (type == EVENT_TYPE_COUNT) {
		problem_answer(l, r, ERR_NOT_FOUND,
		               "no such type of events; GET " EVENT_SCHEMAS_PATH " lists them");
		return;
	}
	response.body =
	        (struct bytes){schemas[type].begin, (size_t)(schemas[type].end - schemas[type].begin)};
	http_respond(r, &response);
}
