#!/bin/bash
# Runs fuzz targets for a while, each over its own part of the corpus, and keeps what is new there.
#
#   tests/fuzz/run.sh [--seconds N | --runs N] [--corpus FOLDER] [PROGRAM...]
#     --seconds  for each target (default 600), with inputs drawn anew each time
#     --runs     for each target instead, with the same inputs each time; nothing new is kept
#     --corpus   where the inputs lie (default build/asan/tests/fuzz/corpus; made when missing)
#     PROGRAM    fuzz targets; default: all of build/asan/tests/fuzz
#
# The targets are built by the asan preset: cmake --preset asan && ninja -C build/asan fuzz_targets
# Exits 1 when a target found something; the input that shows it is printed and kept.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

seconds=600
runs=
corpus=$root/build/asan/tests/fuzz/corpus
programs=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds=$2 && shift 2 ;;
    --runs) runs=$2 && shift 2 ;;
    --corpus) corpus=$2 && shift 2 ;;
    *) programs+=("$1") && shift ;;
  esac
done
if [ "${#programs[@]}" = 0 ]; then
  for program in "$root"/build/asan/tests/fuzz/fuzz_*; do
    [ ! -x "$program" ] || [ -d "$program" ] || programs+=("$program")
  done
fi
[ "${#programs[@]}" != 0 ] || { echo "run.sh: no fuzz target is built" >&2 && exit 1; }
[ -d "$corpus" ] || python3 "$root/tests/fuzz/make_corpus.py" "$corpus"

dropped=$(mktemp -d)
trap 'rm -rf "$dropped"' EXIT
status=0
for program in "${programs[@]}"; do
  begin=$SECONDS
  name=$(basename "$program")
  folder=$corpus/${name#fuzz_}
  found=$(dirname "$corpus")/found/
  mkdir -p "$folder" "$found"
  log=$found$name.log
  limit=(-max_total_time="$seconds")
  folders=("$folder") # new inputs go to the first
  if [ -n "$runs" ]; then
    limit=(-seed=1 -runs="$runs")
    folders=("$dropped" "$folder")
    rm -f "$dropped"/*
  fi
  # No allocation may be far above the caps that the targets declare (1 MiB a record).
  if "$program" "${limit[@]}" -rss_limit_mb=2048 -malloc_limit_mb=256 -timeout=20 \
    -print_final_stats=1 -verbosity=1 -artifact_prefix="$found$name-" "${folders[@]}" \
    >"$log" 2>&1; then
    done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "$name: ${done:-0} runs in $((SECONDS - begin)) s, nothing found"
    [ "${done:-0}" -gt 0 ] || { echo "$name: not one run" && status=1; }
  else
    status=1
    echo "$name: FOUND something; its last lines:"
    tail -n 40 "$log"
  fi
done
exit "$status"
