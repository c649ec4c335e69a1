/* Key names: putting them together and taking them apart. */
#include "service/key_names.h"

struct bytes key_name(struct arena *a, struct bytes journey, struct bytes type, struct bytes classifier,
                      struct bytes qualifier)
{
	struct bytes parts[] = {journey, type, classifier, qualifier};
	size_t       count = qualifier.len > 0 ? 4 : 3, len = count - 1;
	char        *key, *at;

	for (size_t i = 0; i < count; i++)
		len += parts[i].len;
	key = at = arena_alloc(a, len);
	for (size_t i = 0; i < count; i++) {
		if (i > 0)
			*at++ = '#';
		memcpy(at, parts[i].data, parts[i].len);
		at += parts[i].len;
	}
	return (struct bytes){key, len};
}

struct bytes key_device(struct arena *a, struct bytes name)
{
	return arena_printf(a, "DEVICE#" KEY_COOKIE "#%.*s", BYTES_ARG(name));
}

struct bytes key_devices_issued(struct arena *a)
{
	return key_name(a, BYTES("DEVICE"), BYTES(KEY_ISSUED), BYTES("COUNT"), (struct bytes){NULL, 0});
}

struct bytes key_reservation(struct arena *a, struct bytes name)
{
	return arena_printf(a, "ATTEMPT#%.*s", BYTES_ARG(name));
}

struct bytes key_state(struct arena *a, const char *family, const char *state)
{
	return key_name(a, bytes_of(family), BYTES(KEY_STATE), bytes_of(state), (struct bytes){NULL, 0});
}

struct bytes key_applied(struct arena *a)
{
	return key_name(a, BYTES(KEY_INTERVENTION), BYTES("APPLIED"), BYTES("LATEST"),
	                (struct bytes){NULL, 0});
}

struct bytes key_demand_met(struct arena *a, const char *what)
{
	return key_name(a, BYTES(KEY_INTERVENTION), BYTES(KEY_RESET), bytes_of(what),
	                (struct bytes){NULL, 0});
}

static struct bytes part_next(struct bytes *rest)
{
	const char  *hash = rest->len == 0 ? NULL : memchr(rest->data, '#', rest->len);
	struct bytes part = {rest->data, hash == NULL ? rest->len : (size_t)(hash - rest->data)};
	size_t       used = hash == NULL ? part.len : part.len + 1;

	if (used > 0) /* of nothing at all there is no address to add to */
		*rest = (struct bytes){rest->data + used, rest->len - used};
	return part;
}

struct key_parts key_split(struct bytes sk)
{
	struct key_parts p;

	p.journey = part_next(&sk);
	p.type = part_next(&sk);
	p.classifier = part_next(&sk);
	p.qualifier = sk;
	return p;
}

bool key_is_under(struct bytes sk, struct bytes name)
{
	return bytes_starts_with(sk, name) && (sk.len == name.len || sk.data[name.len] == '#');
}
