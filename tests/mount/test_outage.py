# SPDX-License-Identifier: Apache-2.0
"""The network goes, and comes back: writers hear nothing of it, and nothing is lost."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

import pytest

from lib.content import MIB, noise, write_new, write_synced
from lib.procs import Group, ends_within, kill, until
from lib.proxy import Cut, Late, Lost, Refused


@pytest.fixture
def remote(machines, s3_store, proxy):
    """A machine that reaches its store through the proxy."""
    return machines(s3_store.through(proxy.endpoint)).mount()


def test_a_network_that_goes_in_the_middle_of_a_write_costs_no_byte(remote, proxy):  # D02
    m = remote
    data = noise(48 * MIB)
    with open(m.path / "a", "wb", buffering=0) as f:
        for start in range(0, len(data), MIB):
            if start == 16 * MIB:
                proxy.hole = True
            f.write(data[start : start + MIB])
        os.fsync(f.fileno())
    proxy.hole = False

    m.sync(120)
    m.lose()
    m.mount(takeover=True)
    assert (m.path / "a").read_bytes() == data


def test_a_pack_whose_answer_was_lost_is_sent_on_another_connection_and_is_ours(remote, proxy):
    """On a kept connection it is libcurl that sends it again, and nobody hears of the first try."""
    write_new(remote.path / "first", noise(MIB, 1))
    remote.sync()
    lost = []

    def lose_each_once(request):
        if request.method != "PUT" or "/packs/" not in request.path or request.path in lost:
            return None
        lost.append(request.path)
        return Lost()

    proxy.spoil = lose_each_once
    write_new(remote.path / "second", noise(MIB, 2))
    remote.sync()
    assert lost
    remote.replace()
    assert (remote.path / "second").read_bytes() == noise(MIB, 2)


WAITS = {
    "fsync": "os.fsync(os.open(sys.argv[1], os.O_WRONLY))",
    "fsync of a directory": "os.fsync(os.open(os.path.dirname(sys.argv[1]), os.O_RDONLY))",
    "user.holdfast.sync": 'os.getxattr(sys.argv[1], "user.holdfast.sync")',
}


@pytest.mark.parametrize("how", WAITS)
def test_who_waits_for_a_dead_store_can_be_killed(machines, s3_store, proxy, how):
    m = machines(s3_store.through(proxy.endpoint), fsync="remote").mount()
    proxy.hole = True
    write_new(m.path / "f", noise(MIB))
    script = f"import os, sys\nprint('waits', flush=True)\n{WAITS[how]}\n"
    command = [sys.executable, "-c", script, str(m.path / "f")]
    with Group(command, stdout=subprocess.PIPE) as waiting:
        assert waiting.process.stdout.readline() == b"waits\n"
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.5)
        waiting.signal(signal.SIGKILL)
        assert waiting.wait(10) == -signal.SIGKILL
    proxy.hole = False


def test_one_connection_that_stalls_does_not_hold_up_a_restore(machines, s3_store, proxy):
    m = machines(s3_store.through(proxy.endpoint), warm="none").mount()
    data = noise(48 * MIB)
    write_new(m.path / "a", data)
    m.renew()
    seen = []

    def stall_one(request):
        if request.method == "GET" and "/packs/" in request.target:
            seen.append((request.target, request.head.get("range")))
            if len(seen) == 8:
                return Late(600)
        return None

    proxy.spoil = stall_one
    assert (m.path / "a").read_bytes() == data
    assert seen.count(seen[7]) > 1


def test_a_small_cache_that_cannot_be_sent_loses_nothing(machines, s3_store, proxy):  # D03
    m = machines(s3_store.through(proxy.endpoint), cache_size="16M").mount()
    files = {f"f{i}": noise(8 * MIB, i) for i in range(6)}
    proxy.hole = True

    def write_all():
        for name, data in files.items():
            write_new(m.path / name, data)

    writer = threading.Thread(target=write_all)
    writer.start()
    m.until(lambda s: s["dirty_bytes"] >= 16 * MIB or not writer.is_alive(), "the cache fills")
    proxy.hole = False
    writer.join(120)
    assert not writer.is_alive(), "the writer waits for ever"
    m.sync(120)
    for name, data in files.items():
        assert (m.path / name).read_bytes() == data

    m.replace()
    for name, data in files.items():
        assert (m.path / name).read_bytes() == data


def test_an_outage_gives_no_error_and_ends_without_a_remount(remote, proxy):  # D07
    m = remote
    pid = m.pid
    write_new(m.path / "before", noise(MIB, "before"))
    m.sync()
    proxy.spoil = lambda request: Refused()
    for i in range(5):
        write_synced(m.path / f"during{i}", noise(MIB, i))
    m.until(lambda s: s["requests"]["retries"] > 3, "it has been tried again and again")
    assert m.status()["error"], "status says nothing of the outage"
    proxy.spoil = None

    write_new(m.path / "after", noise(MIB, "after"))
    m.sync(120)
    assert m.status()["pid"] == pid
    m.until(lambda s: not s["error"], "status says that it is over")
    m.replace()
    for i in range(5):
        assert (m.path / f"during{i}").read_bytes() == noise(MIB, i)
    assert (m.path / "after").read_bytes() == noise(MIB, "after")


def goes_silent(proxy):
    proxy.hole = True


def refuses(proxy):
    proxy.spoil = lambda request: Refused()


@pytest.mark.parametrize("goes", [goes_silent, refuses])
def test_a_store_that_does_not_answer_is_named_before_a_try_has_ended(remote, proxy, goes):
    m = remote
    goes(proxy)
    write_new(m.path / "a", noise(MIB))
    for verb in ("sync", "umount"):
        done = m.command(verb, "--timeout", "5", m.path)
        assert done.returncode == 3, done
        assert re.search(r"(PUT|pack) .*; for \d+ s now", done.stderr), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
    status = m.until(lambda s: s["failing_seconds"] > 2, "status says that nothing gets through")
    assert "PUT" in status["error"] or "pack" in status["error"], status
    assert status["error"] in m.command("status", m.path).stdout
    if goes is goes_silent:
        assert "does not answer" in status["error"], status

    proxy.spoil = None
    proxy.hole = False
    m.sync(120)
    m.until(lambda s: not s["error"] and not s["failing_seconds"], "it is over")
    m.umount()


# ---- ending it while the store is away ----


def start_of_the_end(m):
    kill(m.pid, signal.SIGTERM)
    until(lambda: "flush and unmount" in m.log_text(), 60, "the signal is heard")


def assert_second_signal_ends(m):
    """Without it the flush takes 80 s at least."""
    start_of_the_end(m)
    assert not ends_within(m.pid, 0)
    kill(m.pid, signal.SIGTERM)
    assert ends_within(m.pid, 40)
    m.pid = None
    assert not os.path.ismount(m.path)
    assert "unsent data stays in" in m.log_text()


def test_a_second_sigterm_ends_the_flush_and_the_cache_goes_on(remote, proxy):
    m = remote
    proxy.hole = True
    write_new(m.path / "a", noise(MIB))
    assert_second_signal_ends(m)
    proxy.hole = False
    m.mount()
    assert (m.path / "a").read_bytes() == noise(MIB)
    m.umount()


def test_a_daemon_that_was_unmounted_still_hears_sigterm(remote, proxy):
    m = remote
    proxy.hole = True
    write_new(m.path / "a", noise(MIB))
    subprocess.run(["fusermount3", "-u", m.path], check=True)
    assert_second_signal_ends(m)


def test_ctrl_c_ends_the_waiting_of_umount_and_nothing_else(remote, proxy):
    m = remote
    proxy.hole = True
    write_new(m.path / "a", noise(MIB))
    command = [m.program, "umount", m.path]
    with Group(command, stderr=subprocess.PIPE, text=True, env=m.environment()) as waits:
        until(lambda: waits_for_signal(waits.pid), 60, "it waits")
        waits.signal(signal.SIGINT)
        assert waits.wait(60) == 1
        assert "mnt: still mounted: interrupted\n" in waits.process.stderr.read()
    assert m.status()["dirty_bytes"] > 0
    proxy.hole = False
    m.umount()


def waits_for_signal(pid):
    """Ctrl-C is blocked, and read where it is waited for."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    blocked = int(re.search(r"SigBlk:\s+(\w+)", status).group(1), 16)
    return blocked >> (signal.SIGINT - 1) & 1


def test_those_who_went_away_are_not_waited_for(remote, proxy):
    """Each would hold one of the mount's few connections until the store is back."""
    m = remote
    proxy.hole = True
    write_new(m.path / "a", noise(MIB))
    for _ in range(20):
        with Group([m.program, "sync", m.path], stderr=subprocess.DEVNULL) as waits:
            until(lambda pid=waits.pid: has_socket(pid), 60, "it has asked")
    m.status()
    proxy.hole = False
    m.umount()


def has_socket(pid):
    with contextlib.suppress(FileNotFoundError):  # one that was closed meanwhile: ask again
        folder = pathlib.Path(f"/proc/{pid}/fd")
        return any(os.readlink(fd).startswith("socket:") for fd in folder.iterdir())
    return False


@pytest.mark.parametrize("sized", [True, False])
def test_an_answer_cut_short_is_asked_for_again(remote, proxy, rng, sized):  # D10
    m = remote
    files = {f"f{i}": noise(700_000, i) for i in range(8)}
    for name, data in files.items():
        write_new(m.path / name, data)
    m.umount()
    m.wipe()
    cut = set()

    def cut_the_first(request):
        """Every question's first answer is cut, so each has to be asked again."""
        question = (request.method, request.target, request.head.get("range"))
        if request.method != "GET" or question in cut:
            return None
        cut.add(question)
        return Cut(rng.choice([0, 1, 100, rng.randrange(100_000)]), sized)

    proxy.spoil = cut_the_first
    m.mount(takeover=True)
    for name, data in files.items():
        assert (m.path / name).read_bytes() == data
    assert cut
