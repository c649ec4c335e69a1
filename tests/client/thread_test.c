/* Many threads on one handle: right answers reach the right callers, connections stay few, and a server that
 * breaks off at random disturbs only whom it breaks off. Runs under the thread sanitizer in `make test` too. */
#include "peer.h"

enum { CALLERS = 16, CALLS_EACH = 60, CONNECTIONS = 4 };

struct caller {
	pthread_t         thread;
	struct gatehouse *g;
	unsigned          number;
	unsigned          right, wrong, unknown, degraded;
};

static void *caller_main(void *arg)
{
	struct caller *c = arg;

	for (unsigned i = 0; i < CALLS_EACH; i++) {
		struct gatehouse_attempt_answer answer;
		char                            subject[32];

		snprintf(subject, sizeof(subject), "%u-%u", c->number, i);
		if (client_attempt(c->g, subject, &answer) != GATEHOUSE_OK)
			c->unknown += answer.verdict == GATEHOUSE_UNKNOWN;
		else if (strcmp(answer.reason, subject) == 0)
			c->right++;
		else
			c->wrong++;
	}
	return NULL;
}

static struct caller callers_run(struct gatehouse *g, void *(*body)(void *))
{
	struct caller callers[CALLERS], sum = {0};

	for (unsigned i = 0; i < CALLERS; i++) {
		callers[i] = (struct caller){.g = g, .number = i};
		assert_int_equal(pthread_create(&callers[i].thread, NULL, body, &callers[i]), 0);
	}
	for (unsigned i = 0; i < CALLERS; i++) {
		pthread_join(callers[i].thread, NULL);
		sum.right += callers[i].right;
		sum.wrong += callers[i].wrong;
		sum.unknown += callers[i].unknown;
		sum.degraded += callers[i].degraded;
	}
	return sum;
}

TEST(thread, answers_reach_their_callers_over_no_more_connections_than_allowed)
{
	struct peer             *p = peer_open(0, PEER_SCRIPT({PEER_ECHO, NULL}));
	struct gatehouse_options options = PATIENT;
	struct gatehouse        *g;
	struct caller            sum;

	options.connections_max = CONNECTIONS;
	g = client_open(p->port, options);
	sum = callers_run(g, caller_main);
	assert_int_equal(sum.right, CALLERS * CALLS_EACH);
	assert_in_range(peer_connections(p), 1, CONNECTIONS);
	gatehouse_close(g);
	peer_close(p);
}

TEST(thread, a_server_that_breaks_off_at_random_never_gives_anyone_anothers_answer)
{
	enum { STEPS = 400 };
	struct peer_step         steps[STEPS];
	struct gatehouse_options options = PATIENT;
	struct peer             *p;
	struct gatehouse        *g;
	struct caller            sum;

	for (unsigned i = 0; i < STEPS; i++)
		steps[i] = i % 3 ? (struct peer_step){PEER_ECHO, NULL}
		                 : (struct peer_step){i % 2 ? PEER_CLOSE : PEER_ANSWER_CLOSE, "HTTP/1.1 20"};
	steps[STEPS - 1].behaviour = PEER_ECHO;
	p = peer_open(0, steps, STEPS);
	options.probe_ms = 1;
	g = client_open(p->port, options);
	sum = callers_run(g, caller_main);
	assert_int_equal(sum.wrong, 0);
	assert_int_equal(sum.right + sum.unknown, CALLERS * CALLS_EACH);
	gatehouse_close(g);
	peer_close(p);
}

static void *limited_main(void *arg)
{
	struct caller *c = arg;

	for (unsigned i = 0; i < CALLS_EACH; i++) {
		struct gatehouse_allow_answer answer = client_allow(c->g, "one key");

		c->right += answer.allowed;
		c->degraded += answer.degraded;
	}
	return NULL;
}

TEST(thread, the_local_limiter_lets_exactly_the_limit_through)
{
	static const struct gatehouse_limit limits[] = {
	        {.policy = "p", .limit = 100, .window_s = 86400 * 30}};
	struct gatehouse_options options = PATIENT;
	struct peer             *p = peer_open(0, PEER_SCRIPT({PEER_CLOSE, NULL}));
	struct gatehouse        *g;
	struct caller            sum;

	options.limits = limits;
	options.limit_count = 1;
	options.probe_ms = 1;
	g = client_open(p->port, options);
	sum = callers_run(g, limited_main);
	assert_int_equal(sum.right, 100);
	assert_int_equal(sum.degraded, CALLERS * CALLS_EACH);
	gatehouse_close(g);
	peer_close(p);
}

static void *silent_main(void *arg)
{
	struct caller *c = arg;

	c->degraded += client_allow(c->g, "k").degraded;
	return NULL;
}

TEST(thread, those_who_wait_for_a_connection_keep_their_deadline_too)
{
	struct peer             *p = peer_open(0, PEER_SCRIPT({PEER_SILENT, NULL}));
	struct gatehouse_options options = {.deadline_ms = 200, .connections_max = 2};
	struct gatehouse        *g = client_open(p->port, options);
	struct caller            sum = callers_run(g, silent_main);

	assert_int_equal(sum.degraded, CALLERS);
	assert_in_range(peer_connections(p), 1, 2 * CALLERS);
	gatehouse_close(g);
	peer_close(p);
}

/* Calls go on while the server goes away and comes back, twice. */
struct restless {
	struct gatehouse *g;
	atomic_bool       stop;
	atomic_uint       good, degraded;
};

static void *restless_main(void *arg)
{
	struct restless *r = arg;

	while (!atomic_load(&r->stop)) {
		if (client_allow(r->g, "k").degraded)
			atomic_fetch_add(&r->degraded, 1);
		else
			atomic_fetch_add(&r->good, 1);
	}
	return NULL;
}

static void await_more(atomic_uint *counter)
{
	unsigned before = atomic_load(counter);

	while (atomic_load(counter) < before + 3)
		poll(NULL, 0, 1);
}

TEST(thread, calls_under_way_survive_a_server_that_is_killed_and_started_again)
{
	struct gatehouse_options options = {
	        .deadline_ms = 60000, .probe_ms = 1, .connections_max = CONNECTIONS};
	struct peer    *p = peer_open(0, PEER_SCRIPT({PEER_ANSWER, ALLOWED}));
	unsigned        port = p->port;
	struct restless r = {.g = client_open(port, options)};
	pthread_t       threads[CALLERS];

	for (unsigned i = 0; i < CALLERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, restless_main, &r), 0);
	for (int round = 0; round < 2; round++) {
		await_more(&r.good);
		peer_close(p);
		await_more(&r.degraded);
		p = peer_open(port, PEER_SCRIPT({PEER_ANSWER, ALLOWED}));
		await_more(&r.good);
	}
	atomic_store(&r.stop, true);
	for (unsigned i = 0; i < CALLERS; i++)
		pthread_join(threads[i], NULL);
	gatehouse_close(r.g);
	peer_close(p);
}
