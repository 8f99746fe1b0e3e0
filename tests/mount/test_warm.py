# SPDX-License-Identifier: Apache-2.0
"""What a new machine fetches before anybody asks: the newest files, and never in anybody's way."""

import threading

import pytest

from lib.content import MIB, noise, write_new
from lib.proxy import Refused


def save(m, step, sizes):
    """checkpoint-STEP with a file of each size; returns {path: data}."""
    folder = f"run/checkpoint-{step}"
    (m.path / folder).mkdir(parents=True)
    files = {}
    for i, size in enumerate(sizes):
        name = f"{folder}/part{i}"
        files[name] = noise(size, f"{step}{i}")
        write_new(m.path / name, files[name])
    m.sync()
    return files


def through(m):
    """Until nothing more will be fetched ahead."""
    return m.until(lambda s: s["warm"] in ("done", "stopped"), "all that is wanted is here")


def assert_reads(m, files):
    for name, data in files.items():
        assert (m.path / name).read_bytes() == data, name


@pytest.fixture
def remote(machines, s3_store, proxy):
    return machines(s3_store.through(proxy.endpoint)).mount()


def test_the_newest_checkpoint_reads_whole_when_the_network_is_gone(remote, proxy):
    m = remote
    save(m, 1, [3 * MIB, 100])
    newest = save(m, 2, [20 * MIB, 5 * MIB, 300_000, 2000, 1])
    m.replace()
    status = through(m)
    assert status["warm"] == "done", status
    proxy.spoil = lambda request: Refused()
    assert_reads(m, newest)


def test_half_of_the_cache_is_filled_and_with_the_newest(remote, proxy):
    m = remote
    save(m, 1, [20 * MIB])
    newest = save(m, 2, [10 * MIB, 10 * MIB])
    m.replace(cache_size="64M")
    status = through(m)
    assert status["warm_bytes"] == 20 * MIB, status
    assert status["warm_files"] == 2, status
    proxy.spoil = lambda request: Refused()
    assert_reads(m, newest)


def test_a_file_rewritten_in_an_old_place_is_new(remote, proxy):
    m = remote
    write_new(m.path / "old-place", noise(4 * MIB, "before"))
    for step in range(3):
        save(m, step, [4 * MIB])
    data = noise(10 * MIB, "after")
    write_new(m.path / "old-place", data)
    m.sync()
    m.replace(cache_size="20M")
    through(m)
    proxy.spoil = lambda request: Refused()
    assert_reads(m, {"old-place": data})


@pytest.mark.parametrize("options", [{"warm": "none"}, {"ro": True}])
def test_nothing_comes_where_it_is_not_wanted(remote, options):
    m = remote
    save(m, 1, [3 * MIB])
    m.umount()
    m.wipe()
    m.mount(**options)
    assert m.status()["warm"] == "off"
    assert m.status()["fetched_bytes"] == 0


def held_up(m, proxy):
    """The newest checkpoint is on its way and does not arrive."""
    big = noise(70 * MIB, "big")
    write_new(m.path / "big", big)
    save(m, 1, [8 * MIB] * 6)
    m.umount()
    m.wipe()
    proxy.rate_bps = 2e6
    m.mount(cache_size="128M")
    m.until(lambda s: s["warm"] == "fetching", "files come ahead")
    return big


def test_a_reader_of_other_files_ends_it(remote, proxy):
    m = remote
    big = held_up(m, proxy)
    reader = threading.Thread(target=(m.path / "big").read_bytes)
    reader.start()
    status = m.until(lambda s: s["warm"] == "stopped", "the reader is seen")
    assert "reader" in status["warm_why"], status
    proxy.rate_bps = None
    reader.join()
    assert_reads(m, {"big": big})


def test_a_save_ends_it(remote, proxy):
    m = remote
    held_up(m, proxy)
    write_new(m.path / "new", noise(20 * MIB, "new"))
    status = m.until(lambda s: s["warm"] == "stopped", "the save is seen")
    assert "saves" in status["warm_why"], status
    proxy.rate_bps = None
    m.sync()


def test_a_mount_ends_though_the_newest_files_do_not_come(remote, proxy):
    m = remote
    held_up(m, proxy)
    m.umount()
