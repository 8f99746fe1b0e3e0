#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a file at random places: random_reader.py FILE mapped|pread BYTES PLACE..."""

import mmap
import os
import sys


def main():
    path, how, size, places = sys.argv[1], sys.argv[2], int(sys.argv[3]), map(int, sys.argv[4:])
    with open(path, "rb", buffering=0) as f:
        view = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        for place in places:
            data = view[place : place + size] if how == "mapped" else os.pread(f.fileno(), size, place)
            assert len(data) == size


if __name__ == "__main__":
    main()
