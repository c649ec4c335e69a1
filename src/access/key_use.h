/* Key use: how much of the server a key takes up at this moment, and the ceilings that an operator may put on
 * it, so that one client that runs wild cannot keep the others out.
 *
 * A use belongs to a key, not to a reading of the key file: it goes on when the file is read again, also with
 * another secret or other ceilings. It is counted: by every set of credentials that names the key and by every
 * connection that the key has open. Any thread; no lock. */
#ifndef ACCESS_KEY_USE_H
#define ACCESS_KEY_USE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { KEY_CEILING_MAX = 1000000 }; /* of either kind */

/* 0: none. */
struct key_ceilings {
	uint32_t connections_max;
	uint32_t requests_per_second_max;
};

struct key_use {
	atomic_uint refs;
	atomic_uint connections;
	_Atomic int64_t
	        free_ns; /* steady clock: when all requests so far will have had their share of a second */
};

/* With one reference. */
struct key_use *key_use_open(void);
struct key_use *key_use_ref(struct key_use *u);
void            key_use_release(struct key_use *u); /* NULL is fine */

/* One more connection, with a reference, until key_use_disconnect; false if there are as many as there may
 * be. */
bool key_use_connect(struct key_use *u, const struct key_ceilings *ceilings);
void key_use_disconnect(struct key_use *u);

/* One more request; false if that would be more than the ceiling in a second. As many as a second allows may
 * come at once, after a second of rest. `now_us` is steady; a little earlier than in another thread is fine. */
bool key_use_request(struct key_use *u, const struct key_ceilings *ceilings, int64_t now_us);

#endif
