# SPDX-License-Identifier: Apache-2.0
"""A hand of the fuzzing trainer: a process, or a thread of one, that makes the calls it is told.

    python3 hand.py FD

Over the socket FD comes one call a line, {"call": NAME, ...} as JSON, and each is answered by one
line, {"ok": VALUE} or {"errno": NUMBER}.  Open files belong to the process and have names; a child
inherits them.  Nothing is caught and nothing is tidied up: what a hand does is judged elsewhere.
"""

import contextlib
import ctypes
import json
import mmap
import os
import signal
import socket
import stat
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from lib.content import noise  # noqa: E402

AT_FDCWD = -100
MS_SYNC = 4


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")


class Process:
    """What the threads of one process share: its open files."""

    def __init__(self):
        self.root = "/"
        self.fds = {}
        self.libc = ctypes.CDLL(None, use_errno=True)
        address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        self.libc.mmap.restype = address
        self.libc.mmap.argtypes = [address, size, number, number, number, ctypes.c_long]
        self.libc.msync.argtypes = [address, size, number]
        self.libc.munmap.argtypes = [address, size]

    def at(self, path):
        return os.path.join(self.root, path) if path else self.root

    # ---- open files ----

    def do_open(self, path, flags, h, mode=0o644):
        self.fds[h] = os.open(self.at(path), flags, mode)

    def do_dup(self, h, to):
        self.fds[to] = os.dup(self.fds[h])

    def do_close(self, h):
        os.close(self.fds.pop(h))

    def do_write(self, h, data):
        return os.write(self.fds[h], noise(*data))

    def do_writev(self, h, pieces):
        return os.writev(self.fds[h], [noise(*data) for data in pieces])

    def do_pwrite(self, h, data, at):
        return os.pwrite(self.fds[h], noise(*data), at)

    def do_seek(self, h, at):
        return os.lseek(self.fds[h], at, os.SEEK_SET)

    def do_fsync(self, h):
        os.fsync(self.fds[h])

    def do_fdatasync(self, h):
        os.fdatasync(self.fds[h])

    def do_ftruncate(self, h, size):
        os.ftruncate(self.fds[h], size)

    def do_fallocate(self, h, mode, at, size):
        offset, length = ctypes.c_long(at), ctypes.c_long(size)
        checked(self.libc.fallocate(self.fds[h], mode, offset, length))

    def do_copy(self, h, at, to, to_at, size):
        return os.copy_file_range(self.fds[h], self.fds[to], size, at, to_at)

    def do_sendfile(self, h, at, to, size):
        return os.sendfile(self.fds[to], self.fds[h], at, size)

    def do_map(self, h, pieces, sync):
        """Each piece is [data, at].  Python's own mmap closes a descriptor, and so seals."""
        size = os.fstat(self.fds[h]).st_size
        at = self.libc.mmap(
            None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, self.fds[h], 0
        )
        if at == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "")
        for data, offset in pieces:
            ctypes.memmove(at + offset, noise(*data), data[0])
        if sync:
            checked(self.libc.msync(at, size, MS_SYNC))
        checked(self.libc.munmap(at, size))

    # ---- names ----

    def do_mkdir(self, path):
        os.mkdir(self.at(path), 0o755)

    def do_rmdir(self, path):
        os.rmdir(self.at(path))

    def do_unlink(self, path):
        os.unlink(self.at(path))

    def do_rename(self, path, to, flags=0):
        names = os.fsencode(self.at(path)), os.fsencode(self.at(to))
        checked(self.libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], flags))

    def do_link(self, path, to):
        os.link(self.at(path), self.at(to))

    def do_symlink(self, target, path):
        os.symlink(target, self.at(path))

    def do_sync_dir(self, path):
        fd = os.open(self.at(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    # ---- attributes ----

    def do_truncate(self, path, size):
        os.truncate(self.at(path), size)

    def do_chmod(self, path, mode):
        os.chmod(self.at(path), mode)

    def do_utimens(self, path, mtime_ns):
        os.utime(self.at(path), ns=(mtime_ns, mtime_ns))

    def do_setxattr(self, path, name, data):
        os.setxattr(self.at(path), name, noise(*data))

    def do_removexattr(self, path, name):
        os.removexattr(self.at(path), name)

    # ---- looking ----

    def do_read(self, path):
        with open(self.at(path), "rb") as f:
            return f.read().hex()

    def do_readdir(self, path):
        return sorted(os.listdir(self.at(path)))

    def do_readlink(self, path):
        return os.readlink(self.at(path))

    def do_stat(self, path):
        st = os.lstat(self.at(path))
        return [None if stat.S_ISDIR(st.st_mode) else st.st_size, st.st_nlink, st.st_mode]

    def do_statfs(self):
        return os.statvfs(self.root).f_bavail > 0

    # ---- more hands ----

    def do_enter(self, root):
        """Paths are below it from now on."""
        self.root = root

    def do_fork(self, line):
        """The child serves a socket of its own, and has everything of ours open."""
        pid = os.fork()
        if pid == 0:
            line.close()
            Line(self, line.given).serve()
            os._exit(1)  # not told to: whoever tells us was killed with our parent
        line.given.close()
        return pid

    def do_thread(self, line):
        threading.Thread(target=Line(self, line.given).serve, daemon=True).start()

    def do_exit(self, status):
        os._exit(status)


class Line:
    """One socket, and whoever answers it."""

    MORE = {"fork", "thread"}

    def __init__(self, process, sock):
        self.process = process
        self.sock = sock
        self.given = None

    def close(self):
        self.sock.close()

    def answer(self, call):
        name = call.pop("call")
        if name in self.MORE:
            self.given = socket.socket(fileno=socket.recv_fds(self.sock, 1, 1)[1][0])
            call["line"] = self
        try:
            return {"ok": getattr(self.process, f"do_{name}")(**call)}
        except OSError as e:
            return {"errno": e.errno}

    def serve(self):
        with contextlib.suppress(ConnectionError):  # nobody tells us any more
            for line in iter(self.next_line, b""):
                self.sock.sendall(json.dumps(self.answer(json.loads(line))).encode() + b"\n")

    def next_line(self):
        """Byte by byte at its end, since a descriptor may follow."""
        line = b""
        while not line.endswith(b"\n"):
            piece = self.sock.recv(65536, socket.MSG_PEEK)
            end = piece.find(b"\n") + 1
            piece = self.sock.recv(end or len(piece))
            if not piece:
                return b""
            line += piece
        return line


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for children
    Line(Process(), socket.socket(fileno=int(sys.argv[1]))).serve()
