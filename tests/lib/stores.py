# SPDX-License-Identifier: Apache-2.0
"""Stores to mount: a directory, or a bucket of an S3 server that runs for the tests."""

import os
import pathlib
import subprocess
import sys
import tempfile

import with_s3

# Held in the environment of what talks to the store, and nowhere else.
NEUTRAL = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "no_proxy": "127.0.0.1,localhost",
}


class FileStore:
    """file://, the store that needs no server."""

    kind = "file"

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.uri = f"file://{self.root}"
        self.env = dict(NEUTRAL)

    def objects(self):
        """Every object's key, with its size."""
        return {
            str(path.relative_to(self.root)): path.stat().st_size
            for path in self.root.rglob("*")
            if path.is_file()
        }

    def path_of(self, key):
        """Where the object lies, to be damaged or removed."""
        return self.root / key


class S3Store:
    """A prefix of the server's bucket; `endpoint` may be a proxy's."""

    kind = "s3"

    def __init__(self, server, prefix, endpoint=None):
        self.server = server
        self.prefix = prefix
        self.root = server.bucket / prefix
        self.uri = f"s3://{with_s3.BUCKET}/{prefix}"
        self.env = NEUTRAL | {
            "AWS_ENDPOINT_URL_S3": endpoint or server.endpoint,
            "AWS_ACCESS_KEY_ID": with_s3.KEYS["access"],
            "AWS_SECRET_ACCESS_KEY": with_s3.KEYS["secret"],
            "AWS_REGION": "us-east-1",
        }

    def through(self, endpoint):
        """The same store, reached by another way."""
        return S3Store(self.server, self.prefix, endpoint)

    # The server keeps objects as plain files; its own notes begin with a dot.
    objects = FileStore.objects
    path_of = FileStore.path_of


class S3Server:
    """versitygw on a free port over a directory of its own, made in `where`."""

    def __init__(self, program, where=None):
        self.directory = tempfile.TemporaryDirectory(prefix="holdfast-s3-", dir=where)
        self.port = with_s3.free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.bucket = pathlib.Path(self.directory.name, with_s3.BUCKET)
        self.process = with_s3.start(program, self.directory.name, self.port)
        with_s3.wait_for(self.process, self.port)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.directory.cleanup()


def make(store, program):
    """holdfast mkfs; returns the store."""
    done = subprocess.run(
        [program, "mkfs", store.uri],
        env=os.environ | store.env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout.strip(), file=sys.stderr)
    return store
