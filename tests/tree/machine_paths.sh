#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No path of the machine that somebody worked on is in the sources.
set -u
cd "$top_srcdir" || exit 1

found=$(find . \( -name .git -o -name .venv -o -name .tools -o -name 'build*' -o -name autom4te.cache \
	-o -name __pycache__ -o -name .pytest_cache \) -prune -o -type f \
	! -name configure ! -name 'Makefile' ! -name 'Makefile.in' ! -name 'config.*' ! -name '*.log' \
	! -name '*.P*' -exec grep -nIE '(^|[^A-Za-z0-9_.])/(work|root)/|/home/[a-z]' {} +)
[ -z "$found" ] && exit 0
echo "a path of somebody's machine:"
echo "$found"
exit 1
