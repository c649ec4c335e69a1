/* Key: `gatehouse key create|list|show|rotate|revoke`: the access keys of a data directory. Works on the file
 * that the server looks at before each request, so every change is in force for the next one, and no server
 * need run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "access/credential.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"

struct key_options {
	const char *data;
	const char *policy;
	bool        help;
};

static int failed(const struct err *err)
{
	fprintf(stderr, "gatehouse key: %s\n", err->text);
	return err->code == ERR_INVALID ? 2 : 1;
}

/* In a form that a shell can read. */
static void print_key(const struct credential *key)
{
	printf("export AWS_ACCESS_KEY_ID=%.*s\nexport AWS_SECRET_ACCESS_KEY=%.*s\n", BYTES_ARG(key->id),
	       BYTES_ARG(key->secret));
}

static int key_create(const struct key_options *o, const char *name, struct arena *a)
{
	struct credential key;
	struct bytes      policy;
	struct err        err;

	if (o->policy == NULL) {
		fprintf(stderr, "gatehouse key create: --policy FILE says what the key may do (an IAM policy "
		                "document; - reads "
		                "standard input)\n");
		return 2;
	}
	if (input_read(o->policy, POLICY_BYTES_MAX, a, &policy, &err) != ERR_NONE ||
	    credential_create(o->data, bytes_of(name), policy, a, &key, &err) != ERR_NONE)
		return failed(&err);
	print_key(&key);
	return 0;
}

static int key_list(const struct key_options *o, const char *name, struct arena *a)
{
	const struct credentials *keys;
	struct err                err;

	(void)name;
	(void)a;
	if (credentials_load(o->data, &keys, &err) != ERR_NONE)
		return failed(&err);
	printf("%-20s  %-24s  %-8s  %s\n", "ID", "NAME", "STATUS", "CREATED");
	for (uint32_t i = 0; i < keys->count; i++) {
		const struct credential *key = &keys->list[i];
		time_t                   created = (time_t)key->created_s;
		struct tm                tm;
		char                     text[32];

		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&created, &tm));
		printf("%-20.*s  %-24.*s  %-8s  %s\n", BYTES_ARG(key->id), BYTES_ARG(key->name),
		       key->active ? "active" : "revoked", text);
	}
	credentials_release(keys);
	return 0;
}

static int key_show(const struct key_options *o, const char *name, struct arena *a)
{
	const struct credentials *keys;
	const struct credential  *key;
	struct err                err;

	(void)a;
	if (credentials_load(o->data, &keys, &err) != ERR_NONE)
		return failed(&err);
	key = credentials_named(keys, bytes_of(name));
	if (key == NULL)
		key = credentials_find(keys, bytes_of(name));
	if (key == NULL || !key->active)
		fprintf(stderr, "gatehouse key: there is no active key \"%s\"\n", name);
	else
		print_key(key);
	credentials_release(keys);
	return key == NULL || !key->active ? 1 : 0;
}

static int key_rotate(const struct key_options *o, const char *name, struct arena *a)
{
	struct credential key;
	struct err        err;

	if (credential_rotate(o->data, bytes_of(name), a, &key, &err) != ERR_NONE)
		return failed(&err);
	print_key(&key);
	return 0;
}

static int key_revoke(const struct key_options *o, const char *name, struct arena *a)
{
	struct err err;

	(void)a;
	if (credential_revoke(o->data, bytes_of(name), &err) != ERR_NONE)
		return failed(&err);
	printf("%s is revoked\n", name);
	return 0;
}

/* ---- the table ---- */

enum { CREATE, LIST, SHOW, ROTATE, REVOKE, WORDS };

static const struct command_word words[WORDS] = {
        [CREATE] = {"create", "NAME --policy FILE", "makes a key and prints it, for a shell to read"},
        [LIST] = {"list", NULL, "ids, names and status; no secrets"},
        [SHOW] = {"show", "NAME", "prints a key again"},
        [ROTATE] = {"rotate", "NAME", "gives it a new secret; the old one is refused from now on"},
        [REVOKE] = {"revoke", "NAME", "ends it for good"},
};

static int (*const acts[WORDS])(const struct key_options *, const char *, struct arena *) = {
        [CREATE] = key_create, [LIST] = key_list,     [SHOW] = key_show,
        [ROTATE] = key_rotate, [REVOKE] = key_revoke,
};

static const struct option_spec options[] = {
        {"--data", OPTION_TEXT, "DIR", "the data directory (default: data)",
         offsetof(struct key_options, data), 0, 0},
        {"--policy", OPTION_TEXT, "FILE",
         "create: what the key may do, an IAM policy document; - reads standard input",
         offsetof(struct key_options, policy), 0, 0},
        {"--help", OPTION_FLAG, NULL, "this text", offsetof(struct key_options, help), 0, 0},
};

static int act(const struct key_options *o, const char *what, const char *name)
{
	struct arena a;
	int          word = 0, status;

	while (word < WORDS && strcmp(what, words[word].name) != 0)
		word++;
	if (word == WORDS) {
		fprintf(stderr, "gatehouse key: there is no \"%s\" (gatehouse key --help)\n", what);
		return 2;
	}
	if (name == NULL && words[word].arguments != NULL) {
		fprintf(stderr, "gatehouse key %s: which one? (gatehouse key --help)\n", what);
		return 2;
	}
	arena_init(&a);
	status = acts[word](o, name, &a);
	arena_release(&a);
	return status;
}

static int run(int argc, char **argv)
{
	struct key_options o = {.data = "data"};
	const char        *said[2] = {NULL, NULL};
	int                count = 0;
	struct err         err;

	while (argc > 0 && count < 2 && argv[0][0] != '-') {
		said[count++] = argv[0];
		argc--;
		argv++;
	}
	if (options_parse(options, OPTIONS_COUNT(options), &o, argc, argv, &err) != ERR_NONE)
		return failed(&err);
	if (o.help || count == 0) {
		command_help(&command_key);
		return o.help ? 0 : 2;
	}
	return act(&o, said[0], said[1]);
}

const struct command command_key = {
        .name = "key",
        .help = "makes, lists, rotates and revokes access keys",
        .about = "The access keys that may sign requests. Changes are in force at once, also for a running\n"
                 "server.",
        .words = words,
        .word_count = WORDS,
        .options = options,
        .option_count = OPTIONS_COUNT(options),
        .more = "To sign with a key from a shell:\n"
                "  eval \"$(gatehouse key show administrator)\"",
        .run = run,
};
