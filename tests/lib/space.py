# SPDX-License-Identifier: Apache-2.0
"""A mount namespace of its own, in which mount(8) and umount(8) find our helpers in /sbin.

What is mounted in it is not to be seen outside: a test looks at it through run().
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from lib.machine import Machine
from lib.procs import HANGS_S, Group, kill

HELPERS = ["mount.holdfast", "mount.fuse.holdfast", "umount.holdfast", "umount.fuse.holdfast"]
NOBODY = 65534


class Space:
    """Everybody may enter its root, so that others than root may mount there."""

    def __init__(self, program):
        if os.geteuid() != 0:
            pytest.skip("only root makes mount namespaces")
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-test-"))
        self.root.chmod(0o755)
        self.holdfast = self.root / "holdfast"
        shutil.copy(program, self.holdfast)
        self.holder = Group(
            ["unshare", "-m", "--propagation", "private"]
            + ["sh", "-c", "echo in; exec sleep 100000"],
            stdout=subprocess.PIPE,
        )
        assert self.holder.process.stdout.readline() == b"in\n", "no mount namespace"
        self.let_go_of_others()
        # Machine runs this as its program.
        self.program = self.root / "holdfast-in-space"
        self.program.write_text(f'#!/bin/sh\nexec {" ".join(self.enter())} {self.holdfast} "$@"\n')
        self.program.chmod(0o755)

    def let_go_of_others(self):
        """What is mounted outside would live on here, when its own test has ended."""
        for where, _, kind in list(self.table()):
            if kind.startswith("fuse"):
                self.run("umount", "-i", "-l", where, expect=None)

    def enter(self):
        return ["nsenter", "-t", str(self.holder.pid), "-m", "--"]

    def run(self, *command, uid=0, env=None, expect=0):
        """A command in it; its standard error if its exit status is as expected (None: any)."""
        as_user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
        done = subprocess.run(
            [*self.enter(), *as_user, *map(str, command)],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )
        said = f"{command}: {done.returncode}, wanted {expect}: {done.stdout}{done.stderr}"
        assert expect in (done.returncode, None), said
        return done

    def install(self):
        """Our helpers beside what /sbin has."""
        sbin = pathlib.Path("/sbin").resolve()
        real, ours = self.root / "sbin-real", self.root / "sbin"
        real.mkdir()
        ours.mkdir()
        self.run("mount", "-n", "-t", "tmpfs", "none", "/run/mount")
        self.run("mount", "--bind", sbin, real)
        for entry in os.listdir(sbin):
            (ours / entry).symlink_to(real / entry)
        for name in HELPERS:
            (ours / name).unlink(missing_ok=True)
            (ours / name).symlink_to(self.holdfast)
        self.run("mount", "--bind", ours, sbin)
        # Not everywhere may everybody open it, as is usual.
        self.run("mknod", "-m", "666", self.root / "fuse", "c", "10", "229")
        self.run("mount", "--bind", self.root / "fuse", "/dev/fuse")
        return self

    def write_etc(self, name, text):
        """/etc/NAME, in here."""
        path = self.root / name
        path.write_text(text)
        path.chmod(0o644)
        self.run("mount", "--bind", path, f"/etc/{name}")

    def machine(self, store, name="m", **options):
        return Machine(self.program, store, self.root / name, **options)

    def table(self):
        """(mount point, options, type) of all that is mounted in it."""
        lines = self.run("cat", "/proc/self/mountinfo").stdout.splitlines()
        for fields in map(str.split, lines):
            yield fields[4], fields[5].split(","), fields[fields.index("-") + 1]

    def mounted(self, path):
        """The options that the kernel has for what is mounted there; None: nothing is."""
        here = [options for where, options, _ in self.table() if where == str(path)]
        return here[-1] if here else None

    def status(self, path):
        return json.loads(self.run(self.holdfast, "status", "--json", path).stdout)

    def close(self):
        """What serves in it is killed, by the number that it says itself."""
        for where, _, kind in self.table():
            if kind == "fuse.holdfast" and self.root in pathlib.Path(where).parents:
                done = self.run(self.holdfast, "status", "--json", where, expect=None)
                if done.returncode == 0:
                    kill(json.loads(done.stdout)["pid"])
        self.holder.__exit__()
        shutil.rmtree(self.root, ignore_errors=True)
