/* /v1/policies/{name}: the policies in force, and those that were, by version. PUT replaces them, DELETE goes back to what
 * ships. Both say which version they replace (If-Match), so that two people cannot overwrite each other; a document is
 * checked whole before it is stored. One that would end locks which hold is refused unless ?force=true says that it may. */
#include <inttypes.h>

#include "api/v1_routes.h"
#include "service/lock_ending.h"
#include "service/policy_store.h"

/* PUT and DELETE: locks that would end, which are counted a page a turn. It goes from turn to turn. */
struct counting {
	struct document    *old; /* what is replaced, of a kind with a heritage; NULL: not known yet */
	struct locks_ending ending;
	bool                goes_on; /* the last turn only counted */
	unsigned            turns;   /* of those */
	struct arena        before;  /* the call's memory, after the first of them */
};

struct policies_call {
	const struct document_kind *kind;
	struct document            *document; /* GET: in force; else the new one, until it is installed */
	bool                        asked;    /* GET: for one version */
	int64_t                     read;     /* that version; or the one that If-Match names */
	struct policy_version shown; /* the answer; its text is in the call's arena, or the document's */
	bool                  in_force;
	bool                  force;
	struct counting      *counting;
};

enum { COUNTING_TURNS_MAX = 4000, COUNTING_PAUSE_US = 1000 };

static enum err_code find_kind(struct v1_call *c, struct err *err)
{
	struct policies_call *p = v1_request(c, sizeof(*p));

	p->counting = arena_zalloc(c->ctx.arena, sizeof(*p->counting));
	p->kind = policy_store_kind(c->ctx.services->policies, c->params[0]);
	if (p->kind == NULL)
		return err_field(err, ERR_NOT_FOUND, "name",
		                 "name: must be attempts, limits, users or events");
	return ERR_NONE;
}

static void release(struct v1_call *c)
{
	struct policies_call *p = c->request;

	document_release(p->document);
	document_release(p->counting->old);
}

static void show_document(struct policies_call *p)
{
	p->shown = (struct policy_version){
	        .version = p->document->version, .origin = p->document->origin, .text = p->document->text};
}

static void encode(struct v1_call *c, struct json_writer *w)
{
	const struct policies_call *p = c->request;

	if (p->in_force)
		v1_header(c, BYTES("ETag"), arena_printf(c->ctx.arena, "\"%" PRIi64 "\"", p->shown.version));
	json_begin_object(w);
	json_member_text(w, BYTES("name"), bytes_of(p->kind->name));
	json_member_i64(w, BYTES("version"), p->shown.version);
	json_member_bool(w, BYTES("in_force"), p->in_force);
	json_member_text(w, BYTES("origin"), bytes_of(document_origin_name(p->shown.origin)));
	if (p->counting->old != NULL && locks_ending_any(&p->counting->ending)) {
		json_member_i64(w, BYTES("locks_ended"), p->counting->ending.count);
		json_member_bool(w, BYTES("more_locks_ended"), p->counting->ending.more);
	}
	json_name(w, BYTES("document"));
	json_raw(w, p->shown.text);
	json_end_object(w);
}

/* ---- GET ---- */

static enum err_code read_version(struct v1_call *c, struct policies_call *p, struct err *err)
{
	struct bytes text;
	uint64_t     version;

	if (v1_query(c, "version", &text, err) != ERR_NONE)
		return err->code;
	if (text.data == NULL)
		return ERR_NONE;
	if (!bytes_to_u64(text, INT64_MAX - 1, &version))
		return err_field(err, ERR_INVALID, "version", "?version: must be a whole number, 0 or more");
	p->asked = true;
	p->read = (int64_t)version;
	return ERR_NONE;
}

enum err_code policy_get_decode(struct v1_call *c, struct err *err)
{
	struct policies_call *p;

	if (find_kind(c, err) != ERR_NONE || read_version(c, c->request, err) != ERR_NONE)
		return err->code;
	p = c->request;
	p->document = document_acquire(p->kind->holder);
	v1_hold(c, p->document);
	return ERR_NONE;
}

/* One that is not in force: what ships, or a row. */
static enum err_code find_version(struct v1_call *c, struct policies_call *p, struct err *err)
{
	struct document *shipped;

	if (policy_rows_find(&c->ctx, p->kind->name, p->read, &p->shown, err) != ERR_NONE)
		return err->code;
	if (p->shown.found)
		return ERR_NONE;
	if (p->read != 0)
		return err_field(err, ERR_NOT_FOUND, "version",
		                 "?version: there is no version %" PRIi64
		                 " of these policies; the last %d that were replaced are kept",
		                 p->read, POLICY_VERSIONS_KEPT);
	if (policy_store_shipped(c->ctx.services->policies, p->kind, &shipped, err) != ERR_NONE)
		return err->code;
	v1_hold(c, shipped);
	p->document = shipped;
	show_document(p);
	return ERR_NONE;
}

enum err_code policy_get_run(struct v1_call *c, struct err *err)
{
	struct policies_call *p = c->request;

	show_document(p);
	p->in_force = !p->asked || p->read == p->shown.version;
	return p->in_force ? ERR_NONE : find_version(c, p, err);
}

void policy_get_encode(struct v1_call *c, struct json_writer *w)
{
	encode(c, w);
}

/* ---- PUT and DELETE ---- */

/* "3", the version that GET showed. */
static enum err_code read_match(struct v1_call *c, struct policies_call *p, struct err *err)
{
	struct bytes given = http_header_get(c->call.http, "if-match");
	uint64_t     version;

	if (given.data == NULL)
		return err_field(
		        err, ERR_NO_MATCH, "If-Match",
		        "If-Match: missing; send the ETag of the version to replace, as GET returns it");
	if (given.len < 3 || given.data[0] != '"' || given.data[given.len - 1] != '"' ||
	    !bytes_to_u64((struct bytes){given.data + 1, given.len - 2}, INT64_MAX - 1, &version))
		return err_field(err, ERR_STALE, "If-Match",
		                 "If-Match: not a version of these policies; send the ETag that GET returns");
	p->read = (int64_t)version;
	return ERR_NONE;
}

static enum err_code read_force(struct v1_call *c, struct policies_call *p, struct err *err)
{
	struct bytes text;

	if (v1_query(c, "force", &text, err) != ERR_NONE)
		return err->code;
	p->force = bytes_is(text, "true");
	return text.data == NULL || p->force || bytes_is(text, "false")
	               ? ERR_NONE
	               : err_field(err, ERR_INVALID, "force", "?force: must be true or false");
}

static enum err_code read_change(struct v1_call *c, struct err *err)
{
	if (find_kind(c, err) != ERR_NONE || read_force(c, c->request, err) != ERR_NONE)
		return err->code;
	if (policy_store_file(c->ctx.services->policies) != NULL)
		return err_set(err, ERR_POLICIES_FILE,
		               "the policies come from a file (the setting policies); change them there");
	return read_match(c, c->request, err);
}

/* Another turn, with the memory of the last one. */
static bool count_again(struct v1_call *c, enum err_code rc, bool last, int64_t *pause_us)
{
	struct counting *n = ((struct policies_call *)c->request)->counting;

	if (rc != ERR_OVERLOADED || !n->goes_on || last || n->turns == COUNTING_TURNS_MAX)
		return false;
	if (n->turns++ == 0)
		n->before = *c->ctx.arena;
	else
		arena_rewind(c->ctx.arena, n->before);
	*pause_us = COUNTING_PAUSE_US;
	return true;
}

/* The new one has its text already. */
static void adopt(struct v1_call *c, struct document *d, enum document_origin origin)
{
	struct policies_call *p = c->request;

	d->version = p->read + 1;
	d->origin = origin;
	p->document = d;
	p->in_force = true;
	c->release = release;
	c->again = count_again;
	show_document(p);
}

enum err_code policy_put_decode(struct v1_call *c, struct err *err)
{
	struct document   *d;
	struct json_writer w;
	struct buf         out;

	if (read_change(c, err) != ERR_NONE ||
	    ((struct policies_call *)c->request)->kind->parse(c->body, &d, err) != ERR_NONE)
		return err->code;
	buf_init(&out, &d->arena);
	json_writer_init(&w, &out);
	json_tree(&w, c->body);
	d->text = buf_bytes(&out);
	adopt(c, d, DOCUMENT_STORED);
	return ERR_NONE;
}

enum err_code policy_delete_decode(struct v1_call *c, struct err *err)
{
	struct document *d;

	if (read_change(c, err) != ERR_NONE ||
	    policy_store_shipped(c->ctx.services->policies, ((struct policies_call *)c->request)->kind, &d,
	                         err) != ERR_NONE)
		return err->code;
	adopt(c, d, DOCUMENT_SHIPPED);
	return ERR_NONE;
}

static enum err_code count_ending(struct v1_call *c, struct counting *n, struct err *err)
{
	if (n->ending.whole)
		return ERR_NONE;
	if (locks_ending_step(&c->ctx, &n->ending, err) != ERR_NONE)
		return err->code;
	n->goes_on = !n->ending.whole;
	return n->goes_on ? err_set(err, ERR_OVERLOADED,
	                            "the locks that would end are still being counted; try again")
	                  : ERR_NONE;
}

/* The first turn says what it replaces. Those that follow count, and the last one does it. */
static enum err_code change_run(struct v1_call *c, struct err *err)
{
	struct policies_call *p = c->request;
	struct policy_change  change = {p->kind, p->read, p->shown.text, p->shown.origin, p->document};
	struct counting      *n = p->counting;
	struct document      *old;

	n->goes_on = false;
	if (n->old != NULL && count_ending(c, n, err) != ERR_NONE)
		return err->code;
	if (policy_store_change(&c->ctx, &change, &old, err) != ERR_NONE)
		return err->code;
	if (old == NULL || n->old != NULL || ctx_guesses(&c->ctx))
		document_release(old); /* the same version, as If-Match says; or maybe another one */
	else
		locks_ending_init(&n->ending, n->old = old, p->document, c->ctx.now_s);
	if (n->old == NULL)
		return ERR_NONE;
	if (count_ending(c, n, err) != ERR_NONE)
		return err->code;
	return p->force || !locks_ending_any(&n->ending)
	               ? ERR_NONE
	               : locks_ending_refuse(&n->ending, "send ?force=true to let them end", err);
}

enum err_code policy_put_run(struct v1_call *c, struct err *err)
{
	return change_run(c, err);
}

enum err_code policy_delete_run(struct v1_call *c, struct err *err)
{
	return change_run(c, err);
}

/* Before it is answered: whoever has the answer finds it in force. */
void policy_change_committed(struct v1_call *c)
{
	struct policies_call *p = c->request;

	p->shown.text = arena_copy(c->ctx.arena, p->shown.text);
	policy_store_install(c->ctx.services->policies, p->kind, p->document);
	p->document = NULL;
}

void policy_put_encode(struct v1_call *c, struct json_writer *w)
{
	encode(c, w);
}

void policy_delete_encode(struct v1_call *c, struct json_writer *w)
{
	encode(c, w);
}
