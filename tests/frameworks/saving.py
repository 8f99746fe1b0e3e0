# SPDX-License-Identifier: Apache-2.0
"""What the savers of real frameworks share: rounds of saves, and a ledger off the mount.

    SAVERS.py write DIR LEDGER [--rounds N] [--only NAME] [--restless]
    SAVERS.py load DIR

write saves one state after the other, each saver in a directory of its own, until its rounds are
over or it is killed.  The ledger gets each state's digest before it is saved, and again when the
save has returned.  load prints {saver: digest of what its framework loads, or null for nothing}.
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

    def arrays(self, n):
        """The same {name: array} for the same n; another size for another."""
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), n])
        shapes = {"weight": (400 + n % 5, 500), "bias": (500,), "moment": (400 + n % 5, 500)}
        return {name: rng.normal(size=size).astype("f4") for name, size in shapes.items()}

    def make(self, n):
        """State n."""
        return self.arrays(n)

    def seen(self, state):
        """The {name: array} by which states are compared."""
        return state

    def save(self, directory, n, state):
        raise NotImplementedError

    def load(self, directory):
        """The newest state there, or None."""
        raise NotImplementedError


def number(path):
    """42 of checkpoint-42.pt."""
    return int("".join(c for c in path.name if c.isdigit()))


def newest(directory, pattern):
    return max(directory.glob(pattern), key=number, default=None)


# ---- the program ----


def save_one(saver, root, ledger):
    directory = root / saver.name
    directory.mkdir(exist_ok=True)
    n = ledger.next_number(saver.name)
    state = saver.make(n)
    tree = {"digest": digest(saver.seen(state))}
    ledger.plan(n, tree, of=saver.name)
    saver.save(directory, n, state)
    ledger.add(n, tree, of=saver.name)


def write(savers, a):
    ledger = Ledger(a.ledger)
    for _ in range(a.rounds or sys.maxsize):
        for saver in savers:
            save_one(saver, a.directory, ledger)
        if not a.restless:  # a trainer trains, too
            time.sleep(random.uniform(0.3, 0.6))


def load(savers, a):
    found = {}
    for saver in savers:
        directory = a.directory / saver.name
        state = saver.load(directory) if directory.exists() else None
        found[saver.name] = digest(saver.seen(state)) if state is not None else None
    print(json.dumps(found))


def main(savers):
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("write")
    verb.add_argument("directory", type=pathlib.Path)
    verb.add_argument("ledger")
    verb.add_argument("--rounds", type=int)
    verb.add_argument("--only", help="one saver of them")
    verb.add_argument("--restless", action="store_true", help="no moment is quiet")
    verb.set_defaults(do=write)
    verb = verbs.add_parser("load")
    verb.add_argument("directory", type=pathlib.Path)
    verb.set_defaults(do=load)
    a = parser.parse_args()
    a.do([saver() for saver in savers if getattr(a, "only", None) in (None, saver.name)], a)
