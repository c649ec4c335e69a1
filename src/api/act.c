/* Act: which operations administer, and which table. */
#include "api/act.h"

#include "api/request_log.h"
#include "api/v1.h"

/* NULL: it does not administer. */
static const char *act_of(const struct operation *o)
{
	if (o == NULL || o->kind != WRITE)
		return NULL;
	switch (o->form) {
	case FORM_CREATE:
		return "table.create";
	case FORM_ALTER:
	case FORM_TTL:
		return "table.update";
	case FORM_TABLE:
		return "table.delete";
	default:
		return NULL;
	}
}

static struct bytes table_of(const struct call *c)
{
	switch (c->operation->form) {
	case FORM_CREATE:
		return c->request.create.name;
	case FORM_ALTER:
		return c->request.alter.alter.table;
	case FORM_TTL:
		return c->request.ttl.table;
	default:
		return c->request.table;
	}
}

void act_write(struct audit *audit, const struct act_note *n)
{
	const char      *act = act_of(n->call->operation);
	struct log_field fields[5];
	unsigned         count = 0;

	if (act == NULL || (n->outcome != ERR_NONE && n->outcome != ERR_STORAGE))
		return;
	fields[count++] = (struct log_field){.name = "operation", .text = n->call->operation->name};
	fields[count++] = (struct log_field){.name = "table", .text = table_of(n->call)};
	fields[count++] = (struct log_field){.name = "outcome", .text = outcome_name(n->outcome)};
	fields[count++] = (struct log_field){.name = "request_id", .text = n->request_id};
	if (n->key_id.len > 0)
		fields[count++] = (struct log_field){.name = "key_id", .text = n->key_id};
	audit_write(audit, act, fields, count);
}

/* ---- /v1 ---- */

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

/* `changed`: one of several locks; NULL: the path says what was changed. */
static void write_line(struct audit *audit, const struct act_v1_note *n, const struct v1_changed *changed)
{
	const struct v1_call *c = n->call;
	bool             of_subject = bytes_starts_with(bytes_of(c->route->path), BYTES("/v1/subjects/"));
	struct bytes     subject = changed != NULL ? changed->subject : of_subject ? c->params[0] : BYTES("");
	struct log_field fields[8];
	unsigned         count = 0;

	fields[count++] = (struct log_field){.name = "operation", .text = bytes_of(c->route->action)};
	if (tells_nobody(subject))
		fields[count++] = (struct log_field){.name = "subject", .text = subject};
	if (changed != NULL) {
		struct bytes journey = arena_printf(c->arena, "journey/%.*s", BYTES_ARG(changed->journey));

		fields[count++] = (struct log_field){.name = "resource", .text = journey};
		fields[count++] = (struct log_field){.name = "lock", .text = changed->name};
	} else if (c->changed == NULL && c->resource_count > 0) {
		fields[count++] = (struct log_field){.name = "resource", .text = c->resources[0]};
	}
	if (c->changed != NULL)
		fields[count++] = (struct log_field){.name = "locks", .number = c->changed_count};
	fields[count++] = (struct log_field){.name = "outcome", .text = outcome_name(n->outcome)};
	fields[count++] = (struct log_field){.name = "request_id", .text = n->request_id};
	if (n->key_id.len > 0)
		fields[count++] = (struct log_field){.name = "key_id", .text = n->key_id};
	audit_write(audit, "identity.change", fields, count);
}

void act_write_v1(struct audit *audit, const struct act_v1_note *n)
{
	const struct v1_call *c = n->call;

	if (n->outcome != ERR_NONE && n->outcome != ERR_STORAGE)
		return;
	if (c->changed_count == 0)
		write_line(audit, n, NULL);
	for (uint32_t i = 0; i < c->changed_count; i++)
		write_line(audit, n, &c->changed[i]);
}
