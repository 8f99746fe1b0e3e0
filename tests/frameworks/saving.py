# SPDX-License-Identifier: Apache-2.0
"""What the savers of real frameworks share: rounds of saves, and a ledger off the mount.

    SAVERS.py write DIR LEDGER [--rounds N] [--only NAME] [--megabytes N] [--restless]
    SAVERS.py load DIR

write loads what there is, then saves one state after the other, each saver in a directory of its
own, until its rounds are over or it is killed.  The ledger gets the digest of what was found, and
each state's before it is saved, and again when the save is complete, with how long the trainer
was held up.  load prints {saver: digest of what its framework loads, or null for nothing}.
"""

import argparse
import hashlib
import json
import pathlib
import random
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


def save_one(saver, directory, ledger):
    n = ledger.next_number(saver.name)
    state = saver.make(n)
    seen = saver.seen(state)
    tree = {"digest": digest(seen)}
    ledger.plan(n, tree, of=saver.name)
    start = time.monotonic()
    saver.save(directory, n, state)
    held_up = time.monotonic() - start
    saver.finish()
    took = time.monotonic() - start
    size = sum(array.nbytes for array in seen.values())
    ledger.add(n, tree, of=saver.name, bytes=size, stall_s=held_up, took_s=took)


def write(savers, a):
    ledger = Ledger(a.ledger)
    ledger.begin(find_all(savers, a.directory))
    for saver in savers:
        saver.rows = int(a.megabytes * 250)
        (a.directory / saver.name).mkdir(exist_ok=True)
    for _ in range(a.rounds or sys.maxsize):
        for saver in savers:
            save_one(saver, a.directory / saver.name, ledger)
        if not a.restless:  # a trainer trains, too
            time.sleep(random.uniform(0.3, 0.6))


def load(savers, a):
    print(json.dumps(find_all(savers, a.directory)))


def main(savers):
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("write")
    verb.add_argument("directory", type=pathlib.Path)
    verb.add_argument("ledger")
    verb.add_argument("--rounds", type=int)
    verb.add_argument("--only", help="one saver of them")
    verb.add_argument("--megabytes", type=float, default=1.6, help="a state, where one can choose")
    verb.add_argument("--restless", action="store_true", help="no moment is quiet")
    verb.set_defaults(do=write)
    verb = verbs.add_parser("load")
    verb.add_argument("directory", type=pathlib.Path)
    verb.set_defaults(do=load)
    a = parser.parse_args()
    a.do([saver() for saver in savers if getattr(a, "only", None) in (None, saver.name)], a)
