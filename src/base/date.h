/* Date: moments as texts, without the C library's locale and time zone. Moments are seconds since 1970, of the
 * years 1970 to 9999. Readers return false unless the text is exactly one existing moment in that form. Pure. */
#ifndef BASE_DATE_H
#define BASE_DATE_H

#include "base/bytes.h"

enum { DATE_BASIC_CHARS = 16, DATE_ISO_CHARS = 20 };

/* "20150830T123600Z" */
bool date_read_basic(struct bytes text, int64_t *seconds);
void date_write_basic(int64_t seconds, char text[DATE_BASIC_CHARS]);

/* "Sun, 30 Aug 2015 12:36:00 GMT"; the zone may also be UTC, +0000 or -0000. The weekday is not compared. */
bool date_read_http(struct bytes text, int64_t *seconds);

/* "2015-08-30", "2015-08-30T12:36Z", "2015-08-30T12:36:00.5+02:00" */
bool date_read_iso(struct bytes text, int64_t *micros);

/* RFC 3339: the same with all of its parts, a leap second, and a fraction of any length, of which the first six digits count. */
bool date_read_rfc3339(struct bytes text, int64_t *micros);

/* "2015-08-30T12:36:00Z" */
void date_write_iso(int64_t seconds, char text[DATE_ISO_CHARS]);

/* The one to six digits after a point, as millionths. */
bool date_fraction(struct bytes digits, int64_t *micros);

#endif
