# SPDX-License-Identifier: Apache-2.0
"""The machines of a distributed job: each is a slot of one store, and all see one tree."""

import concurrent.futures
import contextlib
import os

from lib.oracle import differences, digest_bytes, tree_of
from lib.procs import HANGS_S, until


def slots(machines, store, of, **options):
    """A machine for each rank, not mounted."""
    return [machines(store, slot=rank, of=of, **options) for rank in range(of)]


def at_once(call, gang):
    """The call for each of them, all at the same time; what came of it, in order."""
    with concurrent.futures.ThreadPoolExecutor(len(gang)) as pool:
        return list(pool.map(call, gang))


def mount_all(gang, attempt=1, **options):
    """As a job does it at its start: nobody waits for anybody."""
    at_once(lambda m: m.mount(attempt=attempt, **options), gang)
    return gang


# ---- what a rank has, and what it sees ----


@contextlib.contextmanager
def busy(m):
    """Meanwhile m has a file half-written: it commits nothing, and is not calm."""
    path = m.path / f"half-written-{m.options['slot']}"
    with open(path, "wb", buffering=0) as f:
        f.write(b"half")
        yield
    path.unlink()


def until_sent(m, path):
    """Until a commit holds the file, and so everything that m had changed before it."""

    def sent():
        return os.getxattr(m.path / path, "user.holdfast.state") in (b"sent", b"durable")

    until(sent, HANGS_S, f"{path} is in a commit of {m.root.name}")


def as_tree(wanted):
    """{path: content, None for a directory} as tree_of() has it."""
    return {path: "/" if data is None else digest_bytes(data) for path, data in wanted.items()}


def tree_now(m):
    """The tree, or None if it changed while it was looked at."""
    try:
        return tree_of(m.path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def until_seen(gang, wanted):
    """Until each of them shows the tree `wanted`, {path: content, None for a directory}."""
    tree = as_tree(wanted)
    for m in gang:
        try:
            until(lambda m=m: tree_now(m) == tree, HANGS_S, f"{m.root.name} shows what all wrote")
        except AssertionError as e:
            raise AssertionError(f"{e}:\n{differences(tree, tree_now(m) or {})}") from None


def paths_at(m, commit="good"):
    """Every path of a commit, by `holdfast ls`."""
    done = m.command("ls", "-R", f"{m.store.uri}@{commit}")
    assert done.returncode == 0, f"ls @{commit}: {done.stderr}"
    found = set()
    for block in filter(None, done.stdout.split("\n\n")):
        directory, *names = block.strip("\n").split("\n")
        found |= {f"{directory.rstrip(':').strip('/')}/{name}".strip("/") for name in names}
    return found
