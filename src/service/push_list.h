/* Lists of devices: those of a user, and those of a platform, for broadcasts. */
#ifndef SERVICE_PUSH_LIST_H
#define SERVICE_PUSH_LIST_H

#include "service/push_device.h"

enum {
	PUSH_PAGE_MAX = 500,
	PUSH_EXAMINED_MAX = 2000, /* rows that one page looks at */
};

struct push_search {
	struct bytes user;
	bool         inactive; /* those too */
	uint32_t     limit;
	struct bytes after; /* where the page before ended; no data: the first page */
};

/* A page may be short or empty and still not be the last. */
struct push_page {
	struct push_device *list;
	uint32_t            count;
	bool                more;
	struct bytes        last; /* if more: deviceId */
};

enum err_code push_devices_find(struct context *ctx, const struct push_search *q, struct push_page *out,
                                struct err *err);

/* All active devices of a platform, from the index. ERR_NOT_NOW if it is not switched on. A device that is registered or
 * deactivated meanwhile may be among them or not; any other comes exactly once. */
struct push_broadcast {
	struct bytes platform;
	bool         judged; /* each row is read, and left out if it is not active: code that writes the table itself does not know the index */
	uint32_t     limit, shard;             /* where the page before ended: */
	struct bytes after_user, after_device; /* no data: the shard begins */
};

struct push_broadcast_page {
	struct push_device *list; /* keys, and the token of Expo's */
	uint32_t            count;
	bool                more;
	uint32_t            shard; /* if more */
	struct bytes        last_user, last_device;
};

enum err_code push_devices_broadcast(struct context *ctx, const struct push_broadcast *q,
                                     struct push_broadcast_page *out, struct err *err);

#endif
