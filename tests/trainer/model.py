# SPDX-License-Identifier: Apache-2.0
"""What a tree is, and what a store may say of it, by holdfast-mount(8) and nothing else.

A model takes the calls of a trainer in their order (apply) and says what each must have answered,
what the mount shows (live) and what a new machine may be shown of this instant (public).  It knows
nothing of commits: when one is made is the mount's affair, whether it may be is `holders`.
"""

import copy
import dataclasses
import errno
import os
import stat

from lib.content import noise

ROOT = 1
LOG_NAMES = (".log", ".jsonl", ".csv")
NOBODY = "nobody"  # has sealed what nobody has to close
MAPPED_STILL_S = 60
PUNCH_HOLE, ZERO_RANGE, KEEP_SIZE = 2, 16, 1
NOREPLACE, EXCHANGE = 1, 2

YES, NO, MAYBE = True, False, None


def fail(number):
    raise OSError(number, os.strerror(number))


@dataclasses.dataclass
class File:
    id: int
    mode: int = 0o644
    xattrs: dict = dataclasses.field(default_factory=dict)
    content: bytes = b""
    mtime_ns: int | None = None  # where it was set, and nothing was changed since
    whole: bytes | None = None  # as it was when it was last sealed
    whole_mtime_ns: int | None = None
    sealed: bool = False
    torn: bool = False  # it says itself that it is not complete
    writer: str | None = None  # the process that wrote last; None: whoever closes it
    mapped: bool = False  # ... but for what came through a mapping since
    written_s: float = 0
    grown: bool | None = YES  # only, since it was last sealed
    killed_s: float | None = None

    def copy(self):
        return dataclasses.replace(self, xattrs=dict(self.xattrs))


@dataclasses.dataclass
class Directory:
    id: int
    mode: int = 0o755
    xattrs: dict = dataclasses.field(default_factory=dict)
    names: dict = dataclasses.field(default_factory=dict)

    def copy(self):
        return dataclasses.replace(self, xattrs=dict(self.xattrs), names=dict(self.names))


@dataclasses.dataclass
class Symlink:
    id: int
    target: str = ""

    def copy(self):
        return self


@dataclasses.dataclass
class Open:
    """What open(2) makes, and children share."""

    inode: int
    flags: int
    at: int = 0

    def writes(self):
        return self.flags & os.O_ACCMODE != os.O_RDONLY


@dataclasses.dataclass(frozen=True)
class Face:
    """How one name is seen."""

    kind: str
    inode: int
    data: object = None  # bytes of a file, target of a symbolic link
    mode: int = 0
    xattrs: tuple = ()
    mtime_ns: int | None = None

    def same(self, seen):
        """May it be seen so?  Inode numbers are compared by who sees all names."""
        return (
            self.kind == seen.kind
            and self.mode == seen.mode
            and self.data == seen.data
            and self.xattrs == seen.xattrs
            and self.mtime_ns in (None, seen.mtime_ns)
        )


def parent_of(path):
    return path.rpartition("/")[0]


class Set:
    """A directory whose files belong together although no marker says so."""

    def __init__(self, files, began_s, had_like):
        self.files = files  # that it has when it is whole
        self.whole = False
        self.done = frozenset()  # of them
        self.began_s = self.changed_s = began_s
        self.had_like = had_like  # there was a whole one beside it when it began
        self.free = False  # a machine was shown a half of it, and might be


class Model:
    def __init__(self):
        self.inodes = {ROOT: Directory(ROOT)}
        self.opens = {}  # number: Open
        self.fds = {}  # (process, name): number of its Open
        self.past = {}  # (directory, name): what was there since it was last taken away
        self.cut = {}  # ... and before
        self.sets = {}  # path: Set
        self.halves = {}  # path of a parent: [names of a set there that went before it was whole]
        self.next = ROOT + 1
        self.now_s = 0
        self.seal_by = None  # who has sealed something in the last call

    def copy(self):
        other = copy.copy(self)
        other.inodes = {i: n.copy() for i, n in self.inodes.items()}
        other.opens = {i: copy.copy(o) for i, o in self.opens.items()}
        other.fds = dict(self.fds)
        other.past = {k: list(v) for k, v in self.past.items()}
        other.cut = {k: list(v) for k, v in self.cut.items()}
        other.sets = {k: copy.copy(v) for k, v in self.sets.items()}
        other.halves = {k: list(v) for k, v in self.halves.items()}
        return other

    @classmethod
    def of(cls, seen, before):
        """What a new machine starts with: what it sees, all sealed; sets are those of `before`."""
        model = cls()
        numbers = {}
        for path in sorted(seen):
            face = seen[path]
            directory, name = model.parent(path)
            if face.inode in numbers:
                node = model.inodes[numbers[face.inode]]
            elif face.kind == "link":
                node = model.new(Symlink, target=face.data)
            elif face.kind == "dir":
                node = model.new(Directory, mode=face.mode, xattrs=dict(face.xattrs))
            else:
                node = model.new(File, mode=face.mode, xattrs=dict(face.xattrs), sealed=True)
                node.content = node.whole = face.data
                node.mtime_ns = node.whole_mtime_ns = face.mtime_ns
            directory.names[name] = numbers[face.inode] = node.id
        model.sets = {path: copy.copy(s) for path, s in before.sets.items() if path in seen}
        model.halves = before.halves
        for s in model.sets.values():
            s.free = not s.whole
        return model

    # ---- finding ----

    def new(self, kind, **fields):
        node = kind(self.next, **fields)
        self.inodes[self.next] = node
        self.next += 1
        return node

    def find(self, path):
        """The node; ENOENT, ENOTDIR."""
        node = self.inodes[ROOT]
        for name in path.split("/") if path else ():
            if not isinstance(node, Directory):
                fail(errno.ENOTDIR)
            if name not in node.names:
                fail(errno.ENOENT)
            node = self.inodes[node.names[name]]
        return node

    def parent(self, path):
        above, _, name = path.rpartition("/")
        directory = self.find(above)
        if not isinstance(directory, Directory):
            fail(errno.ENOTDIR)
        return directory, name

    def there(self, path):
        try:
            return self.find(path)
        except OSError:
            return None

    def file(self, by, h):
        return self.inodes[self.opened(by, h).inode]

    def opened(self, by, h):
        return self.opens[self.fds[by, h]]

    def writers(self, inode):
        """Processes that have it open for writing."""
        return {
            by
            for (by, _), o in self.fds.items()
            if self.opens[o].inode == inode and self.opens[o].writes()
        }

    def links(self, inode):
        return [
            (node.id, name)
            for node in self.inodes.values()
            if isinstance(node, Directory)
            for name, child in node.names.items()
            if child == inode
        ]

    def drop_unnamed(self, *inodes):
        held = {o.inode for o in self.opens.values()}
        for inode in inodes:
            if inode == ROOT or inode not in self.inodes or inode in held:
                continue
            if not self.links(inode):
                del self.inodes[inode]

    # ---- names ----

    def lead(self, directory, name, inode):
        """The name now leads there."""
        was = directory.names.get(name)
        if was is not None:
            self.remember(directory, name, was)
        directory.names[name] = inode
        if was is not None:
            self.drop_unnamed(was)

    def remember(self, directory, name, inode):
        node = self.inodes[inode]
        past = self.past.setdefault((directory.id, name), [])
        if isinstance(node, File):
            past += [f for f in self.public_faces(node, name) if f]
        elif isinstance(node, Symlink):
            past.append(Face("link", node.id, node.target))

    def take_away(self, directory, name):
        """Unlinked or moved: what was there may not be seen again."""
        inode = directory.names.pop(name)
        key = directory.id, name
        self.remember_cut(key, directory, name, inode)
        return inode

    def remember_cut(self, key, directory, name, inode):
        directory.names[name] = inode
        self.remember(directory, name, inode)
        del directory.names[name]
        self.cut.setdefault(key, []).extend(self.past.pop(key, []))

    # ---- bytes ----

    def written(self, file, by, grew=False, mapped=False):
        file.sealed = False
        file.torn = False
        file.mapped = mapped
        file.written_s = self.now_s
        file.mtime_ns = None
        if mapped:
            file.killed_s = None
        else:
            file.writer = by
        if not grew:
            file.grown = NO

    def seals(self, file, by):
        if file.sealed:
            return
        file.sealed = True
        file.whole = file.content
        file.whole_mtime_ns = file.mtime_ns
        file.grown = MAYBE if file.grown is NO else YES
        self.seal_by = by

    def put(self, file, at, data, by, append=False):
        size = len(file.content)
        if append:
            at = size
        if data:
            self.written(file, by, grew=append or at >= size)
            old = file.content + bytes(max(0, at - size))
            file.content = old[:at] + data + old[at + len(data) :]
        return at + len(data)

    def resize(self, file, size, by):
        self.written(file, by, grew=size >= len(file.content))
        file.content = file.content[:size] + bytes(max(0, size - len(file.content)))

    # ---- calls: each returns what it must answer ----

    def apply(self, call, now_s):
        """The answer that is due, as a hand gives it."""
        self.now_s = now_s
        self.seal_by = None
        arguments = {k: v for k, v in call.items() if k not in ("call", "set")}
        try:
            answer = {"ok": getattr(self, "do_" + call["call"])(**arguments)}
        except OSError as e:
            answer = {"errno": e.errno}
        if "ok" in answer:
            self.mark_set(**call.get("set", {}))
        self.watch_sets()
        return answer

    def mark_set(self, begins=None, files=(), goes=None):
        """What the trainer knows of its sets, said with a call."""
        if begins:
            like = any(s.whole for s in self.beside(begins))
            self.sets[begins] = Set(files, self.now_s, like)
        if goes in self.sets:
            gone = self.sets.pop(goes)
            if not gone.whole:
                self.halves.setdefault(parent_of(goes), []).append(gone.done)

    def beside(self, path):
        """Other sets in its directory."""
        above = parent_of(path)
        return [s for p, s in self.sets.items() if parent_of(p) == above and p != path]

    def halves_beside(self, path):
        """What there was of others that were never whole: a half that settled is a measure, too."""
        here = [s.done for s in self.beside(path) if not s.whole]
        return here + self.halves.get(parent_of(path), [])

    def watch_sets(self):
        for path, s in self.sets.items():
            if not s.whole:
                files = {name: self.there(f"{path}/{name}") for name in s.files}
                done = frozenset(n for n, f in files.items() if isinstance(f, File) and f.sealed)
                if done != s.done:
                    s.done, s.changed_s = done, self.now_s
                s.whole = len(done) == len(files)

    def do_open(self, by, path, flags, h, mode=0o644):
        directory, name = self.parent(path)
        node = self.inodes.get(directory.names.get(name))
        if node and flags & os.O_CREAT and flags & os.O_EXCL:
            fail(errno.EEXIST)
        if not node and not flags & os.O_CREAT:
            fail(errno.ENOENT)
        if isinstance(node, Directory):
            fail(errno.EISDIR)
        if not node:
            node = self.new(File, mode=mode, written_s=self.now_s)
            directory.names[name] = node.id
        elif flags & os.O_TRUNC and not (node.content == b"" and not node.sealed):
            empty = not node.content
            self.written(node, by)
            node.content = b""
            node.grown = MAYBE if empty else NO  # nothing went
        o = Open(node.id, flags)
        if o.writes():
            node.killed_s = None
        number = self.next
        self.next += 1
        self.opens[number] = o
        self.fds[by, h] = number

    def do_dup(self, by, h, to):
        self.fds[by, to] = self.fds[by, h]

    def do_close(self, by, h):
        o = self.opened(by, h)
        file = self.inodes[o.inode]
        if o.writes() and file.writer in (None, by):
            self.seals(file, by)
        self.forget_fd(by, h)

    def forget_fd(self, by, h):
        number = self.fds.pop((by, h))
        if number not in self.fds.values():
            inode = self.opens.pop(number).inode
            self.drop_unnamed(inode)

    def do_write(self, by, h, data):
        return self.write_bytes(by, h, noise(*data))

    def write_bytes(self, by, h, data):
        o = self.opened(by, h)
        o.at = self.put(self.inodes[o.inode], o.at, data, by, o.flags & os.O_APPEND)
        self.sync_if_asked(o, by)
        return len(data)

    def sync_if_asked(self, o, by):
        if o.flags & (os.O_SYNC | os.O_DSYNC):
            self.seals(self.inodes[o.inode], by)

    def do_writev(self, by, h, pieces):
        return self.write_bytes(by, h, b"".join(noise(*data) for data in pieces))

    def do_pwrite(self, by, h, data, at):
        o = self.opened(by, h)
        self.put(self.inodes[o.inode], at, noise(*data), by, o.flags & os.O_APPEND)
        self.sync_if_asked(o, by)
        return data[0]

    def do_seek(self, by, h, at):
        self.opened(by, h).at = at
        return at

    def do_fsync(self, by, h):
        file = self.file(by, h)
        self.seals(file, file.writer or by)

    do_fdatasync = do_fsync

    def do_ftruncate(self, by, h, size):
        self.resize(self.file(by, h), size, by)

    def do_fallocate(self, by, h, mode, at, size):
        file = self.file(by, h)
        if mode & (PUNCH_HOLE | ZERO_RANGE):
            old = file.content
            end = max(at, min(at + size, len(old)))
            self.written(file, by)
            file.content = old[:at] + bytes(end - min(at, len(old))) + old[end:]
            if at > len(old):
                file.content = old
            return
        self.written(file, by, grew=True)
        if not mode & KEEP_SIZE:
            file.content += bytes(max(0, at + size - len(file.content)))

    def do_copy(self, by, h, at, to, to_at, size):
        data = self.file(by, h).content[at : at + size]
        self.put(self.file(by, to), to_at, data, by)
        return len(data)

    def do_sendfile(self, by, h, at, to, size):
        return self.write_bytes(by, to, self.file(by, h).content[at : at + size])

    def do_map(self, by, h, pieces, sync):
        file = self.file(by, h)
        for data, at in pieces:
            self.written(file, by, mapped=True)
            file.content = file.content[:at] + noise(*data) + file.content[at + data[0] :]
        if sync:
            self.seals(file, by)

    def do_mkdir(self, by, path):
        directory, name = self.parent(path)
        if name in directory.names:
            fail(errno.EEXIST)
        directory.names[name] = self.new(Directory).id

    def do_rmdir(self, by, path):
        directory, name = self.parent(path)
        node = self.find(path)
        if not isinstance(node, Directory):
            fail(errno.ENOTDIR)
        if node.names:
            fail(errno.ENOTEMPTY)
        del self.inodes[self.take_away(directory, name)]

    def do_unlink(self, by, path):
        directory, name = self.parent(path)
        if isinstance(self.find(path), Directory):
            fail(errno.EISDIR)
        self.drop_unnamed(self.take_away(directory, name))

    def do_rename(self, by, path, to, flags=0):
        old, old_name = self.parent(path)
        new, new_name = self.parent(to)
        node = self.find(path)
        over = self.inodes.get(new.names.get(new_name))
        if flags == EXCHANGE:
            return self.exchange(old, old_name, node, new, new_name, over)
        if over and flags == NOREPLACE:
            fail(errno.EEXIST)
        if isinstance(node, Directory) and (to + "/").startswith(path + "/") and to != path:
            fail(errno.EINVAL)
        if over is node:
            return None
        if over:
            self.check_replaced(node, over)
        self.take_away(old, old_name)
        if isinstance(over, Directory):
            self.take_away(new, new_name)
            del self.inodes[over.id]
        self.lead(new, new_name, node.id)
        if isinstance(node, Directory):
            self.move_sets(path, to)
        return None

    def check_replaced(self, node, over):
        if isinstance(over, Directory):
            if not isinstance(node, Directory):
                fail(errno.EISDIR)
            if over.names:
                fail(errno.ENOTEMPTY)
        elif isinstance(node, Directory):
            fail(errno.ENOTDIR)

    def exchange(self, old, old_name, node, new, new_name, over):
        if not over:
            fail(errno.ENOENT)
        if over is node:
            return
        self.take_away(old, old_name)
        self.take_away(new, new_name)
        old.names[old_name], new.names[new_name] = over.id, node.id

    def move_sets(self, path, to):
        for p in [p for p in self.sets if (p + "/").startswith(path + "/")]:
            self.sets[to + p[len(path) :]] = self.sets.pop(p)

    def do_link(self, by, path, to):
        node = self.find(path)
        directory, name = self.parent(to)
        if name in directory.names:
            fail(errno.EEXIST)
        if isinstance(node, Directory):
            fail(errno.EPERM)
        directory.names[name] = node.id

    def do_symlink(self, by, target, path):
        directory, name = self.parent(path)
        if name in directory.names:
            fail(errno.EEXIST)
        directory.names[name] = self.new(Symlink, target=target).id

    def do_sync_dir(self, by, path):
        if not isinstance(self.find(path), Directory):
            fail(errno.ENOTDIR)

    def do_truncate(self, by, path, size):
        node = self.find(path)
        if isinstance(node, Directory):
            fail(errno.EISDIR)
        self.resize(node, size, by)
        if not self.writers(node.id):
            self.seals(node, NOBODY)

    def do_chmod(self, by, path, mode):
        self.find(path).mode = mode

    def do_utimens(self, by, path, mtime_ns):
        node = self.find(path)
        if isinstance(node, File):
            node.mtime_ns = mtime_ns
            if node.sealed:
                node.whole_mtime_ns = mtime_ns

    def do_setxattr(self, by, path, name, data):
        self.find(path).xattrs[name] = noise(*data)

    def do_removexattr(self, by, path, name):
        if self.find(path).xattrs.pop(name, None) is None:
            fail(errno.ENODATA)

    def do_read(self, by, path):
        node = self.find(path)
        if isinstance(node, Directory):
            fail(errno.EISDIR)
        return node.content.hex()

    def do_readdir(self, by, path):
        node = self.find(path)
        if not isinstance(node, Directory):
            fail(errno.ENOTDIR)
        return sorted(node.names)

    def do_readlink(self, by, path):
        node = self.find(path)
        if not isinstance(node, Symlink):
            fail(errno.EINVAL)
        return node.target

    def do_stat(self, by, path):
        node = self.find(path)
        if isinstance(node, File):
            return [len(node.content), len(self.links(node.id)), stat.S_IFREG | node.mode]
        if isinstance(node, Symlink):
            return [len(node.target.encode()), len(self.links(node.id)), stat.S_IFLNK | 0o777]
        below = sum(isinstance(self.inodes[i], Directory) for i in node.names.values())
        return [None, 2 + below, stat.S_IFDIR | node.mode]

    def do_statfs(self, by):
        return True

    # ---- processes ----

    def do_fork(self, by, child):
        """The child has everything open that its parent has."""
        for (owner, h), number in list(self.fds.items()):
            if owner == by:
                self.fds[child, h] = number

    def do_thread(self, by):
        pass

    def do_ends(self, by, status):
        """A process is gone; status None: killed.  Its files are closed for it."""
        for owner, h in [key for key in self.fds if key[0] == by]:
            o = self.opens[self.fds[owner, h]]
            file = self.inodes[o.inode]
            if not o.writes() or file.sealed:
                pass
            elif status == 0:
                if file.writer in (None, by):
                    self.seals(file, by)
            elif file.mapped or file.writer in (None, by):
                file.killed_s = self.now_s
                file.writer = by
            self.forget_fd(owner, h)

    def restart(self, now_s):
        """The daemon was killed and goes on: everybody who wrote is as if killed with it."""
        self.now_s = now_s
        self.fds.clear()
        self.opens.clear()
        for node in self.inodes.values():
            if isinstance(node, File) and not node.sealed:
                node.killed_s = now_s
        for key, faces in self.cut.items():
            self.past.setdefault(key, []).extend(faces)
        self.drop_unnamed(*list(self.inodes))

    def seals_key(self):
        """Two models of one live tree with the same of this are the same."""
        files = (n for n in self.inodes.values() if isinstance(n, File))
        return tuple(sorted((n.id, n.sealed, n.whole or b"", n.grown or 0) for n in files))

    # ---- what is seen ----

    def walk(self, path="", directory=ROOT):
        for name, inode in self.inodes[directory].names.items():
            below = f"{path}/{name}" if path else name
            yield below, directory, name, self.inodes[inode]
            if isinstance(self.inodes[inode], Directory):
                yield from self.walk(below, inode)

    def face(self, node, content, mtime_ns=None):
        xattrs = tuple(sorted(node.xattrs.items()))
        return Face("file", node.id, content, node.mode, xattrs, mtime_ns)

    def plain_face(self, node):
        if isinstance(node, Symlink):
            return Face("link", node.id, node.target)
        return Face("dir", node.id, None, node.mode, tuple(sorted(node.xattrs.items())))

    def live(self):
        """{path: [the only Face]}"""
        return {
            path: [
                self.face(n, n.content, n.mtime_ns) if isinstance(n, File) else self.plain_face(n)
            ]
            for path, _, _, n in self.walk()
        }

    def is_log(self, file, name):
        """YES, NO, or MAYBE: by the name that was given last, and by when it was last frozen."""
        return file.grown if name.endswith(LOG_NAMES) else NO

    def public_faces(self, file, name):
        """The contents that a moment of now may say of a file; [] if it is in none."""
        if file.sealed:
            return [self.face(file, file.content, file.mtime_ns)]
        faces = []
        log = self.is_log(file, name)
        if log is not NO:
            faces.append(self.face(file, file.content))
        if log is not YES and file.whole is not None:
            faces.append(self.face(file, file.whole, file.whole_mtime_ns))
        if file.mapped and self.now_s > file.written_s + MAPPED_STILL_S - 5:
            faces.append(self.face(file, file.content))
        return faces

    def public(self):
        """{path: [Face or None (absent), ...]}: what a moment of now may say of each name."""
        faces = {}
        for path, directory, name, node in self.walk():
            if not isinstance(node, File):
                faces[path] = [self.plain_face(node)]
                continue
            faces[path] = self.public_faces(node, name)
            if not faces[path]:
                faces[path] = [None, *self.past.get((directory, name), ())]
        return faces

    def holders(self):
        """Files that keep this instant from being quiet; those of killed writers separately."""
        holding, killed = [], []
        for path, _, name, node in self.walk():
            if not isinstance(node, File) or node.sealed or self.is_log(node, name) is not NO:
                continue
            if node.killed_s is not None and not self.writers(node.id):
                killed.append(node)
            elif not node.mapped or self.now_s < node.written_s + MAPPED_STILL_S - 5:
                holding.append(path)
        return holding, killed
