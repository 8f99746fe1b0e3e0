#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The frameworks that test_modern.py saves with, one environment for each modern-NAME.txt:
#	modern_install.sh DIRECTORY
# 8 GB of disk, and nearly half of that to load; what is there already is left alone.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)

for pins in "$here"/modern-*.txt; do
	name=$(basename "$pins" .txt)
	venv=$1/${name#modern-}
	cmp -s "$pins" "$venv/pins.txt" && continue
	echo "==> making $venv"
	rm -rf "$venv"
	/usr/bin/python3 -m venv "$venv"
	"$venv/bin/pip" -q install --no-cache-dir --no-deps --use-pep517 -r "$pins"
	cp "$pins" "$venv/pins.txt"
done
