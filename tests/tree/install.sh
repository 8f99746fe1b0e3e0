#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `make install` with DESTDIR: the program, the helpers of mount(8), the unit, the manual; uninstall leaves nothing.
set -u
dest=$(mktemp -d) || exit 1
trap 'rm -rf "$dest"' EXIT
failed=0

miss()
{
	echo "$1"
	failed=1
}

# MAKEFLAGS of the make that runs us would hand down its job server.
unset MAKEFLAGS MAKELEVEL
make -s -C "$top_builddir" install DESTDIR="$dest" prefix=/usr >/dev/null ||
	{ echo 'make install failed'; exit 1; }
[ -x "$dest/usr/bin/holdfast" ] || miss 'no program in bin'
for helper in mount.holdfast mount.fuse.holdfast umount.holdfast umount.fuse.holdfast; do
	[ "$(readlink "$dest/usr/sbin/$helper")" = /usr/bin/holdfast ] ||
		miss "$helper in sbin is not a link to /usr/bin/holdfast"
done
[ -f "$dest/usr/share/man/man1/holdfast.1" ] || miss 'no holdfast(1)'
grep -q '^ExecStart=/.*/bin/holdfast mount' "$dest/usr/lib/systemd/system/holdfast@.service" ||
	miss 'no unit that starts the program'

# Under its other name the program is the helper: it wants a URI and a directory.
ln -s "$dest/usr/bin/holdfast" "$dest/mount.holdfast"
"$dest/mount.holdfast" file:///only 2>"$dest/err"
[ $? -eq 1 ] && grep -q '^mount.holdfast: wanted: URI DIR' "$dest/err" ||
	miss "mount.holdfast without a directory: $(cat "$dest/err")"

make -s -C "$top_builddir" uninstall DESTDIR="$dest" prefix=/usr >/dev/null ||
	miss 'make uninstall failed'
left=$(find "$dest/usr" ! -type d)
[ -z "$left" ] || miss "uninstall leaves: $left"

exit $failed
