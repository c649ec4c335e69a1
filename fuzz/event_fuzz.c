/* Event fuzz: any id, type and data as the text of a Server-Sent Event, read back as a browser would (the HTML standard,
 * "Interpreting an event stream"). Exactly one event comes out, with what went in; nothing in it can be taken for a
 * second event or another field. */
#include <stdio.h>
#include <stdlib.h>

#include "http/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a browser makes of a stream. */
struct browser {
	struct buf data, id, type;
	unsigned   events, ids, types, others;
	bool       id_set;
};

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static void field_take(struct browser *b, struct bytes name, struct bytes value)
{
	if (bytes_is(name, "data")) {
		buf_add_bytes(&b->data, value);
		buf_add_byte(&b->data, '\n');
	} else if (bytes_is(name, "id")) {
		buf_reset(&b->id);
		buf_add_bytes(&b->id, value);
		b->ids++;
	} else if (bytes_is(name, "event")) {
		buf_reset(&b->type);
		buf_add_bytes(&b->type, value);
		b->types++;
	} else {
		b->others++;
	}
}

static void line_take(struct browser *b, struct bytes line)
{
	const char  *colon = memchr(line.data, ':', line.len);
	struct bytes name = line, value = {line.data + line.len, 0};

	if (line.len == 0) {
		b->events += b->data.len > 0;
		return;
	}
	if (colon != NULL) {
		name.len = (size_t)(colon - line.data);
		value = (struct bytes){colon + 1, line.len - name.len - 1};
		if (value.len > 0 && value.data[0] == ' ')
			value = (struct bytes){value.data + 1, value.len - 1};
	}
	field_take(b, name, value);
}

/* Lines end with CR, LF or CRLF. */
static void browse(struct browser *b, struct bytes text)
{
	size_t at = 0;

	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] != '\n' && text.data[i] != '\r')
			continue;
		line_take(b, (struct bytes){text.data + at, i - at});
		if (text.data[i] == '\r' && i + 1 < text.len && text.data[i + 1] == '\n')
			i++;
		at = i + 1;
	}
	require(at == text.len, "the text does not end with a line");
}

/* Each line of it, then LF, as `data` must come out. */
static void expected_data(struct buf *out, struct bytes data)
{
	for (size_t i = 0; i < data.len; i++) {
		bool crlf = data.data[i] == '\r' && i + 1 < data.len && data.data[i + 1] == '\n';

		buf_add_byte(out, data.data[i] == '\r' ? '\n' : (uint8_t)data.data[i]);
		i += crlf;
	}
	buf_add_byte(out, '\n');
}

static bool same(struct bytes a, struct bytes b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static bool is_line(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] == '\r' || text.data[i] == '\n' || text.data[i] == '\0')
			return false;
	return true;
}

static void event_check(const struct http_event *e)
{
	struct arena   arena;
	struct buf     text, data;
	struct browser b = {0};

	arena_init(&arena);
	buf_init(&text, &arena);
	buf_init(&data, &arena);
	buf_init(&b.data, &arena);
	buf_init(&b.id, &arena);
	buf_init(&b.type, &arena);
	if (http_event_add(&text, e)) {
		require(is_line(e->id) && is_line(e->type), "an id or type with a line in it was taken");
		browse(&b, buf_bytes(&text));
		expected_data(&data, e->data);
		require(b.events == 1 && b.ids == 1 && b.types == 1 && b.others == 0,
		        "not exactly one event");
		require(same(buf_bytes(&b.data), buf_bytes(&data)), "other data");
		require(same(buf_bytes(&b.id), e->id) && same(buf_bytes(&b.type), e->type), "other fields");
	} else {
		require(!is_line(e->id) || !is_line(e->type), "a good id and type were refused");
		require(text.len == 0, "a refused event left text");
	}
	arena_release(&arena);
}

/* The first two bytes say how long id and type are. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char       *at = (const char *)bytes + 2;
	struct http_event e;

	if (size < 2)
		return 0;
	size -= 2;
	e = (struct http_event){.id = {at, bytes[0] % 16u < size ? bytes[0] % 16u : size}};
	size -= e.id.len;
	e.type = (struct bytes){at + e.id.len, bytes[1] % 16u < size ? bytes[1] % 16u : size};
	e.data = (struct bytes){e.type.data + e.type.len, size - e.type.len};
	event_check(&e);
	return 0;
}
