# SPDX-License-Identifier: Apache-2.0
"""status, sync, umount and ls against a live mount: exit codes, and what they tell a person."""

import os
import re
import subprocess
import sys

from lib.content import MIB, noise, write_new
from lib.procs import Group, kill, until, wait_gone

DONE, FAILED, USAGE, UNSENT = 0, 1, 2, 3

# Holds the moment: a new file, open for writing, half written.
HALF = """
import sys
f = open(sys.argv[1], 'wb')
f.write(b'x' * 5000)
f.flush()
print(1, flush=True)
input()
"""

# Connects and asks nothing.
IDLE = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
print(1, flush=True)
input()
"""


def script(text, argument):
    """A program that has printed a line and waits."""
    command = [sys.executable, "-c", text, argument]
    group = Group(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert group.process.stdout.readline() == b"1\n"
    return group


def said(done, status, pattern):
    """One line on standard error, with the object in it."""
    assert done.returncode == status, done
    assert re.search(pattern, done.stderr), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def half_writer(path):
    return script(HALF, path)


def sleeper_in(path):
    return Group(["sleep", "300"], cwd=path)


def sockets_of(pid):
    links = (os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
    return [link for link in links if link.startswith("socket:")]


# ---- status ----


def test_status_says_in_words_what_is_unsent_and_then_that_nothing_is(machines, file_store):
    m = machines(file_store).mount()
    with half_writer(m.path / "half"):
        words = m.command("status", m.path).stdout
        assert re.search(r"^unsent +5\.0 KB", words, re.M), words
    (m.path / "half").unlink()
    m.sync()
    words = m.command("status", m.path).stdout
    assert re.search(rf"^store +{re.escape(file_store.uri)}$", words, re.M), words
    assert re.search(r"^good +commit \d+, which holds everything$", words, re.M), words
    assert re.search(r"^unsent +nothing$", words, re.M), words


def test_a_name_that_is_not_utf8_is_in_every_answer(machines, file_store):
    m = machines(file_store, settle=60).mount()
    name = os.fsencode(m.path) + b"/caf\xe9.pt"
    shown = "caf\ufffd.pt"
    with half_writer(name):
        m.until(lambda s: s["held_by"] == shown, "the name of who holds the moment")
        assert f"waiting  {shown}\n" in m.command("status", m.path).stdout
    # Its first like: whether more belong to it has to be seen yet.
    write_new(os.fsencode(m.path) + b"/caf\xe9-2.pt", b"x")
    status = m.until(lambda s: s["objection"], "there is an objection")
    assert "\ufffd" in status["objection"], status


def test_status_watched_by_a_program_is_a_line_a_second_until_the_end(machines, file_store):
    m = machines(file_store).mount()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with Group([m.program, "status", "--watch", m.path], **pipes) as w:
        for _ in range(2):
            assert re.match(r"\d\d:\d\d:\d\d  good .*; unsent ", w.process.stdout.readline())
        m.umount()
        assert w.wait(120) == FAILED
        assert str(m.path) in w.process.stderr.read()


def test_verbs_refuse_what_is_on_no_mount(machines, file_store, tmp_path):
    m = machines(file_store)
    for verb in ("status", "sync", "umount"):
        said(m.command(verb, tmp_path), FAILED, f"{tmp_path} is not on a holdfast mount")
        said(m.command(verb, tmp_path / "none"), FAILED, f"{tmp_path}/none: No such file")
    said(m.command("sync", "--timeout", "soon", tmp_path), USAGE, "usage: holdfast sync")


# ---- sync ----


def test_sync_gives_up_in_time_and_names_what_it_waits_for(machines, file_store):
    m = machines(file_store).mount()
    with half_writer(m.path / "half"):
        said(m.command("sync", "--timeout", "0.5", m.path), UNSENT, "not acknowledged in time")


def test_sync_of_any_path_in_the_mount_is_that_of_the_mount(machines, file_store):
    m = machines(file_store).mount()
    (m.path / "a").mkdir()
    write_new(m.path / "a" / "f", b"x")
    assert m.command("sync", m.path / "a" / "f").returncode == DONE
    assert m.command("ls", f"{file_store.uri}:a").stdout == "f\n"


# ---- umount ----


def test_a_busy_mount_names_who_is_in_it_and_goes_on(machines, file_store):
    m = machines(file_store).mount()
    with sleeper_in(m.path) as s:
        said(m.command("umount", m.path), FAILED, rf"still mounted: in use by sleep \({s.pid}\)")
        write_new(m.path / "after", b"x")
        m.sync()
    m.umount()
    assert m.command("ls", file_store.uri).stdout == "after\n"


def test_a_mount_that_is_not_acknowledged_in_time_goes_on(machines, file_store):
    m = machines(file_store).mount()
    with half_writer(m.path / "half"):
        said(m.command("umount", "--timeout", "0.5", m.path), UNSENT, "still mounted: .*--discard")
        assert os.path.ismount(m.path)
    m.umount()


def test_a_directory_of_a_mount_is_not_the_mount(machines, file_store):
    m = machines(file_store).mount()
    (m.path / "a").mkdir()
    said(m.command("umount", m.path / "a"), FAILED, "a lies inside a mount")
    m.umount()


def test_what_is_discarded_is_said_and_gone(machines, file_store):
    m = machines(file_store, commit=60).mount()
    write_new(m.path / "kept", b"x")
    m.sync()
    good = m.status()["good"]
    write_new(m.path / "dropped", noise(MIB, 1))
    text = m.umount("--discard", expect=UNSENT)
    assert f"what came after commit {good} is discarded, 1.0 MB" in text
    m.mount()
    assert os.listdir(m.path) == ["kept"]


def test_after_umount_the_cache_is_free_at_once(machines, file_store):
    m = machines(file_store)
    for _ in range(5):
        m.mount()
        assert m.command("umount", m.path).returncode == DONE
        m.pid = None


def test_a_dead_mount_is_buried_and_its_cache_goes_on(machines, file_store):
    m = machines(file_store).mount()
    write_new(m.path / "a", b"x")
    kill(m.pid)
    wait_gone(m.pid)
    said(m.command("status", m.path), FAILED, "daemon is gone")
    said(m.command("umount", m.path), UNSENT, "its daemon was gone; unmounted")
    assert not os.path.ismount(m.path)
    m.pid = None
    m.mount()
    assert (m.path / "a").read_bytes() == b"x"


def test_a_replaced_mount_is_unmounted_and_says_where_the_rest_is(machines, file_store):
    a = machines(file_store).mount()
    b = machines(file_store).mount(takeover=True)
    write_new(a.path / "late", b"x")
    until(lambda: a.status()["fenced"], 120, "the first mount learns of the second")
    said(a.command("sync", a.path), FAILED, "has taken the store over")
    text = a.umount(expect=UNSENT)
    assert "has taken the store over" in text and str(a.cache) in text
    b.umount()


def test_a_client_that_says_nothing_does_not_keep_a_mount_from_ending(machines, file_store):
    m = machines(file_store).mount()
    path = os.getxattr(m.path, "user.holdfast.socket").decode()
    with script(IDLE, path):
        m.umount(seconds=120)


def test_a_sync_that_waits_does_not_keep_a_mount_from_ending(machines, file_store):
    m = machines(file_store).mount()
    with half_writer(m.path / "half") as writer:
        writer.kill()  # the file is a killed writer's: it holds the moment for some time
    with Group([m.program, "sync", m.path], stderr=subprocess.PIPE, text=True) as waits:
        until(lambda: sockets_of(waits.pid), 120, "it has asked")
        m.umount("--discard", seconds=120, expect=UNSENT)
        assert waits.wait(120) == FAILED
        assert str(m.path) in waits.process.stderr.read()
