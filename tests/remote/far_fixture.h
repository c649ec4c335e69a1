/* Far fixture: a fixture whose requests run at an endpoint (endpoint.h): our own server over the fixture's engine, or a server of
 * others. ENDPOINT_VARIABLE puts the suites of services there. */
#ifndef TESTS_REMOTE_FAR_FIXTURE_H
#define TESTS_REMOTE_FAR_FIXTURE_H

#include "engine/fixture.h"
#include "remote/endpoint.h"

/* Of the test that runs: there is one at a time. */
static struct {
	const char         *name; /* of the endpoint; NULL: there is none */
	struct fixture     *f;
	struct own_server   own;
	struct clock_manual own_clock; /* of our own server's engine: it stands behind */
	struct far          far;
} far_world;

static inline bool far_is_own(void)
{
	return strcmp(far_world.name, "own") == 0 || strcmp(far_world.name, "aws") == 0;
}

static inline void far_own_open(struct fixture *f)
{
	clock_manual_init(&far_world.own_clock, (int64_t)START_S * 1000000);
	f->options.clock = &far_world.own_clock.base;
	fixture_start(f);
	if (strcmp(far_world.name, "aws") == 0)
		own_server_open_aws(&far_world.own, f->engine);
	else
		own_server_open(&far_world.own, f->engine);
}

static inline void far_fixture_close(struct fixture *f)
{
	bool own = far_is_own();

	far_close(&far_world.far);
	far_world.name = NULL;
	if (own) {
		own_server_close(&far_world.own);
		fixture_close(f);
		return;
	}
	fixture_release(f);
}

/* Threads that nobody ended would run on, into the end of the program. */
static inline void far_leave(struct fixture *f)
{
	far_fixture_close(f);
	skip();
}

/* At a server of others there is no engine, but the directory: tests keep files there. */
static inline void far_fixture_open(struct fixture *f, const char *name)
{
	char dir[] = "/tmp/gatehouse-test-XXXXXX";

	assert_non_null(mkdtemp(dir));
	fixture_init(f, dir);
	far_world.name = name;
	if (far_is_own())
		far_own_open(f);
	far_open(&far_world.far, far_is_own() ? &far_world.own : NULL, name, &f->clock.base);
	far_world.f = f;
	f->store = remote_store(far_world.far.remote);
	f->leave = far_leave;
}

/* Our own server's clock comes to what the test's says, and it does what it does in the background. */
static inline void far_own_catch_up(struct fixture *f)
{
	clock_manual_set(&far_world.own_clock, clock_wall_us(&f->clock.base));
	engine_tick(f->engine);
}

/* ---- suites that run on the engine, or elsewhere if asked ---- */

static inline void near_or_far_open(struct fixture *f)
{
	const char *name = getenv(ENDPOINT_VARIABLE);

	if (name == NULL || *name == '\0')
		fixture_open(f);
	else
		far_fixture_open(f, name);
}

static inline void near_or_far_close(struct fixture *f)
{
	if (f->store == NULL)
		fixture_close(f);
	else
		far_fixture_close(f);
}

/* Again if others came first, as the dispatcher does. */
static inline enum err_code far_run(struct fixture *f, struct turn_request *w, struct err *err)
{
	enum err_code rc;
	int           decisions = 0;

	do
		rc = store_run(f->store, w, err);
	while (rc == ERR_CONDITION && ++decisions < 100);
	return rc;
}

static inline enum err_code near_or_far_run(struct fixture *f, struct turn_request *w, struct err *err)
{
	return f->store != NULL ? far_run(f, w, err) : engine_run(f->engine, w, err);
}

#endif
