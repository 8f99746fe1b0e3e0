# SPDX-License-Identifier: Apache-2.0
"""Calls, shell tools and SQLite: on a mount as on a local disk, and after it as before."""

import json
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from lib.oracle import tree_of
from lib.procs import Group, until

HERE = pathlib.Path(__file__).parent
CALLS = HERE / "calls.py"
SHELL_TOOLS = HERE / "shell_tools.sh"
SQLITE = HERE / "sqlite_db.py"


def output_of(*command, cwd=None):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=120, check=False, cwd=cwd
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- calls ----


def test_every_call_does_what_it_does_on_a_local_disk(file_machine, tmp_path):
    local = tmp_path / "local"
    local.mkdir()
    wanted = json.loads(output_of(sys.executable, CALLS, local))
    found = json.loads(output_of(sys.executable, CALLS, file_machine.path))
    assert len(wanted) >= 27
    for name in wanted:  # what this local disk cannot do proves nothing
        if isinstance(wanted[name], str) and wanted[name].startswith("OSError"):
            del found[name]
    assert found == {name: wanted[name] for name in found}

    tree = tree_of(file_machine.path)
    file_machine.renew()
    assert tree_of(file_machine.path) == tree


# ---- shell tools ----


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl")
def test_shell_tools_make_the_same_files_as_on_a_local_disk(machine, tmp_path):
    m = machine
    local = tmp_path / "local"
    local.mkdir()
    wanted = output_of(SHELL_TOOLS, local)
    assert output_of(SHELL_TOOLS, m.path) == wanted
    tree = tree_of(m.path)
    assert tree == tree_of(local)

    m.renew()
    assert tree_of(m.path) == tree
    links = [(m.path / "out" / "moved" / name).stat() for name in ("model.bin", "best.bin")]
    assert links[0].st_ino == links[1].st_ino and links[0].st_nlink == 2
    assert (m.path / "out" / "installed.bin").stat().st_mode & 0o777 == 0o600
    assert (m.path / "in" / "sub").stat().st_mode & 0o777 == 0o755


def test_times_kept_by_cp_come_back_to_the_nanosecond(file_machine):
    m = file_machine
    (m.path / "a").write_bytes(b"x")
    output_of("touch", "-d", "2001-02-03 04:05:06.789012345 UTC", m.path / "a")
    output_of("cp", "-a", m.path / "a", m.path / "b")

    m.renew()
    assert (m.path / "b").stat().st_mtime_ns == 981173106789012345


# ---- SQLite ----


def check_databases(m, at_least):
    return output_of(sys.executable, SQLITE, "check", m.path, "--at-least", at_least)


def committed(output):
    return output.read_text().count("committed")


def commit_until(output, number):
    until(lambda: committed(output) >= number, 120, f"{number} commits")


def test_databases_are_sound_after_a_save_in_peace(machine):
    m = machine
    output_of(sys.executable, SQLITE, "write", m.path)
    m.renew()
    check_databases(m, 10)
    output_of(sys.executable, SQLITE, "write", m.path)
    check_databases(m, 20)


@pytest.mark.parametrize("lost", ["writer", "daemon", "machine"])
def test_databases_are_sound_after_a_kill_in_mid_commit(file_machine, tmp_path, rng, lost):
    m = file_machine
    output = tmp_path / "output"
    with open(output, "w") as out:
        command = [sys.executable, str(SQLITE), "write", str(m.path), "--commits", "1000000"]
        writer = Group(command, stdout=out, stderr=out)
    with writer:
        commit_until(output, 3)
        kept = committed(output)
        if lost == "machine":
            m.sync()  # there is no quiet moment: it takes the 10 s that sync waits for one
        time.sleep(rng.uniform(0, 1))  # any moment is as good as another
        assert writer.running(), output.read_text()[-2000:]
        if lost == "writer":
            writer.kill()
        else:
            m.kill()
            writer.kill()
    if lost == "machine":
        m.wipe()
        m.mount(takeover=True)
    else:
        kept = committed(output)
        if lost == "daemon":
            m.mount()
    check_databases(m, kept)
    m.renew()
    check_databases(m, kept)
