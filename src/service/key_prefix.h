/* Key prefix: are these whole parts of a row's key? "SIGN_IN#ERROR_COUNT" and "SIGN_IN#ERROR_COUNT#" are; "SIGN_IN#ERR" is not. Nothing is ever
 * found under half a part, and a sum of 0 would say that nothing was counted.
 *
 * A part is half if a name that may stand there begins with it, and none is it: names of journeys, classifier types and classifiers come from the
 * policies and from row.h. So what no policy names any more may still be asked for. Qualifiers are anything, and taken as they are. */
#ifndef SERVICE_KEY_PREFIX_H
#define SERVICE_KEY_PREFIX_H

#include "service/rules.h"

/* Of a prefix that is not whole: the part, and the name that it is half of. */
struct key_half {
	struct bytes part, whole;
};

bool key_prefix_is_whole(const struct rules *rules, struct bytes prefix, struct key_half *out);

#endif
