# SPDX-License-Identifier: Apache-2.0
"""More than the cache holds: reads go past it, and what the store has makes room piece by piece."""

import hashlib
import mmap
import os
import subprocess
import sys

import pytest

from lib.content import MIB, noise, write_new, write_synced
from lib.procs import HANGS_S, Group, until
from lib.proxy import Answer

SAVER = """
import sys
for i in range(1000):
    with open(f"{sys.argv[1]}/unsent{i}", "wb", buffering=0) as f:
        for _ in range(4):
            f.write(bytes([i]) * (1 << 20))
"""

READER = """
import hashlib, sys
print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())
"""


def no_puts(request):
    return Answer(503) if request.method == "PUT" else None


def digest(data):
    return hashlib.sha256(data).hexdigest()


def read_direct(path, piece):
    """Each piece is one request, and the kernel keeps nothing."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, piece)
    data = bytearray()
    try:
        while n := os.preadv(fd, [buffer], len(data)):
            data += buffer[:n]
    finally:
        os.close(fd)
    return bytes(data)


# ---- nothing may go ----


@pytest.fixture
def full(machines, s3_store, proxy):
    """full(files): a machine with these in its store, and a cache full of what cannot be sent."""
    savers = []

    def make(files, cache_size="8M"):
        m = machines(s3_store.through(proxy.endpoint), cache_size=cache_size).mount()
        for name, data in files.items():
            write_new(m.path / name, data)
        m.renew()
        proxy.spoil = no_puts
        savers.append(Group([sys.executable, "-c", SAVER, str(m.path)], stderr=subprocess.DEVNULL))
        m.until(lambda s: s["waiting_writers"] == 1, "the cache is full")
        return m

    yield make
    proxy.spoil = None
    proxy.hole = False
    for s in savers:
        s.kill()


def test_a_full_cache_keeps_no_reader_waiting_and_nothing_of_what_is_read(full):
    files = {"big": noise(12 * MIB), "small": noise(100), "middle": noise(300_000)}
    m = full(files)
    before = m.status()
    for name, data in files.items():
        assert (m.path / name).read_bytes() == data, name
    after = m.status()
    assert after["waiting_writers"] == 1, "it was not full"
    assert after["cache_bytes"] <= before["cache_bytes"]


def test_past_a_full_cache_a_chunk_is_fetched_once_for_many_small_reads(full):
    data = noise(12 * MIB)
    m = full({"big": data})
    fetched = m.status()["fetched_bytes"]
    assert read_direct(m.path / "big", 64 << 10) == data
    assert m.status()["fetched_bytes"] - fetched <= len(data) * 5 // 4


def test_a_dead_store_that_lives_again_serves_readers_of_a_full_cache(full, proxy):
    data = noise(3 * MIB)
    m = full({"big": data})
    proxy.hole = True
    reader = Group([sys.executable, "-c", READER, str(m.path / "big")], stdout=subprocess.PIPE)
    try:
        m.until(lambda s: s["waiting_for_store"] > 0, "the reader waits")
        proxy.hole = False
        assert reader.wait(HANGS_S) == 0
        assert reader.process.stdout.read().decode().strip() == digest(data)
        assert m.status()["waiting_writers"] == 1, "it was not full"
    finally:
        reader.kill()


def test_on_a_full_disk_everything_can_be_read_and_changed(machines, s3_store, small_disk):
    writer = machines(s3_store).mount()
    files = {"big": noise(24 * MIB), "small": noise(100), "middle": noise(300_000)}
    for name, data in files.items():
        write_new(writer.path / name, data)
    writer.umount()
    m = small_disk(machines(s3_store), 16).mount(cache_size="200M")
    with open(m.cache / "foreign", "wb", buffering=0) as f, pytest.raises(OSError):
        while True:
            f.write(bytes(MIB))
    for name, data in files.items():
        assert (m.path / name).read_bytes() == data, name
    assert read_direct(m.path / "big", MIB) == files["big"]
    os.unlink(m.cache / "foreign")
    until(
        lambda: read_direct(m.path / "middle", MIB) == files["middle"]
        and m.status()["cache_bytes"] >= 300_000,
        HANGS_S,
        "what is read is kept again",
    )
    with open(m.path / "big", "r+b") as f:
        f.seek(5 * MIB)
        f.write(b"changed")
    changed = files["big"][: 5 * MIB] + b"changed" + files["big"][5 * MIB + 7 :]
    m.sync()
    m.umount()
    other = machines(s3_store).mount()
    assert (other.path / "big").read_bytes() == changed


# ---- what the store has makes room ----

CACHE = 8 * MIB


@pytest.fixture
def restored(machines, store):
    """A machine that begins with `big`, three times as long as its cache."""
    m = machines(store, cache_size=CACHE).mount()
    write_new(m.path / "big", noise(3 * CACHE))
    return m.renew()


def test_a_restore_larger_than_the_cache_goes_through_a_file_that_is_held_open(restored):
    m = restored
    hashed = hashlib.sha256()
    with open(m.path / "big", "rb") as f:
        while piece := f.read(MIB):
            hashed.update(piece)
        assert hashed.hexdigest() == digest(noise(3 * CACHE))
        m.until(lambda s: s["cache_bytes"] <= CACHE, "the cache keeps to its size")
        assert m.status()["fetched_bytes"] <= 3 * CACHE * 5 // 4
        assert read_direct(m.path / "big", MIB) == noise(3 * CACHE)
    m.until(lambda s: s["cache_bytes"] <= CACHE, "the cache keeps to its size")


def test_a_mapping_larger_than_the_cache_shows_what_is_in_the_store(restored):
    m = restored
    data = noise(3 * CACHE)
    order = [i * 7 % 24 for i in range(24)] * 2
    with open(m.path / "big", "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        for i in order:
            at = i * MIB
            assert mapped[at : at + MIB] == data[at : at + MIB], at
            mapped.madvise(mmap.MADV_DONTNEED)
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        m.until(lambda s: s["cache_bytes"] <= CACHE, "the cache keeps to its size")
        assert mapped[:] == data


def test_a_killed_daemon_knows_what_made_room(restored):
    m = restored
    data = noise(3 * CACHE)
    with open(m.path / "big", "rb") as f:
        assert f.read() == data
        m.until(lambda s: s["cache_bytes"] <= CACHE, "the cache keeps to its size")
    m.kill()
    m.mount()
    assert m.status()["cache_bytes"] > 0, "nothing was kept"
    assert (m.path / "big").read_bytes() == data


def test_what_made_room_can_be_written_over(restored, machines):
    m = restored
    data = bytearray(noise(3 * CACHE))
    with open(m.path / "big", "r+b", buffering=0) as f:
        assert hashlib.sha256(f.read()).hexdigest() == digest(bytes(data))
        m.until(lambda s: s["cache_bytes"] <= CACHE, "the cache keeps to its size")
        for at in (0, 5 * MIB + 100, 3 * CACHE - 10):
            f.seek(at)
            f.write(b"0123456789")
            data[at : at + 10] = b"0123456789"
        f.seek(0)
        assert f.read() == data
    m.sync()
    m.replace()
    assert (m.path / "big").read_bytes() == data


def test_of_a_large_file_only_as_much_goes_as_must(machines, file_store):
    m = machines(file_store, cache_size="16M").mount()
    write_new(m.path / "old", noise(12 * MIB, "old"))
    m.sync()
    write_new(m.path / "new", noise(6 * MIB, "new"))
    m.sync()
    status = m.until(lambda s: s["cache_bytes"] <= 16 * MIB, "the cache keeps to its size")
    fetched = status["fetched_bytes"]
    assert (m.path / "new").read_bytes() == noise(6 * MIB, "new")
    assert m.status()["fetched_bytes"] == fetched, "the newer one went first"
    tail = noise(12 * MIB, "old")[-4 * MIB :]
    with open(m.path / "old", "rb") as f:
        f.seek(-4 * MIB, os.SEEK_END)
        assert f.read() == tail
    assert m.status()["fetched_bytes"] - fetched <= 4 * MIB, "more went than had to"
    assert (m.path / "old").read_bytes() == noise(12 * MIB, "old")


def test_a_file_that_was_unlinked_while_it_is_read_keeps_its_bytes(restored):
    m = restored
    with open(m.path / "big", "rb") as f:
        assert f.read(MIB) == noise(3 * CACHE)[:MIB]
        os.unlink(m.path / "big")
        write_synced(m.path / "other", noise(4 * MIB))
        m.sync()
        f.seek(0)
        assert f.read() == noise(3 * CACHE)
