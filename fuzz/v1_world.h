/* V1 world: what routes under /v1 need to decode a request: services with the policies that ship, and an access key. */
#ifndef FUZZ_V1_WORLD_H
#define FUZZ_V1_WORLD_H

#include <stdio.h>
#include <stdlib.h>

#include "access/credential.h"
#include "access/policy.h"
#include "api/api.h"
#include "api/v1_routes.h"
#include "service/event.h"
#include "service/limits.h"
#include "service/policy_store.h"
#include "service/rules.h"
#include "service/user_policy.h"

#define ALLOW_ALL                                                                                            \
	"{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":"    \
	"\"*\"}]}"

struct world {
	struct json_reader  *json;
	struct services      services;
	struct document_kind kinds[4];
	struct credential    key; /* that may do everything */
	struct api           api; /* without issuers, events and targets */
	struct api_loop      loop;
};

static inline void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static inline void no_random(void *out, size_t len)
{
	memset(out, 0, len);
}

static inline struct world *world_open(void)
{
	static const uint8_t secret[IDENTIFIER_KEY_BYTES];
	struct world        *w = mem_zalloc(sizeof(*w));
	struct err           err;

	w->json = json_reader_open();
	w->loop = (struct api_loop){.api = &w->api, .json = w->json, .meter = &w->api.meter.shards[0]};
	w->api.parts.clock = clock_system();
	w->services.tables = service_tables_default();
	identifier_key_init(&w->services.identifiers, secret);
	document_holder_init(&w->services.devices);
	document_put(&w->services.devices,
	             &device_keys_make(&(struct device_key){.id = 1, .secret = {1}}, 1)->base);
	w->services.random = no_random;
	w->services.limits = limits_open(&(struct limits_options){0});
	w->kinds[0] = (struct document_kind){
	        .name = "attempts", .parse = rules_parse, .holder = &w->services.rules};
	w->kinds[1] = (struct document_kind){
	        .name = "limits", .parse = limit_policies_parse, .holder = limits_holder(w->services.limits)};
	w->kinds[2] = (struct document_kind){
	        .name = "users", .parse = user_policy_parse, .holder = &w->services.users};
	w->kinds[3] = (struct document_kind){.name = "events",
	                                     .parse = event_policy_parse,
	                                     .holder = &w->services.events.policy,
	                                     .changed = event_settings_changed,
	                                     .ctx = &w->services.events};
	require(policy_store_open(&w->services.policies, w->kinds, 4, NULL, &err) == ERR_NONE,
	        "the policies that ship");
	w->key = (struct credential){
	        .id = BYTES("AKGHAAAAAAAAAAAAAAAA"), .name = BYTES("fuzz"), .active = true};
	require(policy_parse(w->json, BYTES(ALLOW_ALL), &w->key.policy, &err) == ERR_NONE,
	        "the key's policy");
	return w;
}

#endif
