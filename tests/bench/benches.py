# SPDX-License-Identifier: Apache-2.0
"""The benches: each takes a rig and returns figures.  What competes is measured in turns."""

import os
import random
import shutil
import statistics
import subprocess
import sys
import time

from lib.proxy import Proxy, Stalled

from bench import rig as rigs
from bench.report import Figure
from bench.rig import DEFAULTS, GIB, PLAIN_OBJECT, QUICK

GB = 1e9
LINK_BPS = 200e6
LINK_DELAY_S = 0.02


# ---- saving ----


def save_until_durable(rig, machine):
    """Seconds of the save, seconds until sync returned, the slowest write, and the daemon's CPU."""
    cpu = rigs.cpu_seconds(machine.pid)
    path, times = rig.save(machine.path)
    machine.sync(600)
    durable = time.monotonic() - times["begin"]
    cpu = rigs.cpu_seconds(machine.pid) - cpu
    path.unlink()
    machine.sync(600)
    return times["end"] - times["begin"], durable, times["slowest"], cpu


def one_save(rig, machine, turn, endpoint):
    """A save on the mount, the same on the disk, and plain PUTs of as many bytes."""
    measures = {
        "disk": rig.save_to_disk,
        "mount": lambda: save_until_durable(rig, machine),
        "plain": lambda: rig.plain("put", "plain", rig.size // PLAIN_OBJECT, endpoint),
    }
    order = list(measures)
    order = order[turn % 3 :] + order[: turn % 3]
    seconds = {name: measures[name]() for name in order}
    rig.drop_plain("plain")
    return seconds


def saves(rig, options, endpoint=None, round_trip_s=0):
    rows = []
    with rig.store() as store:
        store = store.through(endpoint) if endpoint else store
        with rig.machine(store, **options) as machine:
            machine.mount()
            for turn in range(rig.n):
                rows.append(one_save(rig, machine, turn, endpoint))
            peak = rigs.peak_mib(machine.pid)
            machine.umount()
    gb = rig.size / GB
    floors = [max(r["disk"], r["plain"][0]) for r in rows]
    return [
        Figure("stall / local disk", "x", [r["mount"][0] / r["disk"] for r in rows], most=2.2),
        Figure("stall", "s", [r["mount"][0] for r in rows]),
        Figure("local disk", "s", [r["disk"] for r in rows]),
        Figure("slowest write", "ms", [r["mount"][2] * 1e3 for r in rows], most=250),
        Figure(
            "durable / max(disk, plain PUTs)",
            "x",
            [(r["mount"][1] - round_trip_s) / f for r, f in zip(rows, floors)],
            most=1.1,
        ),
        Figure("durable", "s", [r["mount"][1] for r in rows]),
        Figure("plain PUTs", "s", [r["plain"][0] for r in rows]),
        Figure("CPU of a save", "s/GB", [r["mount"][3] / gb for r in rows], most=1.5),
        Figure("CPU of plain PUTs", "s/GB", [r["plain"][1] / gb for r in rows]),
        Figure("peak memory", "MiB", [peak], most=300),
    ]


def save(rig):
    """2 GiB saved, loopback; the mount commits at once."""
    return saves(rig, QUICK)


def save_defaults(rig):
    """The same with the mount's defaults: durable has the quiet second in it."""
    return saves(rig, DEFAULTS)


def save_link(rig):
    """The same over a link of 200 MB/s and 20 ms."""
    with Proxy("127.0.0.1", rig.server.port) as proxy:
        proxy.rate_bps = LINK_BPS
        proxy.delay_s = LINK_DELAY_S
        return saves(rig, QUICK, proxy.endpoint, LINK_DELAY_S)


# ---- restoring ----


def restores(rig, endpoint=None):
    seconds, plain, cpus, firsts = [], [], [], []
    gb = rig.size / GB
    count = rig.size // PLAIN_OBJECT
    rig.plain("put", "plain", count)
    with rig.store() as store:
        with rig.machine(store, **QUICK) as machine:
            path, _ = rig.save(machine.mount().path)
            machine.sync(600)
            machine.store = store.through(endpoint) if endpoint else store
            for _ in range(rig.n):
                machine.renew()
                begin, cpu = time.monotonic(), rigs.cpu_seconds(machine.pid)
                first_byte(path)
                firsts.append(time.monotonic() - begin)
                seconds.append(rigs.read_all(path) + firsts[-1])
                cpus.append(rigs.cpu_seconds(machine.pid) - cpu)
                plain.append(rig.plain("get", "plain", count, endpoint))
            peak = rigs.peak_mib(machine.pid)
            machine.umount()
    rig.drop_plain("plain")
    return [
        Figure("rate / plain GETs", "x", [p / s for (p, _), s in zip(plain, seconds)], least=0.9),
        Figure("read", "MB/s", [rig.size / s / 1e6 for s in seconds]),
        Figure("plain GETs", "MB/s", [rig.size / s / 1e6 for s, _ in plain]),
        Figure("first byte", "ms", [s * 1e3 for s in firsts]),
        Figure("CPU of a restore", "s/GB", [c / gb for c in cpus], most=1.5),
        Figure("CPU of plain GETs", "s/GB", [c / gb for _, c in plain]),
        Figure("peak memory", "MiB", [peak], most=300),
    ]


def first_byte(path):
    with open(path, "rb", buffering=0) as f:
        assert len(f.read(1)) == 1


def restore(rig):
    """2 GiB read by dd on a new mount with an empty cache, loopback."""
    return restores(rig)


def restore_link(rig):
    """The same over a link of 200 MB/s and 20 ms."""
    with Proxy("127.0.0.1", rig.server.port) as proxy:
        proxy.rate_bps = LINK_BPS
        proxy.delay_s = LINK_DELAY_S
        return restores(rig, proxy.endpoint)


def stalls_one_in(share, state):
    """For spoil: of so many requests one is never answered, in turns before its head and in its body."""

    def spoil(request):
        state["asked"] += 1
        if request.method != "GET" or state["asked"] % share:
            return None
        state["stalled"] += 1
        return Stalled((None, 0, 1_000_000)[state["stalled"] % 3])

    return spoil


def restore_stalls(rig):
    """The same link; one request in 500, and one in 50, is never answered, beside a clean restore."""
    shares = (None, 500, 50)
    seconds = {share: [] for share in shares}
    stalled = {share: [] for share in shares}
    with Proxy("127.0.0.1", rig.server.port) as proxy, rig.store() as store:
        with rig.machine(store, **QUICK) as machine:
            path, _ = rig.save(machine.mount().path)
            machine.sync(600)
            machine.store = store.through(proxy.endpoint)
            proxy.delay_s = LINK_DELAY_S
            for turn in range(rig.n):
                for share in shares[turn % 3 :] + shares[: turn % 3]:
                    machine.renew()
                    state = {"asked": share // 2 if share else 0, "stalled": turn}  # so that one is in a GiB
                    proxy.rate_bps = LINK_BPS
                    proxy.spoil = stalls_one_in(share, state) if share else None
                    seconds[share].append(rigs.read_all(path))
                    stalled[share].append(state["stalled"] - turn)
                    proxy.spoil = None
            machine.umount()
    figures = [Figure("restore, none stalled", "s", seconds[None])]
    for share in shares[1:]:
        pairs = zip(seconds[share], seconds[None])
        figures.append(Figure(f"one in {share} stalled / none", "x", [s / c for s, c in pairs], most=2))
        figures.append(Figure(f"one in {share}: stalls", "", stalled[share]))
    return figures


def random_read(rig):
    """Random reads of 1 GiB on a new mount, 10 MB in all (1 MiB: 20 of them): what is fetched for a byte asked."""
    ratios = {}
    with rig.store() as store, rig.machine(store, **QUICK, warm="none") as machine:
        path, _ = rig.save(machine.mount().path, GIB)
        machine.sync(600)
        for turn in range(rig.n):
            for kib, count in ((64, 163), (256, 40), (1024, 20)):
                for how in ("mapped", "pread"):
                    machine.renew()
                    read_at_random(path, how, kib * 1024, count, turn)
                    fetched = machine.status()["fetched_bytes"]
                    ratios.setdefault((how, kib), []).append(fetched / (kib * 1024 * count))
        machine.umount()
    return [
        Figure(f"{how}, {kib} KiB: fetched / asked", "x", found, most=16)
        for (how, kib), found in ratios.items()
    ]


def read_at_random(path, how, size, count, seed):
    noise = random.Random(seed)
    places = [str(noise.randrange((GIB - size) // 4096) * 4096) for _ in range(count)]
    subprocess.run([sys.executable, rigs.HERE / "random_reader.py", path, how, str(size), *places], check=True)


# ---- memory ----


def memory(rig):
    """The daemon's peak after 2 and after 8 GiB saved and read back; the server's data on the disk."""
    server = rig.serve(rig.root)
    figures = []
    for size in (2 * GIB, 8 * GIB):
        with rig.store(server) as store, rig.machine(store, **QUICK) as machine:
            path, _ = rig.save(machine.mount().path, size)
            machine.sync(1200)
            saved = rigs.peak_mib(machine.pid)
            machine.renew()
            rigs.read_all(path)
            read = rigs.peak_mib(machine.pid)
            machine.umount()
        figures.append(Figure(f"peak after saving {size // GIB} GiB", "MiB", [saved], most=300))
        figures.append(Figure(f"peak after reading {size // GIB} GiB", "MiB", [read], most=300))
    return figures


# ---- many files ----

DIRECTORIES, FILES = 100, 1000


def fill(root):
    """100 000 small files, and in each directory one that is a chunk."""
    noise = random.Random(0)
    for d in range(DIRECTORIES):
        directory = root / f"d{d:03}"
        directory.mkdir()
        for f in range(FILES - 1):
            with open(directory / f"f{f:04}", "wb", buffering=0) as out:
                out.write(noise.randbytes(1000))
        with open(directory / "chunk", "wb", buffering=0) as out:
            out.write(noise.randbytes(100 * 1024))


def visit(machine, proxy, delay_s, turn):
    """A new mount's first moments through a delay: seconds and requests of each."""
    proxy.delay_s = delay_s
    steps = {
        "readdir": lambda: len(os.listdir(machine.mount().path)),
        "small": lambda: first_byte(machine.path / f"d{turn:03}" / "f0500"),
        "chunk": lambda: first_byte(machine.path / f"d{DIRECTORIES // 2 + turn:03}" / "chunk"),
    }
    seen = {}
    for name, step in steps.items():
        before, begin = proxy.requests.total(), time.monotonic()
        step()
        seen[name] = (time.monotonic() - begin, proxy.requests.total() - before)
    proxy.delay_s = 0
    return seen


def bytes_of_a_change(machine, proxy, turn):
    """Sent because one small file of many was rewritten."""
    machine.sync()
    before = proxy.up_bytes
    with open(machine.path / f"d{turn:03}" / "f0001", "wb", buffering=0) as out:
        out.write(os.urandom(1000))
    machine.sync()
    return proxy.up_bytes - before


def many(rig):
    """A store of 100 000 files on a new mount; round trips by what a longer delay adds."""
    short, long = 0.1, 0.5
    names = {"readdir": ("first readdir", 5), "small": ("first byte, small file", 2), "chunk": ("first byte, chunk", 2)}
    trips = {name: [] for name in names}
    requests = {name: [] for name in names}
    sent, made = [], []
    with rig.store() as store, Proxy("127.0.0.1", rig.server.port) as proxy:
        with rig.machine(store, **QUICK) as machine:
            begin = time.monotonic()
            fill(machine.mount().path)
            machine.sync(600)
            made.append(time.monotonic() - begin)
            machine.umount(seconds=300)
            machine.store = store.through(proxy.endpoint)
            for turn in range(rig.n):
                visits = []
                for delay_s in (short, long):
                    machine.wipe()
                    visits.append(visit(machine, proxy, delay_s, turn))
                    if delay_s == long:
                        sent.append(bytes_of_a_change(machine, proxy, turn))
                    machine.umount(seconds=300)
                for name in names:
                    trips[name].append((visits[1][name][0] - visits[0][name][0]) / (long - short))
                    requests[name].append(visits[0][name][1])
    figures = []
    for name, (text, most) in names.items():
        # A tenth is what two measurements of time differ by.
        figures.append(Figure(f"{text}: round trips", "", trips[name], most=most + 0.1))
        figures.append(Figure(f"{text}: requests", "", requests[name]))
    figures.append(Figure("sent for one small file", "KiB", [s / 1024 for s in sent], most=64))
    figures.append(Figure("all made and durable", "s", made))
    return figures


def small_files(rig):
    """2,000 files of 4 KiB made, listed, their directory renamed, removed; disk and mount in turns."""
    steps = ("create", "ls -lR", "rename", "rm -rf")
    times = {where: {step: [] for step in steps} for where in ("disk", "mount")}
    with rig.store() as store, rig.machine(store, **DEFAULTS) as machine:
        machine.mount()
        for turn in range(rig.n):
            for where, root in (("disk", rig.disk), ("mount", machine.path)):
                for step, seconds in zip(steps, handle_small_files(root, turn)):
                    times[where][step].append(seconds)
        machine.umount()
    figures = []
    for step in steps:
        for where in ("mount", "disk"):
            figures.append(Figure(f"{step}, {where}", "ms", [s * 1e3 for s in times[where][step]]))
    return figures


def handle_small_files(root, turn):
    noise = random.Random(turn)
    top = root / f"small-{turn}"
    top.mkdir()

    def create():
        for i in range(2000):
            with open(top / f"f{i}", "wb", buffering=0) as out:
                out.write(noise.randbytes(4096))

    moved = root / f"moved-{turn}"
    steps = (
        create,
        lambda: subprocess.run(["ls", "-lR", top], stdout=subprocess.DEVNULL, check=True),
        lambda: os.rename(top, moved),
        lambda: shutil.rmtree(moved),
    )
    for step in steps:
        begin = time.monotonic()
        step()
        yield time.monotonic() - begin


# ---- what trainers do besides ----


def fsync(rig):
    """A new file of 4 KiB, written and synced: the mount against the disk, in turns."""
    more, plain = [], []
    with rig.store() as store, rig.machine(store, **DEFAULTS) as machine:
        machine.mount()
        for turn in range(rig.n):
            times = {rig.disk: [], machine.path: []}
            for i in range(40):
                for root, seconds in times.items():
                    seconds.append(fsync_seconds(root / f"s-{turn}-{i}"))
            disk, mount = (statistics.median(s) for s in times.values())
            plain.append(disk * 1e3)
            more.append((mount - disk) * 1e3)
        machine.umount()
    return [
        Figure("fsync over the disk's own", "ms", more, most=2),
        Figure("fsync on the disk", "ms", plain),
    ]


def fsync_seconds(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(fd, os.urandom(4096))
    begin = time.monotonic()
    os.fsync(fd)
    seconds = time.monotonic() - begin
    os.close(fd)
    return seconds


def events(rig):
    """200 events as TensorBoard writes them where it cannot append: PUTs, at 20 a second."""
    puts = []
    with rig.store() as store, rig.machine(store, **DEFAULTS) as machine:
        machine.mount()
        for turn in range(rig.n):
            before = machine.status()["requests"]["put"]
            for _ in range(200):
                with open(machine.path / f"events.out.tfevents.{turn}", "ab", buffering=0) as f:
                    f.write(os.urandom(40))
                time.sleep(0.05)
            machine.sync()
            puts.append(machine.status()["requests"]["put"] - before)
        machine.umount()
    return [Figure("PUTs for 200 events", "", puts, most=20)]


def dedupe(rig):
    """1 GiB again with a tenth of it changed, as a new file renamed over the old: what is sent."""
    sent = []
    with rig.store() as store, Proxy("127.0.0.1", rig.server.port) as proxy:
        with rig.machine(store.through(proxy.endpoint), **QUICK) as machine:
            path, _ = rig.save(machine.mount().path, GIB)
            local = rig.disk / "again"
            shutil.copyfile(path, local)
            machine.sync(600)
            for turn in range(rig.n):
                change_a_tenth(local, turn)
                before = proxy.up_bytes
                shutil.copyfile(local, f"{path}.tmp")
                os.rename(f"{path}.tmp", path)
                machine.sync(600)
                sent.append((proxy.up_bytes - before) / 1e6)
            machine.umount()
    return [Figure("sent for a tenth of 1 GiB", "MB", sent)]


def change_a_tenth(path, seed):
    """In ten stretches."""
    noise = random.Random(seed)
    piece = GIB // 100
    with open(path, "r+b", buffering=0) as f:
        for place in noise.sample(range(100), 10):
            f.seek(place * piece)
            f.write(noise.randbytes(piece))


ALL = {
    b.__name__.replace("_", "-"): b
    for b in (
        save,
        save_defaults,
        restore,
        fsync,
        many,
        events,
        memory,
        small_files,
        dedupe,
        random_read,
        save_link,
        restore_link,
        restore_stalls,
    )
}
