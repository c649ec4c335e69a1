/* Options: `--name value`, `--name=value` and flags. */
#include "cli/options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "table/schema.h"

enum {
	SHOWN_BYTES_MAX = 80, /* of a value that is wrong */
	HELP_COLUMN = 24,
};

/* ---- one option ---- */

enum option_place option_place(const struct option_spec *spec)
{
	if (spec->help == NULL || spec->kind == OPTION_ACTION)
		return OPTION_IN_ARGUMENTS;
	return spec->kind == OPTION_CONFIG ? OPTION_IN_ENVIRONMENT : OPTION_IN_FILE;
}

const struct option_spec *option_find(struct options o, enum option_place place, struct bytes key)
{
	for (size_t i = 0; i < o.count; i++)
		if (option_place(&o.list[i]) <= place && bytes_is(key, option_key(&o.list[i])))
			return &o.list[i];
	return NULL;
}

/* A pasted key or certificate has line breaks, and no value needs any: what has them is not even shown. */
static bool has_control(const char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7F)
			return true;
	return false;
}

static enum err_code set_flag(bool *to, const char *value, struct err *err)
{
	*to = strcmp(value, "true") == 0;
	if (!*to && strcmp(value, "false") != 0)
		return err_set(err, ERR_INVALID, "must be true or false, not \"%.*s\"", SHOWN_BYTES_MAX,
		               value);
	return ERR_NONE;
}

static enum err_code set_number(const struct option_spec *spec, uint64_t *to, const char *text,
                                struct err *err)
{
	uint64_t value;

	if (!bytes_to_u64(bytes_of(text), spec->max, &value) || value < spec->min)
		return err_set(err, ERR_INVALID, "\"%.*s\" is not a whole number from %llu to %llu",
		               SHOWN_BYTES_MAX, text, (unsigned long long)spec->min,
		               (unsigned long long)spec->max);
	*to = value;
	return ERR_NONE;
}

enum err_code option_set(const struct option_spec *spec, void *to, const char *value, struct err *err)
{
	void *field = (char *)to + spec->at;

	if (*value == '\0')
		return err_set(err, ERR_INVALID, "needs a value: %s",
		               option_is_flag(spec) ? "true or false" : spec->value);
	if (has_control(value))
		return err_set(err, ERR_INVALID,
		               "must not contain a line break or another control character");
	if (option_is_flag(spec))
		return set_flag(field, value, err);
	if (spec->kind == OPTION_NUMBER)
		return set_number(spec, field, value, err);
	if (spec->kind == OPTION_TABLE && !schema_name_is(bytes_of(value)))
		return err_set(
		        err, ERR_INVALID,
		        "\"%.*s\" is not a table name, which has %d to %d letters, digits, '_', '-' and '.'",
		        SHOWN_BYTES_MAX, value, TABLE_NAME_MIN, TABLE_NAME_MAX);
	*(const char **)field = value;
	return ERR_NONE;
}

/* ---- arguments ---- */

const struct option_spec *option_closest(struct options o, enum option_place place, struct bytes key)
{
	const struct option_spec *best = NULL;
	size_t                    least = SIZE_MAX;

	for (size_t i = 0; i < o.count; i++) {
		size_t typos = bytes_typos(key, bytes_of(option_key(&o.list[i])));

		if (o.list[i].help == NULL || option_place(&o.list[i]) > place || typos >= least)
			continue;
		best = &o.list[i];
		least = typos;
	}
	return best;
}

static enum err_code refuse_unknown(struct options o, const char *argument, struct bytes key, struct err *err)
{
	const struct option_spec *meant = option_closest(o, OPTION_IN_ARGUMENTS, key);

	if (meant == NULL)
		return err_set(err, ERR_INVALID, "unknown argument \"%s\" (see --help)", argument);
	return err_set(err, ERR_INVALID, "unknown argument \"%s\"; did you mean %s?", argument, meant->name);
}

static const char *take(struct arguments *rest)
{
	rest->count--;
	return *rest->list++;
}

enum err_code options_next(struct options o, struct arguments *rest, struct option_said *out, struct err *err)
{
	const char  *argument = take(rest);
	const char  *equals = strchr(argument, '=');
	struct bytes name = {argument, equals != NULL ? (size_t)(equals - argument) : strlen(argument)};
	bool         dashed = bytes_starts_with(name, BYTES("--"));
	struct bytes key = dashed ? (struct bytes){name.data + 2, name.len - 2} : name;

	out->spec = dashed ? option_find(o, OPTION_IN_ARGUMENTS, key) : NULL;
	if (out->spec == NULL)
		return refuse_unknown(o, argument, key, err);
	if (equals != NULL)
		out->value = equals + 1;
	else if (option_is_flag(out->spec))
		out->value = "true";
	else
		out->value = rest->count > 0 ? take(rest) : "";
	return ERR_NONE;
}

enum err_code options_parse(struct options o, void *to, int argc, char **argv, struct err *err)
{
	struct arguments   rest = {argc, argv};
	struct option_said said;
	struct err         reason;

	while (rest.count > 0) {
		if (options_next(o, &rest, &said, err) != ERR_NONE)
			return err->code;
		if (option_set(said.spec, to, said.value, &reason) != ERR_NONE)
			return err_set(err, ERR_INVALID, "%s: %s", said.spec->name, reason.text);
	}
	return ERR_NONE;
}

/* A name too long for its column has a line of its own. */
static void option_help(const char *name, const char *help)
{
	if (strlen(name) > HELP_COLUMN)
		printf("  %s\n  %-*s %s\n", name, HELP_COLUMN, "", help);
	else
		printf("  %-*s %s\n", HELP_COLUMN, name, help);
}

void options_help(struct options o)
{
	for (const struct option_spec *spec = o.list; spec < o.list + o.count; spec++) {
		char left[64];

		if (spec->help == NULL)
			continue;
		snprintf(left, sizeof(left), "%s %s", spec->name, spec->value == NULL ? "" : spec->value);
		option_help(left, spec->help);
	}
}

/* ---- the files that options name ---- */

/* Opened without waiting for the writer of a FIFO, which may never come. If it is there, as in <(…), reading waits for it. */
static bool input_waits(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return fd != STDIN_FILENO && (flags & O_NONBLOCK) != 0 &&
	       fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

/* Everything, or one byte more than there may be. False: it cannot be read. */
static bool input_take(int fd, char *text, size_t bytes_max, size_t *len)
{
	ssize_t n;

	*len = 0;
	do {
		n = read(fd, text + *len, bytes_max + 1 - *len);
		*len += n > 0 ? (size_t)n : 0;
	} while ((n > 0 && *len <= bytes_max) ||
	         (n < 0 && (errno == EINTR || (errno == EAGAIN && input_waits(fd)))));
	return n >= 0;
}

static bool is_fifo(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

enum err_code input_read(const char *path, size_t bytes_max, struct arena *a, struct bytes *out,
                         struct err *err)
{
	bool   named = strcmp(path, "-") != 0;
	int    fd = named ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : STDIN_FILENO;
	char  *text = arena_alloc(a, bytes_max + 1);
	size_t len;
	bool   read, nobody;

	if (fd < 0)
		return err_set(err, ERR_INVALID, "%s: %s", path, strerror(errno));
	read = input_take(fd, text, bytes_max, &len);
	nobody = named && len == 0 && is_fifo(fd);
	if (named)
		close(fd);
	if (!read) /* a directory opens, and then cannot be read */
		return err_set(err, ERR_INVALID, "%s: cannot be read; it must be a file", path);
	if (nobody)
		return err_set(err, ERR_INVALID, "%s: is a FIFO that no program writes to", path);
	if (len > bytes_max)
		return err_set(err, ERR_INVALID, "%s: must have at most %zu bytes", path, bytes_max);
	*out = (struct bytes){text, len};
	return ERR_NONE;
}
