# SPDX-License-Identifier: Apache-2.0
"""A line of the trainer: a sequence of calls, made by hands, with what is known of each.

The log of it (segments of events, judge.py) is kept here, off the mount and out of reach of every
kill.  Every answer is compared with the model's at once: a mount behaves as a local disk.
"""

import contextlib
import errno
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import threading
import time

from lib.procs import HANGS_S
from trainer.judge import Ack, Event, Segment, Wrong, differences
from trainer.model import NO, Model

HAND = pathlib.Path(__file__).with_name("hand.py")
# What a call on a mount that has gone is answered.
GONE = {errno.ENOTCONN, errno.ECONNABORTED, errno.EIO, errno.EROFS, errno.ENODEV}
WRITES = {"write", "writev", "pwrite", "copy", "sendfile"}
LOOKS = {"read", "readdir", "readlink", "stat", "statfs", "seek", "sync_dir", "dup"}


def now_s():
    return time.monotonic()


class HandGone(Exception):
    """It was killed before it answered."""


class Hand:
    """A process or thread that makes calls; `process` names whose open files it has."""

    def __init__(self, process, sock, pidfd):
        self.process = process
        self.sock = sock
        self.sock.settimeout(HANGS_S)
        self.pidfd = pidfd
        self.answers = sock.makefile("rb")

    @classmethod
    def start(cls):
        """One that is there to fork others: Python takes its time to begin."""
        ours, theirs = socket.socketpair()
        with theirs:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", HAND, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        hand = cls("mother", ours, os.pidfd_open(child.pid))
        hand.child = child
        return hand

    def end(self):
        """Of one that was started."""
        self.close()
        self.child.kill()
        self.child.wait()

    def more(self, name, process):
        """A child, or a thread if it has our name; None where we are gone."""
        ours, theirs = socket.socketpair()
        with theirs:
            self.send({"call": name})
            socket.send_fds(self.sock, [b"f"], [theirs.fileno()])
            answer = self.receive()
        pidfd = os.pidfd_open(answer["ok"]) if name == "fork" else os.dup(self.pidfd)
        return Hand(process, ours, pidfd)

    def send(self, call):
        try:
            self.sock.sendall(json.dumps(call).encode() + b"\n")
        except OSError as e:
            raise HandGone from e

    def receive(self):
        try:
            line = self.answers.readline()
        except ConnectionError as e:
            raise HandGone from e
        if not line.endswith(b"\n"):
            raise HandGone
        return json.loads(line)

    def ask(self, call):
        self.send(call)
        return self.receive()

    def kill(self, number=9):
        """Sent; gone() waits for it."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def gone(self, seconds=HANGS_S):
        poll = select.poll()
        poll.register(self.pidfd)
        assert poll.poll(seconds * 1000), "a killed process does not end"

    def close(self):
        self.answers.close()
        self.sock.close()
        os.close(self.pidfd)


class Line:
    """Calls in `name`/, as `shape` wants them."""

    def __init__(self, name, shape, rng, mother):
        self.name = name
        self.mother = mother
        self.shape = shape
        self.rng = rng
        self.root = None
        self.segments = [Segment([Model()], 0)]
        self.working = None  # the model as it is now
        self.hands = []
        self.calls = None  # what the shape will do next
        self.in_flight = None  # Event of which nobody knows whether it was
        self.dying = False  # the mount is being killed
        self.killed_s = 0  # when the last kill began
        self.condemned = None  # the process that is to be killed
        self.fate = threading.Lock()  # held where a kill would leave us not knowing who lives
        self.seals = []  # (begin, end, process)
        self.remote = False  # fsync is answered when the store has it
        self.acks = []
        self.processes = 0
        self.contents = 0
        self.made = 0  # calls

    @property
    def model(self):
        return self.working

    # ---- hands ----

    def begin(self, root):
        """A trainer starts, in the state that was last made certain."""
        for h in self.hands:
            h.close()
        self.hands.clear()
        self.root = os.path.join(root, self.name)
        self.working = self.segments[-1].models[0].copy()
        for e in self.segments[-1].events:
            e.apply(self.working)
        self.condemned, self.dying = None, False
        self.hands.append(self.mother.more("fork", self.next_process()))
        self.hands[0].ask({"call": "enter", "root": self.root})
        self.calls = self.shape(self)

    def next_process(self):
        self.processes += 1
        return f"{self.name}.{self.processes}"

    def hand(self):
        return self.rng.choice(self.hands)

    def fork(self, hand):
        """A child of the hand, that has what it has open."""
        name = self.next_process()
        begin_s = now_s()
        with self.fate:
            self.hands.append(hand.more("fork", name))
        call = {"call": "fork", "by": hand.process, "child": name}
        self.note(Event(begin_s, now_s(), call, counts=False))
        return self.hands[-1]

    def thread(self, hand):
        """Another thread of its process."""
        with self.fate:
            self.hands.append(hand.more("thread", hand.process))
        return self.hands[-1]

    def dismiss(self, hand, status):
        """It exits, and what it has open is closed for it."""
        begin_s = now_s()
        with self.fate:
            if self.condemned:
                raise HandGone
            hand.send({"call": "exit", "status": status})
            hand.gone()
            self.let_go(hand.process)
        call = {"call": "ends", "by": hand.process, "status": status}
        self.note(Event(begin_s, now_s(), call))

    def close_thread(self, hand):
        """It is told nothing more; its process lives on."""
        hand.close()
        self.hands.remove(hand)

    def let_go(self, process):
        for h in [h for h in self.hands if h.process == process]:
            h.close()
            self.hands.remove(h)

    # ---- calls ----

    def step(self):
        """One call; False when the line cannot go on before somebody sees to it."""
        if self.condemned or self.in_flight:
            return False
        try:
            hand, call = next(self.calls)
        except HandGone:
            return False
        if call["call"] == "pause":
            time.sleep(call["seconds"])
            return True
        said = {k: v for k, v in call.items() if k != "set"}
        event = Event(now_s(), 0, call | {"by": hand.process}, counts=self.counts(hand, call))
        try:
            answer = hand.ask(said)
        except HandGone:
            answer = {"errno": errno.ENOTCONN}
        event.end_s = now_s()
        gone = answer.get("errno") in GONE or (self.dying and self.is_short(event, answer))
        if self.remote and self.syncs(event.call):
            end_s = float("inf") if gone else event.end_s
            self.acks.append(Ack(event.begin_s, end_s, ok="ok" in answer))
        if gone:
            self.in_flight = event
            self.gone_with = answer.get("errno")
            return False
        self.compare(event, answer, self.note(event))
        return True

    def is_short(self, event, answer):
        """A write that the death of the mount has cut."""
        return "ok" in answer and answer["ok"] != event.apply(self.working.copy()).get("ok")

    def compare(self, event, answer, wanted):
        self.made += 1
        if answer != wanted:
            raise Wrong(
                f"{self.name}: call {len(self.segments[-1].events)}, {shorten(event.call)}, "
                f"was answered {shorten(answer)}, not {shorten(wanted)}"
            )

    def syncs(self, call):
        """Is it answered when the store has it, with fsync=remote?"""
        if call["call"] in ("fsync", "fdatasync", "sync_dir"):
            return True
        h = call.get("to", call.get("h"))
        o = self.working.opens.get(self.working.fds.get((call["by"], h)))
        return bool(call.get("sync") or (o and call["call"] in WRITES and o.flags & os.O_SYNC))

    def counts(self, hand, call):
        """Appending to a log changes nothing that has to be quiet."""
        if call["call"] in LOOKS:
            return False
        if (hand.process, call.get("h")) not in self.working.fds:
            return True
        file = self.working.file(hand.process, call["h"])
        names = [name for _, name in self.working.links(file.id)]
        return not names or any(self.working.is_log(file, n) is NO for n in names)

    def note(self, event):
        wanted = event.apply(self.working)
        self.segments[-1].events.append(event)
        if self.working.seal_by:
            self.seals.append((event.begin_s, event.end_s, self.working.seal_by))
        return wanted

    # ---- deaths ----

    def kill_one(self):
        """kill -9 of a process, with all its threads, whatever it does; returns its name."""
        with self.fate:
            hand = self.rng.choice(self.hands)
            self.condemned = hand.process
            self.killed_s = now_s()
            hand.kill()
        hand.gone()
        return hand.process

    def kill_rest(self):
        """The others, and what each has left: a function of ended()."""
        self.killed_s = now_s()
        for process in sorted({h.process for h in self.hands}):
            for h in self.hands:
                if h.process == process:
                    h.kill()
                    h.gone()
            yield self.ended(process)

    def kill_all(self):
        """At once.  What is in flight stays so."""
        self.condemned = "all"
        self.killed_s = now_s()
        with self.fate:
            for h in self.hands:
                h.kill()
        for h in self.hands:
            h.gone()

    def possible(self):
        """What the line may be, after what was answered; `working` is one of them."""
        segment = self.segments[-1]
        for first in segment.models:
            model = first.copy()
            for e in segment.events:
                e.apply(model)
            yield model

    def outcomes(self):
        """Every state that the line may be in."""
        for model in self.possible():
            yield model.copy()
            if self.in_flight:
                yield from part_done(model, self.in_flight)

    def is_one_of(self, models):
        """From here on: it is in one of these states, and everything else is over."""
        begin_s = self.in_flight.begin_s if self.in_flight else self.changed_s()
        self.segments[-1].end_s = now_s()
        self.in_flight = None
        self.segments.append(Segment(models, begin_s))
        self.working = models[0].copy()

    def changed_s(self):
        """When the last call that counts began."""
        segment = self.segments[-1]
        return max([e.begin_s for e in segment.events if e.counts], default=segment.begin_s)

    def ended(self, process):
        """The process was killed: what it left is known as soon as the mount is looked at."""

        def then(model):
            model.now_s = self.killed_s  # whatever was sealed since is newer
            model.do_ends(process, None)

        self.condemned = None
        self.let_go(process)
        return then

    def resolve(self, seen, then):
        """What was in flight has been done as far as is seen on a mount that lives; then(model)."""
        found, near = {}, None
        for model in self.outcomes():
            then(model)
            lines = differences(model.live(), seen)
            if not lines:
                found.setdefault(model.seals_key(), model)
            elif near is None or len(lines) < len(near):
                near = lines
        if not found:
            flight = f" by {shorten(self.in_flight.call)} and a death" if self.in_flight else ""
            lost = "\n".join(near[:12])
            raise Wrong(f"{self.name}/ has lost what was answered{flight}:\n{lost}")
        self.is_one_of(list(found.values()))

    def lost(self):
        """The machine is gone: it may have got as far as this, and nobody will ever tell."""
        models = list(self.outcomes())
        for model in list(models):
            alive = {by for by, _ in model.fds}
            for process in alive:
                model.now_s = self.killed_s
                model.do_ends(process, None)
        self.is_one_of(models)


def shorten(value):
    text = json.dumps(value)
    return text if len(text) < 300 else text[:290] + "..."


def part_done(model, event):
    """All of it, or some first part of what it writes."""
    call = event.call
    whole = model.copy()
    whole.apply(call, event.end_s)
    yield whole.copy()
    if call["call"] == "close":  # closed, and the mount was not told
        half = model.copy()
        half.forget_fd(call["by"], call["h"])
        yield half
    if call["call"] in WRITES | {"map"}:
        yield from beginnings(model, whole, event)


def beginnings(model, whole, event):
    """The kernel cuts a write at pages."""
    call = event.call
    h = call["to"] if call["call"] in ("copy", "sendfile") else call["h"]
    before, after = model.file(call["by"], h).content, whole.file(call["by"], h).content
    step = 4096
    for cut in range(step, len(after), step):
        part = model.copy()
        file = part.file(call["by"], h)
        content = after[:cut] + before[cut:] if len(before) > cut else after[:cut]
        if content in (before, after):
            continue
        part.now_s = event.end_s
        part.written(file, call["by"], grew=len(before) <= cut, mapped=call["call"] == "map")
        file.content = content
        yield part
