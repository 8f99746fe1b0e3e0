#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A writer that marks checkpoints as complete in every way that frameworks do, and its judge.

    markers.py write DIR LEDGER [--secs N] [--seed S] [--rounds N]
    markers.py check DIR LEDGER --level order|atomic|quiet

Each style saves into a directory of its own, again and again, with the calls of the framework that
it imitates.  The ledger lies off the mount: before a save it gets what the save will write, after
it what the directory then holds.

  order    what a marker says is complete is complete (holds at any instant of any consistent cut)
  atomic   no file is torn, the newest set without a marker is whole (holds after any restore)
  quiet    every directory is exactly as it was after one of its saves (holds after a rest)
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib.content import noise, sync_directory  # noqa: E402
from lib.oracle import Ledger, digest, digest_bytes, tree_of  # noqa: E402

PIECE = 32 * 1024


class Style:
    """One way to save.  save() does it; claims() says which files some marker vouches for."""

    name = None
    keep = 2  # checkpoints, where old ones are removed

    def __init__(self, root, ledger, rng=None):
        self.dir = pathlib.Path(root, self.name)
        self.ledger = ledger
        self.rng = rng
        self.n = 0

    # ---- for the styles ----

    def data(self, name):
        """What save n writes into the file that it calls `name`; it differs in length as well."""
        seed = (self.name, self.n, name)
        return noise(20_000 + random.Random(str(seed)).randrange(150_000), seed)

    def breathe(self):
        """A trainer is not always quick; some of these pauses are longer than a quiet moment."""
        if self.rng.random() < 0.05:
            time.sleep(self.rng.uniform(0, 0.4))

    def write(self, path, data, flags=os.O_CREAT | os.O_TRUNC, sync=False):
        fd = os.open(path, os.O_WRONLY | flags, 0o644)
        for at in range(0, len(data), PIECE):
            os.write(fd, data[at : at + PIECE])
            self.breathe()
        if sync:
            os.fsync(fd)
        os.close(fd)
        self.breathe()

    def numbered(self, prefix):
        """Numbers of what is there under prefixN, oldest first."""
        tails = [e.name[len(prefix) :] for e in os.scandir(self.dir) if e.name.startswith(prefix)]
        return sorted(int(t) for t in tails if t.isdigit())

    def rotate(self, prefix, keep=None):
        for n in self.numbered(prefix)[: -(keep or self.keep)]:
            shutil.rmtree(self.dir / f"{prefix}{n}", ignore_errors=True)

    # ---- what a style says ----

    files = ("model.pt",)  # what a save writes, under these names for data()

    def plan(self):
        """{name for the ledger: digest}, before anything is written."""
        return {name: digest_bytes(self.data(name)) for name in self.files}

    def save(self):
        raise NotImplementedError

    def claims(self):
        """[{path in the directory: name in the plan}]: sets of which each must be of one save."""
        return []

    def newest_set(self):
        """The same for the newest set of a style that has no marker; judged after restores only."""
        return None

    def torn_allowed(self, path):
        """Logs: any beginning of theirs is whole."""
        return False

    # ---- the writer ----

    def step(self):
        self.dir.mkdir(exist_ok=True)
        self.n = self.ledger.next_number(self.name)
        self.ledger.plan(self.n, self.plan(), of=self.name)
        self.save()
        self.ledger.add(self.n, self.whole_tree(), of=self.name)

    def whole_tree(self):
        """What is there, but for what a killed predecessor left half-written."""
        tree = tree_of(self.dir)
        torn = self.torn(tree)
        return {path: value for path, value in tree.items() if path not in torn}

    def torn(self, tree):
        """Paths in the tree whose content no save has planned."""
        known = {d for plan in self.ledger.plans(self.name) for d in plan["tree"].values()}
        return [
            path
            for path, value in tree.items()
            if not (value == "/" or value.startswith("-> ") or value in known)
            and not self.torn_allowed(self.dir / path)
        ]


class Directory(Style):
    """Styles whose save is a directory PREFIXn that holds `files`."""

    prefix = "step_"

    def fill(self, directory, sync=False):
        directory.mkdir(exist_ok=True)
        for name in self.files:
            (directory / name).parent.mkdir(exist_ok=True)
            self.write(directory / name, self.data(name), sync=sync)

    def set_of(self, n):
        return {f"{self.prefix}{n}/{name}": name for name in self.files}


# ---- files ----


class RenameOver(Style):
    """A temporary file renamed over the last one."""

    name = "rename_over"

    def save(self):
        self.write(self.dir / "model.pt.tmp", self.data("model.pt"))
        os.replace(self.dir / "model.pt.tmp", self.dir / "model.pt")

    def claims(self):
        return [{"model.pt": "model.pt"}]


class InPlace(Style):
    """torch.save(state, "last.pt")."""

    name = "in_place"
    files = ("last.pt",)

    def save(self):
        self.write(self.dir / "last.pt", self.data("last.pt"))


class Safetensors(Style):
    """Full size first, renamed before it is closed, mode 0600."""

    name = "safetensors"
    files = ("model.safetensors",)

    def save(self):
        data = self.data("model.safetensors")
        temporary = self.dir / f".tmp{self.rng.randrange(10**6):06}"
        fd = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        os.ftruncate(fd, len(data))
        for at in range(0, len(data), PIECE):
            os.write(fd, data[at : at + PIECE])
        self.breathe()
        os.rename(temporary, self.dir / "model.safetensors")
        self.breathe()
        os.close(fd)
        for left in self.dir.glob(".tmp*"):  # a killed predecessor's
            left.unlink()


class UnlinkThenLink(Style):
    """timm: unlink(last), rename, then hard links."""

    name = "timm"
    files = ("last.pth.tar",)

    def save(self):
        d = self.dir
        self.write(d / "tmp.pth.tar", self.data("last.pth.tar"))
        (d / "last.pth.tar").unlink(missing_ok=True)
        self.breathe()
        os.rename(d / "tmp.pth.tar", d / "last.pth.tar")
        os.link(d / "last.pth.tar", d / f"checkpoint-{self.n}")
        (d / "model_best.pth.tar").unlink(missing_ok=True)
        os.link(d / "last.pth.tar", d / "model_best.pth.tar")
        for n in self.numbered("checkpoint-")[: -self.keep]:
            (d / f"checkpoint-{n}").unlink()

    def claims(self):
        names = ["last.pth.tar", "model_best.pth.tar"]
        names += [f"checkpoint-{n}" for n in self.numbered("checkpoint-")]
        return [{name: "last.pth.tar"} for name in names]


class SymlinkRenamed(Style):
    """wandb, Composer: a symbolic link through a temporary name; it names the newest."""

    name = "symlink"

    def link(self, target):
        temporary = self.dir / f"latest.{self.n}"
        os.symlink(target, temporary)
        os.replace(temporary, self.dir / "latest")

    def save(self):
        self.write(self.dir / f"ep{self.n}", self.data("model.pt"))
        self.link(f"ep{self.n}")
        for n in self.numbered("ep")[: -self.keep]:
            (self.dir / f"ep{n}").unlink()

    def claims(self):
        return (
            [{os.readlink(self.dir / "latest"): "model.pt"}]
            if (self.dir / "latest").is_symlink()
            else []
        )


class SymlinkReplaced(SymlinkRenamed):
    """Lightning's save_last="link": unlink, then symlink."""

    name = "symlink_replaced"

    def link(self, target):
        (self.dir / "latest").unlink(missing_ok=True)
        self.breathe()
        os.symlink(target, self.dir / "latest")


class TwoInPlace(Style):
    """Keras' backup: weights, then what they are, both in place."""

    name = "keras_backup"
    files = ("latest.weights.h5", "training_metadata.json")

    def save(self):
        for name in self.files:
            self.write(self.dir / name, self.data(name))


class CopyLast(Style):
    """fairseq: an epoch's file, then a copy of it as the last."""

    name = "copy_last"

    def save(self):
        self.write(self.dir / f"checkpoint{self.n}", self.data("model.pt"))
        shutil.copyfile(self.dir / f"checkpoint{self.n}", self.dir / "checkpoint_last.pt")
        for n in self.numbered("checkpoint")[: -self.keep]:
            (self.dir / f"checkpoint{n}").unlink()


# ---- directories and what names them ----


class LatestInPlace(Directory):
    """DeepSpeed, Megatron: a text file, rewritten in place, names the directory."""

    name = "latest_text"
    prefix = "global_step"
    files = ("mp_rank_00_model_states.pt", "zero_pp_rank_0_optim_states.pt")

    def save(self):
        self.fill(self.dir / f"{self.prefix}{self.n}")
        self.write(self.dir / "latest", f"{self.prefix}{self.n}".encode())
        self.rotate(self.prefix)

    def plan(self):
        return super().plan() | {"latest": digest_bytes(f"{self.prefix}{self.n}".encode())}

    def claims(self):
        try:
            latest = (self.dir / "latest").read_text()
        except FileNotFoundError:
            return []
        return [{f"{latest}/{name}": name for name in self.files}] if latest else []


class DirectoryRenamed(Directory):
    """Orbax: an inner and an outer directory, each renamed when it is whole, all synced."""

    name = "orbax"
    prefix = ""
    files = ("default/d/5ac1", "default/manifest.ocdbt", "commit_success.txt")

    def save(self):
        outer = self.dir / f"{self.n}.orbax-checkpoint-tmp"
        inner = outer / "default.orbax-checkpoint-tmp"
        (inner / "d").mkdir(parents=True, exist_ok=True)
        self.write(inner / "d" / "5ac1", self.data(self.files[0]), sync=True)
        self.write(inner / "manifest.ocdbt.__lock", self.data(self.files[1]), sync=True)
        os.rename(inner / "manifest.ocdbt.__lock", inner / "manifest.ocdbt")
        sync_directory(inner)
        os.rename(inner, outer / "default")
        self.write(outer / "commit_success.txt", self.data(self.files[2]), sync=True)
        self.breathe()
        os.rename(outer, self.dir / str(self.n))
        sync_directory(self.dir)
        for left in self.dir.glob("*-tmp"):
            shutil.rmtree(left)
        for n in self.numbered("")[: -self.keep]:  # out of sight first, as Orbax does
            os.rename(self.dir / str(n), self.dir / f"{n}.deleted-tmp")
            shutil.rmtree(self.dir / f"{n}.deleted-tmp")

    def claims(self):
        return [self.set_of(n) for n in self.numbered("")]


class MetadataLast(Directory):
    """torch DCP into one directory again and again: .metadata goes first and comes last."""

    name = "dcp"
    files = ("__0_0.distcp", "__1_0.distcp", ".metadata")

    def save(self):
        d = self.dir
        (d / ".metadata").unlink(missing_ok=True)
        self.breathe()
        for name in self.files[:2]:
            self.write(d / name, self.data(name), sync=True)
        self.write(d / ".metadata.tmp", self.data(".metadata"), sync=True)
        os.rename(d / ".metadata.tmp", d / ".metadata")

    def claims(self):
        return [{name: name for name in self.files}] if (self.dir / ".metadata").exists() else []


class IndexLast(Directory):
    """Sharded safetensors: the index comes last, in place."""

    name = "sharded"
    prefix = "ckpt_"
    files = (
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    )

    def save(self):
        self.fill(self.dir / f"{self.prefix}{self.n}")
        self.rotate(self.prefix)

    def newest_set(self):
        numbers = self.numbered(self.prefix)
        return self.set_of(numbers[-1]) if numbers else None


class Unfinished(Directory):
    """NeMo: a marker that is there while the rest is not."""

    name = "unfinished"
    prefix = "iter_"
    files = ("weights.distcp", "context.yaml")

    def save(self):
        marker = self.dir / f"{self.prefix}{self.n}-unfinished"
        self.write(marker, b"")
        self.fill(self.dir / f"{self.prefix}{self.n}")
        marker.unlink()
        self.rotate(self.prefix)
        for left in self.dir.glob("*-unfinished"):
            left.unlink()

    def plan(self):
        return super().plan() | {"marker": digest_bytes(b"")}

    def newest_set(self):
        numbers = self.numbered(self.prefix)
        marked = numbers and (self.dir / f"{self.prefix}{numbers[-1]}-unfinished").exists()
        return self.set_of(numbers[-1]) if numbers and not marked else None


class NoMarker(Directory):
    """HF Trainer 5: the highest number wins; old ones go when the new one is there."""

    name = "hf_trainer"
    prefix = "checkpoint-"
    files = (
        "config.json",
        "model.safetensors",
        "optimizer.pt",
        "rng_state.pth",
        "trainer_state.json",
    )

    def save(self):
        self.fill(self.dir / f"{self.prefix}{self.n}")
        self.rotate(self.prefix)

    def newest_set(self):
        numbers = self.numbered(self.prefix)
        return self.set_of(numbers[-1]) if numbers else None


class DeleteFirst(NoMarker):
    """accelerate: the oldest goes before the new one comes."""

    name = "accelerate"
    prefix = "checkpoint_"
    files = ("model.safetensors", "optimizer.bin", "random_states_0.pkl")

    def save(self):
        self.rotate(self.prefix, self.keep - 1)
        self.breathe()
        self.fill(self.dir / f"{self.prefix}{self.n}")


class CheckpointText(Style):
    """TensorFlow: a prefix of files, named by a text file that is renamed over."""

    name = "tensorflow"
    files = ("data-00000-of-00001", "index")

    def text(self):
        return f'model_checkpoint_path: "ckpt-{self.n}"\n'.encode()

    def plan(self):
        return super().plan() | {"checkpoint": digest_bytes(self.text())}

    def save(self):
        d, stem = self.dir, f"ckpt-{self.n}"
        temporary = d / f"{stem}_temp"
        temporary.mkdir(exist_ok=True)
        self.write(temporary / "part-00000.tempstate", self.data(self.files[0]))
        os.rename(temporary / "part-00000.tempstate", temporary / "part-00000")
        os.rename(temporary / "part-00000", d / f"{stem}.{self.files[0]}")
        self.write(d / f"{stem}.index", self.data("index"))
        for left in d.glob("*_temp"):
            shutil.rmtree(left)
        self.write(d / "checkpoint.tmp", self.text())
        os.rename(d / "checkpoint.tmp", d / "checkpoint")
        for old in sorted(d.glob("ckpt-*.index"), key=lambda p: int(p.stem[5:]))[: -self.keep]:
            old.unlink()
            old.with_suffix(f".{self.files[0]}").unlink()

    def claims(self):
        try:
            stem = (self.dir / "checkpoint").read_text().split('"')[1]
        except FileNotFoundError:
            return []
        return [{f"{stem}.{name}": name for name in self.files}]


# ---- what is rewritten or only grows ----


class Json(Style):
    """trainer_state.json, rewritten in place."""

    name = "json"
    files = ("trainer_state.json",)

    def save(self):
        self.write(self.dir / "trainer_state.json", self.data("trainer_state.json"))


class Logs(Style):
    """A line a save: one file opened for each, one open all the time."""

    name = "logs"
    files = ()
    held = None

    @staticmethod
    def line(n):
        return json.dumps({"n": n, "loss": "x" * 80}).encode() + b"\n"

    def save(self):
        self.write(self.dir / "metrics.jsonl", self.line(self.n), os.O_CREAT | os.O_APPEND)
        if self.held is None:
            self.held = open(self.dir / "events.out.tfevents.1", "ab", buffering=0)
        self.held.write(self.line(self.n))

    def torn_allowed(self, path):
        """Whole lines in their order; some may be missing where a machine was lost."""
        lines = path.read_bytes().splitlines(keepends=True)
        numbers = [json.loads(line)["n"] for line in lines]
        return lines == [self.line(n) for n in numbers] and numbers == sorted(set(numbers))


STYLES = [
    RenameOver,
    InPlace,
    Safetensors,
    UnlinkThenLink,
    SymlinkRenamed,
    SymlinkReplaced,
    TwoInPlace,
    CopyLast,
    LatestInPlace,
    DirectoryRenamed,
    MetadataLast,
    IndexLast,
    Unfinished,
    NoMarker,
    DeleteFirst,
    CheckpointText,
    Json,
    Logs,
]


# ---- the writer ----


def write(root, ledger, seconds, rounds, rng):
    """Every style in turn, with a rest after each round; SIGTERM ends it after a round."""
    styles = [style(root, ledger, rng) for style in STYLES]
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    end = time.monotonic() + seconds
    while time.monotonic() < end and rounds > 0 and not ended:
        rng.shuffle(styles)
        for style in styles:
            style.step()
        print(f"round of {len(styles)}", flush=True)
        rounds -= 1
        time.sleep(rng.uniform(0.3, 0.8))  # trains


# ---- the judge ----


class Judge:
    def __init__(self, root, ledger):
        self.root = root
        self.ledger = ledger
        self.faults = []

    def set_is_whole(self, style, wanted, what):
        """All of `wanted` as one save planned it."""
        seen = {
            name: digest(style.dir / path)
            for path, name in wanted.items()
            if (style.dir / path).exists()
        }
        for plan in self.ledger.plans(style.name):
            if all(plan["tree"].get(name) == seen.get(name) for name in wanted.values()):
                return
        self.faults.append(
            f"{style.name}: {what} {sorted(wanted)} are not of one save (there: {sorted(seen)})"
        )

    def order(self, style):
        for wanted in style.claims():
            if any(
                (style.dir / path).exists() or len(wanted) > 1 for path in wanted
            ) or style.name.startswith("symlink"):
                self.set_is_whole(style, wanted, "its marker is there, but")

    def atomic(self, style):
        self.order(style)
        for path in style.torn(tree_of(style.dir)):
            size = os.stat(style.dir / path).st_size
            self.faults.append(
                f"{style.name}: {path} ({size} bytes) is no version that was ever whole"
            )
        newest = style.newest_set()
        if newest:
            self.set_is_whole(style, newest, "the newest set,")

    def quiet(self, style):
        self.atomic(style)
        try:
            self.ledger.judge(style.dir, of=style.name, empty=True)
        except AssertionError as e:
            self.faults.append(str(e))

    def judge(self, level):
        """[what is wrong]"""
        for style in STYLES:
            judged = style(self.root, self.ledger)
            if judged.dir.exists():
                getattr(self, level)(judged)
        return self.faults


def check(root, ledger, level):
    """What is wrong with `root`, as a list of sentences."""
    return Judge(root, ledger).judge(level)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=["write", "check"])
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("ledger", type=pathlib.Path)
    parser.add_argument("--secs", type=float, default=1e9)
    parser.add_argument("--rounds", type=int, default=1 << 30)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--level", choices=["order", "atomic", "quiet"], default="order")
    a = parser.parse_args()
    if a.command == "write":
        print(f"seed {a.seed}", flush=True)
        write(a.dir, Ledger(a.ledger), a.secs, a.rounds, random.Random(a.seed))
        return 0
    faults = check(a.dir, Ledger(a.ledger), a.level)
    print("\n".join(faults) or f"{a.level}: all as it should be")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
