# SPDX-License-Identifier: Apache-2.0
"""Copies inside the mount: references to what the store has, bytes of the rest, and right in any case."""

import os
import subprocess

import pytest

from lib.content import MIB, noise, write_new

SIZE = 24 * MIB


def copy_range(source, target, from_off=0, to_off=0, length=None, flags=os.O_CREAT):
    """copy_file_range(2) until all is there; how many calls it took."""
    a, b = os.open(source, os.O_RDONLY), os.open(target, os.O_WRONLY | flags)
    calls = 0
    try:
        left = os.fstat(a).st_size - from_off if length is None else length
        while left:
            n = os.copy_file_range(a, b, left, from_off, to_off)
            assert n > 0
            from_off, to_off, left, calls = from_off + n, to_off + n, left - n, calls + 1
    finally:
        os.close(a)
        os.close(b)
    return calls


def traffic(m):
    s = m.status()
    return {"get": s["requests"]["get"], "sent": s["sent_bytes"], "cache": s["cache_bytes"]}


@pytest.fixture
def far(machine):
    """A machine with a file of which nothing is in the cache."""
    machine.options["warm"] = "none"
    write_new(machine.path / "a", noise(SIZE))
    return machine.renew()


# ---- what a copy costs ----


def assert_copied_for_nothing(m, before):
    after = traffic(m)
    assert after["get"] == before["get"]
    assert after["sent"] - before["sent"] < 100_000  # a record, and what it tells of
    assert after["cache"] - before["cache"] < 100_000


def test_a_copy_of_what_is_not_here_fetches_and_sends_nothing(far):
    m = far
    (m.path / "a").stat()  # what its name costs
    before = traffic(m)
    subprocess.run(["cp", m.path / "a", m.path / "b"], check=True)
    assert copy_range(m.path / "a", m.path / "c") == 1
    m.sync()
    assert_copied_for_nothing(m, before)
    m.replace()
    for name in "bc":
        assert (m.path / name).read_bytes() == noise(SIZE)


def test_a_copy_of_what_is_here_takes_no_room_and_sends_nothing(file_machine):
    m = file_machine
    write_new(m.path / "a", noise(SIZE))
    m.sync()
    before = traffic(m)
    copy_range(m.path / "a", m.path / "b")
    m.sync()
    assert_copied_for_nothing(m, before)
    assert (m.path / "b").read_bytes() == noise(SIZE)


def test_a_small_file_that_is_here_is_copied_byte_by_byte(file_machine):
    m = file_machine
    write_new(m.path / "a", noise(50_000))
    m.sync()
    before = traffic(m)
    copy_range(m.path / "a", m.path / "b")
    assert (m.path / "b").read_bytes() == noise(50_000)
    assert traffic(m)["get"] == before["get"]


@pytest.mark.long
def test_a_copy_of_four_gib_costs_nothing(file_machine):
    m, size = file_machine, 4 << 30
    with open(m.path / "a", "wb") as f:
        for i in range(size >> 26):
            f.write(noise(1 << 26, i))
    m.renew()
    before = traffic(m)
    copy_range(m.path / "a", m.path / "b")
    m.sync()
    assert_copied_for_nothing(m, before)
    m.replace()
    with open(m.path / "b", "rb") as f:
        for i in range(size >> 26):
            assert f.read(1 << 26) == noise(1 << 26, i)


# ---- that it is a copy ----


def test_a_copy_is_another_file(far):
    m, data = far, noise(SIZE)
    copy_range(m.path / "a", m.path / "b")
    with open(m.path / "b", "r+b", buffering=0) as f:
        f.seek(7 * MIB)
        f.write(b"x" * 100)
    os.truncate(m.path / "a", 5 * MIB)
    m.sync()
    m.replace()
    assert (m.path / "a").read_bytes() == data[: 5 * MIB]
    assert (m.path / "b").read_bytes() == data[: 7 * MIB] + b"x" * 100 + data[7 * MIB + 100 :]


def test_a_copy_of_a_removed_file_stays(far):
    m = far
    copy_range(m.path / "a", m.path / "b")
    os.unlink(m.path / "a")
    m.sync()
    m.replace()
    assert os.listdir(m.path) == ["b"]
    assert (m.path / "b").read_bytes() == noise(SIZE)


def test_a_copy_outlives_the_daemon(far):
    m, data = far, noise(SIZE)
    copy_range(m.path / "a", m.path / "b")
    copy_range(m.path / "a", m.path / "c")
    with open(m.path / "c", "r+b", buffering=0) as f:
        f.write(b"y" * MIB)
    m.kill()
    m.mount()
    assert (m.path / "b").read_bytes() == data
    assert (m.path / "c").read_bytes() == b"y" * MIB + data[MIB:]
    m.sync()
    m.replace()
    assert (m.path / "b").read_bytes() == data
    assert (m.path / "c").read_bytes() == b"y" * MIB + data[MIB:]


def test_a_killed_copy_is_no_file(machines, file_store):
    """Its process is killed when part of the references are there."""
    m = machines(file_store, patience="1").mount()
    write_new(m.path / "a", noise(SIZE))
    m.renew()
    script = """
import os, signal, sys
a, b = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
os.copy_file_range(a, b, 9 << 20)
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run(["python3", "-c", script, m.path / "a", m.path / "b"], check=False)
    assert (m.path / "b").stat().st_size > 0
    m.sync()
    m.replace()
    assert os.listdir(m.path) == ["a"]


def test_a_copy_within_a_file_and_over_what_is_there(far):
    m, want = far, bytearray(noise(SIZE))
    copy_range(m.path / "a", m.path / "a", MIB, 13 * MIB + 77, 9 * MIB + 5)
    want[13 * MIB + 77 : 22 * MIB + 82] = want[MIB : 10 * MIB + 5]
    assert (m.path / "a").read_bytes() == want
    m.sync()
    m.replace()
    assert (m.path / "a").read_bytes() == want


def test_a_range_over_itself_and_a_target_that_appends_are_refused_as_on_a_disk(far):
    path = far.path / "a"
    with pytest.raises(OSError, match="Invalid argument"):
        copy_range(path, path, 0, MIB, 2 * MIB)
    with pytest.raises(OSError, match="Bad file descriptor"):
        copy_range(path, far.path / "b", flags=os.O_CREAT | os.O_APPEND)


def test_between_the_mount_and_a_disk(far, tmp_path):
    subprocess.run(["cp", far.path / "a", tmp_path / "out"], check=True)
    assert (tmp_path / "out").read_bytes() == noise(SIZE)
    subprocess.run(["cp", tmp_path / "out", far.path / "in"], check=True)
    assert (far.path / "in").read_bytes() == noise(SIZE)


def test_half_a_zip_is_told_in_its_copy(file_machine):
    m = file_machine
    write_new(m.path / "a.pt", b"PK\3\4" + noise(SIZE))
    m.until(lambda s: s["dirty_bytes"] < SIZE / 2, "the store has its first part")
    copy_range(m.path / "a.pt", m.path / "b.pt")
    assert os.getxattr(m.path / "b.pt", "user.holdfast.state") == b"open"


# ---- against a disk ----


class Pair:
    """The same calls on the mount and on a plain directory."""

    def __init__(self, machine, plain, rng):
        self.m, self.plain, self.rng = machine, plain, rng
        plain.mkdir()

    def both(self, call):
        said = []
        for top in (self.m.path, self.plain):
            try:
                said.append(call(top))
            except OSError as e:
                said.append(e.errno)
        assert said[0] == said[1]

    def name(self):
        return self.rng.choice("abcd")

    def write(self):
        name, data = self.name(), noise(self.rng.randrange(3 * MIB), self.rng.random())
        off = self.rng.randrange(4 * MIB) * self.rng.randrange(2)
        flags = os.O_WRONLY | os.O_CREAT | self.rng.choice([0, os.O_TRUNC])

        def call(top):
            fd = os.open(top / name, flags)
            os.pwrite(fd, data, off)
            os.close(fd)

        self.both(call)

    def copy(self):
        one, other = self.name(), self.name()
        at = [self.rng.choice([0, 0, self.rng.randrange(5 * MIB)]) for _ in range(2)]
        length = self.rng.choice([1 << 30, self.rng.randrange(6 * MIB)])
        flags = os.O_WRONLY | os.O_CREAT | self.rng.choice([0, os.O_TRUNC])

        def call(top):
            a = os.open(top / one, os.O_RDONLY)
            b = os.open(top / other, flags)
            try:
                from_off, to_off, left = *at, length
                while left and (n := os.copy_file_range(a, b, left, from_off, to_off)):
                    from_off, to_off, left = from_off + n, to_off + n, left - n
            finally:
                os.close(a)
                os.close(b)

        self.both(call)

    def truncate(self):
        name, size = self.name(), self.rng.randrange(6 * MIB)
        self.both(lambda top: os.truncate(top / name, size))

    def rename(self):
        one, other = self.name(), self.name()
        self.both(lambda top: os.rename(top / one, top / other))

    def unlink(self):
        name = self.name()
        self.both(lambda top: os.unlink(top / name))

    def read_some(self):
        name, off = self.name(), self.rng.randrange(5 * MIB)

        def call(top):
            with open(top / name, "rb") as f:
                f.seek(off)
                return f.read(100_000)

        self.both(call)

    def check(self):
        assert sorted(os.listdir(self.m.path)) == sorted(os.listdir(self.plain))
        for name in os.listdir(self.plain):
            assert (self.m.path / name).read_bytes() == (self.plain / name).read_bytes(), name

    def sync(self):
        self.m.sync()

    def renew(self):
        self.m.renew()

    def restart(self):
        self.m.kill()
        self.m.mount()

    def run(self, steps):
        calls = [self.write] * 4 + [self.copy] * 8 + [self.truncate] * 2 + [self.read_some] * 3
        calls += [self.rename, self.unlink, self.sync, self.sync, self.renew, self.renew, self.restart]
        for _ in range(steps):
            self.rng.choice(calls)()
        self.check()
        self.m.sync()
        self.m.replace()
        self.check()


def test_random_calls_do_what_they_do_on_a_disk(machines, file_store, tmp_path, rng):
    Pair(machines(file_store).mount(), tmp_path / "plain", rng).run(60)


@pytest.mark.long
@pytest.mark.parametrize("round", range(40))
def test_many_random_calls_do_what_they_do_on_a_disk(machines, file_store, tmp_path, rng, round):
    Pair(machines(file_store).mount(), tmp_path / "plain", rng).run(100)
