#!/bin/sh
# after.sh ARGUMENTS... - TOW_TEST_RUNTIME_PYTHON with these, as a rank that ends well whatever
# comes of it: towrun ends a job when a rank fails, and what the others say then is asked.
"$TOW_TEST_RUNTIME_PYTHON" "$@"
echo "status $?"
