# SPDX-License-Identifier: Apache-2.0
"""Real frameworks save through a mount; a new machine loads what was saved, whoever died."""

import importlib.util
import sys
import time

import pytest

from frameworks import saving
from frameworks.trainer import Trainer, vouched_for

# ---- what is safe, and how it is known ----


def synced(trainer):
    """All that was complete when `holdfast sync` was called."""
    floor = trainer.complete()
    trainer.machine.sync()
    return floor


# ---- what happens ----


def lose_machine(trainer, rng, safe):
    trainer.save_on()
    floor = safe(trainer)
    time.sleep(rng.uniform(0, 1))
    trainer.lose_machine(rng)
    return floor


def lose_daemon(trainer, rng, safe):
    """It goes on with its cache; then the machine is lost with that."""
    trainer.save_on()
    floor = safe(trainer)
    time.sleep(rng.uniform(0, 1))
    trainer.machine.kill()
    trainer.process.kill()
    trainer.machine.mount()
    good = trainer.machine.status()["good"]
    (trainer.machine.path / "witness").write_text(str(good))
    trainer.machine.until(lambda s: s["good"] > good, "the cache goes on")
    trainer.machine.replace()
    return floor


def lose_trainer(trainer, rng, safe):
    """What it leaves half-written is not stored; all else is, after an umount."""
    trainer.save_on()
    time.sleep(rng.uniform(0, 1))
    trainer.process.kill()
    floor = trainer.complete()
    trainer.machine.renew()
    return floor


def survive(program, machine, directory, rng, events, safe=synced):
    trainer = Trainer(program, machine, directory)
    try:
        trainer.save(3)
        machine.renew()
        assert trainer.load() == trainer.complete(), "after a rest"
        for event in events:
            trainer.loads_at_least(event(trainer, rng, safe))
    finally:
        if trainer.process:
            trainer.process.kill()


def needs(*modules):
    """To be looked for, not imported: some take seconds for that."""
    for module in modules:
        if not importlib.util.find_spec(module):
            pytest.skip(f"no {module}")


PROGRAMS = {
    "torch_savers.py": ["torch", "safetensors"],
    "ignite_saver.py": ["torch", "ignite"],
    "science_savers.py": ["xgboost", "lightgbm", "h5py", "joblib"],
    "chunk_savers.py": ["zarr", "tensorstore"],
    "orbax_savers.py": ["jax", "orbax"],
}


def test_torch_loads_what_it_saved(machines, s3_store, rng, tmp_path):
    needs(*PROGRAMS["torch_savers.py"])
    events = [lose_machine, lose_daemon, lose_trainer]
    survive("torch_savers.py", machines(s3_store).mount(), tmp_path, rng, events)


def test_accelerate_loads_what_it_saved(machines, file_store, rng, tmp_path):
    needs("torch", "accelerate")
    survive(
        "accelerate_saver.py",
        machines(file_store).mount(),
        tmp_path,
        rng,
        [lose_machine],
        vouched_for,
    )


def test_trees_and_arrays_load_as_they_were_saved(machines, file_store, rng, tmp_path):
    needs(*PROGRAMS["science_savers.py"])
    events = [lose_machine, lose_trainer]
    survive("science_savers.py", machines(file_store).mount(), tmp_path, rng, events)


# ---- killed in mid-save ----


def lose_machines_in_saves(program, machine, directory, rng, names, *arguments):
    """One life for each of the names: it dies in the middle of that one's save."""
    trainer = Trainer(program, machine, directory)
    floor = {}
    try:
        for name in names:
            begins = trainer.begin(*arguments)
            trainer.not_behind(begins, floor)
            trainer.saves_on()
            floor = vouched_for(trainer)
            trainer.stop_in_save(name, rng)
            trainer.lose_machine(rng)
        trainer.not_behind(trainer.begin("--rounds", "1", *arguments), floor)
        trainer.ends()
    finally:
        if trainer.process:
            trainer.process.kill()


@pytest.mark.parametrize(
    ("savers", "names"),
    [
        ("science_savers.py", ["xgboost", "lightgbm", "hdf5", "joblib"]),
        ("chunk_savers.py", ["zarr", "tensorstore", "ocdbt"]),
        ("orbax_savers.py", ["manager", "files"]),
        ("ignite_saver.py", ["ignite"]),
    ],
)
def test_a_machine_lost_in_mid_save_costs_no_finished_one(
    savers, names, machines, file_store, rng, tmp_path
):
    needs(*PROGRAMS[savers])
    machine = machines(file_store, settle="0.3").mount()
    lose_machines_in_saves(savers, machine, tmp_path, rng, names)


# ---- every moment that was ever stored ----


def whole_file_in(machine, number, trainer):
    """The state that safetensors has in this commit, 0 where it has none."""
    from safetensors.numpy import load_file

    machine.mount(ro=True, restore=number)
    path = machine.path / "safetensors" / "model.safetensors"
    state = trainer.number("safetensors", saving.digest(load_file(path))) if path.exists() else 0
    machine.lose()
    return state


def look_at_every_moment(machines, store, tmp_path, moments, force, *arguments):
    """Commits while safetensors saves, each looked at by a machine of its own."""
    trainer = Trainer("torch_savers.py", machines(store).mount(), tmp_path)
    commits = set()
    trainer.start("--only", "safetensors", *arguments)
    with trainer.process:
        while len(commits) < moments:
            force(trainer)
            commits.add(trainer.machine.status()["good"])
            assert trainer.process.running(), trainer.said()
    reader = machines(store)
    found = [whole_file_in(reader, number, trainer) for number in sorted(commits)]
    print(f"commits {sorted(commits)} hold {found}", file=sys.stderr)
    assert found == sorted(found)
    assert found[-1] > 0


def test_every_moment_has_a_whole_safetensors_file(machines, file_store, tmp_path):
    needs("torch", "safetensors")
    look_at_every_moment(machines, file_store, tmp_path, 6, lambda t: t.machine.until_good_moves())


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_moment_forced_in_mid_save_has_a_whole_safetensors_file(
    machines, store, rng, tmp_path
):
    needs("torch", "safetensors")

    def force(trainer):
        time.sleep(rng.uniform(0, 1))
        trainer.machine.sync()

    look_at_every_moment(machines, store, tmp_path, 20, force, "--pause", "0")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("savers", list(PROGRAMS))
def test_frameworks_load_what_they_saved_whenever_who_dies(savers, machines, store, rng, tmp_path):
    needs(*PROGRAMS[savers])
    events = [lose_machine, lose_daemon, lose_trainer] * 7
    survive(savers, machines(store).mount(), tmp_path, rng, events)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_accelerate_loads_what_it_saved_whenever_the_machine_dies(machines, store, rng, tmp_path):
    needs("torch", "accelerate")
    events = [lose_machine, lose_daemon] * 7
    survive("accelerate_saver.py", machines(store).mount(), tmp_path, rng, events, vouched_for)
