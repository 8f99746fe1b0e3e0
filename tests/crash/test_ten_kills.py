# SPDX-License-Identifier: Apache-2.0
"""A PyTorch run that loses its machine ten times ends as if it had not."""

import pathlib

import pytest

from lib.lives import Run

pytest.importorskip("torch")

TRAIN = pathlib.Path(__file__).parent.with_name("frameworks") / "torch_train.py"
STEPS_OF_A_LIFE = 60  # more than it can take
# A save every 0.2 s: what is a moment for this run is a minute for a real one.
QUICK = {"commit": "0.1", "quiet": "0.1", "settle": "0.1"}


def survive(machine, layout, kills, rng, directory):
    run = Run(machine, [TRAIN, "--layout", layout], kills * STEPS_OF_A_LIFE, directory)
    for _ in range(kills):
        run.live_until_killed(rng)
    run.judge(run.live_to_the_end())

    machine.renew()
    run.live_to_the_end()
    assert run.begins[-1] == run.steps, "the end is not in the store"


def test_a_run_that_saves_in_place_and_is_killed_ten_times_ends_with_the_same_weights(
    machines, s3_store, rng, tmp_path
):
    survive(machines(s3_store, **QUICK).mount(), "last", 10, rng, tmp_path)


@pytest.mark.parametrize("layout", ["rename", "directories"])
def test_a_killed_run_ends_with_the_same_weights(layout, machines, s3_store, rng, tmp_path):
    survive(machines(s3_store, **QUICK).mount(), layout, 2, rng, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("layout", ["last", "rename", "directories"])
def test_a_run_killed_thirty_times_ends_with_the_same_weights(
    layout, machines, store, rng, tmp_path
):
    survive(machines(store, **QUICK).mount(), layout, 30, rng, tmp_path)
