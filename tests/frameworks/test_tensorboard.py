# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's event file: opened, appended to and closed for every event, and never done."""

import pathlib
import sys

import pytest

from lib.procs import Group, until

pytest.importorskip("torch")
pytest.importorskip("tensorboard")

WRITER = pathlib.Path(__file__).with_name("tensorboard_events.py")


def writer(machine, directory, events, pace):
    ledger = directory / "ledger"
    ledger.touch()
    command = [sys.executable, WRITER, machine.path / "runs", ledger]
    command += ["--events", events, "--pace", pace]
    return Group(list(map(str, command)))


def written(directory):
    """How many events are in the file for sure."""
    return (directory / "ledger").read_text().count("\n")


def read(machine):
    """The numbers of all events, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    [path] = (machine.path / "runs").iterdir()
    return [e.step for e in EventFileLoader(str(path)).Load() if e.HasField("summary")]


def test_an_event_costs_no_request_when_its_file_is_closed(machines, s3_store, tmp_path):
    machine = machines(s3_store, commit="1").mount()
    before = machine.status()
    with writer(machine, tmp_path, 200, 0.02) as process:
        assert process.wait(120) == 0
    machine.sync()
    after = machine.status()
    puts = after["requests"]["put"] - before["requests"]["put"]
    commits = after["commits"] - before["commits"]
    print(f"200 events: {commits} commits, {puts} PUTs", file=sys.stderr)
    assert puts <= 2 * commits  # a pack and a record
    assert puts < 50

    machine.renew()
    assert read(machine) == list(range(200))


def test_another_machine_sees_a_run_live(machines, s3_store, tmp_path):
    """TensorBoard's accumulator keeps its file open and reads on at each reload."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    machine, reader = machines(s3_store).mount(), machines(s3_store, ro=True).mount()
    with writer(machine, tmp_path, 100_000, 0.01) as process:
        until(lambda: written(tmp_path) > 5 or not process.running(), 60, "events are written")
        until((reader.path / "runs").exists, 120, "the run is seen")
        board = EventAccumulator(str(reader.path / "runs"), size_guidance={"scalars": 0, "tensors": 0})

        def seen():
            board.Reload()
            tags = board.Tags()
            if "loss" in tags["scalars"]:
                return [e.step for e in board.Scalars("loss")]
            return [e.step for e in board.Tensors("loss")] if "loss" in tags["tensors"] else []

        for _ in range(4):
            floor = written(tmp_path)
            until(lambda floor=floor: len(seen()) > floor, 120, f"event {floor} is seen")
            steps = seen()
            assert steps == list(range(len(steps)))
        process.kill()


def test_events_are_kept_while_the_file_is_never_closed_for_good(machines, s3_store, tmp_path):
    machine = machines(s3_store).mount()
    with writer(machine, tmp_path, 100_000, 0.01) as process:
        until(lambda: written(tmp_path) > 20 or not process.running(), 60, "events are written")
        machine.until_good_moves()
        floor = written(tmp_path)
        for _ in range(3):  # one may have been in flight, one frozen and pending
            machine.until_good_moves()
        machine.kill()
        process.kill()
    most = written(tmp_path) + 1
    machine.wipe()
    machine.mount(takeover=True)
    restored = read(machine)
    print(f"floor {floor}, restored {len(restored)} of {most}", file=sys.stderr)
    assert restored == list(range(len(restored)))
    assert floor <= len(restored) <= most
