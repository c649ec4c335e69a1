/* Error: how every call says what went wrong. Whoever finds it fills *error, once, and returns the code. */
#ifndef CLIENT_ERROR_H
#define CLIENT_ERROR_H

#include "gatehouse.h"

enum gatehouse_code error_set(struct gatehouse_error *error, enum gatehouse_code code, const char *format,
                              ...) __attribute__((format(printf, 3, 4)));

#endif
