/* Json: see json.h. The lower half walks: each step_* function moves a cursor over one thing, or says that it is
 * not there. The upper half uses the steps to look. */
#include "json.h"

struct cursor {
	const char *at, *end;
};

static bool step_value(struct cursor *c, unsigned depth);
static bool step_string(struct cursor *c);
static void step_blanks(struct cursor *c);
static bool step_char(struct cursor *c, char wanted);
static bool name_is(struct text quoted, const char *name);

static struct cursor cursor_of(struct text t)
{
	return (struct cursor){t.data, t.data + t.len};
}

bool json_check(struct text document, struct text *value)
{
	struct cursor c = cursor_of(document);
	const char   *start;

	step_blanks(&c);
	start = c.at;
	if (!step_value(&c, 0))
		return false;
	*value = (struct text){start, (size_t)(c.at - start)};
	step_blanks(&c);
	return c.at == c.end;
}

/* ---- looking ---- */

/* One `"name": value`; leaves the cursor behind it. */
static bool step_member(struct cursor *c, struct text *name, struct text *value)
{
	const char *start = c->at;

	if (!step_string(c))
		return false;
	*name = (struct text){start, (size_t)(c->at - start)};
	step_blanks(c);
	if (!step_char(c, ':'))
		return false;
	step_blanks(c);
	start = c->at;
	if (!step_value(c, 0))
		return false;
	*value = (struct text){start, (size_t)(c->at - start)};
	step_blanks(c);
	return true;
}

bool json_find(struct text object, const char *name, struct text *value)
{
	struct cursor c = cursor_of(object);
	struct text   quoted, found;
	unsigned      times = 0;

	if (!step_char(&c, '{'))
		return false;
	do {
		step_blanks(&c);
		if (!step_member(&c, &quoted, &found))
			break;
		if (name_is(quoted, name))
			*value = ++times == 1 ? found : (struct text){"", 0};
	} while (step_char(&c, ','));
	return times > 0;
}

bool json_next(struct text array, size_t *at, struct text *value)
{
	struct cursor c = cursor_of(array);
	const char   *start;

	if (*at > array.len || array.len == 0 || array.data[0] != '[')
		return false;
	c.at += *at;
	if (!step_char(&c, *at == 0 ? '[' : ','))
		return false;
	step_blanks(&c);
	start = c.at;
	if (!step_value(&c, 0))
		return false;
	*value = (struct text){start, (size_t)(c.at - start)};
	step_blanks(&c);
	*at = (size_t)(c.at - array.data);
	return true;
}

bool json_bool(struct text value, bool *out)
{
	if (!text_is(value, "true") && !text_is(value, "false"))
		return false;
	*out = value.data[0] == 't';
	return true;
}

/* ---- numbers ---- */

/* Digits that matter, and where the point belongs: value = digits * 10^scale, and a little more if `more`. */
struct decimal {
	int64_t digits;
	int     scale;
	bool    negative, more;
};

enum { DECIMAL_EXPONENT_MAX = 400 };

static const int64_t DECIMAL_FULL = INT64_C(100000000000000000);

static void decimal_add(struct decimal *d, char c, bool fraction)
{
	if (d->digits < DECIMAL_FULL) {
		d->digits = d->digits * 10 + (c - '0');
		d->scale -= fraction;
	} else {
		d->more = d->more || c != '0';
		d->scale += !fraction;
	}
}

static struct decimal decimal_of(struct text number)
{
	struct decimal d = {0};
	size_t         i = d.negative = number.data[0] == '-';
	bool           fraction = false, below = false;
	int            exponent = 0;

	for (; i < number.len && (number.data[i] | 0x20) != 'e'; i++) {
		if (number.data[i] == '.')
			fraction = true;
		else
			decimal_add(&d, number.data[i], fraction);
	}
	for (i++; i < number.len; i++) {
		below = below || number.data[i] == '-';
		if (number.data[i] >= '0' && number.data[i] <= '9' && exponent < DECIMAL_EXPONENT_MAX)
			exponent = exponent * 10 + (number.data[i] - '0');
	}
	d.scale += below ? -exponent : exponent;
	return d;
}

static int64_t decimal_round_up(struct decimal d)
{
	for (; d.scale > 0 && d.digits != 0; d.scale--)
		if (__builtin_mul_overflow(d.digits, 10, &d.digits))
			return d.negative ? INT64_MIN : INT64_MAX;
	for (; d.scale < 0 && d.digits != 0; d.scale++) {
		d.more = d.more || d.digits % 10 != 0;
		d.digits /= 10;
	}
	if (d.negative)
		return -d.digits;
	return d.digits + (d.more && d.digits < INT64_MAX);
}

bool json_whole(struct text value, int64_t *out)
{
	struct cursor c = cursor_of(value);
	bool          number =
	        value.len > 0 && (value.data[0] == '-' || (value.data[0] >= '0' && value.data[0] <= '9'));

	if (!number || !step_value(&c, 0) || c.at != c.end)
		return false;
	*out = decimal_round_up(decimal_of(value));
	return true;
}

/* ---- strings ---- */

static unsigned hex4(const char *s)
{
	unsigned value = 0;

	for (int i = 0; i < 4; i++)
		value = value * 16 + (unsigned)(s[i] <= '9' ? s[i] - '0' : (s[i] | 0x20) - 'a' + 10);
	return value;
}

static size_t utf8_write(unsigned code, char *out)
{
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		out[0] = (char)(0xc0 | code >> 6);
		out[1] = (char)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		out[0] = (char)(0xe0 | code >> 12);
		out[1] = (char)(0x80 | (code >> 6 & 0x3f));
		out[2] = (char)(0x80 | (code & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | code >> 18);
	out[1] = (char)(0x80 | (code >> 12 & 0x3f));
	out[2] = (char)(0x80 | (code >> 6 & 0x3f));
	out[3] = (char)(0x80 | (code & 0x3f));
	return 4;
}

/* The character at *at of a string's checked inside, decoded into `out`; moves *at behind it. */
static size_t char_decode(const char **at, const char *end, char out[4])
{
	static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	const char       *s = *at;
	unsigned          code;
	size_t            len;

	if (*s != '\\') {
		len = text_char_len((const unsigned char *)s, (size_t)(end - s));
		memcpy(out, s, len);
		*at += len;
		return len;
	}
	if (s[1] != 'u') {
		out[0] = meant[strchr(plain, s[1]) - plain];
		*at += 2;
		return 1;
	}
	code = hex4(s + 2);
	*at += 6;
	if (code >= 0xd800 && code < 0xdc00) {
		code = 0x10000 + ((code - 0xd800) << 10) + (hex4(s + 8) - 0xdc00);
		*at += 6;
	}
	return utf8_write(code, out);
}

bool json_string(struct text value, char *out, size_t size)
{
	struct cursor c = cursor_of(value);
	const char   *end;
	char          one[4];
	size_t        len = 0;

	if (!step_string(&c) || c.at != c.end)
		return false;
	end = c.end - 1;
	for (const char *at = value.data + 1; at < end;) {
		size_t n = char_decode(&at, end, one);

		if (len + n >= size || one[0] == '\0')
			break;
		memcpy(out + len, one, n);
		len += n;
	}
	out[len] = '\0';
	return true;
}

static bool name_is(struct text quoted, const char *name)
{
	char found[64];

	return json_string(quoted, found, sizeof(found)) && strcmp(found, name) == 0;
}

/* ---- walking ---- */

static bool step_char(struct cursor *c, char wanted)
{
	if (c->at == c->end || *c->at != wanted)
		return false;
	c->at++;
	return true;
}

static void step_blanks(struct cursor *c)
{
	while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
		c->at++;
}

static bool step_word(struct cursor *c, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0)
		return false;
	c->at += len;
	return true;
}

static bool step_digits(struct cursor *c)
{
	const char *start = c->at;

	while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
		c->at++;
	return c->at > start;
}

/* number = [ "-" ] ( "0" / digit1-9 *digit ) [ "." 1*digit ] [ "e" [ "+" / "-" ] 1*digit ] */
static bool step_number(struct cursor *c)
{
	step_char(c, '-');
	if (!step_char(c, '0') && !step_digits(c))
		return false;
	if (step_char(c, '.') && !step_digits(c))
		return false;
	if (!step_char(c, 'e') && !step_char(c, 'E'))
		return true;
	if (!step_char(c, '+'))
		step_char(c, '-');
	return step_digits(c);
}

static bool step_hex4(struct cursor *c, unsigned *code)
{
	if (c->end - c->at < 4)
		return false;
	for (int i = 0; i < 4; i++)
		if (memchr("0123456789abcdefABCDEF", c->at[i], 22) == NULL)
			return false;
	*code = hex4(c->at);
	c->at += 4;
	return true;
}

/* Behind `\u`: one character, or both halves of a pair; half a pair is no character. */
static bool step_unicode(struct cursor *c)
{
	unsigned code, low;

	if (!step_hex4(c, &code))
		return false;
	if (code < 0xd800 || code > 0xdfff)
		return true;
	return code < 0xdc00 && step_word(c, "\\u") && step_hex4(c, &low) && low >= 0xdc00 && low <= 0xdfff;
}

static bool step_escape(struct cursor *c)
{
	if (step_char(c, 'u'))
		return step_unicode(c);
	if (c->at == c->end || memchr("\"\\/bfnrt", *c->at, 8) == NULL)
		return false;
	c->at++;
	return true;
}

static bool step_string(struct cursor *c)
{
	if (!step_char(c, '"'))
		return false;
	while (c->at < c->end && *c->at != '"') {
		size_t len = text_char_len((const unsigned char *)c->at, (size_t)(c->end - c->at));

		if (len == 0 || (unsigned char)*c->at < 0x20)
			return false;
		c->at += len;
		if (c->at[-1] == '\\' && !step_escape(c))
			return false;
	}
	return step_char(c, '"');
}

/* object = "{" [ string ":" value *( "," string ":" value ) ] "}", and arrays alike without the names */
static bool step_container(struct cursor *c, char close, unsigned depth)
{
	step_blanks(c);
	if (step_char(c, close))
		return true;
	do {
		step_blanks(c);
		if (close == '}') {
			if (!step_string(c))
				return false;
			step_blanks(c);
			if (!step_char(c, ':'))
				return false;
			step_blanks(c);
		}
		if (!step_value(c, depth))
			return false;
		step_blanks(c);
	} while (step_char(c, ','));
	return step_char(c, close);
}

/* `depth` containers are around it. */
static bool step_value(struct cursor *c, unsigned depth)
{
	if (c->at == c->end)
		return false;
	switch (*c->at) {
	case '{':
	case '[':
		return depth < JSON_DEPTH_MAX && step_container(c, *c->at++ == '{' ? '}' : ']', depth + 1);
	case '"':
		return step_string(c);
	case 't':
		return step_word(c, "true");
	case 'f':
		return step_word(c, "false");
	case 'n':
		return step_word(c, "null");
	default:
		return step_number(c);
	}
}
