# SPDX-License-Identifier: Apache-2.0
"""pjdfstest, the suite of POSIX tests for file systems, on a mount."""

import grp
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile

import pytest

from lib.machine import Machine

VERSION = "0.2.2"
TOOLS = pathlib.Path(__file__).resolve().parents[2] / ".tools"

# What it cannot try here: a mount is not remounted, and no limit of links is known to libc.
SKIPPED = re.compile(r"::erofs_|^link::link_count_max$")

CONFIGURATION = """
[features]
posix_fallocate = {{}}
rename_ctime = {{}}
utime_now = {{}}
utimensat = {{}}
[settings]
naptime = 0.01
allow_remount = false
expected_failures = []
[dummy_auth]
entries = {users}
"""


@pytest.fixture(scope="session")
def pjdfstest():
    """The program: in PATH, or built by cargo, once."""
    ours = TOOLS / "bin" / "pjdfstest"
    found = shutil.which("pjdfstest") or (ours.exists() and str(ours))
    if found:
        return found
    cargo = shutil.which("cargo")
    if not cargo:
        pytest.skip("neither pjdfstest nor cargo, which would build it")
    done = subprocess.run(
        [cargo, "install", "--quiet", "--root", TOOLS, "pjdfstest", "--version", VERSION],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"cargo does not build pjdfstest: {done.stderr[-500:]}")
    return str(ours)


def two_users():
    """Two without privileges, with a group each."""
    found = [(u.pw_name, grp.getgrgid(u.pw_gid).gr_name) for u in pwd.getpwall() if u.pw_uid]
    return [list(pair) for pair in found[:2]]


@pytest.fixture
def open_to_all(program, file_store):
    """A mount that everybody may enter, with a path short enough for the names of sockets."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes other users")
    with tempfile.TemporaryDirectory(prefix="pj-") as root:
        os.chmod(root, 0o755)
        m = Machine(program, file_store, root, allow_other=True, suid=True, dev=True)
        try:
            yield m.mount()
        finally:
            m.close()


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_pjdfstest_finds_nothing(pjdfstest, open_to_all, tmp_path):
    configuration = tmp_path / "pjdfstest.toml"
    configuration.write_text(CONFIGURATION.format(users=two_users()))
    done = subprocess.run(
        [pjdfstest, "-c", configuration, "-p", open_to_all.path, "-s", "/dev/shm"],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    results = dict(re.findall(r"^(\S+::\S+)\s+(ok|FAILED|skipped)$", done.stdout, re.MULTILINE))
    bad = [name for name, result in results.items() if result == "FAILED"]
    skipped = [n for n, result in results.items() if result == "skipped" and not SKIPPED.search(n)]
    assert done.returncode == 0 and not bad, f"{bad}\n{done.stdout[-6000:]}"
    assert not skipped, "more was skipped than is known to be"
    assert len(results) > 350
