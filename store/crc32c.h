/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli), the checksum that travels with a PUT.  Pure; thread: any. */
#ifndef HOLDFAST_STORE_CRC32C_H
#define HOLDFAST_STORE_CRC32C_H

#include <stdint.h>
#include <sys/uio.h>

/* "123456789" gives 0xe3069283. */
uint32_t crc32c(const struct iovec *iov, int iovs);

#endif
