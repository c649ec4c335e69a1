/* Endpoint fuzz: services on tables at an endpoint that lies.
 *
 * The endpoint is in this process (aws_call is wrapped, see the Makefile). It answers each request of remote/ with what fits it: the tables that services have,
 * items with the key that was asked for, pages in their range. The input says which items there are and what is in them, and which answers are spoiled: a value
 * replaced by another, an error, garbage, none at all. On top of it runs a documented request under /v1, or what a worker does.
 *
 * Nothing may crash; what fails has a text; a page that reaches a service has no more rows than were asked for. */
#include "base/log.h"
#include "documented.h"
#include "remote/session.h"
#include "service/adopt.h"
#include "service/consumer.h"
#include "service/erase.h"
#include "service/event_trim.h"
#include "service/job.h"
#include "service/lock_event.h"
#include "service/notification.h"
#include "service/push.h"
#include "service/push_list.h"
#include "service/row.h"
#include "service/sign_out.h"
#include "service/target.h"
#include "service/user_check.h"

int           LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
enum err_code __wrap_aws_call(struct aws *a, const struct aws_request *r, struct arena *arena,
                              struct aws_answer *out, struct err *err);
void          __wrap_remote_sleep(int64_t us);

static const int64_t now_us = INT64_C(1794830400000000);

enum { REQUESTS_MAX = 200 }; /* beyond it the endpoint does not answer: what goes on for ever ends */

/* Of the input that runs. */
static struct {
	struct draws        draws;
	struct json_reader *json;
	struct clock_manual clock;
	unsigned            requests;
	struct arena       *arena;
} far;

/* Time passes at once. */
void __wrap_remote_sleep(int64_t us)
{
	clock_manual_set(&far.clock, clock_wall_us(&far.clock.base) + us);
}

static unsigned drawn(unsigned count)
{
	return draw(&far.draws, count);
}

/* ---- items ---- */

static const char *const names[] = {
        "ttl",      "count",    "until",      "lock",       "subject",  "status",    "userId",
        "jobId",    "state",    "steps",      "cursor",     "kind",     "args",      "unique",
        "position", "seq",      "version",    "partitions", "isActive", "expiresAt", "email",
        "time",     "type",     "data",       "shards",     "digest",   "isPrimary", "isVerified",
        "nextAt",   "members",  "generation", "list",       "provider", "id",        "name",
        "url",      "after",    "max",        "duration",   "history",  "createdAt", "updatedAt",
        "messages", "counts",   "tokens",     "batch",      "lease",    "owner",     "policy",
        "text",     "document", "devices",    "rate",       "progress", "eraseJob",  "primaryEmailId"};

static const char *const values[] = {"{\"S\":\"\"}",
                                     "{\"S\":\"x\"}",
                                     "{\"S\":\"alice\"}",
                                     "{\"S\":\"running\"}",
                                     "{\"S\":\"ACTIVE\"}",
                                     "{\"S\":\"erase\"}",
                                     "{\"S\":\"adopt\"}",
                                     "{\"S\":\"2026-11-16T12:00:00.000000Z\"}",
                                     "{\"S\":\"a@b.org\"}",
                                     "{\"S\":\"1 1 PROFILE x\"}",
                                     "{\"S\":\"1,2,3\"}",
                                     "{\"N\":\"0\"}",
                                     "{\"N\":\"1\"}",
                                     "{\"N\":\"-1\"}",
                                     "{\"N\":\"1794830399\"}",
                                     "{\"N\":\"1794830500\"}",
                                     "{\"N\":\"9223372036854775807\"}",
                                     "{\"N\":\"1.5\"}",
                                     "{\"N\":\"1E125\"}",
                                     "{\"BOOL\":true}",
                                     "{\"NULL\":true}",
                                     "{\"B\":\"AAE=\"}",
                                     "{\"M\":{}}",
                                     "{\"M\":{\"a\":{\"N\":\"1\"}}}",
                                     "{\"L\":[]}",
                                     "{\"L\":[{\"S\":\"x\"},{\"N\":\"7\"}]}",
                                     "{\"SS\":[\"a\",\"b\"]}",
                                     "{\"NS\":[\"1\",\"2\"]}"};

/* The members of `key`, and what is drawn. */
static void item_write(struct json_writer *w, const struct json *key)
{
	unsigned more = drawn(8), name = drawn(sizeof(names) / sizeof(names[0]));

	json_begin_object(w);
	for (const struct json *m = json_children(key); m != NULL; m = m->next) {
		json_name(w, m->name);
		json_tree(w, m);
	}
	for (unsigned i = 0; i < more; i++) { /* each name once */
		const char *each = names[(name + i) % (sizeof(names) / sizeof(names[0]))];

		if (json_get(key, bytes_of(each)) != NULL)
			continue;
		json_name(w, bytes_of(each));
		json_raw(w, bytes_of(values[drawn(sizeof(values) / sizeof(values[0]))]));
	}
	json_end_object(w);
}

/* ---- tables ---- */

static enum service_table table_of(const struct json *request)
{
	struct service_tables tables = service_tables_default();

	return tables_which(&tables, json_text(json_get(request, BYTES("TableName"))));
}

static void key_part_write(struct json_writer *w, const char *name, const char *type, const char *as)
{
	if (*name == '\0')
		return;
	json_raw(w, arena_printf(far.arena, "{\"AttributeName\":\"%s\",\"%s\":\"%s\"}", name, type, as));
}

static void describe(struct json_writer *w, enum service_table which)
{
	const struct service_table_shape *shape = service_table_shape(which);
	bool                              devices = which == TABLE_DEVICES;

	json_raw(w, arena_printf(far.arena, "{\"Table\":{\"TableName\":\"%s\",\"TableStatus\":\"ACTIVE\"",
	                         shape->name));
	w->comma = true;
	json_key(w, BYTES("AttributeDefinitions"));
	json_begin_array(w);
	key_part_write(w, shape->hash, "AttributeType", "S");
	key_part_write(w, shape->range, "AttributeType", "S");
	key_part_write(w, devices ? "platformShard" : "", "AttributeType", "S");
	key_part_write(w, devices ? "isActiveText" : "", "AttributeType", "S");
	json_end_array(w);
	json_key(w, BYTES("KeySchema"));
	json_begin_array(w);
	key_part_write(w, shape->hash, "KeyType", "HASH");
	key_part_write(w, shape->range, "KeyType", "RANGE");
	json_end_array(w);
	if (devices)
		json_raw(w, BYTES("\"GlobalSecondaryIndexes\":[{\"IndexName\":\"" DEVICE_INDEX
		                  "\",\"IndexStatus\":\"ACTIVE\",\"KeySchema\":[{\"AttributeName\":"
		                  "\"platformShard\","
		                  "\"KeyType\":\"HASH\"},{\"AttributeName\":\"isActiveText\",\"KeyType\":"
		                  "\"RANGE\"}],"
		                  "\"Projection\":{\"ProjectionType\":\"ALL\"}}]"));
	buf_add(w->out, "}}", 2);
}

static void time_to_live(struct json_writer *w, enum service_table which)
{
	const char *ttl = service_table_shape(which)->ttl;

	json_raw(w, *ttl == '\0' ? BYTES("{\"TimeToLiveDescription\":{\"TimeToLiveStatus\":\"DISABLED\"}}")
	                         : arena_printf(far.arena,
	                                        "{\"TimeToLiveDescription\":{\"TimeToLiveStatus\":"
	                                        "\"ENABLED\",\"AttributeName\":\"%s\"}}",
	                                        ttl));
}

/* ---- answers ---- */

static void get(struct json_writer *w, const struct json *request)
{
	json_begin_object(w);
	if (drawn(3) > 0) {
		json_key(w, BYTES("Item"));
		item_write(w, json_get(request, BYTES("Key")));
	}
	json_end_object(w);
}

static void batch_get(struct json_writer *w, const struct json *request)
{
	json_begin_object(w);
	json_key(w, BYTES("Responses"));
	json_begin_object(w);
	for (const struct json *t = json_children(json_get(request, BYTES("RequestItems"))); t != NULL;
	     t = t->next) {
		json_name(w, t->name);
		json_begin_array(w);
		for (const struct json *k = json_children(json_get(t, BYTES("Keys"))); k != NULL; k = k->next)
			if (drawn(3) > 0)
				item_write(w, k);
		json_end_array(w);
	}
	json_end_object(w);
	json_end_object(w);
}

static void transact_get(struct json_writer *w, const struct json *request)
{
	json_begin_object(w);
	json_key(w, BYTES("Responses"));
	json_begin_array(w);
	for (const struct json *one = json_children(json_get(request, BYTES("TransactItems"))); one != NULL;
	     one = one->next)
		get(w, json_get(one, BYTES("Get")));
	json_end_array(w);
	json_end_object(w);
}

/* What the placeholder at that place of the key condition stands for: "#0=:0 AND begins_with(#1,:1)". */
static const struct json *named(const struct json *request, const char *map, char mark, unsigned at)
{
	char name[8];

	snprintf(name, sizeof(name), "%c%u", mark, at);
	return json_get(json_get(request, bytes_of(map)), bytes_of(name));
}

/* A key in the range that was asked for, if it is not too narrow; keys grow with `number`. */
static struct json *row_key(const struct json *request, unsigned number)
{
	const struct json *hash = named(request, "ExpressionAttributeValues", ':', 0);
	const struct json *low = named(request, "ExpressionAttributeValues", ':', 1);
	enum service_table which = table_of(request);
	struct json_writer w;
	struct json       *tree;
	struct buf         out;
	struct err         err;

	buf_init(&out, far.arena);
	json_writer_init(&w, &out);
	json_begin_object(&w);
	json_name(&w, bytes_of(service_table_shape(which)->hash));
	hash == NULL ? json_raw(&w, arena_printf(far.arena, "{\"S\":\"USER#%u\"}", number))
	             : json_tree(&w, hash);
	if (service_table_shape(which)->range[0] != '\0') {
		json_name(&w, bytes_of(service_table_shape(which)->range));
		json_begin_object(&w);
		json_key(&w, BYTES("S"));
		json_string(&w, arena_printf(far.arena, "%.*s%s%u",
		                             BYTES_ARG(json_text(json_get(low, BYTES("S")))),
		                             drawn(2) == 1 ? "" : "#", number));
		json_end_object(&w);
	}
	json_end_object(&w);
	require(json_read(far.json, far.arena, buf_bytes(&out), &tree, &err) == ERR_NONE, "a key of its own");
	return tree;
}

static void page(struct json_writer *w, const struct json *request)
{
	int64_t      limit = json_integer(json_get(request, BYTES("Limit")));
	unsigned     count = drawn(6);
	struct json *last = NULL;

	if (drawn(4) > 0 && limit > 0 && count > limit)
		count = (unsigned)limit;
	json_begin_object(w);
	json_key(w, BYTES("Items"));
	json_begin_array(w);
	for (unsigned i = 0; i < count; i++)
		item_write(w, last = row_key(request, i));
	json_end_array(w);
	json_member_i64(w, BYTES("Count"), count);
	json_member_i64(w, BYTES("ScannedCount"), count);
	if (last != NULL && drawn(4) == 1) {
		json_key(w, BYTES("LastEvaluatedKey"));
		json_tree(w, last);
	}
	json_end_object(w);
}

static void answer_write(struct json_writer *w, const char *operation, const struct json *request)
{
	enum service_table which = table_of(request);
	bool               known = which < SERVICE_TABLE_COUNT;

	if (strcmp(operation, "DescribeTable") == 0 && known)
		describe(w, which);
	else if (strcmp(operation, "DescribeTimeToLive") == 0 && known)
		time_to_live(w, which);
	else if (strcmp(operation, "GetItem") == 0)
		get(w, request);
	else if (strcmp(operation, "BatchGetItem") == 0)
		batch_get(w, request);
	else if (strcmp(operation, "TransactGetItems") == 0)
		transact_get(w, request);
	else if ((strcmp(operation, "Query") == 0 || strcmp(operation, "Scan") == 0) && known)
		page(w, request);
	else
		json_raw(w, BYTES("{}"));
}

/* An error, mostly one that has reasons. */
static void refuse(struct aws_answer *out)
{
	static const char *const errors[] = {"ConditionalCheckFailedException",
	                                     "TransactionCanceledException",
	                                     "ResourceNotFoundException",
	                                     "ThrottlingException",
	                                     "ValidationException",
	                                     "InternalServerError",
	                                     "IdempotentParameterMismatchException"};
	static const char *const bodies[] = {
	        "{}", "7", "{\"CancellationReasons\":[{\"Code\":\"ConditionalCheckFailed\"}]}",
	        "{\"CancellationReasons\":[{\"Code\":\"TransactionConflict\"},{\"Code\":\"None\"}]}",
	        "{\"Item\":{\"PK\":{\"S\":\"x\"}}}"};

	out->http.status = drawn(4) == 1 ? 500 : 400;
	out->type = bytes_of(errors[drawn(sizeof(errors) / sizeof(errors[0]))]);
	out->http.body = bytes_of(bodies[drawn(sizeof(bodies) / sizeof(bodies[0]))]);
}

enum err_code __wrap_aws_call(struct aws *a, const struct aws_request *r, struct arena *arena,
                              struct aws_answer *out, struct err *err)
{
	unsigned           how = drawn(16);
	struct json_writer w;
	struct json       *request, *honest;
	struct buf         text;

	(void)a;
	*out = (struct aws_answer){.http = {.status = 200, .tries = 1}};
	if (how == 15 || ++far.requests > REQUESTS_MAX)
		return err_set(err, ERR_STORAGE, "no answer");
	require(json_read(far.json, arena, r->body, &request, err) == ERR_NONE, "a request that is not JSON");
	if (how == 14) {
		refuse(out);
		return ERR_NONE;
	}
	buf_init(&text, arena);
	json_writer_init(&w, &text);
	answer_write(&w, r->operation, request);
	require(json_read(far.json, arena, buf_bytes(&text), &honest, err) == ERR_NONE,
	        "an answer that is not JSON");
	out->http.body =
	        how < 10 ? buf_bytes(&text) : spoiled(arena, spoiling_draw(&far.draws, honest), honest);
	return ERR_NONE;
}

/* ---- what runs on it ---- */

static void request_run(struct world *w, struct documented_list *all, struct table *t)
{
	const struct documented *one = &all->list[draw(&far.draws, all->count)];
	struct http_request      r = {.method = one->method};
	struct v1_match          match;
	struct err               err = {.code = ERR_NONE};

	arena_init(&r.arena);
	r.target = r.path = documented_path(&r.arena, one, &far.draws);
	if (one->body != NULL)
		r.body = spoiled(&r.arena, (struct spoiling){.count = 0}, one->body);
	if (v1_match(&r, &match) == V1_MATCHED) {
		struct v1_call c = {.ctx = {.services = &w->services,
		                            .arena = &r.arena,
		                            .caller = w->key.id,
		                            .now_us = now_us},
		                    .route = match.route,
		                    .call = {.http = &r,
		                             .loop = &w->loop,
		                             .who = {.key = &w->key, .region = BYTES("local")}}};
		enum err_code  rc;

		far.arena = &r.arena;
		memcpy(c.params, match.params, sizeof(c.params));
		rc = v1_steps(&c.call, w->json, &err);
		if (rc == ERR_NONE)
			rc = v1_run(&c.call, t, &err);
		require(rc == ERR_NONE || (rc == err.code && err.text[0] != '\0'),
		        "it failed without a text");
		v1_protocol.release(&c.call);
	}
	arena_release(&r.arena);
}

static enum err_code dues(struct context *ctx, struct err *err)
{
	struct due_page  *list = arena_alloc(ctx->arena, sizeof(*list));
	struct due_places places = {0};
	enum err_code     rc = dues_read(ctx, 0, &places, list, err);
	bool              told;

	if (rc == ERR_NONE)
		dues_pass(&places, list);
	for (uint32_t i = 0; rc == ERR_NONE && i < list->count && i < 4; i++)
		rc = due_tell(ctx, &list->list[i], &told, err);
	return rc;
}

static enum err_code job(struct context *ctx, struct err *err)
{
	static const struct job_kind *const kinds[] = {&erase_job, &adopt_job};
	const struct job_kind              *kind = kinds[drawn(2)];
	struct job_turn    turn = {.steps = JOB_ANY_STEP, .running = {.id = BYTES("j"), .key = BYTES("k")}};
	struct job_stepped stepped;
	struct job         j;
	enum err_code      rc = job_get(ctx, turn.running.id, &j, err);

	turn.running.kind = bytes_of(kind->name);
	if (rc == ERR_NONE && drawn(4) > 0) {
		turn.steps = j.steps;
		turn.cursor = j.cursor;
		rc = kind->fetch(ctx, &j, &turn.fetched, err);
	}
	return rc == ERR_NONE || rc == ERR_NOT_FOUND ? job_step(ctx, &turn, &stepped, err) : rc;
}

static enum err_code trim(struct context *ctx, struct err *err)
{
	static struct trim_readers readers;
	struct trim_step           step;

	return trim_readers_read(ctx, &readers, err) == ERR_NONE ? event_trim(ctx, 0, &readers, &step, err)
	                                                         : err->code;
}

static enum err_code lists(struct context *ctx, struct err *err)
{
	struct consumers           consumers;
	struct targets             targets;
	struct push_broadcast_page devices;
	struct sign_outs           outs;
	struct push_broadcast      q = {.platform = BYTES("ios"), .limit = 2};

	switch (drawn(4)) {
	case 0:
		return consumers_all(ctx, &consumers, err);
	case 1:
		return targets_all(ctx, &targets, err);
	case 2:
		return push_devices_broadcast(ctx, &q, &devices, err);
	default:
		return sign_outs_find(ctx, &outs, err);
	}
}

static enum err_code pushes(struct context *ctx, struct err *err)
{
	struct push_batches batches = {0};
	struct push_tally   tally = {0};
	bool                more;

	switch (drawn(3)) {
	case 0:
		return push_due(ctx, 0, 2, &batches, err);
	case 1:
		return push_receipts_due(ctx, 0, &batches, err);
	default:
		return push_dead_take(ctx, 0, &more, &tally, err);
	}
}

static enum err_code users(struct context *ctx, struct err *err)
{
	struct users_check check = {0};

	return users_check_page(ctx, &check, err);
}

static void worker_run(struct world *w, struct table *t)
{
	static enum err_code (*const workers[])(struct context *, struct err *) = {dues,  job,    trim,
	                                                                           lists, pushes, users};
	struct arena   a;
	struct context ctx = {.services = &w->services, .arena = &a, .caller = BYTES("-")};
	struct err     err = {.code = ERR_NONE};
	enum err_code  rc;

	arena_init(&a);
	far.arena = &a;
	ctx_begin(&ctx, t);
	rc = workers[drawn(sizeof(workers) / sizeof(workers[0]))](&ctx, &err);
	if (rc == ERR_NONE)
		rc = changes_commit(&ctx.changes, t, &err);
	require(rc == ERR_NONE || (rc == err.code && err.text[0] != '\0'), "it failed without a text");
	arena_release(&a);
}

/* ---- the store ---- */

static const char *variable(void *ctx, const char *name)
{
	(void)ctx;
	return strncmp(name, "AWS_ACCESS", 10) == 0 || strncmp(name, "AWS_SECRET", 10) == 0 ? "any" : NULL;
}

/* A new one for each input: what one was told of tables is not known to the next. */
static struct remote *remote_make(void)
{
	static struct aws_credentials *credentials;
	struct remote_options          options = {.url = "http://127.0.0.1:9",
	                                          .region = "local",
	                                          .table_prefix = "",
	                                          .workers = 1,
	                                          .queue_bytes_max = 1000,
	                                          .clock = &far.clock.base,
	                                          .wire_clock = &far.clock.base};
	struct remote                 *r;
	struct err                     err;

	if (credentials == NULL)
		require(aws_credentials_open(&(struct environment){variable, NULL}, clock_system(),
		                             &credentials, &err) == ERR_NONE,
		        "credentials");
	options.credentials = credentials;
	require(remote_open(&r, &options, &err) == ERR_NONE, err.text);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world           *w;
	static struct documented_list *all;
	struct remote_session          s;
	struct remote                 *remote;

	if (w == NULL) {
		log_set_level(LOG_ERROR + 1);
		w = world_open();
		w->services.tables.device_index = true;
		w->services.push.shards = 2;
		all = documented_open(w->json);
		far.json = json_reader_open();
	}
	far.draws = (struct draws){data, data + size};
	far.requests = 0;
	clock_manual_init(&far.clock, now_us);
	remote = remote_make();
	remote_session_init(&s, remote, NULL, false);
	if (drawn(3) == 1)
		worker_run(w, &s.base);
	else
		request_run(w, all, &s.base);
	remote_session_release(&s);
	remote_close(remote);
	return 0;
}
