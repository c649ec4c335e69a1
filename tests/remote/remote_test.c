/* Remote: what an endpoint's answers mean, by a scripted peer: throttling, conflicts, lost answers, tokens, expired rows; and the pool.
 * That all calls do what they should is in tests/contract. */
#include "remote/scripted_world.h"

#include "dynamo/wire.h"

/* ---- what is sent ---- */

TEST(request, is_signed_for_the_region_and_names_the_table_with_its_prefix)
{
	struct table_get_result r;
	struct world            w;

	world_open(&w, peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL,
	                                        OK("{\"Item\":{\"p\":{\"S\":\"a\"}}}"))));
	assert_int_equal(get(&w, &r), ERR_NONE);
	assert_true(r.found);
	assert_true(seen_has(&w, 2, "/eu-west-1/dynamodb/aws4_request"));
	assert_true(seen_has(&w, 2, "DynamoDB_20120810.GetItem"));
	assert_true(seen_has(&w, 2, "\"TableName\":\"pre-things\""));
	assert_true(seen_has(&w, 2, "\"ConsistentRead\":true"));
	assert_int_equal(remote_round_trips(w.remote), 3);
	assert_int_equal(get(&w, &r), ERR_NONE); /* the table is known now */
	assert_int_equal(remote_round_trips(w.remote), 4);
	world_close(&w);
}

TEST(table, that_is_being_made_is_waited_for)
{
	struct table_get_result r;
	struct world            w;

	world_open(&w, peer_open(0, PEER_SCRIPT(TABLE("CREATING"), TABLE("CREATING"), TABLE("ACTIVE"), NO_TTL,
	                                        OK("{}"))));
	assert_int_equal(get(&w, &r), ERR_NONE);
	assert_false(r.found);
	assert_int_equal(peer_requests(w.peer), 5);
	world_close(&w);
}

TEST(table, that_is_gone_is_asked_about_again)
{
	struct table_get_result r;
	struct world            w;

	world_open(&w,
	           peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL, ERROR("ResourceNotFoundException", ""),
	                                    ERROR("ResourceNotFoundException", ""))));
	assert_int_equal(get(&w, &r), ERR_NO_RESOURCE);
	assert_int_equal(get(&w, &r), ERR_NO_RESOURCE);
	assert_true(seen_has(&w, 3, "DescribeTable"));
	world_close(&w);
}

/* Workers look for work in tables that nobody made yet: that must not cost a request each time. */
TEST(table, that_is_absent_is_not_asked_about_again_at_once_but_known_as_soon_as_it_is_made)
{
	struct table_description d;
	struct table_get_result  r;
	struct world             w;

	world_open(&w,
	           peer_open(0, PEER_SCRIPT(ERROR("ResourceNotFoundException", ""), TABLE("ACTIVE"), WITH_TTL,
	                                    OK("{\"Tags\":[]}"), TABLE("ACTIVE"), WITH_TTL, OK("{}"))));
	for (int i = 0; i < 3; i++)
		assert_int_equal(get(&w, &r), ERR_NO_RESOURCE);
	assert_int_equal(peer_requests(w.peer), 1);
	assert_int_equal(w.table->backend->describe(w.table, &w.arena, BYTES("things"), &d, &w.err),
	                 ERR_NONE);
	assert_int_equal(get(&w, &r), ERR_NONE); /* another process made it */
	world_close(&w);
}

/* ---- what errors mean ---- */

static void assert_get_ends(struct peer *p, enum err_code code, unsigned requests)
{
	struct table_get_result r;
	struct world            w;

	world_open(&w, p);
	assert_int_equal(get(&w, &r), code);
	assert_int_equal(peer_requests(w.peer), 2 + requests);
	world_close(&w);
}

#define GET_ENDS(code, requests, ...)                                                                        \
	assert_get_ends(peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL, __VA_ARGS__)), code, requests)

TEST(error, throttling_is_tried_again_and_then_told)
{
	GET_ENDS(ERR_THROTTLED, 4, ERROR("ProvisionedThroughputExceededException", ""));
	GET_ENDS(ERR_NONE, 2, ERROR("ThrottlingException", ""), OK("{}"));
}

TEST(error, of_the_server_is_tried_again_and_a_read_leaves_no_outcome_open_by_it)
{
	GET_ENDS(ERR_OVERLOADED, 4, UNKNOWN);
	GET_ENDS(ERR_OVERLOADED, 4, {PEER_ANSWER, "HTTP/1.1 503 Busy\r\nContent-Length: ?\r\n\r\n{}"});
}

TEST(read, without_an_answer_leaves_no_outcome_open)
{
	struct table_get_result r;
	struct world            w;

	world_open(&w, peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL, {PEER_CLOSE, NULL})));
	assert_int_equal(get(&w, &r), ERR_OVERLOADED);
	assert_string_equal(w.err.text, "the DynamoDB endpoint did not answer in time");
	world_close(&w);
}

TEST(error, about_our_credentials_is_no_fault_of_the_caller)
{
	GET_ENDS(ERR_OVERLOADED, 1, ERROR("AccessDeniedException", ""));
	GET_ENDS(ERR_OVERLOADED, 1, ERROR("UnrecognizedClientException", ""));
}

TEST(error, that_names_the_request_is_told_with_its_text)
{
	struct table_get_result r;
	struct world            w;

	world_open(&w, peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL, ERROR("ValidationException", ""))));
	assert_int_equal(get(&w, &r), ERR_INVALID);
	assert_string_equal(w.err.text, "text");
	world_close(&w);
}

TEST(answer, that_is_none_of_dynamodbs_is_an_error)
{
	GET_ENDS(ERR_OVERLOADED, 1, OK("[]"));
	GET_ENDS(ERR_OVERLOADED, 1, OK("not JSON"));
	GET_ENDS(ERR_OVERLOADED, 1, OK("{\"Item\":{\"p\":{\"X\":\"a\"}}}"));
	GET_ENDS(ERR_OVERLOADED, 1,
	         {PEER_ANSWER, "HTTP/1.1 200 OK\r\nx-amz-crc32: 1\r\nContent-Length: ?\r\n\r\n{}"});
}

/* ---- writes ---- */

TEST(write, whose_answer_is_lost_is_sent_once_and_unknown)
{
	struct table_write_result r;
	struct world              w;

	world_open(&w, peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL, {PEER_CLOSE, NULL})));
	assert_int_equal(write_one(&w, &r), ERR_STORAGE);
	assert_int_equal(peer_requests(w.peer), 3);
	world_close(&w);
}

TEST(write, whose_condition_is_false_is_a_result)
{
	struct table_write_result r;
	struct table_write        q;
	struct world              w;

	world_open(&w, peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL,
	                                        ERROR("ConditionalCheckFailedException", ""))));
	q = count_up(&w);
	q.condition = exists();
	assert_int_equal(w.table->backend->write(w.table, &w.arena, &q, &r, &w.err), ERR_NONE);
	assert_true(r.condition_failed);
	world_close(&w);
}

TEST(write, in_conflict_with_a_transaction_was_not_done)
{
	struct table_write_result r;
	struct world              w;

	world_open(&w, peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL,
	                                        ERROR("TransactionConflictException", ""))));
	assert_int_equal(write_one(&w, &r), ERR_CONTENDED);
	world_close(&w);
}

/* ---- transactions ---- */

TEST(transaction, whose_outcome_is_unknown_is_sent_again_with_the_same_token)
{
	struct table_transact_result r;
	struct world                 w;

	world_open(&w, peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL, UNKNOWN, OK("{}"))));
	assert_int_equal(transact(&w, &r), ERR_NONE);
	assert_false(r.cancelled);
	assert_int_equal(peer_requests(w.peer), 4);
	assert_true(seen_has(&w, 2, "\"ClientRequestToken\":\"the-token\""));
	assert_true(seen_has(&w, 3, "\"ClientRequestToken\":\"the-token\""));
	world_close(&w);
}

#define CANCELLED(reason)                                                                                    \
	BAD("{\"__type\":\"x#TransactionCanceledException\",\"Message\":\"text\",\"CancellationReasons\":"   \
	    "[" reason "]}")

TEST(transaction, in_conflict_with_another_is_to_be_decided_again)
{
	struct table_transact_result r;
	struct world                 w;

	world_open(
	        &w,
	        peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL,
	                                 CANCELLED("{\"Code\":\"TransactionConflict\",\"Message\":\"m\"}"))));
	assert_int_equal(transact(&w, &r), ERR_NONE);
	assert_true(r.cancelled);
	assert_int_equal(r.reasons[0].code, ERR_CONDITION);
	world_close(&w);
}

/* The first try got no answer: it may be done later. */
TEST(transaction, in_conflict_after_a_try_that_got_no_answer_is_open)
{
	struct table_transact_result r;
	struct world                 w;

	world_open(&w, peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL, {PEER_CLOSE, ""},
	                                        CANCELLED("{\"Code\":\"TransactionConflict\"}"),
	                                        CANCELLED("{\"Code\":\"ValidationError\"}"),
	                                        CANCELLED("{\"Code\":\"TransactionConflict\"}"))));
	assert_int_equal(transact(&w, &r), ERR_NONE);
	assert_true(r.cancelled && r.undecided && r.unsure);
	assert_int_equal(transact(&w, &r), ERR_NONE);
	assert_true(r.cancelled && !r.undecided && !r.unsure);
	assert_int_equal(transact(&w, &r), ERR_NONE);
	assert_true(r.cancelled && r.undecided && !r.unsure);
	world_close(&w);
}

TEST(transaction, that_had_no_room_was_not_done)
{
	struct table_transact_result r;
	struct world                 w;

	world_open(&w, peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL,
	                                        CANCELLED("{\"Code\":\"ThrottlingError\"}"))));
	assert_int_equal(transact(&w, &r), ERR_THROTTLED);
	world_close(&w);
}

static void assert_transaction_ends(struct peer *p, enum err_code code)
{
	struct table_transact_result r;
	struct world                 w;

	world_open(&w, p);
	assert_int_equal(transact(&w, &r), code);
	world_close(&w);
}

#define TRANSACTION_ENDS(code, ...)                                                                          \
	assert_transaction_ends(peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL, __VA_ARGS__)), code)
#define BUSY                                                                                                 \
	{                                                                                                    \
		PEER_ANSWER, "HTTP/1.1 503 Busy\r\nContent-Length: ?\r\n\r\n{}"                              \
	}

/* Else whoever records it elsewhere counts it a second time. */
TEST(transaction, that_got_no_answer_and_was_then_refused_for_the_moment_is_unknown)
{
	TRANSACTION_ENDS(ERR_STORAGE, {PEER_CLOSE, NULL}, ERROR("ThrottlingException", ""));
	TRANSACTION_ENDS(ERR_STORAGE, {PEER_CLOSE, NULL}, BUSY);
	TRANSACTION_ENDS(ERR_STORAGE, UNKNOWN, BUSY);
	TRANSACTION_ENDS(ERR_THROTTLED, BUSY, ERROR("ThrottlingException", ""));
}

TEST(transaction, in_progress_elsewhere_is_unknown)
{
	struct table_transact_result r;
	struct world                 w;

	world_open(&w, peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL,
	                                        ERROR("TransactionInProgressException", ""))));
	assert_int_equal(transact(&w, &r), ERR_STORAGE);
	world_close(&w);
}

/* ---- rows that have expired, which the endpoint still has ---- */

TEST(expired, rows_are_not_found)
{
	struct table_get_result r;
	struct world            w;

	world_open(&w, peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), WITH_TTL, OK("{\"Item\":" EXPIRED "}"))));
	assert_int_equal(get(&w, &r), ERR_NONE);
	assert_false(r.found);
	world_close(&w);
}

TEST(expired, row_is_replaced_by_an_update_of_nothing)
{
	struct table_write_result r;
	struct world              w;

	world_open(&w,
	           peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), WITH_TTL,
	                                    ERROR("ConditionalCheckFailedException", ",\"Item\":" EXPIRED),
	                                    OK("{}"))));
	assert_int_equal(write_one(&w, &r), ERR_NONE);
	assert_false(r.condition_failed);
	assert_true(seen_has(&w, 2, "\"ConditionExpression\":\"NOT (#1<=:1 AND #1>:2)\""));
	assert_true(seen_has(&w, 3, "DynamoDB_20120810.PutItem"));
	assert_true(seen_has(&w, 3, "\"Item\":{\"n\":{\"N\":\"1\"},\"p\":{\"S\":\"a\"}}"));
	assert_true(seen_has(&w, 3, "\"ConditionExpression\":\"#0<=:0 AND #0>:1\""));
	world_close(&w);
}

/* The second variant is another transaction, so its token is another. If nobody says what became of it, a repetition must not begin
 * with the first variant: that would count twice. */
TEST(expired, row_in_a_transaction_is_replaced_and_a_repetition_goes_on_there)
{
	struct table_transact_result r;
	struct world                 w;

	world_open(&w,
	           peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), WITH_TTL,
	                                    CANCELLED("{\"Code\":\"ConditionalCheckFailed\",\"Item\":" EXPIRED
	                                              "}"),
	                                    UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, OK("{}"))));
	assert_int_equal(transact(&w, &r), ERR_STORAGE);
	assert_true(seen_has(&w, 2, "\"ClientRequestToken\":\"the-token\""));
	assert_true(seen_has(&w, 2, "\"Update\""));
	for (unsigned i = 3; i < 7; i++) {
		assert_true(seen_has(&w, i, "\"Put\""));
		assert_false(seen_has(&w, i, "\"the-token\""));
		assert_string_equal(strstr(w.peer->seen[i], "\r\n\r\n"), strstr(w.peer->seen[3], "\r\n\r\n"));
	}
	assert_int_equal(transact(&w, &r), ERR_NONE);
	assert_int_equal(peer_requests(w.peer), 8);
	assert_string_equal(strstr(w.peer->seen[7], "\r\n\r\n"), strstr(w.peer->seen[3], "\r\n\r\n"));
	world_close(&w);
}

/* ---- batches ---- */

TEST(batch, of_which_nothing_was_processed_is_throttled)
{
	struct table_batch_get_result r;
	struct world                  w;
	struct table_get              q;

	world_open(
	        &w,
	        peer_open(0, PEER_SCRIPT(TABLE("ACTIVE"), NO_TTL,
	                                 OK("{\"Responses\":{},\"UnprocessedKeys\":{\"pre-things\":{\"Keys\":"
	                                    "[{\"p\":{\"S\":\"a\"}}]}}}"))));
	q = (struct table_get){.table = BYTES("things"), .key = key_of(&w)};
	assert_int_equal(
	        w.table->backend->batch_get(w.table, &w.arena, &(struct table_batch_get){&q, 1}, &r, &w.err),
	        ERR_THROTTLED);
	world_close(&w);
}

TEST(batch, of_writes_is_sent_again_as_far_as_it_was_not_processed)
{
	struct table_batch_write_result r;
	struct world                    w;
	struct table_write              q[2];
	struct member                   other = {BYTES("p"), value_string(BYTES("b"))};

	world_open(
	        &w,
	        peer_open(0,
	                  PEER_SCRIPT(OK("{\"UnprocessedItems\":{\"pre-things\":[{\"DeleteRequest\":{\"Key\":"
	                                 "{\"p\":{\"S\":\"b\"}}}}]}}"),
	                              OK("{\"UnprocessedItems\":{}}"))));
	q[0] = (struct table_write){.kind = TABLE_DELETE, .table = BYTES("things"), .key = key_of(&w)};
	q[1] = (struct table_write){.kind = TABLE_DELETE, .table = BYTES("things"), .key = {&other, 1}};
	assert_int_equal(w.table->backend->batch_write(w.table, &w.arena, &(struct table_batch_write){q, 2},
	                                               &r, &w.err),
	                 ERR_NONE);
	assert_true(seen_has(&w, 0, "\"a\""));
	assert_false(seen_has(&w, 1, "\"a\""));
	assert_true(seen_has(&w, 1, "\"b\""));
	world_close(&w);
}

/* ---- turns ---- */

struct waiting {
	struct turn_request base;
	pthread_barrier_t  *meeting;
	bool                alone;
	pthread_t           thread;
	atomic_bool        *done;
};

static enum err_code meet(struct turn_request *w, struct table *t)
{
	struct waiting *x = (struct waiting *)w;

	x->alone = t->alone;
	pthread_barrier_wait(x->meeting);
	return ERR_NONE;
}

static void note_done(struct turn_request *w)
{
	atomic_store(((struct waiting *)w)->done, true);
}

static void await(atomic_bool *done)
{
	for (int i = 0; i < 60000 && !atomic_load(done); i++)
		usleep(1000);
	assert_true(atomic_load(done));
}

/* Two workers: each waits for the other, and for this thread. */
TEST(turns, run_side_by_side_and_only_those_that_read_are_alone)
{
	pthread_barrier_t meeting;
	atomic_bool       done[2] = {false, false};
	struct waiting    x[2];
	struct world      w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_CLOSE, NULL})));
	pthread_barrier_init(&meeting, NULL, 3);
	for (int i = 0; i < 2; i++) {
		x[i] = (struct waiting){.base = {.run = meet, .done = note_done, .reads = i == 1},
		                        .meeting = &meeting,
		                        .done = &done[i]};
		assert_int_equal(w.store->backend->submit(w.store, &x[i].base, &w.err), ERR_NONE);
	}
	pthread_barrier_wait(&meeting);
	await(&done[0]);
	await(&done[1]);
	assert_false(x[0].alone);
	assert_true(x[1].alone);
	pthread_barrier_destroy(&meeting);
	world_close(&w);
}

enum { MANY = 16 };

static struct remote *many_open(struct world *w)
{
	struct remote_options options = {.url = "http://127.0.0.1:1",
	                                 .region = "eu-west-1",
	                                 .table_prefix = "",
	                                 .workers = MANY,
	                                 .queue_bytes_max = 1000,
	                                 .clock = &w->clock.base,
	                                 .wire_clock = clock_system(),
	                                 .credentials = w->credentials};
	struct remote        *many;

	assert_int_equal(remote_open(&many, &options, &w->err), ERR_NONE);
	return many;
}

/* All at once, each on a worker of its own. */
static void all_meet(struct world *w, struct store *s)
{
	pthread_barrier_t meeting;
	atomic_bool       done[MANY] = {false};
	struct waiting    x[MANY];

	pthread_barrier_init(&meeting, NULL, MANY + 1);
	for (int i = 0; i < MANY; i++) {
		x[i] = (struct waiting){
		        .base = {.run = meet, .done = note_done}, .meeting = &meeting, .done = &done[i]};
		assert_int_equal(s->backend->submit(s, &x[i].base, &w->err), ERR_NONE);
	}
	pthread_barrier_wait(&meeting);
	for (int i = 0; i < MANY; i++)
		await(&done[i]);
	pthread_barrier_destroy(&meeting);
}

static enum err_code note_thread(struct turn_request *w, struct table *t)
{
	(void)t;
	((struct waiting *)w)->thread = pthread_self();
	return ERR_NONE;
}

/* One after the other they need one worker, or two if the first is not idle yet. In turn, all would have some. */
TEST(turns, run_on_the_worker_that_fell_idle_last)
{
	pthread_t      threads[4 * MANY];
	size_t         count = 0;
	struct remote *many;
	struct world   w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_CLOSE, NULL})));
	many = many_open(&w);
	all_meet(&w, remote_store(many));
	for (int i = 0; i < 4 * MANY; i++) {
		atomic_bool    done = false;
		struct waiting x = {.base = {.run = note_thread, .done = note_done}, .done = &done};
		size_t         k = 0;

		assert_int_equal(remote_store(many)->backend->submit(remote_store(many), &x.base, &w.err),
		                 ERR_NONE);
		await(&done);
		while (k < count && !pthread_equal(threads[k], x.thread))
			k++;
		threads[k] = x.thread;
		count = k == count ? count + 1 : count;
	}
	assert_in_range(count, 1, MANY - MANY / 4);
	remote_close(many);
	world_close(&w);
}

TEST(turns, that_would_wait_beyond_the_bound_are_refused_at_once)
{
	pthread_barrier_t meeting;
	atomic_bool       done[4] = {false, false, false, false};
	struct waiting    x[4];
	struct world      w;

	world_open(&w, peer_open(0, PEER_SCRIPT({PEER_CLOSE, NULL})));
	pthread_barrier_init(&meeting, NULL, 3);
	for (int i = 0; i < 4; i++)
		x[i] = (struct waiting){.base = {.run = meet, .done = note_done, .cost_bytes = 500},
		                        .meeting = &meeting,
		                        .done = &done[i]};
	for (int i = 0; i < 2; i++) { /* both workers are busy with these, once they have taken them */
		assert_int_equal(w.store->backend->submit(w.store, &x[i].base, &w.err), ERR_NONE);
	}
	for (struct store_stats s = {.queue_bytes = 1}; s.queue_bytes > 0; usleep(1000))
		w.store->backend->stats(w.store, &s);
	for (int i = 2; i < 4; i++)
		assert_int_equal(w.store->backend->submit(w.store, &x[i].base, &w.err), ERR_NONE);
	assert_int_equal(w.store->backend->submit(w.store, &(struct turn_request){.cost_bytes = 1}, &w.err),
	                 ERR_OVERLOADED);
	pthread_barrier_wait(&meeting); /* lets the first two go, and then the others */
	pthread_barrier_wait(&meeting);
	for (int i = 0; i < 4; i++)
		await(&done[i]);
	pthread_barrier_destroy(&meeting);
	world_close(&w);
}

/* ---- an endpoint that does not answer ---- */

struct asking {
	struct turn_request base;
	struct world       *w;
	unsigned            calls;
};

static enum err_code ask_often(struct turn_request *w, struct table *t)
{
	struct asking          *a = (struct asking *)w;
	struct table_get        q = {.table = BYTES("things"), .key = key_of(a->w)};
	struct table_get_result r;
	enum err_code           rc = ERR_NONE;

	for (unsigned i = 0; i < a->calls; i++)
		rc = t->backend->get(t, &a->w->arena, &q, &r, &w->err);
	return rc;
}

/* 100 calls of up to 4 tries of 20 ms each would be 8 s. */
TEST(turns, have_one_deadline_for_all_their_calls_and_a_silent_endpoint_costs_nothing_after_a_while)
{
	struct world  w;
	struct asking a = {.base = {.run = ask_often, .cost_bytes = 10}, .w = &w, .calls = 100};
	int64_t       began_us = clock_steady_us(clock_system());

	world_open_with(&w, peer_open(0, PEER_SCRIPT({PEER_SILENT, ""})), 300, 20);
	assert_false(w.table->backend->out(w.table));
	assert_int_equal(store_run(w.store, &a.base, &w.err), ERR_OVERLOADED);
	assert_true(clock_steady_us(clock_system()) - began_us < 3 * 1000 * 1000);
	assert_true(remote_round_trips(w.remote) < 40);
	assert_false(w.store->backend->ready(w.store));
	world_close(&w);
}

TEST(prefix, must_be_made_of_what_names_are_made_of)
{
	struct remote_options options = {
	        .url = "http://127.0.0.1:1", .region = "x", .table_prefix = "a/b", .clock = clock_system()};
	struct remote *r;
	struct err     err;

	assert_int_equal(remote_open(&r, &options, &err), ERR_INVALID);
}
