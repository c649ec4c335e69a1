/* Settings: see settings.h. Every place hands names and texts to one function, settings_take. */
#include "cli/settings.h"

#include <assert.h>
#include <stdio.h>

#include "json/write.h"
#include "json/yaml.h"

enum { ORIGIN_COLUMN = 44 };

void settings_init(struct settings *s, struct options options, void *to)
{
	*s = (struct settings){.options = options, .to = to};
	arena_init(&s->arena);
	s->said = arena_zalloc(&s->arena, options.count * sizeof(*s->said));
}

void settings_release(struct settings *s)
{
	arena_release(&s->arena);
}

static struct setting *said(const struct settings *s, const struct option_spec *spec)
{
	return &s->said[spec - s->options.list];
}

/* `where`: what a mistake is told with; it begins with the origin. */
static enum err_code settings_take(struct settings *s, const struct option_spec *spec, struct setting setting,
                                   const char *where, struct err *err)
{
	struct err reason;

	if (option_set(spec, s->to, setting.value, &reason) != ERR_NONE)
		return err_set(err, ERR_INVALID, "%s: %s", where, reason.text);
	*said(s, spec) = setting;
	return ERR_NONE;
}

/* ---- arguments ---- */

static enum err_code take_arguments(struct settings *s, int argc, char **argv, struct err *err)
{
	struct arguments   rest = {argc, argv};
	struct option_said next;

	while (rest.count > 0) {
		if (options_next(s->options, &rest, &next, err) != ERR_NONE)
			return err->code;
		if (settings_take(s, next.spec, (struct setting){next.value, next.spec->name},
		                  next.spec->name, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

/* ---- the environment ---- */

void settings_variable(const struct option_spec *spec, char out[SETTINGS_VARIABLE_BYTES])
{
	int len = snprintf(out, SETTINGS_VARIABLE_BYTES, SETTINGS_PREFIX "%s", option_key(spec));

	assert(len < SETTINGS_VARIABLE_BYTES);
	for (char *c = out; *c != '\0'; c++)
		*c = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
}

/* "TLS_CERT" to "tls-cert", in the arena. */
static struct bytes variable_key(struct settings *s, struct bytes name)
{
	char *key = arena_alloc(&s->arena, name.len + 1);

	for (size_t i = 0; i < name.len; i++) {
		char c = name.data[i];

		key[i] = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
	}
	return (struct bytes){key, name.len};
}

/* Others may have variables with our prefix (a container's links, a test's), but one that is almost a setting
 * was meant to be one. */
static enum err_code refuse_if_close(struct settings *s, const char *name, size_t len, struct bytes key,
                                     struct err *err)
{
	const struct option_spec *meant = option_closest(s->options, OPTION_IN_ENVIRONMENT, key);
	char                      variable[SETTINGS_VARIABLE_BYTES];

	if (meant == NULL)
		return ERR_NONE;
	settings_variable(meant, variable);
	return err_set(err, ERR_INVALID, "%.*s: unknown setting; did you mean %s?", (int)len, name, variable);
}

/* entry: "NAME=VALUE", with our prefix. */
static enum err_code take_variable(struct settings *s, const char *entry, struct err *err)
{
	size_t                    prefix = strlen(SETTINGS_PREFIX), len = strcspn(entry, "=");
	struct bytes              key = variable_key(s, (struct bytes){entry + prefix, len - prefix});
	const struct option_spec *spec = option_find(s->options, OPTION_IN_ENVIRONMENT, key);
	char                     *name = arena_alloc(&s->arena, SETTINGS_VARIABLE_BYTES);

	if (spec == NULL && option_find(s->others, OPTION_IN_ENVIRONMENT, key) != NULL)
		return ERR_NONE;
	if (spec != NULL)
		settings_variable(spec, name);
	if (spec == NULL || entry[len] != '=' || !bytes_is((struct bytes){entry, len}, name))
		return refuse_if_close(s, entry, len, key, err);
	return settings_take(s, spec, (struct setting){entry + len + 1, name}, name, err);
}

static enum err_code take_environment(struct settings *s, char *const *environment, struct err *err)
{
	for (; *environment != NULL; environment++)
		if (bytes_starts_with(bytes_of(*environment), BYTES(SETTINGS_PREFIX)) &&
		    take_variable(s, *environment, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

/* ---- the file ---- */

/* Numbers and booleans become what they would be in an argument; a text with a NUL, which no argument can
 * have, becomes one that is refused like it. NULL: no single value. */
static const char *value_text(struct settings *s, const struct json *node)
{
	switch (node->type) {
	case JSON_NULL:
		return "";
	case JSON_BOOL:
		return json_truth(node) ? "true" : "false";
	case JSON_INT:
		return arena_printf(&s->arena, "%lld", (long long)json_integer(node)).data;
	case JSON_DOUBLE:
		return arena_printf(&s->arena, "%g", json_real(node)).data;
	case JSON_STRING:
		return memchr(json_text(node).data, '\0', json_text(node).len) == NULL ? json_text(node).data
		                                                                       : "\1";
	case JSON_ARRAY:
	case JSON_OBJECT:
		break;
	}
	return NULL;
}

/* A text must be written as one: 0010 would be ten, and a directory of that name another. */
static bool fits(const struct option_spec *spec, const struct json *node)
{
	return !option_is_text(spec) || node->type == JSON_STRING || node->type == JSON_NULL;
}

static enum err_code refuse_key(struct settings *s, const char *origin, struct bytes key, struct err *err)
{
	const struct option_spec *meant = option_closest(s->options, OPTION_IN_FILE, key);
	int len = key.len < SETTINGS_VARIABLE_BYTES ? (int)key.len : SETTINGS_VARIABLE_BYTES;

	if (meant != NULL)
		return err_set(err, ERR_INVALID, "%s: unknown setting \"%.*s\"; did you mean %s?", origin,
		               len, key.data, option_key(meant));
	return err_set(err, ERR_INVALID, "%s: unknown setting \"%.*s\" (see gatehouse serve --help)", origin,
	               len, key.data);
}

static enum err_code take_member(struct settings *s, const char *path, const struct json *node,
                                 struct err *err)
{
	const struct option_spec *spec = option_find(s->options, OPTION_IN_FILE, node->name);
	const char *origin = arena_printf(&s->arena, "%s:%u", path, node->line).data, *where, *text;

	if (spec == NULL && option_find(s->others, OPTION_IN_FILE, node->name) != NULL)
		return ERR_NONE;
	if (spec == NULL)
		return refuse_key(s, origin, node->name, err);
	where = arena_printf(&s->arena, "%s: %s", origin, option_key(spec)).data;
	text = value_text(s, node);
	if (text == NULL || !fits(spec, node))
		return err_set(err, ERR_INVALID, "%s: takes %s, not %s%s", where,
		               option_is_flag(spec) ? "true or false" : spec->value,
		               json_type_name(node->type), text != NULL ? " (quote it if it is text)" : "");
	return settings_take(s, spec, (struct setting){text, origin}, where, err);
}

static enum err_code take_file(struct settings *s, const char *path, struct err *err)
{
	struct bytes text;
	struct json *root;
	struct err   reason;

	if (input_read(path, YAML_BYTES_MAX, &s->arena, &text, err) != ERR_NONE)
		return err->code;
	if (yaml_read(&s->arena, text, &root, &reason) != ERR_NONE)
		return err_set(err, ERR_INVALID, "%s: %s", path, reason.text);
	if (root->type == JSON_NULL)
		return ERR_NONE;
	if (root->type != JSON_OBJECT)
		return err_set(err, ERR_INVALID, "%s:%u: settings must be NAME: VALUE, one per line, not %s",
		               path, root->line, json_type_name(root->type));
	for (const struct json *node = json_children(root); node != NULL; node = node->next)
		if (take_member(s, path, node, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

/* NULL or empty: there is none. */
static const char *config_path(const struct settings *s, char *const *environment)
{
	for (size_t i = 0; i < s->options.count; i++)
		if (s->options.list[i].kind == OPTION_CONFIG && s->said[i].value != NULL)
			return s->said[i].value;
	for (; *environment != NULL; environment++)
		if (bytes_starts_with(bytes_of(*environment), BYTES(SETTINGS_CONFIG_VARIABLE "=")))
			return *environment + sizeof(SETTINGS_CONFIG_VARIABLE);
	return NULL;
}

/* The arguments are read twice: to know which file, and to win over it. */
enum err_code settings_read(struct settings *s, char *const *environment, int argc, char **argv,
                            struct err *err)
{
	const char *path;

	if (take_arguments(s, argc, argv, err) != ERR_NONE)
		return err->code;
	path = config_path(s, environment);
	if (path != NULL && *path != '\0' && take_file(s, path, err) != ERR_NONE)
		return err->code;
	if (take_environment(s, environment, err) != ERR_NONE)
		return err->code;
	return take_arguments(s, argc, argv, err);
}

/* ---- what came of it ---- */

static void put_value(struct json_writer *w, const struct option_spec *spec, const void *to)
{
	const void *field = (const char *)to + spec->at;

	if (spec->kind == OPTION_FLAG)
		json_bool(w, *(const bool *)field);
	else if (spec->kind == OPTION_NUMBER)
		json_i64(w, (int64_t) * (const uint64_t *)field);
	else
		json_string(w, bytes_of(*(const char *const *)field));
}

static bool is_absent(const struct option_spec *spec, const void *to)
{
	return option_is_text(spec) && *(const char *const *)((const char *)to + spec->at) == NULL;
}

static void put_text(struct buf *out, const char *text)
{
	buf_add_bytes(out, bytes_of(text));
}

static void put_setting(const struct settings *s, const struct option_spec *spec, struct buf *out)
{
	struct json_writer w;
	const char        *origin = said(s, spec)->origin;
	size_t             start = out->len;

	json_writer_init(&w, out);
	put_text(out, is_absent(spec, s->to) ? "# " : "");
	put_text(out, option_key(spec));
	put_text(out, ": ");
	if (!is_absent(spec, s->to))
		put_value(&w, spec, s->to);
	while (out->len - start < ORIGIN_COLUMN)
		buf_add_byte(out, ' ');
	put_text(out, " # ");
	put_text(out, origin != NULL ? origin : is_absent(spec, s->to) ? "not set" : "default");
	buf_add_byte(out, '\n');
}

void settings_print(const struct settings *s, struct buf *out)
{
	for (size_t i = 0; i < s->options.count; i++)
		if (option_place(&s->options.list[i]) == OPTION_IN_FILE)
			put_setting(s, &s->options.list[i], out);
}

size_t settings_arguments(struct settings *s, char **out)
{
	size_t count = 0;

	for (size_t i = 0; i < s->options.count; i++) {
		const struct option_spec *spec = &s->options.list[i];

		if (s->said[i].value != NULL && spec->kind != OPTION_CONFIG)
			out[count++] =
			        (char *)arena_printf(&s->arena, "%s=%s", spec->name, s->said[i].value).data;
	}
	return count;
}
