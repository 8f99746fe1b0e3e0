#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What modern torch saves, and what is built on it; one is asked for by --only."""

import contextlib
import functools
import importlib
import multiprocessing
import os
import shutil
import tempfile

import numpy as np
import torch
from saving import Looped, Saver, main, newest, number


def arrays_of(model):
    # a copy: in the background the model trains on
    return {name: t.detach().numpy().copy() for name, t in model.state_dict().items()}


class Torch(Saver):
    def make(self, n):
        return {name: torch.from_numpy(array) for name, array in self.arrays(n).items()}

    def seen(self, state):
        return {name: tensor.numpy() for name, tensor in state.items()}


class Zip(Torch):
    """torch.save() over last.pt; loaded as only weights may be, and by mmap."""

    name = "torch"

    def save(self, directory, n, state):
        torch.save(state, directory / "last.pt")

    def load(self, directory):
        path = directory / "last.pt"
        if not path.exists():
            return None
        read = torch.load(path, weights_only=True)
        mapped = torch.load(path, weights_only=True, mmap=True)
        assert all(torch.equal(mapped[name], read[name]) for name in read)
        return mapped


# ---- torch.distributed.checkpoint ----

RANKS = 4


def shards(arrays, mesh):
    """Each rank's part of them, cut along the rows as FSDP does."""
    from torch.distributed.tensor import DTensor, Shard

    parts = {}
    for name, array in arrays.items():
        part = np.array_split(array, RANKS)[mesh.get_local_rank()]
        parts[name] = DTensor.from_local(
            torch.from_numpy(part), mesh, [Shard(0)], shape=array.shape, stride=array.shape[1:] + (1,)
        )
    return parts


class Rank:
    def __init__(self, rank, meeting):
        torch.set_num_threads(1)
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS
        )
        self.mesh = torch.distributed.init_device_mesh("cpu", (RANKS,))

    def make(self, saver, n):
        self.state = shards(saver.arrays(n), self.mesh)
        torch.distributed.barrier()

    def save(self, path):
        import torch.distributed.checkpoint as dcp

        dcp.save(self.state, checkpoint_id=path)
        torch.distributed.barrier()


def serve_rank(rank, meeting, pipe):
    """A rank but the first: does what the first is told."""
    me = Rank(rank, meeting)
    with contextlib.suppress(EOFError):
        while True:
            verb, *arguments = pipe.recv()
            getattr(me, verb)(*arguments)


class Distributed(Saver):
    """DCP: four ranks write a file each, .metadata comes last; two are kept."""

    name = "dcp"

    def arrays(self, n):  # rows that every rank has as many of
        arrays = super().arrays(n)
        return {name: arrays[name][: self.rows // RANKS * RANKS] for name in ("weight", "moment")}

    @functools.cached_property
    def ranks(self):
        meeting = os.path.join(tempfile.mkdtemp(), "meeting")
        spawn = multiprocessing.get_context("spawn")
        pipes = []
        for rank in range(1, RANKS):
            here, there = spawn.Pipe()
            arguments = (rank, meeting, there)
            spawn.Process(target=serve_rank, args=arguments, daemon=True).start()
            pipes.append(here)
        return pipes, Rank(0, meeting)

    def all_ranks(self, verb, *arguments):
        pipes, first = self.ranks
        for pipe in pipes:
            pipe.send((verb, *arguments))
        getattr(first, verb)(*arguments)

    def make(self, n):
        without_ranks = Distributed()
        without_ranks.rows = self.rows
        self.all_ranks("make", without_ranks, n)
        return self.arrays(n)

    def save(self, directory, n, state):
        self.all_ranks("save", directory / f"step-{n}")
        for old in sorted(directory.glob("step-*"), key=number)[:-2]:
            shutil.rmtree(old)

    def load(self, directory):
        import torch.distributed.checkpoint as dcp

        whole = [mark.parent for mark in directory.glob("step-*/.metadata")]
        if not whole:
            return None
        path = max(whole, key=number)
        metadata = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
        state = {name: torch.empty(there.size) for name, there in metadata.items()}
        dcp.load(state, checkpoint_id=path, no_dist=True)
        return {name: tensor.numpy() for name, tensor in state.items()}


# ---- frameworks with a loop ----


def line(rows):
    """A layer that is a third of the state, with Adam's moments."""
    return torch.nn.Linear(500, max(rows // 3 * 2, 8))


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return torch.full((500,), index % 7 / 7)


class Lightning(Looped):
    """Written in $TMPDIR, then copied in place; last.ckpt is a link, two are kept."""

    name = "lightning"

    def run(self, directory, loop):
        import lightning

        class Module(lightning.LightningModule):
            def __init__(self, rows):
                super().__init__()
                self.layer = line(rows)

            def training_step(self, batch, _):
                self.log("number", float(self.global_step))
                return self.layer(batch).square().mean()

            def configure_optimizers(self):
                return torch.optim.Adam(self.parameters(), lr=1e-3)

            def on_train_start(self):
                loop.begins(arrays_of(self))

        class Checkpoint(lightning.pytorch.callbacks.ModelCheckpoint):
            def on_train_batch_end(self, trainer, module, *rest):
                save = functools.partial(super().on_train_batch_end, trainer, module, *rest)
                loop.save(arrays_of(module), save)

        checkpoint = Checkpoint(
            directory, monitor="number", mode="max", save_top_k=2, save_last="link",
            every_n_train_steps=1,
        )  # fmt: skip
        trainer = lightning.Trainer(
            accelerator="cpu", max_steps=1_000_000, callbacks=[checkpoint], logger=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=directory,
        )  # fmt: skip
        last = directory / "last.ckpt"
        data = torch.utils.data.DataLoader(Numbers(), batch_size=4)
        trainer.fit(Module(self.rows), data, ckpt_path=str(last) if last.exists() else None)

    def load(self, directory):
        path = directory / "last.ckpt"
        path = path if path.exists() else newest(directory, "*.ckpt")
        if not path:
            return None
        state = torch.load(path, weights_only=False)["state_dict"]
        return {name: tensor.numpy() for name, tensor in state.items()}


class Transformers(Looped):
    """The Trainer of Transformers 5: no mark says that a checkpoint is complete; two are kept."""

    name = "transformers"

    def model(self, rows):
        from transformers import GPT2Config, GPT2LMHeadModel

        # 12 * width^2 a layer, and the moments
        width = max(int((rows * 4000 / 12 / 12 / 2) ** 0.5) // 8 * 8, 16)
        return GPT2LMHeadModel(
            GPT2Config(vocab_size=64, n_positions=16, n_embd=width, n_layer=2, n_head=2)
        )

    def run(self, directory, loop):
        import transformers

        class Tokens(torch.utils.data.Dataset):
            def __len__(self):
                return 1_000_000

            def __getitem__(self, index):
                tokens = torch.arange(index, index + 16) % 64
                return {"input_ids": tokens, "labels": tokens}

        class Trainer(transformers.Trainer):
            def _save_checkpoint(self, *arguments, **more):
                save = functools.partial(super()._save_checkpoint, *arguments, **more)
                loop.save(arrays_of(self.model), save)

        class Begins(transformers.TrainerCallback):
            def on_train_begin(self, args, state, control, model=None, **_):
                loop.begins(arrays_of(model))

        arguments = transformers.TrainingArguments(
            str(directory), max_steps=1_000_000, save_steps=1, save_total_limit=2, seed=1,
            per_device_train_batch_size=4, use_cpu=True, report_to=[], disable_tqdm=True,
            ignore_data_skip=True,
        )  # fmt: skip
        trainer = Trainer(self.model(self.rows), arguments, train_dataset=Tokens(), callbacks=[Begins()])
        trainer.train(resume_from_checkpoint=newest(directory, "checkpoint-*") is not None)

    def load(self, directory):
        from transformers import GPT2LMHeadModel

        path = newest(directory, "checkpoint-*")
        return arrays_of(GPT2LMHeadModel.from_pretrained(path)) if path else None

    def seen(self, state):
        return state


class DeepSpeed(Saver):
    """ZeRO 1 on the CPU: a directory a step, `latest` names the newest; two are kept."""

    name = "deepspeed"

    @functools.cached_property
    def engine(self):
        import deepspeed

        # Sums through shared memory, which it would compile for minutes: of no use to one rank.
        importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None
        os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "DS_ACCELERATOR": "cpu"}
        meeting = os.path.join(tempfile.mkdtemp(), "meeting")
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=0, world_size=1
        )
        model = torch.nn.Linear(500, max(self.rows // 2, 8))
        engine, *_ = deepspeed.initialize(
            model=model,
            optimizer=torch.optim.Adam(model.parameters()),
            config={
                "train_batch_size": 1,
                "zero_optimization": {"stage": 1},
                "zero_allow_untested_optimizer": True,
            },
        )
        return engine

    def step(self, n):
        """Makes everything another."""
        self.engine.backward(self.engine(torch.full((1, 500), n % 7 / 7)).square().mean())
        self.engine.step()

    def make(self, n):
        self.step(n)
        return arrays_of(self.engine.module)

    def save(self, directory, n, state):
        self.engine.save_checkpoint(str(directory), tag=f"global_step{n}")
        for old in sorted(directory.glob("global_step*"), key=number)[:-2]:
            shutil.rmtree(old)

    def load(self, directory):
        latest = directory / "latest"
        if not latest.exists():
            return None
        path = directory / latest.read_text() / "mp_rank_00_model_states.pt"
        state = torch.load(path, weights_only=False)["module"]
        self.rows = 2 * state["weight"].shape[0]
        self.engine.load_checkpoint(str(directory))
        loaded = arrays_of(self.engine.module)
        assert all(np.array_equal(loaded[name], state[name].numpy()) for name in state)
        return loaded


if __name__ == "__main__":
    torch.set_num_threads(1)
    main([Zip, Distributed, Lightning, Transformers, DeepSpeed])
