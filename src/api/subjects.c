/* Subjects: reading what is known of one. */
#include "api/v1_routes.h"

/* What an email address, a phone number, an IP address or a device is called here. */
enum err_code subject_lookup_decode(struct v1_call *c, struct err *err)
{
	struct fields f;
	struct bytes *id = arena_zalloc(c->arena, sizeof(*id));

	fields_init(&f, c->body, err);
	*id = identifier_read(&c->services->identifiers, c->arena, &f, "subject", fields_get(&f, "subject"));
	c->result = id;
	return fields_end(&f);
}

enum err_code subject_lookup_run(struct v1_call *c, struct table *t, struct err *err)
{
	(void)c;
	(void)t;
	(void)err;
	return ERR_NONE;
}

void subject_lookup_encode(struct v1_call *c, struct json_writer *w)
{
	json_begin_object(w);
	json_name(w, BYTES("subject"));
	json_string(w, *(struct bytes *)c->result);
	json_end_object(w);
}
