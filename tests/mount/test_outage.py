# SPDX-License-Identifier: Apache-2.0
"""The network goes, and comes back: writers hear nothing of it, and nothing is lost."""

import os
import re
import threading

import pytest

from lib.content import MIB, noise, write_new, write_synced
from lib.proxy import Cut, Late, Refused


@pytest.fixture
def remote(machines, s3_store, proxy):
    """A machine that reaches its store through the proxy."""
    return machines(s3_store.through(proxy.endpoint)).mount()


def test_a_network_that_goes_in_the_middle_of_a_write_costs_no_byte(remote, proxy):  # D02
    m = remote
    data = noise(48 * MIB)
    with open(m.path / "a", "wb", buffering=0) as f:
        for start in range(0, len(data), MIB):
            if start == 16 * MIB:
                proxy.hole = True
            f.write(data[start : start + MIB])
        os.fsync(f.fileno())
    proxy.hole = False

    m.sync(120)
    m.lose()
    m.mount(takeover=True)
    assert (m.path / "a").read_bytes() == data


def test_one_connection_that_stalls_does_not_hold_up_a_restore(remote, proxy):
    m = remote
    data = noise(48 * MIB)
    write_new(m.path / "a", data)
    m.renew()
    seen = []

    def stall_one(request):
        if request.method == "GET" and "/packs/" in request.target:
            seen.append(request.target)
            if len(seen) == 8:
                return Late(600)
        return None

    proxy.spoil = stall_one
    assert (m.path / "a").read_bytes() == data
    assert len(seen) > 8
    assert m.status()["errors"] == 0, "it was waited for until it timed out"


def test_a_small_cache_that_cannot_be_sent_loses_nothing(machines, s3_store, proxy):  # D03
    m = machines(s3_store.through(proxy.endpoint), cache_size="16M").mount()
    files = {f"f{i}": noise(8 * MIB, i) for i in range(6)}
    proxy.hole = True

    def write_all():
        for name, data in files.items():
            write_new(m.path / name, data)

    writer = threading.Thread(target=write_all)
    writer.start()
    m.until(lambda s: s["dirty_bytes"] >= 16 * MIB or not writer.is_alive(), "the cache fills")
    proxy.hole = False
    writer.join(120)
    assert not writer.is_alive(), "the writer waits for ever"
    m.sync(120)
    for name, data in files.items():
        assert (m.path / name).read_bytes() == data

    m.replace()
    for name, data in files.items():
        assert (m.path / name).read_bytes() == data


def test_an_outage_gives_no_error_and_ends_without_a_remount(remote, proxy):  # D07
    m = remote
    pid = m.pid
    write_new(m.path / "before", noise(MIB, "before"))
    m.sync()
    proxy.spoil = lambda request: Refused()
    for i in range(5):
        write_synced(m.path / f"during{i}", noise(MIB, i))
    m.until(lambda s: s["requests"]["retries"] > 3, "it has been tried again and again")
    assert m.status()["error"], "status says nothing of the outage"
    proxy.spoil = None

    write_new(m.path / "after", noise(MIB, "after"))
    m.sync(120)
    assert m.status()["pid"] == pid
    m.until(lambda s: not s["error"], "status says that it is over")
    m.replace()
    for i in range(5):
        assert (m.path / f"during{i}").read_bytes() == noise(MIB, i)
    assert (m.path / "after").read_bytes() == noise(MIB, "after")


def goes_silent(proxy):
    proxy.hole = True


def refuses(proxy):
    proxy.spoil = lambda request: Refused()


@pytest.mark.parametrize("goes", [goes_silent, refuses])
def test_a_store_that_does_not_answer_is_named_before_a_try_has_ended(remote, proxy, goes):
    m = remote
    goes(proxy)
    write_new(m.path / "a", noise(MIB))
    for verb in ("sync", "umount"):
        done = m.command(verb, "--timeout", "5", m.path)
        assert done.returncode == 3, done
        assert re.search(r"(PUT|pack) .*; for \d+ s now", done.stderr), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
    status = m.until(lambda s: s["failing_seconds"] > 2, "status says that nothing gets through")
    assert "PUT" in status["error"] or "pack" in status["error"], status
    assert status["error"] in m.command("status", m.path).stdout
    if goes is goes_silent:
        assert "does not answer" in status["error"], status

    proxy.spoil = None
    proxy.hole = False
    m.sync(120)
    m.until(lambda s: not s["error"] and not s["failing_seconds"], "it is over")
    m.umount()


@pytest.mark.parametrize("sized", [True, False])
def test_an_answer_cut_short_is_asked_for_again(remote, proxy, rng, sized):  # D10
    m = remote
    files = {f"f{i}": noise(700_000, i) for i in range(8)}
    for name, data in files.items():
        write_new(m.path / name, data)
    m.umount()
    m.wipe()
    cut = set()

    def cut_the_first(request):
        """Every question's first answer is cut, so each has to be asked again."""
        question = (request.method, request.target, request.head.get("range"))
        if request.method != "GET" or question in cut:
            return None
        cut.add(question)
        return Cut(rng.choice([0, 1, 100, rng.randrange(100_000)]), sized)

    proxy.spoil = cut_the_first
    m.mount(takeover=True)
    for name, data in files.items():
        assert (m.path / name).read_bytes() == data
    assert cut
