/* /v1/subjects/…: reading what is known of one: everything, sums of counts, and why it is locked. */
#include "service/subject.h"

#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "service/lock.h"
#include "service/row.h"

struct subject_call {
	struct bytes   id, prefix;
	struct subject s;
};

static enum err_code read_call(struct v1_call *c, struct err *err)
{
	struct subject_call *k = arena_zalloc(c->arena, sizeof(*k));

	c->request = k;
	if (v1_subject_param(c, 0, &k->id, err) != ERR_NONE)
		return err->code;
	k->prefix = v1_query(c, "prefix", err);
	if (err->code == ERR_NONE && k->prefix.len > KEY_RANGE_BYTES_MAX)
		err_field(err, ERR_INVALID, "prefix", "?prefix: must have at most %d bytes",
		          KEY_RANGE_BYTES_MAX);
	v1_any_row(c, v1_rules(c), k->prefix);
	return err->code;
}

static enum err_code read_rows(struct v1_call *c, struct err *err)
{
	struct subject_call *k = c->request;

	if (subject_read(&c->ctx, k->id, k->prefix, &k->s, err) != ERR_NONE)
		return err->code;
	v1_hide_rows(c, &k->s);
	return ERR_NONE;
}

/* ---- lookup: what an email address, a phone number, an IP address or a device is called here ---- */

enum err_code subject_lookup_decode(struct v1_call *c, struct err *err)
{
	struct fields f;
	struct bytes *id = arena_zalloc(c->arena, sizeof(*id));

	fields_init(&f, c->body, err);
	*id = identifier_read(&c->services->identifiers, c->arena, &f, "subject", fields_get(&f, "subject"));
	c->result = id;
	return fields_end(&f);
}

enum err_code subject_lookup_run(struct v1_call *c, struct err *err)
{
	(void)c;
	(void)err;
	return ERR_NONE;
}

void subject_lookup_encode(struct v1_call *c, struct json_writer *w)
{
	json_begin_object(w);
	v1_write_text(w, BYTES("subject"), *(struct bytes *)c->result);
	json_end_object(w);
}

/* ---- everything ---- */

enum err_code subject_get_decode(struct v1_call *c, struct err *err)
{
	return read_call(c, err);
}

enum err_code subject_get_run(struct v1_call *c, struct err *err)
{
	return read_rows(c, err);
}

static void write_attribute(struct json_writer *w, const char *as, const struct item *item, const char *name)
{
	v1_write_text(w, bytes_of(as), row_text(item, name));
}

/* What one waits for the end of. */
static bool row_bars(const struct subject_row *row)
{
	return row->kind == ROW_LOCK || row->kind == ROW_STATE;
}

/* What counts, locks, states and devices have in common. */
static void write_row(struct json_writer *w, const struct subject_row *row, int64_t now_us)
{
	const struct item *item = &row->item;
	int64_t            ends_s = row_i64(item, "ttl", 0);

	v1_write_text(w, BYTES("key"), row->sk);
	v1_write_text(w, BYTES("journey"), row->key.journey);
	v1_write_text(w, BYTES("type"), row->key.type);
	v1_write_text(w, BYTES("name"), row->key.classifier);
	v1_write_text(w, BYTES("qualifier"), row->key.qualifier);
	if (row->kind == ROW_COUNT)
		v1_write_i64(w, BYTES("count"), row_i64(item, "count", 0));
	if (row_i64(item, ROW_LOCKED_COUNT, 0) > 0)
		v1_write_i64(w, BYTES(ROW_LOCKED_COUNT), row_i64(item, ROW_LOCKED_COUNT, 0));
	write_attribute(w, "kind", item, "block_type");
	write_attribute(w, "state", item, "intervention_state");
	write_attribute(w, "method_type", item, "mfa_method_type");
	write_attribute(w, "notification_type", item, "notification_type");
	write_attribute(w, "cause", item, "cause");
	if (row->kind == ROW_LOCK && lock_is_persons(item))
		v1_write_text(w, BYTES("set_by"), lock_set_by(item));
	write_attribute(w, "reason", item, "reason");
	v1_write_time(w, BYTES("applied_at"), row_i64(item, "applied_at", 0));
	v1_write_time(w, BYTES("last_updated"), row_i64(item, "last_updated", 0));
	v1_write_time(w, BYTES("until"), ends_s);
	if (ends_s > 0)
		v1_write_i64(w, row_bars(row) ? BYTES("retry_after") : BYTES("expires_in"),
		             verdict_retry_after(ends_s, now_us));
}

static void write_kind(struct v1_call *c, struct json_writer *w, const char *name, enum subject_row_kind kind)
{
	const struct subject_call *k = c->request;

	json_name(w, bytes_of(name));
	json_begin_array(w);
	for (uint32_t i = 0; i < k->s.count; i++) {
		if (k->s.rows[i].kind != kind)
			continue;
		json_begin_object(w);
		write_row(w, &k->s.rows[i], c->ctx.now_us);
		json_end_object(w);
	}
	json_end_array(w);
}

void subject_get_encode(struct v1_call *c, struct json_writer *w)
{
	const struct subject_call *k = c->request;

	json_begin_object(w);
	v1_write_text(w, BYTES("subject"), k->id);
	write_kind(c, w, "counts", ROW_COUNT);
	write_kind(c, w, "locks", ROW_LOCK);
	write_kind(c, w, "states", ROW_STATE);
	write_kind(c, w, "devices", ROW_DEVICE);
	if (k->s.more)
		v1_write_bool(w, BYTES("more"), true);
	json_end_object(w);
}

/* ---- sums ---- */

enum err_code subject_sum_decode(struct v1_call *c, struct err *err)
{
	struct subject_call *k;

	if (read_call(c, err) != ERR_NONE)
		return err->code;
	k = c->request;
	if (k->prefix.len == 0)
		return err_field(err, ERR_INVALID, "prefix",
		                 "?prefix: missing; send the beginning of the keys to add up, like "
		                 "SIGN_IN%%23ERROR_COUNT%%23MFA_CODE_ENTRY");
	return ERR_NONE;
}

enum err_code subject_sum_run(struct v1_call *c, struct err *err)
{
	return read_rows(c, err);
}

void subject_sum_encode(struct v1_call *c, struct json_writer *w)
{
	const struct subject_call *k = c->request;

	json_begin_object(w);
	v1_write_text(w, BYTES("subject"), k->id);
	v1_write_text(w, BYTES("prefix"), k->prefix);
	v1_write_i64(w, BYTES("sum"), subject_counts_sum(&k->s));
	v1_write_i64(w, BYTES("rows"), k->s.count);
	if (k->s.more)
		v1_write_bool(w, BYTES("more"), true);
	json_end_object(w);
}
