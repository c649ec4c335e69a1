/* Times in requests: RFC 3339, and what is none. */
#include "test.h"

#include "api/v1_read.h"

TEST(time, of_rfc_3339_is_read_with_any_offset_and_without_its_fraction)
{
	static const struct {
		const char *text;
		int64_t     seconds;
	} good[] = {{"1970-01-01T00:00:00Z", 0},
	            {"2026-11-15T22:00:00Z", 1794780000},
	            {"2026-11-15T22:00:00.999999z", 1794780000},
	            {"2026-11-16T00:30:00+02:30", 1794780000},
	            {"2026-11-15T17:00:00-05:00", 1794780000},
	            {"2024-02-29T00:00:00Z", 1709164800},
	            {"2016-12-31T23:59:60Z", 1483228800},
	            {"9999-12-31T23:59:59Z", 253402300799}};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		int64_t seconds;

		if (!time_parse(bytes_of(good[i].text), &seconds) || seconds != good[i].seconds)
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
	int64_t                  seconds;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (time_parse(bytes_of(bad[i]), &seconds))
			fail_msg("%s", bad[i]);
}
