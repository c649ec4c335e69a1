/* Policy: the limits in a RateLimit-Policy header, as the IETF draft (draft-ietf-httpapi-ratelimit-headers) writes
 * them: a list of strings or tokens with parameters, of which `q`, the quota, and `w`, the window in seconds, are
 * what a limiter needs:
 *
 *     "per-minute";q=100;w=60, "per-day";q=1000;w=86400
 *
 * An item without both is passed over, and so is a list that is not well-formed. So is one with `pk`: the server says by
 * it that the limit is this key's own, which says nothing of other keys. */
#include "limiter.h"

struct cursor {
	const char *at, *end;
};

static void step_blanks(struct cursor *c)
{
	while (c->at < c->end && (*c->at == ' ' || *c->at == '\t'))
		c->at++;
}

static bool step_char(struct cursor *c, char wanted)
{
	if (c->at == c->end || *c->at != wanted)
		return false;
	c->at++;
	return true;
}

/* bytes = ":" base64 ":", behind the first colon */
static bool step_bytes(struct cursor *c)
{
	while (c->at < c->end && *c->at != ':')
		c->at++;
	return step_char(c, ':');
}

/* string = DQUOTE *( char / "\" DQUOTE / "\\" ) DQUOTE, behind its first quote */
static bool step_string(struct cursor *c)
{
	while (c->at < c->end && *c->at != '"') {
		if (*c->at == '\\' && ++c->at == c->end)
			return false;
		c->at++;
	}
	return step_char(c, '"');
}

/* Anything up to the next separator: a name, a token, a number. */
static struct text step_word(struct cursor *c)
{
	const char *start = c->at;

	while (c->at < c->end && strchr(";,= \t\"", *c->at) == NULL)
		c->at++;
	return (struct text){start, (size_t)(c->at - start)};
}

/* bare-item, of which only whole numbers are understood: -1 for everything else. */
static bool step_item(struct cursor *c, int64_t *number)
{
	struct text word;

	*number = -1;
	if (step_char(c, '"'))
		return step_string(c);
	if (step_char(c, ':'))
		return step_bytes(c);
	word = step_word(c);
	if (word.len == 0 || word.len > 15) /* 15 digits are the format's own limit */
		return word.len > 0;
	*number = 0;
	for (size_t i = 0; i < word.len && *number >= 0; i++)
		*number =
		        word.data[i] >= '0' && word.data[i] <= '9' ? *number * 10 + (word.data[i] - '0') : -1;
	return true;
}

/* parameter = ";" *SP name [ "=" bare-item ] */
static bool step_parameter(struct cursor *c, struct limit *limit)
{
	struct text name;
	int64_t     number = -1;

	step_blanks(c);
	name = step_word(c);
	if (name.len == 0 || (step_char(c, '=') && !step_item(c, &number)))
		return false;
	if (text_is(name, "q"))
		limit->limit = number;
	if (text_is(name, "w"))
		limit->window_s = number;
	if (text_is(name, "pk"))
		limit->burst = -1;
	return true;
}

static bool step_member(struct cursor *c, struct limit *limit)
{
	int64_t ignored;

	*limit = (struct limit){-1, -1, 0};
	if (!step_item(c, &ignored))
		return false;
	while (step_char(c, ';'))
		if (!step_parameter(c, limit))
			return false;
	return true;
}

unsigned limit_parse(struct text header, struct limit limits[LIMITER_LIMITS_MAX])
{
	struct cursor c = {header.data, header.data + header.len};
	struct limit  limit;
	unsigned      count = 0;

	do {
		step_blanks(&c);
		if (!step_member(&c, &limit))
			return 0;
		step_blanks(&c);
		if (limit.burst == 0)
			limit.burst = limit.limit;
		if (limit_is_sane(&limit) && count < LIMITER_LIMITS_MAX)
			limits[count++] = limit;
	} while (step_char(&c, ','));
	return c.at == c.end ? count : 0;
}
