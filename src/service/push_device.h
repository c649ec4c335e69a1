/* Push devices: which phones a user gets messages on. Rows of the table `device-tokens`:
 *
 *   userId  deviceId   expoPushToken, fcmToken, apnsToken, platform, registeredAt, updatedAt, isActive, expiresAt
 *                      platformShard, isActiveText: the keys of the index, where that is switched on
 *                      expiryDueAt: when its end is to be looked at (push_due.h)
 *
 * and of `gatehouse-push-tokens` (push_token.h), which say who has a token.
 *
 * What always holds
 * (1) A push token has one device. Whoever registers it takes it away from the device that had it, in the same commit; a
 *     device that is left without any token is removed. So two people with one phone never get each other's messages.
 * (2) A device's row and its tokens' markers are written, prolonged and removed together.
 * (3) Each registration ends PUSH_DEVICE_LIFE_S from now, and makes the device active. registeredAt stays.
 * (4) A registration leaves its user with so many devices at most; those that were seen least recently go first. If others
 *     wrote more rows than one commit can remove, the next registrations go on.
 * (5) A device that is deactivated or removed loses its lanes (device.h): the tokens of known devices that were issued with
 *     its id, to the user's id or to one of the user's addresses.
 *
 * Others may write rows too, as the document says. Those have no markers until the device is registered here again. */
#ifndef SERVICE_PUSH_DEVICE_H
#define SERVICE_PUSH_DEVICE_H

#include "service/event.h"
#include "service/push_lane.h"
#include "service/push_token.h"

enum {
	PUSH_DEVICE_ID_BYTES_MAX = 256,
	PUSH_DEVICE_LIFE_S = 90 * 86400,
	PUSH_REMOVE_ROOM = 16, /* rows that a commit needs for one device more, beside those of its lanes */
};

struct push_device {
	struct bytes user, id, platform, registered_at, updated_at;
	struct bytes tokens[PUSH_KINDS]; /* empty: it has none of that kind */
	bool         active;
	int64_t      expires_s; /* 0: never */
	struct item  row;
};

extern const char *const push_platforms[]; /* "ios", "android"; NULL last */

/* Is it one: not empty, not too long, without control characters? */
bool push_device_id_is(struct bytes id);

struct push_device push_device_of(const struct item *row);

/* Sets the attributes of the index, or takes them away where it is not switched on, or the row is of no platform. */
void push_row_index(struct context *ctx, struct row *row);

bool push_index_differs(const struct item *before, const struct item *after);

/* The same of a row that any code writes, where the index is switched on. False: it has them, or lacks them, as it should. */
bool push_row_complete(const void *settings, struct arena *a, const struct item *row, struct item *out);

/* ---- reading ---- */

/* A device of a user. */
struct push_ref {
	struct bytes user, device;
};

/* ERR_NOT_FOUND. */
enum err_code push_device_get(struct context *ctx, const struct push_ref *q, struct push_device *out,
                              struct err *err);

/* ---- ending ---- */

struct push_ended {
	struct push_device device;
	bool               changed; /* it was active until now */
	uint32_t           lanes;   /* that ended with it */
};

/* Inactive devices keep their tokens, and get nothing. ERR_NOT_FOUND, here and below. */
enum err_code push_device_deactivate(struct context *ctx, const struct push_ref *q, struct push_ended *out,
                                     struct err *err);
enum err_code push_device_remove(struct context *ctx, const struct push_ref *q, struct push_ended *out,
                                 struct err *err);

struct push_erased {
	uint32_t devices, lanes;
	bool     more; /* there are more than one commit can remove: another call goes on */
};

/* All devices of a user, active or not, and what else is kept about them; but none that changed after that second (0: any). */
enum err_code push_devices_erase(struct context *ctx, struct bytes user, int64_t until_s,
                                 struct push_erased *out, struct err *err);

/* ---- rows, for push_….c ---- */

bool    push_is_active(const struct item *row);
int64_t push_seen_of(const struct item *row); /* when it was last seen, in seconds */

enum err_code push_device_look(struct context *ctx, const struct push_ref *q, struct looked *out,
                               struct err *err);

/* All of a user, expired ones too. */
enum err_code push_rows_query(struct context *ctx, struct bytes user, struct table_query_result *r,
                              struct err *err);

struct item push_row_put(struct context *ctx, struct row *row); /* with the attributes of the index */
void        push_row_delete(struct context *ctx, const struct item *row);

/* Of the index: "ios#3". The shard is spread evenly, and the same for ever. */
uint32_t     push_shard_of(struct bytes user, struct bytes device, uint32_t shards);
struct bytes push_shard_key(struct arena *a, struct bytes platform, uint32_t shard);

/* An event tells ids and a word, and never a token. */
void push_publish(struct context *ctx, enum event_type type, const struct push_device *d, const char *name,
                  struct bytes text);

/* Is there room in this commit for the end of one device more? `lanes` are its user's, here and below. */
bool push_end_fits(const struct context *ctx, const struct push_lanes *lanes, struct bytes device);

void push_row_deactivate(struct context *ctx, const struct item *row, const struct push_lanes *lanes,
                         const char *reason, struct push_ended *out);

enum push_reason { REMOVED_ASKED, REMOVED_LIMIT, REMOVED_INACTIVE, REMOVED_MOVED, REMOVED_ERASED };

enum err_code push_row_drop(struct context *ctx, const struct item *row, const struct push_lanes *lanes,
                            enum push_reason reason, struct err *err);

/* Removes a row that was found by a scan, with markers and lanes, if there is room. */
enum err_code push_device_remove_found(struct context *ctx, const struct item *row, enum push_reason reason,
                                       bool *fits, struct err *err);

#endif
