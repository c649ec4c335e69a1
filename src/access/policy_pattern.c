/* Policy patterns: actions and resources as a document has them. What could never be meant is refused rather
 * than never matched: a Deny with a typing error in it would otherwise be silently without effect. */
#include <stdio.h>

#include "access/policy_parser.h"

static bool is_alphanumeric(char c)
{
	c = ascii_lower(c);
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Are all bytes letters, digits, or among `others`? */
static bool holds_only(struct bytes text, const char *others)
{
	for (size_t i = 0; i < text.len; i++)
		if (!is_alphanumeric(text.data[i]) && (text.data[i] == '\0' || !strchr(others, text.data[i])))
			return false;
	return true;
}

static bool has_wildcard(struct bytes text)
{
	return memchr(text.data, '*', text.len) != NULL || memchr(text.data, '?', text.len) != NULL;
}

/* ---- actions ---- */

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
	return service.len > 0 && name.len > 0 && holds_only(service, "-") && holds_only(name, "-_*?");
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

/* ---- resources ---- */

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
	return text.len > 0 && holds_only(text, "-");
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
		if (!holds_only(arn->parts[i], "-*?"))
			return "has a character that is not allowed in a partition, region or account";
	if (arn->count < ARN_PARTS)
		return is_cut(arn) ? NULL : "must have six parts, or end in *";
	if (arn->parts[ARN_TAIL].len == 0)
		return "must name a resource in its sixth part";
	if (bytes_is(arn->parts[ARN_SERVICE], "dynamodb") && !holds_only(arn->parts[ARN_TAIL], "-_./:*?"))
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
	if (region.len >= 1 && region.len <= ACCESS_REGION_BYTES_MAX && holds_only(region, "-"))
		return ERR_NONE;
	return err_set(err, ERR_INVALID, "%s: a region must have 1 to %d letters, digits and '-'", what,
	               ACCESS_REGION_BYTES_MAX);
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

/* The part of the resource that nothing here has; 0: none. The last part of one that is cut short stands for the rest. */
static unsigned foreign_part(const struct resource *r, const struct arn *home)
{
	static const unsigned checked[] = {ARN_PARTITION, ARN_REGION, ARN_ACCOUNT};

	for (size_t i = 0; i < sizeof(checked) / sizeof(*checked); i++) {
		unsigned     part = checked[i];
		struct bytes rest = {home->parts[part].data,
		                     (size_t)(home->text.data + home->text.len - home->parts[part].data)};

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
