# shellcheck shell=bash
# Sourced by .ci/run and scripts/nightly.sh, which set `only` (the one gate to run, or "") and
# `logs` (where the gates' output goes): how gates are run, timed and summed up.

test_jobs=$((4 * $(nproc))) # many tests wait most of their time; those that compute count twice
mkdir -p "$logs"
rm -f "$logs"/*.log
summary=()
failures=0
skips=0
tests_failed=0

# Runs one gate, a function that returns 0 (holds), 77 (cannot run here) or another number.
gate() { # name, function
  [ -z "$only" ] || [ "$only" = "$1" ] || return 0
  echo "=== $1"
  local begin=$SECONDS status verdict
  (
    set -e
    "$2"
  ) 2>&1 | tee "$logs/$1.log"
  status=${PIPESTATUS[0]}
  case $status in
    0) verdict=ok ;;
    77)
      verdict=SKIPPED
      skips=$((skips + 1))
      ;;
    *)
      verdict=FAILED
      failures=$((failures + 1))
      [ "$1" != tests ] || tests_failed=1
      ;;
  esac
  summary+=("$(printf '%-10s %-8s %4d s  %s' "$1" "$verdict" $((SECONDS - begin)) \
    "$(tail -n 1 "$logs/$1.log" 2>/dev/null | cut -c1-100)")")
  echo "=== $1: $verdict after $((SECONDS - begin)) s"
}

configure() { # preset, more arguments of cmake
  cmake --preset "$1" "${@:2}" >"$logs/$1-configure.log" 2>&1 || {
    cat "$logs/$1-configure.log"
    return 1
  }
}

# Runs tests of a preset and counts their cases.
preset_tests() { # preset, ctest arguments
  local junit=$PWD/build/$1/junit.xml status=0
  rm -f "$junit"
  ctest --test-dir "build/$1" -j "$test_jobs" --timeout 600 --output-on-failure \
    --output-junit "$junit" --test-output-size-passed 100000000 "${@:2}" \
    >"$logs/$1-ctest.log" 2>&1 || status=$?
  [ "$status" = 0 ] || cat "$logs/$1-ctest.log"
  scripts/say-test-data.sh "$junit"
  python3 scripts/count_tests.py "$junit" || status=1
  return "$status"
}

# After the last gate.
print_summary() {
  if [ "${#summary[@]}" = 0 ]; then
    echo "no gate is named '$only'" >&2
    exit 1
  fi
  echo
  echo "gate       verdict  time    last line"
  printf '%s\n' "${summary[@]}"
  echo "all of it took $((SECONDS / 60)) min $((SECONDS % 60)) s"
  [ "$failures" = 0 ] || echo "$failures gates FAILED; their output is in $logs/"
}
