/* Settings: a command's options from three places, each over the one before it:
 *
 *   the file     tls-cert: /etc/ssl/gatehouse.pem      a YAML file, --config or GATEHOUSE_CONFIG names it
 *   environment  GATEHOUSE_TLS_CERT=/etc/ssl/…         true or false for a flag
 *   arguments    --tls-cert /etc/ssl/…
 *
 * The option table (options.h) is the only list of names. What is said in a place is checked there, also if
 * another place has the last word. */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include "base/arena.h"
#include "base/buf.h"
#include "cli/options.h"

#define SETTINGS_PREFIX          "GATEHOUSE_"
#define SETTINGS_CONFIG_VARIABLE SETTINGS_PREFIX "CONFIG" /* the environment's --config */

enum { SETTINGS_VARIABLE_BYTES = 64 };

struct setting {
	const char *value;  /* NULL: nobody said it, and the default holds */
	const char *origin; /* "/etc/gatehouse/gatehouse.yaml:7", "GATEHOUSE_TLS_CERT", "--tls-cert" */
};

struct settings {
	struct options  options;
	struct options  others; /* of another command that has the same file and environment: not looked at */
	void           *to;     /* the command's struct, with the defaults in it */
	struct setting *said;   /* one for each of the options */
	struct arena    arena;
};

void settings_init(struct settings *s, struct options options, void *to);

/* What *to points to is gone with it. */
void settings_release(struct settings *s);

/* Fills *to. Arguments come first, so that a flag like --help is there even if a file is then refused.
 * ERR_INVALID names the place (file and line, variable, argument), the value and the reason. */
enum err_code settings_read(struct settings *s, char *const *environment, int argc, char **argv,
                            struct err *err);

/* The settings in force and where each comes from; as YAML, so that it could be the file. */
void settings_print(const struct settings *s, struct buf *out);

/* The same settings as arguments, "--name=value", without a file: at most `count` of them. Returns how many.
 */
size_t settings_arguments(struct settings *s, char **out);

/* "--tls-cert" to "GATEHOUSE_TLS_CERT". */
void settings_variable(const struct option_spec *spec, char out[SETTINGS_VARIABLE_BYTES]);

#endif
