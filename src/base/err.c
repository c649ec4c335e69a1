/* Err: the list of codes, read as a table. */
#include "base/err.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#undef err_set /* what the analyzer takes for them (err.h) */
#undef err_field

struct code_row {
	int         status, v1_status;
	const char *name, *v1_title, *v1_type;
};

static const struct code_row codes[] = {[ERR_NONE] = {200, 200, "", "OK", ""},
#define X(id, status, name, v1_status, v1_title, v1_type)                                                    \
	[id] = {status, v1_status, name, v1_title, ERR_TYPE_PREFIX v1_type},
                                        ERR_CODES(X)
#undef X
};

enum err_code err_set(struct err *err, enum err_code code, const char *format, ...)
{
	va_list args;

	assert(code != ERR_NONE);
	err->code = code;
	err->field[0] = '\0';
	err->after[0] = '\0';
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	return code;
}

enum err_code err_field(struct err *err, enum err_code code, const char *field, const char *format, ...)
{
	va_list args;

	assert(code != ERR_NONE);
	err->code = code;
	snprintf(err->field, sizeof(err->field), "%s", field);
	err->after[0] = '\0';
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	return code;
}

int err_status(enum err_code code)
{
	return codes[code].status;
}

const char *err_name(enum err_code code)
{
	return codes[code].name;
}

int err_v1_status(enum err_code code)
{
	return codes[code].v1_status;
}

const char *err_v1_title(enum err_code code)
{
	return codes[code].v1_title;
}

const char *err_v1_type(enum err_code code)
{
	return codes[code].v1_type;
}
