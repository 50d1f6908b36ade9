#!/bin/sh
# find_tests.sh SUITE - names of the test programs of one suite, a line each.
cd "$(dirname "$0")/$1" 2>/dev/null || exit 0
for f in test_*.c; do
	[ -e "$f" ] || continue
	n=${f#test_}
	echo "${n%.c}"
done
