# SPDX-License-Identifier: Apache-2.0
"""A job that saves as torch DCP does, its ranks on machines of their own, and its judge.

Each rank is a program (mount/dcp_rank.py) on its machine's mount; whoever starts the job is the
barrier between them.  A ledger off the mounts has what each save was to be and what rank 0 was
told to be safe: of={attempt_of(K)} the plans, of=ACKNOWLEDGED the states.
"""

import os
import pathlib
import selectors
import subprocess
import sys
import time

from lib.gang import at_once, paths_at
from lib.oracle import differences, tree_of
from lib.procs import HANGS_S, Group

RANK = pathlib.Path(__file__).parent.with_name("mount") / "dcp_rank.py"
ACKNOWLEDGED = "acknowledged"
MARKER = ".metadata"


def attempt_of(number):
    return f"attempt {number}"


def shard(rank):
    return f"__{rank}_0.distcp"


# ---- the job ----


class Rank:
    """A trainer; `waits` is where it waits for the others, or empty."""

    def __init__(self, machine, arguments):
        self.machine = machine
        self.errors = machine.root / "trainer"
        self.waits = ""
        with open(self.errors, "ab") as errors:
            self.process = Group(
                [sys.executable, str(RANK), str(machine.path), *map(str, arguments)],
                env=machine.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self.output = self.process.process.stdout

    def hear(self):
        """One line, since it waits after each; False: it has ended."""
        said = self.output.readline().decode()
        self.waits = said.strip()
        return said.endswith("\n")

    def go_on(self):
        self.waits = ""
        os.write(self.process.process.stdin.fileno(), b"\n")

    def story(self):
        return f"{self.machine.root.name}: {self.errors.read_text()[-2000:]}"


class Job:
    """All ranks of one attempt, each in its process."""

    def __init__(self, gang, ledger, attempt, steps, acks=(), pace=0.0):
        self.gang = gang
        self.meetings = 0
        self.disturbed = False
        common = [ledger.path, "--of", len(gang), "--attempt", attempt]
        common += ["--first", steps[0], "--last", steps[-1], "--pace", pace]
        common += ["--program", gang[0].program, "--acks", ",".join(map(str, acks))]
        self.ranks = [Rank(m, [*common, "--rank", r]) for r, m in enumerate(gang)]
        self.selector = selectors.DefaultSelector()
        for rank in self.ranks:
            self.selector.register(rank.output, selectors.EVENT_READ, rank)

    def run(self, meetings=None, seconds=2 * HANGS_S):
        """Until all have ended (True), or have met so often or for so long (False)."""
        end = time.monotonic() + seconds
        while self.selector.get_map():
            left = end - time.monotonic()
            if left <= 0 or (meetings is not None and self.meetings >= meetings):
                return False
            for key, _ in self.selector.select(left):
                self.hear(key.data)
            if all(rank.waits for rank in self.ranks):
                self.meet()
        return True

    def waits(self):
        return ", ".join(f"{r}: {rank.waits or 'is busy'}" for r, rank in enumerate(self.ranks))

    def reach(self, meetings):
        """Until they have met so often."""
        self.run(meetings)
        assert self.meetings == meetings, f"wanted {meetings} meetings: {self.waits()}"

    def finish(self):
        assert self.run(), f"the ranks do not come to their end: {self.waits()}"

    def hear(self, rank):
        if rank.hear():
            return
        self.forget(rank)
        status = rank.process.wait(HANGS_S)
        assert status == 0 or self.disturbed, f"rank ended with {status}: {rank.story()}"

    def forget(self, rank):
        """It has ended, whatever it said before."""
        rank.waits = ""
        if rank.output in self.selector.get_map():
            self.selector.unregister(rank.output)

    def meet(self):
        places = {rank.waits for rank in self.ranks}
        assert len(places) == 1, f"ranks meet at different places: {places}"
        self.meetings += 1
        for rank in self.ranks:
            rank.go_on()

    def lose(self, numbers, rng):
        """These machines, each with its trainer, its mount and its cache, one after the other."""
        self.disturbed = True
        for number in numbers:
            rank, machine = self.ranks[number], self.gang[number]
            for kill in rng.sample([rank.process.kill, machine.kill], 2):
                kill()
            machine.wipe()
            self.forget(rank)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.process.__exit__()
        self.selector.close()


# ---- the judge ----


def torn_saves(paths, of):
    """Directories of these paths that have the marker and not every shard, and what they lack."""
    torn = {}
    for path in sorted(paths):
        directory, _, name = path.rpartition("/")
        lacks = [s for s in map(shard, range(of)) if f"{directory}/{s}" not in paths]
        if name == MARKER and lacks:
            torn[directory] = lacks
    return torn


def judge_moments(m, moments, of):
    """None of these commits has a marker without the shards of all ranks."""
    for number in moments:
        torn = torn_saves(paths_at(m, number), of)
        assert not torn, f"commit {number} was good, and has a marker without these: {torn}"


def planned(ledger, step, attempts):
    """Every {name: digest} that a save of that step may have left, one for each attempt."""
    plans = []
    for attempt in range(1, attempts + 1):
        plan = {}
        for line in ledger.plans(attempt_of(attempt)):
            if line["state"] == step:
                plan |= line["tree"]
        plans.append(plan)
    return plans


def judge_tree(tree, ledger, attempts):
    """Each save that is marked is, byte for byte, one that was planned.  The newest step, or 0."""
    newest = 0
    for marker in (path for path in tree if path.endswith(f"/{MARKER}")):
        directory = os.path.dirname(marker)
        step = int(directory.rpartition("-")[2])
        found = {
            os.path.basename(path): seen
            for path, seen in tree.items()
            if os.path.dirname(path) == directory
        }
        plans = planned(ledger, step, attempts)
        near = next((p for p in plans if p.get(MARKER) == found[MARKER]), {})
        assert found in plans, (
            f"{directory} is marked, and is no save of that step:\n{differences(near, found)}"
        )
        newest = max(newest, step)
    return newest


def judge_gang(gang, ledger, attempts):
    """All ranks see one tree, its newest save is whole, and none that was acknowledged is lost."""
    trees = at_once(lambda m: tree_of(m.path), gang)
    for m, tree in zip(gang, trees, strict=True):
        assert tree == trees[0], (
            f"{m.root.name} does not see what {gang[0].root.name} sees:\n"
            f"{differences(trees[0], tree)}"
        )
    asides = [path for path in trees[0] if "~slot" in path]
    assert not asides, f"no two ranks wrote one file, and yet there is {asides}"
    newest = judge_tree(trees[0], ledger, attempts)
    acknowledged = max((s["state"] for s in ledger.states(ACKNOWLEDGED)), default=0)
    assert newest >= acknowledged, (
        f"step {acknowledged} was acknowledged, and the newest that is marked is {newest}"
    )
    return newest
