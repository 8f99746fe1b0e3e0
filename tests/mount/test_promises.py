# SPDX-License-Identifier: Apache-2.0
"""What is promised of acknowledgements, of dying writers and of machines that come back."""

import os
import signal
import subprocess
import sys

import pytest

from lib.content import MIB, noise, write_new, write_synced
from lib.procs import ends_within, kill
from lib.proxy import denied

# ---- acknowledged is restorable ----


def test_an_fsync_to_the_store_outlives_the_machine_at_once(machines, store):
    m = machines(store, fsync="remote").mount()
    write_synced(m.path / "a", noise(MIB))
    m.lose()
    m.mount(takeover=True)
    assert (m.path / "a").read_bytes() == noise(MIB)


def test_a_sync_outlives_the_machine_at_once(machine):
    m = machine
    for i in range(30):
        write_new(m.path / f"f{i}", noise(10_000, i))
    m.sync()
    m.replace()
    for i in range(30):
        assert (m.path / f"f{i}").read_bytes() == noise(10_000, i)


def test_sigterm_sends_what_is_unsent_and_ends(machines, store):
    m = machines(store, commit=600).mount()
    write_new(m.path / "a", noise(MIB))
    kill(m.pid, signal.SIGTERM)
    assert ends_within(m.pid, 120)
    m.pid = None
    assert not os.path.ismount(m.path)
    m.wipe()
    m.mount()  # released: no takeover is needed
    assert (m.path / "a").read_bytes() == noise(MIB)


def test_nothing_unsent_is_left_by_a_discard(file_machine):
    m = file_machine
    write_new(m.path / "kept", b"kept")
    m.sync()
    with open(m.path / "open", "wb", buffering=0) as f:
        f.write(b"x" * 100)
    m.umount("--discard", expect=None)
    m.wipe()
    m.mount(takeover=True)
    assert (m.path / "kept").read_bytes() == b"kept"


# ---- writers that die ----

SAVE_AND_DIE = """
import os, signal, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC) # which Python does not close
os.write(fd, b"x" * 700_000)
how = sys.argv[2]
if how == "exit":
    sys.exit(1)
if how == "exception":
    raise MemoryError
os.kill(os.getpid(), getattr(signal, how))
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "SIGSEGV", "exit", "exception"])
def test_a_writer_that_dies_in_a_save_leaves_the_version_before(file_machine, how):
    m = file_machine
    write_new(m.path / "last.pt", noise(MIB))
    m.sync()
    command = [sys.executable, "-c", SAVE_AND_DIE, str(m.path / "last.pt"), how]
    assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode != 0
    good = m.status()["good"]
    write_new(m.path / "witness", b"x")
    m.until(lambda s: s["good"] > good, "what others write is kept")
    m.replace()
    assert (m.path / "last.pt").read_bytes() == noise(MIB)


# ---- machines that come back ----


def test_a_machine_that_slept_through_its_replacement_changes_nothing(machines, store):
    a, b = machines(store).mount(), machines(store)
    write_new(a.path / "a", noise(MIB))
    a.sync()
    kill(a.pid, signal.SIGSTOP)
    b.mount(takeover=True)
    write_new(b.path / "b", noise(MIB, "b"))
    b.sync()
    kill(a.pid, signal.SIGCONT)
    write_new(a.path / "late", b"late")
    a.until(lambda s: s["fenced"], "it learns that it was replaced")
    b.renew()
    assert sorted(os.listdir(b.path)) == ["a", "b"]


def test_what_a_replaced_machine_had_synced_and_not_sent_is_put_aside(machines, s3_store, proxy):
    a = machines(s3_store.through(proxy.endpoint)).mount()
    b = machines(s3_store)
    write_new(a.path / "a", b"a")
    a.sync()
    proxy.spoil = lambda request: denied() if request.method == "PUT" else None
    write_synced(a.path / "unsent", noise(MIB))
    a.kill()
    b.mount(takeover=True)
    write_new(b.path / "b", b"b")
    b.sync()
    b.umount()
    proxy.spoil = None

    a.mount(takeover=True)
    assert sorted(os.listdir(a.path)) == ["a", "b"]
    kept = [p for p in a.cache.rglob("*") if p.is_file() and "salvage" in p.parts]
    assert any(p.read_bytes() == noise(MIB) for p in kept), kept
    assert "salvage" in a.log_text()


def test_an_older_moment_can_be_mounted(file_machine):
    m = file_machine
    write_new(m.path / "last.pt", noise(MIB, 1))
    m.sync()
    old = m.status()["good"]
    write_new(m.path / "last.pt", noise(MIB, 2))
    m.sync()
    m.umount()
    m.wipe()
    m.mount(ro=True, restore=old)
    assert (m.path / "last.pt").read_bytes() == noise(MIB, 1)
    m.umount()
    m.wipe()
    m.mount()
    assert (m.path / "last.pt").read_bytes() == noise(MIB, 2)


def test_a_reader_that_does_not_follow_shows_one_moment_whatever_is_saved_since(machines, file_store):
    a, b = machines(file_store).mount(), machines(file_store, ro=True, follow="off")
    write_new(a.path / "one", noise(MIB, 1))
    a.sync()
    b.mount()
    write_new(a.path / "one", noise(MIB, 2))
    write_new(a.path / "two", b"2")
    a.sync()
    assert os.listdir(b.path) == ["one"]
    assert (b.path / "one").read_bytes() == noise(MIB, 1)


# ---- logs ----


def test_a_log_that_stays_open_is_stored_as_it_grows(file_machine):
    m = file_machine
    log = os.open(m.path / "events.out.tfevents.1", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for i in range(20):
        os.write(log, f"{i:02}".encode().ljust(100))
    m.sync()
    m.kill()
    with pytest.raises(OSError):
        os.close(log)
    m.replace()
    assert (m.path / "events.out.tfevents.1").stat().st_size == 2000


def test_logging_costs_no_request_a_line(file_machine):
    m = file_machine
    write_new(m.path / "a", b"x")
    m.sync()
    before = m.status()["requests"]["put"]
    for i in range(200):
        with open(m.path / "metrics.jsonl", "ab", buffering=0) as log:
            log.write(b'{"loss": 0.1}\n')
    m.sync()
    assert m.status()["requests"]["put"] - before < 30
