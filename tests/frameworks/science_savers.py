#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boosted trees, HDF5, numpy and joblib files, all written in place under their final names."""

import h5py
import joblib
import lightgbm
import numpy as np
import xgboost
from saving import Saver, main

ROWS = np.random.default_rng(1).normal(size=(300, 8))


def target(n):
    return ROWS @ np.random.default_rng(n).normal(size=8)


class XGBoost(Saver):
    name = "xgboost"

    def make(self, n):
        return xgboost.train(
            {"nthread": 1, "max_depth": 4},
            xgboost.DMatrix(ROWS, target(n), nthread=1),
            num_boost_round=10 + n % 5,
        )

    def seen(self, state):
        return {"predictions": state.predict(xgboost.DMatrix(ROWS, nthread=1))}

    def save(self, directory, n, state):
        state.save_model(directory / "model.json")

    def load(self, directory):
        path = directory / "model.json"
        return xgboost.Booster({"nthread": 1}, model_file=path) if path.exists() else None


class LightGBM(Saver):
    """It closes the model and opens it again at once, to append."""

    name = "lightgbm"

    def make(self, n):
        parameters = {"num_threads": 1, "verbose": -1, "min_data_in_leaf": 5}
        return lightgbm.train(
            parameters, lightgbm.Dataset(ROWS, target(n)), num_boost_round=10 + n % 5
        )

    def seen(self, state):
        return {"predictions": state.predict(ROWS, num_threads=1)}

    def save(self, directory, n, state):
        state.save_model(directory / "model.txt")

    def load(self, directory):
        path = directory / "model.txt"
        return lightgbm.Booster(model_file=path) if path.exists() else None


class HDF5(Saver):
    """Its superblock, at the beginning, is written last; locks are left on."""

    name = "hdf5"

    def save(self, directory, n, state):
        with h5py.File(directory / "weights.h5", "w") as f:
            for name, array in state.items():
                f.create_dataset(name, data=array, chunks=True)

    def load(self, directory):
        path = directory / "weights.h5"
        if not path.exists():
            return None
        with h5py.File(path, "r") as f:
            return {name: data[()] for name, data in f.items()}


class Npz(Saver):
    """A zip whose headers are patched by seeking back."""

    name = "npz"

    def save(self, directory, n, state):
        np.savez(directory / "state.npz", **state)

    def load(self, directory):
        path = directory / "state.npz"
        if not path.exists():
            return None
        with np.load(path) as f:
            return dict(f)


class Joblib(Saver):
    """A pickle with the arrays inside."""

    name = "joblib"

    def save(self, directory, n, state):
        joblib.dump(state, directory / "state.joblib")

    def load(self, directory):
        path = directory / "state.joblib"
        return joblib.load(path) if path.exists() else None


if __name__ == "__main__":
    main([XGBoost, LightGBM, HDF5, Npz, Joblib])
