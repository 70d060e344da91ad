#!/bin/bash
# Installs what is missing, builds the dev preset and runs every test. The last line is
# "N passed, N failed, N skipped", counted in GoogleTest cases (scripts/count_tests.py); the exit
# code is 0 only when nothing failed and something passed.
#
#   scripts/test.sh [ctest arguments, such as -R pipeline or -L base]
#
# With MILLRACE_BENCH=ON in the environment the benches are compiled too.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/mpi-env.sh

scripts/install-deps.sh
mkdir -p build
echo "test: configuring and building build/dev"
cmake --preset dev -DMILLRACE_BENCH="${MILLRACE_BENCH:-OFF}" >build/dev-configure.log 2>&1 || {
  cat build/dev-configure.log
  exit 1
}
cmake --build build/dev

junit=$PWD/build/dev/junit.xml
rm -f "$junit"
status=0
# Output that ctest cuts short could not be counted.
# Many tests wait for most of their time; those that compute count twice (PROCESSORS).
ctest --test-dir build/dev -j "$((4 * $(nproc)))" --output-on-failure --output-junit "$junit" \
  --test-output-size-passed 100000000 --test-output-size-failed 100000000 "$@" || status=$?
scripts/say-test-data.sh "$junit"
python3 scripts/count_tests.py "$junit" || status=1
exit "$status"
