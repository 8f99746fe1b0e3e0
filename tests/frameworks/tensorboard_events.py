#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A SummaryWriter that logs a scalar and flushes it, again and again: open, append, close.

    tensorboard_events.py DIRECTORY LEDGER --events N --pace SECONDS

The ledger, off the mount, gets a line for each event when it has been written.
"""

import argparse
import time

from torch.utils.tensorboard import SummaryWriter


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("directory")
    parser.add_argument("ledger")
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--pace", type=float, required=True)
    a = parser.parse_args()
    with SummaryWriter(a.directory) as writer, open(a.ledger, "a", buffering=1) as ledger:
        for n in range(a.events):
            writer.add_scalar("loss", 1 / (n + 1), n)
            writer.flush()
            ledger.write(f"{n}\n")
            time.sleep(a.pace)


if __name__ == "__main__":
    main()
