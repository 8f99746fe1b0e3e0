# SPDX-License-Identifier: Apache-2.0
"""A PyTorch run that loses its machine ten times ends as if it had not."""

import pathlib
import subprocess
import sys
import time

import pytest

from lib.procs import Group, until

pytest.importorskip("torch")

RUN = pathlib.Path(__file__).with_name("torch_run.py")
STEPS = 500
LIVES = 10
# A save every 0.2 s: what is a moment for this run is a minute for a real one.
PACE = "0.04"
QUICK = {"commit": "0.1", "quiet": "0.1", "settle": "0.1"}


def command(directory, layout, pace):
    return [sys.executable, str(RUN), str(directory), "--steps", str(STEPS), "--layout", layout, "--pace", pace]


def lines(output, word):
    """{step: digest} of what a run has said with that word, in order."""
    said = [line.split() for line in output.read_text().splitlines()]
    return {int(line[1]): line[2] for line in said if len(line) == 3 and line[0] == word}


def train_undisturbed(directory, layout):
    """What is right, at every step that is ever saved or begun with."""
    directory.mkdir()
    output = directory / "output"
    with open(output, "w") as out:
        subprocess.run(command(directory, layout, "0"), stdout=out, check=True, timeout=120)
    return lines(output, "begins") | lines(output, "saved")


class Life:
    """One machine's part of the run."""

    def __init__(self, machine, layout, output):
        self.machine = machine
        self.layout = layout
        self.output = output

    def start(self, pace):
        with open(self.output, "w") as out:
            return Group(command(self.machine.path, self.layout, pace), stdout=out, stderr=out)

    def begun(self, run, right):
        """Where it continued; what it found there must be what the undisturbed run had."""
        until(lambda: lines(self.output, "begins") or not run.running(), 60, "the run begins")
        begins = lines(self.output, "begins")
        assert begins, self.output.read_text()[-2000:]
        [(step, weights)] = begins.items()
        assert weights == right[step], f"what was restored as step {step} is not step {step}"
        return step


def survive(machine, layout, rng, tmp_path):
    right = train_undisturbed(tmp_path / "undisturbed", layout)
    life = Life(machine, layout, tmp_path / "output")
    begins = []
    for _ in range(LIVES):
        with life.start(PACE) as run:
            begins.append(life.begun(run, right))
            time.sleep(rng.uniform(0.1, 1.5))  # any moment is as good as another
            assert run.running(), life.output.read_text()[-2000:]
            for lose in rng.sample([run.kill, machine.kill], 2):
                lose()
        machine.wipe()
        machine.mount(takeover=True)
    with life.start("0") as run:
        begins.append(life.begun(run, right))
        assert run.wait(120) == 0, life.output.read_text()[-2000:]
    print(f"begun at {begins}", file=sys.stderr)
    assert begins == sorted(begins), "a machine went back behind the one before"
    assert begins[-1] > 0, "nothing was ever kept"
    assert lines(life.output, "saved")[STEPS] == right[STEPS]

    machine.renew()
    with life.start("0") as run:
        assert life.begun(run, right) == STEPS


def test_a_run_killed_ten_times_ends_with_the_same_weights(machines, s3_store, rng, tmp_path):
    survive(machines(s3_store, **QUICK).mount(), "last", rng, tmp_path)


@pytest.mark.long
def test_a_run_that_saves_directories_survives_as_well(machines, store, rng, tmp_path):
    survive(machines(store, **QUICK).mount(), "directories", rng, tmp_path)
