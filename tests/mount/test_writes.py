# SPDX-License-Identifier: Apache-2.0
"""Write, truncate and append: the bytes that a local disk would hold, and nothing more sent."""

import multiprocessing
import os
import threading

from lib.content import MIB, noise, write_new
from lib.proxy import Late, denied

KIB = 1024
GIB = 1 << 30


def test_a_write_in_the_middle_of_a_cold_file_changes_only_itself(machine):  # B01
    m = machine
    size, patch = 24 * MIB, b"0123456789"
    data = noise(size)
    write_new(m.path / "a", data)
    m.renew()

    with open(m.path / "a", "r+b", buffering=0) as f:
        os.pwrite(f.fileno(), patch, size // 2)
    wanted = data[: size // 2] + patch + data[size // 2 + len(patch) :]
    assert (m.path / "a").read_bytes() == wanted

    m.renew()
    assert (m.path / "a").read_bytes() == wanted


def test_a_second_descriptor_sees_what_the_first_has_written(machine):  # B02
    m = machine
    data = noise(MIB)
    writer = os.open(m.path / "a", os.O_CREAT | os.O_WRONLY, 0o644)
    os.write(writer, data)
    reader = os.open(m.path / "a", os.O_RDONLY)
    assert os.fstat(reader).st_size == MIB
    assert os.read(reader, 2 * MIB) == data
    os.close(reader)
    os.close(writer)


def test_a_hole_of_100_gib_is_neither_sent_nor_kept(machine):  # B04
    m = machine
    with open(m.path / "a", "wb", buffering=0) as f:
        f.truncate(100 * GIB)
        os.pwrite(f.fileno(), b"end", 100 * GIB - 3)
    m.sync(120)
    assert m.status()["sent_bytes"] < 16 * MIB

    m.renew()
    with open(m.path / "a", "rb", buffering=0) as f:
        assert os.fstat(f.fileno()).st_size == 100 * GIB
        assert os.pread(f.fileno(), 64 * KIB, 50 * GIB) == bytes(64 * KIB)
        assert os.pread(f.fileno(), 10, 100 * GIB - 3) == b"end"


def test_an_empty_file_is_stored_however_it_was_made(machine):  # B06
    m = machine
    (m.path / "touched").touch(mode=0o640)
    os.close(os.open(m.path / "to read", os.O_CREAT | os.O_EXCL, 0o640))
    os.mknod(m.path / "node", 0o640)

    m.renew()
    assert sorted(os.listdir(m.path)) == ["node", "to read", "touched"]
    for name in os.listdir(m.path):
        assert os.stat(m.path / name).st_size == 0
        assert os.stat(m.path / name).st_mode & 0o777 == 0o640


def append_lines(path, writer, lines):
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    for i in range(lines):
        os.write(fd, f"{writer} {i:04}".encode().ljust(99, b".") + b"\n")
    os.close(fd)


def test_two_processes_that_append_lose_no_line(machine):  # B10
    m = machine
    path = m.path / "log"
    writers = [multiprocessing.Process(target=append_lines, args=(path, w, 1000)) for w in "ab"]
    for w in writers:
        w.start()
    for w in writers:
        w.join(60)
        assert w.exitcode == 0
    wanted = {f"{w} {i:04}".encode().ljust(99, b".") for w in "ab" for i in range(1000)}
    lines = path.read_bytes().splitlines()
    assert len(lines) == 2000
    assert set(lines) == wanted

    m.renew()
    assert path.read_bytes().splitlines() == lines


def test_an_append_after_another_descriptors_truncation_leaves_no_hole(machine):  # B11
    m = machine
    first = os.open(m.path / "a", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.write(first, b"0123456789")
    second = os.open(m.path / "a", os.O_WRONLY | os.O_TRUNC)
    os.write(first, b"x")
    os.close(first)
    os.close(second)
    assert (m.path / "a").read_bytes() == b"x"

    m.renew()
    assert (m.path / "a").read_bytes() == b"x"


def test_truncation_and_write_in_a_race_agree_on_the_size(file_machine):  # B16
    m = file_machine
    path = m.path / "a"
    page = noise(4 * KIB)
    write_new(path, page)

    def repeat(call):
        fd = os.open(path, os.O_RDWR)
        for _ in range(2000):
            call(fd)
        os.close(fd)

    calls = (lambda fd: os.ftruncate(fd, 0), lambda fd: os.pwrite(fd, page, 0))
    threads = [threading.Thread(target=repeat, args=(call,)) for call in calls]
    for t in threads:
        t.start()
    for t in threads:
        t.join()

    size = os.stat(path).st_size
    assert size in (0, 4 * KIB)
    assert path.read_bytes() == page[:size]
    m.renew()
    assert path.read_bytes() == page[:size]


def test_a_file_that_grows_while_it_is_being_sent_keeps_its_size(machines, s3_store, proxy):  # B17
    m = machines(s3_store.through(proxy.endpoint)).mount()
    data = noise(15 * MIB)
    packs = threading.Event()

    def slow_packs(request):
        if request.method == "PUT" and request.length > MIB:
            packs.set()
            return Late(2)
        return None

    proxy.spoil = slow_packs
    write_new(m.path / "a", data[: 10 * MIB])
    assert packs.wait(120), "nothing is being sent"
    with open(m.path / "a", "ab", buffering=0) as f:
        f.write(data[10 * MIB :])
    assert os.stat(m.path / "a").st_size == 15 * MIB
    m.sync()
    assert os.stat(m.path / "a").st_size == 15 * MIB
    proxy.spoil = None

    m.renew()
    assert (m.path / "a").read_bytes() == data


def test_a_store_that_denies_writing_takes_nothing_from_the_reader(
    machines, s3_store, proxy
):  # B24
    m = machines(s3_store.through(proxy.endpoint)).mount()
    old, new = noise(2 * MIB, "old"), noise(2 * MIB, "new")
    write_new(m.path / "a", old)
    m.sync()
    proxy.spoil = lambda request: denied() if request.method == "PUT" else None
    write_new(m.path / "a", new)
    assert (m.path / "a").read_bytes() == new

    refused = m.command("sync", m.path, "--timeout", 20)
    assert refused.returncode != 0
    assert "AccessDenied" in refused.stderr or "403" in refused.stderr, refused.stderr
    assert (m.path / "a").read_bytes() == new
    m.lose()
    proxy.spoil = None
    m.mount(takeover=True)
    assert (m.path / "a").read_bytes() == old


def test_what_was_denied_is_sent_when_it_is_allowed_again(machines, s3_store, proxy):  # B24
    m = machines(s3_store.through(proxy.endpoint)).mount()
    data = noise(2 * MIB)
    proxy.spoil = lambda request: denied() if request.method == "PUT" else None
    write_new(m.path / "a", data)
    m.until(lambda s: s["errors"] > 0, "an error is counted")
    proxy.spoil = None
    m.renew()
    assert (m.path / "a").read_bytes() == data


def test_a_file_cut_short_and_grown_again_holds_zeros_between(machine):
    m = machine
    data = noise(3 * MIB)
    write_new(m.path / "a", data)
    m.renew()
    os.truncate(m.path / "a", MIB + 123)
    os.truncate(m.path / "a", 2 * MIB)
    wanted = data[: MIB + 123] + bytes(MIB - 123)
    assert (m.path / "a").read_bytes() == wanted

    m.renew()
    assert (m.path / "a").read_bytes() == wanted
