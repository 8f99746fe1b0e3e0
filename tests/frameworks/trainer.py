# SPDX-License-Identifier: Apache-2.0
"""A program that saves as saving.py has it, seen from outside: run, killed, and judged."""

import json
import pathlib
import signal
import subprocess
import sys
import time

from lib.oracle import Ledger
from lib.procs import Group, until


class Trainer:
    """One of the programs beside this file, on a machine, with its ledger off the mount."""

    def __init__(self, program, machine, directory, python=sys.executable):
        self.python = str(python)
        self.program = str(pathlib.Path(__file__).with_name(program))
        self.machine = machine
        self.ledger = Ledger(directory / "ledger")
        self.output = directory / "output"
        self.process = None

    def start(self, *arguments):
        command = [self.python, self.program, "write", str(self.machine.path), str(self.ledger.path)]
        with open(self.output, "ab") as out:
            self.process = Group([*command, *arguments], stdout=out, stderr=out)

    def said(self):
        return self.output.read_text()[-2000:]

    def complete(self):
        """{saver: its newest state whose save has returned}"""
        lines = self.ledger.lines()
        return {line["of"]: line["state"] for line in lines if line["kind"] == "state"}

    def save(self, rounds):
        self.start("--rounds", str(rounds))
        self.ends()

    def ends(self):
        assert self.process.wait(240) == 0, self.said()

    def save_on(self):
        self.begin()
        self.saves_on()

    def saves_on(self, saves=2):
        """Every saver saves so often, and they go on."""
        names = self.ledger.begins()[-1]["tree"]
        before = self.complete()

        def saved():
            complete = self.complete()
            return all(complete.get(name, 0) >= before.get(name, 0) + saves for name in names)

        until(lambda: saved() or not self.process.running(), 120, f"{saves} rounds are saved")
        assert self.process.running(), self.said()

    def load(self):
        """{saver: number of the state that its framework loads from the mount; 0: none}"""
        done = subprocess.run(
            [self.python, self.program, "load", str(self.machine.path)],
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
        self.not_behind(self.load(), floor)

    def not_behind(self, found, floor):
        print(f"floor {floor}, found {found}", file=sys.stderr)
        behind = [name for name, n in floor.items() if found[name] < n]
        assert not behind, f"went back: {behind}; kept was {floor}, found {found}"

    # ---- lives ----

    def begin(self, *arguments):
        """A new life; {saver: number of the state that it begins with}"""
        before = len(self.ledger.begins())
        self.start(*arguments)

        def begun():
            return len(self.ledger.begins()) > before or not self.process.running()

        until(begun, 120, "the run begins")
        begins = self.ledger.begins()
        assert len(begins) > before, f"what was restored does not load:\n{self.said()}"
        return {name: self.number(name, value) for name, value in begins[-1]["tree"].items()}

    def saving(self, name):
        """Is `name` in a save?"""
        last = self.ledger.last()
        return last["kind"] == "plan" and last["of"] == name

    def stop_in_save(self, name, rng):
        """Stopped while `name` is in a save, as long after its begin as the last one gives time."""
        took = self.ledger.states(name)[-1]["took_s"]
        while True:
            # Asks without a pause: some saves take but a millisecond.
            until(lambda: self.saving(name) or not self.process.running(), 120, f"{name} saves", 0)
            assert self.process.running(), self.said()
            time.sleep(rng.uniform(0, took))
            self.process.stop()
            if self.saving(name):
                return
            self.process.signal(signal.SIGCONT)

    def lose_machine(self, rng):
        """kill -9 of both, in any order; a new machine takes over with nothing but the store."""
        for lose in rng.sample([self.process.kill, self.machine.kill], 2):
            lose()
        self.machine.wipe()
        self.machine.mount(takeover=True)


def vouched_for(trainer):
    """What was complete some good moments ago: of a set without marker a sync may take a half."""
    trainer.machine.until_good_moves()
    floor = trainer.complete()
    for _ in range(3):  # one may have been in flight, one frozen and pending
        trainer.machine.until_good_moves()
    return floor
