#!/bin/bash
# What takes too long for every change: hours of fuzzing, the soaks, the schedules of chaos, all
# tests under each sanitizer, a clean release build, MPICH, the accuracy of LeNet, the
# self-contained library, the wheel, and the frameworks that Python feeds. Prints each gate's time
# and a summary; exits 0 only when nothing failed. .ci/run has one of each kind.
#
#   scripts/nightly.sh [--seconds N] [--quick] [--only GATE]
#     --seconds  of each fuzz target (default 1800), with inputs drawn anew; what it finds is kept
#     --quick    the same gates in their shortest form, to see that they run
#     GATE       a name in the summary, such as soak
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/mpi-env.sh

seconds=1800
quick=
only=""
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds=${2:?"--seconds needs a number"} && shift 2 ;;
    --only) only=${2:?"--only needs a gate's name"} && shift 2 ;;
    --quick) quick=1 && seconds=1 && shift ;;
    *) echo "nightly: unknown argument '$1'" >&2 && exit 2 ;;
  esac
done
logs=$PWD/build/nightly
. scripts/gates.sh
# As in .ci/run, so that ccache has what that has compiled.
export MILLRACE_WERROR=ON MILLRACE_UNITY=ON
export UBSAN_OPTIONS=print_stacktrace=1
# Tests take all of their input, with a sanitizer too.
export MILLRACE_ALL_ROUNDS=1

# What users build first, each file by itself, from an empty folder, without ccache. The time is
# printed, not judged.
release() {
  local begin=$SECONDS targets=(all)
  rm -rf build/release
  MILLRACE_UNITY= configure release
  [ -z "$quick" ] || targets=(millrace_base)
  CCACHE_DISABLE=1 cmake --build build/release --target "${targets[@]}" \
    >"$logs/release-build.log" || {
    cat "$logs/release-build.log"
    return 1
  }
  [ -n "$quick" ] || tests/consumer/run.sh build/release
  echo "a clean release build took $((SECONDS - begin)) s on $(nproc) processors"
}

# Thousands of drawn plans, a minute of attempts at a deadlock, 200 runs that are killed and go on,
# and 200 exits of Python with live loaders.
soak() {
  configure dev
  cmake --build build/dev
  ctest --test-dir build/dev -C soak -L long -R "${quick:+deadlock}_long" -j "$(nproc)" \
    --output-on-failure
}

# Ranks that are killed, stopped and cut off, by other schedules than CI's.
chaos() {
  configure dev
  cmake --build build/dev
  MILLRACE_CHAOS_ROUNDS=${quick:-40} ctest --test-dir build/dev -C soak -R '^cli_chaos_' \
    --timeout 7200 --output-on-failure
}

# All tests, the long ones among them.
asan() {
  configure asan
  cmake --build build/asan ${quick:+--target base/all}
  preset_tests asan -LE house ${quick:+-L base}
}

fuzz() {
  configure asan
  local target=fuzz_targets
  [ -z "$quick" ] || target=fuzz_zstd
  cmake --build build/asan --target "$target"
  tests/fuzz/run.sh --seconds "$seconds" ${quick:+build/asan/tests/fuzz/fuzz_zstd}
}

# Every folder, the trainer and the command too.
tsan() {
  configure tsan -DMILLRACE_TRAINER=ON
  cmake --build build/tsan ${quick:+--target tests/base/all}
  # Abseil and protobuf are Debian's, not instrumented; nor are MPI and oneDNN's OpenMP.
  TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1 \
    preset_tests tsan -LE 'house|mpi' ${quick:+-L base}
}

mpich() {
  [ -e /usr/bin/mpiexec.mpich ] || [ -n "${MPICH_ROOT:-}" ] || {
    echo "no MPICH here"
    return 77
  }
  scripts/test-mpich.sh
}

# LeNet learns Fashion-MNIST to 0.91.
lenet() {
  local millrace=build/dev/bin/millrace bound=0.91 epochs=() log=$logs/lenet-train.log
  [ -z "$quick" ] || { bound=0.80 && epochs=(--var EPOCHS=1); }
  configure dev
  cmake --build build/dev --target millrace
  . scripts/fashion-mnist.sh
  convert_fashion_mnist
  rm -rf build/checkpoints/lenet
  run scripts/mpirun.sh -np 2 "$millrace" train examples/lenet/job.pbtxt "${epochs[@]}" | tee "$log"
  check_accuracy lenet "$log" "$bound"
}

wheel() { scripts/wheel.sh; }

# The library with its C++ libraries inside runs the tests in C, and shows nothing but mr_*.
embed() {
  scripts/pic-deps.sh
  configure wheel
  cmake --build build/wheel --target tests/capi/all
  preset_tests wheel -L capi
}

# All frameworks, with the package that the wheel has.
frameworks() { scripts/test-frameworks.sh build/wheel/package; }

# Beside TensorFlow, which has a protobuf of its own.
tensorflow() {
  scripts/pic-deps.sh
  configure wheel
  cmake --build build/wheel --target millrace_c
  tests/wheel/tensorflow.sh build/wheel/capi/libmillrace.so.1
}

scripts/install-deps.sh --gates --wheel || exit 1
gate release release
gate soak soak
gate chaos chaos
gate asan asan
gate fuzz fuzz
gate tsan tsan
gate mpich mpich
gate lenet lenet
gate embed embed
gate wheel wheel
gate frameworks frameworks
gate tensorflow tensorflow
print_summary
[ "$failures" = 0 ]
