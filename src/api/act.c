/* Act: which operations administer, and which table. */
#include "api/act.h"

#include "api/request_log.h"

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
