#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the judge see a bug?  The program is built with one after the other, and tried.

    mutants.py BUILD-DIRECTORY [--rounds N] [--only NAME ...]

The tree is left alone: a copy is made, with the CFLAGS of BUILD-DIRECTORY.  A mutant that lives
through N rounds is one that the trainer or the judge is blind for.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
FUZZ = pathlib.Path(__file__).with_name("fuzz.py")

# name: (file, what stands there, what is put there)
MUTANTS = {
    "a killed writer's close seals": (
        "fs/file.c",
        "kind = tid ? death_of(tid, m->death_detection) : CLOSE_CLEAN;",
        "kind = CLOSE_CLEAN;",
    ),
    "anybody's close seals": (
        "fs/file.c",
        "bool wrote_last = !tid || !f->writer_tgid || f->writer_tgid == tgid;",
        "bool wrote_last = true;",
    ),
    "every moment is quiet": (
        "fs/moment.c",
        "if (m->last_change_ns + m->opts.policy.quiet_ns > now)\n\t\treturn false;",
        "return true;",
    ),
    "what is being written is public": (
        "fs/moment.c",
        "if (f->changed && !f->live_is_sealed && (file_is_sealed(m, n, now) || file_is_log(m, n, now))) {",
        "if (f->changed && !f->live_is_sealed) {",
    ),
    "a view does not keep its bytes": (
        "fs/cache/content.c",
        "int rc = views_preserve(c, from, to);",
        "int rc = 0;",
    ),
    "a rename shows an unsealed file": (
        "fs/moment.c",
        "if (e->id && n && !node_publishable(m, n, now))",
        "if (false)",
    ),
    "a name that was cut comes back": (
        "fs/moment.c",
        "return e->cut ? (struct name_rec){.id = 0} : e->base;",
        "return e->base;",
    ),
    "a removed name stays in the store": (
        "fs/moment.c",
        "if (is.id == e->base.id)\n\t\t\tcontinue;",
        "if (is.id == e->base.id || is.id == 0)\n\t\t\tcontinue;",
    ),
    "half a set is good": (
        "fs/track/vouch.c",
        "\tjudge_growth(&j);\n",
        "",
    ),
    "a deletion is good": (
        "fs/track/vouch.c",
        "\tjudge_loss(&j);\n",
        "",
    ),
    "sync does not wait": (
        "fs/commit.c",
        "while (c->durable_seq < want) {",
        "while (c->durable_seq + 50 < want) {",
    ),
    "the newest commit is continued": (
        "fs/start.c",
        "*target = x->newest ? x->good : 0;",
        "*target = x->newest;",
    ),
    "a replay takes all as sealed": (
        "fs/replay.c",
        "\tx->dirty = true;\n\tx->sealed = false;\n\tx->only_grown",
        "\tx->dirty = true;\n\tx->only_grown",
    ),
    "a replay forgets that a log is one": (
        "fs/replay.c",
        "file->only_grown = x->only_grown;",
        "file->only_grown = false;",
    ),
    "a replay forgets removals": (
        "fs/replay.c",
        "name->id = rec.id;\n",
        "name->id = rec.id ? rec.id : name->id;\n",
    ),
    "extended attributes are not stored": (
        "fs/moment.c",
        "mn->rec.xattr_n = n->xattr_n;",
        "mn->rec.xattr_n = 0;",
    ),
    "a set time is not stored": (
        "fs/moment.c",
        "mn->rec.attr.mtime_ns = f->sealed_attr.mtime_ns;",
        "mn->rec.attr.mtime_ns = f->sealed_attr.mtime_ns + 1;",
    ),
}


class Copy:
    """Of the source and the build, in which one file at a time is another."""

    def __init__(self, build, where):
        self.where = where
        self.source, self.build = where / "source", where / "build"
        shutil.copytree(TOP, self.source, ignore=shutil.ignore_patterns(".git", "autom4te.cache"))
        self.build.mkdir()
        flags = [
            re.match(r"^CFLAGS = (.*)$", line).group(1)
            for line in (build / "Makefile").read_text().splitlines()
            if line.startswith("CFLAGS = ")
        ]
        sanitize = "--enable-sanitize=address,undefined"
        self.run(self.source / "configure", "-q", sanitize, f"CFLAGS={flags[0]}")
        self.run("make", "-j2", "holdfast")

    def run(self, *command):
        subprocess.run(command, cwd=self.build, check=True, capture_output=True)

    def mutate(self, file, old, new):
        path = self.source / file
        text = path.read_text()
        assert text.count(old) == 1, f"{file} has {text.count(old)} times: {old}"
        path.write_text(text.replace(old, new))
        try:
            self.run("make", "-j2", "holdfast")
        finally:
            path.write_text(text)

    def is_seen(self, seed, rounds):
        """What the judge said, or None."""
        done = subprocess.run(
            [sys.executable, FUZZ, "--seed", str(seed), "--rounds", str(rounds), "--first"]
            + ["--keep", str(self.where / "runs")],
            env=os.environ | {"HOLDFAST": str(self.build / "holdfast")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "rounds," in done.stdout, f"the trainer itself has failed: {done.stderr[-1000:]}"
        said = done.stdout.split("WRONG:", 1)
        return said[1].split("\n", 1)[1].strip().splitlines()[0] if len(said) > 1 else None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("build", type=pathlib.Path)
    p.add_argument("--rounds", type=int, default=60)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", nargs="*", default=list(MUTANTS))
    a = p.parse_args()
    unseen = []
    with tempfile.TemporaryDirectory(prefix="holdfast-mutants-") as where:
        copy = Copy(a.build.resolve(), pathlib.Path(where))
        for name, mutant in MUTANTS.items():
            if name not in a.only:
                continue
            copy.mutate(*mutant)
            said = copy.is_seen(a.seed, a.rounds)
            print(
                f"{'seen' if said else 'UNSEEN'}: {name}: {said or f'{a.rounds} rounds'}",
                flush=True,
            )
            unseen += [] if said else [name]
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
