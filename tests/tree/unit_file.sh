#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# systemd understands every line of holdfast@.service, for a directory with odd letters in its name too.
set -u
if ! command -v systemd-analyze >/dev/null; then
	echo 'skipped: systemd-analyze is missing'
	exit 77
fi
units=$(mktemp -d) || exit 1
trap 'rm -rf "$units"' EXIT

sed "s|@bindir@|$top_builddir|" "$top_srcdir/tools/systemd/holdfast@.service.in" >"$units/holdfast@.service"
for instance in opt-ml-checkpoints 'mnt-run\x2d7\x20of\x20mine'; do
	ln -s 'holdfast@.service' "$units/holdfast@$instance.service"
	said=$(systemd-analyze verify --man=no "$units/holdfast@$instance.service" 2>&1) && [ -z "$said" ] && continue
	echo "holdfast@$instance.service: $said"
	exit 1
done
