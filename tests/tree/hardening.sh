#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What configure asked for has reached the program: PIE, RELRO, BIND_NOW, no executable stack,
# stack protector, and checked libc calls where the build optimises.
set -u
holdfast=$top_builddir/holdfast
failed=0

if [ "$HARDENING" != yes ]; then
	echo "skipped: built with --disable-hardening"
	exit 77
fi
if [ -z "$READELF" ]; then
	echo "skipped: readelf is missing"
	exit 77
fi

# has WHAT READELF-FLAG PATTERN
has()
{
	if ! "$READELF" -W "$2" "$holdfast" | grep -Eq -- "$3"; then
		echo "holdfast: no $1 (readelf $2 shows no /$3/)"
		failed=1
	fi
}

has 'position-independent code' -h 'Type: +DYN'
has RELRO -l 'GNU_RELRO'
has BIND_NOW -d 'BIND_NOW|FLAGS_1.*NOW'
has 'stack without execution' -l 'GNU_STACK.* RW '
has 'stack protector' --dyn-syms '__stack_chk_fail'
[ "$FORTIFY" = yes ] && has '_FORTIFY_SOURCE' --dyn-syms '__[a-z]+_chk(@|$)'

exit $failed
