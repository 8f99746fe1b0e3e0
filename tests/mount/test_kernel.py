# SPDX-License-Identifier: Apache-2.0
"""What the kernel asks while the network is slow: no short read, no dead-lock, no stuck process."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from lib.content import MIB, noise, replace, write_new
from lib.procs import Group, until
from lib.proxy import Late


@pytest.fixture
def cold(machines, s3_store, proxy):
    """A machine behind the proxy with 8 MiB in the store and an empty cache."""
    m = machines(s3_store.through(proxy.endpoint), warm="none").mount()
    write_new(m.path / "a", noise(8 * MIB))
    m.renew()
    return m


def test_a_read_of_a_slow_store_is_never_short(cold, proxy):  # C01
    proxy.rate_bps = 4e6
    fd = os.open(cold.path / "a", os.O_RDONLY)
    data = noise(8 * MIB)
    for at in range(0, 8 * MIB, 700_001):
        wanted = min(700_001, 8 * MIB - at)
        assert os.pread(fd, 700_001, at) == data[at : at + wanted]
    assert os.fstat(fd).st_size == 8 * MIB
    os.close(fd)


def test_a_rename_over_a_file_that_is_being_fetched_does_not_block(cold, proxy):  # C02
    m = cold
    proxy.spoil = lambda request: Late(2) if request.method == "GET" else None
    seen = []
    before = proxy.requests["GET"]
    fd = os.open(m.path / "a", os.O_RDONLY)
    reader = threading.Thread(target=lambda: seen.append(os.pread(fd, MIB, 4 * MIB)))
    reader.start()
    until(lambda: proxy.requests["GET"] > before, 120, "it is being fetched")
    start = time.monotonic()
    replace(m.path / "a", b"new")
    assert (m.path / "a").read_bytes() == b"new"
    assert time.monotonic() - start < 1.9, "the rename waited for the network"
    reader.join(60)
    assert seen == [noise(8 * MIB)[4 * MIB : 5 * MIB]]
    os.close(fd)


def test_a_reader_of_a_store_that_does_not_answer_can_be_killed(cold, proxy):
    m = cold
    proxy.hole = True
    before = proxy.requests["GET"]
    with Group(
        [sys.executable, "-c", f"open({str(m.path / 'a')!r}, 'rb').read()"],
        stderr=subprocess.DEVNULL,
    ) as r:
        until(lambda: waits_in_read(r.pid) or proxy.requests["GET"] > before, 120, "it waits")
        r.signal(signal.SIGKILL)
        assert r.wait(20) == -signal.SIGKILL
    proxy.hole = False
    assert (m.path / "a").read_bytes() == noise(8 * MIB)


def waits_in_read(pid):
    """Is the process in a system call on the mount?"""
    try:
        return pathlib.Path(f"/proc/{pid}/wchan").read_text() not in ("", "0")
    except OSError:
        return False


def test_a_write_while_the_store_does_not_answer_does_not_wait(cold, proxy):
    m = cold
    proxy.hole = True
    start = time.monotonic()
    for i in range(20):
        write_new(m.path / f"f{i}", noise(100_000, i))
        os.rename(m.path / f"f{i}", m.path / f"g{i}")
    assert time.monotonic() - start < 10
    assert len(os.listdir(m.path)) == 21
    proxy.hole = False
    m.replace()


def test_many_readers_of_a_cold_file_share_what_is_fetched(cold, proxy):
    m = cold
    proxy.rate_bps = 20e6
    before = proxy.down_bytes
    program = (
        "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())"
    )
    readers = [
        subprocess.Popen([sys.executable, "-c", program, m.path / "a"], stdout=subprocess.PIPE)
        for _ in range(8)
    ]
    assert len({r.communicate(timeout=120)[0] for r in readers}) == 1
    assert proxy.down_bytes - before < 12 * MIB


def test_a_reader_of_a_few_bytes_does_not_fetch_the_file(machines, s3_store, proxy):
    m = machines(s3_store.through(proxy.endpoint), warm="none").mount()
    data = noise(64 * MIB)
    write_new(m.path / "big", data)
    m.renew()
    before = proxy.down_bytes
    with open(m.path / "big", "rb", buffering=0) as f:
        for at in (0, 40 * MIB):
            assert os.pread(f.fileno(), 4096, at) == data[at : at + 4096]
            time.sleep(1)  # what was to come has come
        assert proxy.down_bytes - before < 24 * MIB
        assert f.read() == data


def test_a_directory_of_many_files_is_removed_in_one_pass(file_machine):  # F11
    m = file_machine
    (m.path / "d").mkdir()
    for i in range(4000):
        os.close(os.open(m.path / "d" / f"f{i:05}", os.O_CREAT | os.O_WRONLY))
    with os.scandir(m.path / "d") as entries:
        for entry in entries:
            os.unlink(entry.path)
    os.rmdir(m.path / "d")
    write_new(m.path / "witness", b"x")
    m.renew()
    assert os.listdir(m.path) == ["witness"]


def test_directories_around_a_page_of_a_listing_are_whole(file_machine):  # F09
    m = file_machine
    wanted = {}
    for count in (999, 1000, 1001, 2001):
        (m.path / str(count)).mkdir()
        wanted[str(count)] = [f"f{i:05}" for i in range(count)]
        for name in wanted[str(count)]:
            os.close(os.open(m.path / str(count) / name, os.O_CREAT | os.O_WRONLY))
    m.renew()
    assert {name: sorted(os.listdir(m.path / name)) for name in os.listdir(m.path)} == wanted
