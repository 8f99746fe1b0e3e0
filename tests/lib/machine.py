# SPDX-License-Identifier: Apache-2.0
"""A machine as a store sees it: a mount with a cache of its own, which can be lost.

A test that wants to wait asks status(); options make quiet moments short, no test relies on that.
"""

import json
import os
import pathlib
import shutil
import subprocess

from lib.procs import HANGS_S, ends_within, kill, until, wait_gone

ELSEWHERE = 4  # umount's: the mount lives on in another place

# Short, so that tests are quick; overruled by a test that is about them.
# Nobody's notices are heeded where a test is not about them.
QUICK = {"commit": "0.2", "quiet": "0.2", "settle": "1", "notice": "none"}


class MountFailed(Exception):
    """`holdfast mount` said no; its text is what it said."""


def option_list(options):
    """{"ro": True, "commit": 5, "takeover": False} as it stands behind -o."""
    words = []
    for name, value in options.items():
        if value is True:
            words.append(name)
        elif value is not False and value is not None:
            words.append(f"{name}={value}")
    return ",".join(words)


class Machine:
    """One mount of `store` under `root`, at mnt/; cache/ dies with the machine."""

    def __init__(self, program, store, root, **options):
        self.program = str(program)
        self.store = store
        self.root = pathlib.Path(root)
        self.path = self.root / "mnt"
        self.cache = self.root / "cache"
        self.log = self.root / "log"
        self.options = QUICK | options
        self.env = {}  # beyond the caller's and the store's
        self.pid = None
        self.root.mkdir(parents=True, exist_ok=True)
        self.path.mkdir(exist_ok=True)
        self.log.touch()

    # ---- the command line ----

    def environment(self):
        """The caller's, with the store's keys; sanitizers write into files of this machine."""
        reports = f"log_path={self.root}/sanitizer"
        return (
            os.environ
            | self.store.env
            | self.env
            | {
                "HOLDFAST_LOG": "1",
                "ASAN_OPTIONS": f"handle_abort=1:{os.environ.get('ASAN_OPTIONS', '')}:{reports}",
                "UBSAN_OPTIONS": f"print_stacktrace=1:{reports}",
                "TSAN_OPTIONS": reports,
            }
        )

    def command(self, *arguments, timeout=HANGS_S):
        """`holdfast ARGUMENT...`; its exit status is the caller's to judge."""
        return subprocess.run(
            [self.program, *map(str, arguments)],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def mount(self, seconds=HANGS_S, **options):
        """Returns self when the mount serves; MountFailed with what was said otherwise."""
        assert self.pid is None, "is mounted"
        words = option_list({"cache": self.cache} | self.options | options)
        with open(self.log, "ab") as log:
            start = log.tell()
            done = subprocess.run(
                [self.program, "mount", self.store.uri, str(self.path), "-o", words],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                timeout=seconds,
                check=False,
            )
        if done.returncode != 0:
            raise MountFailed(self.log_text(start))
        self.pid = self.status()["pid"]
        return self

    def status(self):
        done = self.command("status", self.path, "--json", timeout=HANGS_S)
        assert done.returncode == 0, f"status: {done.stderr}\n{self.log_text()[-4000:]}"
        return json.loads(done.stdout)

    def sync(self, seconds=HANGS_S):
        """Until another machine would get all of it."""
        done = self.command("sync", self.path, "--timeout", seconds, timeout=seconds + 30)
        assert done.returncode == 0, f"sync: {done.stderr}\n{self.log_text()[-4000:]}"

    def umount(self, *arguments, seconds=HANGS_S, expect=0):
        """`holdfast umount` until the daemon has ended; what it printed.  None: any status."""
        done = self.command("umount", self.path, *arguments, timeout=seconds + 30)
        # A mount namespace that a test beside this one has just made shows it too, for a moment.
        lent = expect == 0 and done.returncode == ELSEWHERE and ends_within(self.pid, seconds)
        assert lent or expect in (
            done.returncode,
            None,
        ), f"umount: {done.returncode}, wanted {expect}: {done.stderr}\n{self.log_text()[-4000:]}"
        if not os.path.ismount(self.path):
            wait_gone(self.pid, seconds)
            self.pid = None
        return done.stderr

    # ---- losing it ----

    def kill(self):
        """kill -9 of the daemon; the cache stays."""
        if self.pid is not None:
            self.kill_only()
            self.detach()

    def kill_only(self):
        """The same, and the dead mount stays in the tree: calls get ENOTCONN until it is detached."""
        kill(self.pid)
        wait_gone(self.pid)
        self.pid = None

    def detach(self):
        """Takes a dead mount out of the tree, whoever still looks at it."""
        subprocess.run(
            ["fusermount3", "-u", "-z", "-q", str(self.path)],
            stderr=subprocess.DEVNULL,
            timeout=HANGS_S,
            check=False,
        )
        # A daemon that was killed takes its line out of /run/mount/utab no more.
        subprocess.run(
            ["umount", "-i", "--fake", "--no-canonicalize", str(self.path)],
            stderr=subprocess.DEVNULL,
            timeout=HANGS_S,
            check=False,
        )

    def wipe(self):
        """The disk goes with the machine."""
        assert self.pid is None, "is mounted"
        shutil.rmtree(self.cache, ignore_errors=True)

    def lose(self):
        self.kill()
        self.wipe()

    def replace(self, **options):
        """This machine is lost, and a new one takes its place."""
        self.lose()
        return self.mount(takeover=True, **options)

    def renew(self, **options):
        """Unmounted in peace, then mounted with an empty cache: all comes from the store."""
        self.umount()
        self.wipe()
        return self.mount(**options)

    # ---- looking at it ----

    def until(self, ask, what, seconds=HANGS_S):
        """Asks status until `ask` is content with it."""

        def answer():
            status = self.status()
            return status if ask(status) else None

        try:
            return until(answer, seconds, what)
        except AssertionError as e:
            raise AssertionError(f"{e}; {self.status()}\n{self.log_text()[-4000:]}") from None

    def until_good_moves(self, seconds=HANGS_S):
        """Until the good moment is another than now."""
        good = self.status()["good"]
        return self.until(lambda s: s["good"] > good, "the good moment moves", seconds)

    def log_text(self, start=0):
        if not self.log.exists():
            return ""
        with open(self.log, "rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")

    def has_died(self):
        """By itself, since it was mounted."""
        return self.pid is not None and ends_within(self.pid, 0)

    def story(self):
        """What a failed test wants to know of this machine."""
        state = (
            "has died by itself" if self.has_died() else "runs" if self.pid else "is not mounted"
        )
        said = f"{self.log_text()[-6000:]}\n{self.complaints()}"
        return f"{self.root}: daemon {self.pid} {state}\n{said}"

    def complaints(self):
        """What the sanitizers said of the daemon and of the commands, if anything."""
        reports = [p.read_text(errors="replace") for p in self.root.glob("sanitizer.*")]
        log = self.log_text()
        if "runtime error:" in log or "Assertion" in log:
            reports.append(log[-6000:])
        return "\n".join(reports)

    def close(self):
        """Leaves nothing behind, whatever happened; then says what went wrong with the daemon."""
        died = self.has_died()
        self.kill()
        self.detach()
        complaints = self.complaints()
        assert not complaints, f"sanitizer:\n{complaints}"
        assert not died, f"the daemon has died by itself:\n{self.log_text()[-6000:]}"
