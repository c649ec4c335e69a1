/* Options: `--name value`, `--name=value` and flags. */
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

static const struct option_spec *find(const struct option_spec *specs, size_t count, const char *name,
                                      size_t len)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(specs[i].name) == len && strncmp(specs[i].name, name, len) == 0)
			return &specs[i];
	return NULL;
}

static enum err_code set_number(const struct option_spec *spec, uint64_t *to, const char *text,
                                struct err *err)
{
	uint64_t value;

	if (!bytes_to_u64(bytes_of(text), spec->max, &value) || value < spec->min)
		return err_set(err, ERR_INVALID, "%s takes a whole number from %llu to %llu, not \"%s\"",
		               spec->name, (unsigned long long)spec->min, (unsigned long long)spec->max,
		               text);
	*to = value;
	return ERR_NONE;
}

enum err_code options_parse(const struct option_spec *specs, size_t count, void *to, int argc, char **argv,
                            struct err *err)
{
	for (int i = 0; i < argc; i++) {
		const char               *equals = strchr(argv[i], '=');
		size_t                    len = equals != NULL ? (size_t)(equals - argv[i]) : strlen(argv[i]);
		const struct option_spec *spec = find(specs, count, argv[i], len);
		const char               *value;
		void                     *field;

		if (spec == NULL)
			return err_set(err, ERR_INVALID, "unknown argument \"%s\" (--help lists them)",
			               argv[i]);
		field = (char *)to + spec->at;
		if (spec->kind == OPTION_FLAG) {
			if (equals != NULL)
				return err_set(err, ERR_INVALID, "%s takes no value", spec->name);
			*(bool *)field = true;
			continue;
		}
		value = equals != NULL ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
		if (value == NULL || *value == '\0')
			return err_set(err, ERR_INVALID, "%s needs a value: %s", spec->name, spec->value);
		if (spec->kind == OPTION_NUMBER && set_number(spec, field, value, err) != ERR_NONE)
			return err->code;
		if (spec->kind == OPTION_TEXT)
			*(const char **)field = value;
	}
	return ERR_NONE;
}

void options_help(const struct option_spec *specs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char left[64];

		if (specs[i].help == NULL)
			continue;
		snprintf(left, sizeof(left), "%s %s", specs[i].name,
		         specs[i].value == NULL ? "" : specs[i].value);
		printf("  %-24s %s\n", left, specs[i].help);
	}
}
