/* SigV4 dates: "20150830T123600Z", the form that is signed, and the form of HTTP's Date header. */
#ifndef DYNAMO_SIGV4_DATE_H
#define DYNAMO_SIGV4_DATE_H

#include "base/bytes.h"

enum {
	SIGV4_DATE_CHARS = 16, /* YYYYMMDDTHHMMSSZ */
	SIGV4_DAY_CHARS = 8,   /* its first part, as in a credential's scope */
};

/* Seconds since 1970; false unless it is exactly one existing second of the years 1970 to 9999. */
bool sigv4_date_read(struct bytes text, int64_t *seconds);

/* "Sun, 30 Aug 2015 12:36:00 GMT"; the zone may also be UTC, +0000 or -0000. The weekday is not compared. */
bool sigv4_date_read_http(struct bytes text, int64_t *seconds);

void sigv4_date_write(int64_t seconds, char text[SIGV4_DATE_CHARS]);

#endif
