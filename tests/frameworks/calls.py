#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every call that trainers make on checkpoint files, each with what came of it, as JSON.

    calls.py DIRECTORY

Run on a local disk and on a mount: what comes of a call is the same.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import pathlib
import select
import shutil
import socket
import stat
import struct
import subprocess
import sys
import threading

KIB, MIB = 1 << 10, 1 << 20
LIBC = ctypes.CDLL(None, use_errno=True)
O_TMPFILE = os.O_TMPFILE
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE = 1, 2
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
F_OFD_SETLK, F_OFD_SETLKW = 37, 38
TCGETS, FICLONE = 0x5401, 0x40049409
checks = []


def check(function):
    checks.append(function)
    return function


# ---- helpers ----


def sure(rc):
    if rc < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return rc


def rename2(a, b, flags):
    sure(LIBC.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), flags))


def error(call, *arguments):
    """The name of the error that a call ends with; 95 is ENOTSUP to Python."""
    try:
        call(*arguments)
    except OSError as e:
        return errno.errorcode[e.errno]
    return "OK"


@contextlib.contextmanager
def opened(path, flags, mode=0o644):
    fd = os.open(path, flags, mode)
    try:
        yield fd
    finally:
        os.close(fd)


def pattern(size, seed=0):
    return bytes((i * 7 + seed) % 251 for i in range(251)) * (size // 251 + 1)


def write(path, data):
    path.write_bytes(data)
    return path


def elsewhere(program, *arguments):
    """What another process prints."""
    command = [
        sys.executable,
        "-c",
        "import fcntl, os, struct, sys\n" + program,
        *map(str, arguments),
    ]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=120).stdout.decode()


# ---- O_DIRECT ----


def aligned(size, byte):
    buffer = mmap.mmap(-1, size)
    buffer[:] = byte * size
    return buffer


@check
def o_direct_writes_and_reads_aligned(d):
    with opened(d / "f", os.O_RDWR | os.O_CREAT | os.O_DIRECT) as fd:
        os.pwrite(fd, aligned(MIB, b"a"), 0)
        os.pwrite(fd, aligned(4 * KIB, b"b"), 64 * KIB)
        back = mmap.mmap(-1, MIB)
        n = os.preadv(fd, [back], 0)
    return [n, bytes(back[64 * KIB - 1 : 64 * KIB + 1]).decode(), (d / "f").stat().st_size]


@check
def o_direct_sees_what_was_written_without(d):
    write(d / "f", b"x" * 8 * KIB)
    with opened(d / "f", os.O_RDONLY | os.O_DIRECT) as fd:
        back = mmap.mmap(-1, 8 * KIB)
        return [os.preadv(fd, [back], 0), back[:] == b"x" * 8 * KIB]


@check
def dd_with_oflag_direct(d):
    source = write(d / "source", pattern(MIB)[:MIB])
    subprocess.run(
        ["dd", f"if={source}", f"of={d}/f", "bs=256K", "oflag=direct", "status=none"], check=True
    )
    return (d / "f").read_bytes() == source.read_bytes()


# ---- open, write, truncate ----


@check
def writev_of_odd_lengths(d):
    with opened(d / "f", os.O_WRONLY | os.O_CREAT) as fd:
        n = os.writev(fd, [b"a", b"b" * 100_003, b"", b"c" * 17])
    return [n, (d / "f").read_bytes() == b"a" + b"b" * 100_003 + b"c" * 17]


@check
def pwrite_backwards(d):
    with opened(d / "f", os.O_RDWR | os.O_CREAT) as fd:
        for at in range(9, -1, -1):
            os.pwrite(fd, bytes([65 + at]) * 1000, at * 1000)
        os.pwrite(fd, b"zz", 4999)
        return [os.pread(fd, 4, 4998).decode(), os.fstat(fd).st_size]


@check
def a_reader_sees_what_another_writes(d):
    with opened(d / "f", os.O_WRONLY | os.O_CREAT) as w, opened(d / "f", os.O_RDONLY) as r:
        os.write(w, b"one")
        first = os.read(r, 10).decode()
        os.write(w, b"two")
        return [first, os.read(r, 10).decode(), error(os.read, w, 1)]


@check
def o_creat_without_o_trunc_keeps_the_rest(d):
    write(d / "f", b"0123456789")
    with opened(d / "f", os.O_WRONLY | os.O_CREAT) as fd:
        os.write(fd, b"ab")
    return (d / "f").read_text()


@check
def o_excl_o_nofollow_o_directory(d):
    write(d / "f", b"")
    (d / "link").symlink_to("f")
    return [
        error(os.open, d / "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY),
        error(os.open, d / "link", os.O_RDONLY | os.O_NOFOLLOW),
        error(os.open, d / "f", os.O_RDONLY | os.O_DIRECTORY),
        error(os.open, d, os.O_WRONLY),
        error(os.open, d / "none", os.O_RDONLY),
    ]


@check
def o_sync_and_o_dsync(d):
    with opened(d / "f", os.O_WRONLY | os.O_CREAT | os.O_SYNC) as fd:
        os.write(fd, b"a")
    with opened(d / "f", os.O_WRONLY | os.O_APPEND | os.O_DSYNC) as fd:
        os.write(fd, b"b")
    return (d / "f").read_text()


@check
def o_append_of_two_processes_loses_nothing(d):
    program = """
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for i in range(300): os.write(fd, f"{sys.argv[2]}{i:04}".ljust(63).encode() + b"\\n")
"""
    threads = [threading.Thread(target=elsewhere, args=(program, d / "f", w)) for w in "ab"]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    lines = (d / "f").read_bytes().splitlines()
    return [len(lines), len(set(lines)), {len(line) for line in lines} == {63}]


@check
def ftruncate_up_and_down(d):
    with opened(d / "f", os.O_RDWR | os.O_CREAT) as fd:
        os.ftruncate(fd, 100_000)
        zeros = os.pread(fd, 100_000, 0) == bytes(100_000)
        os.pwrite(fd, b"x" * 100, 50_000)
        os.ftruncate(fd, 50_010)
        os.ftruncate(fd, 60_000)
        return [zeros, os.pread(fd, 30, 50_000).decode("latin-1"), os.fstat(fd).st_size]


@check
def sparse_files_read_zeros(d):
    with opened(d / "f", os.O_RDWR | os.O_CREAT) as fd:
        os.pwrite(fd, b"end", 5 * MIB)
        return [
            os.pread(fd, 10, MIB) == bytes(10),
            os.fstat(fd).st_size,
            os.pread(fd, 10, 5 * MIB).decode(),
        ]


@check
def fallocate_keeps_or_grows_the_size(d):
    with opened(d / "f", os.O_RDWR | os.O_CREAT) as fd:
        kept = error(
            lambda: sure(LIBC.fallocate(fd, FALLOC_KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(MIB)))
        )
        size = os.fstat(fd).st_size
        os.posix_fallocate(fd, 0, 10_000)
        return [
            kept in ("OK", "ENOTSUP"),
            size,
            os.fstat(fd).st_size,
            os.pread(fd, 5, 9_000) == bytes(5),
        ]


@check
def lseek_ends(d):
    write(d / "f", b"x" * 1000)
    with opened(d / "f", os.O_RDONLY) as fd:
        return [
            os.lseek(fd, 0, os.SEEK_END),
            os.lseek(fd, 0, os.SEEK_HOLE),
            error(os.lseek, fd, 2000, os.SEEK_DATA),
        ]


# ---- names ----


@check
def rename_over_a_file_that_is_being_read(d):
    write(d / "old", b"old")
    write(d / "new", b"new")
    with opened(d / "old", os.O_RDONLY) as fd:
        os.rename(d / "new", d / "old")
        return [
            os.read(fd, 10).decode(),
            os.fstat(fd).st_nlink,
            (d / "old").read_text(),
            sorted(os.listdir(d)),
        ]


@check
def rename_of_a_file_that_is_being_written(d):
    with opened(d / "a", os.O_WRONLY | os.O_CREAT) as fd:
        os.write(fd, b"one")
        os.rename(d / "a", d / "b")
        os.write(fd, b"two")
    return [(d / "b").read_text(), os.listdir(d)]


@check
def rename_of_directories(d):
    (d / "a" / "b").mkdir(parents=True)
    with opened(d / "a" / "b" / "f", os.O_RDWR | os.O_CREAT) as fd:
        os.rename(d / "a" / "b", d / "a" / "c")
        os.rename(d / "a", d / "z")
        os.write(fd, b"x")
    (d / "full" / "x").mkdir(parents=True)
    (d / "empty").mkdir()
    return [
        (d / "z" / "c" / "f").read_text(),
        error(os.rename, d / "z", d / "full"),
        error(os.rename, d / "full", d / "empty"),
        error(os.rename, d / "z", d / "z" / "c" / "in itself"),
        error(os.rename, d / "z" / "c" / "f", d / "empty"),
        sorted(os.listdir(d)),
    ]


@check
def renameat2_noreplace_and_exchange(d):
    write(d / "a", b"a")
    write(d / "b", b"b")
    refused = error(rename2, d / "a", d / "b", RENAME_NOREPLACE)
    rename2(d / "a", d / "b", RENAME_EXCHANGE)
    rename2(d / "a", d / "c", RENAME_NOREPLACE)
    return [refused, (d / "b").read_text(), (d / "c").read_text()]


@check
def hard_links(d):
    write(d / "a", b"1")
    os.link(d / "a", d / "b")
    with open(d / "b", "ab") as f:
        f.write(b"2")
    same = os.stat(d / "a").st_ino == os.stat(d / "b").st_ino
    links = os.stat(d / "a").st_nlink
    os.unlink(d / "a")
    return [
        same,
        links,
        (d / "b").read_text(),
        os.stat(d / "b").st_nlink,
        error(os.link, d / "b", d / "b"),
    ]


@check
def symbolic_links(d):
    write(d / "target", b"t")
    (d / "latest").symlink_to("target")
    (d / "tmp").symlink_to("nowhere")
    first = (d / "latest").read_text()
    os.rename(d / "tmp", d / "latest")
    return [
        first,
        os.readlink(d / "latest"),
        error(os.open, d / "latest", os.O_RDONLY),
        os.lstat(d / "latest").st_size,
    ]


@check
def an_unlinked_open_file_works_and_is_not_listed(d):
    with opened(d / "f", os.O_RDWR | os.O_CREAT) as fd:
        os.unlink(d / "f")
        os.write(fd, b"hidden")
        os.fsync(fd)
        return [os.listdir(d), os.pread(fd, 10, 0).decode(), os.fstat(fd).st_nlink]


@check
def rmdir_and_unlink_say_why(d):
    (d / "full" / "x").mkdir(parents=True)
    write(d / "f", b"")
    return [
        error(os.rmdir, d / "full"),
        error(os.rmdir, d / "f"),
        error(os.unlink, d / "full"),
        error(os.unlink, d / "none"),
        error(os.mkdir, d / "full"),
        error(os.mkdir, d / "none" / "x"),
        error(os.mkdir, d / ("n" * 256)),
    ]


@check
def a_directory_is_emptied_while_it_is_read(d):
    for i in range(1500):
        write(d / f"f{i:04}", b"")
    with os.scandir(d) as entries:
        for entry in entries:
            os.unlink(entry.path)
    return os.listdir(d)


@check
def readdir_has_types_and_link_counts(d):
    (d / "dir" / "sub").mkdir(parents=True)
    write(d / "file", b"")
    (d / "link").symlink_to("file")
    kinds = {e.name: [e.is_dir(follow_symlinks=False), e.is_symlink()] for e in os.scandir(d)}
    return [kinds, os.stat(d / "dir").st_nlink]


# ---- copies ----


@check
def copy_file_range_copies(d):
    source = write(d / "a", pattern(3 * MIB))
    with opened(d / "a", os.O_RDONLY) as a, opened(d / "b", os.O_WRONLY | os.O_CREAT) as b:
        left = source.stat().st_size
        while left:
            left -= os.copy_file_range(a, b, left)
    return (d / "b").read_bytes() == source.read_bytes()


@check
def sendfile_from_and_into(d):
    source = write(d / "a", pattern(MIB))
    with opened(d / "a", os.O_RDONLY) as a, opened(d / "b", os.O_WRONLY | os.O_CREAT) as b:
        left = source.stat().st_size
        while left:
            left -= os.sendfile(b, a, None, left)
    return (d / "b").read_bytes() == source.read_bytes()


@check
def splice_through_a_pipe(d):
    source = write(d / "a", pattern(200 * KIB))
    r, w = os.pipe()
    with opened(d / "a", os.O_RDONLY) as a, opened(d / "b", os.O_WRONLY | os.O_CREAT) as b:
        while n := os.splice(a, w, 64 * KIB):
            while n:
                n -= os.splice(r, b, n)
    os.close(r), os.close(w)
    return (d / "b").read_bytes() == source.read_bytes()


@check
def copy2_keeps_times_and_mode(d):
    write(d / "a", b"x").chmod(0o640)
    os.utime(d / "a", ns=(10**18 + 1, 10**18 + 123456789))
    shutil.copy2(d / "a", d / "b")
    s = (d / "b").stat()
    return [oct(s.st_mode), s.st_mtime_ns]


# ---- mappings ----


@check
def mmap_private_reads_and_keeps_its_changes(d):
    write(d / "f", pattern(MIB))
    with opened(d / "f", os.O_RDONLY) as fd, mmap.mmap(fd, 0, access=mmap.ACCESS_COPY) as m:
        m[100:103] = b"new"
        return [m[99:104] != pattern(MIB)[99:104], (d / "f").read_bytes() == pattern(MIB)]


@check
def mmap_shared_writes(d):
    with opened(d / "f", os.O_RDWR | os.O_CREAT) as fd:
        os.ftruncate(fd, MIB)
        m = mmap.mmap(fd, MIB)
    m[500_000:500_004] = b"late"  # after the close
    m.flush()
    first = (d / "f").read_bytes()[500_000:500_004].decode()
    m[0:2] = b"ab"
    m.close()
    return [first, (d / "f").read_bytes()[:3].decode("latin-1")]


@check
def mmap_shared_is_seen_by_another_process(d):
    write(d / "f", bytes(8 * KIB))
    with opened(d / "f", os.O_RDWR) as fd, mmap.mmap(fd, 0) as m:
        m[4096:4100] = b"seen"
        program = """
import mmap
f = open(sys.argv[1], "r+b")
print(mmap.mmap(f.fileno(), 0)[4096:4100].decode(), end="")
"""
        return elsewhere(program, d / "f")


# ---- durability ----


@check
def every_kind_of_sync(d):
    with opened(d / "f", os.O_WRONLY | os.O_CREAT) as fd, opened(
        d, os.O_RDONLY | os.O_DIRECTORY
    ) as dfd:
        os.write(fd, b"x" * 10_000)
        ranged = error(
            lambda: sure(LIBC.sync_file_range(fd, ctypes.c_long(0), ctypes.c_long(0), 2))
        )
        return [error(os.fsync, fd), error(os.fdatasync, fd), error(os.fsync, dfd), ranged,
                error(lambda: sure(LIBC.syncfs(fd)))]  # fmt: skip


@check
def posix_fadvise_is_taken(d):
    write(d / "f", b"x" * 10_000)
    with opened(d / "f", os.O_RDONLY) as fd:
        return error(os.posix_fadvise, fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)


# ---- locks ----


@check
def flock_excludes_another_process(d):
    write(d / "f", b"")
    program = """
f = open(sys.argv[1])
try: fcntl.flock(f, int(sys.argv[2]) | fcntl.LOCK_NB); print("got", end="")
except BlockingIOError: print("busy", end="")
"""
    with open(d / "f") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        results = [elsewhere(program, d / "f", int(fcntl.LOCK_SH))]
        fcntl.flock(f, fcntl.LOCK_SH)
        results += [
            elsewhere(program, d / "f", int(lock)) for lock in (fcntl.LOCK_SH, fcntl.LOCK_EX)
        ]
        fcntl.flock(f, fcntl.LOCK_UN)
        return results + [elsewhere(program, d / "f", int(fcntl.LOCK_EX))]


def record_lock(kind, start, length):
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)


@check
def byte_ranges_beyond_the_end_exclude(d):
    write(d / "f", b"")
    program = """
f = open(sys.argv[1], "r+b")
try: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 2, int(sys.argv[2])); print("got", end="")
except OSError: print("busy", end="")
"""
    with open(d / "f", "r+b") as f:
        fcntl.lockf(f, fcntl.LOCK_EX, 10, 1 << 30)
        return [elsewhere(program, d / "f", at) for at in ((1 << 30) + 5, (1 << 30) + 10, 0)]


@check
def ofd_locks_exclude_another_descriptor(d):
    write(d / "f", b"")
    with open(d / "f", "r+b") as a, open(d / "f", "r+b") as b:
        fcntl.fcntl(a, F_OFD_SETLKW, record_lock(fcntl.F_WRLCK, 0, 0))
        busy = error(fcntl.fcntl, b, F_OFD_SETLK, record_lock(fcntl.F_WRLCK, 0, 0))
        fcntl.fcntl(a, F_OFD_SETLK, record_lock(fcntl.F_UNLCK, 0, 0))
        return [busy, error(fcntl.fcntl, b, F_OFD_SETLK, record_lock(fcntl.F_WRLCK, 0, 0))]


# ---- attributes ----


@check
def modes_are_kept(d):
    write(d / "f", b"")
    seen = []
    for mode in (0o600, 0o755, stat.S_IFREG | 0o744, 0o4711, 0o000):
        os.chmod(d / "f", mode)
        seen.append(oct(os.stat(d / "f").st_mode))
    with opened(d / "g", os.O_CREAT | os.O_WRONLY, 0o600) as fd:
        os.fchmod(fd, 0o640)
        os.fchown(fd, os.getuid(), os.getgid())
    return seen + [oct(os.stat(d / "g").st_mode)]


@check
def times_are_kept_to_the_nanosecond(d):
    write(d / "f", b"")
    (d / "dir").mkdir()
    seen = []
    for path in (d / "f", d / "dir"):
        for ns in (
            (10**18 + 1, 10**18 + 999_999_999),
            (-1_000_000_001, -5),
            (4_300_000_000 * 10**9, 5),
        ):
            os.utime(path, ns=ns)
            seen.append([os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns])
    return seen


@check
def every_write_moves_the_times(d):
    write(d / "f", b"1")
    before = os.stat(d / "f")
    with opened(d / "f", os.O_WRONLY) as fd:
        os.utime(d / "f", ns=(0, 0))
        os.write(fd, b"2")
    after = os.stat(d / "f")
    return [
        after.st_mtime_ns > 0,
        after.st_ctime_ns >= before.st_ctime_ns,
        after.st_ino == before.st_ino,
    ]


@check
def an_inode_number_is_not_used_again_at_once(d):
    seen = set()
    for _ in range(20):
        write(d / "tmp", b"")
        seen.add(os.stat(d / "tmp").st_ino)
        os.rename(d / "tmp", d / "f")
    return len(seen) > 1


@check
def user_xattrs(d):
    write(d / "f", b"")
    os.setxattr(d / "f", "user.a", b"1")
    os.setxattr(d / "f", "user.b", b"x" * 1000)
    refused = error(os.setxattr, d / "f", "user.a", b"2", os.XATTR_CREATE)
    os.removexattr(d / "f", "user.a")
    return [
        refused,
        error(os.getxattr, d / "f", "user.a"),
        os.listxattr(d / "f"),
        len(os.getxattr(d / "f", "user.b")),
    ]


@check
def access_and_statfs(d):
    write(d / "f", b"").chmod(0o444)
    s = os.statvfs(d)
    return [os.access(d / "f", os.R_OK), os.access(d / "f", os.X_OK), os.access(d / "no", os.F_OK),
            s.f_bavail > 0, s.f_namemax, shutil.disk_usage(d).free > 0]  # fmt: skip


# ---- what may be refused, but cleanly ----


@check
def o_tmpfile_works_or_is_refused(d):
    return error(os.open, d, O_TMPFILE | os.O_RDWR) in ("OK", "ENOTSUP", "EISDIR")


@check
def terminals_are_not_claimed(d):
    write(d / "f", b"")
    with opened(d / "f", os.O_RDONLY) as fd:
        return [error(fcntl.ioctl, fd, TCGETS, bytes(64)), os.isatty(fd)]


@check
def cloning_works_or_is_refused(d):
    write(d / "a", b"x" * 8192)
    with opened(d / "a", os.O_RDONLY) as a, opened(d / "b", os.O_WRONLY | os.O_CREAT) as b:
        return error(fcntl.ioctl, b, FICLONE, a) in (
            "OK",
            "ENOTSUP",
            "ENOTTY",
            "EINVAL",
            "EXDEV",
            "ENOSYS",
        )


@check
def a_file_polls_as_ready(d):
    write(d / "f", b"x")
    with opened(d / "f", os.O_RDONLY) as fd:
        return bool(select.select([fd], [], [], 1)[0])


@check
def special_files(d):
    os.mkfifo(d / "fifo")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(os.path.relpath(d / "socket"))
    return [
        stat.S_ISFIFO(os.stat(d / "fifo").st_mode),
        stat.S_ISSOCK(os.stat(d / "socket").st_mode),
    ]


@check
def names_of_every_kind(d):
    names = [
        "epoch=0-step=2.ckpt",
        "a b",
        "a:b",
        "é",
        "日本",
        "new\nline",
        "n" * 255,
        "-rf",
        "%2F",
        "'\"",
    ]
    for name in names:
        write(d / name, name.encode())
    return sorted(os.listdir(d)) == sorted(names) and all(
        (d / n).read_bytes() == n.encode() for n in names
    )


def main():
    root = pathlib.Path(sys.argv[1])
    results = {}
    for function in checks:
        directory = root / function.__name__[:60]
        directory.mkdir()
        os.chdir(directory)  # a socket's path is short
        try:
            results[function.__name__] = function(directory)
        except Exception as e:  # what came of it, whatever it is
            results[function.__name__] = f"{type(e).__name__}: {e}".replace(str(root), "")
    os.chdir("/")
    print(json.dumps(results, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
