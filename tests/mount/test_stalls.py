# SPDX-License-Identifier: Apache-2.0
"""Connections that stand still: what was asked on one comes over another."""

import pytest

from lib.content import MIB, noise, write_new
from lib.proxy import Stalled


@pytest.mark.parametrize("after", [None, 0, 100_000])
def test_a_restore_survives_connections_that_stand_still(machines, s3_store, proxy, after):
    """Every eighth question, whatever it is about: the log, a directory, content."""
    m = machines(s3_store.through(proxy.endpoint), warm="none").mount()
    data = noise(40 * MIB)
    write_new(m.path / "a", data)
    m.umount()
    m.wipe()
    asked, stalled = [], []

    def stall_some(request):
        question = (request.target, request.head.get("range"))
        asked.append(question)
        if request.method != "GET" or len(asked) % 8 or question in stalled:
            return None
        stalled.append(question)
        return Stalled(after)

    proxy.spoil = stall_some
    m.mount()
    assert (m.path / "a").read_bytes() == data
    assert stalled
    assert all(asked.count(question) > 1 for question in stalled)
