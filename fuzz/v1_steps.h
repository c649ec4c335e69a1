/* A call under /v1 up to where it would run, in the dispatcher's order. */
#ifndef FUZZ_V1_STEPS_H
#define FUZZ_V1_STEPS_H

#include "api/v1.h"

static inline enum err_code v1_steps(struct call *c, struct json_reader *json, struct err *err)
{
	enum err_code rc = v1_protocol.foresee(c, err);

	if (rc == ERR_NONE)
		rc = v1_protocol.name(c, json, err);
	if (rc == ERR_NONE)
		rc = v1_protocol.authorise(c, err);
	return rc == ERR_NONE ? v1_protocol.decode(c, json, err) : rc;
}

#endif
