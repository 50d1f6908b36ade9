#!/bin/sh
# find_tests.sh SUITE - the test programs of one suite, ROOM/NAME for each file ROOM/test_NAME.c, a
# line each; of the suite conformance, which has no rooms, ./NAME. A file that lies anywhere else is
# an error, and so is a NAME that is there twice, since programs are called by suite and NAME alone.
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/$1"
depth='[^./][^/]*'
[ "$1" != conformance ] || depth='\.'
files=$(find . -name 'test_*.c' | sed 's,^\./\([^/]*/\),\1,' | sort)
stray=$(echo "$files" | grep -v "^$depth/test_[^/]*\.c\$" || true)
twice=$(echo "$files" | sed 's,.*/,,' | sort | uniq -d)
if [ -n "$stray" ] || [ -n "$twice" ]; then
	[ -z "$stray" ] || echo "tests/$1: not in a folder of a room: $stray" >&2
	[ -z "$twice" ] || echo "tests/$1: there twice: $twice" >&2
	exit 1
fi
echo "$files" | sed -n 's,/test_\(.*\)\.c$,/\1,p'
