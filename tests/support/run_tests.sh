#!/bin/sh
# All tests: those that start real programs, which mostly wait, and the others beside them.
# Usage: run_tests.sh PYTEST
others_log=$(mktemp)
"$1" -m "not end_to_end" >"$others_log" 2>&1 &
others=$!
trap 'kill "$others" 2>/dev/null; rm -f "$others_log"' EXIT
trap 'tail -n 40 "$others_log"; exit 130' INT TERM

"$1" -m end_to_end
real_status=$?
wait "$others"
others_status=$?
cat "$others_log"
[ "$real_status" -eq 0 ] && [ "$others_status" -eq 0 ]
