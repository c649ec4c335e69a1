/* What the routes of registered devices share. */
#ifndef API_V1_DEVICES_H
#define API_V1_DEVICES_H

#include "api/v1_users.h"

/* ?limit=: devices per page. */
enum err_code v1_device_limit(struct v1_call *c, uint32_t *out, struct err *err);
enum err_code v1_device_cursor_wrong(struct err *err);

#endif
