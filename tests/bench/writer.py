#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves as torch does: PATH.tmp in writes of 1 MiB, close, rename: writer.py PATH BYTES SEED.

A process of its own, so that nothing else of the bench holds its interpreter.  Prints, as JSON,
when it began and ended (monotonic), and its slowest write.
"""

import json
import os
import random
import struct
import sys
import time

MIB = 1 << 20
POOL = 64 * MIB
STAMP_EVERY = 64 * 1024  # a chunk is at least four times as long


class Source:
    """Megabytes of noise that never repeat; nearly free, so that writing is what is measured."""

    def __init__(self, seed):
        self.pool = bytearray(random.Random(seed).randbytes(POOL))
        self.view = memoryview(self.pool)
        self.seed = seed
        self.count = 0

    def next(self):
        at = self.count * MIB % POOL
        for offset in range(at, at + MIB, STAMP_EVERY):
            struct.pack_into(">QQ", self.pool, offset, self.seed, self.count)
        self.count += 1
        return self.view[at : at + MIB]


def save(path, size, source):
    slowest = 0
    begin = time.monotonic()
    fd = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for _ in range(size // MIB):
        piece = source.next()
        before = time.monotonic()
        if os.write(fd, piece) != MIB:
            sys.exit(f"{path}: a short write")
        slowest = max(slowest, time.monotonic() - before)
    os.close(fd)
    os.rename(f"{path}.tmp", path)
    return {"begin": begin, "end": time.monotonic(), "slowest": slowest}


if __name__ == "__main__":
    print(json.dumps(save(sys.argv[1], int(sys.argv[2]), Source(int(sys.argv[3])))))
