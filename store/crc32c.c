/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C by ISA-L, at the speed of memory. */
#include "store/crc32c.h"

#include <isa-l/crc.h>

#define PIECE_MOST (1u << 30) /* ISA-L counts in int */

uint32_t crc32c(const struct iovec *iov, int iovs)
{
	uint32_t crc = UINT32_MAX; /* ISA-L leaves both inversions to its caller */

	for (int i = 0; i < iovs; i++) {
		unsigned char *at = iov[i].iov_base;

		for (size_t left = iov[i].iov_len; left > 0;) {
			size_t n = left < PIECE_MOST ? left : PIECE_MOST;

			crc = crc32_iscsi(at, (int)n, crc);
			at += n;
			left -= n;
		}
	}
	return ~crc;
}
