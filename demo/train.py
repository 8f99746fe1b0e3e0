#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small training run: a network of two layers learns a function, with Adam, in numpy.

    train.py DIRECTORY [--steps N] [--save-every N] [--keep N] [--pace SECONDS]

It saves into DIRECTORY every few steps, and continues from the newest checkpoint there, as any
training program does.  It knows nothing of what file system that is.
"""

import argparse
import pathlib
import shutil
import time

import numpy as np

WIDTH = 4000


def parameters():
    """How a run begins: the weights, and Adam's two moments of each."""
    rng = np.random.default_rng(7)
    sizes = {"w1": (WIDTH, 16), "b1": (WIDTH, 1), "w2": (1, WIDTH), "b2": (1, 1)}
    state = {}
    for name, size in sizes.items():
        state[name] = rng.normal(0, 1 / np.sqrt(size[1]), size)
        state[f"m.{name}"] = np.zeros(size)
        state[f"v.{name}"] = np.zeros(size)
    return state


def batch(step):
    """The same for the same step, so that a run that continues sees what it would have seen."""
    rng = np.random.default_rng(step)
    x = rng.normal(size=(16, 64))
    return x, np.sin(x.sum(axis=0, keepdims=True))


def gradients(state, x, y):
    h = np.tanh(state["w1"] @ x + state["b1"])
    error = state["w2"] @ h + state["b2"] - y
    back = (state["w2"].T @ error) * (1 - h * h)
    n = x.shape[1]
    return float((error**2).mean()), {
        "w1": back @ x.T / n,
        "b1": back.mean(axis=1, keepdims=True),
        "w2": error @ h.T / n,
        "b2": error.mean(axis=1, keepdims=True),
    }


def adam(state, gradient, step):
    for name, g in gradient.items():
        m = state[f"m.{name}"] = 0.9 * state[f"m.{name}"] + 0.1 * g
        v = state[f"v.{name}"] = 0.999 * state[f"v.{name}"] + 0.001 * g * g
        state[name] -= 0.003 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)


# ---- checkpoints ----


def checkpoints(directory):
    """Steps of which there is a checkpoint, oldest first."""
    return sorted(int(p.name.split("-")[1]) for p in directory.glob("step-*"))


def save(directory, state, step, keep):
    """A directory a checkpoint and a file a tensor; no temporary name, no marker, no fsync."""
    target = directory / f"step-{step}"
    target.mkdir(exist_ok=True)
    for name, tensor in state.items():
        np.save(target / f"{name}.npy", tensor)
    for old in checkpoints(directory)[:-keep]:
        shutil.rmtree(directory / f"step-{old}")


def load(directory):
    """The newest checkpoint's state and step, or how a run begins."""
    state, steps = parameters(), checkpoints(directory)
    if not steps:
        return state, 0
    for name in state:
        state[name] = np.load(directory / f"step-{steps[-1]}" / f"{name}.npy")
    return state, steps[-1]


# ---- the run ----


def train(a):
    state, step = load(a.directory)
    print(f"step {step}: begins", flush=True)
    while step < a.steps:
        step += 1
        loss, gradient = gradients(state, *batch(step))
        adam(state, gradient, step)
        time.sleep(a.pace)
        if step % a.save_every == 0:
            save(a.directory, state, step, a.keep)
            print(f"step {step}: saved, loss {loss:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--keep", type=int, default=2, help="checkpoints")
    parser.add_argument("--pace", type=float, default=0, help="seconds that a step takes at least")
    a = parser.parse_args()
    a.directory.mkdir(parents=True, exist_ok=True)
    train(a)


if __name__ == "__main__":
    main()
