# SPDX-License-Identifier: Apache-2.0
"""A mount that containers have: bound into mount namespaces of their own."""

import subprocess
import sys

import pytest

from lib.procs import Group, wait_gone

# Binds the mount's parent (argv 1) at argv 2, the way `docker run -v parent:there:rslave` does it, says
# "open" once it has a file, and saves another for each line.
TRAINER = """
import os, subprocess, sys
parent, there = sys.argv[1:]
subprocess.run(["mount", "--rbind", parent, there], check=True)
subprocess.run(["mount", "--make-rslave", there], check=True)
os.chdir("/")
print("bound", flush=True)
for line in sys.stdin:
    word, name = line.split()
    path = os.path.join(there, "mnt", name)
    if word == "open":
        held = open(path, "wb", buffering=0)
    elif word == "save":
        with open(path, "wb") as f:
            f.write(b"saved inside")
    elif word == "close":
        held.close()
    elif word == "look":
        print(os.path.ismount(os.path.join(there, "mnt")), flush=True)
        continue
    print("done", flush=True)
"""


class Container:
    def __init__(self, space, parent, private=False):
        self.there = space.root / "there"
        self.there.mkdir(exist_ok=True)
        program = TRAINER.replace("rslave", "rprivate") if private else TRAINER
        self.group = Group(
            [*space.enter(), "unshare", "-m", "--propagation", "private" if private else "slave"]
            + [sys.executable, "-c", program, str(parent), str(self.there)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.hears() == "bound"

    def hears(self):
        return self.group.process.stdout.readline().decode().strip()

    def does(self, word, name="x"):
        self.group.process.stdin.write(f"{word} {name}\n".encode())
        self.group.process.stdin.flush()
        return self.hears()


@pytest.fixture
def parent(space):
    """Shared, as everything is on a host that systemd has started."""
    path = space.root / "m"
    path.mkdir()
    space.run("mount", "--bind", path, path)
    space.run("mount", "--make-shared", path)
    return path


def test_a_trainer_in_a_container_saves_into_a_mount_made_after_its_start(
    space, parent, file_store, machines
):
    c = Container(space, parent)
    with c.group:
        m = space.machine(file_store).mount()
        assert c.does("look") == "True"
        c.does("save", "a")
        assert space.run("cat", m.path / "a").stdout == "saved inside"
        done = space.run(space.holdfast, "umount", m.path)  # hands the unmounting on
        assert done.stderr == ""
        assert c.does("look") == "False"
        wait_gone(m.pid)
    assert (machines(file_store).mount().path / "a").read_bytes() == b"saved inside"


def test_who_holds_it_in_a_container_is_named_under_another_path_too(space, parent, file_store):
    m = space.machine(file_store).mount()
    c = Container(space, parent)
    with c.group:
        c.does("open", "a")
        for umount, status in ([space.holdfast, "umount"], 1), (["umount"], 32):
            done = space.run(*umount, m.path, expect=status)
            assert f"({c.group.pid})" in done.stderr
            assert len(done.stderr.splitlines()) == 1
        c.does("close")
        space.run("umount", m.path)
    wait_gone(m.pid)


@pytest.mark.parametrize(("command", "status"), [(["holdfast", "umount"], 4), (["umount"], 0)])
def test_a_container_that_keeps_the_mount_is_named_and_goes_on(
    space, parent, file_store, machines, command, status
):
    m = space.machine(file_store).mount()
    c = Container(space, parent, private=True)
    with c.group:
        c.does("save", "before")
        umount = [space.holdfast if word == "holdfast" else word for word in command]
        done = space.run(*umount, m.path, expect=status)
        assert f"({c.group.pid})" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert space.mounted(m.path) is None
        c.does("save", "after")
    wait_gone(m.pid)  # with the last namespace that had it
    other = machines(file_store).mount()
    for name in "before", "after":
        assert (other.path / name).read_bytes() == b"saved inside"
