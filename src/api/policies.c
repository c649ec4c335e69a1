/* GET and PUT /v1/policies/{name}: the policies in force, with versions. A PUT says which version it replaces
 * (If-Match), so that two people cannot overwrite each other, and is checked whole before it is stored. */
#include <inttypes.h>

#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "service/policy_store.h"

struct policies_call {
	const struct document_kind *kind;
	struct document            *document; /* GET: in force; PUT: the new one, until it is installed */
	int64_t                     read;     /* the version that If-Match names */
	struct bytes                text;     /* PUT: as it is stored */
};

static enum err_code find_kind(struct v1_call *c, struct policies_call *p, struct err *err)
{
	p->kind = policy_store_kind(c->services->policies, c->params[0]);
	c->request = p;
	if (p->kind == NULL)
		return err_field(err, ERR_NOT_FOUND, "name", "there are no policies of that name");
	v1_resource(c, "policy", c->params[0]);
	return ERR_NONE;
}

static void release(struct v1_call *c)
{
	document_release(((struct policies_call *)c->request)->document);
}

/* ---- GET ---- */

enum err_code policy_get_decode(struct v1_call *c, struct err *err)
{
	struct policies_call *p = arena_zalloc(c->arena, sizeof(*p));

	if (find_kind(c, p, err) != ERR_NONE)
		return err->code;
	p->document = document_acquire(p->kind->holder);
	c->release = release;
	return ERR_NONE;
}

enum err_code policy_get_run(struct v1_call *c, struct table *t, struct err *err)
{
	(void)c;
	(void)t;
	(void)err;
	return ERR_NONE;
}

static void write_policies(struct v1_call *c, struct json_writer *w, int64_t version, struct bytes text)
{
	const struct policies_call *p = c->request;
	const char                 *file = policy_store_file(c->services->policies);

	v1_header(c, BYTES("ETag"), arena_printf(c->arena, "\"%" PRIi64 "\"", version));
	json_begin_object(w);
	v1_write_text(w, BYTES("name"), bytes_of(p->kind->name));
	v1_write_i64(w, BYTES("version"), version);
	v1_write_text(w, BYTES("origin"),
	              file != NULL   ? BYTES("file")
	              : version == 0 ? BYTES("default")
	                             : BYTES("stored"));
	json_name(w, BYTES("document"));
	json_raw(w, text);
	json_end_object(w);
}

void policy_get_encode(struct v1_call *c, struct json_writer *w)
{
	const struct policies_call *p = c->request;

	write_policies(c, w, p->document->version, p->document->text);
}

/* ---- PUT ---- */

/* "3", the version that GET showed. */
static enum err_code read_match(struct v1_call *c, struct policies_call *p, struct err *err)
{
	struct bytes given = http_header_get(c->http, "if-match");
	uint64_t     version;

	if (given.data == NULL)
		return err_field(err, ERR_NO_MATCH, "If-Match",
		                 "If-Match: say which version this replaces: its ETag");
	if (given.len < 3 || given.data[0] != '"' || given.data[given.len - 1] != '"' ||
	    !bytes_to_u64((struct bytes){given.data + 1, given.len - 2}, INT64_MAX - 1, &version))
		return err_field(err, ERR_STALE, "If-Match",
		                 "If-Match: this is no version of these policies");
	p->read = (int64_t)version;
	return ERR_NONE;
}

enum err_code policy_put_decode(struct v1_call *c, struct err *err)
{
	struct policies_call *p = arena_zalloc(c->arena, sizeof(*p));
	struct json_writer    w;
	struct buf            out;

	if (find_kind(c, p, err) != ERR_NONE)
		return err->code;
	if (policy_store_file(c->services->policies) != NULL)
		return err_set(err, ERR_POLICIES_FILE,
		               "the policies come from a file (--policies): change it there");
	if (read_match(c, p, err) != ERR_NONE || p->kind->parse(c->body, &p->document, err) != ERR_NONE)
		return err->code;
	c->release = release;
	buf_init(&out, &p->document->arena);
	json_writer_init(&w, &out);
	json_tree(&w, c->body);
	p->text = p->document->text = buf_bytes(&out);
	p->document->version = p->read + 1;
	return ERR_NONE;
}

enum err_code policy_put_run(struct v1_call *c, struct table *t, struct err *err)
{
	struct policies_call *p = c->request;

	return policy_store_change(p->kind, p->read, p->text, &c->changes, t, err);
}

/* Before it is answered: whoever has the answer finds it in force. */
void policy_put_committed(struct v1_call *c)
{
	struct policies_call *p = c->request;

	p->text = arena_copy(c->arena, p->text);
	policy_store_install(p->kind, p->document);
	p->document = NULL;
}

void policy_put_encode(struct v1_call *c, struct json_writer *w)
{
	const struct policies_call *p = c->request;

	write_policies(c, w, p->read + 1, p->text);
}
