#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a unit test, beside an S3 server where its name says that it wants one.
# cmocka writes "not ok N # SKIP" for a skipped test, which TAP reads as a failure.
# One that hangs is ended, and the sanitizer says where it stood; no other takes ten minutes.
case $1 in
*_live_test) set -- "$(dirname "$0")/with_s3.py" "$@" ;;
esac
set -- timeout --signal=ABRT --kill-after=10 600 "$@"
ASAN_OPTIONS=handle_abort=1:${ASAN_OPTIONS:-}
export ASAN_OPTIONS
exec 4>&1
status=$({ { "$@" 4>&-; echo $? >&3; } | sed 's/^not \(ok [0-9]* # SKIP\)/\1/' >&4 3>&-; } 3>&1)
exit "$status"
