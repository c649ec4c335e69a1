/* Identity fuzz: any bytes, read as the identity file. It is accepted, or refused with a text that names a line or the field. */
#include <stdio.h>
#include <stdlib.h>

#include "server/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err    err = {0};
	enum err_code rc = identity_check_text((struct bytes){(const char *)data, size}, &err);

	if ((rc == ERR_NONE) == (err.text[0] == '\0') && rc == err.code)
		return 0;
	fprintf(stderr, "code %d, text \"%s\"\n", (int)rc, err.text);
	abort();
}
