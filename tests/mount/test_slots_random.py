# SPDX-License-Identifier: Apache-2.0
"""Slots of one store that do anything at all at the same time: see lib/chaos.py."""

import sys
import threading

import pytest

from lib.chaos import Rank, judge_kept, judge_links, whole_tree
from lib.gang import at_once, mount_all, slots
from lib.procs import HANGS_S, until


def differences(was, now):
    keys = [k for k in sorted(was.keys() | now.keys()) if was.get(k) != now.get(k)]
    return "\n".join(f"  {k}: {was.get(k)} / {now.get(k)}" for k in keys[:30])


def until_shown(wanted, m):
    try:
        until(lambda: whole_tree(m.path) == wanted, HANGS_S, f"{m.root.name} shows the newest")
    except AssertionError as e:
        raise AssertionError(f"{e}:\n{differences(wanted, whole_tree(m.path) or {})}") from None


def play(gang, ranks, bursts, lost=None, after_s=0):
    """All ranks at once; the daemon of one, if any, is killed in the middle and goes on."""
    killer = threading.Timer(after_s, lost and gang[lost.rank].kill)
    if lost:
        killer.start()
    at_once(lambda r: r.run(bursts), ranks)
    if lost:
        killer.join()
        gang[lost.rank].mount(attempt=1)
        lost.was_killed()


def judge(machines, gang, ranks):
    """When all is quiet they all show what a new mount of the newest commit shows."""
    at_once(lambda m: m.sync(), gang)
    new = machines(gang[0].store, ro=True, follow="off", restore="newest").mount()
    wanted = whole_tree(new.path)
    for m in gang:
        until_shown(wanted, m)
    judge_links(wanted)
    judge_kept(new.path, ranks)
    new.umount()
    new.wipe()
    return wanted


def live(machines, store, rng, of, rounds, bursts, kills=False):
    gang = mount_all(slots(machines, store, of, patience="20"))
    ranks = [Rank(m.path, rank, rng.random()) for rank, m in enumerate(gang)]
    for i in range(rounds):
        lost = rng.choice(ranks) if kills else None
        play(gang, ranks, bursts, lost, rng.uniform(0.1, bursts * 0.4))
        tree = judge(machines, gang, ranks)
        beside = sum("~slot" in path for path in tree)
        print(f"round {i}: {len(tree)} names, {beside} beside others", file=sys.stderr)
    for m in rng.sample(gang, of):
        m.umount()


def test_whatever_ranks_do_at_once_all_see_the_same_and_nothing_is_lost(machines, file_store, rng):
    live(machines, file_store, rng, of=3, rounds=1, bursts=8)


def test_and_so_it_is_when_a_daemon_is_killed_and_goes_on(machines, file_store, rng):
    live(machines, file_store, rng, of=2, rounds=1, bursts=8, kills=True)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kills", [False, True])
def test_again_and_again(machines, store, rng, kills):
    for _ in range(10):
        live(machines, store, rng, rng.randint(2, 5), rounds=5, bursts=12, kills=kills)
