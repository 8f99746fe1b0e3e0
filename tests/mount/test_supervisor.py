# SPDX-License-Identifier: Apache-2.0
"""In the foreground under systemd: what the supervisor hears, and when."""

import os
import select
import signal
import socket
import subprocess

import pytest

from lib.content import MIB, noise, write_new
from lib.machine import option_list
from lib.procs import Group, until


@pytest.fixture(params=["path", "abstract"])
def supervisor(request, tmp_path):
    """The socket of a service, and its name in NOTIFY_SOCKET."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@holdfast-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind("\0" + name[1:] if name[0] == "@" else name)
        s.settimeout(120)
        yield s, name


def service(m, name):
    words = option_list({"cache": m.cache} | m.options)
    return Group(
        [m.program, "mount", "-f", "-o", words, m.store.uri, str(m.path)],
        env=m.environment() | {"NOTIFY_SOCKET": name},
        stderr=subprocess.PIPE,
    )


def hears(s):
    lines = s.recv(4096).decode().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_it_hears_of_a_mount_when_that_serves_and_of_its_end(machines, file_store, supervisor):
    s, name = supervisor
    m = machines(file_store)
    with service(m, name) as daemon:
        first = hears(s)
        assert first["READY"] == "1"
        assert file_store.uri in first["STATUS"]
        assert os.path.ismount(m.path)
        write_new(m.path / "a", noise(MIB))
        done = m.command("umount", m.path)
        assert done.returncode == 0, done.stderr
        assert hears(s)["STOPPING"] == "1"
        assert daemon.wait(60) == 0
    m.mount()
    assert (m.path / "a").read_bytes() == noise(MIB)


def test_it_hears_of_the_end_before_the_flush_that_sigterm_asks_for(
    machines, file_store, supervisor
):
    s, name = supervisor
    m = machines(file_store)
    with service(m, name) as daemon:
        assert hears(s)["READY"] == "1"
        write_new(m.path / "a", noise(MIB))
        daemon.process.send_signal(signal.SIGTERM)
        said = hears(s)
        assert said["STOPPING"] == "1"
        assert "signal 15" in said["STATUS"]
        assert daemon.wait(120) == 0
    m.mount()
    assert (m.path / "a").read_bytes() == noise(MIB)


def test_it_hears_nothing_of_a_mount_that_fails(machines, file_store, supervisor):
    s, name = supervisor
    file_store.uri += "-nowhere"
    with service(machines(file_store), name) as daemon:
        assert daemon.wait(120) == 1
    assert not select.select([s], [], [], 0)[0]


def test_a_daemon_in_the_background_leaves_the_socket_of_its_caller_alone(
    machines, file_store, supervisor, monkeypatch
):
    s, name = supervisor
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    m = machines(file_store).mount()
    m.umount()
    assert not select.select([s], [], [], 0)[0]


@pytest.mark.parametrize("name", ["/no/such/socket", "nonsense", "@", "/" + "x" * 200])
def test_a_socket_where_nobody_listens_is_no_harm(machines, file_store, name):
    m = machines(file_store)
    with service(m, name) as daemon:
        until(lambda: os.path.ismount(m.path), 60, "it is mounted")
        assert m.command("umount", m.path).returncode == 0
        assert daemon.wait(60) == 0
