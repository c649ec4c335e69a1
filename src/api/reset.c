/* POST /v1/subjects/{id}/reset: a credential was replaced; clears what the policies say that clears. */
#include "service/reset.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"

struct reset_call {
	struct reset_request q;
	struct reset_result  r;
};

enum err_code reset_decode(struct v1_call *c, struct err *err)
{
	struct reset_call *r = arena_zalloc(c->arena, sizeof(*r));
	struct bytes       name;
	struct fields      f;

	c->request = r;
	r->q.rules = v1_rules(c);
	if (v1_subject_param(c, 0, &r->q.subject, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	name = v1_read_name(&f, "reset", false);
	r->q.reset = err->code == ERR_NONE ? rules_reset(r->q.rules, name) : NULL;
	if (err->code == ERR_NONE && r->q.reset == NULL)
		fields_fail(&f, "reset", ERR_INVALID,
		            "unknown reset %.*s; the policies list them under `resets`", BYTES_ARG(name));
	r->q.operator_locks = fields_bool_or(&f, "operator_locks", false);
	v1_resource(c, "reset", name);
	for (uint32_t i = 0; r->q.reset != NULL && i < r->q.reset->locks.count; i++)
		v1_resource(c, "journey", r->q.reset->locks.list[i].journey);
	for (uint32_t i = 0; r->q.reset != NULL && i < r->q.reset->counts.count; i++)
		v1_resource(c, "journey", r->q.reset->counts.list[i].journey);
	return fields_end(&f);
}

enum err_code reset_run(struct v1_call *c, struct err *err)
{
	struct reset_call *r = c->request;

	return subject_reset(&c->ctx, &r->q, &r->r, err);
}

void reset_encode(struct v1_call *c, struct json_writer *w)
{
	const struct reset_call *r = c->request;

	json_begin_object(w);
	v1_write_text(w, BYTES("reset"), r->q.reset->name);
	json_name(w, BYTES("cleared"));
	json_begin_array(w);
	for (uint32_t i = 0; i < r->r.count; i++) {
		json_begin_object(w);
		v1_write_text(w, BYTES("key"), r->r.cleared[i].sk);
		v1_write_i64(w, BYTES("count"), r->r.cleared[i].count);
		json_end_object(w);
	}
	json_end_array(w);
	v1_write_i64(w, BYTES("devices_forgotten"), r->r.devices);
	v1_write_bool(w, BYTES("demand_ended"), r->r.met.demand_ended);
	if (r->r.met.suspension_ended)
		v1_write_bool(w, BYTES("suspension_ended"), true);
	if (r->r.kept > 0)
		v1_write_i64(w, BYTES("operator_locks_kept"), r->r.kept);
	v1_write_bool(w, BYTES("more"), r->r.more);
	json_end_object(w);
}
