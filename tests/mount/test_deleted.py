# SPDX-License-Identifier: Apache-2.0
"""Somebody deletes the cache under a live mount: everybody is told, and what can be saved is."""

import contextlib
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


# ---- single contents ----


def content_of(m, size):
    """The file in the cache that holds the only content of that size."""
    (found,) = [p for p in (m.cache / "contents").rglob("*") if p.is_file() and p.stat().st_size == size]
    return found


def cut(path):
    os.truncate(path, path.stat().st_size // 3)


def grow(path):
    with open(path, "ab") as f:
        f.write(b"garbage")


def drop_pages(path):
    """What the kernel keeps of it would hide what the cache has lost."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


SIZE = 3 * MIB + 123


@pytest.mark.parametrize("damage", [os.unlink, cut])
@pytest.mark.parametrize("opened", [True, False])
def test_a_content_that_the_store_has_is_fetched_again(machines, file_store, damage, opened):
    m = machines(file_store).mount()
    write_new(m.path / "other", noise(MIB))
    write_new(m.path / "a", noise(SIZE))
    m.sync()
    drop_pages(m.path / "a")
    with open(m.path / "a", "rb", buffering=0) if opened else contextlib.nullcontext() as f:
        damage(content_of(m, SIZE))
        if opened:
            assert f.read() == noise(SIZE)
    assert (m.path / "a").read_bytes() == noise(SIZE)
    assert m.log_text().count("content of a is gone, cut or unreadable; the store has it") == 1
    with open(m.path / "a", "r+b") as f:
        f.write(b"changed")
    m.renew()
    assert (m.path / "a").read_bytes() == b"changed" + noise(SIZE)[7:]


@pytest.mark.parametrize("damage", [os.unlink, cut, grow])
def test_a_content_damaged_between_two_mounts_is_fetched_again(machines, file_store, damage):
    m = machines(file_store).mount()
    write_new(m.path / "a", noise(SIZE))
    m.sync()
    m.kill()
    damage(content_of(m, SIZE))
    m.mount()
    assert (m.path / "a").read_bytes() == noise(SIZE)
    write_new(m.path / "b", b"goes on")
    m.sync()


@pytest.mark.parametrize("damage", [os.unlink, cut])
def test_of_a_file_that_is_not_sent_a_lost_content_is_an_error_that_names_it(
    remote, proxy, damage
):
    m = remote
    write_new(m.path / "other", noise(MIB))
    m.sync()
    proxy.hole = True
    write_new(m.path / "lost", noise(SIZE))
    drop_pages(m.path / "lost")
    damage(content_of(m, SIZE))
    with pytest.raises(OSError) as e:
        (m.path / "lost").read_bytes()
    assert e.value.errno == errno.EIO
    assert m.log_text().count("unsent content of lost is gone, cut or unreadable") == 1
    proxy.hole = False
    done = m.command("sync", "--timeout", "60", m.path)
    assert done.returncode == 1 and "the content of lost is gone" in done.stderr, done
    assert (m.path / "other").read_bytes() == noise(MIB)
    assert refuses_to_write(m.path / "more")  # it could be in no commit
    assert "the content of lost is gone" in m.status()["why_read_only"]

    m.kill()
    m.mount()
    assert (m.path / "other").read_bytes() == noise(MIB)
    write_new(m.path / "more", noise(MIB, "more"))
    m.sync()
