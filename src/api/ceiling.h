/* Ceiling: a key's ceilings (access/key_use.h), held against the requests that it signs.
 *
 * A connection counts for the key that signed its last request, from the first such request until the
 * connection ends; one request is under way on it at a time, so a ceiling on connections is one on requests
 * under way too. Only what a signature has proven is counted: nobody can use up another's share. */
#ifndef API_CEILING_H
#define API_CEILING_H

#include "api/auth.h"

/* ERR_THROTTLED, which SDKs wait and try again after, if the caller's key is at a ceiling. Before anything
 * of the request is decoded. */
enum err_code ceiling_check(struct api_loop *l, struct http_request *r, const struct caller *who,
                            struct err *err);

/* Must the connection end with this answer? It does if the key may not have it. */
bool ceiling_ends(const struct http_request *r, enum err_code outcome);

/* http_handler's conn_end. */
void ceiling_conn_end(void *api, void *use);

#endif
