#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that saves as torch DCP does: a shard of its own, the marker by rank 0.

    dcp_rank.py DIRECTORY LEDGER --rank R --of N --attempt K --first STEP --last STEP
                [--acks STEP,...] [--program HOLDFAST] [--pace SECONDS]

Where all ranks have to meet it prints a line, and goes on at a line of standard input.  Of the
steps in --acks rank 0 does not go on before `holdfast sync` has said that they are safe.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib.content import noise, replace  # noqa: E402
from lib.dcp import ACKNOWLEDGED, MARKER, attempt_of, shard  # noqa: E402
from lib.oracle import Ledger, digest_bytes  # noqa: E402

KEEP = 2


def meet(place, step):
    print(place, step, flush=True)
    if not sys.stdin.readline():
        sys.exit(f"nobody is there any more at {place} {step}")


class Trainer:
    def __init__(self, args):
        self.args = args
        self.ledger = Ledger(args.ledger)
        self.rng = random.Random(f"{args.attempt}/{args.rank}")

    def directory(self, step):
        return pathlib.Path(self.args.directory, "run", f"ckpt-{step}")

    def train(self):
        """No two ranks are as quick."""
        time.sleep(self.rng.uniform(0, self.args.pace))

    def plan(self, step, name, data):
        self.ledger.plan(step, {name: digest_bytes(data)}, of=attempt_of(self.args.attempt))

    def write_shard(self, step):
        """Some go into records and some into packs; in two pieces, to be killed in between."""
        args = self.args
        size = 40_000 if args.rank % 3 == 1 else 3000
        data = noise(size + args.rank, f"{args.attempt}/{step}/{args.rank}")
        self.plan(step, shard(args.rank), data)
        self.directory(step).mkdir(parents=True, exist_ok=True)
        with open(self.directory(step) / shard(args.rank), "wb", buffering=0) as f:
            f.write(data[: size // 2])
            f.write(data[size // 2 :])

    def write_marker(self, step):
        words = {"attempt": self.args.attempt, "step": step, "of": self.args.of}
        data = json.dumps(words).encode()
        self.plan(step, MARKER, data)
        replace(self.directory(step) / MARKER, data)

    def acknowledge(self, step):
        subprocess.run([self.args.program, "sync", self.args.directory], check=True)
        self.ledger.add(step, {}, of=ACKNOWLEDGED)

    def rotate(self, step):
        """The marker first: half of what is left may be seen if this process is held up here."""
        for old in self.directory(step).parent.glob("ckpt-*"):
            if int(old.name.rpartition("-")[2]) <= step - KEEP:
                (old / MARKER).unlink(missing_ok=True)
                shutil.rmtree(old)

    def save(self, step):
        first = self.args.rank == 0
        self.train()
        self.write_shard(step)
        meet("shards", step)
        if first:
            self.write_marker(step)
        meet("marker", step)
        if step in self.args.acks:
            if first:
                self.acknowledge(step)
            meet("acknowledged", step)
        if first:
            self.rotate(step)


def steps(text):
    return [int(word) for word in text.split(",") if word]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("directory")
    p.add_argument("ledger")
    for name in ("rank", "of", "attempt", "first", "last"):
        p.add_argument(f"--{name}", type=int, required=True)
    p.add_argument("--acks", type=steps, default=[])
    p.add_argument("--program", default="holdfast")
    p.add_argument("--pace", type=float, default=0)
    args = p.parse_args()
    trainer = Trainer(args)
    for step in range(args.first, args.last + 1):
        trainer.save(step)


main()
