#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fuzzing trainer: random saves, random deaths, a random link, and a judge after each restore.

    fuzz.py [--seed N] [--rounds K] [--run R] [--ranks N] [--store file|s3|both] [--keep DIR]
            [--first]

A round is a death and what is found after it.  A run is a store with some rounds; run R of seed N
makes the same calls and dies after the same ones whenever it is made again, as far as time lets it:
`--seed N --run R` is that run alone.  HOLDFAST and VERSITYGW name the programs.
"""

import argparse
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib.machine import MountFailed  # noqa: E402
from trainer.judge import Wrong  # noqa: E402
from trainer.line import now_s  # noqa: E402
from trainer.run import make_run  # noqa: E402


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing is left behind
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    p.add_argument("--rounds", type=int, default=20)
    p.add_argument("--run", type=int)
    p.add_argument("--ranks", type=int, help="of each run; random otherwise")
    p.add_argument("--first", action="store_true", help="end with the first that is wrong")
    p.add_argument("--store", choices=["file", "s3", "both"], default="both")
    p.add_argument("--keep", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()))
    a = p.parse_args()
    program = os.environ["HOLDFAST"]
    print(f"seed {a.seed}", flush=True)
    rounds = wrong = 0
    number = a.run or 0
    began_s = now_s()
    while rounds < a.rounds:
        kind = ["file", "s3"][number % 2] if a.store == "both" else a.store
        where = a.keep / f"fuzz-{a.seed}-{number}"
        shutil.rmtree(where, ignore_errors=True)
        try:
            run = make_run(f"{a.seed}/{number}", program, kind, where, ranks=a.ranks)
            rounds += run.rounds
            calls = sum(line.made for line in run.lines)
            pace_s = (now_s() - began_s) / rounds
            said = f"{run.of} ranks, {calls} calls; {pace_s:.2f} s a round"
            print(f"run {number} {kind}: {said}", flush=True)
            shutil.rmtree(where)
        except Exception as e:
            wrong += 1
            rounds += 1
            found = isinstance(e, (AssertionError, MountFailed, OSError))
            verdict = "WRONG" if found else "BROKEN"  # the trainer itself
            print(
                f"{verdict}: --seed {a.seed} --run {number} --store {kind}: {where}\n{e}",
                flush=True,
            )
            if not isinstance(e, Wrong):
                traceback.print_exc()
        if a.run is not None or (wrong and a.first):
            break
        number += 1
    print(f"{rounds} rounds, {wrong} wrong", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
