/* What outbound/ reads of others: AWS's shared files, the names of errors, when credentials end. Settings that are found must lie in the text,
 * reading a text twice must add nothing, and a moment that was read is the one that is written. */
#include <stdlib.h>

#include "base/date.h"
#include "outbound/aws.h"
#include "outbound/setup.h"

static void within(struct bytes part, struct bytes whole)
{
	if (part.len > 0 && (part.data < whole.data || part.data + part.len > whole.data + whole.len))
		abort();
}

static void read_profile(struct bytes text, bool config)
{
	struct profile p = {0};
	uint32_t       count;

	profile_add(&p, text, BYTES("work"), config);
	count = p.count;
	for (uint32_t i = 0; i < count; i++) {
		within(p.settings[i].name, text);
		within(p.settings[i].value, text);
	}
	profile_add(&p, text, BYTES("work"), config);
	if (count < PROFILE_SETTINGS_MAX && p.count != count)
		abort();
	within(profile_service_url(text, BYTES("work"), "dynamodb"), text);
}

static void read_error(struct bytes text)
{
	struct outbound_response r = {.status = 400, .body = text};
	struct arena             a;

	arena_init(&a);
	aws_error_type(&r, &a);
	r.headers[0] = (struct outbound_header){BYTES("x-amzn-errortype"), text};
	r.header_count = 1;
	if (aws_error_type(&r, &a).len > AWS_TYPE_BYTES_MAX)
		abort();
	arena_release(&a);
}

static void read_time(struct bytes text)
{
	char    iso[DATE_ISO_CHARS];
	int64_t micros, again;

	if (!date_read_rfc3339(text, &micros))
		return;
	date_write_iso(micros / 1000000, iso);
	if (!date_read_rfc3339((struct bytes){iso, sizeof(iso)}, &again) ||
	    again != micros / 1000000 * 1000000)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes text = {(const char *)data, size};

	read_profile(text, false);
	read_profile(text, true);
	read_error(text);
	read_time(text);
	return 0;
}
