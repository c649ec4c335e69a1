/* The last tries of a target:
 *   GET /v1/targets/{name}/tries */
#include "api/v1_name.h"
#include "api/v1_routes.h"
#include "api/v1_write.h"
#include "service/delivery.h"
#include "service/target_try.h"
#include "service/user.h"

struct tries_call {
	struct bytes        name;
	struct target       target;
	struct target_tries tries;
};

/* They do not name users: a key that is denied one sees none. */
enum err_code target_tries_name(struct v1_call *c, struct err *err)
{
	c->all_users = true;
	return v1_name_target(c, err);
}

enum err_code target_tries_decode(struct v1_call *c, struct err *err)
{
	struct tries_call *t = v1_request(c, sizeof(*t));

	return v1_target_name(c, &t->name, err);
}

enum err_code target_tries_run(struct v1_call *c, struct err *err)
{
	struct tries_call *t = c->request;

	if (target_get(&c->ctx, t->name, &t->target, err) != ERR_NONE)
		return err->code;
	return target_tries_get(&c->ctx, &t->target, &t->tries, err);
}

static void write_try(struct v1_call *c, struct json_writer *w, const struct target_try *t)
{
	json_begin_object(w);
	json_member_text(w, BYTES("at"), user_time(c->ctx.arena, t->at_us));
	json_member_text(w, BYTES("outcome"), bytes_of(delivery_end_names[t->end]));
	if (t->status != 0)
		json_member_i64(w, BYTES("status"), t->status);
	json_member_i64(w, BYTES("milliseconds"), t->took_us / 1000);
	json_member_text(w, BYTES("event"), t->event);
	json_member_text(w, BYTES("type"), t->type);
	json_member_text(w, BYTES("error"), t->error);
	json_end_object(w);
}

/* Without those of types that are denied to the key. */
void target_tries_encode(struct v1_call *c, struct json_writer *w)
{
	const struct tries_call *t = c->request;

	json_begin_object(w);
	json_key(w, BYTES("tries"));
	json_begin_array(w);
	for (uint32_t i = 0; i < t->tries.count; i++)
		if (!v1_denied(c, "event", t->tries.list[i].type))
			write_try(c, w, &t->tries.list[i]);
	json_end_array(w);
	json_end_object(w);
}
