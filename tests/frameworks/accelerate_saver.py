#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""accelerate's save_state(): the oldest checkpoint goes before the new one is written."""

import pathlib

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
from saving import Saver, main, newest


class SaveState(Saver):
    name = "save_state"

    def accelerator(self, directory):
        project = ProjectConfiguration(
            project_dir=str(directory), automatic_checkpoint_naming=True, total_limit=2
        )
        there = newest(pathlib.Path(directory), "checkpoints/checkpoint_*")
        project.iteration = int(there.name.split("_")[1]) + 1 if there else 0
        return Accelerator(project_config=project, cpu=True)

    def prepared(self, directory, arrays):
        """A model and an optimizer whose moments have been used, of the arrays' size."""
        rows, columns = arrays["weight"].shape
        accelerator = self.accelerator(directory)
        model = torch.nn.Linear(columns, rows)
        optimizer = torch.optim.Adam(model.parameters())
        model, optimizer = accelerator.prepare(model, optimizer)
        return accelerator, model, optimizer

    def arrays(self, n):
        arrays = super().arrays(n)
        return {"weight": arrays["weight"][: self.rows], "moment": arrays["moment"][: self.rows]}

    def save(self, directory, n, state):
        accelerator, model, optimizer = self.prepared(directory, state)
        optimizer.zero_grad()
        model(torch.ones(1, state["weight"].shape[1])).sum().backward()
        optimizer.step()
        with torch.no_grad():
            model.weight.copy_(torch.from_numpy(state["weight"]))
            optimizer.state[model.weight]["exp_avg"].copy_(torch.from_numpy(state["moment"]))
        accelerator.save_state()

    def load(self, directory):
        there = newest(directory, "checkpoints/checkpoint_*")
        if not there:
            return None
        accelerator, model, optimizer = self.prepared(directory, self.arrays(0))
        accelerator.load_state(str(there))
        return {
            "weight": model.weight.detach().numpy(),
            "moment": optimizer.state[model.weight]["exp_avg"].numpy(),
        }


if __name__ == "__main__":
    torch.set_num_threads(1)
    main([SaveState])
