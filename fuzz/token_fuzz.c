/* A token from anybody, and header and claims that its issuer did sign. Parsing must leave everything within the text, twice
 * the same; a token that nobody signed is never valid. */
#include <stdlib.h>

#include "token/issuer.h"

static const char keys[] = "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_"
                           "7TyWQHOg7hcvPapiMlrwIaaPcHURo\",\"kid\":\"k\"}]}";

static struct issuers     *all;
static struct json_reader *reader;
static struct clock_manual now;

static void start(void)
{
	struct issuer_options o = {.issuer = BYTES("i"), .jwks = BYTES(keys), .rules = jwt_rules_default()};
	struct err            err;

	clock_manual_init(&now, 1800000000000000);
	reader = json_reader_open();
	all = issuers_open((struct token_fetch){0}, &now.base);
	o.rules.algorithms = (1u << JWS_ALGORITHM_COUNT) - 1;
	o.rules.audience_any = true;
	if (issuers_add(all, &o, &err) != ERR_NONE)
		abort();
}

/* As if the signature had been good. */
static void check_claims(struct json *claims)
{
	struct jwt_rules rules = jwt_rules_default();
	struct jwt       t = {.claims = claims, .header = claims};

	rules.audience_any = true;
	for (rules.cognito_uses = 0; rules.cognito_uses <= 3; rules.cognito_uses++) {
		jwt_check_header(&t, &rules);
		if (jwt_check_claims(&t, &rules, now.now_us) == TOKEN_VALID &&
		    (t.subject.len == 0 || t.expires_us + rules.leeway_us <= now.now_us))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes       text = {(const char *)data, size};
	struct arena       a;
	struct token_call  c;
	struct jwt         once, twice;
	struct json       *tree;
	struct err         err;
	int64_t            retry_s;
	enum token_outcome first, second;

	if (all == NULL)
		start();
	arena_init(&a);
	c = (struct token_call){reader, &a, clock_wall_us(&now.base)};
	first = jwt_parse(reader, &a, text, &once);
	second = jwt_parse(reader, &a, text, &twice);
	if (first != second || (first == TOKEN_VALID && !json_equal(once.claims, twice.claims)))
		abort();
	if (first == TOKEN_VALID && once.signed_text.data + once.signed_text.len >= text.data + text.len)
		abort();
	if (issuers_verify(all, &c, text, &once, &retry_s) == TOKEN_VALID)
		abort();
	if (json_read(reader, &a, text, &tree, &err) == ERR_NONE && tree->type == JSON_OBJECT &&
	    jwt_check_members(tree) == TOKEN_VALID)
		check_claims(tree);
	arena_release(&a);
	return 0;
}
