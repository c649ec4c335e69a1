/* Error: see error.h; and the names of codes and verdicts. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum gatehouse_code error_set(struct gatehouse_error *error, enum gatehouse_code code, const char *format,
                              ...)
{
	va_list arguments;

	memset(error, 0, sizeof(*error));
	error->code = code;
	va_start(arguments, format);
	vsnprintf(error->text, sizeof(error->text), format, arguments);
	va_end(arguments);
	return code;
}

const char *gatehouse_code_name(enum gatehouse_code code)
{
	switch (code) {
	case GATEHOUSE_OK:
		return "ok";
	case GATEHOUSE_INVALID:
		return "invalid";
	case GATEHOUSE_NO_MEMORY:
		return "out of memory";
	case GATEHOUSE_UNREACHABLE:
		return "unreachable";
	case GATEHOUSE_TIMEOUT:
		return "timeout";
	case GATEHOUSE_PROTOCOL:
		return "protocol";
	case GATEHOUSE_REFUSED:
		return "refused";
	case GATEHOUSE_UNAVAILABLE:
		return "unavailable";
	}
	return "?";
}

const char *gatehouse_verdict_name(enum gatehouse_verdict verdict)
{
	switch (verdict) {
	case GATEHOUSE_UNKNOWN:
		return "unknown";
	case GATEHOUSE_ALLOW:
		return "allow";
	case GATEHOUSE_LOCKED:
		return "locked";
	case GATEHOUSE_LOCKED_PERMANENT:
		return "locked_permanent";
	case GATEHOUSE_SIGNED_OUT:
		return "signed_out";
	case GATEHOUSE_BLOCKED:
		return "blocked";
	case GATEHOUSE_LIMITED:
		return "limited";
	case GATEHOUSE_CHALLENGE:
		return "challenge";
	}
	return "?";
}

const char *gatehouse_version(void)
{
	return GATEHOUSE_VERSION;
}
