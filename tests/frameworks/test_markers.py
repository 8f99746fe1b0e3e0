# SPDX-License-Identifier: Apache-2.0
"""markers.py on a mount, while writer, daemon and machine die at random moments."""

import pathlib
import signal
import sys
import time

import pytest

from frameworks import markers
from lib.oracle import Ledger
from lib.procs import Group, until

WRITER = pathlib.Path(__file__).with_name("markers.py")


class Run:
    """A writer on a machine, the ledger off it, and what can happen to either."""

    def __init__(self, machine, directory, rng):
        self.machine = machine
        self.rng = rng
        self.ledger = Ledger(directory / "ledger")
        self.output = directory / "writer.log"
        self.writer = None
        self.start()

    def start(self):
        command = [
            sys.executable,
            str(WRITER),
            "write",
            str(self.machine.path),
            str(self.ledger.path),
        ]
        command += ["--seed", str(self.rng.randrange(10**6))]
        with open(self.output, "ab") as out:
            self.writer = Group(command, stdout=out, stderr=out)

    def rounds(self):
        return self.output.read_text().count("round of")

    def let_it_work(self):
        """At least a round, and then to a moment in some save."""
        rounds = self.rounds()
        until(lambda: self.rounds() > rounds or not self.writer.running(), 120, "a round is saved")
        assert self.writer.running(), self.output.read_text()[-2000:]
        time.sleep(self.rng.uniform(0, 1))

    def judge(self, level, what):
        faults = markers.check(self.machine.path, self.ledger, level)
        assert not faults, f"{what}:\n" + "\n".join(faults)

    # ---- what happens ----

    def lose_writer(self):
        self.writer.kill()
        self.judge("order", "a killed writer")
        self.start()

    def lose_daemon(self):
        self.machine.kill()
        self.writer.kill()
        self.machine.mount()
        self.judge("order", "a killed daemon, gone on with its cache")
        self.start()

    def lose_machine(self):
        self.machine.kill()
        self.writer.kill()
        self.machine.wipe()
        self.machine.mount(takeover=True)
        self.judge("atomic", "a new machine")
        self.start()

    def end(self):
        """The writer finishes its round, and all is handed over in peace."""
        self.writer.process.send_signal(signal.SIGTERM)
        assert self.writer.wait(120) == 0, self.output.read_text()[-2000:]
        self.machine.renew()
        self.judge("quiet", "after a rest")


def survive(run, events):
    try:
        for event in events:
            run.let_it_work()
            event(run)
        run.let_it_work()
        run.end()
        states = {line["of"] for style in markers.STYLES for line in run.ledger.states(style.name)}
        assert states == {style.name for style in markers.STYLES}, "not every style has saved"
    finally:
        run.writer.kill()


def test_no_marker_ever_leads_its_data(machine, tmp_path, rng):
    events = [Run.lose_machine, Run.lose_writer, Run.lose_daemon, Run.lose_machine]
    rng.shuffle(events)
    survive(Run(machine, tmp_path, rng), events)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_no_marker_ever_leads_its_data_at_any_of_many_moments(machine, tmp_path, rng):
    events = [Run.lose_machine] * 20 + [Run.lose_writer, Run.lose_daemon] * 10
    rng.shuffle(events)
    survive(Run(machine, tmp_path, rng), events)
