#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pytest with what the tests find by environment: tests/pytest.sh BUILD-DIRECTORY [PYTEST-ARGUMENT]...
#	HOLDFAST	the program under test
#	VERSITYGW	the S3 server
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
HOLDFAST=$(cd "$1" && pwd)/holdfast
shift

python=$top/.venv/bin/python
[ -x "$python" ] || python=python3
if [ -x "$top/.tools/bin/versitygw" ]; then
	PATH=$top/.tools/bin:$PATH
	VERSITYGW=$top/.tools/bin/versitygw
	export VERSITYGW
fi
export HOLDFAST PATH

# Two OpenMP threads beside a busy machine make torch many times slower.
OMP_NUM_THREADS=1 exec "$python" -m pytest -c "$top/tests/pytest.ini" --rootdir "$top/tests" -q -rfEs "$@"
