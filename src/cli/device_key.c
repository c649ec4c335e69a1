/* Device key: `gatehouse device-key rotate`: a new key that signs the tokens of known devices (server/device_key.h). A server
 * that runs looks at the file every second. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/record.h"
#include "server/device_key.h"

struct device_key_options {
	const char *data;
	bool        drop_oldest;
	bool        help;
};

static int failed(const struct err *err)
{
	fprintf(stderr, "gatehouse device-key: %s\n", err->text);
	return err->code == ERR_INVALID ? 2 : 1;
}

static int rotate(const struct device_key_options *o)
{
	uid_t             run_by = getuid();
	struct device_key made;
	struct err        err;
	char              id[9];

	if (file_become_owner(o->data, &err) != ERR_NONE ||
	    device_keys_rotate(o->data, o->drop_oldest, &made, &err) != ERR_NONE)
		return failed(&err);
	snprintf(id, sizeof(id), "%08x", (unsigned)made.id);
	printf("key %s signs device tokens from now on; the older ones still verify theirs\n", id);
	return record_device_key(o->data, run_by, id) ? 0 : 1;
}

static const struct command_word words[] = {
        {"rotate", NULL, "create a new signing key; older keys still verify their tokens"},
};

static const struct option_spec options[] = {
        {"--data", OPTION_TEXT, "DIR", "data directory (default: data)",
         offsetof(struct device_key_options, data), 0, 0},
        {"--drop-oldest", OPTION_FLAG, NULL,
         "with 32 keys already: drop the oldest, whose tokens are then unknown",
         offsetof(struct device_key_options, drop_oldest), 0, 0},
        {"--help", OPTION_FLAG, NULL, "print this help", offsetof(struct device_key_options, help), 0, 0},
};

static int run(int argc, char **argv)
{
	struct device_key_options o = {.data = "data"};
	const char               *word = argc > 0 && argv[0][0] != '-' ? argv[0] : NULL;
	struct err                err;

	if (options_parse(OPTIONS(options), &o, argc - (word != NULL), argv + (word != NULL), &err) !=
	    ERR_NONE)
		return failed(&err);
	if (o.help || word == NULL) {
		command_help(&command_device_key);
		return o.help ? 0 : 2;
	}
	if (strcmp(word, words[0].name) != 0)
		return command_word_unknown(&command_device_key, word);
	return rotate(&o);
}

const struct command command_device_key = {
        .name = "device-key",
        .help = "rotate the key that signs device tokens",
        .about = "DIR/devices.key holds the keys that sign the tokens of known devices. A running server\n"
                 "picks up a new key within seconds.",
        .words = words,
        .word_count = 1,
        .options = {options, OPTIONS_COUNT(options)},
        .run = run,
};
