/* The audit log of the identity API: who changed subjects, users or policies. docs/operations.md lists what a line has. */
#include "api/v1.h"

#include "api/meter.h"
#include "api/v1_routes.h"
#include "base/audit.h"
#include "service/identifier.h"

/* Letters, digits, - and _, with a letter among them; or a hash of ours. */
static bool tells_nobody(struct bytes subject)
{
	bool letter = false;

	if (identifier_is_hashed(subject))
		return true;
	for (size_t i = 0; i < subject.len; i++) {
		char c = subject.data[i];
		bool alpha = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

		if (!alpha && !(c >= '0' && c <= '9') && c != '-' && c != '_')
			return false;
		letter = letter || alpha;
	}
	return letter;
}

/* `changed`: one of several locks; NULL: the path says what was changed. The subject is told if it can be no email or
 * address: letters, digits, - and _, or a hash of one. */
static void audit_line(const struct v1_call *c, enum err_code outcome, struct audit *audit,
                       const struct v1_changed *changed)
{
	struct bytes     path = bytes_of(c->route->path);
	bool             of_user = bytes_starts_with(path, BYTES("/v1/users"));
	struct bytes     subject = changed != NULL ? changed->subject : v1_subject_of(c);
	struct log_field fields[8];
	unsigned         count = 0;

	fields[count++] = (struct log_field){.name = "operation", .text = bytes_of(c->route->action)};
	if (tells_nobody(subject))
		fields[count++] = (struct log_field){.name = "subject", .text = subject};
	if (changed != NULL) {
		struct bytes journey =
		        arena_printf(c->ctx.arena, "journey/%.*s", BYTES_ARG(changed->journey));

		fields[count++] = (struct log_field){.name = "resource", .text = journey};
		fields[count++] = (struct log_field){.name = "lock", .text = changed->name};
	} else if (c->changed == NULL && c->resource_count > 0 &&
	           !of_user) { /* of a user it is the subject */
		struct bytes resource = arena_printf(c->ctx.arena, "%s/%.*s", c->resources[0].kind,
		                                     BYTES_ARG(c->resources[0].name));

		fields[count++] = (struct log_field){.name = "resource", .text = resource};
	}
	if (c->changed != NULL)
		fields[count++] = (struct log_field){.name = "locks", .number = c->changed_count};
	fields[count++] = (struct log_field){.name = "outcome",
	                                     .text = meter_outcome_name(meter_route_row(0), outcome)};
	fields[count++] = (struct log_field){.name = "request_id", .text = c->call.request_id};
	if (c->call.key_id.len > 0)
		fields[count++] = (struct log_field){.name = "key_id", .text = c->call.key_id};
	audit_write(audit, "identity.change", fields, count);
}

/* One that changed several locks (POST /v1/unlock) has a line for each, all with one request id. */
void v1_audit(const struct call *call, enum err_code outcome, struct audit *audit)
{
	const struct v1_call *c = (const struct v1_call *)call;

	if (c->route->kind != ADMINISTER || call->kind != WRITE ||
	    c->replayed) /* a dry run changes nothing */
		return;
	if (outcome != ERR_NONE && outcome != ERR_STORAGE)
		return;
	if (c->changed_count == 0)
		audit_line(c, outcome, audit, NULL);
	for (uint32_t i = 0; i < c->changed_count; i++)
		audit_line(c, outcome, audit, &c->changed[i]);
}
