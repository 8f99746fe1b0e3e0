#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo: a training run loses its machine in the middle of a save, and goes on on the next one.

    run.py --holdfast PROGRAM

The store is a directory, so no account is needed.  Every sentence it prints is checked; it ends
with status 1 at the first that is not true.
"""

import argparse
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

HERE = pathlib.Path(__file__).resolve().parent
TRAIN = [sys.executable, str(HERE / "train.py")]
SAVE_EVERY = 20  # steps
FILES = 12  # a checkpoint has
# A step of a real run takes longer, and so may a quiet moment and the time between commits.
PACE = ["--pace", "0.04"]
OPTIONS = "commit=0.5,quiet=0.2,settle=0.5"
# Two BLAS threads may add in another order.
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Untrue(Exception):
    """What the demo promises did not happen."""


def say(text):
    print(textwrap.fill(text, 88, initial_indent="  ", subsequent_indent="  "), flush=True)


def require(condition, text):
    if not condition:
        raise Untrue(text)


class Mount:
    """`holdfast mount` of the demo's store, each time with a cache of its own."""

    def __init__(self, holdfast, root):
        self.holdfast = holdfast
        self.uri = f"file://{root}/store"
        self.path = root / "checkpoints"
        self.cache = root / "cache"
        self.path.mkdir()

    def command(self, *arguments):
        done = subprocess.run(
            [self.holdfast, *arguments], capture_output=True, text=True, check=False
        )
        require(done.returncode == 0, f"holdfast {arguments[0]}: {done.stderr.strip()}")
        return done.stdout

    def mount(self):
        # Its output goes to a file: the daemon would keep a pipe open.
        with tempfile.TemporaryFile("w+") as err:
            options = f"cache={self.cache},takeover,{OPTIONS}"
            done = subprocess.run(
                [self.holdfast, "mount", self.uri, self.path, "-o", options],
                stdin=subprocess.DEVNULL, stdout=err, stderr=err, check=False,
            )  # fmt: skip
            err.seek(0)
            require(done.returncode == 0, err.read().strip())

    def status(self):
        return json.loads(self.command("status", self.path, "--json"))

    def lose(self):
        """kill -9 of the daemon, and its disk is gone."""
        pid = self.status()["pid"]
        daemon = os.pidfd_open(pid)  # says when it has ended, also where nobody reaps it
        os.kill(pid, signal.SIGKILL)
        select.select([daemon], [], [])
        os.close(daemon)
        self.detach()
        shutil.rmtree(self.cache)

    def detach(self):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["fusermount3", "-u", "-z", self.path], check=False, **quiet)


# ---- checkpoints ----


def steps(directory):
    return sorted(int(p.name.split("-")[1]) for p in directory.glob("step-*"))


def content(directory, step):
    return {p.name: p.read_bytes() for p in (directory / f"step-{step}").iterdir()}


def last_saved(output):
    """The newest step that the trainer says it has saved."""
    saved = [
        int(line.split()[1].rstrip(":"))
        for line in output.read_text().splitlines()
        if "saved" in line
    ]
    return saved[-1] if saved else 0


# ---- the story ----


def train_uninterrupted(root):
    directory = root / "uninterrupted"
    with open(root / "uninterrupted.log", "w", encoding="utf-8") as log:
        subprocess.run(
            [*TRAIN, directory, "--keep", "1000"], env=ENVIRONMENT, stdout=log, check=True
        )
    there = steps(directory)
    say(f"An uninterrupted run, elsewhere: {there[-1]} steps, {len(there)} checkpoints.")
    return directory


def is_safe(mount):
    """Would a new machine get all that was completed until now?"""
    status = mount.status()
    return (
        status["good"] > 0
        and status["dirty_bytes"] == 0
        and not status["objection"]
        and not status["held_by"]
    )


def files_of(mount, step):
    try:
        return len(list((mount.path / f"step-{step}").iterdir()))
    except FileNotFoundError:
        return 0  # not begun


def stop_in_mid_save(mount, trainer, output):
    """Stops the trainer inside a save whose predecessor is safe: (that, this, files of this)."""
    end = time.monotonic() + 60
    safe = 0
    while time.monotonic() < end and trainer.poll() is None:
        saved = last_saved(output)
        if saved > safe and is_safe(mount) and last_saved(output) == saved:
            safe = saved
        if safe < 40 or files_of(mount, safe + SAVE_EVERY) == 0:
            continue
        trainer.send_signal(signal.SIGSTOP)
        files = files_of(mount, safe + SAVE_EVERY)
        if files < FILES:
            return safe, safe + SAVE_EVERY, files
        trainer.send_signal(signal.SIGCONT)
    raise Untrue("the trainer was not met in the middle of a save")


def lose_the_machine(mount, root):
    """Trains on one machine until it is taken away; returns what had been saved there."""
    output = root / "first.log"
    with open(output, "w", encoding="utf-8") as log:
        trainer = subprocess.Popen(
            [*TRAIN, mount.path, *PACE], env=ENVIRONMENT, stdout=log, stderr=log
        )
    try:
        saved, torn, files = stop_in_mid_save(mount, trainer, output)
    finally:
        trainer.kill()
        trainer.wait()
    mount.lose()
    say(
        f"Saved: every {SAVE_EVERY} steps, the last time at step {saved}; no fsync, no marker, "
        "files written in place."
    )
    say(
        f"kill -9 of trainer and mount in the middle of the save at step {torn}: {files} of its "
        f"{FILES} files were written.  The cache is deleted: the machine is gone."
    )
    return saved, torn


def restore(mount, root, reference, saved, torn):
    """A new machine; what it gets is compared with the run that was not interrupted."""
    start = time.monotonic()
    mount.mount()
    found = steps(mount.path)
    require(torn not in found, f"half a checkpoint came back: step {torn}")
    require(found and found[-1] == saved, f"step {saved} was whole and is lost; restored: {found}")
    content(mount.path, saved)
    seconds = time.monotonic() - start
    for step in found:
        same = content(mount.path, step) == content(reference, step)
        require(same, f"step {step} is not what was saved")
    there = ", ".join(map(str, found))
    say(f"Restored in {seconds:.1f} s on a new mount with an empty cache: steps {there}.")
    say("Lost: nothing that was whole.")


def go_on(mount, root, reference, saved):
    output = root / "second.log"
    with open(output, "w", encoding="utf-8") as log:
        subprocess.run([*TRAIN, mount.path], env=ENVIRONMENT, stdout=log, stderr=log, check=True)
    continued = f"step {saved}: begins" in output.read_text()
    require(continued, f"the run did not continue at step {saved}")
    end = steps(reference)[-1]
    require(content(mount.path, end) == content(reference, end), "the final weights differ")
    say(f"The run continued at step {saved} and went on to step {end}.")
    say("Its final weights equal those of the uninterrupted run, bit for bit.")


def tell(holdfast, root):
    mount = Mount(holdfast, root)
    reference = train_uninterrupted(root)
    mount.command("mkfs", mount.uri)
    mount.mount()
    try:
        say(f"A store in a directory, mounted; the same training saves through it: {mount.uri}")
        saved, torn = lose_the_machine(mount, root)
        restore(mount, root, reference, saved, torn)
        go_on(mount, root, reference, saved)
        mount.command("umount", mount.path)
        require(
            f"step-{steps(reference)[-1]}" in mount.command("ls", mount.uri),
            "the end is not in the store",
        )
        say("Unmounted: all of it is in the store.")
    finally:
        mount.detach()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--holdfast", required=True, help="the program")
    a = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as directory:
        try:
            tell(a.holdfast, pathlib.Path(directory).resolve())
        except (Untrue, subprocess.SubprocessError, OSError) as e:
            print(f"demo: not as promised: {e}", file=sys.stderr)
            return 1
    say(f"({time.monotonic() - start:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
