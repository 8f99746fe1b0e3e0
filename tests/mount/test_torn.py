# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that are torn by their own header are not sealed, whoever closed them and how."""

import io
import os
import signal
import subprocess
import sys
import zipfile

import pytest

from lib.content import MIB, noise, write_new
from lib.procs import Group, until


def state(path):
    """open, sealed, ...: a torn file is `open` however it was closed."""
    return os.getxattr(path, "user.holdfast.state").decode()


# ---- files by the libraries themselves ----


def by_zipfile(path):
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("a.json", b"{}")
        z.writestr("weights", noise(30_000))


def by_zipfile_with_comment(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.comment = b"a comment" * 50
        z.writestr("weights", noise(3_000) * 5)


def by_torch(path):
    torch = pytest.importorskip("torch")
    state = {f"layer{i}.weight": torch.randn(30, 40) for i in range(11)}
    torch.save(state | {"tied": state["layer0.weight"], "step": 3}, path)


def by_torch_into_a_file(path):
    torch = pytest.importorskip("torch")
    with open(path, "wb") as f:
        torch.save({"weight": torch.randn(30, 40), "list": ["0", "17", 3]}, f)


def by_torch_jit(path):
    torch = pytest.importorskip("torch")
    torch.jit.save(torch.jit.script(torch.nn.Linear(20, 30)), str(path))


def by_dcp(path):
    """As torch DCP writes its shards: one archive a tensor, end to end."""
    torch = pytest.importorskip("torch")
    with open(path, "wb") as f:
        for size in (10, 3000):
            torch.save(torch.randn(size), f)


def by_numpy(path):
    np = pytest.importorskip("numpy")
    np.savez(path, a=np.arange(3000), b=np.zeros(7))


def by_safetensors(path):
    np = pytest.importorskip("numpy")
    numpy = pytest.importorskip("safetensors.numpy")
    numpy.save_file({"a": np.arange(3000), "b": np.zeros(7)}, path, metadata={"format": "np"})


def by_h5py(path, **options):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", **options) as f:
        f["weights"] = list(noise(20_000))
        f.create_dataset("bias", data=range(7), chunks=True, maxshape=(None,))


def by_h5py_latest(path):
    by_h5py(path, libver="latest")


def by_h5py_v108(path):
    by_h5py(path, libver=("v108", "v108"))


def by_h5py_behind_a_user_block(path):
    by_h5py(path, userblock_size=1024)


MAKERS = [
    by_zipfile,
    by_zipfile_with_comment,
    by_torch,
    by_torch_into_a_file,
    by_torch_jit,
    by_dcp,
    by_numpy,
    by_safetensors,
    by_h5py,
    by_h5py_latest,
    by_h5py_v108,
    by_h5py_behind_a_user_block,
]


def begins(data):
    """Shorter than so much it is of no format."""
    if data.startswith(b"PK"):
        return 4
    at = data.find(b"\x89HDF")
    return at + 8 if 0 <= at <= 1024 else 10


def is_whole_cut_at(maker, data, n):
    """Of archives in a row each is whole; in a torch archive no other ends than the last."""
    return n == len(data) or (maker is by_dcp and data[n - 22 : n - 18] == b"PK\5\6")


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_a_file_of_a_known_format_is_sealed_only_whole(file_machine, tmp_path, maker):
    maker(tmp_path / "whole.npz")
    data = (tmp_path / "whole.npz").read_bytes()
    path = file_machine.path / "ck"
    few = [n for n in range(0, len(data), len(data) // 40 + 1)]
    for n in sorted({*range(40), *few, *range(len(data) - 60, len(data) + 1)}):
        write_new(path, data[:n])
        sealed = n < begins(data) or is_whole_cut_at(maker, data, n)
        assert (state(path) != "open") == sealed, f"{n} of {len(data)} bytes"


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_a_file_whose_bytes_never_came_is_not_sealed(file_machine, tmp_path, maker):
    maker(tmp_path / "whole.npz")
    data = (tmp_path / "whole.npz").read_bytes()
    path = file_machine.path / "ck"
    says = data.rfind(b"PK\5\6") if data.startswith(b"PK") else begins(data)
    write_new(path, data[:says] + bytes(len(data) - says))
    assert state(path) == "open"
    write_new(path, data)
    assert state(path) != "open"


def test_a_file_that_the_library_holds_open_is_sealed_by_its_close(file_machine):
    h5py = pytest.importorskip("h5py")
    path = file_machine.path / "a.h5"
    with h5py.File(path, "w", libver="latest") as f:
        f["a"] = range(1000)
        f.flush()
        os.close(os.open(path, os.O_RDWR))  # another descriptor of the writer's
        assert state(path) == "open"
    assert state(path) != "open"


# ---- what the store keeps ----


def half_a_zip():
    whole = io.BytesIO()
    by_zipfile(whole)
    return whole.getvalue()[:20_000]


def test_status_and_log_name_a_torn_file_and_a_sync_is_not_held_by_it(file_machine):
    m = file_machine
    write_new(m.path / "ck.pt", b"before")
    m.sync()
    write_new(m.path / "ck.pt", half_a_zip())
    text = "ck.pt: zip without its directory"
    m.until(lambda s: s["objection"] == text or s["torn"] == text, "status names it")
    m.until(lambda s: text in m.log_text(), "so does the log")
    write_new(m.path / "other", b"x")
    m.sync()
    m.replace()
    assert (m.path / "ck.pt").read_bytes() == b"before"
    assert (m.path / "other").exists()


def test_a_torn_file_holds_nothing_back_after_patience(machines, file_store):
    m = machines(file_store, patience="2").mount()
    write_new(m.path / "before", b"x")
    m.sync()
    good = m.status()["good"]
    write_new(m.path / "ck.pt", half_a_zip())
    write_new(m.path / "other", b"x")  # by the same process: no sign that the work goes on elsewhere
    assert m.until(lambda s: s["good"] > good, "the good moment moves")["torn"]
    m.replace()
    assert sorted(os.listdir(m.path)) == ["before", "other"]


def test_a_torn_file_that_was_synced_is_stored_as_it_is(file_machine):
    m, data = file_machine, half_a_zip()
    write_new(m.path / "split.zip.aa", data)
    subprocess.run(["sync", m.path / "split.zip.aa"], check=True)
    m.sync()
    m.replace()
    assert (m.path / "split.zip.aa").read_bytes() == data


def test_half_a_zip_is_told_from_a_whole_one_by_the_daemon_that_goes_on(file_machine):
    m, data = file_machine, half_a_zip()
    write_new(m.path / "ck.pt", b"before")
    m.sync()
    write_new(m.path / "ck.pt", data)
    m.kill()
    m.mount()
    assert (m.path / "ck.pt").read_bytes() == data
    m.sync()
    m.replace()
    assert (m.path / "ck.pt").read_bytes() == b"before"


# ---- an exception in the middle of a save ----

SAVE = """
import signal, sys, time, zipfile
how, path = sys.argv[1:]
if how == "SystemExit":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
else:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
data = open("/dev/zero", "rb").read(1 << 20)
with open(path, "wb") as f:
    f.write(b"PK\\3\\4" + data)
    f.flush()
    print("half", flush=True)
    while True:  # a signal just before a pause would be waited for for ever
        time.sleep(0.01)
    f.write(data)
"""


@pytest.mark.parametrize("how", ["KeyboardInterrupt", "SystemExit"])
def test_an_exception_in_a_save_leaves_the_version_before(file_machine, how):
    m = file_machine
    write_new(m.path / "last.pt", noise(MIB))
    m.sync()
    command = [sys.executable, "-c", SAVE, how, str(m.path / "last.pt")]
    with Group(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as writer:
        assert writer.process.stdout.readline() == b"half\n"
        writer.signal(signal.SIGTERM)
        assert writer.wait(60) == (0 if how == "SystemExit" else -signal.SIGINT)
    assert (m.path / "last.pt").stat().st_size == MIB + 4
    good = m.status()["good"]
    write_new(m.path / "witness", b"x")
    assert m.until(lambda s: s["good"] > good, "all else is kept")["torn"]
    m.replace()
    assert (m.path / "witness").exists()
    assert (m.path / "last.pt").read_bytes() == noise(MIB)


TORCH = """
import signal, sys, torch
how, path = sys.argv[1:]
if how == "SystemExit":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
else:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
state = {f"layer{i}": torch.zeros(1 << 18) for i in range(64)}
torch.save(state, path)
print("saved", flush=True)
sys.stdin.readline()
for n in range(1 << 30):
    torch.save({name: tensor + n for name, tensor in state.items()}, path)
"""


@pytest.mark.parametrize("how", ["KeyboardInterrupt", "SystemExit"])
def test_an_exception_in_torch_save_leaves_a_version_that_loads(file_machine, how):
    torch = pytest.importorskip("torch")
    m = file_machine
    path = m.path / "last.pt"

    def is_torn():
        try:
            return len(torch.load(path)) < 64
        except Exception:  # torch raises what it likes
            return True

    for _ in range(30):  # until it is met in the middle
        with Group(
            [sys.executable, "-c", TORCH, how, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as writer:
            assert writer.process.stdout.readline() == b"saved\n"
            m.sync()
            writer.process.stdin.write(b"\n")
            writer.process.stdin.flush()
            until(lambda: 20 * MIB < path.stat().st_size < 40 * MIB, 60, "half of it is written")
            writer.signal(signal.SIGTERM)
            writer.wait(60)
        if is_torn():
            break
    else:
        pytest.fail("never met in the middle of a save")

    good = m.status()["good"]
    write_new(m.path / "witness", b"x")
    assert m.until(lambda s: s["good"] > good, "all else is kept")["torn"]
    m.replace()
    assert (m.path / "witness").exists()
    loaded = torch.load(path)
    assert len(loaded) == 64
    assert len({float(tensor[0]) for tensor in loaded.values()}) == 1, "of one save"
