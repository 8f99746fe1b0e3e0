#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The front of the command line: what is asked of it, and what is wrong with it, in one line.
set -u
holdfast=$top_builddir/holdfast
failed=0

# says STATUS STREAM PATTERN ARGUMENT...: exit status, and a line of that stream that matches.
says()
{
	want=$1 stream=$2 pattern=$3
	shift 3
	err=$("$holdfast" "$@" 2>&1 >/dev/null)
	out=$("$holdfast" "$@" 2>/dev/null)
	got=$?
	eval "text=\$$stream"
	if [ "$got" -ne "$want" ] || ! printf '%s\n' "$text" | grep -q -- "$pattern"; then
		echo "holdfast $*: exit $got, wanted $want and /$pattern/ on std$stream; it said: $text"
		failed=1
	fi
}

# one_line ARGUMENT...: what goes wrong is said in one line, with nothing on stdout.
one_line()
{
	err=$("$holdfast" "$@" 2>&1 >/dev/null)
	out=$("$holdfast" "$@" 2>/dev/null)
	if [ "$(printf '%s\n' "$err" | wc -l)" -ne 1 ] || [ -n "$out" ]; then
		echo "holdfast $*: wanted one line on stderr; stderr: $err; stdout: $out"
		failed=1
	fi
}

says 0 out '^holdfast [0-9]' --version
says 0 out '^usage: holdfast COMMAND' --help
says 0 out '^usage: holdfast COMMAND' help
says 2 err "'frobnicate' is not a command" frobnicate
says 2 err "'frobnicate' is not a command" help frobnicate
says 2 err 'no command'
one_line
one_line frobnicate

for verb in $("$holdfast" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
	says 0 out "^usage: holdfast $verb" help "$verb"
	says 0 out "^usage: holdfast $verb" "$verb" --help
done

exit $failed
