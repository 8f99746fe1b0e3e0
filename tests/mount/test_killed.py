# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed and goes on with its cache, or the machine is lost with it."""

import os
import shutil
import subprocess
import sys

from lib.content import MIB, noise, write_new, write_synced
from lib.procs import Group, until
from lib.proxy import Late


def contents(path):
    return {name: (path / name).read_bytes() for name in sorted(os.listdir(path))}


def test_a_killed_daemon_keeps_what_was_synced_and_a_lost_machine_what_was_sent(machine):  # D01
    m = machine
    sent = {f"sent{i}": noise(100_000 + i, i) for i in range(20)}
    local = {f"local{i}": noise(100_000 + i, i) for i in range(20)}
    for name, data in sent.items():
        write_synced(m.path / name, data)
    m.sync()
    for name, data in local.items():
        write_synced(m.path / name, data)
    m.kill()

    m.mount()  # by its cache, and so without takeover
    assert contents(m.path) == sent | local
    m.replace()
    restored = contents(m.path)
    assert restored.items() <= (sent | local).items()
    assert restored.keys() >= sent.keys()


def test_a_killed_daemon_keeps_what_was_closed_without_fsync(machine):
    m = machine
    data = {f"f{i}": noise(MIB + i, i) for i in range(5)}
    for name, content in data.items():
        write_new(m.path / name, content)
    os.mkdir(m.path / "d")
    os.rename(m.path / "f0", m.path / "f9")
    m.kill()

    m.mount()
    os.rmdir(m.path / "d")
    wanted = {name: content for name, content in data.items() if name != "f0"} | {"f9": data["f0"]}
    assert contents(m.path) == wanted
    m.renew()
    assert contents(m.path) == wanted


def test_a_newer_version_outlives_the_older_one_that_was_being_sent(
    machines, s3_store, proxy
):  # D09
    m = machines(s3_store.through(proxy.endpoint)).mount()
    old, new = noise(3 * MIB, "old"), noise(3 * MIB, "new")
    proxy.spoil = lambda request: Late(600) if request.method == "PUT" else None
    before = proxy.requests["PUT"]
    write_new(m.path / "a", old)
    until(lambda: proxy.requests["PUT"] > before, 120, "the old version is being sent")
    write_synced(m.path / "a", new)
    m.kill()
    proxy.spoil = None

    m.mount()
    assert (m.path / "a").read_bytes() == new
    m.renew()
    assert (m.path / "a").read_bytes() == new


APPENDER = """
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
done = os.open(sys.argv[2], os.O_CREAT | os.O_WRONLY, 0o644)
for i in range(10**9):
    os.write(fd, f"{i:09}".encode().ljust(1999, b".") + b"\\n")
    os.pwrite(done, f"{i + 1:09}".encode(), 0)
"""


def test_an_append_that_the_daemon_had_answered_is_there_after_its_death(
    file_machine, tmp_path
):  # D12
    m = file_machine
    count = tmp_path / "count"
    path = m.path / "log"

    def answered():
        return int(count.read_bytes() or 0) if count.exists() else 0

    with Group([sys.executable, "-c", APPENDER, str(path), str(count)], stderr=subprocess.DEVNULL):
        until(lambda: answered() > 500, 120, "lines are written")
        m.kill()

    m.mount()
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) in (answered(), answered() + 1)
    for i, line in enumerate(lines):
        assert line == f"{i:09}".encode().ljust(1999, b".") + b"\n"
    with open(path, "ab") as f:
        f.write(b"goes on\n")
    m.renew()
    assert path.read_bytes() == b"".join(lines) + b"goes on\n"


def read_or_eio(path):
    """The content, or None where the mount says that it cannot have it."""
    try:
        return path.read_bytes()
    except OSError as e:
        assert e.strerror == "Input/output error", e
        return None


def test_a_cache_file_cut_to_half_never_shows_wrong_data(machines, file_store):  # D17
    m = machines(file_store).mount()
    data = {f"f{i}": noise(300_000, i) for i in range(4)}
    for name, content in data.items():
        write_synced(m.path / name, content)
    m.sync()
    m.kill()
    whole = m.root / "whole"
    shutil.copytree(m.cache, whole, symlinks=True)

    for victim in sorted(
        p.relative_to(whole) for p in whole.rglob("*") if p.is_file() and p.stat().st_size > 1
    ):
        m.wipe()
        shutil.copytree(whole, m.cache, symlinks=True)
        os.truncate(m.cache / victim, (m.cache / victim).stat().st_size // 2)
        m.mount(takeover=True)
        for name, content in data.items():
            assert read_or_eio(m.path / name) in (content, None), f"{name} with half of {victim}"
        m.kill()


def test_a_symbolic_link_to_the_cache_directory_is_followed(machines, file_store):  # D18
    m = machines(file_store)
    (m.root / "real").mkdir()
    m.cache.symlink_to(m.root / "real")
    m.mount()
    write_new(m.path / "a", noise(MIB))
    m.umount()
    shutil.rmtree(m.root / "real")
    (m.root / "real").mkdir()

    m.mount()
    assert (m.path / "a").read_bytes() == noise(MIB)


def test_a_writer_killed_in_mid_save_leaves_the_version_before(machine):
    m = machine
    old, new = noise(2 * MIB, "old"), noise(2 * MIB, "new")
    write_new(m.path / "last.pt", old)
    m.sync()
    script = (
        "import os, sys, signal\n"
        "f = open(sys.argv[1], 'wb', buffering=0)\n"
        "f.write(sys.stdin.buffer.read())\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, m.path / "last.pt"], input=new[:MIB], check=False)
    good = m.status()["good"]
    write_new(m.path / "witness", b"x")
    m.until(lambda s: s["good"] > good, "what others write is kept")

    m.replace()
    assert (m.path / "witness").exists()
    assert (m.path / "last.pt").read_bytes() == old
