/* Lanes of registered devices. A success that makes a device known may name the registered device that it came from; the
 * known device's row (device.h) then holds its id, as `device_id`. When the registered device ends, so do these lanes.
 *
 * A sign-in may be counted under the user's id or under an address of the user's: both are looked at. */
#ifndef SERVICE_PUSH_LANE_H
#define SERVICE_PUSH_LANE_H

#include "service/context.h"

/* The lanes of a user that are linked to any registered device. */
struct push_lanes {
	const struct item **rows; /* of auth-state */
	uint32_t            count;
};

enum err_code push_lanes_read(struct context *ctx, struct bytes user, struct push_lanes *out,
                              struct err *err);

/* Those of one device. */
uint32_t push_lanes_count(const struct push_lanes *lanes, struct bytes device);

/* Forgets them; how many. */
uint32_t push_lanes_end(struct context *ctx, const struct push_lanes *lanes, struct bytes device);

/* All that are left, also of devices that are gone. */
uint32_t push_lanes_end_all(struct context *ctx, const struct push_lanes *lanes);

#endif
