#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fuzzing trainer: random saves, random deaths, a random link, and a judge after each restore.

    fuzz.py [--seed N] [--rounds K] [--run R] [--store file|s3|both] [--keep DIR] [--first]

A round is a death and what is found after it.  A run is a store with some rounds; run R of seed N
makes the same calls and dies after the same ones whenever it is made again, as far as time lets it:
`--seed N --run R` is that run alone.  HOLDFAST and VERSITYGW name the programs.
"""

import argparse
import os
import pathlib
import pickle
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib import stores  # noqa: E402
from lib.machine import Machine, MountFailed  # noqa: E402
from lib.proxy import Answer, Cut, Late, Lost, Proxy, Refused, denied  # noqa: E402
from trainer.judge import Ack, Facts, Segment, Wrong, judge, look  # noqa: E402
from trainer.line import Line, now_s  # noqa: E402
from trainer.model import Model  # noqa: E402
from trainer.shapes import SHAPES, with_log  # noqa: E402

QUIET_S = 0.03
SETTLE_S = 0.4
ROUNDS_OF_A_RUN = 10


# ---- the link ----


class Link:
    """What lies between the mount and its store: nothing, or a proxy that does what it likes."""

    def __init__(self, proxy, rng):
        self.proxy = proxy
        self.rng = rng
        self.share = 0
        if proxy:
            proxy.spoil = self.spoil
            self.calm()

    def calm(self):
        self.share = 0
        if self.proxy:
            self.proxy.delay_s = 0
            self.proxy.rate_bps = None

    def change(self):
        if self.proxy:
            self.share = self.rng.choice([0, 0, 0.02, 0.1, 0.3])
            self.proxy.delay_s = self.rng.choice([0, 0, 0.01, 0.05])
            self.proxy.rate_bps = self.rng.choice([None, None, 1e6, 5e6])

    def spoil(self, request):
        if self.rng.random() >= self.share:
            return None
        return self.rng.choice(
            [
                Answer(503, denied("SlowDown").body),
                Answer(500),
                Refused(),
                Lost(),
                Late(self.rng.uniform(0, 0.2)),
                Cut(self.rng.randrange(1, 5000)) if request.method == "GET" else Lost(),
            ]
        )


# ---- a run ----


class Run:
    """A store, its machine and its lines, from one seed."""

    def __init__(self, seed, program, store, proxy, where):
        self.rng = random.Random(seed)
        self.store = store
        self.where = where
        self.link = Link(proxy, random.Random(f"{seed}/link"))
        self.lines = [None] * self.rng.randrange(1, 5)
        self.lines = [self.line(i, seed) for i in range(len(self.lines))]
        self.machine = Machine(program, store, where / "m", **self.options())
        self.rounds = 0
        self.story = []
        self.evidence = None
        self.said_s = now_s()

    def options(self):
        return {
            "quiet": QUIET_S,
            "settle": SETTLE_S,
            "commit": self.rng.choice([0.02, 0.02, 0.2]),
            "lanes": self.rng.choice([1, 2]),
            "cache_size": self.rng.choice([None, "4M"]),
            "fsync": "remote" if self.lines[0].remote else "local",
        }

    def line(self, i, seed):
        shape = self.rng.choice(SHAPES)
        if self.rng.random() < 0.5:
            shape = with_log(shape)
        line = Line(f"w{i}", shape, random.Random(f"{seed}/{i}"))
        # Each fsync waits for the others to finish what they write, 10 s at most: slow.
        line.remote = i == 0 and len(self.lines) == 1 and self.rng.random() < 0.3
        return line

    def say(self, what):
        self.story.append(f"{now_s() - self.said_s:8.3f} {what}")

    # ---- lives ----

    def start(self):
        self.machine.mount()
        for line in self.lines:
            (self.machine.path / line.name).mkdir()
        self.machine.sync()
        self.new_history({})

    def new_history(self, known):
        """From here on nothing before matters; `known`: what each line is."""
        self.acks = []
        for line in self.lines:
            line.segments = [Segment([known.get(line.name) or Model()], 0)]
            line.seals, line.acks = [], []
            line.in_flight = None
            line.begin(self.machine.path)

    def part(self, seen, line):
        at = line.name + "/"
        return {p[len(at) :]: f for p, f in seen.items() if p.startswith(at)}

    def round(self):
        """Saves, a death, and what is there after it."""
        self.link.change()
        for _ in range(self.rng.randrange(1, 4)):
            self.burst(self.rng.choice([None, None, self.kill_writer]))
            self.rest()
        death = self.rng.choice([self.lose_machine] * 5 + [self.kill_daemon] * 3 + [self.umount])
        death()
        self.rounds += 1

    def burst(self, disturb=None):
        """All lines make calls; meanwhile disturb() if there is one."""
        errors = []

        def go(line, n):
            try:
                while n and line.step():
                    n -= 1
            except BaseException as e:  # for the main thread
                errors.append(e)

        threads = [
            threading.Thread(target=go, args=(line, self.rng.choice([3, 15, 40, 80])))
            for line in self.lines
        ]
        for t in threads:
            t.start()
        then = None
        if disturb:
            time.sleep(self.rng.uniform(0, 0.08))
            then = disturb()
        for t in threads:
            t.join()
        if errors:
            raise errors[0]
        for line in self.lines:
            if line.in_flight and not line.condemned and self.machine.pid:
                raise Wrong(f"{line.in_flight.call} failed with errno {line.gone_with}")
        if then:
            then()

    def rest(self):
        """Nothing changes for a while, long enough for a commit or not; maybe somebody waits."""
        if self.rng.random() < 0.15:
            self.sync()
        else:
            time.sleep(self.rng.choice([0, 0, 0.05, 0.15, 0.25, 0.6]))

    def sync(self):
        if self.held() and self.rng.random() < 0.95:
            return  # it would take its 10 s
        ack = Ack(now_s())
        self.acks.append(ack)
        done = self.machine.command("sync", self.machine.path, "--timeout", 15)
        ack.end_s, ack.ok = now_s(), done.returncode == 0
        self.say(f"sync {done.returncode} {done.stderr.strip()}")

    def held(self):
        """Is anything unfinished?"""
        return any(any(line.model.holders()) for line in self.lines)

    # ---- deaths ----

    def kill_writer(self):
        line = self.rng.choice(self.lines)
        process = line.kill_one()
        self.say(f"killed {process}")

        def then():
            seen = look(self.machine.path)
            line.resolve(self.part(seen, line), line.ended(process))
            for ended in line.kill_rest():
                line.resolve(self.part(seen, line), ended)
            line.begin(self.machine.path)

        return then

    def kill_daemon(self):
        """The mount goes on where it was, and has everything that was answered."""
        hands_first = self.rng.random() < 0.3

        def kill():
            if hands_first:
                self.kill_hands()
            self.kill_mount()

        self.burst(kill if self.rng.random() < 0.7 else None)
        if self.machine.pid:
            kill()
        self.say("killed the daemon")
        self.kill_hands()
        self.machine.detach()
        self.link.calm()
        before_s = now_s()
        self.machine.mount(takeover=True)
        seen = look(self.machine.path)
        for line in self.lines:
            line.resolve(self.part(seen, line), lambda model: model.restart(before_s))
            line.begin(self.machine.path)

    def kill_mount(self):
        for line in self.lines:
            line.dying = True
        self.machine.kill_only()

    def kill_hands(self):
        for line in self.lines:
            line.kill_all()

    def lose_machine(self):
        def kill():
            deaths = [self.kill_hands, self.kill_mount]
            self.rng.shuffle(deaths)
            deaths[0]()
            time.sleep(self.rng.choice([0, 0, 0.02, 0.2]))
            deaths[1]()

        self.burst(kill if self.rng.random() < 0.7 else None)
        if self.machine.pid:
            kill()
        self.say("lost the machine")
        self.machine.detach()
        self.lost(takeover=True)

    def umount(self):
        self.link.calm()
        if any(line.model.opens for line in self.lines) or self.held():
            return self.lose_machine()  # it would take its 10 s
        self.kill_hands()
        ack = Ack(now_s())
        self.acks.append(ack)
        self.machine.umount()
        ack.end_s, ack.ok = now_s(), True
        self.say("unmounted")
        self.lost()

    def lost(self, **options):
        """A new machine gets something; the judge says what."""
        death_s = now_s()
        for line in self.lines:
            line.lost()
        self.machine.wipe()
        self.link.calm()
        self.machine.mount(**options)
        seen = look(self.machine.path)
        acks = self.acks + [a for line in self.lines for a in line.acks]
        facts = Facts(QUIET_S, SETTLE_S, death_s, acks=acks)
        facts.not_before_s = max([a.begin_s for a in acks if a.ok], default=0)
        facts.seals = [s for line in self.lines for s in line.seals]
        self.evidence = {line.name: line.segments for line in self.lines}, seen, facts
        verdict = judge(*self.evidence)
        self.evidence = None
        self.say(f"continues {death_s - verdict.end_s:.3f} s before that")
        known = {
            line.name: Model.of(self.part(seen, line), i.model)
            for line, i in zip(self.lines, verdict.instants)
        }
        self.new_history(known)

    def close(self):
        try:
            self.kill_hands()
        finally:
            self.machine.close()


# ---- many ----


def make_run(seed, program, kind, where, rounds=ROUNDS_OF_A_RUN):
    """All of a run, with a store of its own; Wrong where something is."""
    where.mkdir(parents=True)
    proxy = server = None
    if kind == "s3":
        server = stores.S3Server(os.environ.get("VERSITYGW") or shutil.which("versitygw"), where)
        proxy = Proxy("127.0.0.1", server.port).__enter__()
        store = stores.S3Store(server, "run", proxy.endpoint)
    else:
        store = stores.FileStore(where / "store")
    run = None
    try:
        stores.make(store, program)
        run = Run(seed, program, store, proxy, where)
        try:
            run.start()
            while run.rounds < rounds:
                run.round()
        finally:
            run.close()
    except BaseException:
        if run:
            leave_evidence(run, where)
        raise
    finally:
        if server:
            proxy.__exit__()
            server.stop()
    return run


def leave_evidence(run, where):
    with open(where / "evidence", "wb") as f:
        lines = {line.name: line.segments for line in run.lines}
        pickle.dump(run.evidence or (lines, {}, Facts(QUIET_S, SETTLE_S, now_s())), f)
    (where / "story").write_text("\n".join(run.story) + f"\n{run.machine.story()}\n")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing is left behind
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    p.add_argument("--rounds", type=int, default=20)
    p.add_argument("--run", type=int)
    p.add_argument("--first", action="store_true", help="end with the first that is wrong")
    p.add_argument("--store", choices=["file", "s3", "both"], default="both")
    p.add_argument("--keep", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()))
    a = p.parse_args()
    program = os.environ["HOLDFAST"]
    print(f"seed {a.seed}", flush=True)
    rounds = wrong = 0
    number = a.run or 0
    began_s = now_s()
    while rounds < a.rounds:
        kind = ["file", "s3"][number % 2] if a.store == "both" else a.store
        where = a.keep / f"fuzz-{a.seed}-{number}"
        shutil.rmtree(where, ignore_errors=True)
        try:
            run = make_run(f"{a.seed}/{number}", program, kind, where)
            rounds += run.rounds
            calls = sum(line.made for line in run.lines)
            pace_s = (now_s() - began_s) / rounds
            print(f"run {number} {kind}: {calls} calls; {pace_s:.2f} s a round", flush=True)
            shutil.rmtree(where)
        except Exception as e:
            wrong += 1
            rounds += 1
            found = isinstance(e, (AssertionError, MountFailed, OSError))
            verdict = "WRONG" if found else "BROKEN"  # the trainer itself
            print(
                f"{verdict}: --seed {a.seed} --run {number} --store {kind}: {where}\n{e}",
                flush=True,
            )
            if not isinstance(e, Wrong):
                traceback.print_exc()
        if a.run is not None or (wrong and a.first):
            break
        number += 1
    print(f"{rounds} rounds, {wrong} wrong", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
