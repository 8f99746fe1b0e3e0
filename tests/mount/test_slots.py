# SPDX-License-Identifier: Apache-2.0
"""Several slots in one store: -o slot=R,of=N,attempt=K on each machine of a distributed job."""

import contextlib
import errno
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from lib.content import MIB, noise, replace, write_new
from lib.dcp import (
    MARKER,
    Job,
    judge_gang,
    judge_moments,
    shard,
    torn_saves,
)
from lib.gang import at_once, busy, mount_all, paths_at, slots, until_seen, until_sent
from lib.machine import MountFailed
from lib.oracle import Ledger
from lib.procs import HANGS_S, Group, kill, until
from lib.records import good_moments, judge_fences, judge_good, read_log

UNSENT = 3


@pytest.fixture
def pair(machines, file_store):
    """Two ranks, mounted."""
    return mount_all(slots(machines, file_store, 2))


def refusal(machine, pattern, **options):
    """One line, in which the pattern is."""
    with pytest.raises(MountFailed) as e:
        machine.mount(**options)
    said = str(e.value)
    assert said.count("\n") == 1, f"wanted one clear line: {said}"
    assert re.search(pattern, said), f"wanted /{pattern}/: {said}"


def unsaid(machine, pattern, seconds=3):
    """`holdfast sync` gives up, and says for whom it has waited."""
    done = machine.command("sync", machine.path, "--timeout", seconds)
    assert done.returncode == UNSENT, f"wanted exit {UNSENT}, not everything is good: {done}"
    assert re.search(pattern, done.stderr), f"wanted /{pattern}/: {done.stderr}"
    assert done.stderr.count("\n") == 1, f"wanted one clear line: {done.stderr}"


def is_over(machine, pattern="."):
    """Its attempt has ended elsewhere: it says why, and changes nothing any more."""
    status = machine.until(lambda s: s["fenced"], "it learns that its attempt is over")
    assert re.search(pattern, status["why_read_only"]), (
        f"wanted /{pattern}/: {status['why_read_only']}"
    )
    with pytest.raises(OSError) as e:
        (machine.path / "late").mkdir()
    assert e.value.errno == errno.EROFS, f"wanted EROFS: {e.value}"


# ---- one tree ----


def test_the_first_to_come_resets_and_the_others_join_and_all_see_what_all_write(machines, store):
    gang = mount_all(slots(machines, store, 3))
    for rank, m in enumerate(gang):
        (m.path / f"of-{rank}").mkdir()
        write_new(m.path / f"of-{rank}" / "f", noise(30_000, rank))
        write_new(m.path / f"small-{rank}", str(rank).encode())
    wanted = {f"of-{r}": None for r in range(3)}
    wanted |= {f"of-{r}/f": noise(30_000, r) for r in range(3)}
    wanted |= {f"small-{r}": str(r).encode() for r in range(3)}
    until_seen(gang, wanted)
    records = read_log(store)
    judge_fences(records)
    judge_good(records)
    fences = [(r.kind, r.slots, r.attempt) for r in records if r.kind in ("reset", "join")]
    assert fences == [("reset", 3, 1), ("join", 3, 1), ("join", 3, 1)], (
        f"wanted one reset and two joins: {fences}"
    )


def test_directories_of_one_name_are_one(machines, file_store):
    gang = mount_all(slots(machines, file_store, 3))
    with contextlib.ExitStack() as stack:
        for m in gang:
            stack.enter_context(busy(m))
        for rank, m in enumerate(gang):
            (m.path / "run" / "ckpt-1").mkdir(parents=True)  # nobody sees another's yet
            write_new(m.path / "run" / "ckpt-1" / shard(rank), noise(3000, rank))
    wanted = {f"run/ckpt-1/{shard(r)}": noise(3000, r) for r in range(3)}
    until_seen(gang, wanted | {"run": None, "run/ckpt-1": None})


def test_what_one_rank_renames_and_removes_is_so_on_the_others(pair):
    a, b = pair
    (a.path / "d/e").mkdir(parents=True)
    for name in ("d/e/x", "d/gone", "kept"):
        write_new(a.path / name, name.encode())
    os.link(a.path / "kept", a.path / "linked")
    tree = {"d": None, "d/e": None, "d/e/x": b"d/e/x", "d/gone": b"d/gone"}
    until_seen(pair, tree | {"kept": b"kept", "linked": b"kept"})
    os.rename(b.path / "d/e", b.path / "f")
    os.unlink(b.path / "d/gone")
    write_new(b.path / "kept", b"anew, by the other")
    until_seen(
        pair,
        {"d": None, "f": None, "f/x": b"d/e/x"}
        | {name: b"anew, by the other" for name in ("kept", "linked")},
    )
    assert os.stat(a.path / "kept").st_nlink == 2, "wanted both names on one inode"


def test_a_shard_follows_the_directory_that_another_rank_renames(pair):
    a, b = pair
    with busy(b):
        for rank, m in enumerate(pair):
            (m.path / "tmp-ckpt").mkdir(exist_ok=True)
            write_new(m.path / "tmp-ckpt" / shard(rank), noise(3000, rank))
        os.rename(a.path / "tmp-ckpt", a.path / "ckpt")
        until_sent(a, f"ckpt/{shard(0)}")
    until_seen(pair, {"ckpt": None} | {f"ckpt/{shard(r)}": noise(3000, r) for r in range(2)})


def test_of_two_files_under_one_name_the_later_wins_and_the_earlier_stays_beside_it(pair):
    a, b = pair
    with busy(b):
        write_new(b.path / "config", b"of rank 1, committed later")
        write_new(a.path / "config", b"of rank 0, committed first")
        until_sent(a, "config")
    until_seen(
        pair,
        {"config": b"of rank 1, committed later", "config~slot0": b"of rank 0, committed first"},
    )


def test_two_files_of_the_same_bytes_are_one(pair):
    a, b = pair
    with busy(b):
        for m in (b, a):
            write_new(m.path / "config", noise(40_000))
            write_new(m.path / "small", b"same")
        until_sent(a, "small")
    until_seen(pair, {"config": noise(40_000), "small": b"same"})


def test_a_directory_that_is_removed_stays_with_what_another_rank_has_put_into_it(pair):
    a, b = pair
    (a.path / "d/e").mkdir(parents=True)
    write_new(a.path / "d/e/old", b"old")
    until_seen(pair, {"d": None, "d/e": None, "d/e/old": b"old"})
    with busy(b):
        write_new(b.path / "d/e/new", b"new")
        shutil.rmtree(a.path / "d")
        write_new(a.path / "after", b"a")
        until_sent(a, "after")
    until_seen(pair, {"d": None, "d/e": None, "d/e/new": b"new", "after": b"a"})


def test_a_file_that_is_removed_stays_if_another_rank_has_written_it_anew(pair):
    a, b = pair
    write_new(a.path / "x", b"old")
    until_seen(pair, {"x": b"old"})
    with busy(b):
        write_new(b.path / "x", b"new")
        os.unlink(a.path / "x")
        write_new(a.path / "after", b"a")
        until_sent(a, "after")
    until_seen(pair, {"x": b"new", "after": b"a"})


# ---- reading what others wrote ----


def test_a_large_file_of_another_rank_is_read_right_at_any_place(pair, rng):
    a, b = pair
    data = noise(5 * MIB + 123)
    write_new(a.path / "model.pt", data)
    until((b.path / "model.pt").exists, HANGS_S, "the other rank sees it")
    with open(b.path / "model.pt", "rb", buffering=0) as f:
        for _ in range(20):
            at, size = rng.randrange(len(data)), rng.randrange(1, 100_000)
            assert os.pread(f.fileno(), size, at) == data[at : at + size], f"{size} at {at}"
        assert f.read() == data


def test_an_open_file_stays_what_it_was_until_it_is_closed(pair):
    a, b = pair
    old, new = noise(100_000, "old"), noise(150_000, "new")
    for name in ("in-place", "renamed"):
        write_new(a.path / name, old)
    until_seen(pair, {"in-place": old, "renamed": old})
    with open(b.path / "in-place", "rb") as f, open(b.path / "renamed", "rb") as g:
        head = f.read(1000)
        write_new(a.path / "in-place", new)
        replace(a.path / "renamed", new)
        until_seen([a], {"in-place": new, "renamed": new})
        until(lambda: (b.path / "renamed").read_bytes() == new, HANGS_S, "rank 1 sees the new file")
        assert head + f.read() == old, "wanted the old bytes from the old descriptor"
        assert g.read() == old, "wanted the old bytes of what was renamed over"
    until_seen(pair, {"in-place": new, "renamed": new})


def test_the_logs_of_all_ranks_grow_before_the_eyes_of_all(pair):
    names = [f"events.out.tfevents.{rank}" for rank in range(2)]
    with contextlib.ExitStack() as stack:
        logs = [stack.enter_context(open(m.path / n, "ab", 0)) for m, n in zip(pair, names)]
        want, got = [b"", b""], [b"", b""]

        def write(part):
            for rank, log in enumerate(logs):
                lines = [f"{part}: line {n} of rank {rank}\n".encode() for n in range(30)]
                want[rank] += b"".join(lines)
                log.writelines(lines)

        def grown(rank):
            got[rank] += eyes[rank].read()
            return len(got[rank]) >= len(want[rank])

        write("first")
        seen = [m.path / n for m, n in zip(reversed(pair), names)]
        until(lambda: all(p.exists() for p in seen), HANGS_S, "each rank sees the other's log")
        eyes = [stack.enter_context(open(p, "rb", 0)) for p in seen]
        for part in range(3):
            write(part)
            for rank in range(2):
                until(lambda r=rank: grown(r), HANGS_S, f"{names[rank]} has grown where it is open")
            assert got == want


# ---- the good moment of all ----


def test_what_one_rank_has_sent_is_good_when_all_are_calm(pair):
    a, b = pair
    write_new(a.path / "first", b"1")
    a.sync()
    with busy(b):
        write_new(a.path / "x", b"x")
        until_sent(a, "x")
        assert "x" not in paths_at(a), "good, and rank 1 is in the middle of something"
    until(lambda: "x" in paths_at(a), HANGS_S, "what all have is good, and nobody had to ask")


def test_a_sync_returns_when_a_new_machine_would_get_it(machines, store):
    gang = mount_all(slots(machines, store, 3))
    for rank, m in enumerate(gang):
        write_new(m.path / f"f{rank}", noise(30_000, rank))
        m.sync()
        assert f"f{rank}" in paths_at(m), "acknowledged, and not good"
    new = machines(store, ro=True).mount()
    for rank in range(3):
        assert (new.path / f"f{rank}").read_bytes() == noise(30_000, rank)


def test_a_sync_names_the_slot_that_is_not_calm(pair):
    a, b = pair
    with busy(b):
        write_new(a.path / "x", b"x")
        unsaid(a, r"slot 1\b")
    a.sync()


def test_a_sync_names_the_slot_that_was_never_mounted(machines, file_store):
    a, b, late = slots(machines, file_store, 3)
    mount_all([a, b])
    write_new(a.path / "x", b"x")
    unsaid(a, r"slot 2\b")
    late.mount(attempt=1)
    a.sync()
    until_seen([late], {"x": b"x"})


def test_a_sync_names_the_slot_whose_machine_was_lost(pair):
    a, b = pair
    write_new(b.path / "y", b"y")
    b.sync()
    b.lose()
    write_new(a.path / "x", b"x")
    unsaid(a, r"slot 1\b")


def test_a_rank_that_has_released_its_slot_is_waited_for_no_more(pair):
    a, b = pair
    write_new(b.path / "y", b"y")
    b.umount()
    write_new(a.path / "x", b"x")
    a.sync()
    assert {"x", "y"} <= paths_at(a)


LOGGER = """
import itertools, sys, time
with open(sys.argv[1], "ab", buffering=0) as log:
    for i in itertools.count():
        log.write(b"{'loss': 0.1}\\n")
        print(i, flush=True)
        time.sleep(0.02) # trains
"""


def test_a_rank_that_only_logs_is_calm(pair):
    a, b = pair
    command = [sys.executable, "-c", LOGGER, str(b.path / "events.out.tfevents.1")]
    with Group(command, stdout=subprocess.PIPE) as logger:
        assert logger.process.stdout.readline() == b"0\n"
        for i in range(3):
            write_new(a.path / f"f{i}", noise(3000, i))
            a.sync()
        assert logger.running()


def test_a_marker_is_good_with_the_shards_of_all_and_soon(machines, file_store):
    gang = mount_all(slots(machines, file_store, 3))

    def save(m, step):
        directory = m.path / "run" / f"ckpt-{step}"
        directory.mkdir(parents=True, exist_ok=True)
        write_new(directory / shard(m.options["slot"]), noise(3000, (step, m.options["slot"])))

    def marker_is_good(step):
        paths = paths_at(gang[0])
        assert not torn_saves(paths, 3), f"a marker without its shards: {torn_saves(paths, 3)}"
        return f"run/ckpt-{step}/{MARKER}" in paths

    for step in range(1, 5):
        at_once(lambda m, step=step: save(m, step), gang)
        replace(gang[0].path / "run" / f"ckpt-{step}" / MARKER, str(step).encode())
        until(lambda step=step: marker_is_good(step), HANGS_S, f"step {step} is good")
        if step > 2:
            shutil.rmtree(gang[0].path / "run" / f"ckpt-{step - 2}")
    judge_moments(gang[0], good_moments(read_log(file_store)), 3)


# ---- attempts ----


def test_a_lower_attempt_is_refused(machines, file_store):
    a, b = slots(machines, file_store, 2)
    a.mount(attempt=2)
    refusal(b, r"attempt 1 .*attempt 2", attempt=1)
    b.mount(attempt=2)


@pytest.mark.parametrize("takeover", [False, True])
def test_a_new_machine_does_not_take_a_slot_of_the_attempt_under_way(pair, machines, takeover):
    a, b = pair
    write_new(b.path / "unsent", b"x")
    b.lose()
    new = machines(a.store, slot=1, of=2, takeover=takeover)
    refusal(new, r"attempt=2\b", attempt=1)
    refusal(b, r"attempt=2\b", attempt=1)
    assert not a.status()["fenced"], "a mount that is refused ends nobody"


def test_a_slot_that_was_released_may_be_mounted_again(pair):
    a, b = pair
    write_new(b.path / "y", b"y")
    b.umount()
    b.wipe()
    b.mount(attempt=1)
    write_new(b.path / "z", b"z")
    until_seen(pair, {"y": b"y", "z": b"z"})
    b.sync()


def test_another_number_of_slots_is_refused_until_the_next_attempt(machines, file_store):
    a, b = slots(machines, file_store, 2)
    a.mount(attempt=1)
    more = machines(file_store, slot=1, of=3)
    refusal(more, r"of=2\b", attempt=1)
    b.mount(attempt=1)
    write_new(a.path / "x", b"x")
    a.sync()
    more.mount(attempt=2)
    assert (more.path / "x").read_bytes() == b"x"
    is_over(a)


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"slot": 0, "of": 2, "attempt": 1, "fsync": "remote"}, "fsync"),
        ({"slot": 2, "of": 2, "attempt": 1}, "slot=2"),
        ({"slot": 1}, "slot=1"),
        ({"of": 0}, "of=0"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(machines, file_store, options, pattern):
    refusal(machines(file_store), pattern, **options)


def test_the_next_attempt_goes_back_to_the_good_moment_and_ends_the_one_before(pair, machines):
    a, b = pair
    good = noise(30_000)
    write_new(a.path / "good", good)
    a.sync()
    until_seen(pair, {"good": good})
    with contextlib.suppress(OSError), open(b.path / "half", "wb", 0) as half:
        half.write(b"so rank 1 is not calm")
        write_new(a.path / "later", b"and this is never good")
        until_sent(a, "later")
        new = mount_all(slots(machines, a.store, 2), attempt=2)
        until_seen(new, {"good": good})
    for m in pair:
        is_over(m, r"attempt 2\b")
        assert (m.path / "good").read_bytes() == good, "reading goes on"
    write_new(new[1].path / "new", b"n")
    until_seen(new, {"good": good, "new": b"n"})
    new[0].sync()


def test_the_next_attempt_begins_with_a_base_if_one_is_due(pair, machines):
    a, b = pair
    links = {f"link-{n}": f"{n}/" + "x" * 4000 for n in range(300)}  # more than 1 MiB of names
    for name, target in links.items():
        os.symlink(target, a.path / name)
    write_new(b.path / "f", b"f")
    for m in pair:
        m.sync()
        m.lose()
    new = mount_all(slots(machines, a.store, 2), attempt=2)
    for m in new:
        assert {n: os.readlink(m.path / n) for n in links} == links
        assert (m.path / "f").read_bytes() == b"f"
    reset = [r for r in read_log(a.store) if r.kind == "reset"][-1]
    assert 0 < reset.base_upto < reset.number, f"wanted a base below {reset}"
    write_new(new[1].path / "g", b"g")
    new[0].sync()
    (new[0].path / "link-7").unlink()
    until(lambda: not os.path.lexists(new[1].path / "link-7"), HANGS_S, "rank 1 sees it go")


def test_a_rank_that_slept_through_the_next_attempt_changes_nothing(pair, machines):
    a, b = pair
    write_new(a.path / "x", b"x")
    a.sync()
    until_seen(pair, {"x": b"x"})
    kill(b.pid, signal.SIGSTOP)
    a.lose()
    new = mount_all(slots(machines, a.store, 2), attempt=2)
    write_new(new[0].path / "y", b"y")
    new[0].sync()
    kill(b.pid, signal.SIGCONT)
    is_over(b, r"attempt 2")
    until_seen(new, {"x": b"x", "y": b"y"})
    judge_fences(read_log(a.store))


# ---- mounts that are no part of a group ----


def test_a_group_goes_on_with_what_a_single_writer_left(machines, file_store):
    single = machines(file_store).mount()
    write_new(single.path / "x", noise(30_000))
    single.umount()
    gang = mount_all(slots(machines, file_store, 2))
    write_new(gang[1].path / "y", b"y")
    until_seen(gang, {"x": noise(30_000), "y": b"y"})


def test_a_single_mount_takes_over_from_all_ranks(pair, machines):
    a, b = pair
    for rank, m in enumerate(pair):
        write_new(m.path / f"f{rank}", b"x")
    until_seen(pair, {"f0": b"x", "f1": b"x"})
    at_once(lambda m: m.sync(), pair)
    b.umount()
    single = machines(a.store)
    refusal(single, "takeover")
    single.mount(takeover=True)
    until_seen([single], {"f0": b"x", "f1": b"x"})
    is_over(a)
    write_new(single.path / "single", b"s")
    single.renew()
    until_seen([single], {"f0": b"x", "f1": b"x", "single": b"s"})


@pytest.mark.parametrize("how", ["in turn", "at once"])
def test_umount_of_all_ranks_leaves_the_tree_of_all(machines, store, rng, how):
    gang = mount_all(slots(machines, store, 3))
    for rank, m in enumerate(gang):
        (m.path / "d").mkdir(exist_ok=True)
        write_new(m.path / "d" / f"f{rank}", noise(30_000, rank))
    if how == "at once":
        at_once(lambda m: m.umount(), gang)
    else:
        for m in rng.sample(gang, 3):
            m.umount()
    single = machines(store).mount()  # all was released: no takeover is needed
    until_seen([single], {"d": None} | {f"d/f{r}": noise(30_000, r) for r in range(3)})


# ---- a daemon that dies ----

WRITER = """
import os, sys
sys.path.insert(0, sys.argv[2])
from lib.content import noise, write_new
for i in range(10**6):
    write_new(os.path.join(sys.argv[1], f"f{i}"), noise(2000, i))
    print(i, flush=True)
"""


def test_a_daemon_that_was_killed_goes_on_and_nothing_answered_is_lost(pair):
    a, b = pair
    tests = os.path.dirname(os.path.dirname(__file__))
    command = [sys.executable, "-c", WRITER, str(b.path), tests]
    with Group(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as writer:
        for _ in range(30):
            writer.process.stdout.readline()
        b.kill()
        answered = 30 + len(writer.process.stdout.read().splitlines())
    b.mount(attempt=1)  # by its cache, in the attempt under way
    for i in range(answered):
        assert (b.path / f"f{i}").read_bytes() == noise(2000, i), f"f{i} of {answered}"
    for extra in set(os.listdir(b.path)) - {f"f{i}" for i in range(answered)}:
        os.unlink(b.path / extra)  # was being written
    until_seen(pair, {f"f{i}": noise(2000, i) for i in range(answered)})


def test_a_daemon_killed_in_the_middle_of_a_save_loses_no_shard(machines, file_store):
    gang = mount_all(slots(machines, file_store, 3))
    for rank, m in enumerate(gang):
        (m.path / "ckpt-1").mkdir(exist_ok=True)
        write_new(m.path / "ckpt-1" / shard(rank), noise(50_000, rank))
    for m in gang[1:]:
        m.kill()
        m.mount(attempt=1)
    replace(gang[0].path / "ckpt-1" / MARKER, b"marker")  # the barrier was passed
    gang[0].sync()
    wanted = {"ckpt-1": None, f"ckpt-1/{MARKER}": b"marker"}
    wanted |= {f"ckpt-1/{shard(r)}": noise(50_000, r) for r in range(3)}
    new = machines(file_store, ro=True).mount()
    until_seen([*gang, new], wanted)
    judge_moments(gang[0], good_moments(read_log(file_store)), 3)


def test_a_slot_whose_journal_is_damaged_does_not_go_on(pair):
    """What it had not sent may be missing, and the others' marker would be good without it."""
    a, b = pair
    write_new(b.path / "sent", b"x")
    until_sent(b, "sent")
    for i in range(200):
        (b.path / f"unsent-{i}").mkdir()
    b.kill()
    journal = b.cache / "journal"
    data = bytearray(journal.read_bytes())
    data[-8192:-4096] = bytes(4096)
    journal.write_bytes(data)
    with pytest.raises(MountFailed, match=r"attempt=2\b"):
        b.mount(attempt=1)
    assert not a.status()["fenced"], "a mount that is refused ends nobody"


# ---- machines that are lost ----

# Saves that come as fast as these leave unfinished ones behind: those hold nothing back for long.
SAVING = {"patience": "10"}
STEPS = 4


class Lives:
    """A job that loses some of its machines again and again, and goes on with the next attempt."""

    def __init__(self, machines, store, rng, ledger, of):
        self.store = store
        self.rng = rng
        self.ledger = ledger
        self.of = of
        self.gangs = [slots(machines, store, of, **SAVING) for _ in range(2)]
        self.attempt = 0
        self.newest = 0
        self.left = []  # of the attempt before: machines that nobody has told
        self.judged = set()

    def begin(self):
        """The next attempt, with empty caches; some of the one before sleep through that."""
        self.attempt += 1
        self.gang = self.gangs[self.attempt % 2]
        asleep = self.rng.sample(self.left, len(self.left) // 2)
        for m in asleep:
            kill(m.pid, signal.SIGSTOP)
        mount_all(self.gang, self.attempt)
        self.newest = judge_gang(self.gang, self.ledger, self.attempt)
        print(f"attempt {self.attempt} goes on after step {self.newest}", file=sys.stderr)
        for m in asleep:
            kill(m.pid, signal.SIGCONT)

    def steps(self):
        return range(self.newest + 1, self.newest + 1 + STEPS)

    def job(self, acks, **options):
        return Job(self.gang, self.ledger, self.attempt, self.steps(), acks, **options)

    def live(self):
        """Until some machines are lost, at any moment."""
        acks = self.rng.sample(self.steps(), self.rng.randrange(STEPS))
        lost = self.rng.sample(range(self.of), self.rng.randint(1, self.of))
        with self.job(acks, pace=0.2) as job:
            job.reach(self.rng.randrange(2 * STEPS + len(acks)))
            job.run(seconds=self.rng.uniform(0, 0.5))
            print(f"{job.meetings} meetings, then {lost} are lost", file=sys.stderr)
            job.lose(lost, self.rng)
            job.run(seconds=self.rng.uniform(0, 0.5))  # the others do not know it yet
        self.end_the_one_before()
        self.left = [m for rank, m in enumerate(self.gang) if rank not in lost]
        self.judge_log()

    def end_the_one_before(self):
        for m in self.left:
            is_over(m, rf"attempt {self.attempt}\b")
            m.lose()
        self.left = []

    def live_to_the_end(self):
        """Nobody is lost: when all have unmounted all is in the store."""
        with self.job(acks=[self.newest + 1]) as job:
            job.finish()
        self.end_the_one_before()
        for m in self.rng.sample(self.gang, self.of):
            m.umount()
        self.judge_log()
        return self.newest + STEPS

    def judge_log(self):
        """Every moment that was ever good has been whole."""
        records = read_log(self.store)
        judge_fences(records)
        judge_good(records)
        moments = set(good_moments(records))
        judge_moments(self.gang[0], moments - self.judged, self.of)
        self.judged |= moments


def lose_machines(machines, store, rng, directory, of, attempts):
    lives = Lives(machines, store, rng, Ledger(directory / "ledger"), of)
    for _ in range(attempts - 1):
        lives.begin()
        lives.live()
    lives.begin()
    last = lives.live_to_the_end()
    single = machines(store).mount()
    assert judge_gang([single], lives.ledger, attempts) == last, "the last save is not there"


def test_a_job_whose_machines_are_lost_goes_on_with_one_whole_checkpoint(
    machines, file_store, rng, tmp_path
):
    lose_machines(machines, file_store, rng, tmp_path, of=4, attempts=4)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_job_of_many_ranks_goes_on_again_and_again(machines, store, rng, tmp_path):
    lose_machines(machines, store, rng, tmp_path, of=16, attempts=40)
