/* Tables: see tables.h. */
#include "remote/tables.h"

#include "item/messages.h"
#include "remote/schemas.h"

enum { LIST_PAGES_MAX = 1000, WAIT_FIRST_US = 20 * 1000, WAIT_MOST_US = 1000 * 1000 };

/* ---- describing ---- */

/* The name without the prefix, in the arena. */
static void name_strip(const struct remote_session *s, struct table_schema *schema)
{
	struct bytes prefix = bytes_of(s->remote->prefix);

	if (bytes_starts_with(schema->name, prefix))
		schema->name = (struct bytes){schema->name.data + prefix.len, schema->name.len - prefix.len};
}

static enum err_code named_send(struct remote_session *s, struct arena *a, const char *operation,
                                struct bytes table, const struct json **answer, struct err *err)
{
	struct ask q;

	client_table_name(ask_init(&q, operation, a, true), remote_name(s, a, table));
	return ask_send(s, &q, answer, err);
}

enum err_code remote_table_once(struct remote_session *s, struct arena *a, struct bytes table,
                                struct client_table *out, struct err *err)
{
	const struct json *answer;
	enum err_code      rc;

	rc = named_send(s, a, "DescribeTable", table, &answer, err);
	if (rc != ERR_NONE)
		return rc == ERR_NO_RESOURCE
		               ? err_set(err, ERR_NO_RESOURCE, MSG_NO_TABLE_NAMED, BYTES_ARG(table))
		               : rc;
	rc = ask_judge(s, "DescribeTable", client_read_table(a, answer, remote_name(s, a, table), out, err),
	               err);
	if (rc != ERR_NONE)
		return rc;
	name_strip(s, &out->description.schema);
	return ERR_NONE;
}

/* Asks again while `goes_on` says so. */
static enum err_code wait_while(struct remote_session *s, struct arena *a, struct bytes table,
                                bool (*goes_on)(const struct client_table *), struct client_table *out,
                                struct err *err)
{
	struct clock *clock = s->remote->wire_clock;
	int64_t       deadline = clock_steady_us(clock) + (int64_t)REMOTE_TABLE_S * 1000000;
	int64_t       pause = WAIT_FIRST_US;

	for (;;) {
		enum err_code rc = remote_table_once(s, a, table, out, err);

		if (rc != ERR_NONE)
			return rc;
		if (!goes_on(out))
			return ERR_NONE;
		if (clock_steady_us(clock) + pause > deadline)
			return err_set(err, ERR_OVERLOADED,
			               "the table \"%.*s\" is still %.*s after %d s; try again later",
			               BYTES_ARG(table), BYTES_ARG(out->status), REMOTE_TABLE_S);
		remote_sleep(pause);
		pause = pause * 2 < WAIT_MOST_US ? pause * 2 : WAIT_MOST_US;
	}
}

static bool is_being_made(const struct client_table *t)
{
	return bytes_is(t->status, "CREATING");
}

static bool is_there(const struct client_table *t)
{
	(void)t;
	return true;
}

enum err_code remote_table_recovery(struct remote_session *s, struct arena *a, struct bytes name, bool *on,
                                    struct err *err)
{
	const struct json *answer;

	*on = false;
	if (named_send(s, a, "DescribeContinuousBackups", name, &answer, err) != ERR_NONE)
		return err->code;
	return ask_judge(s, "DescribeContinuousBackups", client_read_recovery(answer, on, err), err);
}

enum err_code remote_table_ttl(struct remote_session *s, struct arena *a, struct bytes table,
                               struct bytes *attribute, struct err *err)
{
	const struct json *answer;
	enum err_code      rc = named_send(s, a, "DescribeTimeToLive", table, &answer, err);

	if (rc != ERR_NONE)
		return rc;
	return ask_judge(s, "DescribeTimeToLive", client_read_ttl(a, answer, attribute, err), err);
}

enum err_code remote_table_schema(struct remote_session *s, struct arena *a, struct bytes name,
                                  struct table_schema *out, struct err *err)
{
	struct client_table table;

	if (wait_while(s, a, name, is_being_made, &table, err) != ERR_NONE)
		return err->code;
	*out = table.description.schema;
	return remote_table_ttl(s, a, name, &out->ttl_attribute, err);
}

enum err_code remote_table_look(struct table *t, struct arena *a, struct bytes name, struct table_schema *r,
                                struct err *err)
{
	struct remote_session *s = session_of(t);

	schemas_drop(s->remote, name);
	return schemas_get(s, a, name, r, err);
}

enum err_code remote_table_tags(struct remote_session *s, struct arena *a, struct bytes arn,
                                struct table_schema *out, struct err *err)
{
	const struct json *answer;
	struct ask         q;

	client_arn(ask_init(&q, "ListTagsOfResource", a, true), arn);
	if (ask_send(s, &q, &answer, err) != ERR_NONE)
		return err->code;
	return ask_judge(s, q.operation, client_read_tags(a, answer, out, err), err);
}

static enum err_code describe(struct remote_session *s, struct arena *a, struct bytes name,
                              struct table_description *r, struct err *err)
{
	struct client_table table;

	if (wait_while(s, a, name, is_being_made, &table, err) != ERR_NONE)
		return err->code;
	schemas_drop(s->remote, name); /* that there is none, at least, is wrong */
	*r = table.description;
	if (remote_table_ttl(s, a, name, &r->schema.ttl_attribute, err) != ERR_NONE)
		return err->code;
	return remote_table_tags(s, a, table.arn, &r->schema, err);
}

enum err_code remote_table_describe(struct table *t, struct arena *a, struct bytes name,
                                    struct table_description *r, struct err *err)
{
	*r = (struct table_description){0};
	return describe(session_of(t), a, name, r, err);
}

/* ---- making and removing ---- */

enum err_code remote_table_create(struct table *t, struct arena *a, const struct table_schema *q,
                                  struct table_description *r, struct err *err)
{
	struct remote_session *s = session_of(t);
	struct table_schema    named = *q;
	struct client_table    made;
	const struct json     *answer;
	enum err_code          rc;
	struct ask             ask;
	struct err             waiting;

	*r = (struct table_description){0};
	named.name = remote_name(s, a, q->name);
	schemas_drop(s->remote, q->name);
	client_create_table(ask_init(&ask, "CreateTable", a, false), &named, (struct bytes){NULL, 0});
	rc = ask_send(s, &ask, &answer, err);
	if (rc == ERR_RESOURCE_IN_USE) { /* whoever made it: who asks for it wants to use it */
		wait_while(s, a, q->name, is_being_made, &made, &waiting);
		schemas_drop(s->remote, q->name);
		return err_set(err, rc, MSG_TABLE_EXISTS, BYTES_ARG(q->name));
	}
	return rc == ERR_NONE ? describe(s, a, q->name, r, err) : rc;
}

enum err_code remote_table_remove(struct table *t, struct arena *a, struct bytes name,
                                  struct table_description *r, struct err *err)
{
	struct remote_session *s = session_of(t);
	const struct json     *answer;
	struct client_table    last, gone;
	struct err             end;

	*r = (struct table_description){0};
	schemas_drop(s->remote, name);
	if (named_send(s, a, "DeleteTable", name, &answer, err) != ERR_NONE)
		return err->code == ERR_NO_RESOURCE
		               ? err_set(err, ERR_NO_RESOURCE, MSG_NO_TABLE_NAMED, BYTES_ARG(name))
		               : err->code;
	if (ask_judge(s, "DeleteTable", client_read_table(a, answer, remote_name(s, a, name), &last, err),
	              err) != ERR_NONE)
		return err->code;
	name_strip(s, &last.description.schema);
	if (wait_while(s, a, name, is_there, &gone, &end) != ERR_NO_RESOURCE) {
		*err = end;
		return err->code;
	}
	*r = last.description;
	r->deleting = true;
	return ERR_NONE;
}

/* ---- listing ---- */

/* Those with our prefix. Names are in order, so that they stand together. */
enum err_code remote_table_list(struct table *t, struct arena *a, const struct table_list *q,
                                struct table_list_result *r, struct err *err)
{
	struct remote_session   *s = session_of(t);
	struct bytes             prefix = bytes_of(s->remote->prefix);
	struct table_list        page = {.limit = TABLE_LIST_MAX};
	struct table_list_result got;
	unsigned                 pages = 0;

	*r = (struct table_list_result){.names = arena_array(a, q->limit + 1, sizeof(*r->names))};
	if (prefix.len == 0)
		page = *q;
	else if (q->after.len > 0)
		page.after = remote_name(s, a, q->after);
	do {
		const struct json *answer;
		struct ask         ask;

		client_list_tables(ask_init(&ask, "ListTables", a, true), &page);
		if (ask_send(s, &ask, &answer, err) != ERR_NONE ||
		    ask_judge(s, ask.operation, client_read_list(a, answer, &page, &got, err), err) !=
		            ERR_NONE)
			return err->code;
		if (++pages == LIST_PAGES_MAX)
			return err_set(err, ERR_OVERLOADED, "the DynamoDB endpoint lists tables without end");
		for (uint32_t i = 0; i < got.count; i++) {
			struct bytes name = got.names[i];

			if (!bytes_starts_with(name, prefix))
				continue;
			r->more = r->count == q->limit;
			if (r->more)
				return ERR_NONE;
			r->names[r->count++] = (struct bytes){name.data + prefix.len, name.len - prefix.len};
		}
		if (got.count > 0)
			page.after = got.names[got.count - 1];
		r->more = got.more && prefix.len == 0;
	} while (got.more && prefix.len > 0 && got.count > 0);
	return ERR_NONE;
}

/* ---- changing ---- */

enum alter_request { ALTER_TABLE, ALTER_TTL, ALTER_TAG, ALTER_UNTAG };

static enum alter_request request_of(const struct table_change *change)
{
	return change->kind == CHANGE_TTL           ? ALTER_TTL
	       : change->kind == CHANGE_TAGS_ADD    ? ALTER_TAG
	       : change->kind == CHANGE_TAGS_REMOVE ? ALTER_UNTAG
	                                            : ALTER_TABLE;
}

/* DynamoDB refuses what is so already; whoever asks for it has what he wants. */
static enum err_code ttl_alter(struct remote_session *s, struct arena *a, const struct table_alter *q,
                               struct err *err)
{
	struct bytes       wanted = q->changes[0].ttl_attribute, now;
	struct err         before;
	const struct json *answer;
	struct ask         ask;
	enum err_code      rc;

	if (remote_table_ttl(s, a, q->table, &now, err) != ERR_NONE)
		return err->code;
	if (bytes_equal(wanted, now))
		return ERR_NONE;
	client_update_ttl(ask_init(&ask, "UpdateTimeToLive", a, true), remote_name(s, a, q->table),
	                  wanted.len > 0 ? wanted : now, wanted.len > 0);
	rc = ask_send(s, &ask, &answer, err);
	if (rc != ERR_INVALID)
		return rc;
	before = *err; /* another process may have been quicker */
	if (remote_table_ttl(s, a, q->table, &now, err) == ERR_NONE && bytes_equal(wanted, now))
		return ERR_NONE;
	*err = before;
	return rc;
}

static enum err_code tags_alter(struct remote_session *s, struct arena *a, const struct table_alter *q,
                                struct err *err)
{
	const struct table_change *change = &q->changes[0];
	bool                       add = change->kind == CHANGE_TAGS_ADD;
	struct client_table        table;
	const struct json         *answer;
	struct client              c;
	struct ask                 ask;

	if (remote_table_once(s, a, q->table, &table, err) != ERR_NONE)
		return err->code;
	c = ask_init(&ask, add ? "TagResource" : "UntagResource", a, true);
	if (add)
		client_tag(c, table.arn, change->tags, change->tag_count);
	else
		client_untag(c, table.arn, change->tags, change->tag_count);
	return ask_send(s, &ask, &answer, err);
}

static enum err_code table_alter(struct remote_session *s, struct arena *a, const struct table_alter *q,
                                 struct err *err)
{
	struct table_alter named = *q;
	const struct json *answer;
	struct ask         ask;

	named.table = remote_name(s, a, q->table);
	client_update_table(ask_init(&ask, "UpdateTable", a, false), &named);
	return ask_send(s, &ask, &answer, err);
}

enum err_code remote_table_change(struct remote_session *s, struct arena *a, const struct table_alter *q,
                                  struct err *err)
{
	enum alter_request kind = q->count == 0 ? ALTER_TABLE : request_of(&q->changes[0]);

	for (uint32_t i = 1; i < q->count; i++)
		if (kind != ALTER_TABLE || request_of(&q->changes[i]) != kind)
			return err_set(
			        err, ERR_INVALID,
			        "time to live, tags and other changes of a table cannot be made at once");
	return kind == ALTER_TABLE ? table_alter(s, a, q, err)
	       : kind == ALTER_TTL ? ttl_alter(s, a, q, err)
	                           : tags_alter(s, a, q, err);
}

enum err_code remote_table_alter(struct table *t, struct arena *a, const struct table_alter *q,
                                 struct table_description *r, struct err *err)
{
	struct remote_session *s = session_of(t);

	*r = (struct table_description){0};
	schemas_drop(s->remote, q->table);
	if (remote_table_change(s, a, q, err) != ERR_NONE)
		return err->code;
	schemas_drop(s->remote, q->table); /* somebody may have asked meanwhile */
	return describe(s, a, q->table, r, err);
}
