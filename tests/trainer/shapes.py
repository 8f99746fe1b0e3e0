# SPDX-License-Identifier: Apache-2.0
"""How trainers save: generators of (hand, call), endless, each for a directory of its own.

They ask the line's model what is there, so they go on in whatever a death has left, as a trainer
does.  Calls are those of section 4 of the study of frameworks: every way to write a file is in
WAYS, every way to publish one or a set of them is a shape.
"""

import os

from trainer.model import Directory, File, Symlink

NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
BOTH = os.O_RDWR | os.O_CREAT | os.O_TRUNC


def call(hand, what, **arguments):
    """What a line is to do next."""
    return hand, {"call": what, **arguments}


class Writer:
    """What all shapes use: names for handles, contents, random choices."""

    def __init__(self, line):
        self.line = line
        self.rng = line.rng

    @property
    def model(self):
        return self.line.model

    def hand(self):
        return self.line.hand()

    def handle(self):
        self.line.contents += 1
        return f"h{self.line.contents}"

    def data(self, most=60_000):
        """[size, seed] of bytes that nobody else writes."""
        self.line.contents += 1
        size = self.rng.choice(
            [1, 64, 4096, self.rng.randrange(1, most), self.rng.randrange(1, most)]
        )
        if most > 10_000 and self.rng.random() < 0.03:
            size += 300_000
        return [size, f"{self.line.name}/{self.line.contents}"]

    def pieces(self):
        return [self.data() for _ in range(self.rng.randrange(1, 5))]

    def pause(self):
        """Now and then where things are half done, so long that a moment is frozen if it may be."""
        if self.rng.random() < 0.2:
            yield call(None, "pause", seconds=0.25)

    # ---- ways to write a file; each leaves nothing open ----

    def plain(self, path, hand, flags=NEW):
        h = self.handle()
        yield call(hand, "open", path=path, flags=flags, h=h)
        for data in self.pieces():
            yield call(hand, "write", h=h, data=data)
        if self.rng.random() < 0.3:
            yield call(hand, self.rng.choice(["fsync", "fdatasync"]), h=h)
        yield call(hand, "close", h=h)

    def vectors(self, path, hand):
        h = self.handle()
        yield call(hand, "open", path=path, flags=NEW, h=h)
        yield call(hand, "writev", h=h, pieces=self.pieces())
        yield call(hand, "close", h=h)

    def synced(self, path, hand):
        yield from self.plain(path, hand, NEW | os.O_SYNC)

    def size_first(self, path, hand):
        """safetensors."""
        h = self.handle()
        pieces = self.pieces()
        yield call(hand, "open", path=path, flags=BOTH, h=h)
        size = sum(p[0] for p in pieces)
        if self.rng.random() < 0.5:
            yield call(hand, "ftruncate", h=h, size=size)
        else:
            yield call(hand, "fallocate", h=h, mode=self.rng.choice([0, 1]), at=0, size=size)
        for data in pieces:
            yield call(hand, "write", h=h, data=data)
        yield call(hand, "close", h=h)

    def header_last(self, path, hand):
        """HDF5, npz: seeks back and patches."""
        h = self.handle()
        yield call(hand, "open", path=path, flags=BOTH, h=h)
        yield call(hand, "seek", h=h, at=512)
        for data in self.pieces():
            yield call(hand, "write", h=h, data=data)
        for _ in range(self.rng.randrange(3)):
            yield call(hand, "pwrite", h=h, data=self.data(900), at=self.rng.randrange(2000))
        if self.rng.random() < 0.3:
            yield call(hand, "ftruncate", h=h, size=self.rng.randrange(30_000))
        yield call(hand, "close", h=h)

    def in_part(self, path, hand):
        """Without O_TRUNC, into what is there."""
        h = self.handle()
        yield call(hand, "open", path=path, flags=os.O_RDWR | os.O_CREAT, h=h)
        for _ in range(self.rng.randrange(1, 4)):
            yield call(hand, "pwrite", h=h, data=self.data(9000), at=self.rng.randrange(40_000))
        if self.rng.random() < 0.3:
            mode = self.rng.choice([0, 1, 3])
            at, size = self.rng.randrange(20_000), self.rng.randrange(1, 20_000)
            yield call(hand, "fallocate", h=h, mode=mode, at=at, size=size)
        yield call(hand, "close", h=h)

    def mapped(self, path, hand):
        h = self.handle()
        size = self.rng.randrange(1, 100_000)
        yield call(hand, "open", path=path, flags=BOTH, h=h)
        yield call(hand, "ftruncate", h=h, size=size)
        pieces = []
        for _ in range(self.rng.randrange(1, 4)):
            data = self.data(size)
            data[0] = min(data[0], size)
            pieces.append([data, self.rng.randrange(size - data[0] + 1)])
        yield call(hand, "map", h=h, pieces=pieces, sync=self.rng.random() < 0.5)
        yield from self.pause()
        yield call(hand, "close", h=h)

    def copied(self, path, hand):
        """cp: copy_file_range or sendfile from another file."""
        source = self.some_file(path)
        if not source:
            yield from self.plain(path, hand)
            return
        size = len(self.model.find(source).content)
        a, b = self.handle(), self.handle()
        yield call(hand, "open", path=source, flags=os.O_RDONLY, h=a)
        yield call(hand, "open", path=path, flags=NEW, h=b)
        if self.rng.random() < 0.5:
            yield call(hand, "copy", h=a, at=0, to=b, to_at=0, size=size + 1)
        else:
            yield call(hand, "sendfile", h=a, at=0, to=b, size=size + 1)
        yield call(hand, "close", h=b)
        yield call(hand, "close", h=a)

    def by_child(self, path, hand):
        """A child goes on with what its parent has open, or closes its copy early."""
        h = self.handle()
        yield call(hand, "open", path=path, flags=NEW, h=h)
        yield call(hand, "write", h=h, data=self.data())
        child = self.line.fork(hand)
        yield call(self.rng.choice([hand, child]), "write", h=h, data=self.data())
        order = [hand, child]
        self.rng.shuffle(order)
        for one in order:
            yield call(one, "close", h=h)
            yield from self.pause()
        yield from self.end(child)

    def by_thread(self, path, hand):
        other = self.line.thread(hand)
        h = self.handle()
        yield call(hand, "open", path=path, flags=NEW, h=h)
        for data in self.pieces():
            yield call(self.rng.choice([hand, other]), "write", h=h, data=data)
        yield call(other, "close", h=h)
        self.line.close_thread(other)

    def by_two_descriptors(self, path, hand):
        a, b = self.handle(), self.handle()
        yield call(hand, "open", path=path, flags=NEW, h=a)
        yield call(hand, "dup", h=a, to=b)
        for data in self.pieces():
            yield call(hand, "write", h=self.rng.choice([a, b]), data=data)
        yield call(hand, "close", h=a)
        yield from self.pause()
        yield call(hand, "close", h=b)

    def end(self, hand):
        """A child that is needed no more leaves."""
        self.line.dismiss(hand, self.rng.choice([0, 0, 1]))
        return
        yield

    WAYS = (
        [plain] * 5
        + [vectors, synced, size_first, header_last, mapped, copied]
        + [by_child, by_thread, by_two_descriptors]
    )

    def write(self, path, hand=None, ways=WAYS):
        """A new content, sealed at the end."""
        hand = hand or self.hand()
        yield from self.rng.choice(ways)(self, path, hand)
        node = self.model.there(path)
        if isinstance(node, File) and not node.sealed:
            h = self.handle()
            yield call(hand, "open", path=path, flags=os.O_WRONLY, h=h)
            yield call(hand, "fsync", h=h)
            yield call(hand, "close", h=h)
        if self.rng.random() < 0.15:
            yield call(self.hand(), self.rng.choice(["read", "stat"]), path=path)

    # ---- what is there ----

    def some_file(self, but=None):
        files = [p for p, _, _, n in self.model.walk() if isinstance(n, File) and p != but]
        return self.rng.choice(files) if files else None

    def names(self, path=""):
        node = self.model.there(path)
        return sorted(node.names) if isinstance(node, Directory) else []

    def remove(self, path, **mark):
        """rm -rf, one call after the other; `mark` goes with the first."""
        hand = self.hand()
        if not isinstance(self.model.there(path), Directory):
            yield call(hand, "unlink", path=path, **mark)
            return
        for name in self.names(path):
            yield from self.remove(f"{path}/{name}", **mark)
            mark = {}
        yield call(hand, "rmdir", path=path, **mark)

    def replace(self, path, temporary=None):
        """A temporary file renamed over the last."""
        temporary = temporary or path + ".tmp"
        yield from self.write(temporary)
        yield call(self.hand(), "rename", path=temporary, to=path)
        if self.rng.random() < 0.3:
            above = path.rpartition("/")[0]
            yield call(self.hand(), "sync_dir", path=above)


# ---- single files ----


def in_place(line):
    w = Writer(line)
    while True:
        yield from w.write("last.pt", ways=Writer.WAYS + [Writer.in_part] * 3)
        if w.rng.random() < 0.3:
            yield from w.write("best.pt")


def renamed_over(line):
    w = Writer(line)
    while True:
        yield from w.replace("model.pt")
        for name in w.names():
            if name.endswith(".tmp") and w.rng.random() < 0.5:
                yield from w.remove(name)


def renamed_open(line):
    """safetensors: renamed before it is closed."""
    w = Writer(line)
    while True:
        w.line.contents += 1
        temporary, h, hand = f".tmp{w.line.contents}", w.handle(), w.hand()
        yield call(
            hand, "open", path=temporary, flags=os.O_RDWR | os.O_CREAT | os.O_EXCL, h=h, mode=0o600
        )
        pieces = w.pieces()
        yield call(hand, "ftruncate", h=h, size=sum(p[0] for p in pieces))
        for data in pieces:
            yield call(hand, "write", h=h, data=data)
        yield call(hand, "rename", path=temporary, to="model.safetensors")
        yield from w.pause()
        if w.rng.random() < 0.5:
            yield call(hand, "fsync", h=h)
        yield call(hand, "close", h=h)
        for name in w.names():
            if name.startswith(".tmp"):
                yield from w.remove(name)


def linked(line):
    """timm: unlink, rename, hard links; the oldest goes."""
    w = Writer(line)
    while True:
        yield from w.write("tmp.pth.tar")
        if w.model.there("last.pth.tar"):
            yield from w.remove("last.pth.tar")
        yield from w.pause()
        yield call(w.hand(), "rename", path="tmp.pth.tar", to="last.pth.tar")
        w.line.contents += 1
        yield call(w.hand(), "link", path="last.pth.tar", to=f"checkpoint-{w.line.contents}")
        if w.rng.random() < 0.5:
            if w.model.there("best"):
                yield from w.remove("best")
            yield call(w.hand(), "link", path="last.pth.tar", to="best")
        old = sorted((n for n in w.names() if n.startswith("checkpoint-")), key=number)
        for name in old[:-2]:
            yield from w.remove(name)


def number(name):
    digits = "".join(c for c in name if c.isdigit())
    return int(digits or 0)


# ---- sets ----

SET_FILES = ["model.bin", "optimizer.pt", "rng_state.pth", "trainer_state.json"]


def rotation(prefix, keep, delete_first, marker):
    """Directories PREFIXn, the last `keep` kept; `marker` names the newest of them."""

    def shape(line):
        w = Writer(line)
        while True:
            for name in w.names():  # what a death left
                s = w.model.sets.get(name)
                half = s and not s.whole
                if half and w.rng.random() < 0.9 or name.endswith(".tmp"):
                    yield from w.remove(name, set={"goes": name})
            if delete_first:
                yield from forget_old(w, prefix, keep - 1)
            yield from save_set(w, f"{prefix}{next_number(w, prefix)}")
            yield from marker(w, newest(w, prefix))
            if not delete_first:
                yield from forget_old(w, prefix, keep)

    return shape


def newest(w, prefix):
    return sorted((n for n in w.names() if n.startswith(prefix)), key=number)[-1]


def next_number(w, prefix):
    return max([number(n) for n in w.names() if n.startswith(prefix)], default=0) + 1


def forget_old(w, prefix, keep):
    old = sorted((n for n in w.names() if n.startswith(prefix)), key=number)
    for name in old[: len(old) - keep]:
        if w.rng.random() < 0.3:  # out of sight first
            yield call(w.hand(), "rename", path=name, to=f"{name}.deleted")
            name = f"{name}.deleted"
        yield from w.remove(name, set={"goes": name})


def save_set(w, path):
    mark = {"begins": path, "files": SET_FILES}
    yield call(w.hand(), "mkdir", path=path, set=mark)
    for name in SET_FILES:
        yield from w.pause()
        if w.rng.random() < 0.3:
            yield from w.replace(f"{path}/{name}")
        else:
            yield from w.write(f"{path}/{name}")


def no_marker(w, path):
    return
    yield


def text_in_place(w, path):
    yield from w.write("latest", ways=[Writer.plain])


def text_renamed(w, path):
    yield from w.replace("checkpoint")


def symlink_renamed(w, path):
    if w.model.there("latest.tmp"):
        yield from w.remove("latest.tmp")
    yield call(w.hand(), "symlink", target=path, path="latest.tmp")
    yield call(w.hand(), "rename", path="latest.tmp", to="latest")
    yield call(w.hand(), "readlink", path="latest")


def directory_renamed(line):
    """Orbax: whole directories by rename, an inner one first."""
    w = Writer(line)
    while True:
        for name in w.names():
            if name.endswith("-tmp"):
                yield from w.remove(name)
        n = next_number(w, "")
        outer = f"{n}.orbax-tmp"
        yield call(w.hand(), "mkdir", path=outer)
        yield call(w.hand(), "mkdir", path=f"{outer}/default-tmp")
        for name in ("d0", "d1", "manifest"):
            yield from w.replace(
                f"{outer}/default-tmp/{name}", f"{outer}/default-tmp/{name}.__lock"
            )
        yield call(w.hand(), "rename", path=f"{outer}/default-tmp", to=f"{outer}/default")
        yield call(w.hand(), "sync_dir", path=outer)
        yield from w.write(f"{outer}/commit_success.txt", ways=[Writer.plain])
        yield call(w.hand(), "rename", path=outer, to=str(n))
        old = sorted((x for x in w.names() if x.isdigit()), key=int)
        for name in old[:-2]:
            yield from w.remove(name)


def metadata_last(line):
    """DCP into one directory: .metadata goes first and comes last."""
    w = Writer(line)
    while True:
        if w.model.there(".metadata"):
            yield from w.remove(".metadata")
        for rank in range(3):
            yield from w.write(f"__{rank}_0.distcp")
        yield from w.replace(".metadata", ".metadata.tmp")


# ---- anything ----

NAMES = ["a", "b", "c", "d", "d/a", "d/b", "e", "e/a", "e/f", "e/f/a", "run.log"]
SYMLINKS = ["s", "t", "d/s"]  # nobody goes through them


class Soup:
    """Random calls, right ones and wrong ones."""

    def __init__(self, line):
        self.w = Writer(line)
        self.rng = line.rng

    def name(self):
        return self.rng.choice(NAMES)

    def mine(self, hand):
        return [h for (by, h) in self.w.model.fds if by == hand.process and h.startswith("h")]

    def calls(self):
        while True:
            hand = self.w.hand()
            yield from self.rng.choice(self.KINDS)(self, hand)

    def opening(self, hand):
        flags = self.rng.choice([os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND])
        flags |= self.rng.choice(
            [0, os.O_CREAT, os.O_CREAT, os.O_CREAT | os.O_TRUNC, os.O_CREAT | os.O_EXCL]
        )
        if flags & os.O_ACCMODE == os.O_RDONLY:
            flags = os.O_RDONLY
        path = self.name()
        if isinstance(self.w.model.there(path), Directory):
            return
        yield call(hand, "open", path=path, flags=flags, h=self.w.handle())

    def with_handle(self, hand, what, **arguments):
        """The call on any file that it may write."""
        usable = [h for h in self.mine(hand) if self.w.model.opened(hand.process, h).writes()]
        if usable:
            yield call(hand, what, h=self.rng.choice(usable), **arguments)

    def writing(self, hand):
        yield from self.with_handle(hand, "write", data=self.w.data())

    def patching(self, hand):
        at = self.rng.randrange(70_000)
        yield from self.with_handle(hand, "pwrite", data=self.w.data(5000), at=at)

    def resizing(self, hand):
        size = self.rng.choice([0, self.rng.randrange(50_000)])
        yield from self.with_handle(hand, "ftruncate", size=size)

    def syncing(self, hand):
        yield from self.with_handle(hand, "fsync")

    def closing(self, hand):
        for h in self.mine(hand)[:2]:
            yield call(hand, "close", h=h)

    def closing_all(self, hand):
        """Rest: everything closed, and synced where a close is not enough."""
        for one in list(self.w.line.hands):
            for h in self.mine(one):
                if (one.process, h) in self.w.model.fds:
                    yield call(one, "close", h=h)
        for path, _, _, node in list(self.w.model.walk()):
            if isinstance(node, File) and not node.sealed:
                h = self.w.handle()
                yield call(hand, "open", path=path, flags=os.O_WRONLY, h=h)
                yield call(hand, "fsync", h=h)
                yield call(hand, "close", h=h)

    def saving(self, hand):
        path = self.name()
        node = self.w.model.there(path)
        above = self.w.model.there(path.rpartition("/")[0])
        if isinstance(above, Directory) and not isinstance(node, Directory):
            yield from self.w.write(path, hand)

    def truncating(self, hand):
        path = self.name()
        node = self.w.model.there(path)
        if isinstance(node, File) and not self.w.model.writers(node.id):
            yield call(
                hand, "truncate", path=path, size=self.rng.choice([0, self.rng.randrange(50_000)])
            )

    def making(self, hand):
        yield call(hand, "mkdir", path=self.rng.choice(["d", "e", "e/f", "a"]))

    def removing(self, hand):
        yield call(hand, self.rng.choice(["rmdir", "unlink"]), path=self.name())

    def moving(self, hand):
        a, b = self.name(), self.name()
        flags = self.rng.choice([0, 0, 0, 1, 2])
        if flags == 2 and ((a + "/").startswith(b + "/") or (b + "/").startswith(a + "/")):
            return
        if (a + "/").startswith(b + "/"):
            return
        if "run.log" in (a, b):
            return
        yield call(hand, "rename", path=a, to=b, flags=flags)

    def linking(self, hand):
        a, b = self.name(), self.name()
        if "run.log" not in (a, b):
            yield call(hand, "link", path=a, to=b)

    def symlinking(self, hand):
        a, b = self.rng.sample(SYMLINKS, 2)
        yield self.rng.choice(
            [
                call(hand, "symlink", target=self.name(), path=a),
                call(hand, "symlink", target=self.name(), path=a),
                call(hand, "rename", path=a, to=b),
                call(hand, "unlink", path=a),
                call(hand, "link", path=a, to=b),
            ]
        )
        if isinstance(self.w.model.there(a), Symlink):
            yield call(hand, "readlink", path=a)

    def attributes(self, hand):
        path = self.name()
        mtime_ns = self.rng.randrange(2**31) * 10**9 + 123456789
        yield self.rng.choice(
            [
                call(hand, "chmod", path=path, mode=self.rng.choice([0o600, 0o644, 0o755])),
                call(hand, "utimens", path=path, mtime_ns=mtime_ns),
                call(hand, "setxattr", path=path, name="user.a", data=[20, path]),
                call(hand, "removexattr", path=path, name="user.a"),
            ]
        )

    def looking(self, hand):
        path = self.name()
        node = self.w.model.there(path)
        if isinstance(node, Directory):
            yield call(hand, "readdir", path=path)
        else:
            yield call(hand, self.rng.choice(["read", "stat"]), path=path)
        if self.rng.random() < 0.2:
            yield call(hand, "statfs")

    def forking(self, hand):
        if len(self.w.line.hands) < 3:
            self.w.line.fork(hand)
        else:
            self.w.line.dismiss(self.w.line.hands[1], self.rng.choice([0, 0, 1]))
        return
        yield

    KINDS = (
        [opening] * 6
        + [writing] * 6
        + [patching, resizing, syncing] * 2
        + [closing] * 5
        + [closing_all] * 2
        + [saving] * 5
        + [truncating, making, making, removing, removing, moving, moving, linking, symlinking]
        + [attributes] * 3
        + [looking] * 4
        + [forking]
    )


def soup(line):
    yield from Soup(line).calls()


# ---- logs beside ----


def with_log(shape, name="events.jsonl"):
    """The shape, and now and then an event: in a file that stays open, or opened for each."""

    def both(line):
        w = Writer(line)
        appends = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        kept = None
        for what in shape(line):
            yield what
            if line.rng.random() > 0.15:
                continue
            owner = line.hands[0]
            if kept and (owner.process, kept) in line.model.fds:
                yield call(owner, "write", h=kept, data=w.data(200))
                continue
            h = f"log{w.handle()}"
            yield call(owner, "open", path=name, flags=appends, h=h)
            yield call(owner, "write", h=h, data=w.data(200))
            if line.rng.random() < 0.5:
                kept = h
            else:
                yield call(owner, "close", h=h)

    return both


SHAPES = [
    in_place,
    renamed_over,
    renamed_open,
    linked,
    directory_renamed,
    metadata_last,
    rotation("checkpoint-", 2, False, no_marker),
    rotation("checkpoint_", 2, True, no_marker),
    rotation("checkpoint-", 1, False, no_marker),
    rotation("global_step", 2, False, text_in_place),
    rotation("ckpt-", 2, False, text_renamed),
    rotation("epoch", 1, True, symlink_renamed),
    soup,
    soup,
    soup,
]
