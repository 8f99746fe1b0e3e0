#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A PyTorch run as users write it: it saves every few steps and continues from what it finds.

    torch_train.py DIRECTORY --steps N [--layout last|rename|directories] [--pace SECONDS]

  last          torch.save() over last.pt, in place
  rename        torch.save() to a temporary name, then renamed over last.pt
  directories   step-N/ with model and optimizer, two are kept; `latest` names the newest, in place
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import time

import torch

SAVE_EVERY = 5


def make():
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(512, 64)
    )
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def learn(model, optimizer, step):
    """Everything random hangs on the step, so that a continued run does what it would have done."""
    torch.manual_seed(step)
    x = torch.randn(32, 64)
    loss = (model(x) - x.flip(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def digest(state):
    whole = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        whole.update(name.encode() + tensor.numpy().tobytes())
    return whole.hexdigest()


# ---- layouts ----


def save_last(directory, state):
    torch.save(state, directory / "last.pt")


def save_renamed(directory, state):
    torch.save(state, directory / "last.pt.tmp")
    os.replace(directory / "last.pt.tmp", directory / "last.pt")


def load_last(directory):
    path = directory / "last.pt"
    return torch.load(path) if path.exists() else None


def save_directory(directory, state):
    target = directory / f"step-{state['step']}"
    target.mkdir(exist_ok=True)
    torch.save(state["model"], target / "model.pt")
    torch.save({"optimizer": state["optimizer"], "step": state["step"]}, target / "optimizer.pt")
    (directory / "latest").write_text(target.name)
    there = sorted(directory.glob("step-*"), key=lambda path: int(path.name.split("-")[1]))
    for old in there[:-2]:
        shutil.rmtree(old)


def load_directory(directory):
    latest = directory / "latest"
    if not latest.exists():
        return None
    source = directory / latest.read_text()
    return torch.load(source / "optimizer.pt") | {"model": torch.load(source / "model.pt")}


LAYOUTS = {
    "last": (save_last, load_last),
    "rename": (save_renamed, load_last),
    "directories": (save_directory, load_directory),
}


# ---- the run ----


def train(a):
    save, load = LAYOUTS[a.layout]
    model, optimizer = make()
    step = 0
    found = load(a.directory)
    if found:
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        step = found["step"]
    print(f"begins {step} {digest(model.state_dict())}", flush=True)
    while step < a.steps:
        step += 1
        learn(model, optimizer, step)
        time.sleep(a.pace)
        if step % SAVE_EVERY == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            save(a.directory, state)
            print(f"saved {step} {digest(model.state_dict())}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--layout", choices=LAYOUTS, default="last")
    parser.add_argument("--pace", type=float, default=0, help="seconds that a step takes at least")
    torch.set_num_threads(1)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
