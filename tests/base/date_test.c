/* Times as callers write them: RFC 3339, and what is none. (Other forms: tests/dynamo/sigv4_test.c, tests/service/limit_test.c.) */
#include "test.h"

#include "base/date.h"

TEST(time, of_rfc_3339_is_read_with_any_offset_and_six_digits_of_its_fraction)
{
	static const struct {
		const char *text;
		int64_t     seconds, micros;
	} good[] = {{"1970-01-01T00:00:00Z", 0, 0},
	            {"2026-11-15T22:00:00Z", 1794780000, 0},
	            {"2026-11-15T22:00:00.999999z", 1794780000, 999999},
	            {"2026-11-15T22:00:00.1234567Z", 1794780000, 123456},
	            {"2026-11-15T22:00:00.05-00:00", 1794780000, 50000},
	            {"2026-11-16T00:30:00+02:30", 1794780000, 0},
	            {"2026-11-15T17:00:00-05:00", 1794780000, 0},
	            {"2024-02-29T00:00:00Z", 1709164800, 0},
	            {"2016-12-31T23:59:60Z", 1483228800, 0},
	            {"9999-12-31T23:59:59Z", 253402300799, 0}};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		int64_t micros;

		if (!date_read_rfc3339(bytes_of(good[i].text), &micros) ||
		    micros != good[i].seconds * 1000000 + good[i].micros)
			fail_msg("%s", good[i].text);
	}
}

TEST(time, that_is_none_is_refused)
{
	static const char *const bad[] = {"",
	                                  "2026-11-15",
	                                  "2026-11-15T22:00:00",
	                                  "2026-11-15 22:00:00Z",
	                                  "2026-11-15T22:00:00ZZ",
	                                  "2026-11-15T22:00:00.Z",
	                                  "2026-11-15T22:00Z",
	                                  "2026-13-01T00:00:00Z",
	                                  "2026-00-01T00:00:00Z",
	                                  "2026-02-29T00:00:00Z",
	                                  "2026-02-00T00:00:00Z",
	                                  "2026-11-15T24:00:00Z",
	                                  "2026-11-15T22:60:00Z",
	                                  "2026-11-15T22:00:61Z",
	                                  "2026-11-15T22:00:00+24:00",
	                                  "2026-11-15T22:00:00+0200",
	                                  "2026-11-15T22:00:00+02:60",
	                                  "1969-12-31T23:59:59Z",
	                                  "1970-01-01T00:00:00+00:01",
	                                  "9999-12-31T23:59:59-00:01",
	                                  "-026-11-15T22:00:00Z",
	                                  "10000-01-01T00:00:00Z"};
	int64_t                  micros;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (date_read_rfc3339(bytes_of(bad[i]), &micros))
			fail_msg("%s", bad[i]);
}

TEST(time, of_every_day_is_written_as_it_is_read)
{
	char    text[DATE_ISO_CHARS];
	int64_t micros;

	for (int64_t seconds = 86399; seconds <= 253402300799; seconds += 86400) {
		date_write_iso(seconds, text);
		if (!date_read_iso((struct bytes){text, sizeof(text)}, &micros) ||
		    micros != seconds * 1000000)
			fail_msg("%.*s", (int)sizeof(text), text);
	}
}
