/* Policy match: texts against patterns, ARNs against resources, addresses against ranges.
 *
 * A pattern is a row of runs with stars between them. The first run must stand at the start of the text, the
 * last at its end, and each of the others is looked for from left to right: taking the earliest place for a
 * run never loses a match, so nothing is ever tried twice. Looking for a run is linear where it has no `?`
 * (memmem); the others have at most POLICY_SEARCH_BYTES_MAX bytes in a policy, which the parser sees to. */
#define _GNU_SOURCE /* memmem */
#include <string.h>

#include "access/policy_model.h"

/* ---- patterns ---- */

static struct bytes rest_of(struct bytes text, size_t from)
{
	return (struct bytes){text.data + from, text.len - from};
}

static size_t leading_stars(struct bytes text)
{
	size_t n = 0;

	while (n < text.len && text.data[n] == '*')
		n++;
	return n;
}

struct pattern pattern_of(struct bytes text)
{
	size_t plain = 0;

	while (plain < text.len && text.data[plain] != '*' && text.data[plain] != '?')
		plain++;
	if (plain == text.len)
		return (struct pattern){PATTERN_LITERAL, text, plain};
	if (plain + leading_stars(rest_of(text, plain)) < text.len)
		return (struct pattern){PATTERN_GLOB, text, plain};
	if (plain == 0)
		return (struct pattern){PATTERN_ANY, text, plain};
	return (struct pattern){PATTERN_PREFIX, text, plain};
}

static bool is_continuation(char c)
{
	return ((uint8_t)c & 0xC0) == 0x80;
}

/* Does the text start with the run? *taken is how many bytes of it. A `?` takes a character, however many
 * bytes UTF-8 gives it. */
static bool run_starts(struct bytes run, struct bytes text, size_t *taken)
{
	size_t at = 0;

	for (size_t i = 0; i < run.len; i++) {
		if (at == text.len || (run.data[i] != '?' && run.data[i] != text.data[at]))
			return false;
		at++;
		while (run.data[i] == '?' && at < text.len && is_continuation(text.data[at]))
			at++;
	}
	*taken = at;
	return true;
}

/* Does the text end with the run? */
static bool run_ends(struct bytes run, struct bytes text)
{
	size_t at = text.len;

	for (size_t i = run.len; i-- > 0;) {
		if (at == 0)
			return false;
		at--;
		while (run.data[i] == '?' && at > 0 && is_continuation(text.data[at]))
			at--;
		if (run.data[i] != '?' && run.data[i] != text.data[at])
			return false;
	}
	return true;
}

/* The text after the earliest place where the run stands. */
static bool run_skip(struct bytes run, struct bytes *text)
{
	size_t taken;

	if (memchr(run.data, '?', run.len) == NULL) {
		const char *found = memmem(text->data, text->len, run.data, run.len);

		if (found != NULL)
			*text = rest_of(*text, (size_t)(found - text->data) + run.len);
		return found != NULL;
	}
	for (size_t from = 0; from < text->len; from++) {
		if (!run_starts(run, rest_of(*text, from), &taken))
			continue;
		*text = rest_of(*text, from + taken);
		return true;
	}
	return false;
}

static bool glob_matches(struct bytes glob, struct bytes text)
{
	const char  *star = memchr(glob.data, '*', glob.len);
	struct bytes run = {glob.data, star == NULL ? glob.len : (size_t)(star - glob.data)};
	size_t       taken;

	if (!run_starts(run, text, &taken))
		return false;
	if (star == NULL)
		return taken == text.len;
	text = rest_of(text, taken);
	for (;;) {
		glob = rest_of(glob, (size_t)(star - glob.data) + 1);
		star = memchr(glob.data, '*', glob.len);
		if (star == NULL)
			return run_ends(glob, text);
		if (star > glob.data &&
		    !run_skip((struct bytes){glob.data, (size_t)(star - glob.data)}, &text))
			return false;
	}
}

/* What comes before the first wildcard tells most texts apart. */
static bool starts_plainly(const struct pattern *p, struct bytes text)
{
	return bytes_starts_with(text, (struct bytes){p->text.data, p->plain});
}

bool pattern_matches(const struct pattern *p, struct bytes text)
{
	if (text.len == 0)
		text = BYTES(""); /* there may be no pointer to add to */
	switch (p->kind) {
	case PATTERN_LITERAL:
		return bytes_equal(p->text, text);
	case PATTERN_ANY:
		return true;
	case PATTERN_PREFIX:
		return starts_plainly(p, text);
	case PATTERN_GLOB:
		return starts_plainly(p, text) &&
		       glob_matches(rest_of(p->text, p->plain), rest_of(text, p->plain));
	}
	return false;
}

/* ---- resources ---- */

struct arn arn_split(struct bytes text)
{
	struct arn   arn = {.text = text};
	struct bytes rest = text;

	while (arn.count < ARN_TAIL) {
		const char *colon = rest.len == 0 ? NULL : memchr(rest.data, ':', rest.len);

		if (colon == NULL)
			break;
		arn.parts[arn.count++] = (struct bytes){rest.data, (size_t)(colon - rest.data)};
		rest = rest_of(rest, (size_t)(colon - rest.data) + 1);
	}
	arn.parts[arn.count++] = rest;
	return arn;
}

/* From a part on, all that is left. */
static struct bytes arn_from(const struct arn *arn, unsigned part)
{
	return rest_of(arn->text, (size_t)(arn->parts[part].data - arn->text.data));
}

/* The last part first: it is the one that tells resources apart. */
bool resource_matches(const struct resource *r, const struct arn *arn)
{
	unsigned last;

	if (r->count == 0)
		return true;
	if (r->literal)
		return bytes_equal(r->text, arn->text);
	last = r->count - 1;
	if (arn->count < ARN_PARTS || !pattern_matches(&r->parts[last], arn_from(arn, last)))
		return false;
	for (unsigned i = 0; i < last; i++)
		if (!pattern_matches(&r->parts[i], arn->parts[i]))
			return false;
	return true;
}

/* ---- addresses ---- */

static bool is_v4(const struct access_address *address)
{
	static const uint8_t prefix[CIDR_BITS_V4 / 8] = {[10] = 0xFF, [11] = 0xFF};

	return memcmp(address->bytes, prefix, sizeof(prefix)) == 0;
}

bool cidr_holds(const struct cidr *range, const struct access_address *address)
{
	unsigned whole = range->bits / 8, odd = range->bits % 8;

	if (is_v4(address) && range->bits < CIDR_BITS_V4)
		return false;
	if (memcmp(range->address.bytes, address->bytes, whole) != 0)
		return false;
	return odd == 0 || (address->bytes[whole] & (0xFF00u >> odd & 0xFFu)) == range->address.bytes[whole];
}
