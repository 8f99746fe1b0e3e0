#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What people and launch scripts do with checkpoints: shell_tools.sh DIRECTORY [MIB]
# Ends with a line "PATH SHA256" a file below DIRECTORY/out; the same on any file system.
set -eu
dir=$1
mib=${2:-4}
cd "$dir"
umask 022
mkdir -p in/sub out

# The same bytes each time, and nothing that compresses.
noise()
{
	openssl enc -aes-128-ctr -K 00112233445566778899aabbccddeeff -iv "$2" -nosalt \
		</dev/zero 2>/dev/null | head -c "$1"
}

noise $((mib * 1048576 + 123)) 00000000000000000000000000000001 >in/model.bin
noise 70000 00000000000000000000000000000002 >in/sub/optimizer.bin
: >in/empty
ln in/model.bin in/best.bin
ln -s model.bin in/latest
touch -d '2001-02-03 04:05:06.789' in/sub/optimizer.bin

cp -a in out/copied                 # links kept, times kept
cp --reflink=auto in/model.bin out/reflink.bin
cp --sparse=always in/model.bin out/sparse.bin
mv out/copied out/moved
cp -al out/moved out/linked         # hard links
tar -C in -cf out/in.tar .
mkdir out/untarred
tar -C out/untarred -xf out/in.tar
rm out/in.tar                       # has times of now in it
if command -v rsync >/dev/null; then
	rsync -a in/ out/synced/
	noise 5000 00000000000000000000000000000003 >>in/sub/optimizer.bin
	rsync -a --inplace in/ out/synced/
	rsync -a --link-dest="$dir/out/synced" in/ out/incremental/
	[ "$(stat -c %h out/incremental/sub/optimizer.bin)" -eq 2 ]
	rm -rf out/synced out/incremental
fi
dd if=in/model.bin of=out/dd.bin bs=64k conv=fsync status=none
dd if=in/sub/optimizer.bin of=out/dd.bin bs=1 count=100 seek=1000 conv=notrunc status=none
dd if=/dev/zero of=out/hole.bin bs=1 count=0 seek=3M status=none
truncate -s 1M out/cut.bin && truncate -s +10 out/cut.bin
split -b 1M in/model.bin out/part.
cat out/part.* >out/joined.bin
echo one >out/log && echo two >>out/log
install -m 600 in/sub/optimizer.bin out/installed.bin
mv -n out/log out/joined.bin 2>/dev/null || :
sed -i s/two/three/ out/log
rm -rf out/linked
find out -name 'part.*' -delete

[ "$(stat -c %h out/moved/model.bin)" -eq 2 ]
[ "$(stat -c %a out/installed.bin)" = 600 ]
[ "$(stat -c %y out/moved/sub/optimizer.bin)" != "$(stat -c %y out/log)" ]
cmp in/model.bin out/joined.bin
cmp in/model.bin out/reflink.bin
[ "$(readlink out/untarred/latest)" = model.bin ]
find out -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
