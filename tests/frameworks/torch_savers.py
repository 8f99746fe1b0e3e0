#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.save() in the ways that training code uses it, and safetensors."""

import os

import safetensors.torch
import torch
from saving import Saver, main, newest, number


class Torch(Saver):
    def make(self, n):
        return {name: torch.from_numpy(array) for name, array in self.arrays(n).items()}

    def seen(self, state):
        return {name: tensor.numpy() for name, tensor in state.items()}

    def load(self, directory):
        path = directory / "last.pt"
        return torch.load(path) if path.exists() else None


class Zip(Torch):
    """The naive loop: last.pt in place."""

    name = "zip"

    def save(self, directory, n, state):
        torch.save(state, directory / "last.pt")


class Legacy(Torch):
    """The format before zip: many small writes, in place."""

    name = "legacy"

    def save(self, directory, n, state):
        torch.save(state, directory / "last.pt", _use_new_zipfile_serialization=False)


class Renamed(Torch):
    """A file object, fsync, and a rename over the last one."""

    name = "renamed"

    def save(self, directory, n, state):
        with open(directory / "last.pt.tmp", "wb") as f:
            torch.save(state, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(directory / "last.pt.tmp", directory / "last.pt")


class Links(Torch):
    """As timm: `last` is unlinked, renamed anew and linked to checkpoint-N; three are kept."""

    name = "links"

    def save(self, directory, n, state):
        last = directory / "last.pth.tar"
        torch.save(state, directory / "tmp.pth.tar")
        last.unlink(missing_ok=True)
        os.rename(directory / "tmp.pth.tar", last)
        target = directory / f"checkpoint-{n}.pth.tar"
        target.unlink(missing_ok=True)
        os.link(last, target)
        for old in sorted(directory.glob("checkpoint-*"), key=number)[:-3]:
            old.unlink()

    def load(self, directory):
        path = directory / "last.pth.tar"
        path = path if path.exists() else newest(directory, "checkpoint-*")
        return torch.load(path) if path else None


class Symlink(Torch):
    """As Lightning: a file an epoch, and a symbolic link last.ckpt to the only one kept."""

    name = "symlink"

    def save(self, directory, n, state):
        target = directory / f"epoch={n}-step={n * 10}.ckpt"
        last = directory / "last.ckpt"
        torch.save(state, target)
        last.unlink(missing_ok=True)
        last.symlink_to(target.name)
        for old in directory.glob("epoch=*"):
            if old != target:
                old.unlink()

    def load(self, directory):
        path = directory / "last.ckpt"
        path = path if path.exists() else newest(directory, "epoch=*")
        return torch.load(path) if path else None


class Safetensors(Torch):
    """Its own temporary name, renamed over the file before it is closed."""

    name = "safetensors"

    def save(self, directory, n, state):
        safetensors.torch.save_file(state, directory / "model.safetensors")

    def load(self, directory):
        path = directory / "model.safetensors"
        return safetensors.torch.load_file(path) if path.exists() else None


if __name__ == "__main__":
    torch.set_num_threads(1)
    main([Zip, Legacy, Renamed, Links, Symlink, Safetensors])
