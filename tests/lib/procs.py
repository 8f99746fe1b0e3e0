# SPDX-License-Identifier: Apache-2.0
"""Processes: waiting by asking, and leaving none behind."""

import contextlib
import os
import select
import signal
import subprocess
import time

# No wait takes so long, on a busy machine either: what does hangs.
HANGS_S = 120


def until(ask, seconds, what, pause=0.02):
    """Asks until the answer is true, and returns it."""
    end = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(pause)


def ends_within(pid, seconds):
    """Does a process that need not be our child end?  One that nobody has waited for has ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], seconds)[0])
    finally:
        os.close(fd)


def wait_gone(pid, seconds=HANGS_S):
    assert ends_within(pid, seconds), f"process {pid} has not ended within {seconds} s"


def kill(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Group:
    """A command in a process group of its own, which ends as a whole."""

    def __init__(self, command, **popen):
        self.process = subprocess.Popen(command, start_new_session=True, **popen)
        self.pid = self.process.pid

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def stop(self):
        """SIGSTOP; returns when the first process has stopped."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def kill(self):
        """kill -9, as a lost machine does it; returns when all is gone."""
        self.signal(signal.SIGKILL)
        return self.process.wait(timeout=HANGS_S)

    def wait(self, seconds):
        return self.process.wait(timeout=seconds)

    def running(self):
        return self.process.poll() is None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
