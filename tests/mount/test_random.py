# SPDX-License-Identifier: Apache-2.0
"""Reads at random places fetch the chunks they lie in, and little more."""

import mmap
import os

import pytest

from lib.content import MIB, noise, write_new

PLACES = range(5, 125, 10)  # in MiB; each is a jump from the one before
ASKED = 64 * 1024


def read_by_map(path):
    with open(path, "rb", buffering=0) as f:
        with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as view:
            return [view[place * MIB : place * MIB + ASKED] for place in PLACES]


def read_by_call(path):
    with open(path, "rb", buffering=0) as f:
        return [os.pread(f.fileno(), ASKED, place * MIB) for place in PLACES]


@pytest.mark.parametrize("read", [read_by_map, read_by_call])
def test_a_read_at_a_random_place_is_no_reason_to_read_on(machines, s3_store, read):
    m = machines(s3_store, warm="none").mount()
    data = noise(128 * MIB)
    write_new(m.path / "a", data)
    m.renew()
    assert read(m.path / "a") == [data[p * MIB : p * MIB + ASKED] for p in PLACES]
    # A chunk is 1 MiB or so, what the kernel asks for half of one: some lie in two.  And the file's ends come.
    assert m.status()["fetched_bytes"] < (2 * len(PLACES) + 4) * MIB
