# SPDX-License-Identifier: Apache-2.0
"""A run of the fuzzing trainer: a store, machines, lines that save on them, and random deaths."""

import contextlib
import os
import pickle
import random
import shutil
import threading
import time

from lib import stores
from lib.gang import at_once
from lib.machine import Machine
from lib.proxy import Answer, Cut, Late, Lost, Proxy, Refused, denied
from trainer.judge import Ack, Facts, Segment, Wrong, judge, look, part_of
from trainer.line import Hand, Line, now_s
from trainer.model import Model
from trainer.shapes import SHAPES, with_log

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


# ---- a rank ----


class Rank:
    """A machine and the lines whose hands are on it."""

    def __init__(self, number, machine, lines):
        self.number = number
        self.machine = machine
        self.lines = lines

    def lives(self):
        return self.machine.pid is not None

    def begin(self):
        for line in self.lines:
            line.begin(self.machine.path)

    def look(self, line):
        """Its part of the tree, which nobody changes now."""
        return look(self.machine.path / line.name)

    def resolve(self, line, then):
        line.resolve(self.look(line), then)

    def kill_hands(self):
        for line in self.lines:
            line.kill_all()

    def kill_mount(self):
        for line in self.lines:
            line.dying = True
        self.machine.kill_only()

    def kill(self, rng):
        """Everything on it, in whatever order."""
        deaths = [self.kill_hands, self.kill_mount]
        rng.shuffle(deaths)
        deaths[0]()
        time.sleep(rng.choice([0, 0, 0.02, 0.2]))
        deaths[1]()


# ---- a run ----


class Run:
    """A store, its ranks and their lines, from one seed."""

    def __init__(self, seed, program, store, proxy, where, ranks=None):
        self.rng = random.Random(seed)
        self.seed = seed
        self.link = Link(proxy, random.Random(f"{seed}/link"))
        self.of = ranks or self.rng.choice([1, 1, 1, 2, 3, 4])
        self.mother = Hand.start()  # of all hands
        self.line_n = max(self.of, self.rng.randrange(1, 5))
        self.lines = [self.line(i) for i in range(self.line_n)]
        options = self.options()
        self.ranks = [
            Rank(r, self.machine(r, program, store, where, options), self.lines[r :: self.of])
            for r in range(self.of)
        ]
        self.attempt = 1
        self.acks = []
        self.rounds = 0
        self.story = []
        self.evidence = None  # of what is being judged
        self.began_s = now_s()

    def options(self):
        return {
            "quiet": QUIET_S,
            "settle": SETTLE_S,
            "commit": self.rng.choice([0.02, 0.02, 0.2]),
            "lanes": self.rng.choice([1, 2]),
            "cache_size": self.rng.choice([None, "4M"]),
            "fsync": "remote" if self.lines[0].remote else "local",
        }

    def machine(self, rank, program, store, where, options):
        slot = {"slot": rank, "of": self.of} if self.of > 1 else {}
        return Machine(program, store, where / f"m{rank}", **options, **slot)

    def line(self, i):
        shape = self.rng.choice(SHAPES)
        if self.rng.random() < 0.5:
            shape = with_log(shape)
        line = Line(f"w{i}", shape, random.Random(f"{self.seed}/{i}"), self.mother)
        # Each fsync waits for the others to finish what they write, 10 s at most: slow.
        line.remote = self.line_n == 1 and self.rng.random() < 0.3
        return line

    def say(self, what):
        self.story.append(f"{now_s() - self.began_s:8.3f} {what}")

    # ---- lives ----

    def mount_all(self, **options):
        """At once, as a job begins."""
        if self.of > 1:
            options["attempt"] = self.attempt
        at_once(lambda rank: rank.machine.mount(**options), self.ranks)

    def start(self):
        self.mount_all()
        for rank in self.ranks:
            for line in rank.lines:
                (rank.machine.path / line.name).mkdir()
        at_once(lambda rank: rank.machine.sync(), self.ranks)
        self.new_history({})

    def new_history(self, known):
        """From here on nothing before matters; `known`: what each line is."""
        self.acks = []
        for line in self.lines:
            line.segments = [Segment([known.get(line.name) or Model()], 0)]
            line.seals, line.acks = [], []
            line.in_flight = None
        for rank in self.ranks:
            rank.begin()

    def round(self):
        """Saves, a death, and what is there after it."""
        self.link.change()
        for _ in range(self.rng.randrange(1, 4)):
            self.burst(self.rng.choice([None, None, self.kill_writer]))
            self.rest()
        death = self.rng.choice([self.lose_machines] * 5 + [self.kill_daemon] * 3 + [self.umount])
        death()
        self.rounds += 1

    def burst(self, disturb=None):
        """All lines make calls; meanwhile disturb() if there is one, then what it returns."""
        errors = []

        def go(line, n):
            try:
                while n and line.step():
                    n -= 1
            except BaseException as e:  # for the main thread
                errors.append(e)

        many = [(line, self.rng.choice([3, 15, 40, 80])) for line in self.lines]
        threads = [threading.Thread(target=go, args=one) for one in many]
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
        for rank in filter(Rank.lives, self.ranks):
            for line in rank.lines:
                if line.in_flight and not line.condemned:
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
        machine = self.rng.choice(self.ranks).machine
        ack = Ack(now_s())
        self.acks.append(ack)
        done = machine.command("sync", machine.path, "--timeout", 15)
        ack.end_s, ack.ok = now_s(), done.returncode == 0
        self.say(f"sync {done.returncode} {done.stderr.strip()}")

    def held(self):
        """Is anything unfinished?"""
        return any(any(line.model.holders()) for line in self.lines)

    # ---- deaths ----

    def kill_writer(self):
        rank = self.rng.choice(self.ranks)
        line = self.rng.choice(rank.lines)
        process = line.kill_one()
        self.say(f"killed {process}")

        def then():
            rank.resolve(line, line.ended(process))
            for ended in line.kill_rest():
                rank.resolve(line, ended)
            line.begin(rank.machine.path)

        return then

    def kill_daemon(self):
        """The mount goes on where it was, and has everything that was answered."""
        rank = self.rng.choice(self.ranks)
        hands_first = self.rng.random() < 0.3

        def kill():
            if hands_first:
                rank.kill_hands()
            rank.kill_mount()

        self.burst(kill if self.rng.random() < 0.7 else None)
        if rank.lives():
            kill()
        self.say(f"killed the daemon of rank {rank.number}")
        rank.kill_hands()
        rank.machine.detach()
        self.link.calm()
        before_s = now_s()
        rank.machine.mount(takeover=True, attempt=self.attempt if self.of > 1 else None)
        for line in rank.lines:
            rank.resolve(line, lambda model: model.restart(before_s))
        rank.begin()

    def lose_machines(self):
        """Some of them, for good; then the whole job begins anew."""
        lost = self.rng.sample(self.ranks, self.rng.randrange(1, self.of + 1))

        def kill():
            for rank in lost:
                rank.kill(self.rng)

        self.burst(kill if self.rng.random() < 0.7 else None)
        for rank in filter(Rank.lives, self.ranks):
            rank.kill(self.rng)
        self.say(f"lost the machines of ranks {sorted(rank.number for rank in lost)}")
        for rank in self.ranks:
            rank.machine.detach()
        self.restore(lost, takeover=True)

    def umount(self):
        self.link.calm()
        if any(line.model.opens for line in self.lines) or self.held():
            self.lose_machines()  # it would take its 10 s
            return
        for rank in self.ranks:
            rank.kill_hands()
        ack = Ack(now_s())
        self.acks.append(ack)
        at_once(lambda rank: rank.machine.umount(), self.ranks)
        ack.end_s, ack.ok = now_s(), True
        self.say("unmounted")
        self.restore(self.ranks)

    # ---- afterwards ----

    def restore(self, lost, **options):
        """What new machines, and those that lived on, see in the next attempt."""
        death_s = now_s()
        for line in self.lines:
            line.lost()
        for rank in lost:
            rank.machine.wipe()
        self.link.calm()
        self.attempt += 1
        self.mount_all(**options)
        seen = self.look_on_all()
        verdict = self.judge(seen, death_s)
        self.say(f"continues {death_s - verdict.end_s:.3f} s before that")
        known = {}
        for line, instant in zip(self.lines, verdict.instants):
            known[line.name] = Model.of(part_of(seen, line.name), instant.model)
        self.new_history(known)

    def look_on_all(self):
        """The tree that each of them shows."""
        trees = at_once(lambda rank: look(rank.machine.path), self.ranks)
        for rank, tree in zip(self.ranks, trees):
            if tree != trees[0]:
                others = sorted(p for p in tree.keys() | trees[0] if tree.get(p) != trees[0].get(p))
                raise Wrong(f"rank {rank.number} and rank 0 see different trees: {others[:10]}")
        return trees[0]

    def judge(self, seen, death_s):
        acks = self.acks + [a for line in self.lines for a in line.acks]
        facts = Facts(QUIET_S, SETTLE_S, death_s, acks=acks)
        facts.not_before_s = max([a.begin_s for a in acks if a.ok], default=0)
        facts.seals = [s for line in self.lines for s in line.seals]
        self.evidence = {line.name: line.segments for line in self.lines}, seen, facts
        verdict = judge(*self.evidence)
        self.evidence = None
        return verdict

    def leave_evidence(self, where):
        lines = {line.name: line.segments for line in self.lines}
        with open(where / "evidence", "wb") as f:
            pickle.dump(self.evidence or (lines, {}, Facts(QUIET_S, SETTLE_S, now_s())), f)
        said = "\n".join(rank.machine.story() for rank in self.ranks)
        (where / "story").write_text("\n".join(self.story) + f"\n{said}\n")

    def close(self):
        with contextlib.ExitStack() as ends:
            ends.callback(self.mother.end)
            for rank in self.ranks:
                ends.callback(rank.machine.close)
                ends.callback(rank.kill_hands)


@contextlib.contextmanager
def store_of(kind, program, where):
    """A fresh store, and the proxy before it or None."""
    if kind == "file":
        yield stores.make(stores.FileStore(where / "store"), program), None
        return
    server = stores.S3Server(os.environ.get("VERSITYGW") or shutil.which("versitygw"), where)
    try:
        with Proxy("127.0.0.1", server.port) as proxy:
            yield stores.make(stores.S3Store(server, "run", proxy.endpoint), program), proxy
    finally:
        server.stop()


def make_run(seed, program, kind, where, rounds=ROUNDS_OF_A_RUN, ranks=None):
    """All of a run, with a store of its own; Wrong where something is."""
    where.mkdir(parents=True)
    with store_of(kind, program, where) as (store, proxy):
        run = Run(seed, program, store, proxy, where, ranks)
        try:
            run.start()
            while run.rounds < rounds:
                run.round()
        except BaseException:
            run.leave_evidence(where)
            raise
        finally:
            run.close()
        return run
