# SPDX-License-Identifier: Apache-2.0
"""Ranks that do anything at all in the same directories at the same time, and what must be left.

Of two kinds of file something is known, whatever the others do meanwhile:

    kept-*  may be made by several ranks, by each only if it is not there (O_EXCL, link(2)).  Nobody
            writes or removes one; anybody renames or links it, with and without its directory.
    log-R   is only grown, by rank R only; a rank may rename it too

Everything else may be overwritten, removed and renamed over: of that only has to be true that all
mounts show the same in the end.
"""

import contextlib
import os
import random
import stat
import time

from lib.content import noise
from lib.oracle import digest

STATE = "user.holdfast.state"
SIZES = (0, 1, 100, 3000, 70_000)


class Rank:
    """One rank's calls; `kept` and `log` are what it was answered."""

    def __init__(self, root, rank, seed):
        self.root = os.fspath(root)
        self.rank = rank
        self.rng = random.Random(seed)
        self.kept = {}  # content: the name that it was made under
        self.begun = set()  # of kept ones, answered or not
        self.log = b""
        self.log_fd = None
        self.n = 0

    # ---- places ----

    def directories(self):
        found = [self.root]
        for directory, names, _ in os.walk(self.root):
            found += [os.path.join(directory, n) for n in names]
        return found

    def directory(self):
        return self.rng.choice(self.directories())

    def files(self, removable=True):
        """Of one directory."""
        directory = self.directory()
        names = [e.name for e in os.scandir(directory) if not e.is_dir(follow_symlinks=False)]
        if removable:
            names = [n for n in names if not n.startswith(("kept-", "log-", "own-"))]
        return [os.path.join(directory, n) for n in sorted(names)]

    def one(self, removable=True):
        found = self.files(removable)
        if not found:
            raise FileNotFoundError
        return self.rng.choice(found)

    def fresh(self, kind):
        self.n += 1
        return f"{kind}-{self.rank}.{self.n}"

    def content(self):
        self.n += 1
        return noise(self.rng.choice(SIZES), (self.rank, self.n, self.rng.random()))

    def new_path(self):
        """Of a few names, so that others have them too."""
        return os.path.join(self.directory(), f"any-{self.rng.randrange(6)}")

    # ---- calls ----

    def keep(self):
        path = os.path.join(self.directory(), f"kept-{self.rng.randrange(10**4) % 400}")
        data = f"{path} of rank {self.rank}, {self.n}".encode() + self.content()
        if self.rng.random() < 0.2:
            data = os.path.basename(path).encode()  # the same, whoever makes it
        name = os.path.basename(path)
        if self.rng.random() < 0.5:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            self.begun.add(data)
            with open(fd, "wb", buffering=0) as f:
                f.write(data)
        else:
            temporary = os.path.join(os.path.dirname(path), self.fresh("own"))
            with open(temporary, "xb", buffering=0) as f:
                f.write(data)
            self.begun.add(data)
            try:
                os.link(temporary, path)
            finally:
                os.unlink(temporary)
        self.kept[data] = name

    def grow(self):
        line = f"{self.n} of rank {self.rank}\n".encode() * self.rng.randrange(1, 40)
        self.log_fd.write(line)
        self.log += line

    def write(self):
        with open(self.new_path(), "wb", buffering=0) as f:
            f.write(self.content())

    def replace(self):
        path = self.new_path()
        temporary = os.path.join(os.path.dirname(path), self.fresh("any-tmp"))
        with open(temporary, "wb", buffering=0) as f:
            f.write(self.content())
        os.rename(temporary, path)

    def append(self):
        with open(self.one(), "ab", buffering=0) as f:
            f.write(self.content())

    def patch(self):
        with open(self.one(), "r+b", buffering=0) as f:
            f.seek(self.rng.randrange(1 + os.fstat(f.fileno()).st_size))
            f.write(self.content())

    def truncate(self):
        path = self.one()
        os.truncate(path, self.rng.randrange(1 + os.stat(path).st_size))

    def unlink(self):
        os.unlink(self.one())

    def link(self):
        os.link(self.one(), self.new_path(), follow_symlinks=False)

    def link_kept(self):
        path = self.one(removable=False)
        name = os.path.basename(path)
        os.link(path, os.path.join(self.directory(), f"{name[:60]}.{self.fresh('l')}"))

    def symlink(self):
        os.symlink(f"to-{self.n % 3}", self.new_path())

    def rename(self):
        os.rename(self.one(), self.new_path())

    def rename_kept(self):
        path = self.one(removable=False)
        name = os.path.basename(path).split(".")[0]
        os.rename(path, os.path.join(self.directory(), f"{name}.{self.fresh('m')}"))

    def mkdir(self):
        directory = self.directory()
        if directory.count("/") - self.root.count("/") < 4:
            os.mkdir(os.path.join(directory, f"dir-{self.rng.randrange(4)}"))

    def rename_directory(self):
        target = os.path.join(self.directory(), f"dir-{self.rng.randrange(4)}")
        os.rename(self.directory(), target)

    def rmtree(self):
        """As far as it may be removed."""
        for directory, _, names in os.walk(self.directory(), topdown=False):
            for name in names:
                if not name.startswith(("kept-", "log-", "own-")):
                    os.unlink(os.path.join(directory, name))
            os.rmdir(directory)

    def chmod(self):
        os.chmod(self.one(removable=False), self.rng.choice((0o600, 0o644, 0o755)))

    def xattr(self):
        os.setxattr(self.one(removable=False), "user.a", self.fresh("x").encode())

    CALLS = [keep] * 5 + [
        grow, write, write, replace, replace, append, patch, truncate, unlink, link, link_kept,
        symlink, rename, rename_kept, mkdir, mkdir, rename_directory, rename_directory, rmtree,
        chmod, xattr,
    ]  # fmt: skip

    def run(self, bursts):
        """Until it has done so many bursts of calls, or its daemon is killed."""
        try:
            self.log_fd = open(self.find_log(), "ab", buffering=0)  # noqa: SIM115
        except OSError:
            return
        for _ in range(bursts):
            for _ in range(self.rng.randrange(1, 12)):
                if not os.path.ismount(self.root):
                    return  # its daemon was killed
                with contextlib.suppress(OSError):  # another was faster
                    self.rng.choice(self.CALLS)(self)
            time.sleep(self.rng.uniform(0, 0.5))  # computes
        with contextlib.suppress(OSError):
            self.log_fd.close()

    def was_killed(self):
        """What was being written then is never committed: it goes."""
        for directory, _, names in os.walk(self.root):
            for path in (os.path.join(directory, n) for n in names):
                if not os.path.islink(path) and os.getxattr(path, STATE) == b"open":
                    os.unlink(path)
        self.log = b""
        with contextlib.suppress(FileNotFoundError), open(self.find_log(), "rb") as f:
            self.log = f.read()

    def find_log(self):
        name = f"log-{self.rank}"
        for directory in self.directories():
            for e in os.listdir(directory):
                if e == name or e.startswith(name + "."):
                    return os.path.join(directory, e)
        return os.path.join(self.root, name)


# ---- what is left ----


def whole_tree(root):
    """{path: what stat(2) and read(2) say}, or None if it changed meanwhile."""
    found = {}
    try:
        for directory, directories, files in os.walk(root, onerror=raise_it):
            for name in directories + files:
                path = os.path.join(directory, name)
                found[os.path.relpath(path, root)] = look(path)
        found["."] = look(root)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found


def raise_it(e):
    raise e


def look(path):
    st = os.lstat(path)
    if stat.S_ISLNK(st.st_mode):
        what = "-> " + os.readlink(path)
    elif stat.S_ISDIR(st.st_mode):
        return ("dir", stat.S_IMODE(st.st_mode), st.st_nlink, st.st_ino)
    else:
        what = digest(path)
    names = sorted(os.listxattr(path, follow_symlinks=False))
    xattrs = str([(a, os.getxattr(path, a, follow_symlinks=False)) for a in names])
    return (what, stat.S_IMODE(st.st_mode), st.st_nlink, st.st_ino, st.st_mtime_ns, xattrs)


def judge_links(tree):
    names, subdirs = {}, {}
    for path, what in tree.items():
        names.setdefault(what[3], []).append(path)
        if what[0] == "dir" and path != ".":
            up = os.path.dirname(path) or "."
            subdirs[up] = subdirs.get(up, 0) + 1
    for path, what in tree.items():
        want = 2 + subdirs.get(path, 0) if what[0] == "dir" else len(names[what[3]])
        assert what[2] == want, (
            f"{path} has st_nlink {what[2]}, wanted {want}: {names[what[3]]}"
        )
        if what[0] == "dir":
            assert len(names[what[3]]) == 1, f"a directory of two names: {names[what[3]]}"


def contents(root):
    """{content: paths} of every file below root."""
    found = {}
    for directory, _, names in os.walk(root):
        for path in (os.path.join(directory, n) for n in names):
            if not os.path.islink(path):
                with open(path, "rb") as f:
                    found.setdefault(f.read(), []).append(os.path.relpath(path, root))
    return found


def is_of(path, name):
    return os.path.basename(path).startswith(name)


def judge_kept(root, ranks):
    """Nothing that a rank was answered is lost, and nothing is there that nobody wrote."""
    seen = contents(root)
    written = set().union(*(r.begun for r in ranks))
    for r in ranks:
        for data, name in r.kept.items():
            assert data in seen, f"{len(data)} bytes of rank {r.rank} in {name} are lost"
        log = f"log-{r.rank}"
        logs = [data for data, paths in seen.items() if any(is_of(p, log) for p in paths)]
        assert not r.log or r.log in logs, (
            f"the log of rank {r.rank} has {len(r.log)} bytes, not {[len(d) for d in logs]}"
        )
    for data, paths in seen.items():
        strange = [p for p in paths if is_of(p, "kept-") and data not in written]
        assert not strange, f"nobody has written {strange} ({len(data)} bytes): {data[:60]}"
