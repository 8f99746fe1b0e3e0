# SPDX-License-Identifier: Apache-2.0
"""Names, rename and unlink: what is found after the machine is gone is what the last names said."""

import os
import shutil
import threading

from lib.content import MIB, noise, write_new

KIB = 1024


def test_a_file_renamed_before_it_is_closed_is_stored_whole(machine):  # A01
    m = machine
    data = noise(MIB)
    fd = os.open(m.path / "a", os.O_CREAT | os.O_WRONLY, 0o644)
    os.write(fd, data)
    os.rename(m.path / "a", m.path / "b")
    os.close(fd)

    m.renew()
    assert os.listdir(m.path) == ["b"]
    assert (m.path / "b").read_bytes() == data


def test_a_renamed_file_that_is_changed_afterwards_is_not_mixed_with_its_successor(machine):  # A02
    m = machine
    old = noise(4 * MIB, "old")
    patch = noise(4 * KIB, "patch")
    successor = noise(2 * MIB, "new")
    write_new(m.path / "a", old)
    os.rename(m.path / "a", m.path / "b")
    with open(m.path / "b", "r+b", buffering=0) as f:
        os.pwrite(f.fileno(), patch, MIB)
    write_new(m.path / "a", successor)

    m.renew()
    assert (m.path / "a").read_bytes() == successor
    assert (m.path / "b").read_bytes() == old[:MIB] + patch + old[MIB + len(patch) :]


def use_unlinked(fd, data):
    """Every call that a program may make on a file that has no name any more."""
    assert os.fstat(fd).st_nlink == 0
    os.ftruncate(fd, MIB // 2)
    os.fsync(fd)
    os.fchmod(fd, 0o600)
    os.lseek(fd, 0, os.SEEK_SET)
    assert os.read(fd, MIB) == data[: MIB // 2]
    os.pwrite(fd, b"more", MIB)
    assert os.fstat(fd).st_size == MIB + 4


def test_an_unlinked_open_file_works_and_is_not_in_the_store(machine):  # A03
    m = machine
    data = noise(MIB)
    fd = os.open(m.path / "a", os.O_CREAT | os.O_RDWR, 0o644)
    os.write(fd, data)
    os.unlink(m.path / "a")
    use_unlinked(fd, data)
    assert os.listdir(m.path) == []
    write_new(m.path / "witness", b"x")
    os.close(fd)

    m.renew()
    assert os.listdir(m.path) == ["witness"]


def test_a_renamed_over_open_file_keeps_its_content_for_its_reader(machine):  # A03
    m = machine
    old, new = noise(MIB, "old"), noise(MIB, "new")
    write_new(m.path / "a", old)
    fd = os.open(m.path / "a", os.O_RDWR)
    write_new(m.path / "b", new)
    os.rename(m.path / "b", m.path / "a")
    use_unlinked(fd, old)
    os.close(fd)

    m.renew()
    assert os.listdir(m.path) == ["a"]
    assert (m.path / "a").read_bytes() == new


def test_a_directory_renamed_and_removed_while_it_is_being_sent_leaves_nothing(machine):  # A06
    m = machine
    os.mkdir(m.path / "d")
    for i in range(5):
        write_new(m.path / "d" / str(i), noise(MIB, i))
    os.rename(m.path / "d", m.path / "e")
    shutil.rmtree(m.path / "e")
    write_new(m.path / "witness", b"x")

    m.renew()
    assert os.listdir(m.path) == ["witness"]


def test_overlapping_renames_always_leave_whole_versions(file_machine):  # A09
    m = file_machine
    versions = {noise(8 * KIB, i) for i in range(50)}
    done = threading.Event()

    def put_aside():
        while not done.is_set():
            try:
                os.rename(m.path / "a", m.path / "a.bak")
            except FileNotFoundError:
                continue

    other = threading.Thread(target=put_aside)
    other.start()
    try:
        for i in range(1000):
            write_new(m.path / "a.tmp", noise(8 * KIB, i % 50))
            os.rename(m.path / "a.tmp", m.path / "a")
            for name in ("a", "a.bak"):
                try:
                    assert (m.path / name).read_bytes() in versions
                except FileNotFoundError:
                    continue
    finally:
        done.set()
        other.join()

    names = sorted(os.listdir(m.path))
    contents = {name: (m.path / name).read_bytes() for name in names}
    m.renew()
    assert {name: (m.path / name).read_bytes() for name in sorted(os.listdir(m.path))} == contents


def test_a_reader_sees_the_file_that_was_renamed_over(machine):  # A13
    m = machine
    old, new = noise(2 * MIB, "old"), noise(2 * MIB, "new")
    write_new(m.path / "b", old)
    assert (m.path / "b").read_bytes() == old
    write_new(m.path / "a", new)
    os.rename(m.path / "a", m.path / "b")
    assert (m.path / "b").read_bytes() == new

    m.renew()
    assert (m.path / "b").read_bytes() == new


def test_a_file_is_opened_for_writing_at_once_after_its_close(file_machine):  # A18
    m = file_machine
    path = m.path / "a"
    for i in range(10_000):
        fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
        os.write(fd, bytes([i % 256]))
        os.close(fd)
    assert path.read_bytes() == bytes([9_999 % 256])

    m.renew()
    assert path.read_bytes() == bytes([9_999 % 256])


def test_hard_links_and_symbolic_links_come_back_as_they_were(machine):
    m = machine
    write_new(m.path / "one", noise(MIB))
    os.mkdir(m.path / "d")
    os.link(m.path / "one", m.path / "d" / "two")
    os.link(m.path / "one", m.path / "three")
    os.symlink("d/two", m.path / "latest")
    os.symlink("nowhere", m.path / "dangling")

    m.renew()
    inodes = {os.stat(m.path / name).st_ino for name in ("one", "d/two", "three", "latest")}
    assert len(inodes) == 1
    assert os.stat(m.path / "one").st_nlink == 3
    assert os.readlink(m.path / "latest") == "d/two"
    assert os.readlink(m.path / "dangling") == "nowhere"
    with open(m.path / "d" / "two", "r+b") as f:
        f.write(b"changed")
    assert (m.path / "three").read_bytes()[:7] == b"changed"


NAMES = (
    "a+b",
    "a b",
    "a%20b",
    "a#b",
    "a?b",
    "a&b",
    "ü",
    "日本",
    "a'b\"c",
    "epoch=0-step=2.ckpt",
    "a\nb",
    "x" * 255,
)


def test_a_name_is_kept_byte_for_byte(machine):  # F01
    m = machine
    for i, name in enumerate(NAMES):
        write_new(m.path / f"before{i}", name.encode())
        os.rename(m.path / f"before{i}", m.path / name)

    m.renew()
    assert sorted(os.listdir(m.path)) == sorted(NAMES)
    for name in NAMES:
        assert (m.path / name).read_bytes() == name.encode()
