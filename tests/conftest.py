# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the program, stores, machines, and a seed that a failing test shows."""

import os
import pathlib
import random
import shutil
import subprocess
import sys
import uuid

import pytest

from lib import stores
from lib.machine import Machine
from lib.procs import HANGS_S
from lib.proxy import Proxy
from lib.space import Space

# No mount of a test asks the cloud that the tests run in: what is to be heard is said by the test.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["GCE_METADATA_HOST"] = os.environ["HOLDFAST_AZURE_METADATA_HOST"] = "127.0.0.1:9"

TOP = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def program():
    """The program under test: HOLDFAST, or what lies at the top of the tree."""
    path = pathlib.Path(os.environ.get("HOLDFAST") or TOP / "holdfast")
    if not path.exists():
        pytest.fail(f"{path}: not there; ./bootstrap build makes it", pytrace=False)
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no /dev/fuse that may be opened")
    return path


@pytest.fixture(scope="session")
def s3_server():
    program = os.environ.get("VERSITYGW") or shutil.which("versitygw")
    if not program:
        pytest.skip("no versitygw")
    server = stores.S3Server(program)
    yield server
    server.stop()


def new_store(kind, request, program):
    if kind == "s3":
        store = stores.S3Store(request.getfixturevalue("s3_server"), uuid.uuid4().hex[:12])
    else:
        store = stores.FileStore(request.getfixturevalue("tmp_path") / "store")
    return stores.make(store, program)


@pytest.fixture(params=["file", "s3"])
def store(request, program):
    """A fresh store, once of each kind."""
    return new_store(request.param, request, program)


@pytest.fixture
def file_store(request, program):
    return new_store("file", request, program)


@pytest.fixture
def s3_store(request, program):
    return new_store("s3", request, program)


@pytest.fixture
def proxy(s3_server):
    """In front of the S3 server; does nothing until it is told to."""
    with Proxy("127.0.0.1", s3_server.port) as p:
        yield p


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows what its machines have said."""
    report = yield
    if report.failed and call.when != "teardown":
        for m in getattr(item, "machines", []):
            report.sections.append((f"machine {m.root.name}", m.story()))
    return report


@pytest.fixture
def machines(program, tmp_path, request):
    """machines(store, **options): a machine that is not mounted yet; all end with the test."""
    made = request.node.machines = []

    def machine(store, **options):
        m = Machine(program, store, tmp_path / f"machine{len(made)}", **options)
        made.append(m)
        return m

    yield machine
    failures = []
    for m in made:
        try:
            m.close()
        except AssertionError as e:
            failures.append(str(e))
    for m in made:
        shutil.rmtree(m.root, ignore_errors=True)
    assert not failures, "\n".join(failures)


@pytest.fixture
def small_disk():
    """small_disk(machine, MiB): its cache lies on a disk of that size, and full it is full."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    mounted = []

    def mount(m, mib):
        m.cache.mkdir(exist_ok=True)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=700", "small", str(m.cache)],
            check=True,
            timeout=HANGS_S,
        )
        mounted.append(m)
        return m

    yield mount
    for m in mounted:
        m.kill()
        subprocess.run(["umount", "-l", str(m.cache)], check=True, timeout=HANGS_S)


@pytest.fixture
def space(program):
    """A mount namespace in which /sbin has our helpers."""
    s = Space(program)
    try:
        yield s.install()
    finally:
        s.close()


@pytest.fixture
def machine(machines, store):
    """A machine with a fresh store mounted, once of each kind."""
    return machines(store).mount()


@pytest.fixture
def file_machine(machines, file_store):
    return machines(file_store).mount()


@pytest.fixture
def rng():
    """Random, and the same again with HOLDFAST_SEED."""
    seed = int(os.environ.get("HOLDFAST_SEED") or int.from_bytes(os.urandom(4), "big"))
    print(f"HOLDFAST_SEED={seed}", file=sys.stderr)
    return random.Random(seed)
