/* Headers of a target: see target_header.h. */
#include "service/target_header.h"

#define SEALED "header:"

/* ---- which are taken (1) ---- */

static bool is_token(struct bytes name)
{
	return name.len >= 1 && name.len <= TARGET_HEADER_NAME_BYTES_MAX &&
	       bytes_hold_only(name, "!#$%&'*+-.^_`|~");
}

static bool is_value(struct bytes value)
{
	for (size_t i = 0; i < value.len; i++)
		if (value.data[i] < ' ' || value.data[i] > '~')
			return false;
	return value.len <= TARGET_HEADER_BYTES_MAX && bytes_trimmed(value).len == value.len;
}

/* Of the sender, of the connection, and of proxies. One that ends with a hyphen stands for all that begin so. */
static bool is_senders(struct bytes lower)
{
	static const char *const names[] = {"host",
	                                    "content-",
	                                    "webhook-",
	                                    "user-agent",
	                                    "traceparent",
	                                    "tracestate",
	                                    "connection",
	                                    "expect",
	                                    "keep-alive",
	                                    "te",
	                                    "trailer",
	                                    "upgrade",
	                                    "proxy-",
	                                    "date",
	                                    "via",
	                                    "accept-encoding",
	                                    "transfer-encoding",
	                                    "x-forwarded-",
	                                    "forwarded",
	                                    "http2-settings"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct bytes name = bytes_of(names[i]);

		if (name.data[name.len - 1] == '-' ? bytes_starts_with(lower, name)
		                                   : bytes_equal(lower, name))
			return true;
	}
	return false;
}

const char *target_header_wrong(const struct target_header *h)
{
	char         text[TARGET_HEADER_NAME_BYTES_MAX];
	struct bytes lower = {text, h->name.len};

	if (!is_token(h->name))
		return "must have names of 1 to 64 letters, digits and hyphens, as HTTP has them";
	bytes_lower(h->name, text);
	if (is_senders(lower))
		return "must not have a header that Gatehouse, the connection or a proxy sets: Host, "
		       "Content-…, "
		       "webhook-…, User-Agent and the like";
	if (!is_value(h->value))
		return "must have values of up to 2048 visible ASCII characters and spaces, without a space "
		       "at "
		       "either end";
	if (!h->secret && (bytes_is(lower, "authorization") || bytes_is(lower, "cookie"))) /* (2) */
		return "must have Authorization and Cookie marked \"secret\": true";
	if (!h->secret && h->value.len == 0)
		return "must have a value for each header; only a secret one may go without, to keep the one "
		       "that is "
		       "stored";
	return NULL;
}

static struct bytes lower_of(struct arena *a, struct bytes name)
{
	char *lower = arena_alloc(a, name.len);

	bytes_lower(name, lower);
	return (struct bytes){lower, name.len};
}

bool target_header_is_again(const struct target_header *list, uint32_t at)
{
	char         text[TARGET_HEADER_NAME_BYTES_MAX];
	struct bytes lower = {text, list[at].name.len};

	bytes_lower(list[at].name, text);
	for (uint32_t i = 0; i < at; i++)
		if (bytes_equal_lower(lower, list[i].name))
			return true;
	return false;
}

/* ---- rows ---- */

struct bytes target_header_sealed(struct arena *a, struct bytes name)
{
	return arena_printf(a, SEALED "%.*s", BYTES_ARG(lower_of(a, name)));
}

bool target_header_is_sealed(struct bytes sealed)
{
	return bytes_starts_with(sealed, BYTES(SEALED));
}

bool target_header_seals(struct bytes sealed, struct bytes name)
{
	size_t prefix = sizeof(SEALED) - 1;

	return target_header_is_sealed(sealed) &&
	       bytes_equal_lower((struct bytes){sealed.data + prefix, sealed.len - prefix}, name);
}

struct value target_headers_value(struct arena *a, const struct target_header *list, uint32_t count)
{
	struct value v = {.type = VALUE_L, .list = {arena_array(a, count, sizeof(struct value)), count}};
	struct row   row;

	for (uint32_t i = 0; i < count; i++) {
		row_init(&row, a);
		row_set_text(&row, "name", list[i].name);
		if (list[i].secret)
			row_set(&row, "secret", value_bool(true));
		else
			row_set_text(&row, "value", list[i].value);
		v.list.items[i] = (struct value){.type = VALUE_M, .map = row_item(&row)};
	}
	return v;
}

static struct target_header header_of(const struct item *map)
{
	const struct value *secret = item_get(map, BYTES("secret"));

	return (struct target_header){.name = row_text(map, "name"),
	                              .value = row_text(map, "value"),
	                              .secret =
	                                      secret != NULL && secret->type == VALUE_BOOL && secret->truth};
}

/* Others may have written the row: what must not be sent is not. */
struct target_header *target_headers_of(struct arena *a, const struct item *row, uint32_t *count)
{
	const struct value   *v = item_get(row, BYTES("headers"));
	struct target_header *list = arena_array(a, TARGET_HEADERS_MAX, sizeof(*list));

	*count = 0;
	for (uint32_t i = 0;
	     v != NULL && v->type == VALUE_L && i < v->list.count && *count < TARGET_HEADERS_MAX; i++) {
		if (v->list.items[i].type != VALUE_M)
			continue;
		list[*count] = header_of(&v->list.items[i].map);
		*count += target_header_wrong(&list[*count]) == NULL;
	}
	return list;
}
