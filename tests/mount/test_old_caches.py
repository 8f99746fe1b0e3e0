# SPDX-License-Identifier: Apache-2.0
"""A cache that was there before: another boot's, another store's, one in use, one whose journal is damaged."""

import os
import subprocess
import uuid

import pytest

from lib import stores
from lib.content import MIB, noise, write_new, write_synced
from lib.machine import MountFailed, option_list
from lib.procs import HANGS_S
from lib.proxy import denied


def no_puts(request):
    return denied() if request.method == "PUT" else None


def salvaged(m):
    """What is in salvage/, by name."""
    place = m.cache / "salvage"
    return {p.name: p.read_bytes() for p in place.iterdir()} if place.is_dir() else {}


def named(files, name):
    """The content that was kept under that name; it is the only one."""
    (found,) = [data for key, data in files.items() if key.endswith(f"-{name}")]
    return found


def refusal(machine, **options):
    with pytest.raises(MountFailed) as e:
        machine.mount(**options)
    return str(e.value)


def state_of(directory):
    return {
        str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()
    }


# ---- the job has gone on elsewhere ----


def test_an_old_cache_gives_its_unsent_files_by_name_and_nothing_of_it_is_shown(
    machines, s3_store, proxy
):
    a = machines(s3_store.through(proxy.endpoint), warm="none").mount()
    b = machines(s3_store)
    write_new(a.path / "sent", noise(MIB, "sent"))
    write_new(a.path / "both", noise(3 * MIB, "both"))
    a.renew()
    proxy.spoil = no_puts
    write_synced(a.path / "unsent.pt", noise(MIB, "unsent"))
    with open(a.path / "both", "r+b", buffering=0) as f:  # the rest is in the store alone
        f.write(b"new")
        os.fsync(f.fileno())
    half = open(a.path / "half", "wb", buffering=0)
    half.write(b"half")
    a.kill()
    with pytest.raises(OSError):
        half.close()
    b.mount(takeover=True)
    write_new(b.path / "later", noise(MIB, "later"))
    b.umount()
    proxy.spoil = None

    a.mount()
    assert sorted(os.listdir(a.path)) == ["both", "later", "sent"]
    assert (a.path / "both").read_bytes() == noise(3 * MIB, "both")
    assert (a.path / "sent").read_bytes() == noise(MIB, "sent")
    files = salvaged(a)
    assert named(files, "unsent.pt") == noise(MIB, "unsent")
    assert len(files) == 2, "a half file was kept"
    (partial,) = [data for name, data in files.items() if ".partial" in name]
    assert partial.startswith(b"new") and len(partial) == 3 * MIB
    log = a.log_text()
    assert "what may be unsent of unsent.pt is kept as salvage/" in log
    assert f"2 files of a writer that was replaced, or whose journal was lost, are in {a.cache}/salvage" in log
    write_new(a.path / "goes on", b"on")
    a.sync()


# ---- the host was rebooted ----


@pytest.fixture
def reboot(space):
    """reboot(): another boot id, for what is mounted in the namespace from now on."""
    fake = space.root / "boot_id"

    def another():
        fake.write_text(f"{uuid.uuid4()}\n")
        space.run("mount", "--bind", fake, "/proc/sys/kernel/random/boot_id")

    return another


def test_after_a_reboot_the_cache_is_a_dead_writers(space, s3_store, proxy, reboot):
    m = space.machine(s3_store.through(proxy.endpoint))
    try:
        m.mount()
        inside = f"/proc/{m.pid}/root{m.path}"
        write_new(f"{inside}/sent", b"sent")
        m.sync()
        proxy.spoil = no_puts
        write_synced(f"{inside}/unsent", noise(MIB))
        m.kill()
        space.run("umount", "-i", "-l", m.path, expect=None)
        proxy.spoil = None
        reboot()

        said = refusal(m)
        assert "not released; -o ro to look, -o takeover to replace it" in said
        assert not salvaged(m), "a mount that was refused has changed something"
        m.mount(takeover=True)
        inside = f"/proc/{m.pid}/root{m.path}"
        assert os.listdir(inside) == ["sent"]
        assert named(salvaged(m), "unsent") == noise(MIB)
        assert "what may be unsent of unsent is kept as salvage/" in m.log_text()
        assert "continues commit" in m.status()["story"]
        m.umount()
    finally:
        m.close()


# ---- another's ----


def test_another_stores_cache_is_refused_and_left_as_it_was(machines, file_store, program, tmp_path):
    a = machines(file_store).mount()
    write_new(a.path / "a", noise(MIB))
    a.kill()
    before = state_of(a.cache)
    b = machines(stores.make(stores.FileStore(tmp_path / "other"), program))
    b.cache = a.cache
    said = refusal(b)
    assert f"cache {a.cache} belongs to another store" in said and "-o cache=DIR names another" in said
    assert state_of(a.cache) == before
    a.mount()
    assert (a.path / "a").read_bytes() == noise(MIB)


def test_of_two_mounts_that_start_at_once_on_one_cache_one_is_refused(machines, file_store):
    a, b = machines(file_store), machines(file_store)
    b.cache = a.cache
    for i in range(3):
        starting = [
            subprocess.Popen(
                [
                    m.program,
                    "mount",
                    m.store.uri,
                    str(m.path),
                    "-o",
                    option_list({"cache": m.cache, "takeover": True} | m.options),
                ],
                env=m.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=open(m.log, "ab"),
            )
            for m in (a, b)
        ]
        codes = [p.wait(HANGS_S) for p in starting]
        assert sorted(codes) == [0, 1]
        winner, loser = (a, b) if codes[0] == 0 else (b, a)
        winner.pid = winner.status()["pid"]
        assert f"cache {a.cache} is in use by another mount" in loser.log_text()
        write_new(winner.path / f"f{i}", noise(10_000, i))
        winner.umount()
    a.wipe()
    a.mount()
    for i in range(3):
        assert (a.path / f"f{i}").read_bytes() == noise(10_000, i)


# ---- the journal is damaged ----


def flip(journal):
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 0x20
    journal.write_bytes(data)


def zero_a_block(journal):
    data = bytearray(journal.read_bytes())
    data[len(data) // 4 : len(data) // 2] = bytes(len(data) // 2 - len(data) // 4)
    journal.write_bytes(data)


def cut_its_head(journal):
    journal.write_bytes(journal.read_bytes()[11:])


def garbage(journal):
    journal.write_bytes(noise(5000))


def empty(journal):
    journal.write_bytes(b"")


def gone(journal):
    journal.unlink()


def a_directory(journal):
    journal.unlink()
    journal.mkdir()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip, "the journal is damaged in 1 places; it is kept as {cache}/journal.damaged"),
        (zero_a_block, "the journal is damaged in"),
        (cut_its_head, "the journal is damaged in"),
        (garbage, "journal is not a journal of ours; it is kept as {cache}/journal.damaged"),
        (empty, "{cache}/salvage"),
        (gone, "{cache}/salvage"),
        (a_directory, "it is kept as {cache}/journal.damaged"),
    ],
)
def test_with_a_damaged_journal_each_file_is_in_the_tree_or_in_salvage(
    machines, s3_store, proxy, damage, message
):
    m = machines(s3_store.through(proxy.endpoint)).mount()
    write_new(m.path / "sent", noise(300_000, "sent"))
    m.sync()
    proxy.spoil = no_puts
    files = {f"f{i}": noise(20_000 + i, i) for i in range(8)}
    for name, data in files.items():
        write_synced(m.path / name, data)
    m.kill()
    proxy.spoil = None
    damage(m.cache / "journal")

    m.mount(takeover=True)
    assert message.format(cache=m.cache) in m.log_text()
    assert (m.path / "sent").read_bytes() == noise(300_000, "sent")
    kept = set(salvaged(m).values())
    for name, data in files.items():
        if (m.path / name).exists():
            assert (m.path / name).read_bytes() == data, name
        else:
            assert data in kept, name
    write_new(m.path / "goes on", b"on")
    m.sync()
    m.replace()
    assert (m.path / "goes on").read_bytes() == b"on"
