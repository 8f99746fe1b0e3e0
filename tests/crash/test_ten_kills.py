# SPDX-License-Identifier: Apache-2.0
"""A PyTorch run that loses its machine ten times ends as if it had not."""

import pathlib
import subprocess
import sys
import time

import pytest

from lib.procs import Group, until

pytest.importorskip("torch")

TRAIN = pathlib.Path(__file__).parent.with_name("frameworks") / "torch_train.py"
# A save every 0.2 s: what is a moment for this run is a minute for a real one.
PACE = "0.04"
LONGEST_LIFE_S = 2
STEPS_OF_A_LIFE = 60  # more than it can take
QUICK = {"commit": "0.1", "quiet": "0.1", "settle": "0.1"}


def lines(output, word):
    """{step: digest} of what a run has said with that word, in order."""
    said = [line.split() for line in output.read_text().splitlines()]
    return {int(line[1]): line[2] for line in said if len(line) == 3 and line[0] == word}


class Run:
    """The run, one life after the other; what it says lies off the mount."""

    def __init__(self, machine, layout, steps, directory):
        self.machine = machine
        self.layout = layout
        self.steps = steps
        self.output = directory / "output"
        self.right = self.train_undisturbed(directory / "undisturbed")
        self.begins = []

    def command(self, directory, pace):
        arguments = [str(directory), "--steps", str(self.steps), "--layout", self.layout, "--pace", pace]
        return [sys.executable, str(TRAIN), *arguments]

    def train_undisturbed(self, directory):
        """What is right, at every step that is ever saved or begun with."""
        directory.mkdir()
        with open(self.output, "w") as out:
            subprocess.run(self.command(directory, "0"), stdout=out, check=True, timeout=240)
        return lines(self.output, "begins") | lines(self.output, "saved")

    def start(self, pace):
        with open(self.output, "w") as out:
            return Group(self.command(self.machine.path, pace), stdout=out, stderr=out)

    def has_begun(self, process):
        """What it found must be what the undisturbed run had at that step."""
        until(lambda: lines(self.output, "begins") or not process.running(), 120, "the run begins")
        begins = lines(self.output, "begins")
        assert begins, self.output.read_text()[-2000:]
        [(step, weights)] = begins.items()
        assert weights == self.right[step], f"what was restored as step {step} is not step {step}"
        self.begins.append(step)

    def live_until_killed(self, rng):
        with self.start(PACE) as process:
            self.has_begun(process)
            time.sleep(rng.uniform(0.2, LONGEST_LIFE_S))  # any moment is as good as another
            assert process.running(), self.output.read_text()[-2000:]
            for lose in rng.sample([process.kill, self.machine.kill], 2):
                lose()
        self.machine.wipe()
        self.machine.mount(takeover=True)

    def live_to_the_end(self):
        with self.start("0") as process:
            self.has_begun(process)
            assert process.wait(240) == 0, self.output.read_text()[-2000:]
        return lines(self.output, "saved").get(self.steps)


def survive(machine, layout, kills, rng, directory):
    run = Run(machine, layout, kills * STEPS_OF_A_LIFE, directory)
    for _ in range(kills):
        run.live_until_killed(rng)
    end = run.live_to_the_end()
    print(f"begun at {run.begins}", file=sys.stderr)
    assert run.begins == sorted(run.begins), "a machine went back behind the one before"
    assert run.begins[-1] > 0, "nothing was ever kept"
    assert end == run.right[run.steps]

    machine.renew()
    run.live_to_the_end()
    assert run.begins[-1] == run.steps, "the end is not in the store"


def test_a_run_that_saves_in_place_and_is_killed_ten_times_ends_with_the_same_weights(
    machines, s3_store, rng, tmp_path
):
    survive(machines(s3_store, **QUICK).mount(), "last", 10, rng, tmp_path)


@pytest.mark.parametrize("layout", ["rename", "directories"])
def test_a_killed_run_ends_with_the_same_weights(layout, machines, s3_store, rng, tmp_path):
    survive(machines(s3_store, **QUICK).mount(), layout, 3, rng, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("layout", ["last", "rename", "directories"])
def test_a_run_killed_thirty_times_ends_with_the_same_weights(layout, machines, store, rng, tmp_path):
    survive(machines(store, **QUICK).mount(), layout, 30, rng, tmp_path)
