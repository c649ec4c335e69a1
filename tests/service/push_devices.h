/* Registered devices as tests write them: a call of each kind, and what they say in a word. */
#ifndef TESTS_SERVICE_PUSH_DEVICES_H
#define TESTS_SERVICE_PUSH_DEVICES_H

#include "service/turn.h"

#include "service/push_feedback.h"
#include "service/push_list.h"
#include "service/push_register.h"

#define TOKEN(name) "ExponentPushToken[" name "]"

/* ---- calls ---- */

struct call {
	struct turn                turn;
	struct push_registration   q;
	struct push_ref            ref;
	struct push_search         search;
	struct push_broadcast      broadcast;
	struct push_feedback       feedback;
	struct push_registered     registered;
	struct push_device         device;
	struct push_ended          ended;
	struct push_erased         erased;
	struct push_page           page;
	struct push_broadcast_page platform;
	enum push_feedback_outcome outcome;
};

#define CALL(name, expression)                                                                               \
	static inline enum err_code name(struct turn *t, struct err *err)                                    \
	{                                                                                                    \
		struct call *c = (struct call *)t;                                                           \
                                                                                                             \
		return expression;                                                                           \
	}

CALL(enrol, push_device_register(&t->ctx, &c->q, &c->registered, err))
CALL(get, push_device_get(&t->ctx, &c->ref, &c->device, err))
CALL(list, push_devices_find(&t->ctx, &c->search, &c->page, err))
CALL(broadcast, push_devices_broadcast(&t->ctx, &c->broadcast, &c->platform, err))
CALL(deactivate, push_device_deactivate(&t->ctx, &c->ref, &c->ended, err))
CALL(take_away, push_device_remove(&t->ctx, &c->ref, &c->ended, err))
CALL(erase, push_devices_erase(&t->ctx, c->ref.user, 0, &c->erased, err))
CALL(feedback, push_feedback_take(&t->ctx, &c->feedback, &c->outcome, err))

/* ---- words ---- */

static uint32_t devices_max; /* of what is registered from here on; 0: 100 */

static inline struct push_registration registration(const char *user, const char *device, const char *token)
{
	return (struct push_registration){.user = bytes_of(user),
	                                  .device = bytes_of(device),
	                                  .platform = BYTES("ios"),
	                                  .devices_max = devices_max > 0 ? devices_max : 100,
	                                  .tokens = {[PUSH_EXPO] = bytes_of(token)}};
}

static inline struct push_registered enrolled(struct service *s, const char *user, const char *device,
                                              const char *token)
{
	struct call c = {.q = registration(user, device, token)};

	turn_take(s, &c.turn, enrol);
	return c.registered;
}

static inline bool found(struct service *s, const char *user, const char *device, struct push_device *out)
{
	struct call   c = {.ref = {bytes_of(user), bytes_of(device)}};
	enum err_code rc = turn_try(s, &c.turn, get);

	assert_true(rc == ERR_NONE || rc == ERR_NOT_FOUND);
	*out = c.device;
	return rc == ERR_NONE;
}

static inline bool is_there(struct service *s, const char *user, const char *device)
{
	struct push_device d;

	return found(s, user, device, &d);
}

static inline uint32_t listed(struct service *s, const char *user, bool inactive)
{
	struct call c = {.search = {.user = bytes_of(user), .inactive = inactive, .limit = PUSH_PAGE_MAX}};

	turn_take(s, &c.turn, list);
	return c.page.count;
}

static inline struct push_ended ended(struct service *s, const char *user, const char *device,
                                      enum err_code (*how)(struct turn *, struct err *))
{
	struct call c = {.ref = {bytes_of(user), bytes_of(device)}};

	turn_take(s, &c.turn, how);
	return c.ended;
}

/* All rows of a table. */
static inline struct table_query_result scanned(struct service *s, const char *table)
{
	struct bytes body = arena_printf(&s->f.arena, "{'TableName':'%s'}", table);
	union answer r;

	memset(&r, 0, sizeof(r));
	assert_int_equal(fixture_try(&s->f, "Scan", body.data, &r), ERR_NONE);
	return r.query;
}

/* As others write them, with the document's PutItem. */
static inline void put_literally(struct service *s, const char *item)
{
	struct bytes body = arena_printf(&s->f.arena, "{'TableName':'device-tokens','Item':%s}", item);

	fixture_ok(&s->f, "PutItem", body.data);
}

#define FCM_TOKEN "fcm-token-of-thirty-two-characters:1"

/* A device with a token of each of two providers. */
static inline struct push_registered enrolled_with_two(struct service *s, const char *user, const char *id)
{
	struct call c = {.q = registration(user, id, TOKEN("a"))};

	c.q.tokens[PUSH_FCM] = BYTES(FCM_TOKEN);
	turn_take(s, &c.turn, enrol);
	return c.registered;
}

/* (1) and (2): every token of every device has a marker that names it and ends with it, and there are no others. */
static inline void check_markers(struct service *s)
{
	struct table_query_result devices = scanned(s, "device-tokens");
	struct table_query_result markers = scanned(s, "gatehouse-push-tokens");
	uint32_t                  tokens = 0, marked = 0;

	for (uint32_t i = 0; i < markers.count; i++)
		marked += !bytes_starts_with(row_text(&markers.items[i], "PK"), BYTES("USER#"));
	for (uint32_t i = 0; i < devices.count; i++) {
		struct push_device d = push_device_of(&devices.items[i]);

		for (int kind = 0; kind < PUSH_KINDS; kind++) {
			bool right = d.tokens[kind].len == 0;

			tokens += d.tokens[kind].len > 0;
			for (uint32_t n = 0; n < markers.count && !right; n++) {
				struct bytes pk = row_text(&markers.items[n], "PK");

				right = pk.len > d.tokens[kind].len &&
				        bytes_equal((struct bytes){pk.data + pk.len - d.tokens[kind].len,
				                                   d.tokens[kind].len},
				                    d.tokens[kind]) &&
				        bytes_equal(row_text(&markers.items[n], "userId"), d.user) &&
				        bytes_equal(row_text(&markers.items[n], "deviceId"), d.id) &&
				        row_i64(&markers.items[n], "expiresAt", 0) == d.expires_s;
			}
			if (!right)
				fail_msg("no marker for a token of %.*s", BYTES_ARG(d.id));
		}
	}
	assert_int_equal(tokens, marked);
}

#endif
