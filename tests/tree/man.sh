#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The pages are clean mdoc, and name every verb, mount option and status key that there is, and no other.
set -u
failed=0

# section PAGE FROM TO MACRO: the first words of the items between two headings.
section()
{
	sed -n "/^\.Sh $2/,/^\.Sh $3/s/^\.It $4 \([a-z_]*\).*/\1/p" "$top_srcdir/man/$1" | sort
}

# same WHAT LISTED PAGED
same()
{
	[ "$2" = "$3" ] && return 0
	echo "$1 that there are:" $2
	echo "$1 on the page:" $3
	failed=1
}

same verbs "$("$top_builddir/holdfast" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | sort)" \
	"$(section holdfast.1 COMMANDS EXIT Cm)"
same 'mount options' \
	"$("$top_builddir/holdfast" mount --help | sed -n 's/^  -o \([a-z_]*\).*/\1/p' | sort)" \
	"$(section holdfast-mount.8 'MOUNT OPTIONS' 'THE GOOD MOMENT' Cm)"
same 'status keys' \
	"$(sed -n 's/.*json_object_set_new(j, "\([a-z_]*\)".*/\1/p' "$top_srcdir/fs/status.c" | sort)" \
	"$(section holdfast-mount.8 STATUS METRICS Li)"
same metrics \
	"$(sed -n 's/.*ROW("\([a-z_]*\)".*/holdfast_\1/p; s/.*"\(holdfast_[a-z_]*\)[{"].*/\1/p' "$top_srcdir/fs/metrics.c" |
		grep -v '_$' | sort -u)" \
	"$(section holdfast-mount.8 METRICS ENDING Li)"

if [ -z "$MANDOC" ]; then
	echo 'skipped: mandoc is missing'
	[ $failed -eq 0 ] && exit 77
	exit 1
fi
for page in "$top_srcdir"/man/*.[158]; do
	"$MANDOC" -T lint -W warning "$page" || failed=1
done

exit $failed
