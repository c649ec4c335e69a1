/* Key: `gatehouse key create|list|show|rotate|limit|revoke|seal`: the access keys of a data directory. Works on the file
 * that the server looks at before each request, so every change is in force for the next one, and no server
 * need run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "access/credential.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/record.h"
#include "json/json.h"

struct key_options {
	const char  *data;
	const char  *policy;
	const char  *region; /* NULL: the server's */
	struct bytes policy_text;
	uid_t        run_by;                        /* before the process became the directory's owner */
	uint64_t     connections_max, requests_max; /* NOT_SAID: not given; 0: none */
	bool         help;
};

#define NOT_SAID UINT64_MAX

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

static struct key_limits limits_of(const struct key_options *o, uint32_t otherwise)
{
	return (struct key_limits){
	        o->connections_max == NOT_SAID ? otherwise : (uint32_t)o->connections_max,
	        o->requests_max == NOT_SAID ? otherwise : (uint32_t)o->requests_max,
	};
}

/* The policy was good enough for a key: is it what was meant? */
static void warn(struct bytes policy_text)
{
	struct json_reader *reader = json_reader_open();
	struct policy      *policy;
	struct err          err;

	if (policy_parse(reader, policy_text, &policy, &err) == ERR_NONE) {
		policy_warn(policy);
		policy_close(policy);
	}
	json_reader_close(reader);
}

static int key_create(const struct key_options *o, const char *name, struct arena *a)
{
	struct credential_new n = {.name = bytes_of(name),
	                           .policy_text = o->policy_text,
	                           .region = bytes_of(o->region == NULL ? "" : o->region),
	                           .limits = limits_of(o, 0)};
	struct credential     key;
	struct err            err;

	if (o->policy == NULL) {
		fprintf(stderr, "gatehouse key create: missing --policy FILE, an IAM policy document that "
		                "says what the key may do (- reads standard input)\n");
		return 2;
	}
	if (credential_create(o->data, &n, a, &key, &err) != ERR_NONE)
		return failed(&err);
	warn(o->policy_text);
	print_key(&key);
	return record_key(o->data, o->run_by, "key.create", &key) ? 0 : 1;
}

static const char *limit_print(char text[16], uint32_t limit)
{
	snprintf(text, 16, limit == 0 ? "any" : "%u", limit);
	return text;
}

static void print_row(const struct credential *key)
{
	time_t    created = (time_t)key->created_s;
	struct tm tm;
	char      text[32], connections[16], requests[16];

	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&created, &tm));
	printf("%-20.*s  %-24.*s  %-8s  %-20s  %11s  %10s\n", BYTES_ARG(key->id), BYTES_ARG(key->name),
	       key->active ? "active" : "revoked", text,
	       limit_print(connections, key->limits.connections_max),
	       limit_print(requests, key->limits.requests_per_second_max));
}

static int key_list(const struct key_options *o, const char *name, struct arena *a)
{
	const struct credentials *keys;
	struct err                err;

	(void)name;
	(void)a;
	if (credentials_load(o->data, &keys, &err) != ERR_NONE)
		return failed(&err);
	printf("%-20s  %-24s  %-8s  %-20s  %11s  %10s\n", "ID", "NAME", "STATUS", "CREATED", "CONNECTIONS",
	       "REQUESTS/S");
	for (uint32_t i = 0; i < keys->count; i++)
		print_row(&keys->list[i]);
	credentials_release(keys);
	return 0;
}

static int key_show(const struct key_options *o, const char *name, struct arena *a)
{
	const struct credentials *keys;
	const struct credential  *key;
	struct err                err;
	bool                      active;

	(void)a;
	if (credentials_load(o->data, &keys, &err) != ERR_NONE)
		return failed(&err);
	key = credentials_named(keys, bytes_of(name));
	if (key == NULL)
		key = credentials_find(keys, bytes_of(name));
	active = key != NULL && key->active;
	if (active)
		print_key(key);
	else
		fprintf(stderr,
		        "gatehouse key: unknown or revoked key \"%s\"; `gatehouse key list` lists them\n",
		        name);
	credentials_release(keys);
	return active ? 0 : 1;
}

static int key_rotate(const struct key_options *o, const char *name, struct arena *a)
{
	struct credential key;
	struct err        err;

	if (credential_rotate(o->data, bytes_of(name), a, &key, &err) != ERR_NONE)
		return failed(&err);
	print_key(&key);
	return record_key(o->data, o->run_by, "key.rotate", &key) ? 0 : 1;
}

static int key_limit(const struct key_options *o, const char *name, struct arena *a)
{
	struct credential key;
	struct err        err;
	char              text[16];

	if (o->connections_max == NOT_SAID && o->requests_max == NOT_SAID) {
		fprintf(stderr, "gatehouse key limit: missing --max-connections N or "
		                "--max-requests-per-second N (0 removes the limit)\n");
		return 2;
	}
	if (credential_limit(o->data,
	                     &(struct credential_limit){bytes_of(name), limits_of(o, KEY_LIMIT_KEPT)}, a,
	                     &key, &err) != ERR_NONE)
		return failed(&err);
	printf("%s: connections %s, ", name, limit_print(text, key.limits.connections_max));
	printf("requests per second %s\n", limit_print(text, key.limits.requests_per_second_max));
	return record_key(o->data, o->run_by, "key.limit", &key) ? 0 : 1;
}

static int key_revoke(const struct key_options *o, const char *name, struct arena *a)
{
	struct credential key;
	struct err        err;

	if (credential_revoke(o->data, bytes_of(name), a, &key, &err) != ERR_NONE)
		return failed(&err);
	printf("%s is revoked\n", name);
	return record_key(o->data, o->run_by, "key.revoke", &key) ? 0 : 1;
}

static int key_seal(const struct key_options *o, const char *name, struct arena *a)
{
	uint32_t   count;
	struct err err;

	(void)name;
	(void)a;
	if (credential_seal(o->data, &count, &err) != ERR_NONE)
		return failed(&err);
	printf("%s/keys.json is sealed: %u keys\n", o->data, count);
	return record_key(o->data, o->run_by, "key.seal", NULL) ? 0 : 1;
}

/* ---- the table ---- */

enum { CREATE, LIST, SHOW, ROTATE, LIMIT, REVOKE, SEAL, WORDS };

static const struct command_word words[WORDS] = {
        [CREATE] = {"create", "NAME --policy FILE", "create a key and print it as shell exports"},
        [LIST] = {"list", NULL, "list ids, names, status and limits; no secrets"},
        [SHOW] = {"show", "NAME", "print a key again as shell exports"},
        [ROTATE] = {"rotate", "NAME", "replace its secret; the old one is refused from now on"},
        [LIMIT] = {"limit", "NAME OPTIONS", "change its limits; 0 removes one"},
        [REVOKE] = {"revoke", "NAME", "revoke it for good"},
        [SEAL] = {"seal", NULL, "accept keys.json as it is, after you edited it by hand"},
};

static int (*const functions[WORDS])(const struct key_options *, const char *, struct arena *) = {
        [CREATE] = key_create, [LIST] = key_list,     [SHOW] = key_show, [ROTATE] = key_rotate,
        [LIMIT] = key_limit,   [REVOKE] = key_revoke, [SEAL] = key_seal,
};

static const struct option_spec options[] = {
        {"--data", OPTION_TEXT, "DIR", "data directory (default: data)", offsetof(struct key_options, data),
         0, 0},
        {"--policy", OPTION_TEXT, "FILE",
         "create: IAM policy document that says what the key may do; - reads standard input",
         offsetof(struct key_options, policy), 0, 0},
        {"--region", OPTION_TEXT, "NAME",
         "create: region of the policy (default: the server's at its last start, else local)",
         offsetof(struct key_options, region), 0, 0},
        {"--max-connections", OPTION_NUMBER, "N",
         "create, limit: connections the key may have open at once (default: no limit)",
         offsetof(struct key_options, connections_max), 0, KEY_LIMIT_MAX},
        {"--max-requests-per-second", OPTION_NUMBER, "N",
         "create, limit: requests the key may make per second (default: no limit)",
         offsetof(struct key_options, requests_max), 0, KEY_LIMIT_MAX},
        {"--help", OPTION_FLAG, NULL, "print this help", offsetof(struct key_options, help), 0, 0},
};

/* The policy is read as whoever runs this; all else is the directory owner's. */
static enum err_code prepare(struct key_options *o, struct arena *a, struct err *err)
{
	o->run_by = geteuid();
	if (o->region != NULL && access_region_check(bytes_of(o->region), "--region", err) != ERR_NONE)
		return err->code;
	if (o->policy != NULL && input_read(o->policy, POLICY_BYTES_MAX, a, &o->policy_text, err) != ERR_NONE)
		return err->code;
	return file_become_owner(o->data, err);
}

static int run_word(struct key_options *o, const char *what, const char *name)
{
	struct arena a;
	struct err   err;
	int          word = 0, status;

	while (word < WORDS && strcmp(what, words[word].name) != 0)
		word++;
	if (word == WORDS)
		return command_word_unknown(&command_key, what);
	if (name == NULL && words[word].arguments != NULL) {
		fprintf(stderr, "gatehouse key %s: missing the name of the key (see gatehouse key --help)\n",
		        what);
		return 2;
	}
	arena_init(&a);
	status = prepare(o, &a, &err) == ERR_NONE ? functions[word](o, name, &a) : failed(&err);
	arena_release(&a);
	return status;
}

static int run(int argc, char **argv)
{
	struct key_options o = {.data = "data", .connections_max = NOT_SAID, .requests_max = NOT_SAID};
	const char        *said[2] = {NULL, NULL};
	int                count = 0;
	struct err         err;

	while (argc > 0 && count < 2 && argv[0][0] != '-') {
		said[count++] = argv[0];
		argc--;
		argv++;
	}
	if (options_parse(OPTIONS(options), &o, argc, argv, &err) != ERR_NONE)
		return failed(&err);
	if (o.help || count == 0) {
		command_help(&command_key);
		return o.help ? 0 : 2;
	}
	return run_word(&o, said[0], said[1]);
}

const struct command command_key = {
        .name = "key",
        .help = "create, list, limit, rotate and revoke access keys",
        .about = "Manages the access keys that sign requests. A change takes effect with the next request;\n"
                 "the server needs no restart, and need not be running.",
        .words = words,
        .word_count = WORDS,
        .options = {options, OPTIONS_COUNT(options)},
        .more = "A request over a key's limit is refused with ThrottlingException, which SDKs retry after a\n"
                "pause. A connection over the limit is closed as well.\n"
                "\n"
                "Exit status 1: it failed; or it was done, and audit.log has no line of it, as the last "
                "line\n"
                "on standard error says.\n"
                "\n"
                "To sign with a key from a shell:\n"
                "  eval \"$(gatehouse key show administrator)\"",
        .run = run,
};
