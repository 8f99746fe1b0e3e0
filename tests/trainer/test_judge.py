# SPDX-License-Identifier: Apache-2.0
"""The judge itself: it takes what may be, and nothing that was made a little wrong."""

import dataclasses
import os

import pytest

from trainer.judge import Ack, Event, Facts, Segment, Wrong, judge
from trainer.model import Model

NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
SET = ["a", "b"]
REST = 1.0  # much longer than quiet


class Story:
    """A line's calls, each 1 ms after the one before, and a clock."""

    def __init__(self):
        self.segment = Segment([Model()], 0)
        self.model = Model()
        self.at_s = 10.0
        self.seals = []
        self.acks = []
        self.shown = {}

    def call(self, what, by="p", counts=True, **arguments):
        event = Event(self.at_s, self.at_s + 0.001, {"call": what, "by": by, **arguments}, counts)
        self.at_s += 0.001
        event.apply(self.model)
        self.segment.events.append(event)
        if self.model.seal_by:
            self.seals.append((event.begin_s, event.end_s, self.model.seal_by))
        return self

    def save(self, path, seed, by="p", **more):
        self.call("open", by, path=path, flags=NEW, h=path, **more)
        self.call("write", by, h=path, data=[100, seed])
        return self.call("close", by, h=path)

    def rest(self, seconds=REST):
        self.at_s += seconds
        return self

    def ack(self):
        self.acks.append(Ack(self.at_s, self.at_s + 0.001, ok=True))
        return self.rest(0.001)

    def show(self, name="now"):
        """Keep what a new machine would be shown now."""
        faces = {p: f[0] for p, f in self.model.public().items() if f[0]}
        self.shown[name] = {
            p: dataclasses.replace(f, mtime_ns=f.mtime_ns or 7, inode=f.inode + 100)
            for p, f in faces.items()
        }
        return self

    def facts(self, end_s):
        not_before_s = max([a.begin_s for a in self.acks if a.ok], default=0)
        return Facts(0.03, 0.4, end_s, not_before_s, self.acks, self.seals)


def decide(seen, *stories):
    end_s = max(s.at_s for s in stories)
    facts = stories[0].facts(end_s)
    facts.seals = [seal for s in stories for seal in s.seals]
    tree = {f"w{i}/{p}": f for i, tree in enumerate(seen) for p, f in tree.items()}
    return judge({f"w{i}": [s.segment] for i, s in enumerate(stories)}, tree, facts)


# ---- one line ----


def checkpoints():
    """Two saves with a marker, a link, attributes and a log; then a rest."""
    s = Story().call("mkdir", path="d")
    for n in (1, 2):
        s.save(f"d/ck{n}", f"ck{n}").save("latest", f"latest{n}").rest().show(f"save {n}")
    s.call("link", path="d/ck2", to="best").call("symlink", target="d/ck2", path="newest")
    s.call("chmod", path="d/ck2", mode=0o600)
    s.call("setxattr", path="best", name="user.a", data=[5, "x"])
    s.call("utimens", path="latest", mtime_ns=5)
    s.call("open", path="run.log", flags=APPEND, h="log")
    s.call("write", h="log", data=[10, "line"], counts=False)
    return s.rest().show()


@pytest.mark.parametrize("which", ["save 1", "save 2", "now"])
def test_every_quiet_instant_is_right(which):
    s = checkpoints()
    decide([s.shown[which]], s)


def other(face, **fields):
    return dataclasses.replace(face, **fields)


DOCTORED = {
    "a byte is another": lambda t: t | {"latest": other(t["latest"], data=b"x" + b"y" * 99)},
    "a file is shorter": lambda t: t | {"latest": other(t["latest"], data=t["latest"].data[:-1])},
    "a file is empty": lambda t: t | {"d/ck2": other(t["d/ck2"], data=b"")},
    "a file is absent": lambda t: {p: f for p, f in t.items() if p != "d/ck1"},
    "a removed file is there": lambda t: t | {"d/tmp": other(t["d/ck1"], inode=999)},
    "a file is a directory": lambda t: t | {"best": other(t["d"], inode=999)},
    "a mode is another": lambda t: t | {"d/ck2": other(t["d/ck2"], mode=0o644)},
    "a time is another": lambda t: t | {"latest": other(t["latest"], mtime_ns=6)},
    "an extended attribute is lost": lambda t: t | {"best": other(t["best"], xattrs=())},
    "a hard link is a file": lambda t: t | {"best": other(t["best"], inode=999)},
    "two files are one": lambda t: t | {"d/ck1": other(t["d/ck1"], inode=t["latest"].inode)},
    "a link has another target": lambda t: t | {"newest": other(t["newest"], data="d/ck1")},
    "a log is cut": lambda t: t | {"run.log": other(t["run.log"], data=t["run.log"].data[:5])},
    "a log has what nobody wrote": lambda t: t | {"run.log": other(t["run.log"], data=b"?" * 11)},
}


@pytest.mark.parametrize("how", DOCTORED)
def test_what_was_made_wrong_is_wrong(how):
    s = checkpoints()
    with pytest.raises(Wrong):
        decide([DOCTORED[how](s.shown["now"])], s)


def test_a_marker_that_leads_its_data_is_wrong():
    s = checkpoints()
    tree = s.shown["save 1"] | {"latest": s.shown["save 2"]["latest"]}
    with pytest.raises(Wrong, match="ck2"):
        decide([tree], s)


def test_an_instant_in_the_middle_of_a_save_is_wrong():
    s = checkpoints().save("d/ck3", 3).show("between").save("latest", 3).rest()
    with pytest.raises(Wrong):
        decide([s.shown["between"]], s)


def test_what_was_acknowledged_may_not_be_gone():
    s = checkpoints().ack()
    decide([s.shown["now"]], s)
    with pytest.raises(Wrong, match="older than what was kept"):
        decide([s.shown["save 2"]], s)


# ---- what is unfinished ----


def killed_in_mid_save(newer_seal):
    """last.pt is whole, then half of it is rewritten."""
    s = Story().save("last.pt", "whole").rest().show("whole")
    s.call("open", by="q", path="last.pt", flags=NEW, h="h")
    s.call("write", by="q", h="h", data=[50, "half"])
    s.call("ends", by="q", status=None)
    if newer_seal:
        s.save("other", "other")
    return s.rest().show()


def test_a_killed_writers_file_is_as_it_was_last_sealed():
    s = killed_in_mid_save(newer_seal=True)
    decide([s.shown["now"]], s)
    half = other(s.shown["now"]["last.pt"], data=s.model.find("last.pt").content)
    with pytest.raises(Wrong, match="last.pt"):
        decide([s.shown["now"] | {"last.pt": half}], s)


def test_a_killed_writers_file_holds_until_something_newer_is_sealed():
    s = killed_in_mid_save(newer_seal=False).call("mkdir", path="d").rest().show()
    decide([s.shown["whole"]], s)
    with pytest.raises(Wrong):
        decide([s.shown["now"]], s)


def test_a_file_that_a_rename_put_over_another_before_it_was_closed():
    s = Story().save("model", "old").rest().show("old")
    s.call("open", path="tmp", flags=NEW, h="h").call("write", h="h", data=[50, "new"])
    s.call("rename", path="tmp", to="model").rest()
    half = other(s.shown["old"]["model"], data=s.model.find("model").content)
    decide([s.shown["old"]], s)
    with pytest.raises(Wrong):
        decide([{"model": half}], s)


# ---- sets and losses ----


def half_a_set(pause_s, like):
    s = Story()
    if like:
        s.call("mkdir", path="ck1", set={"begins": "ck1", "files": SET})
        s.save("ck1/a", 1).save("ck1/b", 1).rest().show("before")
    s.call("mkdir", path="ck2", set={"begins": "ck2", "files": SET})
    return s.save("ck2/a", 2).rest(pause_s).show().save("ck2/b", 2).rest()


def test_half_a_set_beside_a_whole_one_is_wrong_however_long_the_pause():
    s = half_a_set(pause_s=5, like=True)
    decide([s.shown["before"]], s)
    with pytest.raises(Wrong, match="ck2/ is half a set, beside"):
        decide([s.shown["now"]], s)


def test_half_of_the_first_set_is_wrong_before_it_has_settled():
    with pytest.raises(Wrong, match="half a set"):
        s = half_a_set(pause_s=0.2, like=False)
        decide([s.shown["now"]], s)
    s = half_a_set(pause_s=0.6, like=False)
    decide([s.shown["now"]], s)


def test_half_a_set_that_somebody_waited_for_is_right():
    s = half_a_set(pause_s=5, like=True)
    s.acks = [Ack(s.segment.events[-3].begin_s - 1, s.segment.events[-3].begin_s - 0.9)]
    decide([s.shown["now"]], s)


def test_a_deletion_that_nothing_makes_good_is_wrong():
    s = Story().save("ck1", 1).rest().show("kept").call("unlink", path="ck1").rest().show("gone")
    s.save("ck2", 2).rest().show("replaced")
    decide([s.shown["kept"]], s)
    decide([s.shown["replaced"]], s)
    s.segment.models[0] = Model()
    s.segment.begin_s = 0
    kept = Model.of(s.shown["kept"], Model())
    later = Story()
    later.segment.models, later.model = [kept], kept.copy()
    later.call("unlink", path="ck1").rest().show("gone").save("ck2", 2).rest().show("replaced")
    decide([later.shown["replaced"]], later)
    with pytest.raises(Wrong, match="too much was lost"):
        decide([later.shown["gone"]], later)


# ---- several lines ----


def test_two_lines_from_two_instants_are_wrong():
    a, b = Story(), Story()
    for n in (1, 2):
        a.save("f", f"a{n}").rest().show(n)
        b.save("f", f"b{n}").rest().show(n)
    decide([a.shown[1], b.shown[1]], a, b)
    decide([a.shown[2], b.shown[2]], a, b)
    with pytest.raises(Wrong, match="no instant is common"):
        decide([a.shown[1], b.shown[2]], a, b)
