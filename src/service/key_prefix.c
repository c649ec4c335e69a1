/* Key prefix: see key_prefix.h. */
#include "service/key_prefix.h"

#include "service/row.h"

/* Journeys and classifier types that are ours, not the policies'. */
static const char *const families[] = {"DEVICE", "ACCOUNT_INTERVENTION", "EMAIL_FRAUD", "SOURCE", NULL};
static const char *const types[] = {KEY_LOCK,         KEY_SHADOW_LOCK,
                                    KEY_LOCK_LEVEL,   KEY_SOURCE_COUNT,
                                    KEY_SOURCE_LOCK,  KEY_DEVICE_LOCK,
                                    KEY_DEVICE_COUNT, KEY_STATE,
                                    KEY_COOKIE,       KEY_ISSUED,
                                    "APPLIED",        "RESET",
                                    "SEEN",           NULL};

/* What a part is compared with, name by name. */
struct comparing {
	struct bytes part;
	struct bytes longer; /* a name that begins with it; empty: none does */
	bool         found;  /* it is a name itself */
};

static void compare(struct comparing *c, struct bytes name)
{
	if (bytes_equal(name, c->part))
		c->found = true;
	else if (bytes_starts_with(name, c->part))
		c->longer = name;
}

static void compare_all(struct comparing *c, const char *const *names)
{
	for (size_t i = 0; names[i] != NULL; i++)
		compare(c, bytes_of(names[i]));
}

/* All names that may stand at that place. */
static void compare_at(struct comparing *c, const struct rules *rules, unsigned place)
{
	for (uint32_t i = 0; place == 0 && i < rules->journey_count; i++)
		compare(c, rules->journeys[i].name);
	for (uint32_t i = 0; place > 0 && i < rules->count; i++)
		compare(c, place == 1 ? rules->list[i].classifier_type : rules->list[i].type);
	for (uint32_t i = 0; place == 2 && i < rules->lock_count; i++)
		compare(c, key_split(rules->locks[i].sk).classifier);
	if (place == 2)
		compare(c, BYTES(LOCK_OF_SOURCE));
	if (place < 2)
		compare_all(c, place == 0 ? families : types);
}

static bool is_family(struct bytes journey)
{
	struct comparing c = {.part = journey};

	compare_all(&c, families);
	return c.found;
}

bool key_prefix_is_whole(const struct rules *rules, struct bytes prefix, struct key_half *out)
{
	struct key_parts   p = key_split(prefix);
	const struct bytes parts[] = {p.journey, p.type, p.classifier};
	unsigned           places = is_family(p.journey) ? 2 : 3;

	for (unsigned i = 0; i < places && parts[i].len > 0; i++) {
		struct comparing c = {.part = parts[i]};

		compare_at(&c, rules, i);
		if (c.found || c.longer.len == 0)
			continue;
		*out = (struct key_half){parts[i], c.longer};
		return false;
	}
	return true;
}
