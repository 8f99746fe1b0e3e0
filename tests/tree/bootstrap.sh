#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ./bootstrap on a machine that has nothing: when it may not, or cannot, install what it needs, its last lines
# say what to do.  The machine is a PATH with stubs for what would change it.
set -u
: "${top_srcdir:?}"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

mkdir "$work/bin" "$work/tree"
cp "$top_srcdir/bootstrap" "$top_srcdir/configure.ac" "$work/tree"
for name in cat cut dirname env grep head mktemp rm sed tail; do
	ln -s "$(command -v "$name")" "$work/bin/$name"
done

# stub NAME BODY
stub()
{
	printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
	chmod +x "$work/bin/$1"
}

stub true 'exit 0'

# says CASE TEXT...: it ends with 1, and each TEXT is said.
says()
{
	case=$1
	shift
	PATH=$work/bin JOBS=1 /bin/sh "$work/tree/bootstrap" build >"$work/out" 2>&1
	[ $? -eq 1 ] || { echo "$case: the exit status is not 1"; failed=1; }
	for text; do
		grep -qF -e "$text" "$work/out" && continue
		echo "$case: '$text' is not said, but:"
		cat "$work/out"
		failed=1
	done
}

stub apt-get 'echo "E: Failed to fetch gcc: no route"; exit 100'
stub id 'echo 1000'
says 'no sudo' 'as root, then ./bootstrap again' 'apt-get install gcc libc6-dev make'

stub sudo 'echo "sudo: you are not in the sudoers file" >&2; exit 1'
says 'no right to sudo' 'not in the sudoers file' 'as root, then ./bootstrap again' 'apt-get install gcc'

stub sudo 'exec "$@"'
says 'no network' 'E: Failed to fetch gcc: no route' 'package server' 'apt-get install gcc libc6-dev make'

rm "$work/bin/apt-get"
stub dnf 'echo "Error: Failed to download metadata"; exit 1'
says 'dnf, no network' 'Error: Failed to download' 'dnf install gcc make' 'fuse3-devel'

rm "$work/bin/dnf"
says 'neither' 'neither apt-get nor dnf'

exit $failed
