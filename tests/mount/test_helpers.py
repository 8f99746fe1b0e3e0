# SPDX-License-Identifier: Apache-2.0
"""mount(8), umount(8) and fstab(5), which find us by the names of their helpers."""

import os
import signal
import subprocess
import sys

import pytest

from lib.content import MIB, noise
from lib.procs import Group, kill, until, wait_gone
from lib.space import NOBODY

WRITER = """
import sys
with open(sys.argv[1], "wb", buffering=0) as f:
    f.write(b"one")
    print("open", flush=True)
    sys.stdin.readline()
    f.write(b"two")
"""


@pytest.fixture
def mounted(space, file_store):
    """A machine whose mount is in the namespace."""
    m = space.machine(file_store)
    yield m.mount()
    if m.has_died():  # umount(8) has ended it
        m.pid = None
    m.close()


def save(space, path, data):
    source = space.root / "source"
    source.write_bytes(data)
    space.run("cp", source, path)


def writer(space, path):
    """Has the file open, and writes on for a line on its standard input."""
    w = Group(
        [*space.enter(), sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert w.process.stdout.readline() == b"open\n"
    return w


# ---- umount(8) ----


def test_umount8_returns_when_the_store_has_it_all_and_is_released(space, mounted, machines):
    save(space, mounted.path / "model.pt", noise(8 * MIB))
    done = space.run("umount", mounted.path)
    assert done.stderr == ""
    assert space.mounted(mounted.path) is None
    other = machines(mounted.store).mount()  # without takeover
    assert (other.path / "model.pt").read_bytes() == noise(8 * MIB)
    assert not (other.path / ".holdfast").exists()


def test_umount8_of_a_busy_mount_names_the_holder_and_says_32(space, mounted):
    with writer(space, mounted.path / "a") as w:
        done = space.run("umount", mounted.path, expect=32)
        assert f"({w.pid})" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert space.mounted(mounted.path)
    space.run("umount", mounted.path)


def test_umount8_l_returns_at_once_and_what_its_users_write_is_sent(space, mounted, machines):
    with writer(space, mounted.path / "a") as w:
        space.run("umount", "-l", mounted.path)
        assert space.mounted(mounted.path) is None
        w.process.stdin.close()
        assert w.wait(60) == 0
    wait_gone(mounted.pid)
    other = machines(mounted.store).mount()
    assert (other.path / "a").read_bytes() == b"onetwo"


def test_umount8_f_of_a_daemon_that_hangs_frees_those_who_wait(space, mounted):
    save(space, mounted.path / "a", b"x")
    os.kill(mounted.pid, signal.SIGSTOP)
    look = [*space.enter(), "ls", str(mounted.path / "not asked for yet")]
    with Group(look, stderr=subprocess.PIPE) as waits:
        until(lambda: "wait_answer" in wchan(waits.pid), 60, "it waits")
        space.run("umount", "-f", "-l", mounted.path)
        assert waits.wait(60) != 0
        assert b"connection" in waits.process.stderr.read()
    assert space.mounted(mounted.path) is None
    os.kill(mounted.pid, signal.SIGCONT)
    wait_gone(mounted.pid)


def wchan(pid):
    with open(f"/proc/{pid}/wchan", encoding="ascii") as f:
        return f.read()


def test_umount8_of_a_bind_mount_leaves_the_mount_alone(space, mounted):
    save(space, mounted.path / "a", b"x")
    space.run("mkdir", mounted.path / "sub")
    for of in mounted.path, mounted.path / "sub":
        other = space.root / "other"
        other.mkdir(exist_ok=True)
        space.run("mount", "--bind", of, other)
        assert space.run("umount", other).stderr == ""
        assert space.mounted(other) is None
        assert space.run("cat", mounted.path / "a").stdout == "x"
    # The first may go, too: then it lives on at the second.
    space.run("mount", "--bind", mounted.path, other)
    space.run("umount", mounted.path)
    assert space.run("cat", other / "a").stdout == "x"
    space.run("umount", other)
    wait_gone(mounted.pid)


def test_holdfast_umount_of_one_of_two_places_says_that_the_other_is_left(space, mounted):
    other = space.root / "other"
    other.mkdir()
    space.run("mount", "--bind", mounted.path, other)
    done = space.run(space.holdfast, "umount", mounted.path, expect=4)
    assert "another place" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    save(space, other / "a", b"x")
    assert space.run(space.holdfast, "umount", other).stderr == ""
    wait_gone(mounted.pid)


def test_holdfast_umount_of_a_directory_in_the_mount_is_refused(space, mounted):
    space.run("mkdir", mounted.path / "sub")
    done = space.run(space.holdfast, "umount", mounted.path / "sub", expect=1)
    assert "lies inside a mount" in done.stderr


def test_umount8_of_a_daemon_that_was_killed_says_where_the_data_is(space, mounted):
    kill(mounted.pid)
    wait_gone(mounted.pid)
    done = space.run("umount", mounted.path, expect=2)
    assert "cache" in done.stderr
    assert space.mounted(mounted.path) is None


def test_umount8_in_another_namespace_finds_it_there(space, mounted):
    outside = subprocess.run(
        ["nsenter", "-t", str(space.holder.pid), "-m", "--"]
        + ["unshare", "-m", "--propagation", "private", "sh", "-c"]
        + [f"umount -l {mounted.path} && umount -N {space.holder.pid} {mounted.path}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert outside.returncode == 0, outside.stderr
    assert space.mounted(mounted.path) is None
    wait_gone(mounted.pid)


# ---- mount(8), fstab(5) ----


def fstab(space, store, *options, kind="holdfast"):
    """A mount point, with its line."""
    path = space.root / "ck"
    path.mkdir(exist_ok=True)
    cache = space.root / "cache"
    words = ",".join([*options, f"cache={cache}"])
    space.write_etc("fstab", f"{store.uri} {path} {kind} {words} 0 0\n")
    return path


EVERYBODY = [
    "defaults,_netdev,nofail,x-systemd.automount,x-systemd.requires=network-online.target",
    "X-mount.mkdir,comment=ours,user,exec,suid,dev",
    "auto,users,nosuid,nodev,noexec,async,relatime,nodiratime",
    "rw,owner,group,noatime,lazytime,helper=fuse.holdfast,uhelper=holdfast",
]


@pytest.mark.parametrize("words", EVERYBODY)
def test_words_of_fstab_that_are_for_others_are_taken(space, file_store, words):
    path = fstab(space, file_store, "takeover", words)
    assert space.run("mount", "-a").stderr == ""
    save(space, path / "a", b"x")
    assert space.status(path)["mode"] == "read-write"
    assert space.run("umount", path).stderr == ""


def test_what_the_kernel_is_to_forbid_is_forbidden(space, file_store):
    path = fstab(space, file_store, "noexec,noauto")
    space.run("mount", path)
    assert {"noexec", "nosuid", "nodev"} <= set(space.mounted(path))
    save(space, path / "run", b"#!/bin/sh\n")
    space.run("chmod", "755", path / "run")
    assert "denied" in space.run(path / "run", expect=None).stderr
    space.run("umount", path)


def test_mount_a_twice_mounts_once(space, file_store):
    path = fstab(space, file_store, "takeover")
    space.run("mount", "-a")
    assert space.run("mount", "-a").stderr == ""
    assert [where for where, _, _ in space.table()].count(str(path)) == 1
    space.run("umount", "-a", "-t", "fuse.holdfast")
    assert space.mounted(path) is None


def test_the_line_for_umount8_goes_with_the_mount(space, file_store):
    for words in "takeover", "takeover,_netdev":  # mount(8) adds one of its own for the second
        path = fstab(space, file_store, words)
        space.run("mount", path)
        assert str(path) in space.run("cat", "/run/mount/utab").stdout
        space.run(space.holdfast, "umount", path)
        assert space.run("cat", "/run/mount/utab").stdout == ""


def test_noauto_is_left_alone_by_mount_a(space, file_store):
    path = fstab(space, file_store, "noauto")
    space.run("mount", "-a")
    assert space.mounted(path) is None


def test_the_kernels_name_of_the_type_will_do(space, file_store):
    path = fstab(space, file_store, "ro", kind="fuse.holdfast")
    space.run("mount", path)
    assert "ro" in space.mounted(path)
    space.run("umount", path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("chache=/x", "chache"),
        ("nosymfollow", "nosymfollow"),
        ("commit=soon", "commit=soon"),
        ("slot", "slot"),
    ],
)
def test_an_option_that_nobody_knows_is_refused_in_one_line(space, file_store, words, said):
    path = fstab(space, file_store, words)
    done = space.run("mount", path, expect=1)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert space.mounted(path) is None


def test_a_store_that_is_not_there_is_a_mount_that_failed(space, file_store):
    file_store.uri += "-nowhere"
    path = fstab(space, file_store, "takeover")
    done = space.run("mount", path, expect=32)
    assert file_store.uri in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_remount_is_refused_and_the_mount_goes_on(space, mounted):
    done = space.run("mount", "-o", "remount,ro", mounted.path, expect=1)
    assert "remount" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    save(space, mounted.path / "a", b"x")


def test_mount_f_mounts_nothing(space, file_store):
    path = fstab(space, file_store, "takeover")
    space.run("mount", "-f", path)
    assert space.mounted(path) is None


def test_sync_makes_each_write_an_fsync(space, file_store):
    """Also of a handle that only writes, which goes past the page cache without it."""
    path = fstab(space, file_store, "sync,fsync=remote,commit=0.2,quiet=0.2")
    space.run("mount", path)
    good = space.status(path)["good"]
    with writer(space, path / "a"):
        status = space.status(path)
        assert status["good"] > good
        assert status["dirty_bytes"] == 0
    space.run("umount", path)


def test_a_user_mounts_and_unmounts_what_fstab_lets_him(space, program, tmp_path):
    own = space.root / "own"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    env = {"PATH": os.environ["PATH"], "HOME": str(own)}
    path, store = own / "ck", f"file://{own}/store"
    space.run("mkdir", path, uid=NOBODY)
    space.run(space.holdfast, "mkfs", store, uid=NOBODY, env=env)
    space.write_etc("fstab", f"{store} {path} holdfast user,noauto 0 0\n")
    space.run("mount", path, uid=NOBODY, env=env)
    assert {"nosuid", "nodev", "noexec"} <= set(space.mounted(path))
    space.run("sh", "-c", f"echo x > {path}/a", uid=NOBODY)
    assert space.run("umount", path, uid=NOBODY, env=env).stderr == ""
    assert space.mounted(path) is None
    assert " a\n" in space.run(space.holdfast, "ls", "-l", store, uid=NOBODY).stdout
