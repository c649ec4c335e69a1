/* Policy following: the worker that brings policies which another process changed into force here (service/policy_store.h). It looks every
 * POLICY_FOLLOW_S, at one small row. Only for a store that other processes use too: on the embedded engine nobody else changes policies. */
#ifndef SERVER_POLICY_FOLLOW_H
#define SERVER_POLICY_FOLLOW_H

#include "service/services.h"
#include "table/store.h"

enum { POLICY_FOLLOW_S = 2 };

struct policy_follower;

enum err_code policy_follow_open(struct policy_follower **out, struct services *services, struct store *store,
                                 struct err *err);
void          policy_follow_close(struct policy_follower *f); /* NULL is fine */

#endif
