/* Settled: everything that is committed is in the store, and nothing waits. */
#ifndef TESTS_ENGINE_SETTLED_H
#define TESTS_ENGINE_SETTLED_H

#include "engine/fixture.h"
#include "engine/state.h"

static inline void fixture_settle(struct fixture *f)
{
	assert_int_equal(write_back_all(&f->engine->write_back, &f->err), ERR_NONE);
	assert_int_equal(cache_dirty_bytes(f->engine->cache), 0);
}

#endif
