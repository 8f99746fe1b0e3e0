# SPDX-License-Identifier: Apache-2.0
"""Content that is worth comparing, and the calls that Python's open() hides."""

import os
import random

MIB = 1 << 20


def noise(size, seed=0):
    """The same bytes for the same seed; nothing that compresses or repeats."""
    return random.Random(f"{seed}/{size}").randbytes(size)


def write_new(path, data):
    """open(O_CREAT | O_TRUNC), write, close: how most programs save."""
    with open(path, "wb", buffering=0) as f:
        f.write(data)


def write_synced(path, data):
    """As write_new, with what makes a careful program sure: fsync of file and directory."""
    with open(path, "wb", buffering=0) as f:
        f.write(data)
        os.fsync(f.fileno())
    sync_directory(os.path.dirname(path))


def sync_directory(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace(path, data):
    """A temporary file, then rename over: how careful programs save."""
    temporary = f"{path}.tmp"
    write_new(temporary, data)
    os.replace(temporary, path)
