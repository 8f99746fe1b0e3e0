# SPDX-License-Identifier: Apache-2.0
"""A training run that loses its machine again and again, and must end as if it had not.

The program says, a line each, "begins STEP DIGEST" with what it has found and "saved STEP DIGEST"
when a save has returned; it takes DIRECTORY, --steps and --pace.
"""

import subprocess
import sys
import time

from lib.procs import Group, until

LONGEST_LIFE_S = 2


def lines(output, word):
    """{step: digest} of what a run has said with that word, in order."""
    said = [line.split() for line in output.read_text().splitlines()]
    return {int(line[1]): line[2] for line in said if len(line) == 3 and line[0] == word}


class Run:
    """The run, one life after the other; what it says lies off the mount."""

    def __init__(self, machine, program, steps, directory, pace=0.04):
        self.machine = machine
        self.program = list(map(str, program))
        self.steps = steps
        self.pace = pace
        self.output = directory / "output"
        self.right = self.train_undisturbed(directory / "undisturbed")
        self.begins = []

    def command(self, directory, pace):
        return [
            sys.executable,
            *self.program,
            str(directory),
            "--steps",
            str(self.steps),
            "--pace",
            str(pace),
        ]

    def said(self):
        return self.output.read_text()[-2000:]

    def train_undisturbed(self, directory):
        """What is right, at every step that is ever saved or begun with."""
        directory.mkdir()
        with open(self.output, "w") as out:
            subprocess.run(
                self.command(directory, 0), stdout=out, stderr=out, check=True, timeout=240
            )
        return lines(self.output, "begins") | lines(self.output, "saved")

    def start(self, pace):
        with open(self.output, "w") as out:
            return Group(self.command(self.machine.path, pace), stdout=out, stderr=out)

    def has_begun(self, process):
        """What it found must be what the undisturbed run had at that step."""
        until(lambda: lines(self.output, "begins") or not process.running(), 120, "the run begins")
        begins = lines(self.output, "begins")
        assert begins, self.said()
        [(step, weights)] = begins.items()
        assert weights == self.right[step], f"what was restored as step {step} is not step {step}"
        self.begins.append(step)

    def live_until_killed(self, rng, kept=False):
        """Any moment is as good as another; with `kept`, any after something more is kept."""
        with self.start(self.pace) as process:
            self.has_begun(process)
            if kept:
                self.machine.until_good_moves()
            time.sleep(rng.uniform(0.2, LONGEST_LIFE_S))
            assert process.running(), self.said()
            for lose in rng.sample([process.kill, self.machine.kill], 2):
                lose()
        self.machine.wipe()
        self.machine.mount(takeover=True)

    def live_to_the_end(self):
        with self.start(0) as process:
            self.has_begun(process)
            assert process.wait(240) == 0, self.said()
        return lines(self.output, "saved").get(self.steps)

    def judge(self, end):
        print(f"begun at {self.begins}", file=sys.stderr)
        assert self.begins == sorted(self.begins), "a machine went back behind the one before"
        if len(self.begins) > 5:  # of a few random deaths each may come before the first good moment
            assert self.begins[-1] > 0, "nothing was ever kept"
        assert end == self.right[self.steps]
