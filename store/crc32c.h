/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli), the checksum that travels with a PUT.  Pure; thread: any. */
#ifndef HOLDFAST_STORE_CRC32C_H
#define HOLDFAST_STORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* "123456789" gives 0xe3069283. */
uint32_t crc32c(const struct iovec *iov, int iovs);
/* Of what crc is of (0: of nothing), followed by data. */
uint32_t crc32c_add(uint32_t crc, const void *data, size_t len);

#endif
