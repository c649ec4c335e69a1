/* Policy patterns: texts, ARNs and address ranges: matched, and read from a document.
 *
 * A pattern is a row of runs with stars between them. The first run must stand at the start of the text, the
 * last at its end, and each of the others is looked for from left to right: taking the earliest place for a
 * run never loses a match, so nothing is ever tried twice. Looking for a run is linear where it has no `?`
 * (memmem); the others have at most POLICY_SEARCH_BYTES_MAX bytes in a policy, which the parser sees to.
 *
 * What could never be meant is refused rather than never matched: a Deny with a typing error in it would otherwise be
 * silently without effect. */
#define _GNU_SOURCE /* memmem */
#include <assert.h>
#include <stdio.h>
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

/* Could it match a text that starts like this? It could if a beginning of it matches all of the start. */
static bool pattern_could_match(const struct pattern *p, struct bytes start)
{
	for (size_t len = 0; len <= p->text.len; len++) {
		struct pattern beginning = pattern_of((struct bytes){p->text.data, len});

		if (pattern_matches(&beginning, start))
			return true;
	}
	return pattern_matches(p, start);
}

/* The parts before the last are whole. */
bool resource_could_match(const struct resource *r, const struct arn *start)
{
	if (r->count == 0)
		return true;
	for (unsigned i = 0; i < r->count; i++) {
		bool last = i + 1 == r->count || i + 1 == start->count;

		if (!last && !pattern_matches(&r->parts[i], start->parts[i]))
			return false;
		if (last)
			return pattern_could_match(&r->parts[i], arn_from(start, i));
	}
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

/* ---- actions and resources as a document has them ---- */

static bool has_wildcard(struct bytes text)
{
	return memchr(text.data, '*', text.len) != NULL || memchr(text.data, '?', text.len) != NULL;
}

/* service:Name; only the name may have wildcards. */
static bool is_action(struct bytes text)
{
	const char  *colon = memchr(text.data, ':', text.len);
	struct bytes service, name;

	if (bytes_is(text, "*"))
		return true;
	if (colon == NULL)
		return false;
	service = (struct bytes){text.data, (size_t)(colon - text.data)};
	name = (struct bytes){colon + 1, text.len - service.len - 1};
	return service.len > 0 && name.len > 0 && bytes_hold_only(service, "-") &&
	       bytes_hold_only(name, "-_*?");
}

enum err_code parse_action(struct parser *p, const struct json *json, struct pattern *out)
{
	struct bytes text;
	char        *lower;

	if (parser_text(p, json, POLICY_PATTERN_BYTES_MAX, &text) != ERR_NONE)
		return p->err->code;
	if (!is_action(text))
		return parser_refuse(
		        p, "%s is not an action: write * or service:Name, with * and ? only in the name",
		        quote(text).text);
	lower = arena_alloc(p->arena, text.len);
	bytes_lower(text, lower);
	*out = pattern_of((struct bytes){lower, text.len});
	return parser_count_runs(p, out->text);
}

static bool is_printable(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((uint8_t)text.data[i] < ' ' || text.data[i] == 0x7F)
			return false;
	return text.data[0] != ' ' && text.data[text.len - 1] != ' ';
}

/* Unlike an action's, an ARN's service is compared as it is spelled. */
static bool is_service(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (ascii_lower(text.data[i]) != text.data[i])
			return false;
	return text.len > 0 && bytes_hold_only(text, "-");
}

/* An ARN cut short must say that it is, and where: arn:aws:dynamodb:*:table/T lacks the account. */
static bool is_cut(const struct arn *arn)
{
	struct bytes last = arn->parts[arn->count - 1];

	return arn->count > ARN_SERVICE + 1 && last.len > 0 && last.data[last.len - 1] == '*';
}

/* What is wrong with it; NULL if nothing. */
static const char *resource_fault(const struct arn *arn)
{
	if (!is_printable(arn->text))
		return "must not contain control characters, or begin or end with a space";
	if (arn->count <= ARN_SERVICE || !bytes_is(arn->parts[0], "arn"))
		return "is neither * nor an ARN";
	if (!is_service(arn->parts[ARN_SERVICE]))
		return "must name one service, in lower case, in its third part";
	for (unsigned i = 1; i < ARN_TAIL && i < arn->count; i++)
		if (!bytes_hold_only(arn->parts[i], "-*?"))
			return "has a character that is not allowed in a partition, region or account";
	if (arn->count < ARN_PARTS)
		return is_cut(arn) ? NULL : "must have six parts, or end in *";
	if (arn->parts[ARN_TAIL].len == 0)
		return "must name a resource in its sixth part";
	if (bytes_is(arn->parts[ARN_SERVICE], "dynamodb") &&
	    !bytes_hold_only(arn->parts[ARN_TAIL], "-_./:*?"))
		return "has a character that is not allowed in a table or index name";
	return NULL;
}

enum err_code parse_resource(struct parser *p, const struct json *json, struct resource *out)
{
	const char *fault;
	struct arn  arn;

	*out = (struct resource){0};
	if (parser_text(p, json, POLICY_PATTERN_BYTES_MAX, &out->text) != ERR_NONE)
		return p->err->code;
	if (bytes_is(out->text, "*"))
		return ERR_NONE;
	if (out->text.len == 0)
		return parser_refuse(p, "\"\" is neither * nor an ARN");
	arn = arn_split(out->text);
	fault = resource_fault(&arn);
	if (fault != NULL)
		return parser_refuse(p, "%s %s", quote(out->text).text, fault);
	out->literal = !has_wildcard(out->text);
	out->count = arn.count;
	for (unsigned i = 0; i < arn.count; i++) {
		out->parts[i] = pattern_of(arn.parts[i]);
		if (parser_count_runs(p, arn.parts[i]) != ERR_NONE)
			return p->err->code;
	}
	return ERR_NONE;
}

/* ---- whose resources they are ---- */

enum { ARN_PARTITION = 1, ARN_REGION = 3, ARN_ACCOUNT = 4 };

enum err_code access_region_check(struct bytes region, const char *what, struct err *err)
{
	if (region.len >= 1 && region.len <= ACCESS_REGION_BYTES_MAX && bytes_hold_only(region, "-"))
		return ERR_NONE;
	return err_set(err, ERR_INVALID, "%s: a region must have 1 to %d letters, digits and '-'", what,
	               ACCESS_REGION_BYTES_MAX);
}

/* The part of the resource that nothing here has; 0: none. The last part of one that is cut short stands for the
 * rest. */
static unsigned foreign_part(const struct resource *r, const struct arn *home)
{
	static const unsigned checked[] = {ARN_PARTITION, ARN_REGION, ARN_ACCOUNT};

	for (size_t i = 0; i < sizeof(checked) / sizeof(*checked); i++) {
		unsigned     part = checked[i];
		struct bytes rest = {home->parts[part].data,
		                     (size_t)(home->text.data + home->text.len - home->parts[part].data)};

		assert(rest.data != NULL);
		if (part + 1 < r->count && !pattern_matches(&r->parts[part], home->parts[part]))
			return part;
		if (part + 1 == r->count && r->count < ARN_PARTS &&
		    !pattern_could_match(&r->parts[part], rest))
			return part;
	}
	return 0;
}

/* Other services' resources are no business of this server. */
static bool is_ours(const struct resource *r)
{
	return r->count > ARN_SERVICE && (bytes_is(r->parts[ARN_SERVICE].text, "dynamodb") ||
	                                  bytes_is(r->parts[ARN_SERVICE].text, "gatehouse"));
}

static enum err_code refuse_foreign(size_t statement, const struct resource *r, unsigned part,
                                    struct bytes expected, struct err *err)
{
	const char *name = part == ARN_PARTITION ? "partition" : part == ARN_REGION ? "region" : "account";

	return err_set(err, ERR_INVALID,
	               "Statement[%zu], Resource: %s would never match: this server's %s is \"%.*s\"",
	               statement, quote(r->text).text, name, BYTES_ARG(expected));
}

enum err_code policy_check_home(const struct policy *p, struct bytes region, struct err *err)
{
	char text[ACCESS_REGION_BYTES_MAX + sizeof("arn:aws::" ACCESS_ACCOUNT ":") + sizeof("dynamodb:")];
	struct arn home;

	snprintf(text, sizeof(text), "arn:aws:dynamodb:%.*s:" ACCESS_ACCOUNT ":", BYTES_ARG(region));
	home = arn_split(bytes_of(text));
	for (size_t i = 0; i < p->statement_count; i++)
		for (size_t j = 0; j < p->statements[i].resource_count; j++) {
			const struct resource *r = &p->statements[i].resources[j];
			unsigned               part = is_ours(r) ? foreign_part(r, &home) : 0;

			if (part != 0)
				return refuse_foreign(i, r, part, home.parts[part], err);
		}
	return ERR_NONE;
}
