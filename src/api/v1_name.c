/* Names: see v1_name.h. */
#include "api/v1_name.h"

#include "api/v1_journeys.h"
#include "api/v1_read.h"
#include "service/user.h"

#define X(function, kind, param)                                                                             \
	enum err_code function(struct v1_call *c, struct err *err)                                           \
	{                                                                                                    \
		(void)err;                                                                                   \
		v1_resource(c, kind, c->params[param]);                                                      \
		return ERR_NONE;                                                                             \
	}
V1_NAMED_BY_PATH(X)
#undef X

enum err_code v1_name_everything(struct v1_call *c, struct err *err)
{
	(void)err;
	c->everything = true;
	return ERR_NONE;
}

/* Nearly always it is well-formed, and fields are only for the error. */
enum err_code v1_name_journey(struct v1_call *c, struct err *err)
{
	struct bytes  plain = c->body == NULL ? BYTES("") : json_text(json_get(c->body, BYTES("journey")));
	struct fields f;

	if (rule_name_is(plain)) {
		v1_resource(c, "journey", plain);
		return ERR_NONE;
	}
	fields_init(&f, c->body, err);
	v1_resource(c, "journey", v1_read_name(&f, "journey", false));
	return fields_failed(&f) ? err->code : ERR_NONE;
}

enum err_code v1_name_record(struct v1_call *c, struct err *err)
{
	struct fields f;

	fields_init(&f, c->body, err);
	v1_resource(c, "user", fields_text(&f, "id", USER_ID_BYTES_MAX));
	return fields_failed(&f) ? err->code : ERR_NONE;
}

enum err_code v1_name_new_user(struct v1_call *c, struct err *err)
{
	struct fields f;

	fields_init(&f, c->body, err);
	v1_resource(c, "user", fields_text_or(&f, "id", USER_ID_BYTES_MAX, (struct bytes){NULL, 0}));
	return fields_failed(&f) ? err->code : ERR_NONE;
}

enum err_code v1_name_every_journey(struct v1_call *c, struct err *err)
{
	(void)err;
	v1_every_journey(c, v1_rules(c));
	return ERR_NONE;
}
