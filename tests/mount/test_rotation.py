# SPDX-License-Identifier: Apache-2.0
"""Sets of files that come and go: a new machine sees whole ones only."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from lib.content import MIB, noise, write_new
from lib.procs import Group

TESTS = pathlib.Path(__file__).resolve().parent.parent
FILES = 20


def write_set(root, number, files=FILES):
    directory = root / f"checkpoint-{number}"
    directory.mkdir()
    for i in range(files):
        write_new(directory / f"shard-{i:02}.bin", noise(20_000, (number, i)))


def assert_whole(root, number):
    directory = root / f"checkpoint-{number}"
    names = sorted(os.listdir(directory))
    assert names == [f"shard-{i:02}.bin" for i in range(FILES)], f"checkpoint-{number} is a part"
    for i, name in enumerate(names):
        assert (directory / name).read_bytes() == noise(20_000, (number, i)), f"{number}/{name}"


def numbers(root):
    return sorted(int(name.split("-")[1]) for name in os.listdir(root))


def each_part(machine, parts):
    """Saves a part of a set, lets the mount commit it, and loses the machine; again and again."""
    m = machine
    write_set(m.path, 0)
    m.sync()
    for i, files in enumerate(parts, start=1):
        commit = m.status()["commit"]
        write_set(m.path, i, files)
        m.until(
            lambda s, before=commit: s["commit"] > before or s["held_by"], "the part is looked at"
        )
        m.replace()
        for number in numbers(m.path):
            assert_whole(m.path, number)
        assert 0 in numbers(m.path)


def test_a_part_of_a_set_is_never_what_a_new_machine_sees(file_machine):  # L02
    each_part(file_machine, [1, 5, 10, 15, 19])


@pytest.mark.long
def test_a_part_of_a_set_of_any_size_is_never_what_a_new_machine_sees(machine):  # L02
    each_part(machine, range(1, FILES))


KEEP_ONE = """
import os, pathlib, shutil, sys, time
sys.path.insert(0, sys.argv[2])
from lib.content import noise, write_new
root = pathlib.Path(sys.argv[1])
for n in range(1, 10**6):
    (root / f"step-{n}").mkdir()
    for i in range(3):
        write_new(root / f"step-{n}" / f"rank{i}.pt", noise(400_000, (n, i)))
    if n > 1:
        shutil.rmtree(root / f"step-{n - 1}")
    print(n, flush=True)
    if n == 1:
        sys.stdin.readline()
    time.sleep(0.3) # trains
"""


def test_keeping_only_the_last_checkpoint_never_leaves_none(machines, s3_store, proxy, rng):  # L01
    m = machines(s3_store.through(proxy.endpoint)).mount()
    proxy.rate_bps = 4e6  # a save takes longer to send than to write
    for _ in range(4):
        shutil.rmtree(m.path / "run", ignore_errors=True)
        (m.path / "run").mkdir()
        command = [sys.executable, "-c", KEEP_ONE, str(m.path / "run"), str(TESTS)]
        with Group(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as w:
            assert w.process.stdout.readline() == b"1\n"
            m.sync()
            w.process.stdin.write(b"\n")
            w.process.stdin.flush()
            time.sleep(rng.uniform(0.3, 2))  # any moment is as good as another
            m.kill()
        m.wipe()
        m.mount(takeover=True)
        steps = sorted(int(name.split("-")[1]) for name in os.listdir(m.path / "run"))
        assert steps, "nothing to resume from"
        for i in range(3):
            data = (m.path / "run" / f"step-{steps[-1]}" / f"rank{i}.pt").read_bytes()
            assert data == noise(400_000, (steps[-1], i)), f"step {steps[-1]} of {steps}"


def test_a_removed_checkpoint_comes_back_if_nothing_replaced_it_in_time(
    machines, file_store
):  # L01
    m = machines(file_store).mount()
    write_new(m.path / "last.pt", noise(MIB, 1))
    m.sync()
    os.unlink(m.path / "last.pt")
    m.until(lambda s: s["held_by"] or s["objection"], "the mount objects")

    m.replace()
    assert (m.path / "last.pt").read_bytes() == noise(MIB, 1)
