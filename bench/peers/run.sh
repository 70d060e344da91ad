#!/bin/bash
# Runs the same work on Millrace and on tf.data, turn by turn, and prints one table.
#
#   bench/peers/run.sh [--repeats N] [--seconds S] [--row NAME]...
#
# Builds the release preset when needed and makes a virtual environment with the pinned packages of
# requirements.txt in build/peers (about 1.5 GB, the only part that needs the network).
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=$root/build/peers/venv
stamp=$venv/requirements.txt
if ! cmp -s "$root/bench/peers/requirements.txt" "$stamp"; then
  python3 -c 'import ensurepip' 2>/dev/null || {
    echo "run.sh: python3-venv is missing: apt-get install python3-venv" >&2
    exit 1
  }
  echo "run.sh: installing $(grep -v '^#' "$root/bench/peers/requirements.txt" | tr '\n' ' ')" >&2
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --no-input -r "$root/bench/peers/requirements.txt"
  cp "$root/bench/peers/requirements.txt" "$stamp"
fi
[ -f "$root/build/release/build.ninja" ] || (cd "$root" && cmake --preset release >/dev/null)
ninja -C "$root/build/release" millrace >&2
exec "$venv/bin/python" "$root/bench/peers/compare.py" "$@"
