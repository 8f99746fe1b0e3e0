#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# base <- store <- fs, lifecycle, tools; nothing points the other way and those three never
# include each other.  One door: fs/main.c is the verb `mount`, whose prototype is tools/tools.h's.
set -u
cd "$top_srcdir" || exit 1
failed=0

# may FOLDER ALLOWED: every include of FOLDER with a path is from a folder of the pattern ALLOWED.
may()
{
	[ -d "$1" ] || return 0
	bad=$(find "$1" -name '*.[ch]' -exec grep -HnE '^[ \t]*#[ \t]*include[ \t]*"' {} + |
		grep -vE "\"($2)/[^\"]*\"|\"config\\.h\"" |
		grep -vE '^fs/main\.c:[0-9]+:#include "tools/tools\.h"$')
	[ -z "$bad" ] && return 0
	echo "$1/ may include from $2 only:"
	echo "$bad"
	failed=1
}

may base 'base'
may store 'base|store'
may fs 'base|store|fs'
may lifecycle 'base|store|lifecycle'
may tools 'base|store|tools'

exit $failed
