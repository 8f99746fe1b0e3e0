# SPDX-License-Identifier: Apache-2.0
"""Is what a new machine shows one state that the promises allow?

A line is one sequence of calls in a directory of its own, whoever makes them; several go on at the
same time.  Each call took effect at some time between its begin and its end, so a line was as it
was after a call in a window of time.  A tree is right if every line's part of it is what the line
was, or what may be said of it, in windows that have an instant in common, and that instant

  - was quiet: no file unsealed but logs and what killed writers left, no change for `quiet`;
  - is not before an acknowledgement, nor before what a machine was shown already (P9);
  - holds no half of a set that could be known as one (P2);
  - has not lost more than it gained since the instants before it (P8).

More ranks are more lines.
"""

import dataclasses
import os
import stat

from trainer.model import LOG_NAMES, Face, File

FOREVER = float("inf")
ACK_WAIT_S = 10  # then an acknowledgement overrules what is being written
SLACK_S = 0.002  # clocks are read in two processes
LOSS = 2


def look(root):
    """{path: Face} of what lies there, read to the end."""
    seen = {}
    links = {}
    for directory, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(directory, name)
            st = os.lstat(path)
            face = look_at(path, st)
            seen[os.path.relpath(path, root)] = face
            if not stat.S_ISDIR(st.st_mode):
                links.setdefault(st.st_ino, []).append((path, st.st_nlink))
    for ino, names in links.items():
        assert all(n == len(names) for _, n in names), f"inode {ino} has other links than {names}"
    return seen


def part_of(seen, name):
    """The tree below one directory."""
    at = name + "/"
    return {p[len(at) :]: f for p, f in seen.items() if p.startswith(at)}


def look_at(path, st):
    if stat.S_ISLNK(st.st_mode):
        return Face("link", st.st_ino, os.readlink(path))
    xattrs = tuple(sorted((n, os.getxattr(path, n)) for n in os.listxattr(path)))
    mode = stat.S_IMODE(st.st_mode)
    if stat.S_ISDIR(st.st_mode):
        return Face("dir", st.st_ino, None, mode, xattrs)
    with open(path, "rb") as f:
        data = f.read()
    assert len(data) == st.st_size, f"{path} has {st.st_size} bytes and {len(data)} can be read"
    return Face("file", st.st_ino, data, mode, xattrs, st.st_mtime_ns)


def describe(face):
    if face is None:
        return "absent"
    if face.kind == "file":
        begin = face.data[:6].hex()
        return f"{len(face.data)} bytes {begin} {face.mode:o} x{len(face.xattrs)} {face.mtime_ns}"
    return f"{face.kind} {face.data or ''} {face.mode:o} x{len(face.xattrs)}"


def differences(faces, seen):
    """What is seen and may not be, as lines."""
    lines = []
    inodes = {}
    for path in sorted(faces.keys() | seen.keys()):
        allowed, is_so = faces.get(path, [None]), seen.get(path)
        fits = [f for f in allowed if (f is None) == (is_so is None) and (not f or f.same(is_so))]
        if not fits:
            wanted = " or ".join(map(describe, allowed))
            lines.append(f"  {path}: {describe(is_so)}, not {wanted}")
        elif is_so and len(allowed) == 1:
            if inodes.setdefault(allowed[0].inode, is_so.inode) != is_so.inode:
                lines.append(f"  {path}: no hard link of what it should be one of")
    if len(set(inodes.values())) != len(inodes):
        lines.append("  what should be two inodes is one")
    return lines


# ---- what a line did ----


@dataclasses.dataclass
class Event:
    """Something that changed a line, or did not; apply(model, now_s)."""

    begin_s: float
    end_s: float
    call: dict
    counts: bool = True  # against quiet

    def apply(self, model):
        return model.apply(self.call, self.end_s)


@dataclasses.dataclass
class Segment:
    """Calls after a state that is known; several models where it is one of them."""

    models: list
    begin_s: float  # not before: what led to it had begun
    events: list = dataclasses.field(default_factory=list)
    end_s: float = FOREVER


@dataclasses.dataclass
class Ack:
    begin_s: float
    end_s: float = FOREVER
    ok: bool = False


@dataclasses.dataclass
class Instant:
    """Some line between two of its calls."""

    begin_s: float  # the earliest and the latest time at which it may have been frozen
    end_s: float
    model: object
    number: int  # of calls before it
    changed_s: float  # the last call before it began
    which: int  # of the models
    sizes: dict = None
    lines: list = dataclasses.field(default_factory=list)  # differences to what is seen

    def key(self):
        return self.number, self.which


@dataclasses.dataclass
class Facts:
    """What the judge knows beside the lines."""

    quiet_s: float
    settle_s: float
    death_s: float
    not_before_s: float = 0
    acks: list = dataclasses.field(default_factory=list)
    seals: list = dataclasses.field(default_factory=list)  # (begin, end, process)


def is_let_go(file, seals, by_s):
    """A killed writer's file, once another process has sealed something newer."""
    return any(
        end >= file.killed_s - SLACK_S and begin <= by_s and who != file.writer
        for begin, end, who in seals
    )


def forced(facts, begin_s, end_s):
    """Someone has waited so long in this time that it needs not be quiet."""
    for a in facts.acks:
        from_s, to_s = a.begin_s + ACK_WAIT_S - 0.5, min(a.end_s, facts.death_s)
        if from_s <= to_s and max(from_s, begin_s) <= min(to_s, end_s):
            return max(from_s, begin_s), min(to_s, end_s)
    return None


def instants(segments, facts):
    """Every Instant of a line that may be in a quiet moment."""
    number = 0
    for segment in segments:
        for which, first in enumerate(segment.models):
            model = first.copy()
            changed_s = began_s = segment.begin_s
            events = segment.events
            for k in range(len(events) + 1):
                end_s = events[k].end_s if k < len(events) else min(segment.end_s, facts.death_s)
                holding, killed = model.holders()
                window = max(began_s, changed_s + facts.quiet_s) - SLACK_S, end_s
                quiet = not holding and all(is_let_go(f, facts.seals, end_s) for f in killed)
                if not quiet or window[0] > window[1]:
                    window = forced(facts, began_s, end_s)
                if window:
                    model.now_s = end_s
                    yield Instant(*window, model, number + k, changed_s, which, sizes(model))
                if k < len(events):
                    e = events[k]
                    e.apply(model)
                    began_s = e.begin_s
                    if e.counts:
                        changed_s = e.begin_s
        number += len(segment.events) + 1


# ---- the verdict ----


def overrules(ack, half, instant, facts):
    """Somebody wanted all that there was, half of a set too."""
    return half.began_s <= min(ack.end_s, facts.death_s) and (
        ack.begin_s <= instant.end_s or not ack.ok
    )


def unprotected(instant, facts):
    """Halves of sets at this instant that could have been known as such."""
    for path, s in instant.model.sets.items():
        node = instant.model.there(path)
        if s.whole or s.free or node is None or not node.names:
            continue
        if any(overrules(a, s, instant, facts) for a in facts.acks):
            continue
        if s.had_like:
            yield f"{path}/ is half a set, beside a whole one"
        elif instant.end_s - s.changed_s + SLACK_S < facts.settle_s and not measured(instant, path):
            yield f"{path}/ is half a set, and has not settled"


def measured(instant, path):
    """Has it all that an earlier half had?"""
    done = instant.model.sets[path].done
    return any(half and half <= done for half in instant.model.halves_beside(path))


def is_log_name(path):
    return path.endswith(LOG_NAMES)


def sizes(model):
    """{(path, inode): (bytes, content)} of what is sealed."""
    found, counted = {}, set()
    for path, _, _, node in model.walk():
        if isinstance(node, File) and node.whole is not None:
            content = node.content if node.sealed else node.whole
            found[path, node.id] = 0 if node.id in counted else len(content), content
            counted.add(node.id)
    return found


NOTHING = (0, None)


def balance(was, now):
    """Bytes lost and gained; a log may be gained and is never lost."""
    gone = [k for k, (_, content) in was.items() if now.get(k, NOTHING)[1] != content]
    came = [k for k, (_, content) in now.items() if was.get(k, NOTHING)[1] != content]
    return sum(was[k][0] for k in gone if not is_log_name(k[0])), sum(now[k][0] for k in came)


class Losses:
    """May the good moment have come from the first instants to a later one, and never have lost
    more than twice what it gained?"""

    def __init__(self, columns, facts):
        self.facts = facts
        self.known = {}
        self.all = sorted(together(columns), key=lambda t: t[1])
        self.reached = []
        for begin_s, end_s, chosen in self.all:
            if self.is_first(chosen) or self.is_acknowledged(begin_s) or self.may_follow(chosen):
                self.reached.append(chosen)

    @staticmethod
    def is_first(chosen):
        return all(i.number == 0 for i in chosen)

    def is_acknowledged(self, begin_s):
        """Whoever waits overrules: the newest commit of that time is good."""
        return any(begin_s <= a.end_s for a in self.facts.acks)

    def may_follow(self, chosen):
        return any(self.fits(was, chosen) for was in self.reached)

    def fits(self, was, now):
        pairs = [self.between(a, b) for a, b in zip(was, now)]
        lost, gained = map(sum, zip(*pairs))
        return lost <= LOSS * gained

    def between(self, a, b):
        key = a.key(), b.key()
        if key not in self.known:
            self.known[key] = balance(a.sizes, b.sizes)
        return self.known[key]

    def reaches(self, chosen):
        return any(all(a.key() == b.key() for a, b in zip(was, chosen)) for was in self.reached)


def together(columns, begin_s=0, end_s=FOREVER):
    """Choices of one Instant a line that have a time in common: (begin, end, [Instant])."""
    if not columns:
        yield begin_s, end_s, []
        return
    for i in columns[0]:
        b, e = max(begin_s, i.begin_s), min(end_s, i.end_s)
        if b <= e:
            for found_b, found_e, rest in together(columns[1:], b, e):
                yield found_b, found_e, [i, *rest]


@dataclasses.dataclass
class Verdict:
    begin_s: float
    end_s: float
    instants: list


class Wrong(AssertionError):
    """What is seen is no state that may be."""


def judge(lines, seen, facts):
    """lines: {directory: [Segment]}.  The earliest state that it may be; Wrong if there is none."""
    stray = [p for p in seen if p.partition("/")[0] not in lines]
    if stray:
        raise Wrong(f"nobody ever made {stray[:5]}")
    columns, matches = [], []
    for name, segments in lines.items():
        columns.append(list(against(segments, part_of(seen, name), facts)))
        matches.append([i for i in columns[-1] if not i.lines])
        if not matches[-1]:
            raise Wrong(nowhere(name, columns[-1]))
    return choose(matches, Losses(columns, facts), facts)


def against(segments, part, facts):
    """Every instant, with what of it is not as seen."""
    for i in instants(segments, facts):
        i.lines = differences(i.model.public(), part)
        if not i.lines:
            i.model = i.model.copy()
        yield i


def nowhere(name, column):
    if not column:
        return f"{name}/ was never quiet"
    best = min(column, key=lambda i: (len(i.lines), -i.number))
    return (
        f"{name}/ was at none of its {len(column)} quiet instants so; "
        f"from that after call {best.number}:\n" + "\n".join(best.lines[:12])
    )


def choose(matches, losses, facts):
    """The first choice without an objection."""
    windows = [[(i.begin_s, i.end_s) for i in column] for column in matches]
    why = f"no instant is common to all lines: {windows}"
    for begin_s, end_s, chosen in together(matches):
        objections = [o for i in chosen for o in unprotected(i, facts)]
        if end_s < facts.not_before_s - SLACK_S:
            older_s = facts.not_before_s - end_s
            objections.append(f"it is {older_s:.3f} s older than what was kept before")
        if not losses.reaches(chosen):
            objections.append("too much was lost on the way to it")
        if not objections:
            return Verdict(begin_s, end_s, chosen)
        why = "; ".join(objections)
    raise Wrong(why)
