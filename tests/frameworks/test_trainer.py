# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face Trainer loses its machine and resumes from the highest of its checkpoints."""

import pathlib

import pytest

from lib.lives import Run

pytest.importorskip("torch")
pytest.importorskip("transformers")

TRAINER = pathlib.Path(__file__).with_name("hf_trainer.py")
QUICK = {"commit": "0.1", "quiet": "0.1", "settle": "0.3"}


def survive(machine, kills, rng, directory):
    run = Run(machine, [TRAINER], kills * 60, directory, pace=0.15)
    for _ in range(kills):
        run.live_until_killed(rng, kept=True)
    run.judge(run.live_to_the_end())
    assert len(set(run.begins)) == kills + 1, "a life was for nothing"
    machine.renew()
    newest = [f"checkpoint-{run.steps - 5}", f"checkpoint-{run.steps}"]
    assert sorted(p.name for p in machine.path.iterdir()) == sorted(newest)


def test_a_trainer_that_lost_its_machine_ends_with_the_same_weights(
    machines, s3_store, rng, tmp_path
):
    survive(machines(s3_store, **QUICK).mount(), 1, rng, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_trainer_that_lost_its_machine_ten_times_ends_with_the_same_weights(
    machines, store, rng, tmp_path
):
    survive(machines(store, **QUICK).mount(), 10, rng, tmp_path)
