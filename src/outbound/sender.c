/* Sender: see sender.h. */
#include "outbound/sender.h"

#include <stdarg.h>
#include <stdio.h>

void sender_result(struct sender_event *e, enum sender_end end, int status, const char *format, ...)
{
	va_list args;

	e->end = end;
	e->status = status;
	e->wait_s = 0;
	e->error[0] = '\0';
	if (format == NULL)
		return;
	va_start(args, format);
	vsnprintf(e->error, sizeof(e->error), format, args);
	va_end(args);
}
