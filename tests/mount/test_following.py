# SPDX-License-Identifier: Apache-2.0
"""A read-only mount that follows a writer on another machine, seen through the kernel."""

import errno
import mmap
import os
import signal
import subprocess

import pytest

from lib.content import MIB, noise, replace, write_new
from lib.machine import MountFailed
from lib.procs import HANGS_S, Group, kill, until


@pytest.fixture
def pair(machines, store):
    """A writer with a file, and a reader that shows it; once of each kind of store."""
    return follow(machines, store, store)


def follow(machines, store, seen, **options):
    writer = machines(store).mount()
    write_new(writer.path / "first", b"1")
    writer.sync()
    return writer, machines(seen, ro=True, **options).mount()


def passes_on(writer, reader):
    """What the writer has is acknowledged, and then shown."""
    writer.sync()
    good = writer.status()["good"]
    return reader.until(lambda s: s["commit"] >= good, f"commit {good} is shown")


def tree(path):
    """Every name below, with what it is and holds."""
    found = {}
    for p in sorted(path.rglob("*")):
        found[str(p.relative_to(path))] = p.read_bytes() if p.is_file() else p.lstat().st_mode
    return found


# ---- names ----


def test_names_come_go_and_move(pair):
    writer, reader = pair
    with pytest.raises(FileNotFoundError):
        os.stat(reader.path / "ckpt")  # the kernel remembers that
    (writer.path / "ckpt").mkdir()
    write_new(writer.path / "ckpt/a", noise(MIB, 1))
    write_new(writer.path / "ckpt/b", b"b")
    passes_on(writer, reader)
    until(lambda: (reader.path / "ckpt/a").exists(), HANGS_S, "a new file is seen")
    assert tree(reader.path) == tree(writer.path)

    os.rename(writer.path / "ckpt", writer.path / "ckpt-1")
    os.unlink(writer.path / "ckpt-1/b")
    os.link(writer.path / "ckpt-1/a", writer.path / "best")
    os.unlink(writer.path / "first")
    passes_on(writer, reader)
    until(lambda: tree(reader.path) == tree(writer.path), HANGS_S, "they are the same again")
    assert (reader.path / "best").stat().st_nlink == 2
    assert (reader.path / "best").stat().st_ino == (reader.path / "ckpt-1/a").stat().st_ino


def test_a_directory_that_somebody_is_in_moves_with_him(pair):
    writer, reader = pair
    (writer.path / "d/e").mkdir(parents=True)
    write_new(writer.path / "d/e/x", b"x")
    passes_on(writer, reader)
    until((reader.path / "d/e").exists, HANGS_S, "it is seen")
    inside = os.open(reader.path / "d/e", os.O_RDONLY | os.O_DIRECTORY)
    os.rename(writer.path / "d/e", writer.path / "f")
    write_new(writer.path / "f/y", b"y")
    passes_on(writer, reader)
    until((reader.path / "f").exists, HANGS_S, "it has moved")
    until(lambda: sorted(os.listdir(inside)) == ["x", "y"], HANGS_S, "and has a new file")
    assert os.readlink(f"/proc/self/fd/{inside}") == str(reader.path / "f")
    os.close(inside)


# ---- bytes ----


def mapped(file, size):
    return mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)


def test_a_new_open_reads_the_new_bytes_and_an_old_one_the_old(pair):
    writer, reader = pair
    old, new = noise(2 * MIB, 1), noise(3 * MIB, 2)
    write_new(writer.path / "last.pt", old)
    passes_on(writer, reader)
    path = reader.path / "last.pt"
    until(path.exists, HANGS_S, "it is seen")
    with open(path, "rb") as f, mapped(f, len(old)) as m:
        assert f.read(MIB) == old[:MIB]
        assert m[:4096] == old[:4096]
        write_new(writer.path / "last.pt", new)  # in place, under its inode
        passes_on(writer, reader)
        until(lambda: path.stat().st_size == len(new), HANGS_S, "its size is the new one")
        with open(path, "rb") as again, mapped(again, len(new)) as n:
            assert again.read() == new
            assert n[:] == new
        assert f.read() == old[MIB:]
        assert m[:] == old
    assert path.read_bytes() == new


def test_pages_that_nobody_has_open_are_forgotten(pair):
    writer, reader = pair
    size = MIB + 5
    for round in range(3):
        write_new(writer.path / "last.pt", noise(size, round))
        passes_on(writer, reader)
        until(
            lambda: (reader.path / "last.pt").exists()
            and (reader.path / "last.pt").read_bytes() == noise(size, round),
            HANGS_S,
            f"round {round} is read",
        )


def test_a_file_that_was_replaced_by_rename_is_followed(pair):
    writer, reader = pair
    replace(writer.path / "latest", b"step 1")
    passes_on(writer, reader)
    until((reader.path / "latest").exists, HANGS_S, "it is seen")
    with open(reader.path / "latest", "rb") as old:
        replace(writer.path / "latest", b"step 2")
        passes_on(writer, reader)
        until(
            lambda: (reader.path / "latest").read_bytes() == b"step 2", HANGS_S, "the new one is"
        )
        assert old.read() == b"step 1"


# ---- logs ----


def test_an_open_reader_sees_a_log_grow(pair):
    writer, reader = pair
    lines = [f"line {i} {'x' * 300}\n".encode() for i in range(40)]
    with open(writer.path / "train.log", "ab", buffering=0) as log:
        log.write(lines[0])
        passes_on(writer, reader)
        until((reader.path / "train.log").exists, HANGS_S, "it is seen")
        with open(reader.path / "train.log", "rb", buffering=0) as f:
            got = f.read()
            for part in range(1, 40, 13):
                log.writelines(lines[part : part + 13])
                passes_on(writer, reader)
                want = b"".join(lines[: part + 13])

                def rest(want=want):
                    nonlocal got
                    got += f.read()
                    return len(got) >= len(want)

                until(rest, HANGS_S, "it has grown")
                assert got == want


def test_tail_follows_a_log(pair, tmp_path):
    writer, reader = pair
    with open(writer.path / "train.log", "a", buffering=1) as log:
        log.write("begin\n")
        passes_on(writer, reader)
        until((reader.path / "train.log").exists, HANGS_S, "it is seen")
        with (
            open(tmp_path / "out", "wb") as out,
            Group(["tail", "-n", "+1", "-f", str(reader.path / "train.log")], stdout=out),
        ):
            for i in range(5):
                log.write(f"step {i}\n")
                passes_on(writer, reader)
                until(
                    lambda i=i: (tmp_path / "out").read_text().endswith(f"step {i}\n"),
                    HANGS_S,
                    f"line {i} is printed",
                )
    assert (tmp_path / "out").read_text() == "begin\n" + "".join(f"step {i}\n" for i in range(5))


# ---- other moments ----


def test_a_reset_is_followed(machines, store):
    writer, reader = follow(machines, store, store)
    early = writer.status()["good"]
    write_new(writer.path / "second", b"2")
    passes_on(writer, reader)
    until((reader.path / "second").exists, HANGS_S, "the second is seen")
    writer.kill()
    other = machines(store).mount(takeover=True, restore=early)
    reader.until(lambda s: s["commit"] > early + 1, "the reset is shown")
    until(lambda: os.listdir(reader.path) == ["first"], HANGS_S, "the second is gone")
    write_new(other.path / "third", b"3")
    passes_on(other, reader)
    until(lambda: tree(reader.path) == tree(other.path), HANGS_S, "the new branch is followed")


def test_half_a_save_is_seen_by_nobody_but_who_asks_for_the_newest(machines, file_store):
    writer, reader = follow(machines, file_store, file_store)
    newest = machines(file_store, ro=True, follow="newest").mount()
    assert newest.status()["follow"] == "newest"
    half = os.open(writer.path / "half.pt", os.O_WRONLY | os.O_CREAT)
    os.write(half, noise(MIB))
    write_new(writer.path / "whole", b"w")
    writer.kill()
    with pytest.raises(OSError):
        os.close(half)
    other = machines(file_store).mount(takeover=True)
    write_new(other.path / "after", b"a")
    passes_on(other, reader)
    passes_on(other, newest)
    for m in reader, newest:
        until(lambda m=m: tree(m.path) == tree(other.path), HANGS_S, "they are the same")
    assert not (reader.path / "half.pt").exists()


def test_hundreds_of_commits_are_caught_up_with(machines, s3_store, proxy):
    writer, reader = follow(machines, s3_store, s3_store.through(proxy.endpoint))
    (writer.path / "d").mkdir()
    write_new(writer.path / "d/log", b"begin\n")
    passes_on(writer, reader)
    until((reader.path / "d/log").exists, HANGS_S, "it is seen")
    with open(reader.path / "d/log", "rb", buffering=0) as f:
        assert f.read() == b"begin\n"
        proxy.hole = True
        for i in range(300):
            write_new(writer.path / f"d/f{i % 50}", str(i).encode())
            with open(writer.path / "d/log", "ab") as log:
                log.write(f"{i}\n".encode())
            writer.sync()
        proxy.hole = False
        passes_on(writer, reader)
        until(lambda: tree(reader.path) == tree(writer.path), HANGS_S, "it has caught up")
        assert f.read() == b"".join(f"{i}\n".encode() for i in range(300))


# ---- what goes wrong ----


def test_a_store_that_is_away_leaves_what_is_shown(machines, s3_store, proxy):
    writer, reader = follow(machines, s3_store, s3_store.through(proxy.endpoint))
    assert (reader.path / "first").read_bytes() == b"1"
    proxy.hole = True
    write_new(writer.path / "second", b"2")
    writer.sync()
    status = reader.until(lambda s: s["failing_seconds"] > 0, "it fails to look")
    assert "LIST" in status["error"], status
    assert os.listdir(reader.path) == ["first"]
    assert (reader.path / "first").read_bytes() == b"1"
    proxy.hole = False
    passes_on(writer, reader)
    until((reader.path / "second").exists, HANGS_S, "the second is seen")
    assert reader.status()["error"] == ""


@pytest.mark.parametrize("how", ["umount", "SIGTERM"])
def test_it_ends_in_the_middle_of_a_look(machines, s3_store, proxy, how):
    _, reader = follow(machines, s3_store, s3_store.through(proxy.endpoint))
    seen = proxy.requests["GET"]
    proxy.hole = True
    reader.until(lambda s: s["looked_seconds"] > 4, "a look is under way")
    assert proxy.requests["GET"] >= seen
    if how == "umount":
        reader.umount()
    else:
        kill(reader.pid, signal.SIGTERM)
        until(reader.has_died, HANGS_S, "it has ended")
        reader.pid = None
    assert not os.path.ismount(reader.path)


def test_it_ends_while_the_kernel_is_told_of_much(machines, file_store):
    writer, reader = follow(machines, file_store, file_store)
    for i in range(500):
        write_new(writer.path / f"f{i}", b"x")
    passes_on(writer, reader)
    until(lambda: len(os.listdir(reader.path)) == 501, HANGS_S, "all are seen")
    paths = " ".join(f"'{reader.path}/f{i}'" for i in range(500))
    with Group(
        ["sh", "-c", f"while stat {paths}; do :; done"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ):
        for i in range(500):
            write_new(writer.path / f"f{i}", b"yy")
        writer.sync()
        until(
            lambda: any(p.stat().st_size == 2 for p in reader.path.glob("f*")),
            HANGS_S,
            "it is about to be told",
        )
        kill(reader.pid, signal.SIGTERM)
        until(reader.has_died, HANGS_S, "it has ended")
        reader.pid = None


def test_a_file_whose_pack_went_with_its_moment_is_stale_and_then_right(machines, file_store):
    writer, reader = follow(machines, file_store, file_store)
    old, new = noise(8 * MIB, 1), noise(8 * MIB, 2)
    write_new(writer.path / "last.pt", old)
    passes_on(writer, reader)
    path = reader.path / "last.pt"
    until(path.exists, HANGS_S, "it is seen")
    kill(reader.pid, signal.SIGSTOP)
    packs = [key for key in file_store.objects() if key.startswith("packs/")]
    write_new(writer.path / "last.pt", new)
    writer.sync()
    for key in packs:
        file_store.path_of(key).unlink()
    kill(reader.pid, signal.SIGCONT)
    passes_on(writer, reader)

    def read():
        try:
            return path.read_bytes()
        except OSError as e:
            assert e.errno == errno.ESTALE
            return b""

    until(lambda: read() == new, HANGS_S, "it is right again")


# ---- what is said ----


def test_status_says_what_is_shown_and_whether_it_follows(machines, file_store):
    writer, reader = follow(machines, file_store, file_store)
    status = passes_on(writer, reader)
    assert status["mode"] == "read-only"
    assert status["follow"] == "good"
    assert status["commit"] == status["good"] == writer.status()["good"]
    assert status["shown_age_seconds"] >= 0
    text = reader.command("status", reader.path).stdout
    assert f"shows    commit {status['commit']}" in text
    assert "follows the good moment, last looked" in text
    still = machines(file_store, ro=True, restore=status["commit"]).mount()
    assert still.status()["follow"] == "off"
    assert "does not follow" in still.command("status", still.path).stdout
    assert writer.status()["follow"] == ""


@pytest.mark.parametrize(
    "options", [{"follow": "good"}, {"ro": True, "follow": "on"}, {"ro": True, "restore": 1, "follow": "good"}]
)
def test_an_option_that_cannot_be_meant_is_refused(machines, file_store, options):
    with pytest.raises(MountFailed, match="follow"):
        machines(file_store, **options).mount()
