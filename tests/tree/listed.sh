#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every source and every header is named in its folder's Makefile.inc: what is not is neither built
# nor in the tarball, and nobody notices.
set -u
cd "$top_srcdir" || exit 1
failed=0

for folder in base store fs lifecycle tools tests; do
	for file in $(find "$folder" -name '*.[ch]'); do
		grep -Eq "%D%/${file#"$folder"/}( |\$)" "$folder/Makefile.inc" && continue
		echo "$file is not in $folder/Makefile.inc"
		failed=1
	done
done

exit $failed
