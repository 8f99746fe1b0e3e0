#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Orbax: a directory per step, complete when it is renamed; written in the background or not."""

import functools
import shutil

import jax
import orbax.checkpoint as ocp
from saving import Saver, main, newest, number


class Orbax(Saver):
    def make(self, n):
        return jax.tree.map(jax.numpy.asarray, self.arrays(n))


class Manager(Orbax):
    """What its documentation has: OCDBT, in the background; two are kept."""

    name = "manager"

    @functools.cached_property
    def manager(self):
        options = ocp.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=True)
        return ocp.CheckpointManager(self.directory, options=options)

    def save(self, directory, n, state):
        self.directory = directory
        assert self.manager.save(n, args=ocp.args.StandardSave(state))

    def finish(self):
        self.manager.wait_until_finished()

    def load(self, directory):
        with ocp.CheckpointManager(directory) as manager:
            step = manager.latest_step()
            return None if step is None else manager.restore(step, args=ocp.args.StandardRestore())


class Files(Orbax):
    """A file per array and no OCDBT, at once; two are kept."""

    name = "files"

    @functools.cached_property
    def checkpointer(self):
        return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False))

    def save(self, directory, n, state):
        self.checkpointer.save(directory / f"step-{n}", state)
        for old in sorted(directory.glob("step-*[0-9]"), key=number)[:-2]:
            shutil.rmtree(old)

    def load(self, directory):
        path = newest(directory, "step-*[0-9]")
        return self.checkpointer.restore(path) if path else None


if __name__ == "__main__":
    main([Manager, Files])
