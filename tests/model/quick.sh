#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The models on short logs, in `make check`; `make check-long` runs them at length.
exec "$(dirname "$0")/run" --quick
