#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Arrays in many files: zarr and tensorstore, which write the chunks of an array anew in place."""

import tensorstore
import zarr
from saving import Saver, main


class Chunks(Saver):
    """Shapes stay, or old chunks would be left over."""

    def arrays(self, n):
        return {name: array[: self.rows] for name, array in super().arrays(n).items()}

    def chunks(self, array):
        return (100, 500)[-array.ndim :]


class Zarr(Chunks):
    """A file a chunk, each by a temporary name and a rename."""

    name = "zarr"

    def save(self, directory, n, state):
        group = zarr.open_group(str(directory / "state.zarr"), mode="a")
        require = getattr(group, "require_array", None) or group.require_dataset  # zarr 3, zarr 2
        for name, array in state.items():
            chunks = self.chunks(array)
            data = require(name, shape=array.shape, dtype=array.dtype, chunks=chunks)
            data[...] = array

    def load(self, directory):
        path = directory / "state.zarr"
        if not path.exists():
            return None
        group = zarr.open_group(str(path), mode="r")
        return {name: group[name][...] for name in ("weight", "bias", "moment")}


class TensorStore(Chunks):
    """For every chunk a lock file, held by an OFD lock, an fsync, a rename and an fsync more."""

    name = "tensorstore"

    def opened(self, directory, name, **how):
        kvstore = {"driver": "file", "path": f"{directory}/{name}/"}
        return tensorstore.open({"driver": "zarr", "kvstore": kvstore}, **how).result()

    def write(self, directory, state, **how):
        for name, array in state.items():
            store = self.opened(
                directory,
                name,
                open=True,
                create=True,
                dtype=tensorstore.float32,
                shape=array.shape,
                chunk_layout=tensorstore.ChunkLayout(chunk_shape=self.chunks(array)),
                **how,
            )
            store.write(array).result()

    def save(self, directory, n, state):
        self.write(directory, state)

    def load(self, directory):
        if not any(directory.iterdir()):
            return None
        names = ("weight", "bias", "moment")
        return {name: self.opened(directory, name).read().result() for name in names}


class Database(TensorStore):
    """OCDBT, a tree of files that hold many chunks: a transaction, so any moment has a whole one."""

    name = "ocdbt"

    def opened(self, directory, name, **how):
        kvstore = {"driver": "ocdbt", "base": f"file://{directory}/", "path": f"{name}/"}
        return tensorstore.open({"driver": "zarr", "kvstore": kvstore}, **how).result()

    def save(self, directory, n, state):
        transaction = tensorstore.Transaction()
        self.write(directory, state, transaction=transaction)
        transaction.commit_sync()

    def load(self, directory):
        return super().load(directory) if (directory / "manifest.ocdbt").exists() else None


if __name__ == "__main__":
    main([Zarr, TensorStore, Database])
