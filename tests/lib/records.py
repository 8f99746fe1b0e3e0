# SPDX-License-Identifier: Apache-2.0
"""The log of a store as it lies there, and the rules of holdfast-store(5) that a group keeps.

Nothing of the program under test is used: what it says of itself is not believed.
"""

import dataclasses
import itertools
import os
import struct

KINDS = {1: "commit", 2: "join", 3: "reset", 4: "condemn", 5: "pin", 6: "unpin", 7: "stub"}
FENCES = ("join", "reset")
RELEASE = 2
LAST = 10**20 - 1
HEAD = struct.Struct("<4sHH16sQ16sBxHHHIQQqQQQQ")


@dataclasses.dataclass(frozen=True)
class Record:
    number: int
    kind: str
    released: bool
    slot: int
    slots: int
    attempt: int
    fence: int
    good: int
    calm: int
    base_upto: int

    def __str__(self):
        return f"record {self.number} ({self.kind} of slot {self.slot} in attempt {self.attempt})"


def decode(raw):
    (magic, _, _, _, number, _, kind, flags, slot, slots, attempt, fence, _, _, _, good, calm, base) = (
        HEAD.unpack_from(raw)
    )
    assert magic == b"HFLG", raw[:8]
    return Record(
        number, KINDS[kind], bool(flags & RELEASE), slot, slots, attempt, fence, good, calm, base
    )


def read_log(store):
    """Every record, oldest first."""
    directory = store.path_of("log")
    names = sorted((n for n in os.listdir(directory) if n.isdigit() and len(n) == 20), reverse=True)
    records = [decode((directory / name).read_bytes()) for name in names]
    assert [r.number for r in records] == [LAST - int(n) for n in names], "names and numbers differ"
    assert [r.number for r in records] == list(range(1, len(records) + 1)), "the log has a gap"
    return records


def judge_fences(records):
    """Each attempt is reset once, a slot has one writer at a time, none writes after its end."""
    reset, writers = None, {}
    for r in records:
        if r.kind == "reset":
            assert not reset or r.attempt > reset.attempt, f"{r}: attempt {reset.attempt} was there"
            reset, writers = r, {r.slot: r.number}
        assert reset, f"{r} before any reset"
        assert (r.attempt, r.slots) == (reset.attempt, reset.slots), f"{r} after {reset}"
        if r.kind == "join":
            assert r.slot not in writers, f"{r}: record {writers[r.slot]} is the slot's writer"
            writers[r.slot] = r.number
        assert r.fence == writers.get(r.slot), f"{r} with the fence {r.fence}, which is over"
        if r.released:
            del writers[r.slot]


def judge_good(records):
    """The good moment goes back by a reset only, and stays on the branch that it began."""
    reset = records[0]
    for was, r in itertools.pairwise(records):
        if r.kind == "reset":
            reset = r
            continue
        assert r.good >= was.good, f"{r} moves good back from {was.good} to {r.good}"
        assert r.good == reset.good or r.good >= reset.number, f"{r}: {r.good} was left by {reset}"


def good_moments(records):
    """Whatever was the good moment at any time, oldest first."""
    return sorted({r.good for r in records if r.good})
