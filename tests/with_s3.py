#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a unit test beside an S3 server of its own: with_s3.py COMMAND [ARGUMENT]...

The test finds the server by HOLDFAST_TEST_S3, a store URI, and the usual AWS variables.  Where
there is no versitygw (VERSITYGW, or in PATH) the test runs without one, and skips.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

BUCKET = "units"
KEYS = {"access": "units", "secret": "units-secret"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(server, port, seconds=30):
    """Until it accepts connections."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"{server.args[0]} does not serve on port {port}")


def start(program, root, port):
    os.mkdir(os.path.join(root, BUCKET))
    environment = os.environ | {
        "ROOT_ACCESS_KEY": KEYS["access"],
        "ROOT_SECRET_KEY": KEYS["secret"],
    }
    command = [program, "--port", f"127.0.0.1:{port}", "--keep-alive", "-q", "posix", root]
    return subprocess.Popen(command, env=environment, stdout=sys.stderr, stdin=subprocess.DEVNULL)


def run_beside(command, port):
    environment = os.environ | {
        "HOLDFAST_TEST_S3": f"s3://{BUCKET}/test",
        "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": KEYS["access"],
        "AWS_SECRET_ACCESS_KEY": KEYS["secret"],
        "AWS_REGION": "us-east-1",
    }
    return subprocess.call(command, env=environment)


def main():
    command = sys.argv[1:]
    program = os.environ.get("VERSITYGW") or shutil.which("versitygw")
    if not program:
        os.execvp(command[0], command)
    with tempfile.TemporaryDirectory(prefix="holdfast-s3-") as root:
        port = free_port()
        server = start(program, root, port)
        try:
            wait_for(server, port)
            return run_beside(command, port)
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    sys.exit(main())
