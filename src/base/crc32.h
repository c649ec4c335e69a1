/* CRC-32: the checksum of journal records, of exported lines, and of DynamoDB's answers (x-amz-crc32): zlib's polynomial. Pure: any thread
 * may call it. */
#ifndef BASE_CRC32_H
#define BASE_CRC32_H

#include "base/bytes.h"

uint32_t crc32_of(struct bytes data);

#endif
