/* Ceiling: what a connection keeps is the use that it counts for. */
#include "api/ceiling.h"

/* False if the key may have no more. Then the connection counts for no one, and ends. */
static bool claim(struct http_request *r, const struct credential *key)
{
	struct key_use *held = http_conn_data(r), *now = key->use;

	if (held == now)
		return true;
	if (held != NULL)
		key_use_disconnect(held);
	if (!key_use_connect(now, &key->ceilings))
		now = NULL;
	http_conn_keep(r, now);
	return now != NULL;
}

enum err_code ceiling_check(struct api_loop *l, struct http_request *r, const struct caller *who,
                            struct err *err)
{
	const struct credential *key = who->key;

	if (key == NULL)
		return ERR_NONE;
	if (!claim(r, key)) {
		metric_add(&l->api->refused_connections, 1);
		return err_set(err, ERR_THROTTLED,
		               "The key %.*s may have at most %u connections open. Close some, or raise the "
		               "limit with `gatehouse key limit`.",
		               BYTES_ARG(key->name), key->ceilings.connections_max);
	}
	if (!key_use_request(key->use, &key->ceilings, r->received_us)) {
		metric_add(&l->api->refused_requests, 1);
		return err_set(err, ERR_THROTTLED,
		               "The key %.*s may make at most %u requests per second. Slow down, or raise "
		               "the limit with `gatehouse key limit`.",
		               BYTES_ARG(key->name), key->ceilings.requests_per_second_max);
	}
	return ERR_NONE;
}

bool ceiling_ends(const struct http_request *r, enum err_code outcome)
{
	return outcome == ERR_THROTTLED && http_conn_data(r) == NULL;
}

void ceiling_conn_end(void *api, void *use)
{
	(void)api;
	key_use_disconnect(use);
}
