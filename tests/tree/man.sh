#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The pages are clean mdoc, and holdfast(1) names every verb that the program has, and no other.
set -u
failed=0

listed=$("$top_builddir/holdfast" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | sort)
paged=$(sed -n '/^\.Sh COMMANDS/,/^\.Sh EXIT/s/^\.It Cm \([a-z]*\).*/\1/p' \
	"$top_srcdir/man/holdfast.1" | sort)
if [ "$listed" != "$paged" ]; then
	echo "holdfast --help lists:" $listed
	echo "holdfast(1) explains:" $paged
	failed=1
fi

if [ -z "$MANDOC" ]; then
	echo 'skipped: mandoc is missing'
	[ $failed -eq 0 ] && exit 77
	exit 1
fi
for page in "$top_srcdir"/man/*.[158]; do
	"$MANDOC" -T lint -W warning "$page" || failed=1
done

exit $failed
