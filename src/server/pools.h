/* Pools: how the identity providers of service/provider.h are called: over outbound/cognito.h, with the AWS credentials of this
 * process. */
#ifndef SERVER_POOLS_H
#define SERVER_POOLS_H

#include "base/clock.h"
#include "service/provider.h"

struct pools;

struct pools *pools_open(struct clock *clock);
void          pools_stop(struct pools *p);  /* calls under way end, and later ones fail. NULL: nothing */
void          pools_close(struct pools *p); /* nobody may be in a call. NULL: nothing */

/* Lives as long as the pools. Any thread may call. */
const struct provider_calls *pools_calls(struct pools *p);

#endif
