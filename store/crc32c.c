/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C by ISA-L, at the speed of memory. */
#include "store/crc32c.h"

#include <isa-l/crc.h>

#define PIECE_MOST (1u << 30) /* ISA-L counts in int */

uint32_t crc32c_add(uint32_t crc, const void *data, size_t len)
{
	unsigned char *at = (unsigned char *)data; /* ISA-L has no const, and changes nothing */

	crc = ~crc; /* it leaves both inversions to its caller */
	while (len > 0) {
		size_t n = len < PIECE_MOST ? len : PIECE_MOST;

		crc = crc32_iscsi(at, (int)n, crc);
		at += n;
		len -= n;
	}
	return ~crc;
}

uint32_t crc32c(const struct iovec *iov, int iovs)
{
	uint32_t crc = 0;

	for (int i = 0; i < iovs; i++)
		crc = crc32c_add(crc, iov[i].iov_base, iov[i].iov_len);
	return crc;
}
