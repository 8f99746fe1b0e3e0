# SPDX-License-Identifier: Apache-2.0
"""Many processes at once: each call has one winner, and the others hear why."""

import errno
import multiprocessing
import os

RANKS = 64


def rank(root, barrier, results):
    """What every rank of a distributed save does, at the same instant."""
    outcome = {}

    def attempt(name, call):
        barrier.wait(120)
        try:
            call()
            outcome[name] = 0
        except OSError as e:
            outcome[name] = e.errno

    attempt("makedirs", lambda: os.makedirs(root / "run" / "tmp-ckpt", exist_ok=True))
    attempt("mkdir", lambda: os.mkdir(root / "run" / "only-one"))
    attempt("create", lambda: os.close(os.open(root / "run" / "lock", os.O_CREAT | os.O_EXCL)))
    attempt("rename", lambda: os.rename(root / "run" / "tmp-ckpt", root / "run" / "ckpt"))
    attempt("stat", lambda: os.stat(root / "run" / "ckpt"))
    attempt("gone", lambda: os.stat(root / "run" / "tmp-ckpt"))
    results.put(outcome)


def test_of_many_ranks_that_do_the_same_exactly_one_wins(file_machine):  # L07
    m = file_machine
    barrier, results = multiprocessing.Barrier(RANKS), multiprocessing.Queue()
    ranks = [
        multiprocessing.Process(target=rank, args=(m.path, barrier, results)) for _ in range(RANKS)
    ]
    for r in ranks:
        r.start()
    outcomes = [results.get(timeout=120) for _ in ranks]
    for r in ranks:
        r.join(60)

    def counts(name):
        codes = [o[name] for o in outcomes]
        return {errno.errorcode.get(code, "OK"): codes.count(code) for code in codes}

    assert counts("makedirs") == {"OK": RANKS}
    assert counts("mkdir") == {"OK": 1, "EEXIST": RANKS - 1}
    assert counts("create") == {"OK": 1, "EEXIST": RANKS - 1}
    assert counts("rename") == {"OK": 1, "ENOENT": RANKS - 1}
    assert counts("stat") == {"OK": RANKS}
    assert counts("gone") == {"ENOENT": RANKS}
    m.renew()
    assert sorted(os.listdir(m.path / "run")) == ["ckpt", "lock", "only-one"]
