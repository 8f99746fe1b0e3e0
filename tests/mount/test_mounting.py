# SPDX-License-Identifier: Apache-2.0
"""Mounts that must not be, and what they say; a mount that ends."""

import errno
import json
import os
import shutil
import time

import pytest

from lib import stores
from lib.content import MIB, noise, write_new
from lib.machine import MountFailed
from lib.proxy import Refused


def refusal(machine, **options):
    """What `mount` says when it says no."""
    with pytest.raises(MountFailed) as e:
        machine.mount(**options)
    print(e.value)
    return str(e.value)


# ---- one directory, one mount ----


def test_a_mount_over_a_live_one_is_refused(machines, file_store):
    a, b = machines(file_store).mount(), machines(file_store)
    write_new(a.path / "a", b"x")
    b.path = a.path
    said = refusal(b, ro=True)
    assert "a store is mounted there already" in said and str(a.path) in said
    (a.path / "below").mkdir()
    b.path = a.path / "below"
    b.mount(ro=True)
    b.umount()
    a.renew()
    assert (a.path / "a").read_bytes() == b"x"


# ---- one cache, one mount ----


def test_two_mounts_do_not_share_a_cache(machines, file_store):  # I02
    a, b = machines(file_store).mount(), machines(file_store)
    b.cache = a.cache
    assert str(a.cache) in refusal(b, takeover=True)
    write_new(a.path / "a", b"x")
    a.renew()
    assert (a.path / "a").read_bytes() == b"x"


def test_the_cache_of_another_store_is_refused(machines, file_store, program, tmp_path):  # I02
    a = machines(file_store).mount()
    write_new(a.path / "a", b"x")
    a.umount()
    b = machines(stores.make(stores.FileStore(tmp_path / "other"), program))
    b.cache = a.cache
    assert str(a.cache) in refusal(b)


@pytest.mark.parametrize("where", ["mnt", "mnt/cache", "."])
def test_a_cache_in_the_mount_point_or_around_it_is_refused(machines, file_store, where):  # I03
    m = machines(file_store)
    m.cache = m.path.parent / where
    said = refusal(m)
    assert str(m.cache.resolve()) in said or str(m.cache) in said
    assert not os.path.ismount(m.path)


def test_a_mount_over_its_own_store_is_refused(machines, file_store):  # I03
    m = machines(file_store)
    m.path = file_store.root
    assert str(file_store.root) in refusal(m)
    assert (file_store.root / "store.json").exists()


def test_a_store_that_is_not_there_is_named(machines, tmp_path):
    nowhere = stores.FileStore(tmp_path / "nowhere")
    assert str(nowhere.root) in refusal(machines(nowhere))


def test_an_unknown_option_is_named(machines, file_store):
    assert "chache_size" in refusal(machines(file_store), chache_size=1)


# ---- one writer ----


def test_a_second_machine_is_refused_until_it_takes_over(machines, store):  # K10
    a, b = machines(store).mount(), machines(store)
    write_new(a.path / "a", noise(MIB))
    a.sync()
    assert "takeover" in refusal(b)
    b.mount(takeover=True)
    assert (b.path / "a").read_bytes() == noise(MIB)


def test_a_writer_that_was_replaced_turns_read_only_and_changes_nothing(machines, store):  # K10
    a, b = machines(store).mount(), machines(store)
    write_new(a.path / "durable", noise(MIB))
    a.sync()
    b.mount(takeover=True)
    write_new(b.path / "of b", b"b")
    write_new(a.path / "of a", b"a")  # its cache still takes it: the fence is met at the commit

    status = a.until(lambda s: s["fenced"], "it says that it is fenced")
    assert status["mode"] == "fenced"
    assert status["why_read_only"]
    assert (a.path / "durable").read_bytes() == noise(MIB), "reading goes on"
    for change in (lambda: os.unlink(a.path / "durable"), lambda: write_new(a.path / "more", b"a")):
        with pytest.raises(OSError) as e:
            change()
        assert e.value.errno == errno.EROFS
    assert a.command("sync", a.path, "--timeout", 10).returncode != 0
    b.renew()
    assert (b.path / "durable").read_bytes() == noise(MIB)
    assert (b.path / "of b").read_bytes() == b"b"
    assert sorted(os.listdir(b.path)) == ["durable", "of b"]


def test_a_read_only_mount_needs_no_takeover_and_refuses_changes(machines, file_store):
    a, b = machines(file_store).mount(), machines(file_store, ro=True)
    write_new(a.path / "a", noise(MIB))
    a.sync()
    b.mount()
    assert (b.path / "a").read_bytes() == noise(MIB)
    with pytest.raises(OSError) as e:
        write_new(b.path / "b", b"x")
    assert e.value.errno == errno.EROFS
    assert not a.status()["fenced"]


# ---- out of memory ----


def test_a_daemon_of_root_is_killed_last_and_what_it_starts_is_not(machines, s3_store, tmp_path):
    keys = {
        "Version": 1,
        "AccessKeyId": s3_store.env.pop("AWS_ACCESS_KEY_ID"),
        "SecretAccessKey": s3_store.env.pop("AWS_SECRET_ACCESS_KEY"),
    }
    (tmp_path / "keys").write_text(json.dumps(keys))
    command = tmp_path / "command"
    command.write_text(
        "#!/bin/sh\nsleep 0.2\n"
        f"cat /proc/self/oom_score_adj >>{tmp_path}/score\ncat {tmp_path}/keys\n"
    )
    command.chmod(0o755)
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {command}\n")
    s3_store.env["AWS_CONFIG_FILE"] = str(tmp_path / "config")
    m = machines(s3_store).mount()
    ours = oom_score("self")
    # Without the right to it the mount works as well, and says nothing.
    assert oom_score(m.pid) == ("-900" if may_lower() else ours)
    assert set((tmp_path / "score").read_text().split()) == {"0" if may_lower() else ours}
    assert "oom" not in m.log_text()


def oom_score(pid):
    with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as score:
        return score.read().strip()


def may_lower():
    """Root with CAP_SYS_RESOURCE, number 24."""
    with open("/proc/self/status", encoding="ascii") as status:
        [line] = [line for line in status if line.startswith("CapEff:")]
    return os.geteuid() == 0 and bool(int(line.split()[1], 16) >> 24 & 1)


# ---- the end ----


def test_umount_returns_when_all_is_in_the_store(machine, tmp_path):  # M01
    m = machine
    write_new(tmp_path / "model.pt", noise(5 * MIB))
    shutil.copy(tmp_path / "model.pt", m.path / "model.pt")
    m.umount()
    listed = m.command("ls", m.store.uri)
    assert listed.returncode == 0, listed.stderr
    assert "model.pt" in listed.stdout
    m.wipe()
    m.mount()
    assert (m.path / "model.pt").read_bytes() == noise(5 * MIB)

    os.unlink(m.path / "model.pt")
    m.umount()
    assert "model.pt" not in m.command("ls", m.store.uri).stdout


def test_umount_says_that_the_mount_point_is_in_use_and_the_mount_goes_on(file_machine):
    m = file_machine
    with open(m.path / "a", "wb", buffering=0) as f:
        f.write(b"one")
        done = m.command("umount", m.path)
        assert done.returncode != 0
        assert str(m.path) in done.stderr
        f.write(b"two")
    m.renew()
    assert (m.path / "a").read_bytes() == b"onetwo"


def test_umount_of_a_dead_store_ends_by_its_deadline_and_the_cache_goes_on(
    machines, s3_store, proxy
):  # M02
    m = machines(s3_store.through(proxy.endpoint)).mount()
    proxy.spoil = lambda request: Refused()
    write_new(m.path / "a", noise(MIB))
    start = time.monotonic()
    done = m.command("umount", m.path, "--timeout", 3)
    assert done.returncode not in (0, 2), done.stderr
    assert time.monotonic() - start < 120
    m.kill()
    proxy.spoil = None

    m.mount()
    m.renew()
    assert (m.path / "a").read_bytes() == noise(MIB)
