#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A PyTorch run as users write it: it saves every few steps and continues from what it finds.

    torch_run.py DIRECTORY --steps N [--layout last|directories] [--pace SECONDS]

  last          torch.save() over one file, in place
  directories   step-N/ with model and optimizer, the highest N wins, two are kept
"""

import argparse
import hashlib
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


def weights_digest(state):
    whole = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        whole.update(name.encode() + tensor.numpy().tobytes())
    return whole.hexdigest()


# ---- layouts ----


def save_last(directory, model, optimizer, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, directory / "last.pt")


def load_last(directory):
    path = directory / "last.pt"
    return torch.load(path) if path.exists() else None


def numbers(directory):
    return sorted(int(p.name.split("-")[1]) for p in directory.glob("step-*"))


def save_directory(directory, model, optimizer, step):
    target = directory / f"step-{step}"
    target.mkdir(exist_ok=True)
    torch.save(model.state_dict(), target / "model.pt")
    torch.save({"optimizer": optimizer.state_dict(), "step": step}, target / "optimizer.pt")
    for old in numbers(directory)[:-2]:
        shutil.rmtree(directory / f"step-{old}")


def load_directory(directory):
    found = numbers(directory)
    if not found:
        return None
    source = directory / f"step-{found[-1]}"
    return torch.load(source / "optimizer.pt") | {"model": torch.load(source / "model.pt")}


LAYOUTS = {"last": (save_last, load_last), "directories": (save_directory, load_directory)}


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
    print(f"begins {step} {weights_digest(model.state_dict())}", flush=True)
    while step < a.steps:
        step += 1
        learn(model, optimizer, step)
        time.sleep(a.pace)
        if step % SAVE_EVERY == 0:
            save(a.directory, model, optimizer, step)
            print(f"saved {step} {weights_digest(model.state_dict())}", flush=True)


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
