#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ignite's Checkpoint handler with its DiskSaver."""

import functools

import torch
from ignite.engine import Engine
from ignite.handlers import Checkpoint, DiskSaver
from saving import Saver, main, newest


class Ignite(Saver):
    """A temporary name, renamed; of two the older goes before the new one is written."""

    name = "ignite"

    def make(self, n):
        return {name: torch.from_numpy(array) for name, array in self.arrays(n).items()}

    def seen(self, state):
        return {name: tensor.numpy() for name, tensor in state.items()}

    def state_dict(self):  # the handler asks this of what it saves
        return self.state

    @functools.cached_property
    def handler(self):
        return Checkpoint(
            {"state": self},
            DiskSaver(str(self.directory), require_empty=False),
            n_saved=2,
            global_step_transform=lambda *_: self.n,
        )

    def save(self, directory, n, state):
        self.directory, self.n, self.state = directory, n, state
        self.handler(Engine(lambda *_: None))

    def load(self, directory):
        path = newest(directory, "state_*.pt")
        return torch.load(path) if path else None


if __name__ == "__main__":
    torch.set_num_threads(1)
    main([Ignite])
