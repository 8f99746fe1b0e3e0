# SPDX-License-Identifier: Apache-2.0
"""-o on_kill=revert: what a killed writer left is taken back, as another machine would not get it."""

import mmap
import os

import pytest

from lib.content import MIB, noise, replace, write_new
from lib.procs import until
from mount.test_holes import MAPPED, run_half

OLD = noise(MIB, "old")

TRUNCATE = "half()\ndie()\n"
OVERWRITE = """
fd = os.open(path, os.O_WRONLY)
os.pwrite(fd, b"x" * 1000, 500_000)
os.pwrite(fd, b"x" * 1000, 1_500_000)
die()
"""


@pytest.fixture
def saved(machines, file_store):
    m = machines(file_store, on_kill="revert").mount()
    write_new(m.path / "last.pt", OLD)
    m.sync()
    return m


@pytest.fixture
def unsent(machines, file_store):
    """As `saved`, and the newest version of it is in no commit yet."""
    m = machines(file_store, on_kill="revert", commit="600").mount()
    write_new(m.path / "last.pt", noise(MIB, "older"))
    m.sync()
    write_new(m.path / "last.pt", OLD)
    return m


def until_is(path, data):
    until(lambda: path.exists() and path.read_bytes() == data, 60, f"{path.name} is as it was")
    assert path.stat().st_size == len(data)


HOW = {
    "truncated": TRUNCATE,
    "overwritten": OVERWRITE,
    "failed": "half()\nsys.exit(3)\n",
    "mapped": MAPPED.format(close=""),
    "held by a child": "fd = half()\nif os.fork() == 0:\n    os._exit(0)\nos.wait()\ndie()\n",
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("state", ["saved", "unsent"])
def test_a_file_goes_back_to_what_was_sealed(request, state, how):
    m = request.getfixturevalue(state)
    path, before = m.path / "last.pt", os.stat(m.path / "last.pt")
    run_half(m, HOW[how])
    until_is(path, OLD)
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    m.kill()
    m.mount()
    assert path.read_bytes() == OLD
    m.sync()
    m.replace()
    assert path.read_bytes() == OLD


def test_nothing_is_held_back_by_it(saved):
    run_half(saved, TRUNCATE)
    until_is(saved.path / "last.pt", OLD)
    assert os.getxattr(saved.path / "last.pt", "user.holdfast.state") != b"open"
    write_new(saved.path / "next", b"x")
    saved.until(lambda s: not s["held_by"] and s["good_age_seconds"] == 0, "all of it is good")


def test_it_is_read_where_the_store_cannot_be_asked_if_it_was_not_sent_yet(unsent):
    """One pointer: the content that was sealed is the live one again."""
    gets = unsent.status()["requests"]["get"]
    run_half(unsent, TRUNCATE)
    until_is(unsent.path / "last.pt", OLD)
    assert unsent.status()["requests"]["get"] == gets


NEW = """
path = path.replace("last", "new")
os.close(os.open(path, os.O_CREAT))
half()
die()
"""
TWO_NAMES = """
path = path.replace("last", "newer")
os.write(os.open(path, os.O_CREAT | os.O_WRONLY), b"x")
os.link(path, path + "2")
die()
"""


def test_a_file_that_was_never_whole_is_gone(saved):
    path = saved.path / "last.pt"
    run_half(saved, NEW)
    run_half(saved, TWO_NAMES)
    until(lambda: os.listdir(saved.path) == ["last.pt"], 60, "they are gone")
    with pytest.raises(FileNotFoundError):
        (saved.path / "newer.pt").stat()
    saved.kill()
    saved.mount()
    assert os.listdir(saved.path) == ["last.pt"]
    assert path.read_bytes() == OLD


def test_a_rename_before_the_end_is_taken_back(saved):
    """As safetensors saves."""
    script = """
fd = os.open(path + ".tmp", os.O_CREAT | os.O_WRONLY)
os.write(fd, b"x" * 600_000)
os.rename(path + ".tmp", path)
die()
"""
    inode = os.stat(saved.path / "last.pt").st_ino
    run_half(saved, script)
    until_is(saved.path / "last.pt", OLD)
    assert os.stat(saved.path / "last.pt").st_ino == inode
    assert os.listdir(saved.path) == ["last.pt"]
    saved.kill()
    saved.mount()
    assert (saved.path / "last.pt").read_bytes() == OLD
    replace(saved.path / "last.pt", b"new")
    saved.sync()
    saved.replace()
    assert (saved.path / "last.pt").read_bytes() == b"new"


def test_all_its_names_go_back(saved):
    os.link(saved.path / "last.pt", saved.path / "same.pt")
    run_half(saved, TRUNCATE)
    until_is(saved.path / "last.pt", OLD)
    assert (saved.path / "same.pt").read_bytes() == OLD


def test_who_has_it_open_or_mapped_reads_what_it_goes_back_to(saved):
    with open(saved.path / "last.pt", "rb", buffering=0) as f:
        assert f.read(100) == OLD[:100]
        with mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as pages:
            assert pages[:100] == OLD[:100]
            run_half(saved, OVERWRITE)
            until_is(saved.path / "last.pt", OLD)
            assert pages[:] == OLD
            assert os.pread(f.fileno(), 2 * MIB, 0) == OLD


def test_a_save_under_way_when_the_daemon_is_killed_is_taken_back(saved):
    fd = os.open(saved.path / "last.pt", os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"x" * 1000)
    saved.kill()
    with pytest.raises(OSError, match="not connected"):
        os.write(fd, b"x")
    with pytest.raises(OSError, match="not connected"):
        os.close(fd)
    saved.mount()
    until_is(saved.path / "last.pt", OLD)


def test_who_goes_on_with_it_finishes_it(saved):
    script = """
fd = half()
pid = os.fork()
if pid == 0:
    os.write(fd, b"x")
    die()
os.waitpid(pid, 0)
time.sleep(0.5)
os.write(fd, b"y")
os.close(fd)
sys.exit(7)
"""
    assert run_half(saved, script) == 7
    saved.sync()
    assert (saved.path / "last.pt").read_bytes() == b"x" * 600_001 + b"y"


def test_a_log_stays(saved):
    script = """
os.write(os.open(path.replace("last.pt", "out.log"), os.O_CREAT | os.O_WRONLY), b"line")
die()
"""
    run_half(saved, script)
    run_half(saved, TRUNCATE)
    until_is(saved.path / "last.pt", OLD)
    assert (saved.path / "out.log").read_bytes() == b"line"


def test_another_word_is_refused(machines, file_store):
    done = machines(file_store).command("mount", file_store.uri, "/", "-o", "on_kill=maybe")
    assert done.returncode == 2
    assert "on_kill=maybe" in done.stderr
