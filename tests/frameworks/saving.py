# SPDX-License-Identifier: Apache-2.0
"""What the savers of real frameworks share: rounds of saves, and a ledger off the mount.

    SAVERS.py write DIR LEDGER [--rounds N] [--only NAME] [--megabytes N] [--pause SECONDS]
    SAVERS.py load DIR [--only NAME]

write loads what there is, then saves one state after the other, each saver in a directory of its
own, until its rounds are over or it is killed.  The ledger gets the digest of what was found, and
each state's before it is saved, and again when the save is complete, with how long the trainer
was held up.  load prints {saver: digest of what its framework loads, or null for nothing}.
"""

import argparse
import contextlib
import hashlib
import json
import pathlib
import random
import stat
import sys
import time
import zlib

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib.oracle import Ledger  # noqa: E402


def digest(arrays):
    """Of {name: array}: names, types, shapes and bytes."""
    whole = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        array = np.ascontiguousarray(array)
        whole.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    return whole.hexdigest()


class Enough(Exception):
    """All rounds are over; ends the loop of a framework that has its own."""


class Notes:
    """What is noted of one saver's saves: begin(), the save, end()."""

    def __init__(self, ledger, saver, directory):
        self.ledger = ledger
        self.of = saver.name
        self.directory = directory
        self.began = None  # the newest state's number, digest and instants

    def begin(self, arrays, n=None):
        n = n or self.ledger.next_number(self.of)
        tree = {"digest": digest(arrays)}
        self.ledger.plan(n, tree, of=self.of)
        self.began = (n, tree, time.time_ns(), time.monotonic())

    def held_up(self):
        """Seconds since begin()."""
        return time.monotonic() - self.began[3]

    def end(self, stall_s=None):
        n, tree, since_ns, _ = self.began
        took = self.held_up()
        size = written_since(self.directory, since_ns)
        noted = {"bytes": size, "stall_s": stall_s or took, "took_s": took}
        self.ledger.add(n, tree, of=self.of, **noted)


def written_since(directory, since_ns):
    """Bytes of all files there that are not older; a clock tick may be 10 ms behind."""
    total = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # some delete in the background
            s = path.lstat()
            if stat.S_ISREG(s.st_mode) and s.st_mtime_ns >= since_ns - 20_000_000:
                total += s.st_size
    return total


class Saver:
    """One way in which a framework saves and loads.  A state is what the framework calls one."""

    name = None
    rows = 400  # of two arrays with 500 columns, so 1.6 MB

    def arrays(self, n):
        """The same {name: array} for the same n; another size for another."""
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), n])
        shape = (self.rows + n % 5, 500)
        shapes = {"weight": shape, "bias": (500,), "moment": shape}
        return {name: rng.random(size, "f4") for name, size in shapes.items()}

    def make(self, n):
        """State n."""
        return self.arrays(n)

    def seen(self, state):
        """The {name: array} by which states are compared."""
        return state

    def save(self, directory, n, state):
        raise NotImplementedError

    def finish(self):
        """Returns when a save that goes on in the background is complete."""

    def load(self, directory):
        """The newest state there, or None."""
        raise NotImplementedError


class Looped(Saver):
    """A framework with a loop of its own, which finds by itself where to go on."""

    def run(self, directory, loop):
        """Trains until `loop` has enough."""
        raise NotImplementedError


def number(path):
    """42 of checkpoint-42.pt."""
    return int("".join(c for c in path.name if c.isdigit()))


def newest(directory, pattern):
    return max(directory.glob(pattern), key=number, default=None)


# ---- the program ----


def find(saver, directory):
    """The digest of what its framework loads there, or None."""
    state = saver.load(directory) if directory.exists() else None
    return digest(saver.seen(state)) if state is not None else None


def find_all(savers, root):
    return {saver.name: find(saver, root / saver.name) for saver in savers}


def save_one(saver, directory, notes):
    n = notes.ledger.next_number(saver.name)
    state = saver.make(n)
    notes.begin(saver.seen(state), n)
    saver.save(directory, n, state)
    stall_s = notes.held_up()
    saver.finish()
    notes.end(stall_s)


def train(pause):
    """A trainer does something else, too."""
    time.sleep(random.uniform(pause, 2 * pause))


class Loop:
    """What a framework's own loop tells: what it resumed with, and its saves."""

    def __init__(self, notes, found, rounds, pause):
        self.notes = notes
        self.found = found
        self.rounds = rounds
        self.pause = pause

    def begins(self, arrays):
        assert self.found in (None, digest(arrays)), "it does not go on from what can be loaded"

    def save(self, arrays, save):
        self.notes.begin(arrays)
        save()
        self.notes.end()
        self.rounds -= 1
        if not self.rounds:
            raise Enough
        train(self.pause)


def write(savers, a):
    ledger = Ledger(a.ledger)
    found = find_all(savers, a.directory)
    ledger.begin(found)
    for saver in savers:
        saver.rows = int(a.megabytes * 250)
        (a.directory / saver.name).mkdir(exist_ok=True)
    if isinstance(savers[0], Looped):
        [saver] = savers
        directory = a.directory / saver.name
        notes = Notes(ledger, saver, directory)
        with contextlib.suppress(Enough):
            saver.run(directory, Loop(notes, found[saver.name], a.rounds or -1, a.pause))
        return
    for _ in range(a.rounds or sys.maxsize):
        for saver in savers:
            directory = a.directory / saver.name
            save_one(saver, directory, Notes(ledger, saver, directory))
        train(a.pause)


def load(savers, a):
    print(json.dumps(find_all(savers, a.directory)))


def main(savers):
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("write")
    verb.add_argument("directory", type=pathlib.Path)
    verb.add_argument("ledger")
    verb.add_argument("--rounds", type=int)
    verb.add_argument("--megabytes", type=float, default=1.6, help="a state, where one can choose")
    verb.add_argument("--pause", type=float, default=0.3, help="between saves, up to twice that")
    verb.set_defaults(do=write)
    verb = verbs.add_parser("load")
    verb.add_argument("directory", type=pathlib.Path)
    verb.set_defaults(do=load)
    for verb in verbs.choices.values():
        verb.add_argument("--only", help="one saver of them")
    a = parser.parse_args()
    a.do([saver() for saver in savers if a.only in (None, saver.name)], a)
