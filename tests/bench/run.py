#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench: the mount against its own disk and against plain requests to the same server.

Figures are ratios in one run, medians of several with their spread.  A bound that is missed is
shown and fails nothing: this is no test.  Wants an optimised build without sanitizers.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

from bench import benches, report  # noqa: E402 (found by the line above)
from bench.rig import MIB, Rig  # noqa: E402


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("bench", nargs="*", help="which (all): " + ", ".join(benches.ALL))
    p.add_argument("--quick", action="store_true", help="each once, with a quarter of the bytes")
    p.add_argument("-n", type=int, default=5, help="times each (5)")
    p.add_argument("--size", type=int, default=2048, metavar="MIB", help="of a save (2048)")
    p.add_argument("--json", metavar="FILE", help="the figures, too")
    p.add_argument("--disk", default="/var/tmp", metavar="DIR", help="where caches lie (/var/tmp)")
    p.add_argument("--build", default=TOP / "build", metavar="DIR", help="where make made the programs")
    args = p.parse_args()
    for name in args.bench:
        if name not in benches.ALL:
            p.error(f"no bench {name}; there are {', '.join(benches.ALL)}")
    if args.quick:
        args.n, args.size = 1, args.size // 4
    return args


def is_sanitized(program):
    """Then figures say nothing."""
    return b"__asan_init" in program.read_bytes() or b"__tsan_init" in program.read_bytes()


def find_programs(build):
    build = pathlib.Path(build).resolve()
    program = pathlib.Path(os.environ.get("HOLDFAST") or build / "holdfast")
    plain = build / "tests" / "bench" / "plain"
    versitygw = os.environ.get("VERSITYGW") or shutil.which(
        "versitygw", path=f"{TOP / '.tools' / 'bin'}:{os.environ['PATH']}"
    )
    for path, cure in ((program, "./bootstrap build"), (plain, "make bench")):
        if not path.exists():
            sys.exit(f"bench: {path} is not there; {cure} makes it")
    if not versitygw:
        sys.exit("bench: no versitygw; ./bootstrap check brings it")
    if is_sanitized(program):
        print(f"bench: {program} has sanitizers in it: do not quote these figures", file=sys.stderr)
    return program, plain, versitygw


def main():
    args = arguments()
    figures = []
    with Rig(*find_programs(args.build), args.disk, args.n, args.size * MIB) as rig:
        for name in args.bench or benches.ALL:
            bench = benches.ALL[name]
            found = bench(rig)
            figures += [f.as_json(name) for f in found]
            print(report.table(f"{name}: {bench.__doc__}", found), end="\n\n", flush=True)
            if args.json:
                pathlib.Path(args.json).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
