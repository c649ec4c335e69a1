/* SigV4 mutations: random signed requests, each changed in one way that means something; none may pass.
 * What means nothing (blanks, the order of query parameters, the case of header names) is never what is
 * changed, so that a single acceptance is a failure. */
#define _GNU_SOURCE /* memmem */
#include "sigv4_case.h"

#include "random.h"

enum { MUTATIONS = 100000, MUTATIONS_EACH = 10, SEED = 20150830 };

static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

static char letter(struct random *r)
{
	return letters[random_below(r, sizeof(letters) - 1)];
}

/* least to most letters */
static struct bytes word(struct sigv4_case *c, struct random *r, size_t least, size_t most)
{
	size_t len = least + random_below(r, most - least + 1);
	char  *text = arena_alloc(&c->arena, len + 1);

	for (size_t i = 0; i < len; i++)
		text[i] = letter(r);
	text[len] = '\0';
	return (struct bytes){text, len};
}

/* ---- a random request ---- */

static void request_make(struct sigv4_case *c, struct random *r)
{
	static const char *const methods[] = {"POST", "GET", "PUT", "DELETE"};
	uint64_t                 headers = random_below(r, 5);

	case_init(c);
	c->request.method = bytes_of(methods[random_below(r, 4)]);
	if (random_below(r, 2) == 0)
		c->request.path =
		        arena_printf(&c->arena, "/%s/%s%%20", word(c, r, 1, 8).data, word(c, r, 1, 8).data);
	if (random_below(r, 2) == 0)
		c->request.query = arena_printf(&c->arena, "%s=%s&x%s=%%C3%%A4", word(c, r, 1, 8).data,
		                                word(c, r, 1, 8).data, word(c, r, 1, 8).data);
	c->request.body = word(c, r, 1, 600);
	for (uint64_t i = 0; i < headers; i++)
		case_header(
		        c, arena_printf(&c->arena, "X-%s", word(c, r, 1, 6).data).data,
		        arena_printf(&c->arena, "%s %s", word(c, r, 1, 20).data, word(c, r, 1, 9).data).data);
	if (random_below(r, 3) == 0)
		c->credential.token = word(c, r, 10, 200);
	if (random_below(r, 2) == 0)
		c->credential.region = word(c, r, 1, 12);
	case_sign(c);
}

/* ---- changes to bytes ---- */

/* Flips, inserts or deletes one letter within a text that has at least one. */
static struct bytes text_change(struct sigv4_case *c, struct random *r, struct bytes text)
{
	char  *out = arena_alloc(&c->arena, text.len + 1);
	size_t at;
	char new = letter(r);

	do
		at = random_below(r, text.len);
	while (memchr(letters, text.data[at], sizeof(letters) - 1) == NULL ||
	       (at > 0 && text.data[at - 1] == '%') || (at > 1 && text.data[at - 2] == '%'));
	memcpy(out, text.data, text.len);
	switch (random_below(r, 3)) {
	case 0:
		while (new == text.data[at])
			new = letter(r);
		out[at] = new;
		return (struct bytes){out, text.len};
	case 1:
		memmove(out + at + 1, text.data + at, text.len - at);
		out[at] = new;
		return (struct bytes){out, text.len + 1};
	default:
		memmove(out + at, text.data + at + 1, text.len - at - 1);
		return (struct bytes){out, text.len - 1};
	}
}

static bool header_is_signed(const struct sigv4_header *h)
{
	return !bytes_is(h->name, "User-Agent") && !bytes_is(h->name, "Authorization");
}

static struct sigv4_header *signed_header(struct sigv4_case *c, struct random *r)
{
	struct sigv4_header *h;

	do
		h = &c->headers[random_below(r, c->request.header_count)];
	while (!header_is_signed(h));
	return h;
}

/* ---- the ways; each returns false if the request has no such part ---- */

static bool change_body(struct sigv4_case *c, struct random *r)
{
	c->request.body = text_change(c, r, c->request.body);
	return true;
}

static bool change_method(struct sigv4_case *c, struct random *r)
{
	c->request.method = text_change(c, r, c->request.method);
	return true;
}

static bool change_path(struct sigv4_case *c, struct random *r)
{
	if (c->request.path.len == 1)
		c->request.path = arena_printf(&c->arena, "/%c", letter(r));
	else
		c->request.path = text_change(c, r, c->request.path);
	return true;
}

static bool change_query(struct sigv4_case *c, struct random *r)
{
	if (c->request.query.len == 0)
		c->request.query = word(c, r, 1, 5);
	else
		c->request.query = text_change(c, r, c->request.query);
	return true;
}

static bool drop_query(struct sigv4_case *c, struct random *r)
{
	(void)r;
	if (c->request.query.len == 0)
		return false;
	c->request.query.len = 0;
	return true;
}

static bool change_header_value(struct sigv4_case *c, struct random *r)
{
	struct sigv4_header *h = signed_header(c, r);

	h->value = text_change(c, r, h->value);
	return true;
}

static bool change_header_name(struct sigv4_case *c, struct random *r)
{
	struct sigv4_header *h = signed_header(c, r);

	h->name = arena_printf(&c->arena, "%.*s%c", BYTES_ARG(h->name), letter(r));
	return true;
}

static bool remove_header(struct sigv4_case *c, struct random *r)
{
	*signed_header(c, r) = c->headers[c->request.header_count - 1];
	c->request.header_count--;
	return true;
}

static bool repeat_header(struct sigv4_case *c, struct random *r)
{
	struct sigv4_header h = *signed_header(c, r);

	if (random_below(r, 2) == 0)
		h.value = word(c, r, 0, 9);
	c->headers[c->request.header_count++] = h;
	return true;
}

static bool swap_values(struct sigv4_case *c, struct random *r)
{
	struct sigv4_header *a = signed_header(c, r);
	struct sigv4_header *b = signed_header(c, r);
	struct bytes         value = a->value;

	if (bytes_equal(a->value, b->value))
		return false;
	a->value = b->value;
	b->value = value;
	return true;
}

static bool add_amz_header(struct sigv4_case *c, struct random *r)
{
	case_header(c, arena_printf(&c->arena, "X-Amz-%s", word(c, r, 1, 9).data).data,
	            word(c, r, 1, 9).data);
	return true;
}

static bool change_date(struct sigv4_case *c, struct random *r)
{
	static const char *const dates[] = {
	        "20150830T123601Z", "20150830T123559Z", "20150830T124500Z", "20150830T122500Z",
	        "20150831T123600Z", "20140830T123600Z", "20150830123600",   ""};

	case_find(c, "X-Amz-Date")->value = bytes_of(dates[random_below(r, 8)]);
	return true;
}

static bool change_now(struct sigv4_case *c, struct random *r)
{
	int64_t away = SIGV4_SKEW_S + 1 + (int64_t)random_below(r, 1000000);

	c->now_s += random_below(r, 2) == 0 ? away : -away;
	return true;
}

/* Names and values of the Authorization header, wherever a letter is. */
static bool change_authorization(struct sigv4_case *c, struct random *r)
{
	struct sigv4_header *h = case_find(c, "Authorization");

	h->value = text_change(c, r, h->value);
	return true;
}

static bool change_scope(struct sigv4_case *c, struct random *r)
{
	static const char *const changes[][2] = {{"/20150830/", "/20150831/"},
	                                         {"/20150830/", "//"},
	                                         {"/dynamodb/", "/s3/"},
	                                         {"/dynamodb/", "/"},
	                                         {"aws4_request", "AWS4_request"},
	                                         {CASE_KEY, CASE_OTHER},
	                                         {CASE_KEY, "AKIDNOBODY"},
	                                         {"HMAC-SHA256", "HMAC-SHA1"},
	                                         {"/aws4_request", ""},
	                                         {"/aws4_request", "/aws4_request/"}};
	uint64_t                 i = random_below(r, sizeof(changes) / sizeof(changes[0]));

	case_authorization(c, changes[i][0], changes[i][1]);
	return true;
}

static bool change_signed_list(struct sigv4_case *c, struct random *r)
{
	static const char *const changes[][2] = {{";host", ""},
	                                         {";x-amz-date", ""},
	                                         {";x-amz-target", ""},
	                                         {"host;", "host;user-agent;"},
	                                         {"=content-type;", "="},
	                                         {"host", "HOST"},
	                                         {"x-amz-target", "x-amz-target;zzz"}};
	uint64_t                 i = random_below(r, sizeof(changes) / sizeof(changes[0]));

	case_authorization(c, changes[i][0], changes[i][1]);
	return true;
}

static bool change_signature_case(struct sigv4_case *c, struct random *r)
{
	struct sigv4_header *h = case_find(c, "Authorization");
	char                *copy = (char *)arena_alloc(&c->arena, h->value.len);
	size_t               at;

	memcpy(copy, h->value.data, h->value.len);
	do
		at = h->value.len - 1 - random_below(r, 64);
	while (copy[at] < 'a');
	copy[at] = (char)(copy[at] - ('a' - 'A'));
	h->value.data = copy;
	return true;
}

static bool cut_signature(struct sigv4_case *c, struct random *r)
{
	case_find(c, "Authorization")->value.len -= 1 + random_below(r, 64);
	return true;
}

static bool change_secret(struct sigv4_case *c, struct random *r)
{
	c->secret = text_change(c, r, c->secret);
	return true;
}

static bool revoke_key(struct sigv4_case *c, struct random *r)
{
	(void)r;
	c->secret = (struct bytes){0};
	return true;
}

#define WAYS(X)                                                                                              \
	X(change_body)                                                                                       \
	X(change_method)                                                                                     \
	X(change_path)                                                                                       \
	X(change_query)                                                                                      \
	X(drop_query)                                                                                        \
	X(change_header_value)                                                                               \
	X(change_header_name)                                                                                \
	X(remove_header)                                                                                     \
	X(repeat_header)                                                                                     \
	X(swap_values)                                                                                       \
	X(add_amz_header)                                                                                    \
	X(change_date)                                                                                       \
	X(change_now)                                                                                        \
	X(change_authorization)                                                                              \
	X(change_scope)                                                                                      \
	X(change_signed_list)                                                                                \
	X(change_signature_case)                                                                             \
	X(cut_signature)                                                                                     \
	X(change_secret)                                                                                     \
	X(revoke_key)

static const struct {
	bool (*change)(struct sigv4_case *c, struct random *r);
	const char *name;
} ways[] = {
#define X(name) {name, #name},
        WAYS(X)
#undef X
};

enum { WAY_COUNT = sizeof(ways) / sizeof(ways[0]) };

static bool code_is_for_signatures(enum err_code code)
{
	return code == ERR_SIGNATURE || code == ERR_SIGNATURE_INCOMPLETE || code == ERR_UNKNOWN_KEY ||
	       code == ERR_NO_CREDENTIAL;
}

/* Changes the request, tries it, and puts it back. */
static bool mutation_try(struct sigv4_case *c, struct random *r, unsigned way, unsigned round)
{
	struct sigv4_case before = *c;
	struct arena      arena;
	enum err_code     rc;
	bool              applied = ways[way].change(c, r);

	rc = applied ? case_verify(c) : ERR_SIGNATURE;
	if (rc == ERR_NONE || !code_is_for_signatures(rc))
		fail_msg("%s in round %u: %s", ways[way].name, round,
		         rc == ERR_NONE ? "accepted" : c->err.text);
	arena = c->arena;
	*c = before;
	c->arena = arena;
	return applied;
}

TEST(mutations, none_of_a_hundred_thousand_passes)
{
	struct random           r = {SEED};
	struct sigv4_key_cache *cache = sigv4_key_cache_open(HASH_KEY_STABLE);
	unsigned                tried[WAY_COUNT] = {0};
	unsigned                total = 0;

	for (unsigned round = 0; total < MUTATIONS; round++) {
		struct sigv4_case c;

		request_make(&c, &r);
		c.cache = round % 2 == 0 ? cache : NULL;
		assert_accepted(&c);
		for (unsigned i = 0; i < MUTATIONS_EACH; i++) {
			unsigned way = (unsigned)random_below(&r, WAY_COUNT);
			unsigned applied = mutation_try(&c, &r, way, round);

			tried[way] += applied;
			total += applied;
		}
		assert_accepted(&c);
		c.cache = NULL;
		case_release(&c);
	}
	sigv4_key_cache_close(cache);
	for (unsigned way = 0; way < WAY_COUNT; way++)
		assert_true(tried[way] > MUTATIONS / WAY_COUNT / 4);
}
