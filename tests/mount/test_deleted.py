# SPDX-License-Identifier: Apache-2.0
"""Somebody deletes the cache under a live mount: everybody is told, and what can be saved is."""

import errno
import os
import shutil
import subprocess

import pytest

from lib.content import MIB, noise, write_new
from lib.procs import wait_gone


@pytest.fixture
def remote(machines, s3_store, proxy):
    """A machine that reaches its store through the proxy."""
    return machines(s3_store.through(proxy.endpoint)).mount()


def refuses_to_write(path):
    with pytest.raises(OSError) as e:
        write_new(path, b"x")
    return e.value.errno == errno.EIO


def test_writers_get_eio_and_everybody_the_reason(machines, file_store):
    m = machines(file_store).mount()
    write_new(m.path / "a", noise(MIB))
    m.sync()
    with open(m.path / "a", "rb") as f:
        shutil.rmtree(m.cache)
        assert refuses_to_write(m.path / "b")
        status = m.until(lambda s: s["why_read_only"], "status says why")
        assert status["error"] == status["why_read_only"] == f"cache {m.cache} was deleted"
        for change in (
            lambda: os.rename(m.path / "a", m.path / "b"),
            lambda: os.unlink(m.path / "a"),
            lambda: os.truncate(m.path / "a", 1),
        ):
            with pytest.raises(OSError) as e:
                change()
            assert e.value.errno == errno.EIO
        assert f.read() == noise(MIB)
    assert os.listdir(m.path) == ["a"]
    assert f"error    cache {m.cache} was deleted" in m.command("status", m.path).stdout
    assert m.log_text().count("was deleted") == 1
    m.umount()


def test_it_is_noticed_without_a_writer(machines, file_store):
    m = machines(file_store).mount()
    shutil.rmtree(m.cache)
    m.until(lambda s: s["error"], "status says so")
    assert f"cache {m.cache} was deleted" in m.log_text()


def test_what_is_open_is_sent(remote, proxy):
    m = remote
    proxy.hole = True
    with open(m.path / "a", "wb", buffering=0) as f:
        f.write(noise(MIB))
        shutil.rmtree(m.cache)
        m.until(lambda s: s["error"], "it is noticed")
    proxy.hole = False
    m.sync()
    m.replace()
    assert (m.path / "a").read_bytes() == noise(MIB)


@pytest.fixture
def with_a_loss(machines, file_store):
    """Nothing is sent before the cache is deleted: the moment is not quiet for long enough."""
    m = machines(file_store, quiet=5).mount()
    write_new(m.path / "lost", noise(20_000))
    shutil.rmtree(m.cache)
    m.until(lambda s: s["error"], "it is noticed")
    return m


def test_what_is_gone_is_named_and_the_mount_can_be_ended(with_a_loss):
    m = with_a_loss
    done = m.command("sync", "--timeout", "60", m.path)
    assert done.returncode == 1, done
    assert f"cache {m.cache}: the content of lost is gone" in done.stderr, done.stderr
    assert "lost is gone" in m.status()["error"]
    said = m.umount(expect=1)
    assert "still mounted" in said and "lost is gone" in said and "--discard" in said
    said = m.umount("--discard", expect=3)
    assert "is discarded" in said


def test_a_daemon_that_is_unmounted_does_not_wait_for_what_is_gone(with_a_loss):
    m = with_a_loss
    subprocess.run(["fusermount3", "-u", m.path], check=True)
    wait_gone(m.pid)
    m.pid = None
    assert "what was not sent is lost" in m.log_text()
