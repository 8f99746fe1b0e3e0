# SPDX-License-Identifier: Apache-2.0
"""Frameworks of today lose their machine in the middle of saves; how long a save holds them up.

They are too large for .venv: modern_install.sh puts them where HOLDFAST_MODERN says, which
`make check-long` does unless that is empty.  What was measured becomes modern-frameworks.md
beside the program under test.
"""

import os
import pathlib
import statistics
import subprocess
import sys

import pytest

from frameworks.trainer import Trainer, vouched_for

MODERN = os.environ.get("HOLDFAST_MODERN")
MEGABYTES = os.environ.get("HOLDFAST_MODERN_MB", "64")
DEATHS = 2
SAVES = 4  # of a life, and on the local disk

# environment, program, saver, package whose version names it
SAVERS = [
    ("torch", "modern_torch.py", "torch", "torch"),
    ("torch", "modern_torch.py", "dcp", "torch"),
    ("torch", "modern_torch.py", "lightning", "lightning"),
    ("torch", "modern_torch.py", "transformers", "transformers"),
    ("torch", "modern_torch.py", "deepspeed", "deepspeed"),
    ("tensorflow", "modern_tensorflow.py", "tensorflow", "tensorflow-cpu"),
    ("tensorflow", "modern_tensorflow.py", "keras", "keras"),
    ("tensorflow", "modern_tensorflow.py", "keras-weights", "keras"),
    ("tensorflow", "modern_tensorflow.py", "keras-backup", "keras"),
    ("jax", "orbax_savers.py", "manager", "orbax-checkpoint"),
    ("jax", "orbax_savers.py", "files", "orbax-checkpoint"),
]

TABLE = """\
| framework | way | MB a save | local s | mount s | complete s | killed in → restored |
|---|---|---|---|---|---|---|
"""


@pytest.fixture(scope="session")
def figures(program):
    """Rows of the table, which is written when all tests have run."""
    rows = []
    yield rows
    if rows:
        path = program.parent / "modern-frameworks.md"
        path.write_text(TABLE + "\n".join(rows) + "\n")
        print(f"\n{path}:\n{path.read_text()}", file=sys.stderr)


def python_of(environment):
    python = pathlib.Path(MODERN or "/nowhere", environment, "bin", "python")
    if not python.exists():
        pytest.skip(f"no frameworks of today for {environment}: see modern_install.sh")
    return python


def version_of(python, package):
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.check_output([python, "-c", code], text=True).strip()


class Run(Trainer):
    """One saver of a program, in its environment."""

    def __init__(self, saver, program, python, machine, directory):
        super().__init__(program, machine, directory, python)
        self.saver = saver

    def life(self, *arguments):
        return self.begin("--only", self.saver, "--megabytes", MEGABYTES, "--pause", "1", *arguments)

    def states(self):
        return self.ledger.states(self.saver)

    def median(self, what):
        """Of all saves but the first, which makes what the others find."""
        return statistics.median(state[what] for state in self.states()[1:])


class LocalDisk:
    """What a Trainer asks of a machine to save there."""

    def __init__(self, path):
        self.path = path
        path.mkdir(parents=True)


def saved_locally(saver, program, python, directory):
    run = Run(saver, program, python, LocalDisk(directory / "local"), directory)
    run.life("--rounds", str(SAVES))
    run.ends()
    return run


def dies_in_saves(run, rng):
    """[(number of the save that was cut short, of the one that came back, commit)]"""
    deaths = []
    run.life()
    for _ in range(DEATHS):
        run.saves_on(SAVES)
        floor = vouched_for(run)
        run.stop_in_save(run.saver, rng)
        cut = run.ledger.last()["state"]
        run.lose_machine(rng)
        commit = run.machine.status()["good"]
        found = run.life()
        run.not_behind(found, floor)
        deaths.append((cut, found[run.saver], commit))
    run.saves_on()
    return deaths


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("environment", "savers", "saver", "package"), SAVERS)
def test_a_framework_of_today_goes_on_after_deaths_in_its_saves(
    environment, savers, saver, package, machines, s3_store, rng, tmp_path, figures
):
    python = python_of(environment)
    (tmp_path / "l").mkdir()
    local = saved_locally(saver, savers, python, tmp_path / "l")
    run = Run(saver, savers, python, machines(s3_store).mount(), tmp_path)
    try:
        deaths = dies_in_saves(run, rng)
    finally:
        if run.process:
            run.process.kill()
    cells = [
        f"{package} {version_of(python, package)}",
        saver,
        f"{run.median('bytes') / 1e6:.1f}",
        f"{local.median('stall_s'):.3f}",
        f"{run.median('stall_s'):.3f}",
        f"{run.median('took_s'):.3f}",
        ", ".join(f"{cut} → {found} (commit {good})" for cut, found, good in deaths),
    ]
    figures.append(f"| {' | '.join(cells)} |")
