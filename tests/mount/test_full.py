# SPDX-License-Identifier: Apache-2.0
"""No room: in the cache, or on its disk.  Writers wait, can be killed, and nothing is lost."""

import errno
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

from lib.content import MIB, noise, write_new, write_synced
from lib.procs import HANGS_S, Group, until

WRITERS = 64

# Saves without end: what a trainer does.  Its size is that of a write, so that none is cut into two.
SAVER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins without
for i in range(1000):
    with open(f"{sys.argv[1]}/{sys.argv[2]}{i}", "wb", buffering=0) as f:
        for _ in range(4):
            f.write(bytes([i]) * (1 << 20))
"""

READER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
import mmap
os.preadv(fd, [mmap.mmap(-1, 1 << 20)], 0)
"""


def saver(m, name="f"):
    return Group([sys.executable, "-c", SAVER, str(m.path), name])


def all_wait(n):
    return lambda s: s["waiting_writers"] == n


def ends_by(group, number):
    """It ends although its request is not answered yet: a writer in D state would not."""
    group.signal(number)
    return group.wait(HANGS_S)


@pytest.fixture
def dead_store(machines, s3_store, proxy):
    """dead_store(**options): a machine whose store has gone."""

    def mount(**options):
        m = machines(s3_store.through(proxy.endpoint), **options).mount()
        proxy.hole = True
        return m

    return mount


# ---- the cache is full ----


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_writer_that_waits_for_room_can_be_killed(dead_store, number):
    m = dead_store(cache_size="8M")
    with saver(m) as writer:
        status = m.until(all_wait(1), "the writer waits")
        assert "full" in status["waiting_why"]
        assert ends_by(writer, number) != 0
    m.until(all_wait(0), "nobody waits")


def test_a_full_cache_gives_enospc_when_told_to(dead_store, proxy):
    m = dead_store(cache_size="8M", full="enospc:0.5")
    with pytest.raises(OSError) as e:
        for i in range(20):
            write_new(m.path / f"f{i}", noise(4 * MIB, i))
    assert e.value.errno == errno.ENOSPC
    proxy.hole = False
    m.sync()
    write_new(m.path / "after", noise(4 * MIB))


def rss_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def threads_of(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


class Writers:
    """Threads that save one file after the other until they are told to stop."""

    def __init__(self, path, n, size):
        self.path = path
        self.size = size
        self.hashes = {}
        self.enough = threading.Event()
        self.errors = []
        self.threads = [threading.Thread(target=self._run, args=(i,)) for i in range(n)]
        for t in self.threads:
            t.start()

    def _run(self, writer):
        i = 0
        try:
            while not self.enough.is_set():
                name = f"w{writer}-{i}"
                data = noise(self.size, name)
                write_new(self.path / name, data)
                self.hashes[name] = hashlib.sha256(data).hexdigest()
                i += 1
        except OSError as e:
            self.errors.append(e)

    def stop(self, seconds):
        self.enough.set()
        for t in self.threads:
            t.join(seconds)
        return not any(t.is_alive() for t in self.threads)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("seconds", [20, pytest.param(600, marks=pytest.mark.long)])
def test_64_writers_against_a_dead_store_cost_nothing_but_their_time(
    machines, s3_store, proxy, seconds
):
    m = machines(s3_store.through(proxy.endpoint), cache_size="32M").mount()
    pid = m.pid
    proxy.hole = True
    writers = Writers(m.path, WRITERS, 2 * MIB)
    try:
        m.until(all_wait(WRITERS), "all writers wait")
        rss = rss_kib(pid)
        written = len(writers.hashes)
        with pytest.raises(AssertionError):  # so long nothing but time goes by
            until(lambda: m.status()["waiting_writers"] != WRITERS, seconds, "somebody goes on")
        assert len(writers.hashes) == written
        assert threads_of(pid) < WRITERS
        assert rss_kib(pid) <= rss + 32 * 1024
        proxy.hole = False
        until(lambda: len(writers.hashes) >= written + 2 * WRITERS, HANGS_S, "all flows again")
    finally:
        proxy.hole = False
        stopped = writers.stop(HANGS_S)
    assert stopped, "a writer waits for ever"
    assert not writers.errors
    m.sync(HANGS_S)
    assert m.status()["pid"] == pid
    m.replace()
    for name, wanted in writers.hashes.items():
        assert hashlib.sha256((m.path / name).read_bytes()).hexdigest() == wanted, name


def test_unsent_content_is_never_dropped_while_sent_content_is(dead_store, proxy):
    m = dead_store(cache_size="16M")
    proxy.hole = False
    for i in range(3):
        write_new(m.path / f"sent{i}", noise(4 * MIB, f"sent{i}"))
    m.sync()
    proxy.hole = True
    for i in range(3):
        write_new(m.path / f"unsent{i}", noise(4 * MIB, f"unsent{i}"))
    m.until(lambda s: s["cache_bytes"] <= 16 * MIB, "what is sent goes")
    fetched = m.status()["fetched_bytes"]
    for i in range(3):
        assert (m.path / f"unsent{i}").read_bytes() == noise(4 * MIB, f"unsent{i}")
    assert m.status()["fetched_bytes"] == fetched
    proxy.hole = False
    for i in range(3):
        assert (m.path / f"sent{i}").read_bytes() == noise(4 * MIB, f"sent{i}")


# ---- readers ----


def test_readers_that_wait_for_a_dead_store_keep_nobody_else_and_can_be_killed(
    machines, s3_store, proxy
):
    m = machines(s3_store.through(proxy.endpoint), warm="none").mount()
    for i in range(80):
        write_new(m.path / f"f{i}", noise(MIB, i))
    m.renew()
    for i in range(80):
        os.stat(m.path / f"f{i}")
    proxy.hole = True
    readers = [
        Group([sys.executable, "-c", READER, str(m.path / f"f{i}")], stderr=subprocess.DEVNULL)
        for i in range(80)
    ]
    try:
        m.until(lambda s: s["waiting_for_store"] == 80, "all readers wait")
        write_synced(m.path / "new", b"written meanwhile")
        assert (m.path / "new").read_bytes() == b"written meanwhile"
        for r in readers[:40]:
            assert ends_by(r, signal.SIGKILL) == -signal.SIGKILL
        m.until(lambda s: s["waiting_for_store"] == 40, "those that were killed are gone")
        proxy.hole = False
        for r in readers[40:]:
            assert r.wait(HANGS_S) == 0
    finally:
        proxy.hole = False
        for r in readers:
            r.kill()


# ---- the disk is full ----


def fill(m, most=100):
    """Whole files until there is no room for the next; their names and contents."""
    files = {}
    for i in range(most):
        data = noise(MIB, i)  # of one request: none is written in part
        try:
            write_synced(m.path / f"f{i}", data)
        except OSError as e:
            assert e.errno == errno.ENOSPC
            return files
        files[f"f{i}"] = data
    raise AssertionError("never full")


def test_on_a_full_disk_names_still_change_and_a_killed_daemon_loses_nothing(
    machines, s3_store, proxy, small_disk
):
    m = small_disk(machines(s3_store.through(proxy.endpoint), full="enospc:0.2"), 48).mount(
        cache_size="200M"
    )
    proxy.hole = True
    files = fill(m)
    assert len(files) >= 32
    for i in range(1000):  # more journal than any rest of the disk holds
        (m.path / f"directory-{i:04}-with-a-name-that-takes-some-room").mkdir()
    pid = m.pid
    with pytest.raises(OSError):
        write_new(m.path / "more", noise(4 * MIB))
    assert m.pid == pid and not m.has_died()

    m.kill()
    proxy.hole = False
    m.mount(cache_size="200M", full="enospc:0.2")
    for name, data in files.items():
        assert (m.path / name).read_bytes() == data
    m.sync()
    write_new(m.path / "after", noise(4 * MIB, "after"))  # what is sent made room
    m.sync()

    other = machines(s3_store).mount(takeover=True)
    assert len(list(other.path.glob("directory-*"))) == 1000
    for name, data in files.items():
        assert (other.path / name).read_bytes() == data
    assert (other.path / "after").read_bytes() == noise(4 * MIB, "after")


def test_on_a_full_disk_writers_wait_and_go_on_when_there_is_room(
    machines, s3_store, proxy, small_disk
):
    m = small_disk(machines(s3_store.through(proxy.endpoint)), 48).mount(cache_size="200M")
    proxy.hole = True
    writers = Writers(m.path, 4, 4 * MIB)
    try:
        status = m.until(all_wait(4), "all writers wait")
        assert "disk" in status["waiting_why"]
        written = len(writers.hashes)
        proxy.hole = False
        until(lambda: len(writers.hashes) >= written + 20, HANGS_S, "all flows again")
    finally:
        proxy.hole = False
        stopped = writers.stop(HANGS_S)
    assert stopped and not writers.errors
    m.sync()
    other = machines(s3_store).mount(takeover=True)
    for name, wanted in writers.hashes.items():
        assert hashlib.sha256((other.path / name).read_bytes()).hexdigest() == wanted, name


def test_a_disk_that_nothing_of_ours_can_make_room_on_is_enospc(machines, file_store, small_disk):
    m = small_disk(machines(file_store), 16).mount(cache_size="200M")
    (m.cache / "foreign").write_bytes(bytes(8 * MIB))
    with pytest.raises(OSError) as e, open(m.path / "big", "wb", buffering=0) as f:
        for _ in range(64):
            f.write(noise(MIB))
    assert e.value.errno == errno.ENOSPC
    assert m.status()["waiting_writers"] == 0
