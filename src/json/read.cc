// JSON in: the one file that knows simdjson. The library parses into its own tape;
// what it finds is copied into a tree in the caller's arena, so that the reader can take the next document at
// once.
//
// What always holds: no exception leaves this file (nothing here throws; the library is used through error
// codes, and an out-of-memory ends the process as everywhere). The library needs readable bytes after the
// text, so the text is copied into a padded buffer first: for a request of some hundred bytes that is a few
// nanoseconds, and it asks nothing of the caller. Unescaped text is never longer than escaped text, so one
// block of the document's length holds all strings of the tree.
#include <cstdlib>
#include <cstring>
#include <new>

#include <simdjson.h>

#define JSON_INSIDE
extern "C" {
#include "json/json.h"
}

namespace dom = simdjson::dom;

namespace
{

constexpr size_t KEEP_BYTES_START = 16 * 1024;
constexpr size_t KEEP_COPY_BYTES = 32;
static_assert(KEEP_COPY_BYTES <= simdjson::SIMDJSON_PADDING,
              "the library pads its string buffer by that much");

static_assert(sizeof(struct json) <= JSON_VALUE_BYTES, "what callers reckon with");

struct builder {
	struct arena *arena;
	char         *strings; // where the next string goes
};

// Most strings are short: a copy of fixed length costs a few instructions and no call. Both sides have room
// for it: the library pads its string buffer, and json_read ours.
struct bytes keep(builder &b, std::string_view text) noexcept
{
	char *at = b.strings;

	if (text.size() <= KEEP_COPY_BYTES)
		memcpy(at, text.data(), KEEP_COPY_BYTES);
	else
		memcpy(at, text.data(), text.size());
	b.strings += text.size();
	return bytes{at, text.size()};
}

void build(builder &b, dom::element from, struct json *to) noexcept;

struct json *append(builder &b, struct json *parent, struct json **last) noexcept
{
	auto *child = static_cast<struct json *>(arena_alloc(b.arena, sizeof(struct json)));

	child->next = nullptr;
	child->name = bytes{nullptr, 0};
	if (*last == nullptr)
		parent->json_union.children = child;
	else
		(*last)->next = child;
	*last = child;
	parent->count++;
	return child;
}

void build_array(builder &b, dom::array from, struct json *to) noexcept
{
	struct json *last = nullptr;

	to->type = JSON_ARRAY;
	to->json_union.children = nullptr;
	for (dom::element child : from)
		build(b, child, append(b, to, &last));
}

void build_object(builder &b, dom::object from, struct json *to) noexcept
{
	struct json *last = nullptr;

	to->type = JSON_OBJECT;
	to->json_union.children = nullptr;
	for (dom::key_value_pair field : from) {
		struct json *child = append(b, to, &last);

		child->name = keep(b, field.key);
		build(b, field.value, child);
	}
}

void build(builder &b, dom::element from, struct json *to) noexcept
{
	to->count = 0;
	to->line = 0;
	switch (from.type()) {
	case dom::element_type::ARRAY:
		return build_array(b, dom::array(from.get_array().value_unsafe()), to);
	case dom::element_type::OBJECT:
		return build_object(b, dom::object(from.get_object().value_unsafe()), to);
	case dom::element_type::STRING:
		to->type = JSON_STRING;
		to->json_union.text = keep(b, from.get_string().value_unsafe());
		break;
	case dom::element_type::INT64:
		to->type = JSON_INT;
		to->json_union.integer = from.get_int64().value_unsafe();
		break;
	case dom::element_type::UINT64:
		to->type = JSON_DOUBLE;
		to->json_union.real = static_cast<double>(from.get_uint64().value_unsafe());
		break;
	case dom::element_type::DOUBLE:
		to->type = JSON_DOUBLE;
		to->json_union.real = from.get_double().value_unsafe();
		break;
	case dom::element_type::BOOL:
		to->type = JSON_BOOL;
		to->json_union.truth = from.get_bool().value_unsafe();
		break;
	case dom::element_type::NULL_VALUE:
		to->type = JSON_NULL;
		to->json_union.integer = 0;
		break;
	}
}

} // namespace

struct json_reader {
	dom::parser *parser;
	char        *padded;
	size_t       padded_bytes;
};

static void reader_start(struct json_reader *r) noexcept
{
	r->parser = new (std::nothrow) dom::parser();
	if (r->parser == nullptr ||
	    r->parser->allocate(KEEP_BYTES_START, JSON_DEPTH_MAX) != simdjson::SUCCESS)
		abort();
	r->padded_bytes = KEEP_BYTES_START + simdjson::SIMDJSON_PADDING;
	r->padded = static_cast<char *>(mem_alloc(r->padded_bytes));
}

static void reader_stop(struct json_reader *r) noexcept
{
	delete r->parser;
	free(r->padded);
}

struct json_reader *json_reader_open(void)
{
	auto *r = static_cast<struct json_reader *>(mem_zalloc(sizeof(struct json_reader)));

	reader_start(r);
	return r;
}

void json_reader_close(struct json_reader *r)
{
	if (r == nullptr)
		return;
	reader_stop(r);
	free(r);
}

// Grows the buffers to hold a text of that length; by powers of two, so that a slowly growing body does not
// allocate each time.
static void reader_fit(struct json_reader *r, size_t len) noexcept
{
	size_t room = r->padded_bytes - simdjson::SIMDJSON_PADDING;

	if (len <= room)
		return;
	while (room < len)
		room *= 2;
	if (r->parser->allocate(room, JSON_DEPTH_MAX) != simdjson::SUCCESS)
		abort();
	r->padded_bytes = room + simdjson::SIMDJSON_PADDING;
	r->padded = static_cast<char *>(mem_realloc(r->padded, r->padded_bytes));
}

// What is wrong, in words for whoever sent it. The library takes a number that does not fit for one that is misspelt.
static enum err_code refuse(simdjson::error_code failure, struct err *err) noexcept
{
	if (failure == simdjson::MEMALLOC)
		abort(); // as the arena does: nothing is wrong with the text
	if (failure == simdjson::EMPTY)
		return err_set(err, ERR_SERIALIZATION, "not valid JSON: it is empty");
	if (failure == simdjson::NUMBER_ERROR)
		return err_set(err, ERR_SERIALIZATION,
		               "a number is not written as in JSON, or is too large: whole numbers may have "
		               "64 bits, "
		               "others the range of a double");
	return err_set(err, ERR_SERIALIZATION, "not valid JSON: %s", simdjson::error_message(failure));
}

enum err_code json_read(struct json_reader *r, struct arena *a, struct bytes text, struct json **out,
                        struct err *err)
{
	enum err_code        rc = ERR_NONE;
	dom::element         root;
	simdjson::error_code failure;

	*out = nullptr;
	// Each value takes two bytes of the text at least: a short one need not be counted.
	if (text.len / 2 >= JSON_VALUES_MAX && json_count(text) > JSON_VALUES_MAX)
		return err_set(err, ERR_SERIALIZATION, "the document holds more than %d values",
		               static_cast<int>(JSON_VALUES_MAX));
	reader_fit(r, text.len);
	if (text.len > 0)
		memcpy(r->padded, text.data, text.len);
	memset(r->padded + text.len, ' ', simdjson::SIMDJSON_PADDING);
	failure = r->parser->parse(r->padded, text.len, false).get(root);
	if (failure != simdjson::SUCCESS) {
		rc = refuse(failure, err);
	} else {
		builder b{a, static_cast<char *>(arena_alloc(a, text.len + KEEP_COPY_BYTES))};

		*out = static_cast<struct json *>(arena_zalloc(a, sizeof(struct json)));
		build(b, root, *out);
	}
	if (text.len > JSON_KEEP_BYTES_MAX) {
		reader_stop(r);
		reader_start(r);
	}
	return rc;
}
