#!/bin/sh
# Runs the benches of one area against their limits: scripts/bench.sh AREA [--json] [--row ROW]
# [--repeats N] [--publish]
exec python3 "$(dirname "$0")/bench.py" "$@"
