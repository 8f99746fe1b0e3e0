# SPDX-License-Identifier: Apache-2.0
"""The outside oracle: what a writer noted off the mount decides what a restore may show.

A ledger is a file of JSON lines, each one synced before the writer goes on:

    {"kind": "plan", "of": SET, "state": N, "tree": {NAME: SHA256}}           what save N will write
    {"kind": "state", "of": SET, "state": N, "tree": {PATH: SHA256 or ...}}   what is there after it
    {"kind": "begin", "of": "", "tree": {SET: SHA256 or null}}                what a new run has found

SET tells apart what is judged each by itself (a directory a style of saving).
"""

import hashlib
import json
import os
import pathlib


def digest_bytes(data):
    return hashlib.sha256(data).hexdigest()


def digest(path):
    """The content of a file, with nothing of it believed."""
    whole = hashlib.sha256()
    with open(path, "rb") as f:
        while piece := f.read(1 << 20):
            whole.update(piece)
    return whole.hexdigest()


def tree_of(root):
    """{path below root: digest, "-> TARGET", "/" or "special MODE"}; directories count too."""
    found = {}
    for directory, directories, files in os.walk(root):
        here = pathlib.Path(directory)
        for name in directories + files:
            path = here / name
            key = str(path.relative_to(root))
            if path.is_symlink():
                found[key] = "-> " + os.readlink(path)
            elif path.is_dir():
                found[key] = "/"
            elif not path.is_file():
                found[key] = f"special {path.stat().st_mode:o}"
            else:
                found[key] = digest(path)
    return found


def differences(was, now):
    """For people: what two trees do not share, at most a screen of it."""
    lines = []
    for key in sorted(was.keys() | now.keys()):
        if was.get(key) != now.get(key):
            lines.append(
                f"  {key}: {was.get(key, 'absent')[:12]} became {now.get(key, 'absent')[:12]}"
            )
    return "\n".join(lines[:30])


class Ledger:
    """What was planned and completed, in order.  The writer's side adds, the judge's side reads."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    # ---- the writer ----

    def _append(self, **line):
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(fd, json.dumps(line).encode() + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)

    def plan(self, state, tree, of=""):
        self._append(kind="plan", of=of, state=state, tree=tree)

    def add(self, state, tree, of="", **noted):
        self._append(kind="state", of=of, state=state, tree=tree, **noted)

    def begin(self, tree):
        self._append(kind="begin", of="", tree=tree)

    def next_number(self, of=""):
        """One more than any that was planned, also by a writer before us."""
        return max((line["state"] for line in self.plans(of)), default=0) + 1

    # ---- the judge ----

    def lines(self):
        if not self.path.exists():
            return []
        with open(self.path, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]

    def last(self):
        return self.lines()[-1]

    def _lines(self, kind, of):
        return [line for line in self.lines() if line["kind"] == kind and line["of"] == of]

    def plans(self, of=""):
        return self._lines("plan", of)

    def states(self, of=""):
        return self._lines("state", of)

    def begins(self):
        return self._lines("begin", "")

    def judge(self, root, of="", empty=False):
        """The newest state that the tree under root is; AssertionError where it is none.

        `empty`: nothing at all is allowed as well (and is None).
        """
        seen = tree_of(root)
        states = self.states(of)
        for state in reversed(states):
            if state["tree"] == seen:
                return state["state"]
        if empty and not seen:
            return None
        near = states[-1] if states else {"state": "none", "tree": {}}
        raise AssertionError(
            f"{root} is none of the {len(states)} states of {of or 'the run'}; from the last, "
            f"{near['state']}:\n{differences(near['tree'], seen)}"
        )
