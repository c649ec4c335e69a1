/* Handle: opening and closing; see handle.h. */
#include "handle.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "error.h"
#include "pool.h"

bool random_fill(void *out, size_t len)
{
	return getrandom(out, len, 0) == (ssize_t)len;
}

/* ---- options ---- */

static bool is_within(int64_t value, int64_t max)
{
	return value >= 0 && value <= max;
}

/* A key goes into a header as it is: visible ASCII only. */
static bool key_is_sane(const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < len; i++)
		if (key[i] <= ' ' || key[i] > '~')
			return false;
	return len > 0 && len <= HANDLE_KEY_BYTES_MAX;
}

static const char *options_fault(const struct gatehouse_options *o)
{
	if (o->url == NULL)
		return "url: missing";
	if (o->key != NULL && !key_is_sane(o->key))
		return "key: must be ID.SECRET, as `gatehouse key` prints them";
	if (!is_within(o->deadline_ms, GATEHOUSE_DEADLINE_MS_MAX))
		return "deadline_ms: must be from 0 to GATEHOUSE_DEADLINE_MS_MAX";
	if (!is_within(o->connections_max, GATEHOUSE_CONNECTIONS_MAX))
		return "connections_max: must be from 0 to GATEHOUSE_CONNECTIONS_MAX";
	if (!is_within(o->probe_ms, GATEHOUSE_PROBE_MS_MAX))
		return "probe_ms: must be from 0 to GATEHOUSE_PROBE_MS_MAX";
	if (o->local_keys_max > GATEHOUSE_LOCAL_KEYS_MAX)
		return "local_keys_max: must be at most GATEHOUSE_LOCAL_KEYS_MAX";
	if (o->limit_count > GATEHOUSE_LIMITS_MAX || (o->limit_count > 0 && o->limits == NULL))
		return "limits: must be at most GATEHOUSE_LIMITS_MAX, and not NULL";
	return NULL;
}

static int or_default(int value, int otherwise)
{
	return value != 0 ? value : otherwise;
}

static void options_copy(struct gatehouse *g, const struct gatehouse_options *o)
{
	if (o->key != NULL)
		memcpy(g->key, o->key, strlen(o->key) + 1);
	g->deadline_ms = or_default(o->deadline_ms, GATEHOUSE_DEADLINE_MS_DEFAULT);
	g->connections_max = (unsigned)or_default(o->connections_max, GATEHOUSE_CONNECTIONS_DEFAULT);
	g->deny_when_unknown = o->deny_when_unknown;
	g->breaker.probe_us = or_default(o->probe_ms, GATEHOUSE_PROBE_MS_DEFAULT) * INT64_C(1000);
	g->names.loopback_only = o->key != NULL && !g->names.tls && !o->plain_http;
}

/* ---- opening ---- */

static enum gatehouse_code limits_take(struct gatehouse *g, const struct gatehouse_options *o,
                                       struct gatehouse_error *error)
{
	uint64_t seed[2];
	size_t   keys = o->local_keys_max != 0 ? o->local_keys_max : GATEHOUSE_LOCAL_KEYS_DEFAULT;

	if (!random_fill(seed, sizeof(seed)) || !limiter_init(&g->limiter, keys, seed))
		return error_set(error, GATEHOUSE_NO_MEMORY, "out of memory for the local limiter");
	for (size_t i = 0; i < o->limit_count; i++)
		if (!limiter_give(&g->limiter, &o->limits[i]))
			return error_set(error, GATEHOUSE_INVALID,
			                 "limits: entry %zu is not valid, or one too many for its policy", i);
	return GATEHOUSE_OK;
}

static void lock_init(struct gatehouse *g)
{
	pthread_condattr_t steady;

	pthread_condattr_init(&steady);
	pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
	pthread_cond_init(&g->changed, &steady);
	pthread_condattr_destroy(&steady);
	pthread_mutex_init(&g->lock, NULL);
}

/* With the names parsed, so that closing it is possible. */
static enum gatehouse_code handle_fill(struct gatehouse *g, const struct gatehouse_options *o,
                                       struct gatehouse_error *error)
{
	enum gatehouse_code rc;

	lock_init(g);
	options_copy(g, o);
	rc = limits_take(g, o, error);
	if (rc == GATEHOUSE_OK)
		rc = names_resolve(&g->names, error);
	if (rc == GATEHOUSE_OK && g->names.tls) {
		g->tls = tls_context_open(o, error);
		rc = g->tls == NULL ? error->code : GATEHOUSE_OK;
	}
	return rc;
}

struct gatehouse *gatehouse_open(const struct gatehouse_options *options, struct gatehouse_error *error)
{
	const char            *fault = options_fault(options);
	struct gatehouse_error unwanted;
	struct gatehouse      *g;

	if (error == NULL)
		error = &unwanted;
	if (fault != NULL) {
		error_set(error, GATEHOUSE_INVALID, "%s", fault);
		return NULL;
	}
	g = calloc(1, sizeof(*g));
	if (g == NULL) {
		error_set(error, GATEHOUSE_NO_MEMORY, "out of memory for a handle");
		return NULL;
	}
	if (names_init(&g->names, options->url, error) != GATEHOUSE_OK) {
		free(g);
		return NULL;
	}
	if (handle_fill(g, options, error) == GATEHOUSE_OK)
		return g;
	gatehouse_close(g);
	return NULL;
}

void gatehouse_close(struct gatehouse *g)
{
	if (g == NULL)
		return;
	pool_drop_idle(g);
	names_release(&g->names);
	limiter_release(&g->limiter);
	tls_context_close(g->tls);
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->lock);
	explicit_bzero(g->key, sizeof(g->key));
	free(g);
}
