/* The real protocols in the dispatcher: a route of /v1 is told once whether its call holds, and the audit log has what changed or may have. */
#include "api/dispatch_house.h"

#include "api/dynamodb.h"
#include "api/v1.h"
#include "base/audit.h"

/* ---- /v1: a route that counts ---- */

static struct {
	atomic_uint      committed, refused, ran;
	struct document *document;
	struct services  services;
} v1;

static enum err_code route_decode(struct v1_call *c, struct err *err)
{
	(void)err;
	atomic_fetch_add(&v1.document->refs, 1);
	v1_hold(c, v1.document);
	return ERR_NONE;
}

static enum err_code route_run(struct v1_call *c, struct err *err)
{
	atomic_fetch_add(&v1.ran, 1);
	return fail_at(&c->call, RUN, err);
}

static void route_encode(struct v1_call *c, struct json_writer *w)
{
	(void)c;
	json_begin_object(w);
	json_end_object(w);
}

static void route_committed(struct v1_call *c)
{
	(void)c;
	atomic_fetch_add(&v1.committed, 1);
}

static enum err_code route_refused(struct v1_call *c, enum err_code rc, struct err *err)
{
	(void)c;
	(void)err;
	atomic_fetch_add(&v1.refused, 1);
	return rc;
}

static const struct v1_route route = {
        HTTP_POST,    "/v1/probe", ADMINISTER,   "Probe",         1024,         "", NULL,
        route_decode, route_run,   route_encode, route_committed, route_refused};

static struct protocol v1_counting; /* v1_protocol, but for a route that is in no table */

static void v1_probe_handle(struct api_loop *l, struct http_request *r)
{
	struct v1_call *c = arena_zalloc(&r->arena, sizeof(*c));

	(void)l;
	call_init(&c->call, &v1_counting, r);
	c->route = &route;
	c->ctx = (struct context){.services = &v1.services, .arena = &r->arena, .caller = BYTES("-")};
	dispatch(&c->call);
}

static void v1_open(struct house *h)
{
	static const uint8_t secret[IDENTIFIER_KEY_BYTES] = {7};

	house_open(h);
	memset(&v1, 0, sizeof(v1));
	v1.document = document_make(sizeof(struct document));
	v1.services.tables = service_tables_default();
	identifier_key_init(&v1.services.identifiers, secret);
	v1_counting = v1_protocol;
	v1_counting.label = probe_label;
	h->plan = (struct plan){.handle = v1_probe_handle};
}

static void v1_close(struct house *h)
{
	house_close(h);
	assert_int_equal(atomic_load(&v1.document->refs), 1);
	document_release(v1.document);
}

static int v1_ask(struct house *h, const char *headers, enum ending how)
{
	int fd = dial(h), status;

	send_to(fd, headers, "{}");
	if (!h->store.refuses)
		store_end(&h->store, store_take(&h->store), how);
	status = receive(h, fd);
	close(fd);
	return status;
}

static void assert_v1(struct house *h, unsigned committed, unsigned refused)
{
	assert_int_equal(atomic_exchange(&v1.committed, 0), committed);
	assert_int_equal(atomic_exchange(&v1.refused, 0), refused);
	assert_int_equal(atomic_exchange(&h->labelled, 0), 1);
	assert_int_equal(atomic_load(&v1.document->refs), 1);
	assert_int_equal(atomic_load(&h->store.sessions), 0);
}

TEST(dispatch_v1, a_route_is_told_exactly_once_whether_its_call_holds)
{
	static struct house h;

	v1_open(&h);
	assert_int_equal(v1_ask(&h, "", COMMITS), 200);
	assert_v1(&h, 1, 0);
	assert_int_equal(v1_ask(&h, "", FAILS), 500);
	assert_v1(&h, 0, 1);
	assert_int_equal(v1_ask(&h, "", THROTTLES), 429);
	assert_v1(&h, 0, 1);
	h.plan.fails_at = RUN;
	assert_int_equal(v1_ask(&h, "", COMMITS), 422);
	assert_v1(&h, 0, 1);
	h.plan.fails_at = NOWHERE;
	h.store.refuses = true;
	assert_int_equal(v1_ask(&h, "", COMMITS), 503);
	assert_v1(&h, 0, 1);
	assert_int_equal(atomic_load(&v1.ran), 3);
	v1_close(&h);
}

#define KEYED "Idempotency-Key: once\r\n"

TEST(dispatch_v1, a_replay_is_answered_as_before_and_refused_to_its_route)
{
	static struct house h;

	v1_open(&h);
	h.store.write_fails = ERR_OVERLOADED;
	assert_int_equal(v1_ask(&h, KEYED, COMMITS), 503);
	assert_v1(&h, 0, 1);
	h.store.write_fails = ERR_NONE;
	assert_int_equal(v1_ask(&h, KEYED, COMMITS), 200);
	assert_v1(&h, 1, 0);
	assert_null(strstr(h.answer, "Idempotency-Replayed"));
	assert_int_equal(v1_ask(&h, KEYED, COMMITS), 200);
	assert_v1(&h, 0, 1);
	assert_non_null(strstr(h.answer, "Idempotency-Replayed: true"));
	assert_int_equal(atomic_load(&v1.ran), 2);
	v1_close(&h);
}

/* ---- the audit log ---- */

static unsigned lines_in(const char *dir)
{
	char     path[128];
	unsigned lines = 0;
	int      c;
	FILE    *f;

	snprintf(path, sizeof(path), "%s/audit.log", dir);
	f = fopen(path, "r");
	if (f == NULL)
		return 0;
	while ((c = fgetc(f)) != EOF)
		lines += c == '\n';
	fclose(f);
	return lines;
}

static void audit_begin(struct house *h, char *dir)
{
	struct err err;

	assert_non_null(mkdtemp(dir));
	assert_int_equal(audit_open(&h->api.parts.audit, dir, &err), ERR_NONE);
}

/* Lines that were written. */
static unsigned audit_end(struct house *h, const char *dir)
{
	char     command[128];
	unsigned lines;

	audit_close(h->api.parts.audit);
	lines = lines_in(dir);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	assert_int_equal(system(command), 0);
	return lines;
}

TEST(dispatch_v1, the_audit_log_has_what_changed_or_may_have_and_nothing_else)
{
	static struct house h;
	char                dir[] = "/tmp/gatehouse-dispatch-XXXXXX";

	v1_open(&h);
	audit_begin(&h, dir);
	v1_ask(&h, KEYED, COMMITS); /* a line */
	v1_ask(&h, KEYED, COMMITS); /* a replay: none */
	v1_ask(&h, "", FAILS);      /* the outcome is unknown: a line */
	v1_ask(&h, "", THROTTLES);  /* none */
	h.plan.fails_at = RUN;
	v1_ask(&h, "", COMMITS); /* none */
	v1_close(&h);
	assert_int_equal(audit_end(&h, dir), 2);
}

#define CREATE                                                                                               \
	"{\"TableName\":\"abc\",\"KeySchema\":[{\"AttributeName\":\"a\",\"KeyType\":\"HASH\"}],"             \
	"\"AttributeDefinitions\":[{\"AttributeName\":\"a\",\"AttributeType\":\"S\"}],"                      \
	"\"BillingMode\":\"PAY_PER_REQUEST\"}"

TEST(dispatch_dynamodb, the_audit_log_has_tables_that_were_made_or_may_have_been)
{
	static struct house h;
	const char         *target = "X-Amz-Target: DynamoDB_20120810.CreateTable\r\n";
	char                dir[] = "/tmp/gatehouse-dispatch-XXXXXX";
	enum ending         endings[] = {COMMITS, FAILS, THROTTLES};
	int                 statuses[] = {200, 500, 400};

	house_open(&h);
	audit_begin(&h, dir);
	h.plan = (struct plan){.handle = dynamodb_handle};
	for (unsigned i = 0; i < 3; i++) {
		int fd = dial(&h);

		send_to(fd, target, CREATE);
		store_end(&h.store, store_take(&h.store), endings[i]);
		assert_int_equal(receive(&h, fd), statuses[i]);
		close(fd);
	}
	house_close(&h);
	assert_int_equal(audit_end(&h, dir), 2);
}
