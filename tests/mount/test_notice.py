# SPDX-License-Identifier: Apache-2.0
"""A machine that is about to go: who says so, what the mount does then, and what comes of it."""

import contextlib
import json
import re
import signal
import subprocess
import sys

import pytest

from lib.content import MIB, noise, write_new
from lib.imds import Imds
from lib.machine import MountFailed, option_list
from lib.procs import HANGS_S, Group, kill, until, wait_gone

DONE, FAILED, USAGE = 0, 1, 2


@pytest.fixture
def imds():
    with Imds() as service:
        yield service


def phase(want):
    return lambda status: status["notice"]["phase"] == want


def until_runs(m):
    """Until the committer goes by it."""

    def runs(s):
        seen = s["last_notice"] or {"number": 0}
        return s["notice"]["phase"] == "runs" and seen["number"] == s["notice"]["number"]

    return m.until(runs, "a notice runs")["notice"]


def until_calm(m):
    return m.until(phase("calm"), "no notice runs")["notice"]


def notice(m, *arguments):
    done = m.command("notice", m.path, *arguments)
    assert done.returncode == DONE, done
    assert done.stdout == done.stderr == ""


# ---- who says so ----


def test_a_mount_that_heard_nothing_is_calm(file_machine):
    assert file_machine.status()["notice"] == {
        "phase": "calm",
        "number": 0,
        "kind": "",
        "source": "none",
        "seconds_left": 0,
        "deadline": "",
        "trainer": "",
    }


def test_sigusr2_is_a_notice(file_machine):
    m = file_machine
    kill(m.pid, signal.SIGUSR2)
    said = until_runs(m)
    assert said["number"] == 1
    assert said["source"] == "holdfast notice or SIGUSR2"
    assert 0 < said["seconds_left"] <= 30
    kill(m.pid, signal.SIGUSR2)  # again: the same one
    assert until_runs(m)["number"] == 1


def test_the_verb_says_when_and_takes_it_back(file_machine):
    m = file_machine
    notice(m, "--seconds", 500)
    said = until_runs(m)
    assert 400 < said["seconds_left"] <= 500
    assert said["kind"] == "terminate"
    assert said["deadline"].endswith("Z")
    m.until(lambda s: s["gauge"].startswith("a notice runs, 4"), "the gauge says so")
    text = m.command("status", m.path).stdout
    assert re.search(r"a notice runs, 4\d\d s left: .*terminate by", text), text
    notice(m, "--seconds", 1000)  # the first deadline stands
    assert until_runs(m)["seconds_left"] <= 500
    notice(m, "--cancel")
    assert until_calm(m)["number"] == 1
    notice(m)
    assert until_runs(m)["number"] == 2
    assert "notice: over" in m.log_text()


def test_a_file_that_appears_is_a_notice_until_it_goes(machines, file_store, tmp_path):
    file = tmp_path / "notice"
    m = machines(file_store, notice_file=file).mount()
    file.write_text("77")
    assert until_runs(m)["source"] == "notice file"
    file.unlink()
    until_calm(m)


def watched(machines, store, imds, **options):
    m = machines(store, **({"notice": "ec2"} | options))
    m.env = imds.env
    m.mount()
    m.until(lambda s: s["notice"]["source"] == "ec2", "EC2 is watched")
    return m


def test_where_it_runs_is_found_out(machines, file_store, imds):
    watched(machines, file_store, imds, notice="auto")


def test_ec2_is_asked_and_heard(machines, file_store, imds):
    m = watched(machines, file_store, imds)
    imds.recommend()
    m.until(phase("hint"), "a hint")
    imds.interrupt(110)
    said = until_runs(m)
    assert said["source"] == "EC2 spot/instance-action"
    assert 60 < said["seconds_left"] <= 110
    imds.withdraw()
    m.until(phase("hint"), "the hint again")


def test_a_service_that_never_answers_delays_neither_mount_nor_umount(machines, file_store, imds):
    imds.server.server_close()  # its port refuses from now on
    m = machines(file_store, notice="auto")
    m.env = imds.env
    m.mount()
    write_new(m.path / "a", noise(MIB))
    m.umount()


# ---- what the mount does while one runs ----

FOR_EVER = {"commit": 3000, "settle": 3000, "patience": 3000}


def half_writer(path):
    """Holds every moment: a new file, open for writing, half written."""
    f = open(path, "wb", buffering=0)
    f.write(b"x" * 5000)
    return f


def test_what_is_saved_is_sent_without_a_gap(machines, store):
    m = machines(store, **FOR_EVER).mount()
    write_new(m.path / "step-1.pt", noise(MIB))
    m.sync()
    notice(m, "--seconds", 900)
    until_runs(m)
    for i in range(2, 5):
        write_new(m.path / f"step-{i}.pt", noise(MIB, i))
        m.until_good_moves()
    m.replace()
    assert (m.path / "step-4.pt").read_bytes() == noise(MIB, 4)


def test_a_first_set_is_whole_after_a_tenth_of_the_time(machines, file_store):
    m = machines(file_store, **FOR_EVER | {"commit": 0}).mount()
    (m.path / "step-1").mkdir()
    write_new(m.path / "step-1" / "model.pt", noise(MIB))
    m.until(lambda s: s["objection"], "the set may still grow")
    notice(m, "--seconds", 20)
    m.until_good_moves()


def test_at_the_end_what_is_not_finished_is_stored_and_good_stays(machines, file_store):
    m = machines(file_store, **FOR_EVER).mount()
    write_new(m.path / "safe", noise(MIB, 1))
    m.sync()
    before = m.status()
    half = half_writer(m.path / "half")
    write_new(m.path / "b", noise(MIB, 2))
    notice(m, "--seconds", 3)
    after = m.until(lambda s: s["commit"] > before["commit"], "a commit at the end")
    assert after["good"] == before["good"]
    assert after["objection"]
    m.lose()
    with contextlib.suppress(OSError):  # it is no more
        half.close()
    m.mount(takeover=True, restore="newest")
    assert (m.path / "b").read_bytes() == noise(MIB, 2)
    assert not (m.path / "half").exists()


def test_a_mount_goes_on_when_a_notice_was_false(machines, file_store):
    m = machines(file_store).mount()
    notice(m, "--seconds", 900)
    until_runs(m)
    write_new(m.path / "a", noise(MIB, 1))
    m.until_good_moves()
    notice(m, "--cancel")
    until_calm(m)
    write_new(m.path / "b", noise(MIB, 2))
    m.until_good_moves()
    m.renew()
    assert (m.path / "b").read_bytes() == noise(MIB, 2)


def test_nothing_is_prefetched(machines, file_store):
    m = machines(file_store).mount()
    write_new(m.path / "a", noise(64 * MIB))
    m.renew(warm="none")
    notice(m, "--seconds", 900)
    until_runs(m)
    with open(m.path / "a", "rb", buffering=0) as f:
        # Twice what the kernel asks for ahead, in one read after the other.
        for _ in range(16):
            f.read(MIB)
    assert m.status()["fetched_bytes"] < 32 * MIB


def test_a_slot_flushes_its_own_and_the_good_moment_needs_all(machines, file_store):
    options = FOR_EVER | {"of": 2, "attempt": 1, "settle": 1}
    slots = [machines(file_store, slot=i, **options).mount() for i in (0, 1)]
    for i, m in enumerate(slots):
        write_new(m.path / f"rank-{i}", noise(MIB, i))
    slots[0].until(lambda s: s["commits"] > 0, "the first commit")
    with half_writer(slots[1].path / "half"):
        notice(slots[0], "--seconds", 900)
        until_runs(slots[0])
        before = slots[0].status()
        write_new(slots[0].path / "more", noise(MIB, 7))
        after = slots[0].until(lambda s: s["commits"] > before["commits"], "a commit of the slot's")
        assert after["dirty_bytes"] == 0
    notice(slots[1], "--seconds", 900)
    # Its other one holds the moment no more.
    slots[0].until(lambda s: s["last_notice"]["good"] > before["commit"], "all slots are good")


# ---- what is said of it ----


def brought(status):
    """The newest thing that became durable while the newest notice ran."""
    return status["last_notice"] and status["last_notice"]["brought"]


def reports(store):
    """By the objects in the store."""
    keys = sorted(key for key in store.objects() if key.startswith("notices/"))
    return [json.loads(store.path_of(key).read_text()) for key in keys]


def test_the_gauge_says_what_a_notice_now_would_lose(machines, s3_store, proxy):
    m = machines(s3_store.through(proxy.endpoint)).mount()
    m.until(lambda s: s["gauge"] == "a notice now: everything is durable", "nothing to lose")
    proxy.rate_bps = 1e6
    write_new(m.path / "first.pt", noise(MIB))
    m.until_good_moves()
    (m.path / "step-1200").mkdir()
    write_new(m.path / "step-1200" / "model.pt", noise(128 * MIB, 1))
    said = m.until(lambda s: "would lose" in s["gauge"], "what would be lost")["gauge"]
    assert re.search(r"would lose step-1200/ \(.* s short\); first.pt is safe", said), said
    assert m.log_text().count("does not fit a notice of 100 s") == 1
    assert "would lose step-1200/" in m.command("status", m.path).stdout
    proxy.rate_bps = None
    m.until(lambda s: "everything is durable" in s["gauge"], "all of it is sent")


def test_a_report_lies_in_the_store_when_the_time_is_up(machines, store):
    m = machines(store).mount()
    notice(m, "--seconds", 4)
    (m.path / "step-7").mkdir()
    write_new(m.path / "step-7" / "model.pt", noise(MIB))
    m.until(lambda s: brought(s) == "step-7/", "it is durable")
    until(lambda: reports(store), HANGS_S, "the report")
    (said,) = reports(store)
    assert said["number"] == 1
    assert said["kind"] == "terminate"
    assert said["brought"] == "step-7/"
    assert 0 < said["durable_seconds_left"] < 4
    assert said["left_bytes"] == 0
    assert "step-7/ durable at T-" in m.command("status", m.path).stdout


def test_each_notice_has_its_report_and_an_unmount_writes_it(machines, file_store):
    m = machines(file_store, notice_signal="USR1", notice_pid=1 << 29).mount()
    notice(m, "--seconds", 900)
    until_runs(m)
    notice(m, "--cancel")
    until(lambda: reports(file_store), HANGS_S, "the report of one that was withdrawn")
    notice(m, "--seconds", 900)
    m.until(lambda s: s["last_notice"]["number"] == 2, "the second")
    m.umount()
    assert [r["number"] for r in reports(file_store)] == [1, 2]
    assert {r["trainer"] for r in reports(file_store)} == {"called"}
    m.mount()
    assert m.status()["last_notice"] is None


def test_a_daemon_that_goes_on_reports_anew(machines, file_store):
    m = machines(file_store).mount()
    for have in (1, 2):
        notice(m, "--seconds", 900)
        until_runs(m)
        notice(m, "--cancel")
        until(lambda n=have: len(reports(file_store)) == n, HANGS_S, "the report")
        m.kill()
        m.mount()
    assert [r["number"] for r in reports(file_store)] == [1, 1]


def save_set(m, name, each, seed):
    (m.path / name).mkdir()
    for i in range(4):
        write_new(m.path / name / f"shard-{i}.pt", noise(each, seed + i))


def same_set(m, name, each, seed):
    return all(
        (m.path / name / f"shard-{i}.pt").read_bytes() == noise(each, seed + i) for i in range(4)
    )


def test_a_set_that_was_just_closed_is_durable_in_time(machines, s3_store, proxy):
    m = machines(s3_store.through(proxy.endpoint)).mount()
    save_set(m, "step-1", 64 * 1024, 10)
    m.until_good_moves()
    proxy.rate_bps = 16e6
    save_set(m, "step-2", 8 * MIB, 20)
    notice(m, "--seconds", 60)
    durable = m.until(lambda s: brought(s) == "step-2/", "it is durable")
    assert durable["last_notice"]["durable_seconds_left"] > 20
    m.lose()
    m.mount(takeover=True)
    assert same_set(m, "step-2", 8 * MIB, 20)


def test_a_set_that_cannot_fit_costs_nothing_but_itself(machines, s3_store, proxy):
    m = machines(s3_store.through(proxy.endpoint)).mount()
    save_set(m, "step-1", 256 * 1024, 10)
    m.until_good_moves()
    proxy.rate_bps = 1e6
    save_set(m, "step-2", 32 * MIB, 20)
    m.until(lambda s: "step-1/ is safe" in s["gauge"], "the gauge says so beforehand")
    notice(m, "--seconds", 6)
    m.until(lambda s: s["notice"]["seconds_left"] == 0, "the deadline")
    last = m.status()["last_notice"]
    assert last["good"] == 0
    assert last["left_bytes"] > 64 * MIB
    m.lose()
    proxy.rate_bps = None
    m.mount(takeover=True)
    assert same_set(m, "step-1", 256 * 1024, 10)
    assert not (m.path / "step-2").exists()


# ---- metrics ----


def figures(path):
    """Of the file as it is now; empty while there is none."""
    if not path.exists():
        return {}
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return {line.split("{")[0]: line.rsplit(" ", 1)[1] for line in lines}


def test_figures_lie_in_a_file_as_long_as_the_mount_does(machines, file_store, tmp_path):
    path = tmp_path / "holdfast.prom"
    m = machines(file_store, metrics=path).mount()
    assert figures(path)["holdfast_notice_active"] == "0"
    write_new(m.path / "a", noise(MIB))
    m.sync()
    notice(m, "--seconds", 900)
    now = until(
        lambda: figures(path) if figures(path)["holdfast_notice_active"] == "1" else None,
        HANGS_S,
        "figures of a notice",
    )
    status = m.status()
    assert int(now["holdfast_good_commit"]) == status["good"]
    assert int(now["holdfast_sent_bytes_total"]) == status["sent_bytes"]
    assert now["holdfast_notices_total"] == "1"
    assert 0 < float(now["holdfast_notice_left_seconds"]) <= 900
    m.umount()
    assert not path.exists()


@pytest.mark.parametrize("where", ["mnt/figures", "nowhere/figures"])
def test_a_file_of_figures_that_cannot_be_written_is_named(machines, file_store, where):
    m = machines(file_store)
    path = m.root / where
    with pytest.raises(MountFailed, match=re.escape(str(path))):
        m.mount(metrics=path)


# ---- whoever trains saves once more ----

# As a plain PyTorch loop has it: the handler sets a flag, the loop looks at it between two steps.
TRAINER = """
import os, signal, sys, time
directory, how = sys.argv[1:]
asked = 0
def ask(number, frame):
    global asked
    asked += 1
signal.signal(getattr(signal, how), ask)
def save(step):
    with open(f"{directory}/ckpt.pt.tmp", "wb") as f:
        f.write(b"%08d" % step * 100_000)
    os.replace(f"{directory}/ckpt.pt.tmp", f"{directory}/ckpt.pt")
save(1)
print("trains", flush=True)
for step in range(2, 1 << 30):
    time.sleep(0.01)
    if asked:
        asked -= 1
        save(step)
        print(step, flush=True)
        if how == "SIGTERM":
            break
"""


class Trainer(Group):
    def __init__(self, m, how):
        command = [sys.executable, "-c", TRAINER, m.path, how]
        super().__init__(command, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"trains\n"

    def saved(self):
        """The step at which it did, once it has."""
        return int(self.process.stdout.readline())


def content(step):
    return b"%08d" % step * 100_000


@pytest.mark.parametrize("how", ["SIGUSR1", "SIGTERM"])
def test_the_next_machine_resumes_from_what_a_notice_made_the_trainer_save(
    machines, store, imds, tmp_path, how
):
    pid_file = tmp_path / "pid"
    m = watched(machines, store, imds, notice_signal=how[3:], notice_pid=pid_file)
    with Trainer(m, how) as trainer:
        pid_file.write_text(f"{trainer.pid}\n")
        imds.interrupt(110)
        step = trainer.saved()
        safe = m.until(
            lambda s: s["notice"]["trainer"] == "answered" and s["good"] == s["commit"]
            # Nothing is on its way any more.
            and s["dirty_bytes"] == 0 and s["good_age_seconds"] == 0,
            "it is durable",
        )
        assert safe["notice"]["phase"] == "runs"
        assert safe["notice"]["seconds_left"] > 0
        m.lose()
    m.mount(takeover=True, notice="none")
    assert (m.path / "ckpt.pt").read_bytes() == content(step)
    assert f"{how} sent to 1 process" in m.log_text()


def test_a_trainer_is_signalled_once_a_notice(machines, file_store, tmp_path):
    m = machines(file_store, notice_signal="USR1", notice_pid=f"cgroup:{tmp_path}").mount()
    with Trainer(m, "SIGUSR1") as trainer:
        # The mount is never told by its own signal: what is not USR1's handler would end it.
        (tmp_path / "cgroup.procs").write_text(f"{m.pid}\n{trainer.pid}\n")
        for i in range(1, 4):
            notice(m, "--seconds", 900 - i)
        first = trainer.saved()
        notice(m, "--cancel")
        until_calm(m)
        notice(m, "--seconds", 900)
        assert trainer.saved() > first
        assert m.log_text().count("SIGUSR1 sent to 1 process ") == 2


def test_a_command_is_run_and_what_it_prints_is_logged(machines, file_store):
    command = 'echo $HOLDFAST_NOTICE_SECONDS $HOLDFAST_NOTICE_KIND $HOLDFAST_MOUNT; exit 3'
    m = machines(file_store, notice_exec=command).mount()
    notice(m, "--seconds", 120)
    until(lambda: "notice_exec: exit status 3" in m.log_text(), HANGS_S, "the command has ended")
    assert re.search(rf"notice_exec: (99|100) terminate {m.path}\n", m.log_text())
    assert m.status()["notice"]["trainer"] == "called"
    done = m.command("notice", m.path, "--answered")
    assert done.returncode == DONE
    assert m.status()["notice"]["trainer"] == "answered"


def test_a_command_ends_with_the_deadline_and_all_it_started(machines, file_store, tmp_path):
    pids = tmp_path / "pids"
    m = machines(file_store, notice_exec=f"echo $$ > {pids}; sleep 1000 & echo $! >> {pids}; wait")
    m.mount()
    notice(m, "--seconds", 3)
    until(lambda: "is killed" in m.log_text(), HANGS_S, "the command is killed")
    for pid in map(int, pids.read_text().split()):
        wait_gone(pid)


def test_a_command_does_not_keep_the_mount(machines, file_store):
    m = machines(file_store, notice_exec="echo begun; sleep 1000").mount()
    notice(m, "--seconds", 900)
    until(lambda: "notice_exec: begun" in m.log_text(), HANGS_S, "the command runs")
    m.umount()


def test_a_mere_hint_ends_no_trainer(machines, file_store, imds, tmp_path):
    command = "echo kind $HOLDFAST_NOTICE_KIND"
    m = watched(
        machines, file_store, imds, notice_signal="TERM", notice_pid=tmp_path, notice_exec=command
    )
    imds.recommend()
    until(lambda: "notice_exec: kind rebalance" in m.log_text(), HANGS_S, "the command runs")
    assert "SIGTERM" not in m.log_text()  # it would have come first


def test_a_pid_file_that_is_not_there_is_named(machines, file_store, tmp_path):
    m = machines(file_store, notice_signal="USR1", notice_pid=tmp_path / "pid").mount()
    notice(m)
    until(lambda: f"SIGUSR1: {tmp_path}/pid: No such file" in m.log_text(), HANGS_S, "a warning")


def test_nobody_answers_who_was_not_asked(file_machine):
    done = file_machine.command("notice", file_machine.path, "--answered")
    assert done.returncode == FAILED
    assert "no notice runs" in done.stderr


# ---- what it says to bad input ----


@pytest.mark.parametrize(
    "arguments",
    [["--seconds", "0"], ["--seconds", "soon"], ["--seconds", "5", "--cancel"], ["--cancel", "--answered"]],
)
def test_a_wrong_command_line_is_said_in_one_line(file_machine, arguments):
    done = file_machine.command("notice", file_machine.path, *arguments)
    assert done.returncode == USAGE
    assert "usage: holdfast notice" in done.stderr
    assert file_machine.status()["notice"]["number"] == 0


def test_who_only_looks_has_nothing_to_flush(machines, file_store):
    m = machines(file_store).mount(ro=True)
    done = m.command("notice", m.path)
    assert done.returncode == FAILED
    assert "nothing to flush" in done.stderr
    kill(m.pid, signal.SIGUSR2)
    assert m.status()["notice"]["phase"] == "calm"


@pytest.mark.parametrize(
    "options",
    [
        {"notice": "aws"},
        {"notice_file": "here"},
        {"notice_margin": "much"},
        {"notice_signal": "KILL"},
        {"notice_pid": "mine"},
        {"notice_exec": ""},
        {"metrics": "here"},
    ],
)
def test_a_wrong_option_is_named(machines, file_store, options):
    m = machines(file_store)
    words = option_list(options)
    done = m.command("mount", file_store.uri, m.path, "-o", words)
    assert done.returncode == USAGE
    assert words in done.stderr


def test_a_signal_needs_somebody_to_go_to(machines, file_store):
    m = machines(file_store)
    done = m.command("mount", file_store.uri, m.path, "-o", "notice_signal=TERM")
    assert done.returncode == USAGE
    assert "notice_pid" in done.stderr
