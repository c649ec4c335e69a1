/* Dead letters of identity providers:
 *   GET /v1/sync/dead-letters
 *   GET and DELETE /v1/sync/dead-letters/{provider}/{id}, POST /v1/sync/dead-letters/{provider}/{id}/redrive */
#include "api/v1_routes.h"
#include "api/v1_sync.h"
#include "api/v1_users.h"
#include "api/v1_write.h"
#include "service/cursor.h"

/* ---- all ---- */

enum { LETTERS_PAGE_DEFAULT = 100, ERROR_BYTES_MAX = 64 };

struct letters_call {
	struct dead_letters_search q;
	bool                       first; /* page: groups are told with it */
	struct dead_letter_groups  groups;
	struct dead_letters_page   page;
};

enum err_code letters_list_decode(struct v1_call *c, struct err *err)
{
	struct letters_call *l = v1_request(c, sizeof(*l));
	struct bytes         limit, cursor, prefix;
	uint64_t             number = LETTERS_PAGE_DEFAULT;

	if (v1_query(c, "limit", &limit, err) != ERR_NONE ||
	    v1_query(c, "cursor", &cursor, err) != ERR_NONE ||
	    v1_query(c, "error", &l->q.error, err) != ERR_NONE)
		return err->code;
	if (limit.data != NULL && (!bytes_to_u64(limit, DEAD_LETTERS_PAGE_MAX, &number) || number < 1))
		return err_field(err, ERR_INVALID, "limit", "limit: must be from 1 to %d",
		                 DEAD_LETTERS_PAGE_MAX);
	if (l->q.error.len > ERROR_BYTES_MAX)
		return err_field(err, ERR_INVALID, "error", "error: must have at most %d bytes",
		                 ERROR_BYTES_MAX);
	l->q.limit = (uint32_t)number;
	l->first = cursor.data == NULL;
	if (!l->first && !cursor_read(&c->ctx, cursor, &prefix, &l->q.after))
		return err_field(err, ERR_INVALID, "cursor", "cursor: not a cursor returned by this API");
	return ERR_NONE;
}

enum err_code letters_list_run(struct v1_call *c, struct err *err)
{
	struct letters_call *l = c->request;
	struct user_filter   users = v1_users_denied(c);

	if (l->first && dead_letters_group(&c->ctx, &users, &l->groups, err) != ERR_NONE)
		return err->code;
	return dead_letters_find(&c->ctx, &l->q, &l->page, err);
}

static void write_groups(struct json_writer *w, const struct dead_letter_groups *g)
{
	json_member_i64(w, BYTES("count"), (int64_t)g->letters);
	json_name(w, BYTES("groups"));
	json_begin_array(w);
	for (uint32_t i = 0; i < g->count; i++) {
		json_begin_object(w);
		json_member_text(w, BYTES("error"), g->list[i].error);
		json_member_i64(w, BYTES("count"), (int64_t)g->list[i].count);
		json_member_text(w, BYTES("oldest"), g->list[i].oldest);
		json_end_object(w);
	}
	json_end_array(w);
}

/* Without what the provider said of the person: that is for those who ask for the letter. */
static void write_letter(struct json_writer *w, const struct dead_letter *l)
{
	json_member_text(w, BYTES("provider"), l->record.provider);
	json_member_text(w, BYTES("id"), l->record.id);
	json_member_text(w, BYTES("error"), l->error);
	json_member_text(w, BYTES("detail"), l->detail);
	json_member_i64(w, BYTES("failures"), l->failures);
	json_member_text(w, BYTES("firstAt"), l->first_at);
	json_member_text(w, BYTES("lastAt"), l->last_at);
}

/* Letters of users that the key may not see are left out, and of those that it is denied the counts, too. */
void letters_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct letters_call *l = c->request;

	json_begin_object(w);
	if (l->first)
		write_groups(w, &l->groups);
	json_name(w, BYTES("deadLetters"));
	json_begin_array(w);
	for (uint32_t i = 0; i < l->page.count; i++) {
		if (!v1_allowed(c, "user", l->page.list[i].record.id))
			continue;
		json_begin_object(w);
		write_letter(w, &l->page.list[i]);
		json_end_object(w);
	}
	json_end_array(w);
	json_member_bool(w, BYTES("more"), l->page.more);
	if (l->page.more)
		json_member_text(w, BYTES("cursor"), cursor_write(&c->ctx, BYTES("sync"), l->page.last));
	json_end_object(w);
}

/* ---- one ---- */

struct letter_call {
	struct dead_letter_key key;
	struct dead_letter     letter;
	struct sync_delivery   r;
};

static enum err_code letter_decode(struct v1_call *c, struct err *err)
{
	struct letter_call *l = v1_request(c, sizeof(*l));

	l->key = (struct dead_letter_key){c->params[0], c->params[1]};
	if (!sync_provider_is(l->key.provider))
		return err_field(err, ERR_INVALID, "provider",
		                 "provider: must have 1 to %d letters, digits, '-', '_' and '.'",
		                 SYNC_PROVIDER_BYTES_MAX);
	if (!user_id_is(l->key.id))
		return err_field(err, ERR_INVALID, "id", "id: not the id of a user");
	c->about = l->key.id;
	return ERR_NONE;
}

enum err_code letter_get_decode(struct v1_call *c, struct err *err)
{
	return letter_decode(c, err);
}

enum err_code letter_get_run(struct v1_call *c, struct err *err)
{
	struct letter_call *l = c->request;

	return dead_letter_get(&c->ctx, &l->key, &l->letter, err);
}

static void write_field(struct json_writer *w, struct bytes name, const struct user_text *t)
{
	if (!t->given)
		return;
	json_name(w, name);
	if (t->text.len > 0)
		json_string(w, t->text);
	else
		json_null(w);
}

static void write_record(struct json_writer *w, const struct sync_record *q)
{
	json_begin_object(w);
	json_member_text(w, BYTES("username"), q->name);
	json_member_text(w, BYTES("email"), q->email);
	json_member_bool(w, BYTES("emailVerified"), q->email_verified);
	write_field(w, BYTES("firstName"), &q->fields.first_name);
	write_field(w, BYTES("lastName"), &q->fields.last_name);
	write_field(w, BYTES("phone"), &q->fields.phone);
	if (q->fields.attributes.count > 0) {
		v1_write_attributes(w, &q->fields.attributes);
	} else if (q->fields.attributes_go) {
		json_name(w, BYTES("attributes"));
		json_null(w);
	}
	if (q->has_sequence)
		json_member_i64(w, BYTES("sequence"), q->sequence);
	if (q->has_time)
		v1_write_time(w, BYTES("updatedAt"), q->time_ms / 1000);
	json_end_object(w);
}

void letter_get_encode(struct v1_call *c, struct json_writer *w)
{
	const struct dead_letter *l = &((const struct letter_call *)c->request)->letter;

	json_begin_object(w);
	write_letter(w, l);
	json_name(w, BYTES("record"));
	write_record(w, &l->record);
	json_end_object(w);
}

enum err_code letter_delete_decode(struct v1_call *c, struct err *err)
{
	return letter_decode(c, err);
}

enum err_code letter_delete_run(struct v1_call *c, struct err *err)
{
	return dead_letter_delete(&c->ctx, &((struct letter_call *)c->request)->key, err);
}

void letter_delete_encode(struct v1_call *c, struct json_writer *w)
{
	(void)c;
	json_begin_object(w);
	json_member_bool(w, BYTES("deleted"), true);
	json_end_object(w);
}

enum err_code letter_redrive_decode(struct v1_call *c, struct err *err)
{
	return letter_decode(c, err);
}

enum err_code letter_redrive_run(struct v1_call *c, struct err *err)
{
	struct letter_call *l = c->request;

	return dead_letter_redrive(&c->ctx, &l->key, &l->r, err);
}

void letter_redrive_encode(struct v1_call *c, struct json_writer *w)
{
	v1_write_delivery(w, &((const struct letter_call *)c->request)->r);
}

void letter_redrive_committed(struct v1_call *c)
{
	sync_count(c->ctx.services, ((const struct letter_call *)c->request)->r.result.outcome);
}
