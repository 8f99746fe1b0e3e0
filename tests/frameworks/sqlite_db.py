#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SQLite as Optuna and MLflow use it: a rollback journal and a write-ahead log, side by side.

    sqlite_db.py write DIRECTORY [--commits N]    a line "committed N" after each commit to both
    sqlite_db.py check DIRECTORY --at-least N     both are sound, and hold whole commits only
"""

import argparse
import pathlib
import sqlite3
import sys

MODES = ("delete", "wal")
ROWS = 20  # a commit


def opened(directory, mode):
    db = sqlite3.connect(directory / f"{mode}.db", timeout=120, isolation_level=None)
    assert db.execute(f"pragma journal_mode={mode}").fetchone() == (mode,)
    return db


def commit(db, number):
    db.execute("begin immediate")
    for row in range(ROWS):
        db.execute("insert into trials values (?, ?, ?)", (number, row, f"{number}/{row}" * 40))
    db.execute("update counts set n = n + ?", (ROWS,))
    db.execute("commit")


def write(directory, commits):
    dbs = [opened(directory, mode) for mode in MODES]
    for db in dbs:
        db.execute(
            "create table if not exists trials (number, row, text, primary key (number, row))"
        )
        db.execute("create table if not exists counts (n)")
        if not db.execute("select n from counts").fetchall():
            db.execute("insert into counts values (0)")
    first = 1 + max(
        db.execute("select coalesce(max(number), 0) from trials").fetchone()[0] for db in dbs
    )
    for number in range(first, first + commits):
        for db in dbs:
            commit(db, number)
        print(f"committed {number}", flush=True)
    for db in dbs:
        db.close()


def faults_of(db, at_least):
    """What is wrong with a database, as sentences."""
    [sound] = db.execute("pragma integrity_check").fetchone()
    if sound != "ok":
        yield sound
    for number, rows in db.execute("select number, count(*) from trials group by number"):
        if rows != ROWS:
            yield f"commit {number} has {rows} of its {ROWS} rows"
    [(n,)], [(rows, newest)] = (
        db.execute("select n from counts").fetchall(),
        db.execute("select count(*), coalesce(max(number), 0) from trials").fetchall(),
    )
    if n != rows:
        yield f"{n} rows were counted and {rows} are there"
    if newest < at_least:
        yield f"commit {at_least} is lost, the newest is {newest}"


def check(directory, at_least):
    faults = []
    for mode in MODES:
        db = sqlite3.connect(directory / f"{mode}.db")
        faults += [f"{mode}: {fault}" for fault in faults_of(db, at_least)]
        db.close()
    print("\n".join(faults) or "sound")
    return 1 if faults else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=["write", "check"])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--commits", type=int, default=10)
    parser.add_argument("--at-least", type=int, default=0)
    a = parser.parse_args()
    if a.command == "check":
        return check(a.directory, a.at_least)
    write(a.directory, a.commits)
    return 0


if __name__ == "__main__":
    sys.exit(main())
