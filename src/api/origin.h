/* Origin: who may speak to a server without authentication. Whoever can reach its port may do anything, and a web page in
 * a browser on the same machine can: by sending it a form (another Origin), or by having its own name resolve to
 * 127.0.0.1 (another Host). Programs send no Origin, and say whom they mean in Host. */
#ifndef API_ORIGIN_H
#define API_ORIGIN_H

#include "api/loop.h"

enum { HOST_NAMES_BYTES_MAX = 1024 };

/* ERR_ORIGIN, naming what is foreign and the setting that allows it. ERR_NONE if there is authentication. */
enum err_code origin_check(const struct api *api, const struct http_request *r, struct err *err);

/* ERR_INVALID unless it is host names, separated by commas, of HOST_NAMES_BYTES_MAX bytes at most. */
enum err_code origin_names_check(struct bytes names, struct err *err);

#endif
