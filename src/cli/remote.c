/* Remote: reads arguments and environment, connects, runs a word. */
#include "cli/remote.h"

#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/log.h"
#include "outbound/outbound.h"

/* ---- the server ---- */

/* 127.0.0.1:8420 is; 127.example.org is not. */
static bool is_loopback(struct bytes host)
{
	size_t numbers = 0;

	while (numbers < host.len && strchr("0123456789.:", host.data[numbers]) != NULL)
		numbers++;
	return (bytes_starts_with(host, BYTES("127.")) && numbers == host.len) ||
	       bytes_starts_with(host, BYTES("[::1]")) || bytes_is(host, "localhost") ||
	       bytes_starts_with(host, BYTES("localhost:"));
}

/* Both or neither: half a key is a mistake. */
static enum err_code read_key(struct remote *r, struct err *err)
{
	const char *id = getenv("AWS_ACCESS_KEY_ID"), *secret = getenv("AWS_SECRET_ACCESS_KEY");
	bool        has_id = id != NULL && *id != '\0', has_secret = secret != NULL && *secret != '\0';

	if (has_id != has_secret)
		return err_set(
		        err, ERR_INVALID,
		        "%s is set but %s is not; both make a key, as `gatehouse key show NAME` prints it",
		        has_id ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
		        has_id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
	if (has_id)
		r->key = arena_printf(&r->arena, "Bearer %s.%s", id, secret);
	return ERR_NONE;
}

static const char *said_or(const char *option, const char *variable, const char *otherwise)
{
	const char *set = getenv(variable);

	if (option != NULL)
		return option;
	return set != NULL && *set != '\0' ? set : otherwise;
}

static enum err_code connect_to(struct remote *r, struct err *err)
{
	const char             *url = said_or(r->options->endpoint, "GATEHOUSE_ENDPOINT", REMOTE_ENDPOINT);
	size_t                  len = strlen(url);
	int64_t                 wait_us = (int64_t)r->options->timeout_s * 1000000;
	struct outbound_options target = {
	        .name = "the server",
	        .ca_file = said_or(r->options->ca_file, "GATEHOUSE_CA_FILE", NULL),
	        .allow_private = true,
	        .calls_max = 1,
	        .connect_us = wait_us,
	        .attempt_us = wait_us,
	        .body_bytes_max = REMOTE_ANSWER_BYTES_MAX,
	        .circuit = {UINT32_MAX, 1000000, 1000000},
	        .clock = clock_system(),
	};

	if (len > 0 && url[len - 1] == '/')
		len--;
	target.url = arena_printf(&r->arena, "%.*s", (int)len, url).data;
	if (read_key(r, err) != ERR_NONE)
		return err->code;
	if (outbound_open(&target, &r->target, err) != ERR_NONE)
		return err_set(err, ERR_INVALID,
		               "the endpoint must be http:// or https://, a host and a port, as in %s",
		               REMOTE_ENDPOINT);
	if (r->key.len > 0 && strncmp(url, "http://", 7) == 0 &&
	    !is_loopback(outbound_host(r->target))) /* (1) */
		return err_set(
		        err, ERR_INVALID,
		        "a key is not sent over plain http to another machine; use an https:// endpoint");
	return ERR_NONE;
}

/* ---- arguments ---- */

/* Options and arguments in any order. */
static enum err_code read_arguments(struct remote *r, struct options table, struct remote_options *to,
                                    struct arguments rest, struct err *err)
{
	struct option_said said;
	struct err         reason;

	while (rest.count > 0) {
		if (strncmp(rest.list[0], "--", 2) != 0) {
			if (r->count == REMOTE_ARGUMENTS_MAX)
				return err_set(err, ERR_INVALID, "more than %d arguments",
				               REMOTE_ARGUMENTS_MAX);
			r->arguments[r->count++] = *rest.list++;
			rest.count--;
			continue;
		}
		if (options_next(table, &rest, &said, err) != ERR_NONE)
			return err->code;
		if (option_set(said.spec, to, said.value, &reason) != ERR_NONE)
			return err_set(err, ERR_INVALID, "%s: %s", said.spec->name, reason.text);
	}
	return ERR_NONE;
}

/* c->word_count: there is none of that name. */
static size_t find_word(const struct command *c, const char *name)
{
	size_t i = 0;

	while (i < c->word_count && strcmp(name, c->words[i].name) != 0)
		i++;
	return i;
}

static int say(const struct command *c, const char *word, const struct err *err)
{
	fprintf(stderr, "gatehouse %s%s%s: ", c->name, word == NULL ? "" : " ", word == NULL ? "" : word);
	show_text(stderr, bytes_of(err->text));
	fprintf(stderr, "\n");
	return err->code == ERR_INVALID ? 2 : 1;
}

static enum err_code check_count(const struct remote *r, const struct command *c, size_t word,
                                 const struct remote_word *takes, struct err *err)
{
	const struct command_word none = {"", NULL, NULL}, *w = c->word_count == 0 ? &none : &c->words[word];

	if (r->count >= takes->arguments_min && r->count <= takes->arguments_max)
		return ERR_NONE;
	return err_set(err, ERR_INVALID, "%s argument; usage: gatehouse %s %s %s",
	               r->count < takes->arguments_min ? "missing" : "unexpected", c->name, w->name,
	               w->arguments == NULL ? "" : w->arguments);
}

static void end(struct remote *r)
{
	if (r->target != NULL)
		outbound_close(r->target);
	json_reader_close(r->reader);
	if (r->key.len > 0)
		crypto_wipe((void *)(uintptr_t)r->key.data, r->key.len);
	arena_release(&r->arena);
}

int remote_run(const struct command *c, const struct remote_word *words, struct remote_options *options,
               struct arguments rest)
{
	struct remote r = {.options = options};
	const char   *name = NULL;
	struct err    err = {.code = ERR_NONE};
	size_t        i;
	int           status = 0;

	if (c->word_count > 0 && rest.count > 0 && rest.list[0][0] != '-') {
		name = *rest.list++;
		rest.count--;
	}
	options->timeout_s = REMOTE_TIMEOUT_S;
	if (read_arguments(&r, c->options, options, rest, &err) != ERR_NONE)
		return say(c, name, &err);
	if (options->help || (c->word_count > 0 && name == NULL)) {
		command_help(c);
		return options->help ? 0 : 2;
	}
	i = name == NULL ? 0 : find_word(c, name);
	if (name != NULL && i == c->word_count)
		return command_word_unknown(c, name);
	log_set_level(LOG_ERROR); /* what a call says of its tries is not for people */
	arena_init(&r.arena);
	r.reader = json_reader_open();
	r.trace = remote_random(&r);
	if (check_count(&r, c, i, &words[i], &err) != ERR_NONE || connect_to(&r, &err) != ERR_NONE ||
	    words[i].run(&r, &err) != ERR_NONE)
		status = say(c, name, &err);
	end(&r);
	return status;
}
