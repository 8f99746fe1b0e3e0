# SPDX-License-Identifier: Apache-2.0
"""Real frameworks save through a mount; a new machine loads what was saved, whoever died."""

import json
import pathlib
import subprocess
import sys
import time

import pytest

from frameworks import saving
from lib.oracle import Ledger
from lib.procs import Group, until

HERE = pathlib.Path(__file__).parent


class Trainer:
    """One of the programs beside this file, on a machine, with its ledger off the mount."""

    def __init__(self, program, machine, directory):
        self.program = str(HERE / program)
        self.machine = machine
        self.ledger = Ledger(directory / "ledger")
        self.output = directory / "output"
        self.process = None

    def start(self, *arguments):
        command = [
            sys.executable,
            self.program,
            "write",
            str(self.machine.path),
            str(self.ledger.path),
        ]
        with open(self.output, "ab") as out:
            self.process = Group([*command, *arguments], stdout=out, stderr=out)

    def said(self):
        return self.output.read_text()[-2000:]

    def complete(self):
        """{saver: its newest state whose save has returned}"""
        lines = map(json.loads, self.ledger.path.read_text().splitlines())
        return {line["of"]: line["state"] for line in lines if line["kind"] == "state"}

    def save(self, rounds):
        self.start("--rounds", str(rounds))
        assert self.process.wait(240) == 0, self.said()

    def save_on(self):
        """Every saver saves twice, and they go on."""
        wanted = {name: n + 2 for name, n in self.complete().items()}

        def saved():
            complete = self.complete()
            return all(complete[name] >= n for name, n in wanted.items())

        self.start()
        until(lambda: saved() or not self.process.running(), 120, "two rounds are saved")
        assert self.process.running(), self.said()

    def load(self):
        """{saver: number of the state that its framework loads from the mount; 0: none}"""
        done = subprocess.run(
            [sys.executable, self.program, "load", str(self.machine.path)],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"what was restored does not load:\n{done.stderr[-2000:]}"
        return {name: self.number(name, value) for name, value in json.loads(done.stdout).items()}

    def number(self, name, value):
        if value is None:
            return 0
        plans = [p["state"] for p in self.ledger.plans(name) if p["tree"]["digest"] == value]
        assert plans, f"{name}: what was loaded was never saved"
        return plans[-1]

    def loads_at_least(self, floor):
        found = self.load()
        print(f"floor {floor}, found {found}", file=sys.stderr)
        behind = [name for name, n in floor.items() if found[name] < n]
        assert not behind, f"went back: {behind}; kept was {floor}, found {found}"


# ---- what is safe, and how it is known ----


def synced(trainer):
    """All that was complete when `holdfast sync` was called."""
    floor = trainer.complete()
    trainer.machine.sync()
    return floor


def vouched_for(trainer):
    """What was complete some good moments ago: of a set without marker a sync may take a half."""
    trainer.machine.until_good_moves()
    floor = trainer.complete()
    for _ in range(3):  # one may have been in flight, one frozen and pending
        trainer.machine.until_good_moves()
    return floor


# ---- what happens ----


def lose_machine(trainer, rng, safe):
    trainer.save_on()
    floor = safe(trainer)
    time.sleep(rng.uniform(0, 1))
    for lose in rng.sample([trainer.process.kill, trainer.machine.kill], 2):
        lose()
    trainer.machine.wipe()
    trainer.machine.mount(takeover=True)
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
    for module in modules:
        pytest.importorskip(module)


def test_torch_loads_what_it_saved(machines, s3_store, rng, tmp_path):
    needs("torch", "safetensors")
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
    needs("xgboost", "lightgbm", "h5py")
    events = [lose_machine, lose_trainer]
    survive("science_savers.py", machines(file_store).mount(), tmp_path, rng, events)


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

    look_at_every_moment(machines, store, tmp_path, 20, force, "--restless")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("program", ["torch_savers.py", "science_savers.py"])
def test_frameworks_load_what_they_saved_whenever_who_dies(program, machines, store, rng, tmp_path):
    needs("torch", "safetensors", "xgboost", "lightgbm", "h5py")
    events = [lose_machine, lose_daemon, lose_trainer] * 7
    survive(program, machines(store).mount(), tmp_path, rng, events)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_accelerate_loads_what_it_saved_whenever_the_machine_dies(machines, store, rng, tmp_path):
    needs("torch", "accelerate")
    events = [lose_machine, lose_daemon] * 7
    survive("accelerate_saver.py", machines(store).mount(), tmp_path, rng, events, vouched_for)
