# SPDX-License-Identifier: Apache-2.0
"""Stores that are not there, damaged or unwilling: what is said, and that the rest works."""

import errno
import json
import os
import shutil
import subprocess

import pytest

from lib.content import MIB, noise, write_new
from lib.machine import MountFailed
from lib.proxy import Answer, denied


def refusal(machine, **options):
    with pytest.raises(MountFailed) as e:
        machine.mount(**options)
    print(e.value)
    return str(e.value)


# ---- where it is ----


@pytest.mark.parametrize(
    "uri", ["", "nonsense", "ftp://host/x", "s3://", "file://relative/path", "s3:///prefix"]
)
def test_what_is_no_store_uri_is_named(program, uri):
    done = subprocess.run(
        [program, "mkfs", uri], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode in (1, 2)
    assert uri in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("uri", ["file:///no/such/store", "nonsense"])
def test_a_uri_that_cannot_be_mounted_is_said_once(machines, file_store, uri):
    file_store.uri = uri
    said = refusal(machines(file_store))
    assert said.count("holdfast mount: ") == 1 and said.count("\n") == 1, said
    assert not said.startswith(f"holdfast mount: {uri}: "), said
    assert "`holdfast mkfs" in said or "a store is s3://" in said, said


@pytest.mark.parametrize(
    "option, wanted",
    [
        ("cache=relative", "an absolute path"),
        ("cache_size=12X", "a number with K, M, G or T"),
        ("quiet=soon", "a number of seconds"),
        ("fsync=never", "local|remote"),
    ],
)
def test_a_wrong_value_is_told_what_a_right_one_is(machines, file_store, option, wanted):
    m = machines(file_store)
    done = m.command("mount", file_store.uri, m.path, "-o", option)
    assert done.returncode == 2
    assert done.stderr.startswith(f"holdfast mount: option {option}: should be "), done.stderr
    assert done.stderr.endswith(f"{wanted}\n"), done.stderr


def test_why_nothing_can_be_mounted_is_said_in_one_line(machines, file_store):
    """mount(2) is not for this one, though it is root; the helper says what the kernel says."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    m = machines(file_store)
    command = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", m.program, "mount"]
    done = subprocess.run(
        [*command, file_store.uri, m.path, "-o", f"cache={m.cache}"],
        env=m.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"{m.path}: not mounted: " in done.stderr and "not permitted" in done.stderr, done.stderr


def test_a_bucket_that_is_not_there_is_named(machines, s3_store):
    s3_store.uri = "s3://no-such-bucket/run"
    said = refusal(machines(s3_store))
    assert "no-such-bucket" in said
    assert "NoSuchBucket" in said or "404" in said


def test_a_wrong_key_is_said_to_be_wrong(machines, s3_store):
    s3_store.env["AWS_SECRET_ACCESS_KEY"] = "wrong"
    said = refusal(machines(s3_store))
    assert "403" in said or "SignatureDoesNotMatch" in said
    assert "wrong" not in said.replace("wrong key", ""), "the secret is in the message"


@pytest.mark.long  # it is asked again for half a minute
def test_a_server_that_is_not_there_is_named(machines, s3_store):
    s3_store.env["AWS_ENDPOINT_URL_S3"] = "http://127.0.0.1:9"
    m = machines(s3_store)
    done = m.command("ls", s3_store.uri, timeout=120)
    assert done.returncode == 1
    assert "127.0.0.1" in done.stderr


# ---- what lies there ----


def test_a_store_of_a_later_format_is_refused(machines, file_store):
    path = file_store.path_of("store.json")
    text = json.loads(path.read_text())
    [version] = [key for key in text if "format" in key or "version" in key]
    text[version] = 99
    path.write_text(json.dumps(text))
    assert "99" in refusal(machines(file_store))


def test_a_second_mkfs_leaves_the_store_alone(program, file_store):
    before = file_store.path_of("store.json").read_bytes()
    done = subprocess.run(
        [program, "mkfs", file_store.uri], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert file_store.uri in done.stderr or str(file_store.root) in done.stderr
    assert file_store.path_of("store.json").read_bytes() == before


def flip(path, at):
    """One bit."""
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 1]))


def packs(store):
    return {key for key in store.objects() if key.startswith("packs/")}


def save_apart(m, name):
    """Saves 2 MiB, and returns the pack that they lie in."""
    before = packs(m.store)
    write_new(m.path / name, noise(2 * MIB, name))
    m.sync()
    [pack] = packs(m.store) - before
    return pack


@pytest.mark.parametrize("damage", ["one bit", "cut short", "removed"])
def test_a_damaged_chunk_costs_the_file_that_it_is_in_and_no_other(machines, file_store, damage):
    m = machines(file_store).mount()
    victim = file_store.path_of(save_apart(m, "victim"))
    save_apart(m, "other")
    m.umount()
    m.wipe()
    if damage == "one bit":
        flip(victim, victim.stat().st_size // 2)
    elif damage == "cut short":
        os.truncate(victim, victim.stat().st_size // 2)
    else:
        victim.unlink()

    m.mount()
    assert sorted(os.listdir(m.path)) == ["other", "victim"]
    with pytest.raises(OSError) as e:
        (m.path / "victim").read_bytes()
    assert e.value.errno == errno.EIO
    assert (m.path / "other").read_bytes() == noise(2 * MIB, "other")
    assert victim.name in m.log_text() or "victim" in m.log_text(), "the log does not name it"
    write_new(m.path / "victim", noise(MIB, "again"))
    m.renew()
    assert (m.path / "victim").read_bytes() == noise(MIB, "again")


def test_a_damaged_record_is_named_and_not_believed(machines, file_store):
    m = machines(file_store).mount()
    write_new(m.path / "a", noise(10_000))
    m.umount()
    m.wipe()
    newest = min(key for key in file_store.objects() if key.startswith("log/"))
    path = file_store.path_of(newest)
    flip(path, path.stat().st_size - 20)
    said = refusal(m, takeover=True)
    assert newest.split("/")[1].lstrip("0") in said or "record" in said


# ---- how it answers ----


def test_throttling_slows_and_loses_nothing(machines, s3_store, proxy, rng):
    m = machines(s3_store.through(proxy.endpoint)).mount()
    proxy.spoil = lambda request: denied("SlowDown", 503) if rng.random() < 0.6 else None
    data = {f"f{i}": noise(MIB, i) for i in range(4)}
    for name, content in data.items():
        write_new(m.path / name, content)
    m.sync(120)
    assert m.status()["requests"]["retries"] > 0
    proxy.spoil = None
    m.replace()
    assert {name: (m.path / name).read_bytes() for name in os.listdir(m.path)} == data


def test_an_error_in_an_answer_of_200_is_an_error(machines, s3_store, proxy):  # G01
    m = machines(s3_store.through(proxy.endpoint)).mount()
    write_new(m.path / "a", noise(MIB))
    m.umount()
    m.wipe()
    error = denied("InternalError", 200)
    spoilt = []

    def first_list(request):
        if "list-type" in request.query and not spoilt:
            spoilt.append(request.target)
            return Answer(200, b"\n" + error.body, error.headers)
        return None

    proxy.spoil = first_list
    m.mount(takeover=True)
    assert spoilt
    assert (m.path / "a").read_bytes() == noise(MIB)


def test_errors_of_the_server_are_tried_again(machines, s3_store, proxy):
    m = machines(s3_store.through(proxy.endpoint)).mount()
    seen = set()

    def each_once(request):
        question = (request.method, request.path)
        if question in seen:
            return None
        seen.add(question)
        return denied("InternalError", 500)

    proxy.spoil = each_once
    write_new(m.path / "a", noise(3 * MIB))
    m.sync(120)
    m.renew()
    assert (m.path / "a").read_bytes() == noise(3 * MIB)


# ---- where the cache is ----


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 24 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "none", path], capture_output=True, check=False
    )
    if made.returncode != 0:
        pytest.skip("may not mount a tmpfs")
    yield path
    subprocess.run(["umount", "-l", path], check=False)


def test_a_full_disk_is_said_to_the_writer_and_costs_nothing_that_was_closed(
    machines, file_store, small_disk
):  # E01
    m = machines(file_store)
    m.cache = small_disk / "cache"
    m.mount()
    closed = {}
    try:
        for i in range(20):
            write_new(m.path / f"f{i}", noise(4 * MIB, i))
            closed[f"f{i}"] = noise(4 * MIB, i)
    except OSError as e:
        assert e.errno == errno.ENOSPC
        os.unlink(m.path / f"f{i}")
    assert len(closed) >= 3
    m.sync(120)
    m.umount()
    m.cache = m.root / "elsewhere"
    m.mount()
    for name, content in closed.items():
        assert (m.path / name).read_bytes() == content
