/* Headers that a webhook's messages carry besides those of the sender: what a gateway before the receiver asks for, say. An attribute of a target's row (target.h):
 *
 *   headers   [{name: "X-Tenant", value: "acme"}, {name: "Authorization", secret: true}]
 *
 * The value of a secret one is sealed, as the target's other secrets are, under "header:" and its name in lower case. It is shown to nobody, and is asked for
 * again if the receiver changes (target.h, 5).
 *
 * What always holds
 * (1) A name is a token of HTTP, none that the sender or the connection sets, and comes once. A value is visible ASCII and spaces: no line break gets into a
 *     request's head.
 * (2) Authorization and Cookie are always secret. */
#ifndef SERVICE_TARGET_HEADER_H
#define SERVICE_TARGET_HEADER_H

#include "service/row.h"

enum {
	TARGET_HEADERS_MAX = 10,
	TARGET_HEADER_NAME_BYTES_MAX = 64,
	TARGET_HEADER_BYTES_MAX = 2048, /* of a value */
};

struct target_header {
	struct bytes name,
	        value; /* no value, of one that is given: the stored one stays. Of a stored one: it is sealed */
	bool secret;
};

/* NULL, or what is wrong with it: "must …". (1) and (2), but for names that come twice. */
const char *target_header_wrong(const struct target_header *h);

/* Is there one of that name before this one? Case does not matter. */
bool target_header_is_again(const struct target_header *list, uint32_t at);

/* What its value is sealed as. */
struct bytes target_header_sealed(struct arena *a, struct bytes name);

/* Is that the name of a sealed header; of the one with that name? */
bool target_header_is_sealed(struct bytes sealed);
bool target_header_seals(struct bytes sealed, struct bytes name);

/* As a row has them, and back. What is none is left out. */
struct value          target_headers_value(struct arena *a, const struct target_header *list, uint32_t count);
struct target_header *target_headers_of(struct arena *a, const struct item *row, uint32_t *count);

#endif
