#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face Trainer run as its documentation has it: it rotates, and resumes from the newest.

    hf_trainer.py DIRECTORY --steps N [--pace SECONDS]
"""

import argparse
import hashlib
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        tokens = torch.arange(index, index + 16) % 64
        return {"input_ids": tokens, "labels": tokens}


def digest(model):
    whole = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        whole.update(name.encode() + tensor.numpy().tobytes())
    return whole.hexdigest()


class Said(TrainerCallback):
    """What happens, for who reads the output; and no step is shorter than `pace`."""

    def __init__(self, pace):
        self.pace = pace

    def on_train_begin(self, args, state, control, model=None, **_):
        print(f"begins {state.global_step} {digest(model)}", flush=True)

    def on_step_end(self, args, state, control, **_):
        time.sleep(self.pace)

    def on_save(self, args, state, control, model=None, **_):
        print(f"saved {state.global_step} {digest(model)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("directory")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--pace", type=float, default=0)
    a = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=64, n_positions=16, n_embd=64, n_layer=2, n_head=2)
    )
    arguments = TrainingArguments(
        a.directory, max_steps=a.steps, save_steps=5, save_total_limit=2, seed=1,
        per_device_train_batch_size=4, use_cpu=True, report_to=[], disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=Tokens(), callbacks=[Said(a.pace)])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(a.directory))


if __name__ == "__main__":
    main()
