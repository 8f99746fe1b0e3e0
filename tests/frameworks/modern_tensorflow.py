#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's CheckpointManager, and Keras: whole models, weights, and its backup of a run."""

import os

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}

import functools  # noqa: E402

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from saving import Looped, Saver, main  # noqa: E402

NAMES = ("weight", "bias", "moment")


class Manager(Saver):
    """Data, then index, then the file `checkpoint`, each by a temporary name; two are kept."""

    name = "tensorflow"

    def arrays(self, n):  # a variable keeps its shape
        return {name: array[: self.rows] for name, array in super().arrays(n).items()}

    @functools.cached_property
    def variables(self):
        return {name: tf.Variable(array) for name, array in self.arrays(0).items()}

    @functools.cached_property
    def manager(self):
        checkpoint = tf.train.Checkpoint(**self.variables)
        return tf.train.CheckpointManager(checkpoint, str(self.directory), max_to_keep=2)

    def save(self, directory, n, state):
        self.directory = directory
        for name, array in state.items():
            self.variables[name].assign(array)
        self.manager.save(checkpoint_number=n)

    def load(self, directory):
        path = tf.train.latest_checkpoint(str(directory))
        if not path:
            return None
        reader = tf.train.load_checkpoint(path)
        return {name: reader.get_tensor(f"{name}/.ATTRIBUTES/VARIABLE_VALUE") for name in NAMES}


def model_of(rows):
    return keras.Sequential([keras.Input((500,)), keras.layers.Dense(2 * rows, name="layer")])


class Keras(Saver):
    def make(self, n):
        model = model_of(self.rows)
        rng = np.random.default_rng(n)
        model.set_weights([rng.random(w.shape, "f4") for w in model.get_weights()])
        return model

    def seen(self, state):
        return {str(i): array for i, array in enumerate(state.get_weights())}


class Whole(Keras):
    """A .keras file: a zip whose headers are patched by seeking back, in place."""

    name = "keras"

    def save(self, directory, n, state):
        state.save(directory / "model.keras")

    def load(self, directory):
        path = directory / "model.keras"
        return keras.models.load_model(path) if path.exists() else None


class Weights(Keras):
    """HDF5, in place."""

    name = "keras-weights"

    def save(self, directory, n, state):
        state.save_weights(directory / "model.weights.h5")

    def load(self, directory):
        path = directory / "model.weights.h5"
        return loaded(path) if path.exists() else None


def loaded(path):
    """Weights, in a model of the size that they have."""
    import h5py

    with h5py.File(path) as f:
        rows = f["layers/dense/vars/0"].shape[1] // 2
    model = model_of(rows)
    model.load_weights(path)
    return model


class Backup(Looped, Keras):
    """BackupAndRestore: latest.weights.h5 and then training_metadata.json, both in place."""

    name = "keras-backup"

    def run(self, directory, loop):
        class Callback(keras.callbacks.BackupAndRestore):
            def on_train_begin(inner, logs=None):
                super().on_train_begin(logs)
                loop.begins(self.seen(inner.model))

            def on_epoch_end(inner, epoch, logs=None):
                save = functools.partial(super().on_epoch_end, epoch, logs)
                loop.save(self.seen(inner.model), save)

        model = model_of(self.rows)
        model.compile("sgd", "mse")
        model.fit(
            np.ones((4, 500), "f4"), np.zeros((4, 2 * self.rows), "f4"), batch_size=4,
            epochs=1_000_000, verbose=0, callbacks=[Callback(str(directory))],
        )  # fmt: skip

    def load(self, directory):
        path = directory / "latest.weights.h5"
        whole = path.exists() and (directory / "training_metadata.json").exists()
        return loaded(path) if whole else None


if __name__ == "__main__":
    main([Manager, Whole, Weights, Backup])
