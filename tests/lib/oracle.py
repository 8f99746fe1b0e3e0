# SPDX-License-Identifier: Apache-2.0
"""The outside oracle: what a writer completed, noted off the mount, decides what a restore may show.

A ledger is a file of JSON lines, each one synced before the writer goes on:

    {"state": LABEL, "of": SET, "tree": {PATH: SHA256 or "-> TARGET" or "/"}}

SET tells sets apart that are judged each by itself (a directory a style of saving).
"""

import hashlib
import json
import os
import pathlib


def digest(path):
    """The content of a file, with nothing of it believed."""
    whole = hashlib.sha256()
    with open(path, "rb") as f:
        while piece := f.read(1 << 20):
            whole.update(piece)
    return whole.hexdigest()


def tree_of(root, skip=lambda path: False):
    """{path below root: what it is}; directories count, so an empty one is seen."""
    found = {}
    for directory, directories, files in os.walk(root):
        here = pathlib.Path(directory)
        for name in directories + files:
            path = here / name
            key = str(path.relative_to(root))
            if skip(key):
                continue
            if path.is_symlink():
                found[key] = "-> " + os.readlink(path)
            elif path.is_dir():
                found[key] = "/"
            else:
                found[key] = digest(path)
    return found


def differences(was, now):
    """For people: what two trees do not share, at most a screen of it."""
    lines = []
    for key in sorted(was.keys() | now.keys()):
        if was.get(key) != now.get(key):
            lines.append(f"  {key}: {was.get(key, 'absent')[:12]} became {now.get(key, 'absent')[:12]}")
    return "\n".join(lines[:30])


class Ledger:
    """What was completed, in order.  The writer's side adds, the judge's side reads."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def add(self, state, tree, of=""):
        line = json.dumps({"state": state, "of": of, "tree": tree}) + "\n"
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(fd, line.encode())
            os.fsync(fd)
        finally:
            os.close(fd)

    def states(self, of=""):
        if not self.path.exists():
            return []
        with open(self.path, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f if line.endswith("\n")]
        return [line for line in lines if line["of"] == of]

    def judge(self, root, of="", empty=False, skip=lambda path: False):
        """The newest state that the tree under root is; AssertionError where it is none.

        `empty`: nothing at all is allowed as well (and is None).
        """
        seen = tree_of(root, skip) if os.path.isdir(root) else {}
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
