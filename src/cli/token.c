/* Token: `gatehouse token …`: asks a running server about a token, and revokes one, or a client's. A token is read from standard input or a
 * file: it is a secret, and arguments are not. */
#include <string.h>

#include "cli/remote.h"
#include "json/base64.h"

enum { PAGE = 100 };

struct token_options {
	struct remote_options remote; /* first */
	const char           *file, *audience, *reason, *kind;
	uint64_t              limit;
};

static const struct token_options *options_of(const struct remote *r)
{
	return (const struct token_options *)r->options;
}

static enum err_code read_token(struct remote *r, struct bytes *token, struct err *err)
{
	const char *file = options_of(r)->file;

	if (file == NULL)
		remote_ask("token: ");
	if (remote_secret(r, file == NULL ? "-" : file, "the token", token, err) != ERR_NONE)
		return err->code;
	if (!bytes_hold_only(*token, "-_.=+/~"))
		return err_set(err, ERR_INVALID,
		               "that is not a token: three parts in base64url, with dots between");
	return ERR_NONE;
}

/* ---- verifying ---- */

static enum err_code run_verify(struct remote *r, struct err *err)
{
	struct remote_call   q = {.method = "POST", .path = BYTES("/v1/tokens/verify")};
	struct remote_answer answer;
	const struct json   *valid;
	struct json_writer   w;
	struct bytes         token;
	struct buf           body;

	if (read_token(r, &token, err) != ERR_NONE)
		return err->code;
	buf_init(&body, &r->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	json_member_text(&w, BYTES("token"), token);
	if (options_of(r)->audience != NULL)
		json_member_text(&w, BYTES("audience"), bytes_of(options_of(r)->audience));
	json_end_object(&w);
	q.body = buf_bytes(&body);
	if (remote_call(r, &q, &answer, err) != ERR_NONE)
		return err->code;
	remote_show(r, &answer);
	valid = json_get(answer.body, BYTES("valid"));
	if (valid == NULL || valid->type != JSON_BOOL || !json_truth(valid))
		return err_set(err, ERR_CONDITION, "the token is not valid, or its user may not act");
	return ERR_NONE;
}

/* ---- revoking ---- */

/* What the middle part says. Nothing is verified: whoever revokes a token need not be able to. */
static enum err_code read_claims(struct remote *r, struct bytes token, struct json **out, struct err *err)
{
	const char  *first = memchr(token.data, '.', token.len);
	const char  *from = first == NULL ? token.data : first + 1;
	const char  *last = memchr(from, '.', (size_t)(token.data + token.len - from));
	struct bytes text;

	if (first == NULL || last == NULL ||
	    !base64_url_decode(&r->arena, (struct bytes){from, (size_t)(last - from)}, &text) ||
	    json_read(r->reader, &r->arena, text, out, err) != ERR_NONE || (*out)->type != JSON_OBJECT)
		return err_set(err, ERR_INVALID,
		               "that is not a token: three parts in base64url, with dots between");
	return ERR_NONE;
}

static struct bytes claim(const struct json *claims, const char *name)
{
	const struct json *c = json_get(claims, bytes_of(name));

	return c != NULL && c->type == JSON_STRING ? json_text(c) : (struct bytes){"", 0};
}

static void write_reason(const struct remote *r, struct json_writer *w)
{
	if (options_of(r)->reason != NULL)
		json_member_text(w, BYTES("reason"), bytes_of(options_of(r)->reason));
}

static enum err_code revoke(struct remote *r, struct buf *body, struct err *err)
{
	struct remote_call q = {
	        .method = "POST", .path = BYTES("/v1/tokens/revoke"), .body = buf_bytes(body)};
	struct remote_answer answer;

	if (remote_call(r, &q, &answer, err) != ERR_NONE)
		return err->code;
	remote_show(r, &answer);
	return ERR_NONE;
}

static enum err_code run_revoke(struct remote *r, struct err *err)
{
	struct json_writer w;
	struct bytes       token;
	struct json       *claims;
	struct buf         body;
	int64_t            expires_s;

	if (read_token(r, &token, err) != ERR_NONE || read_claims(r, token, &claims, err) != ERR_NONE)
		return err->code;
	if (claim(claims, "jti").len == 0 || claim(claims, "iss").len == 0)
		return err_set(err, ERR_INVALID,
		               "the token has no id (jti), so it cannot be revoked alone; `gatehouse user "
		               "revoke-tokens ID` revokes all of its user");
	buf_init(&body, &r->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	json_member_text(&w, BYTES("jti"), claim(claims, "jti"));
	json_member_text(&w, BYTES("issuer"), claim(claims, "iss"));
	if (json_get(claims, BYTES("exp")) != NULL && json_whole(json_get(claims, BYTES("exp")), &expires_s))
		json_member_i64(&w, BYTES("expires_at"), expires_s);
	write_reason(r, &w);
	json_end_object(&w);
	return revoke(r, &body, err);
}

static enum err_code run_revoke_client(struct remote *r, struct err *err)
{
	struct json_writer w;
	struct buf         body;

	buf_init(&body, &r->arena);
	json_writer_init(&w, &body);
	json_begin_object(&w);
	json_member_text(&w, BYTES("client"), bytes_of(r->arguments[0]));
	write_reason(r, &w);
	json_end_object(&w);
	return revoke(r, &body, err);
}

static enum err_code run_list(struct remote *r, struct err *err)
{
	struct show_table table = {
	        .columns = {"kind", "user", "client", "not_before", "expires_at", "reason"}};
	struct remote_list q = {.path = BYTES("/v1/revocations"),
	                        .member = "revocations",
	                        .page = PAGE,
	                        .rows_max = options_of(r)->limit,
	                        .filters = {{"kind", options_of(r)->kind}}};

	return remote_list(r, &q, &table, err);
}

/* ---- the table ---- */

enum { VERIFY, REVOKE, REVOKE_CLIENT, LIST, WORDS };

static const struct command_word words[WORDS] = {
        [VERIFY] = {"verify", NULL, "is the token good, and may its user act? Exit status 0: yes, 1: no"},
        [REVOKE] = {"revoke", NULL, "revoke this one token"},
        [REVOKE_CLIENT] = {"revoke-client", "CLIENT", "revoke all tokens of a client"},
        [LIST] = {"list", NULL, "list what is revoked"},
};

static const struct remote_word functions[WORDS] = {
        [VERIFY] = {run_verify, 0, 0},
        [REVOKE] = {run_revoke, 0, 0},
        [REVOKE_CLIENT] = {run_revoke_client, 1, 1},
        [LIST] = {run_list, 0, 0},
};

static const struct option_spec options[] = {
        REMOTE_OPTIONS,
        {"--token-file", OPTION_TEXT, "FILE", "verify, revoke: the token (default: -, standard input)",
         offsetof(struct token_options, file), 0, 0},
        {"--audience", OPTION_TEXT, "TEXT", "verify: it must be for this audience",
         offsetof(struct token_options, audience), 0, 0},
        {"--reason", OPTION_TEXT, "TEXT", "revoke, revoke-client: why, for those who look later",
         offsetof(struct token_options, reason), 0, 0},
        {"--kind", OPTION_TEXT, "KIND", "list: only token, user, client or all",
         offsetof(struct token_options, kind), 0, 0},
        {"--limit", OPTION_NUMBER, "N", "list: at most so many (default: all)",
         offsetof(struct token_options, limit), 1, INT64_MAX},
};

static int run(int argc, char **argv)
{
	struct token_options o = {.file = NULL};

	return remote_run(&command_token, functions, &o.remote, (struct arguments){argc, argv});
}

const struct command command_token = {
        .name = "token",
        .help = "verify and revoke tokens through a running server",
        .about = "Asks a running server about tokens of the issuers in its identity file. A token is read "
                 "from\n"
                 "standard input or a file, never from an argument.",
        .words = words,
        .word_count = WORDS,
        .options = {options, OPTIONS_COUNT(options)},
        .more = "To verify a token of a file:\n"
                "  gatehouse token verify <token.txt\n"
                "`gatehouse user revoke-tokens ID` revokes a user's tokens, `gatehouse revoke-all` "
                "everyone's.",
        .run = run,
};
