/* /v1/subjects/{id}/known-devices: the devices whose tokens open a lane of their own; forgetting one, or all. */
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_write.h"
#include "service/device.h"
#include "service/row.h"

struct devices_call {
	struct bytes       subject, name;
	struct device_list list;
	uint32_t           forgotten;
};

static enum err_code read_path(struct v1_call *c, struct err *err)
{
	struct devices_call *k = v1_request(c, sizeof(*k));

	return v1_subject_param(c, 0, &k->subject, err);
}

/* ---- listing ---- */

enum err_code devices_list_decode(struct v1_call *c, struct err *err)
{
	return read_path(c, err);
}

enum err_code devices_list_run(struct v1_call *c, struct err *err)
{
	struct devices_call *k = c->request;

	return device_list(&c->ctx, k->subject, &k->list, err);
}

static struct item map_of(const struct item *row, const char *name)
{
	const struct value *v = item_get(row, bytes_of(name));

	return v != NULL && v->type == VALUE_M ? v->map : (struct item){NULL, 0};
}

static void write_failures(struct json_writer *w, const struct item *row)
{
	struct item failures = map_of(row, "failures");

	json_name(w, BYTES("failures"));
	json_begin_object(w);
	for (uint32_t i = 0; i < failures.count; i++) {
		json_name(w, failures.members[i].name);
		json_i64(w, value_to_i64(&failures.members[i].value, 0));
	}
	json_end_object(w);
}

/* Which types' successes made it known, and when. */
static void write_after(struct json_writer *w, const struct item *row)
{
	struct item after = map_of(row, "after");

	json_name(w, BYTES("known_after"));
	json_begin_object(w);
	for (uint32_t i = 0; i < after.count; i++)
		v1_write_time(w, after.members[i].name, value_to_i64(&after.members[i].value, 0));
	json_end_object(w);
}

static void write_device(struct json_writer *w, const struct item *row, int64_t now_us)
{
	int64_t ends_s = row_i64(row, "ttl", 0);

	json_begin_object(w);
	json_member_text(w, BYTES("device"), key_split(row_text(row, "SK")).classifier);
	json_member_text(w, BYTES("device_id"), row_text(row, DEVICE_LINK));
	v1_write_time(w, BYTES("issued_at"), row_i64(row, "issued_at", 0));
	v1_write_time(w, BYTES("last_updated"), row_i64(row, "last_updated", 0));
	v1_write_time(w, BYTES("until"), ends_s);
	if (ends_s > 0)
		json_member_i64(w, BYTES("expires_in"), clock_seconds_left(ends_s, now_us));
	write_after(w, row);
	write_failures(w, row);
	json_end_object(w);
}

void devices_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct devices_call *k = c->request;

	json_begin_object(w);
	json_member_text(w, BYTES("subject"), k->subject);
	json_name(w, BYTES("devices"));
	json_begin_array(w);
	for (uint32_t i = 0; i < k->list.count; i++)
		write_device(w, &k->list.rows[i], c->ctx.now_us);
	json_end_array(w);
	json_end_object(w);
}

/* ---- forgetting ---- */

static bool is_name(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] == '#' || (unsigned char)text.data[i] <= ' ')
			return false;
	return text.len == DEVICE_NAME_CHARS;
}

enum err_code device_forget_decode(struct v1_call *c, struct err *err)
{
	struct devices_call *k;

	if (read_path(c, err) != ERR_NONE)
		return err->code;
	k = c->request;
	k->name = c->params[1];
	if (!is_name(k->name))
		return err_field(err, ERR_INVALID, "device",
		                 "device: not the name of a known device; "
		                 "GET /v1/subjects/{id}/known-devices lists them");
	return ERR_NONE;
}

static enum err_code forget(struct v1_call *c, struct err *err)
{
	struct devices_call *k = c->request;

	return device_forget(&c->ctx, k->subject, k->name, &k->forgotten, err);
}

enum err_code device_forget_run(struct v1_call *c, struct err *err)
{
	const struct devices_call *k = c->request;

	if (forget(c, err) != ERR_NONE)
		return err->code;
	if (k->forgotten == 0)
		return err_field(err, ERR_NOT_FOUND, "device",
		                 "device: not a known device of this subject; GET "
		                 "/v1/subjects/{id}/known-devices lists them");
	return ERR_NONE;
}

enum err_code devices_forget_decode(struct v1_call *c, struct err *err)
{
	return read_path(c, err);
}

enum err_code devices_forget_run(struct v1_call *c, struct err *err)
{
	return forget(c, err);
}

static void write_forgotten(struct v1_call *c, struct json_writer *w)
{
	json_begin_object(w);
	json_member_i64(w, BYTES("devices_forgotten"), ((const struct devices_call *)c->request)->forgotten);
	json_end_object(w);
}

void device_forget_encode(struct v1_call *c, struct json_writer *w)
{
	write_forgotten(c, w);
}

void devices_forget_encode(struct v1_call *c, struct json_writer *w)
{
	write_forgotten(c, w);
}
