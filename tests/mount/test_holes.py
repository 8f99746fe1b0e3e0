# SPDX-License-Identifier: Apache-2.0
"""Who closes half a file, and how: threads, children, strangers, mappings, other namespaces and users.

Each writer overwrites half of last.pt and dies; what another machine gets is the version before.
The content is of no known format: here it is the death that has to be seen.
"""

import os
import subprocess
import sys

import pytest

from lib.content import MIB, noise, write_new
from lib.machine import option_list
from lib.procs import Group, until

OLD = noise(MIB, "old")

# The writer's: half of it is there, and whoever asked is told.
BEGIN = """
import array, ctypes, mmap, os, signal, socket, sys, threading, time
path = sys.argv[1]
libc = ctypes.CDLL(None)
EXIT, GETTID = (60, 186) if os.uname().machine == "x86_64" else (93, 178)
def half():
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"x" * 600_000)
    return fd
def ready():
    print("half", flush=True)
def die(number=signal.SIGKILL):
    os.kill(os.getpid(), number)
    time.sleep(600)
def thread(run):
    threading.Thread(target=run).start()
"""


@pytest.fixture
def saved(file_machine):
    """A machine with last.pt in its good moment."""
    write_new(file_machine.path / "last.pt", OLD)
    file_machine.sync()
    return file_machine


def run_half(machine, script, *wrapper, **popen):
    """Runs the writer until it is gone; its status."""
    command = [*wrapper, sys.executable, "-c", BEGIN + script, str(machine.path / "last.pt")]
    with Group(command, stderr=subprocess.PIPE, **popen) as writer:
        status = writer.wait(60)
        assert status != 0, writer.process.stderr.read().decode()
        return status


def assert_the_version_before_is_kept(machine):
    assert (machine.path / "last.pt").read_bytes() != OLD, "the writer wrote"
    good = machine.status()["good"]
    write_new(machine.path / "witness", b"x")
    machine.until(lambda s: s["good"] > good, "what others write is kept")
    machine.replace()
    assert (machine.path / "witness").exists()
    assert (machine.path / "last.pt").read_bytes() == OLD


# ---- threads ----

THREADS = {
    "the main thread has ended with 0, another is killed": """
def run():
    time.sleep(0.3)
    half()
    die()
thread(run)
libc.syscall(EXIT, 0)
""",
    "one thread aborts, one writes": """
fd = half()
def run():
    while True:
        os.write(fd, b"x" * 100_000)
        os.lseek(fd, 600_000, os.SEEK_SET)
thread(run)
time.sleep(0.1)
os.abort()
""",
    "one thread calls exit(1), one writes": """
fd = half()
def run():
    while True:
        os.write(fd, b"x" * 100_000)
        os.lseek(fd, 600_000, os.SEEK_SET)
thread(run)
time.sleep(0.1)
os._exit(1)
""",
    "one thread is killed, one closes": """
fd = half()
def run():
    die()
os.write(fd, b"x")
thread(run)
time.sleep(600)
os.close(fd)
""",
}


@pytest.mark.parametrize("how", THREADS)
def test_a_writer_with_threads(saved, how):
    run_half(saved, THREADS[how])
    assert_the_version_before_is_kept(saved)


# ---- children ----

CHILDREN = {
    "a child that inherited the file exits with 0, then its parent is killed": """
fd = half()
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
die()
""",
    "a child that inherited the file closes it, then its parent is killed": """
fd = half()
pid = os.fork()
if pid == 0:
    os.close(fd)
    os._exit(0)
os.waitpid(pid, 0)
die()
""",
    "a child that inherited the file is killed, then its parent": """
fd = half()
pid = os.fork()
if pid == 0:
    die()
os.waitpid(pid, 0)
die()
""",
    "the parent is killed, and its child exits with 0 later": """
fd = half()
if os.fork() == 0:
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.01)
    os._exit(0)
die()
""",
    "a child saves and is killed, its parent exits": """
pid = os.fork()
if pid == 0:
    half()
    die()
os.waitpid(pid, 0)
sys.exit(1)
""",
}


@pytest.mark.parametrize("how", CHILDREN)
def test_a_writer_with_a_child(saved, how):
    run_half(saved, CHILDREN[how])
    assert_the_version_before_is_kept(saved)


def test_a_parent_whose_child_was_killed_finishes_the_file(saved):
    script = """
fd = half()
pid = os.fork()
if pid == 0:
    die()
os.waitpid(pid, 0)
os.write(fd, b"y" * 600_000)
os.close(fd)
sys.exit(7)
"""
    assert run_half(saved, script) == 7
    saved.sync()
    saved.replace()
    assert (saved.path / "last.pt").read_bytes() == b"x" * 600_000 + b"y" * 600_000


# ---- strangers ----

# The writer sends the descriptor to another process, which has nothing of the writer's otherwise.
PASS = """
ours, theirs = socket.socketpair()
pid = os.fork()
if pid == 0:
    ours.close()
    fd = socket.recv_fds(theirs, 1, 1)[1][0]
    {stranger}
    os._exit(0)
theirs.close()
fd = half()
socket.send_fds(ours, [b"f"], [fd])
{writer}
"""


def test_a_stranger_who_closes_the_file_of_a_killed_writer(saved):
    script = PASS.format(stranger="theirs.recv(1); os.close(fd)", writer="die()")
    run_half(saved, script)
    assert_the_version_before_is_kept(saved)


def test_a_stranger_who_goes_on_where_the_writer_was_killed_finishes_the_file(saved):
    script = PASS.format(
        stranger='theirs.recv(1); os.write(fd, b"y" * 600_000); os.close(fd)', writer="die()"
    )
    run_half(saved, script)
    path = saved.path / "last.pt"
    until(lambda: path.stat().st_size == 1_200_000, 60, "the stranger writes")
    saved.sync()
    saved.replace()
    assert (saved.path / "last.pt").read_bytes() == b"x" * 600_000 + b"y" * 600_000


# ---- mappings ----

MAPPED = """
fd = os.open(path, os.O_RDWR)
m = mmap.mmap(fd, 1 << 20)
{close}
m[:600_000] = b"x" * 600_000
die()
"""


def test_a_killed_writer_through_a_mapping(saved):
    run_half(saved, MAPPED.format(close=""))
    assert_the_version_before_is_kept(saved)


def test_a_killed_writer_through_a_mapping_whose_file_it_had_closed(saved):
    """As numpy's memmap.  After a minute it is taken as finished: nobody sees who was killed."""
    run_half(saved, MAPPED.format(close="os.close(fd)"))
    assert (saved.path / "last.pt").read_bytes() != OLD
    write_new(saved.path / "witness", b"x")
    saved.sync()  # overrules what is unsealed after 10 s
    saved.replace()
    assert (saved.path / "witness").exists()
    assert (saved.path / "last.pt").read_bytes() == OLD


# ---- namespaces and users ----


def may_unshare():
    return subprocess.run(["unshare", "-pf", "true"], stderr=subprocess.DEVNULL).returncode == 0


def test_a_killed_writer_in_a_pid_namespace_below_ours(saved):
    if not may_unshare():
        pytest.skip("no new PID namespace without privileges")
    nested = """
if os.fork() == 0:
    half()
    die()
os.wait()
sys.exit(9)
"""
    assert run_half(saved, nested, "unshare", "-pf") == 9
    assert_the_version_before_is_kept(saved)


def test_half_a_zip_by_a_killed_writer_whose_process_the_mount_cannot_see(machines, file_store):
    """The daemon sits in a PID namespace below: all that it hears of the writer is pid 0.

    Of a format that it does not know the half would be sealed, 10 s after the last write.
    """
    if not may_unshare():
        pytest.skip("no new PID namespace without privileges")
    m = machines(file_store)
    words = option_list({"cache": m.cache} | m.options)
    command = ["unshare", "-pf", "--kill-child", m.program, "mount", "-f", m.store.uri, m.path]
    with open(m.log, "ab") as log, Group(
        [*command, "-o", words], env=m.environment(), stderr=log
    ) as daemon:
        until(lambda: os.path.ismount(m.path), 60, "it is mounted")
        write_new(m.path / "last.pt", OLD)
        m.sync()
        run_half(m, 'os.pwrite(half(), b"PK\\3\\4", 0)\ndie()\n')
        m.until(lambda s: s["torn"], "it is seen as torn")
        write_new(m.path / "witness", b"x")
        m.sync()
        daemon.kill()
    m.detach()
    m.wipe()
    m.mount(takeover=True)
    assert (m.path / "witness").exists()
    assert (m.path / "last.pt").read_bytes() == OLD


def as_nobody(machine):
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    os.chmod(machine.path / "last.pt", 0o666)
    return {"user": 65534, "group": 65534, "extra_groups": [], "cwd": machine.path}


@pytest.fixture
def shared(machines, file_store):
    """Which others may use, too."""
    m = machines(file_store, allow_other=True).mount()
    write_new(m.path / "last.pt", OLD)
    m.sync()
    return m


def test_a_killed_writer_of_another_user(shared):
    run_half(shared, "path = 'last.pt'\nhalf()\ndie()\n", **as_nobody(shared))
    assert_the_version_before_is_kept(shared)


def test_a_writer_of_another_user_that_fails(shared):
    run_half(shared, "path = 'last.pt'\nhalf()\nsys.exit(3)\n", **as_nobody(shared))
    assert_the_version_before_is_kept(shared)


def test_a_writer_of_another_user_that_finishes(shared):
    script = "path = 'last.pt'\nos.write(half(), b'y')\nos._exit(0)\n"
    command = [sys.executable, "-c", BEGIN + script, "last.pt"]
    subprocess.run(command, check=True, timeout=60, **as_nobody(shared))
    shared.sync()
    shared.replace()
    assert (shared.path / "last.pt").read_bytes() == b"x" * 600_000 + b"y"
