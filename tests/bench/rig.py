# SPDX-License-Identifier: Apache-2.0
"""What a bench stands on: a server with its data in memory, a disk, machines, and the plain client."""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import uuid

import with_s3
from lib import stores
from lib.machine import Machine

MIB = 1 << 20
GIB = 1 << 30
HERE = pathlib.Path(__file__).resolve().parent
PLAIN_OBJECT = 16 * MIB

# The mount's own defaults, where tests would shorten them.
DEFAULTS = {"commit": "5", "quiet": "1", "settle": "10"}
QUICK = {"commit": "0.05", "quiet": "0.05", "settle": "0.05"}


class Rig:
    def __init__(self, program, plain, versitygw, disk, n, size):
        self.program = program
        self.plain_program = plain
        self.n = n
        self.size = size
        self.stack = contextlib.ExitStack()
        self.seeds = itertools.count(time.time_ns())
        self.versitygw = versitygw
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=disk))
        self.stack.callback(shutil.rmtree, self.root, ignore_errors=True)
        self.disk = self.root / "disk"
        self.disk.mkdir()
        self.server = self.serve("/dev/shm")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    def serve(self, directory):
        server = stores.S3Server(self.versitygw, directory)
        self.stack.callback(server.stop)
        return server

    # ---- stores and machines ----

    @contextlib.contextmanager
    def store(self, server=None):
        """A fresh one, whose objects go with it."""
        store = stores.S3Store(server or self.server, uuid.uuid4().hex[:12])
        stores.make(store, self.program)
        try:
            yield store
        finally:
            shutil.rmtree(store.root, ignore_errors=True)

    @contextlib.contextmanager
    def machine(self, store, **options):
        """Not mounted yet."""
        machine = Machine(self.program, store, self.root / uuid.uuid4().hex[:8], **options)
        try:
            yield machine
        finally:
            machine.close()
            shutil.rmtree(machine.root, ignore_errors=True)

    # ---- measures ----

    def save(self, directory, size=None):
        """A file under a new name, never two of the same content: see writer.py."""
        path = pathlib.Path(directory) / f"ck-{uuid.uuid4().hex[:8]}.pt"
        command = [sys.executable, HERE / "writer.py", path, str(size or self.size), str(next(self.seeds))]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        return path, json.loads(done.stdout)

    def save_to_disk(self):
        """As save(), on the disk below the cache; leaves nothing dirty.  Returns seconds."""
        path, times = self.save(self.disk)
        flush(path)
        path.unlink()
        return times["end"] - times["begin"]

    def plain(self, verb, prefix, count, endpoint=None):
        """Seconds for so many objects of 16 MiB, eight at a time, and its CPU seconds."""
        url = f"{endpoint or self.server.endpoint}/{with_s3.BUCKET}/{prefix}"
        environment = os.environ | {
            "AWS_ACCESS_KEY_ID": with_s3.KEYS["access"],
            "AWS_SECRET_ACCESS_KEY": with_s3.KEYS["secret"],
            "no_proxy": "127.0.0.1",
        }
        command = [self.plain_program, verb, url, str(count)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
        seconds, cpu = done.stdout.split()
        return float(seconds), float(cpu)

    def drop_plain(self, prefix):
        shutil.rmtree(self.server.bucket / prefix, ignore_errors=True)


def flush(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def read_all(path):
    """Seconds of `dd bs=1M`."""
    begin = time.monotonic()
    subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none"], check=True)
    return time.monotonic() - begin


def cpu_seconds(pid):
    """User and system time of a process so far."""
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    fields = stat[stat.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid):
    """The most memory a process ever had."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024
