/* Err: the list of codes, read three ways. */
#include "base/err.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

enum err_code err_set(struct err *err, enum err_code code, const char *format, ...)
{
	va_list args;

	assert(code != ERR_NONE);
	err->code = code;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	return code;
}

int err_status(enum err_code code)
{
	switch (code) {
#define X(id, status, name)                                                                                  \
	case id:                                                                                             \
		return status;
		ERR_CODES(X)
#undef X
	case ERR_NONE:
		break;
	}
	return 200;
}

const char *err_name(enum err_code code)
{
	switch (code) {
#define X(id, status, name)                                                                                  \
	case id:                                                                                             \
		return name;
		ERR_CODES(X)
#undef X
	case ERR_NONE:
		break;
	}
	return "";
}
